/* roles.c - several roles: rings of tiles by TMA, tiles from threads to threads, named barriers, clusters with multicast. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/random/gen/gen.h"

static const DType tma_types[] = { DT_BF16, DT_BF16, DT_F16, DT_F32, DT_TF32, DT_I32, DT_U8, DT_I16, DT_U16, DT_I8, DT_U32, DT_I64, DT_E4M3, DT_E5M2 };

/* ---- roles ---- */

typedef struct RoleMark { int tiles, vars, warps; } RoleMark;

static RoleMark role_begin(Gen *g, const char *head, int warps)
{
	RoleMark m = { g->ntiles, g->nvars, g->warps };
	line(g, "%s {", head);
	open_block(g);
	g->warps = warps;
	g->regs_left = 96;
	return m;
}

/* What is the role's own is shown by it and then out of sight. */
static void role_end(Gen *g, RoleMark m)
{
	for (int k = m.tiles, n = g->ntiles; k < n; k++)
		if (!g->tile[k].gone && g->tile[k].reads)
			show_tile(g, k);
	for (int k = m.tiles; k < g->ntiles; k++)
		g->tile[k].gone = true;
	for (int k = m.vars; k < g->nvars; k++)
		g->var[k].gone = true;
	g->warps = m.warps;
	close_block(g, "}");
}

/* A tile that a role looks at under a name of its own, which is to be given; NULL: there are too many. */
static Tile *new_alias(Gen *g, Space space, DType t, const int64_t *ext, Range r, bool writes)
{
	if (g->ntiles == MAX_TILES)
		return NULL;
	Tile *x = &g->tile[g->ntiles++];
	*x = (Tile){ .space = space, .type = t, .rank = 2, .range = r, .reads = !writes, .writes = writes, .fixed_layout = true };
	memcpy(x->ext, ext, 2 * sizeof *ext);
	return x;
}

/* Like s[k]. */
static int alias(Gen *g, DType t, const int64_t *ext, Range r, bool writes, const char *fmt, int a, const char *index)
{
	Tile *x = new_alias(g, SHARED, t, ext, r, writes);
	if (!x)
		return -1;
	snprintf(x->name, sizeof x->name, fmt, a, index);
	return g->ntiles - 1;
}

static int loop_var(Gen *g, int n)
{
	Var *v = &g->var[g->nvars++];
	*v = (Var){ .type = DT_I32, .range = { 0, n, 0 }, .uniform = true, .constant = true };
	snprintf(v->name, sizeof v->name, "k%d", fresh(g));
	return g->nvars - 1;
}

/* for (...) {, or the same with a variable that counts. */
static bool open_loop(Gen *g, const char *k, int n, bool *counts)
{
	*counts = CHANCE(g, 30);
	if (*counts) {
		line(g, "i32 %s = 0;", k);
		line(g, "while (%s < %d) {", k, n);
	} else
		line(g, "for (i32 %s = 0; %s < %d; %s++) {", k, k, n, k);
	open_block(g);
	g->nesting++;
	return true;
}

static void close_loop(Gen *g, const char *k, bool counts)
{
	g->nesting--;
	if (counts)
		line(g, "%s++;", k);
	close_block(g, "}");
}

/* ---- a ring that TMA fills ---- */

typedef struct Feed {
	DType type;
	int64_t rows, columns;
	int ring, chunks, id, tensor;
	int64_t first_row, first_column;
	bool limited;
	char limit[NAME_SIZE];
	Range range;
} Feed;

static const char *feed_layout(Gen *g, const Feed *f)
{
	static const char *const names[] = { "linear", "swizzle32", "swizzle64", "swizzle128" };
	int k = rng_below(&g->rng, 4);
	return CHANCE(g, 40) && f->columns * dtype_bytes(f->type) % (16 << k) == 0 ? names[k] : NULL;
}

