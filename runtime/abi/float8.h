/* float8.h - conversions between f32 and the 8-bit floats of dtypes.def.
 *
 * e4m3: 4 bits of exponent, 3 of mantissa, no infinity, one NaN of each sign; e5m2: the upper half of an f16.  Numbers beyond the
 * largest become the largest, infinity too, as the GPU's conversions have it.
 */
#ifndef TILE_ABI_FLOAT8_H
#define TILE_ABI_FLOAT8_H

#include <stdint.h>
#include <string.h>

typedef struct Float8 {
	int mantissa, bias; /* bits; of the exponent */
	uint8_t largest;    /* the bits of the largest number */
} Float8;

static const Float8 float8_e4m3 = { 3, 7, 0x7e }, float8_e5m2 = { 2, 15, 0x7b };

static inline uint32_t float8_word(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

static inline float float8_float(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

static inline uint8_t float8_from(const Float8 *f, float x)
{
	uint32_t u = float8_word(x), a = u & 0x7fffffffu, sign = u >> 24 & 0x80u, shift = (uint32_t)(23 - f->mantissa);

	if (a > 0x7f800000u)
		return 0x7f;
	if (a < (uint32_t)(128 - f->bias) << 23) { /* subnormal: adding leaves the rounded multiple of the least number in the low bits */
		uint32_t up = (uint32_t)(151 - f->bias - f->mantissa) << 23;
		return (uint8_t)(sign | (float8_word(float8_float(a) + float8_float(up)) - up));
	}
	a -= (uint32_t)(127 - f->bias) << 23;
	a = (a + (UINT32_C(1) << (shift - 1)) - 1 + (a >> shift & 1)) >> shift;
	return (uint8_t)(sign | (a < f->largest ? a : f->largest));
}

/* The exponent is corrected by a multiplication, which also makes subnormals right. */
static inline float float8_to(const Float8 *f, uint8_t bits)
{
	uint32_t magnitude = bits & 0x7fu, sign = (uint32_t)(bits & 0x80u) << 24;

	if (magnitude > f->largest) /* e5m2 has an infinity behind the largest number */
		return float8_float(sign | (f->mantissa == 2 && magnitude == f->largest + 1u ? 0x7f800000u : 0x7fc00000u));
	float x = float8_float(magnitude << (23 - f->mantissa)) * float8_float((uint32_t)(254 - f->bias) << 23);
	return float8_float(sign | float8_word(x));
}

#endif
