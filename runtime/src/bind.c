/* bind.c - matches the arguments of a launch by name, and binds dims from the tensors. */
#include "runtime/src/bind.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/src/dtype.h"
#include "runtime/src/error.h"
#include "runtime/src/suggest.h"

static tilert_status allocate(Binding *b)
{
	size_t n_tensors = b->k->n_tensors, n_symbols = b->k->n_symbols, pointers = n_tensors + 2 * n_symbols;

	b->memory = calloc(1, pointers * sizeof(void *) + n_symbols * (sizeof *b->values + sizeof *b->known) + 1); /* of 0 it may be NULL */
	if (!b->memory)
		return rt_fail_memory("a launch");
	b->tensors = b->memory;
	b->symbols = b->tensors + n_tensors;
	b->origins = (const char **)(b->symbols + n_symbols);
	b->values = (int64_t *)(b->origins + n_symbols);
	b->known = (bool *)(b->values + n_symbols);
	return TILERT_OK;
}

void rt_binding_free(Binding *b)
{
	free(b->memory);
}

/* ---- names ---- */

static const char *kind_name(tilert_arg_kind kind)
{
	switch (kind) {
	case TILERT_ARG_TENSOR: return "a tensor";
	case TILERT_ARG_DIM: return "a dim";
	case TILERT_ARG_SCALAR: return "a scalar";
	}
	return "of an unknown kind";
}

static tilert_status fail_unknown(const KernelMeta *k, const char *name)
{
	Suggestion near = { .wrong = name };
	char text[100];

	for (size_t i = 0; i < k->n_tensors; i++)
		rt_suggest(&near, k->tensors[i].name);
	for (size_t i = 0; i < k->n_symbols; i++)
		rt_suggest(&near, k->symbols[i].name);
	return rt_fail(TILERT_EINVAL, "kernel %s has no parameter \"%s\"%s", k->name, name,
	               rt_suggest_text(&near, text, sizeof text));
}

/* Where the argument goes, and the kind that belongs there. */
static const tilert_arg **find_slot(Binding *b, const char *name, tilert_arg_kind *kind)
{
	const KernelMeta *k = b->k;
	int found = rt_kernel_param(k, name);

	if (found < 0)
		return NULL;
	size_t i = (size_t)found, symbol = i - k->n_tensors;
	*kind = i < k->n_tensors ? TILERT_ARG_TENSOR : symbol < k->n_dims ? TILERT_ARG_DIM : TILERT_ARG_SCALAR;
	return i < k->n_tensors ? &b->tensors[i] : &b->symbols[symbol];
}

static tilert_status match(Binding *b, const tilert_arg *arg)
{
	const char *kernel = b->k->name;
	tilert_arg_kind kind;

	if (!arg->name)
		return rt_fail(TILERT_EINVAL, "kernel %s: an argument has no name", kernel);
	const tilert_arg **slot = find_slot(b, arg->name, &kind);
	if (!slot)
		return b->mode == BIND_NAMED ? TILERT_OK : fail_unknown(b->k, arg->name);
	if (kind != arg->kind)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s is %s and was passed as %s", kernel, arg->name,
		               kind_name(kind), kind_name(arg->kind));
	if (*slot && b->mode == BIND_NAMED)
		return TILERT_OK;
	if (*slot)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s was passed twice", kernel, arg->name);
	*slot = arg;
	return TILERT_OK;
}

/* An optional tensor without address and rank is absent; of BIND_NAMED, one without address. */
static void drop_absent(Binding *b)
{
	for (size_t i = 0; i < b->k->n_tensors; i++) {
		const tilert_arg *a = b->tensors[i];
		if (a && b->k->tensors[i].optional && !a->tensor.data && (a->tensor.rank == 0 || b->mode == BIND_NAMED))
			b->tensors[i] = NULL;
	}
}

/* ---- values passed ---- */

