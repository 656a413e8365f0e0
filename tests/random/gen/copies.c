/* copies.c - copies between every pair of types, spaces and views; fills. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/random/gen/gen.h"

typedef struct View { int tile; int64_t start[3], take[3]; bool trans; } View; /* take 0: all */

static void view_text(const Gen *g, const View *v, char *out, size_t size)
{
	const Tile *t = &g->tile[v->tile];
	size_t used = (size_t)snprintf(out, size, "%s", t->name);
	int last = t->rank;
	while (last > 0 && !v->take[last - 1])
		last--;
	for (int d = 0; d < last; d++)
		used += (size_t)(v->take[d] == 0 ? snprintf(out + used, size - used, "[:]")
			: v->take[d] < 0 ? snprintf(out + used, size - used, "[%lld]", (long long)v->start[d])
			: snprintf(out + used, size - used, "[%lld +: %lld]", (long long)v->start[d], (long long)v->take[d]));
	if (v->trans)
		snprintf(out + used, size - used, ".T");
}

static bool is_matrix_source(const Gen *g, const Tile *t)
{
	(void)g;
	return t->reads && t->rank == 2 && t->space != WARP_FRAG;
}

static bool is_power(int64_t n) { return (n & (n - 1)) == 0; }

/* A part of the tile: starts and extents that suit fragments unless it is in memory. */
static View random_view(Gen *g, int k)
{
	const Tile *t = &g->tile[k];
	View v = { .tile = k };
	for (int d = 0; d < t->rank; d++) {
		int64_t unit = d == 0 && t->mma ? 16 << rng_below(&g->rng, 3) : 8, n = t->ext[d];
		if (t->space == SHARED && CHANCE(g, 30))
			unit = 4;
		if (!CHANCE(g, t->space == FRAG && !t->mma ? 4 : 35) || n <= unit)
			continue;
		int64_t take = unit;
		while (2 * take < n && CHANCE(g, 50))
			take *= 2;
		v.take[d] = take;
		v.start[d] = unit * rng_below(&g->rng, (int)((n - take) / unit) + 1);
	}
	v.trans = CHANCE(g, 15);
	return v;
}

static void seen_shape(const Gen *g, const View *v, int64_t *shape)
{
	const Tile *t = &g->tile[v->tile];
	for (int d = 0; d < 2; d++)
		shape[v->trans ? 1 - d : d] = v->take[d] ? v->take[d] : t->ext[d];
}

static void exchange(int64_t *shape)
{
	int64_t rows = shape[0];
	shape[0] = shape[1];
	shape[1] = rows;
}

/* A part of tile k of that shape; false: there is none. */
static bool part_of_shape(Gen *g, int k, const int64_t *shape, View *out)
{
	const Tile *t = &g->tile[k];
	*out = (View){ .tile = k };
	for (int d = 0; d < 2; d++) {
		int64_t n = shape[d], unit = t->space == FRAG ? (d == 0 && t->mma ? 64 : 8) : n % 4 ? 1 : 4;
		if (t->ext[d] < n || (t->ext[d] != n && (n % unit || (t->space == FRAG && !t->mma))))
			return false;
		if (t->ext[d] == n)
			continue;
		out->take[d] = n;
		out->start[d] = unit * rng_below(&g->rng, (int)((t->ext[d] - n) / unit) + 1);
	}
	return true;
}

/* The numbers of a after conversion to the type of b stay in b's range. */
static bool conversion_fits(const Tile *a, const Tile *b)
{
	Range r = a->range;
	if (b->type == DT_BOOL || a->type == DT_BOOL)
		return a->type == b->type;
	if (!dtype_is_float(b->type) && !dtype_is_float(a->type))
		return range_inside(r, b->range) || range_inside(type_range(b->type), b->range);
	if (!dtype_is_float(b->type))
		r = (Range){ (double)(int64_t)r.lo, (double)(int64_t)r.hi, 0 };
	else if (!range_exact(b->type, r))
		r = (Range){ r.lo * (r.lo < 0 ? 1.01 : .99), r.hi * (r.hi > 0 ? 1.01 : .99), r.frac };
	return range_inside(r, b->range);
}

static int find_target(Gen *g, const View *src, const int64_t *shape, View *dst)
{
	for (int tries = 0; tries < 12; tries++) {
		int k = rng_below(&g->rng, g->ntiles);
		const Tile *t = &g->tile[k], *s = &g->tile[src->tile];
		bool global_out = t->space == GLOBAL && !t->reads;
		if (k == src->tile || t->gone || !t->writes || t->rank != 2 || t->space == WARP_FRAG || global_out || !conversion_fits(s, t))
			continue;
		if (t->space == FRAG && s->space == FRAG)
			continue;
		if (part_of_shape(g, k, shape, dst))
			return k;
	}
	return -1;
}

