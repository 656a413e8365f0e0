#include "tests/numeric/kernels/gdn_run.h"

#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/gdn_check.h"

/* ---- tensors ---- */

/* copied: by TMA. */
static TokenTensor tensor(const GdnRow *row, int64_t heads, int64_t width, bool copied, tilert_dtype dtype)
{
	return tokens_layout((TokenShape){ row->in.batch, row->in.tokens, heads, width }, dtype, copied, row->strided);
}

/* Of a type: x becomes what that has, too. */
static void *rounded(tilert_dtype dtype, float *x, int64_t n)
{
	void *data = memory((size_t)n * tilert_dtype_size(dtype));
	for (int64_t i = 0; i < n; i++) {
		element_store(dtype, data, i, (double)x[i]);
		x[i] = (float)element_load(dtype, data, i);
	}
	return data;
}

void gdn_run_upload(const GdnRun *r, TokenTensor *t, float *x)
{
	void *data = rounded(t->dtype, x, tokens_elements(t));
	tokens_upload(t, data, r->offsets[r->sequences]);
	free(data);
}

static Buffer of_heads(const GdnRun *r, float *x, tilert_dtype given)
{
	tilert_dtype dtype = given ? given : TILERT_F32;
	void *data = rounded(dtype, x, r->row.in.value_heads);
	Buffer b = buffer_of(data, (size_t)r->row.in.value_heads * tilert_dtype_size(dtype));
	free(data);
	return b;
}

int64_t gdn_run_state(const GdnRun *r) { return r->row.in.value_heads * r->row.in.key_dim * r->row.in.value_dim; }
int64_t gdn_run_outputs(const GdnRun *r) { return r->row.in.batch * r->row.in.tokens * r->row.in.value_heads * r->row.in.value_dim; }

/* ---- calls ---- */

int64_t gdn_run_slot(const GdnRun *r, int64_t sequence, int64_t chunk)
{
	return (r->row.lengths ? r->offsets[sequence] / GDN_CHUNK + sequence : sequence * ((r->row.in.tokens + GDN_CHUNK - 1) / GDN_CHUNK)) + chunk;
}

float *gdn_run_states(GdnRun *r)
{
	int64_t n = gdn_run_state(r), slots = tilekern_gdn_slots(&r->p);
	uint16_t *laid = buffer_take(r->states);
	float *out = memory((size_t)(slots * n) * sizeof *out);
	memset(out, 0, (size_t)(slots * n) * sizeof *out);
	for (int64_t s = 0; s < r->sequences; s++) {
		for (int64_t c = 0; c * GDN_CHUNK < r->offsets[s + 1] - r->offsets[s]; c++) {
			int64_t first = gdn_run_slot(r, s, c) * n;
			for (int64_t i = first; i < first + n; i++)
				out[i] = (float)element_load(r->q.dtype, laid, first + states_place(r->row.state_v_first, r->row.in.key_dim, r->row.in.value_dim, i - first));
			memset(laid + first, 0xff, (size_t)n * sizeof *laid);
		}
	}
	for (int64_t i = 0; i < slots * n; i++) {
		if (laid[i] != 0xffff)
			fail_msg("element %lld of the states, of no chunk, was written", (long long)i);
	}
	free(laid);
	return out;
}

static void set_default(int64_t *x, int64_t value)
{
	if (*x == 0)
		*x = value;
}

static void fill_row(GdnRow *row)
{
	set_default(&row->in.batch, 1);
	set_default(&row->in.qk_heads, 1);
	set_default(&row->in.value_heads, row->in.qk_heads);
	set_default(&row->in.key_dim, 128);
	set_default(&row->in.value_dim, 128);
	row->in.sequences = 0;
	for (const int *n = row->lengths; n && *n >= 0; n++) {
		row->in.tokens += *n;
		row->in.sequences++;
	}
	row->in.tokens += row->spare;
	row->in.with_initial = row->states == GDN_INITIAL || row->states == GDN_BOTH;
	row->in.initial_bf16 = row->state_bf16;
	if (row->options & TILEKERN_RAW_GATE)
		row->in.gates = GDN_GATES_RAW;
	if (row->options & TILEKERN_SIGMOID_BETA)
		row->in.betas = GDN_BETAS_RAW;
	if (row->options & TILEKERN_L2NORM && row->in.keys == GDN_KEYS_RANDOM)
		row->in.keys = GDN_KEYS_RAW;
}

