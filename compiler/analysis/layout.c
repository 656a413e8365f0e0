/* layout.c - builds layouts of forms and looks elements up in them. */
#include "compiler/analysis/layout.h"

#include <string.h>

static bool is_pow2(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }
static int log2_of(int x) { int n = 0; while (x > 1) { x >>= 1; n++; } return n; }

static Layout *layout_new(Arena *a, int rank, int rows, int cols, int warps, int nregs)
{
	Layout *l = ARENA_NEW(a, Layout);
	l->rank = rank;
	l->rows = rows;
	l->cols = cols;
	l->warp_bits = log2_of(warps);
	l->nregs = nregs;
	l->reg = ARENA_ARRAY(a, Coord, nregs);
	return l;
}

/* Registers 2k and 2k+1 are neighbours along the last dimension, starting at an even element. */
static void find_pairs(Layout *l)
{
	l->pairs = l->nregs % 2 == 0 && l->nregs > 0;
	for (int r = 0; l->pairs && r < l->nregs; r += 2) {
		Coord x = l->reg[r], y = l->reg[r + 1];
		l->pairs = l->rank == 2 ? x.row == y.row && x.col + 1 == y.col && x.col % 2 == 0
		                        : x.row + 1 == y.row && x.row % 2 == 0;
	}
	for (int b = 0; l->pairs && b < 5; b++)
		if ((l->rank == 2 ? l->lane[b].col : l->lane[b].row) == 1)
			l->pairs = false;
}

/* A thread has `unit` columns of each 4 units: two of 8 where products leave their results, four of 16 in left operands of 8 bits. */
static const Layout *layout_mma(Arena *a, int rows, int cols, int warps, int unit, const char **why)
{
	int per_warp = 16, warpgroups = 1, tall = 16;
	if (warps > 1) {
		if (warps % 4 != 0 || !is_pow2(warps)) {
			*why = arena_printf(a, "the mma layout needs a warp or whole warpgroups (1, 2 or 4), not %d warps", warps);
			return NULL;
		}
		warpgroups = warps / 4;
		tall = 64;
	}
	if (rows % (tall * warpgroups) != 0 || cols % (4 * unit) != 0) {
		*why = arena_printf(a, "the mma%s layout on %d warp%s needs a multiple of %d rows and of %d columns, not %dx%d", unit == 4 ? "8" : "", warps,
		                    warps == 1 ? "" : "s", tall * warpgroups, 4 * unit, rows, cols);
		return NULL;
	}
	int slices = rows / (tall * warpgroups);
	Layout *l = layout_new(a, 2, rows, cols, warps, slices * cols / 2);
	l->lane[0] = (Coord){ 0, (int16_t)unit };
	l->lane[1] = (Coord){ 0, (int16_t)(2 * unit) };
	for (int b = 0; b < 3; b++)
		l->lane[2 + b] = (Coord){ (int16_t)(1 << b), 0 };
	for (int b = 0; b < l->warp_bits; b++)
		l->warp[b] = (Coord){ (int16_t)(b < 2 ? per_warp << b : (64 * slices) << (b - 2)), 0 };
	for (int r = 0; r < l->nregs; r++) {
		int s = r / (cols / 2), q = r % (cols / 2);
		l->reg[r] = (Coord){ (int16_t)(tall * s + 8 * (q / unit % 2)), (int16_t)(4 * unit * (q / (2 * unit)) + q % unit) };
	}
	l->quads = unit == 4;
	return l;
}

/* Thread t's bits go to columns first, then rows; spare bits replicate, missing ones become registers. */
static const Layout *layout_blocked(Arena *a, int rank, int rows, int cols, int br, int bc, int warps, const char **why)
{
	if (br > rows || bc > cols) {
		*why = arena_printf(a, "a block of %dx%d is larger than the tile of %dx%d", br, bc, rows, cols);
		return NULL;
	}
	if (!is_pow2(rows) || !is_pow2(cols) || !is_pow2(br) || !is_pow2(bc) || !is_pow2(warps)) {
		*why = arena_printf(a, "a blocked layout needs powers of two: tile %dx%d, block %dx%d, %d warps", rows, cols, br, bc, warps);
		return NULL;
	}
	int threads = 32 * warps, across = cols / bc, down = rows / br, left = threads;
	int tc = across < left ? across : left;
	left /= tc;
	int td = down < left ? down : left;
	int repc = across / tc, repd = down / td;
	Layout *l = layout_new(a, rank, rows, cols, warps, br * bc * repc * repd);
	int nc = log2_of(tc), nd = log2_of(td);
	for (int b = 0; b < 5 + l->warp_bits; b++) {
		Coord c = { 0, 0 };
		if (b < nc)
			c.col = (int16_t)(bc << b);
		else if (b < nc + nd)
			c.row = (int16_t)(br << (b - nc));
		if (b < 5)
			l->lane[b] = c;
		else
			l->warp[b - 5] = c;
	}
	int r = 0;
	for (int pd = 0; pd < repd; pd++)
		for (int pc = 0; pc < repc; pc++)
			for (int i = 0; i < br; i++)
				for (int j = 0; j < bc; j++)
					l->reg[r++] = (Coord){ (int16_t)(pd * br * td + i), (int16_t)(pc * bc * tc + j) };
	return l;
}

