/* report.c - the texts of errors: where, which role, and for a deadlock what everybody waits for. */
#include "runtime/cpu/cta.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

/* Whether a role of this name has several instances. */
static bool has_instances(const Thread *t)
{
	const Cta *c = t->cta;

	for (uint32_t i = 0; i < c->worker->nthreads; i++)
		if (c->threads[i].role && c->threads[i].instance && !strcmp(c->threads[i].role, t->role))
			return true;
	return false;
}

static void role_name(const Thread *t, char *text, size_t size)
{
	if (!t->role)
		snprintf(text, size, "no role");
	else if (has_instances(t))
		snprintf(text, size, "role %s[%u]", t->role, t->instance);
	else
		snprintf(text, size, "role %s", t->role);
}

const char *report_who(const Thread *t, char *text, size_t size)
{
	char role[ROLE_SIZE];

	role_name(t, role, sizeof role);
	snprintf(text, size, "%s, warp %u", role, t->warp->index);
	return text;
}

/* NULL: there is none of this number. */
static const char *file_name(const TileCpuLaunch *l, uint32_t file)
{
	const char *name = l->files;

	for (; name && *name && file; file--)
		name += strlen(name) + 1;
	return name && *name ? name : NULL;
}

static const char *text_or(const char *text, const char *otherwise)
{
	return text && *text ? text : otherwise;
}

LineText line_text(const Worker *k, uint32_t line)
{
	enum { ROOM = sizeof(LineText) - sizeof "line 1048575 of ..." };
	const char *name = file_name(k->launch, line >> TILE_CPU_FILE_SHIFT);
	uint32_t number = line & ((1u << TILE_CPU_FILE_SHIFT) - 1);
	size_t length = name ? strlen(name) : 0;
	LineText x;

	if (name && file_name(k->launch, 1)) /* what tells files apart is at the end */
		snprintf(x.text, sizeof x.text, "line %u of %s%s", number, length > ROOM ? "..." : "", length > ROOM ? name + length - ROOM : name);
	else
		snprintf(x.text, sizeof x.text, "line %u", number);
	return x;
}

/* ---- one error ---- */

void tilecpu_role(TileCpuThread *t, const char *name, uint32_t instance, uint32_t line)
{
	Thread *self = thread_of(t);

	self->role = name;
	self->instance = instance;
	self->role_line = line;
}

static void record(Worker *k, const Thread *t, uint32_t line, const char *format, va_list args)
{
	const TileCpuLaunch *l = k->launch;
	const uint32_t *block = t ? t->cta->block : k->ctas[0].block;
	char text[1024], who[96] = "";

	if (k->failed)
		return;
	k->failed = true;
	vsnprintf(text, sizeof text, format, args);
	if (t)
		report_who(t, who, sizeof who);
	snprintf(k->error, sizeof k->error, "%s:%u: kernel %s, CTA (%u, %u, %u), %s: %s",
		text_or(line >> TILE_CPU_FILE_SHIFT ? file_name(l, line >> TILE_CPU_FILE_SHIFT) : l->source_name, "?"),
		line & ((1u << TILE_CPU_FILE_SHIFT) - 1),
		text_or(l->kernel_name, "?"), block[0], block[1], block[2], who, text);
}

void report_error(Worker *k, Thread *t, uint32_t line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	record(k, t, line, format, args);
	va_end(args);
	if (k->current)
		schedule_abandon(k->current);
}

void report_fail(Thread *t, uint32_t line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	record(t->cta->worker, t, line, format, args);
	va_end(args);
	schedule_abandon(t);
}

void report_memory(Worker *k)
{
	k->failed = k->no_memory = true;
	snprintf(k->error, sizeof k->error, OUT_OF_MEMORY);
	if (k->current)
		schedule_abandon(k->current);
	longjmp(k->begin, 1);
}

void tilecpu_fail(TileCpuThread *t, const char *text, uint32_t line)
{
	report_fail(thread_of(t), line, "%s", text);
}

void tilecpu_fail_outside(TileCpuThread *t, const char *what, int32_t i, int64_t n, uint32_t line)
{
	report_fail(thread_of(t), line, "%s is %d, outside 0 to %lld", what, i, (long long)n - 1);
}

void tilecpu_check_bounds(TileCpuThread *t, const char *name, uint32_t dims, const int64_t *bounds, int64_t more, uint32_t line)
{
	uint32_t rank = dims >> 8;

	if (dims == UINT32_MAX)
		report_fail(thread_of(t), line, "the optional tensor '%s' is not given", name);
	for (uint32_t d = 0, look = dims & 0xff; look; d++, look >>= 1) {
		int64_t first = bounds[d], last = first + (look == 1 ? more : 0), extent = bounds[rank + d];
		bool low = (uint64_t)first < (uint64_t)extent;

		if (look & 1 && (!low || (uint64_t)last >= (uint64_t)extent))
			report_fail(thread_of(t), line, "index %lld of dimension %u of '%s' is out of bounds: the extent is %lld",
				(long long)(low ? last : first), d, name, (long long)extent);
	}
}

void tilecpu_interrupted(TileCpuThread *t, uint32_t line)
{
	const TileCpuLaunch *l = thread_of(t)->cta->worker->launch;

	report_fail(thread_of(t), line, "the loop of this line has run for %g seconds without coming to a barrier", l->timeout);
}

void text_add(Text *x, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(x->at, (size_t)(x->end - x->at), format, args);
	va_end(args);
	x->at = n < x->end - x->at ? x->at + n : x->end - 1;
}

/* ---- deadlock ---- */

