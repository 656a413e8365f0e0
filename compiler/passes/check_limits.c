/* check_limits - needs: all passes before it.  Establishes: threads, roles,
 * register budgets and product shapes are what the hardware can do.  Changes
 * nothing. */
#include "compiler/liveness.h"
#include "compiler/passes/pass.h"

#include <string.h>

enum {
	MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / 32, SM_REGISTERS = 65536, THREAD_REGISTERS = 255,
	MAX_PARAMETERS = 1024 /* of the runtime: runtime/src/meta.c */
};

typedef struct Checker {
	Tir *t;
	Op *kernel;
	int warps;
	Op *owner[MAX_WARPS]; /* the role of each warp, or NULL */
	bool ok;
} Checker;

static Diags *diags(Checker *c)
{
	c->ok = false;
	return c->t->diags;
}

static const char *role_name(const Op *role)
{
	return attr_text(role, "name", "");
}

/* ---- threads and roles ---- */

static void check_threads(Checker *c)
{
	int64_t threads = attr_int(c->kernel, "threads", 0);
	if (threads % 32 != 0 || threads < 32 || threads > MAX_THREADS)
		diag_error(diags(c), c->kernel->loc, E_THREADS, "threads (%lld) is not a multiple of 32 up to %d", (long long)threads, MAX_THREADS);
	c->warps = (int)(threads / 32);
}

static void claim_warp(Checker *c, Op *role, int warp)
{
	if (c->owner[warp] && c->owner[warp] != role) {
		diag_error(diags(c), role->loc, E_ROLE, "role `%s` has warp %d, which role `%s` has too", role_name(role), warp,
			role_name(c->owner[warp]));
		diag_note(c->t->diags, c->owner[warp]->loc, "`%s` is here", role_name(c->owner[warp]));
	}
	c->owner[warp] = role;
}

static bool check_role(Op *op, void *user)
{
	Checker *c = user;
	if (op->code != OP_ROLE)
		return op->code != OP_PARALLEL;
	int first = (int)attr_int(op, "first_warp", 0);
	int end = first + (int)(attr_int(op, "warps", 1) * attr_int(op, "instances", 1));
	if (end > c->warps) {
		diag_error(diags(c), op->loc, E_ROLE, "role `%s` has warps %d to %d, the CTA has %d warps", role_name(op), first, end - 1, c->warps);
		end = c->warps;
	}
	for (int w = first; w < end && w < MAX_WARPS && c->ok; w++)
		claim_warp(c, op, w);
	return false;
}

static void check_parameters(Checker *c)
{
	int n = 0;
	for (const Op *op = c->kernel->regions[0]->first; op; op = op->next)
		n += op->code == OP_TENSOR || op->code == OP_DIM || op->code == OP_PARAM;
	if (n > MAX_PARAMETERS)
		diag_error(diags(c), c->kernel->loc, E_LIMIT, "kernel `%s` has %d parameters and dims; a launch takes at most %d",
			role_name(c->kernel), n, MAX_PARAMETERS);
}

/* ---- setmaxnreg ---- */

static int64_t occupancy(const Checker *c)
{
	int64_t n = attr_int(c->kernel, "occupancy", 1);
	return n > 0 ? n : 1;
}

/* Registers of a thread when the kernel starts. */
static int64_t launch_registers(const Checker *c)
{
	int64_t n = SM_REGISTERS / (c->warps * 32) / occupancy(c) / 8 * 8;
	return n > THREAD_REGISTERS ? THREAD_REGISTERS / 8 * 8 : n;
}

static bool check_setmaxnreg(Op *op, void *user)
{
	Checker *c = user;
	if (op->code != OP_ROLE)
		return op->code != OP_PARALLEL;
	const Attr *a = attr_get(op, "setmaxnreg");
	if (a && (a->i % 8 != 0 || a->i < 24 || a->i > 240))
		diag_error(diags(c), op->loc, E_SETMAXNREG, "setmaxnreg(%lld) is not a multiple of 8 from 24 to 240", (long long)a->i);
	return false;
}

