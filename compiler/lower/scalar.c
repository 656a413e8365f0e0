/* scalar.c - scalar operations and conversions; 16-bit floats also as packed pairs. */
#include "compiler/analysis/index.h"
#include "compiler/lower/context.h"
#include "runtime/abi/float8.h"

#include <stdlib.h>
#include <string.h>

static bool is_vector(V v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind; }

V pack_pair(Lower *L, V lo, V hi, DType d)
{
	V v = LLVMGetUndef(LLVMVectorType(type_of(L, d), 2));
	v = LLVMBuildInsertElement(L->b, v, lo, const_i32(L, 0), "");
	return LLVMBuildInsertElement(L->b, v, hi, const_i32(L, 1), "");
}

V pair_to_word(Lower *L, V pair) { return LLVMBuildBitCast(L->b, pair, L->i32, ""); }
V word_to_pair(Lower *L, V word, DType d) { return LLVMBuildBitCast(L->b, word, LLVMVectorType(type_of(L, d), 2), ""); }

/* Rounds a float's bits to bfloat's in integer arithmetic: hosts lack the conversion. */
static V bf16_bits(Lower *L, V f)
{
	V u = LLVMBuildBitCast(L->b, f, L->i32, "");
	V lsb = LLVMBuildAnd(L->b, LLVMBuildLShr(L->b, u, const_i32(L, 16), ""), const_i32(L, 1), "");
	V r = LLVMBuildLShr(L->b, build_add(L, u, build_add(L, lsb, const_i32(L, 0x7fff))), const_i32(L, 16), "");
	V nan = LLVMBuildFCmp(L->b, LLVMRealUNO, f, f, "");
	return LLVMBuildSelect(L->b, nan, const_i32(L, 0x7fff), r, "");
}

V narrow_pair(Lower *L, V lo, V hi, DType to)
{
	if (!L->ops->halves && to == DT_BF16) {
		V w = LLVMBuildOr(L->b, bf16_bits(L, lo), LLVMBuildShl(L->b, bf16_bits(L, hi), const_i32(L, 16), ""), "");
		return word_to_pair(L, w, to);
	}
	V v = LLVMGetUndef(LLVMVectorType(L->f32, 2));
	v = LLVMBuildInsertElement(L->b, v, lo, const_i32(L, 0), "");
	v = LLVMBuildInsertElement(L->b, v, hi, const_i32(L, 1), "");
	return LLVMBuildFPTrunc(L->b, v, LLVMVectorType(type_of(L, to), 2), "");
}

void widen_pair(Lower *L, V pair, DType from, V out[2])
{
	if (from == DT_BF16) {
		V w = pair_to_word(L, pair);
		out[0] = LLVMBuildBitCast(L->b, LLVMBuildShl(L->b, w, const_i32(L, 16), ""), L->f32, "");
		out[1] = LLVMBuildBitCast(L->b, LLVMBuildAnd(L->b, w, const_i32(L, 0xffff0000), ""), L->f32, "");
		return;
	}
	for (int i = 0; i < 2; i++)
		out[i] = LLVMBuildFPExt(L->b, LLVMBuildExtractElement(L->b, pair, const_i32(L, i), ""), L->f32, "");
}

/* Fenced where it may be beyond f16: LLVM 22 takes f32(f16(n)) for f32(n) where n has few digits, however large it is.  A fence is no instruction. */
static V integer_to_f32(Lower *L, V n, bool has_sign)
{
	V f = has_sign ? LLVMBuildSIToFP(L->b, n, L->f32, "") : LLVMBuildUIToFP(L->b, n, L->f32, "");
	bool fits = LLVMGetIntTypeWidth(LLVMTypeOf(n)) <= 16;
	return fits || LLVMIsConstant(f) ? f : intrinsic(L, "llvm.arithmetic.fence", &L->f32, 1, &f, 1);
}

static V to_f32(Lower *L, V v, DType from)
{
	switch (from) {
	case DT_F32: case DT_TF32: return v;
	case DT_BF16: {
		V w = LLVMBuildZExt(L->b, LLVMBuildBitCast(L->b, v, L->i16, ""), L->i32, "");
		return LLVMBuildBitCast(L->b, LLVMBuildShl(L->b, w, const_i32(L, 16), ""), L->f32, "");
	}
	case DT_F16: return LLVMBuildFPExt(L->b, v, L->f32, "");
	case DT_E4M3: case DT_E5M2: {
		V out[2];
		L->ops->widen8(L, from, LLVMBuildZExt(L->b, v, L->i16, ""), out);
		return out[0];
	}
	case DT_I8: case DT_I16: case DT_I32: case DT_I64: return integer_to_f32(L, v, true);
	case DT_BOOL: case DT_U8: case DT_U16: case DT_U32: case DT_U64: return integer_to_f32(L, v, false);
	case DT_NONE: break;
	}
	abort();
}

