/* verify_ops.c - what an op needs beyond its row of ops.def: shapes, places, types that go together. */
#include "compiler/tir/verify.h"

#include <stdlib.h>
#include <string.h>

/* ---- small predicates ---- */

static bool is_scalar(const Value *v, DType d)
{
	return v->type.kind == TY_SCALAR && v->type.dtype == d;
}

static bool is_int(const Value *v)
{
	return v->type.kind == TY_SCALAR && dtype_is_int(v->type.dtype);
}

static bool is_tile(const Value *v)
{
	return v->type.kind >= TY_TENSOR;
}

static bool in_space(const Value *v, TypeKind space)
{
	return is_tile(v) && tile_ref(v).space == space;
}

static bool need_scalar(Verifier *v, const Op *op, int i, DType d)
{
	if (is_scalar(op->args[i], d))
		return true;
	return verify_bad(v, op, "operand %d is %s, not %s", i, type_text(v->t->arena, op->args[i]->type), dtype_name(d));
}

static bool need_int(Verifier *v, const Op *op, int i)
{
	if (is_int(op->args[i]))
		return true;
	return verify_bad(v, op, "operand %d is %s, not an integer", i, type_text(v->t->arena, op->args[i]->type));
}

static bool need_kind(Verifier *v, const Op *op, int i, TypeKind k)
{
	if (op->args[i]->type.kind == k)
		return true;
	return verify_bad(v, op, "operand %d is %s", i, type_text(v->t->arena, op->args[i]->type));
}

static const char *const space_names[] = { [TY_TENSOR] = "global", [TY_SHARED] = "shared", [TY_FRAG] = "a fragment" };

static bool need_space(Verifier *v, const Op *op, int i, TypeKind space)
{
	if (in_space(op->args[i], space))
		return true;
	return verify_bad(v, op, "operand %d is %s, not %s", i, type_text(v->t->arena, op->args[i]->type), space_names[space]);
}

static bool need_tile(Verifier *v, const Op *op, int i)
{
	if (is_tile(op->args[i]))
		return true;
	return verify_bad(v, op, "operand %d is %s, not a tile", i, type_text(v->t->arena, op->args[i]->type));
}

static bool need_result(Verifier *v, const Op *op, DType d)
{
	if (is_scalar(op->result, d))
		return true;
	return verify_bad(v, op, "the result is %s, not %s", type_text(v->t->arena, op->result->type), dtype_name(d));
}

/* Where the op allows for less than the attribute's row. */
static bool need_range(Verifier *v, const Op *op, AttrId id, int64_t lo, int64_t hi)
{
	int64_t i = attr_int(op, id, 0);
	return (i >= lo && i <= hi) || verify_bad(v, op, "{%s} is %lld, not in %lld to %lld", attr_info(id)->text, (long long)i, (long long)lo,
		(long long)hi);
}

static bool need_word(Verifier *v, const Op *op, AttrId id, const char *const *words)
{
	const char *s = attr_text(op, id, "");
	for (; *words; words++)
		if (strcmp(s, *words) == 0)
			return true;
	return verify_bad(v, op, "{%s} is \"%s\"", attr_info(id)->text, s);
}

/* ---- declarations ---- */

/* What may stand before a tensor: lowering has its strides before there is code. */
static bool makes_strides(const Op *op)
{
	if (op->code == OP_TENSOR || op->code == OP_DIM || op->code == OP_PARAM || op->code == OP_GRID)
		return true;
	return op_info(op->code)->effect == FX_PURE && op->code != OP_VIEW && op->code != OP_PICK;
}

static void check_tensor_place(Verifier *v, const Op *op)
{
	for (const Op *p = op->prev; p; p = p->code == OP_TENSOR ? NULL : p->prev) /* what is before another has been looked at */
		if (!makes_strides(p)) {
			verify_bad(v, op, "a tensor behind '%s'", op_info(p->code)->text);
			return;
		}
}

