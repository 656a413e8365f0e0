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

/* A sequence and value head. */
typedef struct Head {
	const Delta *p;
	const DeltaResult *out;
	int64_t n, hv, hq, tokens;
	double scale;
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
static void forward(const Head *h, Token *t, const double *before, double *s)
{
	int64_t K = h->p->key_dim, V = h->p->value_dim, at = (t->row * h->p->value_heads + h->hv) * V;

	for (int64_t j = 0; j < V; j++)
		t->u[j] = h->p->v[at + j];
	for (int64_t d = 0; d < K; d++)
		for (int64_t j = 0; j < V; j++) {
			s[d * V + j] = t->decay[d] * before[d * V + j];
			t->u[j] -= t->k[d] * s[d * V + j];
		}
	for (int64_t j = 0; j < V; j++)
		t->u[j] *= t->beta;
	for (int64_t d = 0; d < K; d++)
		for (int64_t j = 0; j < V; j++) {
			s[d * V + j] += t->k[d] * t->u[j];
			if (h->out->o)
				h->out->o[at + j] += h->scale * t->q[d] * s[d * V + j];
		}
}

/* From the gradient of S behind the token to that before it; those of q, k, g, beta, v. */
static void backward(const Head *h, Token *t, const double *before, const double *s, double *D)
{
	int64_t K = h->p->key_dim, V = h->p->value_dim, at = (t->row * h->p->value_heads + h->hv) * V;
	double du[DELTA_DIM] = { 0 };

	for (int64_t d = 0; d < K; d++)
		for (int64_t j = 0; j < V; j++) {
			double o = h->p->dout ? h->p->dout[at + j] : 0;
			t->dq[d] += h->scale * s[d * V + j] * o;
			D[d * V + j] += h->scale * t->q[d] * o;
			t->dk[d] += D[d * V + j] * t->u[j];
			du[j] += D[d * V + j] * t->k[d];
		}
	for (int64_t j = 0; j < V; j++) {
		double wrong = h->p->v[at + j]; /* v - S^T k before the correction */
		for (int64_t d = 0; d < K; d++)
			wrong -= t->k[d] * t->decay[d] * before[d * V + j];
		t->dbeta += du[j] * wrong;
		if (h->out->v)
			h->out->v[at + j] = t->beta * du[j];
	}
	for (int64_t d = 0; d < K; d++)
		for (int64_t j = 0; j < V; j++) {
			double decayed = t->decay[d] * before[d * V + j];
			t->dk[d] -= decayed * t->beta * du[j];
			D[d * V + j] -= t->k[d] * t->beta * du[j];
			t->dg[d] += D[d * V + j] * decayed;
			D[d * V + j] *= t->decay[d];
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

static void run_head(Head *h)
{
	const Delta *p = h->p;
	int64_t KV = p->key_dim * p->value_dim, at = (h->n * p->value_heads + h->hv) * KV;

	for (int64_t i = 0; i < KV; i++)
		h->states[i] = p->initial ? p->initial[at + i] : 0;
	for (int64_t i = 0; i < h->tokens; i++) {
		read_token(h, &h->token[i]);
		forward(h, &h->token[i], h->states + i * KV, h->states + (i + 1) * KV);
	}
	if (h->out->state)
		memcpy(h->out->state + at, h->states + h->tokens * KV, (size_t)KV * sizeof(double));
	for (int64_t i = 0; i < KV; i++)
		h->d[i] = p->dstate ? p->dstate[at + i] : 0;
	for (int64_t i = h->tokens - 1; i >= 0; i--) {
		backward(h, &h->token[i], h->states + i * KV, h->states + (i + 1) * KV, h->d);
		write_token(h, &h->token[i]);
	}
	if (h->out->initial)
		memcpy(h->out->initial + at, h->d, (size_t)KV * sizeof(double));
}

static bool allocate_head(Head *h)
{
	size_t KV = (size_t)(h->p->key_dim * h->p->value_dim), n = (size_t)h->tokens;
	h->token = calloc(n + 1, sizeof *h->token);
	h->states = calloc((n + 1) * KV, sizeof *h->states);
	h->d = calloc(KV, sizeof *h->d);
	return h->token && h->states && h->d;
}

static bool one_head(const Delta *p, const DeltaResult *out, int64_t n, int64_t hv)
{
	int64_t first = p->offsets ? p->offsets[n] : n * p->tokens, tokens = p->offsets ? p->offsets[n + 1] - first : p->tokens;
	Head h = { .p = p, .out = out, .n = n, .hv = hv, .hq = hv / (p->value_heads / p->qk_heads), .tokens = tokens,
		.scale = p->scale != 0 ? p->scale : 1 / sqrt((double)p->key_dim) };
	bool ok = allocate_head(&h);
	for (int64_t i = 0; ok && i < tokens; i++)
		h.token[i].row = first + i;
	if (ok)
		run_head(&h);
	free(h.token);
	free(h.states);
	free(h.d);
	return ok;
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
	bool ok = true;
	clear_results(p, out);
	for (int64_t n = 0; n < delta_sequences(p); n++)
		for (int64_t hv = 0; ok && hv < p->value_heads; hv++)
			ok = one_head(p, out, n, hv);
	return ok;
}
