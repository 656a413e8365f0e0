/* check.c - indices against extents, operands against what an operation takes, for the CPU device.  On the GPU: nothing.
 *
 * Checks are calls without branches: kernels have thousands, and LLVM's time grows with the square of the blocks.
 * The object has room for its indices, followed by the extents: so those that repeat are stored once. */
#include "compiler/lower/context.h"

/* What only the host knows (the number of SMs) is beyond checks. */
static V extent_of(Lower *L, const Op *o, int d)
{
	const Type *t = &o->result->type;
	if (t->kind != TY_TENSOR)
		return const_i64(L, t->shape[d]);
	if (!value_of(L, tensor_extent(o, d)))
		return const_i64(L, INT64_MAX);
	return to_i64(L, value_of(L, tensor_extent(o, d)), tensor_extent(o, d)->type.dtype);
}

static V bounds_slot(Lower *L, const Storage *s, int i)
{
	V at = const_i32(L, i);
	return LLVMBuildGEP2(L->b, L->i64, s->bounds, &at, 1, "");
}

void declare_bounds(Lower *L, Storage *s)
{
	int rank = s->object->result->type.rank;
	if (!L->ops->checks)
		return;
	s->bounds = entry_alloca(L, LLVMArrayType2(L->i64, 2 * (uint64_t)rank), "bounds");
	for (int d = 0; d < rank; d++)
		LLVMBuildStore(L->b, extent_of(L, s->object, d), bounds_slot(L, s, rank + d));
}

static bool known_inside(const Lower *L, const Op *o, int d, V index, int64_t more)
{
	const Type *t = &o->result->type;
	int64_t n = t->shape[d];
	if (t->kind == TY_TENSOR && !value_const_int(tensor_extent(o, d), &n))
		return false;
	return n > more && always_below(L, index, (uint64_t)(n - more));
}

static void put_index(Lower *L, const Storage *s, int d, V index, DType type)
{
	LLVMBuildStore(L->b, LLVMTypeOf(index) == L->i64 ? index : to_i64(L, index, type), bounds_slot(L, s, d));
}

/* ---- what has been checked ---- */

enum { PRESENCE = -1 }; /* of an optional tensor, as a dimension */

void checks_guarded(Lower *L, LLVMBasicBlockRef before)
{
	CheckedIndices *c = &L->checked;
	if (c->guards < MOST_GUARDS)
		c->guarded[c->guards] = before;
	c->guards++;
}

void checks_unguarded(Lower *L, LLVMBasicBlockRef before, LLVMBasicBlockRef after)
{
	CheckedIndices *c = &L->checked;
	c->guards--;
	for (int i = 0; i < MOST_CHECKED; i++)
		if (c->last[i].block == before)
			c->last[i].block = after;
}

/* Whether the code at hand comes after the block, in each run of it. */
static bool is_behind(const Lower *L, LLVMBasicBlockRef block)
{
	const CheckedIndices *c = &L->checked;
	bool behind = block == LLVMGetInsertBlock(L->b);
	for (int i = 0; i < c->guards && i < MOST_GUARDS; i++)
		behind |= block == c->guarded[i];
	return behind;
}

/* Whether the same check has been made; if not, it is now. */
static bool is_checked(Lower *L, const Storage *s, int d, V index, V more, V mask)
{
	CheckedIndices *c = &L->checked;
	for (int i = 0; i < MOST_CHECKED; i++) {
		const Checked *k = &c->last[i];
		if (k->s == s && k->d == d && same_instructions(k->index, index, 4) && k->more == more && (!k->mask || k->mask == mask) && is_behind(L, k->block))
			return true;
	}
	c->last[c->n++ % MOST_CHECKED] = (Checked){ LLVMGetInsertBlock(L->b), s, d, index, more, mask };
	return false;
}

void check_index(Lower *L, const Op *object, V *index, const DType *types, V more, V mask)
{
	int rank = object->result->type.rank;
	unsigned look = 0;
	bool presence;
	const Storage *s = L->ops->checks ? storage_of(L, object) : NULL;
	for (int d = 0; s && d < rank; d++) {
		bool run = more && d == rank - 1;
		if ((!run || LLVMIsAConstantInt(more)) && known_inside(L, object, d, index[d], run ? LLVMConstIntGetSExtValue(more) : 0))
			continue;
		if (is_checked(L, s, d, index[d], run ? more : NULL, mask))
			continue;
		put_index(L, s, d, index[d], types ? types[d] : DT_I32);
		look |= 1u << d;
	}
	presence = s && attr_int(object, AT_OPTIONAL, 0) && !is_checked(L, s, PRESENCE, NULL, NULL, mask);
	if (look || presence)
		L->ops->check_bounds(L, s, look, more && look >> (rank - 1) ? more : const_i64(L, 0), mask);
}

void check_presence(Lower *L, const Op *tensor)
{
	const Storage *s = L->ops->checks ? storage_of(L, tensor) : NULL;
	if (s && attr_int(tensor, AT_OPTIONAL, 0) && !is_checked(L, s, PRESENCE, NULL, NULL, NULL))
		L->ops->check_bounds(L, s, 0, const_i64(L, 0), NULL);
}

void check_view(Lower *L, const TileRef *r)
{
	for (int d = 0; L->ops->checks && d < r->object_rank; d++) {
		const Storage *s = storage_of(L, r->object);
		int64_t more = r->dims[d] > 0 ? r->dims[d] - 1 : 0;
		if (!r->start[d] || known_inside(L, r->object, d, value_of(L, r->start[d]), more))
			continue;
		put_index(L, s, d, value_of(L, r->start[d]), r->start[d]->type.dtype);
		L->ops->check_bounds(L, s, 1u << d, const_i64(L, more), NULL);
	}
}

/* ---- arithmetic ---- */

/* v, or where the operation does not count something that is in range. */
static V counted(Lower *L, V v, V counts, V fine) { return counts ? LLVMBuildSelect(L->b, counts, v, fine, "") : v; }

static bool plain_divisor(V b, bool is_signed)
{
	return LLVMIsAConstantInt(b) && !LLVMIsNull(b) && !(is_signed && LLVMConstIntGetSExtValue(b) == -1);
}

void check_division(Lower *L, DType d, V a, V b, V counts)
{
	if (!L->ops->checks || plain_divisor(b, dtype_is_signed(d)))
		return;
	b = counted(L, b, counts, LLVMConstInt(LLVMTypeOf(b), 1, 0));
	L->ops->check_division(L, d, to_i64(L, a, d), to_i64(L, b, d));
}

void check_shift(Lower *L, DType d, V a, V count, V counts)
{
	if (!L->ops->checks || always_below(L, count, dtype_bits(d)))
		return;
	count = counted(L, count, counts, LLVMConstNull(LLVMTypeOf(count)));
	L->ops->check_shift(L, d, to_i64(L, a, d), to_i64(L, count, d));
}

void check_conversion(Lower *L, DType to, V f32, V counts)
{
	if (L->ops->checks)
		L->ops->check_conversion(L, to, counted(L, f32, counts, const_f32(L, 0)));
}
