/* range.c - which numbers types hold, and which keep arithmetic exact. */
#include <math.h>

#include "tests/random/gen/gen.h"

int type_digits(DType t)
{
	switch (t) {
	case DT_BF16: return 8;
	case DT_E4M3: return 4;
	case DT_E5M2: return 3;
	case DT_F16: case DT_TF32: return 11;
	case DT_F32: return 24;
	default: return (int)dtype_bits(t);
	}
}

DType computed(DType t) { return t == DT_TF32 || t == DT_E4M3 || t == DT_E5M2 ? DT_F32 : t; }

double rounding(DType t, double x) { return fabs(x) / (t == DT_E4M3 ? 16 : t == DT_E5M2 ? 8 : 128); }

Range type_range(DType t)
{
	double top = ldexp(1, (int)dtype_bits(t) - dtype_is_signed(t));
	if (t == DT_BOOL)
		return (Range){ 0, 1, 0 };
	if (!dtype_is_float(t))
		return (Range){ dtype_is_signed(t) ? -top : 0, top - 1, 0 };
	if (t == DT_E4M3)
		return (Range){ -240, 240, 6 };
	double limit = t == DT_F16 || t == DT_E5M2 ? 30000 : 1e9;
	return (Range){ -limit, limit, t == DT_F16 || t == DT_E5M2 ? 8 : t == DT_BF16 ? 10 : 20 };
}

Range default_range(Gen *g, DType t)
{
	bool few = t == DT_E4M3 || t == DT_E5M2;
	double m = ldexp(1, rng_between(&g->rng, 2, t == DT_E5M2 ? 2 : t == DT_E4M3 ? 3 : 5));
	int frac = rng_below(&g->rng, t == DT_BF16 || few ? 2 : 4);
	if (t == DT_BOOL)
		return type_range(t);
	if (!dtype_is_float(t))
		return CHANCE(g, 60) ? type_range(t) : (Range){ dtype_is_signed(t) ? -m : 0, m, 0 };
	return (Range){ CHANCE(g, 20) ? 0 : -m, m, frac };
}

bool range_inside(Range a, Range b)
{
	return a.lo >= b.lo && a.hi <= b.hi && a.frac <= b.frac;
}

static double size_of(Range r)
{
	return fmax(fabs(r.lo), fabs(r.hi));
}

bool range_exact(DType t, Range r)
{
	if (!dtype_is_float(t))
		return r.frac == 0 && range_inside(r, type_range(t));
	return ldexp(size_of(r), r.frac) <= ldexp(1, type_digits(t)) && range_fits(t, r);
}

bool range_fits(DType t, Range r)
{
	Range whole = type_range(t);
	return r.lo >= whole.lo && r.hi <= whole.hi && r.frac <= whole.frac;
}

Range range_join(Range a, Range b)
{
	return (Range){ fmin(a.lo, b.lo), fmax(a.hi, b.hi), a.frac > b.frac ? a.frac : b.frac };
}

DType random_type(Gen *g)
{
	static const DType types[] = { DT_F32, DT_F32, DT_F32, DT_BF16, DT_BF16, DT_F16, DT_F16, DT_TF32, DT_E4M3, DT_E5M2, DT_I32, DT_I32, DT_I8, DT_U8,
		DT_I16, DT_U16, DT_U32, DT_I64, DT_U64, DT_BOOL };
	return PICK(g, types);
}

DType random_float(Gen *g)
{
	static const DType types[] = { DT_F32, DT_F32, DT_BF16, DT_F16 };
	return PICK(g, types);
}
