/* test_trace.c - what stamp() records with -D TRACE=4, and that it records nothing without a buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/run_tile.h"

enum { N = 300, BLOCKS = 6, WARPS = 4, POINTS = 4 };

static int open_trace(void **state)
{
	*state = run_open(TILE_SOURCE_DIR "/tests/numeric/trace.tile", "TRACE=4", NULL);
	return 0;
}

static int close_trace(void **state)
{
	run_close(*state);
	return 0;
}

static void run_traced(TileRun *r, TestTensor *trace)
{
	TestTensor x = tensor_new(r, TILERT_F32, 1, (int64_t[]){ N }), y = tensor_new(r, TILERT_F32, 1, (int64_t[]){ N });
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), { .name = "trace" } };
	tensor_random(r, &x, -1, 1);
	if (trace)
		args[2] = arg_tensor("trace", trace);
	run_launch(r, "traced", args, trace ? 3 : 2);
	tensor_compare(&y, x.value, 0, 0);
	tensor_free(&x);
	tensor_free(&y);
}

static void test_points_of_teams(void **state)
{
	static const bool recorded[WARPS][POINTS] = { { 1, 1, 1, 1 }, { 0 }, { 1, 0, 1, 0 }, { 1, 0, 0, 1 } };
	TestTensor trace = tensor_new(*state, TILERT_I64, 4, (int64_t[]){ BLOCKS, WARPS, POINTS, 2 });
	run_traced(*state, &trace);
	tensor_download(&trace);
	for (int i = 0; i < BLOCKS * WARPS * POINTS; i++) {
		const double *times = &trace.value[2 * i];
		const bool *row = recorded[i / POINTS % WARPS];
		for (int k = 0; k < 2; k++) {
			if ((times[k] != -1) != row[i % POINTS])
				fail_msg("block %d, warp %d, point %d: %g", i / POINTS / WARPS, i / POINTS % WARPS, i % POINTS, times[k]);
			if (row[i % POINTS])
				assert_true(times[k] >= trace.value[2 * (i / POINTS * POINTS) + k]); /* not before point 0 */
		}
	}
	tensor_free(&trace);
}

static void test_without_a_buffer(void **state)
{
	run_traced(*state, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_points_of_teams),
		cmocka_unit_test(test_without_a_buffer),
	};
	return cmocka_run_group_tests(tests, open_trace, close_trace);
}
