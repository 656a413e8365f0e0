/* The GDN backward, its forward scanned again: GDN's shapes of training. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tilekern/gdn.h>

#include "kernels/bench/bench.h"
#include "tests/check/accuracy.h"
#include "tests/check/delta.h"
#include "tests/check/gdn_input.h"

/* Inputs repeat this many rows, a token of a head each; a prime, so that no wrong index lands on the same values. */
enum { PERIOD = 65521, DIM = 128, CHECKED = 200 /* tokens of the sequences compared with the recurrence */ };

#define CHECK_GDN(call) bench_check((call), tilekern_last_error(), #call)

typedef struct Shape { int64_t qk_heads, value_heads, sequences, tokens; } Shape; /* tokens of a sequence */
enum { DQ, DK, DV, DG, DBETA, GRADIENTS };

typedef struct Problem {
	Shape s;
	const GdnInput *source;
	tilekern_gdn_params f;
	tilekern_gdn_backward_params p;
	tilekern_gdn_call *forward, *backward;
} Problem;

static size_t token_heads(Shape s) { return (size_t)(s.sequences * s.tokens * s.value_heads); }

static tilert_ptr vectors(Bench *b, const uint16_t *data, size_t rows)
{
	return bench_periodic(b, data, (size_t)PERIOD * DIM * 2, rows * DIM * 2);
}

static tilert_ptr numbers(Bench *b, const float *data, size_t rows) { return bench_periodic(b, data, (size_t)PERIOD * 4, rows * 4); }

static size_t gradient_bytes(const Problem *q, int which)
{
	size_t heads = token_heads(q->s), keys = heads / (size_t)(q->s.value_heads / q->s.qk_heads);
	return which == DV ? heads * DIM * 2 : which < DV ? keys * DIM * 2 : heads * 4;
}

static tilert_ptr *gradient(tilekern_gdn_backward_params *p, int which)
{
	tilert_ptr *const fields[GRADIENTS] = { &p->dq, &p->dk, &p->dv, &p->dg, &p->dbeta };
	return fields[which];
}

/* dout is v, moved by a few rows. */
static void make_problem(Bench *b, tilekern_gdn *gdn, Problem *q)
{
	const GdnInput *in = q->source;
	size_t heads = token_heads(q->s), keys = heads / (size_t)(q->s.value_heads / q->s.qk_heads);
	tilekern_gdn_params_init(&q->f);
	tilekern_gdn_backward_params_init(&q->p);
	q->f.batch = q->s.sequences;
	q->f.tokens = q->s.tokens;
	q->f.qk_heads = q->s.qk_heads;
	q->f.value_heads = q->s.value_heads;
	q->f.q = vectors(b, in->q16, keys);
	q->f.k = vectors(b, in->k16, keys);
	q->f.v = vectors(b, in->v16, heads + 7);
	q->f.g = numbers(b, in->g, heads);
	q->f.beta = numbers(b, in->beta, heads);
	q->f.o = bench_poisoned(b, heads * DIM * 2);
	CHECK_GDN(tilekern_gdn_workspace_bytes(gdn, &q->f, &q->f.workspace_bytes));
	q->f.workspace = bench_poisoned(b, q->f.workspace_bytes);
	q->p.forward = &q->f;
	q->p.dout = q->f.v + (tilert_ptr)7 * DIM * 2;
	for (int i = 0; i < GRADIENTS; i++)
		*gradient(&q->p, i) = bench_poisoned(b, gradient_bytes(q, i));
	CHECK_GDN(tilekern_gdn_backward_workspace_bytes(gdn, &q->p, &q->p.workspace_bytes));
	q->p.workspace = bench_poisoned(b, q->p.workspace_bytes);
	CHECK_GDN(tilekern_gdn_prepare(gdn, &q->f, &q->forward));
	CHECK_GDN(tilekern_gdn_backward_prepare(gdn, &q->p, &q->backward));
}

static void free_problem(Bench *b, Problem *q)
{
	const tilert_ptr all[] = { q->f.q, q->f.k, q->f.v, q->f.g, q->f.beta, q->f.o, q->f.workspace, q->p.workspace };
	tilekern_gdn_call_destroy(q->forward);
	tilekern_gdn_call_destroy(q->backward);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		bench_free(b, all[i]);
	for (int i = 0; i < GRADIENTS; i++)
		bench_free(b, *gradient(&q->p, i));
}

static void launch_forward(void *q, tilert_stream s) { CHECK_GDN(tilekern_gdn_launch(((Problem *)q)->forward, s)); }
static void launch_backward(void *q, tilert_stream s) { CHECK_GDN(tilekern_gdn_launch(((Problem *)q)->backward, s)); }

static void *download(Bench *b, const Problem *q, int which)
{
	tilekern_gdn_backward_params p = q->p;
	void *out = bench_memory(gradient_bytes(q, which));
	CHECK(tilert_download(b->device, out, *gradient(&p, which), gradient_bytes(q, which)));
	return out;
}

/* ---- the error, of a call with short sequences ---- */

static double *rows(const float *source, size_t n, size_t width, size_t first)
{
	double *out = bench_memory(n * width * sizeof *out);
	for (size_t i = 0; i < n * width; i++)
		out[i] = (double)source[(i / width + first) % PERIOD * width + i % width];
	return out;
}

