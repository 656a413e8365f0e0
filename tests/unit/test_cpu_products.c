/* test_cpu_products.c - the CPU device, driven through its ABI by kernels written in C: wgmma. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/abi/float8.h"
#include "runtime/include/tilert/tilert.h"
#include "runtime/src/float16.h"
#include "tests/unit/cpu_device.h"

enum { A_AT = 0, B_AT = 65536, WG_SMEM = 196608, DEPTH_BYTES = 128 };

typedef struct Gemm {
	uint32_t n, types, a_mn, b_mn, a_width, b_width, from_registers, negate, add, split_groups;
	uint32_t no_fence, no_wait, clobber, zero_start;
	uint8_t a_image[65536], b_image[131072];
	float a[64][128], b[128][256], c[64][256];
	float out[64][256];
} Gemm;

static tilert_dtype type_a(const Gemm *g)
{
	return (tilert_dtype)(g->types & 255);
}

static tilert_dtype type_b(const Gemm *g)
{
	return (tilert_dtype)(g->types >> 8);
}

static bool of_integers(const Gemm *g)
{
	return type_a(g) == TILERT_I8 || type_a(g) == TILERT_U8;
}

static uint32_t elements(const Gemm *g)
{
	return DEPTH_BYTES / (uint32_t)tilert_dtype_size(type_a(g));
}

static uint32_t element_bits(tilert_dtype t, float x)
{
	switch (t) {
	case TILERT_BF16: return rt_to_bf16(x);
	case TILERT_F16: return rt_to_f16(x);
	case TILERT_TF32: return rt_float_bits(x);
	case TILERT_E4M3: return float8_from(&float8_e4m3, x);
	case TILERT_E5M2: return float8_from(&float8_e5m2, x);
	default: return (uint32_t)(int32_t)x & 255;
	}
}

/* A number that the type has. */
static float random_element(tilert_dtype t, uint32_t *s, float unit)
{
	int x = (int)(rng(s) % 17) - 8;

	return t == TILERT_U8 ? (float)(rng(s) % 256) : t == TILERT_I8 ? (float)((int)(rng(s) % 256) - 128) : (float)x * unit;
}

/* A sum in its register. */
static float to_register(const Gemm *g, float x)
{
	return of_integers(g) ? rt_bits_float((uint32_t)(int32_t)x) : x;
}

static float from_register(const Gemm *g, float x)
{
	return of_integers(g) ? (float)(int32_t)rt_float_bits(x) : x;
}

/* As panels of `width` bytes (16: no swizzle) by all rows; rows are lines of `columns` elements. */
static uint32_t panel_address(uint32_t rows, uint32_t row, uint32_t column_byte, uint32_t width)
{
	uint32_t chunk = column_byte % width / 16;

	if (width > 16)
		chunk ^= row * width / 128 % (width / 16);
	return column_byte / width * rows * width + row * width + chunk * 16 + column_byte % 16;
}

static void put_element(tilert_dtype t, uint8_t *image, bool mn, uint32_t width, uint32_t r, uint32_t k, uint32_t rows, float x)
{
	uint32_t size = (uint32_t)tilert_dtype_size(t), bits = element_bits(t, x);

	memcpy(image + (mn ? panel_address(64, k, r * size, width) : panel_address(rows, r, k * size, width)), &bits, size);
}

static uint64_t descriptor(uint32_t at, bool mn, uint32_t width, uint32_t rows, uint32_t step)
{
	uint64_t mode = width == 128 ? 1 : width == 64 ? 2 : width == 32 ? 3 : 0;
	uint64_t sbo = 8 * width, lbo = 16;

	if (mn) {
		at += step * 16 * width;
		lbo = 64 * width;
		if (width == 16) {
			sbo = 64 * 16;
			lbo = 128;
		}
	} else if (width == 16) {
		at += step * 2 * rows * 16;
		lbo = rows * 16;
	} else {
		at += step * 32 / width * rows * width + step * 32 % width;
	}
	return (at >> 4 & 0x3fff) | (lbo >> 4) << 16 | (sbo >> 4) << 32 | mode << 62;
}

