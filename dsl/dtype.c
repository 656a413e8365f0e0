/* dtype.c - names and properties of the element types. */
#include "dsl/dtype.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct DTypeInfo {
	const char *name;
	unsigned bits;
	char kind, over;
	int digits, least;
	double largest;
	DType computed;
} DTypeInfo;

static const DTypeInfo infos[DT_END] = {
	[DT_NONE] = { .name = "none", .kind = 'n' },
#define DTYPE(ID, name, bits, kind, digits, least, largest, over, computed) \
	[DT_##ID] = { name, bits, kind, over, digits, least, largest, DT_##computed },
#include "runtime/abi/dtypes.def"
#undef DTYPE
};

static const DTypeInfo *info(DType t)
{
	return &infos[(unsigned)t < DT_END ? t : DT_NONE];
}

const char *dtype_name(DType t)
{
	return info(t)->name;
}

DType dtype_from_name(const char *name)
{
	for (unsigned i = DT_NONE + 1; i < DT_END; i++) {
		if (strcmp(infos[i].name, name) == 0)
			return (DType)i;
	}
	return DT_NONE;
}

unsigned dtype_bits(DType t)
{
	return info(t)->bits;
}

unsigned dtype_bytes(DType t)
{
	return info(t)->bits / 8;
}

bool dtype_is_float(DType t)
{
	return info(t)->kind == 'f';
}

bool dtype_is_float8(DType t)
{
	return dtype_is_float(t) && dtype_bits(t) == 8;
}

bool dtype_is_int(DType t)
{
	return info(t)->kind == 'i' || info(t)->kind == 'u';
}

bool dtype_is_signed(DType t)
{
	return info(t)->kind == 'i' || info(t)->kind == 'f';
}

DType dtype_computed(DType t)
{
	return info(t)->computed;
}

double dtype_largest(DType t)
{
	return info(t)->largest;
}

double dtype_round(DType t, double v)
{
	const DTypeInfo *f = info(t);
	int e;

	if (isnan(v) || v == 0)
		return v;
	double beyond = copysign(f->over == 'l' ? f->largest : INFINITY, v);
	if (isinf(v))
		return beyond;
	(void)frexp(v, &e); /* |v| in [2^(e-1), 2^e) */
	if (e <= f->least)
		e = f->least + 1;
	double r = ldexp(nearbyint(ldexp(v, f->digits - e)), e - f->digits);
	return fabs(r) > f->largest ? beyond : r;
}

bool dtype_holds(DType t, double v)
{
	return info(t)->over == 'l' ? fabs(v) <= info(t)->largest : isfinite(dtype_round(t, v));
}
