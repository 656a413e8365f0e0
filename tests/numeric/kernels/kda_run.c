#include "tests/numeric/kernels/kda_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/accuracy.h"
#include "tests/check/random.h"

enum { CHUNK = 64 };

static double *doubles(int64_t n) { return memory((size_t)(n > 0 ? n : 1) * sizeof(double)); }

/* ---- tensors of tokens ---- */

/* copied: by TMA. */
static TokenTensor tensor(const KdaRow *row, int64_t heads, int64_t width, bool copied, tilert_dtype dtype)
{
	TokenTensor t = tokens_layout((TokenShape){ row->batch, row->tokens, heads, width }, dtype, copied, row->strided);
	t.value = doubles(tokens_elements(&t));
	return t;
}

void kda_run_upload(KdaRun *r, TokenTensor *t) { tokens_upload_values(t, r->offsets[r->sequences]); }

float *kda_run_output(KdaRun *r) { return tokens_take(&r->o, "o", r->offsets[r->sequences]); }

/* ---- states ---- */

int64_t kda_run_state(const KdaRun *r) { return r->row.value_heads * r->row.key_dim * r->row.value_dim; }
int64_t kda_run_outputs(const KdaRun *r) { return r->row.batch * r->row.tokens * r->row.value_heads * r->row.value_dim; }

float *kda_run_final(KdaRun *r) { return pool_final(&r->pool); }

static void make_states(KdaRun *r, Random *random)
{
	const KdaRow *row = &r->row;
	const bool initial = row->states == KDA_INITIAL || row->states == KDA_BOTH;
	const int64_t n = r->sequences * kda_run_state(r);
	float *start = initial ? memory((size_t)n * sizeof *start) : NULL;
	for (int64_t i = 0; i < n && initial; i++)
		start[i] = (float)(row->values * 0.2 * (double)random_normal(random));
	r->pool = (Pool){ .spec = row->pool, .field = POOL_FIELDS(&r->p), .sequences = r->sequences, .heads = row->value_heads, .key_dim = row->key_dim,
		.value_dim = row->value_dim, .offsets = r->offsets, .type = row->state_bf16 ? TILERT_BF16 : row->state_fp16 ? TILERT_F16 : TILERT_F32,
		.v_first = row->state_v_first, .strided = row->strided, .offsets_i64 = row->lengths_i64, .initial = initial,
		.final = row->states == KDA_FINAL || row->states == KDA_BOTH, .start = start };
	pool_make(&r->pool, row->seed + 1);
	r->initial = doubles(n);
	for (int64_t i = 0; i < n; i++)
		r->initial[i] = initial ? (double)start[i] : 0;
}

/* ---- inputs ---- */

static void normalise(double *x, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (int64_t i = 0; i < n; i++)
		x[i] /= sqrt(sum) + 1e-30;
}

/* unlike: of collinear keys the first of so many is random; 0: none. */
static void fill_vectors(TokenTensor *t, KdaKey kind, bool keys, int unlike, Random *random)
{
	double *base = doubles(t->heads * t->width);
	for (int64_t i = 0; i < t->heads * t->width; i++)
		base[i] = (double)random_normal(random);
	for (int64_t i = 0; i < t->batch * t->tokens * t->heads; i++) {
		double *x = t->value + i * t->width, size = exp((double)random_normal(random));
		const bool collinear = kind == KDA_COLLINEAR && keys && !(unlike && i / t->heads % unlike == 0);
		for (int64_t j = 0; j < t->width; j++) {
			double normal = (double)random_normal(random);
			x[j] = kind == KDA_POSITIVE ? random_unit(random) : collinear ? base[i % t->heads * t->width + j] + 0.05 * normal : normal;
		}
		for (int64_t j = 0; j < t->width && kind == KDA_PAIR && keys; j++)
			x[j] = j == 0 ? 1 : j == 1 ? -1 : 0;
		if (kind != KDA_RAW_KEYS)
			normalise(x, t->width);
		for (int64_t j = 0; j < t->width && kind == KDA_RAW_KEYS; j++)
			x[j] *= size;
	}
	free(base);
}

