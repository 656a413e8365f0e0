/* test_cpu.c - the CPU device, driven through its ABI by kernels written in C. */
#define _DEFAULT_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu_abi.h"
#include "runtime/include/tilert/tilert.h"
#include "runtime/src/float16.h"

enum { SEEDS = 24 };
#define NO_SLOT UINT32_MAX

static char error[8192];

typedef struct Run {
	TileCpuKernel kernel;
	uint32_t grid, threads, smem, cluster;
	uint64_t seed;
	unsigned workers;
	bool unchecked; /* for races */
	double timeout;
} Run;

static int run_kernel(Run r, void *const *params)
{
	TileCpuLaunch l = { .entry = r.kernel, .kernel_name = "k", .source_name = "k.tile", .params = params, .seed = r.seed,
		.grid = { r.grid ? r.grid : 1, 1, 1 }, .threads = r.threads, .smem_bytes = r.smem, .cluster = r.cluster,
		.workers = r.workers ? r.workers : 1, .no_race_check = r.unchecked, .timeout = r.timeout, .error = error, .error_size = sizeof error };

	return tilecpu_launch(&l);
}

#define RUN(params, ...) run_kernel((Run){ __VA_ARGS__ }, params)

static void expect_ok(int status)
{
	if (status)
		fail_msg("%s", error);
}

static void expect_error(int status, const char *part)
{
	assert_int_equal(status, -1);
	if (!strstr(error, part))
		fail_msg("`%s` is not in:\n%s", part, error);
}

static void sync_all(TileCpuThread *t, uint32_t threads, uint32_t line)
{
	tilecpu_bar_sync(t, 0, threads, NULL, line);
}

static void put32(TileCpuThread *t, uint32_t offset, uint32_t value, uint32_t line)
{
	memcpy(t->smem + offset, &value, 4);
	tilecpu_shared_writes(t, offset, &(uint32_t){ 0 }, 1, 4, line);
}

static uint32_t get32(const TileCpuThread *t, uint32_t offset)
{
	uint32_t value;

	memcpy(&value, t->smem + offset, 4);
	return value;
}

static uint32_t rng(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

/* ---- threads and barriers ---- */

static void reverse_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t *out = params[0];

	put32(t, t->thread * 4, t->thread + 1000 * t->block[0], 1);
	sync_all(t, 256, 2);
	out[t->block[0] * 256 + t->thread] = get32(t, (255 - t->thread) * 4);
}

static void test_bar_sync(void **state)
{
	static uint32_t out[8 * 256];
	void *params[] = { out };

	(void)state;
	for (uint64_t seed = 0; seed < 4; seed++) {
		memset(out, 0, sizeof out);
		expect_ok(RUN(params, .kernel = reverse_kernel, .grid = 8, .threads = 256, .smem = 1024, .seed = seed, .workers = 3));
		for (uint32_t i = 0; i < 8 * 256; i++)
			assert_int_equal(out[i], 255 - i % 256 + 1000 * (i / 256));
	}
}

static void poison_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t *bad = params[0];

	for (uint32_t i = t->thread; i < 256; i += 32)
		if (get32(t, i * 4) != 0x7f7f7f7f)
			__atomic_fetch_add(bad, 1, __ATOMIC_RELAXED);
	sync_all(t, 32, 1);
	memset(t->smem + t->thread * 32, 0, 32);
}

static void test_poison(void **state)
{
	uint32_t bad = 0;
	void *params[] = { &bad };

	(void)state;
	expect_ok(RUN(params, .kernel = poison_kernel, .grid = 5, .threads = 32, .smem = 1024));
	assert_int_equal(bad, 0);
}

/* A ring of 2 slots: warp 0 produces n values, warp 1 consumes them. */
static void ring_kernel(TileCpuThread *t, void *const *params)
{
	enum { FULL = 0, EMPTY = 16, DATA = 64 };
	uint32_t n = *(const uint32_t *)params[0], *out = params[1];

	if (t->thread == 0)
		for (uint32_t s = 0; s < 2; s++) {
			tilecpu_mbar_init(t, FULL + 8 * s, 32, NULL, NO_SLOT);
			tilecpu_mbar_init(t, EMPTY + 8 * s, 32, NULL, NO_SLOT);
		}
	sync_all(t, 64, 1);
	tilecpu_role(t, t->thread < 32 ? "Produce" : "Consume", 0, 2);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t slot = i % 2, parity = i / 2 & 1;

		if (t->thread < 32) {
			tilecpu_mbar_wait(t, EMPTY + 8 * slot, parity ^ 1, 10);
			put32(t, DATA + slot * 128 + t->thread * 4, i * 100 + t->thread, 11);
			tilecpu_mbar_arrive(t, FULL + 8 * slot, 12);
		} else {
			tilecpu_mbar_wait(t, FULL + 8 * slot, parity, 20);
			out[i * 32 + t->thread - 32] = get32(t, DATA + slot * 128 + (63 - t->thread) * 4);
			tilecpu_mbar_arrive(t, EMPTY + 8 * slot, 21);
		}
	}
}

static void test_mbarrier_ring(void **state)
{
	static uint32_t out[20 * 32];
	uint32_t n = 20;
	void *params[] = { &n, out };

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		memset(out, 0, sizeof out);
		expect_ok(RUN(params, .kernel = ring_kernel, .threads = 64, .smem = 512, .seed = seed));
		for (uint32_t i = 0; i < n * 32; i++)
			assert_int_equal(out[i], i / 32 * 100 + 31 - i % 32);
	}
}

static void too_many_kernel(TileCpuThread *t, void *const *params)
{
	(void)params;
	if (t->thread == 0)
		tilecpu_mbar_init(t, 8, 2, NULL, NO_SLOT);
	sync_all(t, 32, 1);
	tilecpu_role(t, "Many", 0, 2);
	if (t->thread == 0)
		tilecpu_mbar_expect_tx(t, 8, 64, 3);
	sync_all(t, 32, 4);
	if (t->thread < 3)
		tilecpu_mbar_arrive(t, 8, 5);
}

