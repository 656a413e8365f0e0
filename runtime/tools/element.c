/* element.c - elements of tensors and of .npy files as doubles. */
#include "runtime/tools/element.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/src/float16.h"

static int64_t load_integer(const void *p, size_t bytes, bool is_signed)
{
	uint64_t v = 0;

	memcpy(&v, p, bytes); /* little-endian */
	if (is_signed && bytes < 8 && v >> (8 * bytes - 1))
		v |= ~UINT64_C(0) << (8 * bytes);
	return (int64_t)v;
}

static double load_integer_double(const void *p, size_t bytes, bool is_signed)
{
	int64_t v = load_integer(p, bytes, is_signed);

	return is_signed ? (double)v : (double)(uint64_t)v;
}

static double load_float(const void *p, size_t bytes)
{
	uint16_t h;
	float f;
	double d;

	switch (bytes) {
	case 2: memcpy(&h, p, sizeof h); return rt_from_f16(h);
	case 4: memcpy(&f, p, sizeof f); return f;
	default: memcpy(&d, p, sizeof d); return d;
	}
}

static double load_bf16(const void *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof h);
	return rt_from_bf16(h);
}

double element_get(tilert_dtype t, const void *data, size_t i)
{
	size_t bytes = tilert_dtype_size(t);
	const char *p = (const char *)data + i * bytes;

	switch (t) {
	case TILERT_BOOL:
	case TILERT_U8:
	case TILERT_U16:
	case TILERT_U32:
	case TILERT_U64: return load_integer_double(p, bytes, false);
	case TILERT_I8:
	case TILERT_I16:
	case TILERT_I32:
	case TILERT_I64: return load_integer_double(p, bytes, true);
	case TILERT_BF16: return load_bf16(p);
	case TILERT_F16:
	case TILERT_TF32:
	case TILERT_F32: return load_float(p, bytes);
	}
	return NAN;
}

bool element_is_integer(tilert_dtype t)
{
	return t >= TILERT_BOOL && t <= TILERT_U64;
}

/* As C converts, but without undefined behaviour out of range. */
static uint64_t to_integer(tilert_dtype t, double v)
{
	bool is_signed = t >= TILERT_I8 && t <= TILERT_I64;
	int bits = (int)(8 * tilert_dtype_size(t)) - is_signed;
	double high = ldexp(1, bits);

	if (t == TILERT_BOOL)
		return v != 0;
	v = trunc(v);
	if (isnan(v))
		return 0;
	if (v >= high)
		return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	if (is_signed)
		return (uint64_t)(int64_t)(v < -high ? -high : v);
	return v < 0 ? 0 : (uint64_t)v;
}

void element_set(tilert_dtype t, void *data, size_t i, double v)
{
	size_t bytes = tilert_dtype_size(t);
	char *p = (char *)data + i * bytes;
	uint64_t integer;
	uint16_t half = t == TILERT_BF16 ? rt_to_bf16((float)v) : rt_to_f16((float)v);
	float single = (float)v;

	if (element_is_integer(t)) {
		integer = to_integer(t, v);
		memcpy(p, &integer, bytes);
	} else if (bytes == 2) {
		memcpy(p, &half, bytes);
	} else {
		memcpy(p, &single, bytes);
	}
}

/* ml_dtypes' bfloat16, or the bits of one. */
static bool has_bf16(const Npy *n, tilert_dtype as)
{
	return n->item_bytes == 2 && (n->kind == 'V' || (n->kind == 'u' && as == TILERT_BF16));
}

double element_get_npy(const Npy *n, size_t i, tilert_dtype as)
{
	const char *p = (const char *)n->data + i * n->item_bytes;

	if (n->kind == 'f')
		return load_float(p, n->item_bytes);
	if (has_bf16(n, as))
		return load_bf16(p);
	return load_integer_double(p, n->item_bytes, n->kind == 'i');
}

void element_npy_type(tilert_dtype t, char *kind, unsigned *item_bytes)
{
	*item_bytes = (unsigned)tilert_dtype_size(t);
	if (t == TILERT_BF16)
		*item_bytes = 4;
	*kind = t == TILERT_BOOL                          ? 'b'
	        : t >= TILERT_I8 && t <= TILERT_I64 ? 'i'
	        : t >= TILERT_U8 && t <= TILERT_U64 ? 'u'
	                                            : 'f';
}

bool element_from_npy(const Npy *n, tilert_dtype t, void *out)
{
	char kind;
	unsigned item_bytes;

	element_npy_type(t, &kind, &item_bytes);
	bool raw_bf16 = t == TILERT_BF16 && has_bf16(n, t);
	if (!raw_bf16 && (n->kind != kind || n->item_bytes != item_bytes))
		return false;
	if (t != TILERT_BF16 || raw_bf16) {
		memcpy(out, n->data, n->count * n->item_bytes);
		return true;
	}
	for (size_t i = 0; i < n->count; i++)
		element_set(t, out, i, element_get_npy(n, i, t));
	return true;
}
