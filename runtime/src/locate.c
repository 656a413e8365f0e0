/* locate.c - names for reports of the CPU device: the element of a tensor that a byte belongs to, the tensor that a map is of. */
#include <stdio.h>
#include <string.h>

#include "runtime/src/device.h"
#include "runtime/src/dtype.h"

enum { MOST_SYMBOLS = 1024 };

typedef struct Dimension {
	int64_t extent, stride, index;
} Dimension;

static const TensorMeta *tensor_of(const KernelMeta *k, const char *name)
{
	int i = rt_kernel_param(k, name);

	return i >= 0 && (size_t)i < k->n_tensors ? &k->tensors[i] : NULL;
}

/* With the dims and scalars of the launch; dims are i32, and extents and strides have no others but integers. */
static bool value_of(const tilert_prepared *p, const Expr *e, int64_t *out)
{
	const KernelMeta *k = p->kernel->meta;
	bool known[MOST_SYMBOLS];
	const ExprEnv env = { (const int64_t *)(const void *)(p->values + k->n_tensors), known, p->device->sm_count };

	if (k->n_symbols > MOST_SYMBOLS)
		return false;
	memset(known, 1, sizeof known);
	return rt_expr_eval(e, &env, out) == EXPR_OK;
}

/* The dimension of the largest stride that has more than one element and has not been looked at. */
static Dimension *next(Dimension *d, int rank)
{
	Dimension *found = NULL;

	for (int i = 0; i < rank; i++)
		if (d[i].index < 0 && d[i].extent > 1 && (!found || d[i].stride > found->stride))
			found = &d[i];
	return found;
}

/* Strides that do not nest have no one element for an offset. */
static bool find(Dimension *d, int rank, int64_t offset)
{
	for (Dimension *x; (x = next(d, rank));) {
		if (x->stride <= 0)
			return false;
		x->index = offset / x->stride;
		offset %= x->stride;
		if (x->index >= x->extent)
			return false;
	}
	return offset == 0;
}

bool rt_locate(const tilert_prepared *p, const char *tensor, uint64_t byte, char *text, size_t size)
{
	const TensorMeta *t = tensor_of(p->kernel->meta, tensor);
	Dimension d[TILERT_MAX_RANK];
	size_t length;

	if (!t)
		return false;
	for (int i = 0; i < t->rank; i++) {
		d[i].index = -1;
		if (!value_of(p, &t->extents[i], &d[i].extent) || !value_of(p, &t->strides[i], &d[i].stride))
			return false;
	}
	if (!find(d, t->rank, (int64_t)(byte / tilert_dtype_size(t->dtype))))
		return false;
	length = (size_t)snprintf(text, size, "%s", t->name);
	for (int i = 0; i < t->rank && length < size; i++)
		length += (size_t)snprintf(text + length, size - length, "[%lld]", (long long)(d[i].index < 0 ? 0 : d[i].index));
	return length < size;
}

const char *rt_tensor_of_map(const tilert_prepared *p, const void *map)
{
	const KernelMeta *k = p->kernel->meta;

	for (size_t i = 0; i < k->n_maps; i++)
		if (map == &p->maps[i])
			return k->tensors[k->maps[i].tensor].name;
	return NULL;
}
