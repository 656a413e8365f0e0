/* test_ops.c - the operations of ops.tile, one by one, against plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "tests/support/run_tile.h"

enum { S = 64, ELEMENTS = S * S };

static int open_ops(void **state)
{
	*state = run_open(TILE_SOURCE_DIR "/tests/numeric/ops.tile", NULL);
	return 0;
}

static int close_ops(void **state)
{
	run_close(*state);
	return 0;
}

static TestTensor square(TileRun *r, tilert_dtype t)
{
	return tensor_new(r, t, 2, (int64_t[]){ S, S });
}

static TestTensor vector(TileRun *r, tilert_dtype t, int64_t n)
{
	return tensor_new(r, t, 1, &n);
}

/* Launches `kernel` on a random 64 x 64 x, whose values are in `x`, and compares its y. */
static void check_square(TileRun *r, const char *kernel, TestTensor y, void (*reference)(const double *x, double *y), double rtol,
	double atol)
{
	double want[ELEMENTS];
	TestTensor x = square(r, y.t.dtype);
	tensor_random(r, &x, -1, 1);
	reference(x.value, want);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y) };
	run_launch(r, kernel, args, 2);
	tensor_compare(&y, want, rtol, atol);
	tensor_free(&x);
	tensor_free(&y);
}

static void ref_row_sums(const double *x, double *y)
{
	for (int i = 0; i < S; i++) {
		y[i] = 0;
		for (int j = 0; j < S; j++)
			y[i] += x[i * S + j];
	}
}

static void ref_column_maxima(const double *x, double *y)
{
	for (int j = 0; j < S; j++) {
		y[j] = -INFINITY;
		for (int i = 0; i < S; i++)
			y[j] = fmax(y[j], x[i * S + j]);
	}
}

static void ref_running_sums(const double *x, double *y)
{
	for (int k = 0; k < ELEMENTS; k++)
		y[k] = x[k] + (k >= S ? y[k - S] : 0);
}

static void ref_suffix_sums_of_16(const double *x, double *y)
{
	for (int k = ELEMENTS - 1; k >= 0; k--)
		y[k] = x[k] + (k / S % 16 < 15 ? y[k + S] : 0);
}

static void ref_transposed(const double *x, double *y)
{
	for (int k = 0; k < ELEMENTS; k++)
		y[k] = x[k % S * S + k / S];
}

static void ref_shifted(const double *x, double *y)
{
	for (int k = 0; k < ELEMENTS / 2; k++) {
		int i = k / S, j = k % 16;
		const int at[4] = { (i + 3) * S + j + 5, (i + 19) * S + j + 24, (31 - i) * S + j + 47, (2 * i + 1) * S + 3 * j + 8 };
		y[k] = x[at[k % S / 16]];
	}
}

static void test_row_sums(void **state)
{
	check_square(*state, "row_sums", vector(*state, TILERT_F32, S), ref_row_sums, 0, 1e-5);
}

static void test_column_maxima(void **state)
{
	check_square(*state, "column_maxima", vector(*state, TILERT_F32, S), ref_column_maxima, 0, 0);
}

static void test_running_sums(void **state)
{
	check_square(*state, "running_sums", square(*state, TILERT_F32), ref_running_sums, 0, 1e-5);
}

static void test_suffix_sums_of_16(void **state)
{
	check_square(*state, "suffix_sums_of_16", square(*state, TILERT_F32), ref_suffix_sums_of_16, 0, 1e-5);
}

static void test_transposed(void **state)
{
	check_square(*state, "transposed", square(*state, TILERT_BF16), ref_transposed, 0, 0);
}

static void test_through_ones(void **state)
{
	check_square(*state, "through_ones", square(*state, TILERT_BF16), ref_transposed, 0, 0);
}

static void ref_beside(const double *x, double *y)
{
	for (int i = 0; i < ELEMENTS; i++)
		y[i] = x[i / S * S] * x[i % S] + x[S + i % S];
}

static void test_beside(void **state)
{
	check_square(*state, "beside", square(*state, TILERT_F32), ref_beside, 1e-6, 1e-6);
}

static void ref_varied(const double *x, double *y)
{
	static const double factor[] = { 1, -2, -2 };
	for (int k = 0; k < ELEMENTS; k++)
		y[k] = x[k] * factor[k / S % 3] + k / S % 3 + 9;
}

