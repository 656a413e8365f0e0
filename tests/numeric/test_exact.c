/* test_exact.c - the kernels of exact.tile, whose results are small integers, against plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/run_tile.h"

static int open_exact(void **state)
{
	*state = run_open(TILE_SOURCE_DIR "/tests/numeric/exact.tile", NULL);
	return 0;
}

static int close_exact(void **state)
{
	run_close(*state);
	return 0;
}

static TestTensor matrix(TileRun *r, tilert_dtype t, int64_t rows, int64_t cols)
{
	return tensor_new(r, t, 2, (int64_t[]){ rows, cols });
}

static TestTensor vector(TileRun *r, tilert_dtype t, int64_t n)
{
	return tensor_new(r, t, 1, &n);
}

/* Integers from -bound to bound, on the device, too. */
static void fill_integers(TestTensor *t, int bound)
{
	for (size_t k = 0; k < t->count; k++)
		t->value[k] = (int)(random_uniform(t->run) * (2 * bound + 1)) - bound;
	tensor_upload(t);
}

static void free_all(TestTensor *t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		tensor_free(&t[i]);
}

static void test_added_once(void **state)
{
	enum { M = 64, N = 24 };
	TileRun *r = *state;
	TestTensor t[] = { matrix(r, TILERT_F32, M, N), vector(r, TILERT_F32, M), vector(r, TILERT_F32, N), vector(r, TILERT_F32, M),
		vector(r, TILERT_F32, M) };
	double rows[M], columns[N], twice[M], held[M];
	for (int k = 0; k < 3; k++)
		fill_integers(&t[k], 9);
	for (int j = 0; j < N; j++)
		columns[j] = t[2].value[j];
	for (int i = 0; i < M; i++) {
		double sum = 0;
		for (int j = 0; j < N; j++) {
			sum += t[0].value[i * N + j];
			columns[j] += t[0].value[i * N + j];
		}
		rows[i] = t[1].value[i] + sum;
		twice[i] = i % 3 != 1 ? 2 * sum : sum;
		held[i] = 2 * sum + 1;
	}
	run_launch(r, "added_once", (tilert_arg[]){ arg_tensor("x", &t[0]), arg_tensor("rows", &t[1]), arg_tensor("columns", &t[2]),
		arg_tensor("twice", &t[3]), arg_tensor("held", &t[4]) }, 5);
	tensor_compare(&t[1], rows, 0, 0);
	tensor_compare(&t[2], columns, 0, 0);
	tensor_compare(&t[3], twice, 0, 0);
	tensor_compare(&t[4], held, 0, 0);
	free_all(t, 5);
}

static void test_added_once_of_few(void **state)
{
	enum { N = 64 };
	TileRun *r = *state;
	TestTensor x = vector(r, TILERT_F32, N), y = vector(r, TILERT_F32, N);
	double want[N];
	fill_integers(&x, 9);
	fill_integers(&y, 9);
	for (int i = 0; i < N; i++)
		want[i] = x.value[i] + y.value[i];
	run_launch(r, "added_once_of_few", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("y", &y) }, 2);
	tensor_compare(&y, want, 0, 0);
	tensor_free(&x);
	tensor_free(&y);
}

/* d [m][n] = sum over k of a[i * ai + q * aq] b[q * bq + j * bj] */
static void multiply(double *d, int m, int n, int k, const double *a, int ai, int aq, const double *b, int bq, int bj)
{
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			d[i * n + j] = 0;
			for (int q = 0; q < k; q++)
				d[i * n + j] += a[i * ai + q * aq] * b[q * bq + j * bj];
		}
}

static void test_transposed_left(void **state)
{
	enum { K = 48, M = 256, N = 48 };
	TileRun *r = *state;
	TestTensor a = matrix(r, TILERT_BF16, K, M), b = matrix(r, TILERT_BF16, K, N), y = matrix(r, TILERT_F32, 128, N), z = matrix(r, TILERT_F32, M, N);
	static double want_y[128 * N], want_z[M * N];
	fill_integers(&a, 8);
	fill_integers(&b, 8);
	multiply(want_y, 128, N, K, a.value + 64, 1, M, b.value, N, 1);
	multiply(want_z, M, N, K, a.value, 1, M, b.value, N, 1);
	run_launch(r, "transposed_left", (tilert_arg[]){ arg_tensor("a", &a), arg_tensor("b", &b), arg_tensor("y", &y), arg_tensor("z", &z) }, 4);
	tensor_compare(&y, want_y, 0, 0);
	tensor_compare(&z, want_z, 0, 0);
	free_all((TestTensor[]){ a, b, y, z }, 4);
}

