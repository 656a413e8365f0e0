/* copy.c - copies by ldmatrix and stmatrix, cp.async; the others are element loops since expand_copies. */
#include "compiler/analysis/index.h"
#include "compiler/lower/context.h"
#include "compiler/lower/registers.h"

#include <string.h>

static void start_of(const TileRef *r, int64_t *row, int64_t *col)
{
	*row = *col = 0;
	if (r->start[0])
		value_const_int(r->start[0], row);
	if (r->object_rank > 1 && r->start[1])
		value_const_int(r->start[1], col);
}

/* ---- ldmatrix, stmatrix ---- */

/* What register reg holds, alone. */
static V register_value(Lower *L, const Storage *s, int reg)
{
	DType d = s->object->result->type.dtype;
	V at = frag_register(L, s, reg);
	if (s->packed > 1) {
		V all = LLVMBuildLoad2(L->b, LLVMVectorType(type_of(L, d), (unsigned)s->packed), at, "");
		return LLVMBuildExtractElement(L->b, all, const_i32(L, reg % s->packed), "");
	}
	V v = LLVMBuildLoad2(L->b, d == DT_BOOL ? L->i8 : type_of(L, d), at, "");
	return d == DT_BOOL ? LLVMBuildTrunc(L->b, v, L->i1, "") : v;
}

/* Elements (row, col) and (row, col + 1) as 16-bit ones. */
static V matrix_word(Lower *L, const Storage *s, DType want, int row, int col)
{
	int reg = layout_find_reg(s->layout, row, col);
	DType have = s->object->result->type.dtype;
	if (have == want && s->packed == 2)
		return pair_to_word(L, LLVMBuildLoad2(L->b, LLVMVectorType(type_of(L, have), 2), frag_register(L, s, reg), ""));
	V lo = register_value(L, s, reg), hi = register_value(L, s, reg + 1);
	if (have == DT_F32 && dtype_is_float(want))
		return pair_to_word(L, narrow_pair(L, lo, hi, want));
	return pair_to_word(L, pack_pair(L, convert(L, lo, have, want), convert(L, hi, have, want), want));
}

static void set_matrix_word(Lower *L, const Storage *s, V word, int row, int col)
{
	DType d = s->object->result->type.dtype;
	int reg = layout_find_reg(s->layout, row, col);
	V pair = word_to_pair(L, word, d);
	if (s->packed == 2) {
		LLVMBuildStore(L->b, pair, frag_register(L, s, reg));
		return;
	}
	for (int i = 0; i < 2; i++)
		LLVMBuildStore(L->b, LLVMBuildExtractElement(L->b, pair, const_i32(L, i), ""), frag_register(L, s, reg + i));
}

/* first <= row < end, for a row of a warp; NULL: always, as rows lo to hi are those of all warps. */
static V rows_within(Lower *L, V row, int64_t lo, int64_t hi, int64_t first, int64_t end)
{
	if (first <= lo && hi < end)
		return NULL;
	V from = build_add(L, row, const_i32(L, -first));
	return LLVMBuildICmp(L->b, LLVMIntULT, from, const_i32(L, end - first), "");
}

/* One step of a copy: which matrices of the warp, at which element of the view they lie. */
typedef struct MatrixStep { V row, col; int frag_row, frag_col, count; } MatrixStep;

/* The 8x8 matrices of 16 rows and 16 columns (8 where no more are left); lane l gives row l%8 of matrix l/8. */
static void matrix_step(Lower *L, const TileRef *mem, const TileRef *f, const V *origin, const MatrixStep *x, bool load)
{
	Storage *s = storage_of(L, f->object);
	V lane = L->team.lane, index[TIR_MAX_RANK], w[4], zero = const_i32(L, 0);
	V l7 = LLVMBuildAnd(L->b, lane, const_i32(L, 7), "");
	V m1 = LLVMBuildAnd(L->b, lane, const_i32(L, 8), "");
	V m2 = x->count == 2 ? zero : LLVMBuildLShr(L->b, LLVMBuildAnd(L->b, lane, const_i32(L, 16), ""), const_i32(L, 1), "");
	int last = mem->object_rank - 1, above = last - 1; /* the dimensions of the view's columns and rows */
	while (mem->dims[above] == -1)
		above--;
	memcpy(index, origin, sizeof index);
	V row = mem->trans ? build_add(L, build_add(L, x->col, l7), m2) : build_add(L, build_add(L, x->row, l7), m1);
	V col = mem->trans ? build_add(L, x->row, m1) : build_add(L, x->col, m2);
	index[above] = build_add(L, origin[above], row);
	index[last] = build_add(L, origin[last], col);
	check_index(L, mem->object, index, NULL, const_i64(L, 7), NULL);
	V at = shared_address(L, mem->object, index);
	if (load)
		L->ops->ldmatrix(L, at, x->count, mem->trans, w);
	for (int m = 0; m < x->count; m++) {
		int row_of = x->frag_row + 8 * (m & 1), col_of = x->frag_col + 8 * (m >> 1);
		if (load)
			set_matrix_word(L, s, w[m], row_of, col_of);
		else
			w[m] = matrix_word(L, s, mem->dtype, row_of, col_of);
	}
	if (load)
		return;
	L->ops->stmatrix(L, at, x->count, mem->trans, w);
}

