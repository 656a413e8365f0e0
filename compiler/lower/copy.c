/* copy.c - copies and fills between registers, shared and global memory. */
#include "compiler/analysis/index.h"
#include "compiler/lower/context.h"
#include "compiler/lower/elements.h"

#include <string.h>

/* A copy or fill that goes element by element is an element loop: built here as TIR and lowered as one. */
static Value *loop_index_value(Tir *t, Region *body, Loc loc, Value *arg, Value *start)
{
	if (!start)
		return arg;
	if (start->type.dtype == DT_I64) {
		Op *c = tir_op(t, OP_CAST, loc, type_scalar(DT_I64), 1, &arg);
		tir_append(body, c);
		arg = c->result;
	}
	Op *add = tir_op(t, OP_ADD, loc, type_scalar(start->type.dtype), 2, (Value *[]){ arg, start });
	tir_append(body, add);
	return add->result;
}

/* Index operands of tile r at loop position args[0 .. rank). */
static int element_operands(Tir *t, Region *body, Loc loc, const TileRef *r, Value **args, Value **out)
{
	int k = 0;
	for (int d = 0; d < r->object_rank; d++) {
		if (r->dims[d] == -1) {
			out[d] = r->start[d];
			continue;
		}
		int pos = r->trans && k >= r->rank - 2 ? (k == r->rank - 1 ? r->rank - 2 : r->rank - 1) : k;
		out[d] = loop_index_value(t, body, loc, args[pos], r->start[d]);
		k++;
	}
	return r->object_rank;
}

typedef struct ElementCopy {
	Tir *t;
	Op *loop;
	Value *args[2];
} ElementCopy;

static ElementCopy begin_loop(Lower *L, const Op *op, int rank, const int64_t *shape, bool warp_scope, const char *layout)
{
	Tir *t = (Tir *)L->tir;
	ElementCopy c = { .t = t };
	c.loop = tir_op(t, OP_PARALLEL, op->loc, type_none(), 0, NULL);
	c.loop->parent = op->parent;
	attr_set_list(t, c.loop, AT_EXTENTS, rank, shape);
	attr_set_text(t, c.loop, AT_LAYOUT, layout);
	if (warp_scope)
		attr_set_int(t, c.loop, AT_WARP_SCOPE, 1);
	Region *body = tir_region(t, c.loop, 0);
	for (int i = 0; i < rank; i++)
		c.args[i] = tir_region_arg(t, body, type_scalar(DT_I32), NULL);
	return c;
}

static void run_loop(Lower *L, ElementCopy *c)
{
	if (c->t->next_id > L->nvalues) {
		unsigned n = 2 * c->t->next_id;
		V *value = ARENA_ARRAY(L->arena, V, n + 1);
		Storage **storage = ARENA_ARRAY(L->arena, Storage *, n + 1);
		memcpy(value, L->value, (L->nvalues + 1) * sizeof *value);
		memcpy(storage, L->storage, (L->nvalues + 1) * sizeof *storage);
		L->value = value;
		L->storage = storage;
		L->nvalues = n;
	}
	lower_parallel(L, c->loop);
}

static bool warp_tile(const TileRef *r) { return r->space == TY_FRAG && (r->warp_scope || attr_int(r->object, AT_WARP_SCOPE, 0)); }

/* Widest default layout of a copy without fragments. */
static const char *plain_layout(Lower *L, const TileRef *a, const TileRef *b, int rank, const int64_t *shape)
{
	int bytes = (int)dtype_bytes(a->dtype) > (int)dtype_bytes(b->dtype) ? (int)dtype_bytes(a->dtype) : (int)dtype_bytes(b->dtype);
	int w = 16 / bytes, threads = 32 * L->team.warps;
	int64_t n = rank == 2 ? shape[0] * shape[1] : shape[0];
	while (w > 1 && (shape[rank - 1] % w != 0 || n / w < threads))
		w /= 2;
	return rank == 2 ? arena_printf(L->arena, "blocked(1,%d)", w) : arena_printf(L->arena, "blocked(%d)", w);
}

/* v as a value of type t. */
static Value *cast_to(ElementCopy *c, const Op *op, Value *v, DType t)
{
	if (v->type.dtype == t)
		return v;
	Op *cast = tir_op(c->t, OP_CAST, op->loc, type_scalar(t), 1, &v);
	tir_append(c->loop->regions[0], cast);
	return cast->result;
}