static void test_parts(void **state)
{
	enum { A = 160, B = 128, N = 64 };
	TileRun *r = *state;
	TestTensor t[] = { matrix(r, TILERT_BF16, 128, A), matrix(r, TILERT_BF16, 192, B), matrix(r, TILERT_F32, N, N), matrix(r, TILERT_F32, N, N),
		matrix(r, TILERT_F32, N, N) };
	const double *a = t[0].value, *b = t[1].value;
	static double y[N * N], z[N * N], u[N * N];
	fill_integers(&t[0], 8);
	fill_integers(&t[1], 8);
	multiply(y, N, N, 96, a + 40 * A + 48, A, 1, b + 64, B, 1);
	multiply(z, N, N, 64, a + 80, A, 1, b + 72 * B + 16, 1, B);
	tilert_arg args[] = { arg_tensor("a", &t[0]), arg_tensor("b", &t[1]), arg_tensor("y", &t[2]), arg_tensor("z", &t[3]), arg_tensor("u", &t[4]),
		arg_int("row", 48), arg_int("column", 96) };
	multiply(u, N, N, 32, a + 48 * A + 96, A, 1, b + 56 * B + 64, B, 1);
	run_launch(r, "parts", args, 7);
	tensor_compare(&t[2], y, 0, 0);
	tensor_compare(&t[3], z, 0, 0);
	tensor_compare(&t[4], u, 0, 0);
	free_all(t, 5);
}

/* The CPU device sees starts that the compiler could not. */
static void test_parts_that_begin_wrong(void **state)
{
	static const struct { int row, column; const char *why; } cases[] = {
		{ 4, 0, "'sa' from a row on that is no multiple of 8" },
		{ 8, 48, "columns of 'sa' that begin inside a panel of 64 and end in another" },
		{ 8, 4, "begin at no multiple of 8" },
	};
	TileRun *r = *state;
	if (!r->is_cpu)
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		TestTensor t[] = { matrix(r, TILERT_BF16, 128, 160), matrix(r, TILERT_BF16, 192, 128), matrix(r, TILERT_F32, 64, 64),
			matrix(r, TILERT_F32, 64, 64), matrix(r, TILERT_F32, 64, 64) };
		tilert_arg args[] = { arg_tensor("a", &t[0]), arg_tensor("b", &t[1]), arg_tensor("y", &t[2]), arg_tensor("z", &t[3]),
			arg_tensor("u", &t[4]), arg_int("row", cases[i].row), arg_int("column", cases[i].column) };
		fill_integers(&t[0], 8);
		fill_integers(&t[1], 8);
		assert_int_not_equal(run_try(r, "parts", args, 7), TILERT_OK);
		if (!strstr(tilert_last_error(), cases[i].why))
			fail_msg("'%s' is not in: %s", cases[i].why, tilert_last_error());
		free_all(t, 5);
	}
}

typedef struct NamedType { const char *name; tilert_dtype t; } NamedType;

static void check_restored(NamedType from, NamedType to)
{
	enum { M = 64, N = 24 };
	char e[16], s[16];
	snprintf(e, sizeof e, "E=%s", from.name);
	snprintf(s, sizeof s, "S=%s", to.name);
	TileRun *r = run_open(TILE_SOURCE_DIR "/tests/numeric/restored.tile", e, s, NULL);
	TestTensor x = matrix(r, from.t, M, N), y = matrix(r, to.t, M, N), z = matrix(r, to.t, N, M);
	double transposed[M * N];
	for (int k = 0; k < M * N; k++)
		x.value[k] = (k * 37 + k / N) % 100;
	tensor_upload(&x);
	for (int k = 0; k < M * N; k++)
		transposed[k % N * M + k / N] = x.value[k];
	run_launch(r, "restored", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("y", &y), arg_tensor("z", &z) }, 3);
	tensor_compare(&y, x.value, 0, 0);
	tensor_compare(&z, transposed, 0, 0);
	free_all((TestTensor[]){ x, y, z }, 3);
	run_close(r);
}

