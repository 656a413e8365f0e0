/* launch.c - runs the clusters of a grid on host threads; the first error stops all. */
#define _DEFAULT_SOURCE
#include "runtime/cpu/cta.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct Launch {
	const TileCpuLaunch *l;
	uint64_t clusters;
	atomic_uint_fast64_t next, done;
	atomic_bool stop;
	pthread_mutex_t lock; /* of the error */
} Launch;

static void set_error(Launch *x, const char *text)
{
	pthread_mutex_lock(&x->lock);
	if (!atomic_exchange(&x->stop, true) && x->l->error_size)
		snprintf(x->l->error, x->l->error_size, "%s", text);
	pthread_mutex_unlock(&x->lock);
}

static void work(Launch *x, Worker *k, bool report_progress)
{
	const TileCpuLaunch *l = x->l;

	while (!atomic_load(&x->stop)) {
		uint64_t i = atomic_fetch_add(&x->next, 1);

		if (i >= x->clusters)
			break;
		if (!worker_run(k, i)) {
			set_error(x, k->error);
			break;
		}
		i = atomic_fetch_add(&x->done, 1) + 1;
		if (report_progress && l->progress)
			l->progress(l->user, i * k->nctas, x->clusters * k->nctas);
	}
}

static void run_worker(Launch *x, bool first)
{
	Worker *k = malloc(sizeof *k);

	if (k && worker_open(k, x->l))
		work(x, k, first);
	else
		set_error(x, "out of memory for the CPU device");
	if (k)
		worker_close(k);
	free(k);
}

static void *worker_thread(void *arg)
{
	run_worker(arg, false);
	return NULL;
}

static unsigned count_workers(const TileCpuLaunch *l, uint64_t clusters)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t n = l->workers ? l->workers : cores > 0 ? (uint64_t)cores : 1;

	n = n > 256 ? 256 : n;
	return (unsigned)(n < clusters ? n : clusters);
}

/* The caller is the first worker: it alone reports progress. */
static void run_workers(Launch *x)
{
	unsigned n = count_workers(x->l, x->clusters), started = 0;
	pthread_t threads[256];

	while (started + 1 < n && !pthread_create(&threads[started], NULL, worker_thread, x))
		started++;
	run_worker(x, true);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (!atomic_load(&x->stop) && x->l->progress)
		x->l->progress(x->l->user, x->clusters * (x->l->cluster ? x->l->cluster : 1), x->clusters * (x->l->cluster ? x->l->cluster : 1));
}

static const char *check(const TileCpuLaunch *l)
{
	if (!l->entry)
		return "the launch has no kernel";
	if (l->threads == 0 || l->threads > MAX_WARPS * WARP)
		return "a CTA has 1 to 1024 threads";
	if (l->cluster > MAX_CLUSTER)
		return "a cluster has at most 16 CTAs";
	if (l->cluster > 1 && l->grid[0] % l->cluster)
		return "the grid's x extent is not a multiple of the cluster size";
	if (l->smem_bytes > 227 * 1024)
		return "a CTA has at most 232448 bytes of shared memory";
	return NULL;
}

int tilecpu_launch(const TileCpuLaunch *l)
{
	const char *wrong = check(l);
	Launch x = { .l = l };

	if (l->error_size)
		l->error[0] = '\0';
	if (wrong) {
		if (l->error_size)
			snprintf(l->error, l->error_size, "kernel %s: %s", l->kernel_name ? l->kernel_name : "?", wrong);
		return -1;
	}
	x.clusters = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] / (l->cluster ? l->cluster : 1);
	if (x.clusters == 0)
		return 0;
	pthread_mutex_init(&x.lock, NULL);
	run_workers(&x);
	pthread_mutex_destroy(&x.lock);
	return atomic_load(&x.stop) ? -1 : 0;
}