static double log_decay(KdaGate kind, int64_t token, int64_t channel, double reset, Random *random)
{
	double normal = (double)random_normal(random), unit = random_unit(random);
	switch (kind) {
	case KDA_BOUNDED: return -5 / (1 + exp(3 - normal));
	case KDA_FIVE: return -5;
	case KDA_TENTH: return -.1;
	case KDA_FOUR: return -4 * unit;
	case KDA_TWENTY: return -20 * unit;
	case KDA_64: return -1.5 * unit;
	case KDA_96: return -.9 * unit;
	case KDA_HANDED: return channel == token % 2 ? -.1 : -3;
	case KDA_ANY: return -exp(3 * normal);
	case KDA_THOUSAND: return -1000;
	case KDA_RESETS: return reset < 1.0 / 16 ? -1000 : -log1p(exp(-4 - normal));
	case KDA_RARE: return reset < 1.0 / 300 ? -1000 : -log1p(exp(-4 - normal));
	case KDA_MILD: return -log1p(exp(-4 - normal));
	case KDA_WAVES: return token % 2048 < 1100 ? -log1p(exp(-4 - normal)) : 0;
	default: return 0;
	}
}

/* Before the formula. */
static double raw_gate(KdaGate kind, Random *random) { return kind == KDA_TWENTY ? 20 * random_unit(random) : 2 * (double)random_normal(random) - 2; }

static void fill_gates(const KdaRow *row, TokenTensor *g, Random *random)
{
	for (int64_t i = 0; i < g->batch * g->tokens * g->heads; i++) {
		double reset = random_unit(random);
		for (int64_t j = 0; j < g->width; j++)
			g->value[i * g->width + j] = row->options & TILEKERN_RAW_GATE ? raw_gate(row->gate, random) : log_decay(row->gate, i / g->heads, j, reset, random);
	}
}

static void fill_values(const KdaRow *row, KdaRun *r, Random *random)
{
	for (int64_t i = 0; i < kda_run_outputs(r); i++)
		r->v.value[i] = row->values * (row->keys == KDA_POSITIVE ? random_unit(random) : (double)random_normal(random));
	for (int64_t i = 0; i < row->batch * row->tokens * row->value_heads; i++) {
		double normal = (double)random_normal(random);
		r->beta.value[i] = row->options & TILEKERN_SIGMOID_BETA ? normal : row->keys == KDA_PAIR ? 2 : (row->to_two ? 2 : 1) / (1 + exp(-normal));
	}
}

static double *fill_parameters(Buffer *b, tilert_dtype dtype, int64_t n, Random *random)
{
	void *x = memory((size_t)n * sizeof(float));
	double *out = doubles(n);
	for (int64_t i = 0; i < n; i++) {
		element_store(dtype, x, i, 0.3 * (double)random_normal(random));
		out[i] = element_load(dtype, x, i);
	}
	*b = buffer_of(x, (size_t)n * tilert_dtype_size(dtype));
	free(x);
	return out;
}

/* ---- calls ---- */

static void set_default(int64_t *x, int64_t value) { *x = *x ? *x : value; }

static void fill_row(KdaRow *row)
{
	set_default(&row->batch, 1);
	set_default(&row->qk_heads, 1);
	set_default(&row->value_heads, row->qk_heads);
	set_default(&row->key_dim, 128);
	set_default(&row->value_dim, 128);
	for (const int *n = row->lengths; n && *n >= 0; n++)
		row->tokens += *n;
	row->tokens += row->spare;
	row->values = row->values != 0 ? row->values : 1;
	if (row->options & TILEKERN_L2NORM && row->keys == KDA_RANDOM)
		row->keys = KDA_RAW_KEYS;
}

static void make_tensors(KdaRun *r, Random *random)
{
	const KdaRow *row = &r->row;
	tilert_dtype io = row->fp16 ? TILERT_F16 : TILERT_BF16;
	r->q = tensor(row, row->qk_heads, row->key_dim, true, io);
	r->k = tensor(row, row->qk_heads, row->key_dim, true, io);
	r->v = tensor(row, row->value_heads, row->value_dim, true, io);
	r->o = tensor(row, row->value_heads, row->value_dim, true, io);
	const tilert_dtype other = row->crossed == row->fp16 ? TILERT_BF16 : TILERT_F16;
	r->g = tensor(row, row->value_heads, row->key_dim, true, row->gate16 ? other : TILERT_F32);
	r->beta = tensor(row, row->value_heads, 1, false, row->beta16 ? other : TILERT_F32);
	fill_vectors(&r->q, row->keys, false, 0, random);
	fill_vectors(&r->k, row->keys, true, row->unlike, random);
	fill_gates(row, &r->g, random);
	fill_values(row, r, random);
	TokenTensor *const inputs[] = { &r->q, &r->k, &r->v, &r->g, &r->beta };
	for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
		kda_run_upload(r, inputs[i]);
	r->o.buffer = buffer_poisoned(tokens_bytes(&r->o));
	r->rate = fill_parameters(&r->a_log, r->p.a_log_dtype, row->value_heads, random);
	r->bias = fill_parameters(&r->dt_bias, r->p.dt_bias_dtype, row->value_heads * row->key_dim, random);
}

