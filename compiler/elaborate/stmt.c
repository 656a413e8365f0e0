/* stmt.c - statements: blocks, assignments, conditions; errors end a statement, not the run. */
#include "compiler/elaborate/elab.h"

/* ---- assignment ---- */

static const int assign_ops[] = {
	[AS_ADD] = BIN_ADD, [AS_SUB] = BIN_SUB, [AS_MUL] = BIN_MUL, [AS_DIV] = BIN_DIV, [AS_MOD] = BIN_MOD,
	[AS_AND] = BIN_AND, [AS_OR] = BIN_OR, [AS_XOR] = BIN_XOR, [AS_SHL] = BIN_SHL, [AS_SHR] = BIN_SHR
};

static Ev combine(Elab *E, const Stmt *s, Ev old)
{
	Ev x = eval(E, s->rhs);
	return s->assign_op == AS_SET ? x : ev_binary(E, s->loc, assign_ops[s->assign_op], old, x);
}

static bool is_scalar_for(Elab *E, const Stmt *s, const char *name, DType t, Ev x)
{
	if (x.kind == EV_ERROR)
		return false;
	if (ev_is_scalar(x))
		return true;
	elab_error(E, s->loc, E_TYPE, "'%s' is %s and cannot be assigned %s", name, dtype_name(t), ev_text(E, x));
	return false;
}

void set_var(Elab *E, Loc loc, const Sym *y, Ev x)
{
	Value *args[2] = { y->var, ev_value(E, loc, ev_cast(E, loc, x, y->dtype)) };
	emit_op(E, OP_SET, loc, type_none(), 2, args);
}

static void assign_var(Elab *E, const Stmt *s, const Sym *y)
{
	Ev old = s->assign_op == AS_SET ? ev_void() : ev_of(emit(E, OP_GET, s->loc, y->dtype, 1, &((Sym *)y)->var));
	Ev x = combine(E, s, old);
	if (is_scalar_for(E, s, y->name, y->dtype, x))
		set_var(E, s->loc, y, x);
}

/* Where the mask is off, it keeps what it has. */
void set_ssa(Elab *E, Loc loc, Sym *y, Ev x)
{
	bool keeps = E->at.mask && E->at.mask != y->mask && ev_is_scalar(y->ev) && ev_is_scalar(x);
	y->ev = keeps ? ev_select(E, loc, ev_of(E->at.mask), x, y->ev) : x;
}

/* In an element loop a variable is the SSA value that it has here. */
static void assign_ssa(Elab *E, const Stmt *s, Sym *y)
{
	if (s->assign_op != AS_SET && y->ev.kind == EV_VOID) {
		elab_error(E, s->lhs->loc, E_TYPE, "'%s' is read before it has a value", y->name);
		return;
	}
	Ev x = combine(E, s, y->ev);
	if (!is_scalar_for(E, s, y->name, y->dtype, x)) {
		y->ev = ev_error();
		return;
	}
	set_ssa(E, s->loc, y, ev_cast(E, s->loc, x, y->dtype));
}

/* |= and &= on a bool outside an element loop: each thread has what its elements give. */
static bool combines(const Stmt *s, const Sym *y)
{
	return y->dtype == DT_BOOL && (s->assign_op == AS_OR || s->assign_op == AS_AND);
}

static void combine_elements(Elab *E, const Stmt *s, Sym *y)
{
	bool all = s->assign_op == AS_AND;
	Ev x = ev_condition(E, s->rhs->loc, eval(E, s->rhs));
	if (x.kind == EV_ERROR)
		return;
	if (y->read_in == E->at.parallel) {
		elab_error(E, s->loc, E_SPACE, "'%s' is read in this element loop, which combines its elements in it", y->name);
		return;
	}
	y->combined_in = E->at.parallel;
	Ev v = ev_of(ev_value(E, s->loc, x));
	if (E->at.mask && all) /* nothing new where the mask is off */
		v = ev_binary(E, s->loc, BIN_LOR, ev_unary(E, s->loc, UN_NOT, ev_of(E->at.mask)), v);
	else if (E->at.mask)
		v = ev_binary(E, s->loc, BIN_LAND, ev_of(E->at.mask), v);
	Value *args[2] = { y->var, v.value };
	attr_set_text(E->t, emit_op(E, OP_SET, s->loc, type_none(), 2, args), AT_COMBINE, all ? "and" : "or");
}

