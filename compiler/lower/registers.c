/* registers.c - where a thread's part of a layout begins. */
#include "compiler/lower/registers.h"

/* Steps that are no powers of two may carry. */
static V with_bit(Lower *L, V sum, V bit, int step)
{
	V part = build_mul_const(L, bit, step);
	return (step & (step - 1)) == 0 ? LLVMBuildOr(L->b, sum, part, "") : LLVMBuildAdd(L->b, sum, part, "");
}

void layout_base(Lower *L, const Layout *l, V lane, V warp, V *row, V *col)
{
	V r = const_i32(L, 0), c = const_i32(L, 0);
	for (int b = 0; b < 5 + l->warp_bits; b++) {
		Coord k = b < 5 ? l->lane[b] : l->warp[b - 5];
		if (k.row == 0 && k.col == 0)
			continue;
		V bit = LLVMBuildAnd(L->b, LLVMBuildLShr(L->b, b < 5 ? lane : warp, const_i32(L, b < 5 ? b : b - 5), ""), const_i32(L, 1), "");
		if (k.row)
			r = with_bit(L, r, bit, k.row);
		if (k.col)
			c = with_bit(L, c, bit, k.col);
	}
	*row = r;
	*col = c;
}

V first_copy(Lower *L, const Layout *l)
{
	unsigned lanes = 0, warps = 0;
	for (int b = 0; b < 5 + l->warp_bits; b++) {
		Coord k = b < 5 ? l->lane[b] : l->warp[b - 5];
		if (k.row == 0 && k.col == 0)
			*(b < 5 ? &lanes : &warps) |= 1u << (b < 5 ? b : b - 5);
	}
	if (!lanes && !warps)
		return NULL;
	V bits = LLVMBuildAnd(L->b, L->team.lane, const_i32(L, lanes), "");
	if (warps)
		bits = LLVMBuildOr(L->b, bits, LLVMBuildAnd(L->b, L->team.warp, const_i32(L, warps), ""), "");
	return LLVMBuildICmp(L->b, LLVMIntEQ, bits, const_i32(L, 0), "");
}
