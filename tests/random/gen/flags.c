/* flags.c - CTAs that hand tiles on through a tensor, by atomics and fences. */
#include <stdio.h>

#include "tests/random/gen/gen.h"

typedef struct Chain {
	int rows, flags; /* tensors of all CTAs */
	int own, got;    /* fragments */
	bool all;        /* from every CTA before, or the last of them */
	int staged;      /* a shared tile that rows are loaded to in bulk; -1: they are copied */
} Chain;

static int initialised(Gen *g, DType t, const int64_t *ext, Range r)
{
	int f = tile_frag(g, t, 2, ext, r, NULL);
	if (f >= 0)
		initialise(g, f);
	return f;
}

static bool new_chain(Gen *g, Chain *c)
{
	int ctas = rng_between(&g->rng, 2, 4);
	int64_t ext[3] = { ctas, 4 << rng_below(&g->rng, 4), 4 << rng_below(&g->rng, 4) }, n = ctas;
	DType t = random_type(g);
	t = t == DT_BOOL || t == DT_TF32 ? DT_I32 : t;
	Range r = default_range(g, t);
	c->rows = tile_param(g, 3, t, 3, ext, r);
	c->flags = tile_param(g, 3, DT_I32, 1, &n, (Range){ 0, 0, 0 });
	g->tile[c->rows].gone = g->tile[c->flags].gone = true; /* the rest of the program has tensors of one CTA */
	g->grid = ctas;
	c->own = initialised(g, t, ext + 1, r);
	c->got = initialised(g, t, ext + 1, r);
	c->all = CHANCE(g, 30);
	c->staged = CHANCE(g, 50) && ext[1] * ext[2] * dtype_bytes(t) % 16 == 0 ? tile_shared(g, t, 2, ext + 1, r, "linear") : -1;
	if (c->staged >= 0) {
		g->tile[c->staged].gone = true;
		text_put(&g->decls, "\tmbarrier full[ring 1] count(%d);\n", g->warps);
	}
	return c->own >= 0 && c->got >= 0;
}

static void give(Gen *g, const Chain *c)
{
	line(g, "copy(%s, %s[blockIdx.x]);", g->tile[c->own].name, g->tile[c->rows].name);
	sync_now(g);
	line(g, "once {");
	line(g, "\tfence_device();");
	line(g, "\tatomic_add(%s[blockIdx.x], 1);", g->tile[c->flags].name);
	line(g, "}");
}

static void take(Gen *g, const Chain *c)
{
	int id = fresh(g);
	bool staged = c->staged >= 0;
	sync_all(g); /* the loop may have no turn */
	if (staged)
		line(g, "i32 u%d = 0;", id);
	line(g, "for (i32 c%d = %s; c%d < blockIdx.x; c%d++) {", id, c->all ? "0" : "max(blockIdx.x - 1, 0)", id, id);
	open_block(g);
	line(g, "once {");
	line(g, "\ti32 n%d = 0;", id);
	line(g, "\twhile (n%d == 0) n%d = atomic_add(%s[c%d], 0);", id, id, g->tile[c->flags].name, id);
	line(g, "\tfence_device();");
	if (staged)
		line(g, "\tfence_async_global();");
	line(g, "}");
	line(g, "sync();");
	if (staged) {
		line(g, "bulk_load(%s[c%d], %s, full[u%d]);", g->tile[c->rows].name, id, g->tile[c->staged].name, id);
		line(g, "arrive(full[u%d]);", id);
		line(g, "wait(full[u%d]);", id);
		line(g, "u%d++;", id);
		line(g, "copy(%s, %s);", g->tile[c->staged].name, g->tile[c->got].name);
	} else {
		line(g, "copy(%s[c%d], %s);", g->tile[c->rows].name, id, g->tile[c->got].name);
	}
	close_block(g, "}");
}

void kernel_flags(Gen *g)
{
	Chain c;
	g->grid = 1;
	if (!new_chain(g, &c))
		return;
	statements(g, rng_between(&g->rng, 0, 3));
	give(g, &c);
	statements(g, rng_between(&g->rng, 0, 2));
	take(g, &c);
	statements(g, rng_between(&g->rng, 0, 3));
}
