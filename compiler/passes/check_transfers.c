/* check_transfers - needs: {layout} and {offset} of shared tiles.  Establishes: the
 * boxes of TMA and the bytes of bulk copies lie in both memories as the hardware
 * moves them, as far as they are known: what only the launch knows is checked by
 * the CPU device.  Changes nothing. */
#include "compiler/analysis/index.h"
#include "compiler/passes/pass.h"

#include <string.h>

typedef struct Checker {
	Tir *t;
	bool ok;
} Checker;

static Diags *diags(Checker *c)
{
	c->ok = false;
	return c->t->diags;
}

/* ---- strides, starts ---- */

/* The constant step of a dimension in elements; false when only the launch knows it. */
static bool step_of(const Op *object, int i, int64_t *step)
{
	const Type *ty = &object->result->type;
	int64_t n;
	*step = 1;
	if (object->code == OP_TENSOR && object->nargs == 2 * ty->rank)
		return value_const_int(tensor_stride(object, i), step);
	if (object->code == OP_SHARED && i == 0 && attr_int(object, AT_RING, 0) > 0) {
		*step = attr_int(object, AT_STAGE_BYTES, 0) / dtype_bytes(ty->dtype);
		return true;
	}
	for (int k = ty->rank - 1; k > i; k--) {
		n = ty->shape[k];
		if (object->code == OP_TENSOR && !value_const_int(tensor_extent(object, k), &n))
			return false;
		*step = wrapped_product(*step, n);
	}
	return true;
}

/* Each dimension with several elements steps over exactly what is inside it. */
static bool dense(const TileRef *r)
{
	int64_t inside = 1, step;
	for (int i = r->object_rank - 1, j = r->rank - 1; i >= 0; i--) {
		int64_t n = r->dims[i] < 0 ? 1 : r->shape[j--];
		if (n == 1)
			continue;
		if (!step_of(r->object, i, &step) || step != inside)
			return false;
		inside = wrapped_product(inside, n);
	}
	return !r->trans;
}

/* (v step) modulo m. */
static bool product_residue(const Value *v, int64_t step, int64_t m, int64_t *r)
{
	int64_t power = (int64_t)((uint64_t)step & -(uint64_t)step);
	*r = 0;
	if (!v || power <= 0 || power >= m)
		return true;
	if (!value_residue(v, m / power, r))
		return false;
	*r = wrapped_product(*r, step) & (m - 1);
	return true;
}

/* The first byte of a shared view modulo m, where that is known. */
static bool first_byte(const TileRef *s, int64_t m, int64_t *r)
{
	int last = s->object_rank - 1, bytes = (int)dtype_bytes(s->dtype);
	int64_t panel = swizzle_bytes(s->object), step, part;
	*r = attr_int(s->object, AT_OFFSET, 0);
	for (int d = 0; d <= last; d++) {
		if (!step_of(s->object, d, &step))
			return false;
		step = wrapped_product(step, bytes);
		if (panel && d == last) /* whole panels */
			step = s->object->result->type.shape[last - 1] * bytes;
		else if (panel && d == last - 1)
			step = panel;
		if (!product_residue(s->start[d], step, m, &part))
			return false;
		*r += part;
	}
	*r &= m - 1;
	return true;
}

static void check_first_byte(Checker *c, const Op *op, const TileRef *s, int64_t align, DiagCode code, const char *what)
{
	int64_t past;
	if (first_byte(s, align, &past) && past)
		diag_error(diags(c), op->loc, code, "the view of '%s' begins %lld bytes past a multiple of %lld; %s needs a multiple",
			object_name(s->object), (long long)past, (long long)align, what);
}

/* ---- the box in global memory ---- */

