/* kda_wrong.c - KDA calls with wrong arguments, offsets that are none, nothing to do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/kda_run.h"

enum { BOUND = TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE };

static void run_wild(const void *row) { kda_run_with(row, forward_wild); }
static void run_wild_checkpoints(const void *row) { kda_run_with(row, forward_wild_checkpoints); }

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

static const int all_lengths[] = { 0, 1, 31, 32, 33, 64, 100, 0, 2, -1 }, checked_lengths[] = { 200, 64, 33, 100, 128, -1 },
	replayed_lengths[] = { 700, 1200, 33, 0, -1 }, joined_lengths[] = { 1500, 741, -1 }, shared_lengths[] = { 0, 1000, 1, 31, 0, 420, 33, -1 };

#define SHARES .processors = 6
#define INVARIANT .split = TILEKERN_SPLIT_INVARIANT
size_t kda_wrong_cases(NumericCase *out)
{
	static const struct { const char *name; void (*run)(const void *); KdaRow row; } all[] = {
		{ "wild_offsets", run_wild, { .lengths = all_lengths, .spare = 70, .value_heads = 2, .states = KDA_BOTH, .strided = true, .seed = 23 } },
		{ "wild_offsets_shares", run_wild, { .lengths = shared_lengths, .spare = 3, .states = KDA_BOTH, .lengths_i64 = true, .seed = 24, SHARES } },
		{ "wild_offsets_joined", run_wild, { .lengths = joined_lengths, .gate = KDA_RARE, .gate16 = true, .states = KDA_BOTH, .processors = 24, .seed = 25 } },
		{ "wild_offsets_invariant", run_wild, { INVARIANT, .lengths = replayed_lengths, .states = KDA_BOTH, .processors = 9, .seed = 26 } },
		{ "wild_checkpoints", run_wild_checkpoints, { .lengths = checked_lengths, .states = KDA_FINAL, .seed = 33,
			.pool = { .i64 = true, .checkpoints = POOL_EVERY_64, .checkpoint_slots = true } } },
		{ "wild_checkpoints_at_offsets", run_wild_checkpoints, { .lengths = checked_lengths, .lengths_i64 = true, .key_dim = 64, .value_dim = 64, .states = KDA_BOTH, .seed = 34,
			.pool = { .checkpoints = POOL_AT_OFFSETS } } },
		{ "nothing_to_do", run_nothing, { .batch = 2, .tokens = 3, .states = KDA_BOTH } },
		{ "refuses_wrong_arguments", run_refusals, { .batch = 2, .tokens = 3, .qk_heads = 2, .states = KDA_BOTH } },
	};
	size_t n = sizeof all / sizeof all[0];
	for (size_t i = 0; i < n; i++) {
		out[i] = numeric_case(all[i].run, &all[i].row, "kda_%s", all[i].name);
	}
	return n;
}
