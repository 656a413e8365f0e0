/* verify.c - what every TIR module satisfies at every stage. */
#include "compiler/tir/tir.h"

#include <stdlib.h>
#include <string.h>

typedef struct Verifier {
	const Tir *t;
	Value **visible; /* by id; NULL: not in scope */
	uint8_t attrs[OP_COUNT][ATTR_IDS]; /* AttrUse */
	int required[OP_COUNT];
	unsigned ids;
	bool sound;
} Verifier;

__attribute__((format(printf, 3, 4)))
static bool bad(Verifier *v, const Op *op, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	const char *text = arena_vprintf(v->t->arena, fmt, ap);
	va_end(ap);
	diag_error(v->t->diags, op->loc, E_TIR, "%s: %s", op_info(op->code)->text, text);
	v->sound = false;
	return false;
}

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

static bool is_view(const Value *v)
{
	return v->type.kind >= TY_VIEW_TENSOR;
}

static bool in_space(const Value *v, TypeKind space)
{
	return is_tile(v) && tile_ref(v).space == space;
}

static bool need_scalar(Verifier *v, const Op *op, int i, DType d)
{
	if (is_scalar(op->args[i], d))
		return true;
	return bad(v, op, "operand %d is %s, not %s", i, type_text(v->t->arena, op->args[i]->type), dtype_name(d));
}

static bool need_int(Verifier *v, const Op *op, int i)
{
	if (is_int(op->args[i]))
		return true;
	return bad(v, op, "operand %d is %s, not an integer", i, type_text(v->t->arena, op->args[i]->type));
}

static bool need_kind(Verifier *v, const Op *op, int i, TypeKind k)
{
	if (op->args[i]->type.kind == k)
		return true;
	return bad(v, op, "operand %d is %s", i, type_text(v->t->arena, op->args[i]->type));
}

static const char *const space_names[] = { [TY_TENSOR] = "global", [TY_SHARED] = "shared", [TY_FRAG] = "a fragment" };

static bool need_space(Verifier *v, const Op *op, int i, TypeKind space)
{
	if (in_space(op->args[i], space))
		return true;
	return bad(v, op, "operand %d is %s, not %s", i, type_text(v->t->arena, op->args[i]->type), space_names[space]);
}

static bool need_tile(Verifier *v, const Op *op, int i)
{
	if (is_tile(op->args[i]))
		return true;
	return bad(v, op, "operand %d is %s, not a tile", i, type_text(v->t->arena, op->args[i]->type));
}

static bool need_result(Verifier *v, const Op *op, DType d)
{
	if (is_scalar(op->result, d))
		return true;
	return bad(v, op, "the result is %s, not %s", type_text(v->t->arena, op->result->type), dtype_name(d));
}

/* Where the op allows for less than the attribute's row. */
static bool need_range(Verifier *v, const Op *op, AttrId id, int64_t lo, int64_t hi)
{
	int64_t i = attr_int(op, id, 0);
	return (i >= lo && i <= hi) || bad(v, op, "{%s} is %lld, not in %lld to %lld", attr_info(id)->text, (long long)i, (long long)lo,
		(long long)hi);
}

static bool need_word(Verifier *v, const Op *op, AttrId id, const char *const *words)
{
	const char *s = attr_text(op, id, "");
	for (; *words; words++)
		if (strcmp(s, *words) == 0)
			return true;
	return bad(v, op, "{%s} is \"%s\"", attr_info(id)->text, s);
}

/* ---- declarations ---- */

static void check_decl_place(Verifier *v, const Op *op)
{
	if (op->code == OP_FRAG || op->code == OP_VAR)
		return;
	if (op_info(op->code)->effect == FX_DECL && op->parent->owner->code != OP_KERNEL)
		bad(v, op, "is not at the top of the kernel");
}

static void check_tensor(Verifier *v, const Op *op)
{
	int rank = op->result->type.rank;
	if (op->nargs != 2 * rank)
		bad(v, op, "%d operands for rank %d", op->nargs, rank);
	for (int i = 0; i < op->nargs; i++)
		need_int(v, op, i);
}

