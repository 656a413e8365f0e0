/* address.c - element addresses, as a part that varies between threads and iterations plus a constant.
 *
 * What instructions add goes to the constant, so that neighbouring elements share the varying part and
 * differ in the immediate of the access.
 */
#include "compiler/analysis/index.h"
#include "compiler/lower/context.h"

/* v without the constants added in it, which go to *c.  A sum in an index does not wrap: where it would, no tensor has the element. */
static V split_at(Lower *L, V v, int depth, int64_t *c)
{
	int64_t k, part = 0;
	*c = 0;
	if (is_const(v, c))
		return LLVMConstNull(LLVMTypeOf(v));
	if (!LLVMIsAInstruction(v) || depth == 0)
		return v;
	LLVMOpcode code = LLVMGetInstructionOpcode(v);
	if (code != LLVMSExt && !LLVMIsABinaryOperator(v))
		return v;
	V a = LLVMGetOperand(v, 0), b = code == LLVMSExt ? NULL : LLVMGetOperand(v, 1);
	switch (code) {
	case LLVMAdd: case LLVMSub: {
		a = split_at(L, a, depth - 1, c);
		b = split_at(L, b, depth - 1, &part);
		if (*c == 0 && part == 0)
			return v;
		*c = code == LLVMAdd ? wrapped_sum(*c, part) : wrapped_difference(*c, part);
		return code == LLVMAdd ? LLVMBuildAdd(L->b, a, b, "") : LLVMBuildSub(L->b, a, b, "");
	}
	case LLVMOr:
		if (!is_const(b, &k) || (bits_of(L, a) & (uint64_t)k & width_mask(v)) != 0)
			return v;
		a = split_at(L, a, depth - 1, c);
		*c = wrapped_sum(*c, k);
		return a;
	case LLVMMul: case LLVMShl:
		if (!is_const(b, &k) && (code == LLVMShl || !is_const(a, &k)))
			return v;
		a = split_at(L, LLVMIsAConstantInt(a) ? b : a, depth - 1, c);
		if (*c == 0)
			return v;
		k = code == LLVMShl ? (int64_t)((uint64_t)1 << k) : k;
		*c = wrapped_product(*c, k);
		return build_mul_const(L, a, k);
	case LLVMSExt:
		if (LLVMGetIntTypeWidth(LLVMTypeOf(a)) < 32) /* that wraps in its own type */
			return v;
		a = split_at(L, a, depth - 1, c);
		return *c == 0 ? v : LLVMBuildSExt(L->b, a, LLVMTypeOf(v), "");
	default: return v;
	}
}

static V split(Lower *L, V v, int64_t *c) { return split_at(L, v, KNOWN_DEPTH, c); }

/* ---- shared tiles ---- */

static int ring_of(const Op *shared) { return attr_int(shared, AT_RING, 0) > 0; }

static int log2_of(unsigned x) { return x > 1 ? 1 + log2_of(x / 2) : 0; }

/* Offset in a swizzled tile whose rows are lines of w bytes: columns beyond w are further panels of as many rows, and the 16-byte
 * chunks of a line are XORed by the row, with period 8.  `above` is what is added above the tile.
 *
 * Columns: the varying part and the constant `col` of byte numbers have disjoint bits in a line (or `col` is 0); so have the rows'
 * within the period.  Then what is constant in the XOR is one constant, that leaves the varying offset as a sum where it meets none
 * of its bits. */
