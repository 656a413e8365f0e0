/* objects.c - storage of fragments, variables, tiles, tensors and barriers. */
#include "compiler/lower/context.h"

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
	case OP_VAR:
		s->pointer = entry_alloca(L, op->result->type.dtype == DT_BOOL ? L->i8 : type_of(L, op->result->type.dtype), "var");
		debug_variable(L, attr_text(op, "name", NULL), op->result->type.dtype, s->pointer, op->loc);
		break;
	case OP_MBARRIER: s->pointer = L->shared; break;
	case OP_SHARED:
		s->pointer = L->shared;
		declare_bounds(L, s);
		break;
	default: break;
	}
}
