/* check_products - needs: {layout} of shared tiles, {inst} of products.
 * Establishes: products have shapes, types and operands that their instructions
 * can read.  Changes nothing. */
#include "compiler/passes/pass.h"

#include <stdarg.h>

typedef struct Checker {
	Tir *t;
	bool ok;
} Checker;

typedef struct Shape {
	TileRef d, a, b;
	int64_t m, n, k;
	const Product *kind; /* NULL: the machine has none of these types */
} Shape;

__attribute__((format(printf, 4, 5)))
static void product_error(Checker *c, const Op *op, DiagCode code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	const char *text = arena_vprintf(c->t->arena, fmt, ap);
	va_end(ap);
	tir_error(c->t, op, code, "%s", text);
	c->ok = false;
}

__attribute__((format(printf, 2, 3)))
static void product_help(Checker *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	diag_help(c->t->diags, "%s", arena_vprintf(c->t->arena, fmt, ap));
	va_end(ap);
}

static bool has_kind(const Product *k, bool wgmma) { return wgmma ? k->wgmma : k->mma_sync; }

/* "bf16 @ bf16, ... into f32; i8 @ i8, ... into i32": what there is. */
static const char *kinds_text(Checker *c, bool wgmma)
{
	const Machine *m = c->t->machine;
	const Product *before = NULL;
	const char *text = "";
	for (const Product *k = m->products; k < m->products + m->nproducts; k++) {
		if (!has_kind(k, wgmma))
			continue;
		const char *between = !before ? "" : before->d == k->d ? ", " : arena_printf(c->t->arena, " into %s; ", dtype_name(before->d));
		text = arena_printf(c->t->arena, "%s%s%s @ %s", text, between, dtype_name(k->a), dtype_name(k->b));
		before = k;
	}
	return before ? arena_printf(c->t->arena, "%s into %s", text, dtype_name(before->d)) : text;
}

static void check_types(Checker *c, const Op *op, const Shape *p, DiagCode code)
{
	bool wgmma = code == E_WGMMA_SHAPE;
	const Product *k = p->kind;
	if (!k || !has_kind(k, wgmma) || p->d.dtype != k->d) {
		product_error(c, op, code, "there is no product %s @ %s into %s", dtype_name(p->a.dtype), dtype_name(p->b.dtype), dtype_name(p->d.dtype));
		product_help(c, "products of %s: %s", wgmma ? "warpgroups" : "a warp", kinds_text(c, wgmma));
		return;
	}
	if (p->k % k->k != 0)
		product_error(c, op, code, "K is %lld, not a multiple of %d as %s needs", (long long)p->k, k->k, dtype_name(k->a));
	if (p->n % 8 != 0)
		product_error(c, op, code, "N is %lld, not a multiple of 8", (long long)p->n);
	else if (k->few_columns && p->n % 16 != 0 && p->n != 8 && p->n != 24)
		product_error(c, op, code, "N is %lld; as %s needs it is 8, 24 or a multiple of 16", (long long)p->n, dtype_name(k->a));
	if (!k->negates && attr_int(op, AT_ACC, 0) < 0)
		product_error(c, op, code, "a product of %s cannot be subtracted", dtype_name(k->a));
}

static void check_wgmma_operands(Checker *c, const Op *op, const Shape *p)
{
	const Product *k = p->kind;
	const char *type = dtype_name(p->a.dtype);
	if (p->b.space != TY_SHARED)
		product_error(c, op, E_WGMMA_SHAPE, "the right operand '%s' is not in shared memory", object_name(p->b.object));
	if (p->a.space == TY_FRAG && p->a.trans)
		product_error(c, op, E_WGMMA_SHAPE, "the left operand '%s' is transposed but in registers", object_name(p->a.object));
	if (p->a.space == TY_FRAG && k && !k->a_in_registers)
		product_error(c, op, E_WGMMA_SHAPE, "the left operand '%s' in registers is %s, not of 16 or 8 bits", object_name(p->a.object), type);
	if (k && !k->both_majors && p->b.space == TY_SHARED && !p->b.trans)
		product_error(c, op, E_WGMMA_SHAPE, "%s needs the right operand stored [N][K] and '.T'", type);
	if (k && !k->both_majors && p->a.trans)
		product_error(c, op, E_WGMMA_SHAPE, "%s needs the left operand stored [M][K]", type);
}

static void check_wgmma(Checker *c, const Op *op, const Shape *p)
{
	const Op *team = tir_team(op);
	int warps = team_warps(team);
	if (warps < 4 || warps % 4 != 0 || attr_int(team, AT_FIRST_WARP, 0) % 4 != 0) {
		product_error(c, op, E_WGMMA_SHAPE, "a warpgroup product by a team of %d warps; it needs whole warpgroups", warps);
		return;
	}
	if (p->m % (16 * warps) != 0)
		product_error(c, op, E_WGMMA_SHAPE, "M is %lld, not a multiple of %d (64 rows for each of %d warpgroups)", (long long)p->m, 16 * warps, warps / 4);
	check_types(c, op, p, E_WGMMA_SHAPE);
	check_wgmma_operands(c, op, p);
}

