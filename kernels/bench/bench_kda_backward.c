/* The KDA backward, its forward scanned again and from what it saved: log gates, normalised q and k. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tilekern/kda.h>

#include "kernels/bench/bench.h"
#include "tests/check/accuracy.h"
#include "tests/check/delta.h"
#include "tests/check/kda_input.h"

/* Inputs repeat this many numbers of KDA_DIM each, a prime, so that no wrong index lands on the same values. */
enum { PERIOD = 65521, CHECKED = 200 /* tokens of the sequences compared with the recurrence */, SHIFT = 7 /* vectors from v to dout */ };

#define CHECK_KDA(call) bench_check((call), tilekern_last_error(), #call)

typedef struct Shape { int64_t batch, tokens, heads, dim; KdaGates gates; } Shape;
enum { DQ, DK, DV, DG, DBETA, GRADIENTS };

typedef struct Problem {
	Shape s;
	tilekern_kda_params f;
	tilekern_kda_backward_params p;
	tilekern_kda_call *forward, *backward;
} Problem;

static size_t vectors(Shape s) { return (size_t)(s.batch * s.tokens * s.heads); }
static size_t gradient_bytes(const Problem *q, int which) { return vectors(q->s) * (which == DBETA ? 4 : (size_t)q->s.dim * 2); }

static tilert_ptr *gradient(tilekern_kda_backward_params *p, int which)
{
	tilert_ptr *const fields[GRADIENTS] = { &p->dq, &p->dk, &p->dv, &p->dg, &p->dbeta };
	return fields[which];
}

static tilert_ptr copies(Bench *b, const uint16_t *data, Shape s, size_t more)
{
	return bench_periodic(b, data, (size_t)PERIOD * KDA_DIM * 2, (vectors(s) + more) * (size_t)s.dim * 2);
}

static void make_problem(Bench *b, tilekern_kda *kda, const KdaInput *in, Shape s, bool save, Problem *q)
{
	*q = (Problem){ .s = s };
	tilekern_kda_params_init(&q->f);
	tilekern_kda_backward_params_init(&q->p);
	q->f.batch = s.batch;
	q->f.tokens = s.tokens;
	q->f.qk_heads = q->f.value_heads = s.heads;
	q->f.key_dim = q->f.value_dim = s.dim;
	q->f.gate_dtype = TILERT_BF16;
	q->f.q = copies(b, in->q16, s, 0);
	q->f.k = copies(b, in->k16, s, 0);
	q->f.v = copies(b, in->v16, s, SHIFT);
	q->f.g = copies(b, in->gates16, s, 0);
	q->f.beta = bench_periodic(b, in->beta, (size_t)PERIOD * 4, vectors(s) * 4);
	q->f.o = bench_poisoned(b, vectors(s) * (size_t)s.dim * 2);
	CHECK_KDA(tilekern_kda_workspace_bytes(kda, &q->f, &q->f.workspace_bytes));
	q->f.workspace = bench_poisoned(b, q->f.workspace_bytes);
	if (save) {
		CHECK_KDA(tilekern_kda_saved_bytes(kda, &q->f, &q->f.saved_bytes));
		q->f.saved = bench_poisoned(b, q->f.saved_bytes);
	}
	q->p.forward = &q->f;
	q->p.dout = q->f.v + (tilert_ptr)(SHIFT * s.dim * 2);
	for (int i = 0; i < GRADIENTS; i++)
		*gradient(&q->p, i) = bench_poisoned(b, gradient_bytes(q, i));
	CHECK_KDA(tilekern_kda_backward_workspace_bytes(kda, &q->p, &q->p.workspace_bytes));
	q->p.workspace = bench_poisoned(b, q->p.workspace_bytes);
	CHECK_KDA(tilekern_kda_prepare(kda, &q->f, &q->forward));
	CHECK_KDA(tilekern_kda_backward_prepare(kda, &q->p, &q->backward));
}

