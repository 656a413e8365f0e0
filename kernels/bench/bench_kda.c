/* The KDA forward: of log gates and normalised q and k, and as an operator, with the gate, the norms and the sigmoid of beta inside. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tilekern/kda.h>

#include "kernels/bench/bench.h"
#include "tests/check/accuracy.h"
#include "tests/check/kda_input.h"

/* Large inputs repeat this many vectors; a prime, so that no wrong index lands on the same values. */
enum { PERIOD = 65521 };

/* gates: KDA_GATES_RAW is the operator. */
typedef struct Shape { int64_t batch, tokens, heads; KdaGates gates; bool gate_f32; } Shape;

#define CHECK_KDA(call) bench_check((call), tilekern_last_error(), #call)

typedef struct Problem {
	Shape s;
	KdaInput source; /* PERIOD vectors */
	tilekern_kda_params p;
} Problem;

static size_t vectors(Shape s) { return (size_t)(s.batch * s.tokens * s.heads); }

static void make_problem(Bench *b, tilekern_kda *kda, Problem *q, Shape s)
{
	KdaInputSpec spec = { .batch = 1, .tokens = PERIOD, .heads = 1, .gates = s.gates, .gate_bf16 = !s.gate_f32, .seed = 11 };
	size_t n = vectors(s) * KDA_DIM, period = (size_t)PERIOD * KDA_DIM;
	*q = (Problem){ .s = s };
	tilekern_kda_params_init(&q->p);
	if (!kda_input_make(&q->source, &spec))
		bench_check(TILERT_ENOMEM, "host memory", "kda_input_make");
	q->p.batch = s.batch;
	q->p.tokens = s.tokens;
	q->p.qk_heads = q->p.value_heads = s.heads;
	q->p.gate_dtype = s.gate_f32 ? TILERT_F32 : TILERT_BF16;
	if (s.gates == KDA_GATES_RAW)
		q->p.options = TILEKERN_L2NORM | TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE | TILEKERN_SIGMOID_BETA;
	CHECK_KDA(tilekern_kda_workspace_bytes(kda, &q->p, &q->p.workspace_bytes));
	q->p.q = bench_periodic(b, q->source.q16, period * 2, n * 2);
	q->p.k = bench_periodic(b, q->source.k16, period * 2, n * 2);
	q->p.v = bench_periodic(b, q->source.v16, period * 2, n * 2);
	q->p.g = s.gate_f32 ? bench_periodic(b, q->source.g, period * 4, n * 4) : bench_periodic(b, q->source.gates16, period * 2, n * 2);
	q->p.beta = bench_periodic(b, q->source.beta, (size_t)PERIOD * 4, vectors(s) * 4);
	q->p.o = bench_poisoned(b, n * 2);
	q->p.final_state = bench_poisoned(b, (size_t)(s.batch * s.heads) * KDA_DIM * KDA_DIM * 4);
	q->p.workspace = bench_poisoned(b, q->p.workspace_bytes);
}