static void test_varied(void **state)
{
	check_square(*state, "varied", square(*state, TILERT_F32), ref_varied, 1e-6, 0);
}

static void ref_pieces(const double *x, double *y)
{
	for (int k = 0; k < ELEMENTS; k++)
		y[k] = k % S / 16 == 1 ? k / S / 16 + 1 : x[k];
}

static void test_pieces(void **state)
{
	check_square(*state, "pieces", square(*state, TILERT_F32), ref_pieces, 0, 0);
}

static void ref_mirrored(const double *x, double *y)
{
	for (int k = 0; k < ELEMENTS; k++)
		y[k] = x[k / S * S + S - 1 - k % S];
}

static void test_met(void **state)
{
	check_square(*state, "met", square(*state, TILERT_F32), ref_mirrored, 0, 0);
}

static void test_shifted(void **state)
{
	check_square(*state, "shifted", tensor_new(*state, TILERT_BF16, 2, (int64_t[]){ S / 2, S }), ref_shifted, 0, 0);
}

static void test_product(void **state)
{
	TileRun *r = *state;
	TestTensor x = square(r, TILERT_BF16), w = square(r, TILERT_BF16), y = square(r, TILERT_F32);
	tensor_random(r, &x, -1, 1);
	tensor_random(r, &w, -1, 1);
	double want[ELEMENTS] = { 0 };
	for (int i = 0; i < S; i++) {
		for (int j = 0; j < S; j++) {
			for (int k = 0; k < S; k++)
				want[i * S + j] += x.value[i * S + k] * w.value[k * S + j];
		}
	}
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("w", &w), arg_tensor("y", &y) };
	run_launch(r, "product", args, 3);
	tensor_compare(&y, want, 0, 1e-4);
	tensor_free(&x);
	tensor_free(&w);
	tensor_free(&y);
}

typedef struct Part { const double *at; int row, step; } Part; /* elements from row to row, from term to term of a sum */

/* d [m][n] += sign a b^T, of k terms */
static void multiply(double *d, int m, int n, int k, Part a, Part b, double sign)
{
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++)
			for (int q = 0; q < k; q++)
				d[i * n + j] += sign * a.at[i * a.row + q * a.step] * b.at[j * b.row + q * b.step];
}

static void check_warp_products(const char *type, tilert_dtype t)
{
	char define[16];
	snprintf(define, sizeof define, "T=%s", type);
	TileRun *r = run_open(TILE_SOURCE_DIR "/tests/numeric/ops.tile", define, NULL);
	TestTensor x = tensor_new(r, t, 2, (int64_t[]){ 16, 32 }), w = tensor_new(r, t, 2, (int64_t[]){ 32, 24 });
	TestTensor v = tensor_new(r, t, 2, (int64_t[]){ 32, 32 }), y = tensor_new(r, TILERT_F32, 2, (int64_t[]){ 16, 24 });
	TestTensor y0 = tensor_new(r, TILERT_F32, 2, (int64_t[]){ 16, 32 }), parts = tensor_new(r, TILERT_F32, 2, (int64_t[]){ 16, 16 });
	tensor_random(r, &x, -1, 1);
	tensor_random(r, &w, -1, 1);
	tensor_random(r, &v, -1, 1);
	double want[16 * 24] = { 0 }, want0[16 * 32], want_parts[16 * 16] = { 0 };
	for (int i = 0; i < 16 * 32; i++)
		want0[i] = 1;
	multiply(want, 16, 24, 32, (Part){ x.value, 32, 1 }, (Part){ w.value, 1, 24 }, 1);
	multiply(want0, 16, 32, 32, (Part){ x.value, 32, 1 }, (Part){ v.value, 32, 1 }, -1);
	multiply(want_parts, 16, 16, 16, (Part){ x.value + 16, 32, 1 }, (Part){ w.value + 8 * 24 + 8, 1, 24 }, 1);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("w", &w), arg_tensor("v", &v), arg_tensor("y", &y), arg_tensor("y0", &y0),
		arg_tensor("parts", &parts) };
	run_launch(r, "warp_products", args, 6);
	tensor_compare(&y, want, 0, 2e-5);
	tensor_compare(&y0, want0, 0, 2e-5);
	tensor_compare(&parts, want_parts, 0, 2e-5);
	tensor_free(&x);
	tensor_free(&w);
	tensor_free(&v);
	tensor_free(&y);
	tensor_free(&y0);
	tensor_free(&parts);
	run_close(r);
}

