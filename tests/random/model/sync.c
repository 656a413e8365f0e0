/* sync.c - barriers: mbarriers with phases and bytes, named barriers, the cluster's. */
#include <string.h>

#include "tests/random/model/machine.h"

/* ---- declarations ---- */

/* Warps of the roles named in a comma-separated list; name[..] is one instance. */
static int warps_of_roles(const Model *m, const char *list)
{
	int warps = 0;
	for (const Op *op = m->kernel->regions[0]->first; op; op = op->next) {
		const char *name = attr_text(op, AT_NAME, "");
		size_t n = strlen(name);
		if (op->code != OP_ROLE)
			continue;
		for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
			if (!strncmp(p, name, n) && (p[n] == ',' || p[n] == '[' || !p[n]))
				warps += (int)(attr_int(op, AT_WARPS, 1) * (p[n] == '[' ? 1 : attr_int(op, AT_INSTANCES, 1)));
	}
	return warps;
}

typedef struct Search { const Value *barrier; bool found; } Search;

static bool find_remote(Op *op, void *user)
{
	Search *s = user;
	const Value *b = op->nargs ? op->args[0] : NULL;
	s->found |= op->code == OP_ARRIVE && op->nargs == 3 && (b->def->code == OP_PICK ? b->def->args[0] : b) == s->barrier;
	return true;
}

static bool arrived_at_remotely(const Model *m, const Value *barrier)
{
	Search s = { .barrier = barrier };
	tir_walk(m->kernel->regions[0], find_remote, &s);
	return s.found;
}

void barrier_declare(Env *e, const Op *op)
{
	Model *m = e->m;
	const char *from = attr_text(op, AT_FROM, NULL);
	int count = from ? warps_of_roles(m, from) : (int)attr_int(op, AT_COUNT, 1);
	Object *o = &e->object[op->result->id - m->base];
	if (op->code == OP_BARRIER) {
		int n = (int)attr_int(op, AT_ARRAY, 1);
		o->barrier = ARENA_ARRAY(m->arena, NamedBarrier, n);
		for (int k = 0; k < n; k++)
			o->barrier[k].count = count;
		return;
	}
	if (from && arrived_at_remotely(m, op->result))
		count *= m->cluster;
	int slots = (int)attr_int(op, AT_SLOTS, 1);
	o->mbarrier = ARENA_ARRAY(m->arena, MBarrier, slots);
	for (int k = 0; k < slots; k++)
		o->mbarrier[k] = (MBarrier){ .count = count, .pending = count };
}

/* The array that a barrier is picked from, else itself; which element. */
static const Value *array_of(Env *e, const Value *v, int64_t *element)
{
	*element = 0;
	if (v->def->code != OP_PICK)
		return v;
	*element = uniform_int(e, v->def->args[1]);
	if (*element < 0 || *element >= attr_int(v->def->args[0]->def, AT_ARRAY, 1))
		model_fail(e->m, v->def, "element %lld", (long long)*element);
	return v->def->args[0];
}

static int64_t slots_of(const Value *array)
{
	return attr_int(array->def, AT_SLOTS, 1) / attr_int(array->def, AT_ARRAY, 1);
}

/* ---- mbarriers ---- */

static MBarrier *slot_of(Team *t, Cta *cta, const Op *at, const Value *barrier, int64_t use)
{
	int64_t element;
	const Value *array = array_of(&t->env, barrier, &element);
	int64_t slots = slots_of(array);
	if (use < 0 || (!attr_int(array->def, AT_RING, 0) && use >= slots))
		model_fail(t->env.m, at, "use %lld", (long long)use);
	return &object_of(&cta->team[0].env, array)->mbarrier[element * slots + use % slots];
}

static void complete(MBarrier *b)
{
	if (b->pending || b->tx)
		return;
	b->completed++;
	b->pending = b->count;
}

