/* The GDN forward in the rows of FlashQLA's table, beside what the GPU could do at most. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tilekern/gdn.h>

#include "kernels/bench/bench.h"
#include "tests/check/accuracy.h"
#include "tests/check/float16.h"
#include "tests/check/gdn_input.h"

/* Large inputs repeat this many rows, a token of a head each; a prime, so that no wrong index lands on the same values. */
enum { PERIOD = 65521, STATES = 61, MAX_HEADS = 64, MAX_SETS = 16 };
/* Below this many bytes of inputs and outputs several sets are launched by turns, so that none is in the L2 cache (50 MB) when its turn comes. */
static const double COLD_BYTES = 150e6;
/* What the dense units and the memory of an H200 sustain (kernels.md 2.1). */
static const double PEAK_FLOPS = 790e12, PEAK_BYTES = 4.3e12;

typedef struct Shape { int64_t qk_heads, value_heads, sequences, tokens, dim; } Shape; /* tokens of a sequence; sequences are packed; K = V = dim */

#define CHECK_GDN(call) bench_check((call), tilekern_last_error(), #call)

typedef struct Variant {
	const char *name;
	bool fp16, gates16, saves; /* saves: u, the records and the states that enter chunks */
	unsigned options;
	GdnGates gates;
	tilekern_split split;
} Variant;

typedef struct Problem {
	Shape s;
	Variant variant;
	tilekern_gdn *gdn;
	const GdnInput *source; /* PERIOD tokens of one head, STATES initial states */
	tilekern_gdn_params p[MAX_SETS];
	tilekern_gdn_call *call[MAX_SETS];
	int sets, next;
} Problem;

static size_t token_heads(Shape s) { return (size_t)(s.sequences * s.tokens * s.value_heads); }
static size_t states(Shape s) { return (size_t)(s.sequences * s.value_heads) * (size_t)(s.dim * s.dim); }
/* Three products with the state, and those within a chunk. */
static double flops(Shape s) { return (6.0 * (double)s.dim + 512) * (double)s.dim * (double)token_heads(s); }
/* What must be read and written once: q and k for G heads, v, o, g and beta; neither states nor what is saved is counted. */
static double bytes(Shape s)
{
	double row = 2 * (double)s.dim;
	return (2 * row * (double)s.qk_heads / (double)s.value_heads + 2 * row + 8) * (double)token_heads(s);
}

static tilert_ptr offsets(Bench *b, Shape s)
{
	int32_t *cu = bench_memory((size_t)(s.sequences + 1) * sizeof *cu);
	for (int64_t n = 0; n <= s.sequences; n++)
		cu[n] = (int32_t)(n * s.tokens);
	tilert_ptr p = bench_periodic(b, cu, (size_t)(s.sequences + 1) * sizeof *cu, (size_t)(s.sequences + 1) * sizeof *cu);
	free(cu);
	return p;
}

/* `rows` rows that repeat those of the source. */
static tilert_ptr input(Bench *b, const void *data, size_t size, int64_t width, size_t rows)
{
	return bench_periodic(b, data, (size_t)PERIOD * (size_t)width * size, rows * (size_t)width * size);
}

static tilekern_gdn_params make_params(Bench *b, tilekern_gdn *gdn, const Problem *q, const tilekern_gdn_params *first)
{
	const GdnInput *in = q->source;
	Shape s = q->s;
	size_t heads = token_heads(s), qk = heads / (size_t)(s.value_heads / s.qk_heads), gate = q->variant.gates16 ? 2 : 4;
	tilekern_gdn_params p;
	tilekern_gdn_params_init(&p);
	p.tokens = s.sequences * s.tokens;
	p.qk_heads = s.qk_heads;
	p.value_heads = s.value_heads;
	p.key_dim = p.value_dim = s.dim;
	p.split = q->variant.split;
	p.dtype = q->variant.fp16 ? TILERT_F16 : TILERT_BF16;
	p.gate_dtype = p.beta_dtype = q->variant.gates16 ? p.dtype : TILERT_F32;
	p.options = q->variant.options;
	p.q = input(b, in->q16, 2, s.dim, qk);
	p.k = input(b, in->k16, 2, s.dim, qk);
	p.v = input(b, in->v16, 2, s.dim, heads);
	p.g = input(b, gate == 2 ? (const void *)in->gates16 : in->g, gate, 1, heads);
	p.beta = input(b, gate == 2 ? (const void *)in->beta16 : in->beta, gate, 1, heads);
	p.o = bench_poisoned(b, heads * (size_t)s.dim * 2);
	if (s.sequences > 1) {
		p.sequences = s.sequences;
		p.cu_seqlens = first ? first->cu_seqlens : offsets(b, s);
	}
	p.initial_state = first ? first->initial_state : bench_periodic(b, in->initial, (size_t)(STATES * s.dim * s.dim) * 4, states(s) * 4);
	p.final_state = first ? first->final_state : bench_poisoned(b, states(s) * 4);
	p.a_log = first ? first->a_log : bench_periodic(b, in->a_log, 4, MAX_HEADS * 4);
	p.dt_bias = first ? first->dt_bias : bench_periodic(b, in->dt_bias, 4, MAX_HEADS * 4);
	if (q->variant.saves) {
		size_t chunks = (size_t)(tilekern_gdn_slots(&p) * s.value_heads);
		p.u = first ? first->u : bench_poisoned(b, heads * (size_t)s.dim * 2);
		p.states = first ? first->states : bench_poisoned(b, chunks * (size_t)(s.dim * s.dim) * 2);
		p.records = first ? first->records : bench_poisoned(b, chunks * (size_t)TILEKERN_GDN_RECORD_BYTES);
	}
	CHECK_GDN(tilekern_gdn_workspace_bytes(gdn, &p, &p.workspace_bytes));
	p.workspace = first ? first->workspace : bench_poisoned(b, p.workspace_bytes);
	return p;
}

