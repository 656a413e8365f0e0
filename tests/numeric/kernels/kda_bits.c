/* kda_bits.c - KDA calls that must give the same bits: again, alone, in parts, with other tokens behind them, far apart, recorded. */
#include <stdlib.h>

#include "tests/numeric/kernels/kda_run.h"

enum { BOUND = TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE, NORM = TILEKERN_L2NORM };

static void run_odd_strides(const void *row)
{
	KdaRun *r = kda_run_make(row);
	forward_odd_strides(kda_run_as_forward(r).tensor);
	kda_run_forward(r);
	kda_run_check(r);
	kda_run_free(r);
}

/* Offsets are a slice of more of them, at any address. */
static void run_offsets_slice(const void *row)
{
	KdaRun *r = kda_run_make(row);
	const int64_t n = r->sequences + 1;
	int32_t *x = memory((size_t)(n + 1) * sizeof *x);
	x[0] = -1;
	for (int64_t i = 0; i < n; i++)
		x[i + 1] = (int32_t)r->offsets[i];
	const Buffer all = buffer_of(x, (size_t)(n + 1) * sizeof *x);
	r->p.cu_seqlens = all.p + sizeof *x;
	free(x);
	kda_run_poison(r);
	kda_run_forward(r);
	kda_run_check(r);
	kda_run_free(r);
	buffer_free(all);
}

/* A second run, on the CPU device under another schedule, gives the same bits; so does the two-step interface. */
static void run_repeatable(const void *row)
{
	KdaRun *r = kda_run_make(row);
	tilekern_kda_call *call;

	kda_run_forward(r);
	void *o = buffer_take(r->o.buffer), *ht = buffer_take(r->pool.ht);
	kda_run_poison(r);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), 12345, 0));
	KDA_OK(tilekern_kda_prepare(r->kda, &r->p, &call));
	KDA_OK(tilekern_kda_launch(call, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	tilekern_kda_call_destroy(call);
	void *o2 = buffer_take(r->o.buffer), *ht2 = buffer_take(r->pool.ht);
	assert_memory_equal(o, o2, r->o.buffer.bytes);
	assert_memory_equal(ht, ht2, r->pool.ht.bytes);
	free(o);
	free(o2);
	free(ht);
	free(ht2);
	kda_run_free(r);
}

/* Tokens from `cut` on times `factor`, on the device. */
static void change(KdaRun *r, TokenTensor *t, tilert_ptr *p, int64_t cut, double factor)
{
	int64_t per = t->heads * t->width;
	for (int64_t e = cut * per; e < r->row.tokens * per; e++)
		t->value[e] *= factor;
	kda_run_upload(r, t);
	*p = t->buffer.p;
}

static void change_all(KdaRun *r, int64_t cut, bool back)
{
	change(r, &r->q, &r->p.q, cut, -1);
	change(r, &r->k, &r->p.k, cut, -1);
	change(r, &r->v, &r->p.v, cut, back ? 0.5 : 2); /* powers of two, so that they can be taken back */
	change(r, &r->g, &r->p.g, cut, back ? 4 : 0.25);
	change(r, &r->beta, &r->p.beta, cut, back ? 2 : 0.5);
}

/* The first tokens' outputs keep their bits when nothing follows them, and when other things do. */
static void run_causal(const void *row)
{
	static const int64_t cuts[] = { 1, 15, 17, 33, 64, 70 };
	KdaRun *r = kda_run_make(row);
	int64_t width = r->row.value_heads * r->row.value_dim;
	kda_run_forward(r);
	float *whole = kda_run_output(r);
	for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
		kda_run_poison(r);
		r->p.tokens = r->offsets[1] = cuts[i];
		kda_run_forward(r);
		float *alone = kda_run_output(r);
		expect_same("alone", whole, alone, cuts[i] * width);
		r->p.tokens = r->offsets[1] = r->row.tokens;
		change_all(r, cuts[i], false);
		kda_run_forward(r);
		float *other = kda_run_output(r);
		expect_same("before others", whole, other, cuts[i] * width);
		change_all(r, cuts[i], true);
		free(alone);
		free(other);
	}
	free(whole);
	kda_run_free(r);
}

/* The tokens from `first` on, from the state `from` to the state `to`. */
static void run_piece(KdaRun *r, int64_t first, int64_t tokens, tilert_ptr from, tilert_ptr to)
{
	const tilekern_kda_params whole = r->p;
	const int64_t keys = r->row.qk_heads * r->row.key_dim * 2, values = r->row.value_heads * r->row.value_dim * 2;
	r->p.tokens = tokens;
	r->p.q += (tilert_ptr)(first * keys);
	r->p.k += (tilert_ptr)(first * keys);
	r->p.v += (tilert_ptr)(first * values);
	r->p.o += (tilert_ptr)(first * values);
	r->p.g += (tilert_ptr)(first * r->row.value_heads * r->row.key_dim * (r->row.gate16 ? 2 : 4));
	r->p.beta += (tilert_ptr)(first * r->row.value_heads * 4);
	r->p.initial_state = from;
	r->p.final_state = to;
	kda_run_forward(r);
	r->p = whole;
}

