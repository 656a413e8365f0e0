/* cta.c - the life of a worker's CTAs: storage, reset before each run, the end of a thread. */
#include "runtime/cpu/cta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *grow(Worker *k, void *array, uint32_t n, uint32_t *size, size_t element)
{
	uint32_t larger = *size ? 2 * *size : 16;

	if (n < *size)
		return array;
	array = realloc(array, larger * element);
	if (!array)
		report_memory(k);
	*size = larger;
	return array;
}

void *zeros(Worker *k, size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		report_memory(k);
	return p;
}

void check_shared(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t align, uint32_t line)
{
	if (offset % align)
		report_fail(t, line, "%s at shared +%u, which is not a multiple of %u", what, offset, align);
	if (!in_shared(t, offset, bytes))
		report_fail(t, line, "%s at shared +%u, %u bytes, beyond the %u bytes of shared memory", what, offset, bytes, t->cta->worker->smem_bytes);
}

/* ---- storage ---- */

static uint32_t padded_smem(const Worker *k)
{
	return (k->smem_bytes + SMEM_ALIGN) / SMEM_ALIGN * SMEM_ALIGN;
}

static bool cta_open(Worker *k, uint32_t index)
{
	Cta *c = &k->ctas[index];
	uint32_t smem = padded_smem(k), groups = k->nthreads / WARPGROUP;

	c->worker = k;
	c->threads = k->threads + (size_t)index * k->nthreads;
	c->warps = k->warps + (size_t)index * k->nwarps;
	c->smem = aligned_alloc(SMEM_ALIGN, smem);
	c->mbarrier_at = calloc(smem / 8, sizeof *c->mbarrier_at);
	c->mbarriers = calloc(MAX_MBARRIERS, sizeof *c->mbarriers);
	c->products = calloc(groups + 1, sizeof(ProductQueue *));
	if (!races_open(c, smem) || !c->smem || !c->mbarrier_at || !c->mbarriers || !c->products)
		return false;
	for (uint32_t g = 0; g < groups; g++)
		if (!(c->products[g] = products_open()))
			return false;
	return true;
}

static void cta_close(Worker *k, Cta *c)
{
	for (uint32_t g = 0; c->products && g < k->nthreads / WARPGROUP; g++)
		products_close(c->products[g]);
	free(c->products);
	free(c->mbarriers);
	free(c->mbarrier_at);
	races_close(c);
	free(c->smem);
}

bool worker_open(Worker *k, const TileCpuLaunch *l, GlobalShadow *global)
{
	memset(k, 0, sizeof *k);
	k->launch = l;
	k->global = global;
	k->nctas = l->cluster > 1 ? l->cluster : 1;
	k->nthreads = l->threads;
	k->nwarps = (l->threads + WARP - 1) / WARP;
	k->smem_bytes = l->smem_bytes;
	k->races = !l->no_race_check;
	k->ctas = calloc(k->nctas, sizeof *k->ctas);
	k->threads = calloc((size_t)k->nctas * k->nthreads, sizeof *k->threads);
	k->warps = calloc((size_t)k->nctas * k->nwarps, sizeof *k->warps);
	k->runnable = calloc((size_t)k->nctas * k->nwarps, sizeof(Warp *));
	if (!k->ctas || !k->threads || !k->warps || !k->runnable)
		return false;
	for (uint32_t i = 0; i < k->nctas; i++)
		if (!cta_open(k, i))
			return false;
	return stack_pool_open(&k->stacks, l->stacks, (size_t)k->nctas * k->nthreads);
}

void worker_close(Worker *k)
{
	if (k->threads) {
		async_reset(k);
		for (size_t i = 0; i < (size_t)k->nctas * k->nthreads; i++) {
			free(k->threads[i].stores);
			free(k->threads[i].copies);
		}
	}
	for (uint32_t i = 0; k->ctas && i < k->nctas; i++)
		cta_close(k, &k->ctas[i]);
	stack_pool_close(&k->stacks, k->launch->stacks);
	clocks_close(k);
	free(k->product_scratch);
	free(k->tokens);
	free(k->loads);
	free(k->runnable);
	free(k->warps);
	free(k->threads);
	free(k->ctas);
}

/* ---- one run ---- */

static void check_end(Thread *t)
{
	uint32_t line;

	async_thread_end(t);
	if (products_pending(t, &line))
		report_fail(t, line, "the role ends while the wgmma of this line is in flight: a wgmma_wait is missing");
}

static void thread_main(void *arg)
{
	Thread *t = arg;
	const TileCpuLaunch *l = t->cta->worker->launch;

	l->entry(&t->abi, l->params);
	check_end(t);
	schedule_end(t);
}

