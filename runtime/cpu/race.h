/* race.h - an access as the happens-before checks see it, of shared memory (race.c) or of tensors (global.c). */
#ifndef TILE_CPU_RACE_H
#define TILE_CPU_RACE_H

#include "runtime/cpu/cta.h"

typedef enum Mode { MODE_READ, MODE_WRITE, MODE_ATOMIC } Mode; /* as what compiled code tells */
typedef enum Source { BY_THREADS, BY_PRODUCT, BY_STORE, BY_LOAD, BY_COPY } Source;

/* What an event has to do with the other lanes of its warp: products are of all of them. */
typedef enum LaneUse { LANES_NOT, LANES_CHECK, LANES_MARK } LaneUse;

/* Access.what: the line with its file as in cpu_abi.h, and from these bits on its mode and source. */
enum { ALL = 0xffff, MODE_SHIFT = 27, SOURCE_SHIFT = 29 };

#define GLOBAL_FENCE " (of global memory: fence_async_global())"

struct AccessList {
	uint32_t size;
	Access a[];
};

/* Granules of a tensor. */
typedef struct GlobalPlace {
	const char *tensor;
	uint64_t from_base; /* where the first begins */
} GlobalPlace;

typedef struct Event {
	Access x;              /* as it is remembered; no bytes */
	uint32_t run;
	const uint32_t *clock; /* what has happened before */
	Granule *granules;     /* of the CTA whose shared memory it is, of a tensor's page */
	bool finishes;         /* a cp.async, its own earlier write */
	LaneUse lanes;
	uint16_t high, several; /* the lane, as in LaneMarks; several: ALL where it is the whole warp */
	uint64_t low;
	uint32_t met, came;    /* its warp's meetings */
	Thread *t;
	const Cta *cta;
	const char *what;
	const GlobalPlace *global; /* NULL: shared memory */
} Event;

static inline Mode mode_of(const Access *x)
{
	return (Mode)(x->what >> MODE_SHIFT & 3);
}

static inline Source source_of(const Access *x)
{
	return (Source)(x->what >> SOURCE_SHIFT);
}

static inline uint32_t line_of(const Access *x)
{
	return x->what & ((1u << MODE_SHIFT) - 1);
}

static inline Access *earlier(Granule *g)
{
	return g->more ? g->more->a : g->few;
}

/* Whether y, through the async proxy, comes to what a thread has written by x.  Threads' reads are left out (README.md, Not checked). */
static inline bool crosses_proxies(const Access *x, const Access *y)
{
	return source_of(x) == BY_THREADS && mode_of(x) != MODE_READ && source_of(y) != BY_THREADS && source_of(y) != BY_COPY;
}

/* Those of bytes [offset, offset + bytes) that are in that granule. */
static inline uint32_t mask_of(uintptr_t offset, uint32_t bytes, uintptr_t granule)
{
	uintptr_t end = offset + bytes;
	uint32_t mask = ALL;

	if (granule == offset / GRANULE)
		mask = (uint32_t)(ALL << offset % GRANULE & ALL);
	return granule == (end - 1) / GRANULE ? mask & (uint32_t)(ALL >> (GRANULE - 1 - (end - 1) % GRANULE)) : mask;
}

static inline void event(Event *e, Thread *t, const Cta *c, const char *what, Mode mode, Source source, uint32_t line)
{
	*e = (Event){ .x = { .what = (line & ((1u << MODE_SHIFT) - 1)) | (uint32_t)mode << MODE_SHIFT | (uint32_t)source << SOURCE_SHIFT },
		.run = c->worker->run, .granules = c->granules, .t = t, .cta = c, .what = what };
}

/* What t knows now; the event happens at that time of that component. */
static inline void happens(Event *e, uint32_t component, uint32_t time)
{
	e->x.component = (uint16_t)component;
	e->x.time = time;
	e->clock = clock_row(e->t->cta->worker, e->t->warp->clock);
}

static inline void of_lane(Event *e, const Thread *t, LaneUse lanes)
{
	uint32_t lane = thread_lane(t);
	uint64_t bits = (lane & 1) | (lane & 2) << 15 | (uint64_t)(lane & 4) << 30 | (uint64_t)(lane & 8) << 45;

	e->low = bits * ALL; /* not kept with the thread: that would be one more line of cache to wait for */
	e->high = lane & 16 ? ALL : 0;
	e->met = t->warp->met;
	e->came = t->warp->came;
	e->lanes = lanes;
}

/* "reads", "writes over", "adds to". */
const char *race_verb(const Event *e);
/* "s[1][2] (shared memory +64)", "x[16] ('x' +64)": the place of the first byte of mask; returns text. */
const char *race_place(const Event *e, uint32_t granule, uint32_t mask, char *text, size_t size);
/* An access of the cluster that e is of, or of one like it: what it was, where, whose, and how long it lasts (a store's is said only where `lasts`). */
void race_describe(const Event *e, const Access *x, bool lasts, char *text, size_t size);
/* Of bytes `mask` of a granule: reports what is not ordered, and remembers it. */
void race_touch(const Event *e, uint32_t granule, uint32_t mask);

#endif
