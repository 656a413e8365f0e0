#include "tests/check/delta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A token as the recurrence has it, and the gradients of that. */
typedef struct Token {
	int64_t row;                        /* of all tokens */
	double q[DELTA_DIM], k[DELTA_DIM], decay[DELTA_DIM], beta;
	double q_factor, k_factor;          /* of the norm */
	double dq[DELTA_DIM], dk[DELTA_DIM], dg[DELTA_DIM], dbeta;
	double u[DELTA_DIM];
} Token;

/* A sequence and value head, in memory for the longest one.  Without gradients one token and two states are kept. */
typedef struct Head {
	const Delta *p;
	const DeltaResult *out;
	int64_t n, hv, hq, first, tokens;
	double scale;
	bool gradients;
	Token *token;                       /* [tokens] */
	double *states;                     /* [tokens + 1][K][V] */
	double *d;                          /* [K][V]: the gradient of the state */
} Head;

static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

int64_t delta_sequences(const Delta *p) { return p->offsets ? p->sequences : p->batch; }

static double norm_factor(const double *x, int64_t n)
{
	double square = 0;
	for (int64_t i = 0; i < n; i++)
		square += x[i] * x[i];
	return 1 / sqrt(square + 1e-6);
}

static double rate_of(const Delta *p, int64_t hv) { return p->a_log ? exp(p->a_log[hv]) : 1; }

/* The argument of the gate's formula. */
static double gate_argument(const Delta *p, int64_t row, int64_t hv, int64_t e)
{
	double bias = p->dt_bias ? p->dt_bias[hv * p->gate_dim + e] : 0;
	return p->g[(row * p->value_heads + hv) * p->gate_dim + e] + bias;
}

static double log_decay(const Delta *p, int64_t row, int64_t hv, int64_t e)
{
	double rate = rate_of(p, hv);
	switch (p->gate) {
	case DELTA_GATE_SOFTPLUS: return -rate * softplus(gate_argument(p, row, hv, e));
	case DELTA_GATE_BOUNDED: return p->bound * sigmoid(rate * gate_argument(p, row, hv, e));
	case DELTA_GATE_LOG: break;
	}
	return p->g[(row * p->value_heads + hv) * p->gate_dim + e];
}

static void read_token(const Head *h, Token *t)
{
	const Delta *p = h->p;
	int64_t K = p->key_dim;
	const double *q = p->q + (t->row * p->qk_heads + h->hq) * K, *k = p->k + (t->row * p->qk_heads + h->hq) * K;
	double b = p->beta[t->row * p->value_heads + h->hv];

	t->q_factor = p->l2norm ? norm_factor(q, K) : 1;
	t->k_factor = p->l2norm ? norm_factor(k, K) : 1;
	for (int64_t d = 0; d < K; d++) {
		t->q[d] = q[d] * t->q_factor;
		t->k[d] = k[d] * t->k_factor;
		t->decay[d] = p->gate_dim == 1 && d > 0 ? t->decay[0] : exp(log_decay(p, t->row, h->hv, d));
	}
	t->beta = p->sigmoid_beta ? (p->twice_beta ? 2 : 1) * sigmoid(b) : b;
}

/* S of the token from S of the one before; u and o. */
static void forward(const Head *h, Token *t, const double *restrict before, double *restrict s)
{
	const int64_t K = h->p->key_dim, V = h->p->value_dim, at = (t->row * h->p->value_heads + h->hv) * V;
	double u[DELTA_DIM], o[DELTA_DIM] = { 0 };

	memcpy(u, h->p->v + at, (size_t)V * sizeof *u);
	for (int64_t d = 0; d < K; d++)
		for (int64_t j = 0; j < V; j++) {
			s[d * V + j] = t->decay[d] * before[d * V + j];
			u[j] -= t->k[d] * s[d * V + j];
		}
	for (int64_t j = 0; j < V; j++)
		u[j] *= t->beta;
	for (int64_t d = 0; d < K; d++)
		for (int64_t j = 0; j < V; j++) {
			s[d * V + j] += t->k[d] * u[j];
			o[j] += h->scale * t->q[d] * s[d * V + j];
		}
	memcpy(t->u, u, (size_t)V * sizeof *u);
	if (h->out->o)
		memcpy(h->out->o + at, o, (size_t)V * sizeof *o);
}

