/* tilestmt.c - statements on whole tiles: assignment, fill and products. */
#include "compiler/elaborate/elab.h"

bool is_product(const Expr *e)
{
	return e && e->kind == EX_BINARY && e->op == BIN_MATMUL;
}

void tile_fill(Elab *E, Loc loc, const View *dst, Ev x)
{
	if (x.kind == EV_ERROR || !check_writable(E, loc, dst) || !slices_fit(E, loc, dst, false) || !require_team_level(E, loc, "fill"))
		return;
	Value *v = ev_value(E, loc, ev_cast(E, loc, x, dst->dtype));
	Value *args[2] = { view_value(E, loc, dst), v };
	if (args[0])
		emit_op(E, OP_FILL, loc, type_none(), 2, args);
}

static void tile_copy(Elab *E, Loc loc, const View *src, const View *dst)
{
	if (!check_writable(E, loc, dst) || !require_team_level(E, loc, "a tile assignment"))
		return;
	if (!same_shape(E, loc, "this assignment", dst, src) || !slices_fit(E, loc, dst, false) || !slices_fit(E, loc, src, false))
		return;
	Value *args[2] = { view_value(E, loc, src), view_value(E, loc, dst) };
	if (args[0] && args[1])
		emit_op(E, OP_COPY, loc, type_none(), 2, args);
}

void tile_assign(Elab *E, const Stmt *s, const View *dst)
{
	static const char *const ops[] = { "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=" };
	if (s->assign_op != AS_SET) {
		elab_error(E, s->loc, E_TYPE, "'%s' is not defined for whole tiles", ops[s->assign_op]);
		diag_help(E->d, "element by element: parallel (i < M, j < N) x[i][j] %s ...;", ops[s->assign_op]);
		return;
	}
	Ev x = eval(E, s->rhs);
	if (ev_is_scalar(x))
		tile_fill(E, s->loc, dst, x);
	else if (x.kind == EV_TILE)
		tile_copy(E, s->loc, x.view, dst);
	else if (x.kind != EV_ERROR)
		elab_error(E, s->loc, E_TYPE, "%s cannot be assigned to a tile", ev_text(E, x));
}

/* ---- products ---- */

static const View *matrix(Elab *E, const Expr *e, const char *what)
{
	int axes[TIR_MAX_RANK];
	Ev x = eval_place(E, e);
	if (x.kind == EV_ERROR)
		return NULL;
	if (x.kind != EV_TILE) {
		elab_error(E, e->loc, E_TYPE, "%s of a product is a tile, not %s", what, ev_text(E, x));
		return NULL;
	}
	if (x.view->space == TY_TENSOR) {
		elab_error(E, e->loc, E_SPACE, "%s of a product is in shared memory or registers, not in global memory", what);
		return NULL;
	}
	if (view_axes(x.view, axes) != 2) {
		elab_error(E, e->loc, E_SHAPE, "%s of a product has two dimensions, not %s", what, ev_text(E, x));
		return NULL;
	}
	return x.view;
}

static bool product_fits(Elab *E, Loc loc, const View *d, const View *a, const View *b)
{
	bool fits = view_extent(a, 0) == view_extent(d, 0) && view_extent(b, 1) == view_extent(d, 1) &&
		view_extent(a, 1) == view_extent(b, 0);
	if (!fits) {
		elab_error(E, loc, E_SHAPE, "%s @ %s does not give %s: [M][K] @ [K][N] gives [M][N]", view_shape_text(E, a),
			view_shape_text(E, b), view_shape_text(E, d));
		if (view_extent(a, 0) == view_extent(d, 0) && view_extent(a, 1) == view_extent(b, 1) && view_extent(b, 0) == view_extent(d, 1))
			diag_help(E->d, "the right operand is stored [N][K]: write .T after it");
		return false;
	}
	if (a->dtype != b->dtype && !machine_product(E->t->machine, a->dtype, b->dtype)) {
		elab_error(E, loc, E_TYPE, "product of %s and %s", dtype_name(a->dtype), dtype_name(b->dtype));
		return false;
	}
	return true;
}

void product_assign(Elab *E, const Stmt *s)
{
	const View *d = matrix(E, s->lhs, "the result");
	const View *a = matrix(E, s->rhs->a, "the left operand"), *b = matrix(E, s->rhs->b, "the right operand");
	if (!d || !a || !b || !require_team_level(E, s->loc, "a product"))
		return;
	if (d->space != TY_FRAG || d->trans) {
		elab_error(E, s->lhs->loc, E_SPACE, "the result of a product is a fragment, not %s", ev_text(E, ev_tile(d)));
		return;
	}
	if (s->assign_op > AS_SUB) {
		elab_error(E, s->loc, E_TYPE, "a product is assigned with =, += or -=");
		return;
	}
	if (!product_fits(E, s->loc, d, a, b))
		return;
	Value *args[3] = { view_value(E, s->lhs->loc, d), view_value(E, s->rhs->a->loc, a), view_value(E, s->rhs->b->loc, b) };
	if (!args[0] || !args[1] || !args[2])
		return;
	Op *op = emit_op(E, OP_MMA, s->loc, type_none(), 3, args);
	attr_set_int(E->t, op, AT_ACC, s->assign_op == AS_SET ? 0 : s->assign_op == AS_ADD ? 1 : -1);
	attr_set_int(E->t, op, AT_ASYNC, E->at.in_async);
}

void exec_async(Elab *E, const Stmt *s)
{
	if (!require_team_level(E, s->loc, "async"))
		return;
	if (E->at.in_async) {
		elab_error(E, s->loc, E_TYPE, "async inside async");
		return;
	}
	emit_op(E, OP_WGMMA_FENCE, s->loc, type_none(), 0, NULL);
	Place before = E->at;
	E->at.in_async = true;
	exec(E, s->body);
	place_leave(E, before);
	emit_op(E, OP_WGMMA_COMMIT, s->loc, type_none(), 0, NULL);
}