bool converted_range(const Tile *s, DType t, Range *out)
{
	Tile like = { .type = t, .range = s->range };
	if (t != s->type && !dtype_is_float(t))
		like.range = type_range(t);
	else if (t != s->type)
		like.range = (Range){ floor(s->range.lo * (s->range.lo < 0 ? 1.02 : .98)), ceil(s->range.hi * (s->range.hi > 0 ? 1.02 : .98)), s->range.frac };
	*out = like.range;
	return conversion_fits(s, &like) && range_fits(t, like.range);
}

/* A new tile that holds what the source has, of any type. */
static int make_target(Gen *g, const View *src, const int64_t *shape)
{
	const Tile *s = &g->tile[src->tile];
	DType t = CHANCE(g, 50) ? s->type : random_type(g);
	Range r;
	if (t == DT_BOOL || s->type == DT_BOOL)
		t = s->type;
	if (!converted_range(s, t, &r))
		return -1;
	if (CHANCE(g, 40) && s->space != GLOBAL)
		return tile_param(g, 2, t, 2, shape, r);
	return CHANCE(g, 50) ? tile_shared(g, t, 2, shape, r, NULL) : tile_frag(g, t, 2, shape, r, NULL);
}

/* The same by a function of any tiles of these kinds. */
static void put_call(Gen *g, const View *src, const View *dst, const char *a, const char *b)
{
	static const char *const space[] = { [SHARED] = "shared", [FRAG] = "frag", [WARP_FRAG] = "warp frag" };
	Space from = g->tile[src->tile].space, to = g->tile[dst->tile].space;
	int id = fresh(g);
	text_put(&g->head, "fn %s_c%d(%s A%d a[M%d][N%d], %s B%d b[M%d][N%d]) { copy(a, b); }\n", g->p->kernel, id, from == GLOBAL ? "in" : space[from], id, id, id,
		to == GLOBAL ? "out" : space[to], id, id, id);
	line(g, "%s_c%d(%s, %s);", g->p->kernel, id, a, b);
}

static void put_copy(Gen *g, const View *src, const View *dst)
{
	char a[128], b[128];
	view_text(g, src, a, sizeof a);
	view_text(g, dst, b, sizeof b);
	tile_moves(g, src->tile, dst->tile);
	if (CHANCE(g, 15)) {
		put_call(g, src, dst, a, b);
		return;
	}
	line(g, CHANCE(g, 15) && g->tile[dst->tile].space != GLOBAL ? "%2$s = %1$s;" : "copy(%1$s, %2$s);", a, b);
}

bool st_copy(Gen *g)
{
	int64_t shape[2];
	int k = tile_pick(g, is_matrix_source);
	if (k < 0)
		return false;
	bool turned = CHANCE(g, 12);
	View src = random_view(g, k), dst;
	if (g->tile[k].space == FRAG)
		src.trans = false;
	seen_shape(g, &src, shape);
	if (!is_power(shape[0]) || !is_power(shape[1]))
		return false;
	if (turned) /* the target is written as .T */
		exchange(shape);
	if (find_target(g, &src, shape, &dst) < 0) {
		if (g->nesting)
			return false;
		int made = make_target(g, &src, shape);
		if (made < 0)
			return false;
		dst = (View){ .tile = made };
	}
	dst.trans = turned;
	put_copy(g, &src, &dst);
	return true;
}

static bool is_writable(const Gen *g, const Tile *t)
{
	(void)g;
	return t->writes && t->space != WARP_FRAG && t->rank <= 2 && (t->space != GLOBAL || t->reads) && is_power(t->ext[0]) &&
		(t->rank == 1 || is_power(t->ext[1]));
}

bool st_fill(Gen *g)
{
	char a[128];
	int k = tile_pick(g, is_writable);
	if (k < 0)
		return false;
	View v = g->tile[k].rank == 2 ? random_view(g, k) : (View){ .tile = k };
	v.trans = false;
	view_text(g, &v, a, sizeof a);
	Ex e = ex_into(g, ex_any(g, 1), g->tile[k].type, g->tile[k].range);
	tile_writes(g, k);
	if (CHANCE(g, 50))
		line(g, "fill(%s, %s);", a, e.s);
	else
		line(g, "%s = %s;", a, e.s);
	ex_free(&e);
	return true;
}

/* ---- limits ---- */