/* index < bound */
static Value *below(ElementCopy *c, const Op *op, Value *index, Value *bound)
{
	DType t = index->type.dtype == DT_I64 || bound->type.dtype == DT_I64 ? DT_I64 : DT_I32;
	Value *xy[2] = { cast_to(c, op, index, t), cast_to(c, op, bound, t) };
	Op *cmp = tir_op(c->t, OP_CMP, op->loc, type_scalar(DT_BOOL), 2, xy);
	attr_set_text(c->t, cmp, AT_PRED, "lt");
	tir_append(c->loop->regions[0], cmp);
	return cmp->result;
}

/* Some rows of a fragment whose layout has whole slices of rows: the loop goes over all of them, with a mask. */
typedef struct RowPart { bool is; int64_t first, n, all; } RowPart;

static RowPart row_part(Lower *L, const TileRef *f)
{
	if (!f || f->rank != 2 || f->trans || f->dims[0] <= 0 || strcmp(attr_text(f->object, AT_LAYOUT, ""), "mma") != 0)
		return (RowPart){ 0 };
	RowPart p = { true, 0, f->shape[0], f->object->result->type.shape[0] };
	int64_t slice = warp_tile(f) ? 16 : 64, groups = warp_tile(f) ? 1 : L->team.warps / 4;
	value_const_int(f->start[0], &p.first);
	p.is = p.n < p.all && (groups > 1 || p.first % slice != 0 || p.n % slice != 0);
	return p;
}

static Value *append_const(Tir *t, Region *r, Loc loc, int64_t v)
{
	Op *c = tir_op(t, OP_CONST, loc, type_scalar(DT_I32), 0, NULL);
	attr_set_int(t, c, AT_VALUE, v);
	tir_append(r, c);
	return c->result;
}

static Value *append_binary(ElementCopy *c, const Op *op, Opcode code, Value *a, int64_t b)
{
	Region *body = c->loop->regions[0];
	Op *x = tir_op(c->t, code, op->loc, type_scalar(code == OP_CMP ? DT_BOOL : DT_I32), 2,
		(Value *[]){ a, append_const(c->t, body, op->loc, b) });
	tir_append(body, x);
	return x->result;
}

/* first <= the fragment's row < first + n */
static Value *part_mask(ElementCopy *c, const Op *op, const RowPart *p)
{
	Value *m[2] = { append_binary(c, op, OP_CMP, c->args[0], p->first), append_binary(c, op, OP_CMP, c->args[0], p->first + p->n) };
	attr_set_text(c->t, m[0]->def, AT_PRED, "ge");
	attr_set_text(c->t, m[1]->def, AT_PRED, "lt");
	Op *both = tir_op(c->t, OP_AND, op->loc, type_scalar(DT_BOOL), 2, m);
	tir_append(c->loop->regions[0], both);
	return both->result;
}

/* Index operands of one of the copy's tiles: of the fragment with a row part all rows, of the other the part's. */
static int tile_operands(ElementCopy *c, const Op *op, const TileRef *r, const RowPart *p, Value **out)
{
	TileRef whole = *r;
	Value *args[2] = { c->args[0], c->args[1] };
	if (p->is && r->space == TY_FRAG)
		whole.start[0] = NULL;
	else if (p->is)
		args[0] = append_binary(c, op, OP_SUB, args[0], p->first);
	return element_operands(c->t, c->loop->regions[0], op->loc, &whole, args, out);
}

static Value *both_masks(ElementCopy *c, const Op *op, Value *a, Value *b)
{
	if (!a || !b)
		return a ? a : b;
	Op *both = tir_op(c->t, OP_AND, op->loc, type_scalar(DT_BOOL), 2, (Value *[]){ a, b });
	tir_append(c->loop->regions[0], both);
	return both->result;
}

static void append_access(ElementCopy *c, Op *access, const TileRef *r, bool masked)
{
	if (masked)
		attr_set_int(c->t, access, AT_MASKED, 1);
	if (r->warp_scope)
		attr_set_int(c->t, access, AT_WARP_SCOPE, 1);
	tir_append(c->loop->regions[0], access);
}

static Value *append_load(ElementCopy *c, const Op *op, const TileRef *s, const RowPart *part, Value *mask)
{
	Value *ops[1 + TIR_MAX_RANK + 1] = { s->object->result };
	int n = 1 + tile_operands(c, op, s, part, ops + 1);
	if (mask)
		ops[n++] = mask;
	Op *load = tir_op(c->t, OP_LOAD, op->loc, type_scalar(s->dtype), n, ops);
	append_access(c, load, s, mask != NULL);
	return load->result;
}

