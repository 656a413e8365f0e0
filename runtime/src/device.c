/* device.c - opening devices by name and asking about them. */
#include "runtime/src/device.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/src/error.h"

/* "cpu": -1; "cuda": 0; "cuda:N": N. */
static bool parse_name(const char *name, int *ordinal)
{
	*ordinal = -1;
	if (!strcmp(name, "cpu"))
		return true;
	*ordinal = 0;
	if (!strcmp(name, "cuda"))
		return true;
	size_t n = strspn(name + (strncmp(name, "cuda:", 5) ? 0 : 5), "0123456789");
	if (strncmp(name, "cuda:", 5) || n == 0 || n > 4 || name[5 + n])
		return false;
	*ordinal = atoi(name + 5);
	return true;
}

tilert_status tilert_device_open(const char *name, tilert_device **out)
{
	int ordinal;

	if (!name || !out)
		return rt_fail(TILERT_EINVAL, "tilert_device_open: name or out is NULL");
	if (!parse_name(name, &ordinal))
		return rt_fail(TILERT_EINVAL, "device \"%s\" is not \"cpu\", \"cuda\" or \"cuda:N\"", name);
	tilert_device *d = calloc(1, sizeof *d);
	if (!d)
		return rt_fail_memory("a device");
	tilert_status s = ordinal < 0 ? rt_cpu_open(d) : rt_cuda_open(d, ordinal);
	d->sm_count = d->info.sm_count;
	if (s)
		free(d);
	else
		*out = d;
	return s;
}

void tilert_device_close(tilert_device *d)
{
	if (!d)
		return;
	d->ops->close(d);
	free(d);
}

tilert_status tilert_device_get_info(const tilert_device *d, tilert_device_info *out)
{
	if (!d || !out)
		return rt_fail(TILERT_EINVAL, "tilert_device_get_info: device or out is NULL");
	*out = d->info;
	out->sm_count = d->sm_count;
	return TILERT_OK;
}

static tilert_status check_cpu(const tilert_device *d, const char *function)
{
	if (!d || d->info.is_cuda)
		return rt_fail(TILERT_EINVAL, "%s: not the CPU device", function);
	return TILERT_OK;
}

enum { MOST_THREADS = 1024 };

tilert_status tilert_cpu_configure(tilert_device *d, uint64_t seed, unsigned threads)
{
	tilert_status s = check_cpu(d, "tilert_cpu_configure");

	if (s)
		return s;
	if (threads > MOST_THREADS)
		return rt_fail(TILERT_EINVAL, "tilert_cpu_configure: %u threads, of which there may be %d", threads, MOST_THREADS);
	pthread_mutex_lock(&d->lock);
	d->seed = seed;
	d->threads = threads;
	d->sm_count = threads ? (int)threads : rt_cpu_cores();
	pthread_mutex_unlock(&d->lock);
	return TILERT_OK;
}

tilert_status tilert_cpu_set_checks(tilert_device *d, const tilert_cpu_checks *checks)
{
	tilert_status s = check_cpu(d, "tilert_cpu_set_checks");

	if (s)
		return s;
	if (!checks)
		return rt_fail(TILERT_EINVAL, "tilert_cpu_set_checks: checks is NULL");
	if (!(checks->timeout >= 0))
		return rt_fail(TILERT_EINVAL, "tilert_cpu_set_checks: a timeout of %g seconds", checks->timeout);
	pthread_mutex_lock(&d->lock);
	d->checks = *checks;
	pthread_mutex_unlock(&d->lock);
	return TILERT_OK;
}

tilert_status tilert_cpu_set_progress(tilert_device *d, tilert_progress fn, void *user)
{
	tilert_status s = check_cpu(d, "tilert_cpu_set_progress");

	if (s)
		return s;
	pthread_mutex_lock(&d->lock);
	d->progress = fn;
	d->progress_user = user;
	pthread_mutex_unlock(&d->lock);
	return TILERT_OK;
}
