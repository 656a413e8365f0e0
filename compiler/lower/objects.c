/* objects.c - storage of fragments, variables, tiles, tensors and barriers, and element addresses. */
#include "compiler/lower/context.h"

#include <string.h>

Storage *storage_of(Lower *L, const Op *object) { return L->storage[object->result->id]; }

static void declare_frag(Lower *L, Storage *s, const Op *op)
{
	const char *why = "";
	const Type *t = &op->result->type;
	int warps = attr_int(op, "warp_scope", 0) ? 1 : L->team.warps;
	s->layout = layout_from_text(L->arena, attr_text(op, "layout", "?"), t->rank, t->shape, warps, &why);
	if (!s->layout) {
		lower_error(L, op->loc, "fragment without layout: %s", why);
		return;
	}
	s->packed = dtype_bits(t->dtype) == 16 && dtype_is_float(t->dtype) && s->layout->pairs;
	T elem = s->packed ? LLVMVectorType(type_of(L, t->dtype), 2) : t->dtype == DT_BOOL ? L->i8 : type_of(L, t->dtype);
	s->pointer = entry_alloca(L, LLVMArrayType2(elem, (uint64_t)s->layout->nregs / (s->packed ? 2 : 1)), "frag");
}

V frag_register(Lower *L, const Storage *s, int reg)
{
	T elem = LLVMGetElementType(LLVMGetAllocatedType(s->pointer));
	V at = const_i32(L, s->packed ? reg / 2 : reg);
	return LLVMBuildGEP2(L->b, elem, s->pointer, &at, 1, "");
}

void declare_object(Lower *L, const Op *op)
{
	Storage *s = ARENA_NEW(L->arena, Storage);
	s->object = op;
	L->storage[op->result->id] = s;
	switch (op->code) {
	case OP_FRAG: declare_frag(L, s, op); break;
	case OP_VAR: s->pointer = entry_alloca(L, op->result->type.dtype == DT_BOOL ? L->i8 : type_of(L, op->result->type.dtype), "var"); break;
	case OP_SHARED: case OP_MBARRIER: s->pointer = L->storage[0]->pointer; break;
	default: break;
	}
}

unsigned swizzle_of(const Op *shared)
{
	unsigned w = 0;
	return sscanf(attr_text(shared, "layout", "linear"), "swizzle%u", &w) == 1 ? w : 0;
}

static int ring_of(const Op *shared) { return attr_int(shared, "ring", 0) > 0; }

int panel_rows(const Op *shared)
{
	const Type *t = &shared->result->type;
	return t->rank - ring_of(shared) >= 2 ? (int)t->shape[t->rank - 2] : 1;
}

/* In-tile byte offset of (row, col): column panels of the swizzle width, 16-byte chunks XORed by the row. */
static V tile_offset(Lower *L, const Op *o, V row, V col)
{
	const Type *t = &o->result->type;
	int64_t bytes = dtype_bytes(t->dtype), cols = t->shape[t->rank - 1];
	unsigned w = swizzle_of(o);
	if (w == 0)
		return build_add(L, build_mul_const(L, row, cols * bytes), build_mul_const(L, col, bytes));
	V cb = build_mul_const(L, col, bytes);
	V inner = LLVMBuildAnd(L->b, cb, const_i32(L, w - 1), "");
	unsigned rows_per_line = 128 / w;
	V line = rows_per_line == 1 ? row : LLVMBuildLShr(L->b, row, const_i32(L, rows_per_line == 2 ? 1 : 2), "");
	V mask = LLVMBuildShl(L->b, LLVMBuildAnd(L->b, line, const_i32(L, w / 16 - 1), ""), const_i32(L, 4), "");
	V off = build_add(L, build_mul_const(L, row, w), LLVMBuildXor(L->b, inner, mask, ""));
	if (cols * bytes > (int64_t)w) {
		V panel = LLVMBuildLShr(L->b, cb, const_i32(L, w == 128 ? 7 : w == 64 ? 6 : 5), "");
		off = build_add(L, off, build_mul_const(L, panel, (int64_t)panel_rows(o) * w));
	}
	return off;
}

V shared_address(Lower *L, const Op *o, V *index)
{
	const Type *t = &o->result->type;
	int ring = ring_of(o), tile_rank = t->rank - ring;
	V off = const_i32(L, attr_int(o, "offset", 0));
	if (ring)
		off = build_add(L, off, build_mul_const(L, index[0], attr_int(o, "stage_bytes", 0)));
	int64_t bytes = dtype_bytes(t->dtype), below = bytes;
	for (int d = t->rank - 1; d >= t->rank - 2 && d >= ring; d--)
		below *= t->shape[d];
	for (int d = t->rank - 3; d >= ring; d--) {
		off = build_add(L, off, build_mul_const(L, index[d], below));
		below *= t->shape[d];
	}
	if (tile_rank >= 2)
		off = build_add(L, off, tile_offset(L, o, index[t->rank - 2], index[t->rank - 1]));
	else if (tile_rank == 1)
		off = build_add(L, off, build_mul_const(L, index[t->rank - 1], bytes));
	return LLVMBuildGEP2(L->b, L->i8, L->storage[0]->pointer, &off, 1, "");
}

V global_address(Lower *L, const Op *o, V *index, const DType *types)
{
	Storage *s = storage_of(L, o);
	int rank = o->result->type.rank;
	V off = const_i64(L, 0);
	for (int d = 0; d < rank; d++) {
		V i = to_i64(L, index[d], types ? types[d] : DT_I32);
		off = build_add(L, off, LLVMBuildMul(L->b, i, s->stride[d], ""));
	}
	T elem = o->result->type.dtype == DT_BOOL ? L->i8 : type_of(L, o->result->type.dtype);
	return LLVMBuildGEP2(L->b, elem, s->pointer, &off, 1, "");
}

V barrier_address(Lower *L, const Op *bar, V slot)
{
	V off = build_add(L, const_i32(L, attr_int(bar, "offset", 0)), build_mul_const(L, slot, 8));
	return LLVMBuildGEP2(L->b, L->i8, L->storage[0]->pointer, &off, 1, "");
}

void view_origin(Lower *L, const TileRef *r, V *index)
{
	for (int d = 0; d < r->object_rank; d++) {
		if (!r->start[d]) {
			index[d] = const_i32(L, 0);
			continue;
		}
		V v = value_of(L, r->start[d]);
		index[d] = r->space == TY_TENSOR ? to_i64(L, v, r->start[d]->type.dtype)
		                                 : convert(L, v, r->start[d]->type.dtype, DT_I32);
	}
}
