#include "tests/numeric/kernels/forward.h"

#include <stdlib.h>
#include <string.h>

#include "tests/check/random.h"

/* ---- parameters ---- */

void forward_tensors(const ForwardTensor tensor[FORWARD_TENSORS], bool strided)
{
	for (int i = 0; i < FORWARD_TENSORS; i++) {
		*tensor[i].p = tokens_address(tensor[i].tensor);
		if (strided)
			*tensor[i].strides = tensor[i].tensor->strides;
	}
}

void forward_odd_strides(const ForwardTensor tensor[FORWARD_TENSORS])
{
	for (int i = 0; i < FORWARD_TENSORS; i++)
		*tensor[i].strides = tokens_odd_strides(tensor[i].tensor);
}

/* ---- other lengths ---- */

static void upload_offsets(const Forward *f, const int64_t *x) { integers_upload(f->cu, x, f->sequences + 1, f->i64); }

void forward_replayed(const Forward *f)
{
	const int64_t n = f->sequences, tokens = f->offsets[n];
	void *call = f->prepare(f->run);
	Recording rec = record(f->launch, call);
	for (int round = 0; round < 4; round++) { /* as given, turned by three, all in the second, none at all */
		int64_t end = 0;
		for (int64_t i = 0; i <= n; i++) {
			f->offsets[i] = end;
			end += round == 0 ? f->lengths[i] : round == 1 ? f->lengths[(i + 3) % n] : round == 2 && i == 1 ? tokens : 0;
		}
		upload_offsets(f, f->offsets);
		if (round % 2) { /* the workspace as the call before left it */
			buffer_poison(f->tensor[FO].tensor->buffer);
			pool_poison(f->pool);
		} else {
			f->poison(f->run);
		}
		replay(&rec);
		f->check(f->run);
	}
	forget(&rec);
	f->destroy(call);
}

/* ---- wild offsets ---- */

static int64_t wild_offset(Random *r, int64_t tokens, bool i64)
{
	const int64_t extremes[] = { -1, -64, -100000, INT32_MIN, INT32_MAX, INT32_MAX - 63, tokens + 1, tokens + 64, 0, tokens };
	const int64_t far[] = { INT64_MIN, INT64_MAX, INT64_C(1) << 32, (INT64_C(1) << 32) + 5, -(INT64_C(1) << 40) };
	switch (pick(r, i64 ? 5 : 4)) {
	case 0: return extremes[pick(r, 10)];
	case 1: return (int32_t)random_bits(r);
	case 4: return far[pick(r, 5)];
	default: return pick(r, tokens + 1);
	}
}

static void expect_unchanged(Buffer b, const void *before)
{
	void *now = buffer_take(b);
	if (b.bytes)
		assert_memory_equal(now, before, b.bytes);
	free(now);
}

/* CPU device: sequences that overlap race. */
static void look_for_races(bool on)
{
	const char *never = getenv("TILERT_NO_RACE_CHECK");
	const tilert_cpu_checks checks = { .races = on && !(never && *never == '1'), .arithmetic = 1, .timeout = 60 };
	if (numeric_on_cpu())
		OK(tilert_cpu_set_checks(numeric_device(), &checks));
}

void offsets_wild(const Forward *f, const Buffer *kept, size_t n, void (*run)(void *user), void *user)
{
	enum { ROUNDS = 3, MOST = 16 };
	int64_t *wild = memory((size_t)(f->sequences + 1) * sizeof *wild), used = f->offsets[f->sequences];
	void *before[MOST] = { NULL };
	Random random;
	random_init(&random, f->seed);
	assert_true(n <= MOST);
	for (size_t i = 0; i < n; i++)
		before[i] = kept[i].p ? buffer_take(kept[i]) : NULL;
	look_for_races(false);
	f->offsets[f->sequences] = f->tokens;
	for (int round = 0; round < ROUNDS; round++) {
		for (int64_t i = 0; i <= f->sequences; i++)
			wild[i] = wild_offset(&random, f->tokens, f->i64);
		upload_offsets(f, wild);
		run(user);
		for (size_t i = 0; i < n; i++) {
			if (before[i])
				expect_unchanged(kept[i], before[i]);
		}
	}
	look_for_races(true);
	f->offsets[f->sequences] = used;
	upload_offsets(f, f->offsets);
	for (size_t i = 0; i < n; i++)
		free(before[i]);
	free(wild);
}

