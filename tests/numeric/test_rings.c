/* test_rings.c - slots and phases of rings whose length is no power of two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/support/run_tile.h"

static void check(const char *kernel)
{
	enum { N = 101 };
	double want[N];
	TileRun *r = run_open(TILE_SOURCE_DIR "/tests/numeric/rings.tile", NULL);
	TestTensor y = tensor_new(r, TILERT_I32, 1, (int64_t[]){ N });
	run_launch(r, kernel, (tilert_arg[]){ arg_tensor("y", &y) }, 1);
	for (int j = 0; j < N; j++)
		want[j] = 3 * j + (kernel[0] == 'c' ? j % 32 : 0);
	tensor_compare(&y, want, 0, 0);
	tensor_free(&y);
	run_close(r);
}

static void test_counted(void **state) { (void)state; check("counted"); }
static void test_runs(void **state) { (void)state; check("runs"); }
static void test_jumps(void **state) { (void)state; check("jumps"); }

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_counted), cmocka_unit_test(test_runs), cmocka_unit_test(test_jumps) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
