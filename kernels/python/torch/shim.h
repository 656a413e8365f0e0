/* shim.h - libtorch's stable C ABI, of PyTorch 2.10 and later.  Its headers are C++, so what is needed of it is declared here and taken
 * from the libtorch that the process has: nothing of torch is needed to build this, and one binary serves all versions. */
#ifndef TILEKERN_TORCH_SHIM_H
#define TILEKERN_TORCH_SHIM_H

#include <stdint.h>

typedef uint64_t Value; /* of a kernel's stack: a number's bits, a Tensor, or for optional ones 0 or a pointer to a Value */
typedef struct AtenTensorOpaque *Tensor;
typedef struct TorchLibraryOpaque *Library;
typedef void Kernel(Value *stack, uint64_t inputs, uint64_t outputs);

/* Of libtorch_cpu.so: int functions return 0, or something else where they fail. */
#define SHIM_FUNCTIONS(X) \
	X(uint64_t, aoti_torch_abi_version, (void)) \
	X(int, aoti_torch_library_init_def, (const char *ns, const char *file, uint32_t line, Library *out)) \
	X(int, aoti_torch_library_init_impl, (const char *ns, const char *key, const char *file, uint32_t line, Library *out)) \
	X(int, aoti_torch_library_def, (Library l, const char *schema)) \
	X(int, torch_library_impl, (Library l, const char *name, Kernel *fn, uint64_t build_version)) \
	X(int, aoti_torch_get_data_ptr, (Tensor t, void **out)) \
	X(int, aoti_torch_get_sizes, (Tensor t, int64_t **out)) \
	X(int, aoti_torch_get_strides, (Tensor t, int64_t **out)) \
	X(int, aoti_torch_get_dim, (Tensor t, int64_t *out)) \
	X(int, aoti_torch_get_dtype, (Tensor t, int32_t *out)) \
	X(int, aoti_torch_get_device_type, (Tensor t, int32_t *out)) \
	X(int, aoti_torch_get_device_index, (Tensor t, int32_t *out)) \
	X(int, aoti_torch_empty_strided, (int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device, int32_t index, Tensor *out)) \
	X(int, aoti_torch_new_uninitialized_tensor, (Tensor *out)) \
	X(int, aoti_torch_copy_, (Tensor self, Tensor src, int32_t non_blocking)) \
	X(int, aoti_torch_delete_tensor_object, (Tensor t)) \
	X(int32_t, aoti_torch_dtype_float32, (void)) \
	X(int32_t, aoti_torch_dtype_bfloat16, (void)) \
	X(int32_t, aoti_torch_dtype_float16, (void)) \
	X(int32_t, aoti_torch_dtype_float64, (void)) \
	X(int32_t, aoti_torch_dtype_int16, (void)) \
	X(int32_t, aoti_torch_dtype_int32, (void)) \
	X(int32_t, aoti_torch_dtype_int64, (void)) \
	X(int32_t, aoti_torch_dtype_uint8, (void)) \
	X(int32_t, aoti_torch_dtype_bool, (void)) \
	X(int32_t, aoti_torch_device_type_cpu, (void)) \
	X(int32_t, aoti_torch_device_type_cuda, (void))

typedef struct Shim {
#define SHIM_DECLARE(R, NAME, ARGS) R (*NAME) ARGS;
	SHIM_FUNCTIONS(SHIM_DECLARE)
#undef SHIM_DECLARE
	int (*aoti_torch_get_current_cuda_stream)(int32_t index, void **out); /* NULL: torch has no CUDA */
	void (*free_value)(void *);
	void (*throw_value_error)(const char *), (*throw_runtime_error)(const char *); /* libstdc++'s; they do not return */
	int32_t cpu, cuda;                                                    /* types of devices */
} Shim;
extern Shim shim; /* written once, before an operator is registered */

/* Fills `shim`; NULL, or the name of what is not there. */
const char *shim_load(void);

#endif
