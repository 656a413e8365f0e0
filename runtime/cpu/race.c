/* race.c - a happens-before check of shared memory: two accesses, one of them a write, that no barrier orders are a race.
 *
 * Each 16 bytes remember the accesses that a later one could still race with: who and when (a component of clocks and a time), which
 * bytes, and the line.  An access is ordered after another when its clock has the other's component at that time.  What overwrites
 * or repeats an ordered access takes its place, for whoever races with the earlier one races with the later one too.
 */
#include "runtime/cpu/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEVER = 0, FEW = sizeof ((Granule *)0)->few / sizeof(Access) };

/* ---- reports ---- */

const char *race_place(const Event *e, uint32_t granule, uint32_t mask, char *text, size_t size)
{
	uint32_t byte = granule * GRANULE + (uint32_t)__builtin_ctz(mask);

	if (e->global)
		place_in_tensor(e->cta->worker, e->global->tensor, e->global->from_base + byte, text, size);
	else
		place_in_shared(e->cta->worker, byte, text, size);
	return text;
}

const char *race_verb(const Event *e)
{
	static const char *const verbs[] = { "reads", "writes over", "adds to" };

	return verbs[mode_of(&e->x)];
}

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

static bool is_of_warp(const Event *e, const Access *x)
{
	return thread_of_component(e->cta->worker, x->component)->warp == e->t->warp;
}

/* Whether e comes after the issue of what began as x: then it lacks the wait, else an order of the two. */
static bool follows_issue(const Event *e, const Access *x)
{
	const Warp *w = thread_of_component(e->cta->worker, x->component)->warp;
	uint32_t issued = w->stores_issued[x->time % STORES_KNOWN];

	if (source_of(x) != BY_STORE)
		return true;
	if (is_of_warp(e, x)) /* by this lane, or before the lanes met */
		return e->t->store_groups >= x->time || issued < w->met_time;
	return e->clock[clock_component(w, COMPONENT_ACCESSES)] >= issued;
}

void race_describe(const Event *e, const Access *x, bool lasts, char *text, size_t size)
{
	static const char *const generic[] = { "the read", "the write", "the atomic" };
	const Cta *c = e->cta;
	LineText at = line_text(c->worker, line_of(x));
	char who[96];
	const Mbarrier *b;

	if (source_of(x) == BY_LOAD) {
		b = barrier_of_component(c, x->component);
		snprintf(text, size, "the load of %s, which %s until phase %u of mbarrier %s is waited for", at.text, mode_of(x) == MODE_READ ? "reads" : "writes",
			x->time - 1, b ? mbarrier_name(b, who, sizeof who) : "?");
		return;
	}
	if (source_of(x) == BY_COPY) {
		snprintf(text, size, "the cp_async of %s, which %s until it is waited for", at.text, mode_of(x) == MODE_READ ? "reads" : "writes");
		return;
	}
	report_who(thread_of_component(c->worker, x->component), who, sizeof who);
	if (source_of(x) == BY_PRODUCT)
		snprintf(text, size, "the wgmma of %s (%s and its warpgroup), which reads until wgmma_wait", at.text, who);
	else if (source_of(x) == BY_STORE)
		snprintf(text, size, "the store of %s (%s)%s", at.text, who,
			!lasts ? "" : mode_of(x) == MODE_READ ? ", which reads until store_wait_read" : ", which writes until store_wait");
	else
		snprintf(text, size, "%s of %s (%s)", generic[mode_of(x)], at.text, who);
}

static _Noreturn void report_race(const Event *e, const Access *x, uint32_t granule)
{
	bool follows = follows_issue(e, x);
	const char *lane = !follows && is_of_warp(e, x) ? " of another lane of the warp: a sync is missing" : "";
	char other[256], place[PLACE_SIZE];

	race_describe(e, x, follows, other, sizeof other);
	report_fail(e->t, line_of(&e->x), "race on %s: nothing orders this %s and %s%s", race_place(e, granule, x->mask, place, sizeof place), e->what, other, lane);
}

