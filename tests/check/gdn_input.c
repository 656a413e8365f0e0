#include "tests/check/gdn_input.h"

#include <math.h>
#include <stdlib.h>

#include "tests/check/float16.h"
#include "tests/check/input.h"

static uint16_t pattern(const GdnInputSpec *s, float x) { return s->fp16 ? fp16_from_float(x) : bf16_from_float(x); }
static float value(const GdnInputSpec *s, uint16_t x) { return s->fp16 ? fp16_to_float(x) : bf16_to_float(x); }

static void fill(Random *r, float *x, int64_t n, bool uniform)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = uniform ? (float)random_unit(r) : random_normal(r);
}

/* A row of q (`is_k` false) or k; `axis` is what collinear keys have in common. */
static void make_row(Random *r, GdnKeys kind, bool is_k, const float *axis, float *x, int64_t n)
{
	static const float norms[] = { 0, 1e-3f, 1, 45 };
	fill(r, x, n, kind == GDN_KEYS_POSITIVE);
	bool equal = kind == GDN_KEYS_EQUAL || kind == GDN_KEYS_SHORT;
	float apart = equal ? 0 : 0.05f;
	for (int64_t i = 0; i < n && (kind == GDN_KEYS_COLLINEAR || equal) && is_k; i++)
		x[i] = axis[i] + apart * x[i];
	input_normalise(x, n);
	if (kind == GDN_KEYS_RAW || kind == GDN_KEYS_LONG || kind == GDN_KEYS_SHORT) {
		float norm = kind == GDN_KEYS_RAW ? norms[random_bits(r) >> 62] : kind == GDN_KEYS_LONG ? 1.6f : 0.8f;
		for (int64_t i = 0; i < n; i++)
			x[i] *= norm;
	}
}

static float gate(Random *r, GdnGates kind, int64_t token, int64_t head)
{
	static const float mixed[] = { 0, -0.01f, -1, -5 };
	switch (kind) {
	case GDN_GATES_MILD: return input_mild_gate(r);
	case GDN_GATES_STRONG: return -5;
	case GDN_GATES_MIXED: return random_bits(r) >> 60 == 0 ? -1000 : mixed[random_bits(r) >> 62];
	case GDN_GATES_PATCHES: return (token + 200 * head) / 640 % 2 ? -0.1f : 0;
	case GDN_GATES_RAW: return random_normal(r);
	case GDN_GATES_ZERO: break;
	}
	return 0;
}

static float make_beta(Random *r, const GdnInputSpec *s)
{
	GdnBetas kind = s->betas;
	if (s->beta != 0)
		return s->beta;
	return kind == GDN_BETAS_RAW ? random_normal(r) : (kind == GDN_BETAS_TWICE ? 2 : 1) * input_sigmoid(r);
}

static int64_t states(const GdnInputSpec *s)
{
	return s->with_initial ? (s->sequences ? s->sequences : s->batch) * s->value_heads * s->key_dim * s->value_dim : 0;
}

static bool allocate(GdnInput *in)
{
	const GdnInputSpec *s = &in->spec;
	int64_t rows = s->batch * s->tokens, qk = rows * s->qk_heads * s->key_dim, gates = rows * s->value_heads, v = gates * s->value_dim;
	const struct { uint16_t **half; float **full; int64_t n; } arrays[] = {
		{ &in->q16, &in->q, qk }, { &in->k16, &in->k, qk }, { &in->v16, &in->v, v }, { &in->gates16, &in->g, gates },
		{ &in->beta16, &in->beta, gates }, { &in->initial16, &in->initial, states(s) },
	};
	for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
		if (arrays[i].half == &in->initial16 && !s->with_initial)
			continue;
		*arrays[i].half = input_array(arrays[i].n, sizeof(uint16_t));
		*arrays[i].full = input_array(arrays[i].n, sizeof(float));
		if (!*arrays[i].half || !*arrays[i].full)
			return false;
	}
	in->a_log = input_array(s->value_heads, sizeof(float));
	in->dt_bias = input_array(s->value_heads, sizeof(float));
	return in->a_log && in->dt_bias;
}