static void overrun_kernel(TileCpuThread *t, void *const *params)
{
	(void)params;
	if (t->thread == 0)
		tilecpu_mbar_init(t, 8, 32, NULL, NO_SLOT);
	sync_all(t, 64, 1);
	tilecpu_role(t, t->thread < 32 ? "Fast" : "Slow", 0, 2);
	if (t->thread >= 32) {
		tilecpu_mbar_wait(t, 8, 0, 3);
		return;
	}
	for (int i = 0; i < 2; i++) {
		tilecpu_mbar_arrive(t, 8, 4);
		tilecpu_syncwarp(t, 5);
	}
}

static void uninitialised_kernel(TileCpuThread *t, void *const *params)
{
	(void)params;
	tilecpu_mbar_wait(t, 16, 0, 44);
}

static void test_reports(void **state)
{
	bool seen = false;

	(void)state;
	expect_error(RUN(NULL, .kernel = too_many_kernel, .threads = 32, .smem = 128), "k.tile:5: kernel k, CTA (0, 0, 0), role Many, warp 0: too many arrivals on mbarrier +8");
	for (uint64_t seed = 0; seed < SEEDS && !seen; seed++)
		seen = RUN(NULL, .kernel = overrun_kernel, .threads = 64, .smem = 128, .seed = seed) && strstr(error, "its parity wait can miss the phase");
	assert_true(seen);
	expect_error(RUN(NULL, .kernel = uninitialised_kernel, .threads = 32, .smem = 128), "k.tile:44:");
	expect_error(-1, "before its initialisation");
}

static void deadlock_kernel(TileCpuThread *t, void *const *params)
{
	(void)params;
	if (t->thread == 0)
		tilecpu_mbar_init(t, 64, 40, NULL, NO_SLOT);
	sync_all(t, 160, 1);
	if (t->thread < 32) {
		tilecpu_role(t, "Load", 0, 2);
		tilecpu_mbar_arrive(t, 64, 3);
		if (t->thread == 0)
			tilecpu_mbar_expect_tx(t, 64, 256, 4);
		return;
	}
	tilecpu_role(t, "Work", (t->thread - 32) / 64, 5);
	if (t->thread == 96)
		tilecpu_bar_sync(t, 3, 64, NULL, 9);
	tilecpu_mbar_wait(t, 64, 1, 6);
	tilecpu_mbar_wait(t, 64, 0, 7);
}

static void test_deadlock_text(void **state)
{
	(void)state;
	expect_error(RUN(NULL, .kernel = deadlock_kernel, .threads = 160, .smem = 128), "deadlock");
	assert_string_equal(error,
		"k.tile: kernel k, CTA (0, 0, 0): deadlock, every thread waits\n"
		"  role Load, warp 0: has ended\n"
		"  role Work[0], warps 1-2, line 7: waits for mbarrier +64, parity 0: phase 0 lacks 8 of 40 arrivals and 256 bytes\n"
		"  role Work[1], warp 3 lane 0, line 9: waits at barrier 3: 1 of 64 threads have come\n"
		"  role Work[1], warp 3 lanes fffffffe, line 7: waits for mbarrier +64, parity 0: phase 0 lacks 8 of 40 arrivals and 256 bytes\n"
		"  role Work[1], warp 4, line 7: waits for mbarrier +64, parity 0: phase 0 lacks 8 of 40 arrivals and 256 bytes");
}

static void fail_kernel(TileCpuThread *t, void *const *params)
{
	(void)params;
	tilecpu_role(t, "R", 0, 1);
	sync_all(t, 64, 2);
	if (t->thread == 40 && t->block[0] == 3)
		tilecpu_fail(t, "x must be positive", 17);
	sync_all(t, 64, 3);
}

static void test_fail(void **state)
{
	(void)state;
	expect_error(RUN(NULL, .kernel = fail_kernel, .grid = 50, .threads = 64, .smem = 64, .workers = 4),
		"k.tile:17: kernel k, CTA (3, 0, 0), role R, warp 1: x must be positive");
}

static void cluster_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t *out = params[0];

	__atomic_fetch_add(&out[t->block[0] / 4], 1, __ATOMIC_RELAXED);
	if (t->thread == 7)
		return;
	tilecpu_cluster_sync(t, 2);
	if (__atomic_load_n(&out[t->block[0] / 4], __ATOMIC_RELAXED) != 4 * 64 || t->block[0] % 4 != t->cluster_rank)
		tilecpu_fail(t, "early", 3);
}

static void test_cluster(void **state)
{
	uint32_t out[3] = { 0 };
	void *params[] = { out };

	(void)state;
	expect_ok(RUN(params, .kernel = cluster_kernel, .grid = 12, .threads = 64, .smem = 64, .cluster = 4));
	expect_error(RUN(params, .kernel = cluster_kernel, .grid = 10, .threads = 64, .smem = 64, .cluster = 4), "multiple of the cluster size");
}

/* ---- TMA ---- */

typedef struct TmaCase {
	TileCpuTensorMap in, out;
	int32_t coord[5], out_coord[5];
	uint8_t smem[16384];
	uint32_t bytes, reduce;
} TmaCase;

static void tma_kernel(TileCpuThread *t, void *const *params)
{
	TmaCase *c = params[0];

	if (t->thread == 0)
		tilecpu_mbar_init(t, 16384, 1, NULL, NO_SLOT);
	sync_all(t, 64, 1);
	if (t->thread == 0) {
		tilecpu_tma_load(t, &c->in, 0, 16384, c->coord, 2);
		tilecpu_mbar_arrive_expect_tx(t, 16384, c->bytes, 3);
	}
	tilecpu_mbar_wait(t, 16384, 0, 4);
	if (t->thread == 0) {
		memcpy(c->smem, t->smem, c->bytes);
		tilecpu_tma_store(t, &c->out, 0, c->out_coord, c->reduce, 5);
		tilecpu_bulk_commit(t);
		tilecpu_bulk_wait(t, 0, 1, 6);
	}
}