static void free_problem(Bench *b, Problem *q)
{
	const tilert_ptr all[] = { q->p.q, q->p.k, q->p.v, q->p.g, q->p.beta, q->p.o, q->p.final_state, q->p.workspace };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		bench_free(b, all[i]);
	kda_input_free(&q->source);
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* One sequence and head against the recurrence; the larger of the errors of o and of the final state. */
static double head_error(Bench *b, const Problem *q, const uint16_t *o, int64_t sequence, int64_t head)
{
	int64_t T = q->s.tokens, H = q->s.heads;
	size_t row = KDA_DIM * sizeof(float), n = (size_t)T * KDA_DIM, state_n = KDA_DIM * KDA_DIM;
	float *in[4], *beta = bench_memory((size_t)T * 4), *ht = bench_memory(state_n * 4);
	const float *from[4] = { q->source.q, q->source.k, q->source.v, q->source.g };
	uint16_t *got = bench_memory(n * 2);
	double *ref_o = bench_memory(n * 8), *ref_state = bench_memory(state_n * 8);
	for (int i = 0; i < 4; i++)
		in[i] = bench_memory(n * 4);
	for (int64_t t = 0; t < T; t++) {
		int64_t at = (sequence * T + t) * H + head;
		for (int i = 0; i < 4; i++)
			memcpy(in[i] + t * KDA_DIM, from[i] + at % PERIOD * KDA_DIM, row);
		beta[t] = q->source.beta[at % PERIOD];
		for (int d = 0; d < KDA_DIM && q->s.gates == KDA_GATES_RAW; d++)
			in[3][t * KDA_DIM + d] = -5 * sigmoid(in[3][t * KDA_DIM + d]);
		if (q->s.gates == KDA_GATES_RAW)
			beta[t] = sigmoid(beta[t]);
		memcpy(got + t * KDA_DIM, o + at * KDA_DIM, KDA_DIM * 2);
	}
	KdaReference ref = { .batch = 1, .tokens = T, .heads = 1, .key_dim = KDA_DIM, .value_dim = KDA_DIM, .q = in[0], .k = in[1], .v = in[2],
		.g = in[3], .beta = beta };
	kda_reference(&ref, ref_o, ref_state);
	CHECK(tilert_download(b->device, ht, q->p.final_state + (tilert_ptr)((size_t)(sequence * H + head) * state_n * 4), state_n * 4));
	Accuracy of_o = accuracy_of_bf16(ref_o, got, (AccuracyShape){ 1, T, 1, KDA_DIM, KDA_CHUNK });
	Accuracy of_state = accuracy_of_floats(ref_state, ht, (AccuracyShape){ 1, 1, 1, KDA_DIM * KDA_DIM, 1 });
	for (int i = 0; i < 4; i++)
		free(in[i]);
	free(beta);
	free(ht);
	free(got);
	free(ref_o);
	free(ref_state);
	return of_o.rms_ratio > of_state.rms_ratio ? of_o.rms_ratio : of_state.rms_ratio;
}

static void launch_call(void *call)
{
	CHECK_KDA(tilekern_kda_launch(call, NULL));
}

static void run(Bench *b, tilekern_kda *kda, Shape s)
{
	const char *what = s.gates == KDA_GATES_RAW ? "KDA operator" : "KDA forward";
	char shape[64];
	Problem q;
	tilekern_kda_call *call;
	snprintf(shape, sizeof shape, "B%lld T%lld H%lld %s %s", (long long)s.batch, (long long)s.tokens, (long long)s.heads, s.gate_f32 ? "f32" : "bf16",
		s.gates == KDA_GATES_RAW ? "raw" : s.gates == KDA_GATES_MILD ? "mild" : s.gates == KDA_GATES_STRONG ? "strong" : "bounded");
	make_problem(b, kda, &q, s);
	CHECK_KDA(tilekern_kda_prepare(kda, &q.p, &call));
	CHECK_KDA(tilekern_kda_launch(call, NULL));
	CHECK(tilert_stream_sync(b->device, NULL));
	uint16_t *o = bench_memory(vectors(s) * KDA_DIM * 2);
	CHECK(tilert_download(b->device, o, q.p.o, vectors(s) * KDA_DIM * 2));
	double error = head_error(b, &q, o, s.batch - 1, s.heads - 1);
	free(o);
	if (error < 0.006) { /* a NaN is not */
		double ms = bench_time(b, launch_call, call);
		double bytes = (double)vectors(s) * (4.0 * 256 + (s.gate_f32 ? 512 : 256) + 4);
		bench_row(b, what, shape, ms, bytes / ms * 1e-6, "GB/s of least", error);
	} else {
		bench_refuse(b, what, "%s: relative error %g", shape, error);
	}
	tilekern_kda_call_destroy(call);
	free_problem(b, &q);
}

void bench_kda(Bench *b)
{
	static const Shape shapes[] = {
		{ 1, 8192, 96, KDA_GATES_MILD, false }, { 8, 1024, 96, KDA_GATES_MILD, false }, { 8, 4096, 32, KDA_GATES_MILD, false },
		{ 1, 8192, 64, KDA_GATES_MILD, false }, { 8, 1024, 64, KDA_GATES_MILD, false }, { 1, 1024, 64, KDA_GATES_MILD, false },
		{ 2, 8192, 64, KDA_GATES_MILD, false }, { 4, 8192, 32, KDA_GATES_MILD, false }, { 1, 32768, 8, KDA_GATES_MILD, false },
		{ 1, 8192, 96, KDA_GATES_MILD, true }, { 1, 8192, 96, KDA_GATES_STRONG, false },
		{ 1, 8192, 96, KDA_GATES_RAW, false }, { 8, 1024, 96, KDA_GATES_RAW, false }, { 8, 4096, 32, KDA_GATES_RAW, false },
		{ 1, 8192, 8, KDA_GATES_BOUNDED, false }, { 1, 8192, 32, KDA_GATES_BOUNDED, false }, { 1, 2048, 8, KDA_GATES_BOUNDED, false },
		{ 8, 1024, 12, KDA_GATES_BOUNDED, false },
	};
	tilekern_kda *kda;
	CHECK_KDA(tilekern_kda_open(b->device, &kda));
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run(b, kda, shapes[i]);
	tilekern_kda_close(kda);
}
