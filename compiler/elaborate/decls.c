/* decls.c - declarations in bodies: scalars, constants and tiles. */
#include "compiler/elaborate/elab.h"
#include "compiler/analysis/layout.h"

#include <string.h>

enum { MAX_TILE_BYTES = 1 << 28 };

/* ---- scalars ---- */

static bool is_number(Elab *E, Loc loc, const char *name, DType t, Ev x)
{
	if (ev_is_scalar(x))
		return true;
	if (x.kind != EV_ERROR)
		elab_error(E, loc, E_TYPE, "'%s' is %s and cannot be initialised with %s", name, dtype_name(t), ev_text(E, x));
	return false;
}

static void declare_variable(Elab *E, const Decl *d, Ev x)
{
	Op *op = emit_op(E, OP_VAR, d->loc, (Type){ .kind = TY_VAR, .dtype = d->dtype }, 0, NULL);
	attr_set_text(E->t, op, AT_NAME, d->name);
	op->result->name = d->name;
	if (ev_is_scalar(x)) {
		Value *args[2] = { op->result, ev_value(E, d->loc, x) };
		emit_op(E, OP_SET, d->loc, type_none(), 2, args);
	}
	Sym *y = sym_define(E, d->loc, d->name, SYM_VAR);
	y->dtype = d->dtype;
	y->var = op->result;
}

/* A scalar that is not assigned again is its value; so is every scalar of an element loop. */
void declare_scalar(Elab *E, const Decl *d, Ev x, bool mutable_)
{
	if (x.kind != EV_VOID && !is_number(E, d->loc, d->name, d->dtype, x)) {
		sym_define_ev(E, d->loc, d->name, ev_error(), NULL);
		return;
	}
	x = ev_cast(E, d->loc, x, d->dtype);
	bool value = E->at.parallel || (!mutable_ && x.kind != EV_VOID);
	if (!value) {
		declare_variable(E, d, x);
		return;
	}
	if (x.kind == EV_VALUE && !x.value->name)
		x.value->name = d->name;
	Sym *y = sym_define_ev(E, d->loc, d->name, x, mutable_ || x.kind == EV_VOID ? NULL : E->at.parallel ? NULL : "a constant");
	y->dtype = d->dtype;
}

void declare_const(Elab *E, const Decl *d)
{
	Ev x = eval_const(E, d->init, arena_printf(E->a, "constant '%s'", d->name));
	sym_define_ev(E, d->loc, d->name, declared_value(E, d, x), "a constant");
}

/* ---- tiles ---- */

static int eval_extents(Elab *E, const Decl *d, View *v)
{
	int64_t bytes = dtype_bytes(d->dtype);
	for (const Extent *x = d->extents; x; x = x->next) {
		int64_t n;
		if (v->rank == MAX_TILE_RANK) {
			elab_error(E, x->loc, E_LIMIT, "'%s' has more than %d dimensions, its ring included", d->name, MAX_TILE_RANK);
			return 0;
		}
		if (!eval_const_int(E, x->e, "an extent", &n))
			return 0;
		if (n < 1) {
			elab_error(E, x->loc, E_SHAPE, "extent %d of '%s' is %lld", v->rank + 1, d->name, (long long)n);
			return 0;
		}
		bytes = n > MAX_TILE_BYTES || bytes > MAX_TILE_BYTES ? MAX_TILE_BYTES + INT64_C(1) : bytes * n;
		if (x->ring && (v->rank || d->kind != DE_SHARED)) {
			elab_error(E, x->loc, E_SHAPE, "a ring is the leading extent of a shared tile");
			return 0;
		}
		v->dim[v->rank++] = (ViewDim){ .extent = n, .seen = n, .ring = x->ring };
	}
	if (bytes > MAX_TILE_BYTES) {
		elab_error(E, d->loc, E_LIMIT, "'%s' has more than %d bytes", d->name, MAX_TILE_BYTES);
		return 0;
	}
	if (!v->rank) {
		elab_error(E, d->loc, E_SHAPE, "'%s' has no extents", d->name);
		diag_help(E->d, "one element is %s[1]; a variable of each thread has neither 'shared' nor 'frag' before its type", d->name);
	}
	return v->rank;
}

/* NULL after an error. */
static const Form *layout_form(Elab *E, const Decl *d)
{
	int n = 0;
	const char *args = "";
	for (const Expr *e = d->layout_args; e; e = e->next, n++) {
		int64_t x;
		if (!eval_const_int(E, e, "an extent of a layout", &x))
			return NULL;
		if (x < 1 || x > LAYOUT_EXTENT) {
			elab_error(E, e->loc, E_LAYOUT, "an extent of a layout is 1 to %d, not %lld", LAYOUT_EXTENT, (long long)x);
			return NULL;
		}
		args = arena_printf(E->a, "%s%s%lld", args, n ? "," : "", (long long)x);
	}
	const char *text = n ? arena_printf(E->a, "%s(%s)", d->layout, args) : d->layout;
	const Form *f = form_from_text(E->a, text);
	bool of_shared = f && (f->kind == FORM_SWIZZLE || f->kind == FORM_LINEAR);
	if (f && of_shared == (d->kind == DE_SHARED))
		return f;
	elab_error(E, d->loc, E_LAYOUT, "'%s' is not a layout of a %s", text, d->kind == DE_SHARED ? "shared tile" : "fragment");
	diag_help(E->d, "%s", d->kind == DE_SHARED ? "swizzle128, swizzle64, swizzle32, linear" : "mma, mma8, blocked(r, c), blocked(n), spread");
	return NULL;
}

