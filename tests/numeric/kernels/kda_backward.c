/* kda_backward.c - the gradients of the KDA backward against those of the token recurrence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/accuracy.h"
#include "tests/check/random.h"
#include "tests/numeric/kernels/kda_run.h"

enum { RAW = TILEKERN_RAW_GATE, BOUND = TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA,
	TWICE = TILEKERN_SIGMOID_BETA | TILEKERN_TWICE_BETA, CHUNK = 64 };

/* Gradients by token, then the others. */
enum { DQ, DK, DV, DG, DBETA, TOKENS, DH0 = TOKENS, DA, DBIAS, ALL };
static const char *const names[ALL] = { "dq", "dk", "dv", "dg", "dbeta", "dinitial_state", "da_log", "ddt_bias" };

/* A forward with what its backward needs. */
typedef struct Backward {
	KdaRun *r;
	tilekern_kda_backward_params p;
	KdaTensor dout, token[TOKENS];
	Buffer dht, other[ALL], workspace, saved;
	double *dstate;            /* [sequences][heads][K][V] */
} Backward;

/* ---- making ---- */

static int64_t elements(const Backward *b, int which)
{
	const KdaRow *row = &b->r->row;
	if (which < TOKENS)
		return row->batch * row->tokens * b->token[which].heads * b->token[which].width;
	return which == DH0 ? b->r->sequences * kda_run_state(b->r) : which == DA ? row->value_heads : row->value_heads * row->key_dim;
}

static int64_t state_index(const KdaRow *row, int64_t i)
{
	int64_t K = row->key_dim, V = row->value_dim;
	return row->state_v_first ? i / (K * V) * (K * V) + i % V * K + i / V % K : i;
}

static void make_dht(Backward *b, Random *random)
{
	int64_t n = elements(b, DH0);
	float *laid = memory((size_t)n * sizeof *laid);
	b->dstate = memory((size_t)n * sizeof *b->dstate);
	for (int64_t i = 0; i < n; i++)
		b->dstate[i] = (double)(laid[state_index(&b->r->row, i)] = random_normal(random));
	b->dht = buffer_of(laid, (size_t)n * sizeof *laid);
	free(laid);
}

static tilert_ptr *field(tilekern_kda_backward_params *p, int which)
{
	tilert_ptr *const fields[ALL] = { &p->dq, &p->dk, &p->dv, &p->dg, &p->dbeta, &p->dinitial_state, &p->da_log, &p->ddt_bias };
	return fields[which];
}

static bool has(const Backward *b, int which)
{
	return which < TOKENS || (which == DH0 ? b->r->p.initial_state != 0 : (b->r->row.options & RAW) != 0);
}

static void fill_params(Backward *b)
{
	tilekern_kda_backward_params *p = &b->p;
	p->forward = &b->r->p;
	p->dout = kda_run_address(&b->dout);
	p->dfinal_state = b->dht.p;
	for (int i = 0; i < ALL; i++)
		*field(p, i) = !has(b, i) ? 0 : i < TOKENS ? kda_run_address(&b->token[i]) : b->other[i].p;
	if (!b->r->row.strided)
		return;
	p->dout_strides = b->dout.strides;
	p->dq_strides = b->token[DQ].strides;
	p->dk_strides = b->token[DK].strides;
	p->dv_strides = b->token[DV].strides;
	p->dg_strides = b->token[DG].strides;
	p->dbeta_strides = b->token[DBETA].strides;
}

static void make_workspace(Backward *b)
{
	buffer_free(b->workspace);
	KDA_OK(tilekern_kda_backward_workspace_bytes(b->r->kda, &b->p, &b->p.workspace_bytes));
	b->workspace = buffer_poisoned(b->p.workspace_bytes);
	b->p.workspace = b->workspace.p;
}

