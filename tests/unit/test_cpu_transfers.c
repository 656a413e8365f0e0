/* test_cpu_transfers.c - the CPU device, driven through its ABI by kernels written in C: TMA, bulk copies, cp.async. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/include/tilert/tilert.h"
#include "runtime/src/float16.h"
#include "tests/unit/cpu_device.h"

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tma),
		cmocka_unit_test(test_tma_reduce),
		cmocka_unit_test(test_bulk),
		cmocka_unit_test(test_cp_async),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