static void test_warp_products(void **state)
{
	(void)state;
	check_warp_products("tf32", TILERT_TF32);
	check_warp_products("f16", TILERT_F16);
	check_warp_products("bf16", TILERT_BF16);
}

static void test_tf32_product(void **state)
{
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_TF32, 2, (int64_t[]){ S, 32 }), w = tensor_new(r, TILERT_TF32, 2, (int64_t[]){ 40, 32 });
	TestTensor y = tensor_new(r, TILERT_F32, 2, (int64_t[]){ S, 40 });
	double want[S * 40] = { 0 };
	tensor_random(r, &x, -1, 1);
	tensor_random(r, &w, -1, 1);
	multiply(want, S, 40, 32, (Part){ x.value, 32, 1 }, (Part){ w.value, 32, 1 }, 1);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("w", &w), arg_tensor("y", &y) };
	run_launch(r, "tf32_product", args, 3);
	tensor_compare(&y, want, 0, 2e-5);
	tensor_free(&x);
	tensor_free(&w);
	tensor_free(&y);
}

static void test_converted(void **state)
{
	TileRun *r = *state;
	static const double values[] = { 0, 1, -1, 1.00390625, 1.01171875, 2.9, -2.9, 65504, 3.1e-5, 6e-8, -1e-3, 1000.5 };
	enum { COUNT = sizeof values / sizeof values[0] };
	TestTensor x = vector(r, TILERT_F32, COUNT), b = vector(r, TILERT_BF16, COUNT), h = vector(r, TILERT_F16, COUNT);
	TestTensor i = vector(r, TILERT_I32, COUNT);
	double bf16[COUNT], f16[COUNT], truncated[COUNT];
	for (int k = 0; k < COUNT; k++)
		x.value[k] = values[k];
	tensor_upload(&x);
	for (int k = 0; k < COUNT; k++) {
		uint16_t bits;
		element_store(TILERT_BF16, &bits, x.value[k]);
		bf16[k] = element_load(TILERT_BF16, &bits);
		element_store(TILERT_F16, &bits, x.value[k]);
		f16[k] = element_load(TILERT_F16, &bits);
		truncated[k] = trunc(x.value[k]);
	}
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("b", &b), arg_tensor("h", &h), arg_tensor("i", &i) };
	run_launch(r, "converted", args, 4);
	tensor_compare(&b, bf16, 0, 0);
	tensor_compare(&h, f16, 0, 0);
	tensor_compare(&i, truncated, 0, 0);
	tensor_free(&x);
	tensor_free(&b);
	tensor_free(&h);
	tensor_free(&i);
}

static void test_limited(void **state)
{
	TileRun *r = *state;
	enum { ROWS = 37 };
	TestTensor x = square(r, TILERT_F32), y = square(r, TILERT_F32);
	tensor_random(r, &x, -1, 1);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_int("n", ROWS) };
	run_launch(r, "limited", args, 3);
	tensor_download(&y);
	for (int k = 0; k < ELEMENTS; k++) {
		if (k < ROWS * S)
			assert_true(fabs(y.value[k] - (x.value[k] + 1)) < 1e-6);
		else
			assert_true(isnan(y.value[k]));
	}
	tensor_free(&x);
	tensor_free(&y);
}

static void test_edges(void **state)
{
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_F32, 1, (int64_t[]){ 8 }), y = tensor_new(r, TILERT_F32, 1, (int64_t[]){ S });
	tensor_random(r, &x, 0, 1);
	run_launch(r, "edges", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("y", &y) }, 2);
	tensor_download(&y);
	for (int k = 0; k < S; k++)
		assert_true(y.value[k] == (k + 3 < 8 ? x.value[k + 3] : -1));
	tensor_free(&x);
	tensor_free(&y);
}

