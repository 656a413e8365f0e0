/* program.c - from a seed to a program. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/gen/gen.h"

void kernel_tiles(Gen *g)
{
	for (int n = rng_between(&g->rng, 2, 3); n > 0; n--)
		st_declare(g);
	statements(g, rng_between(&g->rng, 4, 12));
}

static void show_all(Gen *g)
{
	for (int k = 0; k < g->ntiles; k++)
		if (!g->tile[k].gone && g->tile[k].reads)
			show_tile(g, k);
}

typedef struct Kind { Kernel *f; int weight; } Kind;
static const Kind kinds[] = {
	{ kernel_tiles, 55 }, { kernel_scalar, 12 }, { kernel_pipeline, 14 }, { kernel_handover, 8 }, { kernel_cluster, 4 }, { kernel_transfers, 12 }, { kernel_flags, 5 },
};

static Kernel *choose_kind(Gen *g)
{
	int total = 0, k = 0;
	for (size_t n = 0; n < sizeof kinds / sizeof kinds[0]; n++)
		total += kinds[n].weight;
	int at = rng_below(&g->rng, total);
	while (at >= kinds[k].weight)
		at -= kinds[k++].weight;
	return kinds[k].f;
}

static const char *text_of(const Text *t) { return t->s ? t->s : ""; }

void program_generate(Program *p, uint64_t seed)
{
	static const int warps[] = { 1, 2, 4, 4, 4, 8, 8, 16 };
	*p = (Program){ .seed = seed };
	snprintf(p->kernel, sizeof p->kernel, "k%llu", (unsigned long long)seed);
	Gen *g = calloc(1, sizeof *g);
	if (!g)
		abort();
	*g = (Gen){ .rng = { seed * 0x2545f4914f6cdd1du + 1 }, .p = p, .depth = 1, .shared_left = 160 << 10, .regs_left = 128, .grid = 1 };
	g->warps = PICK(g, warps);
	g->grid = CHANCE(g, 20) ? rng_between(&g->rng, 2, 3) : 1;
	choose_kind(g)(g);
	show_all(g);
	Text all = { 0 };
	text_put(&all, "%skernel %s(%s) grid (%d) threads (%d)", text_of(&g->head), p->kernel, text_of(&g->params), g->grid,
		32 * (g->threads_warps ? g->threads_warps : g->warps));
	if (g->cluster)
		text_put(&all, " cluster (%d)", g->cluster);
	text_put(&all, "\n{\n%s%s}\n", text_of(&g->decls), text_of(&g->body));
	p->text = all.s;
	text_free(&g->head);
	text_free(&g->params);
	text_free(&g->decls);
	text_free(&g->body);
	free(g);
}

void program_free(Program *p)
{
	free(p->text);
	p->text = NULL;
}