static double error_of(Bench *b, Problem *q, const double *const want[GRADIENTS])
{
	static const double allowed[GRADIENTS] = { .008, .008, .008, .02, .02 };
	const int64_t heads[GRADIENTS] = { q->s.qk_heads, q->s.qk_heads, q->s.value_heads, q->s.value_heads, q->s.value_heads };
	double worst = 0;
	for (int i = 0; i < GRADIENTS; i++) {
		AccuracyShape s = { q->s.sequences, q->s.tokens, heads[i], i < DG ? DIM : 1, GDN_CHUNK };
		void *got = download(b, q, i);
		Accuracy a = i < DG ? accuracy_of_bf16(want[i], got, s) : accuracy_of_floats(want[i], got, s);
		worst = fmax(worst, (a.not_finite ? INFINITY : a.rms_ratio) / allowed[i]);
		free(got);
	}
	return worst;
}

/* The largest of the gradients' errors, as a part of what FLA's contract allows. */
static double find_error(Bench *b, tilekern_gdn *gdn, Shape s, const GdnInput *in)
{
	Problem q = { .s = { s.qk_heads, s.value_heads, 1, CHECKED }, .source = in };
	const size_t heads = token_heads(q.s), keys = heads / (size_t)(s.value_heads / s.qk_heads), width[GRADIENTS] = { DIM, DIM, DIM, 1, 1 };
	double *const from[] = { rows(in->q, keys, DIM, 0), rows(in->k, keys, DIM, 0), rows(in->v, heads, DIM, 0), rows(in->g, heads, 1, 0),
		rows(in->beta, heads, 1, 0), rows(in->v, heads, DIM, 7) };
	double *want[GRADIENTS];
	for (int i = 0; i < GRADIENTS; i++)
		want[i] = bench_memory((i < DV ? keys : heads) * width[i] * sizeof(double));
	Delta ref = { .batch = 1, .tokens = CHECKED, .qk_heads = s.qk_heads, .value_heads = s.value_heads, .key_dim = DIM, .value_dim = DIM, .gate_dim = 1,
		.q = from[0], .k = from[1], .v = from[2], .g = from[3], .beta = from[4], .dout = from[5] };
	make_problem(b, gdn, &q);
	launch_backward(&q, NULL);
	CHECK(tilert_stream_sync(b->device, NULL));
	bool ran = delta_run(&ref, &(DeltaResult){ .q = want[DQ], .k = want[DK], .v = want[DV], .g = want[DG], .beta = want[DBETA] });
	double error = ran ? error_of(b, &q, (const double *const *)want) : INFINITY;
	for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
		free(from[i]);
	for (int i = 0; i < GRADIENTS; i++)
		free(want[i]);
	free_problem(b, &q);
	return error;
}

/* ---- times ---- */

static void run(Bench *b, tilekern_gdn *gdn, Shape s, const GdnInput *source)
{
	Problem q = { .s = s, .source = source };
	char shape[64];
	void *first[GRADIENTS], *last;
	bool same = true;
	snprintf(shape, sizeof shape, "%lldx%lld %lld/%lld", (long long)s.sequences, (long long)s.tokens, (long long)s.qk_heads, (long long)s.value_heads);
	double error = find_error(b, gdn, s, source);
	make_problem(b, gdn, &q);
	launch_backward(&q, NULL);
	CHECK(tilert_stream_sync(b->device, NULL));
	for (int i = 0; i < GRADIENTS; i++)
		first[i] = download(b, &q, i);
	double back = error < 1 ? bench_time_graph(b, launch_backward, &q) : 0, there = error < 1 ? bench_time_graph(b, launch_forward, &q) : 0;
	for (int i = 0; i < GRADIENTS; i++) {
		last = download(b, &q, i);
		same &= memcmp(first[i], last, gradient_bytes(&q, i)) == 0;
		free(first[i]);
		free(last);
	}
	if (!(error < 1) || !same) { /* a NaN is here, too */
		bench_refuse(b, "GDN backward", "%s: error %.2f of what is allowed%s", shape, error, same ? "" : "; another run gave other bits");
	} else {
		printf("GDN backward %-16s %9.1f us, forward %9.1f us, workspace %6.0f MB, error %.2f of what is allowed\n", shape, 1e3 * back, 1e3 * there,
			(double)q.p.workspace_bytes * 1e-6, error);
		fflush(stdout);
		bench_csv(b, "GDN backward", shape, back, (double)token_heads(s) / back * 1e-6, "G tokens and heads/s", error);
		bench_csv(b, "GDN forward and backward", shape, there + back, (double)token_heads(s) / (there + back) * 1e-6, "G tokens and heads/s", error);
	}
	free_problem(b, &q);
}

void bench_gdn_backward(Bench *b)
{
	static const Shape shapes[] = {
		{ 16, 32, 4, 8192 }, { 8, 16, 4, 8192 }, { 4, 8, 4, 8192 }, { 2, 4, 4, 8192 }, { 16, 32, 1, 8192 }, { 16, 32, 8, 1024 }, { 16, 32, 1, 32768 },
		{ 2, 4, 1, 32768 }, { 16, 64, 1, 16384 }, { 32, 32, 4, 4096 },
	};
	tilekern_gdn *gdn;
	GdnInput source;
	GdnInputSpec spec = { .batch = 1, .tokens = PERIOD, .qk_heads = 1, .value_heads = 1, .key_dim = DIM, .value_dim = DIM, .seed = 11 };
	if (!gdn_input_make(&source, &spec))
		bench_check(TILERT_ENOMEM, "host memory", "gdn_input_make");
	CHECK_GDN(tilekern_gdn_open(b->device, &gdn));
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run(b, gdn, shapes[i], &source);
	tilekern_gdn_close(gdn);
	gdn_input_free(&source);
}
