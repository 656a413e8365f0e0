/* empty_waits - needs: track_groups.  Establishes: between the start of a loop
 * and the first op that touches the result of one of its products while others
 * are in flight stands a wgmma_wait, if need be one that waits for nothing.
 *
 * ptxas forgets at the end of a loop that a product was waited for.  Where its
 * result is touched in the next round with other products in flight, it injects
 * a wait for all of them (C7517); any wait before reminds it. */
#include "compiler/passes/pass.h"

typedef struct Flow {
	const Op *team;
	Op *commit;  /* of the youngest group in flight; NULL: from the round before */
	int in_flight;
	bool waited; /* in this round, or outside loops */
} Flow;

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

static void touch(Tir *t, Flow *f, const Op *op)
{
	if (!f->commit || f->in_flight == 0 || f->waited || !touches_result(f->team, op))
		return;
	Op *wait = tir_op(t, OP_WGMMA_WAIT, f->commit->loc, type_none(), 0, NULL);
	attr_set_int(t, wait, AT_N, f->in_flight);
	tir_insert_after(f->commit, wait);
	f->waited = true;
}

static Flow flow(Tir *t, const Region *r, Flow f);

static Flow flow_if(Tir *t, const Op *op, Flow f)
{
	Flow then = flow(t, op->regions[0], f), other = op->regions[1] ? flow(t, op->regions[1], f) : f;
	f.in_flight = then.in_flight > other.in_flight ? then.in_flight : other.in_flight;
	f.waited = then.waited && other.waited;
	f.commit = then.commit == other.commit ? then.commit : NULL;
	return f;
}

static void flow_loop(Tir *t, const Op *op, Flow f)
{
	Flow body = f;
	body.waited = false;
	for (int i = 0; i < 2 && op->regions[i]; i++)
		body = flow(t, op->regions[i], body);
}

static Flow flow(Tir *t, const Region *r, Flow f)
{
	for (Op *op = r->first; op; op = op->next) {
		switch (op->code) {
		case OP_ROLE: flow(t, op->regions[0], (Flow){ .team = op, .waited = true }); break;
		case OP_FOR: case OP_WHILE: flow_loop(t, op, f); break;
		case OP_IF: f = flow_if(t, op, f); break;
		case OP_WGMMA_COMMIT:
			f.commit = op;
			f.in_flight++;
			break;
		case OP_MMA: /* a synchronous one waits for all */
			if (mma_is_wgmma(op) && !attr_int(op, AT_ASYNC, 0)) {
				f.in_flight = 0;
				f.waited = true;
			}
			break;
		case OP_WGMMA_WAIT: {
			int n = (int)attr_int(op, AT_N, 0);
			f.in_flight = f.in_flight > n ? n : f.in_flight;
			f.waited = true;
			break;
		}
		default: touch(t, &f, op); break;
		}
	}
	return f;
}

bool pass_empty_waits(Tir *t)
{
	for (Op *k = t->first; k; k = k->next)
		flow(t, k->regions[0], (Flow){ .team = k, .waited = true });
	return true;
}
