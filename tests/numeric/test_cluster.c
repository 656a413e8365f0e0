/* test_cluster.c - multicast loads and arrivals at barriers of other CTAs, against plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/run_tile.h"

static void check_product(int ctas, int stages, int m, int n, int k)
{
	char defines[2][16];
	snprintf(defines[0], sizeof defines[0], "CTAS=%d", ctas);
	snprintf(defines[1], sizeof defines[1], "STAGES=%d", stages);
	TileRun *r = run_open(TILE_SOURCE_DIR "/tests/numeric/cluster.tile", defines[0], defines[1], NULL);
	TestTensor a = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ m, k }), b = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ n, k });
	TestTensor c = tensor_new(r, TILERT_F32, 2, (int64_t[]){ m, n });
	double *want = calloc(c.count, sizeof *want);
	tensor_random(r, &a, -1, 1);
	tensor_random(r, &b, -1, 1);
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++)
			for (int q = 0; q < k; q++)
				want[i * n + j] += a.value[i * k + q] * b.value[j * k + q];
	tilert_arg args[] = { arg_tensor("a", &a), arg_tensor("b", &b), arg_tensor("c", &c) };
	run_launch(r, "cluster_product", args, 3);
	tensor_compare(&c, want, 1e-5, 1e-4);
	free(want);
	tensor_free(&a);
	tensor_free(&b);
	tensor_free(&c);
	run_close(r);
}

static void test_two(void **state)
{
	(void)state;
	check_product(2, 2, 128, 64, 512);
	check_product(2, 1, 256, 128, 320);
}

/* M no multiple of the tiles, K neither: whole CTAs and boxes beyond the end. */
static void test_four(void **state)
{
	(void)state;
	check_product(4, 3, 200, 64, 456);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_four),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
