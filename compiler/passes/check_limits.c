/* check_limits - needs: all passes before it.  Establishes: threads, roles,
 * register budgets are what the hardware can do.  Changes nothing. */
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

/* ---- the kernel ---- */

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
		ok &= c.ok;
	}
	return ok;
}