static void fill_params(KdaRun *r)
{
	const KdaRow *row = &r->row;
	FORWARD_PARAMS(r);
	if (row->lower_bound < 0)
		r->p.lower_bound = row->lower_bound;
	r->p.a_log = row->options & TILEKERN_RAW_GATE && !row->without_a_log ? r->a_log.p : 0;
	r->p.dt_bias = row->options & TILEKERN_RAW_GATE && !row->without_dt_bias ? r->dt_bias.p : 0;
}

KdaRun *kda_run_make(const KdaRow *row)
{
	KdaRun *r = memory(sizeof *r);
	Random random;
	*r = (KdaRun){ .row = *row };
	tilekern_kda_params_init(&r->p);
	random_init(&random, row->seed);
	fill_row(&r->row);
	r->p.a_log_dtype = row->crossed || row->sixteen ? TILERT_BF16 : TILERT_F32;
	r->p.dt_bias_dtype = row->crossed || row->sixteen ? TILERT_F16 : TILERT_F32;
	r->offsets = offsets_of(row->lengths, r->row.batch, r->row.tokens, &r->sequences);
	if (row->lengths)
		r->cu = integers_of(r->offsets, r->sequences + 1, row->lengths_i64);
	make_tensors(r, &random);
	make_states(r, &random);
	fill_params(r);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), row->seed, row->processors));
	KDA_OK(tilekern_kda_open(numeric_device(), &r->kda));
	KDA_OK(tilekern_kda_workspace_bytes(r->kda, &r->p, &r->p.workspace_bytes));
	r->workspace = buffer_poisoned(r->p.workspace_bytes);
	r->p.workspace = r->workspace.p;
	return r;
}

void kda_run_free(KdaRun *r)
{
	TokenTensor *const tensors[] = { &r->q, &r->k, &r->v, &r->g, &r->beta, &r->o };
	const Buffer buffers[] = { r->a_log, r->dt_bias, r->cu, r->workspace };
	tilekern_kda_close(r->kda);
	pool_free(&r->pool);
	for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
		buffer_free(tensors[i]->buffer);
		free(tensors[i]->value);
	}
	for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
		buffer_free(buffers[i]);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), 1, 0));
	free(r->rate);
	free(r->bias);
	free(r->initial);
	free(r->pool.start);
	free(r->offsets);
	free(r);
}

void kda_run_poison(KdaRun *r)
{
	buffer_poison(r->o.buffer);
	buffer_poison(r->workspace);
	pool_poison(&r->pool);
}

