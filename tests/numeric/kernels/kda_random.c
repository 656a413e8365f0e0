/* kda_random.c - KDA calls of anything that the interface allows. */
#include <math.h>

#include "tests/check/random.h"
#include "tests/numeric/kernels/kda_run.h"

enum { RAW = TILEKERN_RAW_GATE, BOUND = TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE, NORM = TILEKERN_L2NORM, SIGMOID = TILEKERN_SIGMOID_BETA,
	TWICE = TILEKERN_SIGMOID_BETA | TILEKERN_TWICE_BETA };

static KdaRow random_row(Random *r, int *lengths)
{
	static const int64_t dims[] = { 64, 128, 128, 8, 16, 24, 40, 96, 104, 120, 136, 160, 192, 248, 256 }, likely[] = { 0, 1, 17, 31, 32, 33, 64, 65, 100, 150 };
	const unsigned gates[] = { 0, 0, RAW, BOUND }, betas[] = { 0, 0, SIGMOID, TWICE };
	KdaRow row = { .batch = 1 + pick(r, 3), .tokens = likely[pick(r, 10)], .qk_heads = 1 + pick(r, 2), .key_dim = dims[pick(r, 15)],
		.value_dim = dims[pick(r, 15)], .gate = (KdaGate)pick(r, KDA_HANDED + 1), .keys = (KdaKey)pick(r, KDA_RAW_KEYS), .states = (KdaStates)pick(r, 4), .fp16 = toss(r),
		.gate16 = toss(r), .beta16 = toss(r), .crossed = toss(r), .sixteen = toss(r), .state_bf16 = toss(r), .state_fp16 = toss(r), .state_v_first = toss(r), .strided = toss(r), .to_two = toss(r),
		.without_a_log = toss(r), .without_dt_bias = toss(r), .options = gates[pick(r, 4)] | betas[pick(r, 4)] | (toss(r) ? NORM : 0),
		.scale = pick(r, 3) ? 0 : 0.2f, .lower_bound = pick(r, 3) ? 0 : -1.5f, .pool = pool_random(r), .seed = random_bits(r) };
	row.value_heads = row.qk_heads * (1 + pick(r, pick(r, 4) ? 3 : 8));
	if (row.gate == KDA_HANDED && toss(r))
		row.keys = KDA_PAIR;
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
		kda_run_checked(&row);
	}
}

size_t kda_random_cases(NumericCase *out)
{
	*out = (NumericCase){ "kda_random_arguments", run_random, NULL };
	return 1;
}