static tilert_status check_range(const Binding *b, size_t i, int64_t v)
{
	tilert_dtype t = b->k->symbols[i].dtype;
	int64_t low = 0, high = INT64_MAX;

	switch (t) {
	case TILERT_BOOL: high = 1; break;
	case TILERT_I8: low = INT8_MIN, high = INT8_MAX; break;
	case TILERT_I16: low = INT16_MIN, high = INT16_MAX; break;
	case TILERT_I32: low = i < b->k->n_dims ? 0 : INT32_MIN, high = INT32_MAX; break;
	case TILERT_U8: high = UINT8_MAX; break;
	case TILERT_U16: high = UINT16_MAX; break;
	case TILERT_U32: high = UINT32_MAX; break;
	case TILERT_I64:
	case TILERT_U64: low = INT64_MIN; break; /* u64: the bits */
	case TILERT_F16:
	case TILERT_BF16:
	case TILERT_TF32:
	case TILERT_E4M3:
	case TILERT_E5M2:
	case TILERT_F32: return TILERT_OK;
	}
	if (v < low || v > high)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s = %" PRId64 " is not in %" PRId64 "..%" PRId64, b->k->name,
		               b->k->symbols[i].name, v, low, high);
	return TILERT_OK;
}

static tilert_status bind_passed(Binding *b)
{
	tilert_status s = TILERT_OK;

	for (size_t i = 0; !s && i < b->k->n_symbols; i++) {
		if (!b->symbols[i])
			continue;
		s = check_range(b, i, b->symbols[i]->i);
		b->values[i] = b->symbols[i]->i;
		b->known[i] = true;
	}
	return s;
}

/* ---- dims from tensors ---- */

static bool same_storage(tilert_dtype a, tilert_dtype b)
{
	return a == b || (a == TILERT_TF32 && b == TILERT_F32) || (a == TILERT_F32 && b == TILERT_TF32);
}

static tilert_status check_type(const Binding *b, size_t i)
{
	const TensorMeta *t = &b->k->tensors[i];
	const tilert_tensor *given = &b->tensors[i]->tensor;

	if (!tilert_dtype_size(given->dtype))
		return rt_fail(TILERT_EINVAL, "kernel %s: %s is %s and was passed as type %d, which is none", b->k->name, t->name,
		               tilert_dtype_name(t->dtype), (int)given->dtype);
	if (!same_storage(t->dtype, given->dtype))
		return rt_fail(TILERT_EINVAL, "kernel %s: %s is %s and was passed as %s", b->k->name, t->name,
		               tilert_dtype_name(t->dtype), tilert_dtype_name(given->dtype));
	if (t->rank != given->rank)
		return rt_fail(TILERT_EINVAL, "kernel %s: %s%s has rank %d and was passed with rank %d", b->k->name,
		               t->name, t->shape, t->rank, given->rank);
	for (int axis = 0; axis < t->rank; axis++) {
		if (given->extents[axis] < 0)
			return rt_fail(TILERT_EINVAL, "kernel %s: %s has the negative extent %" PRId64, b->k->name,
			               t->name, given->extents[axis]);
	}
	return TILERT_OK;
}

static tilert_status bind_dim(Binding *b, size_t dim, int64_t value, const char *tensor)
{
	const char *name = b->k->symbols[dim].name;

	if (!b->known[dim]) {
		b->values[dim] = value;
		b->known[dim] = true;
		b->origins[dim] = tensor;
		return check_range(b, dim, value);
	}
	if (b->values[dim] == value)
		return TILERT_OK;
	if (!b->origins[dim])
		return rt_fail(TILERT_EINVAL, "kernel %s: %s = %" PRId64 " was passed but %s has %s = %" PRId64,
		               b->k->name, name, b->values[dim], tensor, name, value);
	return rt_fail(TILERT_EINVAL, "kernel %s: %s has %s = %" PRId64 " but %s has %s = %" PRId64, b->k->name,
	               b->origins[dim], name, b->values[dim], tensor, name, value);
}

