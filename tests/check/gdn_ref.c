#include "tests/check/gdn_ref.h"

#include <math.h>
#include <stddef.h>

enum { CHUNK = 64, COLUMNS = 16 }; /* columns of a state do not depend on each other: a few at a time stay in the cache */

static double norm_factor(const float *x, int64_t n)
{
	double square = 0;
	for (int64_t i = 0; i < n; i++)
		square += (double)x[i] * (double)x[i];
	return 1 / sqrt(square + 1e-6);
}

static double softplus(double x)
{
	return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* One token for n columns: advances `state` (COLUMNS apart), writes `o` and u; k and q are multiplied by the factors. */
static void token(int64_t K, int n, const float *q, double q_factor, const float *k, double k_factor, const float *v, double decay,
	double beta, double *state, double *o, double *u_out)
{
	double u[COLUMNS] = { 0 }, y[COLUMNS] = { 0 };
	for (int64_t d = 0; d < K; d++) {
		double *s = state + d * COLUMNS, kd = k_factor * (double)k[d];
		for (int j = 0; j < COLUMNS; j++) {
			s[j] *= decay;
			u[j] += kd * s[j];
		}
	}
	for (int j = 0; j < n; j++)
		u[j] = beta * ((double)v[j] - u[j]);
	for (int64_t d = 0; d < K; d++) {
		double *s = state + d * COLUMNS, kd = k_factor * (double)k[d], qd = q_factor * (double)q[d];
		for (int j = 0; j < COLUMNS; j++) {
			s[j] += kd * u[j];
			y[j] += qd * s[j];
		}
	}
	for (int j = 0; j < n; j++) {
		o[j] = y[j];
		u_out[j] = u[j];
	}
}

typedef struct Sequence { int64_t first, tokens; } Sequence; /* the first in all rows */

static Sequence sequence_of(const GdnReference *r, int64_t n)
{
	if (r->offsets)
		return (Sequence){ r->offsets[n], r->offsets[n + 1] - r->offsets[n] };
	return (Sequence){ n * r->tokens, r->tokens };
}

/* Where the chunks of a sequence start. */
static int64_t first_slot(const GdnReference *r, int64_t n)
{
	return r->offsets ? r->offsets[n] / CHUNK + n : n * ((r->tokens + CHUNK - 1) / CHUNK);
}

static void copy_columns(double *to, const double *state, int64_t K, int64_t V, int n)
{
	for (int64_t d = 0; d < K; d++) {
		for (int j = 0; j < n; j++)
			to[d * V + j] = state[d * COLUMNS + j];
	}
}

/* Columns c .. c + n - 1 of a head; `stride` elements between the outputs of two tokens. */
static void head_columns(const GdnReference *r, int64_t sequence, int64_t h, int64_t c, int n, double *o, int64_t stride, double *final)
{
	Sequence s = sequence_of(r, sequence);
	int64_t K = r->key_dim, V = r->value_dim, hq = h / (r->value_heads / r->qk_heads);
	double scale = r->scale != 0 ? r->scale : 1 / sqrt((double)K), state[256 * COLUMNS] = { 0 };
	double u[COLUMNS];
	const float *initial = r->initial ? r->initial + (sequence * r->value_heads + h) * K * V : NULL;

	for (int64_t d = 0; d < K && initial; d++) {
		for (int j = 0; j < n; j++)
			state[d * COLUMNS + j] = (double)initial[d * V + c + j];
	}
	for (int64_t t = 0; t < s.tokens; t++) {
		int64_t at = (s.first + t) * r->value_heads + h, at_qk = (s.first + t) * r->qk_heads + hq;
		const float *q = r->q + at_qk * K, *k = r->k + at_qk * K;
		double g = (double)r->g[at], beta = (double)r->beta[at];
		if (r->raw_gate)
			g = -exp((double)r->a_log[h]) * softplus(g + (r->dt_bias ? (double)r->dt_bias[h] : 0));
		if (r->sigmoid_beta)
			beta = (r->twice_beta ? 2 : 1) / (1 + exp(-beta));
		if (r->decay)
			r->decay[at] = exp(g);
		if (r->final_beta)
			r->final_beta[at] = beta;
		if (r->states && t % CHUNK == 0)
			copy_columns(r->states + ((first_slot(r, sequence) + t / CHUNK) * r->value_heads + h) * K * V + c, state, K, V, n);
		token(K, n, q, scale * (r->l2norm ? norm_factor(q, K) : 1), k, r->l2norm ? norm_factor(k, K) : 1, r->v + at * V + c, exp(g), beta,
			state, o + t * stride + c, u);
		for (int j = 0; j < n && r->u; j++)
			r->u[at * V + c + j] = u[j];
	}
	copy_columns(final + c, state, K, V, n);
}

static void head_strided(const GdnReference *r, int64_t sequence, int64_t h, double *o, int64_t stride, double *state)
{
	for (int64_t c = 0; c < r->value_dim; c += COLUMNS)
		head_columns(r, sequence, h, c, r->value_dim - c < COLUMNS ? (int)(r->value_dim - c) : COLUMNS, o, stride, state);
}

int64_t gdn_reference_sequences(const GdnReference *r)
{
	return r->offsets ? r->sequences : r->batch;
}

void gdn_reference_head(const GdnReference *r, int64_t sequence, int64_t head, double *o, double *state)
{
	head_strided(r, sequence, head, o, r->value_dim, state);
}

void gdn_reference(const GdnReference *r, double *o, double *state)
{
	int64_t V = r->value_dim, HV = r->value_heads;
	for (int64_t n = 0; n < gdn_reference_sequences(r); n++) {
		for (int64_t h = 0; h < HV; h++)
			head_strided(r, n, h, o + (sequence_of(r, n).first * HV + h) * V, HV * V, state + (n * HV + h) * r->key_dim * V);
	}
}
