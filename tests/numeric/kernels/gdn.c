/* gdn.c - the GDN forward against its recurrence, over everything that tilekern/gdn.h allows. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/accuracy.h"
#include "tests/check/float16.h"
#include "tests/check/random.h"
#include "tests/check/kda_ref.h"
#include "tests/numeric/kernels/gdn_run.h"

enum { RAW = TILEKERN_RAW_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA, TWICE = TILEKERN_TWICE_BETA };

/* ---- what a result is compared with ---- */

/* The contract is an RMS ratio of .005 over a tensor and three times that in a chunk (maths.md 4); fp16 keeps three bits more.  With a
 * token or two everything hangs on a few roundings. */
static void allowed(const GdnRow *row, int64_t tokens, double *overall, double *chunk)
{
	bool fp16 = row->in.fp16, tiny = tokens < 16;
	*overall = row->overall != 0 ? row->overall : tiny ? (fp16 ? 0.003 : 0.01) : fp16 ? 0.001 : 0.005;
	*chunk = row->chunk != 0 ? row->chunk : tiny ? *overall : 3 * *overall;
}

static void expect_accurate(const char *what, Accuracy a, double overall, double chunk)
{
	char text[256];
	if (getenv("TILE_TEST_VERBOSE"))
		print_message("    %-12s %s\n", what, accuracy_text(&a, text, sizeof text));
	if (a.not_finite || !(a.rms_ratio < overall) || !(a.worst_ratio < chunk))
		fail_msg("%s: %s; allowed are %g and %g", what, accuracy_text(&a, text, sizeof text), overall, chunk);
}

static void expect_accurate_state(const GdnRow *row, const char *what, Accuracy a, double overall, double chunk)
{
	if (a.not_finite || a.max_abs > row->least)
		expect_accurate(what, a, overall, chunk);
}

/* Sequences without tokens hand their states on, bit for bit. */
static void check_empty_sequences(const GdnRun *r, const float *final)
{
	int64_t n = gdn_run_state(r);
	for (int64_t s = 0; s < r->sequences; s++) {
		for (int64_t i = s * n; i < (s + 1) * n && r->offsets[s] == r->offsets[s + 1] && r->to[s] >= 0; i++) {
			float expected = r->in.initial ? r->in.initial[i] : 0;
			if (!(final[i] == expected))
				fail_msg("sequence %lld has no tokens: element %lld of its final state is %g, not %g", (long long)s, (long long)(i - s * n),
					(double)final[i], (double)expected);
		}
	}
}

/* A record has, among others, the log2 decay of its chunk (float 191) and T in fp16, whose first element is the first beta (kernels/gdn/record.tile). */
static void check_records(const GdnRun *r, double *beta, double *decay)
{
	enum { RECORD = TILEKERN_GDN_RECORD_BYTES, DECAY = 191, T = 1024 };
	int64_t HV = r->row.in.value_heads;
	unsigned char *all = buffer_take(r->records);
	for (int64_t s = 0; s < r->sequences; s++) {
		for (int64_t t = r->offsets[s]; t < r->offsets[s + 1]; t += GDN_CHUNK) {
			for (int64_t h = 0; h < HV; h++) {
				const unsigned char *record = all + (gdn_run_slot(r, s, (t - r->offsets[s]) / GDN_CHUNK) * HV + h) * RECORD;
				int64_t end = t + GDN_CHUNK < r->offsets[s + 1] ? t + GDN_CHUNK : r->offsets[s + 1];
				double b = beta[t * HV + h], d = 1;
				float got_d;
				uint16_t got_b;
				memcpy(&got_d, record + DECAY * sizeof(float), sizeof got_d);
				got_d = exp2f(got_d);
				memcpy(&got_b, record + T, sizeof got_b);
				for (int64_t i = t; i < end; i++)
					d *= decay[i * HV + h];
				float first = fp16_to_float(got_b);
				if (!(fabs((double)first - b) <= b * 0x1p-10 + 0x1p-24) || !(fabs((double)got_d - d) <= 1e-4 * d + 1e-37))
					fail_msg("record of sequence %lld, token %lld, head %lld: first beta %g, not %g; decay %g, not %g", (long long)s, (long long)t, (long long)h,
						(double)first, b, (double)got_d, d);
			}
		}
	}
	free(all);
}

/* States of chunks, u and records. */
static void check_saved(GdnRun *r, double overall, double chunk)
{
	const GdnInputSpec *in = &r->row.in;
	int64_t HV = in->value_heads, gates = in->batch * in->tokens * HV, slots = tilekern_gdn_slots(&r->p), size = gdn_run_state(r);
	double *o = memory((size_t)gdn_run_outputs(r) * 8), *final = memory((size_t)(r->sequences * size) * 8), *states = memory((size_t)(slots * size) * 8);
	double *u = memory((size_t)gdn_run_outputs(r) * 8), *decay = memory((size_t)gates * 8), *beta = memory((size_t)gates * 8);
	float *got_u = gdn_run_u(r), *got_states = gdn_run_states(r);
	GdnReference ref = gdn_run_reference(r);
	memset(states, 0, (size_t)(slots * size) * 8);
	ref.states = states;
	ref.u = u;
	ref.decay = decay;
	ref.final_beta = beta;
	gdn_reference(&ref, o, final);
	expect_accurate("u", accuracy_of_packed(u, got_u, (AccuracyShape){ r->sequences, 0, HV, in->value_dim, GDN_CHUNK }, r->offsets), overall, chunk);
	expect_accurate_state(&r->row, "states", accuracy_of_floats(states, got_states, (AccuracyShape){ slots, 1, HV, in->key_dim * in->value_dim, 1 }), overall, chunk);
	check_records(r, beta, decay);
	double *doubles[] = { o, final, states, u, decay, beta };
	for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++)
		free(doubles[i]);
	free(got_u);
	free(got_states);
}

static void check_checkpoints(GdnRun *r, const double *ref_final, double overall, double chunk)
{
	int64_t state = gdn_run_state(r), rows = gdn_run_checkpoint_rows(r), tokens, row;
	double *expected = memory((size_t)(rows * state + 1) * 8), *entering = memory((size_t)(tilekern_gdn_slots(&r->p) * state + 1) * 8);
	double *o = memory((size_t)(gdn_run_outputs(r) + 1) * 8), *final = memory((size_t)(r->sequences * state + 1) * 8);
	float *got = gdn_run_checkpoints(r);
	GdnReference ref = gdn_run_reference(r);
	ref.states = entering;
	gdn_reference(&ref, o, final);
	memset(expected, 0, (size_t)(rows * state) * 8);
	for (int64_t n = 0; n < r->sequences; n++) {
		for (int64_t i = 0; gdn_run_checkpoint(r, n, i, &tokens, &row); i++) {
			bool end = tokens == r->offsets[n + 1] - r->offsets[n];
			memcpy(expected + row * state, end ? ref_final + n * state : entering + gdn_run_slot(r, n, tokens / GDN_CHUNK) * state, (size_t)state * 8);
		}
	}
	if (r->row.pool.checkpoint_16 && r->row.state_bf16 && overall < 0.005)
		overall = 0.005;
	expect_accurate_state(&r->row, "checkpoints", accuracy_of_floats(expected, got, (AccuracyShape){ rows, 1, r->row.in.value_heads, state / r->row.in.value_heads, 1 }),
		overall, chunk);
	free(expected);
	free(entering);
	free(o);
	free(final);
	free(got);
}

static void check_result(GdnRun *r)
{
	const GdnInputSpec *in = &r->row.in;
	int64_t K = in->key_dim, V = in->value_dim, HV = in->value_heads, states = r->sequences * gdn_run_state(r);
	float *o = gdn_run_output(r), *final = gdn_run_final(r);
	double *ref_o = memory((size_t)gdn_run_outputs(r) * 8), *ref_final = memory((size_t)states * 8), overall, chunk;

	GdnReference ref = gdn_run_reference(r);
	gdn_reference(&ref, ref_o, ref_final);
	allowed(&r->row, r->offsets[r->sequences], &overall, &chunk);
	expect_accurate("o", accuracy_of_packed(ref_o, o, (AccuracyShape){ r->sequences, 0, HV, V, GDN_CHUNK }, r->offsets), overall, chunk);
	if (r->row.pool.checkpoints)
		check_checkpoints(r, ref_final, overall, chunk);
	if (final) {
		for (int64_t n = 0; n < r->sequences; n++) {
			if (r->to[n] < 0)
				memset(ref_final + n * gdn_run_state(r), 0, (size_t)gdn_run_state(r) * sizeof *ref_final);
		}
		if (r->row.state_bf16 && overall < 0.005)
			overall = 0.005; /* rounded once */
		expect_accurate_state(&r->row, "final state", accuracy_of_floats(ref_final, final, (AccuracyShape){ r->sequences, 1, HV, K * V, 1 }), overall, chunk);
		check_empty_sequences(r, final);
	}
	if (r->row.save)
		check_saved(r, overall, chunk);
	free(o);
	free(final);
	free(ref_o);
	free(ref_final);
}

/* ---- kinds of tests ---- */

static void run_forward(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	gdn_run_forward(r);
	check_result(r);
	gdn_run_free(r);
}

static void expect_same(const char *what, const float *x, const float *y, int64_t n)
{
	for (int64_t i = 0; i < n && x && y; i++) {
		if (memcmp(x + i, y + i, sizeof *x) != 0)
			fail_msg("%s: element %lld is %.9g and %.9g", what, (long long)i, (double)x[i], (double)y[i]);
	}
}

/* The same bits from run to run, on the CPU device under other schedules, by either interface. */
static void run_repeatable(const void *row)
{
	static const struct { uint64_t seed; unsigned threads; } schedules[] = { { 12345, 0 }, { 7, 1 }, { 99, 3 } };
	GdnRun *r = gdn_run_make(row);
	tilekern_gdn_call *call;

	gdn_run_forward(r);
	float *o = gdn_run_output(r), *final = gdn_run_final(r);
	GDN_OK(tilekern_gdn_prepare(r->gdn, &r->p, &call));
	for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
		gdn_run_poison(r);
		if (numeric_on_cpu())
			OK(tilert_cpu_configure(numeric_device(), schedules[i].seed, schedules[i].threads));
		GDN_OK(tilekern_gdn_launch(call, NULL));
		OK(tilert_stream_sync(numeric_device(), NULL));
		float *o2 = gdn_run_output(r), *final2 = gdn_run_final(r);
		expect_same("o", o, o2, gdn_run_outputs(r));
		expect_same("final state", final, final2, r->sequences * gdn_run_state(r));
		free(o2);
		free(final2);
	}
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), 1, 0));
	tilekern_gdn_call_destroy(call);
	free(o);
	free(final);
	gdn_run_free(r);
}

