/* insert_fences - needs: products and copies as elaborated or selected.
 * Establishes: {async_use=1} on shared tiles that TMA, bulk copies or wgmma
 * touch; a fence_async {auto=1} between a team's generic writes to such a tile
 * and what releases them or uses them asynchronously. */
#include "compiler/passes/pass.h"

#include <string.h>

/* A set of shared storages: bit i is tiles[i], which is a root. */
enum { MAX_TILES = 256, SET_WORDS = MAX_TILES / 64 };
typedef struct Set { uint64_t w[SET_WORDS]; } Set;

typedef struct Fencer {
	Tir *t;
	const Op *tiles[MAX_TILES];
	int ntiles;
	Set async; /* storages of tiles with {async_use} */
	Set cp_async; /* those that cp_async writes */
	bool insert;
} Fencer;

static bool set_empty(const Set *s)
{
	uint64_t any = 0;
	for (int i = 0; i < SET_WORDS; i++)
		any |= s->w[i];
	return !any;
}

static Set set_join(Set a, const Set *b)
{
	for (int i = 0; i < SET_WORDS; i++)
		a.w[i] |= b->w[i];
	return a;
}

static bool set_has(const Set *s, int bit)
{
	return bit >= 0 && (s->w[bit / 64] >> (bit % 64) & 1);
}

/* The number of the storage of v, -1 when v is not shared. */
static int storage_of(Fencer *f, const Value *v)
{
	TileRef r = tile_ref(v);
	if (r.space != TY_SHARED)
		return -1;
	const Op *root = shared_root(r.object);
	for (int i = 0; i < f->ntiles; i++)
		if (f->tiles[i] == root)
			return i;
	if (f->ntiles == MAX_TILES)
		return -1;
	f->tiles[f->ntiles] = root;
	return f->ntiles++;
}

static void set_add(Set *s, int bit)
{
	if (bit >= 0)
		s->w[bit / 64] |= (uint64_t)1 << (bit % 64);
}

/* ---- who touches shared memory how ---- */

/* Storages that op reads or writes through the async proxy. */
static Set async_uses(Fencer *f, const Op *op)
{
	Set s = { { 0 } };
	switch (op->code) {
	case OP_TMA_LOAD: case OP_BULK_LOAD: set_add(&s, storage_of(f, op->args[1])); break;
	case OP_TMA_STORE: case OP_BULK_STORE: set_add(&s, storage_of(f, op->args[0])); break;
	case OP_MMA:
		if (mma_is_wgmma(op)) {
			set_add(&s, storage_of(f, op->args[1]));
			set_add(&s, storage_of(f, op->args[2]));
		}
		break;
	default: break;
	}
	return s;
}

/* The storage that op writes by ordinary stores, or -1. */
static int generic_write(Fencer *f, const Op *op)
{
	switch (op->code) {
	case OP_STORE: case OP_ATOMIC: case OP_COPY: return storage_of(f, op->args[1]);
	case OP_FILL: return storage_of(f, op->args[0]);
	default: return -1;
	}
}

static bool is_release(const Op *op)
{
	return op->code == OP_ARRIVE || op->code == OP_SYNC || op->code == OP_SYNC_ARRIVE || op->code == OP_CLUSTER_SYNC;
}

/* ---- flow ---- */

static Set flow(Fencer *f, Region *r, Set dirty);

static void fence_before(Fencer *f, Op *op, Set *dirty)
{
	if (f->insert) {
		Op *fence = tir_op(f->t, OP_FENCE_ASYNC, op->loc, type_none(), 0, NULL);
		attr_set_int(f->t, fence, "auto", 1);
		tir_insert_before(op, fence);
	}
	*dirty = (Set){ { 0 } };
}

static bool needs_fence(Fencer *f, const Op *op, const Set *dirty)
{
	if (set_empty(dirty))
		return false;
	if (is_release(op))
		return true;
	Set used = async_uses(f, op);
	for (int i = 0; i < SET_WORDS; i++)
		if (used.w[i] & dirty->w[i])
			return true;
	return false;
}