static bool new_feed(Gen *g, Feed *f, int chunks, int ring, int64_t rows)
{
	f->type = PICK(g, tma_types);
	unsigned bytes = dtype_bytes(f->type);
	f->rows = rows;
	f->columns = (16 << rng_below(&g->rng, 4)) / bytes;
	f->chunks = chunks;
	f->ring = ring;
	f->range = default_range(g, f->type);
	f->range.lo = fmin(f->range.lo, 0); /* what is outside is zero */
	f->id = fresh(g);
	int64_t unit = 16 / bytes, wide = f->columns + (CHANCE(g, 30) ? unit * rng_between(&g->rng, 1, 4) : 0);
	f->first_column = wide > f->columns ? unit * rng_below(&g->rng, (int)((wide - f->columns) / unit) + 1) : 0;
	f->first_row = CHANCE(g, 25) ? rng_below(&g->rng, 9) : 0;
	int64_t all = chunks * rows + f->first_row, ext[2] = { CHANCE(g, 40) ? all - rng_below(&g->rng, (int)rows) : all, wide };
	g->sliced = true;
	f->tensor = tile_param(g, 1, f->type, 2, ext, f->range);
	g->sliced = false;
	if (f->tensor < 0 || ring * rows * f->columns * bytes > g->shared_left)
		return false;
	g->shared_left -= ring * (rows * f->columns * (int64_t)bytes + 1023) / 1024 * 1024;
	const char *layout = feed_layout(g, f);
	text_put(&g->decls, "\tshared %s r%d[ring %d][%lld][%lld]%s%s%s;\n", dtype_name(f->type), f->id, ring, (long long)rows,
		(long long)f->columns, layout ? " layout(" : "", layout ? layout : "", layout ? ")" : "");
	f->limited = CHANCE(g, 35) && g->p->nscalars < MAX_SCALARS;
	if (f->limited) {
		ScalarParam *n = &g->p->scalar[g->p->nscalars++];
		*n = (ScalarParam){ .type = DT_I32, .i = rng_between(&g->rng, 0, (int)ext[0]) };
		snprintf(n->name, sizeof n->name, "n%d", fresh(g));
		snprintf(f->limit, sizeof f->limit, "%s", n->name);
		text_put(&g->params, ", i32 %s", n->name);
	}
	return true;
}

static void put_load(Gen *g, const Feed *f, const char *k, const char *barrier)
{
	char column[64] = "", limit[NAME_SIZE + 12] = "";
	if (f->columns != (g->tile[f->tensor].ext[1]))
		snprintf(column, sizeof column, "[%lld +: %lld]", (long long)f->first_column, (long long)f->columns);
	if (f->limited)
		snprintf(limit, sizeof limit, " limit(%s)", f->limit);
	line(g, "tma_load(%s[%s * %lld + %lld +: %lld]%s, r%d[%s], %s)%s;", g->tile[f->tensor].name, k, (long long)f->rows, (long long)f->first_row,
		(long long)f->rows, column, f->id, k, barrier, limit);
}

static int64_t feed_rows(Gen *g) { return 8 << rng_below(&g->rng, 4); }

static void loading_role(Gen *g, const Feed *f, int n, const char *full, const char *empty, const char *head)
{
	RoleMark m = role_begin(g, head, 1);
	char k[NAME_SIZE], barrier[64];
	bool counts;
	snprintf(k, sizeof k, "k%d", fresh(g));
	open_loop(g, k, f[0].chunks, &counts);
	line(g, "wait(%s[%s - %d]);", empty, k, f[0].ring);
	snprintf(barrier, sizeof barrier, "%s[%s]", full, k);
	for (int i = 0; i < n; i++)
		put_load(g, &f[i], k, barrier);
	line(g, "arrive(%s);", barrier);
	close_loop(g, k, counts);
	role_end(g, m);
}

/* Frags of the role that the loop's statements may change. */
static void role_tiles(Gen *g)
{
	for (int n = rng_between(&g->rng, 1, 2), tries = 0; n > 0 && tries < 8; tries++)
		n -= st_declare(g);
	st_scalar(g);
}

/* A sum over the chunks, so that each of them shows. */
static void add_up(Gen *g, const Feed *f, int sum, const char *k)
{
	line(g, "parallel (i < %lld, j < %lld) %s[i][j] += f32(r%d[%s][i][j]);", (long long)f->rows, (long long)f->columns, g->tile[sum].name, f->id, k);
}

