/* ref.h - the KDA forward as its token recurrence in double precision: the oracle of every KDA kernel.
 *
 * Per sequence and head, with the state S of K x V, starting from the initial state or zero, for each token t
 *
 *     S <- diag(exp(g_t)) S
 *     u  = beta_t (v_t - S^T k_t)
 *     S <- S + k_t u^T
 *     o_t = scale S^T q_t
 *
 * Chunks, anchors and inverses appear nowhere, so it shares no mistake with the kernels.
 */
#ifndef TILE_KDA_REF_H
#define TILE_KDA_REF_H

#include <stdint.h>

typedef struct KdaReference {
	int64_t batch, tokens, heads, key_dim, value_dim;
	double scale;            /* 0: key_dim^-0.5 */
	const float *q, *k;      /* [batch][tokens][heads][key_dim] */
	const float *v;          /* [batch][tokens][heads][value_dim] */
	const float *g;          /* [batch][tokens][heads][key_dim], natural logarithm of the decay, <= 0 */
	const float *beta;       /* [batch][tokens][heads] */
	const float *initial;    /* [batch][heads][key_dim][value_dim], or NULL: zero */
} KdaReference;

/* o [batch][tokens][heads][value_dim]; state [batch][heads][key_dim][value_dim], the final state. */
void kda_reference(const KdaReference *r, double *o, double *state);
/* One sequence and head: o [tokens][value_dim], state [key_dim][value_dim]. */
void kda_reference_head(const KdaReference *r, int64_t sequence, int64_t head, double *o, double *state);

#endif