static Backward make(const KdaRow *row, double size)
{
	KdaRun *r = kda_run_make(row);
	Backward b = { .r = r };
	const int64_t heads[TOKENS] = { r->row.qk_heads, r->row.qk_heads, r->row.value_heads, r->row.value_heads, r->row.value_heads };
	const int64_t widths[TOKENS] = { r->row.key_dim, r->row.key_dim, r->row.value_dim, r->row.key_dim, 1 };
	const tilert_dtype types[TOKENS] = { r->q.dtype, r->q.dtype, r->q.dtype, r->g.dtype, r->beta.dtype };
	Random random;
	tilekern_kda_backward_params_init(&b.p);
	random_init(&random, row->seed + 1000);
	for (int i = 0; i < TOKENS; i++)
		b.token[i] = kda_run_tensor(r, heads[i], widths[i], types[i]);
	b.dout = kda_run_tensor(r, r->row.value_heads, r->row.value_dim, r->q.dtype);
	for (int64_t i = 0; i < elements(&b, DV); i++)
		b.dout.value[i] = size * (double)random_normal(&random);
	kda_run_upload(r, &b.dout);
	for (int i = TOKENS; i < ALL; i++)
		b.other[i] = buffer_poisoned((size_t)elements(&b, i) * sizeof(float));
	if (r->ht.p)
		make_dht(&b, &random);
	fill_params(&b);
	make_workspace(&b);
	return b;
}

static void release(Backward *b)
{
	for (int i = 0; i < TOKENS; i++) {
		buffer_free(b->token[i].buffer);
		free(b->token[i].value);
	}
	for (int i = TOKENS; i < ALL; i++)
		buffer_free(b->other[i]);
	buffer_free(b->dout.buffer);
	buffer_free(b->dht);
	buffer_free(b->workspace);
	buffer_free(b->saved);
	free(b->dout.value);
	free(b->dstate);
	kda_run_free(b->r);
}

static void run(Backward *b)
{
	const tilert_ptr o = b->r->p.o;
	b->r->p.o = 0; /* not looked at */
	KDA_OK(tilekern_kda_backward(b->r->kda, &b->p, NULL));
	b->r->p.o = o;
	OK(tilert_stream_sync(numeric_device(), NULL));
	free(buffer_take(b->workspace)); /* looks at the guard */
}

/* In the order of the reference. */
static float *take(const Backward *b, int which)
{
	if (which < TOKENS)
		return kda_run_read(b->r, &b->token[which], names[which], true);
	float *laid = buffer_take(b->other[which]), *out = memory((size_t)elements(b, which) * sizeof *out + 1);
	for (int64_t i = 0; i < elements(b, which); i++)
		out[i] = laid[which == DH0 ? state_index(&b->r->row, i) : i];
	free(laid);
	return out;
}

/* ---- comparing ---- */

static Accuracy measure(const Backward *b, int which, const double *want, const float *got)
{
	const KdaRow *row = &b->r->row;
	if (which < TOKENS)
		return accuracy_of_packed_least(want, got, (AccuracyShape){ b->r->sequences, 0, b->token[which].heads, b->token[which].width, CHUNK },
			b->r->offsets, .1);
	int64_t rows = which == DH0 ? b->r->sequences * row->value_heads : 1;
	return accuracy_of_floats(want, got, (AccuracyShape){ rows, 1, 1, elements(b, which) / rows, 1 });
}

/* What a token's gradient of the raw gate is multiplied with in da_log. */
static double of_a_log(const KdaRun *r, double z)
{
	return (r->row.options & TILEKERN_BOUNDED_GATE) != 0 ? z : log1p(exp(z)) * (1 + exp(-z));
}

/* da_log and ddt_bias are sums of what may cancel: their error is a part of the root of the sum of the terms' squares; dx: the raw gate's gradient. */
static double error_of_sums(const Backward *b, int which, const double *want, const float *got, const double *dx)
{
	const KdaRun *r = b->r;
	const int64_t HV = r->row.value_heads, K = r->row.key_dim, n = r->offsets[r->sequences] * HV * K;
	double error = 0, terms = 0;
	for (int64_t i = 0; i < n; i++) {
		const double z = r->g.value[i] + (r->row.without_dt_bias ? 0 : r->bias[i % (HV * K)]), term = dx[i] * (which == DA ? of_a_log(r, z) : 1);
		terms += term * term;
	}
	for (int64_t i = 0; i < elements(b, which); i++)
		error += isfinite(got[i]) ? ((double)got[i] - want[i]) * ((double)got[i] - want[i]) : INFINITY;
	return sqrt(error / terms);
}

