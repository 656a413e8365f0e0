/* math.c - scalar built-in functions: folded for constants, expanded into primitive operations else. */
#include "compiler/elaborate/builtins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOG2E 1.4426950408889634
#define LN2 0.6931471805599453

/* log(1 + y) / y on [0, 1]: 2e-7 relative in f32. */
static const double log1p_series[] = {
	0.9999999659255097, -0.49999444976340807, 0.333181217075448, -0.24835398988585736, 0.19076880735962676,
	-0.13602247622848157, 0.07751608674395996, -0.029074064679343068, 0.00512610214135673
};
enum { LOG1P_TERMS = sizeof log1p_series / sizeof log1p_series[0] };

static double fold_rsqrt(double x) { return 1 / sqrt(x); }
static double fold_rcp(double x) { return 1 / x; }
static double fold_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double fold_softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

static double fold_math(Opcode op, const char *name, double x)
{
	static const struct { Opcode op; double (*f)(double); } ops[] = {
#define MATH(op, fold, nvvm, overloaded, host, flush, inverse) { op, fold },
#include "compiler/tir/math.def"
#undef MATH
	};
	static const struct { const char *name; double (*f)(double); } table[] = { /* made of several operations */
		{ "exp", exp }, { "log", log }, { "sigmoid", fold_sigmoid }, { "softplus", fold_softplus },
	};
	for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
		if (ops[k].op == op)
			return ops[k].f(x);
	for (size_t k = 0; k < sizeof table / sizeof table[0]; k++)
		if (!strcmp(table[k].name, name))
			return table[k].f(x);
	abort(); /* a row of builtins.def without one here: tests/unit/test_lowering.c calls each */
}

/* Integers are computed in f32, as what is only stored is. */
static DType float_type(DType t)
{
	return dtype_is_float(t) ? dtype_computed(t) : DT_F32;
}

static bool body_only(Elab *E, const Call *c)
{
	if (E->at.region && !(E->at.in_grid && c->b->op != OP_MIN && c->b->op != OP_MAX))
		return true;
	elab_error(E, c->e->loc, E_NOT_CONSTANT, "'%s' is for a kernel's body only", c->b->name);
	return false;
}

/* True when *x is a constant (folded into *out) or not a number; else *x is ready in type t. */
static bool settle(Elab *E, const Call *c, Ev x, DType *t, Ev *ready, Ev *out)
{
	*out = ev_error();
	if (x.dtype == DT_BOOL) {
		elab_error(E, c->loc[0], E_CALL, "argument 1 of %s is bool", c->b->signature);
		return true;
	}
	*t = float_type(x.dtype);
	if (x.kind == EV_CONST) {
		double f = dtype_is_float(x.dtype) ? x.f : (double)x.i;
		*out = ev_float(*t, fold_math(c->b->op, c->b->name, f));
		return true;
	}
	*ready = ev_cast(E, c->loc[0], x, *t);
	return !body_only(E, c);
}

static Ev op1(Elab *E, Loc loc, Opcode code, Ev x)
{
	Value *v = ev_value(E, loc, x);
	return ev_of(emit(E, code, loc, v->type.dtype, 1, &v));
}

static Ev op2(Elab *E, Loc loc, Opcode code, Ev a, Ev b)
{
	Value *args[2] = { ev_value(E, loc, a), ev_value(E, loc, b) };
	return ev_of(emit(E, code, loc, args[0]->type.dtype, 2, args));
}

static Ev op3(Elab *E, Loc loc, Opcode code, Ev a, Ev b, Ev c)
{
	Value *args[3] = { ev_value(E, loc, a), ev_value(E, loc, b), ev_value(E, loc, c) };
	return ev_of(emit(E, code, loc, args[0]->type.dtype, 3, args));
}

static Ev real(double v)
{
	return ev_float(DT_F32, v);
}

Ev bi_float(Elab *E, const Call *c)
{
	Ev x, out;
	DType t;
	return settle(E, c, c->arg[0], &t, &x, &out) ? out : op1(E, c->e->loc, c->b->op, x);
}

/* The composed functions compute in f32 and round once. */
typedef Ev Expansion(Elab *E, Loc loc, Ev x);

static Ev composed(Elab *E, const Call *c, Expansion *expand)
{
	Ev x, out;
	DType t;
	if (settle(E, c, c->arg[0], &t, &x, &out))
		return out;
	Loc loc = c->e->loc;
	return ev_cast(E, loc, expand(E, loc, ev_cast(E, loc, x, DT_F32)), t);
}

static Ev expand_exp(Elab *E, Loc loc, Ev x)
{
	return op1(E, loc, OP_EXP2, op2(E, loc, OP_MUL, x, real(LOG2E)));
}

static Ev expand_log(Elab *E, Loc loc, Ev x)
{
	return op2(E, loc, OP_MUL, op1(E, loc, OP_LOG2, x), real(LN2));
}