static void free_problem(Bench *b, Problem *q)
{
	const tilert_ptr all[] = { q->f.q, q->f.k, q->f.v, q->f.g, q->f.beta, q->f.o, q->f.workspace, q->f.saved, q->p.workspace };
	tilekern_kda_call_destroy(q->forward);
	tilekern_kda_call_destroy(q->backward);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (all[i])
			bench_free(b, all[i]);
	}
	for (int i = 0; i < GRADIENTS; i++)
		bench_free(b, *gradient(&q->p, i));
}

static void launch_forward(void *q, tilert_stream s) { CHECK_KDA(tilekern_kda_launch(((Problem *)q)->forward, s)); }
static void launch_backward(void *q, tilert_stream s) { CHECK_KDA(tilekern_kda_launch(((Problem *)q)->backward, s)); }

/* The backward's gradients after both have run. */
static void run_both(Bench *b, Problem *q, void *out[GRADIENTS])
{
	launch_forward(q, NULL);
	launch_backward(q, NULL);
	CHECK(tilert_stream_sync(b->device, NULL));
	for (int i = 0; i < GRADIENTS; i++) {
		out[i] = bench_memory(gradient_bytes(q, i));
		CHECK(tilert_download(b->device, out[i], *gradient(&q->p, i), gradient_bytes(q, i)));
	}
}

/* ---- the error, of a call with short sequences ---- */

/* What the device has of numbers that repeat. */
static double *numbers(const float *source, size_t n, size_t first, size_t period)
{
	double *out = bench_memory(n * sizeof *out);
	for (size_t i = 0; i < n; i++)
		out[i] = (double)source[(i + first) % period];
	return out;
}

static double error_of(const Problem *q, double *const want[GRADIENTS], void *const got[GRADIENTS])
{
	static const double allowed[GRADIENTS] = { .008, .008, .008, .02, .02 };
	double worst = 0;
	for (int i = 0; i < GRADIENTS; i++) {
		AccuracyShape s = { q->s.batch, q->s.tokens, q->s.heads, i < DBETA ? q->s.dim : 1, KDA_CHUNK };
		Accuracy a = i < DBETA ? accuracy_of_bf16(want[i], got[i], s) : accuracy_of_floats(want[i], got[i], s);
		worst = fmax(worst, (a.not_finite ? INFINITY : a.rms_ratio) / allowed[i]);
	}
	return worst;
}

/* The largest of the gradients' errors, as a part of what FLA's contract allows. */
static double find_error(Bench *b, tilekern_kda *kda, const KdaInput *in, Shape s, bool save)
{
	Problem q;
	s.batch = 1;
	s.tokens = CHECKED;
	const size_t d = (size_t)s.dim, n = vectors(s) * d, period = (size_t)PERIOD * KDA_DIM;
	double *const from[] = { numbers(in->q, n, 0, period), numbers(in->k, n, 0, period), numbers(in->v, n, 0, period), numbers(in->g, n, 0, period),
		numbers(in->beta, vectors(s), 0, PERIOD), numbers(in->v, n, SHIFT * d, period) };
	double *want[GRADIENTS];
	void *got[GRADIENTS];
	Delta ref = { .batch = 1, .tokens = s.tokens, .qk_heads = s.heads, .value_heads = s.heads, .key_dim = s.dim, .value_dim = s.dim, .gate_dim = s.dim,
		.q = from[0], .k = from[1], .v = from[2], .g = from[3], .beta = from[4], .dout = from[5] };
	for (int i = 0; i < GRADIENTS; i++)
		want[i] = bench_memory((i < DBETA ? n : vectors(s)) * sizeof(double));
	make_problem(b, kda, in, s, save, &q);
	run_both(b, &q, got);
	bool ran = delta_run(&ref, &(DeltaResult){ .q = want[DQ], .k = want[DK], .v = want[DV], .g = want[DG], .beta = want[DBETA] });
	double error = ran ? error_of(&q, want, got) : INFINITY;
	for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
		free(from[i]);
	for (int i = 0; i < GRADIENTS; i++) {
		free(want[i]);
		free(got[i]);
	}
	free_problem(b, &q);
	return error;
}

