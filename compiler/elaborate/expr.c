/* expr.c - values of expressions; constant conditions take one arm and leave the other unchecked. */
#include "compiler/elaborate/elab.h"

#include <math.h>
#include <string.h>

static Ev literal(DType t, int64_t i, double f)
{
	return (Ev){ .kind = EV_CONST, .dtype = t, .i = i, .f = f, .literal = true };
}

/* ---- names and members ---- */

Ev scalar_of(Elab *E, Loc loc, const Sym *y)
{
	if (y->kind == SYM_VAR && E->at.parallel && y->combined_in == E->at.parallel) {
		elab_error(E, loc, E_SPACE, "'%s' combines the elements of this loop and cannot be read in it", y->name);
		return ev_error();
	}
	if (y->kind == SYM_VAR) {
		if (E->at.parallel)
			((Sym *)y)->read_in = E->at.parallel;
		return ev_of(emit(E, OP_GET, loc, y->dtype, 1, &y->var));
	}
	if (y->ev.kind == EV_VOID && y->dtype != DT_NONE) {
		elab_error(E, loc, E_TYPE, "'%s' is read before it has a value", y->name);
		return ev_error();
	}
	return y->ev;
}

static Ev eval_sym(Elab *E, const Expr *e, const Sym *y)
{
	switch (y->kind) {
	case SYM_FN: case SYM_STRUCT: case SYM_KERNEL:
		elab_error(E, e->loc, E_TYPE, "'%s' is a %s, not a value", e->name, y->kind == SYM_FN ? "function" : y->kind == SYM_STRUCT ? "struct" : "kernel");
		return ev_error();
	case SYM_TYPE:
		elab_error(E, e->loc, E_TYPE, "'%s' is a type, not a value", e->name);
		return ev_error();
	case SYM_ABSENT: report_absent(E, e->loc, y); return ev_error();
	case SYM_UNCLEAR:
		elab_error(E, e->loc, E_UNKNOWN_NAME, "'%s' is not one thing: structs that the function takes bind it differently", e->name);
		diag_help(E->d, "name the struct's, s.%s", e->name);
		return ev_error();
	case SYM_DIM: {
		Ev dim = dim_value(E, e->loc, y->origin ? y->origin->name : y->name, y->dim);
		return E->at.in_stride ? ev_cast(E, e->loc, dim, DT_I64) : dim;
	}
	default: return scalar_of(E, e->loc, y);
	}
}

static Ev eval_name(Elab *E, const Expr *e)
{
	const Sym *y = sym_find(E, e->name);
	if (!y && (!strcmp(e->name, "inf") || !strcmp(e->name, "nan")))
		return literal(DT_F32, 0, e->name[0] == 'i' ? INFINITY : NAN);
	if (!y && !strcmp(e->name, "sm_count")) {
		if (E->at.in_grid)
			return ev_of(emit(E, OP_SM_COUNT, e->loc, DT_I32, 0, NULL));
		elab_error(E, e->loc, E_NOT_CONSTANT, "'sm_count' is known in grid (...) only");
		return ev_error();
	}
	if (!y) {
		report_unknown(E, e->loc, e->name, false);
		return ev_error();
	}
	return eval_sym(E, e, y);
}

/* blockIdx.x and gridDim.x; EV_VOID when e is something else. */
static Ev eval_launch_member(Elab *E, const Expr *e)
{
	if (e->a->kind != EX_NAME)
		return ev_void();
	bool block = !strcmp(e->a->name, "blockIdx"), grid = !strcmp(e->a->name, "gridDim");
	if ((!block && !grid) || sym_find(E, e->a->name)) /* a struct may have that name, in a body */
		return ev_void();
	bool axis = e->name[0] >= 'x' && e->name[0] <= 'z' && !e->name[1];
	if (!axis) {
		elab_error(E, e->loc, E_UNKNOWN_NAME, "'%s' has members x, y and z, not '%s'", e->a->name, e->name);
		return ev_error();
	}
	if (!E->at.region || E->at.in_grid) {
		elab_error(E, e->loc, E_NOT_CONSTANT, "'%s' is known in a kernel's body only", e->a->name);
		return ev_error();
	}
	Op *op = emit_op(E, block ? OP_BLOCK_IDX : OP_GRID_DIM, e->loc, type_scalar(DT_I32), 0, NULL);
	attr_set_int(E->t, op, AT_AXIS, e->name[0] - 'x');
	return ev_of(op->result);
}