/* Announced at the CTA's own barrier; the bytes are there already. */
void barrier_bytes(Team *t, const Op *at, const Value *barrier, int64_t use, int64_t bytes, bool multicast)
{
	Model *m = t->env.m;
	slot_of(t, t->env.cta, at, barrier, use)->tx += bytes * (multicast ? m->cluster : 1);
	for (int r = 0; r < m->cluster; r++) {
		if (!multicast && r != t->env.cta->rank)
			continue;
		MBarrier *b = slot_of(t, &m->cta[r], at, barrier, use);
		b->tx -= bytes;
		if (!b->pending)
			complete(b);
	}
}

static int active_warps(const Env *e)
{
	int n = 0;
	for (int w = 0; w < e->warps; w++)
		n += memchr(e->active + 32 * w, 1, (size_t)(e->lanes - 32 * w < 32 ? e->lanes - 32 * w : 32)) != NULL;
	return n;
}

static StepResult arrive(Team *t, const Op *op)
{
	Env *e = &t->env;
	Cta *cta = e->cta;
	if (op->nargs == 3) {
		int64_t rank = uniform_int(e, op->args[2]);
		if (rank < 0 || rank >= e->m->cluster)
			model_fail(e->m, op, "rank %lld", (long long)rank);
		cta = &e->m->cta[rank];
	}
	MBarrier *b = slot_of(t, cta, op, op->args[0], uniform_int(e, op->args[1]));
	b->pending -= active_warps(e);
	if (b->pending < 0)
		model_fail(e->m, op, "too many arrivals");
	complete(b);
	return STEP_DONE;
}

static StepResult wait_use(Team *t, const Op *op)
{
	int64_t use = uniform_int(&t->env, op->args[1]), element, slots = slots_of(array_of(&t->env, op->args[0], &element));
	if (use < 0)
		return STEP_DONE;
	return slot_of(t, t->env.cta, op, op->args[0], use)->completed > use / slots ? STEP_DONE : STEP_BLOCKED;
}

static StepResult wait_parity(Team *t, const Op *op)
{
	int64_t parity = uniform_int(&t->env, op->args[2]);
	const MBarrier *b = slot_of(t, t->env.cta, op, op->args[0], uniform_int(&t->env, op->args[1]));
	return (b->completed & 1) != (parity & 1) ? STEP_DONE : STEP_BLOCKED;
}

/* ---- barriers without phases ---- */

static StepResult meet(Team *t, int *arrived, int64_t *generation, int mine, int count, bool waits)
{
	if (t->waits) {
		t->waits = *generation == t->generation;
		return t->waits ? STEP_BLOCKED : STEP_DONE;
	}
	*arrived += mine;
	if (*arrived >= count) {
		*arrived = 0;
		++*generation;
		return STEP_DONE;
	}
	t->generation = *generation;
	t->waits = waits;
	return waits ? STEP_BLOCKED : STEP_DONE;
}

static StepResult sync_named(Team *t, const Op *op)
{
	int64_t element;
	const Value *array = array_of(&t->env, op->args[0], &element);
	NamedBarrier *b = &object_of(&t->env, array)->barrier[element];
	return meet(t, &b->arrived, &b->generation, active_warps(&t->env), b->count, op->code == OP_SYNC);
}

static StepResult sync_cluster(Team *t)
{
	Model *m = t->env.m;
	return meet(t, &m->cluster_sync.arrived, &m->cluster_sync.generation, t->env.warps, m->cluster * m->threads / 32, true);
}

StepResult sync_step(Team *t, const Op *op)
{
	switch (op->code) {
	case OP_ARRIVE: return arrive(t, op);
	case OP_WAIT: return wait_use(t, op);
	case OP_WAIT_PARITY: return wait_parity(t, op);
	case OP_SYNC: return op->nargs ? sync_named(t, op) : STEP_DONE;
	case OP_SYNC_WARP: return STEP_DONE;
	case OP_SYNC_ARRIVE: return sync_named(t, op);
	case OP_CLUSTER_SYNC: return sync_cluster(t);
	default: return STEP_NOT_MINE;
	}
}
