/* mbarrier.c - mbarriers: arrivals, transaction bytes, phases, waits by parity. */
#include "runtime/cpu/cta.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TX = (1 << 20) - 1 };

const char *mbarrier_name(const Mbarrier *b, char *text, size_t size)
{
	if (!b->name)
		snprintf(text, size, "+%u", b->offset);
	else if (b->slot == (uint32_t)NO_SLOT)
		snprintf(text, size, "%s", b->name);
	else
		snprintf(text, size, "%s[%u]", b->name, b->slot);
	return text;
}

Mbarrier *mbarrier_at(Thread *t, const Cta *c, uint32_t offset, uint32_t line)
{
	uint32_t i;

	check_shared(t, "mbarrier", offset, 8, 8, line);
	i = c->mbarrier_at[offset / 8];
	if (!i)
		report_fail(t, line, "mbarrier +%u is used before its initialisation", offset);
	return &c->mbarriers[i - 1];
}

void tilecpu_mbar_init(TileCpuThread *t, uint32_t bar, uint32_t count, const char *name, uint32_t slot)
{
	Thread *self = thread_of(t);
	Cta *c = self->cta;
	Mbarrier *b;

	check_shared(self, "mbarrier", bar, 8, 8, self->role_line);
	if (count == 0 || count > MAX_TX)
		report_fail(self, self->role_line, "mbarrier +%u is initialised with a count of %u", bar, count);
	if (!c->mbarrier_at[bar / 8]) {
		if (c->nmbarriers == MAX_MBARRIERS)
			report_fail(self, self->role_line, "more than %d mbarriers", MAX_MBARRIERS);
		c->mbarrier_at[bar / 8] = (uint16_t)++c->nmbarriers;
	}
	b = &c->mbarriers[c->mbarrier_at[bar / 8] - 1];
	memset(b, 0, sizeof *b);
	b->name = name;
	b->slot = slot;
	b->component = clock_new_component(c->worker);
	b->offset = bar;
	b->count = b->pending = count;
}

/* ---- phases ---- */

/* by_lanes: one lane of the warp has gone on, and it is the others that may still wait. */
static void overrun(const Mbarrier *b, Thread *waiter, uint32_t wait_line, bool by_lanes, uint32_t line)
{
	Worker *k = waiter->cta->worker;
	char who[NAME_SIZE], name[NAME_SIZE];

	mbarrier_name(b, name, sizeof name);
	report_who(waiter, who, sizeof who);
	if (by_lanes)
		report_error(k, waiter, line, "phase %u of mbarrier %s completes while other lanes of %s may still be waiting at %s: a sync() behind that wait is missing",
			b->phase, name, who, line_text(k, wait_line).text);
	else if (b->phase)
		report_error(k, waiter, line, "phase %u of mbarrier %s completes while %s may still be waiting for phase %u at %s: its parity wait can miss the phase",
			b->phase, name, who, b->phase - 1, line_text(k, wait_line).text);
	else
		report_error(k, waiter, line,
			"phase 0 of mbarrier %s completes while %s may not yet have come to %s: its wait for parity 1 passes before that, later it waits for phase 1",
			name, who, line_text(k, wait_line).text);
}

static void overrun_now(const Cta *c, const Mbarrier *b, uint32_t line)
{
	Thread *t = c->threads;

	while (t->wait != WAIT_NONE || t->released_by != b)
		t++;
	overrun(b, t, t->wait_line, false, line);
}

/* Of the waits of a warp for the last phase that it has waited for. */
typedef enum WaitFact { LAST_TIME, FIRST_TIME, LINE, PHASES /* complete by then */ } WaitFact;

static uint32_t *wait_fact(const Worker *k, const Mbarrier *b, uint32_t warp, WaitFact fact)
{
	return clock_row(k, b->waited) + COMPONENT_WARPS + fact * k->nctas * k->nwarps + warp;
}

static void remember_wait(Thread *t, Mbarrier *b, uint32_t line)
{
	Worker *k = t->cta->worker;
	uint32_t warp = (uint32_t)(t->warp - k->warps), time;

	if (!k->races)
		return;
	if (!b->waited)
		b->waited = clock_new(k);
	time = clock_now(t);
	if (!*wait_fact(k, b, warp, LAST_TIME) || *wait_fact(k, b, warp, PHASES) != b->phase)
		*wait_fact(k, b, warp, FIRST_TIME) = time;
	*wait_fact(k, b, warp, LAST_TIME) = time;
	*wait_fact(k, b, warp, LINE) = line;
	*wait_fact(k, b, warp, PHASES) = b->phase;
}

