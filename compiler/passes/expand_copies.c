/* expand_copies - needs: layouts, {inst} of copies.  Establishes: copies that no matrix
 * instruction makes, and fills, are element loops; those with a limit of large
 * tiles two, one without masks where the tile is whole. */
#include "compiler/analysis/layout.h"
#include "compiler/passes/pass.h"

#include <string.h>

static Value *loop_index_value(Tir *t, Region *body, Loc loc, Value *arg, Value *start)
{
	if (!start)
		return arg;
	if (start->type.dtype == DT_I64) {
		Op *c = tir_op(t, OP_CAST, loc, type_scalar(DT_I64), 1, &arg);
		tir_append(body, c);
		arg = c->result;
	}
	Op *add = tir_op(t, OP_ADD, loc, type_scalar(start->type.dtype), 2, (Value *[]){ arg, start });
	tir_append(body, add);
	return add->result;
}

/* What the tiles of a copy have in common: they agree but for dimensions of one element. */
typedef struct Extents { int rank; int64_t shape[TIR_MAX_RANK]; } Extents;

static bool has_extents(const TileRef *r, const Extents *x)
{
	bool same = r->rank == x->rank;
	for (int i = 0; i < r->rank && same; i++)
		same = r->shape[i] < 0 || r->shape[i] == x->shape[i];
	return same;
}

/* Those of the fragment f, whose layout they have, or of the target. */
static Extents common_extents(const TileRef *s, const TileRef *d, const TileRef *f)
{
	Extents x = { .rank = f ? f->rank : d->rank }, proper = { 0 };
	memcpy(x.shape, f ? f->shape : d->shape, sizeof x.shape);
	for (int i = 0; i < x.rank; i++)
		if (x.shape[i] < 0 && s)
			x.shape[i] = s->shape[i];
	if (f || (x.rank <= 2 && (!s || has_extents(s, &x))))
		return x;
	for (int i = 0; i < x.rank; i++)
		if (x.shape[i] != 1)
			proper.shape[proper.rank++] = x.shape[i];
	return proper.rank ? proper : (Extents){ 1, { 1 } };
}

/* The dimension of x that each one of r is; -1: r has one element there. */
static void match_extents(const TileRef *r, const Extents *x, int *of)
{
	bool same = has_extents(r, x);
	for (int k = 0, j = 0; k < r->rank; k++) {
		while (!same && j < x->rank && x->shape[j] == 1)
			j++;
		of[k] = !same && r->shape[k] == 1 ? -1 : j++;
	}
}

static Value *append_const(Tir *t, Region *r, Loc loc, int64_t v)
{
	Op *c = tir_op(t, OP_CONST, loc, type_scalar(DT_I32), 0, NULL);
	attr_set_int(t, c, AT_VALUE, v);
	tir_append(r, c);
	return c->result;
}

/* Index operands of tile r at loop position args[0 .. rank). */
static int element_operands(Tir *t, Region *body, Loc loc, const TileRef *r, const Extents *x, Value **args, Value **out)
{
	int of[TIR_MAX_RANK], k = 0;
	match_extents(r, x, of);
	for (int d = 0; d < r->object_rank; d++) {
		if (r->dims[d] == -1) {
			out[d] = r->start[d];
			continue;
		}
		int pos = r->trans && k >= r->rank - 2 ? (k == r->rank - 1 ? r->rank - 2 : r->rank - 1) : k;
		if (of[pos] >= 0)
			out[d] = loop_index_value(t, body, loc, args[of[pos]], r->start[d]);
		else
			out[d] = r->start[d] ? r->start[d] : append_const(t, body, loc, 0);
		k++;
	}
	return r->object_rank;
}

typedef struct ElementCopy {
	Tir *t;
	Op *loop;
	Extents extents; /* of its tiles */
	Value *index[2];
} ElementCopy;

static ElementCopy begin_loop(Tir *t, const Op *op, const Extents *x, int64_t rows, bool warp_scope, const Form *layout)
{
	ElementCopy c = { .t = t, .extents = *x };
	int rank = x->rank;
	int64_t shape[2] = { rows, x->shape[1] };
	c.loop = tir_op(t, OP_PARALLEL, op->loc, type_none(), 0, NULL);
	attr_set_list(t, c.loop, AT_EXTENTS, rank, shape);
	attr_set_layout(t, c.loop, layout);
	if (warp_scope)
		attr_set_int(t, c.loop, AT_WARP_SCOPE, 1);
	Region *body = tir_region(t, c.loop, 0);
	for (int i = 0; i < rank; i++)
		c.index[i] = tir_region_arg(t, body, type_scalar(DT_I32), NULL);
	return c;
}

