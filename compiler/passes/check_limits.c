/* check_limits - needs: all passes before it.  Establishes: threads, roles,
 * register budgets are what the hardware can do.  Changes nothing. */
#include "compiler/analysis/liveness.h"
#include "compiler/passes/pass.h"

enum { MAX_PARAMETERS = 1024 /* of the runtime: runtime/src/meta.c */ };

typedef struct Checker {
	Tir *t;
	Op *kernel;
	int warps;
	Op **owner; /* the role of each warp, or NULL */
	bool ok;
} Checker;

static Diags *diags(Checker *c)
{
	c->ok = false;
	return c->t->diags;
}

static const char *role_name(const Op *role)
{
	return attr_text(role, AT_NAME, "");
}

/* ---- threads and roles ---- */

static void check_threads(Checker *c)
{
	const Machine *m = c->t->machine;
	int64_t threads = attr_int(c->kernel, AT_THREADS, 0);
	if (threads % m->warp != 0 || threads < m->warp || threads > m->threads)
		diag_error(diags(c), c->kernel->loc, E_THREADS, "threads (%lld) is not a multiple of %d up to %d", (long long)threads, m->warp, m->threads);
	int64_t ctas = attr_int(c->kernel, AT_OCCUPANCY, 1);
	if (c->ok && ctas * threads > m->sm_threads)
		diag_error(diags(c), c->kernel->loc, E_THREADS, "occupancy (%lld) of blocks of %lld threads: a multiprocessor has %d", (long long)ctas,
			(long long)threads, m->sm_threads);
	c->warps = (int)(threads / m->warp);
	c->owner = ARENA_ARRAY(c->t->arena, Op *, c->warps + 1);
}

static void claim_warp(Checker *c, Op *role, int warp)
{
	if (c->owner[warp] && c->owner[warp] != role) {
		diag_error(diags(c), role->loc, E_ROLE, "role '%s' has warp %d, which role '%s' has too", role_name(role), warp,
			role_name(c->owner[warp]));
		diag_note(c->t->diags, c->owner[warp]->loc, "'%s' is here", role_name(c->owner[warp]));
	}
	c->owner[warp] = role;
}

static bool check_role(Op *op, void *user)
{
	Checker *c = user;
	if (op->code != OP_ROLE)
		return op->code != OP_PARALLEL;
	int first = (int)attr_int(op, AT_FIRST_WARP, 0);
	int end = first + (int)(attr_int(op, AT_WARPS, 1) * attr_int(op, AT_INSTANCES, 1));
	if (end > c->warps) {
		diag_error(diags(c), op->loc, E_ROLE, "role '%s' has warps %d to %d, the CTA has %d warps", role_name(op), first, end - 1, c->warps);
		end = c->warps;
	}
	for (int w = first; w < end && c->ok; w++)
		claim_warp(c, op, w);
	return false;
}

/* What a launch passes, at their alignments, in the module's order. */
static void check_parameter_bytes(Checker *c)
{
	static const Opcode order[] = { OP_TENSOR, OP_DIM, OP_PARAM };
	const Machine *m = c->t->machine;
	int64_t bytes = 0, maps = attr_int(c->kernel, AT_MAPS, 0);
	for (int k = 0; k < 3; k++)
		for (const Op *op = c->kernel->regions[0]->first; op; op = op->next) {
			int64_t size = op->code == OP_TENSOR ? 8 : op->code == order[k] ? dtype_bytes(op->result->type.dtype) : 1;
			if (op->code == order[k])
				bytes = (bytes + size - 1) / size * size + size;
		}
	if (maps)
		bytes = (bytes + m->map_align - 1) / m->map_align * m->map_align + m->map_bytes * maps;
	if (bytes > m->parameter_bytes)
		diag_error(diags(c), c->kernel->loc, E_LIMIT, "the parameters of kernel '%s' take %lld bytes, %lld tensor maps of %d among them; a launch takes at most %d",
			role_name(c->kernel), (long long)bytes, (long long)maps, m->map_bytes, m->parameter_bytes);
}

static void check_parameters(Checker *c)
{
	int n = 0;
	for (const Op *op = c->kernel->regions[0]->first; op; op = op->next)
		n += op->code == OP_TENSOR || op->code == OP_DIM || op->code == OP_PARAM;
	if (n > MAX_PARAMETERS)
		diag_error(diags(c), c->kernel->loc, E_LIMIT, "kernel '%s' has %d parameters and dims; a launch takes at most %d",
			role_name(c->kernel), n, MAX_PARAMETERS);
	check_parameter_bytes(c);
}

/* ---- setmaxnreg ---- */

