#include "kda.h"
#include "plan.h"

#include "../launch/operator.h"
#include "../launch/states.h"

enum { CHUNK = 32, NARROW = 64 /* K and columns of V where two CTAs share a multiprocessor */, FULL = 128, WIDE = 256 /* K; 64 columns of V */ };

/* In chunks.  A window of 4 is enough for gates of -0.13 a token (-5 sigmoid(normal - 3) has a mean of about -0.36); one of 32 for -0.02
 * (-5 sigmoid(normal - 6)), one of 64 for half of that.  TRY: a launch and its first loads. */
enum { SHORTEST = 4 /* of a share (walk.tile) or a unit */, SHORTER = 3 /* of shares of rows, of the forward alone, where an item has no more than */, FEW = 11, LEFT_OVER = 4, SHORT = 4, LONG = 32 /* where that much does not pay, no more than SHORT */, LONGEST = 512, TRY = 3,
	LOOP = 96 /* chunks of a unit from which the faster loop of a form without CUTS is worth a launch before it */,
	CHUNK_COST = 4, HALF_COST = 3, /* of a chunk of an item of 128 columns, of 64 */
	LEAVE = 4, /* a launch that leaves at once */
	JOIN = 35, /* what exact states cost beside three scans, measured: 1x2048 of 8 and 16 heads */
	AT_ONCE = 96 /* chunks of whole items: above, a launch that looks at gates between strong and mild, too, is worth its time */ };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Gates of 16 bits, but not those of q's type, which the backward does not take either: of the forms there are only those for whole items. */
static bool odd_gates(const tilekern_kda_params *p) { return p->gate_dtype != TILERT_F32 && p->gate_dtype != p->dtype; }

/* Checkpoints are numbered from a sequence's first token; states are made for shares for K up to 128. */
static bool whole_only(const tilekern_kda_params *p)
{
	return p->checkpoint_state || kda_keys(p) == WIDE || odd_gates(p);
}

int kda_keys(const tilekern_kda_params *p) { return p->key_dim <= NARROW ? NARROW : p->key_dim <= FULL ? FULL : WIDE; }

/* Chunks that the busiest CTA scans: with whole items, dealt in turn, and with equal shares of all.  halves: items of 64 columns, 0 where those of 128 are as fast or K is not 128;
 * `halved`: what whole ones then take, in chunks of 128 columns. */
typedef struct Load { int64_t items, whole, sure, part, each /* that an item counts as */, halves, halved; int most; } Load;

/* Shares of items of `chunks` each.  One that has the end of an item and the beginning of the next one takes some 1.5 chunks longer, so where there are CTAs enough for each item it gets a whole number
 * of shares, if that makes them no more than a chunk longer.  Its first share scans nothing before its own, so it has up to LEFT_OVER chunks more if the others are shorter then.  With mild gates each share
 * more is a step of a join more (join.tile), some 1.8 us, with strong ones a chunk less is 2 us. */
static void share_rows(Load *c, int64_t chunks, int shortest)
{
	const int64_t own = c->items > 0 ? c->most / c->items : 0;
	c->each = chunks;
	c->part = ceil_div(c->items * chunks, c->most);
	if (own == 0 || ceil_div(chunks, own) > c->part + 1)
		return;
	c->part = own > 1 && chunks > LEFT_OVER ? ceil_div(chunks - LEFT_OVER, own) : ceil_div(chunks, own);
	if (c->part < shortest)
		c->part = shortest;
	c->each = (c->part * own < chunks ? own : ceil_div(chunks, c->part)) * c->part;
}

/* What each of several packed sequences counts as, beside its chunks: one as slots of 64 tokens, and what the end of an item and the beginning of the next take.  With states in place, which each item
 * loads and stores, that is some 8 us, or 4 chunks; with mild gates, of which chunks of long sequences are scanned three times, the CTAs of those would rather have fewer.  The backward knows of none. */
static int beside(const tilekern_kda_params *p, bool alone)
{
	const States st = STATES_OF(p);
	return alone && states_in_place(&st) ? 4 : 2;
}

