#include "tests/numeric/kernels/kda_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/accuracy.h"
#include "tests/check/random.h"

enum { CHUNK = 64 };

static double *doubles(int64_t n) { return memory((size_t)(n > 0 ? n : 1) * sizeof(double)); }

/* ---- tensors of tokens ---- */

static TokenTensor tensor(const KdaRow *row, int64_t heads, int64_t width, tilert_dtype dtype)
{
	TokenTensor t = tokens_layout((TokenShape){ row->batch, row->tokens, heads, width }, dtype, width != 1, row->strided);
	t.value = doubles(tokens_elements(&t));
	return t;
}

void kda_run_upload(KdaRun *r, TokenTensor *t) { tokens_upload_values(t, r->offsets[r->sequences]); }

float *kda_run_output(KdaRun *r) { return tokens_take(&r->o, "o", r->offsets[r->sequences]); }

/* ---- states ---- */

int64_t kda_run_state(const KdaRun *r) { return r->row.value_heads * r->row.key_dim * r->row.value_dim; }
int64_t kda_run_outputs(const KdaRun *r) { return r->row.batch * r->row.tokens * r->row.value_heads * r->row.value_dim; }

/* Strided calls have states 16 bytes into their buffers: no kernel may count on more. */
static tilert_dtype state_dtype(const KdaRow *row) { return row->state_bf16 ? TILERT_BF16 : row->state_fp16 ? TILERT_F16 : TILERT_F32; }
static int64_t state_shift(const KdaRow *row) { return row->strided ? 16 / (int64_t)tilert_dtype_size(state_dtype(row)) : 0; }

/* Of a pool: elements between its slots, how many these are, where a sequence's states are; -1: nowhere. */
enum { NULL_SLOT = 0 };
static int64_t pool_stride(const KdaRun *r) { return kda_run_state(r) + (r->row.pool ? 24 : 0); }
static int64_t pool_slots(const KdaRun *r) { return r->row.pool ? 2 * r->sequences + 1 : r->sequences; }
static int64_t slot_of(const KdaRun *r, int64_t n) { return !r->row.pool ? n : n == 0 ? -1 : 2 * r->sequences + 1 - n; }
static bool begins(const KdaRun *r, int64_t n) { return slot_of(r, n) >= 0 && !(r->row.pool && n % 3 == 2); }

static size_t pool_bytes(const KdaRun *r)
{
	return (size_t)(state_shift(&r->row) + pool_slots(r) * pool_stride(r)) * tilert_dtype_size(state_dtype(&r->row));
}

/* Where element i of all states is. */
static int64_t pool_index(const KdaRun *r, int64_t i)
{
	int64_t one = kda_run_state(r);
	return state_shift(&r->row) + slot_of(r, i / one) * pool_stride(r) + states_place(r->row.state_v_first, r->row.key_dim, r->row.value_dim, i % one);
}

static void make_indices(KdaRun *r)
{
	int64_t *wide = memory((size_t)(r->sequences + 1) * sizeof *wide);
	int32_t *narrow = memory((size_t)(r->sequences + 1) * sizeof *narrow);
	unsigned char *has = memory((size_t)r->sequences + 1);
	for (int64_t n = 0; n < r->sequences; n++) {
		wide[n] = slot_of(r, n) < 0 ? NULL_SLOT : slot_of(r, n);
		narrow[n] = (int32_t)wide[n];
		has[n] = begins(r, n) ? 7 : 0;
	}
	has[0] = 1;
	r->indices = r->row.indices_i64 ? buffer_of(wide, (size_t)r->sequences * 8) : buffer_of(narrow, (size_t)r->sequences * 4);
	r->has = buffer_of(has, (size_t)r->sequences);
	free(wide);
	free(narrow);
	free(has);
}

static void make_states(KdaRun *r, Random *random)
{
	const bool initial = r->row.states == KDA_INITIAL || r->row.states == KDA_BOTH;
	int64_t n = r->sequences * kda_run_state(r);
	void *laid = memory(pool_bytes(r) + 1);
	r->initial = doubles(n);
	memset(r->initial, 0, (size_t)n * sizeof *r->initial);
	memset(laid, 0xff, pool_bytes(r));
	for (int64_t i = 0; i < n && initial; i++) {
		double x = r->row.values * 0.2 * (double)random_normal(random);
		if (!begins(r, i / kda_run_state(r)))
			continue;
		element_store(state_dtype(&r->row), laid, pool_index(r, i), x);
		r->initial[i] = element_load(state_dtype(&r->row), laid, pool_index(r, i));
	}
	if (initial)
		r->h0 = buffer_of(laid, pool_bytes(r));
	if (r->row.pool)
		make_indices(r);
	else if (r->row.states == KDA_FINAL || r->row.states == KDA_BOTH)
		r->ht = buffer_poisoned(pool_bytes(r));
	free(laid);
}