/* The role that says what a warpgroup's registers are; all its roles must agree. */
static const Op *group_role(Checker *c, int group)
{
	const Op *first = NULL;
	for (int w = 4 * group; w < 4 * group + 4 && w < c->warps; w++) {
		const Op *role = c->owner[w];
		if (!role || role == first)
			continue;
		if (first && attr_int(role, "setmaxnreg", 0) != attr_int(first, "setmaxnreg", 0)) {
			diag_error(diags(c), role->loc, E_SETMAXNREG, "roles `%s` and `%s` share warpgroup %d but not setmaxnreg (%lld, %lld)",
				role_name(first), role_name(role), group, (long long)attr_int(first, "setmaxnreg", 0), (long long)attr_int(role, "setmaxnreg", 0));
			diag_note(c->t->diags, first->loc, "`%s` is here", role_name(first));
			return first;
		}
		first = role;
	}
	return first;
}

static void check_register_sum(Checker *c)
{
	int64_t sum = 0, limit = launch_registers(c) * ((c->warps + 3) / 4); /* raising one beyond what others gave back never returns */
	const char *terms = "";
	bool any = false;
	const Op *last = NULL;
	for (int g = 0; g * 4 < c->warps; g++) {
		const Op *role = group_role(c, g);
		int64_t regs = role ? attr_int(role, "setmaxnreg", 0) : 0;
		any |= regs > 0;
		last = regs > 0 ? role : last;
		regs = regs > 0 ? regs : launch_registers(c);
		sum += regs;
		terms = arena_printf(c->t->arena, "%s%s%lld", terms, g ? " + " : "", (long long)regs);
	}
	if (any && sum > limit) {
		diag_error(diags(c), last->loc, E_SETMAXNREG, "the warpgroups ask for %s = %lld registers a lane, a CTA has %lld", terms, (long long)sum,
			(long long)limit);
		diag_help(c->t->diags, "a warpgroup without setmaxnreg keeps the %lld it starts with", (long long)launch_registers(c));
	}
}

/* ---- fragments ---- */

static void check_pressure(Checker *c, const Op *team)
{
	Pressure p = fragment_pressure(c->t, team);
	int64_t limit = attr_int(team, "setmaxnreg", launch_registers(c));
	if (limit > THREAD_REGISTERS)
		limit = THREAD_REGISTERS;
	if (p.registers <= limit)
		return;
	bool role = team->code == OP_ROLE;
	diag_warning(c->t->diags, team->loc, E_REGISTERS, "fragments of %s `%s` take %lld registers a thread, of %lld", role ? "role" : "kernel",
		role_name(team), (long long)p.registers, (long long)limit);
	for (int i = 0; i < PRESSURE_LARGEST && p.largest[i]; i++)
		diag_note(c->t->diags, p.largest[i]->loc, "`%s` is %lld", object_name(p.largest[i]),
			(long long)fragment_registers(c->t, p.largest[i], team));
}

static bool visit_team(Op *op, void *user)
{
	if (op->code == OP_ROLE)
		check_pressure(user, op);
	return op->code != OP_ROLE && op->code != OP_PARALLEL;
}

/* ---- products ---- */

typedef struct Product {
	TileRef d, a, b;
	int64_t m, n, k;
	DType dtype;
} Product;

__attribute__((format(printf, 4, 5)))
static void product_error(Checker *c, const Op *op, DiagCode code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	const char *text = arena_vprintf(c->t->arena, fmt, ap);
	va_end(ap);
	diag_error(diags(c), op->loc, code, "%s", text);
}

static void check_types(Checker *c, const Op *op, const Product *p, DiagCode code)
{
	bool known = p->dtype == DT_BF16 || p->dtype == DT_F16 || p->dtype == DT_TF32;
	int64_t step = p->dtype == DT_TF32 ? 8 : 16;
	if (p->a.dtype != p->b.dtype || !known || p->d.dtype != DT_F32)
		product_error(c, op, code, "%s @ %s into %s: the operands are both bf16, f16 or tf32, the result f32", dtype_name(p->a.dtype),
			dtype_name(p->b.dtype), dtype_name(p->d.dtype));
	else if (p->k % step != 0)
		product_error(c, op, code, "K is %lld, not a multiple of %lld as %s needs", (long long)p->k, (long long)step, dtype_name(p->dtype));
	if (p->n % 8 != 0)
		product_error(c, op, code, "N is %lld, not a multiple of 8", (long long)p->n);
}