typedef struct Search {
	Fencer *f;
	const Set *dirty;
	bool found;
} Search;

static bool search_fence(Op *op, void *user)
{
	Search *s = user;
	s->found |= needs_fence(s->f, op, s->dirty);
	return !s->found;
}

/* A fence inside `once` is one thread's: what the team wrote is fenced before it. */
static Set flow_once(Fencer *f, Op *op, Set dirty)
{
	Search s = { .f = f, .dirty = &dirty };
	if (!set_empty(&dirty))
		tir_walk(op->regions[0], search_fence, &s);
	if (s.found)
		fence_before(f, op, &dirty);
	Set after = flow(f, op->regions[0], dirty);
	return set_join(after, &dirty);
}

/* dirty before the first round -> dirty at the head of every round */
static Set loop_head(Fencer *f, Op *op, Set dirty)
{
	bool insert = f->insert;
	f->insert = false;
	for (;;) {
		Set round = flow(f, op->regions[0], dirty);
		if (op->code == OP_WHILE)
			round = flow(f, op->regions[1], round);
		Set next = set_join(dirty, &round);
		if (memcmp(&next, &dirty, sizeof next) == 0)
			break;
		dirty = next;
	}
	f->insert = insert;
	return dirty;
}

static Set flow_loop(Fencer *f, Op *op, Set dirty)
{
	Set head = loop_head(f, op, dirty);
	Set out = flow(f, op->regions[0], head);
	if (op->code == OP_WHILE) {
		flow(f, op->regions[1], out);
		return out; /* leaves after its condition */
	}
	return set_join(head, &out);
}

static Set flow_op(Fencer *f, Op *op, Set dirty)
{
	switch (op->code) {
	case OP_FOR: case OP_WHILE: return flow_loop(f, op, dirty);
	case OP_ONCE: return flow_once(f, op, dirty);
	case OP_PARALLEL: return flow(f, op->regions[0], dirty);
	case OP_IF: case OP_ROLE: {
		Set then = flow(f, op->regions[0], dirty);
		Set other = op->regions[1] ? flow(f, op->regions[1], dirty) : dirty;
		return set_join(then, &other);
	}
	case OP_FENCE_ASYNC: return (Set){ { 0 } };
	case OP_CP_ASYNC_WAIT: return set_join(dirty, &f->cp_async); /* generic writes, which are there from here on */
	default: break;
	}
	if (needs_fence(f, op, &dirty))
		fence_before(f, op, &dirty);
	int written = generic_write(f, op);
	if (set_has(&f->async, written))
		set_add(&dirty, written);
	return dirty;
}

static Set flow(Fencer *f, Region *r, Set dirty)
{
	for (Op *op = r->first; op; op = op->next)
		dirty = flow_op(f, op, dirty);
	return dirty;
}

/* ---- the kernel ---- */

static bool collect_async(Op *op, void *user)
{
	Fencer *f = user;
	Set s = async_uses(f, op);
	f->async = set_join(f->async, &s);
	if (op->code == OP_CP_ASYNC)
		set_add(&f->cp_async, storage_of(f, op->args[1]));
	return op->code != OP_PARALLEL;
}

static bool mark_async(Op *op, void *user)
{
	Fencer *f = user;
	if (op->code == OP_SHARED && set_has(&f->async, storage_of(f, op->result)))
		attr_set_int(f->t, op, "async_use", 1);
	return false; /* shared tiles are declared at the top */
}

bool pass_insert_fences(Tir *t)
{
	for (Op *k = t->first; k; k = k->next) {
		Fencer f = { .t = t, .insert = true };
		tir_walk(k->regions[0], collect_async, &f);
		tir_walk(k->regions[0], mark_async, &f);
		for (int i = 0; i < SET_WORDS; i++)
			f.cp_async.w[i] &= f.async.w[i];
		flow(&f, k->regions[0], (Set){ { 0 } });
	}
	return true;
}
