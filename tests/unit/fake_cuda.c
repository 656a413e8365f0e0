/* fake_cuda.c - a libcuda without a GPU that records what it is asked, for test_driver.c. */
#include <stdlib.h>
#include <string.h>

#include "runtime/src/cuda_api.h"
#include "tests/unit/fake_cuda.h"

enum { CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701 };

FakeCuda fake_cuda_state;

static FakeCuda *const fake = &fake_cuda_state;
static char primaries[FAKE_DEVICES], others[FAKE_DEVICES]; /* contexts are addresses of these */

CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *found);
void *fake_cuda_context(int device);

/* A context that is not the primary one, as a program may have made. */
void *fake_cuda_context(int device)
{
	return &others[device];
}

/* Of each function of the driver the first line: the call that is to fail does, before it has done anything. */
static int refused(const char *function)
{
	if (++fake->calls != fake->fail_call)
		return 0;
	fake->failed = function + strlen("fake_");
	return 1;
}

#define CALLED if (refused(__func__)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES

static void *current(void)
{
	return fake->depth ? fake->contexts[fake->depth - 1] : NULL;
}

static int device_of(void *context)
{
	for (int i = 0; i < FAKE_DEVICES; i++) {
		if (context == &primaries[i] || context == &others[i])
			return i;
	}
	return -1;
}

/* Calls that need a context fail without one, as in the driver. */
static CUresult in_context(void)
{
	fake->driver_calls++;
	return current() ? CUDA_SUCCESS : 201;
}

/* While a stream captures, the driver refuses what may wait or allocate, and spoils the capture. */
static CUresult not_captured(void)
{
	fake->refused += fake->capturing;
	return fake->capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : in_context();
}

/* What touches no stream it lets a thread do that has asked for it. */
static CUresult relaxed(void)
{
	return fake->thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ? in_context() : not_captured();
}

static CUresult fake_cuInit(unsigned flags) { CALLED; return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

static CUresult fake_cuGetErrorName(CUresult r, const char **out)
{
	*out = r == CUDA_ERROR_INVALID_VALUE         ? "CUDA_ERROR_INVALID_VALUE"
	       : r == CUDA_ERROR_ILLEGAL_INSTRUCTION ? "CUDA_ERROR_ILLEGAL_INSTRUCTION"
	       : r == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
	       : r == 201                            ? "CUDA_ERROR_INVALID_CONTEXT"
	                                             : "CUDA_ERROR_FAKE";
	return CUDA_SUCCESS;
}

static CUresult fake_cuGetErrorString(CUresult r, const char **out)
{
	(void)r;
	*out = "as the test wanted";
	return CUDA_SUCCESS;
}

static CUresult fake_cuDeviceGetCount(int *out)
{
	CALLED;
	*out = FAKE_DEVICES;
	return CUDA_SUCCESS;
}

static CUresult fake_cuDeviceGet(CUdevice *out, int ordinal)
{
	CALLED;
	*out = ordinal;
	return CUDA_SUCCESS;
}

static CUresult fake_cuDeviceGetName(char *name, int size, CUdevice d)
{
	CALLED;
	(void)d;
	strncpy(name, "Fake GPU", (size_t)size);
	return CUDA_SUCCESS;
}

/* Device 0 is 9.0, device 1 is 8.0. */
static CUresult fake_cuDeviceGetAttribute(int *out, int attribute, CUdevice d)
{
	CALLED;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *out = 132; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *out = d ? 8 : 9; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *out = 0; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *out = d ? 166912 : 232448; break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult fake_cuDeviceTotalMem(size_t *out, CUdevice d)
{
	CALLED;
	(void)d;
	*out = (size_t)1 << 36;
	return CUDA_SUCCESS;
}

static CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d)
{
	CALLED;
	fake->retains++;
	*out = (CUcontext)(void *)&primaries[d];
	return CUDA_SUCCESS;
}

static CUresult fake_cuDevicePrimaryCtxRelease(CUdevice d)
{
	CALLED;
	(void)d;
	fake->releases++;
	return CUDA_SUCCESS;
}

static CUresult fake_cuCtxGetCurrent(CUcontext *out)
{
	CALLED;
	*out = current();
	return CUDA_SUCCESS;
}

static CUresult fake_cuCtxGetDevice(CUdevice *out)
{
	CALLED;
	*out = device_of(current());
	return current() ? CUDA_SUCCESS : 201;
}

static CUresult fake_cuCtxPushCurrent(CUcontext c)
{
	CALLED;
	fake->contexts[fake->depth++] = c;
	fake->pushes++;
	return CUDA_SUCCESS;
}

static CUresult fake_cuCtxPopCurrent(CUcontext *out)
{
	CALLED;
	*out = fake->contexts[--fake->depth];
	fake->pops++;
	return CUDA_SUCCESS;
}

/* ---- memory: the host's ---- */

static CUresult fake_cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
	CALLED;
	if (bytes > (size_t)1 << 36)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUdeviceptr)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
	fake->allocs++;
	return not_captured();
}

