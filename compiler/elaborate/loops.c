/* loops.c - for and while: counted loops, loops over variables, and loops unrolled while elaborating. */
#include "compiler/elaborate/elab.h"

#include <string.h>

static void no_runtime_loop(Elab *E, Loc loc)
{
	elab_error(E, loc, E_UNSUPPORTED, "an element loop has no run-time loops in it");
	diag_help(E->d, "with bounds known at compile time: unroll for");
}

static void exec_step(Elab *E, const Stmt *step)
{
	const Loop *l = E->at.loop;
	if (step && l->left)
		unless_jumped(E, l->jump, l->left, exec, step);
	else if (step)
		exec(E, step);
}

static void exec_body(Elab *E, Region *r, const Stmt *body, const Stmt *step)
{
	Place saved = place_enter(E, r);
	Scope *scope = scope_push(E);
	loop_body_begins(E);
	E->at.depth++;
	exec(E, body);
	scope_pop(E, scope);
	exec_step(E, step);
	place_leave(E, saved);
}

static Ev stays(Elab *E, Loc loc)
{
	Value *left = E->at.loop->left;
	return left ? ev_unary(E, loc, UN_NOT, ev_of(emit(E, OP_GET, loc, DT_BOOL, 1, &left))) : ev_bool(true);
}

static void yield_condition(Elab *E, Region *r, const Expr *cond, Loc loc)
{
	Place saved = place_enter(E, r);
	Ev c = stays(E, loc);
	if (cond)
		c = eval_and(E, cond->loc, c, cond);
	if (c.kind == EV_ERROR)
		c = ev_bool(false);
	Value *v = ev_value(E, loc, c);
	emit_op(E, OP_YIELD, loc, type_none(), 1, &v);
	place_leave(E, saved);
}

static void while_loop(Elab *E, Loc loc, const Expr *cond, const Stmt *body, const Stmt *step)
{
	Loop loop;
	loop_enter(E, &loop, body);
	if (loop.jumps & JUMP_BREAK)
		(void)loop_left_flag(E);
	Op *op = emit_op(E, OP_WHILE, loc, type_none(), 0, NULL);
	Region *test = tir_region(E->t, op, 0), *inner = tir_region(E->t, op, 1);
	yield_condition(E, test, cond, loc);
	exec_body(E, inner, body, step);
	loop_leave(E);
}

void exec_while(Elab *E, const Stmt *s)
{
	if (E->at.parallel)
		no_runtime_loop(E, s->loc);
	else
		while_loop(E, s->loc, s->cond, s->body, NULL);
}

/* ---- counted loops ---- */

typedef struct Counted { const Decl *index; const Expr *bound, *step; bool inclusive; } Counted;

static bool is_name(const Expr *e, const char *name)
{
	return e && e->kind == EX_NAME && !strcmp(e->name, name);
}

/* for (i32 i = a; i < b; i += s) with an index and bounds that the body leaves alone, and no break. */
static bool is_counted(const Elab *E, const Stmt *s, Counted *c)
{
	if (!s->init || s->init->kind != ST_DECL || s->init->decl->next || !s->init->decl->init)
		return false;
	c->index = s->init->decl;
	const char *name = c->index->name;
	if (c->index->dtype != DT_I32 || !s->cond || s->cond->kind != EX_BINARY || !is_name(s->cond->a, name))
		return false;
	if (s->cond->op != BIN_LT && s->cond->op != BIN_LE)
		return false;
	if (jumps_of(s->body) & JUMP_BREAK)
		return false;
	if (!s->step || s->step->assign_op != AS_ADD || !is_name(s->step->lhs, name) || assigns_name(E, s->body, name))
		return false;
	c->bound = s->cond->b;
	c->inclusive = s->cond->op == BIN_LE;
	c->step = s->step->rhs;
	return expr_is_invariant(E, c->bound, s->body, name) && expr_is_invariant(E, c->step, s->body, name);
}

static bool fits_i32(Ev e)
{
	if (e.kind == EV_CONST)
		return const_fits(DT_I32, e);
	return dtype_bits(e.dtype) < 32 || e.dtype == DT_I32;
}

/* Whether an index of i32 that begins at lo is compared as a signed number: beside u32 and u64 a negative one is a large one. */
static bool compared_signed(Ev lo, Ev hi)
{
	return dtype_bits(hi.dtype) < 32 || dtype_is_signed(hi.dtype) || (lo.kind == EV_CONST && lo.i >= 0);
}

/* False: not of this form after all (an i64 or u32 bound, a step that is not positive); *start is what the index begins with all the same,
 * since what computes it may have effects.  Those of the bound and the step have none. */
