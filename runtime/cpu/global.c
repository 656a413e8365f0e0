/* global.c - the happens-before check of tensors that a kernel writes, or reads beside atomics.
 *
 * 16 bytes remember accesses as those of shared memory do (race.c), but for all CTAs: those of the cluster that came last as a granule, those of
 * the others beside it.  What other clusters did is known by tokens: a fence.acq_rel.gpu takes a copy of its thread's clock, the atomics behind it
 * leave that at their element, and a fence behind an atomic of another CTA on that element acquires it.  For whoever has acquired it a token is one
 * more component of the clocks, which barriers pass on.
 */
#include "runtime/cpu/race.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, PAGE_GRANULES = PAGE / GRANULE, BUCKETS = 4096, MOST_READERS = 64 };

/* An access of another cluster than the last. */
typedef struct Foreign {
	uint32_t run;
	Access x;
} Foreign;

/* A token that somebody has acquired; fenced: before a fence.proxy.async of global memory. */
typedef struct Told {
	Token *token;
	bool fenced;
} Told;

/* The component of a token in the clocks of whoever has acquired it. */
enum { ACQUIRED = 1, FENCED = 2 };

/* What fences of one thread have passed on: the clock, and all that it knew of other clusters. */
struct Token {
	Token *next; /* of the launch */
	uint32_t run, thread, serial, n, nknown;
	uint32_t *row;
	Told *known;
};

/* An element that atomics change. */
typedef struct Flag {
	struct Flag *next;
	uintptr_t at;
	Told *tokens;
	uint32_t ntokens, size;
} Flag;

typedef struct GlobalGranule {
	Granule own; /* of cluster own.run */
	Foreign *others;
	uint32_t nothers, size;
	Flag *flags;
} GlobalGranule;

struct GlobalPage {
	GlobalPage *next;
	uintptr_t number;
	pthread_mutex_t lock;
	GlobalGranule granules[PAGE_GRANULES];
};

struct GlobalShadow {
	pthread_mutex_t lock; /* of the table and the tokens */
	GlobalPage *table[BUCKETS];
	Token *tokens;
};

/* ---- storage ---- */

GlobalShadow *global_open(void)
{
	GlobalShadow *g = calloc(1, sizeof *g);

	if (g)
		pthread_mutex_init(&g->lock, NULL);
	return g;
}

static void close_granule(GlobalGranule *g)
{
	for (Flag *f = g->flags, *next; f; f = next) {
		next = f->next;
		free(f->tokens);
		free(f);
	}
	free(g->own.more);
	free(g->others);
}

