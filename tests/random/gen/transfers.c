/* transfers.c - TMA and bulk copies of every shape that they take, in one team. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/random/gen/gen.h"

static const DType types[] = { DT_BF16, DT_F16, DT_F32, DT_TF32, DT_I32, DT_U8, DT_I16, DT_I64, DT_U16, DT_I8, DT_U32, DT_U64, DT_E4M3, DT_E5M2 };

static const char *layout_for(Gen *g, DType t, int64_t rows, int64_t columns)
{
	static const char *const names[] = { "linear", "swizzle32", "swizzle64", "swizzle128" };
	int k = rng_below(&g->rng, 4);
	if (rows % 8 && columns * dtype_bytes(t) > 32) /* panels of fewer rows than a swizzle repeats after are refused */
		return columns * dtype_bytes(t) % 32 ? NULL : "linear";
	return CHANCE(g, 50) && columns * dtype_bytes(t) % (16 << k) == 0 ? names[k] : NULL;
}

static const char *limit_for(Gen *g, int64_t rows, char *text, size_t size)
{
	text[0] = '\0';
	if (!CHANCE(g, 35) || g->p->nscalars == MAX_SCALARS)
		return text;
	ScalarParam *n = &g->p->scalar[g->p->nscalars++];
	*n = (ScalarParam){ .type = DT_I32, .i = rng_between(&g->rng, 0, (int)rows) };
	snprintf(n->name, sizeof n->name, "n%d", fresh(g));
	text_put(&g->params, ", i32 %s", n->name);
	snprintf(text, size, " limit(%s)", n->name);
	return text;
}

typedef struct Trip { int use; int bar; } Trip;

static void settle(Gen *g, Trip *t)
{
	line(g, "arrive(full[%d]);", t->use);
	line(g, "wait(full[%d]);", t->use++);
}

/* There by TMA, looked at, back by TMA. */
static void round_trip(Gen *g, Trip *trip)
{
	DType t = PICK(g, types);
	int64_t unit = 16 / dtype_bytes(t), rows = 1 << rng_between(&g->rng, 0, 6), columns = unit << rng_below(&g->rng, 5);
	int64_t extra = CHANCE(g, 40) ? unit * rng_between(&g->rng, 1, 3) : 0, more = rng_below(&g->rng, 20);
	int64_t row = rng_below(&g->rng, (int)more + 1), column = extra ? unit * rng_below(&g->rng, (int)(extra / unit) + 1) : 0;
	Range r = default_range(g, t);
	char limit[40], out_limit[40], part[64] = "";
	r.lo = fmin(r.lo, 0);
	int64_t ext[2] = { rows + more, columns + extra };
	g->sliced = true;
	int x = tile_param(g, 1, t, 2, ext, r), y = tile_param(g, 2, t, 2, ext, r);
	g->sliced = false;
	int s = x < 0 || y < 0 ? -1 : tile_shared(g, t, 2, (int64_t[]){ rows, columns }, r, layout_for(g, t, rows, columns));
	if (s < 0)
		return;
	if (CHANCE(g, 30)) /* past the end */
		row += rng_below(&g->rng, (int)rows);
	limit_for(g, ext[0], limit, sizeof limit);
	limit_for(g, ext[0], out_limit, sizeof out_limit);
	if (extra)
		snprintf(part, sizeof part, "[%lld +: %lld]", (long long)column, (long long)columns);
	tile_writes(g, s);
	line(g, "tma_load(%s[%lld +: %lld]%s, %s, full[%d])%s;", g->tile[x].name, (long long)row, (long long)rows, part, g->tile[s].name, trip->use, limit);
	settle(g, trip);
	g->tile[s].dirty = false;
	statements(g, rng_between(&g->rng, 0, 2));
	sync_now(g);
	line(g, "tma_store(%s, %s[%lld +: %lld]%s)%s;", g->tile[s].name, g->tile[y].name, (long long)row, (long long)rows, part, out_limit);
	line(g, "store_wait(0);");
	sync_now(g);
	g->tile[y].reads = g->tile[y].writes = false;
}

/* Two loads into one tile. */
static void halves(Gen *g, Trip *trip)
{
	DType t = PICK(g, types);
	int64_t unit = 16 / dtype_bytes(t), rows = 8 << rng_below(&g->rng, 3), ext[2] = { 2 * rows, unit << rng_below(&g->rng, 4) };
	Range r = default_range(g, t);
	int x = tile_param(g, 1, t, 2, ext, r), s = x < 0 ? -1 : tile_shared(g, t, 2, ext, r, layout_for(g, t, rows, ext[1]));
	if (s < 0)
		return;
	tile_writes(g, s);
	for (int k = 0; k < 2; k++)
		line(g, "tma_load(%s[%lld +: %lld], %s[%lld +: %lld], full[%d]);", g->tile[x].name, (long long)(rows * (1 - k)), (long long)rows,
			g->tile[s].name, (long long)(rows * k), (long long)rows, trip->use);
	settle(g, trip);
	g->tile[s].dirty = false;
}