static _Noreturn void report_unfenced(const Event *e, const Access *x, uint32_t granule)
{
	const Worker *k = e->cta->worker;
	char who[96], place[PLACE_SIZE];

	report_who(thread_of_component(k, x->component), who, sizeof who);
	report_fail(e->t, line_of(&e->x), "%s at %s %s %s written at %s (%s) without a fence.proxy.async in between%s", e->what,
		line_text(k, line_of(&e->x)).text, race_verb(e), race_place(e, granule, ALL, place, sizeof place), line_text(k, line_of(x)).text, who,
		e->global ? GLOBAL_FENCE : "");
}

/* The last read or other access of its own warp there, in bytes of mask. */
static const Access *own_access(const Event *e, Granule *g, uint32_t mask, bool written)
{
	uint32_t accesses = clock_component(e->t->warp, COMPONENT_ACCESSES), stores = clock_component(e->t->warp, COMPONENT_STORES);
	const Access *found = NULL;

	for (uint32_t i = 0; i <= g->n; i++) {
		const Access *x = i < g->n ? &earlier(g)[i] : &g->last;

		if ((x->component == accesses || x->component == stores) && x->mask & mask && (mode_of(x) != MODE_READ) == written)
			found = x;
	}
	return found;
}

static _Noreturn void report_lanes(const Event *e, uint32_t granule, uint32_t mask, bool written)
{
	const Access *x = own_access(e, &e->granules[granule], mask, written);
	char other[256] = "an access", place[PLACE_SIZE];

	if (x)
		race_describe(e, x, true, other, sizeof other);
	report_fail(e->t, line_of(&e->x), "race on %s: nothing orders this %s and %s of another lane of the warp: a sync is missing",
		race_place(e, granule, mask, place, sizeof place), e->what, other);
}

/* ---- between the lanes of a warp ----
 *
 * What one lane has written another reads or writes only behind a meeting that orders memory.  What one has read another may write behind
 * any meeting: the read was on its way before, and shared memory serves a warp in order. */

/* What was marked before the last meetings is forgotten. */
static inline void forget(LaneMarks *m, const Event *e)
{
	if (m->came == e->came)
		return;
	m->came = e->came;
	m->read = 0;
	if (m->met != e->met) {
		m->met = e->met;
		m->written = 0;
	}
	m->several &= m->written;
}

/* Bytes of mask where the last was another lane, or several were. */
static inline uint32_t others(const LaneMarks *m, const Event *e, uint32_t mask)
{
	uint64_t differ = m->low ^ e->low;

	differ |= differ >> 32;
	differ |= differ >> 16;
	return ((uint32_t)differ | (uint32_t)(m->high ^ e->high) | m->several | e->several) & mask;
}

/* seen: bytes of mask that others had come to. */
static inline void mark(LaneMarks *m, const Event *e, uint32_t mask, uint32_t seen)
{
	uint64_t everywhere = mask * 0x0001000100010001u;

	m->several |= (uint16_t)(seen | (e->several & mask));
	m->low ^= (m->low ^ e->low) & everywhere;
	m->high ^= (uint16_t)((m->high ^ e->high) & mask);
	*(mode_of(&e->x) == MODE_READ ? &m->read : &m->written) |= (uint16_t)mask;
}

/* Lanes that have copies of an element write it at the same place; atomics are for several. */
static bool harmless(const Event *e, Granule *g, uint32_t mask)
{
	const Access *x = mode_of(&e->x) == MODE_READ ? NULL : own_access(e, g, mask, true);

	return x && (x->what == e->x.what || (mode_of(x) == MODE_ATOMIC && mode_of(&e->x) == MODE_ATOMIC));
}

static void report_if_harmful(const Event *e, uint32_t granule, uint32_t mask, bool written)
{
	if (!written || !harmless(e, &e->granules[granule], mask))
		report_lanes(e, granule, mask, written);
}