static Ev expand_sigmoid(Elab *E, Loc loc, Ev x)
{
	Ev e = op1(E, loc, OP_EXP2, op2(E, loc, OP_MUL, x, real(-LOG2E)));
	return op1(E, loc, OP_RCP, op2(E, loc, OP_ADD, e, real(1)));
}

/* exp(n) for n <= 0 within 1e-7: what n * log2(e) loses to rounding is put back.  Below -88 it is 0 in f32. */
static Ev exact_exp(Elab *E, Loc loc, Ev n)
{
	double high = dtype_round(DT_F32, LOG2E);
	n = ev_select(E, loc, ev_binary(E, loc, BIN_LT, n, real(-88)), real(-88), n); /* infinities would become NaN; max loses NaN */
	Ev t = op2(E, loc, OP_MUL, n, real(high));
	Ev lost = op3(E, loc, OP_FMA, n, real(high), op1(E, loc, OP_NEG, t));
	lost = op3(E, loc, OP_FMA, n, real(LOG2E - high), lost);
	Ev y = op1(E, loc, OP_EXP2, t);
	return op3(E, loc, OP_FMA, op2(E, loc, OP_MUL, y, real(LN2)), lost, y);
}

/* lg2.approx is exact to 2^-22 absolute only near 1, too little for 1e-6 relative: a polynomial. */
static Ev expand_softplus(Elab *E, Loc loc, Ev x)
{
	Ev y = exact_exp(E, loc, op1(E, loc, OP_NEG, op1(E, loc, OP_ABS, x)));
	Ev p = real(log1p_series[LOG1P_TERMS - 1]);
	for (int k = LOG1P_TERMS - 1; k-- > 0;)
		p = op3(E, loc, OP_FMA, p, y, real(log1p_series[k]));
	return op3(E, loc, OP_FMA, p, y, op2(E, loc, OP_MAX, x, real(0)));
}

Ev bi_exp(Elab *E, const Call *c) { return composed(E, c, expand_exp); }
Ev bi_log(Elab *E, const Call *c) { return composed(E, c, expand_log); }
Ev bi_sigmoid(Elab *E, const Call *c) { return composed(E, c, expand_sigmoid); }
Ev bi_softplus(Elab *E, const Call *c) { return composed(E, c, expand_softplus); }

/* ---- arithmetic of any type ---- */

static bool numeric(Elab *E, const Call *c, int k)
{
	if (c->arg[k].dtype != DT_BOOL)
		return true;
	elab_error(E, c->loc[k], E_CALL, "argument %d of %s is bool", k + 1, c->b->signature);
	return false;
}

Ev bi_abs(Elab *E, const Call *c)
{
	Ev x = c->arg[0];
	if (!numeric(E, c, 0))
		return ev_error();
	bool is_float = dtype_is_float(x.dtype);
	if (dtype_computed(x.dtype) != x.dtype)
		x = ev_cast(E, c->loc[0], x, dtype_computed(x.dtype));
	if (x.kind != EV_CONST)
		return !is_float && !dtype_is_signed(x.dtype) ? x : op1(E, c->e->loc, OP_ABS, x);
	return (is_float ? signbit(x.f) : dtype_is_signed(x.dtype) && x.i < 0) ? ev_unary(E, c->e->loc, UN_NEG, x) : x;
}

static bool is_less(DType t, Ev a, Ev b)
{
	Ev r;
	return fold_binary(BIN_LT, t, a, b, &r) && r.i;
}

static bool is_nan(Ev x) { return dtype_is_float(x.dtype) && isnan(x.f); }

Ev bi_minmax(Elab *E, const Call *c)
{
	Ev a = c->arg[0], b = c->arg[1];
	DType t = numeric(E, c, 0) && numeric(E, c, 1) ? ev_unify(E, c->e->loc, c->b->name, &a, &b) : DT_NONE;
	if (t == DT_NONE)
		return ev_error();
	bool min = c->b->op == OP_MIN;
	if (a.kind == EV_CONST && b.kind == EV_CONST) /* of a number and a nan: the number */
		return is_nan(b) || (!is_nan(a) && is_less(t, a, b) == min) ? a : b;
	return body_only(E, c) ? op2(E, c->e->loc, c->b->op, a, b) : ev_error();
}

Ev bi_fma(Elab *E, const Call *c)
{
	Ev x[3] = { c->arg[0], c->arg[1], c->arg[2] };
	Loc loc = c->e->loc;
	if (!numeric(E, c, 0) || !numeric(E, c, 1) || !numeric(E, c, 2))
		return ev_error();
	if (ev_unify(E, loc, "fma", &x[0], &x[1]) == DT_NONE || ev_unify(E, loc, "fma", &x[1], &x[2]) == DT_NONE)
		return ev_error();
	DType t = ev_unify(E, loc, "fma", &x[0], &x[1]);
	if (t == DT_NONE)
		return ev_error();
	if (!dtype_is_float(t)) {
		elab_error(E, loc, E_CALL, "%s is for floats, not %s", c->b->signature, dtype_name(t));
		return ev_error();
	}
	if (x[0].kind == EV_CONST && x[1].kind == EV_CONST && x[2].kind == EV_CONST)
		return ev_float(t, fmaf((float)x[0].f, (float)x[1].f, (float)x[2].f));
	return body_only(E, c) ? op3(E, loc, OP_FMA, x[0], x[1], x[2]) : ev_error();
}

