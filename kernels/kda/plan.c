#include "plan.h"

#include "../launch/states.h"

enum { CHUNK = 32, NARROW = 64 /* K and columns of V where two CTAs share a multiprocessor */, WIDE = 128 };

/* In chunks.  A warm-up of 4 is enough for gates of -0.13 a token (-5 sigmoid(normal - 3) has a mean of about -0.36); one of 32 for -0.02
 * (-5 sigmoid(normal - 6)), one of 64 for half of that.  A level costs what it scans, and TRY more: a launch and its first loads. */
enum { SHORT = 4, LONG = 32, LONGER = 64, FROM = 512 /* chunks of a sequence for which that pays */, TRY = 3 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Checkpoints are numbered from a sequence's first token; a CTA that ends an item may be done before another has begun it from the state that is there. */
static bool whole_only(const tilekern_kda_params *p)
{
	const States st = STATES_OF(p);
	return p->checkpoint_state || states_in_place(&st);
}

int kda_size(const tilekern_kda_params *p) { return p->key_dim <= NARROW ? NARROW : WIDE; }

/* Chunks that the busiest CTA scans: with whole items, dealt in turn, and with equal shares of all.  Of packed sequences only the mean length is known
 * here: one of them is taken to be four times as long. */
KdaPlan kda_plan(const tilekern_kda_params *p, int sm_count)
{
	const int size = kda_size(p), most = size == NARROW ? 2 * sm_count : sm_count;
	const int64_t n = sequences_count(SEQUENCES_OF(p)), items = n * p->value_heads * ceil_div(p->value_dim, size);
	const int64_t all = p->cu_seqlens ? p->tokens / CHUNK + n : n * ceil_div(p->tokens, CHUNK), each = n > 0 ? ceil_div(all, n) : 0;
	KdaPlan l = { .ctas = (int)(items < most ? items : most), .warm = { SHORT } };
	if (p->split == TILEKERN_SPLIT_AUTO && items > 0 && !whole_only(p)) {
		const int64_t longest = p->cu_seqlens && 4 * each < all ? 4 * each : each, turns = ceil_div(items, most) * each;
		const int64_t whole = turns > longest ? turns : longest, part = ceil_div(all * (items / n), most);
		l.warm[1] = whole < FROM ? LONG : LONGER;
		l.levels = part + SHORT + 2 * (l.warm[1] + TRY) < whole / 8 * 5 ? 2 : part + 2 * SHORT + TRY < whole ? 1 : 0;
	}
	if (l.levels > 0)
		l.ctas = most;
	l.bytes = p->split == TILEKERN_SPLIT_AUTO ? (size_t)sm_count * 2 * sizeof(int32_t) : 0; /* the same for all extents: workspaces grow with them */
	return l;
}