/* Bytes of `marked` that others had come to; a function of its own, so that bytes that are new cost no saved registers. */
static __attribute__((noinline)) uint32_t look_at_marks(const Event *e, Granule *g, uint32_t granule, uint32_t marked)
{
	const LaneMarks *m = &g->lanes;
	uint32_t seen = others(m, e, marked), wrong = mode_of(&e->x) == MODE_READ ? seen & m->written : seen;

	if (wrong)
		report_if_harmful(e, granule, wrong & m->written ? wrong & m->written : wrong, wrong & m->written);
	return seen;
}

static inline void touch_lanes(const Event *e, Granule *g, uint32_t granule, uint32_t mask)
{
	LaneMarks *m = &g->lanes;
	uint32_t marked, seen = 0;

	forget(m, e);
	marked = mask & (m->written | m->read);
	if (marked)
		seen = look_at_marks(e, g, granule, marked);
	if (e->lanes == LANES_MARK)
		mark(m, e, mask, seen);
}

/* ---- the check ---- */

/* A wgmma-group is the warpgroup's: when one of its warps has waited for it, it is done. */
static bool ordered(const Access *x, const Event *e)
{
	const uint32_t *at = e->clock + x->component;
	Source source = source_of(x);

	if (at[0] >= x->time)
		return true;
	if (source == BY_PRODUCT)
		return at[1] >= x->time || at[2] >= x->time || at[3] >= x->time;
	return e->finishes && source == BY_COPY;
}

/* Whether it goes through the async proxy to what a thread has written without a fence. */
static bool unfenced(const Access *x, const Event *e)
{
	const Worker *k = e->cta->worker;
	ComponentKind fenced = e->global ? COMPONENT_FENCED_GLOBAL : COMPONENT_FENCED;

	return crosses_proxies(x, &e->x) && e->clock[x->component + k->nctas * k->nwarps * fenced] < x->time;
}

/* Whether both may touch the same bytes as it is. */
static inline bool passes(const Access *x, const Event *e)
{
	if (mode_of(x) == mode_of(&e->x) && mode_of(x) != MODE_WRITE)
		return true;
	return ordered(x, e) && !unfenced(x, e);
}

static _Noreturn void report(const Event *e, const Access *x, uint32_t granule, uint32_t mask)
{
	Access common = *x;

	common.mask &= (uint16_t)mask;
	if (!ordered(x, e))
		report_race(e, &common, granule);
	report_unfenced(e, &common, granule);
}

static inline bool same_kind(const Access *x, const Access *y)
{
	return x->component == y->component && (x->what ^ y->what) >> MODE_SHIFT == 0;
}

/* Whether what is left of x in bytes of e is told by e as well. */
static inline bool replaces(const Event *e, const Access *x)
{
	return mode_of(&e->x) == MODE_WRITE || same_kind(x, &e->x);
}

/* Bytes of x that are remembered beside `mask` of e, which takes in x where it is the same. */
static inline uint32_t left_of(const Access *x, const Event *e, uint32_t mask, bool crowded, Access *own)
{
	if (same_kind(x, &e->x) && x->time == e->x.time && x->what == e->x.what) {
		own->mask |= x->mask;
		return 0;
	}
	if (x->mask & mask && (replaces(e, x) || (crowded && mode_of(x) == mode_of(&e->x) && ordered(x, e))))
		return x->mask & ~mask;
	return x->mask;
}

static void remember(Worker *k, Granule *g, const Access *x)
{
	uint32_t size = g->more ? g->more->size : FEW;

	if (g->n == size) {
		AccessList *more = malloc(sizeof *more + 4 * size * sizeof *more->a);

		if (!more)
			report_memory(k);
		memcpy(more->a, earlier(g), g->n * sizeof *more->a);
		more->size = 4 * size;
		free(g->more);
		g->more = more;
	}
	earlier(g)[g->n++] = *x;
}

static void touch_first(const Event *e, Granule *g, uint32_t mask)
{
	g->run = e->run;
	g->n = 0;
	g->last = e->x;
	g->last.mask = (uint16_t)mask;
	g->clear = source_of(&e->x) == BY_THREADS && !e->finishes ? ALL : 0;
}

