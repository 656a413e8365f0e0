/* cpu_device.c - runs kernels written in C on the CPU device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/unit/cpu_device.h"

char error[8192];

int run_kernel(Run r, void *const *params)
{
	TileCpuLaunch l = { .entry = r.kernel, .kernel_name = "k", .source_name = "k.tile", .params = params, .seed = r.seed,
		.grid = { r.grid ? r.grid : 1, 1, 1 }, .threads = r.threads, .smem_bytes = r.smem, .cluster = r.cluster,
		.workers = r.workers ? r.workers : 1, .stacks = r.stacks, .no_race_check = r.unchecked, .timeout = r.timeout, .error = error, .error_size = sizeof error };

	return tilecpu_launch(&l);
}

void expect_ok(int status)
{
	if (status)
		fail_msg("%s", error);
}

void expect_error(int status, const char *part)
{
	assert_int_equal(status, -1);
	if (!strstr(error, part))
		fail_msg("`%s` is not in:\n%s", part, error);
}

void sync_all(TileCpuThread *t, uint32_t threads, uint32_t line)
{
	tilecpu_bar_sync(t, 0, threads, NULL, line);
}

void put32(TileCpuThread *t, uint32_t offset, uint32_t value, uint32_t line)
{
	memcpy(t->smem + offset, &value, 4);
	writes(t, offset, 4, line);
}

uint32_t get32(const TileCpuThread *t, uint32_t offset)
{
	uint32_t value;

	memcpy(&value, t->smem + offset, 4);
	return value;
}

void reads(TileCpuThread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	tilecpu_shared_reads(t, offset, &(uint32_t){ 0 }, 1, bytes, line);
}

void writes(TileCpuThread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	tilecpu_shared_writes(t, offset, &(uint32_t){ 0 }, 1, bytes, line);
}

uint32_t rng(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}
