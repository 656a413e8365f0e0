/* launch_cuda.c - code, tensor maps and launches on a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/src/device.h"
#include "runtime/src/driver.h"
#include "runtime/src/error.h"

enum { PORTABLE_CLUSTER = 8, JIT_LOG_BYTES = 6000 };

/* ---- code ---- */

/* "cubin:sm_90a" runs on 9.0 only; without the a, on 9.0 and the later 9.x. */
static bool cubin_fits(const tilert_device *d, const char *kind)
{
	int arch = 0, length = 0;

	if (sscanf(kind, "cubin:sm_%d%n", &arch, &length) != 1)
		return false;
	int major = arch / 10, minor = arch % 10;
	if (!strcmp(kind + length, "a"))
		return d->info.compute_major == major && d->info.compute_minor == minor;
	return !kind[length] && d->info.compute_major == major && d->info.compute_minor >= minor;
}

static const Blob *find_cubin(const tilert_module *m)
{
	for (size_t i = 0; i < m->image.n_blobs; i++) {
		if (cubin_fits(m->device, m->image.blobs[i].kind))
			return &m->image.blobs[i];
	}
	return NULL;
}

static tilert_status load_cubin(tilert_module *m, const Blob *cubin)
{
	const CudaApi *cu = m->device->cu;
	CUmodule code = NULL;
	uint8_t *data = NULL;
	tilert_status s = rt_blob_data(cubin, &data);

	if (!s)
		s = rt_driver_check(cu, cu->cuModuleLoadDataEx(&code, data, 0, NULL, NULL), "cuModuleLoadDataEx");
	free(data);
	m->code = code;
	return s ? rt_fail_in(s, cubin->kind) : TILERT_OK;
}

static tilert_status load_ptx(tilert_module *m, const Blob *ptx)
{
	const CudaApi *cu = m->device->cu;
	char log[JIT_LOG_BYTES] = "", text[320];
	CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { log, (void *)(uintptr_t)sizeof log };
	CUmodule code = NULL;
	uint8_t *data = NULL;
	tilert_status s = rt_blob_data(ptx, &data);

	if (s)
		return s;
	CUresult r = cu->cuModuleLoadDataEx(&code, data, 2, options, values);
	free(data);
	m->code = code;
	if (r == CUDA_SUCCESS)
		return TILERT_OK;
	if (rt_driver_lost(r)) /* the PTX was not looked at */
		return rt_fail_in(rt_driver_check(cu, r, "cuModuleLoadDataEx"), m->image.source_name);
	log[sizeof log - 1] = 0;
	rt_driver_text(cu, r, text, sizeof text);
	return rt_fail(rt_driver_status(r), "module %s: the driver cannot compile its PTX for %s: %s%s%s",
	               m->image.source_name, m->device->info.name, text, log[0] ? "\n" : "", log);
}

/* The cubin when there is one that fits and loads, else the PTX. */
static tilert_status load_code(tilert_module *m)
{
	const Blob *cubin = find_cubin(m), *ptx = rt_image_blob(&m->image, "ptx");

	if (!cubin && !ptx)
		return rt_fail(TILERT_EARCH, "module %s has no code for compute capability %d.%d", m->image.source_name,
		               m->device->info.compute_major, m->device->info.compute_minor);
	tilert_status s = cubin ? load_cubin(m, cubin) : TILERT_EARCH;
	return s && ptx && s != TILERT_ENOMEM ? load_ptx(m, ptx) : s;
}

static tilert_status set_attribute(const tilert_device *d, CUfunction f, int attribute, uint32_t value)
{
	return rt_driver_check(d->cu, d->cu->cuFuncSetAttribute(f, attribute, (int)value), "cuFuncSetAttribute");
}

