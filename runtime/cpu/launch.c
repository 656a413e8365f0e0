/* launch.c - runs the clusters of a grid on host threads; the first error stops all, and so does a watchdog. */
#define _DEFAULT_SOURCE
#include "runtime/cpu/cta.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 256, LONGEST = 1000000000 /* seconds, a time that time_t can add */ };

typedef struct Launch {
	const TileCpuLaunch *l;
	GlobalShadow *global; /* NULL: races are not looked for */
	uint64_t clusters;
	atomic_uint_fast64_t next, done;
	atomic_bool stop;
	pthread_mutex_t lock; /* of the error, the workers and `over` */
	pthread_cond_t ended;
	Worker *workers[MAX_WORKERS]; /* that run */
	unsigned nworkers;
	bool no_memory; /* that was the error */
	bool over;
} Launch;

static void interrupt(Worker *k)
{
	__atomic_store_n(&k->interrupt, 1, __ATOMIC_RELAXED);
}

/* The other workers may wait for what this one will not do any more. */
static void set_error(Launch *x, const char *text, bool no_memory)
{
	pthread_mutex_lock(&x->lock);
	if (!atomic_exchange(&x->stop, true)) {
		x->no_memory = no_memory;
		if (x->l->error_size)
			snprintf(x->l->error, x->l->error_size, "%s", text);
	}
	for (unsigned i = 0; i < x->nworkers; i++)
		interrupt(x->workers[i]);
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
			set_error(x, k->error, k->no_memory);
			break;
		}
		i = atomic_fetch_add(&x->done, 1) + 1;
		if (report_progress && l->progress)
			l->progress(l->user, i * k->nctas, x->clusters * k->nctas);
	}
}

static void list_worker(Launch *x, Worker *k, bool runs)
{
	unsigned i = 0;

	pthread_mutex_lock(&x->lock);
	while (i < x->nworkers && x->workers[i] != k)
		i++;
	if (runs)
		x->workers[x->nworkers++] = k;
	else
		x->workers[i] = x->workers[--x->nworkers];
	pthread_mutex_unlock(&x->lock);
}

static void run_worker(Launch *x, bool first)
{
	Worker *k = malloc(sizeof *k);

	if (k && worker_open(k, x->l, x->global)) {
		list_worker(x, k, true);
		work(x, k, first);
		list_worker(x, k, false);
	} else {
		set_error(x, OUT_OF_MEMORY, true);
	}
	if (k)
		worker_close(k);
	free(k);
}

static void *worker_thread(void *arg)
{
	run_worker(arg, false);
	return NULL;
}

/* ---- the watchdog ---- */

/* Interrupts workers that have made no progress since the last look. */
static void look(Launch *x)
{
	for (unsigned i = 0; i < x->nworkers; i++) {
		Worker *k = x->workers[i];
		uint64_t now = atomic_load_explicit(&k->switches, memory_order_relaxed);

		if (now == k->switches_seen)
			interrupt(k);
		k->switches_seen = now;
	}
}

static void *watch(void *arg)
{
	Launch *x = arg;
	const double timeout = x->l->timeout < LONGEST ? x->l->timeout : LONGEST;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	pthread_mutex_lock(&x->lock);
	while (!x->over) {
		double at = (double)next.tv_nsec * 1e-9 + timeout;

		next.tv_sec += (time_t)at;
		next.tv_nsec = (long)((at - (double)(time_t)at) * 1e9);
		while (!x->over && !pthread_cond_timedwait(&x->ended, &x->lock, &next))
			;
		if (!x->over)
			look(x);
	}
	pthread_mutex_unlock(&x->lock);
	return NULL;
}

static void stop_watching(Launch *x, pthread_t watcher)
{
	pthread_mutex_lock(&x->lock);
	x->over = true;
	pthread_cond_signal(&x->ended);
	pthread_mutex_unlock(&x->lock);
	pthread_join(watcher, NULL);
}

static unsigned count_workers(const TileCpuLaunch *l, uint64_t clusters)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t n = l->workers ? l->workers : cores > 0 ? (uint64_t)cores : 1;

	n = n > MAX_WORKERS ? MAX_WORKERS : n;
	return (unsigned)(n < clusters ? n : clusters);
}

/* The caller is the first worker: it alone reports progress. */
static void run_workers(Launch *x)
{
	unsigned n = count_workers(x->l, x->clusters), started = 0;
	pthread_t threads[MAX_WORKERS], watcher;
	bool watched = x->l->timeout > 0 && !pthread_create(&watcher, NULL, watch, x);

	while (started + 1 < n && !pthread_create(&threads[started], NULL, worker_thread, x))
		started++;
	run_worker(x, true);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (watched)
		stop_watching(x, watcher);
	if (!atomic_load(&x->stop) && x->l->progress)
		x->l->progress(x->l->user, x->clusters * (x->l->cluster ? x->l->cluster : 1), x->clusters * (x->l->cluster ? x->l->cluster : 1));
}

/* By a clock that nobody sets and that stands while the machine sleeps. */
static void open_condition(pthread_cond_t *c)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attributes);
	pthread_condattr_destroy(&attributes);
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
	int cancelled;

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
	x.global = l->no_race_check ? NULL : global_open();
	pthread_mutex_init(&x.lock, NULL);
	open_condition(&x.ended);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled); /* the workers have what lies on this stack */
	if (x.global || l->no_race_check)
		run_workers(&x);
	else
		set_error(&x, OUT_OF_MEMORY, true);
	pthread_setcancelstate(cancelled, NULL);
	global_close(x.global);
	pthread_cond_destroy(&x.ended);
	pthread_mutex_destroy(&x.lock);
	return !x.stop ? 0 : x.no_memory ? TILE_CPU_NO_MEMORY : -1;
}