static void a_fragment(const Gemm *g, uint32_t thread, uint32_t step, uint32_t a[4])
{
	uint32_t row = thread / 32 * 16 + thread % 32 / 4, q = thread % 4;

	for (uint32_t h = 0; h < 4; h++) {
		uint32_t i = row + h % 2 * 8;

		a[h] = element_bits(type_a(g), g->a[i][step * 16 + 2 * q + h / 2 * 8]) | element_bits(type_a(g), g->a[i][step * 16 + 2 * q + 1 + h / 2 * 8]) << 16;
	}
}

static void fill_operands(TileCpuThread *t, const Gemm *g)
{
	for (uint32_t i = t->thread * 16; i < sizeof g->a_image; i += 128 * 16) {
		memcpy(t->smem + A_AT + i, g->a_image + i, 16);
		writes(t, A_AT + i, 16, 100);
	}
	for (uint32_t i = t->thread * 16; i < sizeof g->b_image; i += 128 * 16) {
		memcpy(t->smem + B_AT + i, g->b_image + i, 16);
		writes(t, B_AT + i, 16, 101);
	}
}

static void gemm_kernel(TileCpuThread *t, void *const *params)
{
	Gemm *g = params[0];
	uint32_t rows = (g->n + 63) / 64 * 64, a[4], row = t->thread / 32 * 16 + t->thread % 32 / 4, column = t->thread % 4 * 2;
	float d[128];

	tilecpu_role(t, "Gemm", 0, 99);
	fill_operands(t, g);
	if (!g->no_fence)
		tilecpu_fence_async(t);
	sync_all(t, 128, 102);
	for (uint32_t j = 0; j < g->n / 2; j++)
		d[j] = to_register(g, g->c[row + j / 2 % 2 * 8][j / 4 * 8 + column + j % 2]);
	tilecpu_wgmma_fence(t);
	for (uint32_t step = 0; step < 4; step++) {
		uint32_t flags = (step || !g->zero_start ? 1u : 0u) | g->negate << 1 | g->a_mn << 2 | g->b_mn << 3;

		if (g->from_registers)
			a_fragment(g, t->thread, step, a);
		tilecpu_wgmma(t, d, g->n, g->types, g->from_registers ? a : NULL, descriptor(A_AT, g->a_mn, g->a_width, 64, step),
			descriptor(B_AT, g->b_mn, g->b_width, rows, step), flags, 110 + step);
		memset(a, 0x7f, sizeof a);
		if (g->split_groups)
			tilecpu_wgmma_commit(t);
	}
	tilecpu_wgmma_commit(t);
	if (g->clobber)
		memset(t->smem + B_AT + t->thread * 16, 0, 16);
	if (!g->no_wait)
		tilecpu_wgmma_wait(t, 0, 120);
	for (uint32_t j = 0; j < g->n / 2; j++)
		g->out[row + j / 2 % 2 * 8][j / 4 * 8 + column + j % 2] = g->no_wait ? d[j] : from_register(g, d[j]);
	if (g->no_wait)
		tilecpu_wgmma_wait(t, 0, 121);
}

static void make_gemm(Gemm *g, uint32_t seed)
{
	uint32_t rows = (g->n + 63) / 64 * 64, s = seed * 77 + 5;

	memset(g->a_image, 0, sizeof g->a_image);
	memset(g->b_image, 0, sizeof g->b_image);
	for (uint32_t i = 0; i < 64; i++)
		for (uint32_t k = 0; k < elements(g); k++) {
			g->a[i][k] = random_element(type_a(g), &s, .25f);
			put_element(type_a(g), g->a_image, g->a_mn, g->a_width, i, k, 64, g->a[i][k]);
		}
	for (uint32_t j = 0; j < g->n; j++)
		for (uint32_t k = 0; k < elements(g); k++) {
			g->b[k][j] = random_element(type_b(g), &s, .125f);
			put_element(type_b(g), g->b_image, g->b_mn, g->b_width, j, k, rows, g->b[k][j]);
		}
	for (uint32_t i = 0; i < 64; i++)
		for (uint32_t j = 0; j < g->n; j++)
			g->c[i][j] = (float)(rng(&s) % 9);
}

