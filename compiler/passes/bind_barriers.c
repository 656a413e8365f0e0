/* bind_barriers - needs: {layout} of fragments.  Establishes: {count} of mbarriers;
 * {threads} and {id} of named barriers, {sync_id} of roles whose team
 * synchronises, {id} of sync; {bytes} and {expect} of loads, with the
 * announcement merged into the arrive that follows them; {peers} of mbarriers
 * that other CTAs arrive at, and of kernels that have such or multicast. */
#include "compiler/analysis/bits.h"
#include "compiler/analysis/collective.h"
#include "compiler/analysis/flow.h"
#include "compiler/analysis/index.h"
#include "compiler/passes/pass.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROLES = 64, NAME_SIZE = 96 };

typedef struct Binder {
	Tir *t;
	Op *kernel;
	Op *roles[MAX_ROLES];
	int nroles;
	int next_id;       /* hardware barrier; 0 is the CTA's */
	const char *table; /* who has which id, for the error */
	bool ok;
} Binder;

static bool collect_role(Op *op, void *user)
{
	Binder *b = user;
	if (op->code == OP_ROLE && b->nroles < MAX_ROLES)
		b->roles[b->nroles++] = op;
	return op->code != OP_ROLE && op->code != OP_PARALLEL;
}

static int64_t role_warps(const Op *role)
{
	return attr_int(role, AT_WARPS, 1) * attr_int(role, AT_INSTANCES, 1);
}

/* ---- the roles a barrier names ---- */

static void unknown_role(Binder *b, const Op *barrier, const char *name)
{
	const char *names[MAX_ROLES];
	for (int i = 0; i < b->nroles; i++)
		names[i] = attr_text(b->roles[i], AT_NAME, "");
	tir_error(b->t, barrier, E_BARRIER, "'%s' is from '%s', which is no role of this kernel", object_name(barrier), name);
	const char *near = nearest_name(name, names, (unsigned)b->nroles);
	if (near)
		diag_help(b->t->diags, "did you mean '%s'?", near);
	b->ok = false;
}

/* A role of {from}: name, name[i] or name[*]. */
typedef struct Arriver {
	char name[NAME_SIZE];
	bool one;         /* instance of it: */
	int64_t instance; /* this one; -1: that with the number of the element */
} Arriver;

static bool next_arriver(const char **list, Arriver *a)
{
	if (!next_name(list, a->name, sizeof a->name))
		return false;
	char *open = strchr(a->name, '[');
	a->one = open != NULL;
	if (open) {
		a->instance = open[1] == '*' ? -1 : strtoll(open + 1, NULL, 10);
		*open = '\0';
	}
	return true;
}

static void check_instance(Binder *b, const Op *barrier, const Arriver *a, int64_t instances)
{
	int64_t elements = attr_int(barrier, AT_ARRAY, attr_int(barrier, AT_SLOTS, 1));
	if (a->instance < 0 ? elements == instances : a->instance < instances)
		return;
	if (a->instance < 0)
		tir_error(b->t, barrier, E_BARRIER, "'%s' has %lld elements, one for each instance of '%s', which has %lld instances",
			object_name(barrier), (long long)elements, a->name, (long long)instances);
	else
		tir_error(b->t, barrier, E_BARRIER, "'%s' is from instance %lld of role '%s', which has instances 0 to %lld",
			object_name(barrier), (long long)a->instance, a->name, (long long)instances - 1);
	b->ok = false;
}

/* Warps of the roles that `a` names; 0 when there is none. */
static int64_t warps_of(Binder *b, const Op *barrier, const Arriver *a)
{
	int64_t warps = 0;
	for (int i = 0; i < b->nroles; i++) {
		if (strcmp(attr_text(b->roles[i], AT_NAME, ""), a->name) != 0)
			continue;
		if (a->one)
			check_instance(b, barrier, a, attr_int(b->roles[i], AT_INSTANCES, 1));
		warps += a->one ? attr_int(b->roles[i], AT_WARPS, 1) : role_warps(b->roles[i]);
	}
	return warps;
}