/* Widest default layout of a copy without fragments. */
static const Form *plain_layout(Tir *t, const Op *op, const TileRef *a, const TileRef *b, int rank, const int64_t *shape)
{
	int bytes = (int)dtype_bytes(a->dtype) > (int)dtype_bytes(b->dtype) ? (int)dtype_bytes(a->dtype) : (int)dtype_bytes(b->dtype);
	int w = 16 / bytes, threads = t->machine->warp * team_warps(tir_team(op));
	int64_t n = rank == 2 ? shape[0] * shape[1] : shape[0];
	while (w > 1 && (shape[rank - 1] % w != 0 || n / w < threads))
		w /= 2;
	return rank == 2 ? form_blocked(t->arena, 1, w) : form_blocked_line(t->arena, w);
}

/* v as a value of type t. */
static Value *cast_to(ElementCopy *c, const Op *op, Value *v, DType t)
{
	if (v->type.dtype == t)
		return v;
	Op *cast = tir_op(c->t, OP_CAST, op->loc, type_scalar(t), 1, &v);
	tir_append(c->loop->regions[0], cast);
	return cast->result;
}

/* index < bound */
static Value *below(ElementCopy *c, const Op *op, Value *index, Value *bound)
{
	DType t = index->type.dtype == DT_I64 || bound->type.dtype == DT_I64 ? DT_I64 : DT_I32;
	Value *xy[2] = { cast_to(c, op, index, t), cast_to(c, op, bound, t) };
	Op *cmp = tir_op(c->t, OP_CMP, op->loc, type_scalar(DT_BOOL), 2, xy);
	attr_set_text(c->t, cmp, AT_PRED, "lt");
	tir_append(c->loop->regions[0], cmp);
	return cmp->result;
}

/* Some rows of a fragment whose layout has whole slices of rows: the loop goes over all of them, with a mask. */
typedef struct RowPart { bool is; int64_t first, n, all; } RowPart;

static RowPart row_part(const Op *op, const TileRef *f)
{
	if (!f || f->rank != 2 || f->trans || f->dims[0] <= 0 || !mma_columns(attr_layout(f->object)))
		return (RowPart){ 0 };
	RowPart p = { true, 0, f->shape[0], f->object->result->type.shape[0] };
	int64_t slice = f->warp_scope ? 16 : 64, groups = f->warp_scope ? 1 : team_warps(tir_team(op)) / 4;
	value_const_int(f->start[0], &p.first);
	p.is = p.n < p.all && (groups > 1 || p.first % slice != 0 || p.n % slice != 0);
	return p;
}

static Value *append_binary(ElementCopy *c, const Op *op, Opcode code, Value *a, int64_t b)
{
	Region *body = c->loop->regions[0];
	Op *x = tir_op(c->t, code, op->loc, type_scalar(code == OP_CMP ? DT_BOOL : DT_I32), 2,
		(Value *[]){ a, append_const(c->t, body, op->loc, b) });
	tir_append(body, x);
	return x->result;
}

static Value *both_masks(ElementCopy *c, const Op *op, Value *a, Value *b)
{
	if (!a || !b)
		return a ? a : b;
	Op *both = tir_op(c->t, OP_AND, op->loc, type_scalar(DT_BOOL), 2, (Value *[]){ a, b });
	tir_append(c->loop->regions[0], both);
	return both->result;
}

/* first <= the fragment's row < first + n */
static Value *part_mask(ElementCopy *c, const Op *op, const RowPart *p)
{
	Value *m[2] = { append_binary(c, op, OP_CMP, c->index[0], p->first), append_binary(c, op, OP_CMP, c->index[0], p->first + p->n) };
	attr_set_text(c->t, m[0]->def, AT_PRED, "ge");
	attr_set_text(c->t, m[1]->def, AT_PRED, "lt");
	return both_masks(c, op, m[0], m[1]);
}

/* Index operands of one of the copy's tiles: of the fragment with a row part all rows, of the other the part's. */
static int tile_operands(ElementCopy *c, const Op *op, const TileRef *r, const RowPart *p, Value **out)
{
	TileRef whole = *r;
	Value *args[2] = { c->index[0], c->index[1] };
	if (p->is && r->space == TY_FRAG)
		whole.start[0] = NULL;
	else if (p->is)
		args[0] = append_binary(c, op, OP_SUB, args[0], p->first);
	return element_operands(c->t, c->loop->regions[0], op->loc, &whole, &c->extents, args, out);
}

