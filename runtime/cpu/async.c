/* async.c - loads that come in pieces at random moments, stores that read late, cp.async. */
#include "runtime/cpu/cta.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/include/tilert/tilert.h"

/* ---- loads ---- */

static void finish_load(Worker *k, uint32_t i)
{
	Load l = k->loads[i];

	k->loads[i] = k->loads[--k->nloads];
	mbarrier_complete_tx(l.cta, l.bar, l.x.bytes, l.issuer, l.line);
}

void async_step(Worker *k)
{
	uint32_t i = random_below(k, k->nloads);
	Load *l = &k->loads[i];
	uint32_t left = l->x.rows - l->done;
	uint32_t rows = left > 1 && random_below(k, 2) ? 1 + random_below(k, left) : left;

	transfer_load(&l->x, l->cta, l->done, rows);
	l->done += rows;
	if (l->done == l->x.rows)
		finish_load(k, i);
}

/* Into shared memory of CTA c, which has the barrier. */
static void issue_load(Thread *t, Cta *c, const Transfer *x, uint32_t bar, uint32_t line)
{
	Worker *k = c->worker;
	Mbarrier *b = mbarrier_at(t, c, bar, line);

	if (x->bytes == 0)
		return;
	race_load(t, c, b, x->smem, x->bytes, line);
	if (c != t->cta)
		sync_release_phases(t, &b->sync);
	/* from now on the bytes may be anything */
	memset(c->smem + x->smem, POISON, x->bytes);
	k->loads = grow(k, k->loads, k->nloads, &k->loads_size, sizeof *k->loads);
	k->loads[k->nloads++] = (Load){ .x = *x, .issuer = t, .cta = c, .bar = b, .line = line };
	b->loads++;
	b->last_load = (LastLoad){ t, b->phase, x->smem, line };
}

void tilecpu_tma_load(TileCpuThread *t, const TileCpuTensorMap *map, uint32_t dst, uint32_t bar, const int32_t *coord, uint32_t line)
{
	Transfer x;

	transfer_box(thread_of(t), &x, map, dst, coord, line);
	issue_load(thread_of(t), thread_of(t)->cta, &x, bar, line);
}

void tilecpu_tma_multicast(TileCpuThread *t, const TileCpuTensorMap *map, uint32_t dst, uint32_t bar, const int32_t *coord, uint32_t ctas,
	uint32_t line)
{
	Worker *k = thread_of(t)->cta->worker;
	Transfer x;

	transfer_box(thread_of(t), &x, map, dst, coord, line);
	for (uint32_t i = 0; i < k->nctas; i++)
		if (ctas >> i & 1)
			issue_load(thread_of(t), &k->ctas[i], &x, bar, line);
}

void tilecpu_bulk_load(TileCpuThread *t, uint32_t dst, const void *src, uint32_t bytes, uint32_t bar, uint32_t line)
{
	Transfer x;

	transfer_plain(thread_of(t), &x, src, dst, bytes, line);
	issue_load(thread_of(t), thread_of(t)->cta, &x, bar, line);
}

/* ---- stores ---- */

static void read_store(Thread *t, Store *s)
{
	if (s->staged)
		return;
	s->staged = malloc(s->x.bytes ? s->x.bytes : 1);
	if (!s->staged)
		report_memory(t->cta->worker);
	transfer_stage(&s->x, t->cta, s->staged);
}

static void write_store(Thread *t, Store *s)
{
	read_store(t, s);
	transfer_store(&s->x, s->staged, s->reduce);
	free(s->staged);
	s->staged = NULL;
}

/* Carries out the stores of groups before `end`: all of it, or what is required to free their sources. */
static void finish_stores(Thread *t, uint32_t end, bool read_only)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < t->nstores; i++) {
		Store *s = &t->stores[i];

		if (s->group < end) {
			read_store(t, s);
			if (!s->waited)
				race_store_done(t, s->x.smem, s->x.bytes);
			s->waited = true;
			if (!read_only || !s->late_write) {
				write_store(t, s);
				continue;
			}
		}
		const Store keep = *s;
		s->staged = NULL; /* it has one owner, wherever the run is abandoned */
		t->stores[kept++] = keep;
	}
	t->nstores = kept;
}

static void check_source(Thread *t, const char *what, const Transfer *x, uint32_t line)
{
	race_store(t, what, x->smem, x->bytes, line);
}

static void issue_store(Thread *t, const Transfer *x, bool reduce, uint32_t line)
{
	Worker *k = t->cta->worker;
	Store *s;

	t->stores = grow(k, t->stores, t->nstores, &t->stores_size, sizeof *t->stores);
	s = &t->stores[t->nstores++];
	*s = (Store){ .x = *x, .reduce = reduce, .group = t->store_groups, .line = line };
	s->late_write = random_below(k, 2);
	if (random_below(k, 3) == 0)
		read_store(t, s);
}

static bool can_add(unsigned dtype)
{
	return dtype == TILERT_F32 || dtype == TILERT_BF16 || dtype == TILERT_F16 || dtype == TILERT_I32 || dtype == TILERT_U32;
}

/* Loads may begin before the tensor; a store that does is an illegal instruction on a GPU. */
static void check_begin(Thread *t, const char *what, const TileCpuTensorMap *map, const int32_t *coord, uint32_t line)
{
	for (unsigned i = 0; i < map->rank; i++)
		if (coord[i] < 0)
			report_fail(t, line, "%s begins before %s, at index %d of dimension %u from the innermost", what, tensor_text(t->cta->worker, map).text, coord[i], i);
}

