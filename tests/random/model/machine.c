/* machine.c - runs a kernel: its clusters one after the other, the teams of a cluster by turns. */
#include <string.h>

#include "tests/random/model/machine.h"

/* ---- frames ---- */

static void push(Team *t, const Op *owner, const Region *r, unsigned char *active)
{
	if (t->depth == MAX_DEPTH)
		model_fail(t->env.m, owner, "nested too deeply");
	t->frame[t->depth++] = (Frame){ .owner = owner, .region = r, .next = r->first, .active = t->env.active };
	t->env.active = active;
}

static void pop(Team *t)
{
	t->env.active = t->frame[--t->depth].active;
}

/* Lanes that execute and for which v is `value`; NULL when there are none. */
static unsigned char *lanes_where(Env *e, const Op *at, const Value *v, bool value)
{
	Lanes l = lanes_of(e, v);
	if (!l.stride) {
		if (l.v[0].undefined)
			model_fail(e->m, at, "the condition is undefined");
		return (l.v[0].i != 0) == value ? e->active : NULL;
	}
	unsigned char *mask = ARENA_ARRAY(e->m->arena, unsigned char, e->lanes);
	bool any = false;
	for (int n = 0; n < e->lanes; n++) {
		if (e->active[n] && l.v[n].undefined)
			model_fail(e->m, at, "the condition is undefined");
		mask[n] = e->active[n] && (l.v[n].i != 0) == value;
		any |= mask[n];
	}
	return any ? mask : NULL;
}

static void enter_if(Team *t, const Op *op)
{
	unsigned char *yes = lanes_where(&t->env, op, op->args[0], true), *no = lanes_where(&t->env, op, op->args[0], false);
	if (no && op->regions[1])
		push(t, op, op->regions[1], no);
	if (yes)
		push(t, op, op->regions[0], yes);
}

static void enter_once(Team *t, const Op *op)
{
	unsigned char *first = ARENA_ARRAY(t->env.m->arena, unsigned char, t->env.lanes);
	first[0] = t->env.active[0];
	if (first[0])
		push(t, op, op->regions[0], first);
}

/* The next iteration of a loop, for the lanes that have one. */
static bool iterate_for(Team *t, const Op *op, Lanes index, unsigned char *active)
{
	Env *e = &t->env;
	Lanes hi = lanes_of(e, op->args[1]);
	unsigned char *mask = ARENA_ARRAY(e->m->arena, unsigned char, e->lanes);
	bool any = false;
	for (int n = 0; n < e->lanes; n++) {
		Num i = index.v[n * index.stride], h = hi.v[n * hi.stride];
		if (active[n] && (i.undefined || h.undefined))
			model_fail(e->m, op, "a bound is undefined");
		mask[n] = active[n] && i.i < h.i;
		any |= mask[n];
	}
	if (!any)
		return false;
	lanes_set(e, op->regions[0]->args[0], index);
	push(t, op, op->regions[0], mask);
	t->frame[t->depth - 1].index = index;
	return true;
}

static Lanes advanced(Env *e, const Op *op, Lanes index)
{
	Lanes step = lanes_of(e, op->args[2]), r = lanes_new(e, index.stride || step.stride);
	for (int n = 0; n < (r.stride ? e->lanes : 1); n++)
		r.v[n] = num_int(DT_I32, index.v[n * index.stride].i + step.v[n * step.stride].i);
	return r;
}

static void enter_while(Team *t, const Op *op)
{
	push(t, op, op->regions[0], t->env.active);
	t->frame[t->depth - 1].in_condition = true;
}

/* The end of a region: of a loop's, the next round. */
static void leave(Team *t)
{
	Frame f = t->frame[t->depth - 1];
	unsigned char *lanes = t->env.active;
	pop(t);
	if (f.owner->code == OP_FOR)
		iterate_for(t, f.owner, advanced(&t->env, f.owner, f.index), lanes);
	if (f.owner->code != OP_WHILE)
		return;
	if (!f.in_condition) {
		push(t, f.owner, f.owner->regions[0], lanes);
		t->frame[t->depth - 1].in_condition = true;
		return;
	}
	unsigned char *outside = t->env.active;
	t->env.active = lanes;
	unsigned char *go = lanes_where(&t->env, f.owner, f.owner->regions[0]->last->args[0], true);
	t->env.active = outside;
	if (go)
		push(t, f.owner, f.owner->regions[1], go);
}

/* ---- teams ---- */

static Team *add_team(Cta *cta, Env *outer, int first_warp, int warps)
{
	if (cta->nteams == MAX_TEAMS)
		model_fail(cta->m, NULL, "too many teams");
	Team *t = &cta->team[cta->nteams++];
	memset(t, 0, sizeof *t);
	env_init(&t->env, cta->m, cta, outer, 32 * first_warp, 32 * warps);
	t->first_warp = first_warp;
	return t;
}

static void start_role(Team *parent, const Op *op)
{
	int warps = (int)attr_int(op, AT_WARPS, 1), first = (int)attr_int(op, AT_FIRST_WARP, 0);
	for (int k = 0; k < attr_int(op, AT_INSTANCES, 1); k++) {
		Team *t = add_team(parent->env.cta, &parent->env, first + k * warps, warps);
		Lanes l = lanes_new(&t->env, false);
		l.v[0].i = k;
		lanes_set(&t->env, op->regions[0]->args[0], l);
		t->parent = parent;
		parent->children++;
		push(t, op, op->regions[0], t->env.active);
	}
}

