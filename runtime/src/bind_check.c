/* bind_check.c - with the dims bound: checks shapes and addresses, and computes grid, tensor maps and values. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/src/bind.h"
#include "runtime/src/dtype.h"
#include "runtime/src/error.h"
#include "runtime/src/float16.h"

enum {
	MAX_GRID_X = 0x7fffffff, /* CUDA programming guide, compute capabilities */
	MAX_GRID_YZ = 65535,
	MAP_ALIGN = 16 /* cuTensorMapEncodeTiled: addresses and strides */
};
#define MAP_MAX_DIM (UINT64_C(1) << 32)
#define MAP_MAX_STRIDE (UINT64_C(1) << 40)

/* What an expression is of, for messages: "dimension 1 of q". */
typedef struct What { const char *before; int axis; const char *after, *tensor; } What;

static const char *describe(const What *w, char *out, size_t size)
{
	snprintf(out, size, "%s%d%s%s", w->before, w->axis, w->after, w->tensor);
	return out;
}

static tilert_status eval(const Binding *b, const Expr *e, const What *w, int64_t *out)
{
	ExprEnv env = { b->values, b->known, b->sm_count };
	int64_t v = 0;
	char text[160], what[140];
	ExprResult r = rt_expr_eval(e, &env, &v);

	if (r == EXPR_OK) {
		*out = v;
		return TILERT_OK;
	}
	describe(w, what, sizeof what);
	rt_expr_format(e, b->k->symbol_names, text, sizeof text);
	if (r == EXPR_UNKNOWN)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s is %s, and %s is not known: pass it", b->k->name, what, text,
		               b->k->symbols[v].name);
	return rt_fail(TILERT_EINVAL, "kernel %s: %s: %s %s", b->k->name, what, text,
	               r == EXPR_DIV_ZERO ? "divides by zero" : "overflows 64 bits");
}

/* ---- shapes ---- */

tilert_status rt_bind_strides(const Binding *b, size_t i, int64_t strides[TILERT_MAX_RANK])
{
	const tilert_tensor *t = &b->tensors[i]->tensor;
	int64_t size = 1;
	bool given = false;

	for (int axis = 0; axis < t->rank; axis++)
		given |= t->strides[axis] != 0;
	for (int axis = t->rank - 1; axis >= 0; axis--) {
		strides[axis] = given ? t->strides[axis] : size;
		if (t->extents[axis] > 0 && __builtin_mul_overflow(size, t->extents[axis], &size))
			return rt_fail(TILERT_EINVAL, "kernel %s: %s has more than 2^63 elements", b->k->name,
			               b->k->tensors[i].name);
	}
	return TILERT_OK;
}

/* " = T * 2" for an expression that is no plain number, else "". */
static const char *formula(const Binding *b, const Expr *e, char *out, size_t size)
{
	out[0] = 0;
	if (e->count > 1 || e->tokens[0].op != EX_INT) {
		snprintf(out, size, " = ");
		rt_expr_format(e, b->k->symbol_names, out + 3, size - 3);
	}
	return out;
}

/* Kernels count with i32. */
static tilert_status check_size(const Binding *b, size_t i, int axis, int64_t extent)
{
	const TensorMeta *t = &b->k->tensors[i];
	const What w = { "dimension ", axis, " of ", t->name };
	char what[140];

	if (extent <= INT32_MAX)
		return TILERT_OK;
	return rt_fail(TILERT_EINVAL, "kernel %s: %s%s is %" PRId64 ", which is not in 0..%d", b->k->name, describe(&w, what, sizeof what),
	               t->shape, extent, INT32_MAX);
}

static tilert_status check_extent(const Binding *b, size_t i, int axis)
{
	const TensorMeta *t = &b->k->tensors[i];
	int64_t extent = b->tensors[i]->tensor.extents[axis], expected = 0;
	const What w = { "dimension ", axis, " of ", t->name };
	char what[140], text[160];
	tilert_status s = eval(b, &t->extents[axis], &w, &expected);

	if (!s && extent != expected)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s%s is %" PRId64 ", not %" PRId64 "%s", b->k->name,
		               describe(&w, what, sizeof what), t->shape, extent, expected, formula(b, &t->extents[axis], text, sizeof text));
	return s ? s : check_size(b, i, axis, extent);
}

