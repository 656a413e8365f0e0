/* expr.c - random expressions with their type and range. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/gen/gen.h"

Ex ex_make(DType t, Range r, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	size_t n = (size_t)vsnprintf(NULL, 0, fmt, ap) + 1;
	Ex e = { .s = malloc(n), .type = t, .range = r };
	if (!e.s)
		abort();
	vsnprintf(e.s, n, fmt, again);
	va_end(ap);
	va_end(again);
	return e;
}

void ex_free(Ex *e)
{
	free(e->s);
	e->s = NULL;
}

/* The text of e inside fmt, once. */
static Ex wrap(Ex e, DType t, Range r, const char *fmt)
{
	Ex out = ex_make(t, r, fmt, e.s);
	out.uniform = e.uniform;
	out.places = e.places;
	ex_free(&e);
	return out;
}

static Ex wrap2(Ex a, Ex b, DType t, Range r, const char *fmt)
{
	Ex out = ex_make(t, r, fmt, a.s, b.s);
	out.uniform = a.uniform && b.uniform;
	out.places = a.places && b.places;
	ex_free(&a);
	ex_free(&b);
	return out;
}

static Ex keep(Ex a, Ex b)
{
	ex_free(&b);
	return a;
}

/* ---- leaves ---- */

static Ex literal_int(Gen *g, DType t, Range r)
{
	double lo = fmax(r.lo, -100), hi = fmin(r.hi, 100);
	int v = rng_between(&g->rng, (int)lo, (int)hi);
	Ex e = ex_make(t, (Range){ v, v, 0 }, v < 0 ? "(%d)" : "%d", v);
	e.literal = e.uniform = e.places = true;
	return e;
}

static Ex literal(Gen *g, DType t)
{
	if (t == DT_BOOL) {
		Ex e = ex_make(t, (Range){ 0, 1, 0 }, CHANCE(g, 50) ? "true" : "false");
		e.uniform = true;
		return e;
	}
	if (dtype_is_float(t)) {
		int v = rng_between(&g->rng, -16, 16);
		Ex e = ex_make(t, (Range){ v / 4.0, v / 4.0, 2 }, "%s(%g)", dtype_name(t), v / 4.0);
		e.uniform = true;
		return e;
	}
	Ex e = literal_int(g, t, type_range(t));
	e.literal = false;
	return wrap(e, t, e.range, t == DT_I8 ? "i8(%s)" : t == DT_I16 ? "i16(%s)" : t == DT_I32 ? "i32(%s)" : t == DT_I64 ? "i64(%s)" :
		t == DT_U8 ? "u8(%s)" : t == DT_U16 ? "u16(%s)" : t == DT_U32 ? "u32(%s)" : "u64(%s)");
}

static int pick_var(Gen *g, bool uniform)
{
	for (int tries = 0; tries < 8 && g->nvars; tries++) {
		int k = rng_below(&g->rng, g->nvars);
		const Var *v = &g->var[k];
		if (!v->gone && (v->uniform || !uniform))
			return k;
	}
	return -1;
}

static Ex leaf(Gen *g)
{
	bool uniform_only = g->loop != NULL || !g->threads_differ;
	int k = CHANCE(g, 30) ? pick_var(g, uniform_only) : -1;
	if (k >= 0) {
		Ex e = ex_make(g->var[k].type, g->var[k].range, "%s", g->var[k].name);
		e.uniform = g->var[k].uniform;
		e.places = true; /* it may hold one */
		return e;
	}
	if (g->loop && CHANCE(g, 75))
		return element_leaf(g);
	if (g->loop && CHANCE(g, 50)) {
		int n = rng_below(&g->rng, g->loop->rank);
		Ex e = ex_make(DT_I32, (Range){ 0, (double)g->loop->ext[n] - 1, 0 }, "%s", g->loop->index[n]);
		e.places = true;
		return e;
	}
	if (g->threads_differ && !g->loop && CHANCE(g, 40)) {
		int n = rng_below(&g->rng, 3);
		Ex e = ex_make(DT_I32, (Range){ 0, n == 0 ? 32 * g->warps - 1 : n == 1 ? 31 : g->warps - 1, 0 },
			n == 0 ? "thread()" : n == 1 ? "lane()" : "warp()");
		e.places = true;
		return e;
	}
	if (CHANCE(g, 20)) {
		Ex e = literal_int(g, DT_I32, (Range){ -9, 9, 0 });
		return e;
	}
	return literal(g, random_type(g));
}

/* ---- conversions ---- */

