/* float16.h - conversions between f32 and the 16-bit floats, to nearest even. */
#ifndef TILE_RUNTIME_FLOAT16_H
#define TILE_RUNTIME_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline uint32_t rt_float_bits(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

static inline float rt_bits_float(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

static inline float rt_from_bf16(uint16_t h)
{
	return rt_bits_float((uint32_t)h << 16);
}

static inline uint16_t rt_to_bf16(float x)
{
	uint32_t u = rt_float_bits(x);

	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)((u >> 16) | 0x40u); /* stay a NaN when the payload is cut */
	return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float rt_from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
	uint32_t exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;

	if (exponent == 31)
		return rt_bits_float(sign | 0x7f800000u | mantissa << 13);
	if (exponent)
		return rt_bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
	/* subnormal: mantissa * 2^-24, exact in f32 */
	float x = (float)mantissa * 0x1p-24f;
	return sign ? -x : x;
}

static inline uint16_t rt_to_f16(float x)
{
	uint32_t u = rt_float_bits(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;

	if (a > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00u);
	if (a >= 0x477ff000u) /* 65520 and above round to infinity */
		return (uint16_t)(sign | 0x7c00u);
	if (a >= 0x38800000u) { /* normal: 2^-14 and above */
		a -= 112u << 23;
		return (uint16_t)(sign | (a + 0xfffu + ((a >> 13) & 1u)) >> 13);
	}
	/* subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low mantissa bits */
	return (uint16_t)(sign | (rt_float_bits(rt_bits_float(a) + 0.5f) - 0x3f000000u));
}

#endif
