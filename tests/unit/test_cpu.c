/* test_cpu.c - the CPU device, driven through its ABI by kernels written in C: threads, barriers, deadlocks, bounds. */
#define _GNU_SOURCE /* syscall */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/cpu_device.h"

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

static void nothing_kernel(TileCpuThread *t, void *const *params)
{
	(void)t;
	(void)params;
}

/* In a child, of which the limit is: 128 MB of them are kept, and 256 are wanted where there is room for 200. */
static bool kept_stacks_give_way(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	TileCpuStacks *stacks = tilecpu_stacks_open();
	bool good = f && !RUN(NULL, .kernel = nothing_kernel, .threads = 256, .stacks = stacks) && fscanf(f, "%lu", &pages) == 1;
	const rlim_t most = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (200 << 20);

	good = good && !setrlimit(RLIMIT_AS, &(struct rlimit){ most, most });
	return good && !RUN(NULL, .kernel = nothing_kernel, .threads = 512, .stacks = stacks);
}

static void test_kept_stacks(void **state)
{
	int status = 0;
	pid_t child;

	(void)state;
#ifdef __SANITIZE_ADDRESS__ /* which takes more than any limit */
	skip();
#endif
	child = fork();
	if (child == 0)
		_exit(!kept_stacks_give_way());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Cancelled, a thread ends behind its launch, which it has workers for. */
static void *launch_cancelled(void *user)
{
	static uint32_t out[8 * 256];
	void *params[] = { out };

	pthread_cancel(pthread_self());
	*(bool *)user = !RUN(params, .kernel = reverse_kernel, .grid = 8, .threads = 256, .smem = 1024, .workers = 3);
	pthread_testcancel();
	return NULL;
}

static void test_cancelled_thread(void **state)
{
	bool launched = false;
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, launch_cancelled, &launched), 0);
	pthread_join(thread, &result);
	assert_true(result == PTHREAD_CANCELED);
	assert_true(launched);
}

static void poison_kernel(TileCpuThread *t, void *const *params)
{
	uint32_t *bad = params[0];

	for (uint32_t i = t->thread; i < 256; i += 32)
		if (get32(t, i * 4) != 0xffffffff)
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

static bool clock_is_set; /* forward, between two looks at it */

int clock_gettime(clockid_t clock, struct timespec *out)
{
	long status = syscall(SYS_clock_gettime, clock, out);

	if (clock == CLOCK_REALTIME && clock_is_set)
		out->tv_sec -= 1000;
	return (int)status;
}

static void busy_kernel(TileCpuThread *t, void *const *params)
{
	uint64_t begin = tilecpu_clock(t);

	(void)params;
	while (tilecpu_clock(t) - begin < 30000000)
		if (*t->interrupt)
			tilecpu_interrupted(t, 7);
}

static void test_clock_that_is_set(void **state)
{
	(void)state;
	clock_is_set = true;
	expect_ok(RUN(NULL, .kernel = busy_kernel, .threads = 1, .smem = 0, .timeout = 60));
	clock_is_set = false;
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

/* ---- stacks that are kept ---- */

/* Deep enough to leave what the next fiber must not mind. */
static uint32_t depth(uint32_t n)
{
	volatile uint32_t frame[64];
	for (uint32_t i = 0; i < 64; i++)
		frame[i] = n;
	return n ? depth(n - 1) + frame[n % 64] - n + 1 : 0;
}

static void stack_kernel(TileCpuThread *t, void *const *params)
{
	const void **at = params[0];
	uint32_t local = depth(t->thread % 40), *errors = params[1];

	at[t->block[0] * 512 + t->thread] = &local;
	sync_all(t, *(uint32_t *)params[2], 1);
	if (local != t->thread % 40)
		__atomic_fetch_add(errors, 1, __ATOMIC_RELAXED);
}

/* Two launches have the same stacks, a larger one others; what failed leaves its own in order. */
static void test_stacks(void **state)
{
	static const void *at[2][8 * 512];
	uint32_t errors = 0, threads = 256, all = 8 * 512;
	TileCpuStacks *kept = tilecpu_stacks_open();

	(void)state;
	assert_non_null(kept);
	for (int i = 0; i < 2; i++)
		expect_ok(RUN(((void *[]){ at[i], &errors, &threads }), .kernel = stack_kernel, .threads = threads, .smem = 1024, .stacks = kept));
	assert_memory_equal(at[0], at[1], threads * sizeof at[0][0]);
	expect_error(RUN(((void *[]){ at[0], &errors, &all }), .kernel = stack_kernel, .threads = threads, .smem = 1024, .stacks = kept), "barrier 0 for 4096 threads");
	for (threads = 512; threads; threads /= 2)
		for (unsigned workers = 1; workers < 40; workers += 19)
			expect_ok(RUN(((void *[]){ at[0], &errors, &threads }), .kernel = stack_kernel, .grid = 8, .threads = threads, .smem = 1024,
				.workers = workers, .stacks = kept));
	assert_int_equal(errors, 0);
	tilecpu_stacks_close(kept);
}

static void large_frame_kernel(TileCpuThread *t, void *const *params)
{
	volatile uint8_t frame[384 << 10];

	frame[0] = frame[sizeof frame / 2] = (uint8_t)t->thread;
	sync_all(t, 64, 1);
	*(uint32_t *)params[0] += frame[0] == frame[sizeof frame / 2];
}

static void test_large_frame(void **state)
{
	uint32_t right = 0;

	(void)state;
	expect_ok(RUN(((void *[]){ &right }), .kernel = large_frame_kernel, .threads = 64, .smem = 1024));
	assert_int_equal(right, 64);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bar_sync),
		cmocka_unit_test(test_kept_stacks),
		cmocka_unit_test(test_cancelled_thread),
		cmocka_unit_test(test_poison),
		cmocka_unit_test(test_mbarrier_ring),
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_deadlock_text),
		cmocka_unit_test(test_fail),
		cmocka_unit_test(test_cluster),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_clock_that_is_set),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_determinism),
		cmocka_unit_test(test_stacks), cmocka_unit_test(test_large_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