/* Truncated, to the nearest that the type has; NaN gives 0. */
static V to_integer(Lower *L, V v, DType to)
{
	bool s = dtype_is_signed(to);
	unsigned bits = dtype_bits(to);
	if (bits >= 32)
		return L->ops->to_integer(L, v, s, bits);
	V x = L->ops->to_integer(L, v, s, 32), least = const_i32(L, -(1 << (bits - 1))), most = const_i32(L, s ? (1 << (bits - 1)) - 1 : (1 << bits) - 1);
	if (s)
		x = intrinsic(L, "llvm.smax", &L->i32, 1, (V[]){ x, least }, 2);
	x = intrinsic(L, s ? "llvm.smin" : "llvm.umin", &L->i32, 1, (V[]){ x, most }, 2);
	return LLVMBuildTrunc(L->b, x, type_of(L, to), "");
}

static V from_f32(Lower *L, V v, DType to)
{
	T t = type_of(L, to);
	if (to == DT_F32)
		return v;
	if (to == DT_TF32)
		return L->ops->to_tf32(L, v);
	if (to == DT_BF16 && !L->ops->halves)
		return LLVMBuildBitCast(L->b, LLVMBuildTrunc(L->b, bf16_bits(L, v), L->i16, ""), t, "");
	if (to == DT_BF16 || to == DT_F16)
		return LLVMBuildFPTrunc(L->b, v, t, "");
	if (dtype_is_float8(to))
		return LLVMBuildTrunc(L->b, L->ops->narrow8(L, to, v, const_f32(L, 0)), L->i8, "");
	if (to == DT_BOOL)
		return LLVMBuildFCmp(L->b, LLVMRealUNE, v, const_f32(L, 0), "");
	if (dtype_is_float(to))
		abort();
	return to_integer(L, v, to);
}