/* Of packed sequences only the mean length is known here: one of them may be four times as long, but what is only worth while then is not (`sure`). */
static Load load(const tilekern_kda_params *p, int sm_count, bool alone /* without the backward */)
{
	const int size = kda_keys(p) == FULL ? FULL : NARROW, most = kda_keys(p) == NARROW ? 2 * sm_count : sm_count;
	const int64_t n = sequences_count(SEQUENCES_OF(p)), items = n * p->value_heads * ceil_div(p->value_dim, size), halves = n * p->value_heads * ceil_div(p->value_dim, NARROW);
	const bool several = p->cu_seqlens && n > 1;
	const int64_t all = several ? p->tokens / CHUNK + beside(p, alone) * n : n * ceil_div(p->tokens, CHUNK), each = n > 0 ? ceil_div(all, n) : 0;
	const int64_t longest = several && 4 * each < all ? 4 * each : each, turns = ceil_div(items, most) * each, small = ceil_div(halves, most) * each;
	const int shortest = alone && !several && each <= SHORTER * FEW ? SHORTER : SHORTEST;
	Load c = { items, turns > longest ? turns : longest, turns, several ? ceil_div(all * (items / n), most) : 0, several ? -beside(p, alone) : 0, .most = most };
	if (!several)
		share_rows(&c, each, shortest);
	if (c.part > 0 && c.part < shortest)
		c.part = shortest;
	if (size == FULL && !p->saved && !odd_gates(p) && small * HALF_COST < turns * CHUNK_COST)
		c.halves = halves, c.halved = ceil_div((small > longest ? small : longest) * HALF_COST, CHUNK_COST);
	return c;
}

static KdaPlan whole_items(const Load *c)
{
	const int64_t items = c->halves > 0 ? c->halves : c->items;
	return (KdaPlan){ .ctas = (int)(items < c->most ? items : c->most), .halves = c->halves > 0 };
}

/* With windows of `warm` chunks: to try them, and the call. */
static int64_t with_windows(const Load *c, int warm) { return c->part + TRY + (warm > SHORT ? TRY + 2 * warm : SHORT); }

static KdaPlan windows(const Load *c)
{
	const int64_t most = (c->sure / 8 * 5 - c->part - 2 * TRY - 1) / 2;
	const int warm = most < LONG ? SHORT : (int)(most < LONGEST ? most : LONGEST);
	return with_windows(c, SHORT) + SHORT < c->whole / 8 * 7 ? (KdaPlan){ .ctas = c->most, .way = KDA_WINDOWS, .warm = warm } : whole_items(c);
}

/* The part of an item before a share is scanned twice, then the share; a join takes about as long as half a chunk for each share of an item. */
static int64_t joined(const Load *c) { return 3 * c->part + TRY + ceil_div(c->whole, c->part > 0 ? c->part : 1) / 2; }

/* Whether states are made, for shares of rows; of several packed sequences the device would have to say how. */
static bool pays_to_make(const Load *c) { return c->each > 0 && joined(c) < c->sure / 8 * 7; }

static int state_keys(const tilekern_kda_params *p) { return kda_keys(p) == NARROW ? NARROW : FULL; }

/* The same for all ways but `begins`, which grow with the call: workspaces grow with extents. */
static void lay_out(KdaPlan *l, int sm_count, int keys)
{
	const int64_t shares = keys == NARROW ? 2 * sm_count : sm_count;
	l->bytes = 0;
	workspace_place(&l->bytes, (int64_t)sm_count * 2 * (int64_t)sizeof(int32_t));
	l->begun = workspace_place(&l->bytes, (int64_t)sm_count * 2 * (int64_t)sizeof(int32_t));
	l->enter = workspace_place(&l->bytes, shares * 2 * keys * keys * 4);
	l->across = workspace_place(&l->bytes, l->begins_count > 0 ? 0 : shares * keys * keys * 4);
	l->begins = workspace_place(&l->bytes, l->begins_count * (int64_t)sizeof(int32_t));
}

/* Shares of one CTA from which on whole items are faster; of 64 columns, below 0, where the launch for them, which leaves at once where shares begin, is worth its time. */
static int run_for_whole(const Load *c)
{
	const bool halves = c->halves > 0 && c->halved + 2 * LEAVE < c->whole / 8 * 7;
	return halves ? -(int)((c->halved + LEAVE) / c->part + 1) : (int)(c->whole / c->part) + 1;
}