/* The parameters of sequence n as a call of its own, with the buffers of all. */
static tilekern_gdn_params alone(const GdnRun *r, int64_t n)
{
	tilekern_gdn_params p = r->p;
	const GdnTensor *tensors[] = { &r->q, &r->k, &r->v, &r->o, &r->g, &r->beta };
	tilert_ptr *pointers[] = { &p.q, &p.k, &p.v, &p.o, &p.g, &p.beta };
	for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
		const GdnTensor *t = tensors[i];
		int64_t at = r->row.lengths ? r->offsets[n] * t->strides.token : n * t->strides.batch;
		*pointers[i] += (tilert_ptr)((size_t)at * tilert_dtype_size(t->dtype));
	}
	p.batch = 1;
	p.tokens = r->offsets[n + 1] - r->offsets[n];
	p.sequences = 0;
	p.cu_seqlens = 0;
	size_t state = (size_t)(n * gdn_run_state(r)) * tilert_dtype_size(p.state_dtype);
	if (p.initial_state)
		p.initial_state += (tilert_ptr)state;
	if (p.final_state)
		p.final_state += (tilert_ptr)state;
	return p;
}

/* Each sequence alone gives the bits that it gives beside others. */
static void run_alone(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	int64_t width = r->row.in.value_heads * r->row.in.value_dim, state = gdn_run_state(r);

	gdn_run_forward(r);
	float *o = gdn_run_output(r), *final = gdn_run_final(r);
	for (int64_t n = 0; n < r->sequences; n++) {
		tilekern_gdn_params p = alone(r, n), all = r->p;
		gdn_run_poison(r);
		r->p = p;
		gdn_run_forward(r);
		r->p = all;
		float *o2 = gdn_run_output(r), *final2 = gdn_run_final(r);
		expect_same("o", o + r->offsets[n] * width, o2 + r->offsets[n] * width, (r->offsets[n + 1] - r->offsets[n]) * width);
		if (final)
			expect_same("final state", final + n * state, final2 + n * state, state);
		free(o2);
		free(final2);
	}
	free(o);
	free(final);
	gdn_run_free(r);
}

/* One sequence cut in two: the final state of the first part is the initial one of the second. */
static void run_continued(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	int64_t half = r->row.in.tokens / 2, all_tokens = r->offsets[1];
	tilekern_gdn_params whole = r->p, rest;

	r->p.tokens = half;
	gdn_run_forward(r);
	r->offsets[0] = half;
	rest = alone(r, 0);
	r->offsets[0] = 0;
	rest.tokens = all_tokens - half;
	rest.initial_state = whole.final_state;
	Buffer first = r->ht;
	r->ht = buffer_poisoned(first.bytes);
	rest.final_state += r->ht.p - first.p;
	if (r->row.lengths)
		fail_msg("not for packed sequences");
	const GdnTensor *tensors[] = { &r->q, &r->k, &r->v, &r->o, &r->g, &r->beta };
	tilert_ptr *pointers[] = { &rest.q, &rest.k, &rest.v, &rest.o, &rest.g, &rest.beta };
	for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
		*pointers[i] += (tilert_ptr)((size_t)(half * tensors[i]->strides.token) * tilert_dtype_size(tensors[i]->dtype));
	r->p = rest;
	gdn_run_forward(r);
	check_result(r);
	buffer_free(first);
	gdn_run_free(r);
}

/* One tensor after the other with tokens so far apart that element offsets pass 2^31: the same bits.  The gaps are never touched. */
static void run_far(const void *row)
{
	enum { APART = 1 << 24 }; /* elements */
	GdnRun *r = gdn_run_make(row);
	int64_t tokens = r->row.in.tokens;
	gdn_run_forward(r);
	void *want = buffer_take(r->o.buffer);
	const struct { const GdnTensor *tensor; size_t p, strides; bool written; } all[] = {
		{ &r->q, offsetof(tilekern_gdn_params, q), offsetof(tilekern_gdn_params, q_strides), false },
		{ &r->k, offsetof(tilekern_gdn_params, k), offsetof(tilekern_gdn_params, k_strides), false },
		{ &r->v, offsetof(tilekern_gdn_params, v), offsetof(tilekern_gdn_params, v_strides), false },
		{ &r->o, offsetof(tilekern_gdn_params, o), offsetof(tilekern_gdn_params, o_strides), true },
	};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		const GdnTensor *t = all[i].tensor;
		size_t bytes = (size_t)(t->heads * t->width) * 2, step = (size_t)APART * 2;
		tilekern_gdn_params near = r->p;
		tilert_ptr far;
		char *line = memory(bytes);
		OK(tilert_alloc(numeric_device(), (size_t)(tokens - 1) * step + bytes, &far));
		for (int64_t n = 0; n < tokens && !all[i].written; n++) {
			OK(tilert_download(numeric_device(), line, t->buffer.p + (tilert_ptr)n * bytes, bytes));
			OK(tilert_upload(numeric_device(), far + (tilert_ptr)n * step, line, bytes));
		}
		*(tilert_ptr *)((char *)&r->p + all[i].p) = far;
		*(tilekern_strides *)((char *)&r->p + all[i].strides) = (tilekern_strides){ 0, APART, t->width };
		gdn_run_poison(r);
		gdn_run_forward(r);
		for (int64_t n = 0; n < tokens && all[i].written; n++) {
			OK(tilert_download(numeric_device(), line, far + (tilert_ptr)n * step, bytes));
			OK(tilert_upload(numeric_device(), t->buffer.p + (tilert_ptr)n * bytes, line, bytes));
		}
		OK(tilert_free(numeric_device(), far));
		void *got = buffer_take(r->o.buffer);
		assert_memory_equal(got, want, r->o.buffer.bytes);
		free(got);
		free(line);
		r->p = near;
	}
	free(want);
	gdn_run_free(r);
}

/* Rows of a batch whose elements are beyond 2^31 of the first row's, one tensor after the other: the same bits. */
static void run_far_rows(const void *row)
{
	const int64_t apart = (INT64_C(1) << 31) + 8; /* elements */
	GdnRun *r = gdn_run_make(row);
	gdn_run_forward(r);
	void *want = buffer_take(r->o.buffer);
	const struct { const GdnTensor *tensor; size_t p, strides; } all[] = {
		{ &r->q, offsetof(tilekern_gdn_params, q), offsetof(tilekern_gdn_params, q_strides) },
		{ &r->k, offsetof(tilekern_gdn_params, k), offsetof(tilekern_gdn_params, k_strides) },
		{ &r->v, offsetof(tilekern_gdn_params, v), offsetof(tilekern_gdn_params, v_strides) },
		{ &r->o, offsetof(tilekern_gdn_params, o), offsetof(tilekern_gdn_params, o_strides) },
		{ &r->g, offsetof(tilekern_gdn_params, g), offsetof(tilekern_gdn_params, g_strides) },
		{ &r->beta, offsetof(tilekern_gdn_params, beta), offsetof(tilekern_gdn_params, beta_strides) },
	};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		const GdnTensor *t = all[i].tensor;
		size_t size = tilert_dtype_size(t->dtype), bytes = (size_t)t->strides.batch * size;
		tilekern_gdn_params near = r->p;
		tilert_ptr far;
		char *line = memory(bytes);
		OK(tilert_alloc(numeric_device(), (size_t)apart * size + bytes, &far));
		for (int64_t n = 0; n < 2; n++) {
			OK(tilert_download(numeric_device(), line, t->buffer.p + (tilert_ptr)n * bytes, bytes));
			OK(tilert_upload(numeric_device(), far + (tilert_ptr)n * (tilert_ptr)apart * size, line, bytes));
		}
		*(tilert_ptr *)((char *)&r->p + all[i].p) = far;
		*(tilekern_strides *)((char *)&r->p + all[i].strides) = (tilekern_strides){ apart, t->strides.token, t->strides.head };
		gdn_run_poison(r);
		gdn_run_forward(r);
		for (int64_t n = 0; n < 2 && t == &r->o; n++) {
			OK(tilert_download(numeric_device(), line, far + (tilert_ptr)n * (tilert_ptr)apart * size, bytes));
			OK(tilert_upload(numeric_device(), t->buffer.p + (tilert_ptr)n * bytes, line, bytes));
		}
		OK(tilert_free(numeric_device(), far));
		void *got = buffer_take(r->o.buffer);
		assert_memory_equal(got, want, r->o.buffer.bytes);
		free(got);
		free(line);
		r->p = near;
	}
	free(want);
	gdn_run_free(r);
}

/* Strides along what there is but one of are PyTorch's to choose. */
static void run_odd_strides(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	tilekern_strides *all[] = { &r->p.q_strides, &r->p.k_strides, &r->p.v_strides, &r->p.o_strides, &r->p.g_strides, &r->p.beta_strides };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		*all[i] = (tilekern_strides){ INT64_C(7777777777777), i < 2 ? r->q.strides.token : i < 4 ? r->v.strides.token : r->g.strides.token, -3 };
	gdn_run_forward(r);
	check_result(r);
	gdn_run_free(r);
}

static void launch_call(void *call, tilert_stream stream)
{
	GDN_OK(tilekern_gdn_launch(call, stream));
}

/* The offsets are read by the kernels: what was recorded runs again with others. */
static void run_replayed(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	int64_t n = r->sequences, tokens = r->offsets[n];
	int32_t *cu = memory((size_t)(n + 1) * sizeof *cu);
	tilekern_gdn_call *call;

	GDN_OK(tilekern_gdn_prepare(r->gdn, &r->p, &call));
	Recording rec = record(launch_call, call);
	for (int round = 0; round < 4; round++) { /* as given, turned by three, all in the second, none at all */
		int64_t end = 0;
		for (int64_t i = 0; i <= n; i++) {
			cu[i] = (int32_t)end;
			end += round == 0 ? r->row.lengths[i] : round == 1 ? r->row.lengths[(i + 3) % n] : round == 2 && i == 1 ? tokens : 0;
		}
		for (int64_t i = 0; i <= n; i++)
			r->offsets[i] = cu[i];
		OK(tilert_upload(numeric_device(), r->cu.p, cu, r->cu.bytes));
		if (round % 2) { /* the workspace as the call before left it */
			buffer_poison(r->o.buffer);
			buffer_poison(r->ht);
		} else {
			gdn_run_poison(r);
		}
		replay(&rec);
		check_result(r);
	}
	forget(&rec);
	tilekern_gdn_call_destroy(call);
	free(cu);
	gdn_run_free(r);
}

static int64_t pick(Random *r, int64_t n) { return (int64_t)(random_bits(r) >> 33) % n; }
static bool toss(Random *r) { return pick(r, 2); }

