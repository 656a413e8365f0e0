/* test_cpu_warps.c - the CPU device, driven through its ABI by kernels written in C: shuffles, ldmatrix, mma.sync. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "runtime/include/tilert/tilert.h"
#include "runtime/src/float16.h"
#include "tests/unit/cpu_device.h"

static void warp_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t *out = params[0], l = t->thread % 32, *mine = out + t->thread * 16, in[4];

	mine[0] = tilecpu_shfl(t, l * 3, 0, 5, 1);
	mine[1] = tilecpu_shfl(t, l * 3, 1, 4, 1);
	mine[2] = tilecpu_shfl(t, l * 3, 2, 4, 1);
	mine[3] = tilecpu_shfl(t, l * 3, 3, 6, 1);
	/* matrix k of the warp: element (i, j) is 1000 warp + 100 k + 10 i + j */
	for (uint32_t j = 0; j < 8; j++) {
		uint16_t x = (uint16_t)(1000 * (t->thread / 32) + 100 * (l / 8) + 10 * (l % 8) + j);
		memcpy(t->smem + t->thread * 16 + j * 2, &x, 2);
	}
	tilecpu_syncwarp(t, 2);
	tilecpu_ldmatrix(t, in, t->thread * 16, 4, 0, 3);
	memcpy(mine + 4, in, 16);
	tilecpu_ldmatrix(t, in, t->thread * 16, 4, 1, 4);
	memcpy(mine + 8, in, 16);
	mine[12] = tilecpu_movmatrix(t, mine[4], 5);
	tilecpu_stmatrix(t, 1024 + t->thread * 16, in, 4, 1, 6);
	mine[13] = (uint32_t)memcmp(t->smem + t->thread * 16, t->smem + 1024 + t->thread * 16, 16);
	tilecpu_syncwarp(t, 7);
	tilecpu_stmatrix(t, 1024 + t->thread * 16, mine + 4, 4, 0, 7);
	mine[14] = (uint32_t)memcmp(t->smem + t->thread * 16, t->smem + 1024 + t->thread * 16, 16);
}

static void test_warp(void **state)
{
	static uint32_t out[64 * 16];
	void *params[] = { out };

	(void)state;
	expect_ok(RUN(params, .kernel = warp_kernel, .threads = 64, .smem = 2048));
	for (uint32_t t = 0; t < 64; t++) {
		uint32_t l = t % 32, *m = out + t * 16, i = l / 4, j = l % 4 * 2, base = 1000 * (t / 32);

		assert_int_equal(m[0], 15);
		assert_int_equal(m[1], (l < 4 ? l : l - 4) * 3);
		assert_int_equal(m[2], (l + 4 < 32 ? l + 4 : l) * 3);
		assert_int_equal(m[3], (l ^ 6) * 3);
		for (uint32_t k = 0; k < 4; k++) {
			assert_int_equal(m[4 + k], (base + 100 * k + 10 * i + j) | (base + 100 * k + 10 * i + j + 1) << 16);
			assert_int_equal(m[8 + k], (base + 100 * k + 10 * j + i) | (base + 100 * k + 10 * (j + 1) + i) << 16);
		}
		assert_int_equal(m[12], m[8]);
		assert_int_equal(m[13], 0);
		assert_int_equal(m[14], 0);
	}
}

typedef struct WarpGemm {
	tilert_dtype type;
	float a[16][16], b[16][8], d[16][8];
} WarpGemm;

static uint32_t pack(tilert_dtype type, float low, float high)
{
	return type == TILERT_BF16 ? rt_to_bf16(low) | (uint32_t)rt_to_bf16(high) << 16 : rt_to_f16(low) | (uint32_t)rt_to_f16(high) << 16;
}

static void mma_kernel(TileCpuThread *t, void *const *params)
{
	WarpGemm *g = params[0];
	uint32_t i = t->thread / 4, q = t->thread % 4, a[4], b[2];
	float d[4] = { 1, 1, 1, 1 };

	for (uint32_t h = 0; h < 4; h++)
		a[h] = g->type == TILERT_TF32 ? rt_float_bits(g->a[i + h % 2 * 8][q + h / 2 * 4])
			: pack(g->type, g->a[i + h % 2 * 8][2 * q + h / 2 * 8], g->a[i + h % 2 * 8][2 * q + 1 + h / 2 * 8]);
	for (uint32_t h = 0; h < 2; h++)
		b[h] = g->type == TILERT_TF32 ? rt_float_bits(g->b[q + h * 4][i]) : pack(g->type, g->b[2 * q + h * 8][i], g->b[2 * q + 1 + h * 8][i]);
	tilecpu_mma_sync(t, d, a, b, TILE_CPU_PRODUCT(g->type, g->type), 1);
	for (uint32_t h = 0; h < 4; h++)
		g->d[i + h / 2 * 8][2 * q + h % 2] = d[h];
}

static void test_mma_sync(void **state)
{
	WarpGemm g;
	void *params[] = { &g };
	uint32_t s = 4;

	(void)state;
	for (g.type = TILERT_F16; g.type <= TILERT_TF32; g.type++) {
		uint32_t depth = g.type == TILERT_TF32 ? 8 : 16;

		for (uint32_t i = 0; i < 256; i++)
			(&g.a[0][0])[i] = (float)(rng(&s) % 16) / 4;
		for (uint32_t i = 0; i < 128; i++)
			(&g.b[0][0])[i] = (float)(rng(&s) % 16) / 4;
		expect_ok(RUN(params, .kernel = mma_kernel, .threads = 32, .smem = 64));
		for (uint32_t i = 0; i < 16; i++)
			for (uint32_t j = 0; j < 8; j++) {
				float sum = 1;

				for (uint32_t k = 0; k < depth; k++)
					sum += g.a[i][k] * g.b[k][j];
				assert_true(g.d[i][j] == sum);
			}
	}
}

static void diverge_kernel(TileCpuThread *t, void *const *params)
{
	(void)params;
	if (t->thread < 4)
		tilecpu_syncwarp(t, 3);
	else
		tilecpu_shfl(t, 1, 0, 0, 4);
}

static void test_diverge(void **state)
{
	(void)state;
	expect_error(RUN(NULL, .kernel = diverge_kernel, .threads = 32, .smem = 64), "the lanes of warp 0 diverge");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_warp),
		cmocka_unit_test(test_mma_sync),
		cmocka_unit_test(test_diverge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