static void check_wgmma_operands(Checker *c, const Op *op, const Product *p)
{
	if (p->b.space != TY_SHARED)
		product_error(c, op, E_WGMMA_SHAPE, "the right operand `%s` is not in shared memory", object_name(p->b.object));
	if (p->a.space == TY_FRAG && p->a.trans)
		product_error(c, op, E_WGMMA_SHAPE, "the left operand `%s` is transposed but in registers", object_name(p->a.object));
	if (p->a.space == TY_FRAG && dtype_bits(p->a.dtype) != 16)
		product_error(c, op, E_WGMMA_SHAPE, "the left operand `%s` in registers is %s, not of 16 bits", object_name(p->a.object),
			dtype_name(p->a.dtype));
	if (p->dtype == DT_TF32 && p->b.space == TY_SHARED && !p->b.trans)
		product_error(c, op, E_WGMMA_SHAPE, "tf32 needs the right operand stored [N][K] and `.T`");
	if (p->dtype == DT_TF32 && p->a.trans)
		product_error(c, op, E_WGMMA_SHAPE, "tf32 needs the left operand stored [M][K]");
}

static void check_wgmma(Checker *c, const Op *op, const Product *p)
{
	const Op *team = tir_team(op);
	int warps = team_warps(team);
	if (warps < 4 || warps % 4 != 0 || attr_int(team, "first_warp", 0) % 4 != 0) {
		product_error(c, op, E_WGMMA_SHAPE, "a warpgroup product by a team of %d warps; it needs whole warpgroups", warps);
		return;
	}
	if (p->m % (16 * warps) != 0)
		product_error(c, op, E_WGMMA_SHAPE, "M is %lld, not a multiple of %d (64 rows for each of %d warpgroups)", (long long)p->m, 16 * warps, warps / 4);
	check_types(c, op, p, E_WGMMA_SHAPE);
	check_wgmma_operands(c, op, p);
}

static void check_mma_sync(Checker *c, const Op *op, const Product *p)
{
	if (p->m != 16)
		product_error(c, op, E_MMA_SHAPE, "M is %lld; a warp's product has 16 rows", (long long)p->m);
	if (p->a.space != TY_FRAG || p->b.space != TY_FRAG || !p->a.warp_scope || !p->b.warp_scope)
		product_error(c, op, E_MMA_SHAPE, "the operands of a warp's product are warp fragments");
	if (p->a.trans)
		product_error(c, op, E_MMA_SHAPE, "the left operand `%s` is transposed", object_name(p->a.object));
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
		product_error(c, op, code, "the part of `%s` starts at column %lld, not at a multiple of 8", object_name(r->object), (long long)start_of(r, 1));
	if (wgmma && r->dims[0] > 0 && r->dims[0] != r->object->result->type.shape[0])
		product_error(c, op, code, "%lld rows of `%s`; a warpgroup's product takes all of a fragment", (long long)r->dims[0], object_name(r->object));
	if (!wgmma && start_of(r, 0) % 8 != 0)
		product_error(c, op, code, "the part of `%s` starts at row %lld, not at a multiple of 8", object_name(r->object), (long long)start_of(r, 0));
}

static void check_product(Checker *c, const Op *op)
{
	Product p = { .d = tile_ref(op->args[0]), .a = tile_ref(op->args[1]), .b = tile_ref(op->args[2]) };
	p.m = p.d.shape[0];
	p.n = p.d.shape[1];
	p.k = p.a.shape[1];
	p.dtype = p.a.dtype;
	const TileRef *operands[] = { &p.d, &p.a, &p.b };
	for (int i = 0; i < 3; i++)
		check_part(c, op, operands[i]);
	if (mma_is_wgmma(op))
		check_wgmma(c, op, &p);
	else
		check_mma_sync(c, op, &p);
}

/* ---- the kernel ---- */

static bool check_op(Op *op, void *user)
{
	if (op->code == OP_MMA)
		check_product(user, op);
	return op->code != OP_PARALLEL;
}

static void check_registers(Checker *c)
{
	tir_walk(c->kernel->regions[0], check_setmaxnreg, c);
	check_register_sum(c);
	check_pressure(c, c->kernel);
	tir_walk(c->kernel->regions[0], visit_team, c);
}

bool pass_check_limits(Tir *t)
{
	bool ok = true;
	for (Op *k = t->first; k; k = k->next) {
		Checker c = { .t = t, .kernel = k, .ok = true };
		check_parameters(&c);
		check_threads(&c);
		if (c.ok)
			tir_walk(k->regions[0], check_role, &c);
		if (c.ok)
			check_registers(&c);
		tir_walk(k->regions[0], check_op, &c);
		ok &= c.ok;
	}
	return ok;
}
