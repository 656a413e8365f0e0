/* tensormap.h - the tensor maps of a kernel's TMA operations: for the code that uses them and for the module, whose launch makes them. */
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
	TensorMapDim dim[TIR_MAX_RANK + 2];
	bool panels;          /* a dimension after the tensor's counts panels of the innermost */
	int limited;          /* the dimension that a limit ends, which the last one is once more; 0: none */
	bool stored;          /* some operation stores through it */
} TensorMap;

TensorMap tensor_map_of(const Op *tma);
int64_t box_columns(const TileRef *global); /* of the innermost dimension; a tile may have dimensions of one element behind it */
bool tensor_map_equal(const TensorMap *a, const TensorMap *b); /* but for who stores */
/* For boxes of a limited map with nothing inside: it begins with the tensor. */
TensorMap tensor_map_outside(const TensorMap *limited);

/* Those of a kernel, by {map} and {outside} of its TMA operations. */
typedef struct TensorMaps { int n; TensorMap *map; } TensorMaps;
TensorMaps kernel_tensor_maps(Arena *a, const Op *kernel);

#endif
