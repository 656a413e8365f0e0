/* threads.c - one device, one module and handles of their own, used from several threads at once.
 *   threads MODULE   (tests/consumer/scale.tile, for the CPU device)
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "tilert/tilert.h"

enum { THREADS = 6, ROUNDS = 200, N = 1000 };

typedef struct Shared {
	const char *path;
	tilert_device *device;
	tilert_module *module;
	tilert_kernel *kernel;
} Shared;

typedef struct Worker {
	Shared *shared;
	int number;
	const char *wrong;
} Worker;

static tilert_status configure(tilert_device *d, int number, int round)
{
	const tilert_cpu_checks checks = { round & 1, 1, 60 };
	tilert_device_info info;

	if (number == 0)
		return tilert_cpu_configure(d, (uint64_t)round, 1 + (unsigned)round % 3);
	return number == 1 ? tilert_cpu_set_checks(d, &checks) : tilert_device_get_info(d, &info);
}

static tilert_status prepare(tilert_kernel *k, float *x, float *y)
{
	const tilert_tensor tx = { .data = (tilert_ptr)(uintptr_t)x, .dtype = TILERT_F32, .rank = 1, .extents = { N } };
	const tilert_tensor ty = { .data = (tilert_ptr)(uintptr_t)y, .dtype = TILERT_F32, .rank = 1, .extents = { N } };
	const tilert_arg args[] = {
		{ .name = "x", .tensor = tx }, { .name = "y", .tensor = ty }, { .name = "factor", .kind = TILERT_ARG_SCALAR, .f = 2 },
	};
	tilert_prepared *p = NULL;
	tilert_status s = tilert_prepare(k, args, 3, &p);

	tilert_prepared_destroy(p);
	return s;
}

static tilert_status load(Shared *x)
{
	tilert_module *m = NULL;
	tilert_kernel *k;
	tilert_status s = tilert_module_open(x->device, x->path, &m);

	if (!s)
		s = tilert_module_kernel(m, "scale", &k);
	if (!s && tilert_module_kernel(m, "scales", &k) != TILERT_ENOENT)
		s = TILERT_EINVAL;
	tilert_module_close(m);
	return s;
}

static void *work(void *user)
{
	_Alignas(256) static _Thread_local float x[N], y[N];
	Worker *w = user;
	tilert_device *own;
	tilert_ptr p;

	for (int i = 0; i < ROUNDS && !w->wrong; i++) {
		if (configure(w->shared->device, w->number, i))
			w->wrong = "configure";
		else if (prepare(w->shared->kernel, x, y))
			w->wrong = "prepare";
		else if (load(w->shared))
			w->wrong = "load";
		else if (tilert_alloc(w->shared->device, 100, &p) || tilert_free(w->shared->device, p))
			w->wrong = "alloc";
		else if (tilert_device_open("cpu", &own))
			w->wrong = "open";
		else
			tilert_device_close(own);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	Shared x = { .path = argc > 1 ? argv[1] : "" };
	Worker workers[THREADS];
	pthread_t threads[THREADS];
	int wrong = 0;

	if (tilert_device_open("cpu", &x.device) || tilert_module_open(x.device, x.path, &x.module) || tilert_module_kernel(x.module, "scale", &x.kernel))
		return fprintf(stderr, "%s\n", tilert_last_error()), 1;
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (Worker){ &x, i, NULL };
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			return 1;
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		if (workers[i].wrong)
			wrong = 1, printf("thread %d: %s failed\n", i, workers[i].wrong);
	}
	tilert_module_close(x.module);
	tilert_device_close(x.device);
	return wrong;
}