static CUresult fake_cuMemFree(CUdeviceptr p)
{
	CALLED;
	free((void *)(uintptr_t)p);
	fake->frees++;
	return not_captured();
}

static CUresult fake_cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes)
{
	CALLED;
	memcpy((void *)(uintptr_t)dst, src, bytes);
	return not_captured();
}

static CUresult fake_cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes)
{
	CALLED;
	memcpy(dst, (void *)(uintptr_t)src, bytes);
	return not_captured();
}

static CUresult fake_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream s)
{
	CALLED;
	(void)s;
	memset((void *)(uintptr_t)dst, value, bytes);
	return in_context();
}

/* ---- streams and events ---- */

static CUresult fake_cuStreamCreate(CUstream *out, unsigned flags)
{
	CALLED;
	(void)flags;
	*out = (CUstream)(void *)&others[0];
	fake->streams++;
	return relaxed();
}

static CUresult fake_cuStreamDestroy(CUstream s) { CALLED; (void)s; fake->streams--; return relaxed(); }
static CUresult fake_cuStreamSynchronize(CUstream s) { CALLED; (void)s; return not_captured(); }

/* ---- captures: the launches of a stream of its own ---- */

static char graphs[2]; /* a graph, and one that can be launched */

static CUresult fake_cuStreamBeginCapture(CUstream s, int mode)
{
	CALLED;
	if (fake->fail_capture || !s || mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		return fake->fail_capture ? fake->fail_capture : CUDA_ERROR_INVALID_VALUE;
	fake->recording = s;
	return in_context();
}

static CUresult fake_cuStreamEndCapture(CUstream s, CUgraph *out)
{
	CALLED;
	if (fake->recording != s)
		return CUDA_ERROR_INVALID_VALUE;
	fake->recording = NULL;
	*out = (CUgraph)(void *)&graphs[0];
	fake->graphs++;
	return in_context();
}

static CUresult fake_cuStreamIsCapturing(CUstream s, int *out)
{
	CALLED;
	*out = fake->capturing || (s && fake->recording == s);
	return CUDA_SUCCESS;
}

static CUresult fake_cuThreadExchangeStreamCaptureMode(int *mode)
{
	CALLED;
	int before = fake->thread_mode;
	fake->thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

static CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
	CALLED;
	if (g != (CUgraph)(void *)&graphs[0] || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraphExec)(void *)&graphs[1];
	fake->execs++;
	return relaxed();
}

static CUresult fake_cuGraphDestroy(CUgraph g) { CALLED; (void)g; fake->graphs--; return in_context(); }
static CUresult fake_cuGraphExecDestroy(CUgraphExec g) { CALLED; (void)g; fake->execs--; return relaxed(); }

static CUresult fake_cuGraphLaunch(CUgraphExec g, CUstream s)
{
	CALLED;
	if (g != (CUgraphExec)(void *)&graphs[1])
		return CUDA_ERROR_INVALID_VALUE;
	fake->graph_launches++;
	fake->stream = s;
	return not_captured();
}

static CUresult fake_cuEventCreate(CUevent *out, unsigned flags)
{
	CALLED;
	(void)flags;
	*out = (CUevent)(void *)&others[1];
	return in_context();
}

static CUresult fake_cuEventDestroy(CUevent e) { CALLED; (void)e; return in_context(); }
static CUresult fake_cuEventRecord(CUevent e, CUstream s) { CALLED; (void)e; (void)s; return in_context(); }
static CUresult fake_cuEventSynchronize(CUevent e) { CALLED; (void)e; return not_captured(); }

static CUresult fake_cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
	CALLED;
	(void)begin;
	(void)end;
	*ms = 1.5f;
	return not_captured();
}