static int new_sum(Gen *g, const Feed *f)
{
	double m = fmax(-f->range.lo, f->range.hi) * f->chunks;
	Range r = { -m, m, f->range.frac };
	int s = range_exact(DT_F32, r) ? tile_frag(g, DT_F32, 2, (int64_t[]){ f->rows, f->columns }, r, NULL) : -1;
	if (s >= 0) {
		line(g, "%s = 0.0;", g->tile[s].name);
		g->tile[s].writes = false;
	}
	return s;
}

static void using_role(Gen *g, const Feed *f, int n, const char *full, const char *empty, const char *head, int warps)
{
	RoleMark m = role_begin(g, head, warps);
	bool counts;
	int sum[2];
	role_tiles(g);
	for (int i = 0; i < n; i++)
		sum[i] = new_sum(g, &f[i]);
	sync_all(g);
	int v = loop_var(g, f[0].chunks), inner = g->ntiles;
	char k[NAME_SIZE];
	snprintf(k, sizeof k, "%s", g->var[v].name);
	open_loop(g, k, f[0].chunks, &counts);
	line(g, "wait(%s[%s]);", full, k);
	for (int i = 0; i < n; i++)
		alias(g, f[i].type, (int64_t[]){ f[i].rows, f[i].columns }, f[i].range, false, "r%d[%s]", f[i].id, k);
	for (int i = 0; i < n; i++)
		if (sum[i] >= 0)
			add_up(g, &f[i], sum[i], k);
	statements(g, rng_between(&g->rng, 1, 3));
	for (int i = inner; i < inner + n && i < g->ntiles; i++)
		g->tile[i].gone = true;
	line(g, "arrive(%s[%s]);", empty, k);
	sync_all(g);
	close_loop(g, k, counts);
	for (int i = inner; i < g->ntiles; i++)
		if (g->tile[i].space == FRAG || g->tile[i].space == WARP_FRAG)
			g->tile[i].gone = true;
	g->var[v].gone = true;
	role_end(g, m);
}

void kernel_pipeline(Gen *g)
{
	int groups = rng_between(&g->rng, 1, 2), chunks = rng_between(&g->rng, 1, 5), ring = rng_between(&g->rng, 1, 3), n = rng_between(&g->rng, 1, 2);
	Feed f[2];
	char head[64];
	g->warps = g->threads_warps = 4 * groups + 1;
	for (int k = 0; k < n; k++)
		if (!new_feed(g, &f[k], chunks, ring, feed_rows(g)))
			return;
	bool array = CHANCE(g, 20);
	char full[NAME_SIZE], empty[NAME_SIZE];
	snprintf(full, sizeof full, array ? "full[1]" : "full");
	snprintf(empty, sizeof empty, array ? "empty[%d]" : "empty", rng_below(&g->rng, 2));
	text_put(&g->decls, array ? "\tmbarrier full[2][ring %d] from(Load), empty[2][ring %d] from(Use);\n"
		: "\tmbarrier full[ring %d] from(Load), empty[ring %d] from(Use);\n", ring, ring);
	bool first = CHANCE(g, 50);
	snprintf(head, sizeof head, "role Load warp(%d)", 4 * groups);
	if (first)
		loading_role(g, f, n, full, empty, head);
	bool instances = groups > 1 && CHANCE(g, 40);
	snprintf(head, sizeof head, instances ? "role Use[h < 2] warpgroup(0)" : groups > 1 ? "role Use warpgroup(0..%d)" : "role Use warpgroup(%d)", groups - 1);
	g->instances = instances ? 2 : 0;
	using_role(g, f, n, full, empty, head, instances ? 4 : 4 * groups);
	g->instances = 0;
	snprintf(head, sizeof head, "role Load warp(%d)", 4 * groups);
	if (!first)
		loading_role(g, f, n, full, empty, head);
}

/* ---- from threads to threads ---- */

