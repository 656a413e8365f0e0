/* backward.h - a backward with its buffers, for every operator: made, run, and its gradients against those of the token recurrence.  What an operator has of
 * its own types is behind a BackwardOperator. */
#ifndef TILE_TESTS_BACKWARD_H
#define TILE_TESTS_BACKWARD_H

#include "tests/check/delta.h"
#include "tests/numeric/kernels/forward.h"

/* Gradients by token, then the others. */
enum { DQ, DK, DV, DG, DBETA, BY_TOKEN, DH0 = BY_TOKEN, DA, DBIAS, GRADIENTS };

/* Fields of the parameters of a forward and its backward, by the same names in all operators. */
typedef struct BackwardFields {
	tilert_ptr *input[BY_TOKEN], *o, *initial_state, *cu_seqlens;
	int64_t *batch, *tokens, *sequences;
	tilert_ptr *dout, *dfinal_state, *gradient[GRADIENTS], *workspace;
	tilekern_strides *dout_strides, *strides[BY_TOKEN];
	size_t *workspace_bytes;
} BackwardFields;
#define BACKWARD_FIELDS(f, b) { .input = { &(f)->q, &(f)->k, &(f)->v, &(f)->g, &(f)->beta }, .o = &(f)->o, .initial_state = &(f)->initial_state, \
	.cu_seqlens = &(f)->cu_seqlens, .batch = &(f)->batch, .tokens = &(f)->tokens, .sequences = &(f)->sequences, .dout = &(b)->dout, \
	.dfinal_state = &(b)->dfinal_state, .gradient = { &(b)->dq, &(b)->dk, &(b)->dv, &(b)->dg, &(b)->dbeta, &(b)->dinitial_state, &(b)->da_log, &(b)->ddt_bias }, \
	.workspace = &(b)->workspace, .dout_strides = &(b)->dout_strides, .strides = { &(b)->dq_strides, &(b)->dk_strides, &(b)->dv_strides, &(b)->dg_strides, \
	&(b)->dbeta_strides }, .workspace_bytes = &(b)->workspace_bytes }

typedef struct Backward Backward;

/* The calls fail the test when the library does. */
typedef struct BackwardOperator {
	void (*workspace_bytes)(Backward *b);                  /* into its field */
	void (*call)(Backward *b);
	void (*call_prepared)(Backward *b);                    /* prepared, launched, destroyed */
	Delta (*reference)(Backward *b);                       /* without dout and dstate; the operator's until `release` */
	void (*allowed)(const Backward *b, int which, double *overall, double *chunk); /* DA, DBIAS: where n terms count, overall + chunk / sqrt(n) */
	void (*release)(Backward *b);                          /* what is the operator's, and b */
	double least;                                          /* accuracy_of_packed_least */
} BackwardOperator;

struct Backward {                  /* the first member of the operator's own */
	const BackwardOperator *op;
	BackwardFields field;
	const TokenTensor *input[BY_TOKEN];
	int64_t sequences;
	const int64_t *offsets;    /* [sequences + 1] tokens of all rows */
	int64_t key_dim, value_dim;
	unsigned options, processors;
	bool v_first, strided;
	TokenTensor dout, token[BY_TOKEN];
	Buffer dht, other[GRADIENTS], workspace;
	double *dstate;            /* [sequences][heads][K][V] */
	const double *sizes;       /* NULL, or of sequence n's dout and dstate: sizes[n % SIZES] times those of the others */
};
enum { SIZES = 3 };

/* Buffers, parameters and workspace; dout and the final states' gradients, where `ends`, are normal times size. */
void backward_make(Backward *b, uint64_t seed, float size, bool ends);
void backward_turn_sizes(Backward *b); /* of 1e-6, 1 and 1e3 by turns */
void backward_make_workspace(Backward *b);
void backward_run(Backward *b);
int64_t backward_elements(const Backward *b, int which);
/* All that there are. */
void backward_take(const Backward *b, float *out[GRADIENTS]);
void backward_expect(const Backward *b, float *const want[GRADIENTS]);  /* the same bits */
void backward_poison(const Backward *b);
void backward_release(Backward *b);

/* Tests, which release b. */
void backward_check(Backward *b);      /* against the recurrence */
void backward_of_ends(Backward *b);    /* the same of final states' gradients alone: dout is zeros */
void backward_same_bits(Backward *b);  /* another schedule, the two-step interface and each gradient wanted alone */
void backward_alone(Backward *b);      /* each sequence alone gives the bits that it gives beside others */
void backward_causal(Backward *b);     /* no gradient depends on a dout that it must not depend on */
void backward_zeros(Backward *b);      /* gradients of nothing are zeros */
void backward_not_finite(Backward *b); /* what one sequence and head is given that is no number, or too large, comes out of no other */
void backward_wild(Backward *b, const Forward *f); /* offsets that are none, of f: as forward_wild */
void backward_one_buffer(Backward *b); /* dq, dk and dv as views of one buffer */
void backward_nothing(Backward *b);    /* no tokens */
void backward_odd_strides(Backward *b); /* those of dout and the gradients are wild along what there is but one of */

#endif
