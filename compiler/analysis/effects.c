/* effects.c - ops.def says which operands are read and written, effects.def by whom and until when; here is what
 * attributes change. */
#include "compiler/analysis/effects.h"

#include <string.h>

typedef enum Part { PART_NONE, PART_STARTS, PART_CLOSES, PART_AWAITS, PART_RELEASES } Part;
typedef struct Row { Doing doing; Part part; Until until; } Row;

static const Row table[OP_COUNT] = {
#define ALL false
#define ALONE true
#define EFFECT(op, doer, once, part, until, what) [op] = { { doer, once, what }, PART_##part, UNTIL_##until },
#include "compiler/analysis/effects.def"
#undef EFFECT
#undef ALONE
#undef ALL
};

static Until until_of(const Op *op, Part part)
{
	return table[op->code].part == part ? table[op->code].until : UNTIL_PASSED;
}

Until op_lasts(const Op *op)
{
	bool passed = op->code == OP_MMA && !(attr_int(op, AT_ASYNC, 0) && mma_is_wgmma(op));
	return passed ? UNTIL_PASSED : until_of(op, PART_STARTS);
}

Until op_awaits(const Op *op) { return until_of(op, PART_AWAITS); }
Until op_closes(const Op *op) { return until_of(op, PART_CLOSES); }
bool op_releases(const Op *op) { return table[op->code].part == PART_RELEASES; }

/* ---- operands ---- */

bool mma_is_wgmma(const Op *mma)
{
	const char *inst = attr_text(mma, AT_INST, NULL);
	if (inst)
		return strncmp(inst, "wgmma", 5) == 0;
	return !tile_ref(operand(mma, ARG_D)).warp_scope;
}

static void of_product(const Op *op, Effect *e)
{
	bool result = e->operand == operand_place(op, ARG_D);
	e->async = !result && mma_is_wgmma(op);
	if (result && attr_int(op, AT_ACC, 0) == 0) {
		e->reads = false;
		e->kills = true;
	}
}

static void with_attributes(const Op *op, Effect *e)
{
	if (op->code == OP_MMA)
		of_product(op, e);
	if (op->code == OP_STORE && attr_int(op, AT_MASKED, 0))
		e->kills = false;
	if (op->code == OP_TMA_STORE && attr_get(op, AT_REDUCE))
		e->kills &= !e->writes;
	e->async &= e->tile.space == TY_SHARED;
}

int op_effects(const Op *op, Effect out[MAX_EFFECTS])
{
	const char *text = op_info(op->code)->operands;
	Operand o;
	int n = 0;
	for (int i = 0; next_operand(&text, &o) && i < op->nargs; i += o.most) {
		if (!o.access || op->args[i]->type.kind < TY_TENSOR)
			continue;
		Effect e = { .operand = i, .tile = tile_ref(op->args[i]), .reads = o.access & ACCESS_READ, .writes = o.access & ACCESS_WRITE,
		             .async = o.async, .until = op_lasts(op) };
		e.kills = e.writes && !e.reads;
		with_attributes(op, &e);
		out[n++] = e;
	}
	return n;
}

/* ---- who ---- */

static bool of_warps(const Op *op)
{
	if (op->code == OP_PARALLEL || op->code == OP_VOTE)
		return attr_int(op, AT_WARP_SCOPE, 0);
	for (int i = 0; i < op->nargs; i++) {
		TypeKind k = op->args[i]->type.kind;
		if ((k == TY_FRAG || k == TY_VIEW_FRAG) && tile_ref(op->args[i]).warp_scope)
			return true;
	}
	return false;
}

/* An arrival or a sync at a barrier that counts by hand, with count(n). */
static bool counted_by_hand(const Op *op)
{
	bool at_barrier = op->nargs && (op->code == OP_ARRIVE || op->code == OP_SYNC || op->code == OP_SYNC_ARRIVE);
	return at_barrier && !attr_get(barrier_of(operand(op, ARG_BARRIER)), AT_FROM);
}

Doing op_doing(const Op *op)
{
	Doing d = table[op->code].doing;
	if (d.doer == EACH_THREAD)
		return d;
	bool counted = counted_by_hand(op);
	if (counted || of_warps(op))
		d.doer = WHOLE_WARP;
	if (op->code == OP_ARRIVE)
		d.alone = counted;
	if (attr_int(op, AT_MULTICAST, 0))
		d.doer = WHOLE_CLUSTER; /* each CTA of the cluster counts on the others' */
	return d;
}

/* ---- tensors ---- */

enum { USE_READS = 1, USE_WRITES = 2, USE_ATOMICS = 4 };
typedef struct Uses { uint8_t *of; bool fenced; } Uses;

static bool add_uses(Op *op, void *user)
{
	Uses *u = user;
	Effect e[MAX_EFFECTS];
	bool atomic = op->code == OP_ATOMIC || (op->code == OP_TMA_STORE && attr_get(op, AT_REDUCE));
	u->fenced |= op->code == OP_FENCE_DEVICE;
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		if (e[i].tile.object->code == OP_TENSOR)
			u->of[e[i].tile.object->result->id] |= atomic ? USE_ATOMICS : (e[i].reads ? USE_READS : 0) | (e[i].writes ? USE_WRITES : 0);
	return true;
}

TensorUse *tensor_uses(Arena *a, const Op *kernel, unsigned numbers)
{
	Uses u = { .of = ARENA_ARRAY(a, uint8_t, numbers + 1) };
	TensorUse *uses = ARENA_ARRAY(a, TensorUse, numbers + 1);
	tir_walk(kernel->regions[0], add_uses, &u);
	for (unsigned i = 0; i < numbers; i++) {
		const unsigned set = u.of[i];
		uses[i] = (TensorUse){ .written = set & USE_WRITES,
		                       .exchanged = set & USE_WRITES || set == (USE_READS | USE_ATOMICS) || (u.fenced && set == USE_ATOMICS) };
	}
	return uses;
}