static V swizzled_offset(Lower *L, V above, V row, V cb, unsigned w, int64_t panel, int64_t *constant)
{
	int64_t r = 0, c = 0;
	row = split(L, row, &r);
	cb = split(L, cb, &c);
	if (bits_of(L, row) & (uint64_t)r & 7) {
		row = build_add(L, row, const_i32(L, r & 7));
		r &= ~(int64_t)7;
	}
	if (bits_of(L, cb) & (uint64_t)c & (w - 1)) {
		cb = build_add(L, cb, const_i32(L, c & (w - 1)));
		c &= ~(int64_t)(w - 1);
	}
	unsigned lines = 128 / w;                        /* rows in 128 bytes */
	int64_t chunks = w / 16 - 1, log_w = log2_of(w);
	V line = LLVMBuildLShr(L->b, row, const_i32(L, log2_of(lines)), "");
	V mask = LLVMBuildShl(L->b, LLVMBuildAnd(L->b, line, const_i32(L, chunks), ""), const_i32(L, 4), "");
	V at = LLVMBuildXor(L->b, LLVMBuildAnd(L->b, cb, const_i32(L, w - 1), ""), mask, "");
	int64_t fixed = ((r >> log2_of(lines) & chunks) << 4) ^ (c & (w - 1) & ~15);
	*constant += r * w + (c & 15) + (c >> log_w) * panel;
	above = build_add(L, above, build_mul_const(L, row, w));
	if (bits_of(L, cb) >= w)
		above = build_add(L, above, build_mul_const(L, LLVMBuildLShr(L->b, cb, const_i32(L, log_w), ""), panel));
	if (!(bits_of(L, at) & (uint64_t)fixed)) {
		*constant += fixed;
		return build_add(L, above, at);
	}
	if (bits_of(L, above) & (w - 1))
		return build_add(L, above, LLVMBuildXor(L->b, at, const_i32(L, fixed), ""));
	return LLVMBuildXor(L->b, build_add(L, above, at), const_i32(L, fixed), "");
}

/* The start of the line that holds the element: a panel's rows are not swizzled among themselves. */
static V line_offset(Lower *L, V above, V row, V cb, unsigned w, int64_t panel, int64_t *constant)
{
	int64_t r = 0, c = 0;
	row = split(L, row, &r);
	cb = split(L, cb, &c);
	*constant += r * w + (c >> log2_of(w)) * panel;
	above = build_add(L, above, build_mul_const(L, row, w));
	return build_add(L, above, build_mul_const(L, LLVMBuildLShr(L->b, cb, const_i32(L, log2_of(w)), ""), panel));
}

static V offset_of(Lower *L, const Op *o, V *index, bool line, int64_t *constant)
{
	const Type *t = &o->result->type;
	int ring = ring_of(o), tile_rank = t->rank - ring;
	int64_t bytes = dtype_bytes(t->dtype), pitch[TIR_MAX_RANK], below = bytes, c;
	V off = const_i32(L, 0);
	unsigned w = tile_rank >= 2 ? (unsigned)swizzle_bytes(o) : 0;
	for (int d = t->rank - 1; d >= ring; d--) {
		pitch[d] = below;
		below *= t->shape[d];
	}
	if (ring)
		pitch[0] = attr_int(o, AT_STAGE_BYTES, 0);
	*constant = attr_int(o, AT_OFFSET, 0);
	for (int d = 0; d < t->rank - (w ? 2 : 0); d++) {
		V rest = split(L, index[d], &c);
		*constant = wrapped_sum(*constant, wrapped_product(c, pitch[d]));
		off = build_add(L, off, build_mul_const(L, rest, pitch[d]));
	}
	if (!w)
		return off;
	V cb = build_mul_const(L, index[t->rank - 1], bytes);
	return (line ? line_offset : swizzled_offset)(L, off, index[t->rank - 2], cb, w, (int64_t)panel_rows(o) * w, constant);
}

static V shared_offset(Lower *L, const Op *o, V *index, int64_t *constant) { return offset_of(L, o, index, false, constant); }

static V byte_address(Lower *L, V base, V off, int64_t constant)
{
	V at = LLVMBuildGEP2(L->b, L->i8, base, &off, 1, ""), c = LLVMConstInt(LLVMTypeOf(off), (uint64_t)constant, 1);
	return LLVMBuildGEP2(L->b, L->i8, at, &c, 1, "");
}

V shared_address(Lower *L, const Op *o, V *index)
{
	int64_t constant;
	V off = shared_offset(L, o, index, &constant);
	return byte_address(L, L->shared, off, constant);
}

V box_address(Lower *L, const Op *o, V *index)
{
	int64_t constant;
	V off = offset_of(L, o, index, true, &constant);
	return byte_address(L, L->shared, off, constant);
}