static unsigned gemm_errors(const Gemm *g)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < 64; i++)
		for (uint32_t j = 0; j < g->n; j++) {
			float sum = g->zero_start ? 0 : g->c[i][j];

			for (uint32_t k = 0; k < elements(g); k++)
				sum += (g->negate ? -1.0f : 1.0f) * g->a[i][k] * g->b[k][j];
			wrong += !(g->out[i][j] == sum);
		}
	return wrong;
}

static int run_gemm(Gemm *g, uint64_t seed)
{
	void *params[] = { g };

	return RUN(params, .kernel = gemm_kernel, .threads = 128, .smem = WG_SMEM, .seed = seed);
}

static Gemm *new_gemm(uint32_t n, tilert_dtype a, tilert_dtype b)
{
	Gemm *g = calloc(1, sizeof *g);

	g->n = n;
	g->types = TILE_CPU_PRODUCT(a, b);
	g->a_width = g->b_width = 128;
	return g;
}

static void test_wgmma(void **state)
{
	static const uint32_t ns[] = { 8, 24, 64, 128, 256 }, widths[] = { 16, 32, 64, 128 };
	static const tilert_dtype types[][2] = { { TILERT_BF16, TILERT_BF16 }, { TILERT_F16, TILERT_F16 }, { TILERT_TF32, TILERT_TF32 },
		{ TILERT_E4M3, TILERT_E5M2 }, { TILERT_E5M2, TILERT_E4M3 }, { TILERT_I8, TILERT_U8 }, { TILERT_U8, TILERT_I8 } };
	uint32_t variant = 0;

	(void)state;
	for (unsigned kind = 0; kind < sizeof types / sizeof types[0]; kind++)
		for (unsigned i = 0; i < 5; i++)
			for (unsigned w = 0; w < 16; w++)
				for (unsigned mn = 0; mn < (tilert_dtype_size(types[kind][0]) == 2 ? 4u : 1u); mn++, variant++) {
					Gemm *g = new_gemm(ns[i], types[kind][0], types[kind][1]);

					g->a_width = widths[w / 4];
					g->b_width = widths[w % 4];
					g->a_mn = mn & 1;
					g->b_mn = mn >> 1;
					g->from_registers = variant % 5 == 3 && !g->a_mn && tilert_dtype_size(types[kind][0]) == 2;
					g->negate = variant % 3 == 1 && !of_integers(g);
					g->zero_start = variant % 7 == 2;
					g->split_groups = variant % 2;
					make_gemm(g, variant);
					expect_ok(run_gemm(g, variant));
					if (gemm_errors(g))
						fail_msg("n %u types %u %u widths %u %u majors %u %u", g->n, types[kind][0], types[kind][1], g->a_width, g->b_width, g->a_mn, g->b_mn);
					free(g);
				}
}

static void test_wgmma_mistakes(void **state)
{
	Gemm *g = new_gemm(64, TILERT_BF16, TILERT_BF16);
	unsigned late = 0, nan = 0;

	(void)state;
	make_gemm(g, 1);
	g->no_fence = 1;
	expect_error(run_gemm(g, 1), "wgmma at line 110 reads shared memory +0 written at line 100 (role Gemm, warp 0) without a fence.proxy.async in between");
	g->no_fence = 0;
	g->no_wait = 1;
	expect_ok(run_gemm(g, 1));
	for (uint32_t i = 0; i < 64; i++)
		for (uint32_t j = 0; j < 64; j++)
			nan += isnan(g->out[i][j]) != 0;
	assert_int_equal(nan, 64 * 64);
	g->no_wait = 0;
	g->clobber = 1;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		expect_ok(run_gemm(g, seed));
		late += gemm_errors(g) != 0;
	}
	assert_in_range(late, 1, SEEDS);
	g->clobber = 0;
	free(g);
}

