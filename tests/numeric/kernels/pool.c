#include "tests/numeric/kernels/pool.h"

#include <stdlib.h>
#include <string.h>

#include "tests/check/random.h"

enum { NONE = -1, UNIT = 64 };

PoolSpec pool_random(Random *r)
{
	PoolSpec p = { .slots = toss(r), .in_place = toss(r), .has = toss(r), .i64 = toss(r), .checkpoints = (PoolCheckpoints)pick(r, 4),
		.checkpoint_slots = toss(r), .checkpoint_16 = toss(r) };
	p.outputs = p.slots && toss(r);
	p.nulls = p.slots && toss(r);
	return p;
}

int64_t pool_state(const Pool *p) { return p->heads * p->key_dim * p->value_dim; }

/* Strided calls have states 16 bytes into their buffers: no kernel may count on more. */
static int64_t shift(const Pool *p, tilert_dtype type) { return p->strided ? 16 / (int64_t)tilert_dtype_size(type) : 0; }

static int64_t inner(const Pool *p, int64_t i) { return states_place(p->v_first, p->key_dim, p->value_dim, i); }

/* ---- which slots ---- */

/* Different slots from `low` on, in some order. */
static void permute(Random *random, int64_t *slot, int64_t n, int64_t low, int64_t slots)
{
	int64_t *all = memory((size_t)slots * sizeof *all);
	for (int64_t i = 0; i < slots; i++)
		all[i] = i;
	for (int64_t i = low; i < low + n; i++) {
		int64_t other = i + (int64_t)(random_bits(random) >> 33) % (slots - i), x = all[i];
		all[i] = all[other];
		all[other] = x;
		slot[i - low] = all[i];
	}
	free(all);
}

/* 0 as vLLM has it, or another. */
static int64_t null_slot(const Pool *p) { return !p->spec.nulls ? NONE : p->spec.i64 ? 2 : 0; }

/* Indices as a caller has them: of slots, or of none.  Of 64 bits the low 32 count. */
static Buffer upload_indices(const Pool *p, const int64_t *slot, int64_t n, int64_t slots)
{
	const int64_t none[] = { 0, -1, -7, slots, INT32_MAX };
	int64_t *wide = memory((size_t)(n + 1) * 8);
	for (int64_t i = 0; i < n; i++)
		wide[i] = (slot[i] == NONE ? none[i % 5] : slot[i]) + (i % 2 ? INT64_C(3) << 32 : 0);
	Buffer b = integers_of(wide, n, p->spec.i64);
	free(wide);
	return b;
}

/* Of sequences of which some have none. */
static void choose(Pool *p, Random *random, int64_t *slot, int64_t first)
{
	const PoolSpec *pool = &p->spec;
	if (pool->slots)
		permute(random, slot, p->sequences, first, p->slots);
	for (int64_t n = 0; n < p->sequences; n++) {
		if (!pool->slots)
			slot[n] = n;
		else if (pool->nulls && n % 4 == 2)
			slot[n] = NONE;
	}
}

static void choose_slots(Pool *p, Random *random)
{
	const PoolSpec *pool = &p->spec;
	int64_t n = p->sequences, state = pool_state(p);
	p->from = memory((size_t)(n + 1) * sizeof *p->from);
	p->to = memory((size_t)(n + 1) * sizeof *p->to);
	p->slots = pool->slots ? 2 * n + 3 : n;
	p->stride = state + (pool->slots ? 24 : 0);
	choose(p, random, p->from, null_slot(p) + 1);
	if (!pool->outputs) {
		memcpy(p->to, p->from, (size_t)n * sizeof *p->to);
		return;
	}
	/* Slots that no sequence reads: those of the others. */
	bool *taken = memory((size_t)p->slots);
	memset(taken, 0, (size_t)p->slots);
	for (int64_t i = 0; i < n; i++)
		if (p->from[i] != NONE)
			taken[p->from[i]] = true;
	for (int64_t i = 0, slot = p->slots - 1; i < n; i++, slot--) {
		while (taken[slot])
			slot--;
		p->to[i] = pool->nulls && i % 4 == 1 ? NONE : slot;
	}
	free(taken);
}

