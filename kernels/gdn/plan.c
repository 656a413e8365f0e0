#include "plan.h"

#include <math.h>

#include "../launch/states.h"

enum { SHORT = 1536 /* tokens of a sequence, on average, up to which forward.tile is ahead, */, LONG = 8192 /* and where q and k are normalised and all CTAs have work */ };
enum { FORWARD_C = 32 /* its chunks */ };
enum { MAX_GROUP = 4 /* chunk.tile's GP */, CHUNK_PER_SM = 5 /* chunk.tile's OCC */ };

/* In chunks; measured on an H200. */
enum {
	WARM = 64,         /* units.tile's */
	SHORTEST_PART = 4, /* of a unit; shorter ones would mostly warm up (6 chunks at gates of -.05 a token) */
	LEAST = 24,        /* of a unit of forward.tile, in its chunks */
	OWN_PART = 24,     /* of a unit of a sequence that is cut as if it were alone, */
	OWN_LANES = 16,    /* and lanes^2 / 16, as its warming up, about 6 chunks, is work that others wait for where more lanes fill the device */
	MOST_LANES = 20,   /* lanes / own_part(lanes) is never more than 20 / 24 */
	ORDERED = 128,     /* units.tile's */
	TURNS = 20,        /* of CTAs of a multiprocessor, for which order pays: DESIGN.md, Order */
	PERSISTENT = 32    /* sequences for which scan is persistent: 16 chunks (16/64, 8 x 1024) 158 us against 167; an earlier version was 1% slower with 128 */
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t sequences(const tilekern_gdn_params *p) { return sequences_count(SEQUENCES_OF(p)); }
static int64_t slots(const tilekern_gdn_params *p) { return sequences_slots(SEQUENCES_OF(p)); }

int64_t gdn_key_tile(const tilekern_gdn_params *p) { return p->key_dim <= 64 ? 64 : p->key_dim <= 128 ? 128 : 256; }
int64_t gdn_value_tile(const tilekern_gdn_params *p) { return ceil_div(p->value_dim, 128) * 128; }
bool gdn_saves(const tilekern_gdn_params *p) { return p->states || p->u; }
bool gdn_norms(const tilekern_gdn_params *p) { return (p->options & TILEKERN_L2NORM) != 0 && p->key_dim <= 128 && p->value_heads > p->qk_heads; }

static size_t aligned(size_t bytes) { return (bytes + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* What SPLIT_INVARIANT makes of heads and dims: a sequence of 48 chunks of up to 19 lanes is cut, one of 128 of 32 lanes, none of half the device. */
static int64_t own_part(int64_t lanes_of_one)
{
	int64_t part = lanes_of_one * lanes_of_one / OWN_LANES;
	return part > OWN_PART ? part : OWN_PART;
}

/* Starts of units there may be in a call with these extents or smaller ones, x heads x 128s of V: workspaces grow with every extent, although units come
 * and go with it.  Without `most` sequences x heads are at most half the multiprocessors, which with their parts fill the device once, or one part more. */
static int64_t starts_bound(const tilekern_gdn_params *p, int sm_count)
{
	int64_t lanes = p->value_heads * ceil_div(p->value_dim, 128), longest = p->cu_seqlens ? p->tokens / SLOT_TOKENS + 1 : ceil_div(p->tokens, SLOT_TOKENS);
	if (p->split == TILEKERN_SPLIT_OFF || p->key_dim > 128)
		return 0;
	if (p->split == TILEKERN_SPLIT_INVARIANT)
		return longest < 2 * OWN_PART ? 0 : (slots(p) / OWN_PART + 1) * least(lanes, MOST_LANES) + least(lanes, sm_count / 2);
	return slots(p) < 2 * SHORTEST_PART ? 0 : least((slots(p) / SHORTEST_PART + sequences(p)) * lanes, sm_count + sm_count / 2);
}

/* CTAs of forward.tile, where it may take a call: that of more heads than half the multiprocessors, too. */
static int64_t hands_bound(const tilekern_gdn_params *p, int sm_count)
{
	return p->key_dim == 128 && p->value_dim == 128 && sequences(p) > 1 ? least(2 * sequences(p) * p->value_heads, sm_count) : 0;
}

static void lay_out(GdnPlan *l, const tilekern_gdn_params *p, int sm_count)
{
	int64_t heads = p->value_heads, k = gdn_key_tile(p), records = slots(p) * heads, starts = starts_bound(p, sm_count);
	int64_t held = p->split == TILEKERN_SPLIT_INVARIANT || starts == 0 ? 0 : least(sequences(p) * heads, sm_count / 2);
	l->fade = (size_t)records * TILEKERN_GDN_RECORD_BYTES;
	l->norm_q = aligned(l->fade + (size_t)records * sizeof(float));
	l->pending = aligned(l->norm_q + (size_t)(slots(p) * p->qk_heads * SLOT_TOKENS) * sizeof(float));
	l->starts = l->pending + WORKSPACE_ALIGN;
	l->change = l->starts + (size_t)(starts * 128 * k) * sizeof(float);
	l->hold = l->change + (size_t)(starts * 2 * k * k) * 2;
	l->hand = aligned(l->hold + (size_t)(held * p->key_dim * p->value_dim) * sizeof(float));
	l->bytes = l->hand + (size_t)(hands_bound(p, sm_count) * 128 * 128) * sizeof(float);
}

/* Where sequences and heads leave half of the device idle, as many units as fill it. */
static void cut(GdnPlan *l, const tilekern_gdn_params *p, int sm_count, int64_t lanes, int64_t chunks)
{
	const int64_t n = sequences(p), longest = p->cu_seqlens ? slots(p) - n : chunks;
	if (lanes > sm_count / 2 || chunks < 2 * SHORTEST_PART)
		return;
	int64_t part = ceil_div(chunks, sm_count / lanes);
	l->part = part < SHORTEST_PART ? SHORTEST_PART : part;
	l->units = p->cu_seqlens ? slots(p) / l->part + n : n * ceil_div(chunks, l->part);
	l->starts_count = l->units;
	l->joined = (longest - 1) / l->part * l->part > WARM;
	l->warm = p->split == TILEKERN_SPLIT_EXACT && l->joined ? 0 : WARM;
}

/* The same for each sequence as if it were alone.  Rows are of one length: of their units hardly any are not used. */
static void cut_each(GdnPlan *l, const tilekern_gdn_params *p, int sm_count, int64_t lanes_of_one)
{
	const int64_t n = sequences(p), chunks = ceil_div(p->tokens, SLOT_TOKENS), longest = p->cu_seqlens ? p->tokens / SLOT_TOKENS + 1 : chunks;
	const int64_t own = own_part(lanes_of_one);
	if (lanes_of_one > sm_count / 2 || longest < 2 * own)
		return;
	const int64_t most = sm_count / lanes_of_one;
	l->most = (int)(p->cu_seqlens ? most : least(most, chunks / own));
	l->part = p->cu_seqlens ? own : chunks / l->most;
	l->units = p->cu_seqlens ? slots(p) / l->part + n : n * ceil_div(chunks, l->part);
	l->starts_count = slots(p) / l->part + 1;
	l->joined = true;
	l->warm = WARM;
}

/* Value heads share the products of k, but items must fill the device. */
static int64_t group_of(const tilekern_gdn_params *p, int sm_count)
{
	int64_t per_key = p->value_heads / p->qk_heads, items = slots(p) * p->value_heads;
	for (int64_t g = MAX_GROUP; g > 1; g--) {
		if (per_key % g == 0 && items / g >= (int64_t)sm_count * CHUNK_PER_SM)
			return g;
	}
	return 1;
}

/* Whether forward.tile takes a call: DESIGN.md, "One kernel for short sequences". */
static bool single(const tilekern_gdn_params *p, int sm_count)
{
	const int64_t n = sequences(p), lanes = n * p->value_heads;
	const bool any_bits = p->split == TILEKERN_SPLIT_AUTO || p->split == TILEKERN_SPLIT_EXACT, more = gdn_saves(p) || p->records || p->checkpoint_state;
	const bool copied = p->state_stride % 16 * (int64_t)tilert_dtype_size(p->state_dtype) % 16 == 0; /* TMA's steps */
	const bool long_too = p->split == TILEKERN_SPLIT_AUTO && (p->options & TILEKERN_L2NORM) != 0 && 10 * lanes >= 9 * (int64_t)sm_count;
	return p->key_dim == 128 && p->value_dim == 128 && (p->state_dtype == TILERT_F32 || p->state_dtype == p->dtype) && copied && any_bits && !more && n > 1 &&
		lanes > sm_count / 2 && p->batch * p->tokens <= n * (long_too ? LONG : SHORT);
}

static void plan_single(GdnPlan *l, const tilekern_gdn_params *p, int sm_count)
{
	l->single = true;
	l->least = p->split == TILEKERN_SPLIT_AUTO && (p->options & TILEKERN_L2NORM) != 0 ? LEAST : 0;
	l->share = (float)p->value_heads / (float)sm_count;
	l->units = sequences(p) + (l->least > 0 ? p->batch * (p->tokens / (FORWARD_C * l->least)) : 0);
	l->work = aligned((size_t)l->units * 4 * sizeof(int32_t));
	l->held = l->work + WORKSPACE_ALIGN;
	l->shares = aligned(l->held + (size_t)(l->units * p->value_heads) * sizeof(int32_t)); /* all of it less than the records would take */
	l->shares_count = least(l->units * p->value_heads, sm_count);
}

/* A chunk takes a CTA 1.1 us with 64 columns of V and 2.0 us with 128 (H200): the first is for calls that leave multiprocessors idle. */
GdnPlan gdn_plan(const tilekern_gdn_params *p, int sm_count)
{
	int64_t n = sequences(p), lanes = n * p->value_heads * ceil_div(p->value_dim, 128), chunks = n ? ceil_div(slots(p), n) : 0;
	GdnPlan l = { .units = n, .negligible = p->split == TILEKERN_SPLIT_EXACT ? -INFINITY : -24 };
	if (p->split == TILEKERN_SPLIT_INVARIANT && p->key_dim <= 128 && lanes > 0)
		cut_each(&l, p, sm_count, lanes / n);
	else if (p->split != TILEKERN_SPLIT_OFF && p->key_dim <= 128 && lanes > 0)
		cut(&l, p, sm_count, lanes, chunks);
	int64_t ctas = l.units * p->value_heads * ceil_div(p->value_dim, 64);
	l.narrow = ctas <= sm_count || gdn_saves(p) || p->checkpoint_state || p->value_dim <= 64;
	bool direct = p->key_dim == gdn_key_tile(p) && p->value_dim % (l.narrow ? 64 : 128) == 0 && (!p->final_state || p->state_dtype == TILERT_F32);
	l.ctas = l.part == 0 && chunks <= PERSISTENT && direct && !gdn_saves(p) ? sm_count : INT32_MAX;
	/* More than begin at once, but so few that what begins last counts. */
	l.ordered = l.part == 0 && p->cu_seqlens && p->key_dim <= 128 && n <= ORDERED && lanes > sm_count && lanes <= TURNS * sm_count && l.ctas > sm_count;
	/* Sequences that all have as many slots. */
	int64_t at_once = lanes > 0 ? sm_count / (lanes / n) : 0;
	l.active = n > 0 && slots(p) % n == 0 && at_once > 1 ? (at_once < n ? at_once : n) : 1;
	l.group = l.units > 0 && p->value_heads > 0 ? group_of(p, sm_count) : 1;
	lay_out(&l, p, sm_count);
	if (single(p, sm_count))
		plan_single(&l, p, sm_count);
	return l;
}