static void expect_sums(const Backward *b, int which, const double *want, const double *dx)
{
	const double allowed = which == DA ? .02 : .01; /* one number of each head, or as many as channels */
	float *got = take(b, which);
	const double error = error_of_sums(b, which, want, got, dx);
	if (getenv("TILE_TEST_VERBOSE"))
		print_message("    %-14s %.2e of its terms\n", names[which], error);
	if (!(error < allowed))
		fail_msg("%s: %.2e of its terms; allowed is %g", names[which], error, allowed);
	free(got);
}

static void expect_accurate(const Backward *b, int which, const double *want)
{
	const double allowed = b->r->row.overall > .02 ? b->r->row.overall : which == DBETA ? .02 : b->r->row.overall != 0 ?
		b->r->row.overall : .005;
	float *got = take(b, which);
	Accuracy a = measure(b, which, want, got);
	char text[256];
	accuracy_text(&a, text, sizeof text);
	if (getenv("TILE_TEST_VERBOSE"))
		print_message("    %-14s %s\n", names[which], text);
	double chunk = b->r->row.chunk != 0 ? b->r->row.chunk : 3 * allowed;
	if (a.not_finite || !(a.rms_ratio < allowed) || (which < DBETA && !(a.worst_ratio < chunk)))
		fail_msg("%s: %s; allowed are %g and %g", names[which], text, allowed, chunk);
	free(got);
}

static void check_gradients(Backward *b)
{
	Delta ref = kda_run_reference(b->r);
	double *want[ALL];
	ref.dout = b->dout.value;
	ref.dstate = b->dstate;
	for (int i = 0; i < ALL; i++)
		want[i] = memory((size_t)elements(b, i) * sizeof *want[i] + 1);
	assert_true(delta_run(&ref, &(DeltaResult){ .q = want[DQ], .k = want[DK], .v = want[DV], .g = want[DG], .beta = want[DBETA],
		.initial = want[DH0], .a_log = want[DA], .dt_bias = want[DBIAS] }));
	run(b);
	for (int i = 0; i < ALL; i++) {
		if (has(b, i) && i >= DA)
			expect_sums(b, i, want[i], want[DG]);
		else if (has(b, i))
			expect_accurate(b, i, want[i]);
	}
	for (int i = 0; i < ALL; i++)
		free(want[i]);
	release(b);
}

static void run_gradients(const void *row)
{
	Backward b = make(row, 1);
	check_gradients(&b);
}

/* beta of 0, and so small that its square is nothing, in every third token. */
static void run_small_beta(const void *row)
{
	Backward b = make(row, 1);
	KdaTensor *beta = &b.r->beta;
	for (int64_t i = 0; i < elements(&b, DBETA); i += 3)
		beta->value[i] = i % 2 == 0 ? 0 : 1e-7;
	kda_run_upload(b.r, beta);
	b.r->p.beta = kda_run_address(beta);
	check_gradients(&b);
}

/* ---- bits ---- */

static void take_all(const Backward *b, float *out[ALL])
{
	for (int i = 0; i < ALL; i++)
		out[i] = has(b, i) ? take(b, i) : NULL;
}

static void expect_gradient(const Backward *b, int which, const float *want)
{
	float *got = take(b, which);
	for (int64_t i = 0; i < elements(b, which); i++) {
		if (memcmp(got + i, want + i, sizeof *got) != 0)
			fail_msg("%s: element %lld is %.9g, it was %.9g", names[which], (long long)i, (double)got[i], (double)want[i]);
	}
	free(got);
}

static void poison(const Backward *b)
{
	for (int i = 0; i < ALL; i++)
		buffer_poison(i < TOKENS ? b->token[i].buffer : b->other[i]);
	buffer_poison(b->workspace);
}