static void append_store(ElementCopy *c, const Op *op, const TileRef *d, const RowPart *part, Value *v, Value *mask)
{
	Value *ops[2 + TIR_MAX_RANK + 1] = { cast_to(c, op, v, d->dtype), d->object->result };
	int n = 2 + tile_operands(c, op, d, part, ops + 2);
	if (mask)
		ops[n++] = mask;
	append_access(c, tir_op(c->t, OP_STORE, op->loc, type_none(), n, ops), d, mask != NULL);
}

/* Where the first slice of the global tile is below the limit. */
static Value *limit_mask(ElementCopy *c, const Op *op, const TileRef *g, const RowPart *part, Value *limit)
{
	Value *index[TIR_MAX_RANK];
	if (!limit || !g || first_slice(g) < 0)
		return NULL;
	tile_operands(c, op, g, part, index);
	return below(c, op, index[first_slice(g)], limit);
}

/* Copies by threads have one or two dimensions: views index the others away. */
static bool element_copy(Lower *L, const Op *op, const TileRef *s, const TileRef *d, Value *scalar, Value *limit)
{
	int rank = d->rank;
	if (rank < 1 || rank > 2) {
		lower_error(L, op->loc, "a copy by threads has one or two dimensions, not %d", rank);
		return false;
	}
	int64_t shape[2] = { d->shape[0], rank == 2 ? d->shape[1] : 0 };
	for (int i = 0; i < rank; i++)
		if (shape[i] < 0 && s)
			shape[i] = s->shape[i];
	const TileRef *f = d->space == TY_FRAG ? d : s && s->space == TY_FRAG ? s : NULL;
	const TileRef *g = s && s->space == TY_TENSOR ? s : d->space == TY_TENSOR ? d : NULL;
	RowPart part = row_part(L, f);
	shape[0] = part.is ? part.all : shape[0];
	const char *layout = f ? attr_text(f->object, AT_LAYOUT, "?") : plain_layout(L, s ? s : d, d, rank, shape);
	ElementCopy c = begin_loop(L, op, rank, shape, f && warp_tile(f), layout);
	Value *in_part = part.is ? part_mask(&c, op, &part) : NULL, *below_limit = limit_mask(&c, op, g, &part, limit), *v = scalar;
	if (s) /* of a fragment all rows exist */
		v = append_load(&c, op, s, &part, s->space == TY_FRAG ? NULL : both_masks(&c, op, s->space == TY_TENSOR ? below_limit : NULL, in_part));
	append_store(&c, op, d, &part, v, both_masks(&c, op, d->space == TY_TENSOR ? below_limit : NULL, in_part));
	run_loop(L, &c);
	return true;
}

/* ---- register to register ---- */

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
	if (s->packed) {
		V pair = LLVMBuildLoad2(L->b, LLVMVectorType(type_of(L, d), 2), at, "");
		return LLVMBuildExtractElement(L->b, pair, const_i32(L, reg % 2), "");
	}
	V v = LLVMBuildLoad2(L->b, d == DT_BOOL ? L->i8 : type_of(L, d), at, "");
	return d == DT_BOOL ? LLVMBuildTrunc(L->b, v, L->i1, "") : v;
}

