/* parallel.c - element loops: a lane for each element; in loops over fragments of warps, once for each warp. */
#include "tests/random/model/machine.h"

static void set_indices(Env *body, const Op *op, const int64_t *extents)
{
	const Region *r = op->regions[0];
	int64_t inner = r->nargs == 2 ? extents[1] : 1;
	for (int k = 0; k < r->nargs; k++) {
		Lanes l = lanes_new(body, true);
		for (int n = 0; n < body->lanes; n++)
			l.v[n].i = k == r->nargs - 1 ? n % (r->nargs == 2 ? inner : body->lanes) : n / inner;
		lanes_set(body, r->args[k], l);
	}
}

static void run_for(Team *t, const Op *op, int lane)
{
	const Attr *extents = attr_get(op, AT_EXTENTS);
	int64_t count = 1;
	Model *m = t->env.m;
	Env body;
	for (int k = 0; k < extents->n; k++)
		count *= extents->list[k];
	Arena *saved = m->arena;
	m->arena = m->loop = arena_new(); /* what the body computes ends with it */
	env_init(&body, m, t->env.cta, &t->env, lane, (int)count);
	body.flatten = true;
	set_indices(&body, op, extents->list);
	for (const Op *o = op->regions[0]->first; o; o = o->next)
		if (!scalar_step(&body, o))
			model_fail(m, o, "is not modelled in an element loop");
	arena_free(m->loop);
	m->loop = NULL;
	m->arena = saved;
}

void parallel_run(Team *t, const Op *op)
{
	if (!attr_int(op, AT_WARP_SCOPE, 0)) {
		run_for(t, op, first_active(&t->env));
		return;
	}
	for (int w = 0; w < t->env.warps; w++)
		if (t->env.active[32 * w])
			run_for(t, op, 32 * w);
}
