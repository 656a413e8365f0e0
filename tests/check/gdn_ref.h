/* ref.h - the GDN forward as its token recurrence in double precision: the oracle of every GDN kernel.
 *
 * Per sequence and value head h, with q and k of head h / (value_heads / qk_heads) and the state S of K x V, starting from the
 * initial state or zero, for each token t
 *
 *     S <- exp(g_t) S
 *     u  = beta_t (v_t - S^T k_t)
 *     S <- S + k_t u^T
 *     o_t = scale S^T q_t
 *
 * Chunks and inverses appear nowhere, so it shares no mistake with the kernels.
 */
#ifndef TILE_GDN_REF_H
#define TILE_GDN_REF_H

#include <stdbool.h>
#include <stdint.h>

typedef struct GdnReference {
	int64_t batch, tokens, qk_heads, value_heads, key_dim, value_dim;
	int64_t sequences;       /* with offsets */
	const int64_t *offsets;  /* NULL: every row of the batch is a sequence; else [sequences + 1], into row 0 */
	double scale;            /* 0: key_dim^-0.5 */
	bool l2norm;             /* x / sqrt(sum of squares + 1e-6) for q and k */
	bool raw_gate;           /* g is -exp(a_log) softplus(g + dt_bias) */
	bool sigmoid_beta;       /* beta is sigmoid(beta) */
	bool twice_beta;         /* or 2 sigmoid(beta) */
	const float *q, *k;      /* [batch][tokens][qk_heads][key_dim] */
	const float *v;          /* [batch][tokens][value_heads][value_dim] */
	const float *g, *beta;   /* [batch][tokens][value_heads]; g: natural logarithm of the decay */
	const float *a_log, *dt_bias; /* [value_heads]; dt_bias may be NULL: zeros */
	const float *initial;    /* [sequences][value_heads][key_dim][value_dim], or NULL: zero */
	double *decay, *final_beta; /* NULL, or [batch][tokens][value_heads], written: what gate and beta come to */
	double *u;               /* NULL, or [batch][tokens][value_heads][value_dim], written */
	double *states;          /* NULL, or [slots][value_heads][key_dim][value_dim], written: S before each 64 tokens; slots as in tilekern/gdn.h */
} GdnReference;

int64_t gdn_reference_sequences(const GdnReference *r);
/* o [batch][tokens][value_heads][value_dim], only tokens of sequences; state [sequences][value_heads][key_dim][value_dim], the final states. */
void gdn_reference(const GdnReference *r, double *o, double *state);
/* One sequence and head: o [its tokens][value_dim], state [key_dim][value_dim]. */
void gdn_reference_head(const GdnReference *r, int64_t sequence, int64_t head, double *o, double *state);

#endif
