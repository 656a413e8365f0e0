/* symbols.c - the functions that compiled code calls: this library's, some of libm's, conversions of 16-bit floats. */
#include "runtime/cpu/symbols.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/abi/cpu_abi.h"
#include "runtime/src/float16.h"

/* 16-bit floats travel in the low bits of a vector register: a float whose low half they are. */

static float in_low_half(uint16_t bits)
{
	return rt_bits_float(bits);
}

static float truncate_to_bf16(float x)
{
	return in_low_half(rt_to_bf16(x));
}

static float truncate_to_f16(float x)
{
	return in_low_half(rt_to_f16(x));
}

/* From double in one rounding: the float is rounded to odd first. */
static float round_to_odd(double x)
{
	float y = (float)x;
	uint32_t bits = rt_float_bits(y);

	if ((double)y == x || isnan(x) || isinf(x))
		return y;
	if (fabs((double)y) > fabs(x))
		bits--;
	return rt_bits_float(bits | 1);
}

static float truncate_double_to_bf16(double x)
{
	return truncate_to_bf16(round_to_odd(x));
}

static float truncate_double_to_f16(double x)
{
	return truncate_to_f16(round_to_odd(x));
}

static float extend_f16(float half)
{
	return rt_from_f16((uint16_t)rt_float_bits(half));
}

static float extend_f16_integer(uint16_t half)
{
	return rt_from_f16(half);
}

static uint16_t truncate_to_f16_integer(float x)
{
	return rt_to_f16(x);
}

typedef void (*AnyFunction)(void);

typedef struct SymbolRow {
	const char *name;
	AnyFunction address;
} SymbolRow;

#define ROW(name) { #name, (AnyFunction)name },
#define CPU_ROW(name, result, params) ROW(name)

static const SymbolRow rows[] = {
	TILE_CPU_TABLE(CPU_ROW)
	ROW(exp2f) ROW(log2f) ROW(sqrtf) ROW(tanhf) ROW(floorf) ROW(fmaf) ROW(memcpy) ROW(memset)
	/* what an optimiser may make of other code */
	ROW(memmove) ROW(memcmp) ROW(ldexpf) ROW(ceilf) ROW(truncf) ROW(rintf) ROW(nearbyintf) ROW(roundf) ROW(fmodf)
	ROW(fminf) ROW(fmaxf) ROW(fabsf) ROW(expf) ROW(logf) ROW(exp2) ROW(log2) ROW(sqrt) ROW(floor) ROW(fma) ROW(ldexp)
	{ "__truncsfbf2", (AnyFunction)truncate_to_bf16 },
	{ "__truncdfbf2", (AnyFunction)truncate_double_to_bf16 },
	{ "__truncsfhf2", (AnyFunction)truncate_to_f16 },
	{ "__truncdfhf2", (AnyFunction)truncate_double_to_f16 },
	{ "__extendhfsf2", (AnyFunction)extend_f16 },
	{ "__gnu_h2f_ieee", (AnyFunction)extend_f16_integer },
	{ "__gnu_f2h_ieee", (AnyFunction)truncate_to_f16_integer },
};

void *symbol_address(const char *name)
{
	void *address;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (strcmp(rows[i].name, name))
			continue;
		memcpy(&address, &rows[i].address, sizeof address);
		return address;
	}
	return NULL;
}