/* Rows of the fragment's slices, as far as they are in the view: a warp has 16 of each. */
static void matrix_copy(Lower *L, const TileRef *mem, const TileRef *f, bool load)
{
	bool warp = f->warp_scope;
	V origin[TIR_MAX_RANK], base = const_i32(L, 0);
	view_origin(L, mem, origin);
	int64_t r0, c0;
	start_of(f, &r0, &c0);
	bool part_of_team = f->warp_scope && !attr_int(f->object, AT_WARP_SCOPE, 0); /* .warp: 16 rows */
	int rows = (int)f->shape[0], cols = (int)f->shape[1], tall = warp ? 16 : 64;
	int all = part_of_team ? rows : (int)f->object->result->type.shape[0];
	int groups = warp ? 1 : L->team.warps / 4, slices = all / (tall * groups);
	if (!warp) {
		V in_group = LLVMBuildAnd(L->b, L->team.warp, const_i32(L, 3), "");
		base = build_mul_const(L, in_group, 16);
		if (groups > 1)
			base = build_add(L, base, build_mul_const(L, LLVMBuildLShr(L->b, L->team.warp, const_i32(L, 2), ""), 64 * slices));
	}
	for (int sl = 0; sl < slices; sl++) {
		int64_t lo = tall * sl, hi = lo + tall * (1 + slices * (groups - 1)) - 1;
		if (hi < r0 || r0 + rows <= lo)
			continue;
		V row = build_add(L, base, const_i32(L, lo)), mine = rows_within(L, row, lo, hi, r0, r0 + rows);
		Guard g = { 0 };
		if (mine)
			g = guard_begin(L, mine);
		for (int c = 0; c < cols; c += 16) {
			MatrixStep x = { build_add(L, row, const_i32(L, -r0)), const_i32(L, c), (int)lo, (int)c0 + c, c + 8 >= cols ? 2 : 4 };
			matrix_step(L, mem, f, origin, &x, load);
		}
		if (mine)
			guard_end(L, g);
	}
}

void lower_copy(Lower *L, const Op *op)
{
	TileRef s = tile_ref(operand(op, ARG_SOURCE)), d = tile_ref(operand(op, ARG_TARGET));
	const char *inst = attr_text(op, AT_INST, "");
	if (strcmp(inst, "ldmatrix") == 0)
		matrix_copy(L, &s, &d, true);
	else if (strcmp(inst, "stmatrix") == 0)
		matrix_copy(L, &d, &s, false);
	else
		lower_missing(L, op);
}

/* Two elements side by side as 8-bit ones, i16. */
static V byte_pair(Lower *L, const Storage *s, int reg, DType want)
{
	DType have = s->object->result->type.dtype;
	V lo = register_value(L, s, reg), hi = register_value(L, s, reg + 1);
	if (have == DT_F32 && dtype_is_float8(want))
		return L->ops->narrow8(L, want, lo, hi);
	lo = LLVMBuildZExt(L->b, convert(L, lo, have, want), L->i16, "");
	hi = LLVMBuildZExt(L->b, convert(L, hi, have, want), L->i16, "");
	return LLVMBuildOr(L->b, lo, LLVMBuildShl(L->b, hi, LLVMConstInt(L->i16, 8, 0), ""), "");
}

/* Byte b of four 16-bit elements: two from either register on. */
static V chosen_bytes(Lower *L, const Storage *s, const int reg[2], int b)
{
	V word[2], which[4];
	T bytes = LLVMVectorType(L->i8, 4);
	for (int i = 0; i < 2; i++) {
		V lo = LLVMBuildBitCast(L->b, register_value(L, s, reg[i]), L->i16, ""), hi = LLVMBuildBitCast(L->b, register_value(L, s, reg[i] + 1), L->i16, "");
		V pair = LLVMBuildInsertElement(L->b, LLVMGetUndef(LLVMVectorType(L->i16, 2)), lo, const_i32(L, 0), "");
		word[i] = LLVMBuildBitCast(L->b, LLVMBuildInsertElement(L->b, pair, hi, const_i32(L, 1), ""), bytes, "");
	}
	for (int k = 0; k < 4; k++)
		which[k] = const_i32(L, 2 * k + b);
	return LLVMBuildShuffleVector(L->b, word[0], word[1], LLVMConstVector(which, 4), "");
}

