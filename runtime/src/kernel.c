/* kernel.c - what a kernel wants. */
#include "runtime/src/device.h"
#include "runtime/src/error.h"

const char *tilert_kernel_name(const tilert_kernel *k)
{
	return k ? k->meta->name : "";
}

size_t tilert_kernel_param_count(const tilert_kernel *k)
{
	return k ? k->meta->n_tensors + k->meta->n_symbols : 0;
}

tilert_status tilert_kernel_param(const tilert_kernel *k, size_t i, tilert_param *out)
{
	if (!k || !out)
		return rt_fail(TILERT_EINVAL, "tilert_kernel_param: kernel or out is NULL");
	if (i >= tilert_kernel_param_count(k))
		return rt_fail(TILERT_EINVAL, "tilert_kernel_param: kernel %s has %zu parameters, and none of number %zu", k->meta->name, tilert_kernel_param_count(k), i);
	const KernelMeta *meta = k->meta;
	if (i < meta->n_tensors) {
		const TensorMeta *t = &meta->tensors[i];
		*out = (tilert_param){ t->name, TILERT_ARG_TENSOR, t->dtype, t->rank, t->direction, t->optional, t->shape };
		return TILERT_OK;
	}
	i -= meta->n_tensors;
	tilert_arg_kind kind = i < meta->n_dims ? TILERT_ARG_DIM : TILERT_ARG_SCALAR;
	*out = (tilert_param){ meta->symbols[i].name, kind, meta->symbols[i].dtype, 0, 1, 0, "" };
	return TILERT_OK;
}

tilert_status tilert_kernel_get_info(const tilert_kernel *k, tilert_kernel_info *out)
{
	if (!k || !out)
		return rt_fail(TILERT_EINVAL, "tilert_kernel_get_info: kernel or out is NULL");
	*out = (tilert_kernel_info){ k->meta->threads, k->meta->cluster, k->meta->smem_bytes, k->meta->registers,
		k->meta->dependent };
	return TILERT_OK;
}

tilert_status tilert_kernel_extents(const tilert_kernel *k, size_t i, const tilert_arg *args, size_t nargs,
                                    int64_t extents[TILERT_MAX_RANK])
{
	Binding b;
	int64_t v[TILERT_MAX_RANK] = { 0 };

	if (!k || !extents)
		return rt_fail(TILERT_EINVAL, "tilert_kernel_extents: kernel or extents is NULL");
	if (i >= k->meta->n_tensors)
		return rt_fail(TILERT_EINVAL, "tilert_kernel_extents: kernel %s has %zu tensors, and none of number %zu", k->meta->name, k->meta->n_tensors, i);
	const tilert_device *d = k->module->device;
	tilert_status s = rt_bind(k->meta, d ? d->sm_count : 1, args, nargs, BIND_SOME, &b);
	if (s)
		return s;
	s = rt_bind_extents(&b, i, v);
	rt_binding_free(&b);
	for (int axis = 0; !s && axis < TILERT_MAX_RANK; axis++)
		extents[axis] = v[axis];
	return s;
}