static Ev eval_member(Elab *E, const Expr *e)
{
	Ev r = eval_launch_member(E, e);
	if (r.kind != EV_VOID)
		return r;
	const Sym *y = sym_of(E, e);
	if (y)
		return eval_sym(E, e, y);
	Ev base = eval_place(E, e->a);
	if (base.kind == EV_STRUCT) {
		const Sym *member = sym_in(base.of->scope, e->name);
		if (member)
			return eval_sym(E, e, member);
		report_no_member(E, e, base.of);
		return ev_error();
	}
	return base.kind == EV_ERROR ? base : view_member(E, base, e);
}

/* ---- choices ---- */

typedef struct Arm { const Expr *e; Ev given; } Arm; /* e NULL: given */

static Ev eval_arm(Elab *E, Arm arm)
{
	return arm.e ? eval(E, arm.e) : arm.given;
}

static Ev eval_chosen(Elab *E, const Expr *e, Ev c, bool when)
{
	Chosen here = { E->at.chosen, c, when };
	E->at.chosen = &here;
	Ev r = eval(E, e);
	E->at.chosen = here.outer;
	return r;
}

/* The arm where c is `when`; what it reads is read only there. */
static Ev masked_arm(Elab *E, Arm arm, Ev c, bool when)
{
	if (!arm.e)
		return arm.given;
	if (expr_is_pure(E, arm.e))
		return eval_chosen(E, arm.e, c, when);
	Place before = E->at;
	E->at.mask = mask_and(E, arm.e->loc, before.mask, when ? c : ev_unary(E, arm.e->loc, UN_NOT, c));
	Ev r = eval(E, arm.e);
	place_leave(E, before);
	return r;
}

static void set_in(Elab *E, Region *r, Loc loc, Value *var, Ev x)
{
	Place s = place_enter(E, r);
	Value *args[2] = { var, ev_value(E, loc, ev_cast(E, loc, x, var->type.dtype)) };
	emit_op(E, OP_SET, loc, type_none(), 2, args);
	place_leave(E, s);
}

static Ev arm_in(Elab *E, Region *r, Arm arm)
{
	Place s = place_enter(E, r);
	Ev x = eval_arm(E, arm);
	place_leave(E, s);
	return x;
}

/* The type that both arms take, without converting them here. */
static DType arms_type(Elab *E, Loc loc, Ev a, Ev b)
{
	Place s = place_enter(E, NULL);
	if (a.kind == EV_VALUE)
		a = (Ev){ .kind = EV_CONST, .dtype = a.dtype };
	if (b.kind == EV_VALUE)
		b = (Ev){ .kind = EV_CONST, .dtype = b.dtype };
	DType t = ev_unify(E, loc, "a choice", &a, &b);
	place_leave(E, s);
	return t;
}

/* Only the chosen arm may run: a branch and a variable. */
static Ev branch_choice(Elab *E, Loc loc, Ev c, Arm a, Arm b)
{
	Op *branch = emit_op(E, OP_IF, loc, type_none(), 1, &c.value);
	Region *r0 = tir_region(E->t, branch, 0), *r1 = tir_region(E->t, branch, 1);
	Ev x = arm_in(E, r0, a), y = arm_in(E, r1, b);
	DType t = arms_type(E, loc, x, y);
	if (t == DT_NONE)
		return ev_error();
	Op *var = tir_op(E->t, OP_VAR, loc, (Type){ .kind = TY_VAR, .dtype = t }, 0, NULL);
	tir_insert_before(branch, var);
	set_in(E, r0, loc, var->result, x);
	set_in(E, r1, loc, var->result, y);
	return ev_of(emit(E, OP_GET, loc, t, 1, &var->result));
}

