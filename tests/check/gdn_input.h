/* input.h - GDN inputs for tests, benchmarks and examples: a choice of gates, keys and beta. */
#ifndef TILE_GDN_INPUT_H
#define TILE_GDN_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/check/gdn_ref.h"

typedef enum GdnGates {
	GDN_GATES_MILD,   /* log(sigmoid(4 + normal)): a half-life of about 25 tokens */
	GDN_GATES_ZERO,   /* nothing decays */
	GDN_GATES_STRONG, /* -5 everywhere */
	GDN_GATES_MIXED,  /* 0, -0.01, -1 or -5 at random per token and head, one in 16 a reset of -1000 */
	GDN_GATES_PATCHES, /* nothing decays, for 640 tokens, then -0.1 for as many, and so on; every head begins elsewhere */
	GDN_GATES_RAW     /* normal, with a_log = log U(1, 16) and softplus(dt_bias) in [.001, .1]: FLA's layer */
} GdnGates;

typedef enum GdnKeys { /* how q and k are made */
	GDN_KEYS_RANDOM,    /* normal, normalised */
	GDN_KEYS_POSITIVE,  /* FLA's tests: q, k and v uniform in (0, 1), q and k normalised */
	GDN_KEYS_COLLINEAR, /* keys of a head 5% apart, normalised */
	GDN_KEYS_EQUAL,     /* one key for all tokens of a head, normalised */
	GDN_KEYS_SHORT,     /* the same with norms of 0.8 */
	GDN_KEYS_LONG,      /* norms of 1.6: beta k k^T may expand a state, which strong gates make harmless */
	GDN_KEYS_RAW        /* normal, not normalised: norms of 0, 1e-3, 1 or 45 at random */
} GdnKeys;

typedef enum GdnBetas {
	GDN_BETAS_SIGMOID,  /* sigmoid(normal) */
	GDN_BETAS_TWICE,    /* 2 sigmoid(normal) */
	GDN_BETAS_RAW       /* normal */
} GdnBetas;

enum { GDN_CHUNK = 64 };

typedef struct GdnInputSpec {
	int64_t batch, tokens, qk_heads, value_heads, key_dim, value_dim;
	int64_t sequences;  /* initial states; 0: batch */
	GdnGates gates;
	GdnKeys keys;
	GdnBetas betas;
	float beta;         /* of all tokens; 0: as betas says */
	bool fp16;          /* q, k, v (and gates16, beta16) are fp16 patterns; else bf16 */
	bool gate16, beta16; /* rounded to that, too; else fp32 */
	bool with_initial, initial_bf16;
	float value_scale;  /* of v and the initial states; 0: 1 */
	uint64_t seed;
} GdnInputSpec;

/* What the kernels read (16-bit patterns) and the same values as floats. */
typedef struct GdnInput {
	GdnInputSpec spec;
	uint16_t *q16, *k16, *v16, *gates16, *beta16, *initial16;
	float *q, *k, *v, *g, *beta, *initial; /* initial: NULL without */
	float *a_log, *dt_bias;
} GdnInput;

/* False when memory is short; then nothing is kept. */
bool gdn_input_make(GdnInput *in, const GdnInputSpec *spec);
void gdn_input_free(GdnInput *in);
/* Rows of a batch, no options; fill in what differs. */
GdnReference gdn_input_reference(const GdnInput *in);

#endif
