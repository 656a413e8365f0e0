/* test_bytes.c - the kernels of bytes.tile beside the formats' definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/bytes.h"
#include "tests/support/run_tile.h"

#define TILES TILE_SOURCE_DIR "/tests/numeric/bytes.tile"

typedef struct Type { const char *name; tilert_dtype t; const ByteFormat *f; } Type;

static const Type types[] = { { "e4m3", TILERT_E4M3, &byte_e4m3 }, { "e5m2", TILERT_E5M2, &byte_e5m2 } };

static const char *define(char text[32], const char *name, const char *value)
{
	snprintf(text, 32, "%s=%s", name, value);
	return text;
}

static TestTensor vector(TileRun *r, tilert_dtype t, int64_t n)
{
	return tensor_new(r, t, 1, &n);
}

static TestTensor matrix(TileRun *r, tilert_dtype t, int64_t rows, int64_t columns)
{
	return tensor_new(r, t, 2, (int64_t[]){ rows, columns });
}

static void free_all(TestTensor *t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		tensor_free(&t[i]);
}

/* Equal, NaN where NaN is wanted, zeros of the same sign. */
static void expect_same(TestTensor *t, const double *want)
{
	tensor_download(t);
	for (size_t k = 0; k < t->count; k++)
		if (isnan(want[k]) ? !isnan(t->value[k]) : t->value[k] != want[k] || !signbit(t->value[k]) != !signbit(want[k]))
			fail_msg("element %zu is %a, not %a", k, t->value[k], want[k]);
}

/* All numbers of 16 bits of a type and NaNs, as the type's own. */
static void fill_halves(TestTensor *t)
{
	for (unsigned u = 0; u < 65536; u++) {
		uint16_t h = (uint16_t)u;
		t->value[u] = element_load(t->t.dtype, &h);
	}
	tensor_upload(t);
}

static void test_halves(void **state)
{
	enum { N = 65536 };
	double *want = calloc(N, sizeof *want);
	char text[32];

	(void)state;
	for (int k = 0; k < 2; k++) {
		TileRun *r = run_open(TILES, define(text, "T", types[k].name), NULL);
		TestTensor t[] = { matrix(r, TILERT_BF16, 512, 128), matrix(r, TILERT_F16, 512, 128), matrix(r, types[k].t, 512, 128), matrix(r, types[k].t, 512, 128) };
		fill_halves(&t[0]);
		fill_halves(&t[1]);
		run_launch(r, "halves", (tilert_arg[]){ arg_tensor("x", &t[0]), arg_tensor("h", &t[1]), arg_tensor("xa", &t[2]), arg_tensor("ha", &t[3]) }, 4);
		for (int i = 0; i < 2; i++) {
			for (int u = 0; u < N; u++)
				want[u] = byte_value(types[k].f, byte_nearest(types[k].f, t[i].value[u]));
			expect_same(&t[2 + i], want);
		}
		free_all(t, 4);
		run_close(r);
	}
	free(want);
}

/* Around all numbers and ties, and random bits. */
static void test_narrowed(void **state)
{
	enum { N = 20001 };
	double *want = calloc(N, sizeof *want);
	TileRun *r = run_open(TILES, NULL);
	TestTensor x = vector(r, TILERT_F32, N), y[] = { vector(r, TILERT_E4M3, N), vector(r, TILERT_E5M2, N) };

	(void)state;
	for (int n = 0; n < N; n++) {
		const ByteFormat *f = types[n / 5 % 2].f;
		unsigned b = (unsigned)(n / 10) % (f->largest + 1u);
		float low = (float)byte_value(f, b), v = n % 5 < 2 ? low : (low + (float)(b < f->largest ? byte_value(f, b + 1) : 2 * (double)low)) / 2;
		uint32_t bits = (uint32_t)(random_uniform(r) * 4294967296.0);
		v = n % 5 == 1 || n % 5 == 3 ? nextafterf(v, INFINITY) : n % 5 == 4 ? nextafterf(v, -INFINITY) : v;
		if (n > N / 2)
			memcpy(&v, &bits, sizeof v);
		x.value[n] = bits & 1 ? -v : v;
	}
	tensor_upload(&x);
	run_launch(r, "narrowed", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("a", &y[0]), arg_tensor("b", &y[1]) }, 3);
	for (int k = 0; k < 2; k++) {
		for (int n = 0; n < N; n++)
			want[n] = byte_value(types[k].f, byte_nearest(types[k].f, x.value[n]));
		expect_same(&y[k], want);
	}
	tensor_free(&x);
	free_all(y, 2);
	run_close(r);
	free(want);
}