static int64_t wild_offset(Random *r, int64_t tokens, bool i64)
{
	const int64_t extremes[] = { -1, -64, -100000, INT32_MIN, INT32_MAX, INT32_MAX - 63, tokens + 1, tokens + 64, 0, tokens };
	const int64_t far[] = { INT64_MIN, INT64_MAX, INT64_C(1) << 32, (INT64_C(1) << 32) + 5, -(INT64_C(1) << 40) };
	switch (pick(r, i64 ? 5 : 4)) {
	case 0: return extremes[pick(r, 10)];
	case 1: return (int32_t)random_bits(r);
	case 4: return far[pick(r, 5)];
	default: return pick(r, tokens + 1);
	}
}

static void expect_unchanged(Buffer b, const void *before)
{
	void *now = buffer_take(b);
	if (b.bytes)
		assert_memory_equal(now, before, b.bytes);
	free(now);
}

/* Offsets that are none - negative, descending, beyond the tokens: nothing but the outputs is written, and the call after it is right. */
static void run_wild(const void *row)
{
	enum { ROUNDS = 5 };
	GdnRun *r = gdn_run_make(row);
	int64_t n = r->sequences, tokens = r->row.in.tokens, used = r->offsets[n];
	const Buffer inputs[] = { r->q.buffer, r->k.buffer, r->v.buffer, r->g.buffer, r->beta.buffer, r->a_log, r->dt_bias, r->h0 };
	enum { INPUTS = sizeof inputs / sizeof inputs[0] };
	void *before[INPUTS] = { NULL }, *proper = buffer_take(r->cu), *wild = memory(r->cu.bytes);
	Random random;
	random_init(&random, r->row.in.seed);
	for (size_t i = 0; i < INPUTS; i++)
		before[i] = inputs[i].p ? buffer_take(inputs[i]) : NULL;
	for (int round = 0; round < ROUNDS; round++) {
		for (int64_t i = 0; i <= n; i++) {
			int64_t x = wild_offset(&random, tokens, r->row.lengths_i64);
			if (r->row.lengths_i64)
				((int64_t *)wild)[i] = x;
			else
				((int32_t *)wild)[i] = (int32_t)x;
		}
		OK(tilert_upload(numeric_device(), r->cu.p, wild, r->cu.bytes));
		gdn_run_poison(r);
		gdn_run_forward(r);
		r->offsets[n] = tokens;
		free(gdn_run_output(r)); /* looks at the gaps */
		free(gdn_run_final(r));
		for (size_t i = 0; i < INPUTS; i++) {
			if (before[i])
				expect_unchanged(inputs[i], before[i]);
		}
		if (r->row.save) {
			free(buffer_take(r->states));
			free(buffer_take(r->records));
			free(buffer_take(r->u.buffer));
		}
	}
	r->offsets[n] = used;
	OK(tilert_upload(numeric_device(), r->cu.p, proper, r->cu.bytes));
	gdn_run_poison(r);
	gdn_run_forward(r);
	check_result(r);
	for (size_t i = 0; i < INPUTS; i++)
		free(before[i]);
	free(proper);
	free(wild);
	gdn_run_free(r);
}

/* With one gate for all channels, the recurrence is that of KDA. */
static void run_reference(const void *unused)
{
	enum { T = 20, H = 2, K = 24, V = 40 };
	GdnInputSpec spec = { .batch = 2, .tokens = T, .qk_heads = H, .value_heads = H, .key_dim = K, .value_dim = V, .with_initial = true, .seed = 3 };
	static float g[2 * T * H * K];
	static double o[2 * T * H * V], o2[2 * T * H * V], s[2 * H * K * V], s2[2 * H * K * V];
	GdnInput in;
	(void)unused;
	assert_true(gdn_input_make(&in, &spec));
	for (int i = 0; i < 2 * T * H * K; i++)
		g[i] = in.g[i / K];
	GdnReference a = gdn_input_reference(&in);
	KdaReference b = { .batch = 2, .tokens = T, .heads = H, .key_dim = K, .value_dim = V, .q = in.q, .k = in.k, .v = in.v, .g = g, .beta = in.beta,
		.initial = in.initial };
	gdn_reference(&a, o, s);
	kda_reference(&b, o2, s2);
	for (int i = 0; i < 2 * T * H * V; i++)
		assert_true(o[i] - o2[i] < 1e-12 && o2[i] - o[i] < 1e-12);
	for (int i = 0; i < 2 * H * K * V; i++)
		assert_true(s[i] - s2[i] < 1e-12 && s2[i] - s[i] < 1e-12);
	gdn_input_free(&in);
}

/* Refused with these words. */
static void expect_refused(GdnRun *r, tilekern_gdn_params p, const char *const *words)
{
	tilekern_gdn_call *untouched = (tilekern_gdn_call *)(void *)r, *call = untouched;
	tilert_status s = tilekern_gdn_prepare(r->gdn, &p, &call);
	if (s == TILERT_OK) {
		tilekern_gdn_call_destroy(call);
		fail_msg("not refused (%s)", words[0]);
	}
	assert_int_equal(s, TILERT_EINVAL);
	assert_ptr_equal(call, untouched);
	for (; *words; words++) {
		if (!strstr(tilekern_last_error(), *words))
			fail_msg("no '%s' in: %s", *words, tilekern_last_error());
	}
}