static void touch_anew(const Event *e, uint32_t granule, uint32_t mask)
{
	Granule *g = &e->granules[granule];
	Access *a = earlier(g), own = e->x, x;
	uint32_t kept = 0, clear = ALL;
	bool crowded = g->n >= FEW;

	own.mask = (uint16_t)mask;
	for (uint32_t i = 0; i <= g->n; i++) {
		x = i < g->n ? a[i] : g->last;
		if (!passes(&x, e)) {
			if (x.mask & mask)
				report(e, &x, granule, mask);
			clear &= ~(uint32_t)x.mask;
		}
		x.mask = (uint16_t)left_of(&x, e, mask, crowded, &own);
		if (x.mask && i < g->n)
			a[kept++] = x;
	}
	g->n = (uint16_t)kept;
	if (x.mask)
		remember(e->cta->worker, g, &x);
	/* that of others may be made with another clock, though they are the same event */
	g->clear = source_of(&e->x) == BY_THREADS && !e->finishes ? (uint16_t)clear : 0;
	g->last = own;
}

/* The last access goes on to bytes that are known to be clear. */
static void take_in(const Event *e, Granule *g, uint32_t mask)
{
	Access *a = earlier(g);

	g->last.mask |= (uint16_t)mask;
	for (uint32_t i = 0; i < g->n; i++)
		if (a[i].mask & mask && replaces(e, &a[i]))
			a[i].mask &= (uint16_t)~mask;
}

/* Several that end with the same phase or wait have one time, but one of them comes to a byte once. */
static inline bool lands_later(const Access *x)
{
	return mode_of(x) == MODE_WRITE && (source_of(x) == BY_LOAD || source_of(x) == BY_COPY);
}

static inline void touch(const Event *e, uint32_t granule, uint32_t mask)
{
	Granule *g = &e->granules[granule];

	if (e->lanes != LANES_NOT)
		touch_lanes(e, g, granule, mask);
	if (g->run != e->run) {
		touch_first(e, g, mask);
		return;
	}
	if (g->last.time == e->x.time && same_kind(&g->last, &e->x)) {
		if (!(mask & ~(uint32_t)g->last.mask) && !lands_later(&e->x))
			return;
		if (!(mask & ~(uint32_t)g->clear) && g->last.what == e->x.what) {
			take_in(e, g, mask);
			return;
		}
	}
	touch_anew(e, granule, mask);
}

static void touch_many(const Event *e, uint32_t offset, uint32_t bytes)
{
	for (uint32_t i = offset / GRANULE; i <= (offset + bytes - 1) / GRANULE; i++)
		touch(e, i, mask_of(offset, bytes, i));
}

static inline void touch_range(const Event *e, uint32_t offset, uint32_t bytes)
{
	if (offset % GRANULE + bytes <= GRANULE)
		touch(e, offset / GRANULE, ((1u << bytes) - 1) << offset % GRANULE);
	else
		touch_many(e, offset, bytes);
}

void race_touch(const Event *e, uint32_t granule, uint32_t mask)
{
	touch(e, granule, mask);
}

/* ---- accesses of threads ---- */

static void of_thread(Event *e, Thread *t, const char *what, Mode mode, uint32_t line)
{
	uint32_t now = clock_now(t); /* may end what its row is */

	event(e, t, t->cta, what, mode, BY_THREADS, line);
	happens(e, clock_component(t->warp, COMPONENT_ACCESSES), now);
	of_lane(e, t, LANES_MARK);
}

static void whole_warp(Thread *t, const char *what, Mode mode, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Event e;

	if (!t->cta->worker->races)
		return;
	of_thread(&e, t, what, mode, line);
	e.several = ALL;
	touch_range(&e, offset, bytes);
}

void race_read(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line)
{
	whole_warp(t, what, MODE_READ, offset, bytes, line);
}

void race_write(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line)
{
	whole_warp(t, what, MODE_WRITE, offset, bytes, line);
}