KdaPlan kda_plan(const tilekern_kda_params *p, int sm_count)
{
	const Load c = load(p, sm_count, false);
	const States st = STATES_OF(p); /* in place: a CTA that ends an item may be done before another has begun it from the state that is there */
	const bool cut = p->split == TILEKERN_SPLIT_AUTO && c.items > 0 && !whole_only(p) && !states_in_place(&st) && (!p->saved || c.most <= KDA_SAVED_SHARES);
	const KdaPlan made = { .ctas = c.most, .way = KDA_MADE, .warm = SHORT, .keys = state_keys(p) };
	KdaPlan l = !cut ? whole_items(&c) : pays_to_make(&c) ? made : windows(&c);
	l.part = (int)c.part, l.each = (int)c.each;
	if (l.way == KDA_WINDOWS && c.each > 0)
		l.run = run_for_whole(&c);
	if (p->split == TILEKERN_SPLIT_AUTO)
		lay_out(&l, sm_count, state_keys(p));
	return l;
}

bool kda_deals(const tilekern_kda_params *p, const KdaPlan *l)
{
	const int64_t items = p->sequences * p->value_heads * ceil_div(p->value_dim, FULL);
	return (l->way == KDA_WHOLE || l->by_length) && !l->halves && !p->saved && !odd_gates(p) && kda_keys(p) == FULL && p->cu_seqlens && p->tokens / KDA_LONG_MEAN >= p->sequences && items > l->ctas;
}

/* Of several packed sequences the device knows how long they are, which costs a few us: where the mean makes that look worth while, or where they are so long that this is little beside
 * what a long one would cost.  Above that many tokens they are neither decodes nor short prompts, of which there are many at once.  With states in place the device has no whole items to
 * choose: a CTA may have to scan its share and the rest of an item, which, if all are of the mean length, is to be a third more than whole ones at most. */
static KdaWay packed_way(const Load *c, const tilekern_kda_params *p, bool in_place)
{
	const int64_t shares = c->part + SHORT + TRY, mean = ceil_div(p->tokens, CHUNK * p->sequences);
	const bool may_be_long = p->tokens >= KDA_LONG_MEAN * p->sequences && shares < ceil_div(p->tokens, CHUNK) / 8 * 7 && (!in_place || 3 * (c->part + mean) <= 4 * c->sure);
	return shares < c->whole / 8 * 7 || may_be_long ? KDA_EITHER : KDA_WHOLE;
}

/* The way of the forward alone, beside that of kda_plan.  Where shares cannot begin, ALONE is whole items that are dealt otherwise, and 4 to 7 us for nothing: it has to promise an eighth;
 * beside items of 64 columns, which take the same for all gates, a quarter.  Where some can and some cannot a CTA has two, which are to be no more than an item (`risky`): WINDOWS counts them,
 * and tries windows, which the gates of an engine's heads need. */
static KdaWay forward_way(const Load *c, const tilekern_kda_params *p, const KdaPlan *l, bool exactly)
{
	const int64_t other = exactly ? c->whole : c->sure;
	const States st = STATES_OF(p);
	if (c->halves > 0 && (exactly ? 3 * c->part + JOIN : c->part + SHORT + TRY) >= c->halved / 4 * 3)
		return KDA_WHOLE;
	if (joined(c) < (exactly ? other : other / 8 * 7))
		return exactly ? KDA_EXACTLY : KDA_NEEDED;
	if (p->cu_seqlens && p->sequences > 1 && !exactly)
		return packed_way(c, p, states_in_place(&st));
	const bool risky = 2 * c->part > c->whole;
	if (exactly || (l->way == KDA_WINDOWS && (l->warm > SHORT || c->sure >= AT_ONCE || risky)))
		return l->way;
	return c->part + SHORT + TRY >= c->whole / 8 * 7 || risky ? KDA_WHOLE : KDA_ALONE;
}

/* ---- SPLIT_INVARIANT: what depends on heads and dims is decided here, what on lengths in units.tile. ---- */

enum { COARSE = 16 /* units.tile's */, MOST_PIECES = 8, BATCHED = 48 /* units.tile's */,
	LOOKED_AT = 32 /* units of a CTA that may have to scan their windows, for which units.tile has room */ };

/* Time of a sequence that is alone on the device, of 1 where nothing has to take turns; each piece costs a 50th for its window. */
static double turns(int64_t lanes, int most, int pieces) { return (double)ceil_div(lanes * pieces, most) / pieces * (1 + pieces / 50.0); }

