/* liveness.c - which fragments are live where, backwards over the regions of a team. */
#include "compiler/analysis/liveness.h"

#include "compiler/analysis/bits.h"
#include "compiler/analysis/effects.h"
#include "compiler/analysis/flow.h"
#include "compiler/analysis/index.h"
#include "compiler/analysis/layout.h"

typedef struct Fragment { const Op *op; int64_t registers; } Fragment;

typedef struct Live { Bits set; int64_t registers; } Live; /* fragments by number, and what they take together */

typedef struct Liveness {
	const Tir *t;
	const Op *team;
	int n;
	Fragment *frag;
	unsigned first, last; /* ids of the fragments */
	int *number;          /* by id - first: from 1; 0: not of this team */
	Live worst;
} Liveness;

int64_t fragment_registers(const Tir *t, const Op *frag, const Op *team)
{
	const Type *ty = &frag->result->type;
	const char *why;
	int warps = attr_int(frag, AT_WARP_SCOPE, 0) ? 1 : team_warps(team);
	const Layout *l = layout_of(t->arena, attr_layout(frag), ty->rank, ty->shape, warps, &why);
	return l ? l->nregs / layout_packs(l, ty->dtype) : 0;
}

static bool count(Op *op, void *user)
{
	Liveness *v = user;
	if (op->code == OP_FRAG) {
		unsigned id = op->result->id;
		v->first = !v->n || id < v->first ? id : v->first;
		v->last = id > v->last ? id : v->last;
		v->n++;
	}
	return op->code != OP_ROLE;
}

static bool collect(Op *op, void *user)
{
	Liveness *v = user;
	if (op->code == OP_FRAG) {
		v->frag[v->n++] = (Fragment){ op, fragment_registers(v->t, op, v->team) };
		v->number[op->result->id - v->first] = v->n;
	}
	return op->code != OP_ROLE;
}

static int number_of(const Liveness *v, const Op *object)
{
	unsigned id = object->result->id;
	return id >= v->first && id <= v->last ? v->number[id - v->first] - 1 : -1;
}

static void add(const Liveness *v, Live *live, int i)
{
	live->registers += bits_has(&live->set, i) ? 0 : v->frag[i].registers;
	bits_add(&live->set, i);
}

static void drop(const Liveness *v, Live *live, int i)
{
	live->registers -= bits_has(&live->set, i) ? v->frag[i].registers : 0;
	bits_drop(&live->set, i);
}

static void copy(const Flow *f, void *to, const void *from)
{
	Live *t = to;
	const Live *live = from;
	bits_assign(f->arena, &t->set, &live->set);
	t->registers = live->registers;
}

static bool join(const Flow *f, void *into, const void *other)
{
	const Liveness *v = f->user;
	Live *live = into;
	if (!bits_join(&live->set, &((const Live *)other)->set))
		return false;
	live->registers = 0;
	for (int i = 0; i < v->n; i++)
		live->registers += bits_has(&live->set, i) ? v->frag[i].registers : 0;
	return true;
}

static void note(Liveness *v, const Live *live)
{
	if (live->registers <= v->worst.registers)
		return;
	v->worst.registers = live->registers;
	bits_clear(&v->worst.set);
	bits_join(&v->worst.set, &live->set);
}

/* Whether the elements of the store's loop are all of the fragment. */
static bool stores_all(const Op *store, const Op *frag)
{
	const Region *body = store->parent;
	const Type *ty = &frag->result->type;
	const Attr *extents = body->owner && body->owner->code == OP_PARALLEL ? attr_get(body->owner, AT_EXTENTS) : NULL;
	for (int d = 0; d < ty->rank; d++) {
		LoopIndex at = loop_index(body, access_index(store, d));
		if (!extents || !at.known || at.arg != d || at.offset != 0 || extents->list[d] != ty->shape[d])
			return false;
	}
	return true;
}

