/* gdn_pool.c - the states of a call: pools, indices, checkpoints; laid out, uploaded, and read back with everything between them. */
#include "tests/numeric/kernels/gdn_pool.h"

#include <stdlib.h>
#include <string.h>


enum { NONE = -1, UNIT = 64 };

int64_t gdn_run_state(const GdnRun *r) { return r->row.in.value_heads * r->row.in.key_dim * r->row.in.value_dim; }

static tilert_dtype state_type(const GdnRow *row) { return row->state_bf16 ? TILERT_BF16 : row->state_f16 ? TILERT_F16 : TILERT_F32; }

/* Strided calls have states 16 bytes into their buffers: no kernel may count on more. */
static int64_t shift(const GdnRow *row, tilert_dtype type) { return row->strided ? 16 / (int64_t)tilert_dtype_size(type) : 0; }

int64_t gdn_pool_inner(const GdnRow *row, int64_t i)
{
	return states_place(row->state_v_first, row->in.key_dim, row->in.value_dim, i);
}

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

/* Indices as a caller has them: of slots, or of none. */
static Buffer upload_indices(const GdnRun *r, const int64_t *slot, int64_t n, int64_t slots)
{
	const int64_t none[] = { 0, -1, -7, slots, INT32_MAX };
	int64_t *wide = memory((size_t)(n + 1) * 8);
	int32_t *small = memory((size_t)(n + 1) * 4);
	for (int64_t i = 0; i < n; i++) {
		wide[i] = slot[i] == NONE ? none[i % 5] : slot[i];
		small[i] = (int32_t)wide[i];
	}
	Buffer b = r->row.pool.i64 ? buffer_of(wide, (size_t)n * 8) : buffer_of(small, (size_t)n * 4);
	free(wide);
	free(small);
	return b;
}

/* Of sequences of which some have none. */
static void choose(GdnRun *r, Random *random, int64_t *slot, int64_t first)
{
	const GdnPool *pool = &r->row.pool;
	if (pool->slots)
		permute(random, slot, r->sequences, first, r->slots);
	for (int64_t n = 0; n < r->sequences; n++) {
		if (!pool->slots)
			slot[n] = n;
		else if (pool->nulls && n % 4 == 2)
			slot[n] = NONE;
	}
}

static void choose_slots(GdnRun *r, Random *random)
{
	const GdnPool *pool = &r->row.pool;
	int64_t n = r->sequences, state = gdn_run_state(r);
	r->from = memory((size_t)(n + 1) * sizeof *r->from);
	r->to = memory((size_t)(n + 1) * sizeof *r->to);
	r->slots = pool->slots ? 2 * n + 3 : n;
	r->stride = state + (pool->slots ? 24 : 0);
	choose(r, random, r->from, 1);
	if (!pool->outputs) {
		memcpy(r->to, r->from, (size_t)n * sizeof *r->to);
		return;
	}
	/* Slots that no sequence reads: those of the others. */
	bool *taken = memory((size_t)r->slots);
	memset(taken, 0, (size_t)r->slots);
	for (int64_t i = 0; i < n; i++)
		if (r->from[i] != NONE)
			taken[r->from[i]] = true;
	for (int64_t i = 0, slot = r->slots - 1; i < n; i++, slot--) {
		while (taken[slot])
			slot--;
		r->to[i] = pool->nulls && i % 4 == 1 ? NONE : slot;
	}
	free(taken);
}

/* Sequences without a state, and those that are told to start without one, start from zeros. */
static void choose_starts(GdnRun *r)
{
	unsigned char *has = memory((size_t)r->sequences + 1);
	for (int64_t n = 0; n < r->sequences; n++) {
		has[n] = !r->row.pool.has || n % 3 != 1 ? (unsigned char)(1 + n % 255) : 0;
		if (r->in.initial && (r->from[n] == NONE || !has[n]))
			memset(r->in.initial + n * gdn_run_state(r), 0, (size_t)gdn_run_state(r) * sizeof(float));
		if (!has[n] && r->from[n] != NONE)
			r->from[n] = -2 - r->from[n]; /* the slot has NaN */
	}
	if (r->row.pool.has)
		r->has = buffer_of(has, (size_t)r->sequences);
	free(has);
}

