/* gdn_states.c - what GDN calls promise of states, bit for bit: pools, pieces, checkpoints, neighbours; memory far apart; the workspace. */
#include <stdlib.h>
#include <string.h>

#include "tests/check/random.h"
#include "tests/numeric/kernels/gdn_run.h"

enum { CHUNK = 64 };

static void advance(tilert_ptr *p, const TokenTensor *t, int64_t tokens) { *p += (tilert_ptr)((size_t)(tokens * t->strides.token) * tilert_dtype_size(t->dtype)); }

/* Tokens from .. to of the one row. */
static tilekern_gdn_params piece_of(const GdnRun *r, int64_t from, int64_t to)
{
	tilekern_gdn_params p = r->p;
	advance(&p.q, &r->q, from);
	advance(&p.k, &r->k, from);
	advance(&p.v, &r->v, from);
	advance(&p.o, &r->o, from);
	advance(&p.g, &r->g, from);
	advance(&p.beta, &r->beta, from);
	p.batch = 1;
	p.tokens = to - from;
	p.sequences = 0;
	p.cu_seqlens = 0;
	return p;
}

static void forward(GdnRun *r, const tilekern_gdn_params *p)
{
	const tilekern_gdn_params all = r->p;
	r->p = *p;
	gdn_run_forward(r);
	r->p = all;
}

/* A row at once and in pieces cut at multiples of 64, each from the state before it, in place: the same bits. */
static void run_pieces(const void *row)
{
	static const int64_t sizes[] = { 64, 192, 128, 640, 64 };
	GdnRun *r = gdn_run_make(row);
	int64_t tokens = r->row.in.tokens, state = gdn_run_state(r);
	gdn_run_forward(r);
	float *o = gdn_run_output(r), *final = gdn_run_final(r);
	gdn_run_poison(r);
	for (int64_t t = 0, i = 0, size; t < tokens; t += size, i++) {
		size = sizes[i % 5] < tokens - t ? sizes[i % 5] : tokens - t;
		tilekern_gdn_params p = piece_of(r, t, t + size);
		if (t > 0)
			p.initial_state = p.final_state;
		forward(r, &p);
	}
	float *o2 = gdn_run_output(r), *final2 = gdn_run_final(r);
	expect_same("o", o, o2, gdn_run_outputs(r));
	expect_same("final state", final, final2, state);
	free(o);
	free(final);
	free(o2);
	free(final2);
	gdn_run_free(r);
}

/* Checkpoints are the final states of calls that end there. */
static void run_ends(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	int64_t state = gdn_run_state(r), tokens, at;
	gdn_run_forward(r);
	float *all = pool_checkpoints(&r->pool);
	free(gdn_run_final(r));
	for (int64_t n = 0; n < r->sequences; n++) {
		for (int64_t i = 0; pool_checkpoint(&r->pool, n, i, &tokens, &at); i++) {
			tilekern_gdn_params p = piece_of(r, r->offsets[n], r->offsets[n] + tokens);
			p.checkpoint_state = p.checkpoint_offsets = p.checkpoint_starts = 0;
			p.checkpoint_every = 0;
			if (p.initial_state)
				p.initial_state += (tilert_ptr)(n * state * 4);
			p.final_state += (tilert_ptr)(n * state * 4);
			gdn_run_poison(r);
			forward(r, &p);
			float *final = gdn_run_final(r);
			expect_same("checkpoint", final + n * state, all + at * state, state);
			free(final);
		}
	}
	free(all);
	gdn_run_free(r);
}

/* A sequence gives the bits that it gives in another order, beside others, or as a row. */
static void run_packing(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	int64_t state = gdn_run_state(r), width = r->row.in.value_heads * r->row.in.value_dim;
	gdn_run_forward(r);
	float *o = gdn_run_output(r), *final = gdn_run_final(r);
	for (int64_t n = 0; n < r->sequences; n++) {
		tilekern_gdn_params p = piece_of(r, r->offsets[n], r->offsets[n + 1]);
		gdn_run_poison(r);
		if (p.initial_state)
			p.initial_state += (tilert_ptr)(n * state * 4);
		p.final_state += (tilert_ptr)(n * state * 4);
		forward(r, &p);
		float *o2 = gdn_run_output(r), *final2 = gdn_run_final(r);
		expect_same("o", o + r->offsets[n] * width, o2 + r->offsets[n] * width, (r->offsets[n + 1] - r->offsets[n]) * width);
		expect_same("final state", final + n * state, final2 + n * state, state);
		free(o2);
		free(final2);
	}
	free(o);
	free(final);
	gdn_run_free(r);
}