static void append_access(ElementCopy *c, Op *access, const TileRef *r, bool masked)
{
	if (masked)
		attr_set_int(c->t, access, AT_MASKED, 1);
	if (r->warp_scope)
		attr_set_int(c->t, access, AT_WARP_SCOPE, 1);
	tir_append(c->loop->regions[0], access);
}

static Value *append_load(ElementCopy *c, const Op *op, const TileRef *s, const RowPart *part, Value *mask)
{
	Value *ops[1 + TIR_MAX_RANK + 1] = { s->object->result };
	int n = 1 + tile_operands(c, op, s, part, ops + 1);
	if (mask)
		ops[n++] = mask;
	Op *load = tir_op(c->t, OP_LOAD, op->loc, type_scalar(s->dtype), n, ops);
	append_access(c, load, s, mask != NULL);
	return load->result;
}

static void append_store(ElementCopy *c, const Op *op, const TileRef *d, const RowPart *part, Value *v, Value *mask)
{
	Value *ops[2 + TIR_MAX_RANK + 1] = { cast_to(c, op, v, d->dtype), d->object->result };
	int n = 2 + tile_operands(c, op, d, part, ops + 2);
	if (mask)
		ops[n++] = mask;
	append_access(c, tir_op(c->t, OP_STORE, op->loc, type_none(), n, ops), d, mask != NULL);
}

static bool is_limited(const TileRef *r) { return r && r->space == TY_TENSOR && first_slice(r) >= 0; }

/* Where the first slice of a global tile is below the limit; NULL: it has none. */
static Value *limit_mask(ElementCopy *c, const Op *op, const TileRef *g, const RowPart *part, Value *limit)
{
	Value *index[TIR_MAX_RANK];
	if (!limit || !is_limited(g))
		return NULL;
	tile_operands(c, op, g, part, index);
	return below(c, op, index[first_slice(g)], limit);
}

/* Tiles in registers have been asked by infer_layouts. */
static bool can_be_spread(Tir *t, const Op *op, const Form *layout, int rank, const int64_t *shape, int warps)
{
	const char *why;
	if (layout_of(t->arena, layout, rank, shape, warps, &why))
		return true;
	tir_error(t, op, E_LAYOUT, "the elements of this %s cannot be spread over the threads: %s", op->code == OP_FILL ? "fill" : "copy", why);
	if (warps & (warps - 1))
		diag_help(t->diags, "a team that copies or fills tiles has 1, 2, 4, 8, 16 or 32 warps: put them into a role of so many");
	else
		diag_help(t->diags, "extents of what threads copy or fill are powers of two: use TMA, or parts of the tile");
	return false;
}

/* The loop; NULL: a copy by threads has one or two dimensions, views index the others away. */
static Op *element_loop(Tir *t, const Op *op, const TileRef *s, const TileRef *d, Value *scalar, Value *limit)
{
	const TileRef *f = d->space == TY_FRAG ? d : s && s->space == TY_FRAG ? s : NULL;
	Extents x = common_extents(s, d, f);
	int rank = x.rank;
	if (rank < 1 || rank > 2) {
		tir_error(t, op, E_UNSUPPORTED, "a copy by threads has one or two dimensions, not %d", rank);
		return NULL;
	}
	RowPart part = row_part(op, f);
	int64_t shape[2] = { part.is ? part.all : x.shape[0], rank == 2 ? x.shape[1] : 0 };
	const Form *layout = f ? attr_layout(f->object) : plain_layout(t, op, s ? s : d, d, rank, shape);
	bool warp_scope = f && f->warp_scope;
	if (!can_be_spread(t, op, layout, rank, shape, warp_scope ? 1 : team_warps(tir_team(op))))
		return NULL;
	ElementCopy c = begin_loop(t, op, &x, shape[0], warp_scope, layout);
	Value *in_part = part.is ? part_mask(&c, op, &part) : NULL, *reads = limit_mask(&c, op, s, &part, limit), *writes = limit_mask(&c, op, d, &part, limit);
	Value *v = scalar;
	if (s) /* of a fragment all rows exist */
		v = append_load(&c, op, s, &part, s->space == TY_FRAG ? NULL : both_masks(&c, op, reads, in_part));
	append_store(&c, op, d, &part, v, both_masks(&c, op, writes, in_part));
	return c.loop;
}

