/* test_collectives.c - reductions and scans in layouts that cross lanes and warps, against plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/run_tile.h"

enum { COUNT = 7 }; /* tiles: more than teams */

typedef struct Shape {
	int rows, cols, warps;
	int block_rows, block_cols; /* 0: mma */
	int axis, within;
	bool reverse;
} Shape;

static int extent(const Shape *s, int axis)
{
	return axis == 0 ? s->rows : s->cols;
}

static TileRun *open_shape(const char *file, const Shape *s)
{
	char d[9][32];
	const char *names[] = { "R", "C", "WARPS", "BLOCK_R", "BLOCK_C", "AXIS", "WITHIN", "REVERSE", "MMA" };
	int values[] = { s->rows, s->cols, s->warps, s->block_rows, s->block_cols, s->axis, s->within, s->reverse, !s->block_rows };
	for (int i = 0; i < 9; i++)
		if (i < 7)
			snprintf(d[i], sizeof d[i], "%s=%d", names[i], values[i]);
		else
			snprintf(d[i], sizeof d[i], "%s=%s", names[i], values[i] ? "true" : "false");
	if (!s->cols) /* vectors.tile */
		return run_open(file, d[0], d[2], d[6], d[7], NULL);
	return run_open(file, d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], NULL);
}

/* ---- references: one line of n elements, `step` apart ---- */

static void scan_line(const Shape *s, const double *x, double *y, int n, int step, bool product)
{
	for (int i = 0; i < n; i++) {
		int at = s->reverse ? n - 1 - i : i;
		double v = product ? 1 + 0.1 * x[at * step] : x[at * step];
		int before = s->reverse ? at + 1 : at - 1;
		if (i % s->within != 0)
			v = product ? v * y[before * step] : v + y[before * step];
		y[at * step] = v;
	}
}

typedef struct Want { double *sums, *maxima, *scans, *products; } Want;

static void reference(const Shape *s, const double *x, Want w)
{
	int n = extent(s, s->axis), lines = extent(s, !s->axis);
	int step = s->axis == 0 ? s->cols : 1, between = s->axis == 0 ? 1 : s->cols;
	for (int b = 0; b < COUNT; b++)
		for (int k = 0; k < lines; k++) {
			size_t first = (size_t)b * (size_t)(n * lines) + (size_t)(k * between);
			double sum = 0, most = -INFINITY;
			for (int i = 0; i < n; i++) {
				sum += x[first + (size_t)(i * step)];
				most = fmax(most, x[first + (size_t)(i * step)]);
			}
			w.sums[b * lines + k] = sum;
			w.maxima[b * lines + k] = most;
			scan_line(s, x + first, w.scans + first, n, step, false);
			scan_line(s, x + first, w.products + first, n, step, true);
		}
}

/* ---- one shape, by both kernels ---- */

static void check_kernel(TileRun *r, const char *kernel, const Shape *s, TestTensor *x, Want w)
{
	int kept = extent(s, !s->axis);
	int64_t tile[] = { COUNT, s->rows, s->cols }, line[] = { COUNT, kept };
	TestTensor sums = tensor_new(r, TILERT_F32, 2, line), maxima = tensor_new(r, TILERT_F32, 2, line);
	TestTensor scans = tensor_new(r, TILERT_F32, 3, tile), products = tensor_new(r, TILERT_F32, 3, tile);
	tilert_arg args[] = { arg_tensor("x", x), arg_tensor("sums", &sums), arg_tensor("maxima", &maxima), arg_tensor("scans", &scans),
		arg_tensor("products", &products) };
	run_launch(r, kernel, args, 5);
	tensor_compare(&sums, w.sums, 1e-5, 2e-5);
	tensor_compare(&maxima, w.maxima, 0, 0);
	tensor_compare(&scans, w.scans, 1e-5, 2e-5);
	tensor_compare(&products, w.products, 2e-5, 1e-6);
	tensor_free(&sums);
	tensor_free(&maxima);
	tensor_free(&scans);
	tensor_free(&products);
}