static void check_shared(Verifier *v, const Op *op)
{
	const Type *ty = &op->result->type;
	int64_t ring = attr_int(op, AT_RING, 0);
	if (ring < 0 || (ring > 0 && (ty->rank < 1 || ty->shape[0] != ring)))
		bad(v, op, "{ring} is %lld, the leading extent is not", (long long)ring);
	if (op->nargs)
		need_kind(v, op, 0, TY_SHARED);
}

static void check_extents(Verifier *v, const Op *op)
{
	const int64_t most = INT64_C(1) << 40; /* sums of sizes stay far below what an integer holds */
	int64_t n = 1;
	for (int i = 0; i < op->result->type.rank; i++) {
		int64_t extent = op->result->type.shape[i];
		if (extent <= 0 || extent > most / n) {
			bad(v, op, "extent %d is %lld", i, (long long)extent);
			return;
		}
		n *= extent;
	}
}

static void check_barrier(Verifier *v, const Op *op)
{
	if (!attr_get(op, AT_FROM) && !attr_get(op, AT_COUNT))
		bad(v, op, "neither {from} nor {count}");
}

/* Layouts are of one or two dimensions. */
static void check_frag(Verifier *v, const Op *op)
{
	int rank = op->result->type.rank;
	if (rank < 1 || rank > 2)
		bad(v, op, "has %d dimensions, not 1 or 2", rank);
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
	default: return op->result->type.kind == TY_BARRIER;
	}
}

/* ---- views ---- */

static int view_shape(const Op *op, int64_t *shape)
{
	const Attr *dims = attr_get(op, AT_DIMS);
	const Type *object = &op->args[0]->type;
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
		bad(v, op, "the result has rank %d, not %d", ty->rank, rank);
		return;
	}
	if ((trans || warp) && rank < 2)
		bad(v, op, "{%s} of rank %d", trans ? "trans" : "warp_scope", rank);
	if (warp && rank >= 2)
		shape[trans ? rank - 1 : rank - 2] = 16;
	for (int i = 0; i < rank; i++)
		if (shape[i] != ty->shape[i] && shape[i] != -1) /* constant extents of a tensor are in the view's type only */
			bad(v, op, "extent %d of the result is %lld, not %lld", i, (long long)ty->shape[i], (long long)shape[i]);
}

/* Tiles lie inside their objects; transfers to and from tensors may go past the end. */
static void check_view_starts(Verifier *v, const Op *op)
{
	const Attr *dims = attr_get(op, AT_DIMS);
	const Type *object = &op->args[0]->type;
	for (int d = 0, i = 1; d < dims->n; d++) {
		int64_t taken = dims->list[d] < 0 ? 1 : dims->list[d], extent = object->shape[d], start = 0;
		if (!taken)
			continue;
		bool fixed = need_int(v, op, i) && value_const_int(op->args[i], &start);
		if (!fixed && object->kind == TY_FRAG)
			bad(v, op, "start %d of a fragment view is not a constant", i);
		if (object->kind != TY_TENSOR && (taken > extent || (fixed && (start < 0 || start > extent - taken))))
			bad(v, op, "dimension %d takes %lld from %lld of %lld", d, (long long)taken, (long long)start, (long long)extent);
		i++;
	}
}

static void check_view(Verifier *v, const Op *op)
{
	static const TypeKind view_of[] = { [TY_TENSOR] = TY_VIEW_TENSOR, [TY_SHARED] = TY_VIEW_SHARED, [TY_FRAG] = TY_VIEW_FRAG };
	const Type *object = &op->args[0]->type;
	const Attr *dims = attr_get(op, AT_DIMS);
	int starts = 0;
	if (!is_tile(op->args[0]) || is_view(op->args[0])) {
		bad(v, op, "operand 0 is not an object");
		return;
	}
	if (dims->n != object->rank) {
		bad(v, op, "%d {dims} for rank %d", dims->n, object->rank);
		return;
	}
	for (int i = 0; i < dims->n; i++)
		starts += dims->list[i] != 0;
	if (starts != op->nargs - 1) {
		bad(v, op, "%d starts for %d sliced or indexed dimensions", op->nargs - 1, starts);
		return;
	}
	if (op->result->type.kind != view_of[object->kind] || op->result->type.dtype != object->dtype)
		bad(v, op, "the result is not a view of its object");
	check_view_starts(v, op);
	check_view_shape(v, op);
}

