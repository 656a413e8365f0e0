/* test_cpu_races.c - the CPU device, driven through its ABI by kernels written in C: fences and races. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cpu_device.h"

static void store_from(TileCpuThread *t, uint8_t *global)
{
	tilecpu_bulk_store(t, global, 0, 128, 21);
	tilecpu_bulk_commit(t);
	tilecpu_bulk_wait(t, 0, 0, 22);
}

static void load_to(TileCpuThread *t, uint8_t *global)
{
	tilecpu_mbar_expect_tx(t, 1032, 128, 21);
	tilecpu_bulk_load(t, 0, global, 128, 1032, 21);
	tilecpu_mbar_arrive(t, 1032, 22);
	tilecpu_mbar_wait(t, 1032, 0, 23);
}

/* Warp 0 writes; who fences, and where, is told by params[0], what bulk copies then do with it by params[2]. */
static void fence_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t who = *(const uint32_t *)params[0];
	void (*const *copies)(TileCpuThread *, uint8_t *) = params[2];

	if (t->thread == 0) {
		tilecpu_mbar_init(t, 1024, 32, NULL, NO_SLOT);
		tilecpu_mbar_init(t, 1032, 1, NULL, NO_SLOT);
	}
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
		(*copies)(t, params[1]);
	} else if (t->thread >= 64 && who == 3) {
		tilecpu_fence_async(t);
	}
}