Ev bi_ldexp(Elab *E, const Call *c)
{
	Ev x = c->arg[0], n = c->arg[1];
	if (!numeric(E, c, 0))
		return ev_error();
	x = ev_cast(E, c->loc[0], x, DT_F32);
	if (x.kind == EV_CONST && n.kind == EV_CONST)
		return real(ldexp(x.f, n.i < -126 ? -126 : n.i > 127 ? 127 : (int)n.i));
	return body_only(E, c) ? op2(E, c->e->loc, OP_LDEXP, x, n) : ev_error();
}

/* (a + b - 1) / b: the form that the host side knows as cdiv. */
Ev bi_cdiv(Elab *E, const Call *c)
{
	Ev a = c->arg[0], b = c->arg[1];
	Loc loc = c->e->loc;
	if (!dtype_is_int(a.dtype) || !dtype_is_int(b.dtype)) {
		int k = dtype_is_int(a.dtype);
		elab_error(E, c->loc[k], E_CALL, "argument %d of %s is %s", k + 1, c->b->signature, dtype_name(c->arg[k].dtype));
		return ev_error();
	}
	DType t = ev_unify(E, loc, "cdiv", &a, &b);
	if (t == DT_NONE)
		return ev_error();
	Ev one = ev_int(t, 1), sum;
	if (b.kind == EV_CONST)
		sum = ev_binary(E, loc, BIN_ADD, a, ev_binary(E, loc, BIN_SUB, b, one));
	else
		sum = ev_binary(E, loc, BIN_SUB, ev_binary(E, loc, BIN_ADD, a, b), one);
	return ev_binary(E, loc, BIN_DIV, sum, b);
}

/* ---- bits ---- */

static Ev fold_bitcast(Ev x, DType t)
{
	float f;
	uint32_t u;
	if (x.dtype == DT_F32 && dtype_is_int(t)) {
		f = (float)x.f;
		memcpy(&u, &f, sizeof u);
		return ev_int(t, (int64_t)u);
	}
	if (dtype_is_int(x.dtype) && t == DT_F32) {
		u = (uint32_t)x.i;
		memcpy(&f, &u, sizeof f);
		return ev_float(t, (double)f);
	}
	return dtype_is_int(x.dtype) && dtype_is_int(t) ? ev_int(t, x.i) : ev_void();
}

static DType unsigned_type(DType t)
{
	switch (dtype_bits(t)) {
	case 8: return DT_U8;
	case 16: return DT_U16;
	case 32: return DT_U32;
	case 64: return DT_U64;
	default: abort(); /* no integer */
	}
}

Ev bi_bitcast(Elab *E, const Call *c)
{
	Ev x = c->arg[0];
	DType t = c->e->dtype;
	Loc loc = c->e->loc;
	if (x.literal) /* 0xff800000 has the 32 bits of the type that is asked for */
		x = fold_cast(x, dtype_is_int(x.dtype) && int_fits(unsigned_type(t), x.i) ? unsigned_type(t) : x.dtype);
	if (x.dtype == DT_BOOL || t == DT_BOOL || dtype_bits(x.dtype) != dtype_bits(t)) {
		elab_error(E, loc, E_CALL, "%s: %s has %u bits and %s has %u", c->b->signature, dtype_name(t), dtype_bits(t),
			dtype_name(x.dtype), dtype_bits(x.dtype));
		return ev_error();
	}
	if (x.dtype == t)
		return x;
	if (x.kind == EV_CONST) {
		Ev r = fold_bitcast(x, t);
		if (r.kind == EV_CONST)
			return r;
	}
	if (!body_only(E, c))
		return ev_error();
	Value *v = ev_value(E, loc, x);
	return ev_of(emit(E, OP_BITCAST, loc, t, 1, &v));
}

Ev bi_nullary(Elab *E, const Call *c)
{
	if (!body_only(E, c))
		return ev_error();
	return ev_of(emit(E, c->b->op, c->e->loc, c->b->op == OP_CLOCK ? DT_I64 : DT_I32, 0, NULL));
}

Ev bi_present(Elab *E, const Call *c)
{
	const Ev *x = &c->arg[0];
	if (x->kind == EV_VOID) /* declared under a condition that is false */
		return ev_bool(false);
	if (x->kind != EV_TILE || !x->view->optional)
		return ev_bool(true);
	if (!body_only(E, c))
		return ev_error();
	Value *object = x->view->object;
	return ev_of(emit(E, OP_PRESENT, c->e->loc, DT_BOOL, 1, &object));
}
