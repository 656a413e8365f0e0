#include "plan.h"

#include "../launch/operator.h"
#include "../launch/states.h"

enum { CHUNK = 32, NARROW = 64 /* K and columns of V where two CTAs share a multiprocessor */, FULL = 128, WIDE = 256 /* K; 64 columns of V */ };

/* In chunks.  A window of 4 is enough for gates of -0.13 a token (-5 sigmoid(normal - 3) has a mean of about -0.36); one of 32 for -0.02
 * (-5 sigmoid(normal - 6)), one of 64 for half of that.  TRY: a launch and its first loads. */
enum { SHORT = 4, LONG = 32, LONGER = 64, FROM = 512 /* chunks of a sequence for which that pays */, TRY = 3,
	AT_ONCE = 96 /* chunks of whole items: above, a launch that looks at gates between strong and mild, too, is worth its time */ };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Checkpoints are numbered from a sequence's first token; states are made for shares for K up to 128. */
static bool whole_only(const tilekern_kda_params *p)
{
	return p->checkpoint_state || kda_keys(p) == WIDE;
}

int kda_keys(const tilekern_kda_params *p) { return p->key_dim <= NARROW ? NARROW : p->key_dim <= FULL ? FULL : WIDE; }
int kda_item_columns(const tilekern_kda_params *p) { return kda_keys(p) == FULL ? FULL : NARROW; }

/* Chunks that the busiest CTA scans: with whole items, dealt in turn, and with equal shares of all. */
typedef struct Load { int64_t items, whole, sure, part; int most; } Load;

/* Of packed sequences only the mean length is known here: one of them may be four times as long, but what is only worth while then is not (`sure`). */
static Load load(const tilekern_kda_params *p, int sm_count)
{
	const int size = kda_item_columns(p), most = kda_keys(p) == NARROW ? 2 * sm_count : sm_count;
	const int64_t n = sequences_count(SEQUENCES_OF(p)), items = n * p->value_heads * ceil_div(p->value_dim, size);
	const int64_t all = p->cu_seqlens ? p->tokens / CHUNK + n : n * ceil_div(p->tokens, CHUNK), each = n > 0 ? ceil_div(all, n) : 0;
	const int64_t longest = p->cu_seqlens && 4 * each < all ? 4 * each : each, turns = ceil_div(items, most) * each;
	return (Load){ items, turns > longest ? turns : longest, turns, n > 0 ? ceil_div(all * (items / n), most) : 0, most };
}

static KdaPlan whole_items(const Load *c) { return (KdaPlan){ .ctas = (int)(c->items < c->most ? c->items : c->most) }; }

/* With windows of `warm` chunks: to try them, and the call. */
static int64_t with_windows(const Load *c, int warm) { return c->part + TRY + (warm > SHORT ? TRY + 2 * warm : SHORT); }

static KdaPlan windows(const Load *c)
{
	const int most = c->whole < FROM ? LONG : LONGER;
	const int warm = with_windows(c, most) < c->sure / 8 * 5 ? most : SHORT;
	return with_windows(c, SHORT) + SHORT < c->whole / 8 * 7 ? (KdaPlan){ .ctas = c->most, .way = KDA_WINDOWS, .warm = warm } : whole_items(c);
}

KdaPlan kda_plan(const tilekern_kda_params *p, int sm_count)
{
	const Load c = load(p, sm_count);
	const States st = STATES_OF(p); /* in place: a CTA that ends an item may be done before another has begun it from the state that is there */
	const bool cut = p->split == TILEKERN_SPLIT_AUTO && c.items > 0 && !whole_only(p) && !states_in_place(&st);
	KdaPlan l = cut ? windows(&c) : whole_items(&c);
	l.bytes = p->split == TILEKERN_SPLIT_AUTO ? (size_t)sm_count * 2 * sizeof(int32_t) : 0; /* the same for all extents: workspaces grow with them */
	return l;
}

/* The part of an item before a share is scanned twice, then the share; a join takes about as long as half a chunk for each share of an item. */
static int64_t joined(const Load *c) { return 3 * c->part + TRY + ceil_div(c->whole, c->part > 0 ? c->part : 1) / 2; }

/* The way of the forward alone, beside that of kda_plan.  Where shares cannot begin, ALONE is whole items that are dealt otherwise, and 4 to 7 us for nothing: it has to promise an eighth. */
static KdaWay forward_way(const Load *c, const KdaPlan *l, bool exactly)
{
	const int64_t other = l->way == KDA_WINDOWS && l->warm > SHORT ? with_windows(c, l->warm) : exactly ? c->whole : c->sure;
	if (joined(c) < (exactly ? other : other / 8 * 7))
		return exactly ? KDA_EXACTLY : KDA_NEEDED;
	if (exactly || (l->way == KDA_WINDOWS && (l->warm > SHORT || c->sure >= AT_ONCE)))
		return l->way;
	return c->part + SHORT + TRY < c->whole / 8 * 7 ? KDA_ALONE : KDA_WHOLE;
}

KdaPlan kda_plan_joined(const tilekern_kda_params *p, int sm_count)
{
	const Load c = load(p, sm_count);
	const bool exactly = p->split == TILEKERN_SPLIT_EXACT;
	KdaPlan l = kda_plan(p, sm_count);
	if (p->saved || (p->split != TILEKERN_SPLIT_AUTO && !exactly))
		return l;
	const int keys = kda_keys(p) == NARROW ? NARROW : FULL, shares = keys == NARROW ? 2 * sm_count : sm_count;
	const KdaWay way = c.items > 0 && !whole_only(p) ? forward_way(&c, &l, exactly) : l.way;
	if (way > KDA_WINDOWS)
		l = (KdaPlan){ .ctas = c.most, .way = way, .warm = SHORT, .keys = keys };
	else if (way == KDA_WHOLE)
		l = whole_items(&c);
	l.bytes = 0;
	workspace_place(&l.bytes, (int64_t)sm_count * 2 * (int64_t)sizeof(int32_t));
	l.enter = workspace_place(&l.bytes, (int64_t)shares * keys * keys * 4);
	l.across = workspace_place(&l.bytes, (int64_t)shares * keys * keys * 4);
	return l;
}
