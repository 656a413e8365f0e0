/* kda_backward.c - the gradients of the KDA backward against those of the token recurrence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kda/kda.h"
#include "kernels/launch/cache.h"
#include "tests/check/random.h"
#include "tests/numeric/kernels/backward.h"
#include "tests/numeric/kernels/kda_run.h"

enum { RAW = TILEKERN_RAW_GATE, BOUND = TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA,
	TWICE = TILEKERN_SIGMOID_BETA | TILEKERN_TWICE_BETA };

/* A forward with what its backward needs. */
typedef struct KdaBackward {
	Backward all;
	KdaRun *r;
	tilekern_kda_backward_params p;
	Buffer saved;
} KdaBackward;

static KdaBackward *own(const Backward *b) { return (KdaBackward *)b; }

static void workspace_bytes(Backward *b) { KDA_OK(tilekern_kda_backward_workspace_bytes(own(b)->r->kda, &own(b)->p, b->field.workspace_bytes)); }
static void call(Backward *b) { KDA_OK(tilekern_kda_backward(own(b)->r->kda, &own(b)->p, NULL)); }

static void call_prepared(Backward *b)
{
	tilekern_kda_call *c;
	KDA_OK(tilekern_kda_backward_prepare(own(b)->r->kda, &own(b)->p, &c));
	KDA_OK(tilekern_kda_launch(c, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	tilekern_kda_call_destroy(c);
}

static Delta reference(Backward *b) { return kda_run_reference(own(b)->r); }

/* da_log is one number of each head, ddt_bias as many as channels: limits of ddt_bias are those of random calls (RESULTS.md). */
static void allowed(const Backward *b, int which, double *overall, double *chunk)
{
	const KdaRow *row = &own(b)->r->row;
	*overall = which == DA ? .02 : which == DBIAS ? .008 : row->overall > .02 ? row->overall : which == DBETA ? .02 : row->overall != 0 ? row->overall : .005;
	*chunk = which == DA ? 0 : which == DBIAS ? .03 : which >= DBETA ? (double)INFINITY : row->chunk != 0 ? row->chunk : 3 * *overall;
	if (row->cancels && which == DQ)
		*overall = .02; /* of three heads: .0156 in 3,700 calls */
	if (row->cancels && which == DV)
		*chunk = .1;    /* q.k of the one token of a chunk may be next to nothing: .072 */
}

/* ---- making ---- */

static void release(Backward *b)
{
	buffer_free(own(b)->saved);
	kda_run_free(own(b)->r);
	free(b);
}

static const BackwardOperator kda = { workspace_bytes, call, call_prepared, reference, allowed, release, .1 };

static KdaBackward *make(const KdaRow *row)
{
	KdaBackward *b = memory(sizeof *b);
	KdaRun *r = kda_run_make(row);
	*b = (KdaBackward){ .r = r, .all = { .op = &kda, .field = BACKWARD_FIELDS(&r->p, &b->p), .input = { &r->q, &r->k, &r->v, &r->g, &r->beta },
		.sequences = r->sequences, .offsets = r->offsets, .key_dim = r->row.key_dim, .value_dim = r->row.value_dim, .options = row->options,
		.processors = row->processors, .v_first = row->state_v_first, .strided = row->strided } };
	tilekern_kda_backward_params_init(&b->p);
	b->p.forward = &r->p;
	backward_make(&b->all, row->seed, row->gradients != 0 ? row->gradients : 1, r->pool.final);
	if (row->by_turns)
		backward_turn_sizes(&b->all);
	return b;
}

/* ---- kinds of tests ---- */

static void run_gradients(const void *row) { backward_check(&make(row)->all); }
static void run_zeros(const void *row) { backward_zeros(&make(row)->all); }
static void run_not_finite(const void *row) { backward_not_finite(&make(row)->all); }
static void run_causal(const void *row) { backward_causal(&make(row)->all); }
static void run_one_buffer(const void *row) { backward_one_buffer(&make(row)->all); }
static void run_of_ends(const void *row) { backward_of_ends(&make(row)->all); }
static void run_same_bits(const void *row) { backward_same_bits(&make(row)->all); }
static void run_alone(const void *row) { backward_alone(&make(row)->all); }
static void run_wild(const void *row)
{
	KdaBackward *b = make(row);
	const Forward f = kda_run_as_forward(b->r);
	backward_wild(&b->all, &f);
}

static void run_nothing(const void *row) { backward_nothing(&make(row)->all); }

static void run_odd_strides(const void *row)
{
	KdaBackward *b = make(row);
	forward_odd_strides(kda_run_as_forward(b->r).tensor);
	backward_odd_strides(&b->all);
}

/* beta of 0, and so small that its square is nothing, in every `every`th of all. */
static void small_beta(const void *row, int64_t every)
{
	KdaBackward *b = make(row);
	TokenTensor *beta = &b->r->beta;
	for (int64_t i = 0; i < tokens_elements(beta); i += every)
		beta->value[i] = i % 2 == 0 ? 0 : 1e-7;
	kda_run_upload(b->r, beta);
	b->r->p.beta = tokens_address(beta);
	backward_check(&b->all);
}

static void run_small_beta(const void *row) { small_beta(row, 3); }
static void run_few_small_beta(const void *row) { small_beta(row, 37); }

static void free_all(float *x[GRADIENTS])
{
	for (int i = 0; i < GRADIENTS; i++)
		free(x[i]);
}

/* A forward that saves, and the workspace of its backward. */
static void save(KdaBackward *b)
{
	KdaRun *r = b->r;
	KDA_OK(tilekern_kda_saved_bytes(r->kda, &r->p, &r->p.saved_bytes));
	b->saved = buffer_poisoned(r->p.saved_bytes);
	r->p.saved = b->saved.p;
	kda_run_forward(r);
	backward_make_workspace(&b->all);
}

/* What the forward left gives the same bits as scanning it again. */
static void run_saved(const void *row)
{
	KdaBackward *b = make(row);
	KdaRun *r = b->r;
	float *want[GRADIENTS];
	backward_run(&b->all);
	backward_take(&b->all, want);
	backward_poison(&b->all);
	save(b);
	kda_run_check(r);
	free(buffer_take(b->saved));
	backward_run(&b->all);
	backward_expect(&b->all, want);
	free_all(want);
	backward_check(&b->all);
}

/* What enters shares is made. */
static void run_made(const void *row)
{
	KdaBackward *b = make(row);
	assert_int_equal(kda_plan(&b->r->p, (int)((const KdaRow *)row)->processors).way, KDA_MADE);
	backward_release(&b->all);
	run_saved(row);
}

/* Where the forward's windows leave items whole, the scan of D, which then has no windows, has whole items, too. */
static void run_left_whole(const void *row)
{
	KdaBackward *b = make(row);
	save(b);
	unsigned char *saved = buffer_take(b->saved);
	if (numeric_on_cpu())
		assert_int_equal(*(int32_t *)(void *)(saved + kda_saved(&b->r->p).outcome), 0);
	free(saved);
	backward_release(&b->all);
	run_saved(row);
}

static int launches(const KdaBackward *b)
{
	tilekern_kda_call *c;
	KDA_OK(tilekern_kda_backward_prepare(b->r->kda, &b->p, &c));
	const int n = ((const Call *)(const void *)c)->n;
	tilekern_kda_call_destroy(c);
	return n;
}

static void run_as(KdaBackward *b, tilekern_split split, float *out[GRADIENTS])
{
	b->r->p.split = split;
	backward_poison(&b->all);
	backward_run(&b->all);
	backward_take(&b->all, out);
}

static void expect_as(KdaBackward *b, float *const want[GRADIENTS])
{
	b->r->p.split = TILEKERN_SPLIT_AUTO;
	backward_poison(&b->all);
	backward_run(&b->all);
	backward_expect(&b->all, want);
}

/* As if windows of one chunk were enough, which they are not. */
static void shorten_windows(KdaBackward *b)
{
	const KdaSaved in = kda_saved(&b->r->p);
	unsigned char *saved = buffer_take(b->saved);
	assert_true(*(int32_t *)(void *)(saved + in.outcome) > 1);
	for (int i = 0; i < KDA_SAVED_SHARES; i++)
		((int32_t *)(void *)(saved + in.back))[i] = 1;
	OK(tilert_upload(numeric_device(), b->saved.p, saved, b->saved.bytes));
	free(saved);
}

/* Shares begin where the forward left that they may, which is not looked for again; where it left nothing for this call, items are whole. */
static void run_outcome(const void *row)
{
	KdaBackward *b = make(row);
	KdaRun *r = b->r;
	tilekern_kda *own = r->kda;
	float *cut[GRADIENTS], *short_cut[GRADIENTS], *whole[GRADIENTS];
	save(b);
	const int n = launches(b);
	const KdaWay way = kda_plan(&r->p, (int)((const KdaRow *)row)->processors).way;
	run_as(b, TILEKERN_SPLIT_AUTO, cut);
	run_as(b, TILEKERN_SPLIT_OFF, whole);
	assert_int_equal(launches(b), n - (way == KDA_MADE ? 1 : 0)); /* one that clears what CTAs say */
	shorten_windows(b);
	run_as(b, TILEKERN_SPLIT_AUTO, short_cut);
	assert_true(memcmp(short_cut[DV], whole[DV], (size_t)backward_elements(&b->all, DV) * sizeof *whole[DV]) != 0);

	r->p.checkpoint_state = 16; /* for which the forward would not have been cut */
	assert_int_equal(launches(b), n + 1);
	expect_as(b, cut);
	r->p.checkpoint_state = 0;

	if (numeric_on_cpu()) {
		OK(tilert_cpu_configure(numeric_device(), 1, ((const KdaRow *)row)->processors + 1));
		KDA_OK(tilekern_kda_open(numeric_device(), &r->kda));
		backward_make_workspace(&b->all);
		expect_as(b, whole);
		tilekern_kda_close(r->kda);
		r->kda = own;
	}

	r->p.split = TILEKERN_SPLIT_OFF; /* in the place of one that was cut */
	kda_run_forward(r);
	free_all(whole);
	run_as(b, TILEKERN_SPLIT_OFF, whole);
	expect_as(b, whole);
	free(buffer_take(b->saved));
	free_all(cut);
	free_all(short_cut);
	free_all(whole);
	backward_release(&b->all);
}

/* ---- refusals ---- */

static void expect_refused(const KdaBackward *b, const tilekern_kda_backward_params *p, const char *const *words)
{
	tilekern_kda_call *untouched = (tilekern_kda_call *)b->r, *call = untouched;
	assert_int_equal(tilekern_kda_backward_prepare(b->r->kda, p, &call), TILERT_EINVAL);
	assert_ptr_equal(call, untouched);
	expect_words(tilekern_last_error(), words);
}

static void run_refusals(const void *row)
{
	KdaBackward *b = make(row);
	tilekern_kda_backward_params p;
	tilekern_kda_params f;
#define REFUSED(change, ...) (p = b->p, f = b->r->p, p.forward = &f, (void)(change), expect_refused(b, &p, (const char *[]){ __VA_ARGS__, NULL }))
	REFUSED(p.size = 8, "tilekern_kda_backward_prepare: ", "tilekern_kda_backward_params.size is 8");
	REFUSED(p.forward = NULL, "forward is NULL");
	REFUSED(f.size = 8, "tilekern_kda_params.size is 8");
	REFUSED(f.tokens = -3, "tokens", "-3");
	REFUSED(f.value_dim = 264, "value_dim", "264", "256");
	REFUSED(f.key_dim = 264, "key_dim", "264", "256");
	REFUSED(f.key_dim = 60, "key_dim", "60", "multiples of 8");
	REFUSED(f.gate_dtype = TILERT_F16, "gate_dtype", "f16", "bf16");
	REFUSED(f.q_strides = ((tilekern_strides){ 63, 0, -1 }), "q_strides");
	REFUSED(f.dtype = (tilert_dtype)99, "dtype is 99", "bf16");
	REFUSED(f.gate_dtype = (tilert_dtype)0, "gate_dtype is 0", "bf16");
	REFUSED(f.beta_dtype = (tilert_dtype)-1, "beta_dtype is -1", "bf16");
	REFUSED(f.split = (tilekern_split)9, "split is 9", "3");
	REFUSED(f.seqlens_dtype = (tilert_dtype)99, "seqlens_dtype is 99", "i32");
	REFUSED((f.batch = 1, f.cu_seqlens = p.dout + 2, f.sequences = 0), "cu_seqlens is at", "4");
	REFUSED(f.value_heads = 65536, "value_heads is 65536", "65535");
	REFUSED((f.value_heads = 4, f.batch = 65536), "batch is 65536", "65535");
	REFUSED(p.da_log = p.workspace, "da_log", "0x0");
	REFUSED(p.ddt_bias = p.workspace, "ddt_bias", "0x0");
	REFUSED((f.saved = p.dout, f.saved_bytes = 8), "saved_bytes is 8", "are needed");
	REFUSED((f.saved = 16, f.saved_bytes = 1 << 30), "saved is at", "256");
	REFUSED(p.dout = 0, "dout is 0");
	REFUSED(f.v = 0, "v is 0");
	REFUSED(p.dq += 8, "dq is at", "16");
	REFUSED(p.dinitial_state += 4, "dinitial_state is at", "16");
	REFUSED((p.dg_strides = b->all.token[DG].strides, p.dg_strides.token += 4), "dg_strides.token", "multiple of 8");
	REFUSED((p.dk_strides = b->all.token[DK].strides, p.dk_strides.batch = 0), "dk_strides.batch is 0", "128", "overlap");
	REFUSED(p.dq = f.q, "q (", "dq (", "overlap");
	REFUSED(p.dv = p.dout + 256, "dout (", "dv (", "overlap");
	REFUSED(p.dv = f.v, "v (", "dv (", "overlap");
	REFUSED(p.dbeta = p.workspace, "workspace", "dbeta", "overlap");
	REFUSED(p.workspace_bytes -= 1, "workspace_bytes", "are needed");
	REFUSED(p.workspace += 16, "workspace is at", "256");
#undef REFUSED
	p = b->p, f = b->r->p, p.forward = &f;
	p.dout = f.v; /* both are read */
	f.lower_bound = 3e38f; /* nothing is bounded */
	tilekern_kda_call *c;
	KDA_OK(tilekern_kda_backward_prepare(b->r->kda, &p, &c));
	tilekern_kda_call_destroy(c);
	backward_release(&b->all);
}

/* 16-bit a_log and dt_bias end where their gradients may begin. */
static void run_neighbours(const void *row)
{
	KdaBackward *b = make(row);
	tilekern_kda_params f = b->r->p;
	tilekern_kda_backward_params p = b->p;
	tilekern_kda_call *c;
	p.forward = &f;
	p.da_log = f.a_log + (tilert_ptr)(f.value_heads * 2);
	p.ddt_bias = f.dt_bias + (tilert_ptr)(f.value_heads * f.key_dim * 2);
	KDA_OK(tilekern_kda_backward_prepare(b->r->kda, &p, &c));
	tilekern_kda_call_destroy(c);
	p.da_log += 4;
	expect_refused(b, &p, (const char *[]){ "da_log is at", "16", NULL });
	p.da_log = f.a_log;
	expect_refused(b, &p, (const char *[]){ "a_log (", "da_log (", "overlap", NULL });
	p.da_log = 0;
	p.ddt_bias -= 4;
	expect_refused(b, &p, (const char *[]){ "dt_bias (", "ddt_bias (", "overlap", NULL });
	backward_release(&b->all);
}

/* What the forward's parameters say counts, though they are where they were. */
static void run_other_forward(const void *row)
{
	KdaBackward *b = make(row);
	const TokenTensor *dv = &b->all.token[DV];
	const float scales[] = { 0, 0.25f, 0 };
	float *out[3];
	for (int i = 0; i < 3; i++) {
		b->r->p.scale = scales[i];
		backward_run(&b->all);
		out[i] = tokens_take(dv, "dv", dv->tokens);
	}
	assert_true(memcmp(out[0], out[1], (size_t)tokens_elements(dv) * sizeof(float)) != 0);
	expect_same("dv", out[0], out[2], tokens_elements(dv));
	for (int i = 0; i < 3; i++)
		free(out[i]);
	backward_release(&b->all);
}

/* ---- random calls ---- */

static KdaRow random_row(Random *r, int lengths[4])
{
	static const unsigned options[] = { 0, NORM, NORM | BOUND, NORM | RAW | SIGMOID, NORM | BOUND | TWICE, BOUND | SIGMOID };
	static const float sizes[] = { 1, 1e-6F, 1e-4F, 1e2F };
	static const KdaGate gates[] = { KDA_BOUNDED, KDA_BOUNDED, KDA_MILD, KDA_MILD, KDA_ZERO, KDA_TWENTY, KDA_RESETS, KDA_RARE };
	KdaRow row = { .batch = 1 + pick(r, 2), .tokens = 16 + pick(r, 90), .qk_heads = 1 + pick(r, 2), .key_dim = 8 + 8 * pick(r, toss(r) ? 16 : 32),
		.value_dim = 8 + 8 * pick(r, toss(r) ? 16 : 32), .gate = gates[pick(r, 8)], .pool = pool_random(r), .sixteen = toss(r), .without_a_log = pick(r, 4) == 0,
		.without_dt_bias = pick(r, 4) == 0, .split = (tilekern_split)pick(r, 4), .processors = toss(r) ? 2 + pick(r, 12) : 0, .states = (KdaStates)pick(r, 4), .beta16 = toss(r),
		.state_v_first = toss(r), .state_bf16 = toss(r), .strided = toss(r), .options = options[pick(r, 6)], .seed = random_bits(r) };
	row.value_heads = row.qk_heads * (1 + pick(r, pick(r, 4) ? 3 : 8));
	row.pool.in_place = false; /* the forward's that saves would change the states */
	row.pool.checkpoints = POOL_NO_CHECKPOINTS;
	row.gate16 = toss(r);
	row.fp16 = toss(r);
	row.gradients = sizes[pick(r, 4)];
	row.by_turns = row.gradients == 1 && toss(r);
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
	row.overall = .01; /* few channels and tokens: up to .008 */
	row.chunk = .05;   /* a chunk may be one token, whose products with itself cancel: .033 in 2,000 calls */
	row.cancels = true;
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
		void (*run)(const void *) = pick(&r, 3) ? run_gradients : run_saved;
		if (!random_runs(i))
			continue;
		if (named)
			print_message("%d: b%lld t%lld h%lld/%lld k%lld v%lld options %x states %d%s%s\n", i, (long long)row.batch, (long long)row.tokens,
				(long long)row.qk_heads, (long long)row.value_heads, (long long)row.key_dim, (long long)row.value_dim, row.options, (int)row.states,
				row.strided ? " strided" : "", row.lengths ? " packed" : "");
		if (named && row.lengths)
			print_message("    %d %d %d\n", lengths[0], lengths[1], lengths[2]);
		run(&row);
	}
}

static const int mixed[] = { 40, 0, 1, 65, 33, 130, -1 }, few[] = { 33, 0, 66, -1 }, two[] = { 1000, 600, -1 }, one[] = { 1400, -1 }, longest[] = { 70, 1100, 0, 500, -1 }, dealt[] = { 250, 0, 1100, 33, 900, 300, 1, -1 }, no_lengths[] = { -1 };
/* Gates are of the type of q, k, v but where the name begins with f32. */
static const struct { const char *name; void (*run)(const void *); KdaRow row; } cases[] = {
	{ "bounded", run_gradients, { .tokens = 173, .value_heads = 2, .qk_heads = 2, .seed = 1 } },
	{ "states", run_gradients, { .batch = 2, .tokens = 77, .gate = KDA_MILD, .states = KDA_BOTH, .seed = 2 } },
	{ "of_final_states_alone", run_of_ends, { .tokens = 70, .value_heads = 2, .key_dim = 64, .value_dim = 40, .gate = KDA_MILD, .options = NORM | BOUND, .states = KDA_FINAL, .seed = 81 } },
	{ "states_v_first", run_gradients, { .tokens = 65, .states = KDA_BOTH, .state_v_first = true, .seed = 3 } },
	{ "no_decay", run_gradients, { .tokens = 200, .gate = KDA_ZERO, .states = KDA_BOTH, .seed = 4 } },
	{ "-5_raw", run_gradients, { .tokens = 100, .gate = KDA_TWENTY, .options = BOUND, .key_dim = 64, .states = KDA_BOTH, .seed = 80 } },
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
	{ "strides_of_single_things", run_odd_strides, { .tokens = 70, .states = KDA_BOTH, .seed = 18 } },
	{ "strided", run_gradients, { .batch = 2, .tokens = 70, .qk_heads = 2, .value_heads = 4, .strided = true, .seed = 14 } },
	{ "K80_V96", run_gradients, { .tokens = 100, .key_dim = 80, .value_dim = 96, .states = KDA_BOTH, .options = NORM | RAW, .seed = 15 } },
	{ "K64_V64", run_saved, { .batch = 2, .tokens = 150, .value_heads = 2, .key_dim = 64, .value_dim = 64, .options = NORM, .states = KDA_BOTH, .seed = 42 } },
	{ "K64_V64_keys_alike", run_saved, { .tokens = 101, .value_heads = 2, .key_dim = 64, .value_dim = 64, .gate = KDA_MILD, .keys = KDA_COLLINEAR, .states = KDA_BOTH, .seed = 120, .overall = .012 } },
	{ "K8_V8", run_gradients, { .tokens = 70, .key_dim = 8, .value_dim = 8, .states = KDA_BOTH, .seed = 43 } },
	{ "K64_V128", run_saved, { .lengths = mixed, .spare = 130, .key_dim = 64, .value_dim = 128, .options = NORM | BOUND | SIGMOID, .states = KDA_BOTH, .seed = 44 } },
	{ "K128_V64", run_saved, { .lengths = mixed, .spare = 130, .key_dim = 128, .value_dim = 64, .options = NORM | RAW, .states = KDA_BOTH, .seed = 45 } },
	{ "K40_V56_raw", run_saved, { .tokens = 101, .value_heads = 3, .key_dim = 40, .value_dim = 56, .options = NORM | RAW | SIGMOID, .states = KDA_BOTH,
		.sixteen = true, .seed = 46 } },
	{ "K64_V64_cut", run_saved, { .tokens = 1300, .key_dim = 64, .value_dim = 64, .split = TILEKERN_SPLIT_AUTO, .processors = 3, .states = KDA_BOTH, .seed = 47 } },
	{ "K64_V40_any_gate", run_small_beta, { .tokens = 140, .value_heads = 2, .key_dim = 64, .value_dim = 40, .gate = KDA_ANY, .states = KDA_BOTH, .seed = 48 } },
	{ "K64_V48_resets", run_saved, { .batch = 2, .tokens = 200, .value_heads = 5, .key_dim = 64, .value_dim = 48, .gate = KDA_RESETS, .states = KDA_BOTH, .seed = 49 } },
	{ "saved_dealt", run_saved, { .lengths = dealt, .spare = 9, .value_heads = 3, .options = NORM | BOUND | SIGMOID, .states = KDA_BOTH, .split = TILEKERN_SPLIT_OFF, .processors = 3, .seed = 57 } },
	{ "saved_dealt_f16", run_saved, { .lengths = dealt, .fp16 = true, .value_heads = 3, .split = TILEKERN_SPLIT_OFF, .processors = 3, .seed = 58 } },
	{ "V256", run_saved, { .tokens = 150, .value_heads = 2, .value_dim = 256, .options = NORM, .states = KDA_BOTH, .seed = 56 } },
	{ "K72_V136_grouped_raw", run_saved, { .lengths = mixed, .spare = 130, .qk_heads = 1, .value_heads = 2, .key_dim = 72, .value_dim = 136,
		.options = NORM | BOUND | TWICE, .states = KDA_BOTH, .beta16 = true, .strided = true, .seed = 57, .overall = .006 } },
	{ "K64_V192_small_beta", run_small_beta, { .batch = 2, .tokens = 101, .value_heads = 2, .key_dim = 64, .value_dim = 192, .states = KDA_BOTH, .seed = 58 } },
	{ "f32_fp16_K40_V200_raw", run_gradients, { .tokens = 101, .value_heads = 3, .key_dim = 40, .value_dim = 200, .fp16 = true, .options = NORM | RAW | SIGMOID,
		.states = KDA_BOTH, .seed = 59 } },
	{ "V256_same_bits", run_same_bits, { .lengths = few, .spare = 5, .value_heads = 2, .value_dim = 256, .options = NORM | BOUND | SIGMOID, .states = KDA_BOTH, .seed = 60 } },
	{ "K256_V256", run_saved, { .tokens = 150, .value_heads = 2, .key_dim = 256, .value_dim = 256, .options = NORM, .states = KDA_BOTH, .seed = 61 } },
	{ "K136_V72_grouped_raw", run_saved, { .lengths = mixed, .spare = 130, .qk_heads = 1, .value_heads = 2, .key_dim = 136, .value_dim = 72,
		.options = NORM | BOUND | TWICE, .states = KDA_BOTH, .beta16 = true, .strided = true, .seed = 62 } },
	{ "K192_small_beta", run_small_beta, { .batch = 2, .tokens = 101, .key_dim = 192, .value_dim = 64, .states = KDA_BOTH, .seed = 63 } },
	{ "f32_fp16_K256_V136_raw", run_saved, { .tokens = 101, .value_heads = 2, .key_dim = 256, .value_dim = 136, .fp16 = true, .options = NORM | RAW | SIGMOID,
		.states = KDA_BOTH, .seed = 64 } },
	{ "K256_same_bits", run_same_bits, { .lengths = few, .spare = 5, .value_heads = 2, .key_dim = 256, .value_dim = 64, .options = NORM | BOUND | SIGMOID,
		.states = KDA_BOTH, .seed = 65 } },
	{ "fp16_K56_V64_grouped", run_gradients, { .tokens = 90, .qk_heads = 2, .value_heads = 4, .key_dim = 56, .value_dim = 64, .fp16 = true,
		.options = NORM | BOUND | TWICE, .states = KDA_BOTH, .seed = 49 } },
	{ "f32_raw_gates_K64", run_gradients, { .lengths = few, .spare = 70, .key_dim = 64, .value_dim = 64, .options = NORM | RAW | SIGMOID, .states = KDA_BOTH, .seed = 50 } },
	{ "sixteen_bit_parameters", run_gradients, { .tokens = 99, .value_heads = 2, .options = NORM | BOUND | TWICE, .states = KDA_BOTH, .sixteen = true, .seed = 51 } },
	{ "K64_crowded", run_saved, { .batch = 2, .tokens = 330, .qk_heads = 2, .value_heads = 2, .key_dim = 64, .value_dim = 64, .options = NORM | BOUND | SIGMOID, .processors = 2, .states = KDA_BOTH, .seed = 116 } },
	{ "one_token", run_gradients, { .tokens = 1, .states = KDA_BOTH, .seed = 16, .overall = .01 } },
	{ "small_beta", run_small_beta, { .tokens = 101, .value_heads = 2, .options = NORM, .states = KDA_BOTH, .seed = 21 } },
	/* More items than the CTAs of backward_beta.tile look at in one go, most without any. */
	{ "few_small_beta", run_few_small_beta, { .batch = 45, .tokens = 5, .value_heads = 3, .key_dim = 64, .value_dim = 64, .processors = 1, .seed = 24 } },
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
	/* Gates of which many are SHARP (backward_grads.tile), one chunk after the other by a CTA. */
	{ "several_items", run_gradients, { .tokens = 150, .value_heads = 3, .gate = KDA_TWENTY, .options = NORM | RAW, .processors = 2, .states = KDA_BOTH, .seed = 32 } },
	{ "f32_several_items", run_gradients, { .tokens = 150, .value_heads = 2, .gate = KDA_TWENTY, .options = RAW, .processors = 1, .states = KDA_BOTH, .seed = 33 } },
	{ "resets", run_gradients, { .tokens = 200, .value_heads = 2, .gate = KDA_RESETS, .states = KDA_BOTH, .seed = 33 } },
	{ "-20_to_0", run_gradients, { .tokens = 140, .gate = KDA_TWENTY, .states = KDA_BOTH, .seed = 34, .overall = .007 } },
	{ "any_gate", run_gradients, { .tokens = 140, .value_heads = 2, .gate = KDA_ANY, .states = KDA_BOTH, .seed = 35 } },
	{ "saved", run_saved, { .batch = 2, .tokens = 101, .value_heads = 2, .options = NORM, .states = KDA_BOTH, .seed = 36 } },
	{ "saved_everything", run_saved, { .lengths = mixed, .spare = 9, .fp16 = true, .options = NORM | BOUND | TWICE, .states = KDA_BOTH, .seed = 37 } },
	{ "f32_saved_any_gate", run_saved, { .tokens = 130, .gate = KDA_ANY, .states = KDA_BOTH, .seed = 38 } },
	{ "pool", run_gradients, { .batch = 3, .tokens = 40, .pool = { .slots = true, .nulls = true, .has = true }, .states = KDA_BOTH, .seed = 39 } },
	{ "cut", run_saved, { .tokens = 1300, .split = TILEKERN_SPLIT_AUTO, .processors = 6, .states = KDA_BOTH, .seed = 40 } },
	{ "cut_as_the_forward", run_outcome, { .tokens = 1100, .split = TILEKERN_SPLIT_AUTO, .processors = 6, .states = KDA_BOTH, .seed = 56 } },
	{ "cut_as_the_forward_K64", run_outcome, { .lengths = two, .key_dim = 64, .value_dim = 64, .gate = KDA_RESETS, .split = TILEKERN_SPLIT_AUTO, .processors = 6, .states = KDA_BOTH, .seed = 57 } },
	{ "cut_32", run_saved, { .tokens = 1300, .gate = KDA_FOUR, .split = TILEKERN_SPLIT_AUTO, .processors = 6, .states = KDA_BOTH, .seed = 117 } },
	{ "cut_64", run_saved, { .tokens = 1300, .gate = KDA_64, .split = TILEKERN_SPLIT_AUTO, .processors = 6, .states = KDA_BOTH, .seed = 118 } },
	/* States and gradients that enter shares are made: of nothing that fades; in part; of shares that hold the end of an item and the beginning of the next; by long windows; of one sequence that is shorter than T. */
	{ "made", run_made, { .tokens = 1500, .gate = KDA_MILD, .split = TILEKERN_SPLIT_AUTO, .processors = 14, .states = KDA_BOTH, .seed = 130 } },
	{ "made_zero", run_made, { .tokens = 1300, .gate = KDA_ZERO, .options = NORM, .split = TILEKERN_SPLIT_AUTO, .processors = 16, .states = KDA_NO_STATES, .seed = 131 } },
	{ "f32_made", run_made, { .tokens = 2300, .gate = KDA_RARE, .split = TILEKERN_SPLIT_AUTO, .processors = 20, .states = KDA_BOTH, .seed = 132 } },
	{ "made_between", run_made, { .tokens = 1000, .value_heads = 7, .gate = KDA_MILD, .key_dim = 64, .value_dim = 64, .split = TILEKERN_SPLIT_AUTO, .processors = 16, .states = KDA_BOTH, .seed = 133 } },
	{ "made_between_f16", run_made, { .tokens = 1000, .value_heads = 7, .gate = KDA_MILD, .key_dim = 64, .value_dim = 64, .fp16 = true, .split = TILEKERN_SPLIT_AUTO, .processors = 16, .seed = 134 } },
	{ "f32_made_run", run_made, { .tokens = 4400, .gate = KDA_ZERO, .key_dim = 64, .value_dim = 8, .split = TILEKERN_SPLIT_AUTO, .processors = 40, .states = KDA_FINAL, .seed = 135 } },
	{ "made_long", run_made, { .tokens = 9100, .gate = KDA_MILD, .key_dim = 64, .value_dim = 64, .split = TILEKERN_SPLIT_AUTO, .processors = 2, .states = KDA_BOTH, .seed = 136 } },
	{ "made_long_between", run_made, { .tokens = 9100, .qk_heads = 3, .gate = KDA_MILD, .key_dim = 64, .value_dim = 8, .split = TILEKERN_SPLIT_AUTO, .processors = 7, .seed = 143 } }, /* windows that are longer than what is before */
	{ "made_long_in_vain", run_made, { .tokens = 6100, .gate = KDA_WAVES, .split = TILEKERN_SPLIT_AUTO, .processors = 4, .states = KDA_BOTH, .seed = 141 } },
	{ "made_long_in_vain_K64", run_made, { .tokens = 9100, .gate = KDA_WAVES, .key_dim = 40, .value_dim = 8, .split = TILEKERN_SPLIT_AUTO, .processors = 3, .states = KDA_BOTH, .seed = 142 } },
	{ "made_in_vain", run_made, { .tokens = 1500, .gate = KDA_HANDED, .keys = KDA_PAIR, .split = TILEKERN_SPLIT_AUTO, .processors = 14, .states = KDA_BOTH, .seed = 137, .overall = .012 } },
	{ "made_V256_raw", run_made, { .tokens = 900, .value_heads = 1, .value_dim = 256, .options = NORM | RAW | SIGMOID, .split = TILEKERN_SPLIT_AUTO, .processors = 16, .states = KDA_BOTH, .seed = 138 } },
	{ "made_one", run_made, { .lengths = one, .spare = 600, .gate = KDA_MILD, .value_heads = 2, .split = TILEKERN_SPLIT_AUTO, .processors = 18, .states = KDA_BOTH, .seed = 139 } },
	{ "made_as_the_forward", run_outcome, { .tokens = 1300, .gate = KDA_MILD, .split = TILEKERN_SPLIT_AUTO, .processors = 16, .states = KDA_BOTH, .seed = 140 } },
	{ "whole_again", run_left_whole, { .tokens = 3100, .qk_heads = 5, .gate = KDA_RARE, .key_dim = 64, .value_dim = 64, .split = TILEKERN_SPLIT_AUTO, .processors = 4, .states = KDA_BOTH, .seed = 144 } },
	{ "cut_mild", run_saved, { .tokens = 900, .gate = KDA_MILD, .split = TILEKERN_SPLIT_AUTO, .processors = 5, .states = KDA_BOTH, .seed = 41 } },
	{ "long_positive", run_gradients, { .tokens = 4096, .key_dim = 64, .value_dim = 64, .gate = KDA_MILD, .keys = KDA_POSITIVE, .split = TILEKERN_SPLIT_OFF,
		.states = KDA_BOTH, .seed = 66, .overall = .008 } },
	{ "tiny", run_gradients, { .gradients = 1e-6F, .tokens = 130, .value_heads = 2, .options = NORM | BOUND | SIGMOID, .states = KDA_BOTH, .seed = 67 } },
	{ "tiny_any_gate", run_gradients, { .gradients = 1e-6F, .tokens = 99, .key_dim = 64, .gate = KDA_ANY, .states = KDA_BOTH, .seed = 68 } },
	{ "large", run_gradients, { .gradients = 1e3F, .tokens = 130, .value_heads = 2, .options = NORM | RAW, .states = KDA_BOTH, .seed = 69 } },
	{ "fp16_small", run_gradients, { .gradients = 1e-3F, .tokens = 101, .gate = KDA_MILD, .fp16 = true, .states = KDA_BOTH, .seed = 70 } },
	{ "fp16_large", run_gradients, { .gradients = 1e3F, .tokens = 101, .key_dim = 64, .fp16 = true, .options = NORM, .states = KDA_BOTH, .seed = 71 } },
	{ "fp16_1e-6", run_gradients, { .gradients = 1e-6F, .tokens = 173, .qk_heads = 2, .value_heads = 4, .fp16 = true, .states = KDA_BOTH, .seed = 90 } },
	{ "fp16_1e-6_norm", run_saved, { .gradients = 1e-6F, .tokens = 150, .qk_heads = 2, .fp16 = true, .keys = KDA_RAW_KEYS, .options = NORM | SIGMOID, .states = KDA_BOTH, .seed = 91 } },
	{ "f32_fp16_1e-6", run_gradients, { .gradients = 1e-6F, .tokens = 130, .qk_heads = 2, .value_heads = 4, .fp16 = true, .options = NORM | RAW, .states = KDA_BOTH, .seed = 92 } },
	{ "f32_fp16_1e-6_K64", run_gradients, { .gradients = 1e-6F, .lengths = mixed, .spare = 9, .value_heads = 2, .key_dim = 64, .value_dim = 64, .fp16 = true, .states = KDA_BOTH,
		.seed = 93 } },
	{ "fp16_1e-6_K64_raw", run_gradients, { .gradients = 1e-6F, .lengths = mixed, .spare = 9, .qk_heads = 2, .value_heads = 4, .key_dim = 56, .value_dim = 64, .fp16 = true, .beta16 = true,
		.options = NORM | BOUND | TWICE, .states = KDA_BOTH, .strided = true, .seed = 94, .overall = .006 } },
	{ "fp16_1e-6_K72_V136_grouped", run_gradients, { .gradients = 1e-6F, .lengths = mixed, .spare = 130, .value_heads = 2, .key_dim = 72, .value_dim = 136, .fp16 = true,
		.options = NORM | RAW | SIGMOID, .states = KDA_BOTH, .strided = true, .seed = 95, .overall = .006 } },
	{ "f32_fp16_1e-6_K256_V136", run_gradients, { .gradients = 1e-6F, .tokens = 101, .value_heads = 2, .key_dim = 256, .value_dim = 136, .fp16 = true, .options = NORM | RAW,
		.states = KDA_BOTH, .seed = 96 } },
	{ "fp16_1e-6_K192", run_small_beta, { .gradients = 1e-6F, .batch = 2, .tokens = 101, .key_dim = 192, .value_dim = 64, .fp16 = true, .states = KDA_BOTH, .seed = 97 } },
	{ "fp16_1e-6_small_beta", run_small_beta, { .gradients = 1e-6F, .tokens = 101, .value_heads = 2, .fp16 = true, .options = NORM, .states = KDA_BOTH, .seed = 98 } },
	{ "fp16_1e-6_cut", run_saved, { .gradients = 1e-6F, .tokens = 1300, .fp16 = true, .split = TILEKERN_SPLIT_AUTO, .processors = 6, .states = KDA_BOTH, .seed = 99 } },
	{ "fp16_1e-6_of_final_states_alone", run_of_ends, { .gradients = 1e-6F, .tokens = 70, .value_heads = 2, .key_dim = 64, .value_dim = 40, .gate = KDA_MILD, .fp16 = true,
		.options = NORM | BOUND, .states = KDA_FINAL, .seed = 100 } },
	{ "fp16_1e-4", run_gradients, { .gradients = 1e-4F, .tokens = 130, .qk_heads = 2, .gate = KDA_MILD, .fp16 = true, .states = KDA_BOTH, .seed = 101 } },
	{ "fp16_1e-4_norm", run_gradients, { .gradients = 1e-4F, .tokens = 130, .value_heads = 2, .gate = KDA_MILD, .fp16 = true, .options = NORM | RAW | SIGMOID, .states = KDA_BOTH, .seed = 102 } },
	{ "fp16_1e3", run_gradients, { .gradients = 1e3F, .tokens = 130, .qk_heads = 2, .gate = KDA_MILD, .fp16 = true, .states = KDA_BOTH, .seed = 103 } },
	{ "fp16_1e3_norm", run_saved, { .gradients = 1e3F, .tokens = 130, .qk_heads = 2, .value_heads = 4, .keys = KDA_RAW_KEYS, .fp16 = true, .options = NORM | RAW, .states = KDA_BOTH, .seed = 104 } },
	{ "fp16_sizes_by_turns", run_gradients, { .by_turns = true, .lengths = mixed, .spare = 9, .qk_heads = 2, .value_heads = 4, .fp16 = true, .options = NORM | BOUND, .states = KDA_BOTH,
		.seed = 105, .overall = .006 } },
	{ "f32_fp16_sizes_by_turns_batch", run_gradients, { .by_turns = true, .batch = 3, .tokens = 70, .value_heads = 2, .key_dim = 64, .fp16 = true, .options = NORM | RAW, .strided = true,
		.states = KDA_BOTH, .seed = 106, .overall = .006 } },
	{ "fp16_sizes_by_turns_alone", run_alone, { .by_turns = true, .lengths = longest, .qk_heads = 2, .value_heads = 4, .gate = KDA_MILD, .fp16 = true, .states = KDA_BOTH,
		.split = TILEKERN_SPLIT_INVARIANT, .processors = 6, .seed = 107 } },
	{ "fp16_1e-6_same_bits", run_same_bits, { .gradients = 1e-6F, .lengths = few, .spare = 5, .qk_heads = 2, .value_heads = 4, .fp16 = true, .options = NORM | BOUND, .states = KDA_BOTH,
		.seed = 108 } },
	{ "fp16_1e-6_one_buffer", run_one_buffer, { .gradients = 1e-6F, .lengths = mixed, .spare = 9, .qk_heads = 2, .value_heads = 4, .value_dim = 72, .fp16 = true, .states = KDA_BOTH, .seed = 109 } },
	{ "fp16_1e-6_strides_of_single_things", run_odd_strides, { .gradients = 1e-6F, .tokens = 70, .fp16 = true, .states = KDA_BOTH, .seed = 110 } },
	{ "fp16_causal", run_causal, { .gradients = 1e-6F, .tokens = 130, .value_heads = 2, .fp16 = true, .states = KDA_BOTH, .seed = 111 } },
	{ "fp16_zeros", run_zeros, { .lengths = mixed, .spare = 9, .value_heads = 2, .fp16 = true, .options = NORM | BOUND, .states = KDA_INITIAL, .seed = 112 } },
	{ "fp16_not_finite", run_not_finite, { .gradients = 1e-6F, .lengths = few, .qk_heads = 2, .value_heads = 4, .fp16 = true, .states = KDA_BOTH, .seed = 113 } },
	{ "K64_not_finite", run_not_finite, { .lengths = few, .qk_heads = 2, .value_heads = 4, .key_dim = 64, .value_dim = 64, .options = BOUND | SIGMOID, .gate16 = true, .states = KDA_BOTH, .seed = 114 } },
	{ "fp16_wild_offsets", run_wild, { .gradients = 1e-6F, .lengths = mixed, .spare = 9, .value_heads = 2, .key_dim = 64, .value_dim = 72, .fp16 = true, .options = NORM | BOUND,
		.states = KDA_BOTH, .seed = 114 } },
	{ "sizes_by_turns", run_gradients, { .by_turns = true, .lengths = mixed, .spare = 9, .qk_heads = 2, .options = NORM, .states = KDA_BOTH, .seed = 115, .overall = .006 } },
	{ "causal", run_causal, { .batch = 2, .tokens = 201, .qk_heads = 1, .value_heads = 2, .options = NORM, .states = KDA_BOTH, .seed = 72 } },
	{ "causal_raw", run_causal, { .tokens = 99, .key_dim = 64, .value_dim = 64, .options = NORM | BOUND | SIGMOID, .seed = 73 } },
	{ "one_buffer", run_one_buffer, { .lengths = mixed, .spare = 9, .qk_heads = 2, .value_heads = 4, .value_dim = 72, .states = KDA_BOTH, .seed = 74 } },
	{ "64_tokens", run_gradients, { .tokens = 64, .seed = 17 } },
	{ "same_bits", run_same_bits, { .lengths = few, .spare = 5, .value_heads = 2, .options = NORM | BOUND | SIGMOID, .states = KDA_BOTH, .seed = 18 } },
	{ "alone", run_alone, { .lengths = mixed, .qk_heads = 2, .value_heads = 4, .states = KDA_BOTH, .split = TILEKERN_SPLIT_OFF, .seed = 52 } },
	{ "alone_dealt", run_alone, { .lengths = dealt, .value_heads = 3, .states = KDA_BOTH, .split = TILEKERN_SPLIT_OFF, .processors = 3, .seed = 54 } },
	{ "alone_dealt_K64", run_alone, { .lengths = dealt, .value_heads = 4, .key_dim = 64, .value_dim = 64, .states = KDA_BOTH, .split = TILEKERN_SPLIT_OFF, .processors = 2, .seed = 55 } },
	{ "alone_invariant", run_alone, { .lengths = longest, .gate = KDA_MILD, .states = KDA_BOTH, .split = TILEKERN_SPLIT_INVARIANT, .processors = 6, .seed = 53 } },
	{ "other_parameters_of_the_forward", run_other_forward, { .tokens = 33, .seed = 26 } },
	{ "wild_offsets", run_wild, { .lengths = mixed, .spare = 9, .value_heads = 2, .key_dim = 64, .value_dim = 72, .options = NORM | BOUND, .states = KDA_BOTH, .seed = 75 } },
	{ "wild_offsets_cut", run_wild, { .lengths = longest, .lengths_i64 = true, .key_dim = 64, .value_dim = 64, .states = KDA_BOTH, .processors = 6, .seed = 76 } },
	{ "random_calls", run_random, { .seed = 25 } },
	{ "nothing_to_do", run_nothing, { .batch = 2, .states = KDA_BOTH, .seed = 19 } },
	{ "no_tokens", run_nothing, { .batch = 2, .qk_heads = 3, .key_dim = 72, .options = RAW, .states = KDA_BOTH, .seed = 119 } },
	{ "no_sequences", run_nothing, { .lengths = no_lengths, .spare = 70, .qk_heads = 2, .options = NORM | BOUND, .seed = 120 } },
	{ "16_bit_parameters_beside_their_gradients", run_neighbours, { .tokens = 3, .value_heads = 8, .options = RAW, .sixteen = true, .seed = 55 } },
	{ "refuses_wrong_arguments", run_refusals, { .batch = 2, .tokens = 3, .qk_heads = 2, .states = KDA_BOTH, .seed = 20 } },
};

size_t kda_backward_cases(NumericCase *out)
{
	static KdaRow rows[sizeof cases / sizeof cases[0]];
	size_t n = sizeof cases / sizeof cases[0];
	for (size_t i = 0; i < n; i++) {
		rows[i] = cases[i].row;
		rows[i].gate16 = strncmp(cases[i].name, "f32", 3) != 0;
		out[i] = numeric_case(cases[i].run, &rows[i], "backward_kda_%s", cases[i].name);
	}
	return n;
}