/* Each sequence gives the bits alone that it gives packed with others. */
static void run_alone(const void *row)
{
	KdaRun *r = kda_run_make(row);
	int64_t width = r->row.value_heads * r->row.value_dim, state = kda_run_state(r);
	kda_run_forward(r);
	float *o = kda_run_output(r), *final = kda_run_final(r);
	const tilekern_kda_params whole = r->p;
	kda_run_poison(r);
	for (int64_t n = 0; n < r->sequences; n++) {
		r->p.batch = 1;
		r->p.cu_seqlens = 0;
		run_piece(r, r->offsets[n], r->offsets[n + 1] - r->offsets[n], r->p.initial_state + (tilert_ptr)(n * state * 4), r->p.final_state + (tilert_ptr)(n * state * 4));
		r->p = whole;
	}
	float *o2 = kda_run_output(r), *final2 = kda_run_final(r);
	expect_same("o", o, o2, r->offsets[r->sequences] * width);
	expect_same("final state", final, final2, r->sequences * state);
	free(o);
	free(o2);
	free(final);
	free(final2);
	kda_run_free(r);
}

/* The same where what fills the device counts: the row's heads are for 11 processors, a GPU of this kind has 132. */
static void run_halves(const void *row)
{
	KdaRow r = *(const KdaRow *)row;

	if (!numeric_on_cpu())
		r.value_heads *= 12;
	run_alone(&r);
}

/* A sequence cut in two, the final state of the first part the initial one of the second, gives what the whole gives. */
static void run_continued(const void *row)
{
	enum { FIRST = 70 };
	KdaRun *r = kda_run_make(row);
	Buffer middle = buffer_poisoned(r->pool.ht.bytes);
	run_piece(r, 0, FIRST, r->p.initial_state, middle.p);
	run_piece(r, FIRST, r->row.tokens - FIRST, middle.p, r->p.final_state);
	kda_run_check(r);
	buffer_free(middle);
	kda_run_free(r);
}

/* Pieces of multiples of 64 tokens give the bits of the whole. */
static void run_pieces(const void *row)
{
	static const int64_t cuts[] = { 128, 192, 704 };
	KdaRun *r = kda_run_make(row);
	const int64_t width = r->row.value_heads * r->row.value_dim, state = kda_run_state(r);
	Buffer a = buffer_poisoned(r->pool.ht.bytes), b = buffer_poisoned(r->pool.ht.bytes);
	kda_run_forward(r);
	float *o = kda_run_output(r), *final = kda_run_final(r);
	kda_run_poison(r);
	run_piece(r, 0, cuts[0], r->p.initial_state, a.p);
	run_piece(r, cuts[0], cuts[1] - cuts[0], a.p, b.p);
	run_piece(r, cuts[1], cuts[2] - cuts[1], b.p, a.p);
	run_piece(r, cuts[2], r->row.tokens - cuts[2], a.p, r->p.final_state);
	float *o2 = kda_run_output(r), *final2 = kda_run_final(r);
	expect_same("o", o, o2, r->row.tokens * width);
	expect_same("final state", final, final2, state);
	free(o);
	free(o2);
	free(final);
	free(final2);
	buffer_free(a);
	buffer_free(b);
	kda_run_free(r);
}

/* Checkpoints have the bits of the final states of calls that end there. */
static void run_ends(const void *row)
{
	KdaRun *r = kda_run_make(row);
	const int64_t state = kda_run_state(r);
	kda_run_forward(r);
	float *all = pool_checkpoints(&r->pool);
	const tilekern_kda_params whole = r->p;
	r->p.checkpoint_state = r->p.checkpoint_offsets = r->p.checkpoint_starts = r->p.checkpoint_indices = 0;
	r->p.checkpoint_every = 0;
	r->p.cu_seqlens = 0;
	for (int64_t n = 0, tokens, at; n < r->sequences; n++) {
		for (int64_t i = 0; pool_checkpoint(&r->pool, n, i, &tokens, &at); i++) {
			pool_poison(&r->pool);
			run_piece(r, r->offsets[n], tokens, r->p.initial_state ? r->p.initial_state + (tilert_ptr)(n * state * 4) : 0, r->p.final_state + (tilert_ptr)(n * state * 4));
			float *final = pool_final(&r->pool);
			expect_same("checkpoint", final + n * state, all + at * state, state);
			free(final);
		}
	}
	r->p = whole;
	free(all);
	kda_run_free(r);
}