/* The box of a view: one extent per dimension of the tensor. */
static bool box_extents(Checker *c, const Op *op, const TileRef *g, int64_t *box)
{
	for (int i = 0, j = 0; i < g->object_rank; i++) {
		box[i] = g->dims[i] < 0 ? 1 : g->dims[i] > 0 ? g->dims[i] : g->shape[j];
		j += g->dims[i] >= 0;
		if (box[i] < 0) {
			diag_error(diags(c), op->loc, E_TMA, "dimension %d of '%s' has a run-time extent; TMA moves boxes of constant extents", i,
				object_name(g->object));
			diag_help(c->t->diags, "take a slice: [start +: extent]");
			return false;
		}
	}
	return true;
}

static const int64_t MOST_STEP = ((int64_t)1 << 40) - 16; /* bytes, in a tensor map */

static void check_strides(Checker *c, const Op *op, const TileRef *g)
{
	int inner = g->object_rank - 1;
	int64_t step;
	if (step_of(g->object, inner, &step) && step != 1)
		diag_error(diags(c), op->loc, E_TMA, "the inner dimension of '%s' steps by %lld elements; TMA needs 1", object_name(g->object),
			(long long)step);
	for (int i = 0; i < inner; i++) {
		if (!step_of(g->object, i, &step))
			continue;
		if (step < 0 || step > MOST_STEP / (int64_t)dtype_bytes(g->dtype)) {
			diag_error(diags(c), op->loc, E_TMA, "dimension %d of '%s' steps by %lld elements of %u bytes; TMA needs 0 to 2^40 - 16 bytes", i,
				object_name(g->object), (long long)step, dtype_bytes(g->dtype));
			return;
		}
		if (step * dtype_bytes(g->dtype) % 16 == 0)
			continue;
		diag_error(diags(c), op->loc, E_TMA, "dimension %d of '%s' steps by %lld bytes; TMA needs a multiple of 16", i, object_name(g->object),
			(long long)(step * dtype_bytes(g->dtype)));
		return;
	}
}

static void check_box(Checker *c, const Op *op, const TileRef *g, const TileRef *s, const int64_t *box)
{
	int inner = g->object_rank - 1, rank = g->object_rank;
	int64_t bytes = box[inner] * dtype_bytes(g->dtype), panel = swizzle_bytes(s->object);
	const char *name = object_name(g->object);
	if (bytes % 16 != 0)
		diag_error(diags(c), op->loc, E_TMA, "the inner rows of '%s' are %lld bytes; TMA needs a multiple of 16", name, (long long)bytes);
	bool panels = panel && bytes > panel;
	if (rank + panels > c->t->machine->box_rank)
		diag_error(diags(c), op->loc, E_TMA, "'%s' has %d dimensions; TMA takes %d%s", name, rank, c->t->machine->box_rank - panels,
			panels ? " when the tile has several panels" : "");
	for (int i = 0; i < rank; i++) {
		int64_t extent = i == inner && panels ? panel / dtype_bytes(g->dtype) : box[i];
		if (extent <= c->t->machine->box_extent)
			continue;
		diag_error(diags(c), op->loc, E_TMA, "the box takes %lld of dimension %d of '%s'; TMA takes at most %d", (long long)extent, i, name,
			c->t->machine->box_extent);
		if (i == inner && !panel)
			diag_help(diags(c), "a tile whose rows are a multiple of 8, of 32 bytes each or a multiple, is swizzled and goes by panels; else move '%s' in parts", object_name(s->object));
	}
}

/* The innermost coordinate times the element size: else the GPU ends in an illegal instruction. */
static void check_column(Checker *c, const Op *op, const TileRef *g)
{
	int64_t past, bytes = dtype_bytes(g->dtype);
	if (product_residue(g->start[g->object_rank - 1], bytes, c->t->machine->transfer_unit, &past) && past)
		diag_error(diags(c), op->loc, E_TMA, "the box begins %lld bytes past a multiple of %d in the rows of '%s'; TMA needs a multiple",
			(long long)past, c->t->machine->transfer_unit, object_name(g->object));
}