V convert(Lower *L, V v, DType from, DType to)
{
	if (from == to)
		return v;
	if (dtype_is_float(from) || dtype_is_float(to))
		return from_f32(L, to_f32(L, v, from), to);
	T t = type_of(L, to);
	if (to == DT_BOOL)
		return LLVMBuildICmp(L->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
	if (from == DT_BOOL)
		return LLVMBuildZExt(L->b, v, t, "");
	unsigned a = dtype_bits(from), b = dtype_bits(to);
	if (a == b)
		return v;
	if (b < a)
		return LLVMBuildTrunc(L->b, v, t, "");
	return dtype_is_signed(from) ? LLVMBuildSExt(L->b, v, t, "") : LLVMBuildZExt(L->b, v, t, "");
}

/* Whether the result is used; NULL: always. */
static V counts_of(const Op *op, V *args) { return operand(op, ARG_COUNTS) ? args[op->nargs - 1] : NULL; }

static V lower_cast(Lower *L, const Op *op, V *args)
{
	DType from = operand(op, ARG_A)->type.dtype, to = op->result->type.dtype;
	if (dtype_is_float(from) && dtype_is_int(to))
		check_conversion(L, to, to_f32(L, args[0], from), counts_of(op, args));
	return convert(L, args[0], from, to);
}

static V lower_compare(Lower *L, const Op *op, V a, V b)
{
	static const struct { const char *name; LLVMIntPredicate s, u; LLVMRealPredicate f; } preds[] = {
		{ "lt", LLVMIntSLT, LLVMIntULT, LLVMRealOLT }, { "le", LLVMIntSLE, LLVMIntULE, LLVMRealOLE },
		{ "gt", LLVMIntSGT, LLVMIntUGT, LLVMRealOGT }, { "ge", LLVMIntSGE, LLVMIntUGE, LLVMRealOGE },
		{ "eq", LLVMIntEQ, LLVMIntEQ, LLVMRealOEQ },   { "ne", LLVMIntNE, LLVMIntNE, LLVMRealUNE },
	};
	DType d = operand(op, ARG_A)->type.dtype;
	const char *p = attr_text(op, AT_PRED, "eq");
	for (size_t i = 0; i < sizeof preds / sizeof preds[0]; i++) {
		if (strcmp(p, preds[i].name) != 0)
			continue;
		if (dtype_is_float(d))
			return LLVMBuildFCmp(L->b, preds[i].f, to_f32(L, a, d), to_f32(L, b, d), "");
		return LLVMBuildICmp(L->b, dtype_is_signed(d) ? preds[i].s : preds[i].u, a, b, "");
	}
	return NULL;
}

/* The other where one is no number. */
static V lower_minmax(Lower *L, const Op *op, V a, V b)
{
	DType d = op->result->type.dtype;
	bool max = op->code == OP_MAX;
	if (!L->ops->halves && is_vector(a)) {
		V r[2];
		for (int i = 0; i < 2; i++)
			r[i] = lower_minmax(L, op, LLVMBuildExtractElement(L->b, a, const_i32(L, i), ""),
			                    LLVMBuildExtractElement(L->b, b, const_i32(L, i), ""));
		return pack_pair(L, r[0], r[1], d);
	}
	if (dtype_is_float(d)) {
		T t = LLVMTypeOf(a);
		if (!L->ops->halves && dtype_bits(d) == 16) {
			V x = intrinsic(L, max ? "llvm.maxnum" : "llvm.minnum", &L->f32, 1, (V[]){ to_f32(L, a, d), to_f32(L, b, d) }, 2);
			return from_f32(L, x, d);
		}
		return intrinsic(L, max ? "llvm.maxnum" : "llvm.minnum", &t, 1, (V[]){ a, b }, 2);
	}
	LLVMIntPredicate p = dtype_is_signed(d) ? (max ? LLVMIntSGT : LLVMIntSLT) : (max ? LLVMIntUGT : LLVMIntULT);
	return LLVMBuildSelect(L->b, LLVMBuildICmp(L->b, p, a, b, ""), a, b, "");
}

/* Without 16-bit float arithmetic through f32, rounding once. */
static V float_binary(Lower *L, Opcode code, DType d, V a, V b)
{
	bool narrow = dtype_bits(d) == 16;
	if (narrow && !L->ops->halves && is_vector(a)) {
		V r[2];
		for (int i = 0; i < 2; i++)
			r[i] = float_binary(L, code, d, LLVMBuildExtractElement(L->b, a, const_i32(L, i), ""),
			                    LLVMBuildExtractElement(L->b, b, const_i32(L, i), ""));
		return pack_pair(L, r[0], r[1], d);
	}
	if (narrow && (!L->ops->halves || code == OP_DIV)) {
		V x = float_binary(L, code, DT_F32, to_f32(L, a, d), to_f32(L, b, d));
		return from_f32(L, x, d);
	}
	V r = NULL;
	switch (code) {
	case OP_ADD: r = LLVMBuildFAdd(L->b, a, b, ""); break;
	case OP_SUB: r = LLVMBuildFSub(L->b, a, b, ""); break;
	case OP_MUL: r = LLVMBuildFMul(L->b, a, b, ""); break;
	case OP_DIV: return L->ops->div_f32(L, a, b);
	default: return NULL;
	}
	if (!narrow && LLVMIsAInstruction(r))
		LLVMSetFastMathFlags(r, LLVMFastMathAllowContract | LLVMFastMathNoSignedZeros);
	return r;
}

/* By the width or more: what is left of shifting by one, so often; by the sign's bits where that is signed. */
static V lower_shift(Lower *L, Opcode code, DType d, V a, V n)
{
	unsigned bits = dtype_bits(d);
	LLVMOpcode how = code == OP_SHL ? LLVMShl : dtype_is_signed(d) ? LLVMAShr : LLVMLShr;
	if (always_below(L, n, bits))
		return LLVMBuildBinOp(L->b, how, a, n, "");
	if (LLVMIsAConstantInt(n))
		return how == LLVMAShr ? LLVMBuildAShr(L->b, a, LLVMConstInt(LLVMTypeOf(a), bits - 1, 0), "") : LLVMConstNull(LLVMTypeOf(a));
	if (bits >= 32)
		return L->ops->shift(L, how, a, n);
	V wide = how == LLVMAShr ? LLVMBuildSExt(L->b, a, L->i32, "") : LLVMBuildZExt(L->b, a, L->i32, "");
	return LLVMBuildTrunc(L->b, L->ops->shift(L, how, wide, LLVMBuildZExt(L->b, n, L->i32, "")), LLVMTypeOf(a), "");
}

enum { INDEX_DEPTH = 12 };

/* Division by zero is as by one, since both arms of ?: are computed; the least number by -1 wraps, which may trap as well. */
static V lower_division(Lower *L, const Op *op, DType d, V a, V b)
{
	T t = LLVMTypeOf(b);
	bool s = dtype_is_signed(d), divide = op->code == OP_DIV;
	V one = LLVMConstInt(t, 1, 0), minus = NULL;
	if (s && LLVMIsAConstantInt(b) && LLVMConstIntGetSExtValue(b) == -1) /* for LLVM the least number has no quotient */
		return divide ? LLVMBuildNeg(L->b, a, "") : LLVMConstNull(t);
	if (L->ops->division_traps || !extent_arithmetic(operand(op, ARG_B), INDEX_DEPTH))
		b = LLVMBuildSelect(L->b, LLVMBuildICmp(L->b, LLVMIntEQ, b, LLVMConstNull(t), ""), one, b, "");
	if (s && L->ops->division_traps && !LLVMIsAConstantInt(b)) {
		minus = LLVMBuildICmp(L->b, LLVMIntEQ, b, LLVMConstAllOnes(t), "");
		b = LLVMBuildSelect(L->b, minus, one, b, "");
	}
	V r = LLVMBuildBinOp(L->b, divide ? (s ? LLVMSDiv : LLVMUDiv) : s ? LLVMSRem : LLVMURem, a, b, "");
	if (!minus)
		return r;
	return divide ? LLVMBuildSelect(L->b, minus, LLVMBuildNeg(L->b, a, ""), r, "") : LLVMBuildSelect(L->b, minus, LLVMConstNull(t), r, "");
}

/* Wraps, but for what counts places: that has no sign to lose. */
static V wrapping(Lower *L, const Op *op, V a, V b)
{
	LLVMOpcode code = op->code == OP_ADD ? LLVMAdd : op->code == OP_SUB ? LLVMSub : LLVMMul;
	V r = LLVMBuildBinOp(L->b, code, a, b, "");
	DType d = op->result->type.dtype;
	if (dtype_is_signed(d) && dtype_bits(d) >= 32 && LLVMIsAInstruction(r) && index_arithmetic(op->result, INDEX_DEPTH))
		LLVMSetNSW(r, 1);
	return r;
}

static V int_binary(Lower *L, const Op *op, DType d, V *args)
{
	Opcode code = op->code;
	V a = args[0], b = args[1];
	if (code == OP_DIV || code == OP_MOD)
		check_division(L, d, a, b, counts_of(op, args));
	else if (code == OP_SHL || code == OP_SHR)
		check_shift(L, d, a, b, counts_of(op, args));
	switch (code) {
	case OP_ADD: case OP_SUB: case OP_MUL: return wrapping(L, op, a, b);
	case OP_DIV: case OP_MOD: return lower_division(L, op, d, a, b);
	case OP_AND: return LLVMBuildAnd(L->b, a, b, "");
	case OP_OR: return LLVMBuildOr(L->b, a, b, "");
	case OP_XOR: return LLVMBuildXor(L->b, a, b, "");
	case OP_SHL: case OP_SHR: return lower_shift(L, code, d, a, b);
	default: return NULL;
	}
}

static V lower_const(Lower *L, const Op *op)
{
	DType d = op->result->type.dtype;
	T t = type_of(L, d);
	const Attr *f = attr_get(op, AT_FVALUE);
	if (dtype_is_float8(d))
		return LLVMConstInt(t, float8_from(d == DT_E4M3 ? &float8_e4m3 : &float8_e5m2, (float)f->f), 0);
	if (dtype_is_float(d))
		return LLVMConstReal(t, f ? f->f : (double)attr_int(op, AT_VALUE, 0));
	return LLVMConstInt(t, (uint64_t)attr_int(op, AT_VALUE, 0), 1);
}

static V lower_neg(Lower *L, DType d, V a)
{
	if (dtype_is_float(d))
		return LLVMBuildFNeg(L->b, a, "");
	return LLVMBuildNeg(L->b, a, "");
}

/* a * 2^b by adding to the exponent of one: exact, and one multiply. */
static V lower_ldexp(Lower *L, V a, V n)
{
	n = intrinsic(L, "llvm.smax", &L->i32, 1, (V[]){ n, const_i32(L, -126) }, 2);
	n = intrinsic(L, "llvm.smin", &L->i32, 1, (V[]){ n, const_i32(L, 127) }, 2);
	V bits = LLVMBuildShl(L->b, build_add(L, n, const_i32(L, 127)), const_i32(L, 23), "");
	return LLVMBuildFMul(L->b, a, LLVMBuildBitCast(L->b, bits, L->f32, ""), "");
}

static bool of_product(Lower *L, const Value *v)
{
	const Op *load = v->def;
	return load && load->code == OP_LOAD && operand(load, ARG_OBJECT)->type.kind == TY_FRAG && storage_of(L, operand(load, ARG_OBJECT)->def)->product;
}

/* In a - x y LLVM negates x, which is free unless x came out of wgmma: that is the second factor. */
static bool factors_swap(Lower *L, const Op *mul) { return of_product(L, operand(mul, ARG_A)) && !of_product(L, operand(mul, ARG_B)); }

/* NULL: there is no such operation on this target or type. */
static V scalar_op(Lower *L, const Op *op, V *args)
{
	DType d = op->result->type.dtype;
	switch (op->code) {
	case OP_CONST: return lower_const(L, op);
	case OP_ADD: case OP_SUB: case OP_MUL: case OP_DIV:
		if (dtype_is_float(d) && op->code == OP_MUL && factors_swap(L, op))
			return float_binary(L, OP_MUL, d, args[1], args[0]);
		if (dtype_is_float(d))
			return float_binary(L, op->code, d, args[0], args[1]);
		return int_binary(L, op, d, args);
	case OP_MOD:
		/* Cheaper unsigned, and the same as the slot of a barrier of this use. With checks a negative one is before the tile, where they may notice. */
		if (attr_int(op, AT_USE, 0) && !L->ops->checks)
			return LLVMBuildURem(L->b, args[0], args[1], "");
		return int_binary(L, op, d, args);
	case OP_AND: case OP_OR: case OP_XOR: case OP_SHL: case OP_SHR:
		return int_binary(L, op, d, args);
	case OP_MIN: case OP_MAX: return lower_minmax(L, op, args[0], args[1]);
	case OP_NEG: return lower_neg(L, d, args[0]);
	case OP_NOT: return LLVMBuildNot(L->b, args[0], "");
	case OP_CMP: return lower_compare(L, op, args[0], args[1]);
	case OP_SELECT: return LLVMBuildSelect(L->b, args[0], args[1], args[2], "");
	case OP_CAST: return lower_cast(L, op, args);
	case OP_BITCAST: return LLVMBuildBitCast(L->b, args[0], type_of(L, d), "");
	case OP_FMA: {
		T t = L->f32;
		V x = intrinsic(L, "llvm.fma", &t, 1,
		                (V[]){ to_f32(L, args[0], operand(op, ARG_A)->type.dtype), to_f32(L, args[1], operand(op, ARG_B)->type.dtype),
		                       to_f32(L, args[2], operand(op, ARG_C)->type.dtype) }, 3);
		return from_f32(L, x, d);
	}
	case OP_ABS:
		if (dtype_is_float(d)) {
			V x = to_f32(L, args[0], operand(op, ARG_A)->type.dtype);
			return from_f32(L, intrinsic(L, "llvm.fabs", &L->f32, 1, &x, 1), d);
		}
		return LLVMBuildSelect(L->b, LLVMBuildICmp(L->b, LLVMIntSLT, args[0], LLVMConstNull(LLVMTypeOf(args[0])), ""),
		                       LLVMBuildNeg(L->b, args[0], ""), args[0], "");
#define MATH(op, fold, nvvm, overloaded, host, flush, inverse) case op:
#include "compiler/tir/math.def"
#undef MATH
	{
		V x = L->ops->math(L, op->code, to_f32(L, args[0], operand(op, ARG_A)->type.dtype));
		return x ? from_f32(L, x, d) : NULL;
	}
	case OP_LDEXP: return from_f32(L, lower_ldexp(L, to_f32(L, args[0], d), args[1]), d);
	case OP_BLOCK_IDX: return L->ops->block_idx(L, (int)attr_int(op, AT_AXIS, 0));
	case OP_GRID_DIM: return L->ops->grid_dim(L, (int)attr_int(op, AT_AXIS, 0));
	case OP_CLUSTER_RANK: return L->ops->cluster_rank(L);
	case OP_THREAD: return L->team.thread;
	case OP_LANE: return L->team.lane;
	case OP_WARP: return L->team.warp;
	case OP_CLOCK: return L->ops->clock(L);
	case OP_PRESENT: {
		Storage *s = storage_of(L, operand(op, ARG_OBJECT)->def);
		return LLVMBuildICmp(L->b, LLVMIntNE, s->pointer, LLVMConstNull(LLVMTypeOf(s->pointer)), "");
	}
	default: return NULL;
	}
}

V lower_scalar(Lower *L, const Op *op, V *args)
{
	V v = scalar_op(L, op, args);
	return v ? v : lower_missing(L, op);
}
