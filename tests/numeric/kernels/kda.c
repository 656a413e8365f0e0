/* kda.c - the KDA forward against its recurrence, over everything that tilekern/kda.h allows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kda/plan.h"
#include "tests/check/random.h"
#include "tests/numeric/kernels/kda_run.h"

enum { RAW = TILEKERN_RAW_GATE, BOUND = TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA,
	TWICE = TILEKERN_SIGMOID_BETA | TILEKERN_TWICE_BETA };

/* ---- kinds of tests ---- */

static void run_forward(const void *row)
{
	KdaRun *r = kda_run_make(row);
	kda_run_forward(r);
	kda_run_check(r);
	kda_run_free(r);
}

static void run_odd_strides(const void *row)
{
	KdaRun *r = kda_run_make(row);
	forward_odd_strides(kda_run_as_forward(r).tensor);
	kda_run_forward(r);
	kda_run_check(r);
	kda_run_free(r);
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

/* Each sequence gives the bits alone that it gives packed with others. */
static void run_alone(const void *row)
{
	KdaRun *r = kda_run_make(row);
	int64_t width = r->row.value_heads * r->row.value_dim, state = kda_run_state(r);
	kda_run_forward(r);
	float *o = kda_run_output(r), *final = kda_run_final(r);
	const tilekern_kda_params whole = r->p;
	for (int64_t n = 0; n < r->sequences; n++) {
		r->p.batch = 1;
		int64_t first = r->offsets[n], tokens = r->offsets[n + 1] - first;
		r->p.cu_seqlens = 0;
		r->p.tokens = tokens;
		r->p.q += (tilert_ptr)(first * r->row.qk_heads * r->row.key_dim * 2);
		r->p.k += (tilert_ptr)(first * r->row.qk_heads * r->row.key_dim * 2);
		r->p.v += (tilert_ptr)(first * width * 2);
		r->p.o += (tilert_ptr)(first * width * 2);
		r->p.g += (tilert_ptr)(first * r->row.value_heads * r->row.key_dim * (int64_t)tilert_dtype_size(r->p.gate_dtype));
		r->p.beta += (tilert_ptr)(first * r->row.value_heads * 4);
		r->p.initial_state += (tilert_ptr)(n * state * 4);
		r->p.final_state += (tilert_ptr)(n * state * 4);
		kda_run_forward(r);
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
	const tilekern_kda_params whole = r->p;
	Buffer middle = buffer_poisoned(r->pool.ht.bytes);
	r->p.tokens = FIRST;
	r->p.final_state = middle.p;
	kda_run_forward(r);
	r->p = whole;
	r->p.tokens -= FIRST;
	r->p.q += (tilert_ptr)(FIRST * r->row.qk_heads * r->row.key_dim * 2);
	r->p.k += (tilert_ptr)(FIRST * r->row.qk_heads * r->row.key_dim * 2);
	r->p.v += (tilert_ptr)(FIRST * r->row.value_heads * r->row.value_dim * 2);
	r->p.o += (tilert_ptr)(FIRST * r->row.value_heads * r->row.value_dim * 2);
	r->p.g += (tilert_ptr)(FIRST * r->row.value_heads * r->row.key_dim * 4);
	r->p.beta += (tilert_ptr)(FIRST * r->row.value_heads * 4);
	r->p.initial_state = middle.p;
	kda_run_forward(r);
	kda_run_check(r);
	buffer_free(middle);
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

/* More tokens, sequences or heads never need less, in any mode. */
static void run_workspace(const void *row)
{
	static const int64_t extents[] = { 1, 2, 3, 8, 33, 66, 96, 130, 300 };
	enum { EXTENTS = sizeof extents / sizeof extents[0], KINDS = 6 };
	KdaRun *r = kda_run_make(row);
	for (int i = 0; i < 4 * KINDS * EXTENTS * EXTENTS; i++) {
		const int kind = i / 4 % KINDS, a = i / (4 * KINDS) % EXTENTS, b = i / (4 * KINDS * EXTENTS);
		size_t before = 0;
		for (int c = 0; c < EXTENTS; c++) {
			tilekern_kda_params p;
			size_t bytes = 0;
			tilekern_kda_params_init(&p);
			p.split = (tilekern_split)(i % 4);
			p.key_dim = p.value_dim = kind % 2 ? 64 : 128;
			const int64_t e[] = { extents[c], extents[a], extents[b] }; /* what grows: tokens, sequences, heads */
			p.tokens = 40 * e[kind / 2];
			p.qk_heads = p.value_heads = e[(kind / 2 + 1) % 3];
			p.batch = e[(kind / 2 + 2) % 3];
			if (i % 5 == 0) {
				p.sequences = p.batch;
				p.batch = 1;
				p.cu_seqlens = r->pool.ht.p;
			}
			KDA_OK(tilekern_kda_workspace_bytes(r->kda, &p, &bytes));
			assert_true(bytes >= before);
			before = bytes;
		}
	}
	kda_run_free(r);
}

/* What calls do on 132 multiprocessors. */
static void run_plans(const void *unused)
{
	static const struct { int64_t batch, tokens, sequences, heads, values; tilekern_split split; bool saved; KdaWay way; bool halves, by_length, in_place, dealt; } plans[] = {
		{ 1, 2048, 0, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_NEEDED, false, false, false, false },
		{ 1, 2048, 0, 8, 128, TILEKERN_SPLIT_EXACT, false, KDA_WHOLE, true, false, false, false },
		{ 1, 8192, 0, 8, 128, TILEKERN_SPLIT_EXACT, false, KDA_EXACTLY, false, false, false, false },
		{ 1, 2048, 0, 8, 128, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, true, false, false, false },
		{ 1, 2048, 0, 8, 128, TILEKERN_SPLIT_OFF, true, KDA_WHOLE, false, false, false, false },
		{ 1, 2048, 0, 66, 128, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, true, false, false, false },
		{ 1, 2048, 0, 67, 128, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, false, false, false, false },
		{ 1, 2048, 0, 96, 64, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, true, false, false, false },
		{ 1, 1024, 0, 64, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, true, false, false, false },
		{ 1, 1024, 0, 64, 128, TILEKERN_SPLIT_INVARIANT, false, KDA_WHOLE, true, false, false, false },
		{ 1, 512, 0, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, true, false, false, false }, /* shares have 4 chunks or more */
		{ 1, 2048, 0, 64, 128, TILEKERN_SPLIT_INVARIANT, false, KDA_WHOLE, true, false, false, false },
		{ 1, 4096, 0, 64, 128, TILEKERN_SPLIT_INVARIANT, false, KDA_UNITS, false, false, false, false },
		{ 1, 2048, 0, 44, 128, TILEKERN_SPLIT_INVARIANT, false, KDA_UNITS, false, false, false, false },
		{ 1, 1024, 0, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_NEEDED, false, false, false, false },
		{ 1, 1024, 0, 44, 128, TILEKERN_SPLIT_AUTO, false, KDA_ALONE, false, false, false, false },
		{ 8, 1024, 0, 96, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, false, false },
		{ 8, 1024, 0, 96, 64, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, true, false, false, false },
		{ 1, 8192, 0, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, false, false, false },
		{ 1, 8192, 64, 8, 128, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, false, false, false, false },
		/* Packed: lengths are known to the device alone. */
		{ 1, 8192, 64, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, false, false }, /* short ones */
		{ 1, 11453, 32, 12, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, true },
		{ 1, 11453, 32, 12, 128, TILEKERN_SPLIT_AUTO, false, KDA_EITHER, false, false, true, false },
		{ 1, 11453, 32, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_EITHER, false, false, true, false },
		{ 1, 8192, 4, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, true, false }, /* shares would be items, but for their places */
		{ 1, 11453, 32, 12, 128, TILEKERN_SPLIT_AUTO, true, KDA_WHOLE, false, false, false, false },
		{ 1, 11453, 32, 64, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, true },
		{ 1, 8192, 954, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, false },
		{ 1, 65536, 67, 12, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, true },
		{ 1, 20480, 40, 2, 192, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, true },
		{ 1, 8192, 8, 128, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, false, true }, /* even one of all tokens would not take longer */
		{ 1, 8192, 1, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_NEEDED, false, false, false, false },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
		tilekern_kda_params p;
		tilekern_kda_params_init(&p);
		p.batch = plans[i].batch, p.tokens = plans[i].tokens, p.sequences = plans[i].sequences, p.value_dim = plans[i].values, p.split = plans[i].split;
		p.qk_heads = p.value_heads = plans[i].heads, p.cu_seqlens = p.sequences > 0 ? 256 : 0, p.saved = plans[i].saved ? 256 : 0;
		p.initial_state = p.final_state = plans[i].in_place ? 256 : 0;
		const KdaPlan l = kda_plan_joined(&p, 132);
		const bool dealt = kda_deals(&p, &l);
		if (l.way != plans[i].way || l.halves != plans[i].halves || l.by_length != plans[i].by_length || dealt != plans[i].dealt)
			fail_msg("plan %zu: way %d, halves %d, by length %d, dealt %d", i, (int)l.way, l.halves, l.by_length, dealt);
	}
}

/* Shares of rows on 132 multiprocessors: items have a whole number of them where there are CTAs for it, of which the first has what is left over. */
static void run_parts(const void *unused)
{
	static const struct { int64_t batch, tokens, sequences, heads, keys; bool saved; int part, each; } rows[] = {
		{ 1, 2048, 0, 8, 128, false, 4, 64 },
		{ 1, 2048, 0, 12, 128, false, 6, 66 },
		{ 1, 2048, 1, 12, 128, false, 6, 66 },
		{ 1, 2048, 0, 12, 128, true, 6, 66 },
		{ 1, 2048, 0, 32, 128, false, 15, 60 },
		{ 1, 2048, 0, 8, 64, false, 4, 64 },
		{ 1, 1024, 0, 8, 128, false, 3, 33 },
		{ 1, 1024, 0, 8, 128, true, 4, 32 },
		{ 1, 1057, 0, 8, 128, false, 4, 36 },
		{ 2, 2048, 0, 12, 128, false, 12, 60 },
		{ 1, 8192, 0, 96, 128, false, 187, 256 }, /* crossed */
		{ 1, 7168, 32, 12, 128, false, 27, 0 }, /* the device knows */
	};
	(void)unused;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		tilekern_kda_params p;
		tilekern_kda_params_init(&p);
		p.batch = rows[i].batch, p.tokens = rows[i].tokens, p.sequences = rows[i].sequences, p.key_dim = p.value_dim = rows[i].keys;
		p.qk_heads = p.value_heads = rows[i].heads, p.cu_seqlens = p.sequences > 0 ? 256 : 0, p.saved = rows[i].saved ? 256 : 0;
		const KdaPlan l = kda_plan_joined(&p, 132);
		if (l.part != rows[i].part || l.each != rows[i].each)
			fail_msg("row %zu: shares of %d, items count as %d, not %d, %d", i, l.part, l.each, rows[i].part, rows[i].each);
	}
}

/* What the device chooses for packed sequences, as the workspace says (kernels/kda/walk.tile): whole items, by their lengths or because of so many shares that cannot begin, or shares. */
typedef enum Choice { WHOLE_BY_LENGTH, WHOLE_BY_WINDOWS, CUT } Choice;

typedef struct ChoiceRow { KdaRow row; Choice choice; } ChoiceRow;

static void run_choice(const void *spec)
{
	const ChoiceRow *c = spec;
	KdaRun *r = kda_run_make(&c->row);
	kda_run_poison(r);
	kda_run_forward(r);
	kda_run_check(r);
	if (numeric_on_cpu()) {
		const KdaPlan l = kda_plan_joined(&r->p, (int)c->row.processors);
		assert_true(l.by_length);
		int32_t *back = (int32_t *)buffer_take(r->workspace);
		const int32_t least = back[l.begun / sizeof *back];
		int run = 1, longest = 1;
		for (int i = 1; i < l.ctas && least > 1; i++) {
			run = back[i] == -1 ? run + 1 : 1;
			longest = run > longest ? run : longest;
		}
		const Choice got = least == 1 ? WHOLE_BY_LENGTH : longest >= least ? WHOLE_BY_WINDOWS : CUT;
		if (got != c->choice)
			fail_msg("choice %d: a run of %d, %d make items whole", (int)got, longest, (int)least);
		free(back);
	}
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

/* With a test of forward.h; and freed. */
static void run_with(const void *row, void (*test)(const Forward *))
{
	KdaRun *r = kda_run_make(row);
	const Forward f = kda_run_as_forward(r);
	test(&f);
	kda_run_free(r);
}

static void run_wild(const void *row) { run_with(row, forward_wild); }
static void run_replayed(const void *row) { run_with(row, forward_replayed); }
static void run_far(const void *row) { run_with(row, forward_far_tokens); }
static void run_far_rows(const void *row) { run_with(row, forward_far_rows); }
static void run_checkpoints_in_pool(const void *row) { run_with(row, forward_checkpoints_in_pool); }
static void run_wild_checkpoints(const void *row) { run_with(row, forward_wild_checkpoints); }
static void run_far_slots(const void *row)
{
	if (!numeric_on_cpu())
		skip();
	run_with(row, forward_far_slots);
}

/* Calls without sequences or heads succeed and write nothing. */
static void run_nothing(const void *row)
{
	KdaRun *r = kda_run_make(row);
	tilekern_kda_params p[] = { r->p, r->p, r->p };
	p[0].batch = 0;
	p[1].qk_heads = p[1].value_heads = 0;
	p[2].batch = 1;
	p[2].cu_seqlens = r->a_log.p;
	p[2].sequences = 0;
	for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
		KDA_OK(tilekern_kda_forward(r->kda, &p[i], NULL));
		OK(tilert_stream_sync(numeric_device(), NULL));
	}
	memset(r->offsets, 0, (size_t)(r->sequences + 1) * sizeof *r->offsets);
	free(kda_run_output(r)); /* looks for writes */
	kda_run_free(r);
}

/* ---- refusals ---- */

/* Refused with these words. */
static void expect_refused(KdaRun *r, const tilekern_kda_params *p, const char *const *words)
{
	tilekern_kda_call *untouched = (tilekern_kda_call *)r, *call = untouched;
	assert_int_equal(tilekern_kda_prepare(r->kda, p, &call), TILERT_EINVAL);
	assert_ptr_equal(call, untouched);
	expect_words(tilekern_last_error(), words);
}

static void run_refusals(const void *row)
{
	KdaRun *r = kda_run_make(row);
	tilekern_kda_params p;
#define REFUSED(change, ...) (p = r->p, (void)(change), expect_refused(r, &p, (const char *[]){ __VA_ARGS__, NULL }))
	REFUSED(p.size = 8, "size", "8");
	REFUSED(p.tokens = -3, "tokens", "-3");
	REFUSED(p.batch = -1, "batch", "-1");
	REFUSED(p.value_heads = 3, "value_heads", "3", "qk_heads", "2");
	REFUSED(p.key_dim = 60, "q", "60", "8");
	REFUSED(p.key_dim = 264, "key_dim", "264", "256");
	REFUSED(p.value_dim = 264, "value_dim", "264", "256");
	REFUSED(p.dtype = TILERT_F32, "dtype", "f32");
	REFUSED(p.gate_dtype = TILERT_I32, "gate_dtype", "i32");
	REFUSED(p.beta_dtype = TILERT_I32, "beta_dtype", "i32");
	REFUSED(p.a_log_dtype = TILERT_I32, "a_log_dtype", "i32");
	REFUSED(p.a_log = r->a_log.p + 4, "a_log is at", "16");
	REFUSED(p.dt_bias_dtype = TILERT_I32, "dt_bias_dtype", "i32");
	REFUSED(p.state_dtype = TILERT_I32, "state_dtype", "i32");
	REFUSED(p.state_stride = 8, "state_stride", "8");
	REFUSED(p.state_indices = r->a_log.p, "state_slots", "0");
	REFUSED(p.checkpoint_every = 64, "checkpoint_every", "checkpoint_state");
	REFUSED((p.cu_seqlens = r->a_log.p, p.batch = 1, p.sequences = 1, p.seqlens_dtype = TILERT_F32), "seqlens_dtype", "f32");
	REFUSED((p.cu_seqlens = r->a_log.p, p.sequences = 1), "batch", "2", "cu_seqlens");
	REFUSED(p.options = 64, "options", "0x40");
	REFUSED(p.options = TILEKERN_TWICE_BETA, "TWICE_BETA", "SIGMOID_BETA");
	REFUSED(p.options = TILEKERN_BOUNDED_GATE, "BOUNDED_GATE", "RAW_GATE");
	REFUSED((p.options = BOUND, p.lower_bound = -5.5f), "lower_bound", "-5.5");
	REFUSED((p.options = BOUND, p.lower_bound = 0), "lower_bound", "0");
	REFUSED((p.options = BOUND, p.lower_bound = nanf("")), "lower_bound", "nan");
	REFUSED(p.scale = 1.0f / 0.0f, "scale", "inf");
	REFUSED(p.split = (tilekern_split)4, "split", "4", "3");
	REFUSED(p.workspace = 0, "workspace is 0");
	REFUSED(p.workspace_bytes--, "workspace_bytes");
	REFUSED(p.q = 0, "q is 0");
	REFUSED(p.g = 0, "g is 0");
	REFUSED(p.beta = 0, "beta is 0");
	REFUSED(p.o = 0, "o is 0");
	REFUSED(p.q += 8, "q is at", "16");
	REFUSED(p.g += 4, "g is at", "16");
	REFUSED(p.beta += 2, "beta is at", "4");
	REFUSED(p.final_state += 4, "final_state is at", "16");
	REFUSED((p.q_strides = r->q.strides, p.q_strides.token += 4), "q_strides.token", "multiple of 8");
	REFUSED((p.g_strides = r->g.strides, p.g_strides.head += 2), "g_strides.head", "multiple of 4");
	REFUSED((p.v_strides = r->v.strides, p.v_strides.batch = -8), "v_strides.batch", "-8");
	REFUSED((p.o_strides = r->o.strides, p.o_strides.head = 64), "o_strides.head", "64", "128", "overlap");
	REFUSED((p.o_strides = r->o.strides, p.o_strides.token = 128), "o_strides.token", "is 128", "256", "overlap");
	REFUSED(p.o = p.v + 256, "v (", "o (", "overlap");
	REFUSED(p.initial_state = p.final_state + 1024, "initial_state", "final_state", "overlap");
	REFUSED((p.tokens = INT32_MAX, p.batch = INT32_MAX), "chunks");
#undef REFUSED
	kda_run_free(r);
}

/* ---- tables ---- */

static const int none[] = { 0, -1 }, empty_ones[] = { 0, 0, 0, -1 }, all_lengths[] = { 0, 1, 31, 32, 33, 64, 100, 0, 2, -1 }, pair[] = { 70, 33, -1 }, dealt_lengths[] = { 250, 0, 1100, 33, 900, 300, 1, -1 }, checked_lengths[] = { 200, 64, 33, 100, 128, -1 };
static int tiny[401]; /* 0 .. 3 tokens each */

#define SHARES .processors = 6
#define POOL .pool = { .slots = true, .in_place = true, .nulls = true, .has = true }
#define INVARIANT .split = TILEKERN_SPLIT_INVARIANT
static const int own_lengths[] = { 40, 1800, 0, 1100, 1, 1560, 2400, 33, -1 }, replayed_lengths[] = { 700, 1200, 33, 0, -1 }, far_lengths[] = { 70, 0, 33, 40, -1 }, halved_lengths[] = { 33, 230, 40, 70, -1 }, own_strong[] = { 1700, 700, 1600, 0, 31, -1 };
static const int joined_lengths[] = { 1500, 741, -1 }, uneven_lengths[] = { 40, 1500, 0, 700, 1, -1 };
static const int one_long_lengths[] = { 40, 0, 1500, 33, 1, 70, -1 }, even_lengths[] = { 300, 320, 290, 310, 300, 320, -1 }, far_longer_lengths[] = { 33, 5000, 1, -1 };
static const int shared_lengths[] = { 0, 1000, 1, 31, 0, 420, 33, -1 };

static const KdaRow rows[] = {
	/* Shares of the chunks: 6 processors cut within items where up to 4 chunks before the cut fade, or 32, or 64 (walk.tile). */
	{ .name = "shares", .tokens = 1100, .states = KDA_BOTH, SHARES },
	{ .name = "shares_small", .tokens = 600, .gate = KDA_MILD, .key_dim = 40, .value_dim = 40, .states = KDA_FINAL, SHARES }, /* for initcheck, too */
	{ .name = "shares_mild", .tokens = 1100, .gate = KDA_MILD, .states = KDA_BOTH, SHARES },
	{ .name = "shares_strong", .tokens = 1100, .gate = KDA_FIVE, .states = KDA_BOTH, SHARES }, /* the slowest channels tell */
	{ .name = "shares_strong_raw", .tokens = 1100, .gate = KDA_FIVE, .options = BOUND, .key_dim = 40, .value_dim = 56, .states = KDA_BOTH, SHARES },
	{ .name = "shares_zero", .tokens = 1100, .gate = KDA_ZERO, .states = KDA_BOTH, SHARES },
	{ .name = "shares_resets", .tokens = 900, .gate = KDA_RESETS, .states = KDA_BOTH, .gate16 = true, SHARES },
	{ .name = "shares_packed", .lengths = shared_lengths, .spare = 90, .states = KDA_BOTH, SHARES },
	{ .name = "shares_wide", .tokens = 700, .fp16 = true, .states = KDA_BOTH, .value_dim = 200, .key_dim = 72, SHARES },
	{ .name = "shares_batch", .batch = 3, .tokens = 900, .states = KDA_FINAL, .fp16 = true, .gate16 = true, SHARES },
	{ .name = "shares_long", .tokens = 7000, .gate = KDA_MILD, .states = KDA_BOTH, .processors = 8 }, /* windows of 32 chunks */
	{ .name = "shares_uneven_pool", .lengths = uneven_lengths, .gate = KDA_RARE, .gate16 = true, .value_heads = 3, .states = KDA_BOTH, POOL, .processors = 9 },
	{ .name = "shares_uneven_pool_strong", .lengths = uneven_lengths, .spare = 50, .gate = KDA_FIVE, .value_heads = 2, .states = KDA_BOTH, POOL, .processors = 24 },
	{ .name = "shares_of_4", .batch = 6, .tokens = 768, .gate = KDA_MILD, .states = KDA_BOTH, .gate16 = true, .processors = 36 }, /* one begins as far from its item's start as a window is long */
	{ .name = "shares_of_4_pool_strong", .batch = 6, .tokens = 768, .gate = KDA_FIVE, .states = KDA_BOTH, .gate16 = true, POOL, .processors = 36 },
	/* States that enter shares are made of those before (join.tile): where 4 chunks do not do, and wherever a share begins within an item. */
	{ .name = "joined_mild", .tokens = 2300, .gate = KDA_MILD, .states = KDA_BOTH, .processors = 20 },
	{ .name = "joined_strong", .tokens = 2300, .gate = KDA_FIVE, .states = KDA_BOTH, .gate16 = true, .processors = 20 }, /* nobody waits */
	{ .name = "joined_d64", .batch = 2, .tokens = 1700, .gate = KDA_RARE, .key_dim = 64, .value_dim = 64, .fp16 = true, .states = KDA_BOTH, .processors = 12 },
	{ .name = "joined_mixed_packed", .lengths = joined_lengths, .gate = KDA_RARE, .gate16 = true, .value_heads = 3, .states = KDA_BOTH, .processors = 60 },
	{ .name = "joined_pool", .lengths = joined_lengths, .gate = KDA_RARE, .gate16 = true, .value_heads = 3, .states = KDA_BOTH, POOL, .processors = 60 },
	{ .name = "joined_pool_strong", .lengths = joined_lengths, .gate = KDA_FIVE, .states = KDA_BOTH, POOL, .processors = 24 },
	{ .name = "joined_zero_packed", .lengths = joined_lengths, .spare = 50, .gate = KDA_ZERO, .states = KDA_BOTH, .processors = 24 },
	{ .name = "joined_between", .tokens = 2300, .gate = KDA_RARE, .states = KDA_BOTH, .gate16 = true, .processors = 20 },
	{ .name = "joined_tried_pool", .lengths = joined_lengths, .states = KDA_BOTH, POOL, .processors = 24 }, /* a window of 4 chunks, tried, is enough */
	{ .name = "joined_tried_in_vain", .tokens = 1500, .gate = KDA_TENTH, .states = KDA_BOTH, .processors = 14 },
	{ .name = "joined_run", .tokens = 5200, .gate = KDA_ZERO, .key_dim = 64, .value_dim = 64, .gate16 = true, .states = KDA_FINAL, .processors = 20 }, /* more than 32 shares, one of the other */
	{ .name = "exact", .tokens = 3000, .gate = KDA_ZERO, .states = KDA_BOTH, .split = TILEKERN_SPLIT_EXACT, .processors = 20 },
	{ .name = "exact_mild_k40_v56", .tokens = 2300, .gate = KDA_MILD, .key_dim = 40, .value_dim = 56, .states = KDA_FINAL, .split = TILEKERN_SPLIT_EXACT, .processors = 10 },
	{ .name = "exact_packed_fp16", .lengths = uneven_lengths, .gate = KDA_ZERO, .fp16 = true, .gate16 = true, .value_dim = 200, .states = KDA_BOTH, .split = TILEKERN_SPLIT_EXACT,
		.processors = 30 },
	/* Units of a sequence's own (units.tile): of 48 chunks and more, these have few processors. */
	{ .name = "invariant", .tokens = 1700, .states = KDA_BOTH, INVARIANT, SHARES },
	{ .name = "invariant_resets", .batch = 2, .tokens = 1700, .gate = KDA_RESETS, .gate16 = true, .states = KDA_BOTH, INVARIANT, SHARES },
	{ .name = "invariant_long", .tokens = 7000, .gate = KDA_MILD, .key_dim = 40, .value_dim = 40, .states = KDA_BOTH, INVARIANT, .processors = 5 }, /* windows of 32 chunks */
	{ .name = "invariant_pool", .lengths = own_lengths, .gate = KDA_RARE, .gate16 = true, .states = KDA_BOTH, POOL, INVARIANT, .processors = 12 },
	{ .name = "invariant_pool_strong_wide", .lengths = own_strong, .spare = 50, .gate = KDA_FIVE, .value_dim = 136, .states = KDA_BOTH, POOL, INVARIANT, .processors = 7 },
	{ .name = "invariant_rows_pool", .tokens = 1700, .gate = KDA_RARE, .gate16 = true, .states = KDA_BOTH, POOL, INVARIANT, .processors = 12 }, /* each CTA finds out about its unit */
	{ .name = "invariant_rows_tried_pool", .tokens = 1700, .states = KDA_BOTH, POOL, INVARIANT, .processors = 12 },
	{ .name = "gates_bounded", .tokens = 150, .qk_heads = 2, .states = KDA_BOTH },
	{ .name = "gates_mild", .tokens = 150, .gate = KDA_MILD, .states = KDA_BOTH, .gate16 = true },
	{ .name = "gates_zero", .tokens = 150, .gate = KDA_ZERO, .states = KDA_BOTH },
	{ .name = "gates_of_-5", .tokens = 150, .gate = KDA_FIVE, .states = KDA_BOTH },
	{ .name = "gates_to_-4", .tokens = 150, .gate = KDA_FOUR, .states = KDA_BOTH },
	{ .name = "gates_resets", .tokens = 150, .gate = KDA_RESETS, .states = KDA_BOTH },
	{ .name = "gates_to_-20", .tokens = 150, .gate = KDA_TWENTY, .states = KDA_BOTH, .gate16 = true },
	{ .name = "gates_of_any_size", .tokens = 150, .gate = KDA_ANY, .qk_heads = 2, .states = KDA_BOTH },
	{ .name = "gates_of_any_size_norm", .tokens = 77, .gate = KDA_ANY, .options = NORM, .states = KDA_BOTH },
	{ .name = "gates_of_-1000", .tokens = 70, .gate = KDA_THOUSAND, .states = KDA_BOTH },
	{ .name = "gates_of_any_size_fp16", .tokens = 77, .gate = KDA_ANY, .fp16 = true, .gate16 = true, .states = KDA_BOTH },
	{ .name = "gates_of_any_size_k72", .tokens = 77, .gate = KDA_ANY, .key_dim = 72, .value_dim = 40 },
	{ .name = "keys_positive", .tokens = 200, .gate = KDA_MILD, .keys = KDA_POSITIVE, .states = KDA_FINAL },
	{ .name = "keys_positive_zero", .tokens = 200, .gate = KDA_ZERO, .keys = KDA_POSITIVE, .states = KDA_FINAL },
	{ .name = "keys_collinear", .tokens = 200, .gate = KDA_MILD, .keys = KDA_COLLINEAR, .states = KDA_FINAL },
	{ .name = "keys_collinear_to_two", .tokens = 300, .gate = KDA_MILD, .keys = KDA_COLLINEAR, .to_two = true, .states = KDA_FINAL },
	/* Chunks that know of no keys before them, one form each. */
	{ .name = "keys_collinear_to_two_16", .tokens = 16, .value_heads = 2, .gate = KDA_MILD, .gate16 = true, .keys = KDA_COLLINEAR, .to_two = true, .states = KDA_FINAL },
	{ .name = "keys_collinear_to_two_first", .tokens = 64, .gate = KDA_MILD, .keys = KDA_COLLINEAR, .to_two = true, .states = KDA_FINAL },
	{ .name = "keys_collinear_to_two_first_k64", .tokens = 64, .gate = KDA_MILD, .key_dim = 64, .value_dim = 64, .keys = KDA_COLLINEAR, .to_two = true, .states = KDA_FINAL },
	{ .name = "keys_collinear_to_two_first_k256", .tokens = 64, .gate = KDA_MILD, .key_dim = 256, .value_dim = 64, .keys = KDA_COLLINEAR, .to_two = true, .states = KDA_FINAL },
	/* A first key unlike the others: judged by the next two. */
	{ .name = "keys_collinear_to_two_but_first", .tokens = 32, .value_heads = 4, .gate = KDA_MILD, .keys = KDA_COLLINEAR, .unlike = 32, .to_two = true, .states = KDA_FINAL },
	{ .name = "keys_collinear_to_two_but_fifths", .tokens = 24, .value_heads = 4, .key_dim = 64, .value_dim = 64, .gate = KDA_MILD, .keys = KDA_COLLINEAR, .unlike = 5, .to_two = true,
		.states = KDA_FINAL },
	{ .name = "keys_collinear_zero", .tokens = 200, .gate = KDA_ZERO, .keys = KDA_COLLINEAR, .states = KDA_FINAL },
	{ .name = "keys_collinear_norm", .tokens = 200, .gate = KDA_MILD, .keys = KDA_COLLINEAR, .options = NORM, .states = KDA_FINAL },
	{ .name = "beta_to_two", .tokens = 200, .gate = KDA_MILD, .to_two = true, .states = KDA_FINAL },
	{ .name = "values_of_1e-4", .tokens = 100, .gate = KDA_MILD, .values = 1e-4, .states = KDA_BOTH },
	{ .name = "values_of_1e4", .tokens = 100, .gate = KDA_MILD, .values = 1e4, .states = KDA_BOTH },
	{ .name = "raw_gate", .tokens = 70, .value_heads = 2, .options = RAW, .states = KDA_BOTH },
	{ .name = "raw_gate_16bit_without_a_log", .tokens = 70, .gate16 = true, .options = RAW, .without_a_log = true },
	{ .name = "raw_gate_without_anything", .tokens = 70, .options = RAW, .without_a_log = true, .without_dt_bias = true },
	{ .name = "bounded_gate", .tokens = 70, .qk_heads = 2, .gate16 = true, .options = BOUND, .states = KDA_BOTH },
	{ .name = "bounded_gate_of_-2.5", .tokens = 70, .options = BOUND, .lower_bound = -2.5f, .states = KDA_BOTH },
	{ .name = "bounded_gate_without_a_log", .tokens = 70, .options = BOUND, .without_a_log = true },
	{ .name = "l2norm", .tokens = 70, .qk_heads = 2, .value_heads = 4, .options = NORM, .states = KDA_BOTH },
	{ .name = "sigmoid_beta", .tokens = 70, .options = SIGMOID, .states = KDA_FINAL },
	{ .name = "twice_sigmoid_beta_16bit", .tokens = 70, .options = TWICE, .beta16 = true, .states = KDA_FINAL },
	{ .name = "all_options", .batch = 2, .tokens = 70, .value_heads = 2, .gate16 = true, .beta16 = true, .options = NORM | BOUND | TWICE, .states = KDA_BOTH,
		.scale = 0.3f },
	{ .name = "all_options_fp16_packed", .qk_heads = 2, .value_heads = 6, .lengths = all_lengths, .spare = 10, .fp16 = true, .lengths_i64 = true,
		.options = NORM | RAW | SIGMOID, .states = KDA_BOTH, .strided = true, .state_v_first = true },
	{ .name = "packed", .lengths = all_lengths, .value_heads = 2, .states = KDA_BOTH },
	{ .name = "packed_spare_strided", .lengths = all_lengths, .spare = 40, .lengths_i64 = true, .gate16 = true, .states = KDA_BOTH, .strided = true },
	{ .name = "packed_many_tiny", .lengths = tiny, .spare = 5, .chunk = 1 }, /* a token alone: q.k may be next to nothing */
	{ .name = "packed_no_tokens", .lengths = empty_ones, .states = KDA_BOTH },
	{ .name = "packed_no_tokens_spare", .lengths = empty_ones, .spare = 70, .states = KDA_FINAL },
	{ .name = "packed_one_of_none", .lengths = none, .states = KDA_INITIAL },
	{ .name = "packed_k72_v200", .lengths = pair, .key_dim = 72, .value_dim = 200, .states = KDA_BOTH, .state_bf16 = true },
	{ .name = "strides", .batch = 2, .tokens = 70, .qk_heads = 2, .value_heads = 4, .states = KDA_BOTH, .strided = true },
	{ .name = "strides_fp16_d64", .batch = 2, .tokens = 45, .value_heads = 3, .key_dim = 64, .value_dim = 64, .fp16 = true, .gate16 = true, .beta16 = true,
		.states = KDA_BOTH, .state_bf16 = true, .strided = true },
	{ .name = "pool", .lengths = all_lengths, .value_heads = 2, .states = KDA_BOTH, POOL },
	{ .name = "pool_bf16_v_first", .lengths = all_lengths, .spare = 3, .states = KDA_BOTH, .pool = { .slots = true, .outputs = true, .nulls = true, .i64 = true, .has = true }, .state_bf16 = true,
		.state_v_first = true, .strided = true, .seed = 4 }, /* one token whose q.k is more than roundings */
	{ .name = "pool_fp16_rows", .batch = 4, .tokens = 40, .value_heads = 2, .key_dim = 72, .value_dim = 136, .states = KDA_BOTH, POOL,
		.state_fp16 = true, .overall = 0.006 },
	{ .name = "pool_without_tokens", .batch = 4, .states = KDA_BOTH, POOL },
	{ .name = "checkpoints_at_offsets_v_first", .lengths = checked_lengths, .spare = 5, .states = KDA_INITIAL, .state_v_first = true, .lengths_i64 = true,
		.pool = { .i64 = true, .checkpoints = POOL_AT_OFFSETS, .checkpoint_slots = true } },
	{ .name = "checkpoints_every_192_bf16_slots", .batch = 2, .tokens = 250, .states = KDA_BOTH, .state_bf16 = true, .strided = true,
		.pool = { .slots = true, .in_place = true, .checkpoints = POOL_EVERY_192, .checkpoint_slots = true, .checkpoint_16 = true } },
	{ .name = "fp16_states", .tokens = 70, .states = KDA_BOTH, .state_fp16 = true, .state_v_first = true },
	{ .name = "types_crossed", .tokens = 70, .value_heads = 2, .gate16 = true, .beta16 = true, .crossed = true, .options = RAW | SIGMOID, .states = KDA_FINAL },
	{ .name = "types_crossed_fp16", .tokens = 70, .fp16 = true, .gate16 = true, .beta16 = true, .crossed = true, .options = BOUND, .states = KDA_FINAL },
	{ .name = "types_crossed_long", .tokens = 1100, .gate = KDA_FIVE, .gate16 = true, .crossed = true, .states = KDA_BOTH, SHARES }, /* of whole items, whatever the split */
	{ .name = "types_crossed_exact", .lengths = uneven_lengths, .gate = KDA_MILD, .fp16 = true, .gate16 = true, .crossed = true, .states = KDA_BOTH, .split = TILEKERN_SPLIT_EXACT, .processors = 12 },
	{ .name = "types_crossed_packed", .lengths = dealt_lengths, .gate16 = true, .crossed = true, .value_heads = 3, .states = KDA_BOTH, .split = TILEKERN_SPLIT_OFF, .processors = 3 }, /* others are dealt */
	{ .name = "types_crossed_invariant", .tokens = 1700, .gate = KDA_MILD, .key_dim = 64, .value_dim = 64, .gate16 = true, .crossed = true, .states = KDA_FINAL, INVARIANT, .processors = 12 },
	{ .name = "k60_v100_strided", .tokens = 70, .key_dim = 60, .value_dim = 100, .states = KDA_BOTH, .strided = true },
	{ .name = "scale", .tokens = 65, .scale = 2.5f },
	{ .name = "scale_negative", .tokens = 65, .value_heads = 2, .fp16 = true, .scale = -0.7f },
	{ .name = "no_tokens", .batch = 2, .value_heads = 3, .states = KDA_BOTH },
	{ .name = "no_tokens_cleared_bf16", .states = KDA_FINAL, .state_bf16 = true },
	{ .name = "more_items_than_processors", .batch = 9, .tokens = 34, .value_heads = 16, .states = KDA_BOTH },
};

static const ChoiceRow choices[] = {
	{ { .name = "even", .lengths = even_lengths, .spare = 20, .gate = KDA_FIVE, .states = KDA_BOTH, .processors = 4 }, WHOLE_BY_LENGTH },
	{ { .name = "strong", .lengths = one_long_lengths, .spare = 50, .gate = KDA_FIVE, .states = KDA_BOTH, .processors = 9 }, CUT },
	{ { .name = "tried", .lengths = one_long_lengths, .states = KDA_BOTH, .gate16 = true, .processors = 9 }, CUT },
	{ { .name = "zero", .lengths = one_long_lengths, .gate = KDA_ZERO, .states = KDA_BOTH, .processors = 9 }, WHOLE_BY_WINDOWS },
	{ { .name = "in_part", .lengths = one_long_lengths, .gate = KDA_RARE, .states = KDA_BOTH, .value_heads = 2, .processors = 12, .seed = 2 }, WHOLE_BY_WINDOWS },
	{ { .name = "long_windows", .lengths = far_longer_lengths, .gate = KDA_MILD, .key_dim = 40, .value_dim = 40, .states = KDA_BOTH, .processors = 5 }, CUT },
};

typedef struct Table { NumericCase *out; size_t n; } Table;

static void add(Table *t, void (*run)(const void *), const KdaRow *row, const char *name)
{
	NumericCase *c = &t->out[t->n++];
	*c = (NumericCase){ .run = run, .spec = row };
	snprintf(c->name, sizeof c->name, "kda_%s", name);
}

/* Every length round a chunk; dtypes, gates and states take turns. */
static void add_tails(Table *t)
{
	static const int64_t lengths[] = { 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97 };
	static KdaRow tails[13];
	char name[64];
	for (unsigned i = 0; i < sizeof tails / sizeof tails[0]; i++) {
		tails[i] = (KdaRow){ .batch = 1 + i % 2, .tokens = lengths[i], .value_heads = 1 + i % 3, .gate = (KdaGate)(i % KDA_GATES), .fp16 = i % 3 == 2,
			.gate16 = i % 2, .beta16 = i % 4 == 1, .states = (KdaStates)(i % 4), .state_v_first = i % 5 == 3, .seed = 100 + i,
			.overall = lengths[i] < 16 ? 0.02 : 0, .chunk = lengths[i] % 64 < 16 ? 0.1 : 0 };
		snprintf(name, sizeof name, "tail_%d", (int)lengths[i]);
		add(t, run_forward, &tails[i], name);
	}
}

/* K != V, and multiples of 8 that are no multiples of 64. */
static void add_dims(Table *t)
{
	static const int dims[][2] = { { 128, 64 }, { 64, 128 }, { 64, 64 }, { 8, 40 }, { 40, 128 }, { 72, 256 }, { 96, 8 }, { 128, 136 }, { 120, 192 }, { 136, 72 }, { 192, 64 }, { 256, 200 } };
	static KdaRow sizes[12];
	char name[64];
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		sizes[i] = (KdaRow){ .tokens = i % 3 ? 70 : 33, .value_heads = 1 + i % 2, .key_dim = dims[i][0], .value_dim = dims[i][1], .fp16 = i % 4 == 1,
			.states = i % 2 ? KDA_BOTH : KDA_FINAL, .state_v_first = i % 5 == 2, .state_bf16 = i % 3 == 1, .seed = 200 + i };
		snprintf(name, sizeof name, "k%d_v%d", dims[i][0], dims[i][1]);
		add(t, run_forward, &sizes[i], name);
	}
}

/* Anything that the interface allows. */
static KdaRow random_row(Random *r, int *lengths)
{
	static const int64_t dims[] = { 64, 128, 128, 8, 16, 24, 40, 96, 104, 120, 136, 160, 192, 248, 256 }, likely[] = { 0, 1, 17, 31, 32, 33, 64, 65, 100, 150 };
	const unsigned gates[] = { 0, 0, RAW, BOUND }, betas[] = { 0, 0, SIGMOID, TWICE };
	KdaRow row = { .batch = 1 + pick(r, 3), .tokens = likely[pick(r, 10)], .qk_heads = 1 + pick(r, 2), .key_dim = dims[pick(r, 15)],
		.value_dim = dims[pick(r, 15)], .gate = (KdaGate)pick(r, KDA_TENTH + 1), .keys = (KdaKey)pick(r, KDA_RAW_KEYS), .states = (KdaStates)pick(r, 4), .fp16 = toss(r),
		.gate16 = toss(r), .beta16 = toss(r), .crossed = toss(r), .sixteen = toss(r), .state_bf16 = toss(r), .state_fp16 = toss(r), .state_v_first = toss(r), .strided = toss(r), .to_two = toss(r),
		.without_a_log = toss(r), .without_dt_bias = toss(r), .options = gates[pick(r, 4)] | betas[pick(r, 4)] | (toss(r) ? NORM : 0),
		.scale = pick(r, 3) ? 0 : 0.2f, .lower_bound = pick(r, 3) ? 0 : -1.5f, .pool = pool_random(r), .seed = random_bits(r) };
	row.value_heads = row.qk_heads * (1 + pick(r, pick(r, 4) ? 3 : 8));
	if (row.strided && pick(r, 3) == 0) {
		row.key_dim = 1 + pick(r, 256);
		row.value_dim = 1 + pick(r, 256);
	}
	if (toss(r)) {
		int64_t n = 1 + pick(r, 5);
		for (int64_t i = 0; i < n; i++)
			lengths[i] = (int)likely[pick(r, 10)];
		lengths[n] = -1;
		row.lengths = lengths;
		row.spare = (int)(toss(r) ? pick(r, 100) : 0);
		row.lengths_i64 = toss(r);
		row.tokens = 0;
		row.batch = 1;
	}
	row.split = (tilekern_split)pick(r, 4);
	row.processors = toss(r) ? 2 + pick(r, 12) : 0;
	if (pick(r, 8) == 0) { /* long enough to be cut */
		row.qk_heads = row.value_heads = row.batch = 1;
		if (row.lengths)
			lengths[0] = 1024 + (int)pick(r, 500);
		else
			row.tokens = 1024 + pick(r, 500);
	}
	/* Not about accuracy: few channels and positive keys cost some, and with a token or two q.k may be next to nothing everywhere. */
	row.overall = row.lengths || row.batch * row.tokens < 16 ? 0.1 : 0.03;
	row.chunk = 1;
	row.cancels = true;
	/* q.k of heads that share q and k is one number, which may be nothing but the roundings of its K terms, 2^-8 |q| |k| / sqrt K; u is below 8. */
	row.least = 0.03 * (row.scale != 0 ? (double)row.scale : 1 / sqrt((double)row.key_dim)) / sqrt((double)row.key_dim);
	return row;
}

static void run_random(const void *unused)
{
	int lengths[8];
	bool named;
	Random r;
	(void)unused;
	const int calls = random_calls(&r, 1, 12, &named);
	for (int i = 0; i < calls; i++) {
		KdaRow row = random_row(&r, lengths);
		if (!random_runs(i))
			continue;
		if (named)
			print_message("%d: b%lld t%lld h%lld/%lld k%lld v%lld%s gate %d keys %d options %x states %d split %d of %u%s%s\n", i, (long long)row.batch,
				(long long)row.tokens, (long long)row.qk_heads, (long long)row.value_heads, (long long)row.key_dim, (long long)row.value_dim,
				row.fp16 ? " fp16" : "", (int)row.gate, (int)row.keys, row.options, (int)row.states, (int)row.split, row.processors, row.strided ? " strided" : "",
				row.lengths ? " packed" : "");
		run_forward(&row);
	}
}

size_t kda_cases(NumericCase *out)
{
	static const struct { const char *name; void (*run)(const void *); KdaRow row; } more[] = {
		{ "strides_of_single_things", run_odd_strides, { .tokens = 70, .states = KDA_FINAL, .seed = 18 } },
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
		{ "invariant_alone_in_part", run_alone, { INVARIANT, .batch = 2, .tokens = 1700, .gate = KDA_RARE, .states = KDA_BOTH, .processors = 12, .seed = 18 } },
		{ "invariant_alone_long", run_alone, { INVARIANT, .batch = 2, .tokens = 6200, .key_dim = 40, .value_dim = 40, .gate = KDA_MILD, .states = KDA_BOTH, .processors = 5, .seed = 14 } },
		{ "invariant_pieces", run_pieces, { INVARIANT, .tokens = 1000, .value_heads = 2, .states = KDA_BOTH, .processors = 6, .seed = 15 } },
		{ "workspace_grows", run_workspace, { INVARIANT, .tokens = 3, .states = KDA_FINAL } },
		{ "continues_from_a_state", run_continued, { .split = TILEKERN_SPLIT_OFF, .tokens = 150, .value_heads = 2, .states = KDA_FINAL, .seed = 9 } },
		{ "checkpoints_are_ends", run_ends, { .lengths = checked_lengths, .value_heads = 2, .states = KDA_BOTH, .pool = { .checkpoints = POOL_EVERY_64 }, .seed = 10 } },
		{ "replayed_with_other_lengths_cut", run_replayed, { .lengths = replayed_lengths, .spare = 50, .gate = KDA_RARE, .gate16 = true, .states = KDA_BOTH, .processors = 24, .seed = 21 } },
		{ "replayed_with_other_lengths_invariant", run_replayed, { INVARIANT, .lengths = replayed_lengths, .states = KDA_BOTH, .processors = 9, .seed = 22 } },
		{ "wild_offsets", run_wild, { .lengths = all_lengths, .spare = 70, .value_heads = 2, .states = KDA_BOTH, .strided = true, .seed = 23 } },
		{ "wild_offsets_shares", run_wild, { .lengths = shared_lengths, .spare = 3, .states = KDA_BOTH, .lengths_i64 = true, .seed = 24, SHARES } },
		{ "wild_offsets_joined", run_wild, { .lengths = joined_lengths, .gate = KDA_RARE, .gate16 = true, .states = KDA_BOTH, .processors = 24, .seed = 25 } },
		{ "wild_offsets_invariant", run_wild, { INVARIANT, .lengths = replayed_lengths, .states = KDA_BOTH, .processors = 9, .seed = 26 } },
		{ "elements_beyond_2_31", run_far, { .lengths = far_lengths, .value_heads = 2, .states = KDA_FINAL, .seed = 28 } },
		{ "rows_beyond_2_31", run_far_rows, { .batch = 2, .tokens = 70, .states = KDA_FINAL, .seed = 29 } },
		{ "slots_beyond_2_31", run_far_slots, { .split = TILEKERN_SPLIT_OFF, .lengths = pair, .value_heads = 2, .states = KDA_BOTH, .seed = 30 } },
		{ "slots_beyond_2_31_cut", run_far_slots, { .lengths = joined_lengths, .states = KDA_BOTH, .processors = 24, .seed = 31 } },
		{ "checkpoints_in_pool", run_checkpoints_in_pool, { .lengths = checked_lengths, .states = KDA_BOTH, .seed = 32,
			.pool = { .slots = true, .in_place = true, .checkpoints = POOL_EVERY_64, .checkpoint_slots = true } } },
		{ "wild_checkpoints", run_wild_checkpoints, { .lengths = checked_lengths, .states = KDA_FINAL, .seed = 33,
			.pool = { .i64 = true, .checkpoints = POOL_EVERY_64, .checkpoint_slots = true } } },
		{ "wild_checkpoints_at_offsets", run_wild_checkpoints, { .lengths = checked_lengths, .lengths_i64 = true, .key_dim = 64, .value_dim = 64, .states = KDA_BOTH, .seed = 34,
			.pool = { .checkpoints = POOL_AT_OFFSETS } } },
		{ "plans", run_plans, { .tokens = 0 } },
		{ "nothing_to_do", run_nothing, { .batch = 2, .tokens = 3, .states = KDA_BOTH } },
		{ "parts", run_parts, { .tokens = 0 } },
		{ "random_arguments", run_random, { .states = KDA_NO_STATES } },
		{ "refuses_wrong_arguments", run_refusals, { .batch = 2, .tokens = 3, .qk_heads = 2, .states = KDA_BOTH } },
	};
	Table t = { .out = out };
	for (int i = 0; i < 400; i++)
		tiny[i] = i * 7 % 4;
	tiny[400] = -1;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		add(&t, run_forward, &rows[i], rows[i].name);
	add_tails(&t);
	add_dims(&t);
	for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
		add(&t, run_choice, &choices[i].row, "");
		snprintf(t.out[t.n - 1].name, sizeof t.out[0].name, "kda_choice_%s", choices[i].row.name);
	}
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
		add(&t, more[i].run, &more[i].row, more[i].name);
	return t.n;
}