/* Another schedule and the two-step interface give the same bits; so does each gradient wanted alone. */
static void run_same_bits(const void *row)
{
	Backward b = make(row, 1);
	const tilekern_kda_backward_params all = b.p;
	tilekern_kda_call *call;
	float *want[ALL];
	run(&b);
	take_all(&b, want);
	poison(&b);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), 12345, 0));
	KDA_OK(tilekern_kda_backward_prepare(b.r->kda, &b.p, &call));
	KDA_OK(tilekern_kda_launch(call, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	tilekern_kda_call_destroy(call);
	for (int i = 0; i < ALL; i++)
		expect_gradient(&b, i, want[i]);
	for (int only = 0; only < ALL; only++) {
		poison(&b);
		b.p = all;
		for (int i = 0; i < ALL; i++)
			*field(&b.p, i) = i == only ? *field(&b.p, i) : 0;
		make_workspace(&b);
		run(&b);
		expect_gradient(&b, only, want[only]);
	}
	for (int i = 0; i < ALL; i++)
		free(want[i]);
	release(&b);
}

/* What the forward left gives the same bits as scanning it again. */
static void run_saved(const void *row)
{
	Backward b = make(row, 1);
	float *want[ALL];
	run(&b);
	take_all(&b, want);
	poison(&b);
	KDA_OK(tilekern_kda_saved_bytes(b.r->kda, &b.r->p, &b.r->p.saved_bytes));
	b.saved = buffer_poisoned(b.r->p.saved_bytes);
	b.r->p.saved = b.saved.p;
	kda_run_forward(b.r);
	kda_run_check(b.r);
	free(buffer_take(b.saved));
	make_workspace(&b);
	run(&b);
	for (int i = 0; i < ALL; i++) {
		if (has(&b, i))
			expect_gradient(&b, i, want[i]);
		free(want[i]);
	}
	check_gradients(&b);
}

/* ---- alone ---- */

static tilert_ptr rows_of(const KdaTensor *t, tilert_ptr p, int64_t token) { return p + (tilert_ptr)((size_t)(token * t->strides.token) * tilert_dtype_size(t->dtype)); }

/* Sequence n as a call of its own, with the buffers of all. */
static void run_sequence(const Backward *b, int64_t n)
{
	const KdaRun *r = b->r;
	const int64_t at = r->offsets[n], state = n * kda_run_state(r) * (int64_t)sizeof(float);
	tilekern_kda_params f = r->p;
	tilekern_kda_backward_params p = b->p;
	const struct { tilert_ptr *p; const KdaTensor *t; } rows[] = {
		{ &f.q, &r->q }, { &f.k, &r->k }, { &f.v, &r->v }, { &f.g, &r->g }, { &f.beta, &r->beta }, { &p.dout, &b->dout }, { &p.dq, &b->token[DQ] },
		{ &p.dk, &b->token[DK] }, { &p.dv, &b->token[DV] }, { &p.dg, &b->token[DG] }, { &p.dbeta, &b->token[DBETA] },
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		*rows[i].p = rows_of(rows[i].t, *rows[i].p, at);
	f.batch = 1;
	f.tokens = r->offsets[n + 1] - at;
	f.sequences = 0;
	f.cu_seqlens = 0;
	f.initial_state += (tilert_ptr)state;
	p.dfinal_state += (tilert_ptr)state;
	p.dinitial_state += (tilert_ptr)state;
	p.forward = &f;
	KDA_OK(tilekern_kda_backward(r->kda, &p, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
}

/* Each sequence alone gives the bits that it gives beside others. */
static void run_alone(const void *row)
{
	Backward b = make(row, 1);
	float *want[ALL], *got[ALL];
	run(&b);
	take_all(&b, want);
	for (int64_t n = 0; n < b.r->sequences; n++) {
		poison(&b);
		run_sequence(&b, n);
		take_all(&b, got);
		for (int i = 0; i <= DH0; i++) {
			const int64_t width = i == DH0 ? kda_run_state(b.r) : b.token[i].heads * b.token[i].width, first = i == DH0 ? n : b.r->offsets[n];
			const int64_t count = i == DH0 ? 1 : b.r->offsets[n + 1] - first;
			if (memcmp(got[i] + first * width, want[i] + first * width, (size_t)(count * width) * sizeof **got) != 0)
				fail_msg("%s of sequence %lld has other bits alone", names[i], (long long)n);
			free(got[i]);
		}
	}
	for (int i = 0; i <= DH0; i++)
		free(want[i]);
	release(&b);
}

/* ---- refusals ---- */

static void expect_refused(const Backward *b, const tilekern_kda_backward_params *p, const char *const *words)
{
	tilekern_kda_call *untouched = (tilekern_kda_call *)b->r, *call = untouched;
	assert_int_equal(tilekern_kda_backward_prepare(b->r->kda, p, &call), TILERT_EINVAL);
	assert_ptr_equal(call, untouched);
	expect_words(tilekern_last_error(), words);
}

static void run_refusals(const void *row)
{
	Backward b = make(row, 1);
	tilekern_kda_backward_params p;
	tilekern_kda_params f;
#define REFUSED(change, ...) (p = b.p, f = b.r->p, p.forward = &f, (void)(change), expect_refused(&b, &p, (const char *[]){ __VA_ARGS__, NULL }))
	REFUSED(p.size = 8, "tilekern_kda_backward_prepare: ", "size", "8");
	REFUSED(p.forward = NULL, "forward is NULL");
	REFUSED(f.size = 8, "size", "8");
	REFUSED(f.tokens = -3, "tokens", "-3");
	REFUSED(f.value_dim = 136, "value_dim", "136", "128");
	REFUSED(f.key_dim = 60, "key_dim", "60", "multiples of 8");
	REFUSED(f.gate_dtype = TILERT_F16, "gate_dtype", "f16", "bf16");
	REFUSED(p.da_log = p.workspace, "da_log", "0x0");
	REFUSED(p.ddt_bias = p.workspace, "ddt_bias", "0x0");
	REFUSED((f.saved = p.workspace, f.saved_bytes = 8), "saved_bytes is 8", "are needed");
	REFUSED((f.saved = p.workspace + 16, f.saved_bytes = 1 << 30), "saved is at", "256");
	REFUSED(p.dout = 0, "dout is 0");
	REFUSED(f.v = 0, "v is 0");
	REFUSED(p.dq += 8, "dq is at", "16");
	REFUSED(p.dinitial_state += 4, "dinitial_state is at", "16");
	REFUSED((p.dg_strides = b.token[DG].strides, p.dg_strides.token += 4), "dg_strides.token", "multiple of 8");
	REFUSED(p.dq = f.q, "q (", "dq (", "overlap");
	REFUSED(p.dv = p.dout + 256, "dout (", "dv (", "overlap");
	REFUSED(p.dbeta = p.workspace, "workspace", "dbeta", "overlap");
	REFUSED(p.workspace_bytes -= 1, "workspace_bytes", "are needed");
	REFUSED(p.workspace += 16, "workspace is at", "256");
#undef REFUSED
	release(&b);
}

/* ---- no tokens ---- */

static void run_nothing(const void *row)
{
	Backward b = make(row, 1);
	run(&b);
	float *got = take(&b, DH0);
	for (int64_t i = 0; i < elements(&b, DH0); i++)
		assert_true((double)got[i] == b.dstate[i]);
	free(got);
	release(&b);
}

/* What the forward's parameters say counts, though they are where they were. */
static void run_other_forward(const void *row)
{
	Backward b = make(row, 1);
	const size_t bytes = (size_t)elements(&b, DV) * sizeof(float);
	run(&b);
	float *first = take(&b, DV);
	b.r->p.scale = 0.25f;
	run(&b);
	float *scaled = take(&b, DV);
	b.r->p.scale = 0;
	run(&b);
	float *again = take(&b, DV);
	assert_true(memcmp(first, scaled, bytes) != 0);
	assert_memory_equal(first, again, bytes);
	free(first);
	free(scaled);
	free(again);
	release(&b);
}

/* ---- random calls ---- */

static KdaRow random_row(Random *r, int lengths[4])
{
	static const unsigned options[] = { 0, NORM, NORM | BOUND, NORM | RAW | SIGMOID, NORM | BOUND | TWICE, BOUND | SIGMOID };
	KdaRow row = { .batch = 1 + pick(r, 2), .tokens = 16 + pick(r, 90), .qk_heads = 1 + pick(r, 2), .key_dim = 8 + 8 * pick(r, 16),
		.value_dim = 8 + 8 * pick(r, 16), .gate = toss(r) ? KDA_BOUNDED : KDA_MILD, .states = (KdaStates)pick(r, 4), .beta16 = toss(r),
		.state_v_first = toss(r), .state_bf16 = toss(r), .strided = toss(r), .options = options[pick(r, 6)], .seed = random_bits(r) };
	row.value_heads = row.qk_heads * (1 + pick(r, 3));
	row.gate16 = toss(r);
	row.fp16 = toss(r);
	if (toss(r)) {
		for (int i = 0; i < 3; i++)
			lengths[i] = (int)(i == 0 ? 16 : 0) + (int)pick(r, 80);
		lengths[3] = -1;
		row.lengths = lengths;
		row.lengths_i64 = toss(r);
		row.spare = 1 + (int)pick(r, 70);
		row.batch = 1;
		row.tokens = 0;
	}
	row.overall = .01; /* few channels and tokens: up to .008 where three heads share q */
	return row;
}

static void run_random(const void *unused)
{
	int lengths[4];
	bool named;
	Random r;
	(void)unused;
	const int calls = random_calls(&r, 1, 3, &named);
	for (int i = 0; i < calls; i++) {
		KdaRow row = random_row(&r, lengths);
		if (named)
			print_message("%d: b%lld t%lld h%lld/%lld k%lld v%lld options %x states %d%s%s\n", i, (long long)row.batch, (long long)row.tokens,
				(long long)row.qk_heads, (long long)row.value_heads, (long long)row.key_dim, (long long)row.value_dim, row.options, (int)row.states,
				row.strided ? " strided" : "", row.lengths ? " packed" : "");
		run_gradients(&row);
	}
}

size_t kda_backward_cases(NumericCase *out)
{
	static const int mixed[] = { 40, 0, 1, 65, 33, 130, -1 }, few[] = { 33, 0, 66, -1 }, longest[] = { 70, 1100, 0, 500, -1 };
	static const struct { const char *name; void (*run)(const void *); KdaRow row; } cases[] = {
		{ "bounded", run_gradients, { .tokens = 173, .value_heads = 2, .qk_heads = 2, .seed = 1 } },
		{ "states", run_gradients, { .batch = 2, .tokens = 77, .gate = KDA_MILD, .states = KDA_BOTH, .seed = 2 } },
		{ "states_v_first", run_gradients, { .tokens = 65, .states = KDA_BOTH, .state_v_first = true, .seed = 3 } },
		{ "no_decay", run_gradients, { .tokens = 200, .gate = KDA_ZERO, .states = KDA_BOTH, .seed = 4 } },
		{ "-5", run_gradients, { .tokens = 100, .gate = KDA_FIVE, .states = KDA_BOTH, .seed = 5 } },
		{ "-4_to_0", run_gradients, { .tokens = 173, .value_heads = 2, .gate = KDA_FOUR, .states = KDA_BOTH, .seed = 26 } },
		{ "positive", run_gradients, { .tokens = 200, .gate = KDA_MILD, .keys = KDA_POSITIVE, .seed = 6, .overall = .008 } },
		{ "norm", run_gradients, { .tokens = 100, .options = NORM, .states = KDA_BOTH, .seed = 7 } },
		{ "everything", run_gradients, { .batch = 2, .tokens = 99, .options = NORM | BOUND | TWICE, .states = KDA_BOTH, .seed = 8 } },
		{ "softplus", run_gradients, { .tokens = 130, .value_heads = 2, .options = NORM | RAW | SIGMOID, .states = KDA_BOTH, .seed = 9 } },
		{ "raw_without_parameters", run_gradients, { .tokens = 70, .options = BOUND, .without_a_log = true, .without_dt_bias = true, .seed = 10 } },
		{ "packed", run_gradients, { .lengths = mixed, .spare = 30, .states = KDA_BOTH, .seed = 11 } },
		{ "packed_i64_everything", run_gradients, { .lengths = mixed, .spare = 3, .lengths_i64 = true, .options = NORM | BOUND | SIGMOID,
			.states = KDA_BOTH, .beta16 = true, .seed = 12 } },
		{ "grouped", run_gradients, { .tokens = 90, .qk_heads = 2, .value_heads = 6, .options = NORM, .seed = 13, .overall = .006 } },
		{ "strided", run_gradients, { .batch = 2, .tokens = 70, .qk_heads = 2, .value_heads = 4, .strided = true, .seed = 14 } },
		{ "K80_V96", run_gradients, { .tokens = 100, .key_dim = 80, .value_dim = 96, .states = KDA_BOTH, .options = NORM | RAW, .seed = 15 } },
		{ "K64_V64", run_saved, { .batch = 2, .tokens = 150, .value_heads = 2, .key_dim = 64, .value_dim = 64, .options = NORM, .states = KDA_BOTH, .seed = 42 } },
		{ "K8_V8", run_gradients, { .tokens = 70, .key_dim = 8, .value_dim = 8, .states = KDA_BOTH, .seed = 43 } },
		{ "K64_V128", run_saved, { .lengths = mixed, .spare = 130, .key_dim = 64, .value_dim = 128, .options = NORM | BOUND | SIGMOID, .states = KDA_BOTH, .seed = 44 } },
		{ "K128_V64", run_saved, { .lengths = mixed, .spare = 130, .key_dim = 128, .value_dim = 64, .options = NORM | RAW, .states = KDA_BOTH, .seed = 45 } },
		{ "K40_V56_raw", run_saved, { .tokens = 101, .value_heads = 2, .key_dim = 40, .value_dim = 56, .options = NORM | RAW | SIGMOID, .states = KDA_BOTH,
			.sixteen = true, .seed = 46 } },
		{ "K64_V64_cut", run_saved, { .tokens = 1300, .key_dim = 64, .value_dim = 64, .split = TILEKERN_SPLIT_AUTO, .processors = 3, .states = KDA_BOTH, .seed = 47 } },
		{ "K64_V40_any_gate", run_small_beta, { .tokens = 140, .value_heads = 2, .key_dim = 64, .value_dim = 40, .gate = KDA_ANY, .states = KDA_BOTH, .seed = 48 } },
		{ "fp16_K56_V64_grouped", run_gradients, { .tokens = 90, .qk_heads = 2, .value_heads = 4, .key_dim = 56, .value_dim = 64, .fp16 = true,
			.options = NORM | BOUND | TWICE, .states = KDA_BOTH, .seed = 49 } },
		{ "f32_raw_gates_K64", run_gradients, { .lengths = few, .spare = 70, .key_dim = 64, .value_dim = 64, .options = NORM | RAW | SIGMOID, .states = KDA_BOTH, .seed = 50 } },
		{ "sixteen_bit_parameters", run_gradients, { .tokens = 99, .value_heads = 2, .options = NORM | BOUND | TWICE, .states = KDA_BOTH, .sixteen = true, .seed = 51 } },
		{ "one_token", run_gradients, { .tokens = 1, .states = KDA_BOTH, .seed = 16, .overall = .01 } },
		{ "small_beta", run_small_beta, { .tokens = 101, .value_heads = 2, .options = NORM, .states = KDA_BOTH, .seed = 21 } },
		{ "small_beta_packed", run_small_beta, { .lengths = mixed, .spare = 5, .options = BOUND,
			 .beta16 = true, .states = KDA_BOTH, .strided = true, .seed = 22 } },
		{ "f32_gates", run_gradients, { .batch = 2, .tokens = 101, .value_heads = 2, .options = NORM | TWICE, .states = KDA_BOTH, .seed = 23 } },
		{ "f32_gates_packed_K72", run_gradients, { .lengths = mixed, .spare = 70, .key_dim = 72, .states = KDA_BOTH, .strided = true, .seed = 24 } },
		{ "f32_raw_gates", run_gradients, { .tokens = 101, .value_heads = 2, .options = NORM | BOUND | TWICE, .states = KDA_BOTH, .seed = 27 } },
		{ "f32_raw_gates_K72", run_gradients, { .lengths = few, .spare = 5, .key_dim = 72, .options = RAW | SIGMOID, .seed = 28 } },
		{ "fp16", run_gradients, { .batch = 2, .tokens = 101, .value_heads = 2, .fp16 = true, .states = KDA_BOTH, .seed = 29 } },
		{ "fp16_everything", run_gradients, { .lengths = mixed, .spare = 70, .fp16 = true, .beta16 = true, .options = NORM | RAW, .states = KDA_BOTH,
			.strided = true, .seed = 30 } },
		{ "f32_gates_fp16", run_gradients, { .tokens = 70, .qk_heads = 2, .value_heads = 4, .fp16 = true, .options = NORM | BOUND | SIGMOID, .seed = 31 } },
		{ "several_items", run_gradients, { .tokens = 150, .value_heads = 3, .options = NORM | BOUND, .processors = 2, .states = KDA_BOTH, .seed = 32 } },
		{ "resets", run_gradients, { .tokens = 200, .value_heads = 2, .gate = KDA_RESETS, .states = KDA_BOTH, .seed = 33 } },
		{ "-20_to_0", run_gradients, { .tokens = 140, .gate = KDA_TWENTY, .states = KDA_BOTH, .seed = 34, .overall = .007 } },
		{ "any_gate", run_gradients, { .tokens = 140, .value_heads = 2, .gate = KDA_ANY, .states = KDA_BOTH, .seed = 35 } },
		{ "saved", run_saved, { .batch = 2, .tokens = 101, .value_heads = 2, .options = NORM, .states = KDA_BOTH, .seed = 36 } },
		{ "saved_everything", run_saved, { .lengths = mixed, .spare = 9, .fp16 = true, .options = NORM | BOUND | TWICE, .states = KDA_BOTH, .seed = 37 } },
		{ "f32_saved_any_gate", run_saved, { .tokens = 130, .gate = KDA_ANY, .states = KDA_BOTH, .seed = 38 } },
		{ "pool", run_gradients, { .batch = 3, .tokens = 40, .pool = true, .states = KDA_BOTH, .seed = 39 } },
		{ "cut", run_saved, { .tokens = 1300, .split = TILEKERN_SPLIT_AUTO, .processors = 6, .states = KDA_BOTH, .seed = 40 } },
		{ "cut_mild", run_saved, { .tokens = 900, .gate = KDA_MILD, .split = TILEKERN_SPLIT_AUTO, .processors = 5, .states = KDA_BOTH, .seed = 41 } },
		{ "64_tokens", run_gradients, { .tokens = 64, .seed = 17 } },
		{ "same_bits", run_same_bits, { .lengths = few, .spare = 5, .value_heads = 2, .options = NORM | BOUND | SIGMOID, .states = KDA_BOTH, .seed = 18 } },
		{ "alone", run_alone, { .lengths = mixed, .qk_heads = 2, .value_heads = 4, .states = KDA_BOTH, .split = TILEKERN_SPLIT_OFF, .seed = 52 } },
		{ "alone_invariant", run_alone, { .lengths = longest, .gate = KDA_MILD, .states = KDA_BOTH, .split = TILEKERN_SPLIT_INVARIANT, .processors = 6, .seed = 53 } },
		{ "other_parameters_of_the_forward", run_other_forward, { .tokens = 33, .seed = 26 } },
		{ "random_calls", run_random, { .seed = 25 } },
		{ "nothing_to_do", run_nothing, { .batch = 2, .states = KDA_BOTH, .seed = 19 } },
		{ "refuses_wrong_arguments", run_refusals, { .batch = 2, .tokens = 3, .qk_heads = 2, .states = KDA_BOTH, .seed = 20 } },
	};
	static KdaRow rows[sizeof cases / sizeof cases[0]];
	size_t n = sizeof cases / sizeof cases[0];
	for (size_t i = 0; i < n; i++) {
		rows[i] = cases[i].row;
		rows[i].gate16 = strncmp(cases[i].name, "f32", 3) != 0;
		out[i] = (NumericCase){ .run = cases[i].run, .spec = &rows[i] };
		snprintf(out[i].name, sizeof out[i].name, "backward_kda_%s", cases[i].name);
	}
	return n;
}