static void check_decl_place(Verifier *v, const Op *op)
{
	if (op->code == OP_TENSOR)
		check_tensor_place(v, op);
	if (op->code == OP_FRAG || op->code == OP_VAR)
		return;
	if (op_info(op->code)->effect == FX_DECL && op->parent->owner->code != OP_KERNEL)
		verify_bad(v, op, "is not at the top of the kernel");
}

static void check_tensor(Verifier *v, const Op *op)
{
	int rank = op->result->type.rank;
	if (op->nargs != 2 * rank)
		verify_bad(v, op, "%d operands for rank %d", op->nargs, rank);
}

static void check_shared(Verifier *v, const Op *op)
{
	const Type *ty = &op->result->type;
	int64_t ring = attr_int(op, AT_RING, 0);
	if (ring < 0 || (ring > 0 && (ty->rank < 1 || ty->shape[0] != ring)))
		verify_bad(v, op, "{ring} is %lld, the leading extent is not", (long long)ring);
}

static void check_extents(Verifier *v, const Op *op)
{
	const int64_t most = INT64_C(1) << 40; /* sums of sizes stay far below what an integer holds */
	int64_t n = 1;
	for (int i = 0; i < op->result->type.rank; i++) {
		int64_t extent = op->result->type.shape[i];
		if (extent <= 0 || extent > most / n) {
			verify_bad(v, op, "extent %d is %lld", i, (long long)extent);
			return;
		}
		n *= extent;
	}
}

static void check_barrier(Verifier *v, const Op *op)
{
	if (!attr_get(op, AT_FROM) && !attr_get(op, AT_COUNT))
		verify_bad(v, op, "neither {from} nor {count}");
}

/* Layouts are of one or two dimensions. */
static void check_frag(Verifier *v, const Op *op)
{
	int rank = op->result->type.rank;
	if (rank < 1 || rank > 2)
		verify_bad(v, op, "has %d dimensions, not 1 or 2", rank);
	check_extents(v, op);
}

static bool decl_kind_ok(const Op *op)
{
	switch (op->code) {
	case OP_TENSOR: return op->result->type.kind == TY_TENSOR;
	case OP_SHARED: return op->result->type.kind == TY_SHARED;
	case OP_FRAG: return op->result->type.kind == TY_FRAG;
	case OP_VAR: return op->result->type.kind == TY_VAR;
	case OP_MBARRIER: return op->result->type.kind == TY_MBARRIER;
	case OP_BARRIER: return op->result->type.kind == TY_BARRIER;
	default: abort(); /* no declaration */
	}
}

/* ---- views ---- */

static int view_shape(const Op *op, int64_t *shape)
{
	const Attr *dims = attr_get(op, AT_DIMS);
	const Type *object = &operand(op, ARG_OBJECT)->type;
	int rank = 0;
	for (int i = 0; i < dims->n; i++)
		if (dims->list[i] >= 0)
			shape[rank++] = dims->list[i] ? dims->list[i] : object->shape[i];
	if (attr_int(op, AT_TRANS, 0) && rank >= 2) {
		int64_t last = shape[rank - 1];
		shape[rank - 1] = shape[rank - 2];
		shape[rank - 2] = last;
	}
	return rank;
}

static void check_view_shape(Verifier *v, const Op *op)
{
	int64_t shape[TIR_MAX_RANK];
	const Type *ty = &op->result->type;
	bool trans = attr_int(op, AT_TRANS, 0) != 0, warp = attr_int(op, AT_WARP_SCOPE, 0) != 0;
	int rank = view_shape(op, shape);
	if (rank != ty->rank) {
		verify_bad(v, op, "the result has rank %d, not %d", ty->rank, rank);
		return;
	}
	if ((trans || warp) && rank < 2)
		verify_bad(v, op, "{%s} of rank %d", trans ? "trans" : "warp_scope", rank);
	if (warp && rank >= 2)
		shape[trans ? rank - 1 : rank - 2] = 16;
	for (int i = 0; i < rank; i++)
		if (shape[i] != ty->shape[i] && shape[i] != -1) /* constant extents of a tensor are in the view's type only */
			verify_bad(v, op, "extent %d of the result is %lld, not %lld", i, (long long)ty->shape[i], (long long)shape[i]);
}

