#include "plan.h"

#include "../launch/operator.h"
#include "../launch/states.h"

enum { CHUNK = 32, NARROW = 64 /* K and columns of V where two CTAs share a multiprocessor */, FULL = 128, WIDE = 256 /* K; 64 columns of V */ };

/* In chunks.  A warm-up of 4 is enough for gates of -0.13 a token (-5 sigmoid(normal - 3) has a mean of about -0.36); one of 32 for -0.02
 * (-5 sigmoid(normal - 6)), one of 64 for half of that.  A level costs what it scans, and TRY more: a launch and its first loads. */
enum { SHORT = 4, LONG = 32, LONGER = 64, FROM = 512 /* chunks of a sequence for which that pays */, TRY = 3 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Checkpoints are numbered from a sequence's first token; states are made for shares for K up to 128. */
static bool whole_only(const tilekern_kda_params *p)
{
	const bool registers = kda_keys(p) == FULL && p->dtype == TILERT_F16 && p->gate_dtype == TILERT_F32; /* variants.def has none with CUTS */
	return p->checkpoint_state || kda_keys(p) == WIDE || registers;
}

int kda_keys(const tilekern_kda_params *p) { return p->key_dim <= NARROW ? NARROW : p->key_dim <= FULL ? FULL : WIDE; }
int kda_item_columns(const tilekern_kda_params *p) { return kda_keys(p) == FULL ? FULL : NARROW; }

/* Chunks that the busiest CTA scans: with whole items, dealt in turn, and with equal shares of all. */
typedef struct Load { int64_t items, whole, part; int most; } Load;

/* Of packed sequences only the mean length is known here: one of them is taken to be four times as long. */
static Load load(const tilekern_kda_params *p, int sm_count)
{
	const int size = kda_item_columns(p), most = kda_keys(p) == NARROW ? 2 * sm_count : sm_count;
	const int64_t n = sequences_count(SEQUENCES_OF(p)), items = n * p->value_heads * ceil_div(p->value_dim, size);
	const int64_t all = p->cu_seqlens ? p->tokens / CHUNK + n : n * ceil_div(p->tokens, CHUNK), each = n > 0 ? ceil_div(all, n) : 0;
	const int64_t longest = p->cu_seqlens && 4 * each < all ? 4 * each : each, turns = ceil_div(items, most) * each;
	return (Load){ items, turns > longest ? turns : longest, n > 0 ? ceil_div(all * (items / n), most) : 0, most };
}

/* Windows of chunks before shares. */
static void plan_windows(KdaPlan *l, const Load *c)
{
	l->warm[0] = SHORT;
	l->warm[1] = c->whole < FROM ? LONG : LONGER;
	l->levels = c->part + SHORT + 2 * (l->warm[1] + TRY) < c->whole / 8 * 5 ? 2 : c->part + 2 * SHORT + TRY < c->whole ? 1 : 0;
	if (l->levels > 0)
		l->ctas = c->most;
}

static KdaPlan whole_items(const Load *c) { return (KdaPlan){ .ctas = (int)(c->items < c->most ? c->items : c->most) }; }

KdaPlan kda_plan(const tilekern_kda_params *p, int sm_count)
{
	const Load c = load(p, sm_count);
	KdaPlan l = whole_items(&c);
	const States st = STATES_OF(p); /* in place: a CTA that ends an item may be done before another has begun it from the state that is there */
	if (p->split == TILEKERN_SPLIT_AUTO && c.items > 0 && !whole_only(p) && !states_in_place(&st))
		plan_windows(&l, &c);
	l.bytes = p->split == TILEKERN_SPLIT_AUTO ? (size_t)sm_count * 2 * sizeof(int32_t) : 0; /* the same for all extents: workspaces grow with them */
	return l;
}

/* The part of an item before a share is scanned twice, then the share; a join takes about as long as half a chunk for each share of an item. */
static int64_t joined(const Load *c) { return 3 * c->part + TRY + ceil_div(c->whole, c->part > 0 ? c->part : 1) / 2; }

KdaPlan kda_plan_joined(const tilekern_kda_params *p, int sm_count)
{
	const Load c = load(p, sm_count);
	const bool exactly = p->split == TILEKERN_SPLIT_EXACT;
	KdaPlan l = kda_plan(p, sm_count);
	if (p->saved || (p->split != TILEKERN_SPLIT_AUTO && !exactly))
		return l;
	const int64_t windows = l.levels > 1 ? c.part + SHORT + 2 * (l.warm[1] + TRY) : c.whole, most = exactly ? windows : windows / 8 * 7;
	const int keys = kda_keys(p) == NARROW ? NARROW : FULL, shares = keys == NARROW ? 2 * sm_count : sm_count;
	if (c.items > 0 && !whole_only(p) && joined(&c) < most)
		l = (KdaPlan){ .ctas = c.most, .levels = 1, .warm = { SHORT }, .leaves = exactly ? KDA_EXACTLY : KDA_NEEDED, .keys = keys };
	l.bytes = 0;
	workspace_place(&l.bytes, (int64_t)sm_count * 2 * (int64_t)sizeof(int32_t));
	l.enter = workspace_place(&l.bytes, (int64_t)shares * keys * keys * 4);
	l.across = workspace_place(&l.bytes, (int64_t)shares * keys * keys * 4);
	return l;
}
