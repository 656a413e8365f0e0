/* elements.c - element loops: the body is emitted op by op over batches of a thread's registers,
 * so that shared and global accesses of neighbouring registers become one vector access and
 * 16-bit arithmetic runs on packed pairs.
 */
#include "compiler/lower/batch.h"
#include "compiler/lower/registers.h"

#include <string.h>

static bool pair_op(Opcode c)
{
	return c == OP_ADD || c == OP_SUB || c == OP_MUL || c == OP_NEG || c == OP_MIN || c == OP_MAX;
}

static void emit_scalar(Batch *x, const Op *op)
{
	Lower *L = x->L;
	if (!op->result) {
		lower_error(L, op->loc, "'%s' has no meaning in an element loop", op_info(op->code)->text);
		return;
	}
	Vec *e = result_vec(x, op->result);
	DType d = op->result->type.dtype;
	bool narrow = packable(d), two = paired(x);
	V args[8];
	if (two && op->code == OP_CAST && packable(d) && operand(op, ARG_A)->type.dtype == DT_F32) {
		for (int k = 0; k < x->n / 2; k++)
			e->p[k] = narrow_pair(L, element(x, operand(op, ARG_A), 2 * k), element(x, operand(op, ARG_A), 2 * k + 1), d);
		return;
	}
	if (two && op->code == OP_CAST && d == DT_F32 && packable(operand(op, ARG_A)->type.dtype) && in_body(x, operand(op, ARG_A))) {
		for (int k = 0; k < x->n / 2; k++)
			widen_pair(L, pair(x, operand(op, ARG_A), k), operand(op, ARG_A)->type.dtype, &e->s[2 * k]);
		return;
	}
	if (x->n % 2 == 0 && op->code == OP_CAST && dtype_is_float8(d) && operand(op, ARG_A)->type.dtype == DT_F32) {
		for (int r = 0; r < x->n; r += 2) {
			V pair = L->ops->narrow8(L, d, element(x, operand(op, ARG_A), r), element(x, operand(op, ARG_A), r + 1));
			e->s[r] = LLVMBuildTrunc(L->b, pair, L->i8, "");
			e->s[r + 1] = LLVMBuildTrunc(L->b, LLVMBuildLShr(L->b, pair, LLVMConstInt(L->i16, 8, 0), ""), L->i8, "");
		}
		return;
	}
	if (two && narrow && pair_op(op->code)) {
		for (int k = 0; k < x->n / 2; k++) {
			for (int i = 0; i < op->nargs; i++)
				args[i] = pair(x, op->args[i], k);
			e->p[k] = lower_scalar(L, op, args);
		}
		return;
	}
	for (int r = 0; r < x->n; r++) {
		for (int i = 0; i < op->nargs && i < 8; i++)
			args[i] = op->args[i]->type.kind == TY_SCALAR ? element(x, op->args[i], r) : NULL;
		e->s[r] = lower_scalar(L, op, args);
	}
}

static void emit_print(Batch *x, const Op *op)
{
	Guard g = { 0 };
	if (x->holder)
		g = guard_begin(x->L, x->holder);
	for (int r = 0; r < x->n; r++) {
		V *args = ARENA_ARRAY(x->L->arena, V, op->nargs + 1);
		for (int i = 0; i < op->nargs; i++)
			args[i] = element(x, op->args[i], r);
		lower_print(x->L, op, args);
	}
	if (x->holder)
		guard_end(x->L, g);
}

static void emit_ptx(Batch *x, const Op *op)
{
	Vec *e = op->result ? result_vec(x, op->result) : NULL;
	V *args = ARENA_ARRAY(x->L->arena, V, op->nargs + 1);
	for (int r = 0; r < x->n; r++) {
		for (int i = 0; i < op->nargs; i++)
			args[i] = element(x, op->args[i], r);
		V v = lower_ptx(x->L, op, args);
		if (e)
			e->s[r] = v;
	}
}

static void emit_assert(Batch *x, const Op *op)
{
	for (int r = 0; r < x->n; r++)
		lower_assert(x->L, op, element(x, operand(op, ARG_CONDITION), r));
}