static tilert_status bind_extents(Binding *b, size_t i)
{
	const TensorMeta *t = &b->k->tensors[i];
	tilert_status s = check_type(b, i);

	for (int axis = 0; !s && axis < t->rank; axis++) {
		int dim = rt_expr_bare_symbol(&t->extents[axis]);
		if (dim >= 0 && (size_t)dim < b->k->n_dims)
			s = bind_dim(b, (size_t)dim, b->tensors[i]->tensor.extents[axis], t->name);
	}
	return s;
}

/* A dim that is only a stride comes from the tensor when it was not passed. */
static tilert_status bind_strides(Binding *b, size_t i)
{
	const TensorMeta *t = &b->k->tensors[i];
	int64_t strides[TILERT_MAX_RANK];
	tilert_status s = rt_bind_strides(b, i, strides);

	for (int axis = 0; !s && axis < t->rank; axis++) {
		int dim = rt_expr_bare_symbol(&t->strides[axis]);
		if (dim >= 0 && (size_t)dim < b->k->n_dims && !b->known[dim])
			s = bind_dim(b, (size_t)dim, strides[axis], t->name);
	}
	return s;
}

static tilert_status bind_tensors(Binding *b)
{
	tilert_status s = TILERT_OK;

	for (size_t i = 0; !s && i < b->k->n_tensors; i++) {
		if (b->tensors[i])
			s = bind_extents(b, i);
	}
	for (size_t i = 0; !s && i < b->k->n_tensors; i++) {
		if (b->tensors[i])
			s = bind_strides(b, i);
	}
	return s;
}

/* Whether the dim is nothing but a stride of optional tensors that were not passed: nobody needs it. */
static bool is_stride_of_absent(const Binding *b, size_t dim)
{
	bool stride = false;

	for (size_t i = 0; i < b->k->n_tensors; i++) {
		const TensorMeta *t = &b->k->tensors[i];

		for (int axis = 0; axis < t->rank; axis++) {
			if (rt_expr_bare_symbol(&t->extents[axis]) == (int)dim)
				return false;
			stride |= rt_expr_bare_symbol(&t->strides[axis]) == (int)dim;
		}
	}
	return stride;
}

static tilert_status check_complete(Binding *b)
{
	const KernelMeta *k = b->k;

	for (size_t i = 0; i < k->n_tensors; i++) {
		if (!b->tensors[i] && !k->tensors[i].optional)
			return rt_fail(TILERT_EINVAL, "kernel %s: %s%s was not passed", k->name, k->tensors[i].name,
			               k->tensors[i].shape);
	}
	for (size_t i = k->n_dims; i < k->n_symbols; i++) {
		if (!b->symbols[i])
			return rt_fail(TILERT_EINVAL, "kernel %s: the scalar %s was not passed", k->name,
			               k->symbols[i].name);
	}
	for (size_t i = 0; i < k->n_dims; i++) {
		if (!b->known[i] && is_stride_of_absent(b, i))
			b->known[i] = true; /* 0 */
		if (!b->known[i])
			return rt_fail(TILERT_EINVAL,
			               "kernel %s: no tensor that was passed has the dim %s: pass it as a dim", k->name,
			               k->symbols[i].name);
	}
	return TILERT_OK;
}

tilert_status rt_bind(const KernelMeta *k, int64_t sm_count, const tilert_arg *args, size_t nargs, BindMode mode, Binding *out)
{
	Binding b = { .k = k, .mode = mode, .sm_count = sm_count };
	tilert_status s = allocate(&b);

	if (!s && nargs && !args)
		s = rt_fail(TILERT_EINVAL, "kernel %s: args is NULL", k->name);
	for (size_t i = 0; !s && i < nargs; i++)
		s = match(&b, &args[i]);
	if (!s) {
		drop_absent(&b);
		s = bind_passed(&b);
	}
	if (!s)
		s = bind_tensors(&b);
	if (!s && mode != BIND_SOME)
		s = check_complete(&b);
	if (s)
		rt_binding_free(&b);
	else
		*out = b;
	return s;
}
