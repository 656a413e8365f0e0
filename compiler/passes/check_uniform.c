/* check_uniform - needs: elaborated TIR.  Establishes: what several threads do
 * together is reached by all of them, with the same indices.  Changes nothing.
 *
 * Every value has a variation: how far threads of one team may disagree on it.
 * A var has that of all that is assigned to it and of the conditions around the
 * assignments, which is a fixed point.  A statement for the team then needs
 * conditions and indices that vary less than the teamwork spans. */
#include "compiler/analysis/flow.h"
#include "compiler/passes/pass.h"

typedef enum Variation { BY_NOTHING, BY_CTA, BY_WARP, BY_THREAD } Variation;

typedef struct Varies {
	Variation by;
	const Op *from; /* the op it starts with */
} Varies;

typedef struct Control { /* the conditions around a statement */
	const Op *op;        /* that has the condition which varies most */
	Varies varies;
	bool once;
	bool *reported;      /* of that condition */
} Control;

typedef struct Checker {
	Tir *t;
	Varies *value;       /* by id; of a var: its contents */
	const Op *kernel, *team;
	bool changed, report, ok;
} Checker;

/* How far threads may disagree where these act together. */
static Variation borne_by(Doer d)
{
	static const Variation most[] = {
		[EACH_THREAD] = BY_THREAD, [WHOLE_WARP] = BY_WARP, [WHOLE_TEAM] = BY_CTA, [WHOLE_CLUSTER] = BY_NOTHING
	};
	return most[d];
}

/* ---- how values vary ---- */

static Varies most(Varies a, Varies b)
{
	return b.by > a.by ? b : a;
}

static Varies operands(const Checker *c, const Op *op)
{
	Varies v = { 0 };
	for (int i = 0; i < op->nargs; i++)
		v = most(v, c->value[op->args[i]->id]);
	return v;
}

/* Without the operand that says whether it counts, which changes no value that does. */
static Varies a_and_b(const Checker *c, const Op *op)
{
	return most(c->value[operand(op, ARG_A)->id], c->value[operand(op, ARG_B)->id]);
}

static int64_t cluster_of(const Checker *c)
{
	return attr_int(c->kernel, AT_CLUSTER, 1);
}

/* blockIdx.x / n with n a multiple of the cluster: CTAs of a cluster are neighbours along x. */
static bool numbers_cluster(const Checker *c, const Op *div)
{
	int64_t n;
	const Op *block = operand(div, ARG_A)->def;
	return block && block->code == OP_BLOCK_IDX && value_const_int(operand(div, ARG_B), &n) && n > 0 && n % cluster_of(c) == 0;
}

/* All who vote see one result. */
static Varies of_vote(const Checker *c, const Op *op)
{
	Varies v = operands(c, op);
	Variation most = attr_int(op, AT_WARP_SCOPE, 0) && team_warps(c->team) > 1 ? BY_WARP : cluster_of(c) > 1 ? BY_CTA : BY_NOTHING;
	return v.by > most ? (Varies){ most, op } : v;
}

static Varies result_of(const Checker *c, const Op *op)
{
	switch (op->code) {
	case OP_THREAD: case OP_LANE: case OP_CLOCK: case OP_ATOMIC: case OP_PTX: return (Varies){ BY_THREAD, op };
	case OP_WARP: return (Varies){ team_warps(c->team) > 1 ? BY_WARP : BY_NOTHING, op };
	case OP_VOTE: return of_vote(c, op);
	case OP_CLUSTER_RANK: return (Varies){ BY_CTA, op };
	case OP_BLOCK_IDX: return (Varies){ cluster_of(c) > 1 && attr_int(op, AT_AXIS, 0) == 0 ? BY_CTA : BY_NOTHING, op };
	case OP_DIV: return numbers_cluster(c, op) ? (Varies){ 0 } : a_and_b(c, op);
	case OP_MOD: case OP_SHL: case OP_SHR: return a_and_b(c, op);
	case OP_CAST: return c->value[operand(op, ARG_A)->id];
	default: return operands(c, op);
	}
}