static V converted_bytes(Lower *L, const Storage *s, const int reg[2], DType want)
{
	V half[2];
	for (int i = 0; i < 2; i++)
		half[i] = LLVMBuildZExt(L->b, byte_pair(L, s, reg[i], want), L->i32, "");
	V word = LLVMBuildOr(L->b, half[0], LLVMBuildShl(L->b, half[1], const_i32(L, 16), ""), "");
	return LLVMBuildBitCast(L->b, word, LLVMVectorType(L->i8, 4), "");
}

/* Columns 8b + 2q + c of each 16 are columns 4q + 2b + c of the result: both are in lanes q of a row. */
void lower_weave(Lower *L, const Op *op)
{
	Storage *s = storage_of(L, operand(op, ARG_SOURCE)->def), *d = storage_of(L, operand(op, ARG_TARGET)->def);
	int byte = (int)attr_int(op, AT_BYTE, -1);
	for (int r = 0; r < d->layout->nregs; r += 4) {
		Coord at = d->layout->reg[r];
		int from[2] = { layout_find_reg(s->layout, at.row, at.col), layout_find_reg(s->layout, at.row, at.col + 8) };
		V four = byte < 0 ? converted_bytes(L, s, from, d->object->result->type.dtype) : chosen_bytes(L, s, from, byte);
		LLVMBuildStore(L->b, four, frag_register(L, d, r));
	}
}

/* Whether the elements of a view's last dimension are neighbours in memory. */
static bool has_rows(const TileRef *r)
{
	int64_t one = 1;
	bool strided = r->space == TY_TENSOR && (!value_const_int(tensor_stride(r->object, r->object_rank - 1), &one) || one != 1);
	return r->dims[r->object_rank - 1] != -1 && !strided;
}

/* Bytes that one cp.async may have, and what they are bound by. */
typedef struct Width {
	int64_t bytes;
	const char *by;
} Width;

static void narrow(Lower *L, Width *w, int64_t to, const char *what, const TileRef *r)
{
	if (to < w->bytes)
		*w = (Width){ to, arena_printf(L->arena, "%s '%s'", what, attr_text(r->object, AT_NAME, "?")) };
}

/* 16, 8 or 4 bytes as rows and starts allow on both sides; where elements are no neighbours, one. */
static Width cp_async_width(Lower *L, const TileRef *g, const TileRef *s)
{
	int elem = (int)dtype_bytes(g->dtype);
	const TileRef *side[2] = { g, s };
	Width w = { 16, "" };
	for (int i = 0; i < 2; i++) {
		int last = side[i]->object_rank - 1;
		if (!has_rows(side[i]))
			narrow(L, &w, elem, "single elements of", side[i]);
		if (side[i]->start[last])
			narrow(L, &w, value_divisor(NULL, side[i]->start[last], -1) * elem, "starts in", side[i]);
	}
	for (int d = 0; d + 1 < g->object_rank; d++)
		narrow(L, &w, value_divisor(NULL, tensor_stride(g->object, d), -1) * elem, "rows of", g);
	if (s->object_rank > 1) {
		int64_t row = s->object->result->type.shape[s->object_rank - 1] * elem;
		narrow(L, &w, row & -row, "rows of", s);
	}
	int64_t part = s->shape[s->rank - 1] * elem;
	narrow(L, &w, part & -part, "parts of", s);
	return w;
}

/* Index operands of a view's element (row, col), as values. */
static void element_index(Lower *L, const TileRef *r, V row, V col, V *index)
{
	view_origin(L, r, index);
	int k = 0;
	for (int d = 0; d < r->object_rank; d++) {
		if (r->dims[d] == -1)
			continue;
		V at = r->rank == 1 || k == 1 ? col : row;
		k++;
		if (r->space == TY_TENSOR)
			at = to_i64(L, at, DT_I32);
		else if (LLVMTypeOf(index[d]) == L->i64)
			at = to_i64(L, at, DT_I32);
		if (r->space == TY_TENSOR && LLVMTypeOf(index[d]) != L->i64)
			index[d] = to_i64(L, index[d], DT_I32);
		index[d] = build_add(L, index[d], at);
	}
	if (r->space == TY_TENSOR)
		for (int d = 0; d < r->object_rank; d++)
			if (LLVMTypeOf(index[d]) != L->i64)
				index[d] = to_i64(L, index[d], DT_I32);
}

/* The first sliced axis of the global view against the limit. */
static V below_limit(Lower *L, const TileRef *g, V *index, const Value *limit)
{
	for (int d = 0; d < g->object_rank; d++)
		if (g->dims[d] > 0)
			return LLVMBuildICmp(L->b, LLVMIntSLT, index[d], to_i64(L, value_of(L, limit), limit->type.dtype), "");
	return LLVMConstInt(L->i1, 1, 0);
}