static View *new_tile(Elab *E, const Decl *d, TypeKind space)
{
	View *v = ARENA_NEW(E->a, View);
	v->name = d->name;
	v->declared = d->loc;
	v->space = space;
	v->dtype = d->dtype;
	v->warp_frag = d->warp_scope;
	return eval_extents(E, d, v) ? v : NULL;
}

static Op *declare_object(Elab *E, const Decl *d, View *v, Opcode code, int nargs, Value *const *args)
{
	int64_t shape[TIR_MAX_RANK];
	for (int k = 0; k < v->rank; k++)
		shape[k] = v->dim[k].extent;
	Op *op = emit_op(E, code, d->loc, type_tile(v->space, v->dtype, v->rank, shape), nargs, args);
	attr_set_text(E->t, op, AT_NAME, d->name);
	op->result->name = d->name;
	v->object = op->result;
	bool spread = d->layout && code == OP_FRAG && v->rank == 1 && !d->layout_args && strcmp(d->layout, "spread") == 0; /* of what, infer_layouts finds */
	const Form *layout = d->layout && !spread ? layout_form(E, d) : NULL;
	if (spread)
		attr_set_int(E->t, op, AT_SPREAD, 1);
	if (layout)
		attr_set_layout(E->t, op, layout);
	return op;
}

static bool declare_frag(Elab *E, const Decl *d)
{
	View *v = require_team_level(E, d->loc, "frag") ? new_tile(E, d, TY_FRAG) : NULL;
	if (!v)
		return false;
	if (v->rank > 2) {
		elab_error(E, d->loc, E_SHAPE, "'%s' has %d dimensions, a fragment has one or two", d->name, v->rank);
		diag_help(E->d, "several fragments: one wider one, of which parts are taken, %s[:][64 * k +: 64]", d->name);
		return false;
	}
	Op *op = declare_object(E, d, v, OP_FRAG, 0, NULL);
	if (d->warp_scope)
		attr_set_int(E->t, op, AT_WARP_SCOPE, 1);
	sym_define_ev(E, d->loc, d->name, ev_tile(v), "a tile");
	return true;
}

/* The tile whose storage is shared, or NULL: then *failed tells whether one was named. */
static Value *at_base(Elab *E, const Decl *d, int64_t *offset, bool *failed)
{
	if (!d->at_name)
		return NULL;
	*failed = true;
	const Sym *y = sym_find(E, d->at_name);
	if (!y) {
		report_unknown(E, d->at_loc, d->at_name, false);
		return NULL;
	}
	if (y->kind == SYM_EV && y->ev.kind == EV_ERROR)
		return NULL;
	if (y->kind == SYM_ABSENT) {
		report_absent(E, d->at_loc, y);
		return NULL;
	}
	if (y->kind != SYM_EV || y->ev.kind != EV_TILE || y->ev.view->space != TY_SHARED) {
		elab_error(E, d->at_loc, E_SPACE, "at(...) names a shared tile, '%s' is none", d->at_name);
		return NULL;
	}
	if (!eval_const_int(E, d->at_offset, "the offset of at(...)", offset))
		return NULL;
	if (*offset < 0 || *offset > MAX_TILE_BYTES) {
		elab_error(E, d->at_offset->loc, E_SHARED_SIZE, "the offset of at(...) is %lld, not 0 to %d", (long long)*offset, MAX_TILE_BYTES);
		return NULL;
	}
	*failed = false;
	return y->ev.view->object;
}

static bool declare_shared(Elab *E, const Decl *d)
{
	int64_t offset = 0;
	bool failed = false;
	View *v = at_top(E, d->loc, "a shared tile") ? new_tile(E, d, TY_SHARED) : NULL;
	if (!v)
		return false;
	Value *base = at_base(E, d, &offset, &failed);
	if (failed)
		return false;
	Op *op = declare_object(E, d, v, OP_SHARED, base ? 1 : 0, &base);
	attr_set_int(E->t, op, AT_RING, v->dim[0].ring ? v->dim[0].extent : 0);
	if (base)
		attr_set_int(E->t, op, AT_AT_OFFSET, offset);
	sym_define_ev(E, d->loc, d->name, ev_tile(v), "a tile");
	return true;
}

bool declared_here(Elab *E, const Decl *d)
{
	if (!d->exists)
		return true;
	Ev c = eval_const(E, d->exists, arena_printf(E->a, "the condition of '%s'", d->name));
	if (c.kind != EV_ERROR)
		c = ev_condition(E, d->exists->loc, c);
	if (c.kind == EV_ERROR)
		sym_define_ev(E, d->loc, d->name, c, NULL);
	else if (!c.i)
		sym_define(E, d->loc, d->name, SYM_ABSENT);
	return c.kind != EV_ERROR && c.i;
}

void declare(Elab *E, const Decl *written)
{
	if (!declared_here(E, written))
		return;
	const Sym *type = written->kind == DE_SCALAR && written->type_name ? sym_find(E, written->type_name) : NULL;
	if (type && type->kind == SYM_STRUCT) {
		declare_struct(E, written, type->decl);
		return;
	}
	const Decl *d = with_type(E, written);
	bool ok = d != NULL;
	switch (d ? d->kind : DE_IMPORT) {
	case DE_SCALAR:
		declare_scalar(E, d, d->init ? eval(E, d->init) : ev_void(), assigned_later(E, d->name));
		break;
	case DE_CONST: declare_const(E, d); break;
	case DE_FRAG: ok = declare_frag(E, d); break;
	case DE_SHARED: ok = declare_shared(E, d); break;
	case DE_MBARRIER: case DE_BARRIER: ok = declare_barrier(E, d); break;
	default: break;
	}
	if (!ok)
		sym_define_ev(E, written->loc, written->name, ev_error(), NULL);
}