static Ev choose(Elab *E, Loc loc, Ev c, Arm a, Arm b)
{
	bool pure = (!a.e || expr_is_pure(E, a.e)) && (!b.e || expr_is_pure(E, b.e));
	if (!pure && !E->at.parallel)
		return branch_choice(E, loc, c, a, b);
	Ev x = masked_arm(E, a, c, true), y = masked_arm(E, b, c, false);
	return ev_select(E, loc, c, x, y);
}

static Ev eval_cond(Elab *E, const Expr *e)
{
	Ev c = ev_condition(E, e->a->loc, eval(E, e->a));
	if (c.kind == EV_ERROR)
		return c;
	if (c.kind == EV_CONST)
		return eval(E, c.i ? e->b : e->c);
	return choose(E, e->loc, c, (Arm){ .e = e->b }, (Arm){ .e = e->c });
}

static Ev as_bool(Elab *E, const Expr *e)
{
	return ev_condition(E, e->loc, eval(E, e));
}

static Ev logical(Elab *E, Loc loc, int op, Ev a, const Expr *rhs)
{
	bool conj = op == BIN_LAND;
	if (a.kind == EV_ERROR)
		return a;
	if (a.kind == EV_CONST)
		return (a.i != 0) == conj ? as_bool(E, rhs) : ev_bool(!conj);
	if (expr_is_pure(E, rhs)) {
		Ev b = ev_condition(E, rhs->loc, eval_chosen(E, rhs, a, conj));
		if (b.kind == EV_CONST)
			return (b.i != 0) == conj ? a : b;
		return ev_binary(E, loc, op, a, b);
	}
	Expr *b = ARENA_NEW(E->a, Expr); /* !!b: bool whatever b's type is */
	*b = (Expr){ .kind = EX_CAST, .loc = rhs->loc, .dtype = DT_BOOL, .a = (Expr *)rhs };
	Arm arm = { .e = b }, fixed = { .given = ev_bool(!conj) };
	return conj ? choose(E, loc, a, arm, fixed) : choose(E, loc, a, fixed, arm);
}

Ev eval_and(Elab *E, Loc loc, Ev a, const Expr *b) { return logical(E, loc, BIN_LAND, a, b); }
static Ev eval_logical(Elab *E, const Expr *e) { return logical(E, e->loc, e->op, as_bool(E, e->a), e->b); }

/* ---- the rest ---- */

static Ev eval_binary(Elab *E, const Expr *e)
{
	if (e->op == BIN_LAND || e->op == BIN_LOR)
		return eval_logical(E, e);
	if (e->op == BIN_MATMUL) {
		elab_error(E, e->loc, E_TYPE, "a product is a statement of its own");
		diag_help(E->d, "write X = A @ B; X += A @ B; or X -= A @ B;");
		return ev_error();
	}
	Ev a = eval(E, e->a), b = eval(E, e->b);
	return ev_binary(E, e->loc, e->op, a, b);
}

/* type(a); `name`: the type as written. */
static Ev convert(Elab *E, Loc loc, const char *name, DType t, const Expr *from)
{
	Ev a = eval(E, from);
	if (a.kind == EV_ERROR)
		return a;
	if (!ev_is_scalar(a)) {
		elab_error(E, loc, E_TYPE, "%s(...) of %s", name, ev_text(E, a));
		if (a.kind == EV_TILE)
			diag_help(E->d, "copy(src, dst) converts tiles");
		return ev_error();
	}
	return ev_cast(E, loc, a, t);
}

static Ev convert_to_named(Elab *E, const Expr *e, DType t)
{
	if (e->args && !e->args->next)
		return convert(E, e->loc, e->name, t, e->args);
	elab_error(E, e->loc, E_CALL, "'%s' is a type and converts one value: %s(x)", e->name, e->name);
	return ev_error();
}

