/* constants.c - arithmetic on compile-time values, in the width and rounding of their type. */
#include "compiler/elaborate/elab.h"

#include <math.h>
#include <stdlib.h>

static int64_t wrap_int(DType t, int64_t v)
{
	unsigned bits = dtype_bits(t);
	if (t == DT_BOOL)
		return v != 0;
	if (bits >= 64)
		return v;
	uint64_t mask = (UINT64_C(1) << bits) - 1, u = (uint64_t)v & mask;
	if (dtype_is_signed(t) && (u >> (bits - 1)))
		u |= ~mask;
	return (int64_t)u;
}

Ev ev_error(void) { return (Ev){ .kind = EV_ERROR }; }
Ev ev_void(void) { return (Ev){ .kind = EV_VOID }; }
Ev ev_int(DType t, int64_t v) { return (Ev){ .kind = EV_CONST, .dtype = t, .i = wrap_int(t, v) }; }
Ev ev_float(DType t, double v) { return (Ev){ .kind = EV_CONST, .dtype = t, .f = dtype_round(t, v) }; }
Ev ev_bool(bool v) { return (Ev){ .kind = EV_CONST, .dtype = DT_BOOL, .i = v }; }

bool int_fits(DType t, int64_t v)
{
	if (t == DT_U64)
		return v >= 0;
	return wrap_int(t, v) == v;
}

bool const_fits(DType t, Ev x)
{
	if (dtype_is_float(t) || x.dtype == t)
		return true;
	if (dtype_is_float(x.dtype))
		return x.f == trunc(x.f) && fabs(x.f) < 0x1p63 && const_fits(t, ev_int(DT_I64, (int64_t)x.f));
	if (t == DT_BOOL)
		return x.i == 0 || x.i == 1;
	return int_fits(t, x.i) && (x.dtype != DT_U64 || x.i >= 0);
}

double const_number(Ev x) { return dtype_is_float(x.dtype) ? x.f : x.dtype == DT_U64 ? (double)(uint64_t)x.i : (double)x.i; }

const char *const_text(Elab *E, Ev x)
{
	if (dtype_is_float(x.dtype))
		return arena_printf(E->a, "%g", x.f);
	return arena_printf(E->a, x.dtype == DT_U64 ? "%llu" : "%lld", (long long)x.i);
}

static uint64_t as_unsigned(DType t, int64_t v)
{
	unsigned bits = dtype_bits(t);
	return bits >= 64 ? (uint64_t)v : (uint64_t)v & ((UINT64_C(1) << bits) - 1);
}

static bool compare(int op, int order)
{
	switch (op) {
	case BIN_LT: return order < 0;
	case BIN_LE: return order <= 0;
	case BIN_GT: return order > 0;
	case BIN_GE: return order >= 0;
	case BIN_EQ: return order == 0;
	case BIN_NE: return order != 0;
	default: abort(); /* no comparison */
	}
}

static bool fold_float(int op, DType t, double a, double b, Ev *out)
{
	switch (op) {
	case BIN_ADD: *out = ev_float(t, a + b); return true;
	case BIN_SUB: *out = ev_float(t, a - b); return true;
	case BIN_MUL: *out = ev_float(t, a * b); return true;
	case BIN_DIV: *out = ev_float(t, a / b); return true;
	default:
		if (isnan(a) || isnan(b))
			*out = ev_bool(op == BIN_NE);
		else
			*out = ev_bool(compare(op, a < b ? -1 : a > b));
		return true;
	}
}

static bool fold_division(int op, DType t, int64_t a, int64_t b, Ev *out)
{
	if (b == 0)
		return false;
	int64_t q, r;
	if (!dtype_is_signed(t)) {
		q = (int64_t)((uint64_t)a / (uint64_t)b);
		r = (int64_t)((uint64_t)a % (uint64_t)b);
	} else if (b == -1) {
		q = (int64_t)(0 - (uint64_t)a); /* INT64_MIN / -1 wraps */
		r = 0;
	} else {
		q = a / b;
		r = a % b;
	}
	*out = ev_int(t, op == BIN_DIV ? q : r);
	return true;
}

/* A count of the width or more, or below zero, leaves nothing but the sign of what is shifted right. */
static int64_t fold_shift(int op, DType t, int64_t a, int64_t b)
{
	unsigned bits = dtype_bits(t), n = as_unsigned(t, b) < bits ? (unsigned)b : bits;
	if (op == BIN_SHR && dtype_is_signed(t)) {
		n = n < bits ? n : bits - 1;
		return a < 0 ? (int64_t)~(~(uint64_t)a >> n) : a >> n;
	}
	if (n == bits)
		return 0;
	return op == BIN_SHL ? (int64_t)((uint64_t)a << n) : (int64_t)(as_unsigned(t, a) >> n);
}

bool fold_binary(int op, DType t, Ev x, Ev y, Ev *out)
{
	if (dtype_is_float(t))
		return fold_float(op, t, x.f, y.f, out);
	int64_t a = x.i, b = y.i;
	uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
	switch (op) {
	case BIN_ADD: *out = ev_int(t, (int64_t)(ua + ub)); return true;
	case BIN_SUB: *out = ev_int(t, (int64_t)(ua - ub)); return true;
	case BIN_MUL: *out = ev_int(t, (int64_t)(ua * ub)); return true;
	case BIN_DIV:
	case BIN_MOD: return fold_division(op, t, a, b, out);
	case BIN_SHL:
	case BIN_SHR: *out = ev_int(t, fold_shift(op, t, a, b)); return true;
	case BIN_AND: *out = ev_int(t, a & b); return true;
	case BIN_OR: *out = ev_int(t, a | b); return true;
	case BIN_XOR: *out = ev_int(t, a ^ b); return true;
	default: break;
	}
	int order = dtype_is_signed(t) ? (a < b ? -1 : a > b) : (ua < ub ? -1 : ua > ub);
	*out = ev_bool(compare(op, order));
	return true;
}

/* To the nearest that the type has; NaN gives 0. */
static int64_t truncate_float(DType t, double f)
{
	unsigned bits = dtype_bits(t);
	bool s = dtype_is_signed(t);
	double end = ldexp(1, (int)bits - s);
	if (isnan(f))
		return 0;
	if (f >= end)
		return s ? (int64_t)(UINT64_MAX >> (65 - bits)) : (int64_t)(UINT64_MAX >> (64 - bits));
	if (f <= -end || (!s && f <= 0))
		return s ? -(int64_t)(UINT64_MAX >> (65 - bits)) - 1 : 0;
	return s ? (int64_t)f : (int64_t)(uint64_t)f;
}

Ev fold_cast(Ev a, DType t)
{
	bool from_float = dtype_is_float(a.dtype);
	if (dtype_is_float(t)) { /* an integer by way of f32, as at run time */
		double f = from_float ? a.f : a.dtype == DT_U64 ? (float)(uint64_t)a.i : (float)a.i;
		return ev_float(t, f);
	}
	if (t == DT_BOOL)
		return ev_bool(from_float ? a.f != 0 : a.i != 0);
	return ev_int(t, from_float ? truncate_float(t, a.f) : a.i);
}
