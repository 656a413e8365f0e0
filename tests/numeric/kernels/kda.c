/* kda.c - the KDA forward against its recurrence, over everything that tilekern/kda.h allows. */
#include <stdio.h>

#include "tests/numeric/kernels/kda_run.h"

enum { RAW = TILEKERN_RAW_GATE, BOUND = TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA,
	TWICE = TILEKERN_SIGMOID_BETA | TILEKERN_TWICE_BETA };

static const int none[] = { 0, -1 }, empty_ones[] = { 0, 0, 0, -1 }, all_lengths[] = { 0, 1, 31, 32, 33, 64, 100, 0, 2, -1 }, pair[] = { 70, 33, -1 },
	dealt_lengths[] = { 250, 0, 1100, 33, 900, 300, 1, -1 }, checked_lengths[] = { 200, 64, 33, 100, 128, -1 },
	own_lengths[] = { 40, 1800, 0, 1100, 1, 1560, 2400, 33, -1 }, own_strong[] = { 1700, 700, 1600, 0, 31, -1 }, joined_lengths[] = { 1500, 741, -1 },
	uneven_lengths[] = { 40, 1500, 0, 700, 1, -1 }, shared_lengths[] = { 0, 1000, 1, 31, 0, 420, 33, -1 };
static int tiny[401]; /* 0 .. 3 tokens each */

#define SHARES .processors = 6
#define POOL .pool = { .slots = true, .in_place = true, .nulls = true, .has = true }
#define INVARIANT .split = TILEKERN_SPLIT_INVARIANT
static const KdaRow rows[] = {
	/* Shares of the chunks: 6 processors cut within items where up to 4 chunks before the cut fade, or 32, or 64 (walk.tile). */
	{ .name = "shares", .tokens = 1100, .states = KDA_BOTH, SHARES },
	{ .name = "shares_small", .tokens = 600, .gate = KDA_MILD, .key_dim = 40, .value_dim = 40, .states = KDA_FINAL, SHARES }, /* for initcheck, too */
	{ .name = "shares_mild", .tokens = 1100, .gate = KDA_MILD, .states = KDA_BOTH, SHARES },
	{ .name = "shares_strong", .tokens = 1100, .gate = KDA_FIVE, .states = KDA_BOTH, SHARES }, /* the slowest channels tell */
	{ .name = "shares_32", .tokens = 1100, .gate = KDA_FOUR, .states = KDA_BOTH, SHARES }, /* windows of one chunk, of two */
	{ .name = "shares_64", .tokens = 1100, .gate = KDA_64, .states = KDA_BOTH, SHARES },
	{ .name = "shares_32_in_vain", .tokens = 1100, .gate = KDA_HANDED, .keys = KDA_PAIR, .states = KDA_BOTH, SHARES },
	{ .name = "shares_strong_raw", .tokens = 1100, .gate = KDA_FIVE, .options = BOUND, .key_dim = 40, .value_dim = 56, .states = KDA_BOTH, SHARES },
	{ .name = "shares_zero", .tokens = 1100, .gate = KDA_ZERO, .states = KDA_BOTH, SHARES },
	{ .name = "shares_resets", .tokens = 900, .gate = KDA_RESETS, .states = KDA_BOTH, .gate16 = true, SHARES },
	{ .name = "shares_packed", .lengths = shared_lengths, .spare = 90, .states = KDA_BOTH, SHARES },
	{ .name = "shares_wide", .tokens = 700, .fp16 = true, .states = KDA_BOTH, .value_dim = 200, .key_dim = 72, SHARES },
	{ .name = "shares_batch", .batch = 3, .tokens = 900, .states = KDA_FINAL, .fp16 = true, .gate16 = true, SHARES },
	{ .name = "shares_long", .tokens = 7000, .gate = KDA_MILD, .states = KDA_BOTH, .processors = 8 },
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
	{ .name = "joined_tried_32_pool", .lengths = joined_lengths, .gate = KDA_FOUR, .states = KDA_BOTH, POOL, .processors = 24 }, /* one chunk, two, three are enough */
	{ .name = "joined_tried_64", .tokens = 1500, .gate = KDA_64, .states = KDA_BOTH, .gate16 = true, .processors = 14 },
	{ .name = "joined_tried_96_k64", .tokens = 2900, .gate = KDA_96, .key_dim = 64, .value_dim = 64, .states = KDA_BOTH, .processors = 14 },
	{ .name = "joined_tried_32_in_vain", .tokens = 1500, .gate = KDA_HANDED, .keys = KDA_PAIR, .states = KDA_BOTH, .processors = 14 },
	{ .name = "joined_tried_32_in_vain_pool", .lengths = joined_lengths, .gate = KDA_HANDED, .keys = KDA_PAIR, .states = KDA_BOTH, POOL, .processors = 24 },
	{ .name = "joined_tried_long_pool", .tokens = 5100, .gate = KDA_MILD, .key_dim = 64, .value_dim = 64, .states = KDA_BOTH, POOL, .processors = 2 },
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
	{ .name = "invariant_32", .tokens = 1700, .gate = KDA_FOUR, .states = KDA_BOTH, INVARIANT, SHARES },
	{ .name = "invariant_32_in_vain", .tokens = 1700, .gate = KDA_HANDED, .keys = KDA_PAIR, .states = KDA_BOTH, .overall = 0.006, INVARIANT, SHARES },
	{ .name = "invariant_rows_64_pool", .tokens = 1700, .gate = KDA_64, .states = KDA_BOTH, POOL, INVARIANT, .processors = 12 },
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

typedef struct Table { NumericCase *out; size_t n; } Table;

static void add(Table *t, void (*run)(const void *), const KdaRow *row, const char *name)
{
	NumericCase *c = &t->out[t->n++];
	*c = numeric_case(run, row, "kda_%s", name);
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
		add(t, kda_run_checked, &tails[i], name);
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
		add(t, kda_run_checked, &sizes[i], name);
	}
}

size_t kda_cases(NumericCase *out)
{
	Table t = { .out = out };
	for (int i = 0; i < 400; i++)
		tiny[i] = i * 7 % 4;
	tiny[400] = -1;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		add(&t, kda_run_checked, &rows[i], rows[i].name);
	add_tails(&t);
	add_dims(&t);
	return t.n;
}