static bool assignable_here(Elab *E, Loc loc, const Sym *y)
{
	if (!E->at.parallel || y->parallel)
		return true;
	elab_error(E, loc, E_SPACE, "'%s' is declared outside this element loop and cannot be assigned in it", y->name);
	diag_note(E->d, y->loc, "declared here");
	diag_help(E->d, "elements are independent: use a fragment and reduce_sum, an atomic, or |= and &= on a bool");
	return false;
}

static void assign_whole(Elab *E, const Stmt *s, const Sym *y)
{
	Ev x = eval_as(E, s->rhs, y->ev.of->decl);
	if (s->assign_op != AS_SET)
		elab_error(E, s->lhs->loc, E_TYPE, "'%s' is a struct and is assigned by '='", y->name);
	else if (x.kind != EV_ERROR && assignable_here(E, s->lhs->loc, y))
		assign_struct(E, s->loc, y, x);
}

static void assign_name(Elab *E, const Stmt *s, Sym *y)
{
	bool error = y->kind == SYM_EV && y->ev.kind == EV_ERROR;
	if (error)
		return;
	if (y->kind == SYM_ABSENT) {
		report_absent(E, s->lhs->loc, y);
		return;
	}
	if (y->fixed || (y->kind != SYM_VAR && y->kind != SYM_EV)) {
		elab_error(E, s->lhs->loc, E_TYPE, "'%s' is %s and cannot be assigned", y->name, y->fixed ? y->fixed : "not a variable");
		diag_note(E->d, y->loc, "declared here");
		return;
	}
	if (E->at.parallel && y->kind == SYM_VAR && combines(s, y)) {
		combine_elements(E, s, y);
		return;
	}
	if (!assignable_here(E, s->lhs->loc, y))
		return;
	if (y->kind == SYM_VAR)
		assign_var(E, s, y);
	else
		assign_ssa(E, s, y);
}

static void assign_place(Elab *E, const Stmt *s, Ev place)
{
	int axes[TIR_MAX_RANK];
	if (place.kind == EV_ERROR)
		return;
	if (place.kind != EV_TILE) {
		elab_error(E, s->lhs->loc, E_TYPE, "%s cannot be assigned", ev_text(E, place));
		return;
	}
	if (view_axes(place.view, axes) > 0) {
		tile_assign(E, s, place.view);
		return;
	}
	if (!check_writable(E, s->lhs->loc, place.view))
		return;
	Ev old = s->assign_op == AS_SET ? ev_void() : element_load(E, s->lhs->loc, place.view);
	element_store(E, s->loc, place.view, combine(E, s, old));
}

static void exec_assign(Elab *E, const Stmt *s)
{
	if (is_product(s->rhs)) {
		product_assign(E, s);
		return;
	}
	if (E->at.in_async) {
		elab_error(E, s->loc, E_TYPE, "async takes products: X = A @ B; X += A @ B; X -= A @ B;");
		return;
	}
	Sym *y = sym_of(E, s->lhs);
	bool tile = y && y->kind == SYM_EV && (y->ev.kind == EV_TILE || y->ev.kind == EV_MBARRIER || y->ev.kind == EV_BARRIER);
	if (y && y->kind == SYM_EV && y->ev.kind == EV_STRUCT)
		assign_whole(E, s, y);
	else if (y && !tile)
		assign_name(E, s, y);
	else
		assign_place(E, s, eval_place(E, s->lhs));
}

/* ---- conditions ---- */

static void exec_arm(Elab *E, Region *r, const Stmt *s)
{
	Place saved = place_enter(E, r);
	scope_push(E);
	bool maybe = jump_arm_enter(E);
	E->at.depth++;
	exec(E, s);
	jump_arm_leave(E, maybe);
	place_leave(E, saved);
}

static void exec_if(Elab *E, const Stmt *s)
{
	Ev c = ev_condition(E, s->cond->loc, eval(E, s->cond));
	if (c.kind == EV_ERROR)
		return;
	if (c.kind == EV_CONST) {
		const Stmt *arm = c.i ? s->body : s->other;
		Scope *scope = scope_push(E);
		if (arm)
			exec(E, arm);
		scope_pop(E, scope);
		return;
	}
	if (E->at.parallel) {
		parallel_if(E, s, c);
		return;
	}
	Op *op = emit_op(E, OP_IF, s->loc, type_none(), 1, &c.value);
	exec_arm(E, tir_region(E->t, op, 0), s->body);
	Region *other = tir_region(E->t, op, 1);
	if (s->other)
		exec_arm(E, other, s->other);
}

