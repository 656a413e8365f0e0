/* weave.c - fragments with the layout of results to such of 8 bits with that of left operands. */
#include "tests/random/gen/gen.h"

static bool is_result(const Gen *g, const Tile *t)
{
	return t->space == FRAG && t->mma && t->rank == 2 && t->reads && t->type != DT_BOOL && g->warps % 4 == 0 && t->ext[0] == 16 * g->warps && t->ext[1] % 16 == 0;
}

static int new_result(Gen *g)
{
	static const DType types[] = { DT_F32, DT_BF16, DT_F16, DT_I32, DT_U16, DT_I16 };
	DType t = PICK(g, types);
	int64_t ext[2] = { 16 * g->warps, 16 << rng_below(&g->rng, 3) };
	int k = g->warps % 4 ? -1 : tile_frag(g, t, 2, ext, default_range(g, t), "mma");
	if (k >= 0)
		initialise(g, k);
	return k;
}

bool st_weave(Gen *g)
{
	static const DType types[] = { DT_E4M3, DT_E5M2, DT_I8, DT_U8 }, integers[] = { DT_I8, DT_U8 };
	int k = tile_pick(g, is_result);
	if (k < 0)
		k = new_result(g);
	if (k < 0)
		return false;
	DType from = g->tile[k].type;
	bool byte = (from == DT_U16 || from == DT_I16) && CHANCE(g, 50);
	DType t = byte ? PICK(g, integers) : PICK(g, types);
	Range r = type_range(t);
	if (!byte && !converted_range(&g->tile[k], t, &r))
		return false;
	int d = tile_frag(g, t, 2, g->tile[k].ext, r, CHANCE(g, 30) ? "mma8" : NULL);
	if (d < 0)
		return false;
	line(g, byte ? "weave(%s, %s, %d);" : "weave(%s, %s);", g->tile[k].name, g->tile[d].name, rng_below(&g->rng, 2));
	g->tile[d].writes = false;
	return true;
}