/* Zeros where a sequence has no slot; a pool's other slots must have their bytes still. */
float *kda_run_final(KdaRun *r)
{
	if (!r->p.final_state)
		return NULL;
	int64_t n = r->sequences * kda_run_state(r), size = (int64_t)tilert_dtype_size(state_dtype(&r->row));
	unsigned char *laid = buffer_take(r->row.pool ? r->h0 : r->ht);
	float *out = calloc((size_t)n + 1, sizeof *out);
	assert_non_null(out);
	for (int64_t i = 0; i < n; i++) {
		if (slot_of(r, i / kda_run_state(r)) < 0)
			continue;
		out[i] = (float)element_load(r->p.state_dtype, laid, pool_index(r, i));
		memset(laid + pool_index(r, i) * size, 0xff, (size_t)size);
	}
	for (size_t i = 0; i < pool_bytes(r); i++) {
		if (laid[i] != 0xff)
			fail_msg("byte %zu of the states, which belongs to no sequence, was written", i);
	}
	free(laid);
	return out;
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

static void fill_vectors(TokenTensor *t, KdaKey kind, bool keys, Random *random)
{
	double *base = doubles(t->heads * t->width);
	for (int64_t i = 0; i < t->heads * t->width; i++)
		base[i] = (double)random_normal(random);
	for (int64_t i = 0; i < t->batch * t->tokens * t->heads; i++) {
		double *x = t->value + i * t->width, size = exp((double)random_normal(random));
		for (int64_t j = 0; j < t->width; j++) {
			double normal = (double)random_normal(random);
			x[j] = kind == KDA_POSITIVE ? random_unit(random) : kind == KDA_COLLINEAR && keys ? base[i % t->heads * t->width + j] + 0.05 * normal : normal;
		}
		if (kind != KDA_RAW_KEYS)
			normalise(x, t->width);
		for (int64_t j = 0; j < t->width && kind == KDA_RAW_KEYS; j++)
			x[j] *= size;
	}
	free(base);
}

static double log_decay(KdaGate kind, double reset, Random *random)
{
	double normal = (double)random_normal(random), unit = random_unit(random);
	switch (kind) {
	case KDA_BOUNDED: return -5 / (1 + exp(3 - normal));
	case KDA_FIVE: return -5;
	case KDA_TENTH: return -.1;
	case KDA_FOUR: return -4 * unit;
	case KDA_TWENTY: return -20 * unit;
	case KDA_ANY: return -exp(3 * normal);
	case KDA_THOUSAND: return -1000;
	case KDA_RESETS: return reset < 1.0 / 16 ? -1000 : -log1p(exp(-4 - normal));
	case KDA_RARE: return reset < 1.0 / 300 ? -1000 : -log1p(exp(-4 - normal));
	case KDA_MILD: return -log1p(exp(-4 - normal));
	default: return 0;
	}
}

static void fill_gates(const KdaRow *row, TokenTensor *g, Random *random)
{
	for (int64_t i = 0; i < g->batch * g->tokens * g->heads; i++) {
		double reset = random_unit(random);
		for (int64_t j = 0; j < g->width; j++)
			g->value[i * g->width + j] = row->options & TILEKERN_RAW_GATE ? 2 * (double)random_normal(random) - 2 : log_decay(row->gate, reset, random);
	}
}

static void fill_values(const KdaRow *row, KdaRun *r, Random *random)
{
	for (int64_t i = 0; i < kda_run_outputs(r); i++)
		r->v.value[i] = row->values * (row->keys == KDA_POSITIVE ? random_unit(random) : (double)random_normal(random));
	for (int64_t i = 0; i < row->batch * row->tokens * row->value_heads; i++) {
		double normal = (double)random_normal(random);
		r->beta.value[i] = row->options & TILEKERN_SIGMOID_BETA ? normal : (row->to_two ? 2 : 1) / (1 + exp(-normal));
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

static void make_offsets(KdaRun *r)
{
	const int *lengths = r->row.lengths;
	for (r->sequences = lengths ? 0 : r->row.batch; lengths && lengths[r->sequences] >= 0;)
		r->sequences++;
	int32_t *small = memory((size_t)(r->sequences + 1) * sizeof *small);
	r->offsets = memory((size_t)(r->sequences + 1) * sizeof *r->offsets);
	small[0] = 0;
	r->offsets[0] = 0;
	for (int64_t n = 0; n < r->sequences; n++) {
		r->offsets[n + 1] = r->offsets[n] + (lengths ? lengths[n] : r->row.tokens);
		small[n + 1] = (int32_t)r->offsets[n + 1];
	}
	if (lengths)
		r->cu = r->row.lengths_i64 ? buffer_of(r->offsets, (size_t)(r->sequences + 1) * 8) : buffer_of(small, (size_t)(r->sequences + 1) * 4);
	free(small);
}

static void make_tensors(KdaRun *r, Random *random)
{
	const KdaRow *row = &r->row;
	tilert_dtype io = row->fp16 ? TILERT_F16 : TILERT_BF16;
	r->q = tensor(row, row->qk_heads, row->key_dim, io);
	r->k = tensor(row, row->qk_heads, row->key_dim, io);
	r->v = tensor(row, row->value_heads, row->value_dim, io);
	r->o = tensor(row, row->value_heads, row->value_dim, io);
	const tilert_dtype other = row->crossed == row->fp16 ? TILERT_BF16 : TILERT_F16;
	r->g = tensor(row, row->value_heads, row->key_dim, row->gate16 ? other : TILERT_F32);
	r->beta = tensor(row, row->value_heads, 1, row->beta16 ? other : TILERT_F32);
	fill_vectors(&r->q, row->keys, false, random);
	fill_vectors(&r->k, row->keys, true, random);
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
	tilekern_kda_params *p = &r->p;
	tilert_ptr shift = (tilert_ptr)((size_t)state_shift(row) * tilert_dtype_size(state_dtype(row)));
	p->batch = row->batch;
	p->tokens = row->tokens;
	p->sequences = row->lengths ? r->sequences : 0;
	p->qk_heads = row->qk_heads;
	p->value_heads = row->value_heads;
	p->key_dim = row->key_dim;
	p->value_dim = row->value_dim;
	p->dtype = r->q.dtype;
	p->gate_dtype = r->g.dtype;
	p->beta_dtype = r->beta.dtype;
	p->state_dtype = p->checkpoint_dtype = state_dtype(row);
	p->seqlens_dtype = row->lengths_i64 ? TILERT_I64 : TILERT_I32;
	p->state_v_first = row->state_v_first;
	p->options = row->options;
	p->scale = row->scale;
	if (row->lower_bound < 0)
		p->lower_bound = row->lower_bound;
	p->q = tokens_address(&r->q);
	p->k = tokens_address(&r->k);
	p->v = tokens_address(&r->v);
	p->g = tokens_address(&r->g);
	p->beta = tokens_address(&r->beta);
	p->o = tokens_address(&r->o);
	p->a_log = row->options & TILEKERN_RAW_GATE && !row->without_a_log ? r->a_log.p : 0;
	p->dt_bias = row->options & TILEKERN_RAW_GATE && !row->without_dt_bias ? r->dt_bias.p : 0;
	p->cu_seqlens = r->cu.p;
	p->initial_state = r->h0.p ? r->h0.p + shift : 0;
	p->final_state = r->row.pool ? p->initial_state : r->ht.p ? r->ht.p + shift : 0;
	if (row->pool) {
		p->state_indices = r->indices.p;
		p->indices_dtype = row->indices_i64 ? TILERT_I64 : TILERT_I32;
		p->null_slot = NULL_SLOT;
		p->state_slots = pool_slots(r);
		p->state_stride = pool_stride(r);
		p->has_initial_state = r->has.p;
	}
	if (!row->strided)
		return;
	p->q_strides = r->q.strides;
	p->k_strides = r->k.strides;
	p->v_strides = r->v.strides;
	p->o_strides = r->o.strides;
	p->g_strides = r->g.strides;
	p->beta_strides = r->beta.strides;
}

void kda_run_odd_strides(KdaRun *r)
{
	tilekern_strides *all[] = { &r->p.q_strides, &r->p.k_strides, &r->p.v_strides, &r->p.o_strides, &r->p.g_strides, &r->p.beta_strides };
	const TokenTensor *of[] = { &r->q, &r->k, &r->v, &r->o, &r->g, &r->beta };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		*all[i] = tokens_odd_strides(of[i]);
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
	make_offsets(r);
	make_tensors(r, &random);
	make_states(r, &random);
	fill_params(r);
	r->p.split = row->split;
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
	const Buffer buffers[] = { r->a_log, r->dt_bias, r->cu, r->h0, r->ht, r->indices, r->has, r->workspace };
	tilekern_kda_close(r->kda);
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
	free(r->offsets);
	free(r);
}

void kda_run_poison(KdaRun *r)
{
	buffer_poison(r->o.buffer);
	buffer_poison(r->workspace);
	if (r->ht.p)
		buffer_poison(r->ht);
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

void kda_run_check(KdaRun *r)
{
	const KdaRow *row = &r->row;
	int64_t n = r->sequences * kda_run_state(r);
	const Delta ref = kda_run_reference(r);
	DeltaResult want = { .o = doubles(kda_run_outputs(r)), .state = doubles(n) };
	float *o = kda_run_output(r), *final = kda_run_final(r);
	assert_true(delta_run(&ref, &want));
	for (int64_t i = 0; i < n; i++) {
		if (slot_of(r, i / kda_run_state(r)) < 0)
			want.state[i] = 0; /* not stored */
	}
	expect_accurate(r, "o", accuracy_of_packed(want.o, o, (AccuracyShape){ r->sequences, 0, row->value_heads, row->value_dim, CHUNK }, r->offsets), row->least);
	if (final)
		expect_accurate(r, "final state", accuracy_of_floats(want.state, final, (AccuracyShape){ r->sequences, 1, row->value_heads,
			row->key_dim * row->value_dim, 1 }), 0);
	free(o);
	free(final);
	free(want.o);
	free(want.state);
}
