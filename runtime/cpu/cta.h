/* cta.h - the state of the CTAs that one host thread runs: threads, warps, barriers, shared memory. */
#ifndef TILE_CPU_CTA_H
#define TILE_CPU_CTA_H

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/abi/cpu_abi.h"
#include "runtime/cpu/fiber.h"

enum {
	WARP = 32,
	WARPGROUP = 128,
	MAX_WARPS = 32,
	NAMED_BARRIERS = 16,
	MAX_MBARRIERS = 1024,
	MAX_CLUSTER = 16,
	POISON = 0xff, /* every byte of shared memory nobody has written: a NaN in all float types */
	SMEM_ALIGN = 1024,
	GRANULE = 16, /* bytes whose accesses are remembered together */
	NO_SLOT = -1,
	SEEN_FLAGS = 4,
	STORES_KNOWN = 8, /* groups of a warp's stores */
	GLOBAL_PAGES = 64, /* that a worker finds at once */
	ERROR_SIZE = 8192,
	NAME_SIZE = 96, /* of a role and warp, a barrier */
	ROLE_SIZE = 80, /* 63 characters and the instance */
	PLACE_SIZE = 384 /* of elements of tiles */
};

#define OUT_OF_MEMORY "out of memory for the CPU device"

typedef struct Thread Thread;
typedef struct Warp Warp;
typedef struct SyncPoint SyncPoint;
typedef struct Cta Cta;
typedef struct Worker Worker;
typedef struct Token Token;
typedef struct GlobalPage GlobalPage;
typedef struct GlobalShadow GlobalShadow; /* global.c: of a launch */

/* ---- clocks ---- */

/* What a clock tells of each warp; behind these come the phases of mbarriers.  Component 0 is never reached. */
typedef enum ComponentKind {
	COMPONENT_ACCESSES, /* its accesses until then have happened */
	COMPONENT_FENCED,   /* and lie before a fence.proxy.async that has, of shared memory */
	COMPONENT_FENCED_GLOBAL, /* the same of global memory */
	COMPONENT_PRODUCTS, /* wgmmas it has waited for */
	COMPONENT_STORES,   /* groups of bulk stores that have been waited for */
	COMPONENT_COPIES,   /* groups of cp.async that have been waited for */
	COMPONENT_WRITTEN,  /* those whose writes have been waited for */
	COMPONENT_KINDS
} ComponentKind;

enum { COMPONENT_WARPS = 1 };

typedef struct ClockTable {
	uint32_t *table;
	uint32_t nrows, rows, ncomponents, width;
} ClockTable;

/* An access to some of 16 bytes of shared memory. */
typedef struct Access {
	uint32_t time; /* of component */
	uint32_t what; /* its line, mode and source: race.c */
	uint16_t component, mask; /* mask: bytes */
} Access;

typedef struct AccessList AccessList;

/* Which lanes have been to 16 bytes since the lanes of their warp last met: of the last one at each byte its number, by bits. */
typedef struct LaneMarks {
	uint64_t low;       /* bit 16 i + b: bit i of the lane at byte b */
	uint32_t met, came; /* the meetings (Warp); of others: nobody has */
	uint16_t high;      /* bit 4 */
	uint16_t written, read, several; /* since `met`, since `came`; several: by more lanes than one */
} LaneMarks;

/* The accesses that a later one may race with; of another run: none.  A cache line. */
typedef struct Granule {
	uint32_t run;
	uint16_t n, clear; /* n: before the last; clear: bytes in which nothing races with the last, whichever of them it comes to take in */
	AccessList *more;  /* those before; NULL: in few */
	Access last, few[1];
	LaneMarks lanes;
} Granule;
_Static_assert(sizeof(Granule) == 64, "a granule is a cache line");

typedef enum WaitKind {
	WAIT_NONE,
	WAIT_MBARRIER,
	WAIT_BARRIER,
	WAIT_CLUSTER,
	WAIT_WARP,     /* for the other lanes */
	WAIT_PRODUCT,  /* for the other warps to issue the same wgmma */
	WAIT_DONE
} WaitKind;

/* ---- asynchronous operations ---- */

/* The global side of a TMA or bulk operation: a box of a tensor, or plain bytes. */
typedef struct Transfer {
	const TileCpuTensorMap *map; /* NULL: plain */
	uint8_t *plain;
	int32_t coord[5];
	uint32_t smem, bytes, row_bytes, rows;
} Transfer;

typedef struct Mbarrier Mbarrier;