/* ---- scalars ---- */

static bool operands_like_result(Verifier *v, const Op *op)
{
	for (int i = 0; i < op->nargs; i++)
		if (!need_scalar(v, op, i, op->result->type.dtype))
			return false;
	return true;
}

/* 8-bit floats are stored and converted; in TIR nothing is computed in them. */
static bool stored_byte(DType d) { return dtype_is_float(d) && dtype_bits(d) == 8; }

static void check_numeric(Verifier *v, const Op *op, bool ints, bool floats, bool bools)
{
	DType d = op->result->type.dtype;
	if (!(dtype_is_int(d) ? ints : dtype_is_float(d) ? floats : bools) || stored_byte(d))
		bad(v, op, "not defined on %s", dtype_name(d));
	operands_like_result(v, op);
}

/* Whether it counts, behind two operands. */
static void check_partial(Verifier *v, const Op *op, bool floats)
{
	Op plain = *op;
	if (op->nargs > 2)
		need_scalar(v, op, 2, DT_BOOL);
	plain.nargs = 2;
	check_numeric(v, &plain, true, floats, false);
}

static void check_const(Verifier *v, const Op *op)
{
	AttrId id = dtype_is_float(op->result->type.dtype) ? AT_FVALUE : AT_VALUE;
	if (!attr_get(op, id) || op->attrs->next)
		bad(v, op, "a literal of type %s has {%s} and nothing else", dtype_name(op->result->type.dtype), attr_info(id)->text);
}

static void check_cmp(Verifier *v, const Op *op)
{
	static const char *const preds[] = { "lt", "le", "gt", "ge", "eq", "ne", NULL };
	need_word(v, op, AT_PRED, preds);
	need_result(v, op, DT_BOOL);
	if (op->args[0]->type.kind != TY_SCALAR || !type_equal(op->args[0]->type, op->args[1]->type))
		bad(v, op, "the operands are not scalars of one type");
	else if (stored_byte(op->args[0]->type.dtype))
		bad(v, op, "not defined on %s", dtype_name(op->args[0]->type.dtype));
}

static void check_select(Verifier *v, const Op *op)
{
	need_scalar(v, op, 0, DT_BOOL);
	need_scalar(v, op, 1, op->result->type.dtype);
	need_scalar(v, op, 2, op->result->type.dtype);
}

static void check_cast(Verifier *v, const Op *op)
{
	if (op->nargs > 1)
		need_scalar(v, op, 1, DT_BOOL);
	if (!need_kind(v, op, 0, TY_SCALAR) || op->code == OP_CAST)
		return;
	DType from = op->args[0]->type.dtype, to = op->result->type.dtype;
	if (from == DT_BOOL || to == DT_BOOL)
		bad(v, op, "not defined on bool");
	else if (dtype_bits(from) != dtype_bits(to))
		bad(v, op, "the sizes differ");
}

static void check_ldexp(Verifier *v, const Op *op)
{
	if (!dtype_is_float(op->result->type.dtype) || stored_byte(op->result->type.dtype))
		bad(v, op, "not defined on %s", dtype_name(op->result->type.dtype));
	need_scalar(v, op, 0, op->result->type.dtype);
	need_scalar(v, op, 1, DT_I32);
}

