#include "tests/check/kda_input.h"

#include <math.h>
#include <stdlib.h>

#include "tests/check/float16.h"
#include "tests/check/input.h"

static float uniform(Random *r)
{
	return (float)random_unit(r);
}

/* A unit vector of numbers that `draw` gives, or one close to `base`. */
static void unit_vector(Random *r, float (*draw)(Random *), const float *base, uint16_t *out)
{
	float x[KDA_DIM];
	for (int i = 0; i < KDA_DIM; i++)
		x[i] = base ? base[i] + 0.05f * draw(r) : draw(r);
	input_normalise(x, KDA_DIM);
	for (int i = 0; i < KDA_DIM; i++)
		out[i] = bf16_from_float(x[i]);
}

/* q, k and beta of a sequence. */
static void make_sequence(Random *r, KdaKeys kind, KdaInput *in, int64_t sequence)
{
	float (*queries)(Random *) = kind == KDA_KEYS_ALL_POSITIVE ? uniform : random_normal;
	float (*keys)(Random *) = kind == KDA_KEYS_POSITIVE ? uniform : queries;
	float *base = kind == KDA_KEYS_COLLINEAR ? in->k : NULL; /* of each head, where the first token's keys will be */
	int64_t first = sequence * in->tokens * in->heads;

	for (int64_t i = 0; base && in->tokens > 0 && i < in->heads * KDA_DIM; i++)
		base[i] = random_normal(r);
	for (int64_t i = first; i < first + in->tokens * in->heads; i++) {
		unit_vector(r, queries, NULL, in->q16 + i * KDA_DIM);
		unit_vector(r, keys, base ? base + i % in->heads * KDA_DIM : NULL, in->k16 + i * KDA_DIM);
		in->beta[i] = input_sigmoid(r);
	}
}

static float gate(Random *r, KdaGates kind)
{
	static const float mixed[] = { 0, -0.01f, -1, -5 };
	switch (kind) {
	case KDA_GATES_MILD: return input_mild_gate(r);
	case KDA_GATES_STRONG: return -5;
	case KDA_GATES_MIXED: return mixed[random_bits(r) >> 62];
	case KDA_GATES_SLOW: return -0.02f * uniform(r);
	case KDA_GATES_FAST: return -4 - uniform(r);
	case KDA_GATES_BOUNDED: return -5 / (1 + expf(3 - random_normal(r)));
	case KDA_GATES_RAW: return random_normal(r);
	case KDA_GATES_ZERO: break;
	}
	return 0;
}

static bool allocate(KdaInput *in, bool with_initial)
{
	int64_t vectors = in->batch * in->tokens * in->heads, n = vectors * KDA_DIM;
	in->q16 = input_array(n, 2);
	in->k16 = input_array(n, 2);
	in->v16 = input_array(n, 2);
	in->gates16 = input_array(n, 2);
	in->q = input_array(n, 4);
	in->k = input_array(n, 4);
	in->v = input_array(n, 4);
	in->g = input_array(n, 4);
	in->beta = input_array(vectors, 4);
	if (with_initial)
		in->initial = input_array(in->batch * in->heads * KDA_DIM * KDA_DIM, 4);
	return in->q16 && in->k16 && in->v16 && in->gates16 && in->q && in->k && in->v && in->g && in->beta
		&& (in->initial || !with_initial);
}

bool kda_input_make(KdaInput *in, const KdaInputSpec *s)
{
	Random r;
	int64_t n = s->batch * s->tokens * s->heads * KDA_DIM;
	float size = s->values != 0 ? s->values : 1;

	*in = (KdaInput){ .batch = s->batch, .tokens = s->tokens, .heads = s->heads, .gate_bf16 = s->gate_bf16 };
	if (!allocate(in, s->with_initial)) {
		kda_input_free(in);
		return false;
	}
	random_init(&r, s->seed);
	for (int64_t b = 0; b < s->batch; b++)
		make_sequence(&r, s->keys, in, b);
	for (int64_t i = 0; i < n; i++) {
		in->v16[i] = bf16_from_float(size * (s->keys == KDA_KEYS_ALL_POSITIVE ? uniform(&r) : random_normal(&r)));
		in->g[i] = gate(&r, s->gates);
		in->gates16[i] = bf16_from_float(in->g[i]);
		if (s->gate_bf16)
			in->g[i] = bf16_to_float(in->gates16[i]);
	}
	bf16_array_to_float(in->q16, in->q, (size_t)n);
	bf16_array_to_float(in->k16, in->k, (size_t)n);
	bf16_array_to_float(in->v16, in->v, (size_t)n);
	if (in->initial) {
		for (int64_t i = 0; i < s->batch * s->heads * KDA_DIM * KDA_DIM; i++)
			in->initial[i] = 0.5f * random_normal(&r);
	}
	return true;
}

void kda_input_free(KdaInput *in)
{
	void *all[] = { in->q16, in->k16, in->v16, in->gates16, in->q, in->k, in->v, in->g, in->beta, in->initial };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		free(all[i]);
	*in = (KdaInput){ 0 };
}

KdaReference kda_input_reference(const KdaInput *in)
{
	return (KdaReference){ .batch = in->batch, .tokens = in->tokens, .heads = in->heads, .key_dim = KDA_DIM, .value_dim = KDA_DIM,
		.q = in->q, .k = in->k, .v = in->v, .g = in->g, .beta = in->beta, .initial = in->initial };
}