static void reset_thread(Worker *k, Cta *c, uint32_t i)
{
	Thread *t = &c->threads[i];
	Store *stores = t->stores;
	CpAsync *copies = t->copies;
	uint32_t stores_size = t->stores_size, copies_size = t->copies_size;

	memset(t, 0, sizeof *t);
	t->stores = stores;
	t->stores_size = stores_size;
	t->copies = copies;
	t->copies_size = copies_size;
	t->cta = c;
	t->warp = &c->warps[i / WARP];
	t->abi.smem = c->smem;
	t->abi.thread = i;
	memcpy(t->abi.block, c->block, sizeof c->block);
	memcpy(t->abi.grid, k->launch->grid, sizeof t->abi.grid);
	t->abi.cluster_rank = (uint32_t)(c - k->ctas);
	t->abi.interrupt = &k->interrupt;
	fiber_start(&t->fiber, &k->stacks, (size_t)(t - k->threads), thread_main, t);
	schedule_add(t);
}

static void reset_warps(Worker *k, Cta *c)
{
	for (uint32_t w = 0; w < k->nwarps; w++) {
		Warp *warp = &c->warps[w];

		memset(warp, 0, sizeof *warp);
		warp->cta = c;
		warp->threads = c->threads + w * WARP;
		warp->index = w;
		warp->size = k->nthreads - w * WARP < WARP ? k->nthreads - w * WARP : WARP;
		warp->clock = clock_new(k);
		clock_advance(warp, COMPONENT_ACCESSES, 1);
		clock_meet(warp);
	}
}

static void reset_cta(Worker *k, Cta *c)
{
	uint32_t smem = padded_smem(k);

	memset(c->smem, POISON, smem);
	for (uint32_t i = 0; i < c->nmbarriers; i++)
		c->mbarrier_at[c->mbarriers[i].offset / 8] = 0;
	c->nmbarriers = 0;
	memset(c->barriers, 0, sizeof c->barriers);
	for (uint32_t g = 0; g < k->nthreads / WARPGROUP; g++)
		products_reset(c->products[g]);
	reset_warps(k, c);
	for (uint32_t i = 0; i < k->nthreads; i++)
		reset_thread(k, c, i);
}

/* Clusters lie along x. */
static void place(Worker *k, uint64_t index)
{
	const uint32_t *grid = k->launch->grid;
	uint32_t across = grid[0] / k->nctas;

	for (uint32_t i = 0; i < k->nctas; i++) {
		k->ctas[i].block[0] = (uint32_t)(index % across) * k->nctas + i;
		k->ctas[i].block[1] = (uint32_t)(index / across % grid[1]);
		k->ctas[i].block[2] = (uint32_t)(index / across / grid[1]);
	}
}

/* Whether somebody knows the last load to be complete; without clocks: whether it is. */
static bool is_waited_for(const Worker *k, const Mbarrier *b)
{
	if (!k->races)
		return !b->loads;
	for (uint32_t w = 0; w < k->nctas * k->nwarps; w++)
		if (clock_row(k, k->warps[w].clock)[b->component] > b->last_load.phase)
			return true;
	return false;
}

static void check_finished(Worker *k, const Mbarrier *b)
{
	const LastLoad *l = &b->last_load;
	char name[NAME_SIZE], place[PLACE_SIZE];

	if (l->issuer && !is_waited_for(k, b))
		report_error(k, l->issuer, l->line, "the CTA ends while the load of this line to %s may still be under way: nobody has waited for phase %u of mbarrier %s",
			place_in_shared(k, l->at, place, sizeof place), l->phase, mbarrier_name(b, name, sizeof name));
}

static void run(Worker *k, uint64_t index)
{
	random_seed(k, k->launch->seed, index);
	place(k, index);
	async_reset(k);
	k->nrunnable = 0;
	k->live = 0;
	memset(&k->cluster, 0, sizeof k->cluster);
	k->run++;
	k->cluster_run = (uint32_t)index + 1;
	k->ntokens = 0;
	clocks_reset(k);
	for (uint32_t i = 0; i < k->nctas; i++)
		reset_cta(k, &k->ctas[i]);
	schedule_run(k);
	for (uint32_t i = 0; i < k->nctas; i++)
		for (uint32_t b = 0; !k->failed && b < k->ctas[i].nmbarriers; b++)
			check_finished(k, &k->ctas[i].mbarriers[b]);
}

bool worker_run(Worker *k, uint64_t index)
{
	k->current = NULL;
	k->failed = false;
	fiber_of_host(&k->host);
	if (!setjmp(k->begin))
		run(k, index);
	async_reset(k);
	fiber_of_host_end(&k->host);
	return !k->failed;
}