/* Tiles lie inside their objects; transfers to and from tensors may go past the end. */
static void check_view_starts(Verifier *v, const Op *op)
{
	const Attr *dims = attr_get(op, AT_DIMS);
	const Type *object = &operand(op, ARG_OBJECT)->type;
	for (int d = 0, i = 1; d < dims->n; d++) {
		int64_t taken = dims->list[d] < 0 ? 1 : dims->list[d], extent = object->shape[d], start = 0;
		if (!taken)
			continue;
		bool fixed = value_const_int(op->args[i], &start);
		if (!fixed && object->kind == TY_FRAG)
			verify_bad(v, op, "start %d of a fragment view is not a constant", i);
		if (object->kind != TY_TENSOR && (taken > extent || (fixed && (start < 0 || start > extent - taken))))
			verify_bad(v, op, "dimension %d takes %lld from %lld of %lld", d, (long long)taken, (long long)start, (long long)extent);
		i++;
	}
}

static void check_view(Verifier *v, const Op *op)
{
	static const TypeKind view_of[] = { [TY_TENSOR] = TY_VIEW_TENSOR, [TY_SHARED] = TY_VIEW_SHARED, [TY_FRAG] = TY_VIEW_FRAG };
	const Type *object = &operand(op, ARG_OBJECT)->type;
	const Attr *dims = attr_get(op, AT_DIMS);
	int starts = 0;
	if (dims->n != object->rank) {
		verify_bad(v, op, "%d {dims} for rank %d", dims->n, object->rank);
		return;
	}
	for (int i = 0; i < dims->n; i++)
		starts += dims->list[i] != 0;
	if (starts != op->nargs - 1) {
		verify_bad(v, op, "%d starts for %d sliced or indexed dimensions", op->nargs - 1, starts);
		return;
	}
	if (op->result->type.kind != view_of[object->kind] || op->result->type.dtype != object->dtype)
		verify_bad(v, op, "the result is not a view of its object");
	check_view_starts(v, op);
	check_view_shape(v, op);
}

/* ---- scalars ---- */

/* 8-bit floats are stored and converted; in TIR nothing is computed in them. */
static void check_numeric(Verifier *v, const Op *op, bool ints, bool floats, bool bools)
{
	DType d = op->result->type.dtype;
	if (!(dtype_is_int(d) ? ints : dtype_is_float(d) ? floats : bools) || dtype_is_float8(d))
		verify_bad(v, op, "not defined on %s", dtype_name(d));
}

static void check_const(Verifier *v, const Op *op)
{
	AttrId id = dtype_is_float(op->result->type.dtype) ? AT_FVALUE : AT_VALUE;
	if (!attr_get(op, id) || op->attrs->next)
		verify_bad(v, op, "a literal of type %s has {%s} and nothing else", dtype_name(op->result->type.dtype), attr_info(id)->text);
}

static void check_cmp(Verifier *v, const Op *op)
{
	static const char *const preds[] = { "lt", "le", "gt", "ge", "eq", "ne", NULL };
	need_word(v, op, AT_PRED, preds);
	need_result(v, op, DT_BOOL);
	Type a = operand(op, ARG_A)->type, b = operand(op, ARG_B)->type;
	if (!type_equal(a, b))
		verify_bad(v, op, "the operands are not scalars of one type");
	else if (dtype_is_float8(a.dtype))
		verify_bad(v, op, "not defined on %s", dtype_name(a.dtype));
}

static void check_bitcast(Verifier *v, const Op *op)
{
	DType from = operand(op, ARG_A)->type.dtype, to = op->result->type.dtype;
	if (from == DT_BOOL || to == DT_BOOL)
		verify_bad(v, op, "not defined on bool");
	else if (dtype_bits(from) != dtype_bits(to))
		verify_bad(v, op, "the sizes differ");
}

