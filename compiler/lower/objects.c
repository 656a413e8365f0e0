/* objects.c - storage of fragments, variables, tiles, tensors and barriers. */
#include "compiler/lower/context.h"

enum { MOST_REGISTERS = 256, UNSET = 0x7fc0cafe }; /* UNSET: a NaN that runtime/cpu/arithmetic.c knows */

/* MOST_REGISTERS times UNSET. */
static V unset_registers(Lower *L)
{
	V g = LLVMGetNamedGlobal(L->module, "unset"), words[MOST_REGISTERS];
	if (g)
		return g;
	for (int i = 0; i < MOST_REGISTERS; i++)
		words[i] = const_i32(L, UNSET);
	g = LLVMAddGlobal(L->module, LLVMArrayType2(L->i32, MOST_REGISTERS), "unset");
	LLVMSetInitializer(g, LLVMConstArray2(L->i32, words, MOST_REGISTERS));
	LLVMSetGlobalConstant(g, 1);
	LLVMSetLinkage(g, LLVMPrivateLinkage);
	return g;
}

/* On the CPU device what nobody has set yet is NaN, or -1. */
static void spoil(Lower *L, V alloca, DType d, int n)
{
	unsigned align = LLVMGetAlignment(alloca);
	V bytes = const_i64(L, n * (int64_t)dtype_bytes(d)); /* a plain number: LLVM keeps in memory what a size in terms of types covers */
	if (!L->ops->checks)
		return;
	if (d == DT_F32 && n <= MOST_REGISTERS)
		LLVMBuildMemCpy(L->b, alloca, align, unset_registers(L), 4, bytes);
	else
		LLVMBuildMemSet(L->b, alloca, LLVMConstInt(L->i8, 0xff, 0), bytes, align);
}

static void declare_frag(Lower *L, Storage *s, const Op *op)
{
	const char *why = "";
	const Type *t = &op->result->type;
	int warps = attr_int(op, AT_WARP_SCOPE, 0) ? 1 : L->team.warps;
	s->layout = layout_of(L->arena, attr_layout(op), t->rank, t->shape, warps, &why); /* lower.c has asked for it */
	s->packed = layout_packs(s->layout, t->dtype);
	T elem = s->packed > 1 ? LLVMVectorType(type_of(L, t->dtype), (unsigned)s->packed) : t->dtype == DT_BOOL ? L->i8 : type_of(L, t->dtype);
	s->pointer = entry_alloca(L, LLVMArrayType2(elem, (uint64_t)(s->layout->nregs / s->packed)), "frag");
	spoil(L, s->pointer, t->dtype, s->layout->nregs);
}

V frag_register(Lower *L, const Storage *s, int reg)
{
	T elem = LLVMGetElementType(LLVMGetAllocatedType(s->pointer));
	V at = const_i32(L, reg / s->packed);
	return LLVMBuildGEP2(L->b, elem, s->pointer, &at, 1, "");
}

void declare_object(Lower *L, const Op *op)
{
	Storage *s = ARENA_NEW(L->arena, Storage);
	s->object = op;
	L->storage[op->result->id] = s;
	switch (op->code) {
	case OP_FRAG: declare_frag(L, s, op); break;
	case OP_VAR:
		s->pointer = entry_alloca(L, op->result->type.dtype == DT_BOOL ? L->i8 : type_of(L, op->result->type.dtype), "var");
		spoil(L, s->pointer, op->result->type.dtype, 1);
		debug_variable(L, attr_text(op, AT_NAME, NULL), op->result->type.dtype, s->pointer, op->loc);
		break;
	case OP_MBARRIER: s->pointer = L->shared; break;
	case OP_SHARED:
		s->pointer = L->shared;
		declare_bounds(L, s);
		break;
	default: break;
	}
}

void lower_var(Lower *L, const Op *op)
{
	Storage *s = storage_of(L, operand(op, ARG_VAR)->def);
	DType d = operand(op, ARG_VAR)->type.dtype;
	if (op->code == OP_GET) {
		V v = LLVMBuildLoad2(L->b, LLVMGetAllocatedType(s->pointer), s->pointer, "");
		L->value[op->result->id] = d == DT_BOOL ? LLVMBuildTrunc(L->b, v, L->i1, "") : v;
	} else {
		V v = value_of(L, operand(op, ARG_VALUE));
		LLVMBuildStore(L->b, d == DT_BOOL ? LLVMBuildZExt(L->b, v, L->i8, "") : v, s->pointer);
	}
}
