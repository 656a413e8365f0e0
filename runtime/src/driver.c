/* driver.c - finds libcuda and its entry points, so that programs start on machines without a GPU. */
#include "runtime/src/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/src/error.h"

typedef CUresult (*GetProcAddress)(const char *symbol, void **out, int version, uint64_t flags, int *found);

static CudaApi api; /* of the process: written under `lock`, until it is loaded */
static bool loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct Symbol {
	const char *name;
	int version;
	void *slot; /* the member of CudaApi */
} Symbol;

static bool resolve(GetProcAddress get, const Symbol *s)
{
	void *p = NULL;

	if (get(s->name, &p, s->version, 0, NULL) != CUDA_SUCCESS || !p)
		return false;
	memcpy(s->slot, &p, sizeof p);
	return true;
}

static tilert_status resolve_all(GetProcAddress get, const char *path)
{
	const Symbol symbols[] = {
#define CUDA_SYM(name, version, parameters) { #name, version, &api.name },
#include "runtime/src/cuda_symbols.def"
#undef CUDA_SYM
	};

	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		if (!resolve(get, &symbols[i]))
			return rt_fail(TILERT_ENODRIVER, "%s has no %s: the driver is older than CUDA 12.0", path,
			               symbols[i].name);
	}
	return TILERT_OK;
}

static tilert_status load(void)
{
	const char *path = getenv("TILE_LIBCUDA");
	GetProcAddress get;

	if (!path || !*path)
		path = "libcuda.so.1";
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* never closed: the driver does not support it */
	if (!library)
		return rt_fail(TILERT_ENODRIVER, "the CUDA driver could not be loaded: %s", dlerror());
	void *p = dlsym(library, "cuGetProcAddress_v2");
	if (!p)
		return rt_fail(TILERT_ENODRIVER, "%s has no cuGetProcAddress_v2: the driver is older than CUDA 12.0",
		               path);
	memcpy(&get, &p, sizeof get);
	tilert_status s = resolve_all(get, path);
	if (s)
		return s;
	CUresult r = api.cuInit(0);
	if (r == CUDA_ERROR_NO_DEVICE)
		return rt_fail(TILERT_ENODEV, "the CUDA driver sees no device");
	if (rt_driver_check(&api, r, "cuInit"))
		return TILERT_ENODRIVER;
	return TILERT_OK;
}

tilert_status rt_driver_get(const CudaApi **out)
{
	pthread_mutex_lock(&lock);
	tilert_status s = loaded ? TILERT_OK : load();
	loaded = s == TILERT_OK;
	pthread_mutex_unlock(&lock);
	if (!s)
		*out = &api;
	return s;
}

tilert_status rt_driver_status(CUresult r)
{
	switch (r) {
	case CUDA_SUCCESS: return TILERT_OK;
	case CUDA_ERROR_OUT_OF_MEMORY: return TILERT_ENOMEM;
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE: return TILERT_ENODEV;
	case CUDA_ERROR_NO_BINARY_FOR_GPU: return TILERT_EARCH;
	default: return TILERT_EDEVICE;
	}
}

bool rt_driver_lost(CUresult r)
{
	switch (r) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED: return true;
	default: return false;
	}
}

void rt_driver_text(const CudaApi *cu, CUresult r, char *out, size_t size)
{
	const char *name = NULL, *text = NULL, *lost = "";

	if (cu->cuGetErrorName(r, &name) || !name)
		name = "unknown error";
	if (rt_driver_lost(r))
		lost = "; a kernel that was launched before ended like this and the context is lost: no call of this process succeeds any more";
	if (cu->cuGetErrorString(r, &text) || !text)
		snprintf(out, size, "%s (%d)%s", name, r, lost);
	else
		snprintf(out, size, "%s: %s%s", name, text, lost);
}

tilert_status rt_driver_check(const CudaApi *cu, CUresult r, const char *call)
{
	char text[320];

	if (r == CUDA_SUCCESS)
		return TILERT_OK;
	rt_driver_text(cu, r, text, sizeof text);
	return rt_fail(rt_driver_status(r), "%s: %s", call, text);
}
