/* model.h - what a kernel does, computed from its TIR before any pass: tile operations on whole tiles, one team after the
 * other.  Layouts, instructions, fences and groups do not exist here; asynchronous copies and products happen at once.
 */
#ifndef TILE_RANDOM_MODEL_H
#define TILE_RANDOM_MODEL_H

#include <stddef.h>

#include "tests/random/model/number.h"

/* Of each byte of a tile: never written, written, or written with what no rule gives. */
enum { CELL_POISON, CELL_DEFINED, CELL_GARBAGE };

/* A tensor argument, contiguous; `defined` has a byte per byte of data. */
typedef struct ModelTensor {
	const char *name;
	int64_t extents[TIR_MAX_RANK];
	unsigned char *data, *defined;
	size_t bytes;
} ModelTensor;

typedef struct ModelScalar { const char *name; Num value; } ModelScalar; /* dims and scalar parameters */

typedef struct ModelArgs {
	ModelTensor *tensor;
	int ntensors;
	const ModelScalar *scalar;
	int nscalars;
} ModelArgs;

typedef struct ModelCount { uint64_t ops, tile_ops; } ModelCount;

/* Runs one kernel op; false with a sentence in `error` where the program (or the model) does what has no meaning. */
bool model_run(Tir *t, const Op *kernel, const ModelArgs *args, ModelCount *count, char *error, size_t error_size);

#endif