/* Two accumulators in flight, one wait for the older. */
static void chain_kernel(TileCpuThread *t, void *const *params)
{
	Gemm *g = params[0];
	uint32_t row = t->thread / 32 * 16 + t->thread % 32 / 4, column = t->thread % 4 * 2;
	float d[2][32] = { { 0 } }, *sum = d[0];
	bool bad = false;

	fill_operands(t, g);
	tilecpu_fence_async(t);
	sync_all(t, 128, 1);
	for (uint32_t step = 0; step < 4; step++) {
		tilecpu_wgmma(t, d[step % 2], g->n, g->types, NULL, descriptor(A_AT, false, 128, 64, step), descriptor(B_AT, false, 128, 64, step), 1, 10);
		tilecpu_wgmma_commit(t);
		if (step == 0)
			continue;
		tilecpu_wgmma_wait(t, 1, 11);
		bad = bad || isnan(d[(step + 1) % 2][0]) || !isnan(d[step % 2][0]);
		if (t->thread % 32 == 3)
			tilecpu_mbar_init(t, WG_SMEM - 8 * (1 + t->thread / 32), 1, NULL, NO_SLOT); /* threads advance unevenly */
		tilecpu_syncwarp(t, 12);
	}
	tilecpu_wgmma_wait(t, 0, 13);
	for (uint32_t j = 0; j < 32; j++)
		g->out[row + j / 2 % 2 * 8][j / 4 * 8 + column + j % 2] = bad ? NAN : sum[j] + d[1][j];
}

static void test_wgmma_chain(void **state)
{
	Gemm *g = new_gemm(64, TILERT_F16, TILERT_F16);
	void *params[] = { g };

	(void)state;
	make_gemm(g, 9);
	g->zero_start = 1;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		expect_ok(RUN(params, .kernel = chain_kernel, .threads = 128, .smem = WG_SMEM, .seed = seed));
		assert_int_equal(gemm_errors(g), 0);
	}
	free(g);
}

static void flight_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t what = *(const uint32_t *)params[0], a[4] = { 0 };
	float d[32] = { 0 };

	tilecpu_role(t, "F", 0, 1);
	tilecpu_wgmma(t, d, 64, TILE_CPU_PRODUCT(TILERT_BF16, TILERT_BF16), a, 0, descriptor(0, false, 128, 64, 0), 1, 5);
	tilecpu_wgmma_commit(t);
	if (what == 0)
		return;
	if (what == 1)
		d[3] = 0;
	if (what == 2)
		tilecpu_wgmma(t, d + 8, 32, TILE_CPU_PRODUCT(TILERT_BF16, TILERT_BF16), a, 0, descriptor(0, false, 128, 64, 0), 1, 6);
	if (what == 3 && t->thread >= 96)
		tilecpu_bar_sync(t, 1, 64, NULL, 8);
	tilecpu_wgmma_wait(t, 0, 7);
}

static void test_wgmma_in_flight(void **state)
{
	static const char *const texts[] = { "a wgmma_wait is missing", "are written while it is in flight", "in another shape, with that of line 5", "deadlock" };

	(void)state;
	for (uint32_t what = 0; what < 4; what++) {
		void *params[] = { &what };

		expect_error(RUN(params, .kernel = flight_kernel, .threads = 128, .smem = 16384), texts[what]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wgmma),
		cmocka_unit_test(test_wgmma_mistakes),
		cmocka_unit_test(test_wgmma_chain),
		cmocka_unit_test(test_wgmma_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