typedef struct Load {
	Transfer x;
	Thread *issuer;
	Cta *cta; /* where it goes */
	Mbarrier *bar;
	uint32_t done; /* rows */
	uint32_t line;
} Load;

typedef struct Store {
	Transfer x;
	uint8_t *staged; /* what was read from shared memory; NULL: not yet */
	uint32_t group, line;
	bool reduce, late_write;
	bool waited; /* a wait has covered at least its read */
} Store;

typedef struct CpAsync {
	const void *src;
	uint32_t dst, bytes, valid, group, line;
} CpAsync;

/* ---- threads ---- */

struct Thread {
	TileCpuThread abi; /* first: compiled code has a pointer to it */
	Fiber fiber;
	Cta *cta;
	Warp *warp;
	Thread *next; /* in the list of those who wait for the same */

	WaitKind wait;
	uint32_t wait_line, wait_object, wait_parity;
	const char *wait_name; /* of WAIT_WARP: the operation */
	Mbarrier *released_by;

	Token *released; /* what its last fence.acq_rel.gpu passes on by the atomics behind it; or NULL */
	uint32_t ahead;  /* a row: what it alone knows of other CTAs until it releases it or its warp meets; 0: nothing */
	uintptr_t seen[SEEN_FLAGS]; /* tensors' elements of its last atomics: what others passed on there the next fence acquires */
	uint32_t nseen;
	uintptr_t atomic; /* the element of its last atomic, 0: there were several */
	bool polled;      /* it changed nothing */
	uint32_t passed; /* a row: what was passed on at elements that are no more in `seen`; 0: there were none */

	uint32_t votes; /* what the barrier that it waited for had counted */
	uint32_t earliest; /* time of its next access: behind its last fence */

	const char *role; /* NULL outside roles */
	uint32_t instance, role_line;

	/* wgmma: operations issued by this thread, and where its last groups end */
	uint32_t products, groups;
	uint32_t group_end[64];

	Store *stores;
	uint32_t nstores, stores_size, store_groups;
	CpAsync *copies;
	uint32_t ncopies, copies_size, copy_groups;
};

/* A collective operation of one warp, as far as the lanes have come. */
typedef struct Rendezvous {
	const char *name; /* NULL: none in progress */
	uint32_t line, code; /* lanes must agree on the code */
	uint32_t count, lanes;
	const void *in[WARP], *in2[WARP];
	void *out[WARP];
	uint32_t word[WARP];
	uint8_t from[WARP];
} Rendezvous;

/* Where threads release their past, and others acquire what had been released when the barrier was complete. */
struct SyncPoint {
	uint32_t coming, done; /* rows of clocks, 0: none yet */
	uint32_t version;      /* completions */
	const Warp *last_from;
	uint32_t last_version;
};

struct Warp {
	Cta *cta;
	Thread *threads;
	uint32_t index, size; /* in the CTA; lanes */
	uint32_t runnable;    /* lanes */
	uint32_t later;       /* lanes that let the others come as far */
	bool queued, descending;
	Rendezvous meet;

	uint32_t clock, clock_version; /* clock: a row */
	Token *token;          /* of the last fence.acq_rel.gpu of its lanes, and the clock's version then */
	uint32_t token_version;
	uint32_t ahead;        /* lanes that are ahead of it */
	bool clock_shown; /* somebody has seen the present time: the next access needs a new one */
	uint32_t met, came; /* numbers of the last meetings of its lanes: which orders their memory; of any kind (shuffles and the like) */
	uint32_t met_time;  /* accesses since `met` have at least this time */
	const SyncPoint *acquired; /* last, and its version then */
	uint32_t acquired_version;
	uint32_t stores_issued[STORES_KNOWN]; /* times of its accesses when its last groups of stores were issued; a group by its number + 1 */
};

/* The last announcement of bytes by a warp in this phase. */
typedef struct Announcement {
	uint32_t component, time, line;
	Thread *by;
} Announcement;

/* Of the last load bound to an mbarrier. */
typedef struct LastLoad {
	Thread *issuer; /* NULL: there was none */
	uint32_t phase, at, line;
} LastLoad;

