/* barrier.c - named barriers of a CTA and the barrier of a cluster. */
#include "runtime/cpu/cta.h"

#include <stdio.h>

const char *barrier_name(const char *name, uint32_t id, char *text, size_t size)
{
	if (name)
		snprintf(text, size, "barrier %s", name);
	else
		snprintf(text, size, "barrier %u", id);
	return text;
}

static NamedBarrier *barrier_at(Thread *t, uint32_t id, uint32_t threads, const char *name, uint32_t line)
{
	NamedBarrier *b;
	char text[NAME_SIZE];

	if (id >= NAMED_BARRIERS)
		report_fail(t, line, "%s: there are %d", barrier_name(name, id, text, sizeof text), NAMED_BARRIERS);
	b = &t->cta->barriers[id];
	if (threads == 0 || threads > t->cta->worker->nthreads)
		report_fail(t, line, "%s for %u threads in a CTA of %u", barrier_name(name, id, text, sizeof text), threads, t->cta->worker->nthreads);
	if (b->arrived && b->threads != threads)
		report_fail(t, line, "%s for %u threads, while those of %s gather for %u", barrier_name(name, id, text, sizeof text), threads,
			line_text(t->cta->worker, b->line).text, b->threads);
	b->name = name;
	b->threads = threads;
	b->line = line;
	return b;
}

/* As of mbarriers: whoever comes knows that those of the turn before were complete, or it could count as one of them. */
static void check_arrival(Thread *t, const NamedBarrier *b, uint32_t id, uint32_t line)
{
	const Warp *w = t->warp;
	bool known = w->acquired == &b->sync && w->acquired_version == b->sync.version;
	char text[NAME_SIZE];

	if (!t->cta->worker->races || !b->sync.version || known || clock_knows(t, b->sync.done))
		return;
	report_fail(t, line, "nothing orders this thread's coming to %s after those who met there before: where it comes earlier it counts as one of them",
		barrier_name(b->name, id, text, sizeof text));
}

/* Whether t was the last. */
static bool arrive(Thread *t, NamedBarrier *b)
{
	if (++b->arrived < b->threads)
		return false;
	b->arrived = 0;
	sync_complete(t->cta->worker, &b->sync, 0, 0);
	schedule_wake_list(&b->waiters);
	return true;
}

static void gather(Thread *t, NamedBarrier *b, WaitKind kind, uint32_t id, uint32_t line)
{
	t->wait = kind;
	t->wait_object = id;
	t->wait_line = line;
	t->next = b->waiters;
	b->waiters = t;
	schedule_block(t);
}

void tilecpu_bar_sync(TileCpuThread *t, uint32_t id, uint32_t threads, const char *name, uint32_t line)
{
	Thread *self = thread_of(t);
	NamedBarrier *b = barrier_at(self, id, threads, name, line);

	check_arrival(self, b, id, line);
	sync_release_and_stay(self, &b->sync);
	if (arrive(self, b))
		schedule_in_order(self);
	else
		gather(self, b, WAIT_BARRIER, id, line);
	sync_acquire(self, &b->sync);
}

/* A vote orders no memory: what is written before it is released by a sync. */
uint32_t tilecpu_bar_vote(TileCpuThread *t, uint32_t id, uint32_t threads, uint32_t value, uint32_t line)
{
	Thread *self = thread_of(t);
	NamedBarrier *b = barrier_at(self, id, threads, NULL, line);

	b->votes += value != 0;
	if (++b->arrived < b->threads) {
		gather(self, b, WAIT_BARRIER, id, line);
		return self->votes;
	}
	uint32_t votes = b->votes;
	for (Thread *w = b->waiters; w; w = w->next)
		w->votes = votes;
	b->arrived = b->votes = 0;
	schedule_wake_list(&b->waiters);
	return votes;
}

void tilecpu_bar_arrive(TileCpuThread *t, uint32_t id, uint32_t threads, const char *name, uint32_t line)
{
	Thread *self = thread_of(t);
	NamedBarrier *b = barrier_at(self, id, threads, name, line);

	check_arrival(self, b, id, line);
	sync_release(self, &b->sync);
	arrive(self, b);
}

/* ---- clusters: all threads that have not ended ---- */

bool cluster_settle(Worker *k)
{
	if (!k->cluster.arrived || k->cluster.arrived < k->live)
		return false;
	k->cluster.arrived = 0;
	sync_complete(k, &k->cluster.sync, 0, 0);
	schedule_wake_list(&k->cluster.waiters);
	return true;
}

void tilecpu_cluster_sync(TileCpuThread *t, uint32_t line)
{
	Thread *self = thread_of(t);
	Worker *k = self->cta->worker;

	sync_release_and_stay(self, &k->cluster.sync);
	k->cluster.arrived++;
	if (cluster_settle(k))
		schedule_in_order(self);
	else
		gather(self, &k->cluster, WAIT_CLUSTER, 0, line);
	sync_acquire(self, &k->cluster.sync);
}