static int64_t warps_from(Binder *b, const Op *barrier)
{
	const char *list = attr_text(barrier, AT_FROM, "");
	Arriver a;
	int64_t total = 0;
	while (next_arriver(&list, &a)) {
		int64_t warps = warps_of(b, barrier, &a);
		if (!warps)
			unknown_role(b, barrier, a.name);
		total += warps;
	}
	return total;
}

static bool team_listed(const Op *barrier, const Op *team)
{
	const char *list = attr_text(barrier, AT_FROM, "");
	Arriver a;
	while (next_arriver(&list, &a))
		if (team->code == OP_ROLE && strcmp(a.name, attr_text(team, AT_NAME, "")) == 0)
			return true;
	return false;
}

/* ---- arrivals ---- */

typedef struct Uses {
	Binder *b;
	const Op *barrier;
	const Op *wait, *arrive;
	bool remote; /* some arrive says at which CTA's */
	bool arrives[MAX_ROLES];
} Uses;

static void check_arriver(Binder *b, const Op *barrier, const Op *arrive)
{
	const Op *team = tir_team(arrive);
	if (!attr_get(barrier, AT_FROM) || team_listed(barrier, team))
		return;
	tir_error(b->t, arrive, E_BARRIER, "%s%s%s arrives at '%s', whose arrivals are from (%s)",
		team->code == OP_ROLE ? "role '" : "code outside roles", team->code == OP_ROLE ? attr_text(team, AT_NAME, "") : "",
		team->code == OP_ROLE ? "'" : "", object_name(barrier), attr_text(barrier, AT_FROM, ""));
	diag_note(b->t->diags, barrier->loc, "'%s' is declared here", object_name(barrier));
	b->ok = false;
}

static void note_arrival(Uses *u, const Op *op)
{
	for (int i = 0; i < u->b->nroles; i++)
		u->arrives[i] |= u->b->roles[i] == tir_team(op);
}

static bool visit_use(Op *op, void *user)
{
	Uses *u = user;
	bool at_barrier = op_awaits(op) == UNTIL_PHASE || op->code == OP_ARRIVE;
	bool mine = at_barrier && barrier_of(operand(op, ARG_BARRIER)) == u->barrier;
	if (mine && op->code != OP_ARRIVE && !u->wait)
		u->wait = op;
	if (mine && op->code == OP_ARRIVE) {
		u->arrive = op;
		u->remote |= operand(op, ARG_RANK) != NULL;
		note_arrival(u, op);
		check_arriver(u->b, u->barrier, op);
	}
	return op->code != OP_PARALLEL;
}

/* Of the roles in {from}, each arrives somewhere: a phase that one does not arrive at never completes. */
static void check_all_arrive(Binder *b, const Op *bar, const Uses *u)
{
	for (int i = 0; i < b->nroles; i++) {
		if (u->arrives[i] || !team_listed(bar, b->roles[i]))
			continue;
		diag_error(b->t->diags, u->wait->loc, E_BARRIER, "'%s' is waited for, but role '%s' does not arrive at it", object_name(bar), attr_text(b->roles[i], AT_NAME, ""));
		diag_note(b->t->diags, bar->loc, "'%s' is from (%s)", object_name(bar), attr_text(bar, AT_FROM, ""));
		b->ok = false;
	}
}

/* Where warps say at which CTA's barrier they arrive, those of every CTA of the cluster arrive at each. */
static void bind_mbarrier(Binder *b, Op *bar)
{
	Uses u = { .b = b, .barrier = bar };
	tir_walk(b->kernel->regions[0], visit_use, &u);
	int64_t ctas = u.remote ? attr_int(b->kernel, AT_CLUSTER, 1) : 1;
	if (u.remote)
		attr_set_int(b->t, b->kernel, AT_PEERS, 1);
	if (attr_get(bar, AT_FROM)) {
		int64_t warps = warps_from(b, bar);
		if (!attr_get(bar, AT_COUNT))
			attr_set_int(b->t, bar, AT_COUNT, warps * ctas);
	}
	if (u.wait && !u.arrive) {
		diag_error(b->t->diags, u.wait->loc, E_BARRIER, "'%s' is waited for, but nobody arrives at it", object_name(bar));
		diag_note(b->t->diags, bar->loc, "'%s' is declared here", object_name(bar));
		b->ok = false;
	} else if (u.wait && b->ok) {
		check_all_arrive(b, bar, &u);
	}
}

