/* clock.c - vector clocks: what has happened before each warp's present, carried by barriers from those who arrive to those who wait.
 *
 * A clock has a component for each thing whose progress others may know of (see clock_component): a warp's own accesses, which of
 * them lie before a fence.proxy.async, its products and bulk stores that are waited for, and the phases of each mbarrier.
 * Clocks are rows of one table, so that a barrier initialised late can widen them all.
 */
#include "runtime/cpu/cta.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 64, SPARE_COMPONENTS = 64 };

static void resize(Worker *k, uint32_t rows, uint32_t width)
{
	ClockTable *c = &k->clocks;
	uint32_t *table = zeros(k, (size_t)rows * width, sizeof *table);

	for (uint32_t i = 0; i < c->nrows; i++)
		memcpy(table + (size_t)i * width, c->table + (size_t)i * c->width, c->width * sizeof *table);
	free(c->table);
	c->table = table;
	c->rows = rows;
	c->width = width;
}

uint32_t clock_new(Worker *k)
{
	ClockTable *c = &k->clocks;

	if (c->nrows == c->rows)
		resize(k, 2 * c->rows, c->width);
	memset(c->table + (size_t)c->nrows * c->width, 0, c->width * sizeof *c->table);
	return c->nrows++;
}

uint32_t clock_new_component(Worker *k)
{
	ClockTable *c = &k->clocks;

	if (c->ncomponents == c->width)
		resize(k, c->rows, 2 * c->width);
	return c->ncomponents++;
}

void clocks_reset(Worker *k)
{
	ClockTable *c = &k->clocks;
	uint32_t fixed = COMPONENT_WARPS + COMPONENT_KINDS * k->nctas * k->nwarps;

	if (!c->table)
		resize(k, FIRST_ROWS, fixed + SPARE_COMPONENTS);
	c->nrows = 0;
	c->ncomponents = fixed;
	clock_new(k); /* row 0 stands for none */
}

void clocks_close(Worker *k)
{
	free(k->clocks.table);
}

static bool join(uint32_t *to, const uint32_t *from, uint32_t n)
{
	uint32_t change = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t x = to[i] > from[i] ? to[i] : from[i];

		change |= x ^ to[i];
		to[i] = x;
	}
	return change != 0;
}

/* ---- of warps ---- */

void clock_advance(Warp *w, ComponentKind kind, uint32_t time)
{
	uint32_t *at = clock_row(w->cta->worker, w->clock) + clock_component(w, kind);

	if (*at >= time)
		return;
	*at = time;
	w->clock_version++;
}

void clock_catch_up(Thread *t)
{
	Warp *w = t->warp;
	Worker *k = w->cta->worker;

	if (!t->ahead)
		return;
	if (join(clock_row(k, w->clock), clock_row(k, t->ahead), k->clocks.ncomponents))
		w->clock_version++;
	w->clock_shown = true;
	w->ahead--;
	t->ahead = 0;
}

uint32_t clock_known(const Thread *t, uint32_t component)
{
	const Worker *k = t->cta->worker;
	uint32_t warps = clock_row(k, t->warp->clock)[component], alone = clock_row(k, t->ahead)[component];

	return warps > alone ? warps : alone;
}

bool clock_knows(const Thread *t, uint32_t row)
{
	const Worker *k = t->cta->worker;
	const uint32_t *warps = clock_row(k, t->warp->clock), *alone = clock_row(k, t->ahead), *done = clock_row(k, row);
	uint32_t missing = 0;

	for (uint32_t i = COMPONENT_WARPS; i < COMPONENT_WARPS + k->nctas * k->nwarps; i++)
		missing |= (done[i] > warps[i]) & (done[i] > alone[i]);
	return !missing;
}

void clock_meet(Warp *w)
{
	Worker *k = w->cta->worker;

	for (uint32_t i = 0; w->ahead && i < w->size; i++)
		clock_catch_up(&w->threads[i]);
	w->met = w->came = ++k->meetings;
	w->clock_shown = true;
	w->met_time = clock_row(k, w->clock)[clock_component(w, COMPONENT_ACCESSES)] + 1;
}

/* What this lane does behind its fence has a later time.  Others that come to the same fence have not to: mostly all lanes do so without
 * an access in between, and share one time. */
bool clock_fence(Thread *t, uint32_t *row, ComponentKind fenced)
{
	const Worker *k = t->cta->worker;
	uint32_t n = k->nctas * k->nwarps, *accesses = row + COMPONENT_WARPS;

	t->earliest = accesses[t->warp - k->warps] + 1;
	return join(accesses + fenced * n, accesses + COMPONENT_ACCESSES * n, n);
}

void tilecpu_fence_async(TileCpuThread *t)
{
	Thread *self = thread_of(t);
	const Worker *k = self->cta->worker;

	if (k->races && clock_fence(self, clock_row(k, self->warp->clock), COMPONENT_FENCED))
		self->warp->clock_version++;
}

/* ---- barriers ---- */

static void open_point(Worker *k, SyncPoint *p)
{
	if (p->done)
		return;
	p->coming = clock_new(k);
	p->done = clock_new(k);
}

void sync_release_and_stay(Thread *t, SyncPoint *p)
{
	Warp *w = t->warp;
	Worker *k = t->cta->worker;

	if (!k->races)
		return;
	clock_catch_up(t);
	/* lanes release one after another: mostly there is nothing new */
	if (p->last_from == w && p->last_version == w->clock_version)
		return;
	p->last_from = w;
	p->last_version = w->clock_version;
	open_point(k, p);
	join(clock_row(k, p->coming), clock_row(k, w->clock), k->clocks.ncomponents);
}

void sync_release(Thread *t, SyncPoint *p)
{
	sync_release_and_stay(t, p);
	t->warp->clock_shown = true;
}

void sync_release_phases(Thread *t, SyncPoint *p)
{
	Worker *k = t->cta->worker;
	uint32_t fixed = COMPONENT_WARPS + COMPONENT_KINDS * k->nctas * k->nwarps;

	if (!k->races)
		return;
	open_point(k, p);
	join(clock_row(k, p->coming) + fixed, clock_row(k, t->warp->clock) + fixed, k->clocks.ncomponents - fixed);
}

void sync_complete(Worker *k, SyncPoint *p, uint32_t component, uint32_t time)
{
	if (!k->races)
		return;
	open_point(k, p);
	if (component)
		clock_row(k, p->coming)[component] = time;
	memcpy(clock_row(k, p->done), clock_row(k, p->coming), k->clocks.ncomponents * sizeof(uint32_t));
	p->version++;
}

void sync_acquire(Thread *t, const SyncPoint *p)
{
	Warp *w = t->warp;
	Worker *k = t->cta->worker;

	if (!k->races || !p->done || (w->acquired == p && w->acquired_version == p->version))
		return;
	w->acquired = p;
	w->acquired_version = p->version;
	w->clock_shown = true; /* what comes behind the barrier is not what was released there */
	if (join(clock_row(k, w->clock), clock_row(k, p->done), k->clocks.ncomponents))
		w->clock_version++;
	if (clock_row(k, p->done)[clock_component(w, COMPONENT_ACCESSES)] >= w->met_time) /* what other lanes did comes back to this one */
		clock_meet(w);
}