/* A ring of two tiles, in shared memory or of a tensor. */
typedef struct Between {
	Space space;
	DType type;
	int64_t ext[2];
	Range range;
	char name[2 * NAME_SIZE];
} Between;

static Between new_between(Gen *g)
{
	Between b = { .space = SHARED, .type = random_type(g), .ext = { 8 << rng_below(&g->rng, 4), 8 << rng_below(&g->rng, 4) } };
	if (b.type == DT_BOOL)
		b.type = DT_I32;
	b.range = default_range(g, b.type);
	int tensor = CHANCE(g, 40) && b.type != DT_TF32 ? tile_param(g, 3, b.type, 3, (int64_t[]){ 2, b.ext[0], b.ext[1] }, b.range) : -1;
	if (tensor >= 0) {
		b.space = GLOBAL;
		g->tile[tensor].gone = true;
		snprintf(b.name, sizeof b.name, "%s", g->tile[tensor].name);
		return b;
	}
	snprintf(b.name, sizeof b.name, "m%d", fresh(g));
	text_put(&g->decls, "\tshared %s %s[ring 2][%lld][%lld];\n", dtype_name(b.type), b.name, (long long)b.ext[0], (long long)b.ext[1]);
	return b;
}

static int one_between(Gen *g, const Between *b, bool writes, const char *k)
{
	Tile *x = new_alias(g, b->space, b->type, b->ext, b->range, writes);
	if (!x)
		return -1;
	snprintf(x->name, sizeof x->name, "%.24s[%.12s%s]", b->name, k, b->space == GLOBAL ? " % 2" : "");
	return g->ntiles - 1;
}

static void giving_role(Gen *g, const Between *b, int chunks, int ready, int taken, bool named)
{
	RoleMark m = role_begin(g, "role Give warpgroup(0)", 4);
	bool counts = false;
	role_tiles(g);
	sync_all(g);
	int v = loop_var(g, chunks);
	char k[NAME_SIZE];
	snprintf(k, sizeof k, "%s", g->var[v].name);
	open_loop(g, k, chunks, &counts);
	if (!named)
		line(g, "wait(b%d[%s - 2]);", taken, k);
	int to = one_between(g, b, true, k);
	element_body(g, to);
	g->tile[to].gone = true;
	g->tile[to].dirty = false;
	line(g, named ? "sync_arrive(b%d);" : "arrive(b%d[%s]);", ready, k);
	if (named)
		line(g, "sync(b%d);", taken);
	sync_all(g);
	close_loop(g, k, counts);
	g->var[v].gone = true;
	role_end(g, m);
}

static void taking_role(Gen *g, const Between *b, int chunks, int ready, int taken, bool named)
{
	RoleMark m = role_begin(g, "role Take warpgroup(1)", 4);
	bool counts = false;
	role_tiles(g);
	double top = fmax(-b->range.lo, b->range.hi) * chunks;
	Range sums = { -top, top, b->range.frac };
	int sum = range_exact(DT_F32, sums) ? tile_frag(g, DT_F32, 2, b->ext, sums, NULL) : -1;
	if (sum >= 0) {
		line(g, "%s = 0.0;", g->tile[sum].name);
		g->tile[sum].writes = false;
	}
	sync_all(g);
	int v = loop_var(g, chunks), inner = g->ntiles;
	char k[NAME_SIZE];
	snprintf(k, sizeof k, "%s", g->var[v].name);
	open_loop(g, k, chunks, &counts);
	line(g, named ? "sync(b%d);" : "wait(b%d[%s]);", ready, k);
	int from = one_between(g, b, false, k);
	if (sum >= 0)
		line(g, "parallel (i < %lld, j < %lld) %s[i][j] += f32(%s[i][j]);", (long long)b->ext[0], (long long)b->ext[1], g->tile[sum].name, g->tile[from].name);
	statements(g, rng_between(&g->rng, 1, 2));
	g->tile[from].gone = true;
	line(g, named ? "sync_arrive(b%d);" : "arrive(b%d[%s]);", taken, k);
	sync_all(g);
	close_loop(g, k, counts);
	for (int i = inner; i < g->ntiles; i++)
		if (g->tile[i].space == FRAG || g->tile[i].space == WARP_FRAG)
			g->tile[i].gone = true;
	g->var[v].gone = true;
	role_end(g, m);
}

