/* lower.h - from TIR (all passes run) to code.  Only files in compiler/lower/ include LLVM. */
#ifndef TILE_LOWER_H
#define TILE_LOWER_H

#include "compiler/tir/tir.h"

typedef enum LowerTarget { LOWER_SM90A, LOWER_CPU } LowerTarget;
typedef enum LowerForm {
	LOWER_LLVM,   /* LLVM IR as text, after optimisation when opt_level > 0 */
	LOWER_CODE    /* sm_90a: PTX text; cpu: an x86-64 ELF relocatable object */
} LowerForm;

typedef struct LowerOptions {
	LowerTarget target;
	LowerForm form;
	int opt_level;     /* 0..3 */
	bool debug;        /* cpu: not optimised, so that gdb can stop at every line; GPU: asserts are checked; all code has lines */
	bool strip;        /* cpu: no source lines */
	double *llvm_seconds, *codegen_seconds; /* may be NULL */
} LowerOptions;

typedef struct LowerResult { char *data; size_t len; } LowerResult; /* in the arena; data is NUL-terminated beyond len */

/* Errors go to t->diags. */
bool lower_module(Arena *a, const Tir *t, const LowerOptions *o, LowerResult *out);

const char *lower_llvm_version(void);

/* ---- tensor maps, also needed for the module's metadata ---- */

typedef struct TensorMapDim { /* innermost first */
	Value *extent;        /* NULL: extent_const */
	int64_t extent_const;
	Value *stride;        /* elements (i64 scalar); NULL: stride_const */
	int64_t stride_const; /* elements */
	unsigned box;
} TensorMapDim;

typedef struct TensorMap {
	const Op *tensor;     /* OP_TENSOR */
	DType dtype;
	unsigned swizzle;     /* bytes: 0, 32, 64, 128 */
	int rank;
	TensorMapDim dim[5];
	bool panels;          /* a dimension after the tensor's counts panels of the innermost */
	int limited;          /* the dimension that a limit ends, which the last one is once more; 0: none */
	bool stored;          /* some operation stores through it */
	int outside;          /* of a limited map that is loaded through: the map for boxes with nothing inside; 0: none */
} TensorMap;

/* The distinct tensor maps of a kernel in order of first use; `map_of` gives the index an op uses. */
typedef struct TensorMaps { int n; TensorMap *map; } TensorMaps;
TensorMaps kernel_tensor_maps(Arena *a, const Op *kernel);
int tensor_map_of(const TensorMaps *maps, const Op *tma_op);

#endif