/* ---- times ---- */

static bool same_again(Bench *b, Problem *q, void *first[GRADIENTS])
{
	bool same = true;
	void *last[GRADIENTS];
	run_both(b, q, last);
	for (int i = 0; i < GRADIENTS; i++) {
		same &= memcmp(first[i], last[i], gradient_bytes(q, i)) == 0;
		free(first[i]);
		free(last[i]);
	}
	return same;
}

static void run(Bench *b, tilekern_kda *kda, const KdaInput *in, Shape s, bool save)
{
	const char *what = save ? "KDA backward, saved" : "KDA backward";
	char shape[64];
	void *first[GRADIENTS];
	Problem q;
	snprintf(shape, sizeof shape, "B%lld T%lld H%lld K%lld %s", (long long)s.batch, (long long)s.tokens, (long long)s.heads, (long long)s.dim,
		s.gates == KDA_GATES_MILD ? "mild" : "bounded");
	double error = find_error(b, kda, in, s, save);
	make_problem(b, kda, in, s, save, &q);
	run_both(b, &q, first);
	double back = error < 1 ? bench_time_graph(b, launch_backward, &q) : 0, there = error < 1 ? bench_time_graph(b, launch_forward, &q) : 0;
	const bool same = same_again(b, &q, first);
	if (!(error < 1) || !same) { /* a NaN is here, too */
		bench_refuse(b, what, "%s: error %.2f of what is allowed%s", shape, error, same ? "" : "; another run gave other bits");
	} else {
		printf("%-20s %-26s %9.1f us, forward %9.1f us, workspace %6.0f MB, saved %6.0f MB, error %.2f of what is allowed\n", what, shape, 1e3 * back,
			1e3 * there, (double)q.p.workspace_bytes * 1e-6, (double)q.f.saved_bytes * 1e-6, error);
		fflush(stdout);
		bench_csv(b, what, shape, back, (double)vectors(s) / back * 1e-6, "G tokens and heads/s", error);
		bench_csv(b, save ? "KDA forward and backward, saved" : "KDA forward and backward", shape, there + back, (double)vectors(s) / (there + back) * 1e-6,
			"G tokens and heads/s", error);
	}
	free_problem(b, &q);
}

void bench_kda_backward(Bench *b)
{
	static const Shape shapes[] = {
		{ 8, 4096, 32, 128, KDA_GATES_BOUNDED }, { 4, 8192, 32, 128, KDA_GATES_BOUNDED }, { 1, 8192, 32, 128, KDA_GATES_BOUNDED },
		{ 1, 8192, 96, 128, KDA_GATES_BOUNDED }, { 1, 8192, 12, 128, KDA_GATES_BOUNDED }, { 1, 8192, 12, 128, KDA_GATES_MILD },
		{ 1, 65536, 8, 128, KDA_GATES_BOUNDED }, { 16, 4096, 16, 64, KDA_GATES_BOUNDED }, { 8, 8192, 16, 64, KDA_GATES_BOUNDED },
	};
	const KdaInputSpec specs[] = { { .gates = KDA_GATES_BOUNDED }, { .gates = KDA_GATES_MILD } };
	tilekern_kda *kda;
	CHECK_KDA(tilekern_kda_open(b->device, &kda));
	for (size_t g = 0; g < sizeof specs / sizeof specs[0]; g++) {
		KdaInput in;
		if (!kda_input_make(&in, &(KdaInputSpec){ .batch = 1, .tokens = PERIOD, .heads = 1, .gates = specs[g].gates, .gate_bf16 = true, .seed = 11 }))
			bench_check(TILERT_ENOMEM, "host memory", "kda_input_make");
		for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
			if (shapes[i].gates != specs[g].gates)
				continue;
			run(b, kda, &in, shapes[i], false);
			run(b, kda, &in, shapes[i], true);
		}
		kda_input_free(&in);
	}
	tilekern_kda_close(kda);
}