/* Through a new fragment or shared tile: rows from n on are zero, or stay. */
bool st_limit_copy(Gen *g)
{
	static const DType types[] = { DT_F32, DT_BF16, DT_F16, DT_I32, DT_I8, DT_U16, DT_I64, DT_E4M3, DT_E5M2 };
	DType t = PICK(g, types);
	int64_t rows = 8 << rng_below(&g->rng, 4), columns = 8 << rng_below(&g->rng, 4), total = rows + rng_below(&g->rng, 40);
	Range r = default_range(g, t);
	r.lo = r.lo > 0 ? 0 : r.lo;
	if (g->nesting || g->p->nscalars == MAX_SCALARS)
		return false;
	bool by_columns = CHANCE(g, 25);
	g->sliced = !by_columns;
	int x = tile_param(g, 1, t, 2, by_columns ? (int64_t[]){ columns, total } : (int64_t[]){ total, columns }, r);
	int y = tile_param(g, 2, t, 2, (int64_t[]){ total, columns }, r);
	g->sliced = false;
	int64_t ext[2] = { by_columns ? columns : rows, by_columns ? rows : columns };
	int f = CHANCE(g, 50) ? tile_frag(g, t, 2, ext, r, NULL) : tile_shared(g, t, 2, ext, r, NULL);
	if (x < 0 || y < 0 || f < 0)
		return false;
	ScalarParam *n = &g->p->scalar[g->p->nscalars++];
	*n = (ScalarParam){ .type = DT_I32, .i = rng_between(&g->rng, 0, (int)total) };
	snprintf(n->name, sizeof n->name, "n%d", fresh(g));
	text_put(&g->params, ", i32 %s", n->name);
	int64_t start = rng_below(&g->rng, (int)(total - rows) + 1);
	tile_writes(g, f);
	if (CHANCE(g, 30)) { /* the tensor ends before the slice does */
		start += rng_below(&g->rng, (int)rows);
		n->i = n->i > total ? total : n->i;
	}
	line(g, by_columns ? "copy(%s[:][%lld +: %lld], %s) limit(%s);" : "copy(%s[%lld +: %lld], %s) limit(%s);", g->tile[x].name, (long long)start,
		(long long)rows, g->tile[f].name, n->name);
	if (by_columns)
		return true;
	tile_reads(g, f);
	line(g, "copy(%s, %s[%lld +: %lld]) limit(%s);", g->tile[f].name, g->tile[y].name, (long long)start, (long long)rows, n->name);
	g->tile[y].writes = g->tile[y].reads = false;
	return true;
}

bool st_cp_async(Gen *g)
{
	static const DType types[] = { DT_F32, DT_BF16, DT_F16, DT_I32, DT_U8, DT_I64, DT_E4M3, DT_E5M2 };
	DType t = PICK(g, types);
	int64_t rows = 1 << rng_below(&g->rng, 7), columns = 8 << rng_below(&g->rng, 4);
	Range r = default_range(g, t);
	int64_t wide = columns + (CHANCE(g, 40) ? 4 * rng_below(&g->rng, 9) : 0), from = 0;
	if (g->nesting)
		return false;
	if (wide > columns)
		from = 4 * rng_below(&g->rng, (int)(wide - columns) / 4 + 1);
	int x = tile_param(g, 1, t, 2, (int64_t[]){ rows, wide }, r);
	int s = x < 0 ? -1 : tile_shared(g, t, 2, (int64_t[]){ rows, columns }, r, NULL);
	if (s < 0)
		return false;
	tile_writes(g, s);
	line(g, "cp_async(%s[:][%lld +: %lld], %s);", g->tile[x].name, (long long)from, (long long)columns, g->tile[s].name);
	line(g, "cp_async_commit();");
	line(g, "cp_async_wait(0);");
	sync_now(g);
	return true;
}

static bool has_warp_rows(const Gen *g, const Tile *t)
{
	return t->space == FRAG && t->mma && t->rank == 2 && t->reads && g->warps % 4 == 0 && t->ext[0] == 16 * g->warps;
}

/* This warp's rows of a fragment. */
bool st_warp_view(Gen *g)
{
	int k = tile_pick(g, has_warp_rows);
	if (k < 0 || g->nesting)
		return false;
	Tile *t = &g->tile[k];
	int64_t columns = 8;
	while (2 * columns <= t->ext[1] && CHANCE(g, 50))
		columns *= 2;
	int64_t start = 8 * rng_below(&g->rng, (int)((t->ext[1] - columns) / 8) + 1);
	int w = tile_warp_frag(g, t->type, 16, columns, t->range);
	if (w < 0)
		return false;
	line(g, "copy(%s.warp[:][%lld +: %lld], %s);", t->name, (long long)start, (long long)columns, g->tile[w].name);
	return true;
}
