/* collective.c - reductions and scans of fragments: in a thread, across lanes by shuffles, across warps through the
 * team's scratch. */
#include "compiler/analysis/collective.h"
#include "compiler/lower/context.h"
#include "compiler/lower/registers.h"

#include <string.h>

typedef V (*Combine)(Lower *, V, V);

static V add_f32(Lower *L, V a, V b) { return LLVMBuildFAdd(L->b, a, b, ""); }
static V mul_f32(Lower *L, V a, V b) { return LLVMBuildFMul(L->b, a, b, ""); }
static V max_f32(Lower *L, V a, V b) { return intrinsic(L, "llvm.maxnum", &L->f32, 1, (V[]){ a, b }, 2); }

static V min_f32(Lower *L, V a, V b) { return intrinsic(L, "llvm.minnum", &L->f32, 1, (V[]){ a, b }, 2); }

static Combine combine_of(const Op *op)
{
	const char *k = attr_text(op, AT_KIND, "sum");
	return strcmp(k, "max") == 0 ? max_f32 : strcmp(k, "min") == 0 ? min_f32 : strcmp(k, "prod") == 0 ? mul_f32 : add_f32;
}

/* The value of the lane whose number differs in one bit. */
static V across_lane(Lower *L, V v, int bit)
{
	V w = L->ops->shfl(L, LLVMBuildBitCast(L->b, v, L->i32, ""), 3, const_i32(L, 1 << bit));
	return LLVMBuildBitCast(L->b, w, L->f32, "");
}

static V load_register(Lower *L, const Storage *s, int reg)
{
	return LLVMBuildLoad2(L->b, L->f32, frag_register(L, s, reg), "");
}

/* This thread's part of positions along an axis; registers add theirs. */
static V thread_position(Lower *L, const Layout *l, int axis)
{
	V row, col;
	layout_base(L, l, L->team.lane, L->team.warp, &row, &col);
	return axis == 0 ? row : col;
}

/* Word `index` of the team's scratch. */
static V scratch_word(Lower *L, V index)
{
	const Op *team = L->team.op;
	V off = build_add(L, const_i32(L, attr_int(team, AT_SCRATCH, 0)), build_mul_const(L, index, 4));
	if (L->team.instance)
		off = build_add(L, off, build_mul_const(L, L->team.instance, attr_int(team, AT_SCRATCH_BYTES, 0)));
	return LLVMBuildGEP2(L->b, L->i8, L->shared, &off, 1, "");
}

/* Words of the scratch, and what is put there. */
typedef struct Words { int n; V *at, *value; } Words;

static Words new_words(Lower *L, int most)
{
	return (Words){ 0, ARENA_ARRAY(L->arena, V, most), ARENA_ARRAY(L->arena, V, most) };
}

static void add_word(Lower *L, Words *w, V index, V value)
{
	w->at[w->n] = scratch_word(L, index);
	w->value[w->n++] = value;
}

/* Threads with copies of a fragment of layout l write the same, and so do those of a block of positions from `origin` (NULL: none) on: the
 * CPU device is told of the first. */
static void put_scratch(Lower *L, const Layout *l, V origin, int block, const Words *w)
{
	V bytes = const_i32(L, 4), none = const_i32(L, 0), first = L->ops->checks ? first_copy(L, l) : NULL;
	if (first)
		bytes = LLVMBuildSelect(L->b, first, bytes, none, "");
	if (origin && L->ops->checks)
		bytes = LLVMBuildSelect(L->b, LLVMBuildICmp(L->b, LLVMIntEQ, LLVMBuildURem(L->b, origin, const_i32(L, block), ""), none, ""), bytes, none, "");
	watch_shared(L, WATCHED_WRITTEN, w->at, w->n, bytes);
	for (int i = 0; i < w->n; i++)
		LLVMBuildStore(L->b, w->value[i], w->at[i]);
}

static V get_scratch(Lower *L, const Words *w, int i) { return LLVMBuildLoad2(L->b, L->f32, w->at[i], ""); }

/* ---- reductions ---- */