/* Elements (row, col) and (row, col + 1) as 16-bit ones. */
static V matrix_word(Lower *L, const Storage *s, DType want, int row, int col)
{
	int reg = layout_find_reg(s->layout, row, col);
	DType have = s->object->result->type.dtype;
	if (have == want && s->packed)
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
	if (s->packed) {
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
	int R = mem->object_rank;
	memcpy(index, origin, sizeof index);
	V row = mem->trans ? build_add(L, build_add(L, x->col, l7), m2) : build_add(L, build_add(L, x->row, l7), m1);
	V col = mem->trans ? build_add(L, x->row, m1) : build_add(L, x->col, m2);
	index[R - 2] = build_add(L, origin[R - 2], row);
	index[R - 1] = build_add(L, origin[R - 1], col);
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
	bool warp = warp_tile(f);
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

/* start + extent <= limit on the view's first sliced axis. */
V within_limit(Lower *L, const TileRef *g, const Value *limit)
{
	for (int d = 0; d < g->object_rank; d++)
		if (g->dims[d] > 0) {
			V start = to_i64(L, value_of(L, g->start[d]), g->start[d]->type.dtype);
			V end = build_add(L, start, const_i64(L, g->dims[d]));
			return LLVMBuildICmp(L->b, LLVMIntSLE, end, to_i64(L, value_of(L, limit), limit->type.dtype), "");
		}
	return LLVMConstInt(L->i1, 1, 0);
}

void copy_elements(Lower *L, const Op *op)
{
	TileRef s = tile_ref(op->args[0]), d = tile_ref(op->args[1]);
	element_copy(L, op, &s, &d, NULL, op->nargs > 2 ? op->args[2] : NULL);
}

/* Whole tiles without a mask for each row; few elements are not worth two copies of the code. */
static void copy_to_limit(Lower *L, const Op *op, const TileRef *s, const TileRef *d)
{
	const TileRef *g = s->space == TY_TENSOR ? s : d;
	int64_t n = 1, few = 4 * 32 * (warp_tile(s) || warp_tile(d) ? 1 : L->team.warps);
	for (int i = 0; i < g->rank; i++)
		n *= g->shape[i];
	if (n <= few) {
		copy_elements(L, op);
		return;
	}
	Either whole = either_begin(L, within_limit(L, g, op->args[2]));
	element_copy(L, op, s, d, NULL, NULL);
	either_else(L, whole);
	copy_elements(L, op);
	either_end(L, whole);
}

void lower_copy(Lower *L, const Op *op)
{
	TileRef s = tile_ref(op->args[0]), d = tile_ref(op->args[1]);
	const char *inst = attr_text(op, AT_INST, "vector");
	if (strcmp(inst, "ldmatrix") == 0)
		matrix_copy(L, &s, &d, true);
	else if (strcmp(inst, "stmatrix") == 0)
		matrix_copy(L, &d, &s, false);
	else if (op->nargs > 2)
		copy_to_limit(L, op, &s, &d);
	else
		copy_elements(L, op);
}

void lower_fill(Lower *L, const Op *op)
{
	TileRef d = tile_ref(op->args[0]);
	element_copy(L, op, NULL, &d, op->args[1], NULL);
}

/* Bytes of one cp.async: 16, 8 or 4, as the rows of the global tensor are aligned and the tile is wide. */
static int cp_async_bytes(const TileRef *g, const TileRef *s)
{
	int elem = (int)dtype_bytes(g->dtype), rank = g->object_rank;
	int64_t one, bytes = 16;
	if (!value_const_int(g->object->args[2 * rank - 1], &one) || one != 1 || g->dims[rank - 1] == -1)
		return 0;
	for (int d = 0; d + 1 < rank; d++) {
		int64_t row = value_divisor(NULL, g->object->args[rank + d], -1) * elem;
		bytes = row < bytes ? row : bytes;
	}
	const Value *starts[2] = { g->start[rank - 1], s->start[s->object_rank - 1] };
	for (int i = 0; i < 2; i++)
		if (starts[i]) {
			int64_t at = value_divisor(NULL, starts[i], -1) * elem;
			bytes = at < bytes ? at : bytes;
		}
	while (bytes >= 4 && s->shape[s->rank - 1] * elem % bytes != 0)
		bytes /= 2;
	return bytes >= 4 ? (int)bytes : 0;
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
	TileRef g = tile_ref(op->args[0]), s = tile_ref(op->args[1]);
	int elem = (int)dtype_bytes(g.dtype), bytes = cp_async_bytes(&g, &s), rank = s.rank;
	const char *why = "";
	if (g.dtype != s.dtype || g.trans || s.trans || rank < 1 || rank > 2 || bytes == 0) {
		lower_error(L, op->loc, "cp_async copies rows of equal element type whose start and pitch are multiples of 4 bytes known at compile time");
		return;
	}
	int64_t shape[2] = { rank == 2 ? s.shape[0] : 1, s.shape[rank - 1] };
	const char *text = arena_printf(L->arena, "blocked(1,%d)", bytes / elem);
	const Layout *l = layout_from_text(L->arena, text, 2, shape, L->team.warps, &why);
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
		if (op->nargs <= 2)
			check_index(L, g.object, source, wide, more, NULL);
		else {
			V in = below_limit(L, &g, source, op->args[2]);
			valid = LLVMBuildSelect(L->b, in, limited_bytes(L, &g, source, op->args[2], bytes), const_i32(L, 0), "");
			more = LLVMBuildUDiv(L->b, LLVMBuildZExt(L->b, valid, L->i64, ""), const_i64(L, elem), "");
			check_index(L, g.object, source, wide, LLVMBuildSub(L->b, more, const_i64(L, 1), ""), in);
			from = LLVMBuildSelect(L->b, in, from, storage_of(L, g.object)->pointer, "");
		}
		L->ops->cp_async(L, shared_address(L, s.object, target), from, (unsigned)bytes, valid);
	}
	if (alone)
		guard_end(L, once);
}