/* A 1-d blocked layout is built as one row, then turned so that `row` is the index. */
static void turn(Layout *l)
{
	for (int b = 0; b < 5; b++) {
		l->lane[b] = (Coord){ l->lane[b].col, 0 };
		l->warp[b] = (Coord){ l->warp[b].col, 0 };
	}
	for (int r = 0; r < l->nregs; r++)
		l->reg[r] = (Coord){ l->reg[r].col, 0 };
	l->rank = 1;
	l->rows = l->cols;
	l->cols = 1;
}

static Layout *project(Arena *a, const Layout *of, bool rows)
{
	Layout *l = layout_new(a, 1, rows ? of->rows : of->cols, 1, 1 << of->warp_bits, of->nregs);
	for (int b = 0; b < 5; b++) {
		l->lane[b] = (Coord){ rows ? of->lane[b].row : of->lane[b].col, 0 };
		l->warp[b] = (Coord){ rows ? of->warp[b].row : of->warp[b].col, 0 };
	}
	int n = 0;
	for (int r = 0; r < of->nregs; r++) {
		Coord c = { rows ? of->reg[r].row : of->reg[r].col, 0 };
		bool seen = false;
		for (int k = 0; k < n; k++)
			seen |= l->reg[k].row == c.row;
		if (!seen)
			l->reg[n++] = c;
	}
	l->nregs = n;
	return l;
}

/* Bits of the lane that went along what is gone take halves of the registers, while these are alike. */
static void spread(Layout *l, const Layout *of, bool rows)
{
	for (int b = 0; b < 5 && l->nregs % 2 == 0; b++) {
		int half = l->nregs / 2, step = l->reg[half].row - l->reg[0].row;
		bool alike = (rows ? of->lane[b].col : of->lane[b].row) != 0 && l->lane[b].row == 0;
		for (int r = 0; r < half; r++)
			alike &= l->reg[half + r].row - l->reg[r].row == step;
		if (!alike)
			continue;
		l->lane[b].row = (int16_t)step;
		l->nregs = half;
	}
}

static const Layout *build(Arena *a, const Form *f, int rank, int rows, int cols, int warps, const char **why)
{
	bool part = f->kind == FORM_ROWS || f->kind == FORM_COLS;
	if (rank == 2 && f->kind == FORM_MMA)
		return layout_mma(a, rows, cols, warps, f->n / 4, why);
	if (rank == 2 && f->kind == FORM_BLOCKED && f->rank == 2)
		return layout_blocked(a, 2, rows, cols, f->m, f->n, warps, why);
	if (rank == 1 && f->kind == FORM_BLOCKED && f->rank == 1) {
		Layout *l = (Layout *)layout_blocked(a, 2, 1, rows, 1, f->n, warps, why);
		if (l)
			turn(l);
		return l;
	}
	if (rank == 1 && part) {
		const Layout *of = build(a, f->of, 2, f->m, f->n, warps, why);
		return of ? project(a, of, f->kind == FORM_ROWS) : NULL;
	}
	if (rank == 1 && f->kind == FORM_SPREAD) {
		const Layout *of = build(a, f->of->of, 2, f->of->m, f->of->n, warps, why);
		Layout *l = of ? project(a, of, f->of->kind == FORM_ROWS) : NULL;
		if (l)
			spread(l, of, f->of->kind == FORM_ROWS);
		return l;
	}
	*why = arena_printf(a, "'%s' is not a layout of a %s-dimensional fragment", form_text(a, f), rank == 1 ? "one" : rank == 2 ? "two" : "more");
	return NULL;
}

const Layout *layout_of(Arena *a, const Form *f, int rank, const int64_t *shape, int warps, const char **why)
{
	if (!f) {
		*why = "it has none";
		return NULL;
	}
	if (rank < 1 || rank > 2 || shape[0] > LAYOUT_EXTENT || (rank == 2 && shape[1] > LAYOUT_EXTENT)) {
		*why = arena_printf(a, "a fragment has one or two dimensions of at most %d", LAYOUT_EXTENT);
		return NULL;
	}
	Layout *l = (Layout *)build(a, f, rank, (int)shape[0], rank == 2 ? (int)shape[1] : 1, warps, why);
	if (l && (l->rows != shape[0] || (rank == 2 && l->cols != shape[1]))) {
		*why = arena_printf(a, "layout '%s' is for another extent than %d", form_text(a, f), (int)shape[0]);
		return NULL;
	}
	if (l)
		find_pairs(l);
	return l;
}

int layout_packs(const Layout *l, DType d)
{
	return l->pairs && dtype_is_float(d) && dtype_bits(d) == 16 ? 2 : l->quads && d != DT_BOOL && dtype_bits(d) == 8 ? 4 : 1;
}

int mma_columns(const Form *f) { return f && f->kind == FORM_MMA ? f->n : 0; }

int layout_find_reg(const Layout *l, int row, int col)
{
	for (int r = 0; r < l->nregs; r++)
		if (l->reg[r].row == row && (l->rank == 1 || l->reg[r].col == col))
			return r;
	return -1;
}

int64_t swizzle_bytes(const Op *shared)
{
	const Form *f = attr_layout(shared);
	return f && f->kind == FORM_SWIZZLE ? f->n : 0;
}

static int ring_of(const Op *shared) { return attr_int(shared, AT_RING, 0) > 0; }

int panel_rows(const Op *shared)
{
	const Type *t = &shared->result->type;
	return t->rank - ring_of(shared) >= 2 ? (int)t->shape[t->rank - 2] : 1;
}