/* ---- hardware barriers ---- */

static int take_ids(Binder *b, const char *what, const char *name, int n)
{
	int first = b->next_id;
	b->next_id += n;
	b->table = arena_printf(b->t->arena, "%s, %d%s %s '%s'", b->table, first,
		n > 1 ? arena_printf(b->t->arena, " to %d", first + n - 1) : "", what, name);
	return first;
}

/* Votes, and reductions and scans across warps, synchronise their team, too. */
typedef struct FindSync { Arena *arena; bool found; } FindSync;

static bool find_sync(Op *op, void *user)
{
	FindSync *f = user;
	bool vote = op->code == OP_VOTE && !attr_int(op, AT_WARP_SCOPE, 0);
	f->found |= op->code == OP_SYNC ? !op->nargs : vote || collective_scratch(f->arena, op) > 0;
	return op->code != OP_PARALLEL;
}

static void bind_team(Binder *b, Op *role)
{
	FindSync f = { b->t->arena, false };
	if (attr_int(role, AT_WARPS, 1) < 2)
		return; /* one warp: __syncwarp */
	tir_walk(role->regions[0], find_sync, &f);
	if (!f.found)
		return;
	int n = (int)attr_int(role, AT_INSTANCES, 1);
	attr_set_int(b->t, role, AT_SYNC_ID, take_ids(b, "role", attr_text(role, AT_NAME, ""), n));
}

static bool visit_sync(Op *op, void *user)
{
	Uses *u = user;
	if ((op->code == OP_SYNC || op->code == OP_SYNC_ARRIVE) && op->nargs && barrier_of(operand(op, ARG_BARRIER)) == u->barrier) {
		u->wait = op->code == OP_SYNC && !u->wait ? op : u->wait;
		note_arrival(u, op);
	}
	return op->code != OP_PARALLEL;
}

static void bind_barrier(Binder *b, Op *bar)
{
	Uses u = { .b = b, .barrier = bar };
	tir_walk(b->kernel->regions[0], visit_sync, &u);
	int64_t warps = attr_get(bar, AT_FROM) ? warps_from(b, bar) : attr_int(bar, AT_COUNT, 1);
	if (warps > team_warps(b->kernel)) {
		tir_error(b->t, bar, E_BARRIER, "'%s' counts %lld warps, the CTA has %d", object_name(bar), (long long)warps,
			team_warps(b->kernel));
		b->ok = false;
	}
	if (u.wait && b->ok)
		check_all_arrive(b, bar, &u);
	attr_set_int(b->t, bar, AT_THREADS, 32 * warps);
	attr_set_int(b->t, bar, AT_ID, take_ids(b, "barrier", object_name(bar), (int)attr_int(bar, AT_ARRAY, 1)));
}

static void check_ids(Binder *b)
{
	if (b->next_id <= b->t->machine->named_barriers)
		return;
	tir_error(b->t, b->kernel, E_BARRIER, "the kernel needs %d hardware barriers, a CTA has %d", b->next_id,
		b->t->machine->named_barriers);
	diag_note(b->t->diags, b->kernel->loc, "%s", b->table);
	b->ok = false;
}

static bool set_sync_id(Op *op, void *user)
{
	Binder *b = user;
	if ((op->code == OP_SYNC || op->code == OP_SYNC_ARRIVE) && op->nargs)
		check_arriver(b, barrier_of(operand(op, ARG_BARRIER)), op);
	if (op->code == OP_SYNC && op->nargs)
		attr_set_int(b->t, op, AT_ID, attr_int(barrier_of(operand(op, ARG_BARRIER)), AT_ID, 0));
	else if (op->code == OP_SYNC && team_warps(tir_team(op)) > 1)
		attr_set_int(b->t, op, AT_ID, attr_int(tir_team(op), AT_SYNC_ID, 0));
	return op->code != OP_PARALLEL;
}

/* ---- transaction bytes ---- */

static bool is_load(const Op *op) { return op_lasts(op) == UNTIL_PHASE; }

static bool set_of_var(const Op *from, const Op *to, const Value *var)
{
	for (const Op *op = from; op && op != to; op = op->next)
		if ((op->code == OP_SET && operand(op, ARG_VAR) == var) || op->regions[0])
			return true;
	return false;
}