static void check_scalar(Verifier *v, const Op *op)
{
	switch (op->code) {
	case OP_CONST: check_const(v, op); break;
	case OP_CMP: check_cmp(v, op); break;
	case OP_SELECT: check_select(v, op); break;
	case OP_CAST: case OP_BITCAST: check_cast(v, op); break;
	case OP_LDEXP: check_ldexp(v, op); break;
	case OP_ADD: case OP_SUB: case OP_MUL: case OP_MIN: case OP_MAX: case OP_NEG: case OP_ABS:
		check_numeric(v, op, true, true, false);
		break;
	case OP_DIV: check_partial(v, op, true); break;
	case OP_MOD: case OP_SHL: case OP_SHR: check_partial(v, op, false); break;
	case OP_AND: case OP_OR: case OP_XOR: case OP_NOT: check_numeric(v, op, true, false, true); break;
	case OP_FMA: case OP_EXP2: case OP_LOG2: case OP_SQRT: case OP_RSQRT: case OP_RCP: case OP_TANH: case OP_FLOOR:
		check_numeric(v, op, false, true, false);
		break;
	case OP_BLOCK_IDX: case OP_GRID_DIM: need_range(v, op, AT_AXIS, 0, 2); need_result(v, op, DT_I32); break;
	case OP_DIM: need_result(v, op, DT_I32); break;
	case OP_SM_COUNT: case OP_THREAD: case OP_LANE: case OP_WARP: case OP_CLUSTER_RANK: need_result(v, op, DT_I32); break;
	case OP_PRESENT: need_kind(v, op, 0, TY_TENSOR); need_result(v, op, DT_BOOL); break;
	case OP_CLOCK: need_result(v, op, DT_I64); break;
	default: break;
	}
}

/* ---- elements ---- */

/* The object is operand `at`; one index per dimension and a mask follow. */
static void check_element(Verifier *v, const Op *op, int at, DType d)
{
	const Value *object = op->args[at];
	int masked = attr_int(op, AT_MASKED, 0) != 0;
	if (!is_tile(object) || is_view(object)) {
		bad(v, op, "operand %d is not an object", at);
		return;
	}
	if (object->type.dtype != d)
		bad(v, op, "%s element of %s", dtype_name(d), type_text(v->t->arena, object->type));
	if (op->nargs != at + 1 + object->type.rank + masked) {
		bad(v, op, "%d operands for rank %d%s", op->nargs, object->type.rank, masked ? " with a mask" : "");
		return;
	}
	for (int i = 0; i < object->type.rank; i++)
		need_int(v, op, at + 1 + i);
	if (masked)
		need_scalar(v, op, op->nargs - 1, DT_BOOL);
	if (object->type.kind == TY_FRAG && !tir_enclosing(op, OP_PARALLEL))
		bad(v, op, "an element of a fragment outside an element loop");
}

static void check_store(Verifier *v, const Op *op)
{
	if (need_kind(v, op, 0, TY_SCALAR))
		check_element(v, op, 1, op->args[0]->type.dtype);
}

static void check_atomic(Verifier *v, const Op *op)
{
	static const char *const kinds[] = { "add", "min", "max", NULL };
	need_word(v, op, AT_RMW, kinds);
	check_store(v, op);
	if (op->args[1]->type.kind == TY_FRAG)
		bad(v, op, "on a fragment");
	if (op->args[0]->type.dtype == DT_BOOL || stored_byte(op->args[0]->type.dtype))
		bad(v, op, "not defined on %s", dtype_name(op->args[0]->type.dtype));
	if (op->result)
		need_result(v, op, op->args[0]->type.dtype);
}

