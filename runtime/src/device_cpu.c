/* device_cpu.c - memory, streams and events of the CPU device: host memory, and everything is done at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/abi/cpu_abi.h"
#include "runtime/src/device.h"
#include "runtime/src/error.h"

enum { ALIGNMENT = 256, DEFAULT_TIMEOUT = 60 };

static void *host(tilert_ptr p)
{
	return (void *)(uintptr_t)p;
}

int rt_cpu_cores(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	return cores > 0 ? (int)cores : 1;
}

tilert_status rt_cpu_open(tilert_device *d)
{
#ifndef __x86_64__
	return rt_fail(TILERT_ENODEV, "the CPU device runs code for x86-64, which this machine is not: there is only \"cuda\" here");
#endif
	d->ops = &rt_cpu_ops;
	const char *no_races = getenv("TILERT_NO_RACE_CHECK");

	d->seed = 1;
	d->checks = (tilert_cpu_checks){ .races = !no_races || !*no_races || !strcmp(no_races, "0"), .arithmetic = 1, .timeout = DEFAULT_TIMEOUT };
	d->info.sm_count = rt_cpu_cores();
#ifdef _SC_PHYS_PAGES
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	d->info.total_memory = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
#endif
	snprintf(d->info.name, sizeof d->info.name, "CPU device, %d cores", d->info.sm_count);
	d->stacks = tilecpu_stacks_open();
	if (!d->stacks || pthread_mutex_init(&d->lock, NULL)) {
		tilecpu_stacks_close(d->stacks);
		return rt_fail_memory("a device");
	}
	return TILERT_OK;
}

static void cpu_close(tilert_device *d)
{
	pthread_mutex_destroy(&d->lock);
	tilecpu_stacks_close(d->stacks);
}

static tilert_status cpu_alloc(tilert_device *d, size_t bytes, tilert_ptr *out)
{
	(void)d;
	if (bytes > SIZE_MAX - 2 * ALIGNMENT)
		return rt_fail(TILERT_ENOMEM, "out of memory for %zu bytes", bytes);
	size_t room = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
	void *p = aligned_alloc(ALIGNMENT, room);
	if (!p)
		return rt_fail(TILERT_ENOMEM, "out of memory for %zu bytes", bytes);
	*out = (tilert_ptr)(uintptr_t)p;
	return TILERT_OK;
}

static tilert_status cpu_free(tilert_device *d, tilert_ptr p)
{
	(void)d;
	free(host(p));
	return TILERT_OK;
}

static tilert_status cpu_upload(tilert_device *d, tilert_ptr dst, const void *src, size_t bytes)
{
	(void)d;
	memcpy(host(dst), src, bytes);
	return TILERT_OK;
}

static tilert_status cpu_download(tilert_device *d, void *dst, tilert_ptr src, size_t bytes)
{
	(void)d;
	memcpy(dst, host(src), bytes);
	return TILERT_OK;
}

static tilert_status cpu_fill(tilert_device *d, tilert_ptr dst, unsigned char value, size_t bytes, tilert_stream s)
{
	(void)d;
	(void)s;
	memset(host(dst), value, bytes);
	return TILERT_OK;
}

static tilert_status cpu_stream_create(tilert_device *d, tilert_stream *out)
{
	(void)d;
	*out = NULL;
	return TILERT_OK;
}

static tilert_status cpu_stream_nothing(tilert_device *d, tilert_stream s)
{
	(void)d;
	(void)s;
	return TILERT_OK;
}

static tilert_status cpu_event_create(tilert_event *e)
{
	e->recorded = false;
	return TILERT_OK;
}

static void cpu_event_destroy(tilert_event *e)
{
	(void)e;
}

static tilert_status cpu_event_record(tilert_event *e, tilert_stream s)
{
	struct timespec now;

	(void)s;
	clock_gettime(CLOCK_MONOTONIC, &now);
	e->ms = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
	e->recorded = true;
	return TILERT_OK;
}

static tilert_status cpu_event_elapsed(tilert_event *begin, tilert_event *end, float *ms)
{
	if (!begin->recorded || !end->recorded)
		return rt_fail(TILERT_EINVAL, "tilert_event_elapsed: an event was not recorded");
	*ms = (float)(end->ms - begin->ms);
	return TILERT_OK;
}

const DeviceOps rt_cpu_ops = {
	.close = cpu_close,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.upload = cpu_upload,
	.download = cpu_download,
	.fill = cpu_fill,
	.stream_create = cpu_stream_create,
	.stream_destroy = cpu_stream_nothing,
	.stream_sync = cpu_stream_nothing,
	.event_create = cpu_event_create,
	.event_destroy = cpu_event_destroy,
	.event_record = cpu_event_record,
	.event_elapsed = cpu_event_elapsed,
	.code_load = rt_cpu_code_load,
	.code_unload = rt_cpu_code_unload,
	.prepare = rt_cpu_prepare,
	.launch = rt_cpu_launch,
};
