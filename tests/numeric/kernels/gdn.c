/* gdn.c - the GDN forward against its recurrence, over everything that tilekern/gdn.h allows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/kda_ref.h"
#include "tests/numeric/kernels/gdn_check.h"

enum { RAW = TILEKERN_RAW_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA, TWICE = TILEKERN_TWICE_BETA };

/* ---- kinds of tests ---- */

static void run_forward(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	gdn_run_forward(r);
	gdn_check(r);
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

/* ---- the table ---- */

static const int none[] = { 0, -1 }, empty_ones[] = { 0, 0, 0, -1 }, all_lengths[] = { 0, 1, 63, 64, 65, 200, 0, 2, -1 },
	aligned[] = { 64, 128, 64, -1 }, around[] = { 65, 0, 0, 63, 1, 129, 0, -1 }, pair[] = { 70, 130, -1 }, two[] = { 0, 65, -1 },
	few_long[] = { 1000, 0, 2000, 65, -1 }, one_long[] = { 0, 1, 65, 4700, 0, 200, -1 }, two_long[] = { 4500, 130, 4300, -1 }, mixed_long[] = { 65, 4700, 4096, 0, 4032, 200, -1 },
	long_short[] = { 4500, 65, -1 },
	serving[] = { 1, 3, 1000, 0, 31, 32, 33, 1, 129, 300, 2, -1 }, longer[] = { 3, 2000, 0, 1, -1 }, nearly[] = { 600, 1, 340, 0, 520, 580, -1 };
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
	{ .name = "packed_by_length", .in = { .key_dim = 72, .value_dim = 40, .value_heads = 3 }, .lengths = around, .spare = 3, .states = GDN_BOTH, .processors = 4 },
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
	{ .name = "saves_by_length", .in = { .qk_heads = 1, .value_heads = 3 }, .lengths = around, .spare = 9, .save = true, .states = GDN_BOTH, .processors = 4 },
	{ .name = "saves_k72_v40_v_first", .in = { .tokens = 130, .key_dim = 72, .value_dim = 40 }, .lengths = around, .save = true, .state_v_first = true },
	{ .name = "saves_k256", .in = { .tokens = 130, .value_heads = 2, .key_dim = 256, .value_dim = 64 }, .save = true, .states = GDN_BOTH },
	{ .name = "saves_k200_v72_v_first_packed", .in = { .key_dim = 200, .value_dim = 72, .fp16 = true }, .lengths = around, .spare = 3, .save = true, .state_v_first = true },
	{ .name = "saves_all_options", .in = { .tokens = 130, .value_heads = 2, .gate16 = true }, .options = NORM | RAW | SIGMOID | TWICE, .save = true,
		.states = GDN_BOTH },
	{ .name = "saves_split", .in = { .tokens = 1500 }, .save = true, .processors = 16, .states = GDN_BOTH },
	{ .name = "saves_joined", .in = { .gates = GDN_GATES_PATCHES }, .lengths = one_long, .spare = 100, .save = true, .processors = 16, .states = GDN_BOTH },
};

