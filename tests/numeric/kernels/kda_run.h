/* kda_run.h - a KDA call with its buffers, from a row of the tables in kda.c: made, run, read back, compared. */
#ifndef TILE_TESTS_KDA_RUN_H
#define TILE_TESTS_KDA_RUN_H

#include <tilekern/kda.h>

#include "tests/check/delta.h"
#include "tests/numeric/kernels/forward.h"

#define KDA_OK(call) numeric_ok((call), tilekern_last_error(), #call, __FILE__, __LINE__)

typedef enum KdaStates { KDA_NO_STATES, KDA_FINAL, KDA_INITIAL, KDA_BOTH } KdaStates;

typedef enum KdaGate { /* log gates; raw ones are normal, but for KDA_TWENTY uniform in (0, 20) */
	KDA_BOUNDED,   /* -5 sigmoid(normal - 3) */
	KDA_MILD,      /* log sigmoid(4 + normal) */
	KDA_ZERO,      /* nothing decays */
	KDA_FIVE,      /* -5 everywhere */
	KDA_FOUR,      /* uniform in (-4, 0) */
	KDA_RESETS,    /* mild, one token in 16 -1000 in every channel */
	KDA_TWENTY,    /* uniform in (-20, 0) */
	KDA_ANY,       /* -e^(3 normal): from e^-9 to e^9 */
	KDA_THOUSAND,  /* -1000 everywhere */
	KDA_GATES,     /* of random calls */
	KDA_RARE = KDA_GATES, /* mild, one token in 300 -1000 */
	KDA_TENTH,     /* -.1 everywhere: 128 tokens do not quite fade */
	KDA_64,        /* uniform in (-1.5, 0): no channel keeps anything of 64 tokens, but of each token one does */
	KDA_96,        /* uniform in (-.9, 0): of 96 */
	KDA_HANDED,    /* -3, but -.1 for channel 0 in even tokens and 1 in odd ones, of which KDA_PAIR and a beta of 2 hand all to the other */
	KDA_WAVES      /* mild in 1100 tokens, nothing decays in the next 948, and so on */
} KdaGate;

typedef enum KdaKey {
	KDA_RANDOM,    /* normal, normalised */
	KDA_POSITIVE,  /* uniform in (0, 1), normalised; q and v, too: FLA's tests */
	KDA_COLLINEAR, /* 5% apart */
	KDA_RAW_KEYS,  /* normal times e^normal */
	KDA_PAIR       /* channel 0 less channel 1, normalised; beta is 2 */
} KdaKey;

typedef struct KdaRow {
	const char *name;
	int64_t batch, tokens, qk_heads, value_heads, key_dim, value_dim; /* zeros: 1, 0, 1, qk_heads, 128, 128; with lengths, tokens is computed */
	const int *lengths;       /* of packed sequences, then -1; NULL: a batch */
	int spare;                /* tokens of capacity past the last sequence */
	KdaGate gate;
	KdaKey keys;
	KdaStates states;
	bool lengths_i64, fp16, gate16, beta16, state_bf16, state_fp16, state_v_first, strided, to_two, without_a_log, without_dt_bias;
	bool crossed;             /* 16-bit gates and beta are of the other type than q, k, v; a_log is bf16, dt_bias fp16 */
	bool sixteen;             /* a_log is bf16, dt_bias fp16 */
	PoolSpec pool;
	unsigned options;
	tilekern_split split;
	unsigned processors;      /* that the CPU device has; 0: its own */
	float scale, lower_bound; /* 0: the defaults */
	double values;            /* the size of v and the states; 0: 1 */
	double overall, chunk;    /* allowed errors; 0: the contract's */
	double least;             /* of o of fewer than 16 tokens: a largest difference below this is right, whatever it is a part of */
	uint64_t seed;
	float gradients;          /* the size of what a backward is given; 0: 1 */
	bool by_turns;            /* of each sequence its own */
	bool cancels;             /* o, dq and dv may be next to nothing beside their terms: q.k of a sequence of one token */
	int unlike;               /* KDA_COLLINEAR: the first of so many keys is as random ones; 0: none */
} KdaRow;

typedef struct KdaRun {
	KdaRow row;               /* the zeros filled in */
	tilekern_kda *kda;
	tilekern_kda_params p;
	int64_t sequences, *offsets; /* offsets: [sequences + 1] tokens of all rows */
	TokenTensor q, k, v, g, beta, o;
	Pool pool;
	Buffer a_log, dt_bias, cu, workspace;
	double *rate, *bias, *initial; /* of heads; of heads and channels; [sequences][heads][K][V], zeros where a sequence starts from none */
} KdaRun;

KdaRun *kda_run_make(const KdaRow *row);
void kda_run_free(KdaRun *r);
Forward kda_run_as_forward(KdaRun *r);     /* while r is there */
void kda_run_poison(KdaRun *r);
void kda_run_forward(KdaRun *r);
/* The elements of sequences; whatever else is in the buffers must still be NaN bytes.  final: NULL where there is none. */
float *kda_run_output(KdaRun *r);
Delta kda_run_reference(const KdaRun *r);
float *kda_run_final(KdaRun *r);
/* Against the token recurrence, the contract or what the row allows. */
void kda_run_check(KdaRun *r);
int64_t kda_run_state(const KdaRun *r);   /* elements of the states of a sequence */
int64_t kda_run_outputs(const KdaRun *r); /* elements of o */
/* A row: made, run, checked, freed; and with a test of forward.h instead. */
void kda_run_checked(const void *row);
void kda_run_with(const void *row, void (*test)(const Forward *));
/* Writes value[] to the device anew. */
void kda_run_upload(KdaRun *r, TokenTensor *t);

#endif
