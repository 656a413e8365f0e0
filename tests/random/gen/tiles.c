/* tiles.c - declarations of tiles, and the syncs between what threads write and others read. */
#include <stdio.h>
#include <string.h>

#include "tests/random/gen/gen.h"

static Tile *add_tile(Gen *g, Space space, DType t, int rank, const int64_t *ext, Range r)
{
	Tile *x = &g->tile[g->ntiles++];
	*x = (Tile){ .space = space, .type = t, .rank = rank, .range = r, .reads = true, .writes = true };
	memcpy(x->ext, ext, sizeof *ext * (size_t)rank);
	return x;
}

static bool room(const Gen *g)
{
	return g->ntiles < MAX_TILES;
}

int64_t tile_count(const Tile *t)
{
	int64_t n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= t->ext[d];
	return n;
}

static void put_extents(Text *out, int rank, const int64_t *ext)
{
	for (int d = 0; d < rank; d++)
		text_put(out, "[%lld]", (long long)ext[d]);
}

static void lead(TensorParam *x, int n)
{
	if (n < 2)
		return;
	memmove(x->extents + 1, x->extents, sizeof *x->extents * (size_t)x->rank++);
	x->extents[0] = n;
}

/* A dim instead of a number, which the tensor of a launch binds. */
static bool named_extent(Gen *g, int64_t n)
{
	Program *p = g->p;
	if (p->nscalars == MAX_SCALARS)
		return false;
	ScalarParam *d = &p->scalar[p->nscalars++];
	*d = (ScalarParam){ .type = DT_I32, .is_dim = true, .i = n };
	snprintf(d->name, sizeof d->name, "d%u_%d", (unsigned)p->seed, fresh(g));
	text_put(&g->head, "dim %s;\n", d->name);
	text_put(&g->params, "[%s]", d->name);
	return true;
}

/* With more than one block or instance each has its own part, by a leading dimension. */
int tile_param(Gen *g, int dir, DType t, int rank, const int64_t *ext, Range r)
{
	static const char *const dirs[] = { "", "in", "out", "inout" };
	Program *p = g->p;
	if (!room(g) || p->ntensors == MAX_TENSORS)
		return -1;
	TensorParam *x = &p->tensor[p->ntensors++];
	*x = (TensorParam){ .type = t, .dir = dir, .rank = rank, .range = r };
	snprintf(x->name, sizeof x->name, "%c%d", dir == 1 ? 'x' : dir == 2 ? 'y' : 'z', fresh(g));
	memcpy(x->extents, ext, sizeof *ext * (size_t)rank);
	text_put(&g->params, "%s%s %s %s", g->params.len ? ", " : "", dirs[dir], dtype_name(t), x->name);
	Tile *tile = add_tile(g, GLOBAL, t, rank, ext, r);
	lead(x, g->instances);
	lead(x, g->grid);
	snprintf(tile->name, sizeof tile->name, "%s%s%s", x->name, g->grid > 1 ? "[blockIdx.x]" : "", g->instances > 1 ? "[h]" : "");
	int named = g->sliced && CHANCE(g, 40) && named_extent(g, x->extents[0]);
	put_extents(&g->params, x->rank - named, x->extents + named);
	tile->reads = dir != 2;
	tile->writes = dir != 1;
	return g->ntiles - 1;
}

int tile_shared(Gen *g, DType t, int rank, const int64_t *ext, Range r, const char *layout)
{
	if (!room(g))
		return -1;
	Tile *x = add_tile(g, SHARED, t, rank, ext, r);
	int64_t bytes = (tile_count(x) * dtype_bytes(t) * (g->instances > 1 ? g->instances : 1) + 1023) / 1024 * 1024;
	if (bytes > g->shared_left) {
		g->ntiles--;
		return -1;
	}
	g->shared_left -= bytes;
	snprintf(x->name, sizeof x->name, "s%d", fresh(g));
	text_put(&g->decls, "\tshared %s %s", dtype_name(t), x->name);
	if (g->instances > 1) {
		text_put(&g->decls, "[%d]", g->instances);
		strcat(x->name, "[h]");
	}
	put_extents(&g->decls, rank, ext);
	text_put(&g->decls, layout ? " layout(%s);\n" : ";\n", layout);
	x->fixed_layout = layout != NULL;
	return g->ntiles - 1;
}