static uint32_t swizzle_ref(uint32_t linear, uint32_t width)
{
	return width ? linear ^ ((linear >> 7) & (width / 16 - 1)) << 4 : linear;
}

enum { D0 = 72, D1 = 9, D2 = 4 };

static bool inside3(int x, int y, int z)
{
	return x >= 0 && x < D0 && y >= 0 && y < D1 && z >= 0 && z < D2;
}

static void check_tma(TmaCase *c, const uint16_t *in, const uint16_t *out)
{
	uint32_t b0 = c->in.box[0], b1 = c->in.box[1], n = c->bytes / 2;

	for (uint32_t i = 0; i < n; i++) {
		int x = (int)(i % b0), y = (int)(i / b0 % b1), z = (int)(i / b0 / b1);
		int sx = x + c->coord[0], sy = y + c->coord[1], sz = z + c->coord[2];
		int dx = x + c->out_coord[0], dy = y + c->out_coord[1], dz = z + c->out_coord[2];
		uint16_t want = inside3(sx, sy, sz) ? in[(sz * D1 + sy) * D0 + sx] : 0, got;

		memcpy(&got, c->smem + swizzle_ref(i * 2, c->in.swizzle_bytes), 2);
		assert_int_equal(got, want);
		if (inside3(dx, dy, dz))
			assert_int_equal(out[(dz * D1 + dy) * D0 + dx], want);
	}
}

static void test_tma(void **state)
{
	static const uint8_t widths[] = { 0, 32, 64, 128 };
	static const int32_t coords[][5] = { { 0, 0, 0 }, { 8, 3, 1 }, { 48, 5, 3 }, { -16, -2, -1 }, { 64, 8, 2 } };
	static const int32_t out_coords[][5] = { { 8, 3, 1 }, { 48, 5, 3 }, { 0, 2, 1 }, { 64, 8, 2 }, { 0, 0, 0 } }; /* not before the tensor */
	uint16_t *in = aligned_alloc(64, D0 * D1 * D2 * 2), *out = aligned_alloc(64, D0 * D1 * D2 * 2);
	TmaCase *c = malloc(sizeof *c);
	void *params[] = { c };

	(void)state;
	for (uint32_t i = 0; i < D0 * D1 * D2; i++)
		in[i] = (uint16_t)(i + 1);
	for (unsigned w = 0; w < 4; w++)
		for (unsigned k = 0; k < 5; k++)
			for (uint64_t seed = 0; seed < 4; seed++) {
				uint32_t untouched = 0, count = 0;

				memset(c, 0, sizeof *c);
				memset(out, 0xee, D0 * D1 * D2 * 2);
				c->in = (TileCpuTensorMap){ .base = (uint8_t *)in, .dim = { D0, D1, D2 }, .stride = { 2, D0 * 2, D0 * D1 * 2 },
					.box = { widths[w] ? widths[w] / 2 : 64, 8, 3 }, .rank = 3, .element_bytes = 2, .swizzle_bytes = widths[w], .dtype = TILERT_BF16 };
				c->out = c->in;
				c->out.base = (uint8_t *)out;
				memcpy(c->coord, coords[k], sizeof c->coord);
				memcpy(c->out_coord, out_coords[k], sizeof c->out_coord);
				c->bytes = c->in.box[0] * 8u * 3u * 2u;
				expect_ok(RUN(params, .kernel = tma_kernel, .threads = 64, .smem = 16384 + 64, .seed = seed));
				check_tma(c, in, out);
				for (uint32_t i = 0; i < D0 * D1 * D2; i++) {
					int x = (int)(i % D0) - c->out_coord[0], y = (int)(i / D0 % D1) - c->out_coord[1], z = (int)(i / D0 / D1) - c->out_coord[2];

					if (x >= 0 && x < c->in.box[0] && y >= 0 && y < 8 && z >= 0 && z < 3)
						continue;
					count++;
					untouched += out[i] == 0xeeee;
				}
				assert_int_equal(untouched, count);
			}
	free(in);
	free(out);
	free(c);
}

static void test_tma_reduce(void **state)
{
	static const uint8_t types[] = { TILERT_F32, TILERT_I32, TILERT_BF16, TILERT_F16 };
	TmaCase *c = calloc(1, sizeof *c);
	uint8_t *in = aligned_alloc(64, 256), *out = aligned_alloc(64, 256);
	void *params[] = { c };

	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		uint8_t size = k < 2 ? 4 : 2;

		for (uint32_t i = 0; i < 16; i++) {
			float x = (float)i;
			int32_t n = (int32_t)i;
			uint16_t h = k == 2 ? rt_to_bf16(x) : rt_to_f16(x);

			memcpy(in + i * size, k == 0 ? (void *)&x : k == 1 ? (void *)&n : (void *)&h, size);
			memcpy(out + i * size, k == 0 ? (void *)&x : k == 1 ? (void *)&n : (void *)&h, size);
		}
		c->in = (TileCpuTensorMap){ .base = in, .dim = { 16 }, .stride = { size }, .box = { 16 }, .rank = 1, .element_bytes = size, .dtype = types[k] };
		c->out = c->in;
		c->out.base = out;
		c->bytes = 16u * size;
		c->reduce = 1;
		expect_ok(RUN(params, .kernel = tma_kernel, .grid = 3, .threads = 64, .smem = 16384 + 64, .workers = 2));
		for (uint32_t i = 0; i < 16; i++) {
			float x;
			int32_t n;
			uint16_t h;

			memcpy(&x, out + i * size, size);
			memcpy(&n, out + i * size, size);
			memcpy(&h, out + i * size, 2);
			x = k == 0 ? x : k == 1 ? (float)n : k == 2 ? rt_from_bf16(h) : rt_from_f16(h);
			assert_true(x == 4.0f * (float)i);
		}
	}
	free(in);
	free(out);
	free(c);
}

