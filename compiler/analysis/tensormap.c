/* tensormap.c - the tensor map that a TMA operation goes through, and those of a kernel as plan_tensor_maps numbered them. */
#include "compiler/analysis/tensormap.h"

#include "compiler/analysis/layout.h"

#include <string.h>

static const Value *tma_shared(const Op *op) { return operand(op, op->code == OP_TMA_LOAD ? ARG_TARGET : ARG_SOURCE); }
static const Value *tma_global(const Op *op) { return operand(op, op->code == OP_TMA_LOAD ? ARG_SOURCE : ARG_TARGET); }

/* Whether one instruction can write all column panels: the view covers all rows of its tile. */
static bool whole_rows(const TileRef *s)
{
	return s->object_rank < 2 || s->dims[s->object_rank - 2] == 0 || s->dims[s->object_rank - 2] == panel_rows(s->object);
}

/* Of the map's dimensions, which run from the innermost. */
static int limited_dim(const Op *op, const TileRef *g)
{
	return operand(op, ARG_LIMIT) ? g->object_rank - 1 - first_slice(g) : 0;
}

int64_t box_columns(const TileRef *g) { return g->dims[g->object_rank - 1] < 0 ? 1 : g->shape[g->rank - 1]; }

TensorMap tensor_map_of(const Op *op)
{
	TileRef g = tile_ref(tma_global(op)), s = tile_ref(tma_shared(op));
	TensorMap m = { .tensor = g.object, .dtype = g.dtype, .swizzle = (unsigned)swizzle_bytes(s.object) };
	int rank = g.object_rank, bytes = (int)dtype_bytes(g.dtype);
	int64_t inner = box_columns(&g);
	int64_t width = m.swizzle && inner * bytes > (int64_t)m.swizzle ? m.swizzle / bytes : inner;
	m.limited = limited_dim(op, &g);
	m.stored = op->code == OP_TMA_STORE;
	m.panels = width < inner && whole_rows(&s) && rank + (m.limited > 0) < 5 && g.dims[rank - 1] == 0;
	for (int d = rank - 1; d >= 0; d--) {
		TensorMapDim *k = &m.dim[m.rank++];
		Value *extent = tensor_extent(g.object, d), *stride = tensor_stride(g.object, d);
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

bool tensor_map_equal(const TensorMap *a, const TensorMap *b)
{
	if (a->tensor != b->tensor || a->swizzle != b->swizzle || a->rank != b->rank || a->panels != b->panels || a->limited != b->limited)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dim[i].box != b->dim[i].box || a->dim[i].extent_const != b->dim[i].extent_const)
			return false;
	return true;
}

TensorMap tensor_map_outside(const TensorMap *limited)
{
	TensorMap m = *limited;
	m.limited = 0;
	m.stored = false;
	return m;
}

static bool collect(Op *op, void *user)
{
	TensorMaps *maps = user;
	int64_t k = attr_int(op, AT_MAP, -1), outside = attr_int(op, AT_OUTSIDE, 0);
	if (k < 0 || k >= maps->n || outside >= maps->n)
		return true;
	TensorMap *m = &maps->map[k];
	bool stored = m->stored;
	*m = tensor_map_of(op);
	m->stored |= stored;
	if (outside)
		maps->map[outside] = tensor_map_outside(m);
	return true;
}

TensorMaps kernel_tensor_maps(Arena *a, const Op *kernel)
{
	TensorMaps maps = { .n = (int)attr_int(kernel, AT_MAPS, 0) };
	maps.map = ARENA_ARRAY(a, TensorMap, maps.n + 1);
	tir_walk(kernel->regions[0], collect, &maps);
	return maps;
}