static int new_frag(Gen *g, Space space, DType t, int rank, const int64_t *ext, Range r, const char *layout)
{
	if (!room(g))
		return -1;
	Tile *x = add_tile(g, space, t, rank, ext, r);
	int64_t threads = space == FRAG ? 32 * g->warps : 32;
	int64_t regs = (tile_count(x) * dtype_bytes(t) / 4 + threads - 1) / threads + 1;
	if (regs > g->regs_left) {
		g->ntiles--;
		return -1;
	}
	g->regs_left -= regs;
	snprintf(x->name, sizeof x->name, "q%d", fresh(g));
	Text ex = { 0 };
	put_extents(&ex, rank, ext);
	line(g, "%sfrag %s %s%s%s%s%s;", space == WARP_FRAG ? "warp " : "", dtype_name(t), x->name, ex.s, layout ? " layout(" : "",
		layout ? layout : "", layout ? ")" : "");
	text_free(&ex);
	x->fixed_layout = layout != NULL;
	x->mma = layout && !strcmp(layout, "mma");
	return g->ntiles - 1;
}

int tile_frag(Gen *g, DType t, int rank, const int64_t *ext, Range r, const char *layout)
{
	return new_frag(g, FRAG, t, rank, ext, r, layout);
}

int tile_warp_frag(Gen *g, DType t, int64_t rows, int64_t columns, Range r)
{
	return new_frag(g, WARP_FRAG, t, 2, (int64_t[]){ rows, columns }, r, NULL);
}

int tile_pick(Gen *g, TileTest *test)
{
	int found = 0, pick = -1;
	for (int k = 0; k < g->ntiles; k++)
		if (!g->tile[k].gone && test(g, &g->tile[k]) && rng_below(&g->rng, ++found) == 0)
			pick = k;
	return pick;
}

/* ---- order between threads ---- */

static bool is_memory(const Tile *t)
{
	return t->space == GLOBAL || t->space == SHARED;
}

void sync_now(Gen *g)
{
	line(g, "sync();");
	g->p->statements--;
	for (int k = 0; k < g->ntiles; k++)
		g->tile[k].dirty = g->tile[k].seen = false;
}

void sync_all(Gen *g)
{
	for (int k = 0; k < g->ntiles; k++)
		if (g->tile[k].dirty || g->tile[k].seen) {
			sync_now(g);
			return;
		}
}

void tiles_touch(Gen *g, const bool *reads, const bool *writes)
{
	bool late = false;
	for (int k = 0; k < g->ntiles; k++) {
		const Tile *t = &g->tile[k];
		late |= (reads[k] && t->dirty) || (writes[k] && (t->dirty || t->seen));
	}
	if (late)
		sync_now(g);
	for (int k = 0; k < g->ntiles; k++) {
		g->tile[k].seen |= reads[k] && g->tile[k].writes && is_memory(&g->tile[k]);
		g->tile[k].dirty |= writes[k] && is_memory(&g->tile[k]);
	}
}

void tile_moves(Gen *g, int from, int to)
{
	bool reads[MAX_TILES] = { false }, writes[MAX_TILES] = { false };
	if (from >= 0)
		reads[from] = true;
	if (to >= 0)
		writes[to] = true;
	tiles_touch(g, reads, writes);
}

void tile_reads(Gen *g, int k) { tile_moves(g, k, -1); }
void tile_writes(Gen *g, int k) { tile_moves(g, -1, k); }

/* ---- first and last values ---- */

static bool all_powers(const Tile *t)
{
	for (int d = 0; d < t->rank; d++)
		if (t->ext[d] & (t->ext[d] - 1))
			return false;
	return true;
}

void initialise(Gen *g, int k)
{
	Tile *t = &g->tile[k];
	DType from = t->type;
	if (t->space == GLOBAL)
		return;
	if (CHANCE(g, 25) && t->rank <= 2 && all_powers(t) && t->space != WARP_FRAG) {
		element_body(g, k);
		return;
	}
	if (CHANCE(g, 25) && range_exact(DT_F32, t->range) && t->range.lo > -1e6 && t->range.hi < 1e6 && t->type != DT_BOOL)
		from = DT_F32;
	int x = tile_param(g, 1, from, t->rank, t->ext, t->range);
	if (x < 0) {
		tile_writes(g, k);
		line(g, "%s = %s;", t->name, t->type == DT_BOOL ? "false" : "0");
		return;
	}
	tile_writes(g, k);
	line(g, "copy(%s, %s);", g->tile[x].name, t->name);
}

void show_tile(Gen *g, int k)
{
	Tile *t = &g->tile[k];
	int64_t ext[3] = { t->ext[0], t->ext[1], t->ext[2] };
	if (t->space == GLOBAL)
		return;
	if (t->space == WARP_FRAG) { /* one part for each warp */
		int64_t all[3] = { g->warps, ext[0], ext[1] };
		int y = tile_param(g, 2, t->type, 3, all, t->range);
		if (y >= 0)
			line(g, "copy(%s, %s[warp()]);", t->name, g->tile[y].name);
		return;
	}
	int y = tile_param(g, 2, t->type, t->rank, ext, t->range);
	if (y < 0)
		return;
	tile_reads(g, k);
	line(g, "copy(%s, %s);", t->name, g->tile[y].name);
	g->tile[y].writes = false;
}