/* From the gradient of S behind the token to that before it; those of q, k, g, beta, v. */
static void backward(const Head *h, Token *t, const double *restrict before, const double *restrict s, double *restrict D)
{
	const int64_t K = h->p->key_dim, V = h->p->value_dim, at = (t->row * h->p->value_heads + h->hv) * V;
	double dout[DELTA_DIM] = { 0 }, u[DELTA_DIM], du[DELTA_DIM] = { 0 }, wrong[DELTA_DIM]; /* v - S^T k before the correction */

	if (h->p->dout)
		memcpy(dout, h->p->dout + at, (size_t)V * sizeof *dout);
	memcpy(u, t->u, (size_t)V * sizeof *u);
	memcpy(wrong, h->p->v + at, (size_t)V * sizeof *wrong);
	for (int64_t d = 0; d < K; d++) {
		double dq = 0, dk = 0;
		for (int64_t j = 0; j < V; j++) {
			dq += s[d * V + j] * dout[j];
			D[d * V + j] += h->scale * t->q[d] * dout[j];
			dk += D[d * V + j] * u[j];
			du[j] += D[d * V + j] * t->k[d];
			wrong[j] -= t->k[d] * t->decay[d] * before[d * V + j];
		}
		t->dq[d] += h->scale * dq;
		t->dk[d] += dk;
	}
	for (int64_t j = 0; j < V; j++)
		t->dbeta += du[j] * wrong[j];
	for (int64_t j = 0; j < V; j++)
		du[j] *= t->beta; /* dv */
	if (h->out->v)
		memcpy(h->out->v + at, du, (size_t)V * sizeof *du);
	for (int64_t d = 0; d < K; d++) {
		double dk = 0, dg = 0;
		for (int64_t j = 0; j < V; j++) {
			const double decayed = t->decay[d] * before[d * V + j];
			dk += decayed * du[j];
			D[d * V + j] -= t->k[d] * du[j];
			dg += D[d * V + j] * decayed;
			D[d * V + j] *= t->decay[d];
		}
		t->dk[d] -= dk;
		t->dg[d] += dg;
	}
}

static void add_norm_gradient(double *dx, const double *x, const double *d, double factor, bool norm, int64_t n)
{
	double dot = 0;
	for (int64_t i = 0; i < n && norm; i++)
		dot += x[i] * d[i];
	for (int64_t i = 0; i < n; i++)
		dx[i] += factor * (d[i] - x[i] * dot);
}

/* dg is the gradient of the decay's logarithm. */
static void add_gate_gradient(const Head *h, const Token *t, int64_t e, double dg)
{
	const Delta *p = h->p;
	double rate = rate_of(p, h->hv), z = gate_argument(p, t->row, h->hv, e), dx = dg, sg = sigmoid(rate * z);

	if (p->gate == DELTA_GATE_SOFTPLUS)
		dx = -dg * rate * sigmoid(z);
	if (p->gate == DELTA_GATE_BOUNDED)
		dx = dg * p->bound * sg * (1 - sg) * rate;
	if (h->out->g)
		h->out->g[(t->row * p->value_heads + h->hv) * p->gate_dim + e] = dx;
	if (h->out->dt_bias)
		h->out->dt_bias[h->hv * p->gate_dim + e] += dx;
	if (h->out->a_log)
		h->out->a_log[h->hv] += p->gate == DELTA_GATE_SOFTPLUS ? dg * -rate * softplus(z) : dx * z;
}

static void write_token(const Head *h, Token *t)
{
	const Delta *p = h->p;
	int64_t K = p->key_dim, at = (t->row * p->qk_heads + h->hq) * K;
	double per = p->twice_beta ? 2 : 1;

	if (h->out->q)
		add_norm_gradient(h->out->q + at, t->q, t->dq, t->q_factor, p->l2norm, K);
	if (h->out->k)
		add_norm_gradient(h->out->k + at, t->k, t->dk, t->k_factor, p->l2norm, K);
	if (h->out->beta)
		h->out->beta[t->row * p->value_heads + h->hv] = t->dbeta * (p->sigmoid_beta ? t->beta * (1 - t->beta / per) : 1);
	for (int64_t d = 1; d < K && p->gate_dim == 1; d++)
		t->dg[0] += t->dg[d];
	for (int64_t e = 0; e < p->gate_dim; e++)
		add_gate_gradient(h, t, e, t->dg[e]);
}

