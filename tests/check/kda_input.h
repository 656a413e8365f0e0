/* input.h - KDA inputs for tests, benchmarks and examples: normalised q and k, v, a choice of gates and of keys. */
#ifndef TILE_KDA_INPUT_H
#define TILE_KDA_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/check/kda_ref.h"

typedef enum KdaGates {
	KDA_GATES_MILD,   /* log(sigmoid(4 + normal)): a half-life of about 25 tokens */
	KDA_GATES_ZERO,   /* nothing decays */
	KDA_GATES_STRONG, /* -5 everywhere */
	KDA_GATES_MIXED,  /* 0, -0.01, -1 or -5 at random per token and channel */
	KDA_GATES_SLOW,   /* uniform in (-0.02, 0) */
	KDA_GATES_FAST,   /* uniform in (-5, -4) */
	KDA_GATES_BOUNDED, /* -5 sigmoid(normal - 3): the lower-bounded gate */
	KDA_GATES_RAW     /* normal: what a call with a raw gate is given */
} KdaGates;

typedef enum KdaKeys {
	KDA_KEYS_RANDOM,   /* normal */
	KDA_KEYS_POSITIVE, /* uniform in (0, 1): any two have a cosine of about 3/4 */
	KDA_KEYS_ALL_POSITIVE, /* and so are q and v: FLA's tests */
	KDA_KEYS_COLLINEAR /* one normal vector for a sequence and head, plus 0.05 normal for each token */
} KdaKeys;

enum { KDA_DIM = 128, KDA_CHUNK = 64 };

/* What the kernels read (16-bit patterns, gates also as bf16) and the same values as floats. */
typedef struct KdaInput {
	int64_t batch, tokens, heads;
	bool gate_bf16;    /* the gates are bf16 values; gates16 holds them */
	uint16_t *q16, *k16, *v16, *gates16;
	float *q, *k, *v, *g, *beta;
	float *initial;    /* NULL without an initial state */
} KdaInput;

typedef struct KdaInputSpec {
	int64_t batch, tokens, heads;
	KdaGates gates;
	KdaKeys keys;
	bool gate_bf16, with_initial;
	float values;      /* the size of v; 0: 1 */
	uint64_t seed;
} KdaInputSpec;

/* False when memory is short; then nothing is kept. */
bool kda_input_make(KdaInput *in, const KdaInputSpec *spec);
void kda_input_free(KdaInput *in);
KdaReference kda_input_reference(const KdaInput *in);

#endif