static Ex cast(Ex e, DType t, Range r)
{
	char fmt[24];
	snprintf(fmt, sizeof fmt, "%s(%%s)", dtype_name(t));
	return wrap(e, t, r, fmt);
}

static Ex clamp(Ex e, Range r)
{
	char fmt[160];
	DType t = e.type;
	if (dtype_is_float(t)) {
		snprintf(fmt, sizeof fmt, "min(max(%%s, %s(%.17g)), %s(%.17g))", dtype_name(t), r.lo, dtype_name(t), r.hi);
		t = computed(t);
	} else
		snprintf(fmt, sizeof fmt, "min(max(%%s, %s(%lld)), %s(%lld))", dtype_name(t), (long long)r.lo, dtype_name(t), (long long)r.hi);
	return wrap(e, t, (Range){ fmax(e.range.lo, r.lo) > r.hi ? r.lo : fmax(e.range.lo, r.lo), fmin(e.range.hi, r.hi) < r.lo ? r.hi : fmin(e.range.hi, r.hi),
		e.range.frac }, fmt);
}

/* Both sides in 40 bits, so that 64-bit integers have a bound that literals can say. */
static Range narrow(DType t, Range r)
{
	Range whole = type_range(t);
	Range n = { fmax(r.lo, whole.lo), fmin(r.hi, whole.hi), r.frac };
	n.lo = fmax(n.lo, -1e9);
	n.hi = fmin(n.hi, 1e9);
	/* limits that the type has */
	if (dtype_is_float(t)) {
		double step = ldexp(1, -(t == DT_BF16 || dtype_bits(t) == 8 ? 0 : 2));
		n.lo = ceil(n.lo / step) * step;
		n.hi = floor(n.hi / step) * step;
		int digits = type_digits(t) - 1;
		if (fabs(n.hi) > ldexp(1, digits))
			n.hi = ldexp(1, (int)floor(log2(n.hi)));
		if (fabs(n.lo) > ldexp(1, digits))
			n.lo = -ldexp(1, (int)floor(log2(-n.lo)));
	} else {
		n.lo = ceil(n.lo);
		n.hi = floor(n.hi);
	}
	return n;
}

static Ex drop_fraction(Ex e, int frac)
{
	if (e.range.frac <= frac)
		return e;
	Range r = { floor(e.range.lo), ceil(e.range.hi), 0 };
	return wrap(e, computed(e.type), r, "floor(%s)");
}

static Range saturated(Range r, Range whole)
{
	r.lo = fmin(fmax(r.lo, whole.lo), whole.hi);
	r.hi = fmin(fmax(r.hi, whole.lo), whole.hi);
	return r;
}

/* To type t. */
static Ex convert_to(Gen *g, Ex e, DType t)
{
	if (e.type == t)
		return e;
	if (t == DT_BOOL)
		return wrap(e, t, (Range){ 0, 1, 0 }, CHANCE(g, 50) ? "bool(%s)" : "(%s != 0)");
	if (e.type == DT_BOOL)
		return cast(e, t, (Range){ 0, 1, 0 });
	if (!dtype_is_float(e.type) && !dtype_is_float(t))
		return cast(e, t, range_inside(e.range, type_range(t)) ? e.range : type_range(t));
	Range r = e.range;
	if (!dtype_is_float(t)) {
		r = (Range){ trunc(r.lo), trunc(r.hi), 0 };
		if (!range_inside(r, type_range(t)) && CHANCE(g, 60)) /* the nearest that there is */
			return cast(e, t, saturated(r, type_range(t)));
		if (!range_inside(r, type_range(t))) {
			e = clamp(e, narrow(e.type, type_range(t)));
			r = (Range){ trunc(e.range.lo), trunc(e.range.hi), 0 };
		}
		return cast(e, t, r);
	}
	if (!range_fits(t, r)) {
		if (dtype_is_float(e.type))
			e = drop_fraction(e, type_range(t).frac);
		e = clamp(e, narrow(e.type, type_range(t)));
		r = e.range;
	}
	if (!range_exact(t, r)) /* rounding goes outward by less than this */
		r = (Range){ r.lo - rounding(t, r.lo), r.hi + rounding(t, r.hi), r.frac };
	return cast(e, t, r);
}

Ex ex_into(Gen *g, Ex e, DType t, Range r)
{
	e = convert_to(g, e, t);
	if (t == DT_BOOL || range_inside(e.range, r))
		return e;
	if (dtype_is_float(t))
		e = drop_fraction(e, r.frac);
	if (!range_inside(e.range, r))
		e = clamp(e, r);
	return e.type == t ? e : cast(e, t, e.range);
}

/* ---- operators ---- */