static void round_all(const GdnInputSpec *s, uint16_t *half, float *full, int64_t n, bool keep_full)
{
	for (int64_t i = 0; i < n; i++) {
		half[i] = pattern(s, full[i]);
		if (!keep_full)
			full[i] = value(s, half[i]);
	}
}

static float value_scale(const GdnInputSpec *s) { return s->value_scale != 0 ? s->value_scale : 1; }

static void make_states(Random *r, GdnInput *in)
{
	for (int64_t i = 0; i < states(&in->spec); i++) {
		in->initial[i] = 0.5f * value_scale(&in->spec) * random_normal(r);
		in->initial16[i] = bf16_from_float(in->initial[i]);
		if (in->spec.initial_bf16)
			in->initial[i] = bf16_to_float(in->initial16[i]);
	}
}

bool gdn_input_make(GdnInput *in, const GdnInputSpec *s)
{
	int64_t rows = s->batch * s->tokens, K = s->key_dim, gates = rows * s->value_heads;
	float *axes = input_array(s->qk_heads * K, sizeof(float));
	Random r;

	*in = (GdnInput){ .spec = *s };
	if (!axes || !allocate(in)) {
		free(axes);
		gdn_input_free(in);
		return false;
	}
	random_init(&r, s->seed);
	fill(&r, axes, s->qk_heads * K, false);
	for (int64_t h = 0; h < s->value_heads; h++) {
		float dt = expf(logf(0.001f) + (float)random_unit(&r) * logf(100));
		in->a_log[h] = logf(1 + 15 * (float)random_unit(&r));
		in->dt_bias[h] = dt + logf(-expm1f(-dt)); /* softplus of it is dt */
	}
	for (int64_t i = 0; i < rows * s->qk_heads; i++) {
		make_row(&r, s->keys, false, NULL, in->q + i * K, K);
		make_row(&r, s->keys, true, axes + i % s->qk_heads * K, in->k + i * K, K);
	}
	fill(&r, in->v, gates * s->value_dim, s->keys == GDN_KEYS_POSITIVE);
	for (int64_t i = 0; i < gates * s->value_dim; i++)
		in->v[i] *= value_scale(s);
	for (int64_t i = 0; i < gates; i++) {
		in->g[i] = gate(&r, s->gates, i / s->value_heads, i % s->value_heads);
		in->beta[i] = make_beta(&r, s);
	}
	round_all(s, in->q16, in->q, rows * s->qk_heads * K, false);
	round_all(s, in->k16, in->k, rows * s->qk_heads * K, false);
	round_all(s, in->v16, in->v, gates * s->value_dim, false);
	round_all(s, in->gates16, in->g, gates, !s->gate16);
	round_all(s, in->beta16, in->beta, gates, !s->beta16);
	make_states(&r, in);
	free(axes);
	return true;
}

void gdn_input_free(GdnInput *in)
{
	void *all[] = { in->q16, in->k16, in->v16, in->gates16, in->beta16, in->initial16, in->q, in->k, in->v, in->g, in->beta, in->initial,
		in->a_log, in->dt_bias };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		free(all[i]);
	*in = (GdnInput){ 0 };
}

GdnReference gdn_input_reference(const GdnInput *in)
{
	const GdnInputSpec *s = &in->spec;
	return (GdnReference){ .batch = s->batch, .tokens = s->tokens, .qk_heads = s->qk_heads, .value_heads = s->value_heads,
		.key_dim = s->key_dim, .value_dim = s->value_dim, .q = in->q, .k = in->k, .v = in->v, .g = in->g, .beta = in->beta,
		.a_log = in->a_log, .dt_bias = in->dt_bias, .initial = in->initial };
}
