/* race.c - a happens-before check of shared memory: two accesses, one of them a write, that no barrier orders are a race.
 *
 * Each 16 bytes remember the accesses that a later one could still race with: who and when (a component of clocks and a time), which
 * bytes, and the line.  An access is ordered after another when its clock has the other's component at that time.  What overwrites
 * or repeats an ordered access takes its place, for whoever races with the earlier one races with the later one too.
 */
#include "runtime/cpu/cta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum Mode { MODE_READ, MODE_WRITE, MODE_ATOMIC } Mode;
typedef enum Source { BY_THREADS, BY_PRODUCT, BY_STORE, BY_LOAD, BY_COPY } Source;

enum { ALL = 0xffff, LINE_MASK = 0x7ffffff, NEVER = 0, FEW = sizeof ((Granule *)0)->own / sizeof(Access) };

typedef struct Event {
	Thread *t;
	const Cta *cta;        /* whose shared memory */
	const char *what;
	const uint32_t *clock; /* what has happened before */
	uint32_t component, time, line;
	Mode mode;
	Source source;
	bool finishes;         /* a cp.async, its own earlier write */
} Event;

static Access *entries(const Granule *g)
{
	return g->size ? g->more : (Access *)g->own;
}

/* ---- reports ---- */

static const Thread *thread_of_component(const Worker *k, uint32_t component)
{
	return k->warps[(component - COMPONENT_WARPS) % (k->nctas * k->nwarps)].threads;
}

static const Mbarrier *barrier_of_component(const Cta *c, uint32_t component)
{
	const Worker *k = c->worker;

	for (uint32_t i = 0; i < k->nctas; i++)
		for (uint32_t b = 0; b < k->ctas[i].nmbarriers; b++)
			if (k->ctas[i].mbarriers[b].component == component)
				return &k->ctas[i].mbarriers[b];
	return NULL;
}

/* The earlier access: what it was, where, whose, and how long it lasts. */
static void describe(const Cta *c, const Access *x, char *text, size_t size)
{
	static const char *const generic[] = { "the read", "the write", "the atomic" };
	LineText at = line_text(c->worker, x->line);
	char who[96];
	const Mbarrier *b;

	if (x->source == BY_LOAD) {
		b = barrier_of_component(c, x->component);
		snprintf(text, size, "the load of %s, which writes until phase %u of mbarrier %s is waited for", at.text, x->time - 1,
			b ? mbarrier_name(b, who, sizeof who) : "?");
		return;
	}
	if (x->source == BY_COPY) {
		snprintf(text, size, "the cp_async of %s, which writes until it is waited for", at.text);
		return;
	}
	report_who(thread_of_component(c->worker, x->component), who, sizeof who);
	if (x->source == BY_PRODUCT)
		snprintf(text, size, "the wgmma of %s (%s and its warpgroup), which reads until wgmma_wait", at.text, who);
	else if (x->source == BY_STORE)
		snprintf(text, size, "the store of %s (%s), which reads until store_wait_read", at.text, who);
	else
		snprintf(text, size, "%s of %s (%s)", generic[x->mode], at.text, who);
}

static _Noreturn void report_race(const Event *e, const Access *x, uint32_t granule)
{
	char other[256];

	describe(e->cta, x, other, sizeof other);
	report_fail(e->t, e->line, "race on shared memory +%u: nothing orders this %s after %s",
		granule * GRANULE + (uint32_t)__builtin_ctz(x->mask), e->what, other);
}

static _Noreturn void report_unfenced(const Event *e, const Access *x, uint32_t granule)
{
	const Worker *k = e->cta->worker;
	char who[96];

	report_fail(e->t, e->line, "%s at %s reads shared memory +%u written at %s (%s) without a fence.proxy.async in between", e->what,
		line_text(k, e->line).text, granule * GRANULE, line_text(k, x->line).text, report_who(thread_of_component(k, x->component), who, sizeof who));
}

/* ---- the check ---- */