/* At base + each of at[n]. */
static void access_shared(Thread *t, Mode mode, uint32_t base, const uint32_t *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	static const char *const bounds[] = { "load", "store", "atomic" }, *const race[] = { "read", "write", "atomic" };
	Event e;

	if (!bytes || !n) /* where a mask is off the place means nothing */
		return;
	for (uint32_t i = 0; i < n; i++)
		if (!in_shared(t, base + at[i], bytes))
			check_shared(t, bounds[mode], base + at[i], bytes, 1, line);
	if (!t->cta->worker->races)
		return;
	of_thread(&e, t, race[mode], mode, line);
	for (uint32_t i = 0; i < n; i++)
		touch_range(&e, base + at[i], bytes);
}

void tilecpu_shared_reads(TileCpuThread *t, uint32_t base, const uint32_t *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	access_shared(thread_of(t), MODE_READ, base, at, n, bytes, line);
}

void tilecpu_shared_writes(TileCpuThread *t, uint32_t base, const uint32_t *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	access_shared(thread_of(t), MODE_WRITE, base, at, n, bytes, line);
}

void tilecpu_shared_atomics(TileCpuThread *t, uint32_t base, const uint32_t *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	schedule_before_atomic(thread_of(t), bytes && n == 1 ? (uintptr_t)t->smem + base + at[0] : 0, false);
	access_shared(thread_of(t), MODE_ATOMIC, base, at, n, bytes, line);
}

/* ---- asynchronous ones ---- */

void race_load(Thread *t, const Cta *c, const Mbarrier *b, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Event e;

	if (!c->worker->races)
		return;
	event(&e, t, c, "load", MODE_WRITE, BY_LOAD, line);
	happens(&e, b->component, b->phase + 1);
	of_lane(&e, t, LANES_CHECK);
	touch_range(&e, offset, bytes);
}

void race_store_issued(Thread *t)
{
	t->warp->stores_issued[(t->store_groups + 1) % STORES_KNOWN] = clock_now(t);
}

void race_store(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Event e;

	if (!t->cta->worker->races || !bytes)
		return;
	race_store_issued(t);
	event(&e, t, t->cta, what, MODE_READ, BY_STORE, line);
	happens(&e, clock_component(t->warp, COMPONENT_STORES), t->store_groups + 1);
	of_lane(&e, t, LANES_CHECK);
	touch_range(&e, offset, bytes);
}

void race_store_done(Thread *t, uint32_t offset, uint32_t bytes)
{
	Event e;

	if (!t->cta->worker->races || !bytes)
		return;
	of_thread(&e, t, "store", MODE_READ, 0);
	for (uint32_t i = offset / GRANULE; i <= (offset + bytes - 1) / GRANULE; i++)
		touch_lanes(&e, &e.granules[i], i, mask_of(offset, bytes, i));
}

void race_copy(Thread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Event e;

	if (!t->cta->worker->races)
		return;
	event(&e, t, t->cta, "cp_async", MODE_WRITE, BY_COPY, line);
	happens(&e, NEVER, 1);
	of_lane(&e, t, LANES_CHECK);
	touch_range(&e, offset, bytes);
}

void race_copy_done(Thread *t, uint32_t offset, uint32_t bytes, uint32_t line)
{
	Event e;

	if (!t->cta->worker->races)
		return;
	of_thread(&e, t, "cp_async", MODE_WRITE, line);
	e.finishes = true;
	touch_range(&e, offset, bytes);
}

void race_product(Thread *t, const uint32_t *clock, uint32_t number, const uint32_t *lines, uint32_t n, uint32_t line)
{
	const Warp *first = &t->cta->warps[t->warp->index / (WARPGROUP / WARP) * (WARPGROUP / WARP)];
	Event e;

	event(&e, t, t->cta, "wgmma", MODE_READ, BY_PRODUCT, line);

	happens(&e, clock_component(first, COMPONENT_PRODUCTS), number);
	e.clock = clock;
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
		free(c->granules[i].more);
	free(c->granule_memory);
}