/* Sequences without a state, and those that are told to start without one, start from zeros. */
static void choose_starts(Pool *p)
{
	unsigned char *before = memory((size_t)p->sequences + 1), *has = before + 1; /* a slice, at any address */
	for (int64_t n = 0; n < p->sequences; n++) {
		has[n] = !p->spec.has || n % 3 != 1 ? (unsigned char)(1 + n % 255) : 0;
		if (p->start && (p->from[n] == NONE || !has[n]))
			memset(p->start + n * pool_state(p), 0, (size_t)pool_state(p) * sizeof(float));
		if (!has[n] && p->from[n] != NONE)
			p->from[n] = -2 - p->from[n]; /* the slot has NaN */
	}
	if (p->spec.has)
		p->has = buffer_of(before, (size_t)p->sequences + 1);
	free(before);
}

/* ---- memory ---- */

/* NaN but for the states that sequences start from. */
static Buffer upload_states(const Pool *p)
{
	const tilert_dtype type = p->type;
	size_t size = tilert_dtype_size(type), bytes = (size_t)(shift(p, type) + p->slots * p->stride) * size;
	int64_t state = pool_state(p);
	unsigned char *laid = memory(bytes);
	memset(laid, 0xff, bytes);
	for (int64_t n = 0; n < p->sequences && p->start; n++) {
		for (int64_t i = 0; i < state && p->from[n] >= 0; i++)
			element_store(type, laid, shift(p, type) + p->from[n] * p->stride + inner(p, i), (double)p->start[n * state + i]);
	}
	Buffer b = buffer_of(laid, bytes);
	free(laid);
	return b;
}

static void round_initial(Pool *p)
{
	const tilert_dtype type = p->type;
	for (int64_t i = 0; i < p->sequences * pool_state(p) && p->start; i++) {
		uint32_t bits = 0;
		element_store(type, &bits, 0, (double)p->start[i]);
		p->start[i] = (float)element_load(type, &bits, 0);
	}
}

static void make_checkpoints(Pool *p);

static void fill_fields(Pool *p)
{
	const PoolFields *f = &p->field;
	const tilert_ptr at = (tilert_ptr)((size_t)shift(p, p->type) * tilert_dtype_size(p->type));
	*f->state_dtype = p->type;
	*f->state_v_first = p->v_first;
	*f->initial_state = p->initial ? p->h0.p + at : 0;
	*f->final_state = p->final ? p->ht.p + at : 0;
	*f->has_initial_state = p->has.p ? p->has.p + 1 : 0;
	*f->indices_dtype = p->spec.i64 ? TILERT_I64 : TILERT_I32;
	*f->state_indices = p->index.p;
	*f->output_indices = p->outdex.p;
	if (!p->spec.slots)
		return;
	*f->state_slots = p->slots;
	*f->state_stride = p->stride;
	*f->null_slot = null_slot(p);
}

/* What the kernels find of slots; afterwards `to` is as `from` where final states have no slots of their own. */
static void make_indices(Pool *p)
{
	int64_t *given = memory((size_t)(p->sequences + 1) * sizeof *given);
	for (int64_t n = 0; n < p->sequences; n++)
		given[n] = p->from[n] < NONE ? -2 - p->from[n] : p->from[n];
	if (p->spec.slots)
		p->index = upload_indices(p, given, p->sequences, p->slots);
	if (p->spec.outputs)
		p->outdex = upload_indices(p, p->to, p->sequences, p->slots);
	else
		memcpy(p->to, given, (size_t)p->sequences * sizeof *given);
	free(given);
}

void pool_make(Pool *p, uint64_t seed)
{
	Random random;
	random_init(&random, seed);
	choose_slots(p, &random);
	choose_starts(p);
	round_initial(p);
	if (p->initial)
		p->h0 = upload_states(p);
	if (p->final)
		p->ht = p->spec.in_place && p->initial ? p->h0 : buffer_poisoned((size_t)(shift(p, p->type) + p->slots * p->stride) * tilert_dtype_size(p->type));
	make_indices(p);
	fill_fields(p);
	make_checkpoints(p);
}

