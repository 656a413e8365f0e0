/* gdn_run.h - a GDN call with its buffers, from a row of the table in gdn.c: made, run, read back. */
#ifndef TILE_TESTS_GDN_RUN_H
#define TILE_TESTS_GDN_RUN_H

#include <tilekern/gdn.h>

#include "tests/check/gdn_input.h"
#include "tests/numeric/kernels/tensors.h"

#define GDN_OK(call) numeric_ok((call), tilekern_last_error(), #call, __FILE__, __LINE__)

typedef enum GdnStates { GDN_NO_STATES, GDN_FINAL, GDN_INITIAL, GDN_BOTH } GdnStates;

typedef enum GdnCheckpoints { GDN_NO_CHECKPOINTS, GDN_AT_OFFSETS, GDN_EVERY_64, GDN_EVERY_192 } GdnCheckpoints;

/* How states lie: without `slots` sequence n has slot n of dense ones. */
typedef struct GdnPool {
	bool slots;               /* indices in another order, gaps between slots and slots that nobody has */
	bool outputs;             /* final states go to slots of their own */
	bool in_place;            /* the same memory for both */
	bool nulls;               /* some sequences have none: null slot 0, which vLLM has, negative indices, or beyond the pool */
	bool has;                 /* some sequences start from zeros, whatever is in their slots */
	bool i64;                 /* indices */
	GdnCheckpoints checkpoints;
	bool checkpoint_slots;    /* rows have slots */
	bool checkpoint_16;       /* of the states' type, not f32 */
} GdnPool;

typedef struct GdnRow {
	const char *name;
	GdnInputSpec in;          /* zeros: batch 1, heads 1 / 1, K = V = 128; with lengths, tokens is computed */
	const int *lengths;       /* of packed sequences, then -1; NULL: a batch */
	int spare;                /* tokens of capacity past the last sequence */
	bool lengths_i64;
	GdnStates states;
	bool state_bf16, state_f16, state_v_first, strided;
	GdnPool pool;
	tilert_dtype gate_type, beta_type, a_log_type, dt_bias_type; /* 0: f32, or as gate16 and beta16 say */
	unsigned options;
	bool without_dt_bias;
	float scale;
	tilekern_split split;
	bool save;                /* also the states of chunks, u and records */
	unsigned processors;      /* that the CPU device has; 0: its own */
	double overall, chunk;    /* allowed errors; 0: the contract's */
	double least;             /* an error of a state up to this is none */
} GdnRow;

typedef struct GdnRun {
	GdnRow row;               /* the zeros filled in */
	GdnInput in;
	tilekern_gdn *gdn;
	tilekern_gdn_params p;
	int64_t sequences, *offsets; /* offsets: [sequences + 1] tokens of all rows */
	TokenTensor q, k, v, g, beta, o, u;
	Buffer a_log, dt_bias, cu, h0, ht, states, records, workspace;
	int64_t slots, stride;    /* of h0 and ht, in elements */
	int64_t *from, *to;       /* slots of the sequences; -1: none */
	int64_t *reached;         /* the first row of checkpoints of each sequence, and how many there are */
	Buffer index, outdex, has, stops, starts, rows, checkpoints;
} GdnRun;

GdnRun *gdn_run_make(const GdnRow *row);
void gdn_run_odd_strides(GdnRun *r); /* wild ones along what there is but one of */
void gdn_run_free(GdnRun *r);
/* Everything that a call writes becomes NaN. */
void gdn_run_poison(GdnRun *r);
/* tilekern_gdn_forward, and waits; nothing behind the workspace was written. */
void gdn_run_forward(GdnRun *r);
/* As floats, [batch][tokens][value_heads][value_dim], zero for tokens of no sequence; fails when one of them, or a gap, was written. */
float *gdn_run_output(GdnRun *r);
/* As floats, [sequences][value_heads][key_dim][value_dim], zero where a sequence has no slot; NULL without a final state.  Fails when anything else
 * of the pool was written. */
float *gdn_run_final(GdnRun *r);
/* As floats, [rows][value_heads][key_dim][value_dim], zero where nothing is to be stored; fails when something was. */
float *gdn_run_checkpoints(GdnRun *r);
/* Where the checkpoints of a sequence are: after chunk (i + 1) x every, or at one offset; the rows; false: there is no i-th. */
bool gdn_run_checkpoint(const GdnRun *r, int64_t sequence, int64_t i, int64_t *tokens, int64_t *row);
int64_t gdn_run_checkpoint_rows(const GdnRun *r);
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
