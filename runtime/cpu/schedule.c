/* schedule.c - picks, by the seed, which warp runs next and when asynchronous operations advance. */
#include "runtime/cpu/cta.h"

#include <stdatomic.h>

enum { ASYNC_ODDS = 4 }; /* between two warps, one chance in this many */

/* ---- random numbers: splitmix64 ---- */

static uint64_t random_next(Worker *k)
{
	uint64_t x = k->random += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint32_t random_below(Worker *k, uint32_t n)
{
	return (uint32_t)(((random_next(k) >> 32) * n) >> 32);
}

void random_seed(Worker *k, uint64_t seed, uint64_t stream)
{
	k->random = seed;
	k->random = random_next(k) ^ (stream * 0xd1342543de82ef95u);
	random_next(k);
}

/* ---- runnable warps ---- */

static void make_runnable(Thread *t)
{
	Warp *w = t->warp;
	Worker *k = t->cta->worker;

	t->wait = WAIT_NONE;
	w->runnable |= 1u << thread_lane(t);
	if (!w->queued) {
		w->queued = true;
		k->runnable[k->nrunnable++] = w;
	}
}

void schedule_add(Thread *t)
{
	t->cta->worker->live++;
	make_runnable(t);
}

void schedule_wake(Thread *t)
{
	make_runnable(t);
}

void schedule_wake_list(Thread **list)
{
	Thread *t = *list;

	*list = NULL;
	while (t) {
		Thread *next = t->next;

		make_runnable(t);
		t = next;
	}
}

/* ---- switching ---- */

/* The next lane of the running warp, or the scheduler. */
static Fiber *pick(Worker *k)
{
	Warp *w = k->running;
	unsigned lane;

	if (!w->runnable) {
		w->runnable = w->later;
		w->later = 0;
	}
	if (!w->runnable || k->failed) {
		k->current = NULL;
		return &k->host;
	}
	atomic_store_explicit(&k->switches, atomic_load_explicit(&k->switches, memory_order_relaxed) + 1, memory_order_relaxed);
	/* lane 0 is elected to arrive and to start transfers: what others do behind that must not come before */
	lane = w->descending && !(w->runnable & 1) ? 31u - (unsigned)__builtin_clz(w->runnable) : (unsigned)__builtin_ctz(w->runnable);
	w->runnable &= ~(1u << lane);
	k->current = &w->threads[lane];
	return &k->current->fiber;
}

void schedule_block(Thread *t)
{
	Fiber *next = pick(t->cta->worker);

	if (next != &t->fiber)
		fiber_switch(&t->fiber, next);
}

void schedule_let_lanes_come(Thread *t)
{
	if (!t->warp->runnable)
		return;
	t->warp->later |= 1u << thread_lane(t);
	schedule_block(t);
}

void schedule_yield(Thread *t)
{
	Worker *k = t->cta->worker;

	t->warp->runnable |= 1u << thread_lane(t);
	atomic_store_explicit(&k->switches, atomic_load_explicit(&k->switches, memory_order_relaxed) - 1, memory_order_relaxed);
	k->current = NULL;
	fiber_switch(&t->fiber, &k->host);
}

void schedule_before_atomic(Thread *t, uintptr_t element, bool polls)
{
	if (element && (element == t->atomic || (polls && t->polled)))
		schedule_yield(t);
	t->atomic = element;
	t->polled = polls;
}

void schedule_in_order(Thread *t)
{
	make_runnable(t);
	schedule_block(t);
}

void schedule_end(Thread *t)
{
	Worker *k = t->cta->worker;

	t->wait = WAIT_DONE;
	k->live--;
	cluster_settle(k);
	fiber_leave(&t->fiber, pick(k));
	__builtin_unreachable();
}

void schedule_abandon(Thread *t)
{
	Worker *k = t->cta->worker;

	if (k->held) /* the other workers may go on */
		pthread_mutex_unlock(k->held);
	k->held = NULL;
	k->current = NULL;
	fiber_leave(&t->fiber, &k->host);
	__builtin_unreachable();
}

static void run_warp(Worker *k)
{
	uint32_t i = random_below(k, k->nrunnable);
	Warp *w = k->runnable[i];

	k->runnable[i] = k->runnable[--k->nrunnable];
	w->descending = random_below(k, 4) == 0;
	k->running = w;
	fiber_switch(&k->host, pick(k));
	w->queued = w->runnable; /* it has yielded */
	if (w->queued)
		k->runnable[k->nrunnable++] = w;
}

void schedule_run(Worker *k)
{
	while (k->live && !k->failed) {
		if (k->nloads && (!k->nrunnable || random_below(k, ASYNC_ODDS) == 0))
			async_step(k);
		else if (k->nrunnable)
			run_warp(k);
		else
			report_deadlock(k);
	}
}