static void raise_value(Checker *c, const Value *v, Varies to)
{
	if (to.by <= c->value[v->id].by)
		return;
	c->value[v->id] = to;
	c->changed = true;
}

/* ---- messages ---- */

static const char *people(const Checker *c, Doer d)
{
	if (d == WHOLE_CLUSTER)
		return "threads of the cluster";
	if (d == WHOLE_WARP)
		return "threads of a warp";
	return c->team->code == OP_ROLE ? arena_printf(c->t->arena, "threads of role '%s'", attr_text(c->team, AT_NAME, "")) : "threads of the CTA";
}

static void note_origin(Checker *c, Varies v)
{
	static const char *const differs[] = { "", "from CTA to CTA", "from warp to warp", "from thread to thread" };
	if (v.from->code == OP_ONCE)
		diag_note(c->t->diags, v.from->loc, "only one thread does what 'once' says");
	else if (v.from->code == OP_SET)
		diag_note(c->t->diags, v.from->loc, "each thread has what its elements give: 'any' and 'all' make it one");
	else if (v.from->code == OP_VOTE)
		diag_note(c->t->diags, v.from->loc, "this '%s' differs %s", attr_text(v.from, AT_KIND, ""), differs[v.by]);
	else if (v.from->code == OP_BLOCK_IDX)
		diag_note(c->t->diags, v.from->loc, "'blockIdx.x' differs %s of the cluster", differs[v.by]);
	else
		diag_note(c->t->diags, v.from->loc, "%s%s differs %s", v.from->code == OP_ATOMIC ? "the old value of an " : "",
			v.from->code == OP_ATOMIC ? "atomic" : arena_printf(c->t->arena, "'%s()'", op_info(v.from->code)->text), differs[v.by]);
}

static void report_control(Checker *c, const Op *op, const Doing *n, const Control *at)
{
	c->ok = false;
	if (*at->reported)
		return;
	*at->reported = true;
	tir_error(c->t, op, E_NOT_UNIFORM, "%s needs all %s, but stands under a condition that is not the same for them", n->what,
		people(c, n->doer));
	diag_note(c->t->diags, at->op->loc, "the condition is here");
	note_origin(c, at->varies);
	if (at->varies.by == BY_THREAD && n->doer == WHOLE_WARP)
		diag_help(c->t->diags, "choose warps by warp(), and one thread by 'once'");
}

static void report_once(Checker *c, const Op *op, const Doing *n)
{
	c->ok = false;
	tir_error(c->t, op, E_NOT_UNIFORM, "%s needs all %s and cannot stand in 'once'", n->what, people(c, n->doer));
}

static void report_index(Checker *c, const Op *op, const Doing *n, Varies v)
{
	c->ok = false;
	tir_error(c->t, op, E_NOT_UNIFORM, "%s has an index that is not the same for all %s", n->what, people(c, n->doer));
	note_origin(c, v);
}

/* ---- statements ---- */

/* What chooses where op acts: use numbers, starts of views, limits; not the value of a fill, nor the part of a tile that
 * one CTA of a cluster brings. */
static Varies indices_of(const Checker *c, const Op *op)
{
	Varies v = { 0 };
	const Value *value = NULL;
	if (op->code == OP_FILL || op->code == OP_VOTE)
		value = operand(op, op->code == OP_FILL ? ARG_VALUE : ARG_CONDITION);
	bool multicast = attr_int(op, AT_MULTICAST, 0);
	for (int i = 0; i < op->nargs; i++) {
		Varies arg = c->value[op->args[i]->id];
		bool own_part = multicast &&
			(op->args[i] == operand(op, ARG_SOURCE) || op->args[i] == operand(op, ARG_TARGET)) && arg.by <= BY_CTA;
		if (!own_part && op->args[i] != value)
			v = most(v, arg);
	}
	return v;
}