/* At another schedule, too: those who wait for the phase before have done so before the arrivals of this one. */
static void check_overrun(const Cta *c, const Mbarrier *b, uint32_t line)
{
	const Worker *k = c->worker;
	uint32_t n = k->nctas * k->nwarps;
	const uint32_t *coming = clock_row(k, b->sync.coming) + COMPONENT_WARPS;

	for (uint32_t i = 0; b->waited && i < n; i++) {
		if (*wait_fact(k, b, i, LAST_TIME) > coming[i]) {
			overrun(b, k->warps[i].threads, *wait_fact(k, b, i, LINE), *wait_fact(k, b, i, FIRST_TIME) <= coming[i], line);
			return;
		}
	}
}

static void release_waiters(Mbarrier *b)
{
	for (Thread *t = b->waiters; t; t = t->next) {
		t->released_by = b;
		b->released++;
	}
	schedule_wake_list(&b->waiters);
}

/* Bytes announced behind the arrival of those who announce them could come too late for the phase. */
static void check_announced(Cta *c, const Mbarrier *b)
{
	const Worker *k = c->worker;
	char name[NAME_SIZE];

	for (uint32_t i = 0; i < b->nannounced; i++) {
		const Announcement *a = &b->announced[i];

		if (clock_row(k, b->sync.coming)[a->component] < a->time)
			report_error(c->worker, a->by, a->line,
				"the bytes of this line are announced to phase %u of mbarrier %s after the arrival at %s: the phase can complete without them",
				b->phase, mbarrier_name(b, name, sizeof name), line_text(k, b->last_line).text);
	}
}

/* What check_wait asks of the phase that is now the one before the last. */
static void remember_phase(Worker *k, Mbarrier *b)
{
	b->brought[1] = b->brought[0];
	b->brought[0] = b->brings;
	b->brings = false;
	if (!k->races || !b->phase)
		return;
	if (!b->before)
		b->before = clock_new(k);
	memcpy(clock_row(k, b->before), clock_row(k, b->sync.done), k->clocks.ncomponents * sizeof(uint32_t));
}

/* Ends the phase when everything it waits for has come. */
static void settle(Cta *c, Mbarrier *b, Thread *by, uint32_t line)
{
	char name[NAME_SIZE];

	if (b->pending)
		return;
	if (b->tx < 0) {
		report_error(c->worker, by, line, "phase %u of mbarrier %s has all its arrivals, and %lld bytes more than were announced",
			b->phase, mbarrier_name(b, name, sizeof name), (long long)-b->tx);
		return;
	}
	if (b->tx)
		return;
	if (b->loads) {
		report_error(c->worker, by, line, "phase %u of mbarrier %s completes while %u loads bound to it are in flight: their bytes were not announced in this phase",
			b->phase, mbarrier_name(b, name, sizeof name), b->loads);
		return;
	}
	if (b->released) {
		overrun_now(c, b, line);
		return;
	}
	check_overrun(c, b, line);
	check_announced(c, b);
	remember_phase(c->worker, b);
	b->phase++;
	b->pending = b->count;
	b->nannounced = 0;
	sync_complete(c->worker, &b->sync, b->component, b->phase);
	release_waiters(b);
}

/* Whether t knows that the last phase but `back` is complete: it has been waited for, or had arrivals only, and all of them came before. */
static bool knows_phase(const Thread *t, const Mbarrier *b, uint32_t back)
{
	return b->phase <= back || clock_known(t, b->component) >= b->phase - back || (!b->brought[back] && clock_knows(t, back ? b->before : b->sync.done));
}

/* At another schedule, too: whoever waits for a phase knows that the one before is complete, or the parity could be that of the one before it. */
static void check_wait(Thread *t, const Mbarrier *b, bool passes, uint32_t line)
{
	uint32_t phase = b->phase - passes;
	char name[NAME_SIZE], earlier[128] = "passes at once";

	if (!t->cta->worker->races || knows_phase(t, b, passes))
		return;
	if (phase > 1)
		snprintf(earlier, sizeof earlier, "is one for phase %u; if it is meant to be that, nothing orders the arrivals of phase %u after it", phase - 2, phase - 1);
	report_fail(t, line, "nothing orders this wait for phase %u of mbarrier %s after the end of phase %u: where it comes earlier it %s",
		phase, mbarrier_name(b, name, sizeof name), phase - 1, earlier);
}