struct Mbarrier {
	const char *name;
	uint32_t slot; /* NO_SLOT: the only one of its name */
	uint32_t component; /* of clocks: phases completed */
	uint32_t waited;    /* a row: who has waited for phases of it, and when; 0: nobody */
	uint32_t offset, count, pending, phase;
	int64_t tx;
	uint32_t loads;    /* in flight, that will complete bytes of it */
	LastLoad last_load;
	bool brought[2], brings; /* bytes: the phase before, that before it; this one */
	uint32_t before;   /* a row: what had been released when the phase before the last was complete; 0: there was none */
	uint32_t released; /* threads released by the last phase that have not run since */
	uint32_t last_line; /* of the last arrival */
	Announcement announced[4];
	uint32_t nannounced;
	Thread *waiters;
	SyncPoint sync;
};

typedef struct NamedBarrier {
	const char *name; /* NULL: the team's own */
	uint32_t threads, arrived, line;
	uint32_t votes; /* of those that have arrived */
	Thread *waiters;
	SyncPoint sync;
} NamedBarrier;

typedef struct ProductQueue ProductQueue; /* wgmma.c: of one warpgroup */

struct Cta {
	Worker *worker;
	Thread *threads;
	Warp *warps;
	uint8_t *smem;
	Granule *granules;
	void *granule_memory;
	uint32_t ngranules;
	uint16_t *mbarrier_at; /* by offset / 8: number in mbarriers + 1 */
	Mbarrier *mbarriers;
	uint32_t nmbarriers;
	NamedBarrier barriers[NAMED_BARRIERS];
	ProductQueue **products; /* by warpgroup */
	uint32_t block[3];
};

/* What another cluster has passed on: a component of the clocks, 1 where it is known. */
typedef struct KnownToken {
	Token *token;
	uint32_t component;
} KnownToken;

struct Worker {
	const TileCpuLaunch *launch;
	uint32_t nctas, nthreads, nwarps; /* CTAs together (a cluster); of each */
	uint32_t smem_bytes;
	Cta *ctas;
	Thread *threads;
	Warp *warps;
	StackPool stacks;

	uint64_t random;
	_Atomic uint64_t switches; /* from thread to thread: progress */
	uint64_t switches_seen;    /* by the watchdog */
	uint32_t interrupt;        /* set by the watchdog */
	Fiber host;
	Thread *current; /* NULL: the scheduler */
	Warp *running;
	Warp **runnable;
	uint32_t nrunnable, live;
	NamedBarrier cluster;

	bool races; /* checks for them */
	uint32_t run; /* counts runs, from 1 */
	uint32_t cluster_run; /* of all of the launch: the number of the cluster, from 1 */
	uint32_t meetings; /* of all warps' lanes, in all runs: no two have the same number */
	ClockTable clocks;
	GlobalShadow *global;
	GlobalPage *pages[GLOBAL_PAGES];
	KnownToken *tokens; /* of other clusters, that somebody here has acquired */
	uint32_t ntokens, tokens_size;
	Load *loads;
	uint32_t nloads, loads_size;
	float *product_scratch; /* wgmma.c */

	pthread_mutex_t *held; /* by the running thread: given back where its run is abandoned; or NULL */
	jmp_buf begin;         /* the scheduler's, which has no fiber to abandon */
	bool failed, no_memory;
	char error[ERROR_SIZE];
};

/* ---- cta.c ---- */

bool worker_open(Worker *k, const TileCpuLaunch *l, GlobalShadow *global);
void worker_close(Worker *k);
/* Runs the CTAs of cluster number `index`; false: error has the report. */
bool worker_run(Worker *k, uint64_t index);

static inline Thread *thread_of(TileCpuThread *t)
{
	return (Thread *)(void *)t;
}

static inline uint32_t thread_lane(const Thread *t)
{
	return t->abi.thread % WARP;
}

/* Room for one more in a growing array; the array may move. */
void *grow(Worker *k, void *array, uint32_t n, uint32_t *size, size_t element);
/* calloc; where memory is out the launch ends. */
void *zeros(Worker *k, size_t n, size_t size);

static inline bool in_shared(const Thread *t, uint32_t offset, uint32_t bytes)
{
	uint32_t size = t->cta->worker->smem_bytes;

	return offset <= size && bytes <= size - offset;
}

/* Fails unless bytes [offset, offset + bytes) are in shared memory and offset is aligned. */
void check_shared(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t align, uint32_t line);

/* ---- schedule.c ---- */

void schedule_run(Worker *k);
void schedule_add(Thread *t);
/* Stops the current thread until schedule_wake; t->wait says what for. */
void schedule_block(Thread *t);
void schedule_wake(Thread *t);
/* Before a thread learns what happened elsewhere: first the other lanes of its warp come to such a point, or stop.  The warp has one
 * clock, and what a lane learns must not count for what another does before. */
