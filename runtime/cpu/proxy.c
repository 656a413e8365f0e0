/* proxy.c - follows generic stores through synchronisation to see which lie before a fence.proxy.async. */
#include "runtime/cpu/cta.h"

static uint32_t later(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static bool clock_join(Clock *to, const Clock *from, uint32_t nwarps)
{
	uint32_t change = 0;

	for (uint32_t i = 0; i < nwarps; i++) {
		uint32_t seen = later(to->seen[i], from->seen[i]), fenced = later(to->fenced[i], from->fenced[i]);

		change |= (seen ^ to->seen[i]) | (fenced ^ to->fenced[i]);
		to->seen[i] = seen;
		to->fenced[i] = fenced;
	}
	return change != 0;
}

void sync_release(const Thread *t, SyncPoint *p)
{
	Warp *w = t->warp;

	w->clock_shown = true;
	/* lanes release one after another: mostly there is nothing new */
	if (p->last_from == w && p->last_version == w->clock_version)
		return;
	p->last_from = w;
	p->last_version = w->clock_version;
	if (clock_join(&p->clock, &w->clock, t->cta->worker->nwarps))
		p->version++;
}

void sync_acquire(const Thread *t, const SyncPoint *p)
{
	if (clock_join(&t->warp->clock, &p->clock, t->cta->worker->nwarps))
		t->warp->clock_version++;
}

static uint32_t store_time(Warp *w)
{
	if (w->clock_shown) {
		w->clock_shown = false;
		w->clock.seen[w->index]++;
		w->clock_version++;
	}
	return w->clock.seen[w->index];
}

void proxy_written(Thread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Written x = { .time = store_time(t->warp), .line = line & 0xffffff, .warp = (uint8_t)t->warp->index };
	Written *g = t->cta->written;

	t->cta->last_written[x.warp] = x.time;
	for (uint32_t i = offset / GRANULE; i <= (offset + bytes - 1) / GRANULE; i++)
		g[i] = x;
}

void proxy_overwritten(Cta *c, uint32_t offset, uint32_t bytes)
{
	for (uint32_t i = offset / GRANULE; i < (offset + bytes) / GRANULE; i++)
		c->written[i].time = 0;
}

void proxy_check(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line)
{
	const Cta *c = t->cta;
	const uint32_t *fenced = t->warp->clock.fenced;

	for (uint32_t i = offset / GRANULE; i < (offset + bytes) / GRANULE; i++) {
		const Written *w = &c->written[i];
		char who[80];

		if (w->time <= fenced[w->warp])
			continue;
		report_fail(t, line, "%s at line %u reads shared memory +%u written at line %u (%s) without a fence.proxy.async in between",
			what, line, i * GRANULE, (uint32_t)w->line, report_who(&c->threads[w->warp * WARP], who, sizeof who));
	}
}

void tilecpu_shared_written(TileCpuThread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Thread *self = thread_of(t);

	check_shared(self, "store", offset, bytes, 1, line);
	if (bytes)
		proxy_written(self, offset, bytes, line);
}

void tilecpu_fence_async(TileCpuThread *t)
{
	Warp *w = thread_of(t)->warp;

	for (uint32_t i = 0; i < thread_of(t)->cta->worker->nwarps; i++)
		w->clock.fenced[i] = later(w->clock.fenced[i], w->clock.seen[i]);
	w->clock_version++;
	w->clock_shown = true;
}