void kda_run_forward(KdaRun *r)
{
	KDA_OK(tilekern_kda_forward(r->kda, &r->p, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	free(buffer_take(r->workspace)); /* looks at the guard */
}

/* ---- what a result is compared with ---- */

Delta kda_run_reference(const KdaRun *r)
{
	const KdaRow *row = &r->row;
	return (Delta){ .batch = row->batch, .tokens = row->tokens, .qk_heads = row->qk_heads, .value_heads = row->value_heads, .key_dim = row->key_dim,
		.value_dim = row->value_dim, .gate_dim = row->key_dim, .sequences = r->sequences, .offsets = row->lengths ? r->offsets : NULL,
		.scale = (double)row->scale, .l2norm = row->options & TILEKERN_L2NORM, .sigmoid_beta = row->options & TILEKERN_SIGMOID_BETA,
		.twice_beta = row->options & TILEKERN_TWICE_BETA, .bound = (double)r->p.lower_bound,
		.gate = !(row->options & TILEKERN_RAW_GATE) ? DELTA_GATE_LOG : row->options & TILEKERN_BOUNDED_GATE ? DELTA_GATE_BOUNDED : DELTA_GATE_SOFTPLUS,
		.q = r->q.value, .k = r->k.value, .v = r->v.value, .g = r->g.value, .beta = r->beta.value, .a_log = row->without_a_log ? NULL : r->rate,
		.dt_bias = row->without_dt_bias ? NULL : r->bias, .initial = r->initial };
}

static void expect_accurate(const KdaRun *r, const char *what, Accuracy a, double least)
{
	/* With a token or two everything hangs on a few roundings. */
	const bool few = r->offsets[r->sequences] < 16;
	double overall = r->row.overall != 0 ? r->row.overall : few ? 0.01 : 0.005;
	double chunk = r->row.chunk != 0 ? r->row.chunk : 3 * overall;
	char text[256];
	if (getenv("TILE_TEST_VERBOSE"))
		print_message("    %-12s %s\n", what, accuracy_text(&a, text, sizeof text));
	if (a.not_finite || ((!(a.rms_ratio < overall) || !(a.worst_ratio < chunk)) && !(few && a.max_abs < least)))
		fail_msg("%s: %s; allowed are %g and %g", what, accuracy_text(&a, text, sizeof text), overall, chunk);
}

/* The states of sequences that end after `tokens` of sequence n. */
static void reference_of_part(const KdaRun *r, int64_t n, int64_t tokens, double *state)
{
	const int64_t part[] = { r->offsets[n], r->offsets[n] + tokens };
	Delta ref = kda_run_reference(r);
	ref.tokens *= ref.batch;
	ref.batch = ref.sequences = 1;
	ref.offsets = part;
	ref.initial += n * kda_run_state(r);
	assert_true(delta_run(&ref, &(DeltaResult){ .state = state }));
}

static void check_checkpoints(KdaRun *r)
{
	const int64_t state = kda_run_state(r), rows = pool_checkpoint_rows(&r->pool);
	double *want = doubles(rows * state);
	float *got = pool_checkpoints(&r->pool);
	memset(want, 0, (size_t)(rows * state) * sizeof *want);
	for (int64_t n = 0, tokens, row; n < r->sequences; n++) {
		for (int64_t i = 0; pool_checkpoint(&r->pool, n, i, &tokens, &row); i++)
			reference_of_part(r, n, tokens, want + row * state);
	}
	expect_accurate(r, "checkpoints", accuracy_of_floats(want, got, (AccuracyShape){ rows, 1, r->row.value_heads, r->row.key_dim * r->row.value_dim, 1 }), 0);
	free(want);
	free(got);
}

void kda_run_check(KdaRun *r)
{
	const KdaRow *row = &r->row;
	int64_t n = r->sequences * kda_run_state(r);
	const Delta ref = kda_run_reference(r);
	DeltaResult want = { .o = doubles(kda_run_outputs(r)), .state = doubles(n) };
	float *o = kda_run_output(r), *final = kda_run_final(r);
	assert_true(delta_run(&ref, &want));
	for (int64_t i = 0; i < n; i++) {
		if (r->pool.to[i / kda_run_state(r)] < 0)
			want.state[i] = 0; /* not stored */
	}
	expect_accurate(r, "o", accuracy_of_packed_least(want.o, o, (AccuracyShape){ r->sequences, 0, row->value_heads, row->value_dim, CHUNK }, r->offsets, row->cancels ? 0.1 : 0), row->least);
	if (final)
		expect_accurate(r, "final state", accuracy_of_floats(want.state, final, (AccuracyShape){ r->sequences, 1, row->value_heads,
			row->key_dim * row->value_dim, 1 }), 0);
	if (r->row.pool.checkpoints != POOL_NO_CHECKPOINTS)
		check_checkpoints(r);
	free(o);
	free(final);
	free(want.o);
	free(want.state);
}

/* ---- as any operator's ---- */

static void call_any(void *r) { kda_run_forward(r); }
static void check_any(void *r) { kda_run_check(r); }
static void poison_any(void *r) { kda_run_poison(r); }
static void launch_any(void *call, tilert_stream s) { KDA_OK(tilekern_kda_launch(call, s)); }
static void destroy_any(void *call) { tilekern_kda_call_destroy(call); }

static void take_any(void *r)
{
	free(kda_run_output(r));
	free(kda_run_final(r));
}

static void *prepare_any(void *run)
{
	KdaRun *r = run;
	tilekern_kda_call *call;
	KDA_OK(tilekern_kda_prepare(r->kda, &r->p, &call));
	return call;
}

Forward kda_run_as_forward(KdaRun *r)
{
	return (Forward){ .run = r, .call = call_any, .check = check_any, .poison = poison_any, .take = take_any, .prepare = prepare_any, .launch = launch_any,
		.destroy = destroy_any, .tensor = FORWARD_TENSORS_OF(r), .pool = &r->pool, .cu = r->cu, .a_log = r->a_log, .dt_bias = r->dt_bias,
		.i64 = r->row.lengths_i64, .lengths = r->row.lengths, .tokens = r->row.tokens, .sequences = r->sequences, .offsets = r->offsets, .seed = r->row.seed };
}

void kda_run_checked(const void *row)
{
	KdaRun *r = kda_run_make(row);
	kda_run_forward(r);
	kda_run_check(r);
	kda_run_free(r);
}

void kda_run_with(const void *row, void (*test)(const Forward *))
{
	KdaRun *r = kda_run_make(row);
	const Forward f = kda_run_as_forward(r);
	test(&f);
	kda_run_free(r);
}