static void check_mma_sync(Checker *c, const Op *op, const Shape *p)
{
	if (p->m != 16)
		product_error(c, op, E_MMA_SHAPE, "M is %lld; a warp's product has 16 rows", (long long)p->m);
	if (p->a.space != TY_FRAG || p->b.space != TY_FRAG || !p->a.warp_scope || !p->b.warp_scope)
		product_error(c, op, E_MMA_SHAPE, "the operands of a warp's product are warp fragments");
	if (p->a.trans)
		product_error(c, op, E_MMA_SHAPE, "the left operand '%s' is transposed", object_name(p->a.object));
	check_types(c, op, p, E_MMA_SHAPE);
}

static int64_t start_of(const TileRef *r, int d)
{
	int64_t start = 0;
	if (r->start[d])
		value_const_int(r->start[d], &start);
	return start;
}

/* Parts of fragments are whole blocks of the `mma` layout: 8 columns, and 8 rows of a warp or all rows of warpgroups. */
static void check_part(Checker *c, const Op *op, const TileRef *r)
{
	if (r->space != TY_FRAG || r->object_rank != 2)
		return;
	bool wgmma = mma_is_wgmma(op);
	DiagCode code = wgmma ? E_WGMMA_SHAPE : E_MMA_SHAPE;
	if (start_of(r, 1) % 8 != 0)
		product_error(c, op, code, "the part of '%s' starts at column %lld, not at a multiple of 8", object_name(r->object), (long long)start_of(r, 1));
	if (wgmma && r->dims[0] > 0 && r->dims[0] != r->object->result->type.shape[0])
		product_error(c, op, code, "%lld rows of '%s'; a warpgroup's product takes all of a fragment", (long long)r->dims[0], object_name(r->object));
	if (!wgmma && start_of(r, 0) % 8 != 0)
		product_error(c, op, code, "the part of '%s' starts at row %lld, not at a multiple of 8", object_name(r->object), (long long)start_of(r, 0));
}

/* ---- operands in shared memory ---- */

static bool constant_start(const TileRef *r, int d, int64_t *start)
{
	*start = 0;
	return !r->start[d] || value_const_int(r->start[d], start);
}

/* Where a constant start in a panel's rows is wrong: panels are what descriptors step through, and a step of K or of 64 rows of M, or
 * the whole of N, must not begin in one and end in the next.  `columns` are those that one such piece takes. */
static void check_columns(Checker *c, const Op *op, const TileRef *r, int64_t start, int64_t columns, bool steps)
{
	int64_t bytes = dtype_bytes(r->dtype), panel = swizzle_bytes(r->object), in = start * bytes % panel, step = 32;
	const char *name = object_name(r->object);
	if (in * 8 % 128 != 0) {
		product_error(c, op, E_WGMMA_SHAPE, "'%s' is read from column %lld on; wgmma reads from multiples of %lld", name, (long long)start,
			(long long)(16 / bytes));
		return;
	}
	if (in == 0 || in + columns * bytes <= panel || (steps && in % step == 0))
		return;
	product_error(c, op, E_WGMMA_SHAPE, "columns %lld to %lld of '%s' begin inside a panel of %lld columns and end in another", (long long)start,
		(long long)(start + columns - 1), name, (long long)(panel / bytes));
	product_help(c, "wgmma reads from a multiple of %lld columns here", (long long)((steps ? step : panel) / bytes));
}

/* `along`: the view's dimension, 0 or 1, that is K. */
static void check_shared_operand(Checker *c, const Op *op, const TileRef *r, int along)
{
	int R = r->object_rank;
	int64_t row, col;
	if (r->space != TY_SHARED || r->rank != 2 || R < 2 || !swizzle_bytes(r->object))
		return;
	if (r->dims[R - 1] < 0 || r->dims[R - 2] < 0) {
		product_error(c, op, E_WGMMA_SHAPE, "'%s' is indexed in one of its last two dimensions, which are the rows and columns that wgmma reads",
			object_name(r->object));
		product_help(c, "declare it with the dimension that is indexed first");
		return;
	}
	bool k_major = (along == 1) != r->trans;
	if (constant_start(r, R - 2, &row) && row % 8 != 0)
		product_error(c, op, E_WGMMA_SHAPE, "'%s' is read from row %lld on; wgmma reads from multiples of 8", object_name(r->object), (long long)row);
	if (constant_start(r, R - 1, &col))
		check_columns(c, op, r, col, r->shape[r->trans ? 0 : 1], k_major);
}

/* ---- products ---- */

static void check_product(Checker *c, const Op *op)
{
	Shape p = { .d = tile_ref(operand(op, ARG_D)), .a = tile_ref(operand(op, ARG_A)), .b = tile_ref(operand(op, ARG_B)) };
	p.m = p.d.shape[0];
	p.n = p.d.shape[1];
	p.k = p.a.shape[1];
	p.kind = machine_product(c->t->machine, p.a.dtype, p.b.dtype);
	const TileRef *operands[] = { &p.d, &p.a, &p.b };
	for (int i = 0; i < 3; i++)
		check_part(c, op, operands[i]);
	if (mma_is_wgmma(op)) {
		check_wgmma(c, op, &p);
		check_shared_operand(c, op, &p.a, 1);
		check_shared_operand(c, op, &p.b, 0);
	} else {
		check_mma_sync(c, op, &p);
	}
}

static bool visit(Op *op, void *user)
{
	if (op->code == OP_MMA)
		check_product(user, op);
	return op->code != OP_PARALLEL;
}

bool pass_check_products(Tir *t)
{
	Checker c = { t, true };
	for (Op *k = t->first; k; k = k->next)
		tir_walk(k->regions[0], visit, &c);
	return c.ok;
}