/* ---- limits ---- */

static Value *insert(Tir *t, Op *before, Opcode code, Type type, int n, Value *const *args)
{
	Op *op = tir_op(t, code, before->loc, type, n, args);
	tir_insert_before(before, op);
	return op->result;
}

static Value *wide(Tir *t, Op *before, Value *v)
{
	return v->type.dtype == DT_I64 ? v : insert(t, before, OP_CAST, type_scalar(DT_I64), 1, &v);
}

/* start + extent <= limit on a global view's first sliced axis; NULL: it has none. */
static Value *within_limit(Tir *t, Op *copy, const TileRef *g, Value *limit)
{
	int d = first_slice(g);
	if (!is_limited(g))
		return NULL;
	Value *sum[2] = { wide(t, copy, g->start[d]), insert(t, copy, OP_CONST, type_scalar(DT_I64), 0, NULL) };
	attr_set_int(t, sum[1]->def, AT_VALUE, g->dims[d]);
	Value *sides[2] = { insert(t, copy, OP_ADD, type_scalar(DT_I64), 2, sum), wide(t, copy, limit) };
	Value *whole = insert(t, copy, OP_CMP, type_scalar(DT_BOOL), 2, sides);
	attr_set_text(t, whole->def, AT_PRED, "le");
	return whole;
}

/* Whole tiles without a mask for each row; few elements are not worth two copies of the code. */
static bool worth_two(const Op *op, const TileRef *s, const TileRef *d)
{
	const TileRef *g = is_limited(s) ? s : d;
	int64_t n = 1, few = 4 * 32 * (s->warp_scope || d->warp_scope ? 1 : team_warps(tir_team(op)));
	for (int i = 0; i < g->rank; i++)
		n *= g->shape[i];
	return n > few;
}

static bool put(Op *before, Region *into, Op *loop)
{
	if (!loop)
		return false;
	if (into)
		tir_append(into, loop);
	else
		tir_insert_before(before, loop);
	return true;
}

static bool expand_limited(Tir *t, Op *op, const TileRef *s, const TileRef *d)
{
	bool two = worth_two(op, s, d);
	Value *reads = two ? within_limit(t, op, s, operand(op, ARG_LIMIT)) : NULL, *writes = two ? within_limit(t, op, d, operand(op, ARG_LIMIT)) : NULL;
	Value *whole = reads && writes ? insert(t, op, OP_AND, type_scalar(DT_BOOL), 2, (Value *[]){ reads, writes }) : reads ? reads : writes;
	if (!whole)
		return put(op, NULL, element_loop(t, op, s, d, NULL, operand(op, ARG_LIMIT)));
	Op *either = tir_op(t, OP_IF, op->loc, type_none(), 1, &whole);
	tir_insert_before(op, either);
	return put(op, tir_region(t, either, 0), element_loop(t, op, s, d, NULL, NULL))
		&& put(op, tir_region(t, either, 1), element_loop(t, op, s, d, NULL, operand(op, ARG_LIMIT)));
}

static bool expand(Tir *t, Op *op)
{
	TileRef d = tile_ref(operand(op, ARG_TARGET));
	if (op->code == OP_FILL)
		return put(op, NULL, element_loop(t, op, NULL, &d, operand(op, ARG_VALUE), NULL));
	TileRef s = tile_ref(operand(op, ARG_SOURCE));
	return operand(op, ARG_LIMIT) ? expand_limited(t, op, &s, &d) : put(op, NULL, element_loop(t, op, &s, &d, NULL, NULL));
}

static bool by_elements(const Op *op)
{
	const char *inst = op->code == OP_COPY ? attr_text(op, AT_INST, "") : "";
	return op->code == OP_FILL || (op->code == OP_COPY && strcmp(inst, "ldmatrix") != 0 && strcmp(inst, "stmatrix") != 0);
}

static bool expand_region(Tir *t, Region *r)
{
	bool ok = true;
	for (Op *op = r->first, *next; op && ok; op = next) {
		next = op->next;
		if (by_elements(op)) {
			ok = expand(t, op);
			tir_remove(op);
			continue;
		}
		for (int i = 0; i < 2 && op->code != OP_PARALLEL; i++)
			ok &= !op->regions[i] || expand_region(t, op->regions[i]);
	}
	return ok;
}

bool pass_expand_copies(Tir *t)
{
	bool ok = true;
	for (Op *k = t->first; k; k = k->next)
		ok &= expand_region(t, k->regions[0]);
	return ok;
}