/* ---- code ---- */

static CUresult fake_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *options, void **values)
{
	CALLED;
	int is_ptx = !strncmp(image, ".version", 8);
	int r = is_ptx ? fake->fail_ptx : fake->fail_cubin;

	for (unsigned i = 0; r && i < n; i++) {
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			strcpy(values[i], "ptxas fatal: line 7");
	}
	if (r)
		return r;
	fake->loads++;
	fake->loaded_ptx = is_ptx;
	*out = (CUmodule)(void *)&primaries[0];
	return relaxed();
}

static CUresult fake_cuModuleUnload(CUmodule m)
{
	CALLED;
	(void)m;
	fake->unloads++;
	return relaxed();
}

static CUresult fake_cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
	CALLED;
	(void)m;
	if (!strcmp(name, "absent"))
		return CUDA_ERROR_NOT_FOUND;
	*out = (CUfunction)(void *)&primaries[1];
	return relaxed();
}

static CUresult fake_cuFuncSetAttribute(CUfunction f, int attribute, int value)
{
	CALLED;
	(void)f;
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		fake->max_dynamic_smem = value;
	if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
		fake->non_portable = value;
	return relaxed();
}

static CUresult fake_cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	CALLED;
	const unsigned grid[3] = { c->gridDimX, c->gridDimY, c->gridDimZ };
	const unsigned block[3] = { c->blockDimX, c->blockDimY, c->blockDimZ };

	if (fake->fail_launch || !f || extra)
		return fake->fail_launch;
	fake->launches += fake->recording == NULL;
	fake->recorded += fake->recording != NULL;
	memcpy(fake->grid, grid, sizeof grid);
	memcpy(fake->block, block, sizeof block);
	fake->smem = c->sharedMemBytes;
	fake->stream = c->hStream;
	fake->cluster = 1;
	fake->dependent = 0;
	for (unsigned i = 0; i < c->numAttrs; i++) {
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			fake->cluster = c->attrs[i].value.clusterDim.x;
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
			fake->dependent = c->attrs[i].value.programmaticStreamSerializationAllowed;
	}
	for (int i = 0; i < fake->n_params; i++)
		memcpy(&fake->params[i], params[i], sizeof fake->params[i]);
	return in_context();
}

static CUresult fake_cuTensorMapEncodeTiled(CUtensorMap *out, int dtype, uint32_t rank, void *address,
                                            const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                            const uint32_t *element_strides, int interleave, int swizzle, int l2,
                                            int oob)
{
	CALLED;
	if (fake->fail_map)
		return fake->fail_map;
	if ((uintptr_t)out % 64 || (uintptr_t)address % 16 || interleave || oob || element_strides[0] != 1)
		return CUDA_ERROR_INVALID_VALUE;
	fake->maps++;
	fake->map_dtype = dtype;
	fake->map_rank = rank;
	fake->map_swizzle = swizzle;
	fake->map_l2 = l2;
	fake->map_base = (uintptr_t)address;
	memcpy(fake->map_dims, dims, rank * sizeof *dims);
	memcpy(fake->map_strides, strides, (rank - 1) * sizeof *strides);
	memcpy(fake->map_box, box, rank * sizeof *box);
	memset(out, 0x5a, sizeof *out);
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *found)
{
	static const CudaApi api = {
#define CUDA_SYM(name, since, parameters) .name = fake_##name,
#include "runtime/src/cuda_symbols.def"
#undef CUDA_SYM
	};
	static const struct {
		const char *name;
		const void *slot;
	} table[] = {
#define CUDA_SYM(name, since, parameters) { #name, &api.name },
#include "runtime/src/cuda_symbols.def"
#undef CUDA_SYM
	};

	(void)flags;
	(void)found;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (!strcmp(table[i].name, symbol) && version >= 2000) {
			memcpy(out, table[i].slot, sizeof *out);
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_NOT_FOUND;
}