/* Whether two uses are the same number, x having been computed before y; a var
 * read twice is when nothing between the two reads can have set it. */
static bool same_values(const Value *x, const Value *y, int *left)
{
	int64_t i, j;
	if (x == y)
		return true;
	if ((*left)-- <= 0)
		return false;
	if (value_const_int(x, &i) && value_const_int(y, &j))
		return i == j;
	const Op *a = x->def, *b = y->def;
	if (!a || !b || a->code != b->code || a->nargs != b->nargs || !type_equal(x->type, y->type))
		return false;
	if (a->code == OP_GET)
		return operand(a, ARG_VAR) == operand(b, ARG_VAR) && a->parent == b->parent && !set_of_var(a, b, operand(a, ARG_VAR));
	if (op_info(a->code)->effect != FX_PURE || a->attrs || b->attrs || !a->nargs)
		return false;
	for (int k = 0; k < a->nargs; k++)
		if (!same_values(a->args[k], b->args[k], left))
			return false;
	return true;
}

static bool same_value(const Value *x, const Value *y) { return same_values(x, y, &(int){ MOST_VALUES }); }

/* What an arrive may move up across: nothing that it releases or orders. */
static bool arrive_passes(const Op *op)
{
	switch (op->code) {
	case OP_TMA_LOAD: case OP_BULK_LOAD:
	case OP_GET: case OP_SET: case OP_CLOCK: case OP_STAMP:
		return true;
	default:
		return op_info(op->code)->effect == FX_PURE || op_info(op->code)->effect == FX_DECL;
	}
}

/* Whether op, at or behind the load `first`, loads for a phase of the same barrier. */
static bool same_barrier(const Op *first, const Op *op)
{
	return is_load(op) && barrier_of(operand(op, ARG_BARRIER)) == barrier_of(operand(first, ARG_BARRIER));
}

/* Of the same barrier; x computed before y's. */
static bool same_use(const Op *x, const Op *y)
{
	return same_value(operand(x, ARG_BARRIER), operand(y, ARG_BARRIER)) && same_value(operand(x, ARG_USE), operand(y, ARG_USE));
}

static bool same_phase(const Op *first, const Op *op) { return same_barrier(first, op) && same_use(first, op); }

/* The arrive that ends the loads of `first`'s phase, or NULL where it cannot announce them all: it must not move above a load
 * that may be of its phase and announces itself. */
static Op *closing_arrive(const Op *first)
{
	for (Op *op = first->next; op; op = op->next) {
		if (op->code == OP_ARRIVE && !operand(op, ARG_RANK))
			return same_use(first, op) ? op : NULL;
		if (!arrive_passes(op) || (same_barrier(first, op) && !same_phase(first, op)))
			return NULL;
	}
	return NULL;
}

static void announce_in_arrive(Binder *b, Op *first, Op *arrive)
{
	int64_t sum = attr_int(arrive, AT_BYTES, 0);
	for (Op *op = first; op != arrive; op = op->next) {
		if (!same_phase(first, op))
			continue;
		sum += attr_int(op, AT_BYTES, 0);
		attr_set_int(b->t, op, AT_EXPECT, 0);
	}
	tir_remove(arrive);
	set_operand(arrive, ARG_BARRIER, operand(first, ARG_BARRIER));
	set_operand(arrive, ARG_USE, operand(first, ARG_USE));
	attr_set_int(b->t, arrive, AT_BYTES, sum);
	tir_insert_before(first, arrive);
}

static void set_bytes(Binder *b, Op *load)
{
	TileRef tile = tile_ref(operand(load, ARG_TARGET));
	bool multicast = attr_int(load, AT_MULTICAST, 0);
	if (multicast)
		attr_set_int(b->t, b->kernel, AT_PEERS, 1);
	attr_set_int(b->t, load, AT_BYTES, tile_bytes(&tile) * (multicast ? attr_int(b->kernel, AT_CLUSTER, 1) : 1));
	if (!attr_get(load, AT_EXPECT))
		attr_set_int(b->t, load, AT_EXPECT, 1);
}

