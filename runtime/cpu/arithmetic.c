/* arithmetic.c - operands for which an operation has no result of its own, only what the language says that it gives. */
#include "runtime/cpu/cta.h"

#include <math.h>
#include <stdio.h>

#include "runtime/src/dtype.h"
#include "runtime/src/float16.h"

static const uint32_t UNSET = 0x7fc0cafe; /* compiler/lower/objects.c has it, too */

static bool checks(TileCpuThread *t)
{
	return !thread_of(t)->cta->worker->launch->no_arithmetic_check;
}

static int bits_of(int32_t type)
{
	return type < 0 ? -type : type;
}

/* "i32 7" */
static const char *number(int32_t type, int64_t x, char text[40])
{
	snprintf(text, 40, type < 0 ? "i%d %lld" : "u%d %llu", bits_of(type), (long long)x);
	return text;
}

void tilecpu_check_division(TileCpuThread *t, int32_t type, int64_t a, int64_t b, uint32_t line)
{
	char text[40];

	if (b == 0 && checks(t))
		report_fail(thread_of(t), line, "%s is divided by zero", number(type, a, text));
	if (b == -1 && type < 0 && a == -(INT64_C(1) << (bits_of(type) - 2)) * 2 && checks(t))
		report_fail(thread_of(t), line, "%s is divided by -1, which does not fit", number(type, a, text));
}

void tilecpu_check_shift(TileCpuThread *t, int32_t type, int64_t a, int64_t count, uint32_t line)
{
	char text[40];

	if ((uint64_t)count >= (uint64_t)bits_of(type) && checks(t))
		report_fail(thread_of(t), line, "%s is shifted by %lld", number(type, a, text), (long long)count);
}

void tilecpu_check_conversion(TileCpuThread *t, int32_t type, float x, uint32_t line)
{
	float end = ldexpf(1, type < 0 ? bits_of(type) - 1 : bits_of(type)), whole = truncf(x);

	if (!(whole >= (type < 0 ? -end : 0) && whole < end) && checks(t))
		report_fail(thread_of(t), line, "%g does not fit %c%d", (double)x, type < 0 ? 'i' : 'u', bits_of(type));
}

uint32_t tilecpu_narrow8(TileCpuThread *t, uint32_t to, float lo, float hi)
{
	const Float8 *f = rt_float8((tilert_dtype)to);

	(void)t;
	return float8_from(f, lo) | (uint32_t)float8_from(f, hi) << 8;
}

float tilecpu_widen8(TileCpuThread *t, uint32_t from, uint32_t bits)
{
	(void)t;
	return float8_to(rt_float8((tilert_dtype)from), (uint8_t)bits);
}

void check_set(Thread *t, const char *what, const float *registers, uint32_t n, uint32_t line)
{
	for (uint32_t i = 0; i < n; i++)
		if (rt_float_bits(registers[i]) != UNSET)
			return;
	report_fail(t, line, "this %s adds to a fragment that nothing has been assigned to, or only what was computed from such", what);
}