static Problem make_problem(Bench *b, tilekern_gdn *gdn, Shape s, Variant variant, const GdnInput *source)
{
	Problem q = { .s = s, .variant = variant, .gdn = gdn, .source = source, .sets = (int)fmin(ceil(COLD_BYTES / bytes(s)), MAX_SETS) };
	for (int i = 0; i < q.sets; i++) {
		q.p[i] = make_params(b, gdn, &q, i ? &q.p[0] : NULL);
		CHECK_GDN(tilekern_gdn_prepare(gdn, &q.p[i], &q.call[i]));
	}
	return q;
}

static void free_problem(Bench *b, Problem *q)
{
	for (int i = 0; i < q->sets; i++) {
		const tilekern_gdn_params *p = &q->p[i];
		const tilert_ptr own[] = { p->q, p->k, p->v, p->g, p->beta, p->o };
		const tilert_ptr shared[] = { p->cu_seqlens, p->initial_state, p->final_state, p->a_log, p->dt_bias, p->workspace, p->u, p->states, p->records };
		tilekern_gdn_call_destroy(q->call[i]);
		for (size_t j = 0; j < sizeof own / sizeof own[0]; j++)
			bench_free(b, own[j]);
		for (size_t j = 0; i == 0 && j < sizeof shared / sizeof shared[0]; j++) {
			if (shared[j])
				bench_free(b, shared[j]);
		}
	}
}

/* Copies rows of `width` that lie `heads` apart, from row `first`, out of the repeating source. */
static float *gather(const float *source, int64_t first, int64_t heads, int64_t tokens, int64_t width)
{
	float *out = bench_memory((size_t)(tokens * width) * sizeof *out);
	for (int64_t t = 0; t < tokens; t++)
		memcpy(out + t * width, source + (first + t * heads) % PERIOD * width, (size_t)width * sizeof *out);
	return out;
}

/* One sequence and head against the recurrence; the larger of the errors of o and of the final state. */
static double head_error(Bench *b, const Problem *q, const uint16_t *o, int64_t n, int64_t h)
{
	const GdnInput *in = q->source;
	Shape s = q->s;
	int64_t T = s.tokens, D = s.dim, HV = s.value_heads, H = s.qk_heads, hq = h / (HV / H), row = n * T;
	unsigned options = q->variant.options;
	float *qs = gather(in->q, row * H + hq, H, T, D), *ks = gather(in->k, row * H + hq, H, T, D), *vs = gather(in->v, row * HV + h, HV, T, D);
	float *gs = gather(in->g, row * HV + h, HV, T, 1), *bs = gather(in->beta, row * HV + h, HV, T, 1);
	float *got = bench_memory((size_t)(T * D) * 4), *ht = bench_memory((size_t)(D * D) * 4);
	double *ref_o = bench_memory((size_t)(T * D) * 8), *ref_state = bench_memory((size_t)(D * D) * 8);
	GdnReference ref = { .batch = 1, .tokens = T, .qk_heads = 1, .value_heads = 1, .key_dim = D, .value_dim = D, .q = qs, .k = ks, .v = vs, .g = gs,
		.beta = bs, .a_log = in->a_log, .dt_bias = in->dt_bias, .initial = in->initial + (n * HV + h) % STATES * D * D,
		.l2norm = options & TILEKERN_L2NORM, .raw_gate = options & TILEKERN_RAW_GATE, .sigmoid_beta = options & TILEKERN_SIGMOID_BETA };
	for (int64_t i = 0; i < T * D; i++) {
		uint16_t x = o[((row + i / D) * HV + h) * D + i % D];
		got[i] = q->variant.fp16 ? fp16_to_float(x) : bf16_to_float(x);
	}
	gdn_reference(&ref, ref_o, ref_state);
	CHECK(tilert_download(b->device, ht, q->p[0].final_state + (tilert_ptr)((size_t)((n * HV + h) * D * D) * 4), (size_t)(D * D) * 4));
	Accuracy of_o = accuracy_of_floats(ref_o, got, (AccuracyShape){ 1, T, 1, D, GDN_CHUNK });
	Accuracy of_state = accuracy_of_floats(ref_state, ht, (AccuracyShape){ 1, 1, 1, D * D, 1 });
	float *all[] = { qs, ks, vs, gs, bs, got, ht };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		free(all[i]);
	free(ref_o);
	free(ref_state);
	return fmax(fmax(of_o.rms_ratio, of_o.worst_ratio / 3), of_state.rms_ratio);
}

