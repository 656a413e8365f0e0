/* select.c - chooses the instruction of every product and register copy, or says why none fits.
 *
 * Needs: layouts.  Establishes: {inst} on mma (wgmma_ss, wgmma_rs, mma_sync) and
 * copy (reg, ldmatrix, stmatrix, vector); {align} of tensors: the bytes of the
 * widest vector that an access of them may have, which a launch checks.  One that
 * single elements are read or written of alone has none: it may be a slice.
 */
#include <string.h>

#include "compiler/analysis/effects.h"
#include "compiler/analysis/index.h"
#include "compiler/passes/pass.h"

static bool select_mma(Tir *t, Op *op)
{
	TileRef d = tile_ref(operand(op, ARG_D)), a = tile_ref(operand(op, ARG_A)), b = tile_ref(operand(op, ARG_B));
	if (d.warp_scope) {
		if (a.space != TY_FRAG || b.space != TY_FRAG) {
			diag_error(t->diags, op->loc, E_MMA_SHAPE, "a product of warp fragments takes both operands from warp fragments");
			diag_help(t->diags, "copy the shared tile to a warp frag first");
			return false;
		}
		attr_set_text(t, op, AT_INST, "mma_sync");
		return true;
	}
	if (b.space != TY_SHARED) {
		diag_error(t->diags, op->loc, E_WGMMA_SHAPE, "the right operand of a warpgroup product must be a shared tile");
		return false;
	}
	attr_set_text(t, op, AT_INST, a.space == TY_FRAG ? "wgmma_rs" : "wgmma_ss");
	return true;
}

static bool starts_at(const TileRef *r, int d, int64_t multiple)
{
	int64_t past = 0;
	return value_residue(r->start[d], multiple, &past) && past == 0;
}

/* 8 elements of a stored row are 16 contiguous bytes. */
static bool matrix_rows(const TileRef *s)
{
	if (s->space != TY_SHARED || dtype_bits(s->dtype) != 16 || s->rank != 2)
		return false;
	const Type *ty = &s->object->result->type;
	return s->dims[ty->rank - 1] != -1 && ty->shape[ty->rank - 1] % 8 == 0 && starts_at(s, ty->rank - 1, 8);
}

/* Whole matrices: a warp has 16 rows of each 64. */
static bool matrix_frag(const TileRef *f)
{
	return f->space == TY_FRAG && f->rank == 2 && !f->trans && form_equal(attr_layout(f->object), &form_mma) && f->shape[0] % 16 == 0
		&& f->shape[1] % 8 == 0 && starts_at(f, 0, 16) && starts_at(f, 1, 8);
}

static void select_copy(Tir *t, Op *op)
{
	TileRef s = tile_ref(operand(op, ARG_SOURCE)), d = tile_ref(operand(op, ARG_TARGET));
	const char *inst = "vector";
	if (s.space == TY_FRAG && d.space == TY_FRAG)
		inst = "reg";
	else if (!operand(op, ARG_LIMIT) && matrix_rows(&s) && matrix_frag(&d) && s.dtype == d.dtype)
		inst = "ldmatrix";
	else if (!operand(op, ARG_LIMIT) && matrix_rows(&d) && matrix_frag(&s))
		inst = "stmatrix";
	attr_set_text(t, op, AT_INST, inst);
}

/* As wide as every row starts: rows that differ by an odd number of elements allow no vectors. */
static void align_tensor(Tir *t, Op *tensor)
{
	int rank = tensor->result->type.rank;
	int64_t bytes = dtype_bytes(tensor->result->type.dtype), elements = 16 / bytes, one;
	if (rank == 0 || tensor->nargs < 2 * rank || !value_const_int(tensor_stride(tensor, rank - 1), &one) || one != 1)
		return;
	for (int d = 0; d + 1 < rank; d++) {
		int64_t row = value_divisor(NULL, tensor_stride(tensor, d), -1);
		elements = row < elements ? row : elements;
	}
	if (elements > 1)
		attr_set_int(t, tensor, AT_ALIGN, elements * bytes);
}

static bool of_one_element(const Op *op)
{
	return (op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_ATOMIC) && !tir_enclosing(op, OP_PARALLEL);
}

static void align_tensors(Tir *t, const Op *op)
{
	Effect e[MAX_EFFECTS];
	for (int i = 0, n = of_one_element(op) ? 0 : op_effects(op, e); i < n; i++)
		if (e[i].tile.object->code == OP_TENSOR && !attr_get(e[i].tile.object, AT_ALIGN))
			align_tensor(t, e[i].tile.object);
}

typedef struct Select { Tir *t; bool ok; } Select;

static bool visit(Op *op, void *user)
{
	Select *s = user;
	if (op->code == OP_MMA)
		s->ok &= select_mma(s->t, op);
	else if (op->code == OP_COPY)
		select_copy(s->t, op);
	align_tensors(s->t, op);
	return true;
}

bool pass_select(Tir *t)
{
	Select s = { t, true };
	for (Op *k = t->first; k; k = k->next)
		tir_walk(k->regions[0], visit, &s);
	return s.ok;
}