/* ---- memory ---- */

/* NaN but for the states that sequences start from. */
static Buffer upload_states(const GdnRun *r)
{
	tilert_dtype type = state_type(&r->row);
	size_t size = tilert_dtype_size(type), bytes = (size_t)(shift(&r->row, type) + r->slots * r->stride) * size;
	int64_t state = gdn_run_state(r);
	unsigned char *laid = memory(bytes);
	memset(laid, 0xff, bytes);
	for (int64_t n = 0; n < r->sequences && r->in.initial; n++) {
		for (int64_t i = 0; i < state && r->from[n] >= 0; i++)
			element_store(type, laid, shift(&r->row, type) + r->from[n] * r->stride + gdn_pool_inner(&r->row, i), (double)r->in.initial[n * state + i]);
	}
	Buffer b = buffer_of(laid, bytes);
	free(laid);
	return b;
}

static void round_initial(GdnRun *r)
{
	tilert_dtype type = state_type(&r->row);
	for (int64_t i = 0; i < r->sequences * gdn_run_state(r) && r->in.initial; i++) {
		uint32_t bits = 0;
		element_store(type, &bits, 0, (double)r->in.initial[i]);
		r->in.initial[i] = (float)element_load(type, &bits, 0);
	}
}

static void make_checkpoints(GdnRun *r, Random *random);

void gdn_pool_make(GdnRun *r)
{
	const GdnPool *pool = &r->row.pool;
	bool initial = r->row.in.with_initial, final = r->row.states == GDN_FINAL || r->row.states == GDN_BOTH;
	tilekern_gdn_params *p = &r->p;
	Random *random = memory(sizeof *random);
	random_init(random, r->row.in.seed + 1);
	choose_slots(r, random);
	choose_starts(r);
	round_initial(r);
	p->state_dtype = state_type(&r->row);
	p->state_v_first = r->row.state_v_first;
	tilert_ptr at = (tilert_ptr)((size_t)shift(&r->row, p->state_dtype) * tilert_dtype_size(p->state_dtype));
	if (initial)
		r->h0 = upload_states(r);
	if (final)
		r->ht = pool->in_place && initial ? r->h0 : buffer_poisoned((size_t)(shift(&r->row, p->state_dtype) + r->slots * r->stride) * tilert_dtype_size(p->state_dtype));
	p->initial_state = initial ? r->h0.p + at : 0;
	p->final_state = final ? r->ht.p + at : 0;
	p->has_initial_state = r->has.p;
	p->indices_dtype = pool->i64 ? TILERT_I64 : TILERT_I32;
	if (pool->slots) {
		int64_t *given = memory((size_t)(r->sequences + 1) * sizeof *given);
		for (int64_t n = 0; n < r->sequences; n++)
			given[n] = r->from[n] < NONE ? -2 - r->from[n] : r->from[n];
		r->index = upload_indices(r, given, r->sequences, r->slots);
		free(given);
		p->state_indices = r->index.p;
		p->state_slots = r->slots;
		p->state_stride = r->stride;
		p->null_slot = pool->nulls ? 0 : -1;
	}
	if (pool->outputs) {
		r->outdex = upload_indices(r, r->to, r->sequences, r->slots);
		p->output_indices = r->outdex.p;
	} else {
		for (int64_t n = 0; n < r->sequences; n++)
			r->to[n] = r->to[n] < NONE ? -2 - r->to[n] : r->to[n];
	}
	make_checkpoints(r, random);
	free(random);
}

