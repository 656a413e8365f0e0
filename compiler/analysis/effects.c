/* effects.c - ops.def says which operands are read and written; here is what attributes change. */
#include "compiler/analysis/effects.h"

#include <string.h>

bool mma_is_wgmma(const Op *mma)
{
	const char *inst = attr_text(mma, AT_INST, NULL);
	if (inst)
		return strncmp(inst, "wgmma", 5) == 0;
	return !tile_ref(operand(mma, ARG_D)).warp_scope;
}

bool op_releases(const Op *op)
{
	switch (op->code) {
	case OP_ARRIVE: case OP_SYNC: case OP_SYNC_WARP: case OP_SYNC_ARRIVE: case OP_CLUSTER_SYNC: return true;
	default: return false;
	}
}

static void of_product(const Op *op, Effect *e)
{
	e->async = e->operand > 0 && mma_is_wgmma(op);
	if (e->operand == 0 && attr_int(op, AT_ACC, 0) == 0) {
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
		             .async = o.async };
		e.kills = e.writes && !e.reads;
		with_attributes(op, &e);
		out[n++] = e;
	}
	return n;
}

enum { USE_READS = 1, USE_WRITES = 2, USE_ATOMICS = 4 };
typedef struct Uses { const Op *tensor; unsigned set; bool fenced; } Uses;

static bool add_uses(Op *op, void *user)
{
	Uses *u = user;
	Effect e[MAX_EFFECTS];
	bool atomic = op->code == OP_ATOMIC || (op->code == OP_TMA_STORE && attr_get(op, AT_REDUCE));
	u->fenced |= op->code == OP_FENCE_DEVICE;
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		if (e[i].tile.object == u->tensor)
			u->set |= atomic ? USE_ATOMICS : (e[i].reads ? USE_READS : 0) | (e[i].writes ? USE_WRITES : 0);
	return true;
}

bool tensor_is_exchanged(const Op *kernel, const Op *tensor)
{
	Uses u = { .tensor = tensor };
	tir_walk(kernel->regions[0], add_uses, &u);
	return (u.set & (u.set - 1)) || (u.fenced && u.set == USE_ATOMICS);
}