static void check_scalar(Verifier *v, const Op *op)
{
	switch (op->code) {
	case OP_CONST: check_const(v, op); break;
	case OP_CMP: check_cmp(v, op); break;
	case OP_BITCAST: check_bitcast(v, op); break;
	case OP_ADD: case OP_SUB: case OP_MUL: case OP_DIV: case OP_MIN: case OP_MAX: case OP_NEG: case OP_ABS:
		check_numeric(v, op, true, true, false);
		break;
	case OP_MOD: case OP_SHL: case OP_SHR: check_numeric(v, op, true, false, false); break;
	case OP_AND: case OP_OR: case OP_XOR: case OP_NOT: check_numeric(v, op, true, false, true); break;
#define MATH(op, fold, nvvm, overloaded, host, flush, inverse) case op:
#include "compiler/tir/math.def"
#undef MATH
	case OP_FMA: case OP_LDEXP:
		check_numeric(v, op, false, true, false);
		break;
	case OP_BLOCK_IDX: case OP_GRID_DIM: need_range(v, op, AT_AXIS, 0, 2); need_result(v, op, DT_I32); break;
	case OP_DIM: case OP_SM_COUNT: case OP_THREAD: case OP_LANE: case OP_WARP: case OP_CLUSTER_RANK: need_result(v, op, DT_I32); break;
	case OP_PRESENT: need_result(v, op, DT_BOOL); break;
	case OP_CLOCK: need_result(v, op, DT_I64); break;
	default: break;
	}
}

/* ---- elements ---- */

/* The object, one index per dimension and a mask. */
static void check_element(Verifier *v, const Op *op, DType d)
{
	const Value *object = operand(op, ARG_OBJECT);
	int masked = attr_int(op, AT_MASKED, 0) != 0, at = operand_place(op, ARG_OBJECT);
	if (object->type.dtype != d)
		verify_bad(v, op, "%s element of %s", dtype_name(d), type_text(v->t->arena, object->type));
	if (op->nargs != at + 1 + object->type.rank + masked) {
		verify_bad(v, op, "%d operands for rank %d%s", op->nargs, object->type.rank, masked ? " with a mask" : "");
		return;
	}
	for (int i = 0; i < object->type.rank; i++)
		need_int(v, op, at + 1 + i);
	if (masked)
		need_scalar(v, op, op->nargs - 1, DT_BOOL);
	if (object->type.kind == TY_FRAG && !tir_enclosing(op, OP_PARALLEL))
		verify_bad(v, op, "an element of a fragment outside an element loop");
}

static void check_atomic(Verifier *v, const Op *op)
{
	static const char *const kinds[] = { "add", "min", "max", NULL };
	need_word(v, op, AT_RMW, kinds);
	DType d = operand(op, ARG_VALUE)->type.dtype;
	check_element(v, op, d);
	if (operand(op, ARG_OBJECT)->type.kind == TY_FRAG)
		verify_bad(v, op, "on a fragment");
	if (d == DT_BOOL || dtype_is_float8(d))
		verify_bad(v, op, "not defined on %s", dtype_name(d));
	if (op->result)
		need_result(v, op, d);
}

static void check_var(Verifier *v, const Op *op)
{
	DType d = operand(op, ARG_VAR)->type.dtype;
	if (op->code == OP_GET)
		need_result(v, op, d);
	else
		need_scalar(v, op, operand_place(op, ARG_VALUE), d);
	bool combines = attr_get(op, AT_COMBINE), in_loop = op->code == OP_SET && tir_enclosing(op, OP_PARALLEL);
	if (combines)
		need_word(v, op, AT_COMBINE, (const char *const[]){ "or", "and", NULL });
	if (combines && d != DT_BOOL)
		verify_bad(v, op, "{combine} of %s", dtype_name(d));
	if (in_loop && !combines)
		verify_bad(v, op, "an element loop combines what it sets");
}

/* ---- tiles ---- */