/* A bool outside the loop takes this thread's elements. */
static void emit_combine(Batch *x, const Op *op)
{
	Lower *L = x->L;
	bool all = strcmp(attr_text(op, AT_COMBINE, "or"), "and") == 0;
	V at = storage_of(L, operand(op, ARG_VAR)->def)->pointer;
	V sum = LLVMBuildTrunc(L->b, LLVMBuildLoad2(L->b, L->i8, at, ""), L->i1, "");
	for (int r = 0; r < x->n; r++) {
		V v = element(x, operand(op, ARG_VALUE), r);
		sum = all ? LLVMBuildAnd(L->b, sum, v, "") : LLVMBuildOr(L->b, sum, v, "");
	}
	LLVMBuildStore(L->b, LLVMBuildZExt(L->b, sum, L->i8, ""), at);
}

static void emit_batch(Batch *x)
{
	Lower *L = x->L;
	for (int k = 0; k < x->body->nargs; k++) {
		Vec *e = result_vec(x, x->body->args[k]);
		for (int r = 0; r < x->n; r++) {
			Coord c = x->layout->reg[x->first + r];
			e->s[r] = LLVMBuildNSWAdd(L->b, k == 0 ? x->base_row : x->base_col, const_i32(L, k == 0 ? c.row : c.col), "");
		}
	}
	for (const Op *op = x->body->first; op; op = op->next) {
		debug_location(L, op->loc);
		switch (op->code) {
		case OP_LOAD: case OP_STORE: case OP_ATOMIC: emit_access(x, op); break;
		case OP_PRINT: emit_print(x, op); break;
		case OP_ASSERT: emit_assert(x, op); break;
		case OP_TRAP: L->ops->fail(L, "trap"); break;
		case OP_PTX: emit_ptx(x, op); break;
		case OP_GET: lower_var(L, op); break;
		case OP_SET: emit_combine(x, op); break;
		case OP_VIEW: break;
		default: emit_scalar(x, op); break;
		}
	}
}

static void number_values(Batch *x)
{
	unsigned low = x->body->args[0]->id, high = low;
	for (int k = 1; k < x->body->nargs; k++) {
		low = x->body->args[k]->id < low ? x->body->args[k]->id : low;
		high = x->body->args[k]->id > high ? x->body->args[k]->id : high;
	}
	for (const Op *op = x->body->first; op; op = op->next) {
		low = op->result && op->result->id < low ? op->result->id : low;
		high = op->result && op->result->id > high ? op->result->id : high;
	}
	x->low_id = low;
	x->vec = ARENA_ARRAY(x->L->arena, Vec, high - low + 1);
}

static bool sets_fragment(const Region *body)
{
	for (const Op *op = body->first; op; op = op->next)
		if (op->code == OP_STORE && operand(op, ARG_OBJECT)->type.kind == TY_FRAG)
			return true;
	return false;
}

void lower_parallel(Lower *L, const Op *op)
{
	const Attr *ext = attr_get(op, AT_EXTENTS);
	const char *why = "";
	bool warp_scope = attr_int(op, AT_WARP_SCOPE, 0);
	Batch x = { .L = L, .loop = op, .body = op->regions[0] };
	x.layout = layout_of(L->arena, attr_layout(op), op->regions[0]->nargs, ext->list, warp_scope ? 1 : L->team.warps, &why);
	if (!x.layout) {
		lower_error(L, op->loc, "element loop without layout: %s", why);
		return;
	}
	number_values(&x);
	layout_base(L, x.layout, L->team.lane, warp_scope ? const_i32(L, 0) : L->team.warp, &x.base_row, &x.base_col);
	int batch = (int)attr_int(op, AT_BATCH, 8);
	/* Copies of an element run what sets fragments; the rest, and what memory sees, only the first of each. */
	Guard g = { 0 };
	V first = first_copy(L, x.layout);
	bool all = sets_fragment(x.body);
	if (all)
		x.holder = first;
	else if (first)
		g = guard_begin(L, first);
	for (x.first = 0; x.first < x.layout->nregs; x.first += x.n) {
		x.n = x.layout->nregs - x.first < batch ? x.layout->nregs - x.first : batch;
		emit_batch(&x);
	}
	if (first && !all)
		guard_end(L, g);
}