static void run_replayed(const void *row) { kda_run_with(row, forward_replayed); }
static void run_far(const void *row) { kda_run_with(row, forward_far_tokens); }
static void run_far_rows(const void *row) { kda_run_with(row, forward_far_rows); }
static void run_checkpoints_in_pool(const void *row) { kda_run_with(row, forward_checkpoints_in_pool); }
static void run_far_slots(const void *row)
{
	if (!numeric_on_cpu())
		skip();
	kda_run_with(row, forward_far_slots);
}

static const int all_lengths[] = { 0, 1, 31, 32, 33, 64, 100, 0, 2, -1 }, pair[] = { 70, 33, -1 },
	dealt_lengths[] = { 250, 0, 1100, 33, 900, 300, 1, -1 }, checked_lengths[] = { 200, 64, 33, 100, 128, -1 },
	own_lengths[] = { 40, 1800, 0, 1100, 1, 1560, 2400, 33, -1 }, replayed_lengths[] = { 700, 1200, 33, 0, -1 }, far_lengths[] = { 70, 0, 33, 40, -1 },
	halved_lengths[] = { 33, 230, 40, 70, -1 }, own_strong[] = { 1700, 700, 1600, 0, 31, -1 }, joined_lengths[] = { 1500, 741, -1 };

#define INVARIANT .split = TILEKERN_SPLIT_INVARIANT
size_t kda_bits_cases(NumericCase *out)
{
	static const struct { const char *name; void (*run)(const void *); KdaRow row; } all[] = {
		{ "strides_of_single_things", run_odd_strides, { .tokens = 70, .states = KDA_FINAL, .seed = 18 } },
		{ "offsets_slice", run_offsets_slice, { .lengths = pair, .states = KDA_FINAL, .seed = 40 } },
		{ "is_repeatable", run_repeatable, { .tokens = 100, .value_heads = 2, .states = KDA_BOTH, .seed = 1 } },
		{ "is_repeatable_any_gate", run_repeatable, { .lengths = all_lengths, .spare = 20, .gate = KDA_ANY, .options = NORM, .states = KDA_BOTH, .seed = 2 } },
		{ "causal", run_causal, { .split = TILEKERN_SPLIT_OFF, .tokens = 100, .states = KDA_INITIAL, .seed = 3 } },
		{ "causal_to_-4", run_causal, { .split = TILEKERN_SPLIT_OFF, .tokens = 100, .gate = KDA_FOUR, .seed = 4 } },
		{ "causal_norm_raw_gate", run_causal, { .split = TILEKERN_SPLIT_OFF, .tokens = 100, .options = NORM | BOUND, .seed = 5 } },
		{ "causal_collinear", run_causal, { .split = TILEKERN_SPLIT_OFF, .tokens = 100, .gate = KDA_MILD, .keys = KDA_COLLINEAR, .seed = 6 } },
		{ "sequences_alone", run_alone, { .split = TILEKERN_SPLIT_OFF, .lengths = all_lengths, .spare = 30, .value_heads = 2, .states = KDA_BOTH, .seed = 7 } },
		/* Several items a CTA, dealt by length (whole.tile). */
		{ "sequences_alone_dealt", run_alone, { .split = TILEKERN_SPLIT_OFF, .lengths = dealt_lengths, .spare = 9, .value_heads = 3, .states = KDA_BOTH, .processors = 3, .seed = 35 } },
		{ "sequences_alone_dealt_K64", run_alone, { .split = TILEKERN_SPLIT_OFF, .lengths = dealt_lengths, .value_heads = 2, .key_dim = 64, .value_dim = 128, .states = KDA_BOTH, .processors = 2, .seed = 36 } },
		{ "sequences_alone_any_gate", run_alone, { .split = TILEKERN_SPLIT_OFF, .lengths = pair, .gate = KDA_ANY, .states = KDA_BOTH, .seed = 8 } },
		/* Together items have 128 columns of V, alone 64 (plan.c). */
		{ "halves", run_halves, { .split = TILEKERN_SPLIT_OFF, .lengths = halved_lengths, .value_heads = 2, .keys = KDA_COLLINEAR, .gate = KDA_MILD, .options = NORM, .gate16 = true, .states = KDA_BOTH, .processors = 11, .seed = 19 } },
		{ "halves_any_gate_v192", run_halves, { .split = TILEKERN_SPLIT_OFF, .lengths = halved_lengths, .value_heads = 1, .value_dim = 192, .gate = KDA_ANY, .states = KDA_BOTH, .processors = 11, .seed = 20 } },
		{ "invariant_alone", run_alone, { INVARIANT, .lengths = own_lengths, .spare = 30, .gate = KDA_RARE, .states = KDA_BOTH, .processors = 12, .seed = 11 } },
		{ "invariant_alone_strong", run_alone, { INVARIANT, .lengths = own_strong, .gate = KDA_FIVE, .value_heads = 2, .states = KDA_BOTH, .processors = 9, .seed = 12 } },
		{ "invariant_alone_rows", run_alone, { INVARIANT, .batch = 3, .tokens = 1700, .key_dim = 64, .value_dim = 64, .gate = KDA_RARE, .states = KDA_BOTH, .processors = 6, .seed = 13 } },
		/* Alone each CTA finds out about its unit, in the batch a launch before. */
		{ "invariant_alone_tried", run_alone, { INVARIANT, .batch = 2, .tokens = 1700, .states = KDA_BOTH, .processors = 12, .seed = 16 } },
		{ "invariant_alone_tried_in_vain", run_alone, { INVARIANT, .batch = 2, .tokens = 1700, .gate = KDA_TENTH, .states = KDA_BOTH, .processors = 12, .seed = 17 } },
		{ "invariant_alone_32", run_alone, { INVARIANT, .batch = 2, .tokens = 1700, .gate = KDA_FOUR, .keys = KDA_COLLINEAR, .to_two = true, .states = KDA_BOTH, .processors = 12, .seed = 37 } },
		{ "invariant_alone_96", run_alone, { INVARIANT, .batch = 2, .tokens = 1700, .gate = KDA_96, .states = KDA_BOTH, .processors = 12, .seed = 38 } },
		{ "invariant_alone_32_in_vain", run_alone, { INVARIANT, .batch = 2, .tokens = 1700, .gate = KDA_HANDED, .keys = KDA_PAIR, .states = KDA_BOTH, .processors = 12, .seed = 39 } },
		{ "invariant_alone_in_part", run_alone, { INVARIANT, .batch = 2, .tokens = 1700, .gate = KDA_RARE, .states = KDA_BOTH, .processors = 12, .seed = 18 } },
		{ "invariant_alone_long", run_alone, { INVARIANT, .batch = 2, .tokens = 6200, .key_dim = 40, .value_dim = 40, .gate = KDA_MILD, .states = KDA_BOTH, .processors = 5, .seed = 14 } },
		{ "invariant_pieces", run_pieces, { INVARIANT, .tokens = 1000, .value_heads = 2, .states = KDA_BOTH, .processors = 6, .seed = 15 } },
		{ "continues_from_a_state", run_continued, { .split = TILEKERN_SPLIT_OFF, .tokens = 150, .value_heads = 2, .states = KDA_FINAL, .seed = 9 } },
		{ "checkpoints_are_ends", run_ends, { .lengths = checked_lengths, .value_heads = 2, .states = KDA_BOTH, .pool = { .checkpoints = POOL_EVERY_64 }, .seed = 10 } },
		{ "replayed_with_other_lengths_cut", run_replayed, { .lengths = replayed_lengths, .spare = 50, .gate = KDA_RARE, .gate16 = true, .states = KDA_BOTH, .processors = 24, .seed = 21 } },
		{ "replayed_with_other_lengths_invariant", run_replayed, { INVARIANT, .lengths = replayed_lengths, .states = KDA_BOTH, .processors = 9, .seed = 22 } },
		{ "elements_beyond_2_31", run_far, { .lengths = far_lengths, .value_heads = 2, .states = KDA_FINAL, .seed = 28 } },
		{ "rows_beyond_2_31", run_far_rows, { .batch = 2, .tokens = 70, .states = KDA_FINAL, .seed = 29 } },
		{ "slots_beyond_2_31", run_far_slots, { .split = TILEKERN_SPLIT_OFF, .lengths = pair, .value_heads = 2, .states = KDA_BOTH, .seed = 30 } },
		{ "slots_beyond_2_31_cut", run_far_slots, { .lengths = joined_lengths, .states = KDA_BOTH, .processors = 24, .seed = 31 } },
		{ "checkpoints_in_pool", run_checkpoints_in_pool, { .lengths = checked_lengths, .states = KDA_BOTH, .seed = 32,
			.pool = { .slots = true, .in_place = true, .checkpoints = POOL_EVERY_64, .checkpoint_slots = true } } },
	};
	size_t n = sizeof all / sizeof all[0];
	for (size_t i = 0; i < n; i++) {
		out[i] = numeric_case(all[i].run, &all[i].row, "kda_%s", all[i].name);
	}
	return n;
}
