/* program.h - a random program: one kernel, what a launch of it takes, and how both came to be. */
#ifndef TILE_RANDOM_PROGRAM_H
#define TILE_RANDOM_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "dsl/dtype.h"
#include "tests/random/rng.h"

/* Numbers from lo to hi, multiples of 2^-frac. */
typedef struct Range { double lo, hi; int frac; } Range;

enum { MAX_TENSORS = 24, MAX_SCALARS = 12, MAX_DIMS = 5, NAME_SIZE = 24 };

typedef struct TensorParam {
	char name[NAME_SIZE];
	DType type;
	int dir; /* 1 in, 2 out, 3 inout */
	int rank;
	int64_t extents[MAX_DIMS];
	Range range;
} TensorParam;

typedef struct ScalarParam {
	char name[NAME_SIZE];
	DType type;
	bool is_dim;   /* bound by the tensors: the launch does not pass it */
	int64_t i;
	double f;
} ScalarParam;

typedef struct Program {
	uint64_t seed;
	char kernel[NAME_SIZE];
	char *text; /* owned */
	TensorParam tensor[MAX_TENSORS];
	ScalarParam scalar[MAX_SCALARS];
	int ntensors, nscalars;
	int statements;
	bool twins; /* elements 2k and 2k + 1 of tensor "twins" are the same computed twice */
} Program;

/* Deterministic. */
void program_generate(Program *p, uint64_t seed);
void program_free(Program *p);

#endif