void pool_free(Pool *p)
{
	const Buffer all[] = { p->h0, p->ht.p == p->h0.p ? (Buffer){ 0 } : p->ht, p->index, p->outdex, p->has, p->stops, p->starts, p->rows, p->checkpoints };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		buffer_free(all[i]);
	free(p->from);
	free(p->to);
	free(p->reached);
}

void pool_poison(Pool *p)
{
	if (p->ht.p && p->ht.p != p->h0.p)
		buffer_poison(p->ht);
	if (p->checkpoints.p)
		buffer_poison(p->checkpoints);
	if (p->ht.p && p->ht.p == p->h0.p) { /* as it was */
		buffer_free(p->h0);
		p->h0 = p->ht = upload_states(p);
		fill_fields(p);
	}
}

/* The state in slot `slot` as floats; its bytes become 0xff. */
static void take_state(const Pool *p, unsigned char *laid, tilert_dtype type, int64_t stride, int64_t state, int64_t slot, float *out)
{
	size_t size = tilert_dtype_size(type);
	for (int64_t i = 0; i < state; i++) {
		int64_t at = shift(p, type) + slot * stride + inner(p, i);
		out[i] = (float)element_load(type, laid, at);
		memset(laid + (size_t)at * size, 0xff, size);
	}
}

static void expect_rest(const char *what, const unsigned char *laid, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (laid[i] != 0xff)
			fail_msg("byte %zu of the pool of %s, which is no output, was written", i, what);
	}
}

float *pool_final(Pool *p)
{
	if (!p->final)
		return NULL;
	int64_t state = pool_state(p);
	unsigned char *laid = buffer_take(p->ht);
	float *out = memory((size_t)(p->sequences * state + 1) * sizeof *out), *other = memory((size_t)state * sizeof *other + 1);
	memset(out, 0, (size_t)(p->sequences * state) * sizeof *out);
	for (int64_t n = 0; n < p->sequences; n++) {
		if (p->to[n] >= 0)
			take_state(p, laid, p->type, p->stride, state, p->to[n], out + n * state);
	}
	for (int64_t n = 0; n < p->sequences && p->ht.p == p->h0.p && p->spec.outputs; n++) { /* what is only read stays */
		if (p->from[n] < 0)
			continue;
		take_state(p, laid, p->type, p->stride, state, p->from[n], other);
		if (memcmp(other, p->start + n * state, (size_t)state * sizeof *other) != 0)
			fail_msg("the initial state of sequence %lld was overwritten", (long long)n);
	}
	expect_rest("final states", laid, p->ht.bytes);
	free(other);
	free(laid);
	return out;
}

/* ---- checkpoints ---- */

static int64_t every(const Pool *p)
{
	return p->spec.checkpoints == POOL_EVERY_64 ? UNIT : p->spec.checkpoints == POOL_EVERY_192 ? 3 * UNIT : 0;
}

/* The offset that sequence n is given: multiples of 64 within it, but also none, the end, beyond it, and what is no multiple. */
static int64_t stop_of(const Pool *p, int64_t n)
{
	int64_t length = p->offsets[n + 1] - p->offsets[n], whole = length / UNIT * UNIT;
	const int64_t stops[] = { whole, whole / (2 * UNIT) * UNIT, UNIT, length + 1, 0, whole + UNIT };
	return stops[n % 6];
}

bool pool_checkpoint(const Pool *p, int64_t n, int64_t i, int64_t *tokens, int64_t *row)
{
	int64_t length = p->offsets[n + 1] - p->offsets[n];
	*tokens = every(p) != 0 ? (i + 1) * every(p) : stop_of(p, n);
	*row = p->reached[n] + i;
	return (every(p) != 0 || i == 0) && *tokens > 0 && *tokens <= length && *tokens % UNIT == 0;
}

