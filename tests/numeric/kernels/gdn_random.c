/* gdn_random.c - GDN calls of anything that the interface allows. */
#include <stdlib.h>

#include "tests/check/random.h"
#include "tests/numeric/kernels/gdn_check.h"

enum { RAW = TILEKERN_RAW_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA, TWICE = TILEKERN_TWICE_BETA };

static tilert_dtype random_type(Random *r)
{
	static const tilert_dtype types[] = { TILERT_F32, TILERT_BF16, TILERT_F16 };
	return types[pick(r, 3)];
}

/* Where states lie, what is wanted of them, and types of what is small. */
static void random_states(Random *r, GdnRow *row)
{
	row->pool = pool_random(r);
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

static void run_random(const void *unused)
{
	int lengths[8];
	bool named;
	Random r;
	(void)unused;
	const int calls = random_calls(&r, 1, 25, &named);
	for (int i = 0; i < calls; i++) {
		GdnRow row = random_row(&r, lengths);
		if (!random_runs(i))
			continue;
		if (named)
			print_message("%d: b%lld t%lld h%lld/%lld k%lld v%lld%s gates %d keys %d betas %d options %x states %d%s%s%s split %d processors %u%s\n", i,
				(long long)row.in.batch, (long long)row.in.tokens, (long long)row.in.qk_heads, (long long)row.in.value_heads, (long long)row.in.key_dim,
				(long long)row.in.value_dim, row.in.fp16 ? " fp16" : "", (int)row.in.gates, (int)row.in.keys, (int)row.in.betas, row.options, (int)row.states,
				row.state_bf16 ? " bf16" : "", row.state_v_first ? " v first" : "", row.strided ? " strided" : "", (int)row.split, row.processors,
				row.lengths ? " packed" : "");
		GdnRun *run = gdn_run_make(&row);
		gdn_run_forward(run);
		gdn_check(run);
		gdn_run_free(run);
	}
}

size_t gdn_random_cases(NumericCase *out)
{
	*out = (NumericCase){ "gdn_random_arguments", run_random, NULL };
	return 1;
}
