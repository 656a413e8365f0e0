/* insert_fences - needs: products and copies as elaborated or selected.
 * Establishes: {async_use=1} on shared tiles that TMA, bulk copies or wgmma
 * touch; a fence_async {auto=1} between a team's generic writes to such a tile
 * and what releases them or uses them asynchronously. */
#include "compiler/analysis/bits.h"
#include "compiler/analysis/flow.h"
#include "compiler/passes/pass.h"

/* Sets are of shared storages: number i is the i-th tile with storage of its own. */
typedef struct Fencer {
	Tir *t;
	int *number;   /* by the id of such a tile */
	Bits async;    /* storages of tiles with {async_use} */
	Bits cp_async; /* those that cp_async writes, too */
	Bits outside;  /* of the state: what was written outside roles, with which each role begins */
} Fencer;

/* The number of a tile's storage, -1 when it is not shared. */
static int storage_of(const Fencer *f, const TileRef *r)
{
	return r->space == TY_SHARED ? f->number[shared_root(r->object)->result->id] : -1;
}

/* ---- who touches shared memory how ---- */

/* Whether op touches one of these storages through the async proxy. */
static bool touches(const Fencer *f, const Op *op, const Bits *storages)
{
	Effect e[MAX_EFFECTS];
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		if (e[i].async && bits_has(storages, storage_of(f, &e[i].tile)))
			return true;
	return false;
}

/* The storage that op writes by ordinary stores, which are there from then on, or -1. */
static int generic_write(const Fencer *f, const Op *op, Until until)
{
	Effect e[MAX_EFFECTS];
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		if (e[i].writes && !e[i].async && e[i].until == until && e[i].tile.space == TY_SHARED)
			return storage_of(f, &e[i].tile);
	return -1;
}

/* ---- flow: `dirty` holds the storages written since the last fence ---- */

static void fence_before(const Fencer *f, const Flow *flow, Op *op, Bits *dirty)
{
	if (!flow->quiet) {
		Op *fence = tir_op(f->t, OP_FENCE_ASYNC, op->loc, type_none(), 0, NULL);
		attr_set_int(f->t, fence, AT_AUTO, 1);
		tir_insert_before(op, fence);
	}
	bits_clear(dirty);
}

static bool needs_fence(const Fencer *f, const Op *op, const Bits *dirty)
{
	return op_releases(op) ? !bits_empty(dirty) : touches(f, op, dirty);
}

typedef struct Search {
	const Fencer *f;
	const Bits *dirty;
	bool found;
} Search;

static bool search_fence(Op *op, void *user)
{
	Search *s = user;
	s->found |= needs_fence(s->f, op, s->dirty);
	return !s->found;
}

/* A fence inside `once` is one thread's: what the team wrote is fenced before it. */
static bool enter(Flow *flow, Op *op, void *state)
{
	Fencer *f = flow->user;
	Bits *dirty = state;
	Search s = { .f = f, .dirty = dirty };
	if (op->code == OP_ROLE)
		bits_assign(flow->arena, dirty, &f->outside);
	if (op->code != OP_ONCE || bits_empty(dirty))
		return true;
	tir_walk(op->regions[0], search_fence, &s);
	if (s.found)
		fence_before(s.f, flow, op, dirty);
	return true;
}

/* What other roles have written is theirs to fence, until all threads go on. */
static void leave(Flow *flow, Op *op, const void *before, void *state)
{
	Fencer *f = flow->user;
	if (op->code == OP_ROLE) {
		bits_join(state, before);
	} else if (!tir_enclosing(op, OP_ROLE)) {
		bits_assign(flow->arena, &f->outside, state);
		bits_join(&f->outside, before); /* of who does not execute it */
	}
}

static void write_or_release(Flow *flow, Op *op, Bits *dirty)
{
	const Fencer *f = flow->user;
	if (op->code == OP_FENCE_ASYNC || op->code == OP_UNFENCED) {
		bits_clear(dirty);
		return;
	}
	if (op_awaits(op) == UNTIL_COPIES) {
		bits_join(dirty, &f->cp_async);
		return;
	}
	if (needs_fence(f, op, dirty))
		fence_before(f, flow, op, dirty);
	int written = generic_write(f, op, UNTIL_PASSED);
	if (written >= 0 && bits_has(&f->async, written))
		bits_add(dirty, written);
}

static void pass_op(Flow *flow, Op *op, void *state)
{
	Fencer *f = flow->user;
	write_or_release(flow, op, state);
	if (!tir_enclosing(op, OP_ROLE))
		bits_assign(flow->arena, &f->outside, state);
}

static void copy_set(const Flow *flow, void *to, const void *from) { bits_assign(flow->arena, to, from); }

static bool join_sets(const Flow *flow, void *into, const void *other)
{
	(void)flow;
	return bits_join(into, other);
}

/* ---- the kernel ---- */

static bool collect_async(Op *op, void *user)
{
	Fencer *f = user;
	Effect e[MAX_EFFECTS];
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		if (e[i].async)
			bits_add(&f->async, storage_of(f, &e[i].tile));
	int copied = generic_write(f, op, UNTIL_COPIES);
	if (copied >= 0)
		bits_add(&f->cp_async, copied);
	return op->code != OP_PARALLEL;
}

/* Shared tiles are declared at the top. */
static int number_storages(Fencer *f, const Region *body)
{
	int n = 0;
	for (const Op *op = body->first; op; op = op->next)
		if (op->code == OP_SHARED && !op->nargs)
			f->number[op->result->id] = n++;
	return n;
}

static void mark_async(Fencer *f, const Region *body)
{
	for (Op *op = body->first; op; op = op->next)
		if (op->code == OP_SHARED && bits_has(&f->async, f->number[shared_root(op)->result->id]))
			attr_set_int(f->t, op, AT_ASYNC_USE, 1);
}

bool pass_insert_fences(Tir *t)
{
	Fencer f = { .t = t, .number = ARENA_ARRAY(t->arena, int, t->next_id + 1) };
	Flow flow = { .arena = t->arena, .user = &f, .size = sizeof(Bits), .copy = copy_set, .join = join_sets, .pass = pass_op, .enter = enter, .leave = leave };
	for (Op *k = t->first; k; k = k->next) {
		int n = number_storages(&f, k->regions[0]);
		Bits dirty = bits_new(t->arena, n);
		f.async = bits_new(t->arena, n);
		f.cp_async = bits_new(t->arena, n);
		f.outside = bits_new(t->arena, n);
		tir_walk(k->regions[0], collect_async, &f);
		mark_async(&f, k->regions[0]);
		bits_meet(&f.cp_async, &f.async);
		flow_run(&flow, k->regions[0], &dirty);
	}
	return true;
}