/* In place and in slots of a pool: the bits of a call with dense states of its own. */
static void run_in_place(const void *row)
{
	const GdnRow *pooled = row;
	GdnRow dense = *pooled;
	dense.pool = (PoolSpec){ .checkpoints = POOL_NO_CHECKPOINTS };
	GdnRun *a = gdn_run_make(pooled), *b = gdn_run_make(&dense);
	gdn_run_forward(a);
	gdn_run_forward(b);
	float *oa = gdn_run_output(a), *ob = gdn_run_output(b), *fa = gdn_run_final(a), *fb = gdn_run_final(b);
	expect_same("o", oa, ob, gdn_run_outputs(a));
	expect_same("final state", fa, fb, a->sequences * gdn_run_state(a));
	free(oa);
	free(ob);
	free(fa);
	free(fb);
	gdn_run_free(a);
	gdn_run_free(b);
}

static void run_far_slots(const void *row)
{
	if (!numeric_on_cpu())
		skip();
	gdn_run_with(row, forward_far_slots);
}
static void run_checkpoints_in_pool(const void *row) { gdn_run_with(row, forward_checkpoints_in_pool); }

/* More tokens, sequences or heads never need less. */
static void run_workspace(const void *unused)
{
	static const tilekern_split splits[] = { TILEKERN_SPLIT_AUTO, TILEKERN_SPLIT_EXACT, TILEKERN_SPLIT_OFF, TILEKERN_SPLIT_INVARIANT };
	tilekern_gdn *gdn;
	Random *random = memory(sizeof *random);
	(void)unused;
	random_init(random, 5);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), 1, 132));
	GDN_OK(tilekern_gdn_open(numeric_device(), &gdn));
	for (int i = 0; i < 20000; i++) {
		tilekern_gdn_params p;
		size_t less, more;
		tilekern_gdn_params_init(&p);
		p.split = splits[i % 4];
		p.key_dim = i % 3 ? 128 : 64;
		p.value_dim = i % 5 ? 128 : 256;
		p.cu_seqlens = i % 7 ? 16 : 0;
		int64_t *const sequences = p.cu_seqlens ? &p.sequences : &p.batch;
		*sequences = 1 + (int64_t)(random_bits(random) >> 40) % (i % 2 ? 6 : 300);
		p.tokens = (int64_t)(random_bits(random) >> 40) % (i % 11 ? 20000 : 300000);
		p.qk_heads = 1;
		p.value_heads = 1 + (int64_t)(random_bits(random) >> 40) % 80;
		GDN_OK(tilekern_gdn_workspace_bytes(gdn, &p, &less));
		tilekern_gdn_params q = p;
		int64_t *const grown[] = { &q.tokens, p.cu_seqlens ? &q.sequences : &q.batch, &q.value_heads };
		*grown[i % 3] += 1 + (int64_t)(random_bits(random) >> 40) % (i % 13 ? 4 : 200);
		GDN_OK(tilekern_gdn_workspace_bytes(gdn, &q, &more));
		if (more < less)
			fail_msg("split %d: %lld tokens, %lld sequences, %lld heads need %zu bytes, %lld, %lld, %lld need %zu", (int)p.split, (long long)p.tokens,
				(long long)*sequences, (long long)p.value_heads, less, (long long)q.tokens, (long long)*grown[1], (long long)q.value_heads, more);
	}
	tilekern_gdn_close(gdn);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), 1, 0));
	free(random);
}

/* ---- refusals ---- */

