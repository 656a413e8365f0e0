/* elements.c - element loops: bodies over fragments, shared and global tiles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/gen/gen.h"

/* ---- indices ---- */

static bool was_written(const Loop *l, int k)
{
	for (int n = 0; n < l->nwritten; n++)
		if (l->written[n] == k)
			return true;
	return false;
}

/* An index below ext from a loop index that runs below n: often, but not always, the same. */
static void index_text(Gen *g, char *out, size_t size, const char *i, int64_t n, int64_t ext)
{
	int64_t slack = ext - n;
	int kind = rng_below(&g->rng, 8);
	if (slack >= 0 && kind < 3) {
		int64_t c = slack ? rng_below(&g->rng, (int)slack + 1) : 0;
		snprintf(out, size, c ? "%s + %lld" : "%s", i, (long long)c);
	} else if (slack >= 0 && kind == 3)
		snprintf(out, size, "%lld - %s", (long long)n - 1, i);
	else if (kind == 4)
		snprintf(out, size, "(%s * %d + %d) %% %lld", i, rng_between(&g->rng, 1, 7), rng_below(&g->rng, 50), (long long)ext);
	else if (kind == 5 && n / 2 <= ext)
		snprintf(out, size, "%s / 2", i);
	else if (kind == 6)
		snprintf(out, size, "%d", rng_below(&g->rng, (int)ext));
	else
		snprintf(out, size, "%s %% %lld", i, (long long)ext);
}

/* Subscripts of a shared or global tile. */
static void place_text(Gen *g, const Tile *t, char *out, size_t size)
{
	const Loop *l = g->loop;
	size_t used = 0;
	bool crossed = CHANCE(g, 20);
	out[0] = '\0';
	for (int d = 0; d < t->rank; d++) {
		char one[64];
		int n = t->rank == 1 ? rng_below(&g->rng, l->rank) : (d + (l->rank > 1 && crossed)) % l->rank;
		if (t->rank == 3 && l->rank > 1)
			n = d == 0 ? rng_below(&g->rng, 2) : d - 1;
		index_text(g, one, sizeof one, l->index[n], l->ext[n], t->ext[d]);
		used += (size_t)snprintf(out + used, size - used, "[%s]", one);
	}
}

/* Loops of fragments of products have those extents, others powers of two. */
static bool frag_fits(const Gen *g, const Tile *t)
{
	const Loop *l = g->loop;
	if (t->space != (l->warp ? WARP_FRAG : FRAG))
		return false;
	if (t->rank == 2)
		return l->rank == 2 && t->ext[0] == l->ext[0] && t->ext[1] == l->ext[1];
	return (t->ext[0] == l->ext[0] || (l->rank == 2 && t->ext[0] == l->ext[1])) && l->rank == 2;
}

/* A fragment has its elements where the loop is. */
static void frag_place(Gen *g, const Tile *t, char *out, size_t size)
{
	const Loop *l = g->loop;
	if (t->rank == 2 || l->rank == 1)
		snprintf(out, size, t->rank == 2 ? "[%s][%s]" : "[%s]", l->index[0], l->index[1]);
	else
		snprintf(out, size, "[%s]", t->ext[0] == l->ext[0] && (t->ext[0] != l->ext[1] || CHANCE(g, 50)) ? l->index[0] : l->index[1]);
}

static bool readable_here(const Gen *g, const Tile *t)
{
	int k = (int)(t - g->tile);
	if (!t->reads || was_written(g->loop, k))
		return false;
	if (t->space == FRAG || t->space == WARP_FRAG)
		return frag_fits(g, t) && (t->rank == 2 || g->loop->rank == 2);
	return true;
}

Ex element_leaf(Gen *g)
{
	char at[256];
	int k = tile_pick(g, readable_here);
	if (k < 0)
		return ex_make(DT_I32, (Range){ 0, (double)g->loop->ext[0] - 1, 0 }, "%s", g->loop->index[0]);
	Tile *t = &g->tile[k];
	if (t->space == FRAG || t->space == WARP_FRAG)
		frag_place(g, t, at, sizeof at);
	else
		place_text(g, t, at, sizeof at);
	g->loop->read[k] = true;
	/* past an edge under a condition */
	if (t->rank == 1 && (t->space == GLOBAL || t->space == SHARED) && CHANCE(g, 15)) {
		const char *i = g->loop->index[0];
		long long c = 1 + rng_below(&g->rng, 5), n = (long long)t->ext[0];
		Range r = { t->range.lo < 0 ? t->range.lo : 0, t->range.hi > 0 ? t->range.hi : 0, t->range.frac };
		return ex_make(t->type, r, "(%s + %lld < %lld ? %s[%s + %lld] : %s)", i, c, n, t->name, i, c, t->type == DT_BOOL ? "false" : "0");
	}
	return ex_make(t->type, t->range, "%s%s", t->name, at);
}