/* A limit takes a dimension of the map and counts whole steps of one that is not the innermost. */
static void check_limit(Checker *c, const Op *op, const TileRef *g)
{
	int d = first_slice(g), inner = g->object_rank - 1;
	if (d < 0)
		diag_error(diags(c), op->loc, E_TMA, "a limit on a view of '%s' without a slice", object_name(g->object));
	else if (d == inner) {
		diag_error(diags(c), op->loc, E_TMA, "the limit is on the innermost dimension of '%s'; TMA ends a box between rows", object_name(g->object));
		diag_help(c->t->diags, op->code == OP_TMA_LOAD ? "cp_async and copy have limits on elements" : "copy has limits on elements");
	} else if (g->object_rank >= c->t->machine->box_rank)
		diag_error(diags(c), op->loc, E_TMA, "'%s' has %d dimensions; TMA takes %d with a limit", object_name(g->object), g->object_rank, c->t->machine->box_rank - 1);
}

/* ---- the box in shared memory ---- */

static void not_dense(Checker *c, const Op *op, const TileRef *s)
{
	diag_error(diags(c), op->loc, E_TMA, "the rows of the view of '%s' do not lie one after the other, as TMA puts those of a box",
		object_name(s->object));
	diag_help(c->t->diags, "take whole rows, or give the part a tile of its own");
}

/* Whether only the last two dimensions of the tile have more than one element in the view. */
static bool one_plane(const TileRef *s)
{
	for (int d = 0, k = 0; d < s->object_rank - 2; d++)
		if (s->dims[d] >= 0 && s->shape[k++] != 1)
			return false;
	return true;
}

static bool whole_panels(Checker *c, const Op *op, const TileRef *s)
{
	int last = s->object_rank - 1;
	int64_t columns = swizzle_bytes(s->object) / (int64_t)dtype_bytes(s->dtype), r = 0;
	bool known = s->dims[last] == 0 || value_residue(s->start[last], columns, &r);
	if (known && r == 0 && s->dims[last] >= 0 && s->dims[last] % columns == 0)
		return true;
	diag_error(diags(c), op->loc, E_TMA, "the view of '%s' %s a panel of %lld columns, as its layout has them (%s)", object_name(s->object),
		known ? "takes part of" : "may begin inside of", (long long)columns, layout_name(c->t, s->object));
	if (known)
		diag_help(c->t->diags, "take whole panels, or give the part a tile of its own");
	else
		diag_help(c->t->diags, "write the first column as %lld * i", (long long)columns);
	return false;
}

/* A box fills its rows one after the other: those of a tile, or of one panel after the other. */
static void check_shared(Checker *c, const Op *op, const TileRef *s)
{
	const Type *ty = &s->object->result->type;
	int64_t panel = swizzle_bytes(s->object), row = ty->shape[ty->rank - 1] * dtype_bytes(ty->dtype);
	if (panel && ty->rank - (attr_int(s->object, AT_RING, 0) > 0) < 2) {
		diag_error(diags(c), op->loc, E_TMA, "'%s' has one dimension, whose layout for TMA is linear", object_name(s->object));
		return;
	}
	if (panel && !whole_panels(c, op, s))
		return;
	if (panel && row > panel ? !one_plane(s) : !dense(s))
		not_dense(c, op, s);
	else
		check_first_byte(c, op, s, c->t->machine->transfer_align, E_TMA, "TMA");
}

/* ---- TMA ---- */

/* Loads may begin before the tensor; a store that does is an illegal instruction. */
static void check_begin(Checker *c, const Op *op, const TileRef *g)
{
	int64_t at;
	for (int d = 0; d < g->object_rank; d++)
		if (g->start[d] && value_const_int(g->start[d], &at) && at < 0)
			diag_error(diags(c), op->loc, E_TMA, "the store begins at index %lld of dimension %d of '%s'; only loads begin before the tensor",
				(long long)at, d, object_name(g->object));
}

