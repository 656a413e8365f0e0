/* delta.h - the gated delta rule and its gradients as token recurrences in double precision: the oracle of the backward kernels of GDN (one gate
 * per token and value head) and KDA (one per channel).
 *
 * Per sequence and value head h, with q and k of head h / (value_heads / qk_heads) and the state S of K x V, for each token t
 *
 *     S <- diag(exp(g_t)) S;   u = beta_t (v_t - S^T k_t);   S <- S + k_t u^T;   o_t = scale S^T q_t
 *
 * The loss is <o, dout> + <S at the end, dstate>.  Chunks appear nowhere, so it shares no mistake with the kernels.
 */
#ifndef TILE_CHECK_DELTA_H
#define TILE_CHECK_DELTA_H

#include <stdbool.h>
#include <stdint.h>

typedef enum DeltaGate {
	DELTA_GATE_LOG,      /* g is the natural logarithm of the decay */
	DELTA_GATE_SOFTPLUS, /* it is -exp(a_log) softplus(g + dt_bias) */
	DELTA_GATE_BOUNDED   /* it is bound sigmoid(exp(a_log) (g + dt_bias)) */
} DeltaGate;

typedef struct Delta {
	int64_t batch, tokens, qk_heads, value_heads, key_dim, value_dim; /* dims at most DELTA_DIM */
	int64_t gate_dim;             /* 1 or key_dim */
	int64_t sequences;            /* with offsets */
	const int64_t *offsets;       /* NULL: every row of the batch is a sequence; else [sequences + 1], into row 0 */
	double scale;                 /* 0: key_dim^-0.5 */
	bool l2norm;                  /* x / sqrt(sum of squares + 1e-6) for q and k */
	bool sigmoid_beta, twice_beta; /* beta is sigmoid(beta), or twice that */
	DeltaGate gate;
	double bound;
	const double *q, *k;          /* [batch][tokens][qk_heads][key_dim] */
	const double *v;              /* [batch][tokens][value_heads][value_dim] */
	const double *g;              /* [batch][tokens][value_heads][gate_dim] */
	const double *beta;           /* [batch][tokens][value_heads] */
	const double *a_log;          /* [value_heads], or NULL: zeros */
	const double *dt_bias;        /* [value_heads][gate_dim], or NULL: zeros */
	const double *initial;        /* [sequences][value_heads][key_dim][value_dim], or NULL: zeros */
	const double *dout;           /* as v, or NULL: zeros */
	const double *dstate;         /* as initial, or NULL: zeros */
} Delta;

enum { DELTA_DIM = 256 };

/* What is written; NULL: not wanted.  Of the shapes of Delta; elements that no sequence reaches are zero. */
typedef struct DeltaResult {
	double *o, *state;
	double *q, *k, *v, *g, *beta, *a_log, *dt_bias, *initial; /* gradients */
} DeltaResult;

int64_t delta_sequences(const Delta *p);
/* For gradients, keeps all states of a sequence and head at a time: 8 key_dim value_dim bytes a token.  False when memory is short. */
bool delta_run(const Delta *p, const DeltaResult *out);

#endif