static int64_t state_elements(const Head *h) { return h->p->key_dim * h->p->value_dim; }
static int64_t state_offset(const Head *h) { return (h->n * h->p->value_heads + h->hv) * state_elements(h); }
static Token *token_of(const Head *h, int64_t i) { return &h->token[h->gradients ? i : 0]; }
static double *state_before(const Head *h, int64_t i) { return h->states + (h->gradients ? i : i % 2) * state_elements(h); }

static void run_forward(const Head *h)
{
	for (int64_t i = 0; i < state_elements(h); i++)
		h->states[i] = h->p->initial ? h->p->initial[state_offset(h) + i] : 0;
	for (int64_t i = 0; i < h->tokens; i++) {
		*token_of(h, i) = (Token){ .row = h->first + i };
		read_token(h, token_of(h, i));
		forward(h, token_of(h, i), state_before(h, i), state_before(h, i + 1));
	}
	if (h->out->state)
		memcpy(h->out->state + state_offset(h), state_before(h, h->tokens), (size_t)state_elements(h) * sizeof(double));
}

static void run_backward(const Head *h)
{
	for (int64_t i = 0; i < state_elements(h); i++)
		h->d[i] = h->p->dstate ? h->p->dstate[state_offset(h) + i] : 0;
	for (int64_t i = h->tokens - 1; i >= 0; i--) {
		backward(h, token_of(h, i), state_before(h, i), state_before(h, i + 1), h->d);
		write_token(h, token_of(h, i));
	}
	if (h->out->initial)
		memcpy(h->out->initial + state_offset(h), h->d, (size_t)state_elements(h) * sizeof(double));
}

static int64_t first_of(const Delta *p, int64_t n) { return p->offsets ? p->offsets[n] : n * p->tokens; }

static int64_t longest_of(const Delta *p)
{
	int64_t longest = 0;
	for (int64_t n = 0; n < delta_sequences(p); n++)
		if (first_of(p, n + 1) - first_of(p, n) > longest)
			longest = first_of(p, n + 1) - first_of(p, n);
	return longest;
}

static bool allocate_head(Head *h)
{
	size_t tokens = h->gradients ? (size_t)longest_of(h->p) : 1, KV = (size_t)state_elements(h);
	h->token = calloc(tokens + 1, sizeof *h->token);
	h->states = calloc((tokens + 1) * KV, sizeof *h->states);
	h->d = calloc(KV, sizeof *h->d);
	return h->token && h->states && h->d;
}

static void release_head(Head *h)
{
	free(h->token);
	free(h->states);
	free(h->d);
}

static void run_head(Head *h, int64_t n, int64_t hv)
{
	const Delta *p = h->p;
	h->n = n;
	h->hv = hv;
	h->hq = hv / (p->value_heads / p->qk_heads);
	h->first = first_of(p, n);
	h->tokens = first_of(p, n + 1) - h->first;
	run_forward(h);
	if (h->gradients)
		run_backward(h);
}

static void clear(double *x, int64_t n)
{
	for (int64_t i = 0; x && i < n; i++)
		x[i] = 0;
}

static void clear_results(const Delta *p, const DeltaResult *out)
{
	int64_t rows = p->batch * p->tokens, states = delta_sequences(p) * p->value_heads * p->key_dim * p->value_dim;
	int64_t keys = rows * p->qk_heads * p->key_dim, values = rows * p->value_heads * p->value_dim;
	clear(out->o, values);
	clear(out->state, states);
	clear(out->q, keys);
	clear(out->k, keys);
	clear(out->v, values);
	clear(out->g, rows * p->value_heads * p->gate_dim);
	clear(out->beta, rows * p->value_heads);
	clear(out->a_log, p->value_heads);
	clear(out->dt_bias, p->value_heads * p->gate_dim);
	clear(out->initial, states);
}

bool delta_run(const Delta *p, const DeltaResult *out)
{
	Head h = { .p = p, .out = out, .scale = p->scale != 0 ? p->scale : 1 / sqrt((double)p->key_dim),
		.gradients = out->q || out->k || out->v || out->g || out->beta || out->a_log || out->dt_bias || out->initial };
	bool ok = allocate_head(&h);
	clear_results(p, out);
	for (int64_t n = 0; ok && n < delta_sequences(p); n++)
		for (int64_t hv = 0; hv < p->value_heads; hv++)
			run_head(&h, n, hv);
	release_head(&h);
	return ok;
}