/* Numbers of any size in a buffer of i32 or i64, if there is one. */
static void upload_wild(Random *r, Buffer b, bool i64)
{
	unsigned char *x = memory(b.bytes);
	for (size_t i = 0; i < b.bytes / (i64 ? 8 : 4); i++) {
		const int64_t wild = wild_offset(r, 8, i64);
		const int32_t small = (int32_t)wild;
		memcpy(x + i * (i64 ? 8 : 4), i64 ? (const void *)&wild : &small, i64 ? 8 : 4);
	}
	if (b.p)
		OK(tilert_upload(numeric_device(), b.p, x, b.bytes));
	free(x);
}

void forward_wild_checkpoints(const Forward *f)
{
	const Pool *p = f->pool;
	Random random;
	random_init(&random, f->seed);
	look_for_races(false);
	for (int round = 0; round < 6; round++) {
		upload_wild(&random, p->stops, f->i64);
		upload_wild(&random, p->starts, f->i64);
		if (round % 2)
			upload_wild(&random, p->rows, p->spec.i64);
		f->poison(f->run);
		f->call(f->run);
		f->take(f->run);
		free(buffer_take(p->checkpoints));
	}
	look_for_races(true);
}

static void run_wild(void *user)
{
	const Forward *f = user;
	f->poison(f->run);
	f->call(f->run);
	f->take(f->run);
}

void forward_wild(const Forward *f)
{
	const Buffer kept[] = { f->tensor[FQ].tensor->buffer, f->tensor[FK].tensor->buffer, f->tensor[FV].tensor->buffer, f->tensor[FG].tensor->buffer,
		f->tensor[FBETA].tensor->buffer, f->a_log, f->dt_bias, f->pool->h0 };
	offsets_wild(f, kept, sizeof kept / sizeof kept[0], run_wild, (void *)f);
	f->poison(f->run);
	f->call(f->run);
	f->check(f->run);
}

/* ---- far apart ---- */

static void copy_parts(tilert_ptr to, size_t to_step, tilert_ptr from, size_t from_step, size_t bytes, int64_t n)
{
	char *part = memory(bytes);
	for (int64_t i = 0; i < n; i++) {
		OK(tilert_download(numeric_device(), part, from + (tilert_ptr)i * from_step, bytes));
		OK(tilert_upload(numeric_device(), to + (tilert_ptr)i * to_step, part, bytes));
	}
	free(part);
}

/* Tensor `which` with its `n` parts `apart` elements from one another: the same bits. */
static void run_moved(const Forward *f, int which, int64_t n, int64_t elements, int64_t apart, tilekern_strides strides, const void *want)
{
	const TokenTensor *t = f->tensor[which].tensor, *o = f->tensor[FO].tensor;
	const size_t size = tilert_dtype_size(t->dtype), bytes = (size_t)elements * size, step = (size_t)apart * size;
	const tilert_ptr near = *f->tensor[which].p;
	tilert_ptr far;
	OK(tilert_alloc(numeric_device(), (size_t)(n - 1) * step + bytes, &far));
	if (which != FO)
		copy_parts(far, step, t->buffer.p, bytes, bytes, n);
	*f->tensor[which].p = far;
	*f->tensor[which].strides = strides;
	f->poison(f->run);
	f->call(f->run);
	if (which == FO)
		copy_parts(t->buffer.p, bytes, far, step, bytes, n);
	OK(tilert_free(numeric_device(), far));
	void *got = buffer_take(o->buffer);
	assert_memory_equal(got, want, o->buffer.bytes);
	free(got);
	*f->tensor[which].p = near;
	*f->tensor[which].strides = (tilekern_strides){ 0, 0, 0 };
}