/* Of a chunk that begins below the limit: all, or what is below where the limit is on the axis of its elements. */
static V limited_bytes(Lower *L, const TileRef *g, V *index, const Value *limit, int bytes)
{
	int last = g->object_rank - 1;
	for (int d = 0; d < last; d++)
		if (g->dims[d] > 0)
			return const_i32(L, bytes);
	V room = LLVMBuildSub(L->b, to_i64(L, value_of(L, limit), limit->type.dtype), index[last], "");
	V n = LLVMBuildMul(L->b, room, const_i64(L, dtype_bytes(g->dtype)), ""), all = const_i64(L, bytes);
	return LLVMBuildTrunc(L->b, LLVMBuildSelect(L->b, LLVMBuildICmp(L->b, LLVMIntSLT, n, all, ""), n, all, ""), L->i32, "");
}

void lower_cp_async(Lower *L, const Op *op)
{
	static const DType wide[TIR_MAX_RANK] = { DT_I64, DT_I64, DT_I64, DT_I64, DT_I64, DT_I64 };
	TileRef g = tile_ref(operand(op, ARG_SOURCE)), s = tile_ref(operand(op, ARG_TARGET));
	int elem = (int)dtype_bytes(g.dtype), rank = s.rank, most = g.rank > rank ? g.rank : rank;
	const char *why = "";
	if (most > 2) {
		lower_error(L, op->loc, "a cp_async has one or two dimensions, not %d", most);
		return;
	}
	if (g.shape[g.rank - 1] != s.shape[rank - 1]) { /* they agree but for dimensions of one element */
		lower_error(L, op->loc, "cp_async: a column of '%s' is a row of '%s', or the other way round", attr_text(g.object, AT_NAME, "?"), attr_text(s.object, AT_NAME, "?"));
		diag_help(L->diags, "index the dimension of one element away, or let copy(src, dst) do it");
		return;
	}
	if (g.trans || s.trans) {
		lower_error(L, op->loc, "cp_async does not transpose");
		diag_help(L->diags, "copy(src, dst) does");
		return;
	}
	Width w = cp_async_width(L, &g, &s);
	int bytes = (int)w.bytes;
	if (bytes < 4) {
		lower_error(L, op->loc, "cp_async moves 4, 8 or 16 bytes at a time, but %s are known only as multiples of %d bytes", w.by, bytes);
		diag_help(L->diags, "rows of 8 * N elements are known as multiples of 8, rows of N are not; copy(src, dst) takes any");
		return;
	}
	int64_t shape[2] = { rank == 2 ? s.shape[0] : 1, s.shape[rank - 1] };
	const Layout *l = layout_of(L->arena, form_blocked(L->arena, 1, bytes / elem), 2, shape, L->team.warps, &why);
	if (!l) {
		lower_error(L, op->loc, "cp_async: %s", why);
		return;
	}
	V row, col, source[TIR_MAX_RANK], target[TIR_MAX_RANK], alone = first_copy(L, l);
	Guard once = { 0 };
	if (alone)
		once = guard_begin(L, alone);
	layout_base(L, l, L->team.lane, L->team.warp, &row, &col);
	for (int r = 0; r < l->nregs; r += bytes / elem) {
		V i = build_add(L, row, const_i32(L, l->reg[r].row)), j = build_add(L, col, const_i32(L, l->reg[r].col));
		element_index(L, &g, i, j, source);
		element_index(L, &s, i, j, target);
		V valid = const_i32(L, bytes), from = global_address(L, g.object, source, wide), more = const_i64(L, bytes / elem - 1);
		check_index(L, s.object, target, NULL, more, NULL);
		if (!operand(op, ARG_LIMIT))
			check_index(L, g.object, source, wide, more, NULL);
		else {
			V in = below_limit(L, &g, source, operand(op, ARG_LIMIT));
			valid = LLVMBuildSelect(L->b, in, limited_bytes(L, &g, source, operand(op, ARG_LIMIT), bytes), const_i32(L, 0), "");
			more = LLVMBuildUDiv(L->b, LLVMBuildZExt(L->b, valid, L->i64, ""), const_i64(L, elem), "");
			check_index(L, g.object, source, wide, LLVMBuildSub(L->b, more, const_i64(L, 1), ""), in);
			from = LLVMBuildSelect(L->b, in, from, storage_of(L, g.object)->pointer, "");
		}
		watch_global(L, WATCHED_COPIED, g.object, &from, 1, valid);
		L->ops->cp_async(L, shared_address(L, s.object, target), from, (unsigned)bytes, valid);
	}
	if (alone)
		guard_end(L, once);
}