/* Parameters of a newer header: zeros behind what is known are fine. */
static void run_versions(const void *row)
{
	struct { tilekern_gdn_params p; unsigned char more[24]; } newer = { .more = { 0 } };
	tilekern_gdn_params_init(&newer.p);
	GdnRun *r = gdn_run_make(row);
	char size[32], known[32];
	gdn_run_forward(r);
	float *want = gdn_run_output(r);
	newer.p = r->p;
	newer.p.size = sizeof newer;
	gdn_run_poison(r);
	GDN_OK(tilekern_gdn_forward(r->gdn, &newer.p, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	float *got = gdn_run_output(r);
	expect_same("o", want, got, gdn_run_outputs(r));
	newer.more[5] = 1;
	snprintf(size, sizeof size, "%zu", sizeof newer);
	snprintf(known, sizeof known, "byte %zu", sizeof newer.p + 5);
	assert_int_equal(tilekern_gdn_forward(r->gdn, &newer.p, NULL), TILERT_EINVAL);
	if (!strstr(tilekern_last_error(), size) || !strstr(tilekern_last_error(), known))
		fail_msg("no %s or %s in: %s", size, known, tilekern_last_error());
	tilekern_gdn_params_init(&newer.p);
	assert_int_equal(newer.p.size, sizeof newer.p);
	free(want);
	free(got);
	gdn_run_free(r);
}

static void run_refusals(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	tilekern_gdn_params p;
	char have[32], need[32];
	size_t bytes;
#define REFUSED(change, ...) do { p = r->p; change; expect_refused(r, p, (const char *const[]){ __VA_ARGS__, NULL }); } while (0)
	REFUSED(p.size = 8, "size", "8");
	REFUSED(p.size = sizeof p - 1, "size", "not in");
	REFUSED(p.size = (size_t)-1, "size", "not in");
	REFUSED(p.batch = -1, "batch", "-1");
	REFUSED(p.tokens = -3, "tokens", "-3");
	REFUSED(p.qk_heads = 0, "qk_heads", "0");
	REFUSED(p.value_heads = 3, "value_heads", "3", "qk_heads", "2");
	REFUSED(p.key_dim = 12, "q_strides.head", "12", "8");
	REFUSED(p.key_dim = 264, "key_dim", "264");
	REFUSED(p.key_dim = 0, "key_dim", "0");
	REFUSED(p.value_dim = 12, "v_strides.head", "12", "8");
	REFUSED(p.value_dim = 264, "value_dim", "264");
	REFUSED(p.dtype = TILERT_F32, "dtype", "f32");
	REFUSED(p.gate_dtype = TILERT_I32, "gate_dtype", "i32", "f16");
	REFUSED(p.beta_dtype = TILERT_I32, "beta_dtype", "i32");
	REFUSED(p.state_dtype = TILERT_I32, "state_dtype", "i32", "f16");
	REFUSED((p.cu_seqlens = r->a_log.p, p.batch = 1, p.sequences = 1, p.seqlens_dtype = TILERT_F32), "seqlens_dtype", "f32");
	REFUSED((p.cu_seqlens = r->a_log.p, p.sequences = 1), "batch", "2", "cu_seqlens");
	REFUSED((p.cu_seqlens = r->a_log.p, p.batch = 1, p.sequences = -1), "sequences", "-1");
	REFUSED(p.options = RAW, "a_log");
	REFUSED(p.options = 64, "options", "0x40");
	REFUSED(p.options = TWICE, "TWICE_BETA", "SIGMOID_BETA");
	REFUSED(p.split = (tilekern_split)7, "split", "7");
	REFUSED(p.scale = 1.0f / 0.0f, "scale", "inf");
	REFUSED(p.q = 0, "q is 0");
	REFUSED(p.beta = 0, "beta is 0");
	REFUSED(p.o = 0, "o is 0");
	REFUSED(p.workspace = 0, "workspace is 0");
	REFUSED(p.q += 8, "q is at", "16");
	REFUSED(p.v += 2, "v is at", "16");
	REFUSED(p.o += 8, "o is at", "16");
	REFUSED(p.g += 1, "g is at", "4");
	REFUSED(p.workspace += 64, "workspace is at", "256");
	REFUSED(p.final_state += 4, "final_state is at", "16");
	REFUSED((p.q_strides = r->q.strides, p.q_strides.token += 4), "q_strides.token", "multiple of 8");
	REFUSED((p.o_strides = r->o.strides, p.o_strides.head = 3), "o_strides.head", "is 3", "multiple of 8");
	REFUSED((p.v_strides = r->v.strides, p.v_strides.batch = -8), "v_strides.batch", "-8");
	REFUSED((p.k_strides = r->k.strides, p.k_strides.token = INT64_C(1) << 31), "k_strides.token", "2147483648");
	REFUSED((p.g_strides = r->g.strides, p.g_strides.batch = INT64_C(1) << 40), "g_strides.batch", "1099511627776");
	REFUSED(p.o = p.v, "v (", "o (", "overlap");
	REFUSED(p.o = p.v + 64, "v (", "o (", "overlap");
	REFUSED(p.final_state = p.initial_state + 256, "initial_state", "final_state", "overlap");
	REFUSED(p.workspace = p.q, "q (", "workspace (", "overlap");
	REFUSED(p.records = p.workspace, "records (", "workspace (", "overlap");
	REFUSED(p.states = p.o + 2, "states is at", "16");
	REFUSED(p.records = p.o + 16, "records is at", "256");
	REFUSED((p.tokens = INT32_MAX, p.batch = INT32_MAX), "chunks");
	snprintf(have, sizeof have, "%zu", r->p.workspace_bytes - 1);
	snprintf(need, sizeof need, "%zu", r->p.workspace_bytes);
	REFUSED(p.workspace_bytes -= 1, "workspace_bytes", have, need);
#undef REFUSED
	/* v and o may be columns of one tensor. */
	p = r->p;
	p.v_strides = p.o_strides = (tilekern_strides){ 0, 2 * p.value_heads * p.value_dim, p.value_dim };
	p.v_strides.batch = p.o_strides.batch = p.tokens * p.v_strides.token;
	p.o = p.v + (tilert_ptr)(p.value_heads * p.value_dim * 2);
	tilekern_gdn_call *call;
	GDN_OK(tilekern_gdn_prepare(r->gdn, &p, &call));
	tilekern_gdn_call_destroy(call);
	p = r->p;
	p.key_dim = 264;
	assert_int_equal(tilekern_gdn_workspace_bytes(r->gdn, &p, &bytes), TILERT_EINVAL);
	gdn_run_free(r);
}

/* ---- the table ---- */

static const int none[] = { 0, -1 }, far_lengths[] = { 70, 65, -1 }, empty_ones[] = { 0, 0, 0, -1 }, all_lengths[] = { 0, 1, 63, 64, 65, 200, 0, 2, -1 },
	aligned[] = { 64, 128, 64, -1 }, around[] = { 65, 0, 0, 63, 1, 129, 0, -1 }, pair[] = { 70, 130, -1 }, two[] = { 0, 65, -1 },
	few_long[] = { 1000, 0, 2000, 65, -1 }, one_long[] = { 0, 1, 65, 4700, 0, 200, -1 }, two_long[] = { 4500, 130, 4300, -1 }, mixed_long[] = { 65, 4700, 4096, 0, 4032, 200, -1 },
	long_short[] = { 4500, 65, -1 }, eight[] = { 0, 1, 63, 64, 4700, 65, 0, 2, -1 },
	serving[] = { 1, 3, 1000, 0, 31, 32, 33, 1, 129, 300, 2, -1 }, longer[] = { 3, 2000, 0, 1, -1 };
static int tiny[3001]; /* 0 .. 3 tokens each */

static const GdnRow strides[] = {
	{ .name = "strides_bf16", .in = { .batch = 2, .tokens = 70, .qk_heads = 2, .value_heads = 4 }, .strided = true, .states = GDN_BOTH },
	{ .name = "strides_fp16_16bit_gates", .in = { .batch = 2, .tokens = 130, .qk_heads = 1, .value_heads = 3, .key_dim = 64, .value_dim = 64, .fp16 = true,
		.gate16 = true, .beta16 = true }, .strided = true },
	{ .name = "strides_packed", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .spare = 9, .strided = true, .states = GDN_FINAL },
	{ .name = "strides_k72_v40", .in = { .batch = 2, .tokens = 70, .qk_heads = 2, .value_heads = 2, .key_dim = 72, .value_dim = 40 }, .strided = true },
};

static const GdnRow packed[] = {
	{ .name = "packed_all_lengths", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .states = GDN_BOTH },
	{ .name = "packed_all_lengths_i64", .in = { .qk_heads = 2, .value_heads = 2, .fp16 = true }, .lengths = all_lengths, .lengths_i64 = true, .spare = 100,
		.states = GDN_BOTH },
	{ .name = "packed_aligned", .in = { .tokens = 0 }, .lengths = aligned },
	{ .name = "packed_around_empty_ones", .in = { .key_dim = 64, .value_dim = 64 }, .lengths = around, .spare = 1, .states = GDN_FINAL },
	{ .name = "packed_around_empty_ones_mixed", .in = { .qk_heads = 2, .value_heads = 6, .gates = GDN_GATES_MIXED }, .lengths = around, .spare = 64,
		.states = GDN_INITIAL, .lengths_i64 = true },
	{ .name = "packed_many_tiny", .in = { .tokens = 0 }, .lengths = tiny, .spare = 5, .states = GDN_NO_STATES, .chunk = 0.01, .split = TILEKERN_SPLIT_OFF },
	{ .name = "packed_many_tiny_d64", .in = { .key_dim = 64, .value_dim = 64 }, .lengths = tiny, .states = GDN_BOTH, .chunk = 0.01 },
	{ .name = "packed_no_tokens", .in = { .tokens = 0 }, .lengths = empty_ones, .states = GDN_BOTH },
	{ .name = "packed_no_tokens_spare", .in = { .tokens = 0 }, .lengths = empty_ones, .spare = 70, .states = GDN_FINAL },
	{ .name = "packed_one_of_none", .in = { .tokens = 0 }, .lengths = none, .states = GDN_INITIAL },
	{ .name = "packed_bf16_states_v_first", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .states = GDN_BOTH, .state_bf16 = true,
		.state_v_first = true },
	{ .name = "packed_k72_v40", .in = { .key_dim = 72, .value_dim = 40, .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .spare = 3, .states = GDN_BOTH },
	{ .name = "packed_k200_v256", .in = { .key_dim = 200, .value_dim = 256, .fp16 = true }, .lengths = pair, .states = GDN_BOTH },
};

static const GdnRow options[] = {
	{ .name = "l2norm", .in = { .tokens = 130, .qk_heads = 2, .value_heads = 4 }, .options = NORM, .states = GDN_BOTH },
	{ .name = "l2norm_fp16", .in = { .tokens = 130, .qk_heads = 1, .value_heads = 2, .fp16 = true }, .options = NORM, .states = GDN_FINAL },
	{ .name = "l2norm_d64", .in = { .tokens = 65, .key_dim = 64, .value_dim = 64 }, .options = NORM },
	{ .name = "l2norm_k40_v72", .in = { .tokens = 65, .key_dim = 40, .value_dim = 72 }, .options = NORM },
	{ .name = "l2norm_k200_v136", .in = { .tokens = 65, .key_dim = 200, .value_dim = 136 }, .options = NORM },
	{ .name = "l2norm_of_normalised", .in = { .tokens = 130, .keys = GDN_KEYS_POSITIVE }, .options = NORM },
	{ .name = "raw_gate", .in = { .tokens = 130, .qk_heads = 2, .value_heads = 4 }, .options = RAW, .states = GDN_FINAL },
	{ .name = "raw_gate_16bit", .in = { .tokens = 130, .qk_heads = 1, .value_heads = 2, .gate16 = true, .fp16 = true }, .options = RAW },
	{ .name = "raw_gate_without_bias", .in = { .tokens = 65, .value_heads = 3 }, .options = RAW, .without_dt_bias = true },
	{ .name = "sigmoid_beta", .in = { .tokens = 130, .value_heads = 2 }, .options = SIGMOID, .states = GDN_FINAL },
	{ .name = "sigmoid_beta_16bit", .in = { .tokens = 130, .value_heads = 2, .beta16 = true }, .options = SIGMOID },
	{ .name = "twice_sigmoid_beta", .in = { .tokens = 130, .value_heads = 2 }, .options = SIGMOID | TWICE, .states = GDN_FINAL },
	{ .name = "all_options", .in = { .batch = 2, .tokens = 130, .qk_heads = 1, .value_heads = 2, .gate16 = true, .beta16 = true },
		.options = NORM | RAW | SIGMOID | TWICE, .states = GDN_BOTH, .scale = 0.3f },
	{ .name = "all_options_fp16_packed", .in = { .qk_heads = 2, .value_heads = 6, .fp16 = true }, .lengths = all_lengths, .spare = 10, .lengths_i64 = true,
		.options = NORM | RAW | SIGMOID | TWICE, .states = GDN_BOTH, .strided = true, .state_v_first = true },
	{ .name = "all_options_k96_v72", .in = { .batch = 1, .tokens = 130, .qk_heads = 1, .value_heads = 2, .key_dim = 96, .value_dim = 72, .gate16 = true,
		.beta16 = true }, .options = NORM | RAW | SIGMOID, .states = GDN_BOTH, .state_bf16 = true },
	{ .name = "scale", .in = { .tokens = 65 }, .scale = 2.5f },
	{ .name = "scale_negative", .in = { .tokens = 65, .value_heads = 2, .fp16 = true }, .scale = -0.7f },
};

static const GdnRow numbers[] = {
	{ .name = "keys_positive_mild", .in = { .tokens = 200, .keys = GDN_KEYS_POSITIVE }, .states = GDN_FINAL },
	{ .name = "keys_positive_zero", .in = { .tokens = 200, .keys = GDN_KEYS_POSITIVE, .gates = GDN_GATES_ZERO }, .states = GDN_FINAL },
	{ .name = "keys_positive_zero_fp16", .in = { .tokens = 200, .keys = GDN_KEYS_POSITIVE, .gates = GDN_GATES_ZERO, .fp16 = true }, .states = GDN_FINAL },
	{ .name = "keys_random_beta_to_two", .in = { .tokens = 200, .betas = GDN_BETAS_TWICE }, .states = GDN_FINAL },
	{ .name = "keys_random_beta_to_two_zero", .in = { .tokens = 200, .betas = GDN_BETAS_TWICE, .gates = GDN_GATES_ZERO }, .states = GDN_FINAL },
	{ .name = "keys_collinear", .in = { .tokens = 200, .keys = GDN_KEYS_COLLINEAR }, .states = GDN_FINAL },
	{ .name = "keys_collinear_beta_to_two", .in = { .tokens = 200, .keys = GDN_KEYS_COLLINEAR, .betas = GDN_BETAS_TWICE }, .states = GDN_FINAL },
	{ .name = "keys_collinear_beta_to_two_fp16", .in = { .tokens = 200, .keys = GDN_KEYS_COLLINEAR, .betas = GDN_BETAS_TWICE, .fp16 = true },
		.states = GDN_FINAL, .overall = 0.003 },
	{ .name = "keys_collinear_beta_to_two_mixed", .in = { .tokens = 200, .keys = GDN_KEYS_COLLINEAR, .betas = GDN_BETAS_TWICE, .gates = GDN_GATES_MIXED },
		.states = GDN_FINAL },
	/* Equal keys: the rows of e u cancel, what rounding takes from them does not.  At betas near 2 also what fp16 takes from T and P remains. */
	{ .name = "keys_equal_64", .in = { .tokens = 64, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1 }, .states = GDN_FINAL },
	{ .name = "keys_equal_12", .in = { .tokens = 12, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1 }, .states = GDN_FINAL },
	{ .name = "keys_equal_45", .in = { .tokens = 45, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1 }, .states = GDN_FINAL },
	{ .name = "keys_equal_short_64", .in = { .tokens = 64, .keys = GDN_KEYS_SHORT, .gates = GDN_GATES_ZERO, .beta = 1 }, .states = GDN_FINAL },
	{ .name = "keys_equal_short_150_norm", .in = { .tokens = 150, .keys = GDN_KEYS_SHORT, .gates = GDN_GATES_ZERO, .beta = 1 },
		.options = NORM, .states = GDN_FINAL },
	{ .name = "keys_equal_200", .in = { .tokens = 200, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1 }, .states = GDN_FINAL },
	{ .name = "keys_equal_200_half", .in = { .tokens = 200, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 0.5f }, .states = GDN_FINAL },
	{ .name = "keys_equal_64_fp16", .in = { .tokens = 64, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1, .fp16 = true }, .states = GDN_FINAL,
		.overall = 0.003 },
	{ .name = "keys_equal_64_beta_1.9", .in = { .tokens = 64, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1.9f }, .states = GDN_FINAL,
		.overall = 0.007 },
	{ .name = "keys_equal_64_beta_2", .in = { .tokens = 64, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 2 }, .states = GDN_FINAL,
		.overall = 0.015 },
	{ .name = "keys_equal_200_beta_2", .in = { .tokens = 200, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 2 }, .states = GDN_FINAL,
		.overall = 0.03 },
	{ .name = "keys_equal_split", .in = { .tokens = 4730, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1 }, .split = TILEKERN_SPLIT_EXACT,
		.processors = 16, .states = GDN_FINAL },
	{ .name = "keys_equal_k256", .in = { .tokens = 130, .key_dim = 256, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1 }, .states = GDN_FINAL },
	{ .name = "values_of_1e-5", .in = { .tokens = 200, .value_scale = 1e-5f }, .states = GDN_BOTH },
	{ .name = "values_of_1e-3", .in = { .tokens = 200, .value_scale = 1e-3f }, .states = GDN_BOTH },
	{ .name = "values_of_1e4", .in = { .tokens = 200, .value_scale = 1e4f }, .states = GDN_BOTH },
	{ .name = "scale_of_1e-4", .in = { .tokens = 200 }, .scale = 1e-4f },
	{ .name = "scale_of_1e4", .in = { .tokens = 200 }, .scale = 1e4f },
	{ .name = "long", .in = { .tokens = 1000, .qk_heads = 1, .value_heads = 2 }, .states = GDN_BOTH },
	{ .name = "long_zero_gates", .in = { .tokens = 1000, .fp16 = true, .gates = GDN_GATES_ZERO }, .states = GDN_BOTH },
};

static const GdnRow saves[] = {
	{ .name = "saves", .in = { .batch = 2, .tokens = 200, .qk_heads = 1, .value_heads = 2 }, .save = true, .states = GDN_BOTH },
	{ .name = "saves_fp16_v_first", .in = { .tokens = 200, .qk_heads = 2, .value_heads = 4, .fp16 = true, .gates = GDN_GATES_MIXED }, .save = true,
		.states = GDN_BOTH, .state_v_first = true },
	{ .name = "saves_packed", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .spare = 200, .save = true, .states = GDN_BOTH },
	{ .name = "saves_packed_v_first_strided", .in = { .value_heads = 3, .gates = GDN_GATES_STRONG }, .lengths = around, .spare = 1, .save = true,
		.state_v_first = true, .strided = true },
	{ .name = "saves_k64_v136", .in = { .tokens = 130, .key_dim = 64, .value_dim = 136, .fp16 = true }, .save = true, .states = GDN_INITIAL },
	{ .name = "saves_k72_v40_v_first", .in = { .tokens = 130, .key_dim = 72, .value_dim = 40 }, .lengths = around, .save = true, .state_v_first = true },
	{ .name = "saves_k256", .in = { .tokens = 130, .value_heads = 2, .key_dim = 256, .value_dim = 64 }, .save = true, .states = GDN_BOTH },
	{ .name = "saves_k200_v72_v_first_packed", .in = { .key_dim = 200, .value_dim = 72, .fp16 = true }, .lengths = around, .spare = 3, .save = true, .state_v_first = true },
	{ .name = "saves_all_options", .in = { .tokens = 130, .value_heads = 2, .gate16 = true }, .options = NORM | RAW | SIGMOID | TWICE, .save = true,
		.states = GDN_BOTH },
	{ .name = "saves_split", .in = { .tokens = 1500 }, .save = true, .processors = 16, .states = GDN_BOTH },
	{ .name = "saves_joined", .in = { .gates = GDN_GATES_PATCHES }, .lengths = one_long, .spare = 100, .save = true, .processors = 16, .states = GDN_BOTH },
};

/* Long sequences of few heads.  16 processors have units of 4 or 5 chunks; beyond 64 chunks they are joined (kernels/gdn/README.md). */
#define AUTO .split = TILEKERN_SPLIT_AUTO, .processors = 16
#define EXACT .split = TILEKERN_SPLIT_EXACT, .processors = 16
static const GdnRow splits[] = {
	{ .name = "split_auto", .in = { .tokens = 1500 }, AUTO, .states = GDN_BOTH },
	{ .name = "split_exact", .in = { .tokens = 1500 }, EXACT, .states = GDN_BOTH },
	{ .name = "split_off", .in = { .tokens = 1500 }, .split = TILEKERN_SPLIT_OFF, .processors = 16, .states = GDN_BOTH },
	{ .name = "split_auto_mixed", .in = { .tokens = 1500, .gates = GDN_GATES_MIXED }, AUTO, .states = GDN_BOTH },
	{ .name = "split_auto_zero", .in = { .tokens = 1500, .gates = GDN_GATES_ZERO }, AUTO, .states = GDN_BOTH },
	{ .name = "split_auto_patches_heads", .in = { .tokens = 2048, .qk_heads = 1, .value_heads = 4, .gates = GDN_GATES_PATCHES }, AUTO, .states = GDN_BOTH },
	{ .name = "split_exact_zero_fp16", .in = { .tokens = 1500, .gates = GDN_GATES_ZERO, .fp16 = true }, EXACT, .states = GDN_BOTH },
	{ .name = "split_exact_d64", .in = { .batch = 2, .tokens = 1111, .key_dim = 64, .value_dim = 64 }, EXACT, .states = GDN_FINAL },
	{ .name = "split_auto_k72_v200", .in = { .tokens = 1111, .key_dim = 72, .value_dim = 200 }, AUTO, .states = GDN_BOTH, .state_v_first = true },
	{ .name = "split_auto_long_keys", .in = { .tokens = 1111, .keys = GDN_KEYS_LONG, .gates = GDN_GATES_STRONG }, AUTO, .states = GDN_BOTH },
	{ .name = "split_packed", .in = { .qk_heads = 1, .value_heads = 1 }, .lengths = few_long, .spare = 500, AUTO, .states = GDN_BOTH },
	{ .name = "join_auto", .in = { .tokens = 4700 }, AUTO, .states = GDN_BOTH },
	{ .name = "join_auto_zero", .in = { .tokens = 4700, .gates = GDN_GATES_ZERO }, AUTO, .states = GDN_BOTH },
	{ .name = "join_auto_patches", .in = { .tokens = 6000, .qk_heads = 1, .value_heads = 2, .gates = GDN_GATES_PATCHES }, AUTO, .states = GDN_BOTH },
	{ .name = "join_auto_long_keys", .in = { .tokens = 4700, .keys = GDN_KEYS_LONG, .gates = GDN_GATES_STRONG, .fp16 = true }, AUTO, .states = GDN_BOTH },
	{ .name = "join_exact", .in = { .tokens = 4700, .fp16 = true }, EXACT, .states = GDN_BOTH },
	{ .name = "join_exact_zero", .in = { .tokens = 4700, .gates = GDN_GATES_ZERO }, EXACT, .states = GDN_FINAL },
	{ .name = "join_exact_mixed", .in = { .tokens = 4700, .gates = GDN_GATES_MIXED }, EXACT, .states = GDN_BOTH, .state_bf16 = true },
	{ .name = "join_exact_collinear", .in = { .tokens = 4700, .gates = GDN_GATES_ZERO, .keys = GDN_KEYS_POSITIVE, .fp16 = true }, EXACT, .states = GDN_FINAL },
	{ .name = "join_exact_d64", .in = { .tokens = 4700, .qk_heads = 1, .value_heads = 2, .key_dim = 64, .value_dim = 64, .gates = GDN_GATES_ZERO }, EXACT,
		.states = GDN_BOTH },
	{ .name = "join_exact_k72_v200", .in = { .tokens = 4700, .key_dim = 72, .value_dim = 200, .gates = GDN_GATES_ZERO }, EXACT, .states = GDN_BOTH },
	{ .name = "join_exact_k128_v256_fp16", .in = { .tokens = 4700, .value_dim = 256, .fp16 = true, .gates = GDN_GATES_PATCHES }, EXACT, .states = GDN_BOTH,
		.state_v_first = true },
	{ .name = "join_packed", .in = { .qk_heads = 1, .value_heads = 1, .gates = GDN_GATES_PATCHES }, .lengths = one_long, .spare = 500, AUTO,
		.states = GDN_BOTH },
	{ .name = "join_packed_exact", .in = { .qk_heads = 1, .value_heads = 2, .gates = GDN_GATES_ZERO, .fp16 = true }, .lengths = two_long, EXACT,
		.states = GDN_BOTH, .lengths_i64 = true, .strided = true },
};

/* Many sequences of few tokens: one kernel, on few processors, which cuts the long ones where the gates let it. */
#define FEW .processors = 3
static const GdnRow singles[] = {
	{ .name = "single", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = serving, .spare = 40, .states = GDN_BOTH, FEW },
	{ .name = "single_v_first", .in = { .qk_heads = 1, .value_heads = 3, .gates = GDN_GATES_MIXED }, .lengths = serving, .options = NORM, .states = GDN_BOTH,
		.state_v_first = true, .lengths_i64 = true, .strided = true, FEW },
	{ .name = "single_bf16_states", .in = { .qk_heads = 2, .value_heads = 2, .gate16 = true }, .lengths = all_lengths, .spare = 1, .options = NORM | RAW,
		.states = GDN_BOTH, .state_bf16 = true, FEW },
	{ .name = "single_bf16_states_v_first", .in = { .value_heads = 2, .beta16 = true }, .lengths = all_lengths, .options = NORM | SIGMOID | TWICE,
		.states = GDN_BOTH, .state_bf16 = true, .state_v_first = true, .strided = true, FEW },
	{ .name = "single_fp16", .in = { .qk_heads = 1, .value_heads = 2, .fp16 = true }, .lengths = serving, .options = NORM, .states = GDN_FINAL, FEW },
	{ .name = "single_fp16_v_first", .in = { .qk_heads = 1, .value_heads = 2, .fp16 = true, .gate16 = true, .beta16 = true }, .lengths = serving,
		.options = NORM | RAW | SIGMOID, .states = GDN_BOTH, .state_v_first = true, FEW },
	{ .name = "single_without_states", .in = { .value_heads = 2 }, .lengths = serving, .options = NORM, FEW },
	{ .name = "single_initial", .in = { .value_heads = 2, .gates = GDN_GATES_ZERO }, .lengths = all_lengths, .options = NORM, .states = GDN_INITIAL, FEW },
	{ .name = "single_cut_zero", .in = { .value_heads = 2, .gates = GDN_GATES_ZERO }, .lengths = serving, .options = NORM, .states = GDN_BOTH, FEW },
	{ .name = "single_cut_patches", .in = { .value_heads = 2, .gates = GDN_GATES_PATCHES }, .lengths = longer, .options = NORM, .states = GDN_BOTH, FEW },
	{ .name = "single_cut_exact", .in = { .value_heads = 2 }, .lengths = serving, .options = NORM, .split = TILEKERN_SPLIT_EXACT, .states = GDN_BOTH, FEW },
	{ .name = "single_many_rows", .in = { .batch = 600, .tokens = 2 }, .options = NORM, .states = GDN_FINAL, FEW }, /* more than deal.tile has threads */
	{ .name = "single_rows", .in = { .batch = 5, .tokens = 97, .qk_heads = 1, .value_heads = 2 }, .strided = true, .states = GDN_BOTH, FEW },
	{ .name = "single_rows_v_first", .in = { .batch = 2, .tokens = 900, .value_heads = 2 }, .options = NORM, .state_v_first = true, .states = GDN_BOTH, FEW },
	{ .name = "single_pool_v_first", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = serving, .spare = 4, .options = NORM, .states = GDN_BOTH,
		.state_v_first = true, .pool = { .slots = true, .in_place = true, .nulls = true, .has = true }, FEW },
	{ .name = "single_pool_outputs_i64", .in = { .value_heads = 2 }, .lengths = serving, .options = NORM, .states = GDN_BOTH, .strided = true,
		.pool = { .slots = true, .outputs = true, .nulls = true, .i64 = true }, FEW },
	{ .name = "single_pool_bf16", .in = { .value_heads = 2, .fp16 = false }, .lengths = all_lengths, .options = NORM | SIGMOID, .states = GDN_BOTH, .state_bf16 = true,
		.state_v_first = true, .pool = { .slots = true, .in_place = true, .outputs = true, .has = true }, FEW },
	{ .name = "single_pool_of_rows", .in = { .batch = 7, .tokens = 33, .value_heads = 2 }, .options = NORM, .states = GDN_BOTH,
		.pool = { .slots = true, .nulls = true, .has = true }, FEW },
	{ .name = "single_in_place", .in = { .value_heads = 2 }, .lengths = longer, .options = NORM, .states = GDN_BOTH, .pool = { .in_place = true }, FEW },
	{ .name = "single_keys_equal", .in = { .batch = 2, .tokens = 200, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1 }, .states = GDN_FINAL, FEW },
	{ .name = "single_keys_collinear", .in = { .batch = 2, .tokens = 200, .keys = GDN_KEYS_COLLINEAR, .betas = GDN_BETAS_TWICE }, .states = GDN_FINAL, FEW },
	{ .name = "single_keys_positive_fp16", .in = { .batch = 2, .tokens = 200, .keys = GDN_KEYS_POSITIVE, .fp16 = true, .gates = GDN_GATES_ZERO },
		.states = GDN_FINAL, FEW },
};

#define INVARIANT .split = TILEKERN_SPLIT_INVARIANT, .processors = 16
static const GdnRow pools[] = {
	{ .name = "pool", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .states = GDN_BOTH, .pool = { .slots = true } },
	{ .name = "pool_in_place", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .spare = 9, .states = GDN_BOTH, .state_v_first = true,
		.pool = { .slots = true, .in_place = true, .nulls = true, .has = true } },
	{ .name = "pool_in_place_bf16_i64", .in = { .value_heads = 3, .fp16 = true }, .lengths = around, .lengths_i64 = true, .states = GDN_BOTH, .state_bf16 = true,
		.strided = true, .pool = { .slots = true, .in_place = true, .nulls = true, .i64 = true } },
	{ .name = "pool_outputs_f16", .in = { .key_dim = 72, .value_dim = 200 }, .lengths = all_lengths, .states = GDN_BOTH, .state_f16 = true, .strided = true,
		.pool = { .slots = true, .outputs = true, .has = true } },
	{ .name = "pool_outputs_in_place", .in = { .key_dim = 64, .value_dim = 64 }, .lengths = around, .states = GDN_BOTH, .strided = true, .state_v_first = true,
		.pool = { .slots = true, .outputs = true, .in_place = true, .nulls = true, .i64 = true, .has = true } },
	{ .name = "pool_k200_v256_in_place", .in = { .key_dim = 200, .value_dim = 256 }, .lengths = two, .states = GDN_BOTH, .state_f16 = true,
		.pool = { .slots = true, .in_place = true, .has = true, .checkpoints = GDN_EVERY_64 } },
	{ .name = "pool_of_rows", .in = { .batch = 5, .tokens = 70 }, .states = GDN_BOTH, .pool = { .slots = true, .in_place = true, .nulls = true } },
	{ .name = "pool_final_alone", .in = { .tokens = 0 }, .lengths = all_lengths, .states = GDN_FINAL, .pool = { .slots = true, .nulls = true } },
	{ .name = "pool_initial_alone", .in = { .tokens = 0 }, .lengths = all_lengths, .states = GDN_INITIAL, .pool = { .slots = true, .nulls = true, .has = true } },
	{ .name = "pool_without_tokens", .in = { .value_heads = 2, .key_dim = 100, .value_dim = 60 }, .lengths = empty_ones, .states = GDN_BOTH, .state_bf16 = true,
		.pool = { .slots = true, .outputs = true, .nulls = true, .has = true } },
	{ .name = "pool_without_tokens_v_first", .in = { .batch = 4, .value_heads = 2 }, .states = GDN_BOTH, .state_v_first = true, .state_f16 = true,
		.pool = { .slots = true, .in_place = true, .has = true, .i64 = true } },
	{ .name = "in_place", .in = { .batch = 3, .tokens = 130 }, .states = GDN_BOTH, .pool = { .in_place = true } },
	{ .name = "in_place_split", .in = { .tokens = 1500 }, AUTO, .states = GDN_BOTH, .pool = { .in_place = true } },
	{ .name = "in_place_split_exact", .in = { .gates = GDN_GATES_ZERO }, .lengths = two_long, EXACT, .states = GDN_BOTH, .state_bf16 = true, .state_v_first = true,
		.pool = { .slots = true, .in_place = true, .has = true } },
	{ .name = "checkpoints", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .states = GDN_BOTH, .pool = { .checkpoints = GDN_AT_OFFSETS } },
	{ .name = "checkpoints_alone_i64_slots", .in = { .key_dim = 64, .value_dim = 64, .fp16 = true }, .lengths = around, .lengths_i64 = true,
		.pool = { .i64 = true, .checkpoints = GDN_AT_OFFSETS, .checkpoint_slots = true } },
	{ .name = "checkpoints_every_64_v_first", .in = { .value_dim = 256 }, .lengths = all_lengths, .states = GDN_INITIAL, .state_v_first = true,
		.pool = { .checkpoints = GDN_EVERY_64 } },
	{ .name = "checkpoints_every_192_bf16_slots", .in = { .value_heads = 2 }, .lengths = around, .state_bf16 = true, .states = GDN_BOTH, .strided = true,
		.pool = { .slots = true, .in_place = true, .nulls = true, .checkpoints = GDN_EVERY_192, .checkpoint_slots = true, .checkpoint_16 = true } },
	{ .name = "checkpoints_f16_k60_v100", .in = { .key_dim = 60, .value_dim = 100 }, .lengths = around, .state_f16 = true, .states = GDN_BOTH, .strided = true,
		.pool = { .checkpoints = GDN_AT_OFFSETS, .checkpoint_16 = true } },
	{ .name = "checkpoints_split", .in = { .tokens = 1500 }, AUTO, .states = GDN_BOTH, .pool = { .checkpoints = GDN_EVERY_64 } },
	{ .name = "checkpoints_joined", .in = { .gates = GDN_GATES_ZERO }, .lengths = one_long, EXACT, .states = GDN_BOTH,
		.pool = { .in_place = true, .checkpoints = GDN_EVERY_192 } },
	{ .name = "checkpoints_saves", .in = { .tokens = 200 }, .save = true, .states = GDN_BOTH, .pool = { .checkpoints = GDN_EVERY_64 } },
	{ .name = "invariant", .in = { .value_heads = 2 }, .lengths = few_long, INVARIANT, .states = GDN_BOTH, .pool = { .in_place = true } },
	{ .name = "invariant_zero", .in = { .gates = GDN_GATES_ZERO }, .lengths = mixed_long, INVARIANT, .states = GDN_BOTH,
		.pool = { .slots = true, .in_place = true, .nulls = true, .checkpoints = GDN_EVERY_192 } },
	{ .name = "invariant_rows", .in = { .batch = 2, .tokens = 4700, .gates = GDN_GATES_PATCHES }, INVARIANT, .states = GDN_BOTH },
	{ .name = "gates_f16", .in = { .tokens = 130, .value_heads = 2 }, .gate_type = TILERT_F16, .beta_type = TILERT_F16, .strided = true },
	{ .name = "gates_bf16_of_fp16", .in = { .tokens = 130, .value_heads = 2, .fp16 = true }, .gate_type = TILERT_BF16, .beta_type = TILERT_F16 },
	{ .name = "raw_gates_of_types", .in = { .tokens = 130, .value_heads = 3 }, .options = RAW | SIGMOID, .gate_type = TILERT_F16, .beta_type = TILERT_BF16,
		.a_log_type = TILERT_BF16, .dt_bias_type = TILERT_F16 },
	{ .name = "raw_gates_of_types_fp16", .in = { .tokens = 70, .value_heads = 3, .fp16 = true }, .options = RAW, .a_log_type = TILERT_F16, .dt_bias_type = TILERT_BF16 },
	{ .name = "k60_v100", .in = { .batch = 2, .tokens = 130, .qk_heads = 2, .value_heads = 4, .key_dim = 60, .value_dim = 100 }, .strided = true, .states = GDN_BOTH },
	{ .name = "k7_v1", .in = { .tokens = 70, .value_heads = 2, .key_dim = 7, .value_dim = 1, .fp16 = true }, .strided = true, .states = GDN_BOTH,
		.overall = 0.006, .chunk = 0.02 },
	{ .name = "k251_v131_v_first", .in = { .tokens = 70, .key_dim = 251, .value_dim = 131 }, .strided = true, .states = GDN_BOTH, .state_v_first = true },
};

/* For run_wild, with every kernel that reads offsets. */
static const GdnRow wilds[] = {
	{ .name = "wild_offsets", .in = { .value_heads = 2, .seed = 31 }, .lengths = all_lengths, .spare = 70, .states = GDN_BOTH, .strided = true },
	{ .name = "wild_offsets_i64_fp16", .in = { .key_dim = 64, .value_dim = 64, .fp16 = true, .seed = 32 }, .lengths = around, .lengths_i64 = true,
		.states = GDN_BOTH },
	{ .name = "wild_offsets_saves", .in = { .value_heads = 2, .seed = 34 }, .lengths = all_lengths, .save = true, .states = GDN_BOTH },
	{ .name = "wild_offsets_k200", .in = { .key_dim = 200, .value_dim = 72, .seed = 35 }, .lengths = around, .spare = 3, .save = true, .states = GDN_BOTH,
		.lengths_i64 = true },
	{ .name = "wild_offsets_single", .in = { .value_heads = 2, .seed = 38 }, .lengths = serving, .options = NORM, .states = GDN_BOTH, FEW },
	{ .name = "wild_offsets_split", .in = { .seed = 36 }, .lengths = few_long, .spare = 100, AUTO, .states = GDN_BOTH, .strided = true },
	{ .name = "wild_offsets_joined", .in = { .gates = GDN_GATES_PATCHES, .seed = 37 }, .lengths = one_long, .spare = 10, EXACT, .states = GDN_BOTH,
		.lengths_i64 = true },
};

typedef struct Table { NumericCase *out; size_t n; } Table;

static void add(Table *t, void (*run)(const void *), const GdnRow *row, const char *name)
{
	NumericCase *c = &t->out[t->n++];
	*c = (NumericCase){ .run = run, .spec = row };
	snprintf(c->name, sizeof c->name, "gdn_%s", name);
}

static void add_rows(Table *t, const GdnRow *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(t, run_forward, &rows[i], rows[i].name);
}
#define ADD_ROWS(t, rows) add_rows(t, rows, sizeof rows / sizeof rows[0])

static const char *const gate_names[] = { "mild", "zero", "strong", "mixed" };

/* Every length with every dtype, K = V = 128 and 64; heads, batch, gates, dtypes of gate and beta, and states take turns. */
static void add_shapes(Table *t)
{
	static const int64_t lengths[] = { 0, 1, 2, 63, 64, 65, 200 }, heads[][2] = { { 1, 1 }, { 1, 2 }, { 2, 6 }, { 1, 4 }, { 2, 2 } };
	static GdnRow rows[7 * 4];
	char name[64];
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const int64_t *h = heads[i % 5];
		int64_t d = i / 7 % 2 ? 64 : 128, tokens = lengths[i % 7];
		GdnGates gates = (GdnGates)(i % 4);
		bool fp16 = i >= 14, gate16 = i % 3 == 1, beta16 = i % 3 == 2 || i % 9 == 1;
		rows[i] = (GdnRow){ .in = { .batch = 1 + i % 2, .tokens = tokens, .qk_heads = h[0], .value_heads = h[1], .key_dim = d, .value_dim = d,
			.gates = gates, .fp16 = fp16, .gate16 = gate16, .beta16 = beta16, .seed = 100 + i }, .states = (GdnStates)((i + i / 7) % 4),
			.processors = i % 3 ? 0 : 64 }; /* of 64, each has a CTA at most: another kernel than where there are more CTAs */
		snprintf(name, sizeof name, "b%d_t%lld_h%lld_%lld_d%lld_%s_%s_g%s_b%s_s%d", (int)(1 + i % 2), (long long)tokens, (long long)h[0], (long long)h[1],
			(long long)d, fp16 ? "fp16" : "bf16", gate_names[gates], gate16 ? "16" : "32", beta16 ? "16" : "32", (int)rows[i].states);
		add(t, run_forward, &rows[i], name);
	}
}

/* K != V, and multiples of 8 that are no multiples of 64. */
static void add_dims(Table *t)
{
	static const int dims[][2] = { { 128, 64 }, { 64, 128 }, { 8, 40 }, { 40, 128 }, { 72, 256 }, { 96, 8 }, { 128, 72 }, { 136, 96 }, { 200, 136 }, { 256, 200 },
		{ 256, 256 }, { 8, 256 }, { 256, 8 }, { 192, 192 }, { 64, 136 }, { 128, 256 } };
	static GdnRow rows[16];
	char name[64];
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		rows[i] = (GdnRow){ .in = { .tokens = i % 3 ? 130 : 65, .qk_heads = 1, .value_heads = 1 + i % 2, .key_dim = dims[i][0], .value_dim = dims[i][1],
			.fp16 = i % 4 == 1, .seed = 200 + i }, .states = i % 2 ? GDN_BOTH : GDN_FINAL, .state_v_first = i % 5 == 2 };
		snprintf(name, sizeof name, "k%d_v%d_%s", dims[i][0], dims[i][1], rows[i].in.fp16 ? "fp16" : "bf16");
		add(t, run_forward, &rows[i], name);
	}
}

/* States in every type and order, with tokens and without. */
static void add_states(Table *t)
{
	static const char *const names[] = { "none", "final", "initial", "both" };
	static GdnRow rows[32];
	char name[64];
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		bool bf16 = i & 1, v_first = i & 2, tokens = i & 4;
		GdnStates which = (GdnStates)(i / 8);
		rows[i] = (GdnRow){ .in = { .batch = tokens ? 1 : 2, .tokens = tokens ? 65 : 0, .qk_heads = 1, .value_heads = 2, .fp16 = i % 3 == 0, .seed = 300 + i },
			.states = which, .state_bf16 = bf16, .state_v_first = v_first };
		snprintf(name, sizeof name, "states_%s_%s_%s_t%d", names[which], bf16 ? "bf16" : "f32", v_first ? "v_first" : "k_first", tokens ? 65 : 0);
		add(t, run_forward, &rows[i], name);
	}
}

