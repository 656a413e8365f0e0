/* device.h - what the CPU and CUDA back ends implement, and the objects they share. */
#ifndef TILE_RUNTIME_DEVICE_H
#define TILE_RUNTIME_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/src/bind.h"
#include "runtime/src/cuda_api.h"
#include "runtime/src/image.h"
#include "tilert/tilert.h"

typedef struct DeviceOps {
	void (*close)(tilert_device *d);
	tilert_status (*alloc)(tilert_device *d, size_t bytes, tilert_ptr *out);
	tilert_status (*free)(tilert_device *d, tilert_ptr p);
	tilert_status (*upload)(tilert_device *d, tilert_ptr dst, const void *src, size_t bytes);
	tilert_status (*download)(tilert_device *d, void *dst, tilert_ptr src, size_t bytes);
	tilert_status (*fill)(tilert_device *d, tilert_ptr dst, unsigned char value, size_t bytes, tilert_stream s);
	tilert_status (*stream_create)(tilert_device *d, tilert_stream *out);
	tilert_status (*stream_destroy)(tilert_device *d, tilert_stream s);
	tilert_status (*stream_sync)(tilert_device *d, tilert_stream s);
	tilert_status (*event_create)(tilert_event *e);
	void (*event_destroy)(tilert_event *e);
	tilert_status (*event_record)(tilert_event *e, tilert_stream s);
	tilert_status (*event_elapsed)(tilert_event *begin, tilert_event *end, float *ms);
	/* Loads the code that fits the device, and fills in m->code and each kernel's code. */
	tilert_status (*code_load)(tilert_module *m);
	void (*code_unload)(tilert_module *m);
	/* Builds p->maps from `specs` (one per map of the kernel) and what else the launch needs. */
	tilert_status (*prepare)(tilert_prepared *p, const MapSpec *specs);
	tilert_status (*launch)(const tilert_prepared *p, tilert_stream s);
	/* Several launches as one; NULL where that gains nothing. */
	tilert_status (*graph_make)(tilert_prepared *const *p, size_t n, void **out);
	bool (*is_capturing)(const tilert_device *d, tilert_stream s);
	tilert_status (*graph_launch)(const tilert_device *d, void *graph, tilert_stream s);
	void (*graph_free)(const tilert_device *d, void *graph);
} DeviceOps;

struct tilert_device {
	const DeviceOps *ops;
	tilert_device_info info;
	atomic_int sm_count; /* tilert_cpu_configure changes it while others prepare launches; info's is that of the beginning */
	/* cuda */
	const CudaApi *cu;
	CUdevice ordinal;
	CUcontext context;
	bool is_primary; /* the context was retained and must be released */
	int max_smem_bytes;
	/* cpu */
	struct TileCpuStacks *stacks; /* has a lock of its own */
	/* cpu; guarded by `lock` */
	pthread_mutex_t lock;
	uint64_t seed;
	unsigned threads;
	tilert_cpu_checks checks;
	tilert_progress progress;
	void *progress_user;
};

struct tilert_event {
	tilert_device *device;
	void *handle;  /* cuda */
	bool recorded; /* cpu */
	double ms;     /* cpu: since some fixed time */
};

struct tilert_kernel {
	const KernelMeta *meta;
	tilert_module *module;
	void *code; /* CUfunction, or the entry of the CPU device */
};

struct tilert_module {
	tilert_device *device; /* NULL: for inspection only */
	Image image;
	tilert_kernel *kernels;
	void *code; /* CUmodule or TileCpuImage */
};

struct tilert_prepared {
	const tilert_kernel *kernel;
	tilert_device *device;
	uint32_t grid[3];
	bool is_empty;     /* the grid has no blocks: nothing is launched */
	uint64_t *values;  /* of tensors, dims and scalars, one slot each */
	CUtensorMap *maps; /* or TileCpuTensorMap, which is not larger */
	void **params;     /* one pointer to each value and map, as both back ends want them */
	/* cuda */
	CUlaunchConfig config;
	CUlaunchAttribute attributes[2]; /* cluster, dependent */
};

extern const DeviceOps rt_cpu_ops, rt_cuda_ops;

tilert_status rt_cpu_open(tilert_device *d);
int rt_cpu_cores(void);
tilert_status rt_cuda_open(tilert_device *d, int ordinal);

/* Makes the device's context current when it is not; rt_cuda_leave undoes that. */
tilert_status rt_cuda_enter(const tilert_device *d, bool *pushed);
void rt_cuda_leave(const tilert_device *d, bool pushed);
/* The same for what a capture of any stream forbids though it touches none: loads, unloads, graphs of our own.  Inside one the driver would refuse it, and
 * spoil the capture. */
typedef struct CudaEntry { bool pushed, relaxed; int capture_mode; } CudaEntry;
tilert_status rt_cuda_enter_relaxed(const tilert_device *d, CudaEntry *e);
void rt_cuda_leave_relaxed(const tilert_device *d, CudaEntry *e);

/* launch_cpu.c and launch_cuda.c */
tilert_status rt_cpu_code_load(tilert_module *m);
void rt_cpu_code_unload(tilert_module *m);
tilert_status rt_cpu_prepare(tilert_prepared *p, const MapSpec *specs);
tilert_status rt_cpu_launch(const tilert_prepared *p, tilert_stream s);
/* locate.c: "x[3][4]", the element that byte of a tensor belongs to; false where its strides, or its name, do not tell. */
bool rt_locate(const tilert_prepared *p, const char *tensor, uint64_t byte, char *text, size_t size);
/* The name of the tensor that one of the launch's maps is of. */
const char *rt_tensor_of_map(const tilert_prepared *p, const void *map);
tilert_status rt_cuda_code_load(tilert_module *m);
void rt_cuda_code_unload(tilert_module *m);
tilert_status rt_cuda_prepare(tilert_prepared *p, const MapSpec *specs);
tilert_status rt_cuda_launch(const tilert_prepared *p, tilert_stream s);

/* graph_cuda.c */
tilert_status rt_cuda_graph_make(tilert_prepared *const *p, size_t n, void **out);
bool rt_cuda_is_capturing(const tilert_device *d, tilert_stream s);
tilert_status rt_cuda_graph_launch(const tilert_device *d, void *graph, tilert_stream s);
void rt_cuda_graph_free(const tilert_device *d, void *graph);

#endif