static void expect_refused(GdnRun *r, const tilekern_gdn_params *p, const char *const *words)
{
	tilekern_gdn_call *call;
	tilert_status s = tilekern_gdn_prepare(r->gdn, p, &call);
	if (s == TILERT_OK) {
		tilekern_gdn_call_destroy(call);
		fail_msg("not refused (%s)", words[0]);
	}
	assert_int_equal(s, TILERT_EINVAL);
	expect_words(tilekern_last_error(), words);
}

static void run_refusals(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	tilekern_gdn_params p;
#define REFUSED(change, ...) do { p = r->p; change; expect_refused(r, &p, (const char *const[]){ __VA_ARGS__, NULL }); } while (0)
	REFUSED(p.indices_dtype = TILERT_F32, "indices_dtype", "f32", "i32");
	REFUSED(p.a_log_dtype = TILERT_I32, "a_log_dtype", "i32");
	REFUSED(p.dt_bias_dtype = TILERT_I32, "dt_bias_dtype", "i32");
	REFUSED(p.checkpoint_dtype = TILERT_F16, "checkpoint_dtype", "f16", "f32");
	REFUSED(p.state_stride = 5, "state_stride", "5");
	REFUSED(p.state_slots = 0, "state_slots", "0");
	REFUSED(p.state_slots = -1, "state_slots", "-1");
	REFUSED(p.null_slot = -2, "null_slot", "-2");
	REFUSED(p.state_indices += 2, "state_indices is at", "4");
	REFUSED(p.output_indices = p.state_indices + 1, "output_indices is at", "4");
	REFUSED(p.checkpoint_state += 4, "checkpoint_state is at", "16");
	REFUSED(p.checkpoint_state = 0, "checkpoint_every", "checkpoint_state is 0");
	REFUSED(p.checkpoint_every = 96, "checkpoint_every", "96", "64");
	REFUSED(p.checkpoint_every = -64, "checkpoint_every", "-64");
	REFUSED((p.checkpoint_every = 0, p.checkpoint_starts = 0), "checkpoint_offsets is 0");
	REFUSED(p.checkpoint_starts = 0, "checkpoint_starts is 0");
	REFUSED(p.checkpoint_offsets = p.state_indices, "checkpoint_every", "checkpoint_offsets");
	REFUSED((p.checkpoint_every = 0, p.checkpoint_offsets = p.state_indices), "checkpoint_starts", "checkpoint_every is 0");
	REFUSED(p.checkpoint_slots = 0, "checkpoint_slots", "0");
	REFUSED(p.checkpoint_stride = 1, "checkpoint_stride", "1");
	REFUSED(p.final_state = p.initial_state + 64, "initial_state", "final_state", "overlap");
	REFUSED(p.checkpoint_state = p.final_state, "final_state", "checkpoint_state", "overlap");
	REFUSED(p.o = p.checkpoint_state, "o (", "checkpoint_state", "overlap");
	REFUSED(p.has_initial_state = p.o, "o (", "has_initial_state", "overlap");
	REFUSED(p.state_indices = p.workspace, "workspace", "state_indices", "overlap");
	REFUSED((p.key_dim = 60, p.split = TILEKERN_SPLIT_OFF), "q_strides", "60", "8");
#undef REFUSED
	gdn_run_free(r);
}

/* ---- the cases ---- */

static const int lengths[] = { 0, 1, 63, 64, 65, 200, 0, 130, -1 }, longs[] = { 65, 4700, 4096, 0, 4032, 200, -1 }, two[] = { 70, 65, -1 },
	some_long[] = { 1000, 130, 2000, -1 },
	one_long[] = { 1, 2, 1, 70, 1, 1, 6200, 1, 3, 1, 1, 1, -1 }; /* more sequences than starts of units, of which one has three */

