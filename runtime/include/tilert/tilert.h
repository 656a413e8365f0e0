/* tilert.h - launch kernels compiled by tilec, on an NVIDIA GPU or on the CPU device.
 *
 * Conventions
 *  - Functions return a tilert_status: TILERT_OK (0) or a negative code; then
 *    tilert_last_error() has a sentence with the names and numbers involved.
 *  - Results come last, in `out` parameters, which are untouched on failure.
 *  - A handle made by an *_open, *_load or *_create function belongs to the caller and goes back by the
 *    matching *_close or *_destroy (NULL is accepted).  Handles from getters are borrowed.
 *  - Sizes are in bytes, extents in elements.
 *  - Every function may be called from any thread; a handle must not be
 *    destroyed while another thread uses it.
 *  - The library never prints, exits or installs signal handlers, and never
 *    waits for the GPU except where the text says "waits".
 */
#ifndef TILERT_TILERT_H
#define TILERT_TILERT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TILERT_API __attribute__((visibility("default")))
#else
#define TILERT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tilert_status {
	TILERT_OK = 0,
	TILERT_EINVAL = -1,    /**< an argument is wrong; the text names it */
	TILERT_ENOMEM = -2,    /**< out of host or device memory */
	TILERT_ENODRIVER = -3, /**< libcuda could not be loaded */
	TILERT_ENODEV = -4,    /**< no such device */
	TILERT_EARCH = -5,     /**< the module has no code for this device */
	TILERT_EFORMAT = -6,   /**< not a module, or a damaged one */
	TILERT_ENOENT = -7,    /**< no such file or kernel */
	TILERT_EDEVICE = -8,   /**< the driver or a kernel failed; a kernel that faulted takes its context with it, which the text says */
	TILERT_EIO = -9        /**< a file could not be read or written */
} tilert_status;

/** Text for the last failure on this thread; valid until its next one; never NULL. */
TILERT_API const char *tilert_last_error(void);
TILERT_API const char *tilert_status_name(tilert_status s);
/** Of this header: 10000 major + 100 minor + patch.  Minor versions add functions. */
#define TILERT_VERSION 100
/** Of the library that is linked: "0.1.0". */
TILERT_API const char *tilert_version(void);

/* ---- Devices -------------------------------------------------------------- */

typedef struct tilert_device tilert_device;
typedef struct tilert_module tilert_module;
typedef struct tilert_kernel tilert_kernel;

/** An address on the device: a CUdeviceptr, or a host pointer for "cpu". */
typedef uint64_t tilert_ptr;
/** A CUstream of the caller (0: the default stream); ignored by "cpu". */
typedef void *tilert_stream;

/**
 * Opens a device: "cpu", "cuda" (the same as "cuda:0") or "cuda:N" in the driver's order.
 *
 * For CUDA, adopts the calling thread's current context when that context is
 * on the device asked for, else retains the primary context (the one PyTorch and the CUDA runtime use).
 */
TILERT_API tilert_status tilert_device_open(const char *name, tilert_device **out);
TILERT_API void tilert_device_close(tilert_device *d);

typedef struct tilert_device_info {
	char name[128];
	int is_cuda;
	int sm_count;            /**< "cpu": the number of host threads used */
	int compute_major, compute_minor; /**< "cpu": 0 */
	size_t total_memory;
} tilert_device_info;
TILERT_API tilert_status tilert_device_get_info(const tilert_device *d, tilert_device_info *out);

/** CPU device: seed of scheduling and asynchrony (default 1) and host threads used, its sm_count (0: all cores; at most 1024, of which 256 run at once). */
TILERT_API tilert_status tilert_cpu_configure(tilert_device *d, uint64_t seed, unsigned threads);
/** CPU device: what it checks.  By default all of it (TILERT_NO_RACE_CHECK=1 in the environment turns the first off), with 60 seconds. */
typedef struct tilert_cpu_checks {
	int races;      /**< on shared memory and on tensors that a kernel writes, and missing fences */
	int arithmetic; /**< division by zero, shifts and conversions out of range */
	double timeout; /**< a launch fails where no thread comes to a barrier or ends for so many seconds; 0: never */
} tilert_cpu_checks;
TILERT_API tilert_status tilert_cpu_set_checks(tilert_device *d, const tilert_cpu_checks *checks);
/** CPU device: called now and then during a launch from the launching thread. */
typedef void (*tilert_progress)(void *user, uint64_t ctas_done, uint64_t ctas);
TILERT_API tilert_status tilert_cpu_set_progress(tilert_device *d, tilert_progress fn, void *user);

