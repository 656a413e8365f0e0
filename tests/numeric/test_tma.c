/* test_tma.c - the transfers of tma.tile against plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "tests/support/run_tile.h"

static int open_tma(void **state)
{
	*state = run_open(TILE_SOURCE_DIR "/tests/numeric/tma.tile", NULL);
	return 0;
}

static int close_tma(void **state)
{
	run_close(*state);
	return 0;
}

/* ---- groups of stores ---- */

static void check_store_groups(TileRun *r, int64_t limit)
{
	enum { ROWS = 192, COLUMNS = 64 };
	TestTensor y = tensor_new(r, TILERT_F32, 2, (int64_t[]){ ROWS, COLUMNS });
	tilert_arg args[] = { arg_tensor("y", &y), arg_int("e", limit) };

	run_launch(r, "store_groups", args, 2);
	tensor_download(&y);
	for (int i = 0; i < ROWS; i++) {
		for (int j = 0; j < COLUMNS; j++) {
			if (i < limit)
				assert_true(y.value[i * COLUMNS + j] == 1 + i / 64);
			else
				assert_true(isnan(y.value[i * COLUMNS + j]));
		}
	}
	tensor_free(&y);
}

static void tails_are_groups(void **state)
{
	TileRun *r = *state;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		if (r->is_cpu)
			assert_int_equal(tilert_cpu_configure(r->device, seed, 0), TILERT_OK);
		for (int64_t limit = 0; limit <= 192; limit += 50)
			check_store_groups(r, limit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tails_are_groups),
	};

	return cmocka_run_group_tests_name("tma", tests, open_tma, close_tma);
}