static void check_var(Verifier *v, const Op *op)
{
	if (!need_kind(v, op, 0, TY_VAR))
		return;
	if (op->code == OP_GET)
		need_result(v, op, op->args[0]->type.dtype);
	else
		need_scalar(v, op, 1, op->args[0]->type.dtype);
	bool combines = attr_get(op, AT_COMBINE), in_loop = op->code == OP_SET && tir_enclosing(op, OP_PARALLEL);
	if (combines)
		need_word(v, op, AT_COMBINE, (const char *const[]){ "or", "and", NULL });
	if (combines && op->args[0]->type.dtype != DT_BOOL)
		bad(v, op, "{combine} of %s", dtype_name(op->args[0]->type.dtype));
	if (in_loop && !combines)
		bad(v, op, "an element loop combines what it sets");
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

static bool need_same_shape(Verifier *v, const Op *op)
{
	TileRef a = tile_ref(op->args[0]), b = tile_ref(op->args[1]);
	if (a.space == TY_TENSOR && op->args[0]->def->code == OP_TENSOR)
		return true; /* a whole tensor: its extents are run-time values */
	if (b.space == TY_TENSOR && op->args[1]->def->code == OP_TENSOR)
		return true;
	return shapes_agree(&a, &b) || bad(v, op, "%s and %s do not agree", type_text(v->t->arena, op->args[0]->type),
		type_text(v->t->arena, op->args[1]->type));
}

static void check_copy(Verifier *v, const Op *op)
{
	if (need_tile(v, op, 0) && need_tile(v, op, 1))
		need_same_shape(v, op);
	if (op->nargs == 3)
		need_int(v, op, 2);
}

static void check_transfer(Verifier *v, const Op *op)
{
	bool out = op->code == OP_TMA_STORE || op->code == OP_BULK_STORE;
	bool fits = need_space(v, op, 0, out ? TY_SHARED : TY_TENSOR);
	fits &= need_space(v, op, 1, out ? TY_TENSOR : TY_SHARED);
	/* a bulk copy moves bytes: its operands agree in size only */
	bool bulk = op->code == OP_BULK_LOAD || op->code == OP_BULK_STORE;
	if (fits && !bulk) {
		need_same_shape(v, op);
		if (op->args[0]->type.dtype != op->args[1]->type.dtype)
			bad(v, op, "the element types differ");
	}
	int next = 2;
	if (op->code == OP_TMA_LOAD || op->code == OP_BULK_LOAD) {
		need_kind(v, op, 2, TY_MBARRIER);
		need_int(v, op, 3);
		next = 4;
	}
	if (op->nargs > next)
		need_int(v, op, next);
}

static void check_mma(Verifier *v, const Op *op)
{
	for (int i = 0; i < 3; i++)
		if (!need_tile(v, op, i))
			return;
	TileRef d = tile_ref(op->args[0]), a = tile_ref(op->args[1]), b = tile_ref(op->args[2]);
	need_space(v, op, 0, TY_FRAG);
	if (a.space == TY_TENSOR || b.space == TY_TENSOR)
		bad(v, op, "an operand in global memory");
	if (d.rank != 2 || a.rank != 2 || b.rank != 2 || d.trans)
		bad(v, op, "the operands are not matrices");
	else if (d.shape[0] != a.shape[0] || d.shape[1] != b.shape[1] || a.shape[1] != b.shape[0])
		bad(v, op, "shapes %lldx%lld = %lldx%lld @ %lldx%lld do not agree", (long long)d.shape[0], (long long)d.shape[1],
			(long long)a.shape[0], (long long)a.shape[1], (long long)b.shape[0], (long long)b.shape[1]);
}

static void check_fill(Verifier *v, const Op *op)
{
	if (need_tile(v, op, 0))
		need_scalar(v, op, 1, op->args[0]->type.dtype);
}

static void check_reduce(Verifier *v, const Op *op)
{
	static const char *const kinds[] = { "sum", "max", "min", NULL };
	need_word(v, op, AT_KIND, kinds);
	if (!need_range(v, op, AT_AXIS, 0, 1) || !need_space(v, op, 0, TY_FRAG) || !need_space(v, op, 1, TY_FRAG))
		return;
	TileRef s = tile_ref(op->args[0]), d = tile_ref(op->args[1]);
	int64_t kept = 1 - attr_int(op, AT_AXIS, 0);
	if (s.rank != 2 || d.rank != 1 || s.shape[kept] != d.shape[0])
		bad(v, op, "%s does not reduce to %s along axis %lld", type_text(v->t->arena, op->args[0]->type),
			type_text(v->t->arena, op->args[1]->type), (long long)(1 - kept));
}

static void check_scan(Verifier *v, const Op *op)
{
	static const char *const kinds[] = { "sum", "prod", NULL };
	need_word(v, op, AT_KIND, kinds);
	if (need_space(v, op, 0, TY_FRAG))
		need_range(v, op, AT_AXIS, 0, op->args[0]->type.rank - 1);
}

static void check_wait_operands(Verifier *v, const Op *op)
{
	need_range(v, op, AT_N, 0, 63);
	for (int i = 0; i < op->nargs; i++)
		need_kind(v, op, i, TY_FRAG);
}

/* ---- control ---- */

static void check_role(Verifier *v, const Op *op)
{
	if (tir_enclosing(op, OP_ROLE) || tir_enclosing(op, OP_ONCE))
		bad(v, op, "inside a role or `once`");
}

static void check_parallel(Verifier *v, const Op *op)
{
	const Attr *extents = attr_get(op, AT_EXTENTS);
	if (op->regions[0] && extents->n != op->regions[0]->nargs)
		bad(v, op, "%d {extents} for %d indices", extents->n, op->regions[0]->nargs);
}

static void check_yield(Verifier *v, const Op *op)
{
	const Op *owner = op->parent->owner;
	need_scalar(v, op, 0, DT_BOOL);
	if (owner->code != OP_WHILE || op->parent != owner->regions[0] || op->next)
		bad(v, op, "does not end the condition of a `while`");
}

static void check_control(Verifier *v, const Op *op)
{
	switch (op->code) {
	case OP_KERNEL: need_range(v, op, AT_THREADS, 1, v->t->machine->threads); break;
	case OP_ROLE: check_role(v, op); break;
	case OP_FOR: for (int i = 0; i < 3; i++) need_scalar(v, op, i, DT_I32); break;
	case OP_IF: need_scalar(v, op, 0, DT_BOOL); break;
	case OP_WHILE:
		if (!op->regions[0] || !op->regions[0]->last || op->regions[0]->last->code != OP_YIELD)
			bad(v, op, "the condition does not end in yield");
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
				bad(v, op, "region %d is missing", i);
			continue;
		}
		if (op->code == OP_PARALLEL ? r->nargs < 1 : r->nargs != want)
			bad(v, op, "%d region arguments", r->nargs);
		for (int k = 0; k < r->nargs; k++)
			if (!is_scalar(r->args[k], DT_I32))
				bad(v, op, "region argument %d is not i32", k);
	}
}