static void test_widened(void **state)
{
	char text[32];

	(void)state;
	for (int k = 0; k < 2; k++) {
		TileRun *r = run_open(TILES, define(text, "T", types[k].name), NULL);
		TestTensor a = vector(r, TILERT_U8, 256), y[] = { vector(r, TILERT_F32, 256), vector(r, TILERT_BF16, 256), vector(r, TILERT_F16, 256),
			vector(r, types[k].t, 256), vector(r, TILERT_I32, 256) };
		double want[256], bits[256];
		for (unsigned b = 0; b < 256; b++) {
			a.value[b] = bits[b] = b;
			want[b] = byte_value(types[k].f, b);
		}
		tensor_upload(&a);
		run_launch(r, "widened", (tilert_arg[]){ arg_tensor("a", &a), arg_tensor("f", &y[0]), arg_tensor("b", &y[1]), arg_tensor("h", &y[2]),
			arg_tensor("same", &y[3]), arg_tensor("n", &y[4]) }, 6);
		for (int i = 0; i < 3; i++)
			expect_same(&y[i], want);
		for (unsigned b = 0; b < 256; b++) /* infinity becomes the largest number */
			want[b] = byte_value(types[k].f, byte_nearest(types[k].f, want[b]));
		expect_same(&y[3], want);
		tensor_compare(&y[4], bits, 0, 0);
		tensor_free(&a);
		free_all(y, 5);
		run_close(r);
	}
}

static void test_computed(void **state)
{
	char text[32];

	(void)state;
	for (int k = 0; k < 2; k++) {
		const ByteFormat *f = types[k].f;
		TileRun *r = run_open(TILES, define(text, "T", types[k].name), NULL);
		TestTensor a = vector(r, types[k].t, 256), b = vector(r, types[k].t, 256), y = matrix(r, TILERT_F32, 8, 256), t = vector(r, types[k].t, 256);
		double want[8][256], sum[256], three = byte_value(f, byte_nearest(f, 3.0)), third = byte_value(f, byte_nearest(f, .3));
		for (unsigned i = 0; i < 256; i++) {
			a.value[i] = byte_value(f, i % f->largest | (i & 128));
			b.value[i] = byte_value(f, i * 37 % f->largest | (i * 64 & 128));
			float x = (float)a.value[i], z = (float)b.value[i];
			double row[] = { x + z, x * 1.25f, -x, fabsf(x), fmaxf(x, z), x < z ? (double)x : three, x + .5f, fmaf(x, 2, (float)third) };
			for (int n = 0; n < 8; n++)
				want[n][i] = row[n];
			sum[i] = byte_value(f, byte_nearest(f, x + z));
		}
		tensor_upload(&a);
		tensor_upload(&b);
		run_launch(r, "computed", (tilert_arg[]){ arg_tensor("a", &a), arg_tensor("b", &b), arg_tensor("f", &y), arg_tensor("t", &t) }, 4);
		tensor_compare(&y, &want[0][0], 0, 0);
		tensor_compare(&t, sum, 0, 0);
		free_all((TestTensor[]){ a, b, y, t }, 4);
		run_close(r);
	}
}

typedef struct Pair { const char *a, *b, *sum; tilert_dtype ta, tb, ts; } Pair;

/* Numbers that the type has, whose sums are exact. */
static void fill_operand(TileRun *r, TestTensor *t)
{
	for (size_t k = 0; k < t->count; k++) {
		double u = random_uniform(r);
		t->value[k] = t->t.dtype == TILERT_U8 ? floor(u * 256) : t->t.dtype == TILERT_I8 ? floor(u * 256) - 128 : (floor(u * 15) - 7) / 4;
	}
	tensor_upload(t);
}

