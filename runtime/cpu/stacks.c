/* stacks.c - mapping, guarding and touching the stacks of some hundred threads takes longer than a small kernel runs: a device keeps them. */
#define _GNU_SOURCE
#include "runtime/cpu/stacks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef TILE_CPU_SANITIZED /* frames that are left for good would stay poisoned */
#include <sanitizer/asan_interface.h>
#define forget __asan_unpoison_memory_region
#else
#define forget(low, size) ((void)(low), (void)(size))
#endif

enum {
	STACK_BYTES = TILE_CPU_STACK_BYTES, /* large kernels have frames of 150 KB and more */
	MOST_GUARDS = 24000,
	MOST_KEPT = 64, /* pools: with fewer than threads of the host each launch maps some anew and touches all of them */
	COLOURS = 32, COLOUR_BYTES = 192 /* tops of stacks fall on different cache sets */
};

struct TileCpuStacks {
	pthread_mutex_t lock;
	StackPool pools[MOST_KEPT];
	size_t n;
};

static atomic_size_t guards; /* of all pools */

static bool map(StackPool *p, size_t count)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *m;

	p->stride = STACK_BYTES + page;
	p->count = count;
	m = mmap(NULL, p->stride * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return false;
	p->base = m;
	/* A guard splits a mapping, of which Linux gives a process 65530: the stacks beyond go without. */
	for (p->guards = 0; p->guards < count && atomic_fetch_add(&guards, 1) < MOST_GUARDS; p->guards++) {
		if (mprotect(p->base + p->guards * p->stride, page, PROT_NONE))
			break;
	}
	if (p->guards < count)
		atomic_fetch_sub(&guards, 1);
	return true;
}

static void unmap(const StackPool *p)
{
	forget(p->base, p->stride * p->count);
	munmap(p->base, p->stride * p->count);
	atomic_fetch_sub(&guards, p->guards);
}

TileCpuStacks *tilecpu_stacks_open(void)
{
	TileCpuStacks *kept = calloc(1, sizeof *kept);
	if (kept && pthread_mutex_init(&kept->lock, NULL)) {
		free(kept);
		return NULL;
	}
	return kept;
}

/* Whether there were any. */
static bool unmap_kept(TileCpuStacks *kept)
{
	pthread_mutex_lock(&kept->lock);
	size_t n = kept->n;
	while (kept->n)
		unmap(&kept->pools[--kept->n]);
	pthread_mutex_unlock(&kept->lock);
	return n > 0;
}

void tilecpu_stacks_close(TileCpuStacks *kept)
{
	if (!kept)
		return;
	unmap_kept(kept);
	pthread_mutex_destroy(&kept->lock);
	free(kept);
}

/* The smallest that has `count`. */
static bool take_kept(StackPool *p, TileCpuStacks *kept, size_t count)
{
	size_t best = SIZE_MAX;

	pthread_mutex_lock(&kept->lock);
	for (size_t i = 0; i < kept->n; i++)
		if (kept->pools[i].count >= count && (best == SIZE_MAX || kept->pools[i].count < kept->pools[best].count))
			best = i;
	if (best != SIZE_MAX) {
		*p = kept->pools[best];
		kept->pools[best] = kept->pools[--kept->n];
	}
	pthread_mutex_unlock(&kept->lock);
	return best != SIZE_MAX;
}

bool stack_pool_open(StackPool *p, TileCpuStacks *kept, size_t count)
{
	if ((kept && take_kept(p, kept, count)) || map(p, count))
		return true;
	return kept && unmap_kept(kept) && map(p, count);
}

/* In place of the smallest where all places are taken. */
static void keep(StackPool *p, TileCpuStacks *kept)
{
	size_t least = 0;

	pthread_mutex_lock(&kept->lock);
	if (kept->n < MOST_KEPT) {
		kept->pools[kept->n++] = *p;
		p->base = NULL;
	} else {
		for (size_t i = 1; i < kept->n; i++)
			if (kept->pools[i].count < kept->pools[least].count)
				least = i;
		if (kept->pools[least].count < p->count) {
			StackPool smaller = kept->pools[least];
			kept->pools[least] = *p;
			*p = smaller;
		}
	}
	pthread_mutex_unlock(&kept->lock);
}

void stack_pool_close(StackPool *p, TileCpuStacks *kept)
{
	if (p->base && kept)
		keep(p, kept);
	if (p->base)
		unmap(p);
	p->base = NULL;
}

void *stack_take(const StackPool *p, size_t index, size_t *size)
{
	unsigned char *low = p->base + index * p->stride + (p->stride - STACK_BYTES);

	*size = STACK_BYTES - index % COLOURS * COLOUR_BYTES;
	forget(low, STACK_BYTES);
	return low;
}
