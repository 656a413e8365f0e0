/* tensormap.c - which tensor maps a kernel needs, from its TMA operations. */
#include "compiler/analysis/tensormap.h"

#include "compiler/analysis/layout.h"

#include <string.h>

static const Value *tma_shared(const Op *op) { return op->code == OP_TMA_LOAD ? op->args[1] : op->args[0]; }
static const Value *tma_global(const Op *op) { return op->code == OP_TMA_LOAD ? op->args[0] : op->args[1]; }

/* Whether one instruction can write all column panels: the view covers all rows of its tile. */
static bool whole_rows(const TileRef *s)
{
	return s->object_rank < 2 || s->dims[s->object_rank - 2] == 0 || s->dims[s->object_rank - 2] == panel_rows(s->object);
}

/* Of the map's dimensions, which run from the innermost. */
static int limited_dim(const Op *op, const TileRef *g)
{
	return tma_limit(op) ? g->object_rank - 1 - first_slice(g) : 0;
}

static TensorMap map_for(const Op *op)
{
	TileRef g = tile_ref(tma_global(op)), s = tile_ref(tma_shared(op));
	TensorMap m = { .tensor = g.object, .dtype = g.dtype, .swizzle = (unsigned)swizzle_bytes(s.object) };
	int rank = g.object_rank, bytes = (int)dtype_bytes(g.dtype);
	int64_t inner = s.shape[s.rank - 1];
	int64_t width = m.swizzle && inner * bytes > (int64_t)m.swizzle ? m.swizzle / bytes : inner;
	m.limited = limited_dim(op, &g);
	m.stored = op->code == OP_TMA_STORE;
	m.panels = width < inner && whole_rows(&s) && rank + (m.limited > 0) < 5 && g.dims[rank - 1] == 0;
	for (int d = rank - 1; d >= 0; d--) {
		TensorMapDim *k = &m.dim[m.rank++];
		Value *extent = g.object->args[d], *stride = g.object->args[rank + d];
		if (!value_const_int(extent, &k->extent_const))
			k->extent = extent;
		if (!value_const_int(stride, &k->stride_const))
			k->stride = stride;
		k->box = g.dims[d] == -1 ? 1 : d == rank - 1 ? (unsigned)width : g.dims[d] > 0 ? (unsigned)g.dims[d] : k->extent ? 1 : (unsigned)k->extent_const;
	}
	if (m.panels) {
		m.dim[0].extent = NULL;
		m.dim[0].extent_const = width;
		m.dim[m.rank++] = (TensorMapDim){ .extent_const = inner / width, .stride_const = width, .box = (unsigned)(inner / width) };
	}
	if (m.limited) {
		m.dim[m.rank] = m.dim[m.limited];
		m.dim[m.rank++].box = 1;
	}
	return m;
}

static bool map_equal(const TensorMap *a, const TensorMap *b)
{
	if (a->tensor != b->tensor || a->swizzle != b->swizzle || a->rank != b->rank || a->panels != b->panels || a->limited != b->limited)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dim[i].box != b->dim[i].box || a->dim[i].extent_const != b->dim[i].extent_const)
			return false;
	return true;
}

int tensor_map_of(const TensorMaps *maps, const Op *op)
{
	TensorMap m = map_for(op);
	for (int i = 0; i < maps->n; i++)
		if (map_equal(&maps->map[i], &m))
			return i;
	return -1;
}

typedef struct Collect { Arena *a; TensorMaps maps; int cap; } Collect;

static int add_map(Collect *c, TensorMap m)
{
	if (c->maps.n == c->cap) {
		int cap = c->cap ? 2 * c->cap : 8;
		TensorMap *more = ARENA_ARRAY(c->a, TensorMap, cap);
		if (c->maps.n)
			memcpy(more, c->maps.map, (size_t)c->maps.n * sizeof *more);
		c->maps.map = more;
		c->cap = cap;
	}
	c->maps.map[c->maps.n] = m;
	return c->maps.n++;
}

/* An H200 reads at a map's base for a box with nothing inside, and that of a limited map lies below the tensor.  Such boxes are loaded through a map of the same
 * dimensions that begins with the tensor. */
static void add_outside(Collect *c, int limited)
{
	TensorMap m = c->maps.map[limited];
	m.limited = 0;
	m.stored = false;
	int k = add_map(c, m);
	c->maps.map[limited].outside = k;
}

static bool collect(Op *op, void *user)
{
	Collect *c = user;
	if (op->code != OP_TMA_LOAD && op->code != OP_TMA_STORE)
		return true;
	int k = tensor_map_of(&c->maps, op);
	if (k < 0)
		k = add_map(c, map_for(op));
	const TensorMap *m = &c->maps.map[k];
	c->maps.map[k].stored |= op->code == OP_TMA_STORE;
	if (op->code == OP_TMA_LOAD && m->limited && !m->outside)
		add_outside(c, k);
	return true;
}

TensorMaps kernel_tensor_maps(Arena *a, const Op *kernel)
{
	Collect c = { .a = a };
	tir_walk(kernel->regions[0], collect, &c);
	return c.maps;
}
