/* known.c - what is known of values while the code that computes them is built. */
#include "compiler/lower/context.h"

bool is_const(V v, int64_t *c)
{
	if (!LLVMIsAConstantInt(v))
		return false;
	*c = LLVMConstIntGetSExtValue(v);
	return true;
}

uint64_t width_mask(V v)
{
	unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(v));
	return bits >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
}

/* All bits up to the highest of x. */
static uint64_t fill_down(uint64_t x)
{
	for (int s = 1; s < 64; s *= 2)
		x |= x >> s;
	return x;
}

static uint64_t sum_bits(uint64_t a, uint64_t b)
{
	uint64_t low = (a | b) & -(a | b);
	if (!(a & b))
		return a | b;
	return a + b < a ? ~(low - 1) : fill_down(a + b) & ~(low - 1);
}

static uint64_t product_bits(uint64_t a, uint64_t c)
{
	uint64_t low = (a & -a) * (c & -c);
	if (a > ~(uint64_t)0 / c)
		return ~(low - 1);
	return (c & (c - 1)) == 0 ? a * c : fill_down(a * c) & ~(low - 1);
}

/* Bits of v that may be one. */
static uint64_t possible_bits(const Lower *L, V v, int depth)
{
	uint64_t all = width_mask(v);
	int64_t c = 0;
	if (is_const(v, &c))
		return (uint64_t)c & all;
	if (v == L->cta_thread)
		return fill_down((uint64_t)attr_int(L->kernel, AT_THREADS, 1024) - 1);
	if (L->ops->checks && v == L->team.instance) /* on the GPU it would change code for nothing */
		return fill_down((uint64_t)attr_int(L->team.op, AT_INSTANCES, 1) - 1);
	if (v == L->cta_warp)
		return fill_down((uint64_t)attr_int(L->kernel, AT_THREADS, 1024) / 32 - 1);
	if (!LLVMIsAInstruction(v) || depth == 0)
		return all;
	LLVMOpcode code = LLVMGetInstructionOpcode(v);
	if (code != LLVMZExt && !LLVMIsABinaryOperator(v))
		return all;
	uint64_t a = possible_bits(L, LLVMGetOperand(v, 0), depth - 1);
	if (code == LLVMZExt)
		return a;
	V second = LLVMGetOperand(v, 1);
	bool known = is_const(second, &c);
	if (code == LLVMMul && is_const(LLVMGetOperand(v, 0), &c)) {
		a = possible_bits(L, second, depth - 1);
		known = true;
	}
	switch (code) {
	case LLVMAnd: return a & possible_bits(L, second, depth - 1);
	case LLVMOr: case LLVMXor: return a | possible_bits(L, second, depth - 1);
	case LLVMAdd: return sum_bits(a, possible_bits(L, second, depth - 1)) & all;
	case LLVMMul: return known && c > 0 ? product_bits(a, (uint64_t)c) & all : all;
	case LLVMShl: return known ? a << c & all : all;
	case LLVMLShr: return known ? a >> c : a;
	case LLVMUDiv: return fill_down(a);
	case LLVMURem: return known && c > 0 ? fill_down((uint64_t)c - 1) : all;
	default: return all;
	}
}

uint64_t bits_of(const Lower *L, V v) { return possible_bits(L, v, KNOWN_DEPTH); }

bool always_below(const Lower *L, V v, uint64_t end) { return bits_of(L, v) < end; }

static bool same_comparison(V a, V b) { return LLVMIsAICmpInst(a) && LLVMGetICmpPredicate(a) == LLVMGetICmpPredicate(b); }

/* Element loops compute an index anew for every register. */
bool same_instructions(V a, V b, int depth)
{
	if (a == b)
		return true;
	if (depth == 0 || !LLVMIsAInstruction(a) || !LLVMIsAInstruction(b) || LLVMGetInstructionOpcode(a) != LLVMGetInstructionOpcode(b))
		return false;
	if (!LLVMIsABinaryOperator(a) && !LLVMIsACastInst(a) && !LLVMIsAGetElementPtrInst(a) && !same_comparison(a, b))
		return false;
	if (LLVMGetNumOperands(a) != LLVMGetNumOperands(b))
		return false;
	for (unsigned i = 0, n = (unsigned)LLVMGetNumOperands(a); i < n; i++)
		if (!same_instructions(LLVMGetOperand(a, i), LLVMGetOperand(b, i), depth - 1))
			return false;
	return LLVMTypeOf(a) == LLVMTypeOf(b);
}
