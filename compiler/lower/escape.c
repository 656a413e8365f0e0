/* escape.c - what leaves the language: prints, assertions, inline PTX, stamps. */
#include "compiler/lower/context.h"

static bool checks_asserts(const Lower *L) { return L->ops->checks || L->options->debug; }

void lower_print(Lower *L, const Op *op, V *args)
{
	DType *types = ARENA_ARRAY(L->arena, DType, op->nargs + 1);
	for (int i = 0; i < op->nargs; i++)
		types[i] = op->args[i]->type.dtype;
	L->ops->print(L, attr_text(op, AT_FORMAT, ""), op->nargs, args, types);
}

void lower_assert(Lower *L, const Op *op, V holds)
{
	if (!checks_asserts(L))
		return;
	Guard g = guard_begin(L, LLVMBuildNot(L->b, holds, ""));
	L->ops->fail(L, attr_text(op, AT_TEXT, "assertion failed"));
	guard_end(L, g);
}

V lower_ptx(Lower *L, const Op *op, V *args)
{
	bool otherwise = attr_int(op, AT_OTHERWISE, 0);
	int n = op->nargs - otherwise;
	if (L->ops->inline_ptx)
		return L->ops->inline_ptx(L, op, n, args);
	if (otherwise)
		return args[n];
	L->ops->fail(L, "ptx() without 'else' has no meaning on the CPU device");
	return op->result ? LLVMGetUndef(type_of(L, op->result->type.dtype)) : NULL;
}

/* The block's number, x running fastest. */
static V linear_block(Lower *L)
{
	V n = NULL;
	for (int axis = 3; axis-- > 0;)
		n = n ? build_add(L, LLVMBuildMul(L->b, n, L->ops->grid_dim(L, axis), ""), L->ops->block_idx(L, axis)) : L->ops->block_idx(L, axis);
	return n;
}

void lower_stamp(Lower *L, const Op *op)
{
	static const DType types[] = { DT_I32, DT_I32, DT_I32, DT_I32 };
	const Op *trace = operand(op, ARG_OBJECT)->def;
	const Storage *s = storage_of(L, trace);
	V point = value_of(L, operand(op, ARG_INDEX)), given = LLVMBuildICmp(L->b, LLVMIntNE, s->pointer, LLVMConstNull(LLVMTypeOf(s->pointer)), "");
	V first = LLVMBuildICmp(L->b, LLVMIntEQ, L->team.thread, const_i32(L, 0), "");
	V exists = LLVMBuildICmp(L->b, LLVMIntULT, point, s->extent[2], "");
	Guard g = guard_begin(L, LLVMBuildAnd(L->b, LLVMBuildAnd(L->b, given, first, ""), exists, ""));
	V index[] = { linear_block(L), L->cta_warp, point, NULL }, times[] = { L->ops->clock(L), L->ops->timer(L) };
	index[3] = const_i32(L, 0);
	check_index(L, trace, index, types, const_i64(L, 1), NULL);
	for (int k = 0; k < 2; k++) {
		index[3] = const_i32(L, k);
		LLVMBuildStore(L->b, times[k], global_address(L, trace, index, types));
	}
	guard_end(L, g);
}