/* Extents equal when unit dimensions are left out; -1 fits anything. */
static bool shapes_agree(const TileRef *a, const TileRef *b)
{
	int i = 0, j = 0;
	for (;;) {
		while (i < a->rank && a->shape[i] == 1)
			i++;
		while (j < b->rank && b->shape[j] == 1)
			j++;
		if (i == a->rank || j == b->rank)
			return i == a->rank && j == b->rank;
		if (a->shape[i] != b->shape[j] && a->shape[i] != -1 && b->shape[j] != -1)
			return false;
		i++;
		j++;
	}
}

static bool is_box(const Op *op, const TileRef *source, const TileRef *target)
{
	bool load = op->code == OP_TMA_LOAD;
	const TileRef *box = load ? source : target, *tile = load ? target : source;
	return (load || op->code == OP_TMA_STORE) && box_fills(box->shape, box->rank, tile->shape, tile->rank);
}

static bool need_same_shape(Verifier *v, const Op *op)
{
	const Value *source = operand(op, ARG_SOURCE), *target = operand(op, ARG_TARGET);
	TileRef s = tile_ref(source), d = tile_ref(target);
	if (source->def->code == OP_TENSOR || target->def->code == OP_TENSOR)
		return true; /* a whole tensor: its extents are run-time values */
	return shapes_agree(&s, &d) || is_box(op, &s, &d) || verify_bad(v, op, "%s and %s do not agree", type_text(v->t->arena, source->type),
		type_text(v->t->arena, target->type));
}

static void check_transfer(Verifier *v, const Op *op)
{
	if (need_same_shape(v, op) && operand(op, ARG_SOURCE)->type.dtype != operand(op, ARG_TARGET)->type.dtype)
		verify_bad(v, op, "the element types differ");
}

static void check_mma(Verifier *v, const Op *op)
{
	TileRef d = tile_ref(operand(op, ARG_D)), a = tile_ref(operand(op, ARG_A)), b = tile_ref(operand(op, ARG_B));
	if (a.space == TY_TENSOR || b.space == TY_TENSOR)
		verify_bad(v, op, "an operand in global memory");
	if (d.rank != 2 || a.rank != 2 || b.rank != 2 || d.trans)
		verify_bad(v, op, "the operands are not matrices");
	else if (d.shape[0] != a.shape[0] || d.shape[1] != b.shape[1] || a.shape[1] != b.shape[0])
		verify_bad(v, op, "shapes %lldx%lld = %lldx%lld @ %lldx%lld do not agree", (long long)d.shape[0], (long long)d.shape[1],
			(long long)a.shape[0], (long long)a.shape[1], (long long)b.shape[0], (long long)b.shape[1]);
}

static void check_fill(Verifier *v, const Op *op)
{
	need_scalar(v, op, operand_place(op, ARG_VALUE), operand(op, ARG_TARGET)->type.dtype);
}

static void check_reduce(Verifier *v, const Op *op)
{
	static const char *const kinds[] = { "sum", "max", "min", NULL };
	need_word(v, op, AT_KIND, kinds);
	if (!need_range(v, op, AT_AXIS, 0, 1))
		return;
	const Value *source = operand(op, ARG_SOURCE), *target = operand(op, ARG_TARGET);
	TileRef s = tile_ref(source), d = tile_ref(target);
	int64_t kept = 1 - attr_int(op, AT_AXIS, 0);
	if (s.rank != 2 || d.rank != 1 || s.shape[kept] != d.shape[0])
		verify_bad(v, op, "%s does not reduce to %s along axis %lld", type_text(v->t->arena, source->type),
			type_text(v->t->arena, target->type), (long long)(1 - kept));
}

static void check_scan(Verifier *v, const Op *op)
{
	static const char *const kinds[] = { "sum", "prod", NULL };
	need_word(v, op, AT_KIND, kinds);
	need_range(v, op, AT_AXIS, 0, operand(op, ARG_TARGET)->type.rank - 1);
}

/* ---- control ---- */

static void check_role(Verifier *v, const Op *op)
{
	if (tir_enclosing(op, OP_ROLE) || tir_enclosing(op, OP_ONCE))
		verify_bad(v, op, "inside a role or 'once'");
}