/* Named barriers hold one tile at a time, mbarriers a ring of two. */
void kernel_handover(Gen *g)
{
	int ready = fresh(g), taken = fresh(g), chunks = rng_between(&g->rng, 1, 4);
	bool named = CHANCE(g, 40);
	Between b = new_between(g);
	g->warps = g->threads_warps = 8;
	if (named)
		text_put(&g->decls, "\tbarrier b%d from(Give, Take), b%d from(Give, Take);\n", ready, taken);
	else
		text_put(&g->decls, "\tmbarrier b%d[ring 2] from(Give), b%d[ring 2] from(Take);\n", ready, taken);
	giving_role(g, &b, chunks, ready, taken, named);
	taking_role(g, &b, chunks, ready, taken, named);
}

/* ---- clusters: every CTA loads a part of each tile for all ---- */

void kernel_cluster(Gen *g)
{
	int ctas = 2 << rng_below(&g->rng, 2), ring = rng_between(&g->rng, 1, 3), chunks = rng_between(&g->rng, 1, 4), id = fresh(g);
	DType t = PICK(g, tma_types);
	int64_t columns = (16 << rng_below(&g->rng, 4)) / dtype_bytes(t), part = 8 << rng_below(&g->rng, 2), rows = part * ctas;
	Range r = default_range(g, t);
	Feed f = { .type = t, .rows = rows, .columns = columns, .chunks = chunks, .range = r };
	g->grid = 1;
	int x = tile_param(g, 1, t, 2, (int64_t[]){ chunks * rows, columns }, r);
	g->warps = g->threads_warps = 5;
	g->cluster = ctas;
	text_put(&g->decls, "\tshared %s r%d[ring %d][%lld][%lld];\n\tmbarrier full[ring %d] from(Load), empty[ring %d] from(Use);\n", dtype_name(t), id, ring,
		(long long)rows, (long long)columns, ring, ring);
	f.id = id;
	RoleMark m = role_begin(g, "role Load warp(4)", 1);
	line(g, "i32 part = %lld * cluster_rank();", (long long)part);
	line(g, "for (i32 k = 0; k < %d; k++) {", chunks);
	open_block(g);
	line(g, "wait(empty[k - %d]);", ring);
	line(g, "tma_multicast(%s[k * %lld + part +: %lld], r%d[k][part +: %lld], full[k]);", g->p->tensor[0].name, (long long)rows, (long long)part, id, (long long)part);
	line(g, "arrive(full[k]);");
	close_block(g, "}");
	role_end(g, m);
	g->tile[x].reads = false; /* it is the cluster's, others are of each block */
	g->grid = ctas * rng_between(&g->rng, 1, 2);
	m = role_begin(g, "role Use warpgroup(0)", 4);
	int sum = new_sum(g, &f);
	if (CHANCE(g, 50))
		role_tiles(g);
	sync_all(g);
	int v = loop_var(g, chunks), inner = g->ntiles;
	line(g, "for (i32 %s = 0; %s < %d; %s++) {", g->var[v].name, g->var[v].name, chunks, g->var[v].name);
	open_block(g);
	g->nesting++;
	line(g, "wait(full[%s]);", g->var[v].name);
	int from = alias(g, t, (int64_t[]){ rows, columns }, r, false, "r%d[%s]", id, g->var[v].name);
	if (sum >= 0)
		add_up(g, &f, sum, g->var[v].name);
	statements(g, rng_between(&g->rng, 1, 2));
	g->tile[from].gone = true;
	line(g, "unroll for (i32 r = 0; r < %d; r++) arrive(empty[%s], r);", ctas, g->var[v].name);
	sync_all(g);
	g->nesting--;
	close_block(g, "}");
	for (int i = inner; i < g->ntiles; i++)
		if (g->tile[i].space == FRAG || g->tile[i].space == WARP_FRAG)
			g->tile[i].gone = true;
	g->var[v].gone = true;
	role_end(g, m);
}