static void test_restored(void **state)
{
	static const NamedType from[] = { { "i8", TILERT_I8 }, { "u8", TILERT_U8 }, { "i16", TILERT_I16 }, { "u16", TILERT_U16 }, { "i32", TILERT_I32 },
		{ "i64", TILERT_I64 }, { "f16", TILERT_F16 }, { "bf16", TILERT_BF16 }, { "f32", TILERT_F32 } };
	static const NamedType to[] = { { "bf16", TILERT_BF16 }, { "f16", TILERT_F16 }, { "i16", TILERT_I16 } };
	(void)state;
	for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
		check_restored(from[i], to[i % 3]);
	for (size_t i = 0; i < 3; i++) {
		check_restored(from[6], to[i]);
		check_restored(from[8], to[i]);
	}
}

static void test_rows(void **state)
{
	enum { M = 128, N = 40 };
	TileRun *r = *state;
	TestTensor x = matrix(r, TILERT_BF16, M, N), y = matrix(r, TILERT_BF16, M, N), z = matrix(r, TILERT_F32, M, N), v = matrix(r, TILERT_BF16, M, N);
	static double want_y[M * N], want_z[M * N], want_v[M * N];
	fill_integers(&x, 50);
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			const double *p = x.value + j;
			int k = i * N + j;
			want_y[k] = i >= 64 ? p[(i - 64) * N] : i >= 16 && i < 48 ? p[(i + 64) * N] : 9;
			want_z[k] = i >= 100 && i < 121 ? p[(i - 97) * N] : i < 8 && j >= 24 ? p[(i + 60) * N - 16] : 5;
			want_v[k] = i >= 62 && i < 67 ? p[(i - 61) * N] : i >= 64 && i < 112 ? p[(i - 64) * N] : 9;
		}
	run_launch(r, "rows", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("y", &y), arg_tensor("z", &z), arg_tensor("v", &v) }, 4);
	tensor_compare(&y, want_y, 0, 0);
	tensor_compare(&z, want_z, 0, 0);
	tensor_compare(&v, want_v, 0, 0);
	free_all((TestTensor[]){ x, y, z, v }, 4);
}