/* ---- bodies ---- */

static void note_write(Loop *l, int k)
{
	if (!was_written(l, k) && l->nwritten < 8)
		l->written[l->nwritten++] = k;
}

/* One place for each element: the loop's indices, in memory also shifted, reversed or exchanged. */
static bool target_place(Gen *g, const Tile *t, char *out, size_t size)
{
	const Loop *l = g->loop;
	if (t->rank != l->rank)
		return false;
	for (int d = 0; d < t->rank; d++)
		if (t->ext[d] < l->ext[d])
			return false;
	if (t->space == FRAG || t->space == WARP_FRAG) {
		frag_place(g, t, out, size);
		return frag_fits(g, t) || t->rank == 1;
	}
	size_t used = 0;
	bool exact = t->ext[0] == l->ext[0] && (t->rank == 1 || t->ext[1] == l->ext[1]);
	bool crossed = t->rank == 2 && CHANCE(g, 15) && t->ext[0] >= l->ext[1] && t->ext[1] >= l->ext[0] && (!exact || t->ext[0] == t->ext[1]);
	for (int d = 0; d < t->rank; d++) {
		int n = crossed ? 1 - d : d;
		int64_t c = t->ext[d] - l->ext[n];
		if (CHANCE(g, 20))
			used += (size_t)snprintf(out + used, size - used, "[%lld - %s]", (long long)(l->ext[n] - 1), l->index[n]);
		else if (c)
			used += (size_t)snprintf(out + used, size - used, "[%s + %d]", l->index[n], rng_below(&g->rng, (int)c + 1));
		else
			used += (size_t)snprintf(out + used, size - used, "[%s]", l->index[n]);
	}
	return true;
}

static void assign(Gen *g, int k, const char *at)
{
	Tile *t = &g->tile[k];
	Ex e = ex_into(g, ex_any(g, rng_between(&g->rng, 1, 3)), t->type, t->range);
	if (CHANCE(g, 30) && t->type != DT_BOOL) { /* the assignment converts: all but into smaller integers, where ranges matter */
		Ex c = ex_condition(g, 2);
		line(g, "if (%s) %s%s = %s;", c.s, t->name, at, e.s);
		if (CHANCE(g, 50)) {
			ex_free(&e);
			e = ex_into(g, ex_any(g, 1), t->type, t->range);
			line(g, "else %s%s = %s;", t->name, at, e.s);
		}
		ex_free(&c);
	} else
		line(g, "%s%s = %s;", t->name, at, e.s);
	ex_free(&e);
}

static int declare_local(Gen *g)
{
	if (g->nvars == MAX_VARS)
		return -1;
	Ex e = ex_any(g, 2);
	DType t = computed(e.type);
	if (e.literal || t != e.type) {
		ex_free(&e);
		e = ex_of_type(g, t, 1);
	}
	Var *v = &g->var[g->nvars];
	*v = (Var){ .type = e.type, .range = e.range, .uniform = true };
	snprintf(v->name, sizeof v->name, "v%d", fresh(g));
	line(g, "%s %s = %s;", dtype_name(e.type), v->name, e.s);
	ex_free(&e);
	return g->nvars++;
}

typedef struct Held { Text text; int lines; } Held;

/* The body is written before the syncs that it needs are known. */
static Held hold(Gen *g)
{
	Held h = { g->body, g->p->statements };
	g->body = (Text){ 0 };
	return h;
}

static void release(Gen *g, Held h, const Loop *l)
{
	Text body = g->body;
	g->body = h.text;
	bool writes[MAX_TILES] = { false };
	for (int n = 0; n < l->nwritten; n++)
		writes[l->written[n]] = true;
	tiles_touch(g, l->read, writes);
	text_put(&g->body, "%s", body.s ? body.s : "");
	text_free(&body);
}

static bool other_target(const Gen *g, const Tile *t)
{
	bool memory = t->space == GLOBAL || t->space == SHARED;
	if (g->loop->warp && memory) /* each warp would write it */
		return false;
	if (!t->writes || was_written(g->loop, (int)(t - g->tile)) || g->loop->read[t - g->tile])
		return false;
	if (t->space == FRAG || t->space == WARP_FRAG)
		return frag_fits(g, t) && t->rank == 2;
	return t->rank == g->loop->rank && !(t->space == GLOBAL && !t->reads);
}

