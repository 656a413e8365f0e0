/* parallel.c - element loops: straight-line bodies in which conditions are masks. */
#include "compiler/elaborate/elab.h"
#include "compiler/analysis/layout.h"

static Ev index_of(Elab *E, Region *r, const Bind *b, int64_t extent)
{
	Ev i = ev_of(tir_region_arg(E->t, r, type_scalar(DT_I32), b->name));
	i.ranged = true;
	i.lo = 0;
	i.hi = extent - 1;
	return i;
}

static bool eval_option(Elab *E, const Expr *e, const char *what, Op *op, AttrId attr)
{
	int64_t n;
	if (!e)
		return true;
	if (!eval_const_int(E, e, what, &n))
		return false;
	if (n < 1 || n > LAYOUT_EXTENT) {
		elab_error(E, e->loc, E_INDEX, "%s is 1 to %d, not %lld", what, LAYOUT_EXTENT, (long long)n);
		return false;
	}
	attr_set_int(E->t, op, attr, n);
	return true;
}

static bool eval_extent(Elab *E, const Bind *b, int64_t *extent)
{
	static const char what[] = "the extent of an element loop";
	if (eval_scalar(E, b->extent, what).kind != EV_VALUE)
		return eval_const_int(E, b->extent, what, extent);
	elab_error(E, b->extent->loc, E_NOT_CONSTANT, "%s must be known at compile time", what);
	diag_help(E->d, "a number, and 'if (%s < ..)' within; or by threads: for (i32 %s = thread(); %s < ..; %s += ..)", b->name, b->name, b->name, b->name);
	return false;
}

static int eval_extents(Elab *E, const Stmt *s, int64_t *extents)
{
	int n = 0;
	for (const Bind *b = s->binds; b && n < REGION_MAX_ARGS; b = b->next, n++) {
		if (!eval_extent(E, b, &extents[n]))
			return 0;
		if (extents[n] < 1 || extents[n] > LAYOUT_EXTENT) {
			elab_error(E, b->loc, E_INDEX, "the extent of an element loop is 1 to %d, not %lld", LAYOUT_EXTENT, (long long)extents[n]);
			return 0;
		}
	}
	return n;
}

static void run_body(Elab *E, const Stmt *s, Region *r, const int64_t *extents)
{
	Place saved = place_enter(E, r);
	scope_push(E);
	int k = 0;
	E->at.parallel = ++E->parallels;
	E->par_warp = E->par_team = false;
	for (const Bind *b = s->binds; b && k < REGION_MAX_ARGS; b = b->next, k++)
		sym_define_ev(E, b->loc, b->name, index_of(E, r, b, extents[k]), "the index of an element loop");
	E->at.depth++;
	exec(E, s->body);
	place_leave(E, saved);
}

void exec_parallel(Elab *E, const Stmt *s)
{
	int64_t extents[REGION_MAX_ARGS] = { 0 };
	if (!require_team_level(E, s->loc, "parallel"))
		return;
	int n = eval_extents(E, s, extents);
	if (!n)
		return;
	Op *op = tir_op(E->t, OP_PARALLEL, s->loc, type_none(), 0, NULL);
	attr_set_list(E->t, op, AT_EXTENTS, n, extents);
	if (!eval_option(E, s->batch, "batch(...)", op, AT_BATCH))
		return;
	tir_append(E->at.region, op);
	run_body(E, s, tir_region(E->t, op, 0), extents);
	if (E->par_warp && E->par_team)
		elab_error(E, s->loc, E_SPACE, "this element loop touches fragments of the team and of single warps");
	else if (E->par_warp)
		attr_set_int(E->t, op, AT_WARP_SCOPE, 1);
}

static void masked_exec(Elab *E, const Stmt *s, Ev c)
{
	Place before = E->at;
	E->at.mask = mask_and(E, s->loc, before.mask, c);
	scope_push(E);
	exec(E, s);
	place_leave(E, before);
}

void parallel_if(Elab *E, const Stmt *s, Ev c)
{
	masked_exec(E, s->body, c);
	if (s->other)
		masked_exec(E, s->other, ev_unary(E, s->cond->loc, UN_NOT, c));
}
