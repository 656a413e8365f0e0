/* tensormap.h - which tensor maps a kernel's TMA operations need: for the code that uses them and for the module, whose launch makes them. */
#ifndef TILE_ANALYSIS_TENSORMAP_H
#define TILE_ANALYSIS_TENSORMAP_H

#include "compiler/tir/tir.h"

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

/* The distinct tensor maps of a kernel in order of first use; `tensor_map_of` gives the index that an op uses. */
typedef struct TensorMaps { int n; TensorMap *map; } TensorMaps;
TensorMaps kernel_tensor_maps(Arena *a, const Op *kernel);
int tensor_map_of(const TensorMaps *maps, const Op *tma_op);

#endif