/* The type of mixed arithmetic (LANGUAGE 2); DT_NONE: not allowed. */
static DType mixed(Ex a, Ex b)
{
	DType s = a.type, t = b.type;
	bool fs = dtype_is_float(s), ft = dtype_is_float(t);
	if (a.literal != b.literal && !dtype_is_float(a.literal ? s : t)) {
		DType other = a.literal ? t : s;
		Range r = a.literal ? a.range : b.range;
		if (dtype_is_float(other) || range_inside(r, type_range(other)))
			return computed(other);
	}
	if (s == DT_BOOL || t == DT_BOOL)
		return s == t ? s : DT_NONE;
	if (fs && ft) {
		s = computed(s);
		t = computed(t);
		return s == t ? s : s == DT_F32 || t == DT_F32 ? DT_F32 : DT_NONE;
	}
	if (fs || ft)
		return computed(fs ? s : t);
	if (dtype_bits(s) != dtype_bits(t))
		return dtype_bits(s) > dtype_bits(t) ? s : t;
	return dtype_is_signed(s) ? t : s;
}

/* An operand's range once it has type t by the language's own conversion; false: it does not fit. */
static bool implied(Ex *e, DType t)
{
	if (!dtype_is_float(t)) {
		if (!range_inside(e->range, type_range(t)))
			e->range = type_range(t);
		return true;
	}
	return range_exact(t, e->range);
}

/* Brings both to one type, by itself or as the language does; DT_NONE: they cannot. */
static DType unify(Gen *g, Ex *a, Ex *b)
{
	DType t = mixed(*a, *b);
	Ex x = *a, y = *b;
	if (t != DT_NONE && (a->literal && b->literal))
		t = DT_NONE;
	if (t != DT_NONE && implied(&x, t) && implied(&y, t)) {
		a->range = x.range;
		b->range = y.range;
		return t;
	}
	t = computed(a->type);
	if (t == DT_BOOL)
		t = DT_I32;
	*a = convert_to(g, *a, t);
	*b = convert_to(g, *b, t);
	return t;
}

static Range int_result(DType t, double lo, double hi)
{
	Range r = { lo, hi, 0 };
	return range_inside(r, type_range(t)) && fabs(lo) < 0x1p52 && fabs(hi) < 0x1p52 ? r : type_range(t);
}

static Range corners(Range a, Range b)
{
	double p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
	return (Range){ fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s)), a.frac + b.frac };
}

static Ex arithmetic(Gen *g, Ex a, Ex b)
{
	DType t = unify(g, &a, &b);
	int op = rng_below(&g->rng, 3);
	if (t == DT_BOOL)
		return wrap2(a, b, t, a.range, op ? "(%s & %s)" : "(%s ^ %s)");
	static const char *const text[] = { "(%s + %s)", "(%s - %s)", "(%s * %s)" };
	Range r = op == 0 ? (Range){ a.range.lo + b.range.lo, a.range.hi + b.range.hi, 0 }
		: op == 1 ? (Range){ a.range.lo - b.range.hi, a.range.hi - b.range.lo, 0 } : corners(a.range, b.range);
	if (!dtype_is_float(t) && !range_inside(r, type_range(t)) && a.places && b.places)
		return keep(a, b);
	if (!dtype_is_float(t))
		return wrap2(a, b, t, int_result(t, r.lo, r.hi), text[op]);
	if (op < 2)
		r.frac = a.range.frac > b.range.frac ? a.range.frac : b.range.frac;
	/* products must be exact: they may be fused with a sum */
	if (!range_fits(t, r) || (op == 2 && !range_exact(t, r)))
		return keep(a, b);
	if (!range_exact(t, r))
		r = (Range){ r.lo - fabs(r.lo) / 128, r.hi + fabs(r.hi) / 128, r.frac };
	return wrap2(a, b, t, r, text[op]);
}

static Ex extreme(Gen *g, Ex a, Ex b)
{
	DType t = unify(g, &a, &b);
	if (t == DT_BOOL)
		return keep(a, b);
	bool min = CHANCE(g, 50);
	Range r = { min ? fmin(a.range.lo, b.range.lo) : fmax(a.range.lo, b.range.lo),
		min ? fmin(a.range.hi, b.range.hi) : fmax(a.range.hi, b.range.hi), a.range.frac > b.range.frac ? a.range.frac : b.range.frac };
	return wrap2(a, b, t, r, min ? "min(%s, %s)" : "max(%s, %s)");
}