static bool counted_loop(Elab *E, const Stmt *s, const Counted *c, Ev *start, bool *failed)
{
	Ev lo = *start = eval_i32(E, c->index->init, "the start of a loop");
	Ev hi = eval_scalar(E, c->bound, "the bound of a loop"), step = eval_scalar(E, c->step, "the step of a loop");
	*failed = lo.kind == EV_ERROR || hi.kind == EV_ERROR || step.kind == EV_ERROR;
	if (*failed)
		return false;
	if (!dtype_is_int(hi.dtype) || !dtype_is_int(step.dtype) || !fits_i32(hi) || !fits_i32(step) || !compared_signed(lo, hi))
		return false;
	if (step.kind == EV_CONST && step.i <= 0)
		return false;
	if (c->inclusive)
		hi = ev_binary(E, s->cond->loc, BIN_ADD, ev_cast(E, s->cond->loc, hi, DT_I32), ev_int(DT_I32, 1));
	Value *args[3] = { ev_value(E, s->loc, lo), ev_value(E, s->loc, ev_cast(E, s->loc, hi, DT_I32)),
		ev_value(E, s->loc, ev_cast(E, s->loc, step, DT_I32)) };
	Loop loop;
	loop_enter(E, &loop, s->body);
	Op *op = emit_op(E, OP_FOR, s->loc, type_none(), 3, args);
	Region *r = tir_region(E->t, op, 0);
	Value *i = tir_region_arg(E->t, r, type_scalar(DT_I32), c->index->name);
	Scope *scope = scope_push(E);
	sym_define_ev(E, c->index->loc, c->index->name, ev_of(i), "the index of a loop");
	exec_body(E, r, s->body, NULL);
	scope_pop(E, scope);
	loop_leave(E);
	return true;
}

/* start: the value of the first declaration, where that has been evaluated. */
static void for_as_while(Elab *E, const Stmt *s, const Ev *start)
{
	Scope *scope = scope_push(E);
	if (s->init && s->init->kind == ST_DECL) {
		for (const Decl *d = s->init->decl; d; d = d->next)
			declare_scalar(E, d, start ? *start : d->init ? eval(E, d->init) : ev_void(), true);
	} else if (s->init)
		exec(E, s->init);
	while_loop(E, s->loc, s->cond, s->body, s->step);
	scope_pop(E, scope);
}

/* ---- unrolled loops ---- */

static bool unroll_step(Elab *E, const Stmt *s, Sym *i)
{
	static const int ops[] = {
		[AS_ADD] = BIN_ADD, [AS_SUB] = BIN_SUB, [AS_MUL] = BIN_MUL, [AS_DIV] = BIN_DIV, [AS_MOD] = BIN_MOD,
		[AS_AND] = BIN_AND, [AS_OR] = BIN_OR, [AS_XOR] = BIN_XOR, [AS_SHL] = BIN_SHL, [AS_SHR] = BIN_SHR
	};
	if (!s->step || !is_name(s->step->lhs, i->name)) {
		elab_error(E, s->loc, E_NOT_CONSTANT, "the step of an unrolled loop assigns its index '%s'", i->name);
		return false;
	}
	Ev x = eval_const(E, s->step->rhs, "the step of an unrolled loop");
	if (s->step->assign_op != AS_SET && x.kind != EV_ERROR)
		x = ev_binary(E, s->step->loc, ops[s->step->assign_op], i->ev, x);
	if (x.kind == EV_ERROR)
		return false;
	i->ev = fold_cast(x, i->dtype);
	return true;
}

static void exec_copy(Elab *E, const Stmt *body)
{
	loop_body_begins(E);
	exec(E, body);
}

static bool unroll_once(Elab *E, const Stmt *s, Sym *i)
{
	unsigned errors = diags_error_count(E->d);
	Ev c = s->cond ? eval_const(E, s->cond, "the condition of an unrolled loop") : ev_bool(true);
	if (c.kind != EV_ERROR)
		c = ev_condition(E, s->cond ? s->cond->loc : s->loc, c);
	if (c.kind == EV_ERROR || !c.i)
		return false;
	Scope *scope = scope_push(E);
	if (E->at.loop->left)
		unless_jumped(E, E->at.loop->jump, E->at.loop->left, exec_copy, s->body);
	else
		exec_copy(E, s->body);
	scope_pop(E, scope);
	/* The same errors again in every copy would help nobody. */
	return diags_error_count(E->d) == errors && !E->hopeless && !E->at.loop->ended && unroll_step(E, s, i);
}

static void unroll(Elab *E, const Stmt *s)
{
	if (!s->init || s->init->kind != ST_DECL || s->init->decl->next || !s->init->decl->init) {
		elab_error(E, s->loc, E_NOT_CONSTANT, "an unrolled loop declares its index: unroll for (i32 i = 0; ...)");
		return;
	}
	const Decl *d = s->init->decl;
	Ev start = eval_const(E, d->init, "the start of an unrolled loop");
	if (start.kind == EV_ERROR)
		return;
	Place before = E->at;
	scope_push(E);
	Sym *i = sym_define_ev(E, d->loc, d->name, fold_cast(start, d->dtype), "the constant index of an unrolled loop");
	Loop loop;
	int n = 0;
	loop_enter(E, &loop, s->body);
	E->at.depth++;
	while (unroll_once(E, s, i))
		if (++n > MAX_UNROLL) {
			elab_error(E, s->loc, E_LIMIT, "this loop unrolls into more than %d copies", MAX_UNROLL);
			break;
		}
	place_leave(E, before);
}

void exec_loop(Elab *E, const Stmt *s)
{
	Counted c;
	Ev start;
	bool failed = false;
	if (s->unroll)
		unroll(E, s);
	else if (E->at.parallel)
		no_runtime_loop(E, s->loc);
	else if (!is_counted(E, s, &c))
		for_as_while(E, s, NULL);
	else if (!counted_loop(E, s, &c, &start, &failed) && !failed)
		for_as_while(E, s, &start);
}