static void check_parallel(Verifier *v, const Op *op)
{
	const Attr *extents = attr_get(op, AT_EXTENTS);
	if (op->regions[0] && extents->n != op->regions[0]->nargs)
		verify_bad(v, op, "%d {extents} for %d indices", extents->n, op->regions[0]->nargs);
}

static void check_yield(Verifier *v, const Op *op)
{
	const Op *owner = op->parent->owner;
	if (owner->code != OP_WHILE || op->parent != owner->regions[0] || op->next)
		verify_bad(v, op, "does not end the condition of a 'while'");
}

static void check_control(Verifier *v, const Op *op)
{
	switch (op->code) {
	case OP_KERNEL: need_range(v, op, AT_THREADS, 1, v->t->machine->threads); break;
	case OP_ROLE: check_role(v, op); break;
	case OP_WHILE:
		if (!op->regions[0] || !op->regions[0]->last || op->regions[0]->last->code != OP_YIELD)
			verify_bad(v, op, "the condition does not end in yield");
		break;
	case OP_YIELD: check_yield(v, op); break;
	case OP_PARALLEL: check_parallel(v, op); break;
	default: break;
	}
}

static void check_region_args(Verifier *v, const Op *op)
{
	int want = op->code == OP_ROLE || op->code == OP_FOR ? 1 : 0;
	for (int i = 0; i < op_info(op->code)->regions; i++) {
		const Region *r = op->regions[i];
		if (!r) {
			if (op->code != OP_IF || i == 0)
				verify_bad(v, op, "region %d is missing", i);
			continue;
		}
		if (op->code == OP_PARALLEL ? r->nargs < 1 : r->nargs != want)
			verify_bad(v, op, "%d region arguments", r->nargs);
		for (int k = 0; k < r->nargs; k++)
			if (!is_scalar(r->args[k], DT_I32))
				verify_bad(v, op, "region argument %d is not i32", k);
	}
}

bool verify_in_loop(const Op *op)
{
	switch (op->code) {
	case OP_SET: return attr_get(op, AT_COMBINE) != NULL;
	case OP_GET: case OP_LOAD: case OP_STORE: case OP_ATOMIC:
	case OP_PRINT: case OP_ASSERT: case OP_TRAP: case OP_PTX: case OP_CLOCK:
		return true;
	default:
		return op_info(op->code)->effect == FX_PURE && op->code != OP_VIEW;
	}
}

/* ---- the rest ---- */

static void check_decl(Verifier *v, const Op *op)
{
	if (!decl_kind_ok(op)) {
		verify_bad(v, op, "the result is %s", type_text(v->t->arena, op->result->type));
		return;
	}
	switch (op->code) {
	case OP_TENSOR: check_tensor(v, op); break;
	case OP_SHARED: check_shared(v, op); check_extents(v, op); break;
	case OP_FRAG: check_frag(v, op); break;
	case OP_MBARRIER: case OP_BARRIER: check_barrier(v, op); break;
	default: break;
	}
}

static void check_vote(Verifier *v, const Op *op)
{
	static const char *const kinds[] = { "any", "all", NULL };
	need_word(v, op, AT_KIND, kinds);
	need_result(v, op, DT_BOOL);
}

static void check_pick(Verifier *v, const Op *op)
{
	const Value *object = operand(op, ARG_OBJECT);
	const Op *array = object->def;
	bool barriers = array && (array->code == OP_MBARRIER || array->code == OP_BARRIER) && attr_int(array, AT_ARRAY, 0) > 0;
	if (!barriers)
		verify_bad(v, op, "operand 0 is no array of barriers");
	else if (!type_equal(op->result->type, object->type))
		verify_bad(v, op, "the result is %s", type_text(v->t->arena, op->result->type));
}

static void check_ptx(Verifier *v, const Op *op)
{
	if (attr_int(op, AT_OTHERWISE, 0) && (!op->result || !op->nargs || !type_equal(op->args[op->nargs - 1]->type, op->result->type)))
		verify_bad(v, op, "the value on the CPU device is not of the result's type");
	const char *why = ptx_text_error(v->t->arena, attr_text(op, AT_TEXT, ""), op->nargs + (op->result != NULL));
	if (why)
		verify_bad(v, op, "%s", why);
}

