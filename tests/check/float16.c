#include "tests/check/float16.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

static float float_of(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

uint16_t bf16_from_float(float x)
{
	uint32_t u = bits_of(x);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(u >> 16 | 0x40u);
	return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

float bf16_to_float(uint16_t x)
{
	return float_of((uint32_t)x << 16);
}

uint16_t fp16_from_float(float x)
{
	uint16_t sign = (uint16_t)(bits_of(x) >> 16 & 0x8000u);
	float a = fabsf(x);
	if (isnan(x))
		return (uint16_t)(sign | 0x7e00u);
	if (a >= 65520.0f)
		return (uint16_t)(sign | 0x7c00u);
	if (a < 6.103515625e-05f) /* subnormal: multiples of 2^-24; the carry into the exponent is right */
		return (uint16_t)(sign | (uint16_t)lrintf(a * 16777216.0f));
	uint32_t u = bits_of(a);
	u += 0xfffu + (u >> 13 & 1u);
	return (uint16_t)(sign | ((u >> 13) - (112u << 10)));
}

float fp16_to_float(uint16_t x)
{
	int exponent = x >> 10 & 31;
	int fraction = x & 0x3ff;
	float a;
	if (exponent == 31)
		a = fraction ? NAN : INFINITY;
	else if (exponent == 0)
		a = ldexpf((float)fraction, -24);
	else
		a = ldexpf((float)(fraction | 0x400), exponent - 25);
	return x & 0x8000u ? -a : a;
}

void bf16_array_to_float(const uint16_t *in, float *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = bf16_to_float(in[i]);
}