static double product(const TestTensor *x, const TestTensor *w, int i, int j, int first, int end)
{
	double sum = 0;
	for (int k = first; k < end && k < 96 && j < 40; k++)
		sum += x->value[i * 96 + k] * w->value[j * 96 + k];
	return sum;
}

static void check_products(const Pair *p)
{
	char a[32], b[32], s[32];
	TileRun *r = run_open(TILES, define(a, "A", p->a), define(b, "B", p->b), define(s, "SUM", p->sum), NULL);
	TestTensor t[] = { matrix(r, p->ta, 128, 96), matrix(r, p->tb, 40, 96), matrix(r, p->ts, 128, 48), matrix(r, p->ts, 64, 16) };
	static double y[128 * 48], z[64 * 16];
	fill_operand(r, &t[0]);
	fill_operand(r, &t[1]);
	for (int i = 0; i < 128; i++)
		for (int j = 0; j < 48; j++)
			y[i * 48 + j] = product(&t[0], &t[1], i, j, 0, 96) + product(&t[0], &t[1], i, j, 0, 64);
	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 16; j++)
			z[i * 16 + j] = 2 * product(&t[0], &t[1], i + 5, j + 3, 32, 64);
	run_launch(r, "products", (tilert_arg[]){ arg_tensor("x", &t[0]), arg_tensor("w", &t[1]), arg_tensor("y", &t[2]), arg_tensor("z", &t[3]) }, 4);
	tensor_compare(&t[2], y, 0, 0);
	tensor_compare(&t[3], z, 0, 0);
	free_all(t, 4);
	run_close(r);
}

static void check_registers(const Pair *p)
{
	char a[32], b[32], s[32];
	TileRun *r = run_open(TILES, define(a, "A", p->a), define(b, "B", p->b), define(s, "SUM", p->sum), NULL);
	TestTensor t[] = { matrix(r, p->ta, 128, 96), matrix(r, p->tb, 40, 96), tensor_new(r, p->ts, 3, (int64_t[]){ 4, 128, 48 }) };
	static double y[4][128 * 48];
	fill_operand(r, &t[0]);
	fill_operand(r, &t[1]);
	for (int i = 0; i < 128 * 48; i++) {
		y[0][i] = y[1][i] = y[3][i] = product(&t[0], &t[1], i / 48, i % 48, 0, 96);
		y[2][i] = 2 * y[0][i];
	}
	run_launch(r, "registers", (tilert_arg[]){ arg_tensor("x", &t[0]), arg_tensor("w", &t[1]), arg_tensor("y", &t[2]) }, 3);
	tensor_compare(&t[2], &y[0][0], 0, 0);
	free_all(t, 3);
	run_close(r);
}

static void test_products(void **state)
{
	static const Pair pairs[] = {
		{ "e4m3", "e5m2", "f32", TILERT_E4M3, TILERT_E5M2, TILERT_F32 }, { "e5m2", "e4m3", "f32", TILERT_E5M2, TILERT_E4M3, TILERT_F32 },
		{ "e4m3", "e4m3", "f32", TILERT_E4M3, TILERT_E4M3, TILERT_F32 }, { "e5m2", "e5m2", "f32", TILERT_E5M2, TILERT_E5M2, TILERT_F32 },
		{ "i8", "i8", "i32", TILERT_I8, TILERT_I8, TILERT_I32 }, { "u8", "i8", "i32", TILERT_U8, TILERT_I8, TILERT_I32 },
		{ "i8", "u8", "i32", TILERT_I8, TILERT_U8, TILERT_I32 }, { "u8", "u8", "i32", TILERT_U8, TILERT_U8, TILERT_I32 },
	};

	(void)state;
	for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
		check_products(&pairs[k]);
		check_registers(&pairs[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_narrowed),
		cmocka_unit_test(test_widened),
		cmocka_unit_test(test_computed),
		cmocka_unit_test(test_products),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