static void loop_head(Gen *g)
{
	static const char *const batches[] = { "", "", "", " batch(1)", " batch(4)", " batch(32)" };
	const Loop *l = g->loop;
	if (l->rank == 1)
		line(g, "parallel (%s < %lld)%s {", l->index[0], (long long)l->ext[0], PICK(g, batches));
	else
		line(g, "parallel (%s < %lld, %s < %lld)%s {", l->index[0], (long long)l->ext[0], l->index[1], (long long)l->ext[1], PICK(g, batches));
	open_block(g);
}

/* Layouts without products want powers of two. */
static int64_t power_below(int64_t n)
{
	int64_t p = 1;
	while (2 * p <= n)
		p *= 2;
	return p;
}

/* What any or all elements have, into a variable of all threads. */
static void ask(Gen *g, int id, bool all)
{
	Var *v = &g->var[g->nvars++];
	*v = (Var){ .type = DT_BOOL, .range = { 0, 1, 0 }, .uniform = true };
	snprintf(v->name, sizeof v->name, "v%d", fresh(g));
	line(g, "bool %s = %s(s%d);", v->name, all ? "all" : "any", id);
}

static void combine(Gen *g, int id, bool all)
{
	Ex c = ex_condition(g, 2);
	line(g, CHANCE(g, 30) ? "if (i %% 3 != 1) s%d %s %s;" : "s%d %s %s;", id, all ? "&=" : "|=", c.s);
	ex_free(&c);
}

static void run_loop(Gen *g, int target, bool shrink)
{
	bool asks = g->tile[target].space != WARP_FRAG && g->nvars < MAX_VARS - 8 && CHANCE(g, 12), all = CHANCE(g, 50);
	int id = asks ? fresh(g) : 0;
	if (asks)
		line(g, "bool s%d = %s;", id, all ? "true" : "false");
	Tile *t = &g->tile[target];
	Loop l = { .rank = t->rank, .index = { "i", "j" }, .warp = t->space == WARP_FRAG };
	int vars = g->nvars, extra = rng_below(&g->rng, 3);
	char at[128];
	for (int d = 0; d < t->rank; d++) {
		l.ext[d] = t->space == FRAG ? t->ext[d] : power_below(t->ext[d]);
		if (shrink && l.ext[d] > 8 && CHANCE(g, 30))
			l.ext[d] /= 2;
	}
	g->loop = &l;
	Held h = hold(g);
	loop_head(g);
	note_write(&l, target);
	if (CHANCE(g, 40))
		declare_local(g);
	bool ok = target_place(g, t, at, sizeof at);
	if (ok)
		assign(g, target, at);
	for (int n = 0; n < extra && !shrink; n++) {
		int k = tile_pick(g, other_target);
		if (k < 0 || !target_place(g, &g->tile[k], at, sizeof at))
			break;
		note_write(&l, k);
		assign(g, k, at);
	}
	if (asks)
		combine(g, id, all);
	close_block(g, "}");
	g->loop = NULL;
	g->nvars = vars;
	release(g, h, &l);
	if (asks)
		ask(g, id, all);
}

/* Gives every element of a new tile a value. */
void element_body(Gen *g, int target)
{
	Tile *t = &g->tile[target];
	Loop l = { .rank = t->rank, .index = { "i", "j" }, .warp = t->space == WARP_FRAG, .ext = { t->ext[0], t->rank > 1 ? t->ext[1] : 0 } };
	g->loop = &l;
	Held h = hold(g);
	loop_head(g);
	note_write(&l, target);
	Ex e = ex_into(g, ex_any(g, 2), t->type, t->range);
	line(g, t->rank == 1 ? "%s[i] = %s;" : "%s[i][j] = %s;", t->name, e.s);
	ex_free(&e);
	close_block(g, "}");
	g->loop = NULL;
	release(g, h, &l);
}

static bool is_target(const Gen *g, const Tile *t)
{
	(void)g;
	return t->writes && t->rank <= 2 && (t->space == FRAG || t->space == SHARED || (t->space == GLOBAL && t->reads)) &&
		(t->space != FRAG || t->rank == 2);
}

bool st_elements(Gen *g)
{
	int k = tile_pick(g, is_target);
	if (k < 0)
		return false;
	run_loop(g, k, g->tile[k].space != FRAG);
	return true;
}

static bool is_warp_target(const Gen *g, const Tile *t)
{
	(void)g;
	return t->space == WARP_FRAG;
}

bool st_warp_elements(Gen *g)
{
	int k = tile_pick(g, is_warp_target);
	if (k < 0)
		return false;
	run_loop(g, k, false);
	return true;
}
