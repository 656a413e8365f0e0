/* collective.c - reductions and scans of fragments: in a thread, then across lanes by shuffles. */
#include "compiler/lower/context.h"

#include <string.h>

typedef V (*Combine)(Lower *, V, V);

static V add_f32(Lower *L, V a, V b) { return LLVMBuildFAdd(L->b, a, b, ""); }
static V mul_f32(Lower *L, V a, V b) { return LLVMBuildFMul(L->b, a, b, ""); }
static V max_f32(Lower *L, V a, V b) { return intrinsic(L, "llvm.maxnum", &L->f32, 1, (V[]){ a, b }, 2); }

static Combine combine_of(const Op *op)
{
	const char *k = attr_text(op, "kind", "sum");
	return strcmp(k, "max") == 0 ? max_f32 : strcmp(k, "prod") == 0 ? mul_f32 : add_f32;
}

static V shuffle_f32(Lower *L, V v, int mode, V lane)
{
	V w = L->ops->shfl(L, LLVMBuildBitCast(L->b, v, L->i32, ""), mode, lane);
	return LLVMBuildBitCast(L->b, w, L->f32, "");
}

static int axis_of(Coord c, int axis, int rank) { return rank == 1 || axis == 0 ? c.row : c.col; }

static bool needs_f32(Lower *L, const Op *op, const TileRef *r)
{
	if (r->dtype == DT_F32)
		return true;
	lower_error(L, op->loc, "reductions and scans are of f32 fragments, not %s", dtype_name(r->dtype));
	return false;
}

void lower_reduce(Lower *L, const Op *op)
{
	TileRef s = tile_ref(op->args[0]), d = tile_ref(op->args[1]);
	int axis = (int)attr_int(op, "axis", 0), keep = 1 - axis;
	Storage *ss = storage_of(L, s.object), *ds = storage_of(L, d.object);
	Combine f = combine_of(op);
	if (!needs_f32(L, op, &s) || !needs_f32(L, op, &d))
		return;
	for (int b = 0; b < ss->layout->warp_bits; b++)
		if (axis_of(ss->layout->warp[b], axis, 2) != 0) {
			lower_error(L, op->loc, "a reduction over axis %d of layout %s crosses warps: reduce through a shared tile", axis,
			            attr_text(s.object, "layout", "?"));
			return;
		}
	for (int r = 0; r < ds->layout->nregs; r++) {
		V acc = NULL;
		for (int q = 0; q < ss->layout->nregs; q++) {
			if (axis_of(ss->layout->reg[q], keep, 2) != ds->layout->reg[r].row)
				continue;
			V v = LLVMBuildLoad2(L->b, L->f32, frag_register(L, ss, q), "");
			acc = acc ? f(L, acc, v) : v;
		}
		for (int b = 0; b < 5; b++)
			if (axis_of(ss->layout->lane[b], axis, 2) != 0)
				acc = f(L, acc, shuffle_f32(L, acc, 3, const_i32(L, 1 << b)));
		LLVMBuildStore(L->b, acc, frag_register(L, ds, r));
	}
}

typedef struct Scan {
	const Layout *l;
	int axis, within, block; /* block: consecutive elements of a thread */
	bool reverse;
} Scan;

/* Elements of one thread along the axis must be one run from the thread's origin. */
static int block_of(const Layout *l, int axis)
{
	int most = 0;
	for (int r = 0; r < l->nregs; r++) {
		int k = axis_of(l->reg[r], axis, l->rank);
		most = k > most ? k : most;
	}
	int seen = 0;
	for (int want = 0; want <= most; want++)
		for (int r = 0; r < l->nregs; r++)
			if (axis_of(l->reg[r], axis, l->rank) == want) {
				seen++;
				break;
			}
	return seen == most + 1 ? most + 1 : 0;
}

static int scan_reg(const Scan *s, int row_col_other, int k)
{
	for (int r = 0; r < s->l->nregs; r++) {
		Coord c = s->l->reg[r];
		int other = s->l->rank == 1 ? 0 : s->axis == 0 ? c.col : c.row;
		if (axis_of(c, s->axis, s->l->rank) == k && other == row_col_other)
			return r;
	}
	return -1;
}

static void scan_line(Lower *L, const Storage *st, const Scan *s, int other, Combine f, V identity)
{
	V run = NULL;
	int n = s->block;
	for (int i = 0; i < n; i++) {
		int k = s->reverse ? n - 1 - i : i;
		V at = frag_register(L, st, scan_reg(s, other, k)), v = LLVMBuildLoad2(L->b, L->f32, at, "");
		run = i % s->within == 0 ? v : f(L, run, v);
		LLVMBuildStore(L->b, run, at);
	}
	if (s->within <= n)
		return;
	/* run: this thread's total.  Exclusive scan of totals over the lanes that hold the line. */
	V total = run, before = identity;
	for (int b = 0; b < 5; b++) {
		int step = axis_of(s->l->lane[b], s->axis, s->l->rank);
		if (step == 0 || step >= s->within)
			continue;
		V bit = LLVMBuildAnd(L->b, L->team.lane, const_i32(L, 1 << b), "");
		V other_total = shuffle_f32(L, total, 3, const_i32(L, 1 << b));
		V later = LLVMBuildICmp(L->b, s->reverse ? LLVMIntEQ : LLVMIntNE, bit, const_i32(L, 0), "");
		before = LLVMBuildSelect(L->b, later, f(L, before, other_total), before, "");
		total = f(L, total, other_total);
	}
	for (int k = 0; k < n; k++) {
		V at = frag_register(L, st, scan_reg(s, other, k));
		LLVMBuildStore(L->b, f(L, before, LLVMBuildLoad2(L->b, L->f32, at, "")), at);
	}
}

void lower_scan(Lower *L, const Op *op)
{
	TileRef r = tile_ref(op->args[0]);
	Storage *st = storage_of(L, r.object);
	Scan s = { .l = st->layout, .axis = (int)attr_int(op, "axis", 0), .reverse = attr_int(op, "reverse", 0) };
	int extent = r.rank == 1 || s.axis == 0 ? st->layout->rows : st->layout->cols;
	s.within = (int)attr_int(op, "within", extent);
	if (s.within <= 0)
		s.within = extent;
	s.block = block_of(s.l, s.axis);
	if (!needs_f32(L, op, &r))
		return;
	if (s.block == 0 || (s.within < s.block && s.block % s.within != 0) || (s.within > s.block && s.within % s.block != 0)) {
		lower_error(L, op->loc, "a scan within %d of layout %s is not possible: a thread's elements must be one run that %d divides or is a multiple of",
		            s.within, attr_text(r.object, "layout", "?"), s.within);
		return;
	}
	for (int b = 0; b < s.l->warp_bits; b++) {
		int step = axis_of(s.l->warp[b], s.axis, s.l->rank);
		if (step != 0 && step < s.within) {
			lower_error(L, op->loc, "a scan within %d of layout %s crosses warps: scan within a warp and add totals through a shared tile", s.within,
			            attr_text(r.object, "layout", "?"));
			return;
		}
	}
	Combine f = combine_of(op);
	V identity = const_f32(L, f == mul_f32 ? 1 : 0);
	int done[512], ndone = 0;
	for (int q = 0; q < s.l->nregs; q++) {
		Coord c = s.l->reg[q];
		int other = s.l->rank == 1 ? 0 : s.axis == 0 ? c.col : c.row;
		bool seen = false;
		for (int i = 0; i < ndone; i++)
			seen |= done[i] == other;
		if (seen || ndone == 512)
			continue;
		done[ndone++] = other;
		scan_line(L, st, &s, other, f, identity);
	}
}