/* Into how many units it is cut.  Few lanes: as many as there are CTAs.  More: so that they come to whole turns (96 lanes on 132 CTAs: 4, which take 3), if that saves an eighth. */
static int own_pieces(int64_t lanes, int most)
{
	int best = 1;
	if (2 * lanes <= most)
		return (int)(most / lanes);
	for (int n = 2; n <= MOST_PIECES; n++)
		best = turns(lanes, most, n) < (best == 1 ? turns(lanes, most, 1) / 8 * 7 : turns(lanes, most, best)) ? n : best;
	return best;
}

/* Chunks of the shortest unit that any sequence may have. */
static int64_t shortest_unit(const KdaPlan *l)
{
	const int64_t each = ceil_div(BATCHED, l->pieces) < COARSE ? ceil_div(BATCHED, l->pieces) : COARSE;
	return each > l->least ? each : l->least;
}

/* Of a sequence: `unit` of units.tile. */
static int64_t unit_chunks(const KdaPlan *l, int64_t chunks)
{
	const int64_t each = ceil_div(chunks, l->pieces), least = chunks < BATCHED ? COARSE : l->least;
	return chunks < l->cut_from ? chunks : each > least ? each : least;
}

static KdaPlan units(const tilekern_kda_params *p, const Load *c)
{
	const int64_t n = sequences_count(SEQUENCES_OF(p)), lanes = n > 0 ? c->items / n : 0, longest = ceil_div(p->tokens, CHUNK);
	const int64_t all = (p->cu_seqlens ? p->tokens / CHUNK + 2 * n : n * longest) * lanes;
	const bool few = 2 * lanes <= c->most, narrow = kda_keys(p) == NARROW;
	KdaPlan whole = whole_items(c), l = { .ctas = c->most, .way = KDA_UNITS, .keys = narrow ? NARROW : FULL };
	whole.begins_count = l.begins_count = all / SHORTEST + 1;
	l.pieces = lanes > 0 ? own_pieces(lanes, c->most) : 1;
	if (l.pieces == 1 || whole_only(p) || p->saved)
		return whole;
	l.least = !few ? COARSE : narrow ? 2 * COARSE : SHORTEST;
	l.cut_from = !few ? l.pieces * COARSE : l.pieces == 2 && !narrow ? 2 * BATCHED /* below, whole items of 64 columns are as fast */ : COARSE * lanes <= l.ctas ? 2 * COARSE : BATCHED; /* short ones of more lanes come in numbers that fill the device */
	if (longest < l.cut_from)
		return p->cu_seqlens ? l : whole; /* the forms give the same bits */
	const int64_t each = unit_chunks(&l, longest), looks = ceil_div(all, LOOKED_AT * shortest_unit(&l));
	l.single = !p->cu_seqlens && each < LOOP && c->items * ceil_div(longest, each) <= l.ctas;
	l.looks = l.single ? 0 : looks > l.ctas ? (int)looks : l.ctas;
	return l;
}

KdaPlan kda_plan_forward(const tilekern_kda_params *p, int sm_count)
{
	const Load c = load(p, sm_count, !p->saved);
	const bool exactly = p->split == TILEKERN_SPLIT_EXACT;
	KdaPlan l = kda_plan(p, sm_count);
	if (p->split == TILEKERN_SPLIT_INVARIANT) {
		l = units(p, &c);
		lay_out(&l, sm_count, state_keys(p));
		return l;
	}
	if (p->saved || (p->split != TILEKERN_SPLIT_AUTO && !exactly))
		return l;
	const KdaWay way = c.items > 0 && !whole_only(p) ? forward_way(&c, p, &l, exactly) : l.way;
	const States st = STATES_OF(p);
	if (way == KDA_EITHER && !states_in_place(&st))
		l = (KdaPlan){ .ctas = c.most, .way = KDA_WINDOWS, .by_length = true };
	else if (way > KDA_WINDOWS)
		l = (KdaPlan){ .ctas = c.most, .way = way, .warm = SHORT, .keys = state_keys(p) };
	else if (way == KDA_WHOLE)
		l = whole_items(&c);
	l.part = (int)c.part, l.each = (int)c.each;
	lay_out(&l, sm_count, state_keys(p));
	return l;
}