static int64_t wrapped(int64_t v, int bits)
{
	return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

static double least_of(double v, double lo, double hi)
{
	return isnan(v) ? 0 : v < lo ? lo : v > hi ? hi : trunc(v);
}

/* To 11 digits, nearest even. */
static double as_tf32(double v)
{
	uint32_t bits;
	element_store(TILERT_TF32, &bits, v);
	return element_load(TILERT_TF32, &bits);
}

/* The columns of `integers` for one element. */
static void integers_of(int64_t a, int64_t b, int64_t c, int64_t n, double f, double *y)
{
	uint64_t count = (uint32_t)n; /* negative counts are large ones */
	int64_t divisor = n ? n : 1;
	double want[] = {
		wrapped(a * a, 8), wrapped(2 * b, 16), c != INT32_MAX, wrapped(c * 1103515245 + 12345, 32), wrapped(-c, 32),
		count < 32 ? wrapped(INT64_C(1) << count, 32) : 0, count < 32 ? c >> count : c < 0 ? -1 : 0, count < 32 ? (uint32_t)c >> count : 0,
		count < 8 ? wrapped((int64_t)((uint64_t)a << count), 8) : 0, count < 8 ? a >> count : a < 0 ? -1 : 0,
		count < 64 ? (double)(int64_t)((uint64_t)c << count) : 0, wrapped(c / divisor, 32), c % divisor,
		least_of(f, INT32_MIN, INT32_MAX), least_of(f, 0, UINT32_MAX), 0, least_of(f, -128, 127), least_of(f, 0, 65535), 0,
		least_of(as_tf32(f), INT32_MIN, INT32_MAX), 16, (double)wrapped(INT32_MAX + INT64_C(127), 32), -1 + 4294967295.0,
	};
	want[15] = f >= 0x1p63 ? 0x1p63 : f < -0x1p63 ? -0x1p63 : least_of(f, -0x1p63, 0x1p63);
	want[18] = f >= 0x1p64 ? 0x1p63 : floor(least_of(f, 0, 0x1p64) / 2);
	memcpy(y, want, sizeof want);
}

/* What has a result by convention only is reported by default. */
static void check_arithmetic(const TileRun *r, int on)
{
	if (r->is_cpu)
		assert_int_equal(tilert_cpu_set_checks(r->device, &(tilert_cpu_checks){ .races = 1, .arithmetic = on, .timeout = 60 }), TILERT_OK);
}

static void test_integers(void **state)
{
	enum { N = 64, ROWS = 23 };
	static const int32_t cs[] = { INT32_MAX, INT32_MIN, -1, 0, 1, 77, -12345678, 1 << 30 };
	static const int32_t ns[] = { 0, 1, 31, 32, 33, 64, -1, 7, 8, 5, -2, 63, 300, INT32_MIN };
	static const float fs[] = { 0, 2.9f, -2.9f, 1e30f, -1e30f, NAN, INFINITY, -INFINITY, 2147483520.f, 4098, 130, -130, 70000, 4294967040.f, 6e9f, -0.5f };
	TileRun *r = *state;
	TestTensor a = vector(r, TILERT_I8, N), b = vector(r, TILERT_I16, N), c = vector(r, TILERT_I32, N), n = vector(r, TILERT_I32, N),
		f = vector(r, TILERT_F32, N), y = matrix(r, TILERT_I64, ROWS, N);
	static double want[ROWS * N];
	for (int k = 0; k < N; k++) {
		double column[ROWS];
		a.value[k] = k * 5 % 256 - 128;
		b.value[k] = k * 1031 % 65536 - 32768;
		c.value[k] = cs[k % 8];
		n.value[k] = ns[k % 14];
		f.value[k] = fs[k % 16];
		integers_of((int64_t)a.value[k], (int64_t)b.value[k], (int64_t)c.value[k], (int64_t)n.value[k], f.value[k], column);
		for (int i = 0; i < ROWS; i++)
			want[i * N + k] = column[i];
	}
	TestTensor *in[] = { &a, &b, &c, &n, &f };
	for (int i = 0; i < 5; i++)
		tensor_upload(in[i]);
	tilert_arg args[] = { arg_tensor("a", &a), arg_tensor("b", &b), arg_tensor("c", &c), arg_tensor("n", &n), arg_tensor("f", &f), arg_tensor("y", &y) };
	if (r->is_cpu) {
		assert_int_equal(run_try(r, "integers", args, 6), TILERT_EDEVICE);
		assert_non_null(strstr(tilert_last_error(), "is shifted by "));
	}
	check_arithmetic(r, 0);
	run_launch(r, "integers", args, 6);
	check_arithmetic(r, 1);
	tensor_compare(&y, want, 0, 0);
	free_all((TestTensor[]){ a, b, c, n, f, y }, 6);
}

static void test_clamped(void **state)
{
	enum { N = 64 };
	TileRun *r = *state;
	TestTensor t[] = { vector(r, TILERT_F16, N), vector(r, TILERT_F16, N), vector(r, TILERT_F16, N), vector(r, TILERT_BF16, N),
		vector(r, TILERT_BF16, N), vector(r, TILERT_BF16, N) };
	double y[N], by[N];
	for (int k = 0; k < 6; k++)
		fill_integers(&t[k], 9);
	for (int i = 0; i < N; i++) {
		y[i] = fmin(t[0].value[i], t[1].value[i]) + fmax(t[1].value[i], 1);
		by[i] = fmin(fmax(t[3].value[i], -2), fmax(t[4].value[i], 3));
	}
	run_launch(r, "clamped", (tilert_arg[]){ arg_tensor("x", &t[0]), arg_tensor("z", &t[1]), arg_tensor("y", &t[2]), arg_tensor("bx", &t[3]),
		arg_tensor("bz", &t[4]), arg_tensor("by", &t[5]) }, 6);
	tensor_compare(&t[2], y, 0, 0);
	tensor_compare(&t[5], by, 0, 0);
	free_all(t, 6);
}

/* Writes by way of two parameters race where these share memory. */
static void test_one_memory(void **state)
{
	enum { N = 64 };
	TileRun *r = *state;
	TestTensor y = vector(r, TILERT_F32, N), z = vector(r, TILERT_F32, N);
	double want[N];

	for (int i = 0; i < N; i++)
		want[i] = 2;
	run_launch(r, "twice", (tilert_arg[]){ arg_tensor("y", &y), arg_tensor("z", &z) }, 2);
	tensor_compare(&z, want, 0, 0);
	if (r->is_cpu) {
		assert_int_equal(run_try(r, "twice", (tilert_arg[]){ arg_tensor("y", &y), arg_tensor("z", &y) }, 2), TILERT_EDEVICE);
		assert_non_null(strstr(tilert_last_error(), ": nothing orders this write and the write of line "));
	}
	free_all((TestTensor[]){ y, z }, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_added_once),
		cmocka_unit_test(test_added_once_of_few),
		cmocka_unit_test(test_transposed_left),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_parts_that_begin_wrong),
		cmocka_unit_test(test_restored),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_clamped),
		cmocka_unit_test(test_one_memory),
	};
	return cmocka_run_group_tests(tests, open_exact, close_exact);
}