/* A wgmma-group is the warpgroup's: when one of its warps has waited for it, it is done. */
static bool ordered(const Access *x, const Event *e)
{
	const uint32_t *at = e->clock + x->component;

	if (x->source != BY_PRODUCT)
		return at[0] >= x->time || (e->finishes && x->source == BY_COPY);
	return at[0] >= x->time || at[1] >= x->time || at[2] >= x->time || at[3] >= x->time;
}

static void check(const Event *e, const Access *x, uint32_t granule)
{
	const Worker *k = e->cta->worker;

	if (!ordered(x, e))
		report_race(e, x, granule);
	if (e->mode == MODE_READ && e->source != BY_THREADS && x->source == BY_THREADS
		&& e->clock[x->component + k->nctas * k->nwarps * COMPONENT_FENCED] < x->time)
		report_unfenced(e, x, granule);
}

static bool conflict(Mode a, Mode b)
{
	return a != b || a == MODE_WRITE;
}

static bool same_event(const Access *x, const Event *e)
{
	return x->component == e->component && x->time == e->time && x->mode == e->mode && x->source == e->source;
}

static void append(Granule *g, const Event *e, uint32_t mask)
{
	if (g->n == (g->size ? g->size : FEW)) {
		uint16_t size = (uint16_t)(4 * g->n);
		Access *more = malloc(size * sizeof *more);

		if (!more)
			abort();
		memcpy(more, entries(g), g->n * sizeof *more);
		if (g->size)
			free(g->more);
		g->more = more;
		g->size = size;
	}
	entries(g)[g->n++] = (Access){ .time = e->time, .line = e->line & LINE_MASK, .mode = e->mode, .source = e->source,
		.component = (uint16_t)e->component, .mask = (uint16_t)mask };
}

/* Whether what is left of x in these bytes is told by e as well. */
static bool replaces(const Event *e, const Access *x, bool crowded)
{
	if (e->mode == MODE_WRITE)
		return true;
	if (x->mode != e->mode || x->source == BY_COPY)
		return false;
	return (x->component == e->component && x->source == e->source) || (crowded && ordered(x, e));
}

static void touch(const Event *e, uint32_t granule, uint32_t mask)
{
	Granule *g = &e->cta->granules[granule];
	Access *a = entries(g);
	uint32_t kept = 0;
	bool merged = false, crowded;

	if (g->run != e->cta->worker->run) {
		g->run = e->cta->worker->run;
		g->n = 0;
	}
	if (g->n && same_event(&a[g->n - 1], e) && (a[g->n - 1].mask & mask) == mask)
		return;
	crowded = g->n >= FEW;
	for (uint32_t i = 0; i < g->n; i++) {
		Access x = a[i];

		if (x.mask & mask && conflict((Mode)x.mode, e->mode))
			check(e, &x, granule);
		if (!merged && same_event(&x, e) && x.line == (e->line & LINE_MASK)) {
			x.mask |= (uint16_t)mask;
			merged = true;
		} else if (x.mask & mask && replaces(e, &x, crowded)) {
			x.mask &= (uint16_t)~mask;
		}
		if (x.mask)
			a[kept++] = x;
	}
	g->n = (uint16_t)kept;
	if (!merged)
		append(g, e, mask);
}

static void touch_range(const Event *e, uint32_t offset, uint32_t bytes)
{
	uint32_t first = offset / GRANULE, last = (offset + bytes - 1) / GRANULE;

	for (uint32_t i = first; i <= last; i++) {
		uint32_t mask = ALL;

		if (i == first)
			mask &= ALL << offset % GRANULE;
		if (i == last)
			mask &= ALL >> (GRANULE - 1 - (offset + bytes - 1) % GRANULE);
		__builtin_prefetch(&e->cta->granules[i + 1]);
		touch(e, i, mask & ALL);
	}
}

/* ---- accesses of threads ---- */

static void threads_touch(Thread *t, const char *what, Mode mode, bool finishes, uint32_t offset, uint32_t bytes, uint32_t line)
{
	const Worker *k = t->cta->worker;
	Event e = { .t = t, .cta = t->cta, .what = what, .line = line, .mode = mode, .source = BY_THREADS, .finishes = finishes };

	if (!k->races || !bytes)
		return;
	e.time = clock_now(t->warp);
	e.component = clock_component(t->warp, COMPONENT_ACCESSES);
	e.clock = clock_row(k, t->warp->clock);
	touch_range(&e, offset, bytes);
}