void gdn_pool_free(GdnRun *r)
{
	const Buffer all[] = { r->h0, r->ht.p == r->h0.p ? (Buffer){ 0 } : r->ht, r->index, r->outdex, r->has, r->stops, r->starts, r->rows, r->checkpoints };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		buffer_free(all[i]);
	free(r->from);
	free(r->to);
	free(r->reached);
}

void gdn_pool_poison(GdnRun *r)
{
	if (r->ht.p && r->ht.p != r->h0.p)
		buffer_poison(r->ht);
	if (r->checkpoints.p)
		buffer_poison(r->checkpoints);
	if (r->ht.p && r->ht.p == r->h0.p) { /* as it was */
		tilert_ptr at = r->p.initial_state - r->h0.p;
		buffer_free(r->h0);
		r->h0 = r->ht = upload_states(r);
		r->p.initial_state = r->p.final_state = r->h0.p + at;
	}
}

/* The state in slot `slot` as floats; its bytes become 0xff. */
static void take_state(const GdnRow *row, unsigned char *laid, tilert_dtype type, int64_t stride, int64_t state, int64_t slot, float *out)
{
	size_t size = tilert_dtype_size(type);
	for (int64_t i = 0; i < state; i++) {
		int64_t at = shift(row, type) + slot * stride + gdn_pool_inner(row, i);
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

float *gdn_run_final(GdnRun *r)
{
	if (!r->p.final_state)
		return NULL;
	int64_t state = gdn_run_state(r);
	unsigned char *laid = buffer_take(r->ht);
	float *out = memory((size_t)(r->sequences * state + 1) * sizeof *out), *other = memory((size_t)state * sizeof *other + 1);
	memset(out, 0, (size_t)(r->sequences * state) * sizeof *out);
	for (int64_t n = 0; n < r->sequences; n++) {
		if (r->to[n] >= 0)
			take_state(&r->row, laid, r->p.state_dtype, r->stride, state, r->to[n], out + n * state);
	}
	for (int64_t n = 0; n < r->sequences && r->ht.p == r->h0.p && r->row.pool.outputs; n++) { /* what is only read stays */
		if (r->from[n] < 0)
			continue;
		take_state(&r->row, laid, r->p.state_dtype, r->stride, state, r->from[n], other);
		if (memcmp(other, r->in.initial + n * state, (size_t)state * sizeof *other) != 0)
			fail_msg("the initial state of sequence %lld was overwritten", (long long)n);
	}
	expect_rest("final states", laid, r->ht.bytes);
	free(other);
	free(laid);
	return out;
}

/* ---- checkpoints ---- */

static int64_t every(const GdnRun *r)
{
	return r->row.pool.checkpoints == GDN_EVERY_64 ? UNIT : r->row.pool.checkpoints == GDN_EVERY_192 ? 3 * UNIT : 0;
}

/* The offset that sequence n is given: multiples of 64 within it, but also none, the end, beyond it, and what is no multiple. */
static int64_t stop_of(const GdnRun *r, int64_t n)
{
	int64_t length = r->offsets[n + 1] - r->offsets[n], whole = length / UNIT * UNIT;
	const int64_t stops[] = { whole, whole / (2 * UNIT) * UNIT, UNIT, length + 1, 0, whole + UNIT };
	return stops[n % 6];
}

bool gdn_run_checkpoint(const GdnRun *r, int64_t n, int64_t i, int64_t *tokens, int64_t *row)
{
	int64_t length = r->offsets[n + 1] - r->offsets[n];
	*tokens = every(r) != 0 ? (i + 1) * every(r) : stop_of(r, n);
	*row = r->reached[n] + i;
	return (every(r) != 0 || i == 0) && *tokens > 0 && *tokens <= length && *tokens % UNIT == 0;
}

int64_t gdn_run_checkpoint_rows(const GdnRun *r) { return r->row.pool.checkpoints == GDN_NO_CHECKPOINTS ? 0 : r->reached[r->sequences]; }

static Buffer upload_offsets(const GdnRun *r, const int64_t *x, int64_t n)
{
	int32_t *small = memory((size_t)(n + 1) * 4);
	for (int64_t i = 0; i < n; i++)
		small[i] = (int32_t)x[i];
	Buffer b = r->row.lengths_i64 ? buffer_of(x, (size_t)n * 8) : buffer_of(small, (size_t)n * 4);
	free(small);
	return b;
}

/* Slots of rows are counted from the last to the first. */
static int64_t checkpoint_slots(const GdnRun *r) { return gdn_run_checkpoint_rows(r) + (r->row.pool.checkpoint_slots ? 2 : 1); }
static int64_t checkpoint_slot(const GdnRun *r, int64_t row) { return r->row.pool.checkpoint_slots ? checkpoint_slots(r) - 1 - row : row; }
static tilert_dtype checkpoint_type(const GdnRow *row) { return row->pool.checkpoint_16 ? state_type(row) : TILERT_F32; }
static int64_t checkpoint_stride(const GdnRun *r) { return gdn_run_state(r) + (r->row.pool.checkpoint_slots ? 40 : 0); }

static void make_checkpoints(GdnRun *r, Random *random)
{
	int64_t n = r->sequences, *x = memory((size_t)(n + 1) * sizeof *x);
	tilekern_gdn_params *p = &r->p;
	(void)random;
	r->reached = memory((size_t)(n + 1) * sizeof *r->reached);
	r->reached[0] = 0;
	for (int64_t i = 0; i < n; i++) {
		r->reached[i + 1] = r->reached[i] + (every(r) != 0 ? (r->offsets[i + 1] - r->offsets[i]) / every(r) : 1);
		x[i] = stop_of(r, i);
	}
	if (r->row.pool.checkpoints != GDN_NO_CHECKPOINTS) {
		tilert_dtype type = p->checkpoint_dtype = checkpoint_type(&r->row);
		int64_t rows = gdn_run_checkpoint_rows(r), slots = checkpoint_slots(r), first = shift(&r->row, type);
		size_t size = tilert_dtype_size(type);
		r->checkpoints = buffer_poisoned((size_t)(first + slots * checkpoint_stride(r)) * size);
		p->checkpoint_state = r->checkpoints.p + (tilert_ptr)((size_t)first * size);
		p->checkpoint_slots = slots;
		p->checkpoint_stride = checkpoint_stride(r);
		p->checkpoint_every = every(r);
		if (every(r) != 0)
			p->checkpoint_starts = (r->starts = upload_offsets(r, r->reached, n + 1)).p;
		else
			p->checkpoint_offsets = (r->stops = upload_offsets(r, x, n)).p;
		if (r->row.pool.checkpoint_slots) {
			int64_t count = every(r) != 0 ? slots : rows, *slot = memory((size_t)(count + 1) * sizeof *slot);
			for (int64_t i = 0; i < count; i++)
				slot[i] = i < rows ? checkpoint_slot(r, i) : NONE;
			p->checkpoint_indices = (r->rows = upload_indices(r, slot, count, slots)).p;
			free(slot);
		}
	}
	free(x);
}

float *gdn_run_checkpoints(GdnRun *r)
{
	int64_t state = gdn_run_state(r), rows = gdn_run_checkpoint_rows(r), tokens, row;
	unsigned char *laid = buffer_take(r->checkpoints);
	float *out = memory((size_t)(rows * state + 1) * sizeof *out);
	memset(out, 0, (size_t)(rows * state) * sizeof *out);
	for (int64_t n = 0; n < r->sequences; n++) {
		for (int64_t i = 0; gdn_run_checkpoint(r, n, i, &tokens, &row); i++)
			take_state(&r->row, laid, checkpoint_type(&r->row), checkpoint_stride(r), state, checkpoint_slot(r, row), out + row * state);
	}
	expect_rest("checkpoints", laid, r->checkpoints.bytes);
	free(laid);
	return out;
}