void tilecpu_tma_store(TileCpuThread *t, const TileCpuTensorMap *map, uint32_t src, const int32_t *coord, uint32_t reduce_add, uint32_t line)
{
	const char *what = reduce_add ? "tma_reduce_add" : "tma_store";
	Transfer x;

	transfer_box(thread_of(t), &x, map, src, coord, line);
	check_begin(thread_of(t), what, map, coord, line);
	if (reduce_add && !can_add(map->dtype))
		report_fail(thread_of(t), line, "tma_reduce_add of element type %u: f32, bf16, f16, i32 and u32 can be added", map->dtype);
	check_source(thread_of(t), what, &x, line);
	issue_store(thread_of(t), &x, reduce_add != 0, line);
}

void tilecpu_bulk_store(TileCpuThread *t, void *dst, uint32_t src, uint32_t bytes, uint32_t line)
{
	Transfer x;

	transfer_plain(thread_of(t), &x, dst, src, bytes, line);
	check_source(thread_of(t), "bulk_store", &x, line);
	issue_store(thread_of(t), &x, false, line);
}

void tilecpu_bulk_commit(TileCpuThread *t)
{
	thread_of(t)->store_groups++;
}

void tilecpu_bulk_wait(TileCpuThread *t, uint32_t n, uint32_t read, uint32_t line)
{
	Thread *self = thread_of(t);

	(void)line;
	if (self->store_groups <= n)
		return;
	schedule_let_lanes_come(self);
	finish_stores(self, self->store_groups - n, read != 0);
	clock_advance(self->warp, COMPONENT_STORES, self->store_groups - n);
	if (!read)
		clock_advance(self->warp, COMPONENT_WRITTEN, self->store_groups - n);
}

/* ---- the global side, where the tensor is used in several ways ---- */

void tilecpu_global_box(TileCpuThread *t, const char *name, const void *base, const TileCpuTensorMap *map, const int32_t *coord, uint32_t bar, uint32_t how,
	uint32_t line)
{
	Thread *self = thread_of(t);
	Transfer x;

	transfer_box(self, &x, map, 0, coord, line);
	global_transfer(self, name, base, &x, how, how ? NULL : mbarrier_at(self, self->cta, bar, line), line);
}

void tilecpu_global_bulk(TileCpuThread *t, const char *name, const void *base, const void *at, uint32_t bytes, uint32_t bar, uint32_t how, uint32_t line)
{
	Thread *self = thread_of(t);
	Transfer x;

	transfer_plain(self, &x, at, 0, bytes, line);
	global_transfer(self, name, base, &x, how, how ? NULL : mbarrier_at(self, self->cta, bar, line), line);
}

/* ---- cp.async: generic stores, made at once or when waited for ---- */

static void do_copy(Thread *t, const CpAsync *c)
{
	uint8_t *to = t->cta->smem + c->dst;

	if (c->valid)
		memcpy(to, c->src, c->valid);
	memset(to + c->valid, 0, c->bytes - c->valid);
}

void tilecpu_cp_async(TileCpuThread *t, uint32_t dst, const void *src, uint32_t bytes, uint32_t valid, uint32_t line)
{
	Thread *self = thread_of(t);
	CpAsync c = { .src = src, .dst = dst, .bytes = bytes, .valid = valid, .group = self->copy_groups, .line = line };

	if ((bytes != 4 && bytes != 8 && bytes != 16) || valid > bytes)
		report_fail(self, line, "cp_async of %u bytes, %u valid", bytes, valid);
	check_shared(self, "cp_async", dst, bytes, bytes, line);
	if (valid && (uintptr_t)src % bytes)
		report_fail(self, line, "cp_async of %u bytes from a source that is not aligned to as many", bytes);
	if (random_below(self->cta->worker, 2))
		do_copy(self, &c);
	else
		memset(self->cta->smem + dst, POISON, bytes);
	race_copy(self, dst, bytes, line);
	self->copies = grow(self->cta->worker, self->copies, self->ncopies, &self->copies_size, sizeof *self->copies);
	self->copies[self->ncopies++] = c;
}

void tilecpu_cp_async_commit(TileCpuThread *t)
{
	thread_of(t)->copy_groups++;
}

static void finish_copies(Thread *t, uint32_t end)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < t->ncopies; i++) {
		CpAsync *c = &t->copies[i];

		if (c->group < end) {
			do_copy(t, c);
			/* the store is ordered by this wait: earlier fences do not count */
			race_copy_done(t, c->dst, c->bytes, c->line);
		} else {
			t->copies[kept++] = *c;
		}
	}
	t->ncopies = kept;
}

void tilecpu_cp_async_wait(TileCpuThread *t, uint32_t n)
{
	Thread *self = thread_of(t);

	schedule_let_lanes_come(self);
	if (self->copy_groups <= n)
		return;
	finish_copies(self, self->copy_groups - n);
	clock_advance(self->warp, COMPONENT_COPIES, self->copy_groups - n);
}

/* ---- the end ---- */

void async_thread_end(Thread *t)
{
	for (uint32_t i = 0; i < t->nstores; i++)
		if (!t->stores[i].waited)
			report_fail(t, t->stores[i].line, "the role ends while the store of this line may have yet to read shared memory: a store_wait is missing");
	for (uint32_t i = 0; i < t->nstores; i++)
		write_store(t, &t->stores[i]);
	t->nstores = 0;
	finish_copies(t, UINT32_MAX);
}

void async_reset(Worker *k)
{
	k->nloads = 0;
	for (size_t i = 0; i < (size_t)k->nctas * k->nthreads; i++) {
		Thread *t = &k->threads[i];

		for (uint32_t s = 0; s < t->nstores; s++)
			free(t->stores[s].staged);
		t->nstores = t->ncopies = 0;
	}
}