/* The first and the last head of the first set, whose output goes to `o`; the other sets must give the same bits. */
static double find_error(Bench *b, Problem *q, uint16_t *o)
{
	size_t n = token_heads(q->s) * (size_t)q->s.dim * 2;
	uint16_t *other = bench_memory(n);
	double error = 0;
	for (int i = q->sets - 1; i >= 0; i--) { /* the first comes last: the final state is its */
		CHECK_GDN(tilekern_gdn_launch(q->call[i], NULL));
		CHECK(tilert_stream_sync(b->device, NULL));
		CHECK(tilert_download(b->device, i ? other : o, q->p[i].o, n));
		if (i == 0 && q->sets > 1 && memcmp(o, other, n) != 0)
			error = INFINITY;
	}
	if (error == 0)
		error = fmax(head_error(b, q, o, 0, 0), head_error(b, q, o, q->s.sequences - 1, q->s.value_heads - 1));
	free(other);
	return error;
}

/* Whether the launches that were timed, back to back, wrote what the first one did. */
static bool still_same(Bench *b, const Problem *q, const uint16_t *o)
{
	size_t n = token_heads(q->s) * (size_t)q->s.dim * 2;
	uint16_t *now = bench_memory(n);
	bool same = true;
	for (int i = 0; i < q->sets && same; i++) {
		CHECK(tilert_download(b->device, now, q->p[i].o, n));
		same = memcmp(o, now, n) == 0;
	}
	free(now);
	return same;
}

/* By forward, which remembers the calls: kernel by kernel, the first over the end of what was before.  A prepared call is a graph. */
static void launch_next(void *user)
{
	Problem *q = user;
	CHECK_GDN(tilekern_gdn_forward(q->gdn, &q->p[q->next++ % q->sets], NULL));
}

static void launch_all(void *user, tilert_stream stream)
{
	Problem *q = user;
	for (int i = 0; i < q->sets; i++)
		CHECK_GDN(tilekern_gdn_launch(q->call[i], stream));
}

static void run(Bench *b, tilekern_gdn *gdn, Shape s, Variant variant, const GdnInput *source)
{
	char shape[64];
	Problem q = make_problem(b, gdn, s, variant, source);
	uint16_t *o = bench_memory(token_heads(s) * (size_t)s.dim * 2);
	double error = find_error(b, &q, o), allowed = variant.fp16 ? 0.0015 : 0.006, ms = 0, graph = 0;
	snprintf(shape, sizeof shape, "%lldx%lld %lld/%lld%s", (long long)s.sequences, (long long)s.tokens, (long long)s.qk_heads, (long long)s.value_heads,
		variant.name);
	if (error < allowed) {
		ms = bench_time(b, launch_next, &q);
		graph = bench_time_graph(b, launch_all, &q) / q.sets;
	}
	if (!(error < allowed)) { /* a NaN is here, too */
		bench_refuse(b, "GDN forward", "%s: relative error %g, allowed %g", shape, error, allowed);
	} else if (!still_same(b, &q, o)) {
		bench_refuse(b, "GDN forward", "%s: launches back to back gave another result", shape);
	} else {
		double best = graph < ms ? graph : ms, floor = 1e3 * fmax(flops(s) / PEAK_FLOPS, bytes(s) / PEAK_BYTES);
		printf("GDN %-24s %9.1f us, graph %9.1f us %6.0f TFLOP/s %6.0f GB/s %4.0f%% of the floor's speed, error %.1e\n", shape, 1e3 * ms, 1e3 * graph,
			flops(s) / best * 1e-9, bytes(s) / best * 1e-6, 100 * floor / best, error);
		fflush(stdout);
		bench_csv(b, "GDN forward", shape, ms, flops(s) / ms * 1e-9, "TFLOP/s", error);
		bench_csv(b, "GDN forward in a graph", shape, graph, flops(s) / graph * 1e-9, "TFLOP/s", error);
	}
	free(o);
	free_problem(b, &q);
}