/* A warp's number among those along an axis, from the bits of the warp that move along it. */
static V number_along(Lower *L, unsigned bits)
{
	V n = const_i32(L, 0);
	for (int b = 0, k = 0; b < 5; b++)
		if (bits >> b & 1) {
			V bit = LLVMBuildAnd(L->b, LLVMBuildLShr(L->b, L->team.warp, const_i32(L, b), ""), const_i32(L, 1), "");
			n = LLVMBuildOr(L->b, n, LLVMBuildShl(L->b, bit, const_i32(L, k++), ""), "");
		}
	return n;
}

static V reduce_in_thread(Lower *L, const Storage *s, int axis, int kept, Combine f)
{
	V acc = NULL;
	for (int q = 0; q < s->layout->nregs; q++) {
		if (coord_along(s->layout, s->layout->reg[q], 1 - axis) != kept)
			continue;
		V v = load_register(L, s, q);
		acc = acc ? f(L, acc, v) : v;
	}
	return acc;
}

static V reduce_across_lanes(Lower *L, const Layout *l, int axis, V v, Combine f)
{
	for (int b = 0; b < 5; b++)
		if (coord_along(l, l->lane[b], axis) != 0)
			v = f(L, v, across_lane(L, v, b));
	return v;
}

/* The same of n registers whose result is spread: lanes that differ in a bit keep one half of them each and hand on the other. */
static void spread_across_lanes(Lower *L, const Layout *l, int axis, const Layout *result, V *part, int n, Combine f)
{
	for (int b = 0; b < 5; b++) {
		if (coord_along(l, l->lane[b], axis) == 0)
			continue;
		V bit = LLVMBuildAnd(L->b, L->team.lane, const_i32(L, 1 << b), ""), upper = LLVMBuildICmp(L->b, LLVMIntNE, bit, const_i32(L, 0), "");
		bool halves = result->lane[b].row != 0;
		n /= halves ? 2 : 1;
		for (int i = 0; i < n; i++) {
			V kept = part[i], given = part[i];
			if (halves) {
				kept = LLVMBuildSelect(L->b, upper, part[n + i], part[i], "");
				given = LLVMBuildSelect(L->b, upper, part[i], part[n + i], "");
			}
			part[i] = f(L, kept, across_lane(L, given, b));
		}
	}
}

/* part[i]: of the result's register i; becomes what all warps have. */
static void reduce_across_warps(Lower *L, const Layout *l, int axis, const Layout *result, V *part, Combine f)
{
	unsigned bits = warp_bits_along(l, axis);
	int warps = 1 << __builtin_popcount(bits), extent = result->rows;
	V at = thread_position(L, result, 0), mine = build_mul_const(L, number_along(L, bits), extent);
	Words own = new_words(L, result->nregs), all = new_words(L, result->nregs * warps);
	team_sync(L); /* the scratch has been read */
	for (int r = 0; r < result->nregs; r++)
		add_word(L, &own, build_add(L, mine, build_add(L, at, const_i32(L, result->reg[r].row))), part[r]);
	put_scratch(L, l, NULL, 1, &own);
	team_sync(L);
	for (int r = 0; r < result->nregs; r++)
		for (int w = 0; w < warps; w++)
			add_word(L, &all, build_add(L, at, const_i32(L, w * extent + result->reg[r].row)), NULL);
	watch_shared(L, WATCHED_READ, all.at, all.n, const_i32(L, 4));
	for (int i = 0; i < all.n; i++) {
		V v = get_scratch(L, &all, i);
		part[i / warps] = i % warps ? f(L, part[i / warps], v) : v;
	}
}

