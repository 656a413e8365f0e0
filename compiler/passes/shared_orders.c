/* shared_orders.c - for infer_layouts: a tile that only reads what others of its storage write finds the elements in the order of theirs. */
#include "compiler/passes/shared_orders.h"

enum { USE_READS = 1, USE_WRITES = 2, USE_BYTES = 4 };

static bool note_use(Op *op, void *user)
{
	uint8_t *use = user;
	Effect e[MAX_EFFECTS];
	bool bytes = op->code == OP_BULK_LOAD || op->code == OP_BULK_STORE || op->code == OP_FILL; /* whatever their order */
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		if (e[i].tile.space == TY_SHARED)
			use[e[i].tile.object->result->id] |= (uint8_t)(bytes ? USE_BYTES : (e[i].reads ? USE_READS : 0) | (e[i].writes ? USE_WRITES : 0));
	return true;
}

/* Where in a stage of its storage a tile begins. */
static int64_t start_in_root(const Op *tile)
{
	int64_t at = 0;
	for (; tile->nargs; tile = operand(tile, ARG_OBJECT)->def)
		at += attr_int(tile, AT_AT_OFFSET, 0);
	return at;
}

static bool overlap(const Op *a, const Op *b)
{
	int64_t x = start_in_root(a), y = start_in_root(b);
	return shared_root(a) == shared_root(b) && x < y + shared_stage_bytes(b) && y < x + shared_stage_bytes(a);
}

/* The tile that has written what `tile` reads, where all that have have another order. */
static const Op *written_otherwise(const uint8_t *use, const Op *kernel, const Op *tile)
{
	const Op *writer = NULL;
	if (use[tile->result->id] != USE_READS)
		return NULL;
	for (const Op *w = kernel->regions[0]->first; w; w = w->next) {
		if (w->code != OP_SHARED || !(use[w->result->id] & (USE_WRITES | USE_BYTES)) || !overlap(w, tile))
			continue;
		if ((use[w->result->id] & USE_BYTES) || swizzle_bytes(w) == swizzle_bytes(tile))
			return NULL;
		writer = w;
	}
	return writer;
}

bool shared_orders_agree(Tir *t, const Op *kernel, const bool *given, uint8_t *use)
{
	bool ok = true;
	tir_walk(kernel->regions[0], note_use, use);
	for (const Op *tile = kernel->regions[0]->first; tile; tile = tile->next) {
		const Op *w = tile->code == OP_SHARED ? written_otherwise(use, kernel, tile) : NULL;
		if (!w || given[tile->result->id] || given[w->result->id])
			continue;
		const Op *linear = swizzle_bytes(tile) ? w : tile, *other = linear == w ? tile : w;
		tir_error(t, linear, E_LAYOUT, "'%s' reads what is written as '%s', whose elements lie elsewhere: '%s' is %s, '%s' %s", object_name(tile),
			object_name(w), object_name(linear), layout_name(t, linear), object_name(other), layout_name(t, other));
		diag_note(t->diags, other->loc, "'%s' is declared here", object_name(other));
		diag_help(t->diags, "tiles in one place have layouts of their own: declare '%s' with layout(%s), or layout(linear) where that is meant",
			object_name(linear), layout_name(t, other));
		ok = false;
	}
	return ok;
}
