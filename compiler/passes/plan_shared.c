/* plan_shared - needs: {layout} of shared tiles and fragments.  Establishes: {offset},
 * {bytes} of one stage and {stage_bytes} between stages of every shared tile,
 * {offset} of every mbarrier, {scratch scratch_bytes} of teams whose reductions
 * or scans cross warps, {smem} of the kernel; all fits the SM. */
#include "compiler/analysis/collective.h"
#include "compiler/passes/pass.h"

#include <stdlib.h>

enum { MAX_OBJECTS = 512 };

typedef struct Planner {
	Tir *t;
	Op *kernel;
	Op *tiles[MAX_OBJECTS]; /* with storage of their own */
	int ntiles;
	int64_t top;
	bool ok;
} Planner;

static int64_t round_up(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

/* Swizzle patterns repeat over eight rows; their phase is taken from the address. */
static int64_t alignment(const Op *tile)
{
	int64_t width = swizzle_bytes(tile);
	return width ? 8 * width : 128;
}

static int64_t stages(const Op *tile)
{
	int64_t ring = attr_int(tile, AT_RING, 0);
	return ring > 0 ? ring : 1;
}

static int64_t span(const Op *tile)
{
	return attr_int(tile, AT_STAGE_BYTES, 0) * (stages(tile) - 1) + attr_int(tile, AT_BYTES, 0);
}

/* ---- placing ---- */

/* A storage is aligned for every tile in it. */
static int64_t root_alignment(const Planner *p, const Op *root)
{
	int64_t align = alignment(root);
	for (const Op *op = p->kernel->regions[0]->first; op; op = op->next)
		if (op->code == OP_SHARED && shared_root(op) == root && alignment(op) > align)
			align = alignment(op);
	return align;
}

static void measure(Planner *p, Op *tile)
{
	int64_t bytes = shared_stage_bytes(tile);
	attr_set_int(p->t, tile, AT_BYTES, bytes);
	attr_set_int(p->t, tile, AT_STAGE_BYTES, attr_int(tile, AT_RING, 0) > 0 ? round_up(bytes, root_alignment(p, tile)) : bytes);
}

static void place_tiles(Planner *p)
{
	static const int64_t order[] = { 1024, 512, 256, 128 };
	for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
		for (int i = 0; i < p->ntiles; i++) {
			Op *tile = p->tiles[i];
			if (root_alignment(p, tile) != order[k])
				continue;
			p->top = round_up(p->top, order[k]);
			attr_set_int(p->t, tile, AT_OFFSET, p->top);
			p->top += span(tile);
		}
}

static void place_mbarriers(Planner *p)
{
	p->top = round_up(p->top, 8);
	for (Op *op = p->kernel->regions[0]->first; op; op = op->next) {
		if (op->code != OP_MBARRIER)
			continue;
		attr_set_int(p->t, op, AT_OFFSET, p->top);
		p->top += 8 * attr_int(op, AT_SLOTS, 1);
	}
}

/* ---- scratch: one piece per instance of a team, for its reductions and scans one after the other ---- */

typedef struct Scratch {
	Planner *p;
	Op *team;
	int64_t bytes;
} Scratch;

static bool measure_scratch(Op *op, void *user)
{
	Scratch *s = user;
	int64_t bytes = tir_team(op) == s->team ? collective_scratch(s->p->t->arena, op) : 0;
	s->bytes = bytes > s->bytes ? bytes : s->bytes;
	return op->code != OP_PARALLEL;
}

static void place_scratch(Planner *p, Op *team)
{
	Scratch s = { p, team, 0 };
	tir_walk(team->regions[0], measure_scratch, &s);
	if (!s.bytes)
		return;
	p->top = round_up(p->top, 16);
	attr_set_int(p->t, team, AT_SCRATCH, p->top);
	attr_set_int(p->t, team, AT_SCRATCH_BYTES, s.bytes);
	p->top += s.bytes * attr_int(team, AT_INSTANCES, 1);
}

static void place_scratches(Planner *p)
{
	place_scratch(p, p->kernel);
	for (Op *op = p->kernel->regions[0]->first; op; op = op->next)
		if (op->code == OP_ROLE)
			place_scratch(p, op);
}

/* ---- tiles in the storage of others ---- */

static void alias_error(Planner *p, const Op *tile, const Op *base, const char *why)
{
	tir_error(p->t, tile, E_SHARED_SIZE, "'%s' does not fit at(%s, %lld): %s", object_name(tile), object_name(base),
		(long long)attr_int(tile, AT_AT_OFFSET, 0), why);
	diag_note(p->t->diags, base->loc, "'%s' is declared here", object_name(base));
	p->ok = false;
}

static void place_alias(Planner *p, Op *tile)
{
	Arena *a = p->t->arena;
	const Op *base = operand(tile, ARG_OBJECT)->def, *root = shared_root(tile);
	int64_t at = attr_int(tile, AT_AT_OFFSET, 0), bytes = shared_stage_bytes(tile), room = attr_int(base, AT_BYTES, 0);
	int64_t offset = attr_int(base, AT_OFFSET, 0) + at, stride = attr_int(base, AT_STAGE_BYTES, 0);
	int64_t start = offset - attr_int(root, AT_OFFSET, 0), unit = alignment(tile) > 128 ? alignment(tile) : 16;
	attr_set_int(p->t, tile, AT_BYTES, bytes);
	attr_set_int(p->t, tile, AT_OFFSET, offset);
	attr_set_int(p->t, tile, AT_STAGE_BYTES, attr_int(base, AT_RING, 0) > 0 ? stride : bytes);
	if (attr_int(tile, AT_RING, 0) != attr_int(base, AT_RING, 0))
		alias_error(p, tile, base, arena_printf(a, "its ring has %lld stages, the other's %lld",
			(long long)attr_int(tile, AT_RING, 0), (long long)attr_int(base, AT_RING, 0)));
	else if (at < 0 || at + bytes > room)
		alias_error(p, tile, base, arena_printf(a, "it ends at byte %lld of %lld", (long long)(at + bytes), (long long)room));
	else if (start % unit)
		alias_error(p, tile, base, base == root ? arena_printf(a, "layout %s needs an offset that is a multiple of %lld", layout_name(p->t, tile), (long long)unit)
			: arena_printf(a, "that is byte %lld of '%s', and layout %s begins at a multiple of %lld", (long long)start, object_name(root),
				layout_name(p->t, tile), (long long)unit));
}

/* ---- the limit ---- */

static int by_size(const void *x, const void *y)
{
	const Op *a = *(Op *const *)x, *b = *(Op *const *)y;
	int64_t d = span(b) - span(a);
	return d ? d > 0 ? 1 : -1 : attr_int(a, AT_OFFSET, 0) > attr_int(b, AT_OFFSET, 0) ? 1 : -1;
}

static void note_tiles(Planner *p)
{
	qsort(p->tiles, (size_t)p->ntiles, sizeof p->tiles[0], by_size);
	for (int i = 0; i < p->ntiles; i++) {
		const Op *tile = p->tiles[i];
		long long bytes = attr_int(tile, AT_BYTES, 0);
		if (stages(tile) > 1)
			diag_note(p->t->diags, tile->loc, "%-12s %8lld bytes = %lld stages of %lld", object_name(tile), (long long)span(tile),
				(long long)stages(tile), bytes);
		else
			diag_note(p->t->diags, tile->loc, "%-12s %8lld bytes", object_name(tile), bytes);
	}
}

static void check_total(Planner *p)
{
	int64_t ctas = attr_int(p->kernel, AT_OCCUPANCY, 1);
	if (ctas < 1)
		ctas = 1;
	const Machine *m = p->t->machine;
	int64_t limit = m->sm_shared / ctas - m->cta_reserved;
	if (limit > m->cta_shared)
		limit = m->cta_shared;
	attr_set_int(p->t, p->kernel, AT_SMEM, p->top);
	if (p->top <= limit)
		return;
	const char *with = ctas > 1 ? arena_printf(p->t->arena, " with occupancy (%lld)", (long long)ctas) : "";
	tir_error(p->t, p->kernel, E_SHARED_SIZE, "kernel '%s' needs %lld bytes of shared memory; a CTA has %lld%s",
		attr_text(p->kernel, AT_NAME, ""), (long long)p->top, (long long)limit, with);
	note_tiles(p);
	p->ok = false;
}

/* ---- the kernel ---- */

static void plan(Planner *p)
{
	for (Op *op = p->kernel->regions[0]->first; op; op = op->next) {
		if (op->code != OP_SHARED || op->nargs)
			continue;
		measure(p, op);
		if (p->ntiles < MAX_OBJECTS) {
			p->tiles[p->ntiles++] = op;
		} else {
			tir_error(p->t, op, E_LIMIT, "more than %d shared tiles", MAX_OBJECTS);
			p->ok = false;
			return;
		}
	}
	place_tiles(p);
	for (Op *op = p->kernel->regions[0]->first; op; op = op->next)
		if (op->code == OP_SHARED && op->nargs)
			place_alias(p, op);
	place_mbarriers(p);
	place_scratches(p);
	check_total(p);
}

bool pass_plan_shared(Tir *t)
{
	bool ok = true;
	for (Op *k = t->first; k; k = k->next) {
		Planner p = { .t = t, .kernel = k, .ok = true };
		plan(&p);
		ok &= p.ok;
	}
	return ok;
}