static void add_gates(Table *t)
{
	static GdnRow rows[8];
	char name[64];
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		rows[i] = (GdnRow){ .in = { .tokens = 200, .qk_heads = 1, .value_heads = 2, .gates = (GdnGates)(i % 4), .fp16 = i >= 4, .seed = 400 + i },
			.states = GDN_BOTH };
		snprintf(name, sizeof name, "gates_%s_%s", gate_names[i % 4], i >= 4 ? "fp16" : "bf16");
		add(t, run_forward, &rows[i], name);
	}
}

/* More sequences, heads and blocks of V than a GPU has processors: 128 columns of V a CTA, and CTAs that take several items. */
static void add_many_rows(Table *t)
{
	static const GdnRow row = { .name = "many_rows", .in = { .batch = 70, .tokens = 70, .value_heads = 2 }, .states = GDN_BOTH };
	add(t, run_forward, &row, row.name);
}

/* Calls without sequences or heads succeed and write nothing. */
static void run_nothing(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	tilekern_gdn_params p[] = { r->p, r->p, r->p };
	p[0].batch = 0;
	p[1].qk_heads = p[1].value_heads = 0;
	p[2].batch = 1;
	p[2].cu_seqlens = r->a_log.p;
	p[2].sequences = 0;
	for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
		GDN_OK(tilekern_gdn_forward(r->gdn, &p[i], NULL));
		OK(tilert_stream_sync(numeric_device(), NULL));
		int64_t tokens = r->offsets[r->sequences];
		for (int64_t n = 0; n <= r->sequences; n++)
			r->offsets[n] = 0;
		free(gdn_run_output(r)); /* looks for writes */
		r->offsets[r->sequences] = tokens;
	}
	gdn_run_free(r);
}

