/* collective.c - levels of a layout along an axis. */
#include "compiler/analysis/collective.h"

int coord_along(const Layout *l, Coord c, int axis)
{
	return l->rank == 1 ? (axis == 0 ? c.row : 0) : axis == 0 ? c.row : c.col;
}

int extent_along(const Layout *l, int axis)
{
	return axis == 0 ? l->rows : l->rank == 1 ? 1 : l->cols;
}

unsigned warp_bits_along(const Layout *l, int axis)
{
	unsigned bits = 0;
	for (int b = 0; b < l->warp_bits; b++)
		if (coord_along(l, l->warp[b], axis) != 0)
			bits |= 1u << b;
	return bits;
}

static int bit_with_step(const Layout *l, const Coord *bits, int n, int axis, int step)
{
	for (int b = 0; b < n; b++)
		if (coord_along(l, bits[b], axis) == step)
			return b;
	return -1;
}

/* The lowest step of lane and warp bits above `unit`, or the extent. */
static int next_step(const Layout *l, int axis, int unit)
{
	int next = extent_along(l, axis);
	for (int b = 0; b < 5 + l->warp_bits; b++) {
		int step = coord_along(l, b < 5 ? l->lane[b] : l->warp[b - 5], axis);
		if (step > unit && step < next)
			next = step;
	}
	return next;
}

static Level level_at(const Layout *l, int axis, int unit, int within)
{
	int lane = bit_with_step(l, l->lane, 5, axis, unit);
	if (lane >= 0)
		return (Level){ LEVEL_LANE, unit, 2, lane };
	Level v = { LEVEL_WARPS, unit, 1, 0 };
	while (unit * v.radix < within && bit_with_step(l, l->warp, l->warp_bits, axis, unit * v.radix) >= 0)
		v.radix *= 2;
	return v.radix > 1 ? v : (Level){ LEVEL_REGISTERS, unit, next_step(l, axis, unit) / unit, 0 };
}

bool scan_levels(const Layout *l, int axis, int within, Levels *out)
{
	out->n = 0;
	for (int unit = 1; unit < within && out->n < MAX_LEVELS;) {
		Level v = level_at(l, axis, unit, within);
		int block = unit * v.radix;
		bool restarts_inside = v.kind == LEVEL_REGISTERS && within % unit == 0 && block % within == 0;
		if (within % block != 0 && !restarts_inside)
			return false;
		out->level[out->n++] = v;
		unit *= v.radix;
	}
	return true;
}

int scan_within(const Op *scan, const Layout *l)
{
	return (int)attr_int(scan, AT_WITHIN, extent_along(l, (int)attr_int(scan, AT_AXIS, 0)));
}

static const Layout *layout_of_fragment(Arena *a, const Value *v)
{
	TileRef r = tile_ref(v);
	const char *why;
	return !r.warp_scope ? layout_of(a, attr_layout(r.object), r.rank, r.shape, team_warps(tir_team(r.object)), &why) : NULL;
}

/* One total per block of positions below the warps' digit, and per line. */
static int64_t scan_scratch(const Op *op, const Layout *l)
{
	int axis = (int)attr_int(op, AT_AXIS, 0), most = 0;
	Levels levels;
	if (!scan_levels(l, axis, scan_within(op, l), &levels))
		return 0;
	for (int i = 0; i < levels.n; i++) {
		int totals = extent_along(l, axis) / levels.level[i].unit * extent_along(l, 1 - axis);
		if (levels.level[i].kind == LEVEL_WARPS && totals > most)
			most = totals;
	}
	return 4 * most;
}

/* One partial result per warp along the axis, and per element of the result. */
static int64_t reduce_scratch(const Op *op, const Layout *l)
{
	int axis = (int)attr_int(op, AT_AXIS, 0);
	unsigned bits = warp_bits_along(l, axis);
	return bits ? (int64_t)4 * (1 << __builtin_popcount(bits)) * extent_along(l, 1 - axis) : 0;
}

int64_t collective_scratch(Arena *a, const Op *op)
{
	bool reduce = op->code == OP_REDUCE, scan = op->code == OP_SCAN;
	const Layout *l = reduce || scan ? layout_of_fragment(a, operand(op, reduce ? ARG_SOURCE : ARG_TARGET)) : NULL;
	if (!l)
		return 0;
	return scan ? scan_scratch(op, l) : reduce_scratch(op, l);
}