static Ex bits(Gen *g, Ex a, Ex b)
{
	static const char *const text[] = { "(%s & %s)", "(%s | %s)", "(%s ^ %s)" };
	if (dtype_is_float(a.type))
		a = convert_to(g, a, DT_I32);
	if (dtype_is_float(b.type))
		b = convert_to(g, b, DT_I32);
	DType t = unify(g, &a, &b);
	if (a.type == DT_BOOL) /* not beside integers, though constants agree */
		a = convert_to(g, a, t);
	if (b.type == DT_BOOL)
		b = convert_to(g, b, t);
	return wrap2(a, b, t, type_range(t), PICK(g, text));
}

/* By any count: what goes out is gone. */
static Ex shift_by(Gen *g, Ex a)
{
	Ex b = convert_to(g, ex_any(g, 1), PICK(g, ((DType[]){ DT_I32, DT_I8, DT_U16, DT_I64 })));
	Ex e = ex_make(a.type, type_range(a.type), CHANCE(g, 50) ? "(%s(%s) << %s)" : "(%s(%s) >> %s)", dtype_name(a.type), a.s, b.s);
	e.uniform = a.uniform && b.uniform;
	ex_free(&a);
	ex_free(&b);
	return e;
}

static Ex shift(Gen *g, Ex a)
{
	if (dtype_is_float(a.type) || a.type == DT_BOOL)
		a = convert_to(g, a, DT_I32);
	a.literal = false;
	if (CHANCE(g, 40))
		return shift_by(g, a);
	bool left = CHANCE(g, 50);
	int n = rng_below(&g->rng, (int)dtype_bits(a.type));
	Range r = left || a.range.lo < 0 ? type_range(a.type) : (Range){ 0, a.range.hi, 0 };
	Ex e = ex_make(a.type, r, "(%s(%s) %s %d)", dtype_name(a.type), a.s, left ? "<<" : ">>", n);
	e.uniform = a.uniform;
	e.places = a.places;
	ex_free(&a);
	return e;
}

/* Zero divides as one does. */
static Ex divide_by(Gen *g, Ex a)
{
	Ex b = convert_to(g, ex_any(g, 1), PICK(g, ((DType[]){ DT_I32, DT_I8, DT_U8, DT_U64 })));
	if (b.places) { /* taken not to be zero */
		ex_free(&b);
		return a;
	}
	DType t = unify(g, &a, &b);
	return wrap2(a, b, t, type_range(t), CHANCE(g, 50) ? "(%s / %s)" : "(%s %% %s)");
}

static Ex divide(Gen *g, Ex a)
{
	if (dtype_is_float(a.type) || a.type == DT_BOOL)
		a = convert_to(g, a, DT_I32);
	a.literal = false;
	if (CHANCE(g, 40))
		return divide_by(g, a);
	DType t = a.type;
	int n = rng_between(&g->rng, 1, 20);
	bool rest = CHANCE(g, 50);
	double size = fmax(fabs(a.range.lo), fabs(a.range.hi));
	Range r = rest ? (Range){ a.range.lo < 0 ? -(n - 1) : 0, n - 1, 0 } : (Range){ a.range.lo < 0 ? -floor(size / n) : 0, floor(size / n), 0 };
	r = range_inside(r, type_range(t)) ? r : type_range(t);
	Ex e = ex_make(t, r, "(%s(%s) %s %d)", dtype_name(t), a.s, rest ? "%" : "/", n);
	e.uniform = a.uniform;
	e.places = a.places;
	ex_free(&a);
	return e;
}

static Ex unary(Gen *g, Ex a)
{
	DType t = a.type;
	a.literal = false;
	if (t == DT_BOOL)
		return wrap(a, t, a.range, "(!%s)");
	if ((t == DT_I32 || t == DT_U32) && CHANCE(g, 15)) {
		DType other = t == DT_I32 ? DT_U32 : DT_I32;
		return wrap(a, other, range_inside(a.range, type_range(other)) ? a.range : type_range(other), t == DT_I32 ? "bitcast(u32, %s)" : "bitcast(i32, %s)");
	}
	if (!dtype_is_float(t) && CHANCE(g, 40)) {
		char fmt[32];
		snprintf(fmt, sizeof fmt, "(~%s(%%s))", dtype_name(t));
		return wrap(a, t, type_range(t), fmt);
	}
	if (computed(t) != t)
		return a;
	double size = fmax(fabs(a.range.lo), fabs(a.range.hi));
	char fmt[32];
	if (dtype_is_float(t) && CHANCE(g, 30))
		return wrap(a, t, (Range){ floor(a.range.lo), ceil(a.range.hi), 0 }, "floor(%s)");
	if (CHANCE(g, 50)) {
		snprintf(fmt, sizeof fmt, "(-%s(%%s))", dtype_name(t));
		return wrap(a, t, dtype_is_float(t) ? (Range){ -a.range.hi, -a.range.lo, a.range.frac } : int_result(t, -a.range.hi, -a.range.lo), fmt);
	}
	snprintf(fmt, sizeof fmt, "abs(%s(%%s))", dtype_name(t));
	return wrap(a, t, dtype_is_float(t) ? (Range){ 0, size, a.range.frac } : int_result(t, 0, size), fmt);
}

