/* test_float8.c - conversions of 8-bit floats, all of them, beside the formats' definition. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "runtime/abi/float8.h"
#include "runtime/src/float16.h"
#include "tests/support/bytes.h"

typedef struct Format { const Float8 *is; const ByteFormat *defined; } Format;

static const Format formats[] = { { &float8_e4m3, &byte_e4m3 }, { &float8_e5m2, &byte_e5m2 } };

static void expect_nearest(const Format *f, float x)
{
	uint8_t got = float8_from(f->is, x);

	if (got != byte_nearest(f->defined, x))
		fail_msg("%a gives %02x with %d bits, not %02x", (double)x, got, f->is->mantissa, byte_nearest(f->defined, x));
}

static void test_to_float(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++)
		for (unsigned b = 0; b < 256; b++) {
			double want = byte_value(formats[k].defined, b);
			float got = float8_to(formats[k].is, (uint8_t)b);

			assert_true(isnan(want) ? isnan(got) : (double)got == want && !signbit(got) == !signbit(want));
			if (isfinite(got))
				assert_int_equal(float8_from(formats[k].is, got), b);
		}
}

/* Every bf16 and fp16; then around every number and every tie. */
static void test_from_float(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		for (unsigned h = 0; h < 65536; h++) {
			expect_nearest(&formats[k], rt_from_bf16((uint16_t)h));
			expect_nearest(&formats[k], rt_from_f16((uint16_t)h));
		}
		for (unsigned b = 0; b < formats[k].is->largest; b++) {
			float low = (float)byte_value(formats[k].defined, b), middle = (low + (float)byte_value(formats[k].defined, b + 1)) / 2;
			float near[] = { low, middle, nextafterf(low, INFINITY), nextafterf(low, 0), nextafterf(middle, INFINITY), nextafterf(middle, 0) };
			for (int i = 0; i < 6; i++) {
				expect_nearest(&formats[k], near[i]);
				expect_nearest(&formats[k], -near[i]);
			}
		}
	}
}

static void test_random_floats(void **state)
{
	uint32_t s = 12345;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		s = s * 1664525u + 1013904223u;
		uint32_t u = s ^ s >> 13, exponent = 127 - 20 + u % 38; /* where the formats have numbers, and a little beyond */
		expect_nearest(&formats[i % 2], rt_bits_float((u & 0x807fffffu) | exponent << 23));
		expect_nearest(&formats[i % 2], rt_bits_float(u));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_to_float),
		cmocka_unit_test(test_from_float),
		cmocka_unit_test(test_random_floats),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
