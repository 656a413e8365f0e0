/* empty_waits - needs: track_groups.  Establishes: between the start of a loop
 * and the first op that touches the result of one of its products while others
 * are in flight stands a wgmma_wait, if need be one that waits for nothing.
 *
 * ptxas forgets at the end of a loop that a product was waited for.  Where its
 * result is touched in the next round with other products in flight, it injects
 * a wait for all of them (C7517); any wait before reminds it. */
#include "compiler/analysis/flow.h"
#include "compiler/passes/pass.h"

typedef struct Flight {
	const Op *team;
	Op *commit;  /* of the youngest group in flight; NULL: from the round before */
	int in_flight;
	bool waited; /* in this round, or outside loops */
} Flight;

typedef struct Search { const Op *frag; bool found; } Search;

static bool is_result(Op *op, void *user)
{
	Search *s = user;
	if (op->code == OP_MMA && mma_is_wgmma(op))
		s->found |= tile_ref(operand(op, ARG_D)).object == s->frag;
	return op->code != OP_PARALLEL;
}

static bool result_of_product(const Op *team, const Value *tile)
{
	if (tile->type.kind != TY_FRAG && tile->type.kind != TY_VIEW_FRAG)
		return false;
	Search s = { tile_ref(tile).object, false };
	tir_walk(team->regions[0], is_result, &s);
	return s.found;
}

static bool touches_result(const Op *team, const Op *op)
{
	bool any = false;
	if (op->code == OP_PARALLEL)
		for (const Op *o = op->regions[0]->first; o; o = o->next)
			any |= touches_result(team, o);
	for (int i = 0; i < op->nargs; i++)
		any |= result_of_product(team, op->args[i]);
	return any;
}

static void touch(Tir *t, Flight *s, const Op *op)
{
	if (!s->commit || s->in_flight == 0 || s->waited || !touches_result(s->team, op))
		return;
	Op *wait = tir_op(t, OP_WGMMA_WAIT, s->commit->loc, type_none(), 0, NULL);
	attr_set_int(t, wait, AT_N, s->in_flight);
	tir_insert_after(s->commit, wait);
	s->waited = true;
}

/* ---- flow ---- */

static void wait_for(Flight *s, int n)
{
	s->in_flight = s->in_flight > n ? n : s->in_flight;
	s->waited = true;
}

static void pass_op(Flow *f, Op *op, void *state)
{
	Flight *s = state;
	if (op_closes(op) == UNTIL_PRODUCTS) {
		s->commit = op;
		s->in_flight++;
	} else if (op_awaits(op) == UNTIL_PRODUCTS) {
		wait_for(s, (int)attr_int(op, AT_N, 0));
	} else if (op->code != OP_MMA) {
		touch(f->user, s, op);
	} else if (mma_is_wgmma(op) && op_lasts(op) == UNTIL_PASSED) {
		wait_for(s, 0); /* its own wait is for all */
	}
}

static bool enter(Flow *f, Op *op, void *state)
{
	(void)f;
	Flight *s = state;
	if (op->code == OP_ROLE)
		*s = (Flight){ .team = op, .waited = true };
	else if (op->code == OP_FOR || op->code == OP_WHILE)
		s->waited = false;
	return op->code != OP_PARALLEL && op->code != OP_ONCE;
}

static void leave(Flow *f, Op *op, const void *before, void *state)
{
	(void)f;
	if (op->code != OP_IF)
		*(Flight *)state = *(const Flight *)before;
}

static bool join(const Flow *f, void *into, const void *other)
{
	(void)f;
	Flight *a = into;
	const Flight *b = other;
	a->in_flight = a->in_flight > b->in_flight ? a->in_flight : b->in_flight;
	a->waited &= b->waited;
	a->commit = a->commit == b->commit ? a->commit : NULL;
	return false; /* nobody asks, of one round */
}

bool pass_empty_waits(Tir *t)
{
	Flow f = { .arena = t->arena, .user = t, .size = sizeof(Flight), .one_round = true, .join = join, .pass = pass_op,
		.enter = enter, .leave = leave };
	for (Op *k = t->first; k; k = k->next)
		flow_run(&f, k->regions[0], &(Flight){ .team = k, .waited = true });
	return true;
}