void schedule_let_lanes_come(Thread *t);
/* Lets other warps run, which is no progress. */
void schedule_yield(Thread *t);
/* The same where t's last atomic was of this element, too, or one that changes nothing, as this one: it may wait for others.  0: of several. */
void schedule_before_atomic(Thread *t, uintptr_t element, bool polls);
/* After lanes have met: they go on in their order, whoever came last. */
void schedule_in_order(Thread *t);
void schedule_wake_list(Thread **list);
_Noreturn void schedule_end(Thread *t);
_Noreturn void schedule_abandon(Thread *t);

/* Below n. */
uint32_t random_below(Worker *k, uint32_t n);
void random_seed(Worker *k, uint64_t seed, uint64_t stream);

/* ---- clock.c: happens-before ---- */

void clocks_reset(Worker *k);
void clocks_close(Worker *k);
/* Until the next of the two that follow. */
static inline uint32_t *clock_row(const Worker *k, uint32_t row)
{
	return k->clocks.table + (size_t)row * k->clocks.width;
}

uint32_t clock_new(Worker *k);           /* a row of zeros */
uint32_t clock_new_component(Worker *k);

static inline uint32_t clock_component(const Warp *w, ComponentKind kind)
{
	const Worker *k = w->cta->worker;

	return COMPONENT_WARPS + (uint32_t)kind * k->nctas * k->nwarps + (uint32_t)(w - k->warps);
}

/* Of the warp's own clock: to at least `time`. */
void clock_advance(Warp *w, ComponentKind kind, uint32_t time);

/* The time of an access made now. */
static inline uint32_t clock_now(const Thread *t)
{
	Warp *w = t->warp;
	uint32_t *now = clock_row(w->cta->worker, w->clock) + clock_component(w, COMPONENT_ACCESSES);

	if (w->clock_shown || *now < t->earliest) {
		w->clock_shown = false;
		++*now;
		w->clock_version++;
	}
	return *now;
}

void sync_release(Thread *t, SyncPoint *p);
/* Of a thread that goes on only when all have come: what other lanes do until then is released, too. */
void sync_release_and_stay(Thread *t, SyncPoint *p);
/* Of a load to another CTA: which phases were complete when it began, as whoever waits for it knows. */
void sync_release_phases(Thread *t, SyncPoint *p);
/* All have come: what they released is acquired from now on, and that component (0: none) is at that time. */
void sync_complete(Worker *k, SyncPoint *p, uint32_t component, uint32_t time);
void sync_acquire(Thread *t, const SyncPoint *p);
/* What t knows beyond its warp becomes the warp's. */
void clock_catch_up(Thread *t);
/* A fence.proxy.async of t, which knows `row`: whether that is news for it. */
bool clock_fence(Thread *t, uint32_t *row, ComponentKind fenced);
/* What t knows of a component with its warp, or alone. */
uint32_t clock_known(const Thread *t, uint32_t component);
/* Whether all that a row has of warps' accesses has happened before. */
bool clock_knows(const Thread *t, uint32_t row);
void clock_meet(Warp *w); /* what its lanes do from now on comes after what all of them did */

/* ---- race.c: each of these fails when something before it is not ordered, or lacks a fence ---- */

bool races_open(Cta *c, uint32_t smem);
void races_close(Cta *c);
/* By the whole warp at once, whichever lane t is. */
void race_read(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line);
void race_write(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line);
/* A load into CTA c, until the present phase of b is known to be complete. */
void race_load(Thread *t, const Cta *c, const Mbarrier *b, uint32_t offset, uint32_t bytes, uint32_t line);
/* A store's issue, as of other accesses of its warp. */
void race_store_issued(Thread *t);
/* A store's read, until its group is waited for. */
void race_store(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line);
/* t has waited for that store: other lanes have not until they meet. */
void race_store_done(Thread *t, uint32_t offset, uint32_t bytes);
void race_copy(Thread *t, uint32_t offset, uint32_t bytes, uint32_t line);      /* cp.async: issued */
void race_copy_done(Thread *t, uint32_t offset, uint32_t bytes, uint32_t line); /* waited for: a write of its thread */
/* Product `number` of t's warpgroup reads n lines of 16 bytes; clock: what all of its warps knew. */
void race_product(Thread *t, const uint32_t *clock, uint32_t number, const uint32_t *lines, uint32_t n, uint32_t line);

/* ---- global.c: tensors that a kernel uses in several ways ---- */

