/* types.c - LLVM types and small building helpers. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/context.h"

T type_of(Lower *L, DType d)
{
	switch (d) {
	case DT_BOOL: return L->i1;
	case DT_I8: case DT_U8: case DT_E4M3: case DT_E5M2: return L->i8;
	case DT_I16: case DT_U16: return L->i16;
	case DT_I32: case DT_U32: return L->i32;
	case DT_I64: case DT_U64: return L->i64;
	case DT_F16: return L->f16;
	case DT_BF16: return L->bf16;
	case DT_TF32: case DT_F32: return L->f32;
	case DT_NONE: break;
	}
	abort(); /* TIR that is verified has no such type */
}

T param_type(Lower *L, const Op *op)
{
	if (op->code == OP_TENSOR)
		return L->ptr_global;
	return op->result->type.dtype == DT_BOOL ? L->i8 : type_of(L, op->result->type.dtype);
}

V const_i32(Lower *L, int64_t v) { return LLVMConstInt(L->i32, (uint32_t)v, 0); }
V const_i64(Lower *L, int64_t v) { return LLVMConstInt(L->i64, (uint64_t)v, 0); }
V const_f32(Lower *L, double v) { return LLVMConstReal(L->f32, v); }

V build_add(Lower *L, V a, V b) { return LLVMBuildAdd(L->b, a, b, ""); }

V build_mul_const(Lower *L, V a, int64_t c)
{
	T t = LLVMTypeOf(a);
	return LLVMBuildMul(L->b, a, LLVMConstInt(t, (uint64_t)c, 1), "");
}

V to_i64(Lower *L, V v, DType d)
{
	if (dtype_bits(d) == 64)
		return v;
	return dtype_is_signed(d) ? LLVMBuildSExt(L->b, v, L->i64, "") : LLVMBuildZExt(L->b, v, L->i64, "");
}

V intrinsic(Lower *L, const char *name, T *overloads, unsigned noverloads, V *args, unsigned nargs)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	V f = LLVMGetIntrinsicDeclaration(L->module, id, overloads, noverloads);
	return LLVMBuildCall2(L->b, LLVMGlobalGetValueType(f), f, args, nargs, "");
}

LLVMAttributeRef attribute_nonnegative(Lower *L)
{
	return LLVMCreateConstantRangeAttribute(L->cx, LLVMGetEnumAttributeKindForName("range", 5), 32, (uint64_t[]){ 0 },
	                                        (uint64_t[]){ (uint64_t)1 << 31 });
}

V entry_alloca(Lower *L, T type, const char *name)
{
	V first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(L->function));
	if (first)
		LLVMPositionBuilderBefore(L->entry_b, first);
	else
		LLVMPositionBuilderAtEnd(L->entry_b, LLVMGetEntryBasicBlock(L->function));
	return LLVMBuildAlloca(L->entry_b, type, name);
}

LLVMBasicBlockRef new_block(Lower *L, const char *name)
{
	return LLVMAppendBasicBlockInContext(L->cx, L->function, name);
}

V lower_missing(Lower *L, const Op *op)
{
	const char *on = op->result ? dtype_name(op->result->type.dtype) : "";
	diag_error(L->diags, op->loc, E_TIR, "%s%s%s has no lowering for %s (a bug of tilec)", op_info(op->code)->text, *on ? " of " : "", on,
	           L->ops->name ? L->ops->name : L->tir->machine->name);
	return op->result ? LLVMGetUndef(type_of(L, op->result->type.dtype)) : NULL;
}

void lower_error(Lower *L, Loc loc, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *text = arena_vprintf(L->arena, fmt, ap);
	va_end(ap);
	diag_error(L->diags, loc, E_UNSUPPORTED, "%s", text);
}