/* ---- Memory, streams, events ------------------------------------------------ */

TILERT_API tilert_status tilert_alloc(tilert_device *d, size_t bytes, tilert_ptr *out); /* 256-byte aligned */
TILERT_API tilert_status tilert_free(tilert_device *d, tilert_ptr p);
/** Copies.  Both wait. */
TILERT_API tilert_status tilert_upload(tilert_device *d, tilert_ptr dst, const void *src, size_t bytes);
TILERT_API tilert_status tilert_download(tilert_device *d, void *dst, tilert_ptr src, size_t bytes);
TILERT_API tilert_status tilert_memset(tilert_device *d, tilert_ptr dst, unsigned char value, size_t bytes, tilert_stream s);

TILERT_API tilert_status tilert_stream_create(tilert_device *d, tilert_stream *out);
TILERT_API tilert_status tilert_stream_destroy(tilert_device *d, tilert_stream s);
/** Waits, and reports errors of the work before it. */
TILERT_API tilert_status tilert_stream_sync(tilert_device *d, tilert_stream s);

typedef struct tilert_event tilert_event;
TILERT_API tilert_status tilert_event_create(tilert_device *d, tilert_event **out);
TILERT_API void tilert_event_destroy(tilert_event *e);
TILERT_API tilert_status tilert_event_record(tilert_event *e, tilert_stream s);
/** Waits for `end`; gives the milliseconds between the two. */
TILERT_API tilert_status tilert_event_elapsed(tilert_event *begin, tilert_event *end, float *ms);

/* ---- Modules ------------------------------------------------------------------ */

/**
 * Loads what `tilec --emit=module` wrote.  The memory is copied.
 *
 * With a NULL device the module can be asked about its kernels but launches nothing.
 */
TILERT_API tilert_status tilert_module_load(tilert_device *d, const void *image, size_t bytes, tilert_module **out);
TILERT_API tilert_status tilert_module_open(tilert_device *d, const char *path, tilert_module **out);
TILERT_API void tilert_module_close(tilert_module *m);
TILERT_API tilert_status tilert_module_kernel(tilert_module *m, const char *name, tilert_kernel **out);
TILERT_API size_t tilert_module_kernel_count(const tilert_module *m);
TILERT_API tilert_kernel *tilert_module_kernel_at(tilert_module *m, size_t i); /* NULL past the end */

/* ---- Kernels -------------------------------------------------------------------- */

/** Element types; names are those of the language. */
typedef enum tilert_dtype {
	TILERT_BOOL = 1, TILERT_I8, TILERT_I16, TILERT_I32, TILERT_I64, TILERT_U8, TILERT_U16, TILERT_U32,
	TILERT_U64, TILERT_F16, TILERT_BF16, TILERT_TF32, TILERT_F32, TILERT_E4M3, TILERT_E5M2
} tilert_dtype;
TILERT_API const char *tilert_dtype_name(tilert_dtype t);
TILERT_API size_t tilert_dtype_size(tilert_dtype t);

enum { TILERT_MAX_RANK = 5 };

/** A tensor argument; row-major.  strides in elements: all zero means contiguous. */
typedef struct tilert_tensor {
	tilert_ptr data;
	tilert_dtype dtype;
	int rank;
	int64_t extents[TILERT_MAX_RANK];
	int64_t strides[TILERT_MAX_RANK];
} tilert_tensor;