static void make_source(GdnInput *in, Variant v, int64_t dim)
{
	GdnInputSpec spec = { .batch = 1, .tokens = PERIOD, .qk_heads = 1, .value_heads = 1, .key_dim = dim, .value_dim = dim, .gates = v.gates, .sequences = STATES,
		.fp16 = v.fp16, .gate16 = v.gates16, .beta16 = v.gates16, .with_initial = true, .seed = 11 };
	if (v.options & TILEKERN_SIGMOID_BETA)
		spec.betas = GDN_BETAS_RAW;
	if (!gdn_input_make(in, &spec))
		bench_check(TILERT_ENOMEM, "host memory", "gdn_input_make");
}

void bench_gdn(Bench *b)
{
	enum { ALL_IN_KERNEL = TILEKERN_L2NORM | TILEKERN_RAW_GATE | TILEKERN_SIGMOID_BETA };
	static const int64_t heads[][2] = { { 2, 8 }, { 4, 16 }, { 8, 32 }, { 16, 64 }, { 16, 32 }, { 16, 48 }, { 16, 16 }, { 32, 32 } };
	static const int64_t lengths[][2] = { { 1, 32768 }, { 1, 8192 }, { 1, 2048 }, { 4, 8192 }, { 8, 4096 }, { 8, 1024 } };
	static const Variant plain = { .name = "" };
	static const struct { Variant v; Shape s; } others[] = {
		{ { .name = " fp16", .fp16 = true }, { 16, 64, 1, 32768, 128 } },
		{ { .name = " fp16", .fp16 = true }, { 16, 32, 4, 8192, 128 } },
		{ { .name = " all in kernel", .gates16 = true, .options = ALL_IN_KERNEL, .gates = GDN_GATES_RAW }, { 16, 64, 1, 32768, 128 } },
		{ { .name = " all in kernel", .gates16 = true, .options = ALL_IN_KERNEL, .gates = GDN_GATES_RAW }, { 16, 32, 4, 8192, 128 } },
		{ { .name = " no decay", .gates = GDN_GATES_ZERO }, { 2, 8, 1, 32768, 128 } },
		{ { .name = " exact", .split = TILEKERN_SPLIT_EXACT }, { 2, 8, 1, 32768, 128 } },
		{ { .name = " uncut", .split = TILEKERN_SPLIT_OFF }, { 2, 8, 1, 32768, 128 } },
		{ { .name = " invariant", .split = TILEKERN_SPLIT_INVARIANT }, { 2, 8, 1, 32768, 128 } },
		{ { .name = " invariant", .split = TILEKERN_SPLIT_INVARIANT }, { 2, 8, 1, 8192, 128 } },
		{ { .name = " invariant", .split = TILEKERN_SPLIT_INVARIANT }, { 2, 8, 1, 2048, 128 } },
		{ { .name = " invariant", .split = TILEKERN_SPLIT_INVARIANT }, { 2, 8, 8, 4096, 128 } },
		{ { .name = " invariant", .split = TILEKERN_SPLIT_INVARIANT }, { 4, 16, 1, 32768, 128 } },
		{ { .name = " invariant", .split = TILEKERN_SPLIT_INVARIANT }, { 4, 16, 1, 8192, 128 } },
		{ { .name = " invariant", .split = TILEKERN_SPLIT_INVARIANT }, { 16, 32, 4, 8192, 128 } },
		{ { .name = " invariant", .split = TILEKERN_SPLIT_INVARIANT }, { 16, 64, 8, 1024, 128 } },
		{ { .name = " saving", .saves = true }, { 16, 32, 4, 8192, 128 } },
		{ { .name = " K = V = 64" }, { 16, 32, 4, 8192, 64 } },
		{ { .name = " K = V = 64" }, { 16, 64, 1, 32768, 64 } },
		{ { .name = " K = V = 256" }, { 16, 32, 4, 8192, 256 } },
	};
	tilekern_gdn *gdn;
	GdnInput source;
	CHECK_GDN(tilekern_gdn_open(b->device, &gdn));
	make_source(&source, plain, 128);
	for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++) {
		for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
			run(b, gdn, (Shape){ heads[h][0], heads[h][1], lengths[l][0], lengths[l][1], 128 }, plain, &source);
	}
	gdn_input_free(&source);
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
		make_source(&source, others[i].v, others[i].s.dim);
		run(b, gdn, others[i].s, others[i].v, &source);
		gdn_input_free(&source);
	}
	tilekern_gdn_close(gdn);
}