void forward_far_tokens(const Forward *f)
{
	enum { APART = 1 << 24 }; /* elements */
	f->call(f->run);
	void *want = buffer_take(f->tensor[FO].tensor->buffer);
	for (int i = FQ; i <= FO; i++) {
		const TokenTensor *t = f->tensor[i].tensor;
		run_moved(f, i, f->tokens, t->heads * t->width, APART, (tilekern_strides){ 0, APART, t->width }, want);
	}
	free(want);
}

void forward_far_rows(const Forward *f)
{
	const int64_t apart = (INT64_C(1) << 31) + 8; /* elements */
	f->call(f->run);
	void *want = buffer_take(f->tensor[FO].tensor->buffer);
	for (int i = 0; i < FORWARD_TENSORS; i++) {
		const tilekern_strides s = f->tensor[i].tensor->strides;
		run_moved(f, i, 2, s.batch, apart, (tilekern_strides){ apart, s.token, s.head }, want);
	}
	free(want);
}

void forward_far_slots(const Forward *f)
{
	enum { SLOTS = 3 };
	static const int32_t slots[] = { 2, 0 };
	const int64_t apart = (INT64_C(1) << 29) + (1 << 20), state = pool_state(f->pool); /* floats */
	const PoolFields *field = &f->pool->field;
	tilert_ptr far;
	f->call(f->run);
	float *final = pool_final(f->pool), *got = memory((size_t)state * 4);
	OK(tilert_alloc(numeric_device(), (size_t)((SLOTS - 1) * apart + state) * 4, &far));
	Buffer index = buffer_of(slots, sizeof slots);
	for (int64_t n = 0; n < 2; n++)
		OK(tilert_upload(numeric_device(), far + (tilert_ptr)(slots[n] * apart * 4), f->pool->start + n * state, (size_t)state * 4));
	f->poison(f->run);
	*field->initial_state = *field->final_state = far;
	*field->state_stride = apart;
	*field->state_slots = SLOTS;
	*field->state_indices = index.p;
	f->call(f->run);
	for (int64_t n = 0; n < 2; n++) {
		OK(tilert_download(numeric_device(), got, far + (tilert_ptr)(slots[n] * apart * 4), (size_t)state * 4));
		expect_same("far state", final + n * state, got, state);
	}
	OK(tilert_free(numeric_device(), far));
	buffer_free(index);
	free(got);
	free(final);
}

/* ---- checkpoints in the pool ---- */

/* The slots of rows, behind those of the pool. */
static int32_t *slots_behind(const Pool *p)
{
	int32_t *slot = buffer_take(p->rows);
	for (size_t i = 0; i < p->rows.bytes / sizeof *slot; i++)
		slot[i] = slot[i] > INT32_MAX - p->slots ? INT32_MAX : slot[i] + (int32_t)p->slots;
	return slot;
}

void forward_checkpoints_in_pool(const Forward *f)
{
	Pool *p = f->pool;
	const PoolFields *field = &p->field;
	const int64_t state = pool_state(p), slots = p->slots + *field->checkpoint_slots;
	f->call(f->run);
	float *final = pool_final(p), *want = pool_checkpoints(p);
	f->poison(f->run);
	float *before = buffer_take(p->h0);
	const Buffer all = buffer_poisoned((size_t)(slots * p->stride) * sizeof(float));
	OK(tilert_upload(numeric_device(), all.p, before, p->h0.bytes));
	int32_t *slot = slots_behind(p);
	const Buffer rows = buffer_of(slot, p->rows.bytes);
	*field->initial_state = *field->final_state = *field->checkpoint_state = all.p;
	*field->state_slots = *field->checkpoint_slots = slots;
	*field->checkpoint_stride = p->stride;
	*field->checkpoint_indices = rows.p;
	f->call(f->run);
	const float *got = buffer_take(all);
	for (int64_t n = 0, tokens, row; n < p->sequences; n++) {
		expect_same("final state", final + n * state, got + p->to[n] * p->stride, state);
		for (int64_t i = 0; pool_checkpoint(p, n, i, &tokens, &row); i++)
			expect_same("checkpoint", want + row * state, got + slot[row] * p->stride, state);
	}
	buffer_free(all);
	buffer_free(rows);
	free((void *)got);
	free(before);
	free(slot);
	free(final);
	free(want);
}