/* At another schedule, too: whoever arrives knows that the phase before is complete, or the arrival could count for that one. */
static void check_arrival(Thread *t, const Mbarrier *b, uint32_t line)
{
	char name[NAME_SIZE];

	if (!t->cta->worker->races)
		return;
	clock_now(t); /* arrivals are told apart, too */
	if (knows_phase(t, b, 0))
		return;
	report_fail(t, line, "nothing orders this arrival at mbarrier %s after the end of phase %u: where it comes earlier it counts for that phase",
		mbarrier_name(b, name, sizeof name), b->phase - 1);
}

static void arrive(Thread *t, Cta *c, Mbarrier *b, uint32_t line)
{
	char name[NAME_SIZE];

	if (!b->pending)
		report_fail(t, line, "too many arrivals on mbarrier %s: phase %u has had all %u (the last at %s) and waits for %lld bytes",
			mbarrier_name(b, name, sizeof name), b->phase, b->count, line_text(c->worker, b->last_line).text, (long long)b->tx);
	check_arrival(t, b, line);
	sync_release(t, &b->sync);
	b->pending--;
	b->last_line = line;
	settle(c, b, t, line);
}

static void remember_announcement(Thread *t, Mbarrier *b, uint32_t line)
{
	Announcement a = { .component = clock_component(t->warp, COMPONENT_ACCESSES), .time = clock_now(t), .line = line, .by = t };
	uint32_t i = 0;

	while (i < b->nannounced && b->announced[i].component != a.component)
		i++;
	if (i == sizeof b->announced / sizeof *b->announced)
		return; /* so many warps announce to one phase: the first few are followed */
	b->announced[i] = a;
	b->nannounced += i == b->nannounced;
}

static void expect(Thread *t, Mbarrier *b, uint32_t bytes, uint32_t line)
{
	char name[NAME_SIZE];

	b->tx += bytes;
	b->brings |= bytes != 0;
	if (b->tx > MAX_TX)
		report_fail(t, line, "mbarrier %s would wait for %lld bytes; the limit is %d", mbarrier_name(b, name, sizeof name), (long long)b->tx, MAX_TX);
	if (t->cta->worker->races && bytes)
		remember_announcement(t, b, line);
}

void mbarrier_complete_tx(Cta *c, Mbarrier *b, uint32_t bytes, const Thread *issuer, uint32_t line)
{
	b->tx -= bytes;
	b->loads--;
	settle(c, b, &c->threads[issuer->abi.thread], line);
}

/* ---- called by kernels ---- */

void tilecpu_mbar_arrive(TileCpuThread *t, uint32_t bar, uint32_t line)
{
	Thread *self = thread_of(t);

	arrive(self, self->cta, mbarrier_at(self, self->cta, bar, line), line);
}

void tilecpu_mbar_arrive_at(TileCpuThread *t, uint32_t bar, uint32_t rank, uint32_t line)
{
	Thread *self = thread_of(t);
	Worker *k = self->cta->worker;

	if (rank >= k->nctas)
		report_fail(self, line, "arrives at CTA %d of a cluster of %u", (int32_t)rank, k->nctas);
	arrive(self, &k->ctas[rank], mbarrier_at(self, &k->ctas[rank], bar, line), line);
}

void tilecpu_mbar_expect_tx(TileCpuThread *t, uint32_t bar, uint32_t bytes, uint32_t line)
{
	Thread *self = thread_of(t);
	Mbarrier *b = mbarrier_at(self, self->cta, bar, line);

	expect(self, b, bytes, line);
	settle(self->cta, b, self, line);
}

void tilecpu_mbar_arrive_expect_tx(TileCpuThread *t, uint32_t bar, uint32_t bytes, uint32_t line)
{
	Thread *self = thread_of(t);
	Mbarrier *b = mbarrier_at(self, self->cta, bar, line);

	expect(self, b, bytes, line);
	arrive(self, self->cta, b, line);
}

void tilecpu_mbar_wait(TileCpuThread *t, uint32_t bar, uint32_t parity, uint32_t line)
{
	Thread *self = thread_of(t);
	Mbarrier *b = mbarrier_at(self, self->cta, bar, line);
	char name[NAME_SIZE];

	if (parity > 1)
		report_fail(self, line, "a wait for mbarrier %s with parity %d, which is neither 0 nor 1", mbarrier_name(b, name, sizeof name), (int)parity);
	schedule_let_lanes_come(self);
	check_wait(self, b, (b->phase & 1) != parity, line);
	if ((b->phase & 1) == parity) {
		self->wait = WAIT_MBARRIER;
		self->wait_line = line;
		self->wait_object = bar;
		self->wait_parity = parity;
		self->next = b->waiters;
		b->waiters = self;
		schedule_block(self);
		self->released_by = NULL;
		b->released--;
	}
	sync_acquire(self, &b->sync);
	remember_wait(self, b, line);
}