static void test_fences(void **state)
{
	static const struct {
		void (*copies)(TileCpuThread *, uint8_t *);
		const char *error;
	} ways[] = {
		{ store_from, "bulk_store at line 21 reads shared memory +" },
		{ load_to, "load at line 21 writes over shared memory +" },
	};
	uint8_t *global = aligned_alloc(16, 128);
	uint32_t who;

	(void)state;
	memset(global, 1, 128);
	for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
		for (uint64_t seed = 0; seed < SEEDS; seed++)
			for (who = 0; who < 6; who++) {
				void *params[] = { &who, global, (void *)(uintptr_t)&ways[way].copies };
				int status = RUN(params, .kernel = fence_kernel, .threads = 96, .smem = 1040, .seed = seed);

				if (who == 1 || who == 2) {
					expect_ok(status);
				} else {
					expect_error(status, ways[way].error);
					expect_error(status, "written at line 10 (role Write, warp 0) without a fence.proxy.async in between");
				}
			}
	free(global);
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
	reads(t, offset + t->thread % 32 * 4, 4, line);
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

/* One lane fences and stores what all have written; the others go on without waiting for the store. */
static void fence_once_and_write(TileCpuThread *t, uint8_t *global)
{
	write_at(t, 0, 10);
	tilecpu_syncwarp(t, 11);
	if (t->thread == 0) {
		tilecpu_fence_async(t);
		tilecpu_bulk_store(t, global, 0, 128, 12);
		tilecpu_bulk_commit(t);
	}
	if (t->thread != 0)
		write_at(t, 0, 15);
	if (t->thread == 0)
		tilecpu_bulk_wait(t, 0, 0, 16);
}

/* All lanes fence, then write again and store that. */
static void write_behind_the_fence(TileCpuThread *t, uint8_t *global)
{
	write_at(t, 0, 10);
	tilecpu_fence_async(t);
	write_at(t, 0, 11);
	tilecpu_syncwarp(t, 12);
	if (t->thread == 0) {
		tilecpu_bulk_store(t, global, 0, 128, 13);
		tilecpu_bulk_commit(t);
		tilecpu_bulk_wait(t, 0, 0, 14);
	}
}

/* Lanes of a warp read parts of the same 16 bytes, at several places at once; the other warp writes the last of these. */
static const uint32_t places[] = { 64, 0, 48 };

static void read_places(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	tilecpu_shared_reads(t, t->thread % 32 / 8 * 4, places, 3, 4, 20);
	tilecpu_syncwarp(t, 21);
}

static void write_a_place(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	if (t->thread == 0)
		put32(t, 48 + 12, 1, 10);
}

static void write_between_places(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	if (t->thread == 0)
		put32(t, 32, 1, 10);
}

/* A lane's bytes beside those of others, written in order, then by the other warp before it may. */
static void write_parts(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	for (uint32_t i = 0; i < 3; i++)
		writes(t, t->thread % 32, 1, 10);
	arrive_once(t, RACE_BAR, 11);
	writes(t, 256 + t->thread % 32, 1, 12);
}

static void read_parts(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	tilecpu_mbar_wait(t, RACE_BAR, 0, 19);
	reads(t, t->thread % 32, 1, 20);
}

static void read_other_parts(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	tilecpu_mbar_wait(t, RACE_BAR, 0, 19);
	reads(t, t->thread % 32, 1, 20);
	if (t->thread == 63)
		reads(t, 256 + 7, 1, 21);
}

static void nothing(TileCpuThread *t, uint8_t *global) { (void)t; (void)global; }

/* Between the lanes of a warp: each writes its word and reads the next one's, or the other way round; what comes in between. */
typedef enum Between { BETWEEN_NOTHING, BETWEEN_SYNC, BETWEEN_SHUFFLE } Between;

static void between(TileCpuThread *t, Between what)
{
	if (what == BETWEEN_SYNC)
		tilecpu_syncwarp(t, 11);
	else if (what == BETWEEN_SHUFFLE)
		tilecpu_shfl(t, 1, 3, 1, 11);
}

static void read_next(TileCpuThread *t, uint32_t line) { reads(t, (t->thread + 1) % 32 * 4, 4, line); }
static void write_then_read(TileCpuThread *t, Between what) { write_at(t, 0, 10); between(t, what); read_next(t, 12); }
static void read_then_write(TileCpuThread *t, Between what) { read_next(t, 10); between(t, what); write_at(t, 0, 12); }

static void lanes_write_read(TileCpuThread *t, uint8_t *global) { (void)global; write_then_read(t, BETWEEN_NOTHING); }
static void lanes_write_sync_read(TileCpuThread *t, uint8_t *global) { (void)global; write_then_read(t, BETWEEN_SYNC); }
static void lanes_write_shuffle_read(TileCpuThread *t, uint8_t *global) { (void)global; write_then_read(t, BETWEEN_SHUFFLE); }
static void lanes_read_write(TileCpuThread *t, uint8_t *global) { (void)global; read_then_write(t, BETWEEN_NOTHING); }
static void lanes_read_shuffle_write(TileCpuThread *t, uint8_t *global) { (void)global; read_then_write(t, BETWEEN_SHUFFLE); }

/* Bytes of one word; then lane 7 comes back to that of lane 6. */
static void lanes_share_words(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	writes(t, t->thread, 1, 10);
	reads(t, t->thread, 1, 11);
	writes(t, t->thread, 1, 12);
	tilecpu_syncwarp(t, 13);
	if (t->thread == 6)
		writes(t, 6, 1, 14);
	else if (t->thread == 7)
		reads(t, 4, 2, 15);
}

static void lanes_share_a_byte(TileCpuThread *t, uint8_t *global)
{
	lanes_share_words(t, global);
	if (t->thread == 7)
		reads(t, 6, 1, 16);
}

static void lanes_write_one_place(TileCpuThread *t, uint8_t *global) { (void)global; put32(t, 64, 5, 10); }

static void lanes_write_over_others(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	write_at(t, 0, 10);
	if (t->thread == 3)
		put32(t, 20, 5, 11);
}

static void lanes_add(TileCpuThread *t, uint8_t *global) { (void)global; tilecpu_shared_atomics(t, 0, &(uint32_t){ 0 }, 1, 4, 10); }
static void lanes_add_read(TileCpuThread *t, uint8_t *global) { lanes_add(t, global); if (t->thread == 4) reads(t, 0, 4, 11); }

static void store_what_lanes_wrote(TileCpuThread *t, uint8_t *global)
{
	write_at(t, 0, 10);
	tilecpu_fence_async(t);
	if (t->thread)
		return;
	tilecpu_bulk_store(t, global, 0, 128, 12);
	tilecpu_bulk_commit(t);
	tilecpu_bulk_wait(t, 0, 0, 13);
}

/* Lane 0 has waited for its store, the others have not. */
static void write_behind_the_wait(TileCpuThread *t, uint8_t *global, bool sync)
{
	write_at(t, 0, 10);
	tilecpu_fence_async(t);
	tilecpu_syncwarp(t, 11);
	if (t->thread == 0) {
		tilecpu_bulk_store(t, global, 0, 128, 12);
		tilecpu_bulk_commit(t);
		tilecpu_bulk_wait(t, 0, 1, 13);
	}
	if (sync)
		tilecpu_syncwarp(t, 14);
	write_at(t, 0, 15);
	if (t->thread == 0)
		tilecpu_bulk_wait(t, 0, 0, 16);
}

static void lanes_write_behind_a_wait(TileCpuThread *t, uint8_t *global) { write_behind_the_wait(t, global, false); }
static void lanes_write_behind_a_sync(TileCpuThread *t, uint8_t *global) { write_behind_the_wait(t, global, true); }

static void matrix_of_lanes(TileCpuThread *t, uint8_t *global)
{
	uint32_t out[4];

	(void)global;
	writes(t, t->thread % 32 * 16, 16, 10);
	tilecpu_ldmatrix(t, out, t->thread % 32 * 16, 4, 0, 12);
}

/* A lane speaks for itself: the others wait for its barrier. */
static void lanes_wait_for_one(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	if (t->thread == 9) {
		put32(t, 0, 1, 10);
		tilecpu_mbar_arrive(t, RACE_BAR, 11);
	}
	tilecpu_mbar_wait(t, RACE_BAR, 0, 12);
	reads(t, 0, 4, 13);
}

/* The barrier's first phase is waited for here, but nobody who completes the second knows it. */
static void complete_twice(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	arrive_once(t, RACE_BAR, 10);
	arrive_once(t, RACE_BAR, 11);
}

static void complete_in_turn(TileCpuThread *t, uint8_t *global)
{
	(void)global;
	arrive_once(t, RACE_BAR, 10);
	arrive_once(t, RACE_BAR + 8, 11);
	tilecpu_mbar_wait(t, RACE_BAR + 8, 0, 12);
	arrive_once(t, RACE_BAR, 13);
}

static void wait_for_the_first(TileCpuThread *t, uint8_t *global) { (void)global; tilecpu_mbar_wait(t, RACE_BAR, 0, 20); }

static void wait_in_turn(TileCpuThread *t, uint8_t *global)
{
	wait_for_the_first(t, global);
	arrive_once(t, RACE_BAR + 8, 21);
	tilecpu_mbar_wait(t, RACE_BAR, 1, 22);
}

static void test_races(void **state)
{
	static const RaceCase cases[] = {
		{ just_write, just_read, "race on shared memory +" },
		{ just_write, just_write, "nothing orders this write and the write of line 10" },
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
		{ store_then_write, nothing, "nothing orders this write and the store of line 12 (role Write, warp 0), which reads until store_wait_read" },
		{ fence_once_and_write, nothing, "nothing orders this write and the store of line 12 (role Write, warp 0) of another lane of the warp: a sync is missing" },
		{ write_behind_the_fence, nothing, "written at line 11 (role Write, warp 0) without a fence.proxy.async in between" },
		{ write_a_place, read_places, "race on shared memory +60" },
		{ write_between_places, read_places, NULL },
		{ write_parts, read_parts, NULL },
		{ write_parts, read_other_parts, "race on shared memory +263" },
		{ copy_and_read, nothing, "nothing orders this read and the cp_async of line 10, which writes until it is waited for" },
		{ lanes_write_read, nothing, "(role Write, warp 0) of another lane of the warp: a sync is missing" },
		{ lanes_write_sync_read, nothing, NULL },
		{ lanes_write_shuffle_read, nothing, "+4: nothing orders this read and the write of line 10 (role Write, warp 0) of another lane" },
		{ lanes_read_write, nothing, "of another lane of the warp" },
		{ lanes_read_shuffle_write, nothing, NULL },
		{ lanes_share_words, nothing, NULL },
		{ lanes_share_a_byte, nothing, "race on shared memory +6: nothing orders" },
		{ lanes_write_one_place, nothing, NULL },
		{ lanes_write_over_others, nothing, "race on shared memory +20: nothing orders this write" },
		{ lanes_add, nothing, NULL },
		{ lanes_add_read, nothing, "of another lane of the warp" },
		{ store_what_lanes_wrote, nothing, "race on shared memory +" },
		{ lanes_write_behind_a_wait, nothing, "and the store of line 12 (role Write, warp 0) of another lane of the warp: a sync is missing" },
		{ lanes_write_behind_a_sync, nothing, NULL },
		{ matrix_of_lanes, nothing, "nothing orders this ldmatrix and the write of line 10 (role Write, warp 0) of another lane" },
		{ lanes_wait_for_one, nothing, NULL },
		{ complete_in_turn, wait_in_turn, NULL },
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

/* Whether or not it shows: where the second phase comes first, the wait is for a third one. */
static void test_overrun(void **state)
{
	static const RaceCase c = { complete_twice, wait_for_the_first, NULL };
	void *params[] = { (void *)(uintptr_t)&c, NULL };
	unsigned told = 0;

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		assert_int_equal(RUN(params, .kernel = race_kernel, .threads = 64, .smem = RACE_SMEM, .seed = seed), -1);
		if (strstr(error, "k.tile:20: ")) {
			expect_error(-1, "nothing orders this wait for phase 2 of mbarrier full[0] after the end of phase 1: where it comes earlier it is one for phase 0");
		} else {
			expect_error(-1, "phase 1 of mbarrier full[0] completes while role Read, warp 1 may still be waiting for phase 0 at line 20");
			told++;
		}
	}
	assert_true(told > SEEDS / 4 && told < SEEDS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fences),
		cmocka_unit_test(test_races),
		cmocka_unit_test(test_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