static Ev eval_call(Elab *E, const Expr *e)
{
	const Sym *y = e->kind == EX_CALL ? sym_find(E, e->name) : NULL;
	Ev r;
	if (y && y->kind == SYM_FN)
		r = fn_call(E, e, y->decl);
	else if (y && y->kind == SYM_TYPE)
		r = convert_to_named(E, e, y->dtype);
	else if (y && !builtin_exists(e->name)) {
		report_no_function(E, e, y);
		r = ev_error();
	} else
		r = builtin_call(E, e, NULL);
	if (r.kind == EV_VOID) {
		elab_error(E, e->loc, E_TYPE, "'%s' has no value", e->name);
		return ev_error();
	}
	return r;
}

Ev eval_place(Elab *E, const Expr *e)
{
	switch (e->kind) {
	case EX_INT: return literal(e->i < 0 ? DT_U64 : int_fits(DT_I32, e->i) ? DT_I32 : DT_I64, e->i, 0);
	case EX_REAL: return literal(DT_F32, 0, e->f);
	case EX_BOOL: return ev_bool(e->i != 0);
	case EX_STRING: return (Ev){ .kind = EV_TEXT, .text = e->name };
	case EX_NAME: return eval_name(E, e);
	case EX_UNARY: return ev_unary(E, e->loc, e->op, eval(E, e->a));
	case EX_BINARY: return eval_binary(E, e);
	case EX_COND: return eval_cond(E, e);
	case EX_CALL:
	case EX_TYPED_CALL: return eval_call(E, e);
	case EX_CAST: return convert(E, e->loc, dtype_name(e->dtype), e->dtype, e->a);
	case EX_MEMBER: return eval_member(E, e);
	case EX_STRUCT: case EX_FIELD:
		elab_error(E, e->loc, E_TYPE, "{ ... } is a struct where one is declared, assigned, taken by value or returned, and nothing else");
		return ev_error();
	case EX_SUBSCRIPT: {
		Ev base = eval_place(E, e->a);
		return base.kind == EV_ERROR ? base : view_subscript(E, base, e);
	}
	}
	return ev_error();
}

Ev eval(Elab *E, const Expr *e)
{
	Ev r = eval_place(E, e);
	int axes[TIR_MAX_RANK];
	if (r.kind == EV_TILE && view_axes(r.view, axes) == 0)
		return element_load(E, e->loc, r.view);
	return r;
}

Ev eval_scalar(Elab *E, const Expr *e, const char *what)
{
	Ev r = eval(E, e);
	if (r.kind == EV_ERROR || ev_is_scalar(r))
		return r;
	elab_error(E, e->loc, E_TYPE, "%s is a scalar, not %s", what, ev_text(E, r));
	return ev_error();
}

Ev eval_const(Elab *E, const Expr *e, const char *what)
{
	Ev r = eval_scalar(E, e, what);
	if (r.kind != EV_VALUE)
		return r;
	elab_error(E, e->loc, E_NOT_CONSTANT, "%s must be known at compile time", what);
	return ev_error();
}

static bool is_integer(Ev r)
{
	return dtype_is_int(r.dtype) || r.dtype == DT_BOOL;
}

bool eval_const_int(Elab *E, const Expr *e, const char *what, int64_t *out)
{
	Ev r = eval_const(E, e, what);
	if (r.kind == EV_ERROR)
		return false;
	if (!is_integer(r)) {
		elab_error(E, e->loc, E_TYPE, "%s is an integer, not %s", what, dtype_name(r.dtype));
		return false;
	}
	*out = r.i;
	return true;
}

Ev ev_as_i32(Elab *E, Loc loc, Ev r, const char *what)
{
	if (r.kind == EV_ERROR)
		return r;
	if (!dtype_is_int(r.dtype)) {
		elab_error(E, loc, E_TYPE, "%s is an integer, not %s", what, dtype_name(r.dtype));
		return ev_error();
	}
	if (r.kind == EV_CONST && !const_fits(DT_I32, r)) {
		elab_error(E, loc, E_TYPE, r.dtype == DT_U64 ? "%s is %llu, which does not fit i32" : "%s is %lld, which does not fit i32", what,
			(long long)r.i);
		return ev_error();
	}
	return ev_cast(E, loc, r, DT_I32);
}

Ev eval_i32(Elab *E, const Expr *e, const char *what) { return ev_as_i32(E, e->loc, eval_scalar(E, e, what), what); }