/* v / 16, where it is a multiple of it: constants become smaller, nothing is shifted. */
static V sixteenth(Lower *L, V v, int depth)
{
	int64_t c;
	if (is_const(v, &c))
		return const_i32(L, c / 16);
	if (LLVMIsAInstruction(v) && depth > 0) {
		V a = LLVMGetNumOperands(v) == 2 ? LLVMGetOperand(v, 0) : NULL, b = a ? LLVMGetOperand(v, 1) : NULL;
		bool known = b && is_const(b, &c);
		switch (LLVMGetInstructionOpcode(v)) {
		case LLVMAdd: return build_add(L, sixteenth(L, a, depth - 1), sixteenth(L, b, depth - 1));
		case LLVMMul:
			if (known && c % 16 == 0)
				return build_mul_const(L, a, c / 16);
			break;
		case LLVMShl:
			if (known && c >= 4)
				return build_mul_const(L, a, (int64_t)1 << (c - 4));
			break;
		default: break;
		}
	}
	V shifted = LLVMBuildAShr(L->b, v, const_i32(L, 4), "");
	if (LLVMIsAInstruction(shifted))
		LLVMSetExact(shifted, true);
	return shifted;
}

V shared_word(Lower *L, const Op *o, V *index)
{
	int64_t constant;
	V off = shared_offset(L, o, index, &constant);
	return build_add(L, build_add(L, L->shared_word, sixteenth(L, off, KNOWN_DEPTH)), const_i32(L, constant / 16));
}

V barrier_address(Lower *L, const Op *bar, V slot)
{
	int64_t c;
	V rest = split(L, slot, &c);
	return byte_address(L, L->shared, build_mul_const(L, rest, 8), attr_int(bar, AT_OFFSET, 0) + 8 * c);
}

/* ---- tensors ---- */

static const Value *uncast(const Value *v)
{
	while (v->def && v->def->code == OP_CAST)
		v = operand(v->def, ARG_A);
	return v;
}

static bool same_value(const Value *a, const Value *b)
{
	int64_t x, y;
	a = uncast(a);
	b = uncast(b);
	return a == b || (value_const_int(a, &x) && value_const_int(b, &y) && x == y);
}

/* Whether dimension d's elements follow one another in dimension d - 1: its stride is d's times d's extent. */
static bool packed(const Op *tensor, int d)
{
	const Value *n = tensor_extent(tensor, d), *inner = tensor_stride(tensor, d), *outer = uncast(tensor_stride(tensor, d - 1));
	int64_t x, y, z;
	if (value_const_int(inner, &x) && value_const_int(n, &y) && value_const_int(outer, &z))
		return wrapped_product(x, y) == z;
	if (value_const_int(inner, &x) && x == 1 && same_value(outer, n))
		return true;
	if (!outer->def || outer->def->code != OP_MUL)
		return false;
	Value **f = outer->def->args;
	return (same_value(f[0], inner) && same_value(f[1], n)) || (same_value(f[1], inner) && same_value(f[0], n));
}

/* As ((i n + j) m + k) ... where dimensions are packed: no product of extents stays in registers. */
V global_address(Lower *L, const Op *o, V *index, const DType *types)
{
	Storage *s = storage_of(L, o);
	int64_t bytes = dtype_bytes(o->result->type.dtype), constant = 0, stride, c;
	V off = const_i64(L, 0), step = const_i64(L, 0), part = NULL; /* part: in strides of dimension d */
	int rank = o->result->type.rank;
	for (int d = 0; d < rank; d++) {
		DType type = types ? types[d] : DT_I32;
		V rest = to_i64(L, split(L, index[d], &c), type);
		if (part)
			rest = build_add(L, LLVMBuildMul(L->b, part, to_i64(L, s->extent[d], tensor_extent(o, d)->type.dtype), ""), rest);
		part = rest;
		if (d == rank - 1 || !packed(o, d + 1)) {
			off = build_add(L, off, LLVMBuildMul(L->b, part, s->stride[d], ""));
			part = NULL;
		}
		if (is_const(s->stride[d], &stride))
			constant = wrapped_sum(constant, wrapped_product(c, stride));
		else if (c)
			step = build_add(L, step, build_mul_const(L, s->stride[d], c));
	}
	V at = LLVMBuildGEP2(L->b, L->i8, s->pointer, (V[]){ build_mul_const(L, off, bytes) }, 1, "");
	return byte_address(L, at, build_mul_const(L, step, bytes), wrapped_product(constant, bytes));
}

/* Indices of a view's first element. */
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