typedef enum tilert_arg_kind { TILERT_ARG_TENSOR, TILERT_ARG_DIM, TILERT_ARG_SCALAR } tilert_arg_kind;
/** What a kernel wants, in the order of the module: tensors, dims, scalars. */
typedef struct tilert_param {
	const char *name; /* borrowed */
	tilert_arg_kind kind;
	tilert_dtype dtype;
	int rank, direction /* 1 in, 2 out, 3 inout */, optional;
	const char *shape; /**< tensors: the extents as declared, "[B][T][128]"; borrowed */
} tilert_param;
TILERT_API const char *tilert_kernel_name(const tilert_kernel *k);
TILERT_API size_t tilert_kernel_param_count(const tilert_kernel *k);
TILERT_API tilert_status tilert_kernel_param(const tilert_kernel *k, size_t i, tilert_param *out);

typedef struct tilert_kernel_info {
	uint32_t threads, cluster, smem_bytes, registers; /**< per CTA; registers per thread */
	int dependent; /**< it calls grid_wait(), and may start while the grids before it run */
} tilert_kernel_info;
TILERT_API tilert_status tilert_kernel_get_info(const tilert_kernel *k, tilert_kernel_info *out);

/** One named argument.  An optional tensor is absent when it is left out, or has data 0 and rank 0. */
typedef struct tilert_arg {
	const char *name;
	tilert_arg_kind kind;
	tilert_tensor tensor; /**< kind TENSOR */
	int64_t i;            /**< kind DIM, and integer SCALARs */
	double f;             /**< floating SCALARs */
} tilert_arg;

/**
 * Extents that tensor parameter `i` must have, computed from the dims, scalars and tensors in `args`; for
 * allocating outputs.  Arguments may be missing as long as the extents are determined.
 */
TILERT_API tilert_status tilert_kernel_extents(const tilert_kernel *k, size_t i, const tilert_arg *args, size_t nargs,
	int64_t extents[TILERT_MAX_RANK]);

/**
 * A launch checked once: arguments matched by name, dims bound from the tensors and compared, strides, alignment
 * (of the widest access: 16 bytes with TMA, less where rows are odd, an element where single elements are read or written alone) and dtypes checked, tensor maps built.  Reusable for the same arguments;
 * tilert_prepared_launch then only queues.
 */
typedef struct tilert_prepared tilert_prepared;
TILERT_API tilert_status tilert_prepare(tilert_kernel *k, const tilert_arg *args, size_t nargs, tilert_prepared **out);
/**
 * The same, but `args` may have more than the kernel takes, for programs that make one list for several kernels: those that it does not
 * name are passed over, the first of a name counts, and optional tensors at address 0 are absent.
 */
TILERT_API tilert_status tilert_prepare_named(tilert_kernel *k, const tilert_arg *args, size_t nargs, tilert_prepared **out);
TILERT_API void tilert_prepared_destroy(tilert_prepared *p);
/** Queues it on the stream.  The CPU device runs it here and waits. */
TILERT_API tilert_status tilert_prepared_launch(tilert_prepared *p, tilert_stream s);
/** The grid it will use. */
TILERT_API void tilert_prepared_grid(const tilert_prepared *p, uint32_t grid[3]);
/**
 * Prepared launches of one device that are queued together, in this order; they must outlive the chain.  On a GPU a chain is a CUDA graph of
 * its own: the host takes one microsecond for all of them instead of two and a half for each.  The GPU takes about one microsecond more a
 * chain where it runs them without a pause, and .1 MB of its memory.  Where the stream is being captured they are queued one by one, and the
 * captured graph does not need the chain.  Chains may be made and destroyed during captures.  Several threads may launch it.
 */
typedef struct tilert_chain tilert_chain;
TILERT_API tilert_status tilert_chain_create(tilert_prepared *const *launches, size_t n, tilert_chain **out);
TILERT_API tilert_status tilert_chain_launch(tilert_chain *c, tilert_stream s);
TILERT_API void tilert_chain_destroy(tilert_chain *c);
/** tilert_prepare, launch and destroy in one. */
TILERT_API tilert_status tilert_launch(tilert_kernel *k, const tilert_arg *args, size_t nargs, tilert_stream s);

#ifdef __cplusplus
}
#endif
#endif