static bool same_state(const Thread *a, const Thread *b)
{
	return a->role == b->role && a->instance == b->instance && a->wait == b->wait
		&& (a->wait == WAIT_DONE
			|| (a->wait_line == b->wait_line && a->wait_object == b->wait_object && a->wait_parity == b->wait_parity));
}

static void add_mbarrier(Text *x, Thread *t)
{
	const Mbarrier *b = mbarrier_at(t, t->cta, t->wait_object, t->wait_line);

	char name[NAME_SIZE];

	text_add(x, "waits for mbarrier %s, parity %u: phase %u lacks %u of %u arrivals", mbarrier_name(b, name, sizeof name), t->wait_parity, b->phase,
		b->pending, b->count);
	if (b->tx)
		text_add(x, " and %lld bytes", (long long)b->tx);
}

static void add_product(Text *x, const Thread *t)
{
	const Cta *c = t->cta;
	const Thread *group = c->threads + t->abi.thread / WARPGROUP * WARPGROUP;
	const char *separator = " of warps ";

	text_add(x, "waits for a wgmma that not all threads of the warpgroup have issued: it lacks those");
	for (uint32_t w = 0; w < WARPGROUP / WARP; w++) {
		bool all = true;

		for (uint32_t i = 0; i < WARP; i++)
			all = all && group[w * WARP + i].products >= t->wait_object;
		if (!all) {
			text_add(x, "%s%u", separator, group[w * WARP].warp->index);
			separator = ", ";
		}
	}
}

static void add_wait(Text *x, Thread *t)
{
	const Cta *c = t->cta;
	const Worker *k = c->worker;
	const NamedBarrier *b = &c->barriers[t->wait == WAIT_BARRIER ? t->wait_object : 0];
	char name[NAME_SIZE];

	switch (t->wait) {
	case WAIT_MBARRIER:
		add_mbarrier(x, t);
		break;
	case WAIT_BARRIER:
		text_add(x, "waits at %s: %u of %u threads have come", barrier_name(b->name, t->wait_object, name, sizeof name), b->arrived, b->threads);
		break;
	case WAIT_CLUSTER:
		text_add(x, "waits at cluster_sync: %u of %u threads have come", k->cluster.arrived, k->live);
		break;
	case WAIT_WARP:
		text_add(x, "waits for the other lanes in %s: %u of %u have come", t->wait_name, t->warp->meet.count, t->warp->size);
		break;
	case WAIT_PRODUCT:
		add_product(x, t);
		break;
	default:
		text_add(x, "has ended");
	}
}

/* Warps of the CTA whose threads stand as t does; what is listed is marked in `listed`, a bit per thread. */
static void add_warps(Text *x, const Thread *t, uint32_t listed[MAX_WARPS])
{
	const Cta *c = t->cta;
	uint32_t first = t->warp->index, last = first, lanes = 0;

	for (uint32_t w = first; w < c->worker->nwarps; w++) {
		uint32_t here = 0;

		for (uint32_t i = 0; i < c->warps[w].size; i++)
			if (!(listed[w] >> i & 1) && same_state(t, &c->warps[w].threads[i]))
				here |= 1u << i;
		if (!here || (w > first && here != lanes))
			break;
		lanes = here;
		last = w;
		listed[w] |= here;
	}
	if (last == first)
		text_add(x, "warp %u", first);
	else
		text_add(x, "warps %u-%u", first, last);
	if (lanes != (c->warps[first].size == WARP ? UINT32_MAX : (1u << c->warps[first].size) - 1)) {
		if (lanes & (lanes - 1))
			text_add(x, " lanes %08x", lanes);
		else
			text_add(x, " lane %d", __builtin_ctz(lanes));
	}
}

/* As many whole lines as there is room for; returns how many there was none for. */
static unsigned add_cta(Text *x, const Cta *c)
{
	uint32_t listed[MAX_WARPS] = { 0 };
	unsigned left_out = 0;

	for (uint32_t i = 0; i < c->worker->nthreads; i++) {
		Thread *t = &c->threads[i];
		char role[ROLE_SIZE], text[512];
		Text line = { text, text + sizeof text };

		if (listed[i / WARP] >> i % WARP & 1)
			continue;
		role_name(t, role, sizeof role);
		text_add(&line, "\n  %s, ", role);
		if (c->worker->nctas > 1)
			text_add(&line, "CTA rank %u, ", t->abi.cluster_rank);
		add_warps(&line, t, listed);
		if (t->wait != WAIT_DONE)
			text_add(&line, ", %s", line_text(c->worker, t->wait_line).text);
		text_add(&line, ": ");
		add_wait(&line, t);
		if (left_out || line.at - text >= x->end - x->at)
			left_out++;
		else
			text_add(x, "%s", text);
	}
	return left_out;
}

void report_deadlock(Worker *k)
{
	enum { ROOM_FOR_COUNT = 48 };
	const TileCpuLaunch *l = k->launch;
	const uint32_t *block = k->ctas[0].block;
	const size_t size = l->error_size && l->error_size < sizeof k->error ? l->error_size : sizeof k->error;
	Text x = { k->error, k->error + (size > ROOM_FOR_COUNT ? size - ROOM_FOR_COUNT : size) };
	unsigned left_out = 0;

	k->failed = true;
	k->error[0] = '\0';
	text_add(&x, "%s: kernel %s, CTA (%u, %u, %u): deadlock, every thread waits", text_or(l->source_name, "?"), text_or(l->kernel_name, "?"), block[0],
		block[1], block[2]);
	for (uint32_t i = 0; i < k->nctas; i++)
		left_out += add_cta(&x, &k->ctas[i]);
	x.end = k->error + size;
	if (left_out)
		text_add(&x, "\n  and %u more groups of warps", left_out);
}