static tilert_status check_stride(const Binding *b, size_t i, int axis, int64_t stride)
{
	const TensorMeta *t = &b->k->tensors[i];
	int64_t expected = 0;
	const What w = { "the stride of dimension ", axis, " of ", t->name };
	char what[140], text[160];

	if (b->tensors[i]->tensor.extents[axis] <= 1)
		return TILERT_OK; /* never stepped along */
	tilert_status s = eval(b, &t->strides[axis], &w, &expected);
	if (!s && stride != expected)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s%s is %" PRId64 " elements, not %" PRId64 "%s", b->k->name,
		               describe(&w, what, sizeof what), t->shape, stride, expected, formula(b, &t->strides[axis], text, sizeof text));
	return s;
}

static bool has_elements(const tilert_tensor *t)
{
	for (int axis = 0; axis < t->rank; axis++) {
		if (t->extents[axis] == 0)
			return false;
	}
	return true;
}

static tilert_status check_address(const Binding *b, size_t i)
{
	const TensorMeta *t = &b->k->tensors[i];
	tilert_ptr p = b->tensors[i]->tensor.data;

	if (!p)
		return rt_fail(TILERT_EINVAL, "kernel %s: the address of %s is 0", b->k->name, t->name);
	if (p % t->align)
		return rt_fail(TILERT_EINVAL, "kernel %s: the address of %s, 0x%" PRIx64 ", is not a multiple of %u",
		               b->k->name, t->name, p, t->align);
	return TILERT_OK;
}

static tilert_status check_tensor(const Binding *b, size_t i)
{
	const tilert_tensor *given = &b->tensors[i]->tensor;
	int64_t strides[TILERT_MAX_RANK];
	tilert_status s = rt_bind_strides(b, i, strides);

	for (int axis = 0; !s && axis < given->rank; axis++)
		s = check_extent(b, i, axis);
	if (s || !has_elements(given))
		return s;
	for (int axis = 0; !s && axis < given->rank; axis++)
		s = check_stride(b, i, axis, strides[axis]);
	return s ? s : check_address(b, i);
}

tilert_status rt_bind_check(const Binding *b)
{
	tilert_status s = TILERT_OK;

	for (size_t i = 0; !s && i < b->k->n_tensors; i++) {
		if (b->tensors[i])
			s = check_tensor(b, i);
	}
	return s;
}

tilert_status rt_bind_extents(const Binding *b, size_t i, int64_t extents[TILERT_MAX_RANK])
{
	const TensorMeta *t = &b->k->tensors[i];
	tilert_status s = TILERT_OK;
	char what[140];

	for (int axis = 0; !s && axis < t->rank; axis++) {
		const What w = { "dimension ", axis, " of ", t->name };
		s = eval(b, &t->extents[axis], &w, &extents[axis]);
		if (!s && extents[axis] < 0)
			return rt_fail(TILERT_EINVAL, "kernel %s: %s is %" PRId64, b->k->name, describe(&w, what, sizeof what), extents[axis]);
		s = s ? s : check_size(b, i, axis, extents[axis]);
	}
	return s;
}

/* ---- grid ---- */

tilert_status rt_bind_grid(const Binding *b, uint32_t grid[3])
{
	int64_t v[3] = { 1, 1, 1 };

	for (int i = 0; i < b->k->grid_rank; i++) {
		int64_t limit = i == 0 ? MAX_GRID_X : MAX_GRID_YZ;
		const What w = { "dimension ", i, " of the grid", "" };
		tilert_status s = eval(b, &b->k->grid[i], &w, &v[i]);
		if (s)
			return s;
		if (v[i] < 0 || v[i] > limit)
			return rt_fail(TILERT_EINVAL, "kernel %s: grid %c is %" PRId64 ", which is not in 0..%" PRId64,
			               b->k->name, 'x' + i, v[i], limit);
	}
	if (v[0] % b->k->cluster)
		return rt_fail(TILERT_EINVAL, "kernel %s: grid x is %" PRId64 ", not a multiple of the cluster of %u",
		               b->k->name, v[0], b->k->cluster);
	for (int i = 0; i < 3; i++)
		grid[i] = (uint32_t)v[i];
	return TILERT_OK;
}

/* ---- tensor maps ---- */

