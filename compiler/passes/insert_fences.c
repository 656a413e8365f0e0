/* insert_fences - needs: products and copies as elaborated or selected.
 * Establishes: {async_use=1} on shared tiles that TMA, bulk copies or wgmma
 * touch; a fence_async {auto=1} between a team's generic writes to such a tile
 * and what releases them or uses them asynchronously. */
#include "compiler/analysis/bits.h"
#include "compiler/passes/pass.h"

/* Sets are of shared storages: number i is the i-th tile with storage of its own. */
typedef struct Fencer {
	Tir *t;
	int *number;   /* by the id of such a tile */
	Bits async;    /* storages of tiles with {async_use} */
	Bits cp_async; /* those that cp_async writes, too */
	bool insert;
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

/* The storage that op writes by ordinary stores, or -1. */
static int generic_write(const Fencer *f, const Op *op)
{
	Effect e[MAX_EFFECTS];
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		if (e[i].writes && !e[i].async && e[i].tile.space == TY_SHARED)
			return storage_of(f, &e[i].tile);
	return -1;
}

/* ---- flow: `dirty` holds the storages written since the last fence ---- */

static void flow(Fencer *f, Region *r, Bits *dirty);

static void fence_before(Fencer *f, Op *op, Bits *dirty)
{
	if (f->insert) {
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
static void flow_once(Fencer *f, Op *op, Bits *dirty)
{
	Search s = { .f = f, .dirty = dirty };
	if (!bits_empty(dirty))
		tir_walk(op->regions[0], search_fence, &s);
	if (s.found)
		fence_before(f, op, dirty);
	Bits before = bits_copy(f->t->arena, dirty);
	flow(f, op->regions[0], dirty);
	bits_join(dirty, &before);
}

/* dirty before the first round -> dirty at the head of every round */
static void loop_head(Fencer *f, Op *op, Bits *dirty)
{
	bool insert = f->insert, grown = true;
	f->insert = false;
	while (grown) {
		Bits round = bits_copy(f->t->arena, dirty);
		flow(f, op->regions[0], &round);
		if (op->code == OP_WHILE)
			flow(f, op->regions[1], &round);
		grown = bits_join(dirty, &round);
	}
	f->insert = insert;
}

static void flow_loop(Fencer *f, Op *op, Bits *dirty)
{
	loop_head(f, op, dirty);
	Bits head = bits_copy(f->t->arena, dirty);
	flow(f, op->regions[0], dirty);
	if (op->code != OP_WHILE) {
		bits_join(dirty, &head);
		return;
	}
	Bits body = bits_copy(f->t->arena, dirty); /* a while is left after its condition */
	flow(f, op->regions[1], &body);
}

static void flow_arms(Fencer *f, Op *op, Bits *dirty)
{
	Bits other = bits_copy(f->t->arena, dirty);
	flow(f, op->regions[0], dirty);
	if (op->regions[1])
		flow(f, op->regions[1], &other);
	bits_join(dirty, &other);
}

static void flow_op(Fencer *f, Op *op, Bits *dirty)
{
	switch (op->code) {
	case OP_FOR: case OP_WHILE: flow_loop(f, op, dirty); return;
	case OP_ONCE: flow_once(f, op, dirty); return;
	case OP_PARALLEL: flow(f, op->regions[0], dirty); return;
	case OP_IF: case OP_ROLE: flow_arms(f, op, dirty); return;
	case OP_FENCE_ASYNC: case OP_UNFENCED: bits_clear(dirty); return;
	case OP_CP_ASYNC_WAIT: bits_join(dirty, &f->cp_async); return; /* generic writes, which are there from here on */
	default: break;
	}
	if (needs_fence(f, op, dirty))
		fence_before(f, op, dirty);
	int written = op->code == OP_CP_ASYNC ? -1 : generic_write(f, op); /* those of cp_async are there when it was waited for */
	if (written >= 0 && bits_has(&f->async, written))
		bits_add(dirty, written);
}

static void flow(Fencer *f, Region *r, Bits *dirty)
{
	for (Op *op = r->first; op; op = op->next)
		flow_op(f, op, dirty);
}

/* ---- the kernel ---- */

static bool collect_async(Op *op, void *user)
{
	Fencer *f = user;
	Effect e[MAX_EFFECTS];
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		if (e[i].async)
			bits_add(&f->async, storage_of(f, &e[i].tile));
	if (op->code == OP_CP_ASYNC && generic_write(f, op) >= 0)
		bits_add(&f->cp_async, generic_write(f, op));
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
	Fencer f = { .t = t, .number = ARENA_ARRAY(t->arena, int, t->next_id + 1), .insert = true };
	for (Op *k = t->first; k; k = k->next) {
		int n = number_storages(&f, k->regions[0]);
		Bits dirty = bits_new(t->arena, n);
		f.async = bits_new(t->arena, n);
		f.cp_async = bits_new(t->arena, n);
		tir_walk(k->regions[0], collect_async, &f);
		mark_async(&f, k->regions[0]);
		bits_meet(&f.cp_async, &f.async);
		flow(&f, k->regions[0], &dirty);
	}
	return true;
}