static void check_weave(Verifier *v, const Op *op)
{
	DType from = operand(op, ARG_SOURCE)->type.dtype, to = operand(op, ARG_TARGET)->type.dtype;
	need_same_shape(v, op);
	if (dtype_bits(to) != 8 || to == DT_BOOL)
		verify_bad(v, op, "the target is of %s, not of 8 bits", dtype_name(to));
	if (attr_get(op, AT_BYTE) && dtype_bits(from) != 16)
		verify_bad(v, op, "a byte of %s, not of 16 bits", dtype_name(from));
}

static void check_op(Verifier *v, const Op *op)
{
	switch (op->code) {
	case OP_TENSOR: case OP_SHARED: case OP_FRAG: case OP_VAR: case OP_MBARRIER: case OP_BARRIER: check_decl(v, op); break;
	case OP_VIEW: check_view(v, op); break;
	case OP_PICK: check_pick(v, op); break;
	case OP_VOTE: check_vote(v, op); break;
	case OP_GET: case OP_SET: check_var(v, op); break;
	case OP_LOAD: check_element(v, op, op->result->type.dtype); break;
	case OP_STORE: check_element(v, op, operand(op, ARG_VALUE)->type.dtype); break;
	case OP_ATOMIC: check_atomic(v, op); break;
	case OP_FILL: check_fill(v, op); break;
	case OP_COPY: need_same_shape(v, op); break;
	case OP_WEAVE: check_weave(v, op); break;
	case OP_MMA: check_mma(v, op); break;
	case OP_REDUCE: check_reduce(v, op); break;
	case OP_SCAN: check_scan(v, op); break;
	case OP_TMA_LOAD: case OP_TMA_STORE: case OP_CP_ASYNC: check_transfer(v, op); break;
	case OP_BULK_LOAD: case OP_BULK_STORE: break; /* bytes: the operands agree in size only */
	case OP_WGMMA_WAIT: need_range(v, op, AT_N, 0, v->t->machine->product_groups); break;
	case OP_PTX: check_ptx(v, op); break;
	default:
		if (op_info(op->code)->effect == FX_CONTROL)
			check_control(v, op);
		else
			check_scalar(v, op);
	}
}

bool verify_operand(Verifier *v, const Op *op, int i, char kind)
{
	TypeKind is = op->args[i]->type.kind;
	switch (kind) {
	case 'e': return need_kind(v, op, i, TY_SCALAR);
	case 'i': return need_int(v, op, i);
	case 'k': return need_scalar(v, op, i, DT_I32);
	case 'c': return need_scalar(v, op, i, DT_BOOL);
	case 'l': return need_scalar(v, op, i, op->result->type.dtype);
	case 't': return need_tile(v, op, i);
	case 'g': return need_space(v, op, i, TY_TENSOR);
	case 's': return need_space(v, op, i, TY_SHARED);
	case 'r': return need_space(v, op, i, TY_FRAG);
	case 'o': return (is >= TY_TENSOR && is <= TY_FRAG) || verify_bad(v, op, "operand %d is not an object", i);
	case 'x': return need_kind(v, op, i, TY_TENSOR);
	case 'S': return need_kind(v, op, i, TY_SHARED);
	case 'f': return need_kind(v, op, i, TY_FRAG);
	case 'v': return need_kind(v, op, i, TY_VAR);
	case 'm': return need_kind(v, op, i, TY_MBARRIER);
	case 'b': return need_kind(v, op, i, TY_BARRIER);
	case 'a': return is == TY_MBARRIER || is == TY_BARRIER || verify_bad(v, op, "operand %d is no array of barriers", i);
	default: abort(); /* ops.def has a letter that is not in its head */
	}
}

void verify_rules(Verifier *v, const Op *op)
{
	if (op->parent)
		check_decl_place(v, op);
	check_op(v, op);
	check_region_args(v, op);
}
