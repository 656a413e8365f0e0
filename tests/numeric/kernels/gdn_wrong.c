/* gdn_wrong.c - GDN calls with wrong arguments, offsets that are none, parameters of other versions, nothing to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/gdn_check.h"

enum { RAW = TILEKERN_RAW_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA, TWICE = TILEKERN_TWICE_BETA };

static void run_wild(const void *row) { gdn_run_with(row, forward_wild); }
static void run_wild_checkpoints(const void *row) { gdn_run_with(row, forward_wild_checkpoints); }

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
	expect_words(tilekern_last_error(), words);
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
	REFUSED((p.options = RAW, p.a_log = r->a_log.p + 4), "a_log is at", "16");
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
	REFUSED((p.g_strides = r->g.strides, p.g_strides.batch = INT64_C(1) << 38), "g_strides.batch", "274877906943");
	REFUSED(p.state_stride = INT64_C(1) << 38, "state_stride", "274877906943");
	REFUSED((p.o_strides = r->o.strides, p.o_strides.batch = 512), "o_strides.batch", "is 512", "1536", "overlap");
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

/* ---- the cases ---- */

static const int all_lengths[] = { 0, 1, 63, 64, 65, 200, 0, 2, -1 }, around[] = { 65, 0, 0, 63, 1, 129, 0, -1 },
	few_long[] = { 1000, 0, 2000, 65, -1 }, one_long[] = { 0, 1, 65, 4700, 0, 200, -1 },
	serving[] = { 1, 3, 1000, 0, 31, 32, 33, 1, 129, 300, 2, -1 };

#define AUTO .split = TILEKERN_SPLIT_AUTO, .processors = 16
#define EXACT .split = TILEKERN_SPLIT_EXACT, .processors = 16
#define FEW .processors = 3
size_t gdn_wrong_cases(NumericCase *out)
{
	static const struct { const char *name; void (*run)(const void *); GdnRow row; } all[] = {
		{ "nothing_to_do", run_nothing, { .in = { .batch = 2, .tokens = 3, .qk_heads = 1, .value_heads = 2 }, .states = GDN_BOTH } },
		{ "parameters_of_a_newer_version", run_versions, { .in = { .tokens = 65, .seed = 19 }, .states = GDN_FINAL } },
		{ "refuses_wrong_arguments", run_refusals, { .in = { .batch = 2, .tokens = 3, .qk_heads = 2, .value_heads = 4, .seed = 11 }, .states = GDN_BOTH } },
		{ "wild_offsets", run_wild, { .in = { .value_heads = 2, .seed = 31 }, .lengths = all_lengths, .spare = 70, .states = GDN_BOTH, .strided = true } },
		{ "wild_offsets_i64_fp16", run_wild, { .in = { .key_dim = 64, .value_dim = 64, .fp16 = true, .seed = 32 }, .lengths = around, .lengths_i64 = true,
			.states = GDN_BOTH } },
		{ "wild_offsets_saves", run_wild, { .in = { .value_heads = 2, .seed = 34 }, .lengths = all_lengths, .save = true, .states = GDN_BOTH } },
		{ "wild_checkpoints", run_wild_checkpoints, { .in = { .key_dim = 64, .value_dim = 64, .seed = 39 }, .lengths = all_lengths, .states = GDN_BOTH,
			.pool = { .slots = true, .checkpoints = POOL_EVERY_64, .checkpoint_slots = true } } },
		{ "wild_checkpoints_at_offsets", run_wild_checkpoints, { .in = { .seed = 40 }, .lengths = few_long, .lengths_i64 = true, AUTO, .states = GDN_FINAL,
			.pool = { .checkpoints = POOL_AT_OFFSETS } } },
		{ "wild_offsets_k200", run_wild, { .in = { .key_dim = 200, .value_dim = 72, .seed = 35 }, .lengths = around, .spare = 3, .save = true, .states = GDN_BOTH,
			.lengths_i64 = true } },
		{ "wild_offsets_single", run_wild, { .in = { .value_heads = 2, .seed = 38 }, .lengths = serving, .options = NORM, .states = GDN_BOTH, FEW } },
		{ "wild_offsets_split", run_wild, { .in = { .seed = 36 }, .lengths = few_long, .spare = 100, AUTO, .states = GDN_BOTH, .strided = true } },
		{ "wild_offsets_joined", run_wild, { .in = { .gates = GDN_GATES_PATCHES, .seed = 37 }, .lengths = one_long, .spare = 10, EXACT, .states = GDN_BOTH,
			.lengths_i64 = true } },
	};
	size_t n = sizeof all / sizeof all[0];
	for (size_t i = 0; i < n; i++) {
		out[i] = numeric_case(all[i].run, &all[i].row, "gdn_%s", all[i].name);
	}
	return n;
}