typedef struct BulkCase {
	uint8_t *in, *out;
	uint32_t announced, overwrite, early;
} BulkCase;

static void bulk_kernel(TileCpuThread *t, void *const *params)
{
	const BulkCase *c = params[0];

	if (t->thread == 0)
		tilecpu_mbar_init(t, 1024, 1, NULL, NO_SLOT);
	sync_all(t, 32, 1);
	tilecpu_role(t, "Copy", 0, 1);
	if (t->thread == 0) {
		tilecpu_mbar_arrive_expect_tx(t, 1024, c->announced, 2);
		tilecpu_bulk_load(t, 256, c->in, 256, 1024, 3);
	}
	if (!c->early)
		tilecpu_mbar_wait(t, 1024, 0, 4);
	if (t->thread == 0) {
		tilecpu_bulk_store(t, c->out, 256, 256, 5);
		tilecpu_bulk_commit(t);
		if (!c->overwrite)
			tilecpu_bulk_wait(t, 0, 1, 6);
		memset(t->smem + 256, 0, 256);
		tilecpu_bulk_wait(t, 0, 1, 7);
	}
	if (c->early)
		tilecpu_mbar_wait(t, 1024, 0, 8);
}

static unsigned wrong_bulk(BulkCase *c)
{
	void *params[] = { c };
	unsigned wrong = 0;

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		memset(c->out, 0, 256);
		expect_ok(RUN(params, .kernel = bulk_kernel, .threads = 32, .smem = 1032, .seed = seed, .unchecked = true));
		wrong += memcmp(c->in, c->out, 256) != 0;
	}
	return wrong;
}

static void test_bulk(void **state)
{
	BulkCase c = { .in = aligned_alloc(16, 256), .out = aligned_alloc(16, 256), .announced = 256 };
	void *params[] = { &c };

	(void)state;
	for (int i = 0; i < 256; i++)
		c.in[i] = (uint8_t)(i + 1);
	assert_int_equal(wrong_bulk(&c), 0);
	c.overwrite = 1;
	assert_in_range(wrong_bulk(&c), 2, SEEDS - 1);
	c.overwrite = 0;
	c.early = 1;
	assert_in_range(wrong_bulk(&c), 2, SEEDS);
	c.early = 0;
	c.announced = 128;
	expect_error(RUN(params, .kernel = bulk_kernel, .threads = 32, .smem = 1032), "128 bytes more than were announced");
	c.announced = 0;
	expect_error(RUN(params, .kernel = bulk_kernel, .threads = 32, .smem = 1032), "mbarrier +1024");
	c.announced = 512;
	expect_error(RUN(params, .kernel = bulk_kernel, .threads = 32, .smem = 1032), "phase 0 lacks 0 of 1 arrivals and 256 bytes");
	free(c.in);
	free(c.out);
}

static void cp_async_kernel(TileCpuThread *t, void *const *params)
{
	const uint8_t *in = params[0];
	uint32_t *out = params[1], wait = *(const uint32_t *)params[2];

	tilecpu_cp_async(t, t->thread * 16, in + t->thread * 16, 16, t->thread == 5 ? 8 : 16, 1);
	tilecpu_cp_async_commit(t);
	if (wait)
		tilecpu_cp_async_wait(t, 0);
	for (uint32_t i = 0; i < 4; i++)
		out[t->thread * 4 + i] = get32(t, t->thread * 16 + i * 4);
}

static void test_cp_async(void **state)
{
	uint32_t *in = aligned_alloc(16, 512), out[128], wait, wrong = 0;
	void *params[] = { in, out, &wait };

	(void)state;
	for (uint32_t i = 0; i < 128; i++)
		in[i] = i + 1;
	for (wait = 0; wait < 2; wait++) {
		expect_ok(RUN(params, .kernel = cp_async_kernel, .threads = 32, .smem = 512));
		for (uint32_t i = 0; i < 128; i++)
			wrong += out[i] != (i == 22 || i == 23 ? 0 : i + 1);
		if (wait)
			assert_int_equal(wrong, 0);
		else
			assert_in_range(wrong, 1, 128);
		wrong = 0;
	}
	free(in);
}

/* ---- wgmma ---- */

enum { A_AT = 0, B_AT = 65536, WG_SMEM = 196608, DEPTH_BYTES = 128 };

typedef struct Gemm {
	uint32_t n, kind, a_mn, b_mn, a_width, b_width, from_registers, negate, add, split_groups;
	uint32_t no_fence, no_wait, clobber, zero_start;
	uint8_t a_image[65536], b_image[131072];
	float a[64][64], b[64][256], c[64][256];
	float out[64][256];
} Gemm;

static uint32_t elements(const Gemm *g)
{
	return g->kind == TILE_CPU_TF32 ? 32 : 64;
}

static uint32_t element_bits(const Gemm *g, float x)
{
	return g->kind == TILE_CPU_BF16 ? rt_to_bf16(x) : g->kind == TILE_CPU_F16 ? rt_to_f16(x) : rt_float_bits(x);
}

/* As panels of `width` bytes (16: no swizzle) by all rows; rows are lines of `columns` elements. */
static uint32_t panel_address(uint32_t rows, uint32_t row, uint32_t column_byte, uint32_t width)
{
	uint32_t chunk = column_byte % width / 16;

	if (width > 16)
		chunk ^= row * width / 128 % (width / 16);
	return column_byte / width * rows * width + row * width + chunk * 16 + column_byte % 16;
}

