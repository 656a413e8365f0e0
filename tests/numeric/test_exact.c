/* test_exact.c - the kernels of exact.tile, whose results are small integers, against plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_added_once),
		cmocka_unit_test(test_added_once_of_few),
	};
	return cmocka_run_group_tests(tests, open_exact, close_exact);
}