typedef struct Caller { GdnRun *run; tilekern_gdn *gdn; tilert_status status; } Caller;

static void *call_from_thread(void *user)
{
	Caller *c = user;
	c->status = tilekern_gdn_forward(c->gdn, &c->run->p, NULL);
	return NULL;
}

/* One tilekern_gdn, several threads: kernels are loaded once, and right. */
static void run_threads(const void *row)
{
	enum { THREADS = 4 };
	Caller callers[THREADS];
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		GdnRow one = *(const GdnRow *)row;
		one.in.fp16 = i % 2;
		one.in.seed = (uint64_t)i;
		callers[i].run = gdn_run_make(&one);
		callers[i].gdn = callers[0].run->gdn;
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call_from_thread, &callers[i]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	OK(tilert_stream_sync(numeric_device(), NULL));
	for (int i = THREADS - 1; i >= 0; i--) {
		assert_int_equal(callers[i].status, TILERT_OK);
		check_result(callers[i].run);
		gdn_run_free(callers[i].run);
	}
}

static tilert_dtype random_type(Random *r)
{
	static const tilert_dtype types[] = { TILERT_F32, TILERT_BF16, TILERT_F16 };
	return types[pick(r, 3)];
}

/* Where states lie, what is wanted of them, and types of what is small. */
static void random_states(Random *r, GdnRow *row)
{
	GdnPool *p = &row->pool;
	*p = (GdnPool){ .slots = toss(r), .in_place = toss(r), .has = toss(r), .i64 = toss(r), .checkpoints = (GdnCheckpoints)pick(r, 4),
		.checkpoint_slots = toss(r), .checkpoint_16 = toss(r) };
	p->outputs = p->slots && toss(r);
	p->nulls = p->slots && toss(r);
	row->state_f16 = !row->state_bf16 && toss(r);
	if (toss(r)) {
		row->gate_type = random_type(r);
		row->beta_type = random_type(r);
		row->a_log_type = random_type(r);
		row->dt_bias_type = random_type(r);
	}
	if (row->strided && !row->save && pick(r, 3) == 0) {
		row->in.key_dim = 1 + pick(r, 256);
		row->in.value_dim = 1 + pick(r, 256);
	}
}