void race_read(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line)
{
	threads_touch(t, what, MODE_READ, false, offset, bytes, line);
}

void race_write(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line)
{
	threads_touch(t, what, MODE_WRITE, false, offset, bytes, line);
}

/* No bytes where a mask is off: then the place means nothing. */
static void access_shared(Thread *t, const char *bounds, const char *race, Mode mode, uint32_t offset, uint32_t bytes, uint32_t line)
{
	if (!bytes)
		return;
	check_shared(t, bounds, offset, bytes, 1, line);
	threads_touch(t, race, mode, false, offset, bytes, line);
}

void tilecpu_shared_read(TileCpuThread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	access_shared(thread_of(t), "load", "read", MODE_READ, offset, bytes, line);
}

void tilecpu_shared_written(TileCpuThread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	access_shared(thread_of(t), "store", "write", MODE_WRITE, offset, bytes, line);
}

void tilecpu_shared_atomic(TileCpuThread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	access_shared(thread_of(t), "atomic", "atomic", MODE_ATOMIC, offset, bytes, line);
}

/* ---- asynchronous ones ---- */

void race_load(Thread *t, const Cta *c, const Mbarrier *b, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Event e = { .t = t, .cta = c, .what = "load", .line = line, .mode = MODE_WRITE, .source = BY_LOAD, .component = b->component,
		.time = b->phase + 1 };

	if (!c->worker->races)
		return;
	e.clock = clock_row(c->worker, t->warp->clock);
	touch_range(&e, offset, bytes);
}

void race_store(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Event e = { .t = t, .cta = t->cta, .what = what, .line = line, .mode = MODE_READ, .source = BY_STORE, .time = t->store_groups + 1 };

	if (!t->cta->worker->races || !bytes)
		return;
	e.component = clock_component(t->warp, COMPONENT_STORES);
	e.clock = clock_row(t->cta->worker, t->warp->clock);
	touch_range(&e, offset, bytes);
}

void race_copy(Thread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Event e = { .t = t, .cta = t->cta, .what = "cp_async", .line = line, .mode = MODE_WRITE, .source = BY_COPY, .component = NEVER, .time = 1 };

	if (!t->cta->worker->races)
		return;
	e.clock = clock_row(t->cta->worker, t->warp->clock);
	touch_range(&e, offset, bytes);
}

void race_copy_done(Thread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	threads_touch(t, "cp_async", MODE_WRITE, true, offset, bytes, line);
}

void race_product(Thread *t, const uint32_t *clock, uint32_t number, const uint32_t *lines, uint32_t n, uint32_t line)
{
	const Warp *first = &t->cta->warps[t->warp->index / (WARPGROUP / WARP) * (WARPGROUP / WARP)];
	Event e = { .t = t, .cta = t->cta, .what = "wgmma", .line = line, .mode = MODE_READ, .source = BY_PRODUCT, .time = number,
		.component = clock_component(first, COMPONENT_PRODUCTS), .clock = clock };

	for (uint32_t i = 0; i < n; i++)
		touch(&e, lines[i] / GRANULE, ALL);
}

/* ---- storage ---- */

bool races_open(Cta *c, uint32_t smem)
{
	enum { CACHE_LINE = 64 };
	char *memory = calloc(1, smem / GRANULE * sizeof *c->granules + CACHE_LINE);

	c->granule_memory = memory; /* zeros that nobody has touched cost nothing: hence no aligned_alloc */
	c->granules = memory ? (Granule *)(void *)(memory + (CACHE_LINE - (uintptr_t)memory % CACHE_LINE)) : NULL;
	c->ngranules = smem / GRANULE;
	return memory != NULL;
}

void races_close(Cta *c)
{
	for (uint32_t i = 0; c->granules && i < c->ngranules; i++)
		if (c->granules[i].size)
			free(c->granules[i].more);
	free(c->granule_memory);
}