static void report_unannounced(Binder *b, const Op *load)
{
	tir_error(b->t, load, E_BARRIER, "no 'arrive(%s)' follows this %s: its bytes would be announced after the phase's arrival, or never",
		object_name(barrier_of(operand(load, ARG_BARRIER))), load->code == OP_BULK_LOAD ? "bulk_load" : "tma_load");
	diag_help(b->t->diags, "arrive behind the last load of the phase, in the same iteration");
	b->ok = false;
}

static bool bind_loads(Op *op, void *user)
{
	if (is_load(op))
		set_bytes(user, op);
	return op->code != OP_PARALLEL;
}

static bool merge_loads(Op *op, void *user)
{
	if (is_load(op) && attr_int(op, AT_EXPECT, 1)) {
		Op *arrive = closing_arrive(op);
		if (arrive)
			announce_in_arrive(user, op, arrive);
	}
	return op->code != OP_PARALLEL;
}

/* ---- arrivals behind loads ---- */

/* Backward: the mbarriers at which the team arrives behind an op, in the same iteration of each loop around it, or behind that loop. */
typedef struct Announced {
	int *number;              /* of a mbarrier, by id */
	struct Unannounced *loads; /* those that no arrive follows, the first of them first */
} Announced;
typedef struct Unannounced { struct Unannounced *next; const Op *load; } Unannounced;

static void pass_op(Flow *f, Op *op, void *state)
{
	Announced *a = f->user;
	if (op->code == OP_ARRIVE)
		bits_add(state, a->number[barrier_of(operand(op, ARG_BARRIER))->result->id]);
	if (!is_load(op) || !attr_int(op, AT_EXPECT, 1) || bits_has(state, a->number[barrier_of(operand(op, ARG_BARRIER))->result->id]))
		return;
	Unannounced *u = ARENA_NEW(f->arena, Unannounced);
	*u = (Unannounced){ a->loads, op };
	a->loads = u;
}

static bool enter_op(Flow *f, Op *op, void *state)
{
	(void)f;
	if (op->code == OP_ROLE)
		bits_clear(state);
	return op->code != OP_PARALLEL;
}

static void leave_op(Flow *f, Op *op, const void *behind, void *state)
{
	if (op->code == OP_ROLE)
		bits_assign(f->arena, state, behind);
}

static void copy_set(const Flow *f, void *to, const void *from) { bits_assign(f->arena, to, from); }

static bool join_sets(const Flow *f, void *into, const void *other)
{
	(void)f;
	return bits_join(into, other);
}

static void check_announced(Binder *b)
{
	Announced a = { .number = ARENA_ARRAY(b->t->arena, int, b->t->next_id + 1) };
	Flow f = { .arena = b->t->arena, .user = &a, .size = sizeof(Bits), .backward = true, .one_round = true, .copy = copy_set, .join = join_sets,
		.pass = pass_op, .enter = enter_op, .leave = leave_op };
	int n = 0;
	for (const Op *op = b->kernel->regions[0]->first; op; op = op->next)
		if (op->code == OP_MBARRIER)
			a.number[op->result->id] = n++;
	Bits none = bits_new(b->t->arena, n);
	flow_run(&f, b->kernel->regions[0], &none);
	for (const Unannounced *u = a.loads; u; u = u->next)
		report_unannounced(b, u->load);
}

/* ---- the kernel ---- */

static void bind_all(Binder *b)
{
	Region *body = b->kernel->regions[0];
	tir_walk(body, collect_role, b);
	for (int i = 0; i < b->nroles; i++)
		bind_team(b, b->roles[i]);
	for (Op *op = body->first; op; op = op->next) {
		if (op->code == OP_MBARRIER)
			bind_mbarrier(b, op);
		if (op->code == OP_BARRIER)
			bind_barrier(b, op);
	}
	check_ids(b);
	tir_walk(body, set_sync_id, b);
	tir_walk(body, bind_loads, b);
	check_announced(b);
	tir_walk(body, merge_loads, b);
}

bool pass_bind_barriers(Tir *t)
{
	bool ok = true;
	for (Op *k = t->first; k; k = k->next) {
		Binder b = { .t = t, .kernel = k, .next_id = 1, .table = "0 the CTA", .ok = true };
		bind_all(&b);
		ok &= b.ok;
	}
	return ok;
}