static void test_by_zero(void **state)
{
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_I32, 1, (int64_t[]){ S }), q = tensor_new(r, TILERT_I32, 1, (int64_t[]){ S });
	TestTensor rest = tensor_new(r, TILERT_I32, 1, (int64_t[]){ S });
	tensor_random(r, &x, -1000, 1000);
	run_launch(r, "by_zero", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("q", &q), arg_tensor("r", &rest) }, 3);
	tensor_download(&q);
	tensor_download(&rest);
	for (int k = 0; k < S; k++) {
		assert_true(q.value[k] == x.value[k]);
		assert_true(rest.value[k] == 0);
	}
	tensor_free(&x);
	tensor_free(&q);
	tensor_free(&rest);
}

static void test_counted(void **state)
{
	TileRun *r = *state;
	enum { COUNT = 1000 };
	TestTensor x = vector(r, TILERT_I32, COUNT), total = vector(r, TILERT_I32, 1);
	double want = 5;
	for (int k = 0; k < COUNT; k++)
		want += x.value[k] = k % 7 - 2;
	total.value[0] = 5;
	tensor_upload(&x);
	tensor_upload(&total);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("total", &total) };
	run_launch(r, "counted", args, 2);
	tensor_compare(&total, &want, 0, 0);
	tensor_free(&x);
	tensor_free(&total);
}

static void test_cp_async(void **state)
{
	TileRun *r = *state;
	enum { COUNT = 77, COLS = 32, WIDTH = 64 };
	TestTensor x = vector(r, TILERT_F32, COUNT), y = vector(r, TILERT_F32, 128);
	TestTensor rows = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ COUNT, COLS }), yr = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ 128, COLS });
	TestTensor pitch = tensor_new(r, TILERT_F32, 2, (int64_t[]){ 8, COUNT }), yp = tensor_new(r, TILERT_F32, 2, (int64_t[]){ 8, WIDTH });
	tensor_random(r, &x, -1, 1);
	tensor_random(r, &rows, -1, 1);
	tensor_random(r, &pitch, -1, 1);
	double want[128], want_rows[128 * COLS], want_pitch[8 * WIDTH];
	for (int k = 0; k < 128; k++)
		want[k] = k < COUNT ? x.value[k] : 0;
	for (int k = 0; k < 128 * COLS; k++)
		want_rows[k] = k < COUNT * COLS ? rows.value[k] : 0;
	for (int k = 0; k < 8 * WIDTH; k++)
		want_pitch[k] = pitch.value[k / WIDTH * COUNT + 13 + k % WIDTH];
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("rows", &rows), arg_tensor("pitch", &pitch), arg_tensor("y", &y), arg_tensor("yr", &yr),
		arg_tensor("yp", &yp) };
	run_launch(r, "cp_async_limits", args, 6);
	tensor_compare(&y, want, 0, 0);
	tensor_compare(&yr, want_rows, 0, 0);
	tensor_compare(&yp, want_pitch, 0, 0);
	tensor_free(&x);
	tensor_free(&y);
	tensor_free(&rows);
	tensor_free(&yr);
	tensor_free(&pitch);
	tensor_free(&yp);
}

static void test_cp_async_places(void **state)
{
	TileRun *r = *state;
	enum { COUNT = 77, ROWS = 64, COLS = 32, LINES = 8 };
	TestTensor rows = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ COUNT, COLS }), yr = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ ROWS, COLS });
	TestTensor lines = tensor_new(r, TILERT_F32, 2, (int64_t[]){ LINES, COUNT }), yl = tensor_new(r, TILERT_F32, 2, (int64_t[]){ LINES, ROWS });
	double want[LINES * ROWS];
	tensor_random(r, &rows, -1, 1);
	tensor_random(r, &lines, -1, 1);
	for (int k = 0; k < LINES * ROWS; k++)
		want[k] = lines.value[k / ROWS * COUNT + k % ROWS];
	tilert_arg args[] = { arg_tensor("rows", &rows), arg_tensor("lines", &lines), arg_tensor("yr", &yr), arg_tensor("yl", &yl) };
	run_launch(r, "cp_async_places", args, 4);
	tensor_compare(&yr, rows.value, 0, 0);
	tensor_compare(&yl, want, 0, 0);
	tensor_free(&rows);
	tensor_free(&yr);
	tensor_free(&lines);
	tensor_free(&yl);
}