/* Long sequences of few heads.  16 processors have units of 4 or 5 chunks; beyond 64 chunks they are joined (kernels/gdn/DESIGN.md). */
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
	{ .name = "single_gates_f16", .in = { .value_heads = 3 }, .lengths = serving, .options = NORM | RAW | SIGMOID, .gate_type = TILERT_F16, .beta_type = TILERT_F16,
		.a_log_type = TILERT_BF16, .states = GDN_FINAL, FEW },
	{ .name = "single_without_states", .in = { .value_heads = 2 }, .lengths = serving, .options = NORM, FEW },
	{ .name = "single_initial", .in = { .value_heads = 2, .gates = GDN_GATES_ZERO }, .lengths = all_lengths, .options = NORM, .states = GDN_INITIAL, FEW },
	{ .name = "single_cut_zero", .in = { .value_heads = 2, .gates = GDN_GATES_ZERO }, .lengths = serving, .options = NORM, .states = GDN_BOTH, FEW },
	{ .name = "single_cut_patches", .in = { .value_heads = 2, .gates = GDN_GATES_PATCHES }, .lengths = longer, .options = NORM, .states = GDN_BOTH, FEW },
	{ .name = "single_cut_exact", .in = { .value_heads = 2 }, .lengths = serving, .options = NORM, .split = TILEKERN_SPLIT_EXACT, .states = GDN_BOTH, FEW },
	{ .name = "single_many_rows", .in = { .batch = 1030, .tokens = 2 }, .options = NORM, .states = GDN_FINAL, FEW }, /* more than deal.tile has threads */
	{ .name = "single_long", .in = { .batch = 2, .tokens = 1700, .value_heads = 2 }, .options = NORM, .states = GDN_BOTH, .processors = 4 },
	{ .name = "single_of_two_rows", .in = { .batch = 2, .tokens = 40 }, .options = NORM, .states = GDN_BOTH, FEW }, /* few enough states for tests/gpu/sanitize.sh's initcheck */
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
	{ .name = "single_shares", .in = { .batch = 4, .tokens = 450, .qk_heads = 1, .value_heads = 2 }, .states = GDN_BOTH, .processors = 5 },
	{ .name = "single_shares_packed", .in = { .value_heads = 3, .gates = GDN_GATES_ZERO }, .lengths = nearly, .spare = 7, .options = NORM, .states = GDN_BOTH, .state_v_first = true,
		.processors = 8 },
	{ .name = "single_shares_bf16_states", .in = { .value_heads = 2, .gates = GDN_GATES_PATCHES }, .lengths = nearly, .options = NORM, .states = GDN_BOTH, .state_bf16 = true,
		.state_v_first = true, .pool = { .slots = true, .in_place = true, .nulls = true }, .processors = 5 },
	{ .name = "single_shares_fp16_exact", .in = { .batch = 3, .tokens = 500, .value_heads = 2, .fp16 = true }, .split = TILEKERN_SPLIT_EXACT, .states = GDN_FINAL, .processors = 4 },
	{ .name = "single_shares_without_states", .in = { .batch = 2, .tokens = 700, .value_heads = 2 }, FEW },
	{ .name = "single_keys_equal", .in = { .batch = 2, .tokens = 200, .keys = GDN_KEYS_EQUAL, .gates = GDN_GATES_ZERO, .beta = 1 }, .states = GDN_FINAL, FEW },
	{ .name = "single_keys_equal_mild", .in = { .batch = 2, .tokens = 200, .keys = GDN_KEYS_EQUAL, .beta = 1 }, .states = GDN_FINAL, FEW },
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
		.pool = { .slots = true, .in_place = true, .has = true, .checkpoints = POOL_EVERY_64 } },
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
	{ .name = "checkpoints", .in = { .qk_heads = 1, .value_heads = 2 }, .lengths = all_lengths, .states = GDN_BOTH, .pool = { .checkpoints = POOL_AT_OFFSETS } },
	{ .name = "checkpoints_alone_i64_slots", .in = { .key_dim = 64, .value_dim = 64, .fp16 = true }, .lengths = around, .lengths_i64 = true,
		.pool = { .i64 = true, .checkpoints = POOL_AT_OFFSETS, .checkpoint_slots = true } },
	{ .name = "checkpoints_every_64_v_first", .in = { .value_dim = 256 }, .lengths = all_lengths, .states = GDN_INITIAL, .state_v_first = true,
		.pool = { .checkpoints = POOL_EVERY_64 } },
	{ .name = "checkpoints_every_192_bf16_slots", .in = { .value_heads = 2 }, .lengths = around, .state_bf16 = true, .states = GDN_BOTH, .strided = true,
		.pool = { .slots = true, .in_place = true, .nulls = true, .checkpoints = POOL_EVERY_192, .checkpoint_slots = true, .checkpoint_16 = true } },
	{ .name = "checkpoints_f16_k60_v100", .in = { .key_dim = 60, .value_dim = 100 }, .lengths = around, .state_f16 = true, .states = GDN_BOTH, .strided = true,
		.pool = { .checkpoints = POOL_AT_OFFSETS, .checkpoint_16 = true } },
	{ .name = "checkpoints_split", .in = { .tokens = 1500 }, AUTO, .states = GDN_BOTH, .pool = { .checkpoints = POOL_EVERY_64 } },
	{ .name = "checkpoints_joined", .in = { .gates = GDN_GATES_ZERO }, .lengths = one_long, EXACT, .states = GDN_BOTH,
		.pool = { .in_place = true, .checkpoints = POOL_EVERY_192 } },
	{ .name = "checkpoints_saves", .in = { .tokens = 200 }, .save = true, .states = GDN_BOTH, .pool = { .checkpoints = POOL_EVERY_64 } },
	{ .name = "invariant", .in = { .value_heads = 2 }, .lengths = few_long, INVARIANT, .states = GDN_BOTH, .pool = { .in_place = true } },
	{ .name = "invariant_zero", .in = { .gates = GDN_GATES_ZERO }, .lengths = mixed_long, INVARIANT, .states = GDN_BOTH,
		.pool = { .slots = true, .in_place = true, .nulls = true, .checkpoints = POOL_EVERY_192 } },
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

typedef struct Table { NumericCase *out; size_t n; } Table;

static void add(Table *t, void (*run)(const void *), const GdnRow *row, const char *name)
{
	NumericCase *c = &t->out[t->n++];
	*c = numeric_case(run, row, "gdn_%s", name);
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
		{ "without_tokens_strided", run_forward, { .in = { .batch = 2, .value_heads = 2 }, .strided = true, .states = GDN_BOTH } },
		{ "without_tokens_k40_v8_bf16", run_forward, { .in = { .key_dim = 40, .value_dim = 8 }, .strided = true, .state_bf16 = true, .states = GDN_BOTH } },
		{ "strided_bf16_states", run_forward, { .in = { .tokens = 65, .value_heads = 2 }, .strided = true, .state_bf16 = true, .states = GDN_BOTH } },
	};
	Table t = { .out = out };
	const char *where = getenv("TILE_TEST_DEVICE");
	int sequences = where && strncmp(where, "cuda", 4) == 0 ? 3000 : 420; /* the CPU device takes a second for a hundred */
	for (int i = 0; i < sequences; i++)
		tiny[i] = i * 7 % 4;
	tiny[sequences] = -1;
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
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
		add(&t, more[i].run, &more[i].row, more[i].name);
	return t.n;
}