void lower_reduce(Lower *L, const Op *op)
{
	TileRef s = tile_ref(operand(op, ARG_SOURCE)), d = tile_ref(operand(op, ARG_TARGET));
	int axis = (int)attr_int(op, AT_AXIS, 0);
	Storage *ss = storage_of(L, s.object), *ds = storage_of(L, d.object);
	Combine f = combine_of(op);
	const Form *form = attr_layout(d.object);
	bool spread = form->kind == FORM_SPREAD;
	const char *why;
	const Layout *all = spread ? layout_of(L->arena, form->of, 1, d.shape, 1 << ds->layout->warp_bits, &why) : ds->layout;
	V *part = ARENA_ARRAY(L->arena, V, all->nregs);
	for (int r = 0; r < all->nregs; r++) {
		part[r] = reduce_in_thread(L, ss, axis, all->reg[r].row, f);
		if (!spread)
			part[r] = reduce_across_lanes(L, ss->layout, axis, part[r], f);
	}
	if (spread)
		spread_across_lanes(L, ss->layout, axis, ds->layout, part, all->nregs, f);
	if (warp_bits_along(ss->layout, axis))
		reduce_across_warps(L, ss->layout, axis, ds->layout, part, f);
	for (int r = 0; r < ds->layout->nregs; r++)
		LLVMBuildStore(L->b, part[r], frag_register(L, ds, r));
}

/* ---- scans ---- */

/* Blocks of positions grow level by level.  Registers in one block of a line agree on all but the block's own digits;
 * the one at its start, the leader, stands for it. */
typedef struct Scan {
	const Storage *st;
	const Layout *l;
	int axis, within;
	bool reverse;
	Combine f;
	V *value;  /* by register: scanned within its block, less `before` */
	V *before; /* by leader: what precedes the block within the lanes and warps seen so far, or NULL */
	V *total;  /* by leader: of the block */
} Scan;

static int position_of(const Scan *s, int reg) { return coord_along(s->l, s->l->reg[reg], s->axis); }
static int line_of(const Scan *s, int reg) { return coord_along(s->l, s->l->reg[reg], 1 - s->axis); }
static bool is_leader(const Scan *s, int reg, int unit) { return position_of(s, reg) % unit == 0; }

static int register_at(const Scan *s, int line, int position)
{
	return layout_find_reg(s->l, s->axis == 0 ? position : line, s->axis == 0 ? line : position);
}

static V combine(Lower *L, const Scan *s, V a, V b) { return a ? s->f(L, a, b) : b; }

/* The blocks of one register digit follow one another in this thread; `leader` is the first of them. */
static void scan_registers(Lower *L, Scan *s, const Level *v, int leader)
{
	V run = NULL;
	int line = line_of(s, leader), start = position_of(s, leader);
	for (int i = 0; i < v->radix; i++) {
		int digit = s->reverse ? v->radix - 1 - i : i, at = start + digit * v->unit;
		int block = register_at(s, line, at);
		if (i * v->unit % s->within == 0)
			run = NULL;
		V before = run && s->before[block] ? s->f(L, run, s->before[block]) : run ? run : s->before[block];
		run = combine(L, s, run, s->total[block]);
		s->before[block] = NULL;
		for (int p = at; before && p < at + v->unit; p++) {
			int reg = register_at(s, line, p);
			if (reg >= 0)
				s->value[reg] = s->f(L, before, s->value[reg]);
		}
	}
	s->total[leader] = run;
}

static void scan_lane(Lower *L, Scan *s, const Level *v, int leader)
{
	V bit = LLVMBuildAnd(L->b, L->team.lane, const_i32(L, 1 << v->bit), "");
	V later = LLVMBuildICmp(L->b, s->reverse ? LLVMIntEQ : LLVMIntNE, bit, const_i32(L, 0), "");
	V other = across_lane(L, s->total[leader], v->bit), before = s->before[leader];
	V identity = const_f32(L, s->f == mul_f32 ? 1 : 0);
	s->before[leader] = LLVMBuildSelect(L->b, later, combine(L, s, before, other), before ? before : identity, "");
	s->total[leader] = s->f(L, s->total[leader], other);
}