static Ex choose(Gen *g, Ex c, Ex a, Ex b)
{
	DType t = unify(g, &a, &b);
	Ex e = ex_make(t, range_join(a.range, b.range), "(%s ? %s : %s)", c.s, a.s, b.s);
	e.uniform = a.uniform && b.uniform && c.uniform;
	e.places = a.places && b.places;
	ex_free(&a);
	ex_free(&b);
	ex_free(&c);
	return e;
}

static Ex fused(Gen *g, Ex a, Ex b)
{
	if (!dtype_is_float(a.type) || !dtype_is_float(b.type))
		return arithmetic(g, a, b);
	DType t = unify(g, &a, &b);
	Ex c = ex_make(t, (Range){ 3, 3, 0 }, "%s(3.0)", dtype_name(t));
	Range p = corners(a.range, b.range), r = { p.lo + 3, p.hi + 3, p.frac };
	bool ok = range_exact(t, p) && range_exact(t, r);
	Ex e = ok ? ex_make(t, r, "fma(%s, %s, %s)", a.s, b.s, c.s) : ex_make(a.type, a.range, "%s", a.s);
	e.uniform = a.uniform && b.uniform;
	ex_free(&a);
	ex_free(&b);
	ex_free(&c);
	return e;
}

Ex ex_condition(Gen *g, int depth)
{
	static const char *const preds[] = { "(%s < %s)", "(%s <= %s)", "(%s > %s)", "(%s >= %s)", "(%s == %s)", "(%s != %s)" };
	if (depth > 1 && CHANCE(g, 25))
		return wrap2(ex_condition(g, depth - 1), ex_condition(g, depth - 1), DT_BOOL, (Range){ 0, 1, 0 }, CHANCE(g, 50) ? "(%s && %s)" : "(%s || %s)");
	Ex a = ex_any(g, depth - 1), b = ex_any(g, depth > 1 ? 1 : 0);
	if (a.type == DT_BOOL && CHANCE(g, 60))
		return keep(a, b);
	DType t = unify(g, &a, &b);
	return wrap2(a, b, DT_BOOL, (Range){ 0, 1, 0 }, t == DT_BOOL ? preds[4 + rng_below(&g->rng, 2)] : PICK(g, preds));
}

Ex ex_any(Gen *g, int depth)
{
	if (depth <= 0)
		return leaf(g);
	int kind = rng_below(&g->rng, 100);
	Ex a = ex_any(g, depth - 1);
	if (kind < 40)
		return arithmetic(g, a, ex_any(g, depth - 1));
	if (kind < 50)
		return extreme(g, a, ex_any(g, depth - 1));
	if (kind < 58)
		return unary(g, a);
	if (kind < 66)
		return convert_to(g, a, random_type(g));
	if (kind < 72)
		return bits(g, a, ex_any(g, depth - 1));
	if (kind < 77)
		return shift(g, a);
	if (kind < 82)
		return divide(g, a);
	if (kind < 90)
		return choose(g, ex_condition(g, depth - 1), a, ex_any(g, depth - 1));
	if (kind < 94)
		return fused(g, a, ex_any(g, depth - 1));
	return a;
}

Ex ex_of_type(Gen *g, DType t, int depth)
{
	return convert_to(g, ex_any(g, depth), t);
}

Ex ex_uniform_int(Gen *g, int lo, int hi)
{
	int k = pick_var(g, true);
	if (k < 0 || CHANCE(g, 40) || g->var[k].type != DT_I32) {
		Ex e = ex_make(DT_I32, (Range){ lo, hi, 0 }, "%d", rng_between(&g->rng, lo, hi));
		e.uniform = true;
		return e;
	}
	Ex e = ex_make(DT_I32, (Range){ lo, hi, 0 }, "(%d + (%s & %d))", lo, g->var[k].name, 0);
	ex_free(&e);
	int mask = 0;
	while (2 * mask + 1 <= hi - lo)
		mask = 2 * mask + 1;
	e = ex_make(DT_I32, (Range){ lo, hi, 0 }, "(%d + (%s & %d))", lo, g->var[k].name, mask);
	e.uniform = true;
	return e;
}