static bool writes_all(const Op *op, const TileRef *r)
{
	bool rows_of_warp = r->warp_scope && !attr_int(r->object, AT_WARP_SCOPE, 0);
	for (int d = 0; d < r->object_rank; d++)
		if (r->dims[d] != 0)
			return false;
	return !rows_of_warp && (op->code != OP_STORE || stores_all(op, r->object));
}

static void use_tiles(Liveness *v, const Op *op, Live *live)
{
	Effect e[MAX_EFFECTS];
	int n = op_effects(op, e);
	for (int read = 0; read < 2; read++) /* first what op writes, then what it reads */
		for (int i = 0; i < n; i++) {
			int which = number_of(v, e[i].tile.object);
			if (which < 0 || e[i].kills == read)
				continue;
			if (read)
				add(v, live, which);
			else if (writes_all(op, &e[i].tile))
				drop(v, live, which);
		}
	for (int i = 0; op_awaits(op) == UNTIL_PRODUCTS && i < op->nargs; i++) /* what it finishes is there up to it */
		if (number_of(v, op->args[i]->def) >= 0)
			add(v, live, number_of(v, op->args[i]->def));
}

static void pass_op(Flow *f, Op *op, void *live)
{
	Liveness *v = f->user;
	if (op->code == OP_FRAG)
		drop(v, live, number_of(v, op));
	else if (op->code != OP_ROLE) /* another team */
		use_tiles(v, op, live);
	note(v, live);
}

static bool enter(Flow *f, Op *op, void *live)
{
	(void)f;
	(void)live;
	return op->code != OP_ROLE;
}

static void leave(Flow *f, Op *op, const void *before, void *live)
{
	(void)op;
	(void)before;
	note(f->user, live);
}

static Pressure pressure_of(const Liveness *v)
{
	Pressure p = { .registers = v->worst.registers };
	Bits left = bits_copy(v->t->arena, &v->worst.set);
	for (int k = 0; k < PRESSURE_LARGEST; k++) {
		int most = -1;
		for (int i = 0; i < v->n; i++)
			if (bits_has(&left, i) && (most < 0 || v->frag[i].registers > v->frag[most].registers))
				most = i;
		if (most < 0)
			break;
		p.largest[k] = v->frag[most].op;
		bits_drop(&left, most);
	}
	return p;
}

Pressure fragment_pressure(const Tir *t, const Op *team)
{
	Liveness v = { .t = t, .team = team };
	tir_walk(team->regions[0], count, &v);
	if (!v.n)
		return (Pressure){ 0 };
	v.frag = ARENA_ARRAY(t->arena, Fragment, v.n);
	v.number = ARENA_ARRAY(t->arena, int, v.last - v.first + 1);
	v.worst.set = bits_new(t->arena, v.n);
	Live live = { .set = bits_new(t->arena, v.n) };
	v.n = 0;
	tir_walk(team->regions[0], collect, &v);
	Flow f = { .arena = t->arena, .user = &v, .size = sizeof(Live), .backward = true, .pure = true, .copy = copy, .join = join, .pass = pass_op,
		.enter = enter, .leave = leave };
	flow_run(&f, team->regions[0], &live);
	return pressure_of(&v);
}

/* ---- what there is ---- */

/* A quarter of the SM's for a quarter of the warps, as ptxas counts. */
int64_t launch_registers(const Machine *m, const Op *kernel)
{
	int64_t warps = attr_int(kernel, AT_THREADS, 0) / m->warp, occupancy = attr_int(kernel, AT_OCCUPANCY, 1);
	int64_t quarter = (warps * (occupancy > 0 ? occupancy : 1) + 3) / 4, step = m->register_step;
	int64_t n = m->sm_registers / 4 / m->warp / (quarter > 0 ? quarter : 1) / step * step;
	return n > m->thread_registers ? m->thread_registers / step * step : n;
}

int64_t team_registers(const Machine *m, const Op *team)
{
	const Op *kernel = team;
	while (kernel->parent)
		kernel = kernel->parent->owner;
	return attr_int(team, AT_SETMAXNREG, launch_registers(m, kernel));
}
