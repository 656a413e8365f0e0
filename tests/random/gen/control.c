/* control.c - statements in a row, in loops and under conditions; declarations on the way. */
#include <stdio.h>
#include <string.h>

#include "tests/random/gen/gen.h"

typedef struct Choice { Statement *f; int weight; bool nested; } Choice;

static const Choice choices[] = {
	{ st_elements, 36, true }, { st_copy, 24, true }, { st_fill, 4, true }, { st_scan, 7, true }, { st_reduce, 7, true },
	{ st_scalar, 10, true }, { st_control, 8, true }, { st_declare, 14, false }, { st_limit_copy, 5, false }, { st_cp_async, 4, false },
	{ st_product, 10, true }, { st_warp_product, 4, true }, { st_warp_elements, 4, true }, { st_atomic, 4, true }, { st_vector, 4, false }, { st_warp_view, 4, false }, { st_vote, 4, true }, { st_weave, 4, false },
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

static Statement *choose(Gen *g)
{
	int total = 0;
	for (int k = 0; k < CHOICES; k++)
		total += choices[k].weight;
	int n = rng_below(&g->rng, total), k = 0;
	while (n >= choices[k].weight)
		n -= choices[k++].weight;
	return g->nesting && !choices[k].nested ? NULL : choices[k].f;
}

void statements(Gen *g, int n)
{
	for (int tries = 0; n > 0 && tries < 60; tries++) {
		Statement *f = choose(g);
		if (f && f(g))
			n--;
	}
}

/* What a region declares ends with it; what it leaves written or read is settled before it ends. */
static void region(Gen *g, int n)
{
	int tiles = g->ntiles, vars = g->nvars;
	open_block(g);
	g->nesting++;
	statements(g, n);
	g->nesting--;
	sync_all(g);
	g->depth--;
	for (int k = tiles; k < g->ntiles; k++)
		if (g->tile[k].space == FRAG || g->tile[k].space == WARP_FRAG)
			g->tile[k].gone = true;
	for (int k = vars; k < g->nvars; k++)
		g->var[k].gone = true;
}

static void loop_of(Gen *g)
{
	Var *v = &g->var[g->nvars++];
	int n = rng_between(&g->rng, 1, 3), step = rng_between(&g->rng, 1, 2);
	*v = (Var){ .type = DT_I32, .range = { 0, n * step, 0 }, .uniform = true, .constant = true };
	snprintf(v->name, sizeof v->name, "k%d", fresh(g));
	sync_all(g);
	line(g, "%sfor (i32 %s = 0; %s < %d; %s += %d) {", CHANCE(g, 20) ? "unroll " : "", v->name, v->name, n * step, v->name, step);
	int self = (int)(v - g->var);
	if (CHANCE(g, 12)) /* nothing is unsettled here */
		line(g, "\tif (%s == %d) %s;", v->name, step, CHANCE(g, 50) ? "break" : "continue");
	region(g, rng_between(&g->rng, 1, 3));
	line(g, "}");
	g->var[self].gone = true;
}

/* As long as any thread has rounds left. */
static void while_any(Gen *g)
{
	int id = fresh(g);
	sync_all(g);
	g->threads_differ = true;
	Ex e = ex_into(g, ex_any(g, 1), DT_I32, (Range){ 0, 3, 0 });
	g->threads_differ = false;
	line(g, "i32 w%d = %s;", id, e.s);
	ex_free(&e);
	line(g, "while (any(w%d > 0)) {", id);
	region(g, rng_between(&g->rng, 1, 2));
	line(g, "\tw%d--;", id);
	line(g, "}");
}

static void while_of(Gen *g)
{
	if (CHANCE(g, 40)) {
		while_any(g);
		return;
	}
	int id = fresh(g);
	sync_all(g);
	line(g, "i32 w%d = %d;", id, rng_between(&g->rng, 1, 3));
	line(g, "while (w%d > 0) {", id);
	region(g, rng_between(&g->rng, 1, 2));
	line(g, "\tw%d--;", id);
	line(g, "}");
}

static void if_of(Gen *g)
{
	Ex a = ex_uniform_int(g, 0, 7);
	sync_all(g);
	line(g, "if (%s < %d) {", a.s, rng_below(&g->rng, 9));
	ex_free(&a);
	region(g, rng_between(&g->rng, 1, 2));
	if (CHANCE(g, 50)) {
		line(g, "} else {");
		region(g, 1);
	}
	line(g, "}");
}

bool st_control(Gen *g)
{
	if (g->nesting >= 2 || g->nvars >= MAX_VARS - 8)
		return false;
	int kind = rng_below(&g->rng, 10);
	if (kind < 5)
		loop_of(g);
	else if (kind < 7)
		while_of(g);
	else
		if_of(g);
	return true;
}

/* ---- declarations ---- */

/* What threads copy has powers of two; other extents are for tensors that element loops look at. */
static void random_shape(Gen *g, int64_t *ext, bool odd)
{
	for (int d = 0; d < 2; d++)
		ext[d] = odd && CHANCE(g, 40) ? rng_between(&g->rng, 1, 70) : 1 << rng_between(&g->rng, 2, 7);
	if (ext[0] * ext[1] > 4096)
		ext[0] = 32;
}

static const char *random_layout(Gen *g, const int64_t *ext, char *text, size_t size)
{
	if (CHANCE(g, 15) && ext[0] == 16 * g->warps && g->warps % 4 == 0 && ext[1] % 8 == 0)
		return "mma";
	if (!CHANCE(g, 15))
		return NULL;
	int64_t threads = 32 * g->warps, each = ext[0] * ext[1] / threads;
	if (each < 1 || each * threads != ext[0] * ext[1])
		return NULL;
	int64_t rows = 1;
	while (rows < each && rows < ext[0] && CHANCE(g, 50))
		rows *= 2;
	if (each / rows > ext[1])
		return NULL;
	snprintf(text, size, "blocked(%lld, %lld)", (long long)rows, (long long)(each / rows));
	return text;
}

static const char *random_swizzle(Gen *g, DType t, const int64_t *ext)
{
	static const char *const names[] = { "linear", "swizzle32", "swizzle64", "swizzle128" };
	static const int bytes[] = { 1, 32, 64, 128 };
	int k = rng_below(&g->rng, 4);
	if (!CHANCE(g, 30) || ext[1] * dtype_bytes(t) % bytes[k])
		return NULL;
	return names[k];
}

bool st_declare(Gen *g)
{
	int64_t ext[3];
	char text[40];
	DType t = random_type(g);
	Range r = default_range(g, t);
	int kind = rng_below(&g->rng, 10), k;
	if (g->nesting || g->ntiles > 24)
		return false;
	random_shape(g, ext, kind < 3);
	if (kind < 3) { /* an in or inout tensor */
		int rank = rng_between(&g->rng, 1, 3);
		ext[2] = rng_between(&g->rng, 1, 8);
		k = tile_param(g, CHANCE(g, 50) ? 1 : 3, t, rank, ext, r);
		return k >= 0;
	}
	if (kind < 5) {
		int rank = rng_between(&g->rng, 1, 2);
		k = tile_shared(g, t, rank, ext, r, rank == 2 ? random_swizzle(g, t, ext) : NULL);
	} else if (kind < 9)
		k = tile_frag(g, t, 2, ext, r, random_layout(g, ext, text, sizeof text));
	else
		k = tile_warp_frag(g, t, 16, 8 << rng_below(&g->rng, 3), r);
	if (k < 0)
		return false;
	initialise(g, k);
	return true;
}
