/* memory.c - elements of tensors, shared tiles and fragments, and views of them. */
#include <string.h>

#include "tests/random/model/machine.h"

/* Own storage unless it is given later; poison. */
void store_init(Model *m, Store *s, const Op *object, int64_t bytes_shared)
{
	const Type *ty = &object->result->type;
	int64_t n = 1;
	*s = (Store){ .object = object, .dtype = ty->dtype, .rank = ty->rank };
	for (int d = ty->rank; d-- > 0;) {
		s->extents[d] = ty->shape[d];
		s->strides[d] = n;
		n *= ty->shape[d];
	}
	s->bytes = n * dtype_bytes(ty->dtype);
	if (bytes_shared)
		return;
	s->data = ARENA_ARRAY(m->arena, unsigned char, s->bytes);
	s->defined = ARENA_ARRAY(m->arena, unsigned char, s->bytes);
}

bool store_inside(const Store *s, const int64_t *index)
{
	for (int d = 0; d < s->rank; d++)
		if (index[d] < 0 || index[d] >= s->extents[d])
			return false;
	return true;
}

static int64_t byte_of(Model *m, const Op *at, const Store *s, const int64_t *index)
{
	int64_t n = 0;
	for (int d = 0; d < s->rank; d++) {
		if (index[d] < 0 || index[d] >= s->extents[d])
			model_fail(m, at, "index %lld of '%s' is outside %lld", (long long)index[d], attr_text(s->object, AT_NAME, "?"),
				(long long)s->extents[d]);
		n += index[d] * s->strides[d];
	}
	return n * dtype_bytes(s->dtype);
}

Num store_load(Model *m, const Op *at, const Store *s, const int64_t *index)
{
	int64_t b = byte_of(m, at, s, index);
	for (unsigned k = 0; k < dtype_bytes(s->dtype); k++)
		if (s->defined[b + k] != CELL_DEFINED)
			return num_undefined();
	return num_decode(s->dtype, s->data + b);
}

void store_store(Model *m, const Op *at, const Store *s, const int64_t *index, Num x)
{
	int64_t b = byte_of(m, at, s, index);
	memset(s->defined + b, x.undefined ? CELL_GARBAGE : CELL_DEFINED, dtype_bytes(s->dtype));
	if (!x.undefined)
		num_encode(s->dtype, x, s->data + b);
}

/* ---- views ---- */

static void place_axes(Cells *c)
{
	int k = 0, shown[TIR_MAX_RANK];
	for (int d = 0; d < c->ref.object_rank; d++)
		if (c->ref.dims[d] >= 0)
			shown[k++] = d;
		else
			c->axis[d] = -1;
	for (int n = 0; n < k; n++)
		c->axis[shown[n]] = n;
	if (c->ref.trans && k >= 2) {
		c->axis[shown[k - 1]] = k - 2;
		c->axis[shown[k - 2]] = k - 1;
	}
	c->rank = k;
}

Cells cells_of(Env *e, const Op *at, const Value *v, int warp)
{
	Cells c = { .ref = tile_ref(v), .limited = -1 };
	const Object *o = object_of(e, c.ref.object->result);
	bool own = attr_int(c.ref.object, AT_WARP_SCOPE, 0) != 0;
	if (!o->store)
		model_fail(e->m, at, "an operand is no tile");
	c.store = &o->store[own ? warp : 0];
	int lane = warp == TEAM ? first_active(e) : 32 * warp;
	place_axes(&c);
	for (int d = 0; d < c.ref.object_rank; d++) {
		int64_t n = c.ref.dims[d] > 0 ? c.ref.dims[d] : c.store->extents[d];
		c.start[d] = c.ref.start[d] ? lane_value(e, c.ref.start[d], lane).i : 0;
		if (c.axis[d] >= 0)
			c.shape[c.axis[d]] = n;
	}
	if (c.ref.warp_scope && !own) {
		c.start[0] = 16 * warp;
		c.shape[c.axis[0]] = 16;
	}
	return c;
}

/* Counts along the first sliced dimension. */
void cells_limit(Cells *c, int64_t limit)
{
	for (int d = 0; d < c->ref.object_rank && c->limited < 0; d++)
		if (c->ref.dims[d] > 0)
			c->limited = d;
	c->limit = limit;
}

int64_t cells_count(const Cells *c)
{
	int64_t n = 1;
	for (int k = 0; k < c->rank; k++)
		n *= c->shape[k];
	return n;
}

void cells_index(const Cells *c, int64_t n, int64_t *index)
{
	int64_t at[TIR_MAX_RANK];
	for (int k = c->rank; k-- > 0;) {
		at[k] = n % c->shape[k];
		n /= c->shape[k];
	}
	for (int d = 0; d < c->ref.object_rank; d++)
		index[d] = c->start[d] + (c->axis[d] >= 0 ? at[c->axis[d]] : 0);
}

static bool cut_off(const Cells *c, const int64_t *index, bool clip)
{
	return (c->limited >= 0 && index[c->limited] >= c->limit) || (clip && !store_inside(c->store, index));
}

Num cells_load(Env *e, const Op *at, const Cells *c, int64_t n, bool clip)
{
	int64_t index[TIR_MAX_RANK];
	cells_index(c, n, index);
	return cut_off(c, index, clip) ? (Num){ 0 } : store_load(e->m, at, c->store, index);
}

void cells_store(Env *e, const Op *at, const Cells *c, int64_t n, Num x, bool clip)
{
	int64_t index[TIR_MAX_RANK];
	cells_index(c, n, index);
	if (!cut_off(c, index, clip))
		store_store(e->m, at, c->store, index, x);
}