static void make_pool(GdnRun *r)
{
	const GdnRow *row = &r->row;
	r->pool = (Pool){ .spec = row->pool, .field = POOL_FIELDS(&r->p), .sequences = r->sequences, .heads = row->in.value_heads, .key_dim = row->in.key_dim,
		.value_dim = row->in.value_dim, .offsets = r->offsets, .type = row->state_bf16 ? TILERT_BF16 : row->state_f16 ? TILERT_F16 : TILERT_F32,
		.v_first = row->state_v_first, .strided = row->strided, .offsets_i64 = row->lengths_i64, .initial = row->in.with_initial,
		.final = row->states == GDN_FINAL || row->states == GDN_BOTH, .start = r->in.initial };
	pool_make(&r->pool, row->in.seed + 1);
}

static void make_buffers(GdnRun *r)
{
	const GdnInputSpec *s = &r->row.in;
	tilert_dtype io = s->fp16 ? TILERT_F16 : TILERT_BF16;
	int64_t used = r->offsets[r->sequences];
	r->q = r->k = tensor(&r->row, s->qk_heads, s->key_dim, true, io);
	r->v = r->o = tensor(&r->row, s->value_heads, s->value_dim, true, io);
	r->g = tensor(&r->row, s->value_heads, 1, false, r->row.gate_type ? r->row.gate_type : s->gate16 ? io : TILERT_F32);
	r->beta = tensor(&r->row, s->value_heads, 1, false, r->row.beta_type ? r->row.beta_type : s->beta16 ? io : TILERT_F32);
	tokens_upload(&r->q, r->in.q16, used);
	tokens_upload(&r->k, r->in.k16, used);
	tokens_upload(&r->v, r->in.v16, used);
	gdn_run_upload(r, &r->g, r->in.g);
	gdn_run_upload(r, &r->beta, r->in.beta);
	r->o.buffer = buffer_poisoned(tokens_bytes(&r->o));
	r->a_log = of_heads(r, r->in.a_log, r->row.a_log_type);
	r->dt_bias = of_heads(r, r->in.dt_bias, r->row.dt_bias_type);
	make_pool(r);
}

static void make_saved(GdnRun *r)
{
	if (!r->row.save)
		return;
	const GdnInputSpec *s = &r->row.in;
	int64_t slots = r->row.lengths ? s->tokens / GDN_CHUNK + r->sequences : s->batch * ((s->tokens + GDN_CHUNK - 1) / GDN_CHUNK);
	GdnRow contiguous = r->row;
	assert_int_equal(tilekern_gdn_slots(&r->p), slots);
	contiguous.strided = false;
	r->u = tensor(&contiguous, s->value_heads, s->value_dim, true, r->o.dtype);
	r->u.buffer = buffer_poisoned(tokens_bytes(&r->u));
	r->states = buffer_poisoned((size_t)(slots * gdn_run_state(r)) * 2);
	r->records = buffer_poisoned((size_t)(slots * s->value_heads) * TILEKERN_GDN_RECORD_BYTES);
	r->p.states = r->states.p;
	r->p.u = r->u.buffer.p;
	r->p.records = r->records.p;
}

static void fill_params(GdnRun *r)
{
	const GdnRow *row = &r->row;
	FORWARD_PARAMS(r);
	r->p.a_log_dtype = row->a_log_type ? row->a_log_type : TILERT_F32;
	r->p.dt_bias_dtype = row->dt_bias_type ? row->dt_bias_type : TILERT_F32;
	r->p.a_log = row->options & TILEKERN_RAW_GATE ? r->a_log.p : 0;
	r->p.dt_bias = row->options & TILEKERN_RAW_GATE && !row->without_dt_bias ? r->dt_bias.p : 0;
}

GdnRun *gdn_run_make(const GdnRow *row)
{
	GdnRun *r = memory(sizeof *r);
	*r = (GdnRun){ .row = *row };
	tilekern_gdn_params_init(&r->p);
	fill_row(&r->row);
	assert_true(gdn_input_make(&r->in, &r->row.in));
	r->offsets = offsets_of(row->lengths, r->row.in.batch, r->row.in.tokens, &r->sequences);
	if (row->lengths)
		r->cu = integers_of(r->offsets, r->sequences + 1, row->lengths_i64);
	make_buffers(r);
	fill_params(r);
	make_saved(r);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), row->in.seed, row->processors));
	GDN_OK(tilekern_gdn_open(numeric_device(), &r->gdn));
	GDN_OK(tilekern_gdn_workspace_bytes(r->gdn, &r->p, &r->p.workspace_bytes));
	r->workspace = buffer_poisoned(r->p.workspace_bytes);
	r->p.workspace = r->workspace.p;
	return r;
}

