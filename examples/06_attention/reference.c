#include "reference.h"

#include <math.h>
#include <stdlib.h>

typedef struct Row { const float *q; int64_t first_key, keys, from, to, group; } Row; /* sees keys from .. to - 1 */

static int64_t at(const Attention *a, int64_t row, int64_t heads, int64_t head)
{
	return (row * heads + head) * a->width;
}

static Row row_of(const Attention *a, int64_t z, int64_t i, int64_t head)
{
	int64_t queries = a->q_start[z + 1] - a->q_start[z], keys = a->k_start[z + 1] - a->k_start[z];
	Row r = { .q = a->q + at(a, a->q_start[z] + i, a->heads, head), .first_key = a->k_start[z], .keys = keys, .to = keys,
		.group = head / (a->heads / a->key_heads) };
	int64_t last = i + keys - queries;
	if (a->causal && last + 1 < keys)
		r.to = last + 1 > 0 ? last + 1 : 0;
	if (a->window && last + 1 - a->window > 0)
		r.from = last + 1 - a->window;
	return r;
}

static double score(const Attention *a, const Row *r, int64_t j)
{
	const float *k = a->k + at(a, r->first_key + j, a->key_heads, r->group);
	double x = 0;
	for (int64_t d = 0; d < a->width; d++)
		x += (double)r->q[d] * (double)k[d];
	x *= a->scale;
	return a->cap > 0 ? a->cap * tanh(x / a->cap) : x;
}

void attention_row(const Attention *a, int64_t sequence, int64_t i, int64_t head, double *o, double *lse, double *p)
{
	Row r = row_of(a, sequence, i, head);
	double top = -INFINITY, sum = 0, *x = calloc((size_t)r.keys + 1, sizeof *x);
	if (!x)
		abort();
	for (int64_t j = r.from; j < r.to; j++) {
		x[j] = score(a, &r, j);
		top = fmax(top, x[j]);
	}
	for (int64_t j = r.from; j < r.to; j++)
		sum += x[j] = exp(x[j] - top);
	for (int64_t d = 0; d < a->width; d++)
		o[d] = 0;
	for (int64_t j = r.from; j < r.to; j++) {
		const float *v = a->v + at(a, r.first_key + j, a->key_heads, r.group);
		x[j] /= sum;
		for (int64_t d = 0; d < a->width; d++)
			o[d] += x[j] * (double)v[d];
	}
	*lse = top + log(sum);
	for (int64_t j = 0; p && j < r.keys; j++)
		p[j] = x[j];
	free(x);
}

static void row_gradients(const Attention *a, int64_t z, int64_t i, int64_t head, const float *go, double *dq, double *dk, double *dv)
{
	Row r = row_of(a, z, i, head);
	double lse, delta = 0, *o = calloc((size_t)a->width, sizeof *o), *p = calloc((size_t)r.keys + 1, sizeof *p);
	if (!o || !p)
		abort();
	attention_row(a, z, i, head, o, &lse, p);
	for (int64_t d = 0; d < a->width; d++)
		delta += o[d] * (double)go[d];
	for (int64_t j = r.from; j < r.to; j++) {
		int64_t n = at(a, r.first_key + j, a->key_heads, r.group);
		double dp = 0;
		for (int64_t d = 0; d < a->width; d++)
			dp += (double)go[d] * (double)a->v[n + d];
		double ds = p[j] * (dp - delta) * a->scale;
		if (a->cap > 0) {
			double t = score(a, &r, j) / a->cap;
			ds *= 1 - t * t;
		}
		for (int64_t d = 0; d < a->width; d++) {
			dq[d] += ds * (double)a->k[n + d];
			dk[n + d] += ds * (double)r.q[d];
			dv[n + d] += p[j] * (double)go[d];
		}
	}
	free(o);
	free(p);
}

void attention_gradients(const Attention *a, const float *d_o, double *dq, double *dk, double *dv)
{
	for (int64_t z = 0; z < a->sequences; z++)
		for (int64_t i = 0; i < a->q_start[z + 1] - a->q_start[z]; i++)
			for (int64_t h = 0; h < a->heads; h++) {
				int64_t n = at(a, a->q_start[z] + i, a->heads, h);
				row_gradients(a, z, i, h, d_o + n, dq + n, dk, dv);
			}
}
