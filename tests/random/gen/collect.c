/* collect.c - reductions, scans, one-dimensional fragments, atomics. */
#include <math.h>
#include <stdio.h>

#include "tests/random/gen/gen.h"

static bool is_f32_matrix(const Gen *g, const Tile *t)
{
	(void)g;
	return t->space == FRAG && t->rank == 2 && t->type == DT_F32;
}

static Range sum_range(Range r, int64_t n)
{
	return (Range){ fmin(r.lo * (double)n, r.lo), fmax(r.hi * (double)n, r.hi), r.frac };
}

bool st_reduce(Gen *g)
{
	int k = tile_pick(g, is_f32_matrix);
	if (k < 0)
		return false;
	int axis = rng_below(&g->rng, 2);
	bool sum = CHANCE(g, 50);
	int64_t ext = g->tile[k].ext[1 - axis];
	Range r = sum ? sum_range(g->tile[k].range, g->tile[k].ext[axis]) : g->tile[k].range;
	if (!range_exact(DT_F32, r))
		return false;
	int d = tile_frag(g, DT_F32, 1, &ext, r, NULL);
	if (d < 0)
		return false;
	line(g, "reduce_%s(%s, %s, %d);", sum ? "sum" : CHANCE(g, 50) ? "max" : "min", g->tile[k].name, g->tile[d].name, axis);
	if (g->nesting) { /* it ends with the region, so it is used here */
		int y = tile_param(g, 3, DT_F32, 1, &ext, r);
		if (y >= 0) {
			tile_writes(g, y);
			line(g, "copy(%s, %s);", g->tile[d].name, g->tile[y].name);
		}
	}
	return true;
}

/* In place, so a fresh fragment that may hold the sums. */
bool st_scan(Gen *g)
{
	int k = tile_pick(g, is_f32_matrix);
	if (k < 0)
		return false;
	Tile *t = &g->tile[k];
	int axis = rng_below(&g->rng, 2);
	bool product = CHANCE(g, 30);
	int64_t n = t->ext[axis], within = n;
	while (within > 2 && CHANCE(g, 40))
		within /= 2;
	if (n % within)
		within = n;
	if (product)
		within = within > 16 ? 16 : within;
	if (n % within)
		return false;
	Range r = product ? (Range){ -ldexp(1, (int)within), ldexp(1, (int)within), 0 } : sum_range(t->range, within);
	if (!range_exact(DT_F32, r))
		return false;
	int f = tile_frag(g, DT_F32, 2, t->ext, r, NULL);
	if (f < 0)
		return false;
	const char *from = g->tile[f].name;
	if (product)
		line(g, "parallel (i < %lld, j < %lld) %s[i][j] = %s[i][j] > 1 ? 2.0 : %s[i][j] < 0 ? -1.0 : 1.0;", (long long)t->ext[0],
			(long long)t->ext[1], from, t->name, t->name);
	else
		line(g, "parallel (i < %lld, j < %lld) %s[i][j] = %s[i][j];", (long long)t->ext[0], (long long)t->ext[1], from, t->name);
	line(g, within == n ? "%s(%s, %d%s);" : "%s(%s, %d%s) within(%lld);", product ? "cumprod" : "cumsum", from, axis,
		CHANCE(g, 40) ? ", reverse" : "", (long long)within);
	if (g->nesting) {
		int y = tile_param(g, 3, DT_F32, 2, t->ext, r);
		if (y >= 0) {
			tile_writes(g, y);
			line(g, "copy(%s, %s);", from, g->tile[y].name);
		}
	}
	return true;
}

/* A fragment of one dimension with a layout of its own: scanned, changed, shown. */
bool st_vector(Gen *g)
{
	int64_t n = 32 << rng_below(&g->rng, 4);
	Range r = { -8, 8, 2 }, sums = sum_range(r, n);
	int x = tile_param(g, 1, DT_F32, 1, &n, r), f = x < 0 ? -1 : tile_frag(g, DT_F32, 1, &n, sums, NULL);
	if (f < 0)
		return false;
	line(g, "copy(%s, %s);", g->tile[x].name, g->tile[f].name);
	line(g, "cumsum(%s, 0%s);", g->tile[f].name, CHANCE(g, 50) ? ", reverse" : "");
	return true;
}

/* Integers only: their order does not show.  Bins that some elements count into. */
bool st_atomic(Gen *g)
{
	static const DType types[] = { DT_I32, DT_U32, DT_I32, DT_U64, DT_I64 };
	static const char *const kinds[] = { "add", "min", "max" };
	DType t = PICK(g, types);
	int64_t bins = 1 << rng_below(&g->rng, 4);
	bool shared = CHANCE(g, 40) && !g->nesting;
	Range whole = type_range(t);
	int b = shared ? tile_shared(g, t, 1, &bins, whole, NULL) : tile_param(g, 3, t, 1, &bins, whole);
	if (b < 0)
		return false;
	if (shared) {
		tile_writes(g, b);
		line(g, "%s = 1;", g->tile[b].name);
	}
	tile_writes(g, b);
	int64_t n = 1 << rng_between(&g->rng, 2, 9);
	line(g, "parallel (i < %lld) atomic_%s(%s[(i * %d) %% %lld], %s(i * %d - 100));", (long long)n, PICK(g, kinds), g->tile[b].name,
		rng_between(&g->rng, 1, 9), (long long)bins, dtype_name(t), rng_between(&g->rng, -5, 9));
	return true;
}