static void check_need(Checker *c, const Op *op, const Control *at)
{
	Doing n = op_doing(op);
	if (!c->report || n.doer == EACH_THREAD || !n.what)
		return;
	if (at->once) { /* one thread: whatever its conditions are */
		if (!n.alone)
			report_once(c, op, &n);
		return;
	}
	if (at->varies.by > borne_by(n.doer)) {
		report_control(c, op, &n, at);
		return;
	}
	Varies index = indices_of(c, op);
	if (index.by > borne_by(n.doer))
		report_index(c, op, &n, index);
}

static void under(Checker *c, const Op *op, Varies condition, Control *at)
{
	if (condition.by <= at->varies.by)
		return;
	*at = (Control){ op, condition, at->once, ARENA_NEW(c->t->arena, bool) };
}

static bool enter(Flow *f, Op *op, void *state)
{
	Checker *c = f->user;
	Control *at = state;
	switch (op->code) {
	case OP_IF: under(c, op, operands(c, op), at); break;
	case OP_FOR:
		raise_value(c, op->regions[0]->args[0], most(c->value[operand(op, ARG_LO)->id], c->value[operand(op, ARG_STEP)->id]));
		under(c, op, operands(c, op), at);
		break;
	case OP_WHILE: under(c, op, c->value[operand(op->regions[0]->last, ARG_CONDITION)->id], at); break;
	case OP_ONCE:
		at->once = true;
		under(c, op, (Varies){ BY_THREAD, op }, at);
		break;
	case OP_ROLE: c->team = op; break;
	default: return false;
	}
	return true;
}

static void leave(Flow *f, Op *op, const void *before, void *state)
{
	Checker *c = f->user;
	if (op->code == OP_ROLE)
		c->team = c->kernel;
	*(Control *)state = *(const Control *)before;
}

/* An element loop gives each thread's variables what its own elements are. */
static void pass_loop(Checker *c, const Op *loop)
{
	for (const Op *op = loop->regions[0]->first; op; op = op->next)
		if (op->code == OP_SET)
			raise_value(c, operand(op, ARG_VAR), (Varies){ BY_THREAD, op });
}

static void pass_op(Flow *f, Op *op, void *state)
{
	Checker *c = f->user;
	const Control *at = state;
	check_need(c, op, at);
	switch (op->code) {
	case OP_PARALLEL: pass_loop(c, op); break;
	case OP_SET: raise_value(c, operand(op, ARG_VAR), most(c->value[operand(op, ARG_VALUE)->id], at->varies)); break;
	default:
		if (op->result && op->code != OP_VAR)
			raise_value(c, op->result, result_of(c, op));
	}
}

/* What is around an op is the same however it was reached. */
static bool keep(const Flow *f, void *into, const void *other)
{
	(void)f;
	(void)into;
	(void)other;
	return false;
}

static void visit(Checker *c, Region *r)
{
	Flow f = { .arena = c->t->arena, .user = c, .size = sizeof(Control), .one_round = true, .join = keep, .pass = pass_op, .enter = enter,
		.leave = leave };
	flow_run(&f, r, &(Control){ 0 });
}

static void forget(unsigned id, void *value)
{
	((Varies *)value)[id] = (Varies){ 0 };
}

bool pass_check_uniform(Tir *t)
{
	Checker c = { .t = t, .value = ARENA_ARRAY(t->arena, Varies, t->next_id + 1), .ok = true };
	for (const Op *k = t->first; k; k = k->next) {
		each_id(k->regions[0], forget, c.value);
		c.kernel = c.team = k;
		c.report = false;
		do {
			c.changed = false;
			visit(&c, k->regions[0]);
		} while (c.changed);
		c.report = true;
		visit(&c, k->regions[0]);
	}
	return c.ok;
}