/* Totals of the blocks of all warps meet in the scratch: one row of them per block, one column per line. */
static void scan_warps(Lower *L, Scan *s, const Level *v)
{
	int lines = extent_along(s->l, 1 - s->axis);
	V origin = thread_position(L, s->l, s->axis), position = LLVMBuildUDiv(L->b, origin, const_i32(L, v->unit), "");
	V digit = LLVMBuildAnd(L->b, position, const_i32(L, v->radix - 1), ""), line = thread_position(L, s->l, 1 - s->axis);
	V row = build_mul_const(L, position, lines), first = build_mul_const(L, LLVMBuildSub(L->b, position, digit, ""), lines);
	Words own = new_words(L, s->l->nregs), all = new_words(L, s->l->nregs * v->radix);
	team_sync(L); /* the scratch has been read */
	for (int r = 0; r < s->l->nregs; r++) {
		if (!is_leader(s, r, v->unit))
			continue;
		V at = const_i32(L, position_of(s, r) / v->unit * lines + line_of(s, r));
		add_word(L, &own, build_add(L, build_add(L, row, line), at), s->total[r]);
	}
	put_scratch(L, s->l, origin, v->unit, &own);
	team_sync(L);
	for (int r = 0; r < s->l->nregs; r++)
		for (int i = 0; is_leader(s, r, v->unit) && i < v->radix; i++) {
			V at = const_i32(L, (position_of(s, r) / v->unit + i) * lines + line_of(s, r));
			add_word(L, &all, build_add(L, build_add(L, first, line), at), NULL);
		}
	watch_shared(L, WATCHED_READ, all.at, all.n, const_i32(L, 4));
	for (int r = 0, at = 0; r < s->l->nregs; r++) {
		if (!is_leader(s, r, v->unit))
			continue;
		V before = s->before[r], total = NULL;
		V identity = const_f32(L, s->f == mul_f32 ? 1 : 0);
		for (int i = 0; i < v->radix; i++) {
			int w = s->reverse ? v->radix - 1 - i : i;
			V t = get_scratch(L, &all, at + w);
			V earlier = LLVMBuildICmp(L->b, s->reverse ? LLVMIntULT : LLVMIntUGT, digit, const_i32(L, w), "");
			V term = LLVMBuildSelect(L->b, earlier, t, identity, "");
			before = combine(L, s, before, term);
			total = combine(L, s, total, t);
		}
		at += v->radix;
		s->before[r] = before;
		s->total[r] = total;
	}
}

static void scan_level(Lower *L, Scan *s, const Level *v)
{
	if (v->kind == LEVEL_WARPS) {
		scan_warps(L, s, v);
		return;
	}
	for (int r = 0; r < s->l->nregs; r++) {
		if (v->kind == LEVEL_LANE && is_leader(s, r, v->unit))
			scan_lane(L, s, v, r);
		if (v->kind == LEVEL_REGISTERS && is_leader(s, r, v->unit * v->radix))
			scan_registers(L, s, v, r);
	}
}

/* What is still to come before the blocks of the last level. */
static void apply_before(Lower *L, Scan *s, int unit)
{
	for (int r = 0; r < s->l->nregs; r++) {
		int leader = register_at(s, line_of(s, r), position_of(s, r) / unit * unit);
		if (s->before[leader])
			s->value[r] = s->f(L, s->before[leader], s->value[r]);
	}
}

void lower_scan(Lower *L, const Op *op)
{
	TileRef r = tile_ref(operand(op, ARG_TARGET));
	const Storage *st = storage_of(L, r.object);
	int n = st->layout->nregs;
	Scan s = { .st = st, .l = st->layout, .axis = (int)attr_int(op, AT_AXIS, 0), .within = scan_within(op, st->layout),
		.reverse = attr_int(op, AT_REVERSE, 0), .f = combine_of(op),
		.value = ARENA_ARRAY(L->arena, V, n), .before = ARENA_ARRAY(L->arena, V, n), .total = ARENA_ARRAY(L->arena, V, n) };
	Levels levels;
	if (!scan_levels(s.l, s.axis, s.within, &levels)) {
		lower_error(L, op->loc, "a scan within %d cuts the rows or columns that layout %s gives to one thread", s.within,
			layout_name(L->tir, r.object));
		return;
	}
	for (int i = 0; i < n; i++)
		s.value[i] = s.total[i] = load_register(L, st, i);
	int unit = 1;
	for (int i = 0; i < levels.n; i++) {
		scan_level(L, &s, &levels.level[i]);
		unit *= levels.level[i].radix;
	}
	apply_before(L, &s, unit);
	for (int i = 0; i < n; i++)
		LLVMBuildStore(L->b, s.value[i], frag_register(L, st, i));
}
