/* plan_tensor_maps - needs: TMA operations whose boxes the hardware can move.
 * Establishes: {map} of each, its number among the kernel's tensor maps; {outside}
 * of loads with a limit; {maps} of the kernel. */
#include "compiler/analysis/tensormap.h"
#include "compiler/passes/pass.h"

#include <string.h>

typedef struct Planner {
	Tir *t;
	TensorMaps maps;
	int *outside; /* of each: the map for boxes with nothing inside; 0: none */
	int room;
} Planner;

static int add(Planner *p, TensorMap m)
{
	if (p->maps.n == p->room) {
		int room = p->room ? 2 * p->room : 8;
		TensorMap *map = ARENA_ARRAY(p->t->arena, TensorMap, room);
		int *outside = ARENA_ARRAY(p->t->arena, int, room);
		if (p->room) {
			memcpy(map, p->maps.map, (size_t)p->room * sizeof *map);
			memcpy(outside, p->outside, (size_t)p->room * sizeof *outside);
		}
		p->maps.map = map;
		p->outside = outside;
		p->room = room;
	}
	p->maps.map[p->maps.n] = m;
	return p->maps.n++;
}

static int number_of(Planner *p, TensorMap m)
{
	for (int i = 0; i < p->maps.n; i++)
		if (tensor_map_equal(&p->maps.map[i], &m))
			return i;
	return add(p, m);
}

/* The hardware reads at a map's base for a box with nothing inside, and that of a limited map lies below the tensor.  Such boxes are loaded
 * through a map of the same dimensions that begins with the tensor. */
static void plan_outside(Planner *p, Op *load, int k)
{
	if (!p->outside[k]) {
		int outside = add(p, tensor_map_outside(&p->maps.map[k]));
		p->outside[k] = outside;
	}
	attr_set_int(p->t, load, AT_OUTSIDE, p->outside[k]);
}

static bool plan(Op *op, void *user)
{
	Planner *p = user;
	if (op->code != OP_TMA_LOAD && op->code != OP_TMA_STORE)
		return op->code != OP_PARALLEL;
	int k = number_of(p, tensor_map_of(op));
	attr_set_int(p->t, op, AT_MAP, k);
	if (op->code == OP_TMA_LOAD && p->maps.map[k].limited)
		plan_outside(p, op, k);
	return true;
}

bool pass_plan_tensor_maps(Tir *t)
{
	for (Op *k = t->first; k; k = k->next) {
		Planner p = { .t = t };
		tir_walk(k->regions[0], plan, &p);
		if (p.maps.n)
			attr_set_int(t, k, AT_MAPS, p.maps.n);
	}
	return true;
}