/* Anything that the interface allows. */
static GdnRow random_row(Random *r, int *lengths)
{
	static const int64_t dims[] = { 64, 128, 128, 8, 16, 24, 40, 96, 104, 120, 136, 160, 192, 248, 256 }, likely[] = { 0, 1, 17, 63, 64, 65, 127, 128, 130, 250 };
	static const unsigned processors[] = { 0, 1, 6, 16, 132 };
	GdnRow row = { .in = { .batch = 1 + pick(r, 3), .tokens = likely[pick(r, 10)], .qk_heads = 1 + pick(r, 3), .key_dim = dims[pick(r, 15)],
		.value_dim = dims[pick(r, 15)], .gates = (GdnGates)pick(r, 4), .keys = pick(r, 4) ? GDN_KEYS_RANDOM : GDN_KEYS_POSITIVE, .betas = (GdnBetas)pick(r, 2),
		.fp16 = toss(r), .gate16 = toss(r), .beta16 = toss(r), .seed = random_bits(r) },
		.states = (GdnStates)pick(r, 4), .state_bf16 = toss(r), .state_v_first = toss(r), .strided = toss(r), .without_dt_bias = toss(r),
		.split = (tilekern_split)pick(r, 4), .processors = processors[pick(r, 5)], .scale = pick(r, 3) ? 0 : 0.2f };
	const unsigned flags[] = { NORM, RAW, SIGMOID, TWICE };
	row.in.value_heads = row.in.qk_heads * (1 + pick(r, 4));
	for (int i = 0; i < 4; i++)
		row.options |= toss(r) ? flags[i] : 0;
	if (!(row.options & SIGMOID))
		row.options &= ~(unsigned)TWICE;
	if (pick(r, 6) == 0) { /* one long sequence */
		row.in.tokens = 600 + pick(r, 1000);
		row.in.batch = row.in.qk_heads = row.in.value_heads = 1;
	}
	if (toss(r)) {
		int64_t n = 1 + pick(r, 6);
		for (int64_t i = 0; i < n; i++)
			lengths[i] = (int)(i ? likely[pick(r, 10)] : row.in.tokens);
		lengths[n] = -1;
		row.lengths = lengths;
		row.spare = (int)(toss(r) ? pick(r, 100) : 0);
		row.lengths_i64 = toss(r);
		row.in.tokens = 0;
		row.in.batch = 1;
	}
	row.save = pick(r, 4) == 0;
	random_states(r, &row);
	/* Not about accuracy: few channels and positive keys cost some. */
	row.overall = row.in.fp16 ? 0.006 : 0.03;
	row.chunk = 1; /* where all has decayed fp16 is subnormal */
	/* With fp16 inputs e u, which is added to the state, is fp16: 64 errors of up to 2^-25, times k.  A state of fp16 has one. */
	row.least = row.in.fp16 ? 0x1p-20 : row.state_f16 ? 0x1p-25 : 0;
	return row;
}

