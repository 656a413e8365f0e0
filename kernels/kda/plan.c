#include "plan.h"

#include "../launch/states.h"

enum { CHUNK = 32, COLUMNS = 128 /* of V of an item */ };

/* In chunks.  A warm-up of 4 is enough for gates of -0.13 a token (-5 sigmoid(normal - 3) has a mean of about -0.36); one of 64 for -0.008.  A level costs
 * what it scans, and TRY more: a launch and its first loads. */
enum { SHORT = 4, LONG = 64, TRY = 3 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Checkpoints are numbered from a sequence's first token; a CTA that ends an item may be done before another has begun it from the state that is there. */
static bool whole_only(const tilekern_kda_params *p)
{
	const States st = STATES_OF(p);
	return p->checkpoint_state || states_in_place(&st);
}

/* Chunks that the busiest CTA scans: with whole items, dealt in turn, and with equal shares of all.  Of packed sequences only the mean length is known
 * here: one of them is taken to be four times as long. */
KdaPlan kda_plan(const tilekern_kda_params *p, int sm_count)
{
	const int64_t n = sequences_count(SEQUENCES_OF(p)), items = n * p->value_heads * ceil_div(p->value_dim, COLUMNS);
	const int64_t all = p->cu_seqlens ? p->tokens / CHUNK + n : n * ceil_div(p->tokens, CHUNK), each = n > 0 ? ceil_div(all, n) : 0;
	KdaPlan l = { .ctas = (int)(items < sm_count ? items : sm_count), .warm = { SHORT, LONG } };
	if (p->split == TILEKERN_SPLIT_AUTO && items > 0 && !whole_only(p)) {
		const int64_t longest = p->cu_seqlens && 4 * each < all ? 4 * each : each, turns = ceil_div(items, sm_count) * each;
		const int64_t whole = turns > longest ? turns : longest, part = ceil_div(all * (items / n), sm_count);
		l.levels = part + LONG + 2 * TRY + SHORT + LONG < whole / 2 ? 2 : part + 2 * SHORT + TRY < whole ? 1 : 0;
	}
	if (l.levels > 0)
		l.ctas = sm_count;
	l.bytes = p->split == TILEKERN_SPLIT_AUTO ? (size_t)sm_count * sizeof(int32_t) : 0; /* the same for all extents: workspaces grow with them */
	return l;
}