/* Conditions in an element loop are masks, so its body has no control flow. */
static bool parallel_allows(const Op *op)
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
		bad(v, op, "the result is %s", type_text(v->t->arena, op->result->type));
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

static void check_barrier_use(Verifier *v, const Op *op)
{
	switch (op->code) {
	case OP_WAIT_PARITY: need_int(v, op, 2); /* fall through */
	case OP_ARRIVE:
		if (op->nargs > 2)
			need_int(v, op, 2); /* fall through */
	case OP_WAIT: need_kind(v, op, 0, TY_MBARRIER); need_int(v, op, 1); break;
	default:
		if (op->nargs)
			need_kind(v, op, 0, TY_BARRIER);
	}
}

static void check_vote(Verifier *v, const Op *op)
{
	static const char *const kinds[] = { "any", "all", NULL };
	need_word(v, op, AT_KIND, kinds);
	need_scalar(v, op, 0, DT_BOOL);
	need_result(v, op, DT_BOOL);
}

static void check_pick(Verifier *v, const Op *op)
{
	const Op *array = op->args[0]->def;
	bool barriers = array && (array->code == OP_MBARRIER || array->code == OP_BARRIER) && attr_int(array, AT_ARRAY, 0) > 0;
	if (!barriers)
		bad(v, op, "operand 0 is no array of barriers");
	else if (!type_equal(op->result->type, op->args[0]->type))
		bad(v, op, "the result is %s", type_text(v->t->arena, op->result->type));
	need_int(v, op, 1);
}