GlobalShadow *global_open(void); /* NULL: out of memory */
void global_close(GlobalShadow *g);
/* A box or bytes that t loads, until the present phase of b, or stores, until it has waited for its group. */
void global_transfer(Thread *t, const char *name, const void *base, const Transfer *x, uint32_t mode, const Mbarrier *b, uint32_t line);

/* ---- mbarrier.c ---- */

/* "full[1]", or "+64" where it has no name; returns text. */
const char *mbarrier_name(const Mbarrier *b, char *text, size_t size);
/* Of CTA c; errors are t's. */
Mbarrier *mbarrier_at(Thread *t, const Cta *c, uint32_t offset, uint32_t line);
void mbarrier_complete_tx(Cta *c, Mbarrier *b, uint32_t bytes, const Thread *issuer, uint32_t line);

/* ---- barrier.c ---- */

/* "barrier turn", or "barrier 3" where it has no name; returns text. */
const char *barrier_name(const char *name, uint32_t id, char *text, size_t size);
/* Lets a cluster go on when all of its threads that are left have come. */
bool cluster_settle(Worker *k);

/* ---- tma.c: what a transfer moves ---- */

void transfer_box(Thread *t, Transfer *x, const TileCpuTensorMap *map, uint32_t smem, const int32_t *coord, uint32_t line);
void transfer_plain(Thread *t, Transfer *x, const void *global, uint32_t smem, uint32_t bytes, uint32_t line);
/* Rows [first, first + rows) from global to shared memory. */
void transfer_load(const Transfer *x, Cta *c, uint32_t first, uint32_t rows);
/* All of it from shared memory to `staged`, in the order of the box, and from there to global memory. */
void transfer_stage(const Transfer *x, const Cta *c, uint8_t *staged);
void transfer_store(const Transfer *x, const uint8_t *staged, bool reduce);
/* The bytes of row `row` that are in the tensor: their number, and where they begin. */
uint32_t transfer_row(const Transfer *x, uint32_t row, uint8_t **global);
/* Offset of 16 bytes of a swizzled tile. */
static inline uint32_t swizzled(uint32_t address, uint32_t width)
{
	return address ^ ((address >> 7 & (width / 16 - 1)) << 4); /* 128, 64, 32: 3, 2, 1 bits; 16: none */
}

/* ---- place.c ---- */

/* "su[2][13][4] (shared memory +188668)", all tiles that have the byte; "shared memory +64" where none has; returns text. */
const char *place_in_shared(const Worker *k, uint32_t offset, char *text, size_t size);
/* "x[3][4] ('x' +112)", "'x' +112" where strides do not tell; returns text. */
const char *place_in_tensor(const Worker *k, const char *tensor, uint64_t byte, char *text, size_t size);

/* "tensor 'x'", or "its tensor". */
typedef struct TensorText { char text[80]; } TensorText;
TensorText tensor_text(const Worker *k, const TileCpuTensorMap *map);

/* ---- async.c ---- */

void async_step(Worker *k); /* some piece of some load */
void async_thread_end(Thread *t);
void async_reset(Worker *k);

/* ---- wgmma.c ---- */

ProductQueue *products_open(void);
void products_close(ProductQueue *q);
void products_reset(ProductQueue *q);
/* Whether the thread has products it has not waited for; the line of the last. */
bool products_pending(const Thread *t, uint32_t *line);

/* ---- arithmetic.c ---- */

/* n registers that a product adds to: not all of them are as the compiler leaves what nobody has set. */
void check_set(Thread *t, const char *what, const float *registers, uint32_t n, uint32_t line);

/* ---- report.c ---- */

/* Text that ends where there is no more room. */
typedef struct Text {
	char *at, *end;
} Text;
void text_add(Text *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Records the first error of the worker; t may be NULL.  Returns only to the scheduler. */
void report_error(Worker *k, Thread *t, uint32_t line, const char *format, ...) __attribute__((format(printf, 4, 5)));
_Noreturn void report_fail(Thread *t, uint32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Memory is out: that is the error.  Called by the worker, wherever it is. */
_Noreturn void report_memory(Worker *k);
void report_deadlock(Worker *k);
/* "line 8"; where the kernel is made of several files, "line 8 of norm.tile". */
typedef struct LineText { char text[80]; } LineText;
LineText line_text(const Worker *k, uint32_t line);
/* "role Load, warp 8": for messages about another thread; returns text. */
const char *report_who(const Thread *t, char *text, size_t size);

#endif