static void close_page(GlobalPage *p)
{
	for (uint32_t i = 0; i < PAGE_GRANULES; i++)
		close_granule(&p->granules[i]);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void global_close(GlobalShadow *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (GlobalPage *p = g->table[i], *next; p; p = next) {
			next = p->next;
			close_page(p);
		}
	for (Token *t = g->tokens, *next; t; t = next) {
		next = t->next;
		free(t->row);
		free(t->known);
		free(t);
	}
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static GlobalPage *new_page(uintptr_t number, GlobalPage *next)
{
	GlobalPage *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->number = number;
	p->next = next;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

/* What a launch writes is remembered in six times its size and more. */
static GlobalPage *page_at(Thread *t, uintptr_t number, uint32_t line)
{
	Worker *k = t->cta->worker;
	GlobalPage **recent = &k->pages[number % GLOBAL_PAGES], **bucket = &k->global->table[number % BUCKETS], *p;

	if (*recent && (*recent)->number == number)
		return *recent;
	pthread_mutex_lock(&k->global->lock);
	for (p = *bucket; p && p->number != number; p = p->next)
		;
	if (!p && (p = new_page(number, *bucket)))
		*bucket = p;
	pthread_mutex_unlock(&k->global->lock);
	k->no_memory = !p;
	if (!p)
		report_fail(t, line, "out of memory for the race check of tensors, which remembers all that is written: without it there is --no-race-check");
	return *recent = p;
}

/* Until leave_page, or until the run is abandoned. */
static void enter_page(Worker *k, GlobalPage *p)
{
	pthread_mutex_lock(&p->lock);
	k->held = &p->lock;
}

static void leave_page(Worker *k)
{
	if (k->held)
		pthread_mutex_unlock(k->held);
	k->held = NULL;
}

/* ---- tokens ---- */

/* Whether it tells of x; fenced: as lying before a fence.proxy.async. */
static bool tells(const Worker *k, const Token *t, uint32_t run, const Access *x, bool fenced)
{
	uint32_t component = x->component + (fenced ? k->nctas * k->nwarps * COMPONENT_FENCED_GLOBAL : 0);

	return t->run == run && component < t->n && t->row[component] >= x->time;
}

static bool passes_on(const Worker *k, const Token *t, uint32_t run, const Access *x, bool fenced)
{
	bool told = tells(k, t, run, x, fenced);

	for (uint32_t i = 0; !told && i < t->nknown; i++)
		told = tells(k, t->known[i].token, run, x, fenced && !t->known[i].fenced);
	return told;
}

/* Of each thread the last will do: it tells what those before it told. */
static void add_told(Told *list, uint32_t *n, Told x)
{
	uint32_t i = 0;

	while (i < *n && (list[i].token->run != x.token->run || list[i].token->thread != x.token->thread || list[i].fenced != x.fenced))
		i++;
	if (i == *n)
		list[(*n)++] = x;
	else if (list[i].token->serial < x.token->serial)
		list[i] = x;
}

static void add_known(Worker *k, Token *t, const uint32_t *row)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < k->ntokens; i++)
		most += row[k->tokens[i].component] ? 1 + k->tokens[i].token->nknown : 0;
	t->known = zeros(k, most + 1, sizeof *t->known);
	for (uint32_t i = 0; i < k->ntokens; i++) {
		const KnownToken *x = &k->tokens[i];
		uint32_t how = row[x->component];

		for (uint32_t j = 0; how && j < x->token->nknown; j++)
			add_told(t->known, &t->nknown, (Told){ x->token->known[j].token, how == FENCED || x->token->known[j].fenced });
		if (how)
			add_told(t->known, &t->nknown, (Told){ x->token, how == FENCED });
	}
}

static uint32_t component_of(Worker *k, Token *t)
{
	for (uint32_t i = 0; i < k->ntokens; i++)
		if (k->tokens[i].token == t)
			return k->tokens[i].component;
	k->tokens = grow(k, k->tokens, k->ntokens, &k->tokens_size, sizeof *k->tokens);
	const KnownToken known = { t, clock_new_component(k) };
	k->tokens[k->ntokens++] = known;
	return known.component;
}

/* The row of what t knows, ahead of its warp. */
static uint32_t *row_ahead(Thread *t)
{
	Worker *k = t->cta->worker;
	Warp *w = t->warp;

	if (!t->ahead) {
		t->ahead = clock_new(k);
		w->ahead++;
	}
	for (uint32_t i = 0; i < k->clocks.ncomponents; i++) {
		uint32_t *mine = clock_row(k, t->ahead) + i, warps = clock_row(k, w->clock)[i];

		*mine = *mine > warps ? *mine : warps;
	}
	return clock_row(k, t->ahead);
}

/* The row of what it will know behind its next fence. */
static uint32_t *row_passed(Thread *t)
{
	Worker *k = t->cta->worker;

	if (!t->passed)
		t->passed = clock_new(k);
	return clock_row(k, t->passed);
}

static void learn(Thread *t, Token *token, uint32_t *(*row_of)(Thread *))
{
	Worker *k = t->cta->worker;
	uint32_t component = token->run == k->cluster_run ? 0 : component_of(k, token), *row = row_of(t);

	if (component && !row[component])
		row[component] = ACQUIRED;
	for (uint32_t i = 0; !component && i < token->n; i++)
		row[i] = row[i] > token->row[i] ? row[i] : token->row[i];
}

/* Of what t knows now; what its warp does from now on comes after it. */
static Token *new_token(Thread *t)
{
	Worker *k = t->cta->worker;
	Warp *w = t->warp;
	const uint32_t *row = t->ahead ? row_ahead(t) : clock_row(k, w->clock);
	Token *x = zeros(k, 1, sizeof *x);

	pthread_mutex_lock(&k->global->lock);
	x->next = k->global->tokens;
	k->global->tokens = x;
	pthread_mutex_unlock(&k->global->lock);
	x->run = k->cluster_run;
	x->thread = (uint32_t)(t - k->threads);
	x->serial = w->token ? w->token->serial + 1 : 1;
	x->n = k->clocks.ncomponents;
	x->row = zeros(k, x->n, sizeof *x->row);
	memcpy(x->row, row, x->n * sizeof *row);
	add_known(k, x, row);
	w->token = x;
	w->token_version = w->clock_version;
	w->clock_shown = true;
	return x;
}

static Flag *flag_at(GlobalGranule *g, uintptr_t at)
{
	Flag *f = g->flags;

	while (f && f->at != at)
		f = f->next;
	return f;
}

static void acquire(Thread *t, uintptr_t at, uint32_t *(*row_of)(Thread *))
{
	GlobalPage *p = page_at(t, at / PAGE, 0); /* it is there since the atomic */
	const Flag *f;

	enter_page(t->cta->worker, p);
	f = flag_at(&p->granules[at / GRANULE % PAGE_GRANULES], at);
	for (uint32_t i = 0; f && i < f->ntokens; i++)
		learn(t, f->tokens[i].token, row_of);
	leave_page(t->cta->worker);
}

static void leave_token(Thread *t, uintptr_t at)
{
	GlobalPage *p = page_at(t, at / PAGE, 0);
	GlobalGranule *g = &p->granules[at / GRANULE % PAGE_GRANULES];
	Worker *k = t->cta->worker;
	Flag *f;

	enter_page(k, p);
	f = flag_at(g, at);
	if (!f) {
		f = zeros(k, 1, sizeof *f);
		f->at = at;
		f->next = g->flags;
		g->flags = f;
	}
	f->tokens = grow(k, f->tokens, f->ntokens, &f->size, sizeof *f->tokens);
	add_told(f->tokens, &f->ntokens, (Told){ .token = t->released });
	leave_page(k);
}

/* What others pass on by an element is acquired by the fence behind the atomic, for by then it is certainly there. */
static void see(Thread *t, uintptr_t at)
{
	for (uint32_t i = 0; i < t->nseen && i < SEEN_FLAGS; i++)
		if (t->seen[i] == at)
			return;
	if (t->nseen >= SEEN_FLAGS) /* the oldest leaves: its atomic has been made, so that what it has seen is there */
		acquire(t, t->seen[t->nseen % SEEN_FLAGS], row_passed);
	t->seen[t->nseen++ % SEEN_FLAGS] = at;
}

static void acquire_passed(Thread *t)
{
	const Worker *k = t->cta->worker;
	uint32_t *row = row_ahead(t), *passed = clock_row(k, t->passed);

	for (uint32_t i = 0; i < k->clocks.ncomponents; i++) {
		row[i] = row[i] > passed[i] ? row[i] : passed[i];
		passed[i] = 0;
	}
}

void tilecpu_fence_device(TileCpuThread *t)
{
	Thread *self = thread_of(t);
	Warp *w = self->warp;

	atomic_thread_fence(memory_order_seq_cst);
	if (!self->cta->worker->races)
		return;
	for (uint32_t i = 0; i < self->nseen && i < SEEN_FLAGS; i++)
		acquire(self, self->seen[i], row_ahead);
	if (self->passed)
		acquire_passed(self);
	self->nseen = 0;
	self->released = !self->ahead && w->token && w->token_version == w->clock_version ? w->token : new_token(self);
}

/* What this thread has acquired of other clusters is behind the fence, too. */
void tilecpu_fence_async_global(TileCpuThread *t)
{
	Thread *self = thread_of(t);
	Worker *k = self->cta->worker;
	uint32_t *row;
	bool changed;

	if (!k->races)
		return;
	row = self->ahead ? row_ahead(self) : clock_row(k, self->warp->clock);
	changed = clock_fence(self, row, COMPONENT_FENCED_GLOBAL);
	for (uint32_t i = 0; i < k->ntokens; i++) {
		uint32_t *how = row + k->tokens[i].component;

		changed |= *how == ACQUIRED;
		*how = *how ? FENCED : 0;
	}
	if (changed && !self->ahead)
		self->warp->clock_version++;
}

/* ---- accesses ---- */

/* Whether x, of another cluster in its `run` or of this one before, comes before e; fenced: with a fence.proxy.async in between. */
static bool comes_before(const Event *e, uint32_t run, const Access *x, bool fenced)
{
	const Worker *k = e->cta->worker;

	if (run == e->run)
		return e->clock[x->component + (fenced ? k->nctas * k->nwarps * COMPONENT_FENCED_GLOBAL : 0)] >= x->time;
	for (uint32_t i = 0; i < k->ntokens; i++) {
		uint32_t how = e->clock[k->tokens[i].component];

		if (how && passes_on(k, k->tokens[i].token, run, x, fenced && how != FENCED))
			return true;
	}
	return false;
}

static bool both_may(const Access *x, const Access *y)
{
	return mode_of(x) == mode_of(y) && mode_of(x) != MODE_WRITE;
}

static _Noreturn void report_foreign(const Event *e, const Foreign *f, uint32_t mask)
{
	const Worker *k = e->cta->worker;
	char other[256], place[PLACE_SIZE];

	race_describe(e, &f->x, true, other, sizeof other);
	race_place(e, 0, f->x.mask & mask, place, sizeof place);
	report_fail(e->t, line_of(&e->x), "race on %s: nothing orders this %s and %s of %s %u", place, e->what, other, k->nctas > 1 ? "cluster" : "CTA", f->run - 1);
}

/* TMA comes to what threads have written. */
static _Noreturn void report_proxy(const Event *e, const Foreign *f)
{
	char other[256], place[PLACE_SIZE];

	race_describe(e, &f->x, true, other, sizeof other);
	race_place(e, 0, f->x.mask, place, sizeof place);
	report_fail(e->t, line_of(&e->x), "this %s %s %s behind %s without a fence.proxy.async in between%s", e->what, race_verb(e), place, other, GLOBAL_FENCE);
}

/* What other clusters have done, and what this one did before they came. */
static void touch_others(const Event *e, GlobalGranule *g, uint32_t mask)
{
	uint32_t kept = 0, readers = 0;

	for (uint32_t i = 0; i < g->nothers; i++) {
		Foreign *f = &g->others[i];
		bool before = f->x.mask & mask && comes_before(e, f->run, &f->x, false);

		if (f->x.mask & mask && !both_may(&f->x, &e->x) && !before)
			report_foreign(e, f, mask);
		if (f->x.mask & mask && !both_may(&f->x, &e->x) && crosses_proxies(&f->x, &e->x) && !comes_before(e, f->run, &f->x, true))
			report_proxy(e, f);
		if (before && (mode_of(&e->x) == MODE_WRITE || mode_of(&e->x) == mode_of(&f->x)))
			f->x.mask &= (uint16_t)~mask;
		readers += mode_of(&f->x) == MODE_READ;
		if (f->x.mask && (mode_of(&f->x) != MODE_READ || readers <= MOST_READERS))
			g->others[kept++] = *f;
	}
	g->nothers = kept;
}

static void set_aside(Worker *k, GlobalGranule *g, const Access *x)
{
	if (!x->mask)
		return;
	g->others = grow(k, g->others, g->nothers, &g->size, sizeof *g->others);
	g->others[g->nothers++] = (Foreign){ g->own.run, *x };
}

static void touch(Event *e, GlobalGranule *g, uint32_t mask)
{
	if (g->own.run != e->run) {
		for (uint32_t i = 0; g->own.run && i < g->own.n; i++)
			set_aside(e->cta->worker, g, &earlier(&g->own)[i]);
		if (g->own.run)
			set_aside(e->cta->worker, g, &g->own.last);
		memset(&g->own.lanes, 0, sizeof g->own.lanes);
	}
	if (g->nothers)
		touch_others(e, g, mask);
	e->granules = &g->own;
	race_touch(e, 0, mask);
}

/* The page whose lock is held, or NULL, and what reports call a place in it. */
typedef struct Held {
	GlobalPage *page;
	GlobalPlace place;
	const void *base;
} Held;

static void turn_to_page(Event *e, Held *h, uintptr_t number)
{
	Worker *k = e->t->cta->worker;

	if (h->page && h->page->number == number)
		return;
	leave_page(k);
	h->page = page_at(e->t, number, line_of(&e->x));
	e->global = &h->place;
	enter_page(k, h->page);
}

static void touch_bytes(Event *e, Held *h, uintptr_t granule, uint32_t mask)
{
	turn_to_page(e, h, granule / PAGE_GRANULES);
	h->place.from_base = granule * GRANULE - (uintptr_t)h->base;
	touch(e, &h->page->granules[granule % PAGE_GRANULES], mask);
}

/* Bytes [at, at + bytes), page by page; the last stays held, for the next will often be there. */
static void touch_range(Event *e, Held *h, uintptr_t at, uint32_t bytes)
{
	if (at % GRANULE + bytes <= GRANULE) {
		touch_bytes(e, h, at / GRANULE, ((1u << bytes) - 1) << at % GRANULE);
		return;
	}
	for (uintptr_t i = at / GRANULE; i <= (at + bytes - 1) / GRANULE; i++)
		touch_bytes(e, h, i, mask_of(at, bytes, i));
}

/* Elements, or rows of a box. */
typedef struct Accesses {
	const char *tensor;
	const void *base;
	const void *const *at;
	uint32_t n, bytes, line;
} Accesses;

static void of_cluster(Event *e, Thread *t, LaneUse lanes)
{
	e->run = t->cta->worker->cluster_run;
	if (t->ahead)
		e->clock = row_ahead(t);
	of_lane(e, t, lanes);
}

static void touch_all(Event *e, const Accesses *a)
{
	Held h = { .place = { .tensor = a->tensor }, .base = a->base };

	for (uint32_t i = 0; i < a->n; i++)
		touch_range(e, &h, (uintptr_t)a->at[i], a->bytes);
	leave_page(e->t->cta->worker);
}

static void by_threads(Thread *t, Mode mode, uint32_t now, const Accesses *a)
{
	static const char *const what[] = { "read", "write", "atomic" };
	Event e;

	event(&e, t, t->cta, what[mode], mode, BY_THREADS, a->line);
	happens(&e, clock_component(t->warp, COMPONENT_ACCESSES), now);
	of_cluster(&e, t, LANES_MARK);
	touch_all(&e, a);
}

/* Without bytes, where a mask is off, the place means nothing. */
static bool is_followed(const Thread *t, const Accesses *a)
{
	return a->bytes && a->n && t->cta->worker->races;
}

/* An atomic right behind its fence is known to whoever acquires what it passes on. */
static uint32_t time_of_atomic(Thread *t)
{
	Warp *w = t->warp;

	if (t->released && t->released == w->token && w->token_version == w->clock_version)
		return clock_row(t->cta->worker, w->clock)[clock_component(w, COMPONENT_ACCESSES)];
	return clock_now(t);
}

static void by_atomics(Thread *t, bool polls, const Accesses *a)
{
	schedule_before_atomic(t, a->bytes && a->n == 1 ? (uintptr_t)a->at[0] : 0, polls);
	if (!is_followed(t, a))
		return;
	by_threads(t, MODE_ATOMIC, time_of_atomic(t), a);
	for (uint32_t i = 0; i < a->n; i++) {
		see(t, (uintptr_t)a->at[i]);
		if (t->released && !polls)
			leave_token(t, (uintptr_t)a->at[i]);
	}
}

#define ACCESSES (Accesses){ name, base, at, n, bytes, line }

void tilecpu_global_reads(TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	if (is_followed(thread_of(t), &ACCESSES))
		by_threads(thread_of(t), MODE_READ, clock_now(thread_of(t)), &ACCESSES);
}

void tilecpu_global_writes(TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	if (is_followed(thread_of(t), &ACCESSES))
		by_threads(thread_of(t), MODE_WRITE, clock_now(thread_of(t)), &ACCESSES);
}

void tilecpu_global_atomics(TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	by_atomics(thread_of(t), false, &ACCESSES);
}

void tilecpu_global_polls(TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	by_atomics(thread_of(t), true, &ACCESSES);
}

/* ---- asynchronous ones ---- */

void tilecpu_global_copies(TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)
{
	Thread *self = thread_of(t);
	Event e;

	if (!is_followed(self, &ACCESSES))
		return;
	event(&e, self, self->cta, "cp_async", MODE_READ, BY_COPY, line);
	happens(&e, clock_component(self->warp, COMPONENT_COPIES), self->copy_groups + 1);
	of_cluster(&e, self, LANES_CHECK);
	touch_all(&e, &ACCESSES);
}

void global_transfer(Thread *t, const char *name, const void *base, const Transfer *x, uint32_t mode, const Mbarrier *b, uint32_t line)
{
	static const char *const what[] = { "load", "store", "addition" };
	Held h = { .place = { .tensor = name }, .base = base };
	uint8_t *at;
	Event e;

	if (!t->cta->worker->races)
		return;
	event(&e, t, t->cta, what[mode], (Mode)mode, mode == MODE_READ ? BY_LOAD : BY_STORE, line);
	if (mode == MODE_READ)
		happens(&e, b->component, b->phase + 1);
	else {
		race_store_issued(t);
		happens(&e, clock_component(t->warp, COMPONENT_WRITTEN), t->store_groups + 1);
	}
	of_cluster(&e, t, LANES_CHECK);
	for (uint32_t row = 0; row < x->rows; row++) {
		uint32_t bytes = transfer_row(x, row, &at);

		if (bytes)
			touch_range(&e, &h, (uintptr_t)at, bytes);
	}
	leave_page(t->cta->worker);
}