static void check_debug(Verifier *v, const Op *op)
{
	for (int i = 0; i < op->nargs; i++)
		need_kind(v, op, i, TY_SCALAR);
	if (op->code == OP_ASSERT)
		need_scalar(v, op, 0, DT_BOOL);
	if (attr_int(op, AT_OTHERWISE, 0) && (!op->result || !op->nargs || !type_equal(op->args[op->nargs - 1]->type, op->result->type)))
		bad(v, op, "the value on the CPU device is not of the result's type");
	const char *why = op->code == OP_PTX ? ptx_text_error(v->t->arena, attr_text(op, AT_TEXT, ""), op->nargs + (op->result != NULL)) : NULL;
	if (why)
		bad(v, op, "%s", why);
}

static void check_op(Verifier *v, const Op *op)
{
	switch (op->code) {
	case OP_TENSOR: case OP_SHARED: case OP_FRAG: case OP_VAR: case OP_MBARRIER: case OP_BARRIER: check_decl(v, op); break;
	case OP_GRID: for (int i = 0; i < op->nargs; i++) need_int(v, op, i); break;
	case OP_VIEW: check_view(v, op); break;
	case OP_PICK: check_pick(v, op); break;
	case OP_VOTE: check_vote(v, op); break;
	case OP_GET: case OP_SET: check_var(v, op); break;
	case OP_LOAD: check_element(v, op, 0, op->result->type.dtype); break;
	case OP_STORE: check_store(v, op); break;
	case OP_ATOMIC: check_atomic(v, op); break;
	case OP_FILL: check_fill(v, op); break;
	case OP_COPY: check_copy(v, op); break;
	case OP_MMA: check_mma(v, op); break;
	case OP_REDUCE: check_reduce(v, op); break;
	case OP_SCAN: check_scan(v, op); break;
	case OP_TMA_LOAD: case OP_TMA_STORE: case OP_BULK_LOAD: case OP_BULK_STORE: case OP_CP_ASYNC: check_transfer(v, op); break;
	case OP_WGMMA_WAIT: check_wait_operands(v, op); break;
	case OP_STORE_WAIT: case OP_CP_ASYNC_WAIT: break;
	case OP_ARRIVE: case OP_WAIT: case OP_WAIT_PARITY: case OP_SYNC: case OP_SYNC_ARRIVE: check_barrier_use(v, op); break;
	case OP_STAMP: need_kind(v, op, 0, TY_TENSOR); need_int(v, op, 1); break;
	case OP_PRINT: case OP_ASSERT: case OP_PTX: check_debug(v, op); break;
	default:
		if (op_info(op->code)->effect == FX_CONTROL)
			check_control(v, op);
		else
			check_scalar(v, op);
	}
}

static bool result_kind_ok(const Op *op)
{
	const Value *r = op->result;
	switch (op_info(op->code)->result) {
	case RES_NONE: return !r;
	case RES_SCALAR: return r && r->type.kind == TY_SCALAR;
	case RES_OBJECT: return r && r->type.kind >= TY_VAR && r->type.kind <= TY_FRAG;
	case RES_VIEW: return r && is_view(r);
	case RES_MAYBE: return !r || r->type.kind == TY_SCALAR;
	}
	return false;
}

/* The row of ops.def; the checks after it rely on these. */
static bool check_row(Verifier *v, const Op *op)
{
	const OpInfo *info = op_info(op->code);
	if (op->nargs < info->min_args || (info->max_args >= 0 && op->nargs > info->max_args))
		return bad(v, op, "%d operands", op->nargs);
	if (!result_kind_ok(op))
		return bad(v, op, "the result is %s", op->result ? type_text(v->t->arena, op->result->type) : "missing");
	for (int i = info->regions; i < 2; i++)
		if (op->regions[i])
			return bad(v, op, "has a region too many");
	if (!op->parent && op->code != OP_KERNEL)
		return bad(v, op, "is in no region");
	if (op->parent && op->code == OP_KERNEL)
		return bad(v, op, "inside a kernel");
	return true;
}