static void run_op(Team *t, const Op *op)
{
	Env *e = &t->env;
	switch (op->code) {
	case OP_IF: enter_if(t, op); return;
	case OP_FOR: iterate_for(t, op, lanes_of(e, op->args[0]), e->active); return;
	case OP_WHILE: enter_while(t, op); return;
	case OP_ONCE: enter_once(t, op); return;
	case OP_ROLE: start_role(t, op); return;
	case OP_YIELD: case OP_PICK: return;
	case OP_MBARRIER: case OP_BARRIER: barrier_declare(e, op); return;
	default:
		if (!tile_step(t, op) && !scalar_step(e, op))
			model_fail(e->m, op, "is not modelled");
	}
}

/* Until the team waits or ends; false when it could not go on at all. */
static bool run_team(Team *t)
{
	bool moved = false;
	while (!t->done) {
		Frame *f = &t->frame[t->depth - 1];
		if (t->children && (!f->next || f->next->code != OP_ROLE))
			return moved; /* roles stand side by side; what follows them waits for their end */
		if (!f->next) {
			leave(t);
			t->done = t->depth == 0;
			if (t->done && t->parent)
				t->parent->children--;
			moved = true;
			continue;
		}
		const Op *op = f->next;
		StepResult r = sync_step(t, op);
		if (r == STEP_BLOCKED)
			return moved;
		f->next = op->next;
		moved = true;
		t->env.m->count->ops++;
		if (t->env.m->budget-- == 0)
			model_fail(t->env.m, op, "the program does not end");
		if (r == STEP_NOT_MINE)
			run_op(t, op);
	}
	return moved;
}

/* ---- launches ---- */

static void run_cluster(Model *m, int first_x, int y, int z)
{
	memset(&m->cluster_sync, 0, sizeof m->cluster_sync);
	for (int r = 0; r < m->cluster; r++) {
		Cta *c = &m->cta[r];
		memset(c, 0, sizeof *c);
		c->m = m;
		c->rank = r;
		c->block[0] = first_x + r, c->block[1] = y, c->block[2] = z;
		Team *t = add_team(c, NULL, 0, m->threads / 32);
		push(t, m->kernel, m->kernel->regions[0], t->env.active);
	}
	for (int r = 0; r < m->cluster; r++) /* every CTA has its barriers before one of them touches another's */
		run_team(&m->cta[r].team[0]);
	for (bool moved = true, running = true; running;) {
		moved = running = false;
		for (int r = 0; r < m->cluster; r++)
			for (int k = 0; k < m->cta[r].nteams; k++) {
				moved |= run_team(&m->cta[r].team[k]);
				running |= !m->cta[r].team[k].done;
			}
		if (running && !moved)
			model_fail(m, m->kernel, "the teams wait for each other");
	}
}

/* The extents of the launch: the ops before `grid` on one lane. */
static void find_grid(Model *m)
{
	Env host;
	env_init(&host, m, NULL, NULL, 0, 1);
	m->grid[0] = m->grid[1] = m->grid[2] = 1;
	for (const Op *op = m->kernel->regions[0]->first; op; op = op->next) {
		if (op->code == OP_GRID) {
			for (int k = 0; k < op->nargs; k++)
				m->grid[k] = (int)uniform_int(&host, op->args[k]);
			return;
		}
		if (op->code != OP_TENSOR)
			scalar_step(&host, op);
	}
}

static void widen(Model *m, const Value *v)
{
	if (!v)
		return;
	if (v->id < m->base)
		m->base = v->id;
	if (v->id >= m->ids)
		m->ids = v->id + 1;
}

static bool widen_op(Op *op, void *user)
{
	widen(user, op->result);
	for (int r = 0; r < 2; r++)
		for (int k = 0; op->regions[r] && k < op->regions[r]->nargs; k++)
			widen(user, op->regions[r]->args[k]);
	return true;
}

static void run_all(Model *m)
{
	m->base = UINT32_MAX;
	tir_walk(m->kernel->regions[0], widen_op, m);
	m->ids -= m->base;
	m->threads = (int)attr_int(m->kernel, AT_THREADS, 32);
	m->cluster = (int)attr_int(m->kernel, AT_CLUSTER, 1);
	m->budget = 4000000;
	find_grid(m);
	for (int z = 0; z < m->grid[2]; z++)
		for (int y = 0; y < m->grid[1]; y++)
			for (int x = 0; x < m->grid[0]; x += m->cluster)
				run_cluster(m, x, y, z);
}

bool model_run(Tir *t, const Op *kernel, const ModelArgs *args, ModelCount *count, char *error, size_t error_size)
{
	Arena *arena = arena_new();
	Model *m = ARENA_NEW(arena, Model);
	*m = (Model){ .t = t, .kernel = kernel, .args = args, .count = count, .arena = arena, .error = error, .error_size = error_size };
	error[0] = '\0';
	bool ok = setjmp(m->fail) == 0;
	if (ok)
		run_all(m);
	arena_free(m->loop);
	arena_free(arena);
	return ok;
}