/* What the hardware adds and the CPU device has. */
static void check_sum(Checker *c, const Op *op, const TileRef *g)
{
	static const DType added[] = { DT_F32, DT_F16, DT_BF16, DT_I32, DT_U32 };
	for (size_t i = 0; i < sizeof added / sizeof *added; i++)
		if (g->dtype == added[i])
			return;
	diag_error(diags(c), op->loc, E_TMA, "TMA adds f32, f16, bf16, i32 and u32; '%s' is of %s", object_name(g->object), dtype_name(g->dtype));
}

static void check_tma(Checker *c, const Op *op)
{
	bool load = op->code == OP_TMA_LOAD;
	TileRef g = tile_ref(operand(op, load ? ARG_SOURCE : ARG_TARGET)), s = tile_ref(operand(op, load ? ARG_TARGET : ARG_SOURCE));
	int64_t box[TIR_MAX_RANK];
	if (g.trans || s.trans) {
		diag_error(diags(c), op->loc, E_TMA, "TMA does not transpose");
		return;
	}
	if (!g.object_rank || !box_extents(c, op, &g, box))
		return;
	check_box(c, op, &g, &s, box);
	check_strides(c, op, &g);
	check_column(c, op, &g);
	if (!load)
		check_begin(c, op, &g);
	if (attr_get(op, AT_REDUCE))
		check_sum(c, op, &g);
	if (operand(op, ARG_LIMIT))
		check_limit(c, op, &g);
	check_shared(c, op, &s);
}

/* ---- bulk copies ---- */

/* Whether a view has parts of the rows of a swizzled tile, or of those of several panels. */
static bool cuts_panels(const TileRef *r)
{
	const Type *ty = &r->object->result->type;
	int64_t panel = r->space == TY_SHARED ? swizzle_bytes(r->object) : 0;
	if (!panel || ty->rank < 2)
		return false;
	return r->dims[ty->rank - 1] != 0 || (ty->shape[ty->rank - 1] * dtype_bytes(ty->dtype) > panel && r->dims[ty->rank - 2] != 0);
}

static bool contiguous(const TileRef *r) { return dense(r) && !cuts_panels(r); }

static void check_bulk(Checker *c, const Op *op)
{
	bool load = op->code == OP_BULK_LOAD;
	TileRef g = tile_ref(operand(op, load ? ARG_SOURCE : ARG_TARGET)), s = tile_ref(operand(op, load ? ARG_TARGET : ARG_SOURCE));
	int64_t from = tile_bytes(&g), to = tile_bytes(&s);
	if (from < 0)
		diag_error(diags(c), op->loc, E_BULK, "the view of '%s' has a run-time extent", object_name(g.object));
	else if (!contiguous(&g))
		diag_error(diags(c), op->loc, E_BULK, "the elements of '%s' are not contiguous", object_name(g.object));
	else if (!contiguous(&s))
		diag_error(diags(c), op->loc, E_BULK, "the view of '%s' is not contiguous", object_name(s.object));
	else if (from != to)
		diag_error(diags(c), op->loc, E_BULK, "%lld bytes of '%s', %lld of '%s'", (long long)from, object_name(g.object), (long long)to,
			object_name(s.object));
	else if (to % 16 != 0)
		diag_error(diags(c), op->loc, E_BULK, "%lld bytes are not a multiple of 16", (long long)to);
	else
		check_first_byte(c, op, &s, c->t->machine->transfer_unit, E_BULK, "a bulk copy");
}

/* ---- the kernel ---- */

static bool check_op(Op *op, void *user)
{
	if (op->code == OP_TMA_LOAD || op->code == OP_TMA_STORE)
		check_tma(user, op);
	else if (op->code == OP_BULK_LOAD || op->code == OP_BULK_STORE)
		check_bulk(user, op);
	return op->code != OP_PARALLEL;
}

bool pass_check_transfers(Tir *t)
{
	Checker c = { .t = t, .ok = true };
	for (Op *k = t->first; k; k = k->next)
		tir_walk(k->regions[0], check_op, &c);
	return c.ok;
}