void gdn_run_free(GdnRun *r)
{
	const Buffer all[] = { r->q.buffer, r->k.buffer, r->v.buffer, r->g.buffer, r->beta.buffer, r->o.buffer, r->a_log, r->dt_bias, r->cu,
		r->states, r->records, r->u.buffer, r->workspace };
	tilekern_gdn_close(r->gdn);
	pool_free(&r->pool);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		buffer_free(all[i]);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), 1, 0));
	gdn_input_free(&r->in);
	free(r->offsets);
	free(r);
}

void gdn_run_poison(GdnRun *r)
{
	buffer_poison(r->o.buffer);
	buffer_poison(r->workspace);
	const Buffer more[] = { r->states, r->records, r->u.buffer };
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
		if (more[i].p)
			buffer_poison(more[i]);
	}
	pool_poison(&r->pool);
}

void gdn_run_forward(GdnRun *r)
{
	GDN_OK(tilekern_gdn_forward(r->gdn, &r->p, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	free(buffer_take(r->workspace)); /* looks at the guard */
}

float *gdn_run_output(GdnRun *r)
{
	return tokens_take(&r->o, "o", r->offsets[r->sequences]);
}

float *gdn_run_final(GdnRun *r) { return pool_final(&r->pool); }

float *gdn_run_u(GdnRun *r)
{
	return tokens_take(&r->u, "u", r->offsets[r->sequences]);
}

GdnReference gdn_run_reference(const GdnRun *r)
{
	GdnReference ref = gdn_input_reference(&r->in);
	ref.sequences = r->sequences;
	ref.offsets = r->row.lengths ? r->offsets : NULL;
	ref.scale = (double)r->row.scale;
	if (r->row.without_dt_bias)
		ref.dt_bias = NULL;
	ref.l2norm = r->row.options & TILEKERN_L2NORM;
	ref.raw_gate = r->row.options & TILEKERN_RAW_GATE;
	ref.sigmoid_beta = r->row.options & TILEKERN_SIGMOID_BETA;
	ref.twice_beta = r->row.options & TILEKERN_TWICE_BETA;
	return ref;
}

/* ---- as any operator's ---- */

static void call_any(void *r) { gdn_run_forward(r); }
static void check_any(void *r) { gdn_check(r); }
static void poison_any(void *r) { gdn_run_poison(r); }
static void launch_any(void *call, tilert_stream s) { GDN_OK(tilekern_gdn_launch(call, s)); }
static void destroy_any(void *call) { tilekern_gdn_call_destroy(call); }

static void take_any(void *run)
{
	GdnRun *r = run;
	const Buffer saved[] = { r->states, r->records, r->u.buffer };
	free(gdn_run_output(r));
	free(gdn_run_final(r));
	for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++) {
		if (saved[i].p)
			free(buffer_take(saved[i]));
	}
}

static void *prepare_any(void *run)
{
	GdnRun *r = run;
	tilekern_gdn_call *call;
	GDN_OK(tilekern_gdn_prepare(r->gdn, &r->p, &call));
	return call;
}

Forward gdn_run_as_forward(GdnRun *r)
{
	return (Forward){ .run = r, .call = call_any, .check = check_any, .poison = poison_any, .take = take_any, .prepare = prepare_any, .launch = launch_any,
		.destroy = destroy_any, .tensor = FORWARD_TENSORS_OF(r), .pool = &r->pool, .cu = r->cu, .a_log = r->a_log, .dt_bias = r->dt_bias,
		.i64 = r->row.lengths_i64, .lengths = r->row.lengths, .tokens = r->row.in.tokens, .sequences = r->sequences, .offsets = r->offsets, .seed = r->row.in.seed };
}

void gdn_run_with(const void *row, void (*test)(const Forward *))
{
	GdnRun *r = gdn_run_make(row);
	const Forward f = gdn_run_as_forward(r);
	test(&f);
	gdn_run_free(r);
}
