#include "tests/check/kda_ref.h"

#include <math.h>
#include <stddef.h>

/* One token: advances `state` and writes `o`. */
static void token(int64_t K, int64_t V, double scale, const float *q, const float *k, const float *v, const float *g, double beta,
	double *state, double *o)
{
	for (int64_t j = 0; j < V; j++)
		o[j] = 0; /* first S^T k, then u, at last the output */
	for (int64_t d = 0; d < K; d++) {
		double decay = exp((double)g[d]);
		for (int64_t j = 0; j < V; j++) {
			state[d * V + j] *= decay;
			o[j] += (double)k[d] * state[d * V + j];
		}
	}
	for (int64_t j = 0; j < V; j++)
		o[j] = beta * ((double)v[j] - o[j]);
	for (int64_t d = 0; d < K; d++) {
		for (int64_t j = 0; j < V; j++)
			state[d * V + j] += (double)k[d] * o[j];
	}
	for (int64_t j = 0; j < V; j++)
		o[j] = 0;
	for (int64_t d = 0; d < K; d++) {
		for (int64_t j = 0; j < V; j++)
			o[j] += scale * (double)q[d] * state[d * V + j];
	}
}

/* As kda_reference_head, with `stride` elements between the outputs of two tokens. */
static void head_strided(const KdaReference *r, int64_t b, int64_t h, double *o, int64_t stride, double *state)
{
	int64_t K = r->key_dim, V = r->value_dim;
	double scale = r->scale != 0 ? r->scale : 1 / sqrt((double)K);
	const float *initial = r->initial ? r->initial + (b * r->heads + h) * K * V : NULL;

	for (int64_t i = 0; i < K * V; i++)
		state[i] = initial ? (double)initial[i] : 0;
	for (int64_t t = 0; t < r->tokens; t++) {
		int64_t at = (b * r->tokens + t) * r->heads + h;
		token(K, V, scale, r->q + at * K, r->k + at * K, r->v + at * V, r->g + at * K, (double)r->beta[at], state, o + t * stride);
	}
}

void kda_reference_head(const KdaReference *r, int64_t sequence, int64_t head, double *o, double *state)
{
	head_strided(r, sequence, head, o, r->value_dim, state);
}

void kda_reference(const KdaReference *r, double *o, double *state)
{
	int64_t V = r->value_dim;
	for (int64_t b = 0; b < r->batch; b++) {
		for (int64_t h = 0; h < r->heads; h++)
			head_strided(r, b, h, o + (b * r->tokens * r->heads + h) * V, r->heads * V, state + (b * r->heads + h) * r->key_dim * V);
	}
}
