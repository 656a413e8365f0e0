/* data.c - inputs and digests of tensors: the same here and where a pack runs. */
#include "tests/random/data.h"

#include <math.h>
#include <string.h>

#include "tests/random/model/number.h"

static Num random_number(Rng *r, DType t, Range range)
{
	if (!dtype_is_float(t) && range.hi - range.lo > 0x1p52)
		return num_int(t, (int64_t)rng_next(r));
	double steps = ldexp(range.hi - range.lo, range.frac);
	double v = range.lo + ldexp(floor(((double)(rng_next(r) >> 11) * 0x1p-53) * (steps + 1)), -range.frac);
	return dtype_is_float(t) ? num_float(t, v) : num_int(t, (int64_t)v);
}

void tensor_fill(const Program *p, int k, unsigned char *bytes)
{
	const TensorParam *t = &p->tensor[k];
	Rng r = { p->seed * 1000003 + (uint64_t)k };
	if (t->dir == 2)
		return;
	for (int64_t n = 0; n < tensor_elements(t); n++)
		num_encode(t->type, random_number(&r, t->type, t->range), bytes + n * dtype_bytes(t->type));
}

int64_t tensor_elements(const TensorParam *t)
{
	int64_t n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= t->extents[d];
	return n;
}

bool is_minus_zero(DType t, const unsigned char *element)
{
	if (!dtype_is_float(t))
		return false;
	for (unsigned k = 0; k + 1 < dtype_bytes(t); k++)
		if (element[k])
			return false;
	return element[dtype_bytes(t) - 1] == 0x80;
}

uint64_t tensor_digest(const TensorParam *t, const unsigned char *bytes)
{
	static const unsigned char zero[8];
	uint64_t h = 14695981039346656037u;
	unsigned size = dtype_bytes(t->type);
	for (int64_t n = 0; n < tensor_elements(t); n++) {
		const unsigned char *x = is_minus_zero(t->type, bytes + n * size) ? zero : bytes + n * size;
		for (unsigned k = 0; k < size; k++)
			h = (h ^ x[k]) * 1099511628211u;
	}
	return h;
}