static bool check_attr(Verifier *v, const Op *op, const Attr *a)
{
	static const char *const kinds[] = { "an integer", "a real", "a text", "a list" };
	const AttrInfo *info = attr_info(a->id);
	if (v->attrs[op->code][a->id] == USE_NEVER)
		return bad(v, op, "has no attribute {%s}", info->text);
	if (a->kind != info->kind)
		return bad(v, op, "{%s} is %s, not %s", info->text, kinds[a->kind], kinds[info->kind]);
	int n = a->kind == ATTR_LIST ? a->n : a->kind == ATTR_INT;
	for (int k = 0; k < n; k++) {
		int64_t i = a->kind == ATTR_LIST ? a->list[k] : a->i;
		if (i < info->lo || i > info->hi)
			return bad(v, op, "{%s} is %lld, not in %lld to %lld", info->text, (long long)i, (long long)info->lo, (long long)info->hi);
	}
	return true;
}

/* The attributes that ops.def gives it, of the kinds and ranges of attrs.def. */
static bool check_attrs(Verifier *v, const Op *op)
{
	int required = v->required[op->code];
	for (const Attr *a = op->attrs; a; a = a->next) {
		required -= v->attrs[op->code][a->id] == USE_REQUIRED;
		if (!check_attr(v, op, a))
			return false;
	}
	for (int id = 0; required && id < ATTR_IDS; id++)
		if (v->attrs[op->code][id] == USE_REQUIRED && !attr_get(op, (AttrId)id))
			return bad(v, op, "{%s} is missing", attr_info((AttrId)id)->text);
	return true;
}

static bool check_visible(Verifier *v, const Op *op)
{
	for (int i = 0; i < op->nargs; i++) {
		const Value *a = op->args[i];
		if (!a || a->id >= v->ids || v->visible[a->id] != a)
			return bad(v, op, "operand %d (%%%u) is not visible here", i, a ? a->id : 0);
	}
	return true;
}

static void show(Verifier *v, const Op *op, Value *value)
{
	if (value->id >= v->ids || v->visible[value->id])
		bad(v, op, "%%%u is not a fresh id", value->id);
	else
		v->visible[value->id] = value;
}

static void hide(Verifier *v, const Value *value)
{
	if (value->id < v->ids && v->visible[value->id] == value)
		v->visible[value->id] = NULL;
}

static void verify_region(Verifier *v, Region *r);

/* Stops at the first ill-formed op: what uses its result could not be checked. */
static void verify_op(Verifier *v, Op *op)
{
	if (check_row(v, op) && check_attrs(v, op) && check_visible(v, op)) {
		if (op->parent)
			check_decl_place(v, op);
		if (op->parent && op->parent->owner->code == OP_PARALLEL && !parallel_allows(op))
			bad(v, op, "inside an element loop");
		check_op(v, op);
		check_region_args(v, op);
	}
	if (op->result && op->result->def != op)
		bad(v, op, "the result belongs to another op");
	for (int i = 0; i < 2 && v->sound; i++)
		if (op->regions[i])
			verify_region(v, op->regions[i]);
}

static void verify_region(Verifier *v, Region *r)
{
	for (int i = 0; i < r->nargs; i++)
		show(v, r->owner, r->args[i]);
	for (Op *op = r->first; op && v->sound; op = op->next) {
		if (op->parent != r || (op->next && op->next->prev != op))
			bad(v, op, "is linked into another region");
		verify_op(v, op);
		if (op->result)
			show(v, op, op->result);
	}
	for (const Op *op = r->first; op; op = op->next)
		if (op->result)
			hide(v, op->result);
	for (int i = 0; i < r->nargs; i++)
		hide(v, r->args[i]);
}

bool tir_verify(const Tir *t)
{
	Verifier v = { .t = t, .ids = t->next_id, .sound = true };
	for (int op = 0; op < OP_COUNT; op++)
		for (int id = 0; id < ATTR_IDS; id++)
			v.required[op] += (v.attrs[op][id] = (uint8_t)op_attr_use((Opcode)op, (AttrId)id)) == USE_REQUIRED;
	v.visible = calloc((size_t)t->next_id + 1, sizeof *v.visible);
	if (!v.visible)
		abort();
	for (Op *k = t->first; k && v.sound; k = k->next)
		verify_op(&v, k);
	free(v.visible);
	return v.sound;
}