/* A plane of a tensor of three dimensions. */
static void planes(Gen *g, Trip *trip)
{
	DType t = PICK(g, types);
	int64_t unit = 16 / dtype_bytes(t), ext[3] = { rng_between(&g->rng, 1, 4), 8 << rng_below(&g->rng, 3), unit << rng_below(&g->rng, 4) };
	Range r = default_range(g, t);
	int x = tile_param(g, 1, t, 3, ext, r), s = x < 0 ? -1 : tile_shared(g, t, 2, ext + 1, r, layout_for(g, t, ext[1], ext[2]));
	if (s < 0)
		return;
	tile_writes(g, s);
	line(g, "tma_load(%s[%d], %s, full[%d]);", g->tile[x].name, rng_below(&g->rng, (int)ext[0]), g->tile[s].name, trip->use);
	settle(g, trip);
	g->tile[s].dirty = false;
}

/* Bytes as they are. */
static void bulk(Gen *g, Trip *trip)
{
	DType t = PICK(g, types);
	int64_t unit = 16 / dtype_bytes(t), rows = 1 << rng_below(&g->rng, 5), columns = unit << rng_below(&g->rng, 4);
	Range r = default_range(g, t);
	int64_t ext[2] = { rows, columns }, more[2] = { rows + rng_below(&g->rng, 9), columns };
	int x = tile_param(g, 1, t, 2, more, r), y = tile_param(g, 2, t, 2, more, r);
	int s = x < 0 || y < 0 ? -1 : tile_shared(g, t, 2, ext, r, "linear");
	if (s < 0)
		return;
	int64_t row = rng_below(&g->rng, (int)(more[0] - rows) + 1);
	tile_writes(g, s);
	line(g, "bulk_load(%s[%lld +: %lld], %s, full[%d]);", g->tile[x].name, (long long)row, (long long)rows, g->tile[s].name, trip->use);
	settle(g, trip);
	g->tile[s].dirty = false;
	statements(g, rng_between(&g->rng, 0, 1));
	sync_now(g);
	line(g, "bulk_store(%s, %s[%lld +: %lld]);", g->tile[s].name, g->tile[y].name, (long long)row, (long long)rows);
	line(g, "store_wait(0);");
	sync_now(g);
	g->tile[y].reads = g->tile[y].writes = false;
}

/* Sums in global memory. */
static void reduction(Gen *g, Trip *trip)
{
	static const DType summed[] = { DT_F32, DT_I32, DT_U32, DT_BF16, DT_F16 };
	DType t = PICK(g, summed);
	int64_t unit = 16 / dtype_bytes(t), ext[2] = { 8 << rng_below(&g->rng, 3), unit << rng_below(&g->rng, 3) };
	Range r = { dtype_is_signed(t) || dtype_is_float(t) ? -4 : 0, 4, 0 };
	(void)trip;
	int z = tile_param(g, 3, t, 2, ext, r), s = z < 0 ? -1 : tile_shared(g, t, 2, ext, r, layout_for(g, t, ext[0], ext[1]));
	if (s < 0)
		return;
	tile_writes(g, s);
	line(g, "parallel (i < %lld, j < %lld) %s[i][j] = %s((i + j) %% 4);", (long long)ext[0], (long long)ext[1], g->tile[s].name, dtype_name(t));
	sync_now(g);
	line(g, "tma_reduce_add(%s, %s);", g->tile[s].name, g->tile[z].name);
	line(g, "store_wait(0);");
	sync_now(g);
	g->tile[z].reads = g->tile[z].writes = false;
}

void kernel_transfers(Gen *g)
{
	static void (*const kinds[])(Gen *, Trip *) = { round_trip, round_trip, round_trip, planes, halves, bulk, reduction };
	Trip trip = { 0 };
	int groups = rng_between(&g->rng, 1, 2), tiles = g->ntiles;
	g->warps = g->threads_warps = 4 * groups;
	text_put(&g->decls, "\tmbarrier full[ring 1] from(All);\n");
	line(g, groups > 1 ? "role All warpgroup(0..1) {" : "role All warpgroup(0) {");
	open_block(g);
	if (CHANCE(g, 50))
		st_declare(g);
	for (int n = rng_between(&g->rng, 1, 3); n > 0; n--)
		PICK(g, kinds)(g, &trip);
	statements(g, rng_between(&g->rng, 0, 3));
	for (int k = tiles, n = g->ntiles; k < n; k++) {
		if (!g->tile[k].gone && g->tile[k].reads)
			show_tile(g, k);
		g->tile[k].gone = true;
	}
	close_block(g, "}");
}
