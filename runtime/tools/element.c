/* element.c - elements of tensors and of .npy files as doubles. */
#include "runtime/tools/element.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/src/dtype.h"
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
	case TILERT_E4M3:
	case TILERT_E5M2: return float8_to(rt_float8(t), *(const uint8_t *)p);
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
	} else if (rt_float8(t)) {
		*(uint8_t *)p = float8_from(rt_float8(t), single);
	} else if (bytes == 2) {
		memcpy(p, &half, bytes);
	} else {
		memcpy(p, &single, bytes);
	}
}

/* NumPy has no such type: its own files have f4. */
static bool is_foreign(tilert_dtype t)
{
	return t == TILERT_BF16 || rt_float8(t);
}

/* What NumPy makes of ml_dtypes' types - V2 is bfloat16, V1 float8_e4m3fn, f1 float8_e5m2 - or the bits of one. */
static bool has_bits(const Npy *n, tilert_dtype as)
{
	char kind = as == TILERT_E5M2 ? 'f' : 'V';

	return is_foreign(as) && n->item_bytes == tilert_dtype_size(as) && (n->kind == kind || n->kind == 'u');
}

double element_get_npy(const Npy *n, size_t i, tilert_dtype as)
{
	const char *p = (const char *)n->data + i * n->item_bytes;

	if (has_bits(n, as))
		return element_get(as, p, 0);
	if (n->kind == 'f' && n->item_bytes == 1)
		return element_get(TILERT_E5M2, p, 0);
	if (n->kind == 'V')
		return element_get(n->item_bytes == 1 ? TILERT_E4M3 : TILERT_BF16, p, 0);
	if (n->kind == 'f')
		return load_float(p, n->item_bytes);
	return load_integer_double(p, n->item_bytes, n->kind == 'i');
}

bool element_is_same_integer(tilert_dtype t, const void *data, const Npy *n, size_t i)
{
	size_t bytes = tilert_dtype_size(t);
	bool is_signed = t >= TILERT_I8 && t <= TILERT_I64, other_is = n->kind == 'i';
	int64_t x = load_integer((const char *)data + i * bytes, bytes, is_signed);
	int64_t y = load_integer((const char *)n->data + i * n->item_bytes, n->item_bytes, other_is);

	return x == y && (x >= 0 || is_signed == other_is);
}

void element_npy_type(tilert_dtype t, char *kind, unsigned *item_bytes)
{
	*item_bytes = is_foreign(t) ? 4 : (unsigned)tilert_dtype_size(t);
	*kind = t == TILERT_BOOL                          ? 'b'
	        : t >= TILERT_I8 && t <= TILERT_I64 ? 'i'
	        : t >= TILERT_U8 && t <= TILERT_U64 ? 'u'
	                                            : 'f';
}

bool element_from_npy(const Npy *n, tilert_dtype t, void *out)
{
	char kind;
	unsigned item_bytes;
	bool raw = has_bits(n, t);

	element_npy_type(t, &kind, &item_bytes);
	if (!raw && (n->kind != kind || n->item_bytes != item_bytes))
		return false;
	if (!is_foreign(t) || raw) {
		memcpy(out, n->data, n->count * n->item_bytes);
		return true;
	}
	for (size_t i = 0; i < n->count; i++)
		element_set(t, out, i, element_get_npy(n, i, t));
	return true;
}