/* $TILE_TEST_RANDOM is a seed, for random_calls() calls that are named before they run. */
static void run_random(const void *unused)
{
	const char *more = getenv("TILE_TEST_RANDOM");
	int lengths[8];
	Random r;
	(void)unused;
	random_init(&r, more ? strtoull(more, NULL, 0) : 1);
	for (int i = 0; i < (more ? random_calls() : 25); i++) {
		GdnRow row = random_row(&r, lengths);
		if (more)
			print_message("%d: b%lld t%lld h%lld/%lld k%lld v%lld%s gates %d keys %d betas %d options %x states %d%s%s%s split %d processors %u%s\n", i,
				(long long)row.in.batch, (long long)row.in.tokens, (long long)row.in.qk_heads, (long long)row.in.value_heads, (long long)row.in.key_dim,
				(long long)row.in.value_dim, row.in.fp16 ? " fp16" : "", (int)row.in.gates, (int)row.in.keys, (int)row.in.betas, row.options, (int)row.states,
				row.state_bf16 ? " bf16" : "", row.state_v_first ? " v first" : "", row.strided ? " strided" : "", (int)row.split, row.processors,
				row.lengths ? " packed" : "");
		run_forward(&row);
	}
}

/* Many heads and more than 32 chunks: 128 columns of V a CTA. */
static void add_busy(Table *t)
{
	static GdnRow rows[] = {
		{ .name = "busy_bf16", .in = { .tokens = 2150 }, .states = GDN_BOTH },
		{ .name = "busy_fp16_d64_v136", .in = { .tokens = 2113, .key_dim = 64, .value_dim = 136, .fp16 = true }, .states = GDN_FINAL, .state_v_first = true },
		{ .name = "busy_fp16_k96_v72", .in = { .tokens = 2200, .key_dim = 96, .value_dim = 72, .fp16 = true }, .strided = true, .states = GDN_BOTH },
		{ .name = "busy_packed_v256", .in = { .value_dim = 256, .gates = GDN_GATES_MIXED }, .lengths = long_short, .spare = 30, .states = GDN_BOTH,
			.state_bf16 = true },
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		rows[i].processors = 1;
		rows[i].in.qk_heads = numeric_on_cpu() ? 1 : rows[i].in.value_dim > 128 ? 24 : 36; /* a GPU has more to fill */
		rows[i].in.value_heads = 2 * rows[i].in.qk_heads;
		add(t, run_forward, &rows[i], rows[i].name);
	}
}

size_t gdn_cases(NumericCase *out)
{
	static const struct { const char *name; void (*run)(const void *); GdnRow row; } more[] = {
		{ "reference_is_that_of_kda", run_reference, { .states = GDN_NO_STATES } },
		{ "is_repeatable", run_repeatable, { .in = { .tokens = 100, .qk_heads = 1, .value_heads = 2, .seed = 1 }, .states = GDN_BOTH } },
		{ "is_repeatable_packed_fp16", run_repeatable, { .in = { .qk_heads = 1, .value_heads = 2, .fp16 = true, .seed = 2 }, .lengths = all_lengths,
			.spare = 20, .options = NORM | RAW | SIGMOID, .states = GDN_BOTH } },
		{ "is_repeatable_k256", run_repeatable, { .in = { .tokens = 130, .key_dim = 256, .value_dim = 136, .seed = 3 }, .states = GDN_BOTH } },
		{ "is_repeatable_single", run_repeatable, { .in = { .qk_heads = 1, .value_heads = 2, .seed = 20 }, .lengths = serving, .options = NORM, .states = GDN_BOTH,
			FEW } },
		{ "is_repeatable_split", run_repeatable, { .in = { .tokens = 1500, .seed = 4 }, .states = GDN_BOTH, AUTO } },
		{ "is_repeatable_joined", run_repeatable, { .in = { .gates = GDN_GATES_PATCHES, .seed = 14 }, .lengths = one_long, .states = GDN_BOTH, EXACT } },
		{ "sequences_alone", run_alone, { .in = { .qk_heads = 1, .value_heads = 2, .seed = 5 }, .lengths = all_lengths, .spare = 30, .states = GDN_BOTH,
			.split = TILEKERN_SPLIT_OFF } },
		{ "sequences_alone_d64_fp16", run_alone, { .in = { .key_dim = 64, .value_dim = 64, .fp16 = true, .gates = GDN_GATES_MIXED, .seed = 6 },
			.lengths = around, .states = GDN_FINAL, .strided = true } },
		{ "sequences_alone_k72_v200", run_alone, { .in = { .key_dim = 72, .value_dim = 200, .seed = 7 }, .lengths = two, .states = GDN_BOTH } },
		{ "sequences_alone_without_split", run_alone, { .in = { .seed = 15 }, .lengths = few_long, .states = GDN_BOTH, .split = TILEKERN_SPLIT_OFF,
			.processors = 16 } },
		{ "rows_alone", run_alone, { .in = { .batch = 3, .tokens = 65, .qk_heads = 2, .value_heads = 2, .seed = 8 }, .states = GDN_BOTH, .split = TILEKERN_SPLIT_OFF } },
		{ "replayed_with_other_lengths", run_replayed, { .in = { .qk_heads = 1, .value_heads = 2, .seed = 12 }, .lengths = all_lengths, .spare = 7,
			.states = GDN_BOTH } },
		{ "replayed_with_other_lengths_joined", run_replayed, { .in = { .gates = GDN_GATES_PATCHES, .seed = 13 }, .lengths = eight, .spare = 300, AUTO,
			.states = GDN_BOTH } },
		{ "continues_from_a_state", run_continued, { .in = { .tokens = 150, .qk_heads = 1, .value_heads = 2, .seed = 9 }, .states = GDN_FINAL } },
		{ "continues_from_a_state_fp16_v_first", run_continued, { .in = { .tokens = 150, .fp16 = true, .seed = 10 }, .states = GDN_FINAL,
			.state_v_first = true, .strided = true } },
		{ "nothing_to_do", run_nothing, { .in = { .batch = 2, .tokens = 3, .qk_heads = 1, .value_heads = 2 }, .states = GDN_BOTH } },
		{ "from_several_threads", run_threads, { .in = { .tokens = 100, .qk_heads = 1, .value_heads = 2 }, .states = GDN_BOTH } },
		{ "without_tokens_strided", run_forward, { .in = { .batch = 2, .value_heads = 2 }, .strided = true, .states = GDN_BOTH } },
		{ "without_tokens_k40_v8_bf16", run_forward, { .in = { .key_dim = 40, .value_dim = 8 }, .strided = true, .state_bf16 = true, .states = GDN_BOTH } },
		{ "elements_beyond_2_31", run_far, { .in = { .qk_heads = 1, .value_heads = 2, .seed = 16 }, .lengths = far_lengths, .states = GDN_FINAL } },
		{ "parameters_of_a_newer_version", run_versions, { .in = { .tokens = 65, .seed = 19 }, .states = GDN_FINAL } },
		{ "rows_beyond_2_31", run_far_rows, { .in = { .batch = 2, .tokens = 70, .value_heads = 2, .seed = 17 }, .states = GDN_FINAL } },
		{ "strides_of_single_things", run_odd_strides, { .in = { .tokens = 70, .seed = 18 }, .states = GDN_FINAL } },
		{ "strided_bf16_states", run_forward, { .in = { .tokens = 65, .value_heads = 2 }, .strided = true, .state_bf16 = true, .states = GDN_BOTH } },
		{ "random_arguments", run_random, { .states = GDN_NO_STATES } },
		{ "refuses_wrong_arguments", run_refusals, { .in = { .batch = 2, .tokens = 3, .qk_heads = 2, .value_heads = 4, .seed = 11 }, .states = GDN_BOTH } },
	};
	Table t = { .out = out };
	for (int i = 0; i < 3000; i++)
		tiny[i] = i * 7 % 4;
	tiny[3000] = -1;
	add_shapes(&t);
	add_dims(&t);
	add_states(&t);
	add_gates(&t);
	add_busy(&t);
	add_many_rows(&t);
	ADD_ROWS(&t, strides);
	ADD_ROWS(&t, packed);
	ADD_ROWS(&t, options);
	ADD_ROWS(&t, numbers);
	ADD_ROWS(&t, saves);
	ADD_ROWS(&t, splits);
	ADD_ROWS(&t, singles);
	ADD_ROWS(&t, pools);
	for (size_t i = 0; i < sizeof wilds / sizeof wilds[0]; i++)
		add(&t, run_wild, &wilds[i], wilds[i].name);
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
		add(&t, more[i].run, &more[i].row, more[i].name);
	return t.n;
}