static void check_shape(const Shape *s)
{
	TileRun *r = open_shape(TILE_SOURCE_DIR "/tests/numeric/collectives.tile", s);
	TestTensor x = tensor_new(r, TILERT_F32, 3, (int64_t[]){ COUNT, s->rows, s->cols });
	tensor_random(r, &x, -1, 1);
	size_t lines = (size_t)(COUNT * extent(s, !s->axis));
	Want w = { calloc(lines, sizeof(double)), calloc(lines, sizeof(double)), calloc(x.count, sizeof(double)), calloc(x.count, sizeof(double)) };
	reference(s, x.value, w);
	check_kernel(r, "by_cta", s, &x, w);
	if (s->warps <= 4)
		check_kernel(r, "by_roles", s, &x, w);
	free(w.sums);
	free(w.maxima);
	free(w.scans);
	free(w.products);
	tensor_free(&x);
	run_close(r);
}

static void check_vectors(const Shape *s)
{
	TileRun *r = open_shape(TILE_SOURCE_DIR "/tests/numeric/vectors.tile", s);
	int64_t extents[] = { COUNT, s->rows };
	TestTensor x = tensor_new(r, TILERT_F32, 2, extents), scans = tensor_new(r, TILERT_F32, 2, extents), of_rows = tensor_new(r, TILERT_F32, 2, extents);
	tensor_random(r, &x, -1, 1);
	double *want = calloc(x.count, sizeof *want);
	for (int b = 0; b < COUNT; b++)
		scan_line(s, x.value + b * s->rows, want + b * s->rows, s->rows, 1, false);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("scans", &scans), arg_tensor("of_rows", &of_rows) };
	run_launch(r, "vectors", args, 3);
	tensor_compare(&scans, want, 1e-5, 2e-5);
	tensor_compare(&of_rows, want, 1e-5, 2e-5);
	free(want);
	tensor_free(&x);
	tensor_free(&scans);
	tensor_free(&of_rows);
	run_close(r);
}

/* rows, columns, warps, block, axis, within, reverse */
static void test_mma_rows(void **state)
{
	(void)state;
	check_shape(&(Shape){ 64, 24, 4, 0, 0, 0, 64, false });
	check_shape(&(Shape){ 64, 40, 4, 0, 0, 0, 64, true });
	check_shape(&(Shape){ 64, 8, 4, 0, 0, 0, 32, false });
	check_shape(&(Shape){ 64, 8, 4, 0, 0, 0, 4, true });
}

static void test_mma_rows_in_slices(void **state)
{
	(void)state;
	check_shape(&(Shape){ 192, 24, 4, 0, 0, 0, 192, false });
	check_shape(&(Shape){ 384, 8, 8, 0, 0, 0, 384, true }); /* two warpgroups of three slices */
	check_shape(&(Shape){ 192, 8, 4, 0, 0, 0, 64, true });
}

static void test_mma_columns(void **state)
{
	(void)state;
	check_shape(&(Shape){ 64, 40, 4, 0, 0, 1, 40, false });
	check_shape(&(Shape){ 64, 72, 4, 0, 0, 1, 24, true });
	check_shape(&(Shape){ 16, 24, 1, 0, 0, 1, 2, false });
}

static void test_blocked(void **state)
{
	(void)state;
	check_shape(&(Shape){ 64, 32, 4, 2, 4, 0, 64, false });
	check_shape(&(Shape){ 64, 32, 4, 2, 4, 0, 32, true });
	check_shape(&(Shape){ 8, 256, 4, 1, 2, 1, 256, true });  /* columns cross warps */
	check_shape(&(Shape){ 8, 256, 4, 1, 2, 1, 128, false });
	check_shape(&(Shape){ 128, 16, 2, 4, 1, 0, 128, true }); /* rows wrap around the team */
	check_shape(&(Shape){ 4, 8, 4, 1, 1, 0, 4, false });     /* more threads than elements */
}

static void test_vectors(void **state)
{
	(void)state;
	check_vectors(&(Shape){ .rows = 64, .warps = 4, .within = 64 });
	check_vectors(&(Shape){ .rows = 128, .warps = 4, .within = 128, .reverse = true });
	check_vectors(&(Shape){ .rows = 128, .warps = 4, .within = 64, .reverse = true });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mma_rows),
		cmocka_unit_test(test_mma_rows_in_slices),
		cmocka_unit_test(test_mma_columns),
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_vectors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
