/* gdn_bits.c - GDN calls that must give the same bits: again, alone, in two parts, far apart, recorded, from several threads. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/gdn_check.h"

enum { RAW = TILEKERN_RAW_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA, TWICE = TILEKERN_TWICE_BETA };

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
	const TokenTensor *tensors[] = { &r->q, &r->k, &r->v, &r->o, &r->g, &r->beta };
	tilert_ptr *pointers[] = { &p.q, &p.k, &p.v, &p.o, &p.g, &p.beta };
	for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
		const TokenTensor *t = tensors[i];
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
	Buffer first = r->pool.ht;
	r->pool.ht = buffer_poisoned(first.bytes);
	rest.final_state += r->pool.ht.p - first.p;
	if (r->row.lengths)
		fail_msg("not for packed sequences");
	const TokenTensor *tensors[] = { &r->q, &r->k, &r->v, &r->o, &r->g, &r->beta };
	tilert_ptr *pointers[] = { &rest.q, &rest.k, &rest.v, &rest.o, &rest.g, &rest.beta };
	for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
		*pointers[i] += (tilert_ptr)((size_t)(half * tensors[i]->strides.token) * tilert_dtype_size(tensors[i]->dtype));
	r->p = rest;
	gdn_run_forward(r);
	gdn_check(r);
	buffer_free(first);
	gdn_run_free(r);
}

static void run_far(const void *row) { gdn_run_with(row, forward_far_tokens); }
static void run_far_rows(const void *row) { gdn_run_with(row, forward_far_rows); }
static void run_replayed(const void *row) { gdn_run_with(row, forward_replayed); }

static void run_odd_strides(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	forward_odd_strides(gdn_run_as_forward(r).tensor);
	gdn_run_forward(r);
	gdn_check(r);
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
		gdn_check(callers[i].run);
		gdn_run_free(callers[i].run);
	}
}

/* ---- the cases ---- */

static const int far_lengths[] = { 70, 65, -1 }, all_lengths[] = { 0, 1, 63, 64, 65, 200, 0, 2, -1 },
	around[] = { 65, 0, 0, 63, 1, 129, 0, -1 }, two[] = { 0, 65, -1 }, few_long[] = { 1000, 0, 2000, 65, -1 },
	one_long[] = { 0, 1, 65, 4700, 0, 200, -1 }, eight[] = { 0, 1, 63, 64, 4700, 65, 0, 2, -1 },
	serving[] = { 1, 3, 1000, 0, 31, 32, 33, 1, 129, 300, 2, -1 };

#define AUTO .split = TILEKERN_SPLIT_AUTO, .processors = 16
#define EXACT .split = TILEKERN_SPLIT_EXACT, .processors = 16
#define FEW .processors = 3
size_t gdn_bits_cases(NumericCase *out)
{
	static const struct { const char *name; void (*run)(const void *); GdnRow row; } all[] = {
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
		{ "from_several_threads", run_threads, { .in = { .tokens = 100, .qk_heads = 1, .value_heads = 2 }, .states = GDN_BOTH } },
		{ "elements_beyond_2_31", run_far, { .in = { .qk_heads = 1, .value_heads = 2, .seed = 16 }, .lengths = far_lengths, .states = GDN_FINAL } },
		{ "rows_beyond_2_31", run_far_rows, { .in = { .batch = 2, .tokens = 70, .value_heads = 2, .seed = 17 }, .states = GDN_FINAL } },
		{ "strides_of_single_things", run_odd_strides, { .in = { .tokens = 70, .seed = 18 }, .states = GDN_FINAL } },
	};
	size_t n = sizeof all / sizeof all[0];
	for (size_t i = 0; i < n; i++) {
		out[i] = numeric_case(all[i].run, &all[i].row, "gdn_%s", all[i].name);
	}
	return n;
}