static tilert_status bind_map_axis(const Binding *b, const MapMeta *m, int axis, const char *tensor, MapSpec *out)
{
	int64_t dim = 0, stride = 0;
	const What w = { "dimension ", axis, " of the tensor map of ", tensor };
	char what[140];
	tilert_status s = eval(b, &m->dims[axis], &w, &dim);

	if (!s)
		s = eval(b, &m->strides[axis], &w, &stride);
	if (s)
		return s;
	if (dim == 0)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s has no elements but the grid is not empty: TMA cannot read it",
		               b->k->name, tensor);
	if (dim < 0 || (uint64_t)dim > MAP_MAX_DIM)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s is %" PRId64 ", which is not in 1..2^32", b->k->name,
		               describe(&w, what, sizeof what), dim);
	bool aligned = axis == 0 ? stride == (int64_t)tilert_dtype_size(m->dtype) : stride % MAP_ALIGN == 0;
	if (!aligned || stride < 0 || (uint64_t)stride >= MAP_MAX_STRIDE)
		return rt_fail(TILERT_EINVAL,
		               "kernel %s: the stride of %s is %" PRId64 " bytes; TMA needs %s", b->k->name,
		               describe(&w, what, sizeof what), stride, axis == 0 ? "adjacent elements" : "a multiple of 16 below 2^40");
	out->dims[axis] = (uint64_t)dim;
	out->strides[axis] = (uint64_t)stride;
	out->box[axis] = m->box[axis];
	return TILERT_OK;
}

/* An H200 writes all of the 16 bytes in which a row ends. */
static tilert_status check_stored(const Binding *b, const MapMeta *m, const MapSpec *spec)
{
	const TensorMeta *t = &b->k->tensors[m->tensor];
	uint64_t bytes = spec->dims[0] * tilert_dtype_size(m->dtype);

	if (!m->stored || bytes % MAP_ALIGN == 0)
		return TILERT_OK;
	return rt_fail(TILERT_EINVAL, "kernel %s: rows of %s%s are %" PRIu64 " bytes, and TMA stores whole 16: up to %" PRIu64 " would be written",
	               b->k->name, t->name, t->shape, bytes, (bytes + MAP_ALIGN - 1) / MAP_ALIGN * MAP_ALIGN);
}

tilert_status rt_bind_map(const Binding *b, size_t i, MapSpec *out)
{
	const MapMeta *m = &b->k->maps[i];
	const tilert_arg *arg = b->tensors[m->tensor];
	tilert_status s = TILERT_OK;

	*out = (MapSpec){ .dtype = m->dtype, .swizzle = m->swizzle, .rank = (uint32_t)m->rank };
	if (!arg)
		return TILERT_OK;
	out->base = arg->tensor.data;
	for (int axis = 0; !s && axis < m->rank; axis++)
		s = bind_map_axis(b, m, axis, b->k->tensors[m->tensor].name, out);
	if (!s)
		s = check_stored(b, m, out);
	if (!s && m->limited)
		out->base -= (out->dims[m->limited] - 1) * out->strides[m->limited];
	return s;
}

/* ---- values ---- */

/* The bits of a floating scalar; a finite number must stay finite. */
static tilert_status float_bits(const Binding *b, size_t i, uint64_t *out)
{
	const SymbolMeta *symbol = &b->k->symbols[i];
	const Float8 *float8 = rt_float8(symbol->dtype);
	double f = b->symbols[i]->f;
	float x = !isfinite(f) || fabs(f) <= FLT_MAX ? (float)f : INFINITY;
	bool overflow;

	if (symbol->dtype == TILERT_F16) {
		*out = rt_to_f16(x);
		overflow = isinf(rt_from_f16((uint16_t)*out));
	} else if (symbol->dtype == TILERT_BF16) {
		*out = rt_to_bf16(x);
		overflow = isinf(rt_from_bf16((uint16_t)*out));
	} else if (float8) {
		*out = float8_from(float8, x);
		overflow = fabsf(x) > float8_to(float8, float8->largest);
	} else {
		*out = rt_float_bits(x);
		overflow = isinf(x);
	}
	if (overflow && isfinite(f))
		return rt_fail(TILERT_EINVAL, "kernel %s: %s = %g does not fit %s", b->k->name, symbol->name, f,
		               tilert_dtype_name(symbol->dtype));
	return TILERT_OK;
}

/* Slots are little-endian, so that the low bytes are the parameter whatever its size. */
tilert_status rt_bind_values(const Binding *b, uint64_t *slots)
{
	tilert_status s = TILERT_OK;

	for (size_t i = 0; i < b->k->n_tensors; i++)
		slots[i] = b->tensors[i] ? b->tensors[i]->tensor.data : 0;
	slots += b->k->n_tensors;
	for (size_t i = 0; !s && i < b->k->n_symbols; i++) {
		if (rt_dtype_is_float(b->k->symbols[i].dtype))
			s = float_bits(b, i, &slots[i]);
		else
			slots[i] = (uint64_t)b->values[i];
	}
	return s;
}