static tilert_status find_function(tilert_kernel *kernel)
{
	const tilert_device *d = kernel->module->device;
	const KernelMeta *k = kernel->meta;
	CUfunction f = NULL;

	if (k->smem_bytes > (uint32_t)d->max_smem_bytes)
		return rt_fail(TILERT_EARCH, "kernel %s needs %u bytes of shared memory; %s has %d per block", k->name,
		               k->smem_bytes, d->info.name, d->max_smem_bytes);
	tilert_status s =
		rt_driver_check(d->cu, d->cu->cuModuleGetFunction(&f, kernel->module->code, k->name), "cuModuleGetFunction");
	if (!s && k->smem_bytes)
		s = set_attribute(d, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k->smem_bytes);
	if (!s && k->cluster > PORTABLE_CLUSTER)
		s = set_attribute(d, f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
	kernel->code = f;
	return s ? rt_fail_in(s, k->name) : TILERT_OK;
}

tilert_status rt_cuda_code_load(tilert_module *m)
{
	CudaEntry e;
	tilert_status s = rt_cuda_enter_relaxed(m->device, &e);

	if (s)
		return s;
	s = load_code(m);
	for (size_t i = 0; !s && i < m->image.n_kernels; i++)
		s = find_function(&m->kernels[i]);
	if (s && m->code)
		m->device->cu->cuModuleUnload(m->code);
	rt_cuda_leave_relaxed(m->device, &e);
	return s;
}

void rt_cuda_code_unload(tilert_module *m)
{
	CudaEntry e;

	if (rt_cuda_enter_relaxed(m->device, &e))
		return;
	m->device->cu->cuModuleUnload(m->code);
	rt_cuda_leave_relaxed(m->device, &e);
}

/* ---- tensor maps ---- */

/* The driver's element type; -1: there is none. */
static int map_dtype(tilert_dtype t)
{
	switch (t) {
	case TILERT_BOOL:
	case TILERT_E4M3:
	case TILERT_E5M2:
	case TILERT_I8: /* sums of bytes do not exist, so that the sign does not matter */
	case TILERT_U8: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
	case TILERT_I16:
	case TILERT_U16: return CU_TENSOR_MAP_DATA_TYPE_UINT16;
	case TILERT_I32: return CU_TENSOR_MAP_DATA_TYPE_INT32;
	case TILERT_U32: return CU_TENSOR_MAP_DATA_TYPE_UINT32;
	case TILERT_I64: return CU_TENSOR_MAP_DATA_TYPE_INT64;
	case TILERT_U64: return CU_TENSOR_MAP_DATA_TYPE_UINT64;
	case TILERT_F16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
	case TILERT_BF16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
	case TILERT_TF32: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
	case TILERT_F32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
	}
	return -1;
}

static int map_swizzle(uint32_t bytes)
{
	return bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
	       : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
	       : bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
	                     : CU_TENSOR_MAP_SWIZZLE_NONE;
}

/* The driver takes the strides from the second dimension on; the first is the element size. */
static tilert_status encode_map(const tilert_prepared *p, size_t i, const MapSpec *spec)
{
	static const uint32_t ones[TILERT_MAX_RANK] = { 1, 1, 1, 1, 1 };
	const CudaApi *cu = p->device->cu;
	CUresult r = cu->cuTensorMapEncodeTiled(&p->maps[i], map_dtype(spec->dtype), spec->rank,
	                                        (void *)(uintptr_t)spec->base, spec->dims, spec->strides + 1, spec->box,
	                                        ones, CU_TENSOR_MAP_INTERLEAVE_NONE, map_swizzle(spec->swizzle),
	                                        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

	if (r == CUDA_SUCCESS)
		return TILERT_OK;
	const KernelMeta *k = p->kernel->meta;
	rt_driver_check(cu, r, "cuTensorMapEncodeTiled");
	return rt_fail(TILERT_EDEVICE, "kernel %s: tensor map of %s: %s", k->name, k->tensors[k->maps[i].tensor].name,
	               tilert_last_error());
}

static CUlaunchAttribute *add_attribute(tilert_prepared *p, int id)
{
	CUlaunchAttribute *a = &p->attributes[p->config.numAttrs++];

	a->id = id;
	p->config.attrs = p->attributes;
	return a;
}

static void configure(tilert_prepared *p)
{
	const KernelMeta *k = p->kernel->meta;

	p->config = (CUlaunchConfig){
		.gridDimX = p->grid[0],
		.gridDimY = p->grid[1],
		.gridDimZ = p->grid[2],
		.blockDimX = k->threads,
		.blockDimY = 1,
		.blockDimZ = 1,
		.sharedMemBytes = k->smem_bytes,
	};
	if (k->cluster > 1) {
		CUlaunchAttribute *a = add_attribute(p, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
		a->value.clusterDim.x = k->cluster;
		a->value.clusterDim.y = 1;
		a->value.clusterDim.z = 1;
	}
	if (k->dependent)
		add_attribute(p, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)->value.programmaticStreamSerializationAllowed = 1;
}

tilert_status rt_cuda_prepare(tilert_prepared *p, const MapSpec *specs)
{
	tilert_status s = TILERT_OK;
	bool pushed;

	configure(p);
	if (p->kernel->meta->n_maps == 0)
		return TILERT_OK;
	s = rt_cuda_enter(p->device, &pushed);
	if (s)
		return s;
	for (size_t i = 0; !s && i < p->kernel->meta->n_maps; i++) {
		if (specs[i].base)
			s = encode_map(p, i, &specs[i]);
	}
	rt_cuda_leave(p->device, pushed);
	return s;
}

/* ---- launches ---- */

static tilert_status fail_launch(const tilert_prepared *p, CUresult r)
{
	const KernelMeta *k = p->kernel->meta;
	char text[320];

	rt_driver_text(p->device->cu, r, text, sizeof text);
	return rt_fail(rt_driver_status(r),
	               "kernel %s: launch of %u x %u x %u blocks of %u threads with %u bytes of shared memory: %s",
	               k->name, p->grid[0], p->grid[1], p->grid[2], k->threads, k->smem_bytes, text);
}

tilert_status rt_cuda_launch(const tilert_prepared *p, tilert_stream stream)
{
	CUlaunchConfig config = p->config; /* a copy: other threads may launch `p` on other streams */
	bool pushed;
	tilert_status s = rt_cuda_enter(p->device, &pushed);

	if (s)
		return s;
	config.hStream = stream;
	CUresult r = p->device->cu->cuLaunchKernelEx(&config, p->kernel->code, p->params, NULL);
	rt_cuda_leave(p->device, pushed);
	return r == CUDA_SUCCESS ? TILERT_OK : fail_launch(p, r);
}
