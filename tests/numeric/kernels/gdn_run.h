/* gdn_run.h - a GDN call with its buffers, from a row of the table in gdn.c: made, run, read back. */
#ifndef TILE_TESTS_GDN_RUN_H
#define TILE_TESTS_GDN_RUN_H

#include <tilekern/gdn.h>

#include "tests/check/gdn_input.h"
#include "tests/numeric/kernels/forward.h"

#define GDN_OK(call) numeric_ok((call), tilekern_last_error(), #call, __FILE__, __LINE__)

typedef enum GdnStates { GDN_NO_STATES, GDN_FINAL, GDN_INITIAL, GDN_BOTH } GdnStates;

typedef struct GdnRow {
	const char *name;
	GdnInputSpec in;          /* zeros: batch 1, heads 1 / 1, K = V = 128; with lengths, tokens is computed */
	const int *lengths;       /* of packed sequences, then -1; NULL: a batch */
	int spare;                /* tokens of capacity past the last sequence */
	bool lengths_i64;
	GdnStates states;
	bool state_bf16, state_f16, state_v_first, strided;
	PoolSpec pool;
	tilert_dtype gate_type, beta_type, a_log_type, dt_bias_type; /* 0: f32, or as gate16 and beta16 say */
	unsigned options;
	bool without_dt_bias;
	float scale;
	tilekern_split split;
	bool save;                /* also the states of chunks, u and records */
	unsigned processors;      /* that the CPU device has; 0: its own */
	double overall, chunk;    /* allowed errors; 0: the contract's */
	double least;             /* an error of a state up to this is none */
	float gradients;          /* the size of what a backward is given; 0: 1 */
	bool by_turns;            /* of each sequence its own */
} GdnRow;

typedef struct GdnRun {
	GdnRow row;               /* the zeros filled in */
	GdnInput in;
	tilekern_gdn *gdn;
	tilekern_gdn_params p;
	int64_t sequences, *offsets; /* offsets: [sequences + 1] tokens of all rows */
	TokenTensor q, k, v, g, beta, o, u;
	Pool pool;
	Buffer a_log, dt_bias, cu, states, records, workspace;
} GdnRun;

GdnRun *gdn_run_make(const GdnRow *row);
void gdn_run_free(GdnRun *r);
Forward gdn_run_as_forward(GdnRun *r);     /* while r is there */
void gdn_run_with(const void *row, void (*test)(const Forward *)); /* a test of forward.h; made and freed */
/* Everything that a call writes becomes NaN. */
void gdn_run_poison(GdnRun *r);
/* tilekern_gdn_forward, and waits; nothing behind the workspace was written. */
void gdn_run_forward(GdnRun *r);
/* As floats, [batch][tokens][value_heads][value_dim], zero for tokens of no sequence; fails when one of them, or a gap, was written. */
float *gdn_run_output(GdnRun *r);
float *gdn_run_final(GdnRun *r);          /* pool_final */
/* As floats: u as o, and [slots][value_heads][key_dim][value_dim], zero for slots without tokens; fails when one of those was written. */
float *gdn_run_u(GdnRun *r);
float *gdn_run_states(GdnRun *r);
/* The slot of a chunk, as tilekern/gdn.h says. */
int64_t gdn_run_slot(const GdnRun *r, int64_t sequence, int64_t chunk);
/* x, which becomes what its type has, to a buffer of its own; NaN behind the last sequence. */
void gdn_run_upload(const GdnRun *r, TokenTensor *t, float *x);
GdnReference gdn_run_reference(const GdnRun *r);
int64_t gdn_run_outputs(const GdnRun *r); /* elements of o */
int64_t gdn_run_state(const GdnRun *r);   /* elements of the state of a sequence */

#endif