static bool check_setmaxnreg(Op *op, void *user)
{
	Checker *c = user;
	if (op->code != OP_ROLE)
		return op->code != OP_PARALLEL;
	const Attr *a = attr_get(op, AT_SETMAXNREG);
	const Machine *m = c->t->machine;
	if (a && (a->i % m->register_step != 0 || a->i < m->least_setmaxnreg || a->i > m->most_setmaxnreg))
		diag_error(diags(c), op->loc, E_SETMAXNREG, "setmaxnreg(%lld) is not a multiple of %d from %d to %d", (long long)a->i, m->register_step,
			m->least_setmaxnreg, m->most_setmaxnreg);
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
		if (first && attr_int(role, AT_SETMAXNREG, 0) != attr_int(first, AT_SETMAXNREG, 0)) {
			diag_error(diags(c), role->loc, E_SETMAXNREG, "roles '%s' and '%s' share warpgroup %d but not setmaxnreg (%lld, %lld)",
				role_name(first), role_name(role), group, (long long)attr_int(first, AT_SETMAXNREG, 0), (long long)attr_int(role, AT_SETMAXNREG, 0));
			diag_note(c->t->diags, first->loc, "'%s' is here", role_name(first));
			return first;
		}
		first = role;
	}
	return first;
}

/* What warps `part`, `part` + 4 .. ask for: they share a quarter of the SM.  Raising one beyond what others gave back never returns. */
static void check_quarter(Checker *c, int part, const char *which)
{
	int64_t sum = 0, start = launch_registers(c->t->machine, c->kernel), limit = 0;
	const char *terms = "";
	const Op *last = NULL;
	for (int w = part; w < c->warps; w += 4) {
		const Op *role = group_role(c, w / 4);
		int64_t regs = role ? attr_int(role, AT_SETMAXNREG, 0) : 0;
		last = regs > 0 ? role : last;
		regs = regs > 0 ? regs : start;
		sum += regs;
		limit += start;
		terms = arena_printf(c->t->arena, "%s%s%lld", terms, w > part ? " + " : "", (long long)regs);
	}
	if (!last || sum <= limit)
		return;
	diag_error(diags(c), last->loc, E_SETMAXNREG, "the %swarpgroups ask for %s = %lld registers a lane, a CTA of %d warps starts with %lld", which, terms,
		(long long)sum, c->warps, (long long)limit);
	diag_help(c->t->diags, "a warpgroup without setmaxnreg keeps the %lld it starts with", (long long)start);
}

static void check_register_sum(Checker *c)
{
	check_quarter(c, 0, "");
	if (c->ok && c->warps % 4 != 0 && c->warps > 4)
		check_quarter(c, 3, "whole ");
}

/* ---- fragments ---- */

static void check_pressure(Checker *c, const Op *team)
{
	Pressure p = fragment_pressure(c->t, team);
	int64_t limit = team_registers(c->t->machine, team);
	if (p.registers <= limit)
		return;
	bool role = team->code == OP_ROLE;
	diag_warning(c->t->diags, team->loc, E_REGISTERS, "fragments of %s '%s' take %lld registers a thread, of %lld", role ? "role" : "kernel",
		role_name(team), (long long)p.registers, (long long)limit);
	for (int i = 0; i < PRESSURE_LARGEST && p.largest[i]; i++)
		diag_note(c->t->diags, p.largest[i]->loc, "'%s' is %lld", object_name(p.largest[i]),
			(long long)fragment_registers(c->t, p.largest[i], team));
}

/* ptxas takes no wgmma without room for its accumulator and what it adds to it, neither in the role nor, whatever setmaxnreg says, at the launch. */
static bool check_wgmma_registers(Op *op, void *user)
{
	Checker *c = user;
	if (op->code != OP_MMA || !mma_is_wgmma(op))
		return op->code != OP_PARALLEL;
	const Op *team = tir_team(op);
	TileRef d = tile_ref(operand(op, ARG_D)), a = tile_ref(operand(op, ARG_A));
	int64_t have = team_registers(c->t->machine, team), n = wgmma_columns(c->t->machine, d.shape[1]);
	int64_t start = launch_registers(c->t->machine, c->kernel);
	int64_t need = n / 2 + c->t->machine->wgmma_registers + (a.space == TY_FRAG ? c->t->machine->wgmma_a_registers : 0);
	if (need > start) {
		diag_error(diags(c), op->loc, E_REGISTERS, "a product of %lld columns takes %lld registers a thread, kernel '%s' of %d warps starts with %lld",
			(long long)d.shape[1], (long long)need, role_name(c->kernel), c->warps, (long long)start);
		diag_help(c->t->diags, "setmaxnreg does not count here: fewer threads, or a product of fewer columns at a time");
	} else if (need > have) {
		diag_error(diags(c), op->loc, E_REGISTERS, "a product of %lld columns takes %lld registers a thread, %s '%s' has %lld", (long long)d.shape[1],
			(long long)need, team->code == OP_ROLE ? "role" : "kernel", role_name(team), (long long)have);
		diag_help(c->t->diags, "a higher setmaxnreg of the role, or a product of fewer columns at a time");
	}
	return false;
}

static bool visit_team(Op *op, void *user)
{
	if (op->code == OP_ROLE)
		check_pressure(user, op);
	return op->code != OP_ROLE && op->code != OP_PARALLEL;
}

/* ---- the kernel ---- */

static void check_registers(Checker *c)
{
	tir_walk(c->kernel->regions[0], check_setmaxnreg, c);
	check_register_sum(c);
	check_pressure(c, c->kernel);
	tir_walk(c->kernel->regions[0], visit_team, c);
	tir_walk(c->kernel->regions[0], check_wgmma_registers, c);
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
		ok &= c.ok;
	}
	return ok;
}