static void put_element(const Gemm *g, uint8_t *image, bool mn, uint32_t width, uint32_t r, uint32_t k, uint32_t rows, float x)
{
	uint32_t size = g->kind == TILE_CPU_TF32 ? 4 : 2, bits = element_bits(g, x);

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

		if (g->kind == TILE_CPU_TF32)
			a[h] = element_bits(g, g->a[i][step * 8 + q + h / 2 * 4]);
		else
			a[h] = element_bits(g, g->a[i][step * 16 + 2 * q + h / 2 * 8]) | element_bits(g, g->a[i][step * 16 + 2 * q + 1 + h / 2 * 8]) << 16;
	}
}

static void fill_operands(TileCpuThread *t, const Gemm *g)
{
	for (uint32_t i = t->thread * 16; i < sizeof g->a_image; i += 128 * 16) {
		memcpy(t->smem + A_AT + i, g->a_image + i, 16);
		tilecpu_shared_writes(t, A_AT + i, &(uint32_t){ 0 }, 1, 16, 100);
	}
	for (uint32_t i = t->thread * 16; i < sizeof g->b_image; i += 128 * 16) {
		memcpy(t->smem + B_AT + i, g->b_image + i, 16);
		tilecpu_shared_writes(t, B_AT + i, &(uint32_t){ 0 }, 1, 16, 101);
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
		d[j] = g->c[row + j / 2 % 2 * 8][j / 4 * 8 + column + j % 2];
	tilecpu_wgmma_fence(t);
	for (uint32_t step = 0; step < 4; step++) {
		uint32_t flags = (step || !g->zero_start ? 1u : 0u) | g->negate << 1 | g->a_mn << 2 | g->b_mn << 3;

		if (g->from_registers)
			a_fragment(g, t->thread, step, a);
		tilecpu_wgmma(t, d, g->n, g->kind, g->from_registers ? a : NULL, descriptor(A_AT, g->a_mn, g->a_width, 64, step),
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
		g->out[row + j / 2 % 2 * 8][j / 4 * 8 + column + j % 2] = d[j];
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
			g->a[i][k] = (float)((int)(rng(&s) % 17) - 8) / 4;
			put_element(g, g->a_image, g->a_mn, g->a_width, i, k, 64, g->a[i][k]);
		}
	for (uint32_t j = 0; j < g->n; j++)
		for (uint32_t k = 0; k < elements(g); k++) {
			g->b[k][j] = (float)((int)(rng(&s) % 17) - 8) / 8;
			put_element(g, g->b_image, g->b_mn, g->b_width, j, k, rows, g->b[k][j]);
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

static Gemm *new_gemm(uint32_t n, uint32_t kind)
{
	Gemm *g = calloc(1, sizeof *g);

	g->n = n;
	g->kind = kind;
	g->a_width = g->b_width = 128;
	return g;
}

static void test_wgmma(void **state)
{
	static const uint32_t ns[] = { 8, 24, 64, 128, 256 }, widths[] = { 16, 32, 64, 128 };
	uint32_t variant = 0;

	(void)state;
	for (unsigned kind = 0; kind < 3; kind++)
		for (unsigned i = 0; i < 5; i++)
			for (unsigned w = 0; w < 16; w++)
				for (unsigned mn = 0; mn < (kind == TILE_CPU_TF32 ? 1u : 4u); mn++, variant++) {
					Gemm *g = new_gemm(ns[i], kind);

					g->a_width = widths[w / 4];
					g->b_width = widths[w % 4];
					g->a_mn = mn & 1;
					g->b_mn = mn >> 1;
					g->from_registers = variant % 5 == 3 && !g->a_mn;
					g->negate = variant % 3 == 1;
					g->zero_start = variant % 7 == 2;
					g->split_groups = variant % 2;
					make_gemm(g, variant);
					expect_ok(run_gemm(g, variant));
					if (gemm_errors(g))
						fail_msg("n %u kind %u widths %u %u majors %u %u", g->n, kind, g->a_width, g->b_width, g->a_mn, g->b_mn);
					free(g);
				}
}

static void test_wgmma_mistakes(void **state)
{
	Gemm *g = new_gemm(64, TILE_CPU_BF16);
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
		tilecpu_wgmma(t, d[step % 2], g->n, g->kind, NULL, descriptor(A_AT, false, 128, 64, step), descriptor(B_AT, false, 128, 64, step), 1, 10);
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
	Gemm *g = new_gemm(64, TILE_CPU_F16);
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
	tilecpu_wgmma(t, d, 64, TILE_CPU_BF16, a, 0, descriptor(0, false, 128, 64, 0), 1, 5);
	tilecpu_wgmma_commit(t);
	if (what == 0)
		return;
	if (what == 1)
		d[3] = 0;
	if (what == 2)
		tilecpu_wgmma(t, d + 8, 32, TILE_CPU_BF16, a, 0, descriptor(0, false, 128, 64, 0), 1, 6);
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

/* ---- fences ---- */

/* Warp 0 writes; who fences, and where, is told by params[0]. */
static void fence_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t who = *(const uint32_t *)params[0];
	uint8_t *out = params[1];

	if (t->thread == 0)
		tilecpu_mbar_init(t, 1024, 32, NULL, NO_SLOT);
	tilecpu_role(t, t->thread < 32 ? "Write" : t->thread < 64 ? "Store" : "Other", 0, 1);
	sync_all(t, 96, 2);
	if (t->thread < 32) {
		if (who == 4)
			tilecpu_fence_async(t);
		put32(t, t->thread * 4, t->thread, 10);
		if (who == 1)
			tilecpu_fence_async(t);
		tilecpu_mbar_arrive(t, 1024, 11);
	} else if (t->thread == 32) {
		if (who == 5)
			tilecpu_fence_async(t);
		tilecpu_mbar_wait(t, 1024, 0, 20);
		if (who == 2)
			tilecpu_fence_async(t);
		tilecpu_bulk_store(t, out, 0, 128, 21);
		tilecpu_bulk_commit(t);
		tilecpu_bulk_wait(t, 0, 0, 22);
	} else if (t->thread >= 64 && who == 3) {
		tilecpu_fence_async(t);
	}
}

static void test_fences(void **state)
{
	uint8_t *out = aligned_alloc(16, 128);
	uint32_t who;
	void *params[] = { &who, out };

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		for (who = 0; who < 6; who++) {
			int status = RUN(params, .kernel = fence_kernel, .threads = 96, .smem = 1032, .seed = seed);

			if (who == 1 || who == 2)
				expect_ok(status);
			else
				expect_error(status, "written at line 10 (role Write, warp 0) without a fence.proxy.async in between");
		}
	free(out);
}

/* ---- races: told by whichever schedule ---- */

enum { RACE_BAR = 1024, RACE_SMEM = 1064 };

typedef struct RaceCase {
	void (*writer)(TileCpuThread *t, uint8_t *global), (*reader)(TileCpuThread *t, uint8_t *global);
	const char *error; /* NULL: none */
} RaceCase;

/* Warp 0 runs `writer`, warp 1 `reader`; there are barriers full[0], for one arrival, and full[1], for two. */
static void race_kernel(TileCpuThread *t, void *const *params)
{
	const RaceCase *c = params[0];

	if (t->thread == 0) {
		tilecpu_mbar_init(t, RACE_BAR, 1, "full", 0);
		tilecpu_mbar_init(t, RACE_BAR + 8, 2, "full", 1);
	}
	sync_all(t, 64, 1);
	tilecpu_role(t, t->thread < 32 ? "Write" : "Read", 0, 2);
	(t->thread < 32 ? c->writer : c->reader)(t, params[1]);
}

static void read_at(TileCpuThread *t, uint32_t offset, uint32_t line)
{
	tilecpu_shared_reads(t, offset + t->thread % 32 * 4, &(uint32_t){ 0 }, 1, 4, line);
}

static void write_at(TileCpuThread *t, uint32_t offset, uint32_t line)
{
	put32(t, offset + t->thread % 32 * 4, 7, line);
}

static void arrive_once(TileCpuThread *t, uint32_t bar, uint32_t line)
{
	tilecpu_syncwarp(t, line);
	if (t->thread % 32 == 0)
		tilecpu_mbar_arrive(t, bar, line);
}

static void just_write(TileCpuThread *t, uint8_t *global) { (void)global; write_at(t, 0, 10); }
static void just_read(TileCpuThread *t, uint8_t *global) { (void)global; read_at(t, 0, 20); }
static void write_elsewhere(TileCpuThread *t, uint8_t *global) { (void)global; if (t->thread == 32) put32(t, 128 + 4, 1, 20); }
static void write_one(TileCpuThread *t, uint8_t *global) { (void)global; if (t->thread == 0) put32(t, 128, 1, 10); }
static void add(TileCpuThread *t, uint8_t *global) { (void)global; tilecpu_shared_atomics(t, 0, &(uint32_t){ 0 }, 1, 4, 10); }

static void write_and_arrive(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	write_at(t, 0, 10);
	arrive_once(t, RACE_BAR, 11);
}

static void arrive_and_write(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	arrive_once(t, RACE_BAR, 11);
	write_at(t, 0, 12);
}

static void wait_and_read(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	tilecpu_mbar_wait(t, RACE_BAR, 0, 19);
	read_at(t, 0, 20);
}

/* What comes with the next phase is not known by who has waited for the first. */
static void write_in_the_next_phase(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	arrive_once(t, RACE_BAR + 8, 10);
	tilecpu_mbar_wait(t, RACE_BAR + 8, 0, 11);
	write_at(t, 0, 12);
	arrive_once(t, RACE_BAR + 8, 13);
}

static void read_in_the_first_phase(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	arrive_once(t, RACE_BAR + 8, 18);
	tilecpu_mbar_wait(t, RACE_BAR + 8, 0, 19);
	read_at(t, 0, 20);
	arrive_once(t, RACE_BAR + 8, 21);
}

static void load_and_arrive(TileCpuThread *t, uint8_t *global)
{
	tilecpu_syncwarp(t, 9);
	if (t->thread)
		return;
	tilecpu_mbar_arrive_expect_tx(t, RACE_BAR, 128, 10);
	tilecpu_bulk_load(t, 0, global, 128, RACE_BAR, 11);
}

static void announce_late(TileCpuThread *t, uint8_t *global)
{
	tilecpu_syncwarp(t, 9);
	if (t->thread)
		return;
	tilecpu_mbar_expect_tx(t, RACE_BAR, 64, 10);
	tilecpu_bulk_load(t, 0, global, 64, RACE_BAR, 10);
	tilecpu_mbar_arrive(t, RACE_BAR, 11);
	tilecpu_mbar_expect_tx(t, RACE_BAR, 64, 12);
	tilecpu_bulk_load(t, 64, global, 64, RACE_BAR, 12);
}

static void store_and_write(TileCpuThread *t, uint8_t *global, bool wait)
{
	write_at(t, 0, 10);
	tilecpu_fence_async(t);
	tilecpu_syncwarp(t, 11);
	if (t->thread == 0) {
		tilecpu_bulk_store(t, global, 0, 128, 12);
		tilecpu_bulk_commit(t);
		if (wait)
			tilecpu_bulk_wait(t, 0, 1, 13);
	}
	tilecpu_syncwarp(t, 14);
	write_at(t, 0, 15);
	if (t->thread == 0)
		tilecpu_bulk_wait(t, 0, 0, 16);
}

static void store_then_write(TileCpuThread *t, uint8_t *global) { store_and_write(t, global, false); }
static void store_wait_write(TileCpuThread *t, uint8_t *global) { store_and_write(t, global, true); }

static void copy_and_read(TileCpuThread *t, uint8_t *global)
{
	tilecpu_cp_async(t, t->thread * 4, global + t->thread * 4, 4, 4, 10);
	tilecpu_cp_async_commit(t);
	read_at(t, 0, 11);
	tilecpu_cp_async_wait(t, 0);
}

static void nothing(TileCpuThread *t, uint8_t *global) { (void)t; (void)global; }

static void test_races(void **state)
{
	static const RaceCase cases[] = {
		{ just_write, just_read, "race on shared memory +" },
		{ just_write, just_write, "nothing orders this write after the write of line 10" },
		{ write_one, write_elsewhere, NULL },
		{ add, add, NULL },
		{ add, just_read, "race on shared memory +0" },
		{ write_and_arrive, wait_and_read, NULL },
		{ write_and_arrive, just_read, "race on shared memory +" },
		{ arrive_and_write, wait_and_read, "race on shared memory +" },
		{ write_in_the_next_phase, read_in_the_first_phase, "race on shared memory +" },
		{ load_and_arrive, wait_and_read, NULL },
		{ load_and_arrive, just_read, "race on shared memory +" },
		{ announce_late, wait_and_read, "the bytes of this line are announced to phase 0 of mbarrier full[0] after the arrival at line 11" },
		{ store_wait_write, nothing, NULL },
		{ store_then_write, nothing, "nothing orders this write after the store of line 12 (role Write, warp 0), which reads until store_wait_read" },
		{ copy_and_read, nothing, "nothing orders this read after the cp_async of line 10, which writes until it is waited for" },
	};
	uint8_t *global = aligned_alloc(16, 128);

	(void)state;
	memset(global, 1, 128);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			void *params[] = { (void *)(uintptr_t)&cases[i], global };
			Run r = { .kernel = race_kernel, .threads = 64, .smem = RACE_SMEM, .seed = seed };

			if (cases[i].error)
				expect_error(run_kernel(r, params), cases[i].error);
			else
				expect_ok(run_kernel(r, params));
		}
	free(global);
}

/* ---- the watchdog ---- */

static void endless_kernel(TileCpuThread *t, void *const *params)
{
	(void)params;
	tilecpu_role(t, "Spin", 0, 1);
	while (!*t->interrupt)
		;
	tilecpu_interrupted(t, 7);
}

static void test_timeout(void **state)
{
	(void)state;
	expect_error(RUN(NULL, .kernel = endless_kernel, .threads = 32, .smem = 0, .timeout = 0.05),
		"k.tile:7: kernel k, CTA (0, 0, 0), role Spin, warp 0: the loop of this line has run for 0.05 seconds without coming to a barrier");
}

/* ---- bounds ---- */

static void bounds_kernel(TileCpuThread *t, void *const *params)
{
	int64_t bounds[] = { 1, *(const int64_t *)params[0], 2, 4 }; /* two indices, two extents */

	tilecpu_check_bounds(t, "x", 2 << 8 | 3, bounds, 1, 5);
}

static void test_bounds(void **state)
{
	int64_t index;
	void *params[] = { &index };

	(void)state;
	index = 2;
	expect_ok(RUN(params, .kernel = bounds_kernel, .threads = 32, .smem = 0));
	index = 3;
	expect_error(RUN(params, .kernel = bounds_kernel, .threads = 32, .smem = 0), "k.tile:5:");
	expect_error(-1, "index 4 of dimension 1 of 'x' is out of bounds: the extent is 4");
	index = -1;
	expect_error(RUN(params, .kernel = bounds_kernel, .threads = 32, .smem = 0), "index -1 of dimension 1 of 'x' is out of bounds");
}

/* ---- warps ---- */

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
	uint32_t kind;
	float a[16][16], b[16][8], d[16][8];
} WarpGemm;

static uint32_t pack(uint32_t kind, float low, float high)
{
	return kind == TILE_CPU_BF16 ? rt_to_bf16(low) | (uint32_t)rt_to_bf16(high) << 16 : rt_to_f16(low) | (uint32_t)rt_to_f16(high) << 16;
}

static void mma_kernel(TileCpuThread *t, void *const *params)
{
	WarpGemm *g = params[0];
	uint32_t i = t->thread / 4, q = t->thread % 4, a[4], b[2];
	float d[4] = { 1, 1, 1, 1 };

	for (uint32_t h = 0; h < 4; h++)
		a[h] = g->kind == TILE_CPU_TF32 ? rt_float_bits(g->a[i + h % 2 * 8][q + h / 2 * 4])
			: pack(g->kind, g->a[i + h % 2 * 8][2 * q + h / 2 * 8], g->a[i + h % 2 * 8][2 * q + 1 + h / 2 * 8]);
	for (uint32_t h = 0; h < 2; h++)
		b[h] = g->kind == TILE_CPU_TF32 ? rt_float_bits(g->b[q + h * 4][i]) : pack(g->kind, g->b[2 * q + h * 8][i], g->b[2 * q + 1 + h * 8][i]);
	tilecpu_mma_sync(t, d, a, b, g->kind, 1);
	for (uint32_t h = 0; h < 4; h++)
		g->d[i + h / 2 * 8][2 * q + h % 2] = d[h];
}

static void test_mma_sync(void **state)
{
	WarpGemm g;
	void *params[] = { &g };
	uint32_t s = 4;

	(void)state;
	for (g.kind = 0; g.kind < 3; g.kind++) {
		uint32_t depth = g.kind == TILE_CPU_TF32 ? 8 : 16;

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

/* ---- determinism ---- */

static void order_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t *log = params[0];

	for (int i = 0; i < 3; i++) {
		uint32_t at = log[512 * t->block[0]]++;

		log[512 * t->block[0] + 1 + at % 500] = t->thread;
		tilecpu_syncwarp(t, 1);
	}
}

static void test_determinism(void **state)
{
	static uint32_t log[3][512 * 4];

	(void)state;
	for (int i = 0; i < 3; i++) {
		void *params[] = { log[i] };

		expect_ok(RUN(params, .kernel = order_kernel, .grid = 4, .threads = 128, .smem = 64, .seed = i < 2 ? 5 : 6, .workers = 1 + (unsigned)i));
	}
	assert_memory_equal(log[0], log[1], sizeof log[0]);
	assert_memory_not_equal(log[0], log[2], sizeof log[0]);
	assert_memory_not_equal(log[0], log[0] + 512, 512 * 4);
}

/* ---- objects ---- */

static const char object_source[] =
	"#include <stdint.h>\n"
	"#include <math.h>\n"
	"typedef struct T { uint8_t *smem; uint32_t thread, block[3], grid[3], rank; } T;\n"
	"void tilecpu_bar_sync(T *t, uint32_t id, uint32_t n, const char *name, uint32_t line);\n"
	"#ifdef UNKNOWN\n"
	"void nobody_has_this(void);\n"
	"#else\n"
	"#define nobody_has_this()\n"
	"#endif\n"
	"static const float table[4] = { 1, 2, 3, 4 };\n"
	"static const float *const pointers[4] = { &table[3], &table[2], &table[1], &table[0] };\n"
	"int counter;\n"
	"int initial = 40;\n"
	"__attribute__((noinline)) static float helper(float x) { return exp2f(x) + *pointers[(int)x % 4]; }\n"
	"void object_kernel(T *t, void *const *params) {\n"
	"	float *out = params[0];\n"
	"	((float *)t->smem)[t->thread] = helper((float)t->thread);\n"
	"	tilecpu_bar_sync(t, 0, 32, 0, 7);\n"
	"	nobody_has_this();\n"
	"	counter++;\n"
	"	out[t->thread] = ((float *)t->smem)[31 - t->thread] + initial;\n"
	"	if (t->thread == 0) out[32] = (float)counter;\n"
	"}\n";

static void *read_file(const char *name, size_t *size)
{
	FILE *f = fopen(name, "rb");
	char *data;

	if (!f)
		return NULL;
	data = malloc(1 << 20);
	*size = fread(data, 1, 1 << 20, f);
	fclose(f);
	return data;
}

/* The object of the source above, or NULL where there is no C compiler. */
static void *compile(const char *options, size_t *size)
{
	char source[] = "/tmp/test_cpu_XXXXXX", command[512], object[64];
	int fd = mkstemp(source);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	void *data;

	if (!f)
		return NULL;
	fputs(object_source, f);
	fclose(f);
	snprintf(object, sizeof object, "%s.o", source);
	snprintf(command, sizeof command, "cc -x c -c -g -fPIC %s -o %s %s 2>/dev/null", options, object, source);
	data = system(command) == 0 ? read_file(object, size) : NULL;
	remove(object);
	remove(source);
	return data;
}

static void run_object(const char *options)
{
	size_t size;
	void *elf = compile(options, &size);
	float out[33];
	void *params[] = { out };
	TileCpuImage *im;

	if (!elf)
		skip();
	im = tilecpu_image_load(elf, size, error, sizeof error);
	free(elf);
	if (!im)
		fail_msg("%s", error);
	assert_null(tilecpu_image_symbol(im, "helper"));
	assert_non_null(tilecpu_image_symbol(im, "object_kernel"));
	expect_ok(RUN(params, .kernel = tilecpu_image_symbol(im, "object_kernel"), .threads = 32, .smem = 128));
	for (int i = 0; i < 32; i++)
		assert_true(out[i] == exp2f((float)(31 - i)) + (float)(4 - (31 - i) % 4) + 40);
	assert_in_range((int)out[32], 1, 32);
	tilecpu_image_free(im);
}

static void test_object(void **state)
{
	(void)state;
	run_object("-O0");
	run_object("-O2 -fno-plt");
	run_object("-O1 -ffunction-sections -fno-asynchronous-unwind-tables");
}

static void test_bad_objects(void **state)
{
	size_t size;
	uint8_t *elf = compile("-O1 -DUNKNOWN", &size);
	TileCpuImage *im;
	uint32_t s = 3;

	(void)state;
	assert_null(tilecpu_image_load("abc", 3, error, sizeof error));
	if (!elf)
		skip();
	assert_null(tilecpu_image_load(elf, size, error, sizeof error));
	expect_error(-1, "unknown symbol `nobody_has_this`");
	for (size_t cut = 0; cut < size; cut += 97) {
		im = tilecpu_image_load(elf, cut, error, sizeof error);
		assert_null(im);
	}
	for (int i = 0; i < 3000; i++) { /* damaged, it may load or not, but not crash */
		size_t at = rng(&s) % size;
		uint8_t old = elf[at];

		elf[at] = (uint8_t)rng(&s);
		tilecpu_image_free(tilecpu_image_load(elf, size, error, sizeof error));
		elf[at] = old;
	}
	free(elf);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bar_sync),
		cmocka_unit_test(test_poison),
		cmocka_unit_test(test_mbarrier_ring),
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_deadlock_text),
		cmocka_unit_test(test_fail),
		cmocka_unit_test(test_cluster),
		cmocka_unit_test(test_tma),
		cmocka_unit_test(test_tma_reduce),
		cmocka_unit_test(test_bulk),
		cmocka_unit_test(test_cp_async),
		cmocka_unit_test(test_wgmma),
		cmocka_unit_test(test_wgmma_mistakes),
		cmocka_unit_test(test_wgmma_chain),
		cmocka_unit_test(test_wgmma_in_flight),
		cmocka_unit_test(test_fences),
		cmocka_unit_test(test_races),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_warp),
		cmocka_unit_test(test_mma_sync),
		cmocka_unit_test(test_diverge),
		cmocka_unit_test(test_determinism),
		cmocka_unit_test(test_object),
		cmocka_unit_test(test_bad_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
