/* pin_waits - needs: layouts, track_groups.  Establishes: a `pin` behind the
 * products or the wait where arithmetic begins that runs while products do, and
 * one before the wgmma_wait where it ends.
 *
 * ptxas moves waits over what does not touch the accumulators.  Then what the
 * author meant to run with the products comes after them, or before their
 * issue is complete.  They stay where they are behind a wait for an mbarrier:
 * it is a loop. */
#include "compiler/analysis/flow.h"
#include "compiler/analysis/layout.h"
#include "compiler/analysis/liveness.h"
#include "compiler/passes/pass.h"

#include <string.h>

enum { WORTH_A_PIN = 16, MAX_LATE = 64 }; /* operations of a thread; a pin is three instructions */

/* From the last products or wait on. */
typedef struct Stretch {
	Op *start;                 /* wgmma_commit, wgmma_wait; NULL: a loop or the kernel begins */
	int64_t work, free;        /* operations; those that do not depend on the start */
	const Op *late[MAX_LATE];  /* fragments that do */
	int nlate;
} Stretch;

/* ---- which fragments depend on the start ---- */

static bool is_late(const Stretch *s, const Op *object)
{
	for (int i = 0; i < s->nlate; i++)
		if (s->late[i] == object)
			return true;
	return s->nlate == MAX_LATE;
}

static bool reads_late(const Stretch *s, const Op *op)
{
	for (int i = 0; i < op->nargs; i++)
		if (op->args[i]->type.kind >= TY_TENSOR && is_late(s, tile_ref(op->args[i]).object))
			return true;
	return false;
}

static void all_late(Stretch *s, const Op *op)
{
	for (int i = 0; i < op->nargs; i++)
		if (op->args[i]->type.kind >= TY_TENSOR && !is_late(s, tile_ref(op->args[i]).object))
			s->late[s->nlate++] = tile_ref(op->args[i]).object;
}

static bool loop_reads_late(const Stretch *s, const Op *loop)
{
	for (const Op *op = loop->regions[0]->first; op; op = op->next)
		if (reads_late(s, op))
			return true;
	return false;
}

static void loop_all_late(Stretch *s, const Op *loop)
{
	for (const Op *op = loop->regions[0]->first; op; op = op->next)
		all_late(s, op);
}

/* ---- how much there is to do ---- */

static bool arithmetic(const Op *op)
{
	const OpInfo *info = op_info(op->code);
	if (info->effect != FX_PURE || info->result != RES_SCALAR || op->code == OP_CONST)
		return false;
	return dtype_is_float(op->result->type.dtype);
}

static int64_t work_of_loop(Tir *t, const Op *loop)
{
	const Region *body = loop->regions[0];
	const Attr *extents = attr_get(loop, AT_EXTENTS);
	int warps = attr_int(loop, AT_WARP_SCOPE, 0) ? 1 : team_warps(tir_team(loop));
	const char *why;
	const Layout *l = extents ? layout_of(t->arena, attr_layout(loop), body->nargs, extents->list, warps, &why) : NULL;
	int64_t n = 0;
	for (const Op *op = body->first; op; op = op->next)
		n += arithmetic(op);
	return l ? n * l->nregs : 0;
}

static int64_t work_of_tile(Tir *t, const Op *op)
{
	Effect e[MAX_EFFECTS];
	bool moves = op->code == OP_COPY && strcmp(attr_text(op, AT_INST, ""), "reg") != 0;
	return op_effects(op, e) && e[0].tile.space == TY_FRAG && !moves ? fragment_registers(t, e[0].tile.object, tir_team(op)) : 0;
}

static void add_work(Tir *t, Stretch *s, const Op *op)
{
	bool loop = op->code == OP_PARALLEL, late = loop ? loop_reads_late(s, op) : reads_late(s, op);
	int64_t work = loop ? work_of_loop(t, op) : work_of_tile(t, op);
	s->work += work;
	if (!late)
		s->free += work;
	else if (loop)
		loop_all_late(s, op);
	else
		all_late(s, op);
}

/* ---- pins ---- */

static Op *pin(Tir *t, Loc loc) { return tir_op(t, OP_PIN, loc, type_none(), 0, NULL); }

static bool is_pin(const Op *op) { return op && op->code == OP_PIN; }

static void pin_start(Tir *t, const Stretch *s)
{
	if (s->start && s->free >= WORTH_A_PIN && !is_pin(s->start->next))
		tir_insert_after(s->start, pin(t, s->start->loc));
}

static void end_stretch(Tir *t, const Stretch *s, Op *wait)
{
	if (s->work < WORTH_A_PIN)
		return;
	pin_start(t, s);
	if (!is_pin(wait->prev))
		tir_insert_before(wait, pin(t, wait->loc));
}

/* A loop that nothing passes: what was done stays before it, the rest behind it. */
static void at_mbarrier(Tir *t, Stretch *s)
{
	pin_start(t, s);
	s->start = NULL;
	s->work = s->free = 0;
}

static bool arm_waits(const Region *r)
{
	for (const Op *op = r ? r->first : NULL; op; op = op->next)
		if (op_awaits(op) == UNTIL_PHASE)
			return true;
	return false;
}

static Stretch stretch_from(Op *start)
{
	Stretch s = { .start = start };
	all_late(&s, start);
	return s;
}

/* ---- flow ---- */

static void pass_op(Flow *f, Op *op, void *state)
{
	Stretch *s = state;
	if (op_closes(op) == UNTIL_PRODUCTS) {
		*s = stretch_from(op);
	} else if (op_awaits(op) == UNTIL_PRODUCTS) {
		end_stretch(f->user, s, op);
		*s = stretch_from(op);
	} else if (op_awaits(op) == UNTIL_PHASE) {
		at_mbarrier(f->user, s);
	} else if (op->code == OP_PARALLEL || op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_COPY ||
		op->code == OP_WEAVE) {
		add_work(f->user, s, op);
	}
}

/* A wait in an `if` makes it a branch, which holds like the wait. */
static bool enter(Flow *f, Op *op, void *state)
{
	if (op->code == OP_IF && (arm_waits(op->regions[0]) || arm_waits(op->regions[1])))
		at_mbarrier(f->user, state);
	else if (op->code != OP_IF && op->code != OP_PARALLEL && op->code != OP_ONCE)
		*(Stretch *)state = (Stretch){ 0 };
	return op->code != OP_PARALLEL && op->code != OP_ONCE;
}

static void leave(Flow *f, Op *op, const void *before, void *state)
{
	(void)f;
	(void)before;
	if (op->code != OP_IF)
		*(Stretch *)state = (Stretch){ 0 };
}

static bool join(const Flow *f, void *into, const void *other)
{
	(void)f;
	Stretch *s = into;
	const Stretch *o = other;
	if (s->work <= o->work)
		*s = *o;
	return false; /* nobody asks, of one round */
}

bool pass_pin_waits(Tir *t)
{
	Flow f = { .arena = t->arena, .user = t, .size = sizeof(Stretch), .one_round = true, .join = join, .pass = pass_op,
		.enter = enter, .leave = leave };
	for (Op *k = t->first; k; k = k->next)
		flow_run(&f, k->regions[0], &(Stretch){ 0 });
	return true;
}
