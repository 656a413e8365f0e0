/* lanes.c - what threads tell one another: votes, and words exchanged through shared memory within a warp. */
#include <stdio.h>

#include "tests/random/gen/gen.h"

/* A condition on which threads may differ. */
static Ex of_threads(Gen *g)
{
	bool differ = g->threads_differ;
	g->threads_differ = true;
	Ex c = ex_condition(g, 2);
	g->threads_differ = differ;
	return c;
}

static void vote(Gen *g, bool warp)
{
	Ex c = of_threads(g);
	Var *v = &g->var[g->nvars++];
	*v = (Var){ .type = DT_BOOL, .range = { 0, 1, 0 }, .uniform = !warp && !g->threads_differ };
	snprintf(v->name, sizeof v->name, "v%d", fresh(g));
	line(g, "bool %s = %s(%s%s);", v->name, CHANCE(g, 50) ? "any" : "all", c.s, warp ? ", warp" : "");
	ex_free(&c);
}

/* In team-level code, of the team: a variable that tile statements may use. */
bool st_vote(Gen *g)
{
	if (g->nvars >= MAX_VARS - 8)
		return false;
	vote(g, false);
	return true;
}

void lanes_vote(Gen *g)
{
	vote(g, CHANCE(g, 60));
}

/* Each thread writes a word, and reads that of another lane of its warp; the tile is nobody else's. */
bool lanes_exchange(Gen *g)
{
	int64_t n = 32 * g->warps;
	DType t = random_type(g);
	Range r = default_range(g, t);
	int s = g->nvars < MAX_VARS - 4 ? tile_shared(g, t, 1, &n, r, NULL) : -1;
	if (s < 0)
		return false;
	const char *name = g->tile[s].name;
	g->tile[s].gone = true;
	for (int rounds = rng_between(&g->rng, 1, 2); rounds > 0; rounds--) {
		Ex e = ex_into(g, ex_any(g, 2), t, r);
		Var *v = &g->var[g->nvars++];
		*v = (Var){ .type = t == DT_TF32 ? DT_F32 : t, .range = r };
		snprintf(v->name, sizeof v->name, "v%d", fresh(g));
		line(g, "%s[thread()] = %s;", name, e.s);
		line(g, CHANCE(g, 20) ? "if (warp() < %d) sync_warp(); else sync_warp();" : "sync_warp();", rng_below(&g->rng, 4));
		if (CHANCE(g, 50))
			line(g, "%s %s = %s[thread() ^ %d];", dtype_name(v->type), v->name, name, rng_below(&g->rng, 32));
		else
			line(g, "%s %s = %s[32 * warp() + (lane() + %d) %% 32];", dtype_name(v->type), v->name, name, rng_below(&g->rng, 32));
		line(g, "sync_warp();");
		ex_free(&e);
	}
	return true;
}