static void exec_once(Elab *E, const Stmt *s)
{
	if (!require_team_level(E, s->loc, "once"))
		return;
	Op *op = emit_op(E, OP_ONCE, s->loc, type_none(), 0, NULL);
	exec_arm(E, tir_region(E->t, op, 0), s->body);
}

static void exec_call(Elab *E, const Stmt *s)
{
	const Expr *e = s->rhs;
	const Sym *y = e->kind == EX_CALL ? sym_find(E, e->name) : NULL;
	if (y && y->kind != SYM_FN && !builtin_exists(e->name)) {
		report_no_function(E, e, y);
		return;
	}
	if (!y || y->kind != SYM_FN) {
		builtin_call(E, e, s);
		return;
	}
	if (s->limit || s->within)
		elab_error(E, s->loc, E_CALL, "function '%s' takes no limit(...) or within(...)", e->name);
	fn_call(E, e, y->decl);
}

void static_assertion(Elab *E, Loc loc, const Expr *cond, const char *text)
{
	Ev c = eval_const(E, cond, "the condition of static_assert");
	if (c.kind != EV_ERROR)
		c = ev_condition(E, cond->loc, c);
	if (c.kind == EV_CONST && !c.i)
		elab_error(E, loc, E_STATIC_ASSERT, "%s", text ? text : "static_assert fails");
}

/* ---- dispatch ---- */

static bool async_allows(Elab *E, const Stmt *s)
{
	if (!E->at.in_async || s->kind == ST_BLOCK || s->kind == ST_ASSIGN || (s->kind == ST_FOR && s->unroll))
		return true;
	elab_error(E, s->loc, E_TYPE, "async takes products only");
	return false;
}

static bool after_return(Elab *E, const Stmt *s)
{
	if (!E->at.frame || !E->at.frame->returned)
		return false;
	elab_error(E, s->loc, E_CALL, "'return' is the last statement of a function");
	return true;
}

static void exec_block(Elab *E, const Stmt *s)
{
	Scope *scope = scope_push(E);
	exec_list(E, s->body);
	scope_pop(E, scope);
}

bool too_big(Elab *E, Loc loc)
{
	bool big = E->t->next_id > MAX_VALUES || ++E->statements > MAX_STATEMENTS;
	if (!E->hopeless && big) {
		elab_error(E, loc, E_LIMIT, "the program expands into more than %d statements, or %d values", MAX_STATEMENTS, MAX_VALUES);
		E->hopeless = true;
	}
	return E->hopeless;
}

void exec(Elab *E, const Stmt *s)
{
	if (too_big(E, s->loc) || after_return(E, s) || !async_allows(E, s))
		return;
	switch (s->kind) {
	case ST_BLOCK: exec_block(E, s); break;
	case ST_DECL:
		for (const Decl *d = s->decl; d; d = d->next)
			declare(E, d);
		break;
	case ST_ASSIGN: exec_assign(E, s); break;
	case ST_CALL: exec_call(E, s); break;
	case ST_IF: exec_if(E, s); break;
	case ST_FOR: exec_loop(E, s); break;
	case ST_WHILE: exec_while(E, s); break;
	case ST_ONCE: exec_once(E, s); break;
	case ST_PARALLEL: exec_parallel(E, s); break;
	case ST_ASYNC: exec_async(E, s); break;
	case ST_ROLE: exec_role(E, s); break;
	case ST_RETURN: exec_return(E, s); break;
	case ST_BREAK: case ST_CONTINUE: exec_jump(E, s); break;
	case ST_STATIC_ASSERT: static_assertion(E, s->loc, s->cond, s->text); break;
	}
}

void exec_list(Elab *E, const Stmt *list)
{
	StmtList *outer = E->at.list, here = { .first = list };
	E->at.list = &here;
	for (const Stmt *s = list; s; s = s->next) {
		here.rest = s->next;
		exec(E, s);
		if (jump_ends_list(E, s->next))
			break;
	}
	E->at.list = outer;
}