static void test_planes(void **state)
{
	TileRun *r = *state;
	enum { COPIES = 4, ROWS = 64, COLS = 32 };
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ ROWS, COLS }), y = tensor_new(r, TILERT_BF16, 3, (int64_t[]){ COPIES, ROWS, COLS });
	double want[COPIES * ROWS * COLS];
	tensor_random(r, &x, -1, 1);
	for (int k = 0; k < COPIES * ROWS * COLS; k++)
		want[k] = x.value[k % (ROWS * COLS)];
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y) };
	run_launch(r, "planes", args, 2);
	tensor_compare(&y, want, 0, 0);
	tensor_free(&x);
	tensor_free(&y);
}

static void test_atomics(void **state)
{
	TileRun *r = *state;
	enum { COUNT = 1000 };
	TestTensor x = vector(r, TILERT_I32, COUNT), v = vector(r, TILERT_F32, COUNT), ticket = vector(r, TILERT_U32, COUNT);
	TestTensor least = vector(r, TILERT_I32, 1), most = vector(r, TILERT_I32, 1), sums = vector(r, TILERT_F32, 3);
	TestTensor turns = vector(r, TILERT_U32, 1), bins = vector(r, TILERT_I32, 8);
	double want_bins[8] = { 0 }, want[3] = { 0, 9, -9 };
	for (int k = 0; k < COUNT; k++) {
		x.value[k] = (k * 7919) % 1013 - 500;
		v.value[k] = (k * 31) % 257 / 64.0 - 2;
		want_bins[(int)x.value[k] & 7]++;
		want[0] += v.value[k];
		want[1] = fmin(want[1], v.value[k]);
		want[2] = fmax(want[2], v.value[k]);
	}
	least.value[0] = 1000;
	most.value[0] = -1000;
	turns.value[0] = sums.value[0] = 0;
	sums.value[1] = 9;
	sums.value[2] = -9;
	for (int k = 0; k < 8; k++)
		bins.value[k] = 0;
	TestTensor *all[] = { &x, &v, &least, &most, &sums, &ticket, &turns, &bins };
	const char *names[] = { "x", "v", "least", "most", "sums", "ticket", "turns", "bins" };
	tilert_arg args[8];
	for (int k = 0; k < 8; k++) {
		if (all[k] != &ticket)
			tensor_upload(all[k]);
		args[k] = arg_tensor(names[k], all[k]);
	}
	run_launch(r, "atomics", args, 8);
	tensor_compare(&least, &(double){ -500 }, 0, 0);
	tensor_compare(&most, &(double){ 512 }, 0, 0);
	tensor_compare(&sums, want, 0, 0); /* sixty-fourths: exact in any order */
	tensor_compare(&turns, &(double){ COUNT }, 0, 0);
	tensor_compare(&bins, want_bins, 0, 0);
	tensor_download(&ticket);
	bool seen[COUNT] = { false };
	for (int k = 0; k < COUNT; k++) {
		int t = (int)ticket.value[k];
		if (t < 0 || t >= COUNT || seen[t])
			fail_msg("element %d has ticket %d, which another has or nobody should", k, t);
		seen[t] = true;
	}
	for (int k = 0; k < 8; k++)
		tensor_free(all[k]);
}

static void test_wrong_extents_are_refused(void **state)
{
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_F32, 2, (int64_t[]){ S, S + 1 }), y = vector(r, TILERT_F32, S);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y) };
	assert_int_equal(run_try(r, "row_sums", args, 2), TILERT_EINVAL);
	tensor_untouched(&y);
	tensor_free(&x);
	tensor_free(&y);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row_sums),
		cmocka_unit_test(test_column_maxima),
		cmocka_unit_test(test_running_sums),
		cmocka_unit_test(test_suffix_sums_of_16),
		cmocka_unit_test(test_transposed),
		cmocka_unit_test(test_through_ones),
		cmocka_unit_test(test_beside),
		cmocka_unit_test(test_varied),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_met),
		cmocka_unit_test(test_shifted),
		cmocka_unit_test(test_product),
		cmocka_unit_test(test_warp_products),
		cmocka_unit_test(test_tf32_product),
		cmocka_unit_test(test_converted),
		cmocka_unit_test(test_limited),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_by_zero),
		cmocka_unit_test(test_counted),
		cmocka_unit_test(test_cp_async),
		cmocka_unit_test(test_cp_async_places),
		cmocka_unit_test(test_planes),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_wrong_extents_are_refused),
	};
	return cmocka_run_group_tests(tests, open_ops, close_ops);
}
