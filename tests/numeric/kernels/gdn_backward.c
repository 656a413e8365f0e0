/* gdn_backward.c - the gradients of the GDN backward against those of the token recurrence. */
#include <math.h>
#include <stdlib.h>

#include "tests/check/random.h"
#include "tests/numeric/kernels/backward.h"
#include "tests/numeric/kernels/gdn_run.h"

enum { RAW = TILEKERN_RAW_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA, TWICE = TILEKERN_SIGMOID_BETA | TILEKERN_TWICE_BETA };

/* A forward with what its backward needs. */
typedef struct GdnBackward {
	Backward all;
	GdnRun *r;
	tilekern_gdn_backward_params p;
	Delta inputs;              /* of the reference, once it was asked for */
} GdnBackward;

static GdnBackward *own(const Backward *b) { return (GdnBackward *)b; }

static void workspace_bytes(Backward *b) { GDN_OK(tilekern_gdn_backward_workspace_bytes(own(b)->r->gdn, &own(b)->p, b->field.workspace_bytes)); }
static void call(Backward *b) { GDN_OK(tilekern_gdn_backward(own(b)->r->gdn, &own(b)->p, NULL)); }

static void call_prepared(Backward *b)
{
	tilekern_gdn_call *c;
	GDN_OK(tilekern_gdn_backward_prepare(own(b)->r->gdn, &own(b)->p, &c));
	GDN_OK(tilekern_gdn_launch(c, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	tilekern_gdn_call_destroy(c);
}

/* ---- the reference ---- */

static double *as_doubles(const float *x, int64_t n)
{
	double *out = x ? memory((size_t)n * sizeof *out) : NULL;
	for (int64_t i = 0; i < n && x; i++)
		out[i] = (double)x[i];
	return out;
}

static Delta reference(Backward *b)
{
	const GdnReference f = gdn_run_reference(own(b)->r);
	const int64_t rows = f.batch * f.tokens, keys = rows * f.qk_heads * f.key_dim, values = rows * f.value_heads * f.value_dim;
	Delta d = { .batch = f.batch, .tokens = f.tokens, .qk_heads = f.qk_heads, .value_heads = f.value_heads, .key_dim = f.key_dim,
		.value_dim = f.value_dim, .gate_dim = 1, .sequences = f.sequences, .offsets = f.offsets, .scale = f.scale, .l2norm = f.l2norm,
		.sigmoid_beta = f.sigmoid_beta, .twice_beta = f.twice_beta, .gate = f.raw_gate ? DELTA_GATE_SOFTPLUS : DELTA_GATE_LOG };
	d.q = as_doubles(f.q, keys);
	d.k = as_doubles(f.k, keys);
	d.v = as_doubles(f.v, values);
	d.g = as_doubles(f.g, rows * f.value_heads);
	d.beta = as_doubles(f.beta, rows * f.value_heads);
	d.a_log = as_doubles(f.raw_gate ? f.a_log : NULL, f.value_heads);
	d.dt_bias = as_doubles(f.raw_gate ? f.dt_bias : NULL, f.value_heads);
	d.initial = as_doubles(f.initial, backward_elements(b, DH0));
	own(b)->inputs = d;
	return d;
}

/* FLA's contract: .008, .02 for the gradients of gates and beta, three times that in a chunk.  Errors that the tokens of a chunk share add up in da_log and ddt_bias. */
static void allowed(const Backward *b, int which, double *overall, double *chunk)
{
	const GdnRow *row = &own(b)->r->row;
	const bool small = which == DG || which == DBETA;
	*overall = which >= DA ? fmax(.02, 3 * row->overall) : small ? fmax(.02, row->overall) : row->overall != 0 ? row->overall : .008;
	*chunk = which >= DA ? 0 : row->chunk != 0 ? row->chunk : 3 * *overall;
}

/* ---- making ---- */

static void release(Backward *b)
{
	const Delta *d = &own(b)->inputs;
	const double *const all[] = { d->q, d->k, d->v, d->g, d->beta, d->a_log, d->dt_bias, d->initial };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		free((void *)all[i]);
	gdn_run_free(own(b)->r);
	free(b);
}

static const BackwardOperator gdn = { workspace_bytes, call, call_prepared, reference, allowed, release, 0 };

static GdnBackward *make(const GdnRow *row)
{
	GdnBackward *b = memory(sizeof *b);
	GdnRun *r = gdn_run_make(row);
	*b = (GdnBackward){ .r = r, .all = { .op = &gdn, .field = BACKWARD_FIELDS(&r->p, &b->p), .input = { &r->q, &r->k, &r->v, &r->g, &r->beta },
		.sequences = r->sequences, .offsets = r->offsets, .key_dim = r->row.in.key_dim, .value_dim = r->row.in.value_dim, .options = row->options,
		.processors = row->processors, .v_first = row->state_v_first, .strided = row->strided } };
	tilekern_gdn_backward_params_init(&b->p);
	b->p.forward = &r->p;
	if (row->save)
		gdn_run_forward(r);
	backward_make(&b->all, row->in.seed, row->gradients != 0 ? row->gradients : 1, row->states == GDN_FINAL || row->states == GDN_BOTH);
	if (row->by_turns)
		backward_turn_sizes(&b->all);
	return b;
}

/* ---- kinds of tests ---- */

static void run_gradients(const void *row) { backward_check(&make(row)->all); }
static void run_of_ends(const void *row) { backward_of_ends(&make(row)->all); }
static void run_same_bits(const void *row) { backward_same_bits(&make(row)->all); }
static void run_alone(const void *row) { backward_alone(&make(row)->all); }
static void run_zeros(const void *row) { backward_zeros(&make(row)->all); }
static void run_not_finite(const void *row) { backward_not_finite(&make(row)->all); }
static void run_causal(const void *row) { backward_causal(&make(row)->all); }

static void run_odd_strides(const void *row)
{
	GdnBackward *b = make(row);
	forward_odd_strides(gdn_run_as_forward(b->r).tensor);
	backward_odd_strides(&b->all);
}

static void run_one_buffer(const void *row) { backward_one_buffer(&make(row)->all); }
static void run_wild(const void *row)
{
	GdnBackward *b = make(row);
	const Forward f = gdn_run_as_forward(b->r);
	backward_wild(&b->all, &f);
}

static void run_nothing(const void *row) { backward_nothing(&make(row)->all); }

/* beta of 0, and so small that its square is nothing, in every `every`th of all. */
static void small_beta(const void *row, int64_t every)
{
	GdnBackward *b = make(row);
	GdnRun *r = b->r;
	for (int64_t i = 0; i < tokens_elements(&r->beta); i += every)
		r->in.beta[i] = i % 2 == 0 ? 0 : 1e-7F;
	gdn_run_upload(r, &r->beta, r->in.beta);
	r->p.beta = tokens_address(&r->beta);
	if (r->row.save)
		gdn_run_forward(r);
	backward_check(&b->all);
}

static void run_small_beta(const void *row) { small_beta(row, 3); }
static void run_few_small_beta(const void *row) { small_beta(row, 37); }

/* ---- refusals ---- */

static void expect_refused(const GdnBackward *b, const tilekern_gdn_backward_params *p, const char *const *words)
{
	tilekern_gdn_call *untouched = (tilekern_gdn_call *)b->r, *call = untouched;
	assert_int_equal(tilekern_gdn_backward_prepare(b->r->gdn, p, &call), TILERT_EINVAL);
	assert_ptr_equal(call, untouched);
	expect_words(tilekern_last_error(), words);
}

static void run_refusals(const void *row)
{
	GdnBackward *b = make(row);
	tilekern_gdn_backward_params p;
	tilekern_gdn_params f;
#define REFUSED(change, ...) (p = b->p, f = b->r->p, p.forward = &f, (void)(change), expect_refused(b, &p, (const char *[]){ __VA_ARGS__, NULL }))
	REFUSED(p.size = 8, "tilekern_gdn_backward_prepare: ", "tilekern_gdn_backward_params.size is 8");
	REFUSED(p.forward = NULL, "forward is NULL");
	REFUSED(f.size = 8, "tilekern_gdn_params.size is 8");
	REFUSED(f.tokens = -3, "tokens", "-3");
	REFUSED(f.value_dim = 264, "value_dim", "264", "256");
	REFUSED(f.key_dim = 264, "key_dim", "264", "256");
	REFUSED(f.key_dim = 60, "60", "multiples of 8");
	REFUSED(f.dtype = TILERT_F32, "dtype", "f32", "bf16");
	REFUSED(f.q_strides = ((tilekern_strides){ 63, 0, -1 }), "q_strides");
	REFUSED(f.dtype = (tilert_dtype)99, "dtype is 99", "bf16");
	REFUSED(f.gate_dtype = (tilert_dtype)0, "gate_dtype is 0", "bf16");
	REFUSED(f.beta_dtype = (tilert_dtype)-1, "beta_dtype is -1", "bf16");
	REFUSED(f.seqlens_dtype = (tilert_dtype)99, "seqlens_dtype is 99", "i32");
	REFUSED((f.batch = 1, f.cu_seqlens = p.dout + 2, f.sequences = 0), "cu_seqlens is at", "4");
	REFUSED(f.u = p.workspace, "states, u and records", "0x0", "all");
	REFUSED(p.da_log = p.workspace, "da_log", "0x0");
	REFUSED(p.ddt_bias = p.workspace, "ddt_bias", "0x0");
	REFUSED(p.dout = 0, "dout is 0");
	REFUSED(f.v = 0, "v is 0");
	REFUSED(p.dq += 8, "dq is at", "16");
	REFUSED(p.dinitial_state += 4, "dinitial_state is at", "16");
	REFUSED(p.dg += 1, "dg is at", "4");
	REFUSED((p.dk_strides = b->all.token[DK].strides, p.dk_strides.token += 4), "dk_strides.token", "multiple of 8");
	REFUSED(p.dq = f.q, "q (", "dq (", "overlap");
	REFUSED(p.dv = p.dout + 256, "dout (", "dv (", "overlap");
	REFUSED(p.dbeta = p.workspace, "workspace", "dbeta", "overlap");
	REFUSED(p.dinitial_state = f.initial_state, "initial_state", "dinitial_state", "overlap");
	REFUSED(p.workspace_bytes -= 1, "workspace_bytes", "are needed");
	REFUSED(p.workspace += 16, "workspace is at", "256");
	REFUSED(p.workspace = 0, "workspace is 0");
#undef REFUSED
	backward_release(&b->all);
}

/* ---- random calls ---- */

static void pack(Random *r, GdnRow *row, int lengths[5])
{
	for (int i = 0; i < 4; i++)
		lengths[i] = (int)pick(r, toss(r) ? 80 : 400);
	lengths[4] = -1;
	row->lengths = lengths;
	row->lengths_i64 = toss(r);
	row->spare = 1 + (int)pick(r, 70);
	row->in.batch = 1;
	row->in.tokens = 0;
}

static GdnRow random_row(Random *r, int lengths[5])
{
	static const unsigned options[] = { 0, NORM, NORM | RAW, NORM | RAW | SIGMOID, RAW | TWICE, NORM | TWICE };
	static const tilert_dtype types[] = { TILERT_F32, TILERT_BF16, TILERT_F16 };
	static const float sizes[] = { 1, 1e-6F, 1e-4F, 1e2F };
	GdnRow row = { .in = { .batch = 1 + pick(r, 2), .tokens = 1 + pick(r, 300), .qk_heads = 1 + pick(r, 2), .key_dim = 8 + 8 * pick(r, toss(r) ? 16 : 32),
		.value_dim = 8 + 8 * pick(r, toss(r) ? 16 : 32), .gates = (GdnGates)pick(r, GDN_GATES_RAW), .keys = toss(r) && toss(r) ? GDN_KEYS_SHORT : GDN_KEYS_RANDOM, .fp16 = toss(r), .seed = random_bits(r) },
		.states = (GdnStates)pick(r, 4), .state_v_first = toss(r), .strided = toss(r), .options = options[pick(r, 6)], .save = toss(r),
		.split = (tilekern_split)pick(r, 4), .processors = 2u << pick(r, 4), .gate_type = types[pick(r, 3)], .beta_type = types[pick(r, 3)],
		.a_log_type = types[pick(r, 3)], .dt_bias_type = types[pick(r, 3)], .chunk = 10 /* few channels, few tokens */ };
	row.overall = row.in.keys == GDN_KEYS_SHORT ? .2 /* equal keys: with a beta of up to 2 a state is what is left of sums that cancel */ : .015;
	row.in.value_heads = row.in.qk_heads * (1 + pick(r, 3));
	row.gradients = sizes[pick(r, 4)];
	row.by_turns = row.gradients == 1 && toss(r);
	row.state_bf16 = toss(r);
	row.pool = pool_random(r);
	row.pool.in_place = false; /* the forward's that saves would change the states */
	row.pool.checkpoints = POOL_NO_CHECKPOINTS;
	if (toss(r))
		pack(r, &row, lengths);
	return row;
}

static void run_random(const void *unused)
{
	int lengths[5];
	bool named;
	Random r;
	(void)unused;
	const int calls = random_calls(&r, 2, 4, &named);
	for (int i = 0; i < calls; i++) {
		GdnRow row = random_row(&r, lengths);
		if (!random_runs(i))
			continue;
		if (named)
			print_message("%d: b%lld t%lld h%lld/%lld k%lld v%lld gates %d options %x states %d split %d of %u%s%s%s%s\n", i, (long long)row.in.batch,
				(long long)row.in.tokens, (long long)row.in.qk_heads, (long long)row.in.value_heads, (long long)row.in.key_dim, (long long)row.in.value_dim,
				(int)row.in.gates, row.options, (int)row.states, (int)row.split, row.processors, row.strided ? " strided" : "", row.lengths ? " packed" : "",
				row.save ? " saved" : "", row.in.fp16 ? " f16" : "");
		run_gradients(&row);
	}
}

size_t gdn_backward_cases(NumericCase *out)
{
	static const int mixed[] = { 40, 0, 1, 65, 33, 130, -1 }, few[] = { 33, 0, 66, -1 }, long_ones[] = { 300, 0, 550, 20, -1 }, longest[] = { 300, 5000, 0, 4200, -1 }, no_lengths[] = { -1 };
#define IN(...) .in = { __VA_ARGS__ }
	static const struct { const char *name; void (*run)(const void *); GdnRow row; } cases[] = {
		{ "mild", run_gradients, { IN(.tokens = 173, .qk_heads = 2, .seed = 1) } },
		{ "states", run_gradients, { IN(.batch = 2, .tokens = 77, .seed = 2), .states = GDN_BOTH } },
		{ "of_final_states_alone", run_of_ends, { IN(.tokens = 70, .value_heads = 2, .key_dim = 64, .value_dim = 40, .seed = 81), .options = NORM, .states = GDN_FINAL } },
		{ "states_v_first", run_gradients, { IN(.tokens = 65, .seed = 3), .states = GDN_BOTH, .state_v_first = true } },
		{ "no_decay", run_gradients, { IN(.tokens = 200, .gates = GDN_GATES_ZERO, .seed = 4), .states = GDN_BOTH } },
		{ "-5", run_gradients, { IN(.tokens = 100, .gates = GDN_GATES_STRONG, .seed = 5), .states = GDN_BOTH } },
		{ "resets", run_gradients, { IN(.tokens = 200, .gates = GDN_GATES_MIXED, .seed = 6), .states = GDN_BOTH } },
		{ "positive", run_gradients, { IN(.tokens = 200, .keys = GDN_KEYS_POSITIVE, .seed = 7) } },
		{ "positive_no_decay", run_gradients, { IN(.tokens = 200, .keys = GDN_KEYS_POSITIVE, .gates = GDN_GATES_ZERO, .seed = 8) } },
		{ "norm", run_gradients, { IN(.tokens = 100, .seed = 9), .options = NORM, .states = GDN_BOTH } },
		{ "grouped", run_gradients, { IN(.tokens = 130, .qk_heads = 2, .value_heads = 6, .seed = 10), .options = NORM } },
		{ "everything", run_gradients, { IN(.batch = 2, .tokens = 99, .value_heads = 2, .seed = 11), .options = NORM | RAW | TWICE, .states = GDN_BOTH } },
		{ "raw_16_bits", run_gradients, { IN(.tokens = 130, .value_heads = 2, .gate16 = true, .beta16 = true, .seed = 12), .options = NORM | RAW | SIGMOID,
			.states = GDN_BOTH } },
		{ "raw_without_bias", run_gradients, { IN(.tokens = 70, .seed = 13), .options = RAW, .without_dt_bias = true, .a_log_type = TILERT_F16,
			.gate_type = TILERT_F16, .beta_type = TILERT_F16 } },
		{ "packed", run_gradients, { .lengths = mixed, .spare = 30, .states = GDN_BOTH, IN(.value_heads = 2, .seed = 14) } },
		{ "packed_by_length", run_gradients, { .lengths = mixed, .spare = 30, .states = GDN_BOTH, IN(.value_heads = 2, .seed = 14), .processors = 3 } },
		{ "packed_by_length_K64_saved", run_gradients, { .lengths = few, .lengths_i64 = true, .save = true, IN(.value_heads = 4, .key_dim = 64, .value_dim = 40, .seed = 35), .processors = 3 } },
		{ "packed_by_length_alone", run_alone, { .lengths = mixed, IN(.qk_heads = 2, .value_heads = 2, .seed = 143), .states = GDN_BOTH, .split = TILEKERN_SPLIT_OFF, .processors = 3 } },
		{ "packed_i64_everything", run_gradients, { .lengths = mixed, .spare = 70, .lengths_i64 = true, .options = NORM | RAW | SIGMOID, .states = GDN_BOTH,
			IN(.qk_heads = 2, .value_heads = 4, .beta16 = true, .seed = 15) } },
		{ "strides_of_single_things", run_odd_strides, { IN(.tokens = 70, .seed = 18), .states = GDN_BOTH } },
		{ "strided", run_gradients, { IN(.batch = 2, .tokens = 70, .qk_heads = 2, .value_heads = 4, .seed = 16), .strided = true } },
		{ "K64_V96", run_gradients, { IN(.tokens = 100, .key_dim = 64, .value_dim = 96, .seed = 17), .states = GDN_BOTH, .options = NORM } },
		{ "K40_V56_f16", run_gradients, { .lengths = mixed, IN(.qk_heads = 2, .value_heads = 4, .key_dim = 40, .value_dim = 56, .keys = GDN_KEYS_RAW, .fp16 = true, .seed = 67),
			.options = NORM | SIGMOID, .states = GDN_BOTH, .overall = .003 } },
		{ "K40_V56_f16_saved", run_gradients, { IN(.tokens = 150, .value_heads = 3, .key_dim = 40, .value_dim = 56, .keys = GDN_KEYS_RAW, .fp16 = true, .seed = 68),
			.options = NORM | RAW, .states = GDN_BOTH, .save = true, .overall = .003 } },
		{ "K64_V128_saved_v_first_same_bits", run_same_bits, { .lengths = few, .spare = 5, .save = true, .state_v_first = true, .options = NORM | RAW | TWICE,
			IN(.value_heads = 2, .key_dim = 64, .value_dim = 128, .seed = 69), .states = GDN_BOTH } },
		{ "K48_V64_cut", run_gradients, { .lengths = long_ones, .spare = 9, IN(.key_dim = 48, .value_dim = 64, .gates = GDN_GATES_MIXED, .seed = 70), .states = GDN_BOTH, .processors = 16 } },
		{ "K72_V8", run_gradients, { IN(.tokens = 100, .key_dim = 72, .value_dim = 8, .seed = 18), .states = GDN_BOTH, .state_v_first = true, .overall = .01 } },
		{ "K96_V192", run_gradients, { IN(.tokens = 100, .value_heads = 2, .key_dim = 96, .value_dim = 192, .seed = 44), .states = GDN_BOTH, .options = NORM } },
		{ "V256_packed_everything", run_gradients, { .lengths = mixed, .spare = 9, .options = NORM | RAW | SIGMOID, .states = GDN_BOTH, .state_v_first = true,
			IN(.value_heads = 2, .value_dim = 256, .seed = 45) } },
		{ "V136_cut", run_gradients, { IN(.tokens = 700, .value_dim = 136, .seed = 46), .states = GDN_BOTH, .processors = 32 } },
		{ "K256_V256", run_gradients, { IN(.tokens = 140, .value_heads = 2, .key_dim = 256, .value_dim = 256, .seed = 58), .states = GDN_BOTH, .options = NORM } },
		{ "K136_V72_grouped_raw", run_gradients, { .lengths = mixed, .spare = 9, .options = NORM | RAW | SIGMOID, .states = GDN_BOTH, .state_v_first = true,
			IN(.qk_heads = 2, .value_heads = 6, .key_dim = 136, .value_dim = 72, .seed = 59) } },
		{ "K192_small_beta", run_small_beta, { IN(.batch = 2, .tokens = 101, .key_dim = 192, .value_dim = 64, .seed = 60), .states = GDN_BOTH, .strided = true } },
		{ "K200_saved", run_gradients, { IN(.tokens = 200, .value_heads = 2, .gates = GDN_GATES_MIXED, .key_dim = 200, .value_dim = 136, .seed = 61), .states = GDN_BOTH, .save = true } },
		{ "K256_saved_v_first_same_bits", run_same_bits, { .lengths = few, .spare = 5, .save = true, .state_v_first = true, .options = NORM | RAW | TWICE,
			IN(.value_heads = 2, .key_dim = 256, .value_dim = 40, .seed = 62), .states = GDN_BOTH } },
		{ "K144_f16", run_gradients, { .lengths = mixed, IN(.value_heads = 2, .key_dim = 144, .keys = GDN_KEYS_RAW, .fp16 = true, .seed = 63), .options = NORM | SIGMOID,
			.states = GDN_BOTH, .overall = .003 } },
		{ "K248_f16_saved", run_small_beta, { IN(.tokens = 99, .key_dim = 248, .value_dim = 128, .fp16 = true, .seed = 64), .save = true, .states = GDN_BOTH, .overall = .003 } },
		{ "K256_alone", run_alone, { .lengths = few, IN(.qk_heads = 2, .value_heads = 4, .key_dim = 256, .value_dim = 64, .seed = 65), .states = GDN_BOTH,
			.split = TILEKERN_SPLIT_INVARIANT } },
		{ "one_token", run_gradients, { IN(.tokens = 1, .seed = 19), .states = GDN_BOTH, .overall = .01 } },
		{ "one_token_raw", run_gradients, { IN(.tokens = 1, .value_heads = 2, .seed = 66), .options = NORM | RAW, .overall = .01 } },
		{ "64_tokens", run_gradients, { IN(.tokens = 64, .seed = 20) } },
		{ "small_beta", run_small_beta, { IN(.tokens = 101, .value_heads = 2, .seed = 21), .options = NORM, .states = GDN_BOTH } },
		/* More items than the CTAs of backward_beta.tile look at in one go, most without any. */
		{ "few_small_beta", run_few_small_beta, { IN(.batch = 45, .tokens = 5, .value_heads = 3, .key_dim = 64, .value_dim = 64, .seed = 24), .processors = 1 } },
		{ "small_beta_packed", run_small_beta, { .lengths = mixed, .spare = 5, .states = GDN_BOTH, .strided = true, IN(.seed = 22), .chunk = 1 } },
		{ "tiny", run_gradients, { .gradients = 1e-6F, IN(.tokens = 130, .seed = 23), .states = GDN_BOTH } },
		{ "large", run_gradients, { .gradients = 1e3F, IN(.tokens = 130, .seed = 24), .states = GDN_BOTH } },
		{ "pool", run_gradients, { .lengths = mixed, .pool = { .slots = true, .has = true }, .states = GDN_BOTH, IN(.seed = 25) } },
		{ "cut", run_gradients, { IN(.tokens = 700, .seed = 26), .states = GDN_BOTH, .processors = 16 } },
		{ "cut_strong", run_gradients, { IN(.tokens = 700, .value_heads = 2, .gates = GDN_GATES_STRONG, .seed = 30), .states = GDN_BOTH, .processors = 16 } },
		{ "cut_patches", run_gradients, { IN(.batch = 2, .tokens = 1400, .gates = GDN_GATES_PATCHES, .seed = 31), .states = GDN_BOTH, .processors = 16 } },
		{ "cut_packed", run_gradients, { .lengths = long_ones, .spare = 9, IN(.gates = GDN_GATES_MIXED, .seed = 32), .states = GDN_BOTH, .processors = 16 } },
		{ "cut_exact", run_gradients, { .lengths = long_ones, IN(.gates = GDN_GATES_STRONG, .seed = 33), .states = GDN_BOTH, .split = TILEKERN_SPLIT_EXACT,
			.processors = 16 } },
		{ "same_bits", run_same_bits, { .lengths = few, .spare = 5, IN(.value_heads = 2, .seed = 27), .options = NORM | RAW | SIGMOID, .states = GDN_BOTH } },
		{ "alone", run_alone, { .lengths = long_ones, IN(.qk_heads = 2, .value_heads = 4, .seed = 49), .states = GDN_BOTH, .split = TILEKERN_SPLIT_OFF,
			.processors = 16 } },
		{ "alone_invariant", run_alone, { .lengths = longest, IN(.gates = GDN_GATES_MIXED, .seed = 50), .states = GDN_BOTH, .split = TILEKERN_SPLIT_INVARIANT,
			.processors = 16 } },
		{ "alone_invariant_no_decay", run_alone, { .lengths = longest, IN(.gates = GDN_GATES_ZERO, .seed = 51), .states = GDN_BOTH, .split = TILEKERN_SPLIT_INVARIANT,
			.processors = 16 } },
		{ "saved", run_gradients, { IN(.batch = 2, .tokens = 99, .value_heads = 2, .seed = 34), .save = true, .states = GDN_BOTH, .options = NORM | RAW | SIGMOID } },
		{ "saved_v_first_packed", run_gradients, { .lengths = mixed, .spare = 70, .save = true, .states = GDN_BOTH, .state_v_first = true, IN(.seed = 35) } },
		{ "saved_cut", run_gradients, { .lengths = long_ones, .spare = 3, .save = true, .states = GDN_BOTH, IN(.gates = GDN_GATES_MIXED, .seed = 36), .processors = 16 } },
		{ "saved_cut_mild", run_gradients, { IN(.tokens = 700, .seed = 57), .save = true, .states = GDN_BOTH, .processors = 16 } },
		{ "saved_same_bits", run_same_bits, { .lengths = few, .spare = 5, .save = true, IN(.value_heads = 2, .seed = 37), .states = GDN_BOTH } },
		{ "saved_K64_V96_small_beta", run_small_beta, { IN(.tokens = 100, .key_dim = 64, .value_dim = 96, .seed = 38), .save = true, .states = GDN_BOTH } },
		{ "saved_V256_same_bits", run_same_bits, { .lengths = few, .save = true, IN(.value_heads = 2, .value_dim = 256, .seed = 47), .states = GDN_BOTH } },
		{ "saved_V200_small_beta", run_small_beta, { IN(.tokens = 100, .key_dim = 64, .value_dim = 200, .seed = 48), .save = true, .states = GDN_BOTH, .state_v_first = true } },
		{ "f16", run_gradients, { IN(.tokens = 173, .qk_heads = 2, .fp16 = true, .seed = 39), .states = GDN_BOTH, .overall = .002 } },
		{ "f16_everything", run_gradients, { .lengths = mixed, .spare = 30, .options = NORM | RAW | TWICE, .states = GDN_BOTH, .state_f16 = true,
			IN(.qk_heads = 2, .value_heads = 4, .keys = GDN_KEYS_LONG, .fp16 = true, .gate16 = true, .beta16 = true, .seed = 40), .overall = .003, .chunk = .5 } },
		{ "f16_norms_of_any_size", run_gradients, { IN(.tokens = 150, .qk_heads = 2, .value_heads = 4, .keys = GDN_KEYS_RAW, .fp16 = true, .seed = 52),
			.options = NORM | SIGMOID, .states = GDN_BOTH, .overall = .003 } },
		{ "f16_norms_of_any_size_saved", run_gradients, { .lengths = mixed, IN(.keys = GDN_KEYS_RAW, .fp16 = true, .seed = 53), .options = NORM | RAW, .states = GDN_BOTH,
			.save = true, .overall = .003 } },
		{ "f16_saved", run_small_beta, { IN(.tokens = 99, .fp16 = true, .seed = 41), .save = true, .states = GDN_BOTH, .overall = .003 } },
		{ "f16_positive_no_decay", run_gradients, { IN(.tokens = 200, .keys = GDN_KEYS_POSITIVE, .gates = GDN_GATES_ZERO, .fp16 = true, .seed = 42), .overall = .003 } },
		{ "f16_1e-6", run_gradients, { .gradients = 1e-6F, IN(.tokens = 173, .qk_heads = 2, .value_heads = 4, .fp16 = true, .seed = 90), .states = GDN_BOTH, .overall = .002 } },
		{ "f16_1e-6_norm", run_gradients, { .gradients = 1e-6F, IN(.tokens = 150, .qk_heads = 2, .value_heads = 4, .keys = GDN_KEYS_RAW, .fp16 = true, .seed = 91),
			.options = NORM | SIGMOID, .states = GDN_BOTH, .overall = .003 } },
		{ "f16_1e-6_everything", run_gradients, { .gradients = 1e-6F, .lengths = mixed, .spare = 30, .options = NORM | RAW | TWICE, .states = GDN_BOTH, .state_f16 = true, .strided = true,
			IN(.qk_heads = 2, .value_heads = 4, .keys = GDN_KEYS_LONG, .fp16 = true, .gate16 = true, .beta16 = true, .seed = 92), .overall = .003, .chunk = .5 } },
		{ "f16_1e-6_saved_small_beta", run_small_beta, { .gradients = 1e-6F, IN(.tokens = 99, .value_heads = 2, .fp16 = true, .seed = 93), .save = true, .states = GDN_BOTH, .overall = .003 } },
		{ "f16_1e-6_no_decay", run_gradients, { .gradients = 1e-6F, IN(.tokens = 200, .keys = GDN_KEYS_POSITIVE, .gates = GDN_GATES_ZERO, .fp16 = true, .seed = 94),
			.states = GDN_BOTH, .overall = .003 } },
		{ "f16_1e-6_cut", run_gradients, { .gradients = 1e-6F, .lengths = long_ones, .spare = 9, IN(.gates = GDN_GATES_MIXED, .fp16 = true, .seed = 95), .states = GDN_BOTH,
			.processors = 16, .overall = .003 } },
		{ "f16_1e-6_K40_V56", run_gradients, { .gradients = 1e-6F, .lengths = mixed, IN(.qk_heads = 2, .value_heads = 4, .key_dim = 40, .value_dim = 56, .fp16 = true, .seed = 96),
			.options = NORM | RAW, .states = GDN_BOTH, .overall = .003, .chunk = .1 } },
		{ "f16_1e-6_K144_V72", run_small_beta, { .gradients = 1e-6F, .lengths = mixed, IN(.value_heads = 2, .key_dim = 144, .value_dim = 72, .fp16 = true, .seed = 97), .options = NORM,
			.states = GDN_BOTH, .overall = .003, .chunk = .1 } },
		{ "f16_1e-6_of_final_states_alone", run_of_ends, { .gradients = 1e-6F, IN(.tokens = 70, .value_heads = 2, .key_dim = 64, .value_dim = 40, .fp16 = true, .seed = 98), .options = NORM,
			.states = GDN_BOTH, .overall = .003 } },
		{ "f16_1e-4", run_gradients, { .gradients = 1e-4F, IN(.tokens = 173, .qk_heads = 2, .fp16 = true, .seed = 99), .states = GDN_BOTH, .overall = .002 } },
		{ "f16_1e-4_norm", run_gradients, { .gradients = 1e-4F, IN(.tokens = 150, .keys = GDN_KEYS_RAW, .fp16 = true, .seed = 100), .options = NORM | RAW, .states = GDN_BOTH,
			.save = true, .overall = .003 } },
		{ "f16_1e3", run_gradients, { .gradients = 1e3F, IN(.tokens = 173, .qk_heads = 2, .fp16 = true, .seed = 101), .states = GDN_BOTH, .overall = .002 } },
		{ "f16_1e3_norm", run_gradients, { .gradients = 1e3F, IN(.tokens = 150, .qk_heads = 2, .value_heads = 4, .keys = GDN_KEYS_RAW, .fp16 = true, .seed = 52),
			.options = NORM | SIGMOID, .states = GDN_BOTH, .overall = .003 } },
		{ "f16_1e3_K248", run_gradients, { .gradients = 1e3F, IN(.tokens = 99, .key_dim = 248, .value_dim = 128, .fp16 = true, .seed = 102), .options = NORM | RAW, .save = true,
			.states = GDN_BOTH, .overall = .003 } },
		{ "f16_sizes_by_turns", run_gradients, { .by_turns = true, .lengths = mixed, .spare = 9, IN(.qk_heads = 2, .value_heads = 4, .fp16 = true, .seed = 103), .options = NORM,
			.states = GDN_BOTH, .overall = .003, .chunk = .1 } },
		{ "f16_sizes_by_turns_batch", run_gradients, { .by_turns = true, IN(.batch = 3, .tokens = 70, .value_heads = 2, .key_dim = 64, .fp16 = true, .seed = 104), .options = NORM | RAW,
			.states = GDN_BOTH, .strided = true, .overall = .003 } },
		{ "f16_sizes_by_turns_alone", run_alone, { .by_turns = true, .lengths = long_ones, IN(.qk_heads = 2, .value_heads = 4, .fp16 = true, .seed = 105), .states = GDN_BOTH,
			.split = TILEKERN_SPLIT_INVARIANT, .processors = 16 } },
		{ "f16_1e-6_same_bits", run_same_bits, { .gradients = 1e-6F, .lengths = few, .spare = 5, IN(.value_heads = 2, .fp16 = true, .seed = 106), .options = NORM | RAW, .states = GDN_BOTH } },
		{ "f16_1e-6_one_buffer", run_one_buffer, { .gradients = 1e-6F, .lengths = mixed, .spare = 9, IN(.qk_heads = 2, .value_heads = 4, .value_dim = 72, .fp16 = true, .seed = 107),
			.states = GDN_BOTH } },
		{ "f16_1e-6_strides_of_single_things", run_odd_strides, { .gradients = 1e-6F, IN(.tokens = 70, .fp16 = true, .seed = 108), .states = GDN_BOTH, .overall = .003 } },
		{ "f16_causal", run_causal, { .gradients = 1e-6F, IN(.tokens = 130, .value_heads = 2, .fp16 = true, .seed = 109), .states = GDN_BOTH } },
		{ "f16_zeros", run_zeros, { .lengths = mixed, .spare = 9, IN(.value_heads = 2, .fp16 = true, .seed = 110), .options = NORM | RAW, .states = GDN_INITIAL } },
		{ "f16_not_finite", run_not_finite, { .gradients = 1e-6F, .lengths = few, IN(.qk_heads = 2, .value_heads = 4, .fp16 = true, .seed = 111), .states = GDN_BOTH } },
		{ "f16_wild_offsets", run_wild, { .gradients = 1e-6F, .lengths = mixed, .spare = 9, IN(.value_heads = 2, .key_dim = 64, .value_dim = 72, .fp16 = true, .seed = 112), .states = GDN_BOTH,
			.overall = .003, .chunk = .1 } },
		{ "sizes_by_turns", run_gradients, { .by_turns = true, .lengths = mixed, .spare = 9, IN(.value_heads = 2, .seed = 113), .options = NORM, .states = GDN_BOTH } },
		{ "causal", run_causal, { IN(.batch = 2, .tokens = 201, .qk_heads = 2, .value_heads = 4, .seed = 54), .options = NORM, .states = GDN_BOTH } },
		{ "causal_saved", run_causal, { IN(.tokens = 99, .gates = GDN_GATES_ZERO, .seed = 55), .save = true, .states = GDN_BOTH } },
		{ "one_buffer", run_one_buffer, { .lengths = mixed, .spare = 9, IN(.qk_heads = 2, .value_heads = 4, .value_dim = 72, .seed = 56), .states = GDN_BOTH } },
		{ "T4096_positive", run_gradients, { IN(.tokens = 4096, .key_dim = 64, .value_dim = 64, .keys = GDN_KEYS_POSITIVE, .seed = 57), .states = GDN_BOTH } },
		{ "wild_offsets", run_wild, { .lengths = mixed, .spare = 9, IN(.value_heads = 2, .key_dim = 64, .value_dim = 72, .seed = 75), .options = RAW, .states = GDN_BOTH } },
		{ "wild_offsets_cut", run_wild, { .lengths = long_ones, .lengths_i64 = true, IN(.seed = 76), .states = GDN_BOTH, .processors = 16 } },
		{ "random_calls", run_random, { IN(.seed = 43) } },
		{ "nothing_to_do", run_nothing, { IN(.batch = 2, .seed = 28), .states = GDN_BOTH } },
		{ "no_tokens", run_nothing, { IN(.batch = 2, .value_heads = 3, .seed = 128), .options = RAW, .states = GDN_BOTH } },
		{ "no_sequences", run_nothing, { .lengths = no_lengths, .spare = 70, IN(.value_heads = 2, .seed = 129), .options = NORM | RAW } },
		{ "refuses_wrong_arguments", run_refusals, { IN(.batch = 2, .tokens = 3, .qk_heads = 2, .seed = 29), .states = GDN_BOTH } },
	};
#undef IN
	size_t n = sizeof cases / sizeof cases[0];
	for (size_t i = 0; i < n; i++) {
		out[i] = numeric_case(cases[i].run, &cases[i].row, "backward_gdn_%s", cases[i].name);
	}
	return n;
}