#define INVARIANT .split = TILEKERN_SPLIT_INVARIANT, .processors = 16
size_t gdn_states_cases(NumericCase *out)
{
	static const struct { const char *name; void (*run)(const void *); GdnRow row; } all[] = {
		{ "pieces", run_pieces, { .in = { .tokens = 1500, .value_heads = 2, .seed = 1 }, .states = GDN_BOTH, .split = TILEKERN_SPLIT_OFF } },
		{ "pieces_invariant", run_pieces, { .in = { .tokens = 1500, .seed = 2, .gates = GDN_GATES_ZERO }, .states = GDN_BOTH, INVARIANT } },
		{ "pieces_invariant_v_first_fp16", run_pieces, { .in = { .tokens = 1111, .key_dim = 64, .value_dim = 72, .seed = 3, .fp16 = true }, .states = GDN_FINAL,
			.state_v_first = true, .options = TILEKERN_L2NORM | TILEKERN_RAW_GATE | TILEKERN_SIGMOID_BETA, INVARIANT } },
		{ "pieces_k200", run_pieces, { .in = { .tokens = 300, .key_dim = 200, .value_dim = 136, .seed = 4 }, .states = GDN_BOTH } },
		{ "ends", run_ends, { .in = { .value_heads = 2, .seed = 5 }, .lengths = lengths, .states = GDN_BOTH, .split = TILEKERN_SPLIT_OFF,
			.pool = { .checkpoints = POOL_EVERY_64 } } },
		{ "ends_at_offsets_invariant", run_ends, { .in = { .key_dim = 64, .value_dim = 200, .seed = 6 }, .lengths = some_long, .states = GDN_FINAL, INVARIANT,
			.pool = { .checkpoints = POOL_AT_OFFSETS } } },
		{ "ends_k256", run_ends, { .in = { .key_dim = 256, .value_dim = 64, .seed = 7 }, .lengths = lengths, .states = GDN_BOTH,
			.pool = { .checkpoints = POOL_EVERY_192 } } },
		{ "packing_invariant", run_packing, { .in = { .value_heads = 2, .seed = 8 }, .lengths = longs, .spare = 77, .states = GDN_BOTH, INVARIANT } },
		{ "packing_invariant_zero", run_packing, { .in = { .seed = 9, .gates = GDN_GATES_ZERO }, .lengths = longs, .states = GDN_BOTH, INVARIANT } },
		{ "packing_invariant_many", run_packing, { .in = { .seed = 16, .gates = GDN_GATES_ZERO }, .lengths = one_long, .states = GDN_BOTH, INVARIANT } },
		{ "pool_bits_split", run_in_place, { .in = { .tokens = 1500, .seed = 10 }, .states = GDN_BOTH, .processors = 16, .pool = { .in_place = true } } },
		{ "pool_bits_exact", run_in_place, { .in = { .gates = GDN_GATES_ZERO, .seed = 11 }, .lengths = some_long, .states = GDN_BOTH,
			.split = TILEKERN_SPLIT_EXACT, .processors = 16, .pool = { .slots = true, .in_place = true } } },
		{ "pool_bits_invariant", run_in_place, { .in = { .gates = GDN_GATES_ZERO, .seed = 12 }, .lengths = longs, .states = GDN_BOTH, INVARIANT,
			.pool = { .slots = true, .in_place = true } } },
		{ "slots_beyond_2_31", run_far_slots, { .in = { .value_heads = 2, .seed = 13 }, .lengths = two, .states = GDN_BOTH, .split = TILEKERN_SPLIT_OFF } },
		{ "slots_beyond_2_31_single", run_far_slots, { .in = { .value_heads = 2, .seed = 15 }, .lengths = two, .states = GDN_BOTH, .processors = 3 } },
		{ "checkpoints_in_pool", run_checkpoints_in_pool, { .in = { .gates = GDN_GATES_ZERO, .seed = 17 }, .lengths = some_long, .states = GDN_BOTH, .split = TILEKERN_SPLIT_EXACT,
			.processors = 16, .pool = { .slots = true, .in_place = true, .checkpoints = POOL_EVERY_192, .checkpoint_slots = true } } },
		{ "workspace_grows", run_workspace, { .states = GDN_NO_STATES } },
		{ "states_refused", run_refusals, { .in = { .qk_heads = 1, .value_heads = 2, .seed = 14 }, .lengths = lengths, .states = GDN_BOTH,
			.pool = { .slots = true, .checkpoints = POOL_EVERY_64 } } },
	};
	size_t n = sizeof all / sizeof all[0];
	for (size_t i = 0; i < n; i++) {
		out[i] = numeric_case(all[i].run, &all[i].row, "gdn_states_%s", all[i].name);
	}
	return n;
}
