/* cta.h - the state of the CTAs that one host thread runs: threads, warps, barriers, shared memory. */
#ifndef TILE_CPU_CTA_H
#define TILE_CPU_CTA_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/cpu/cpu_abi.h"
#include "runtime/cpu/fiber.h"

enum {
	WARP = 32,
	WARPGROUP = 128,
	MAX_WARPS = 32,
	NAMED_BARRIERS = 16,
	MAX_MBARRIERS = 1024,
	MAX_CLUSTER = 16,
	POISON = 0x7f, /* every byte of shared memory nobody has written: a NaN in all float types */
	SMEM_ALIGN = 1024,
	GRANULE = 16, /* bytes whose last generic writer is remembered together */
	ERROR_SIZE = 8192
};

typedef struct Thread Thread;
typedef struct Warp Warp;
typedef struct Cta Cta;
typedef struct Worker Worker;

/* What of each warp's past has happened before the holder's present (seen), and
 * which of it lies before a fence.proxy.async that does (fenced). */
typedef struct Clock {
	uint32_t seen[MAX_WARPS], fenced[MAX_WARPS];
} Clock;

/* The last generic store to 16 bytes of shared memory; time 0: none, or an asynchronous one. */
typedef struct Written {
	uint32_t time; /* of warp */
	uint32_t line : 24, warp : 8;
} Written;

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

	uint32_t votes; /* what the barrier that it waited for had counted */

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

struct Warp {
	Thread *threads;
	uint32_t index, size; /* in the CTA; lanes */
	uint32_t runnable;    /* lanes */
	bool queued, descending;
	Rendezvous meet;

	Clock clock;
	uint32_t clock_version;
	bool clock_shown; /* somebody has seen the present time: the next store needs a new one */
};

/* Where threads release their past and others acquire it. */
typedef struct SyncPoint {
	Clock clock;
	uint32_t version;
	const Warp *last_from;
	uint32_t last_version;
} SyncPoint;

struct Mbarrier {
	uint32_t offset, count, pending, phase;
	int64_t tx;
	uint32_t loads;    /* in flight, that will complete bytes of it */
	uint32_t released; /* threads released by the last phase that have not run since */
	uint32_t last_line; /* of the last arrival */
	Thread *waiters;
	SyncPoint sync;
};

typedef struct NamedBarrier {
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
	Written *written;
	uint32_t last_written[MAX_WARPS]; /* time of each warp's last generic store */
	uint16_t *mbarrier_at; /* by offset / 8: number in mbarriers + 1 */
	Mbarrier *mbarriers;
	uint32_t nmbarriers;
	NamedBarrier barriers[NAMED_BARRIERS];
	SyncPoint cluster_sync;
	ProductQueue **products; /* by warpgroup */
	uint32_t block[3];
};

struct Worker {
	const TileCpuLaunch *launch;
	uint32_t nctas, nthreads, nwarps; /* CTAs together (a cluster); of each */
	uint32_t smem_bytes;
	Cta *ctas;
	Thread *threads;
	Warp *warps;
	StackPool stacks;

	uint64_t random;
	Fiber host;
	Thread *current; /* NULL: the scheduler */
	Warp *running;
	Warp **runnable;
	uint32_t nrunnable, live;
	NamedBarrier cluster;

	Load *loads;
	uint32_t nloads, loads_size;
	float *product_scratch; /* wgmma.c */

	bool failed;
	char error[ERROR_SIZE];
};

/* ---- cta.c ---- */

bool worker_open(Worker *k, const TileCpuLaunch *l);
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

/* Room for one more in a growing array; the array may move.  Ends the program when memory is out. */
void *grow(void *array, uint32_t n, uint32_t *size, size_t element);

/* Fails unless bytes [offset, offset + bytes) are in shared memory and offset is aligned. */
void check_shared(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t align, uint32_t line);

/* ---- schedule.c ---- */

void schedule_run(Worker *k);
void schedule_add(Thread *t);
/* Stops the current thread until schedule_wake; t->wait says what for. */
void schedule_block(Thread *t);
void schedule_wake(Thread *t);
void schedule_wake_list(Thread **list);
_Noreturn void schedule_end(Thread *t);
_Noreturn void schedule_abandon(Thread *t);

/* Below n. */
uint32_t random_below(Worker *k, uint32_t n);
void random_seed(Worker *k, uint64_t seed, uint64_t stream);

/* ---- proxy.c: happens-before, and generic stores seen by the async proxy ---- */

void sync_release(const Thread *t, SyncPoint *p);
void sync_acquire(const Thread *t, const SyncPoint *p);
void proxy_written(Thread *t, uint32_t offset, uint32_t bytes, uint32_t line);
void proxy_overwritten(Cta *c, uint32_t offset, uint32_t bytes); /* by an asynchronous store */
/* Fails when bytes that an asynchronous operation is to read lack a fence. */
void proxy_check(Thread *t, const char *what, uint32_t offset, uint32_t bytes, uint32_t line);

/* ---- mbarrier.c ---- */

/* Of CTA c; errors are t's. */
Mbarrier *mbarrier_at(Thread *t, const Cta *c, uint32_t offset, uint32_t line);
void mbarrier_complete_tx(Cta *c, Mbarrier *b, uint32_t bytes, const Thread *issuer, uint32_t line);

/* ---- barrier.c ---- */

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
/* Offset of 16 bytes of a swizzled tile. */
static inline uint32_t swizzled(uint32_t address, uint32_t width)
{
	return address ^ ((address >> 7 & (width / 16 - 1)) << 4); /* 128, 64, 32: 3, 2, 1 bits; 16: none */
}

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

/* ---- report.c ---- */

/* Records the first error of the worker; t may be NULL.  Returns only to the scheduler. */
void report_error(Worker *k, Thread *t, uint32_t line, const char *format, ...) __attribute__((format(printf, 4, 5)));
_Noreturn void report_fail(Thread *t, uint32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void report_deadlock(Worker *k);
/* "role Load, warp 8": for messages about another thread; returns text. */
const char *report_who(const Thread *t, char *text, size_t size);

#endif