int64_t pool_checkpoint_rows(const Pool *p) { return p->spec.checkpoints == POOL_NO_CHECKPOINTS ? 0 : p->reached[p->sequences]; }

/* Slots of rows are counted from the last to the first. */
static int64_t checkpoint_slots(const Pool *p) { return pool_checkpoint_rows(p) + (p->spec.checkpoint_slots ? 3 : 1); }
static int64_t checkpoint_slot(const Pool *p, int64_t row) { return p->spec.checkpoint_slots ? checkpoint_slots(p) - 1 - row : row; }
static tilert_dtype checkpoint_type(const Pool *p) { return p->spec.checkpoint_16 ? p->type : TILERT_F32; }
static int64_t checkpoint_stride(const Pool *p) { return pool_state(p) + (p->spec.checkpoint_slots ? 40 : 0); }

static void fill_checkpoint_fields(Pool *p, int64_t slots, tilert_dtype type)
{
	const PoolFields *f = &p->field;
	*f->checkpoint_dtype = type;
	*f->checkpoint_state = p->checkpoints.p + (tilert_ptr)((size_t)shift(p, type) * tilert_dtype_size(type));
	*f->checkpoint_slots = slots;
	*f->checkpoint_stride = checkpoint_stride(p);
	*f->checkpoint_every = every(p);
	*f->checkpoint_starts = p->starts.p;
	*f->checkpoint_offsets = p->stops.p;
	*f->checkpoint_indices = p->rows.p;
}

static Buffer upload_rows(const Pool *p, int64_t rows, int64_t slots)
{
	int64_t count = every(p) != 0 ? slots : rows, *slot = memory((size_t)(count + 1) * sizeof *slot);
	for (int64_t i = 0; i < count; i++)
		slot[i] = i < rows ? checkpoint_slot(p, i) : NONE;
	Buffer b = upload_indices(p, slot, count, slots);
	free(slot);
	return b;
}

static void make_checkpoints(Pool *p)
{
	const tilert_dtype type = checkpoint_type(p);
	int64_t n = p->sequences, *x = memory((size_t)(n + 1) * sizeof *x);
	p->reached = memory((size_t)(n + 1) * sizeof *p->reached);
	p->reached[0] = 0;
	for (int64_t i = 0; i < n; i++) {
		p->reached[i + 1] = p->reached[i] + (every(p) != 0 ? (p->offsets[i + 1] - p->offsets[i]) / every(p) : 1);
		x[i] = stop_of(p, i);
	}
	if (p->spec.checkpoints != POOL_NO_CHECKPOINTS) {
		const int64_t slots = checkpoint_slots(p);
		p->checkpoints = buffer_poisoned((size_t)(shift(p, type) + slots * checkpoint_stride(p)) * tilert_dtype_size(type));
		if (every(p) != 0)
			p->starts = integers_of(p->reached, n + 1, p->offsets_i64);
		else
			p->stops = integers_of(x, n, p->offsets_i64);
		if (p->spec.checkpoint_slots)
			p->rows = upload_rows(p, pool_checkpoint_rows(p), slots);
		fill_checkpoint_fields(p, slots, type);
	}
	free(x);
}

float *pool_checkpoints(Pool *p)
{
	int64_t state = pool_state(p), rows = pool_checkpoint_rows(p), tokens, row;
	unsigned char *laid = buffer_take(p->checkpoints);
	float *out = memory((size_t)(rows * state + 1) * sizeof *out);
	memset(out, 0, (size_t)(rows * state) * sizeof *out);
	for (int64_t n = 0; n < p->sequences; n++) {
		for (int64_t i = 0; pool_checkpoint(p, n, i, &tokens, &row); i++)
			take_state(p, laid, checkpoint_type(p), checkpoint_stride(p), state, checkpoint_slot(p, row), out + row * state);
	}
	expect_rest("checkpoints", laid, p->checkpoints.bytes);
	free(laid);
	return out;
}
