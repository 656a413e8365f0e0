#include "states.h"

#include "error.h"

static int64_t elements(const States *s) { return s->heads * s->key_dim * s->value_dim; }
static int64_t stride(const States *s, int64_t given) { return given != 0 ? given : elements(s); }

/* Slots of the memory of initial and of final states. */
static int64_t initial_slots(const States *s) { return s->indices ? s->slots : s->sequences; }
static int64_t final_slots(const States *s) { return s->indices || s->outputs ? s->slots : s->sequences; }
static tilert_ptr outputs(const States *s) { return s->outputs ? s->outputs : s->indices; }

/* ---- checks ------------------------------------------------------------------------ */

static tilert_status check_types(const char *who, const States *s)
{
	const CheckDtype dtypes[] = {
		{ "state_dtype", s->dtype, 3, { TILERT_F32, TILERT_BF16, TILERT_F16 } },
		{ "checkpoint_dtype", s->checkpoint_dtype, s->dtype == TILERT_F32 ? 1 : 2, { s->dtype, TILERT_F32 } },
		{ "indices_dtype", s->indices_dtype, 2, { TILERT_I32, TILERT_I64 } },
	};
	return check_dtypes(who, dtypes, sizeof dtypes / sizeof dtypes[0]);
}

static tilert_status check_numbers(const char *who, const States *s)
{
	const int64_t farthest = (INT64_C(1) << 38) - 1, least = elements(s), indexed = s->indices || s->outputs;
	const CheckExtent e[] = {
		{ "state_stride", stride(s, s->stride), least, farthest > least ? farthest : least }, { "state_slots", s->slots, indexed, INT32_MAX },
		{ "null_slot", s->null_slot, -1, INT32_MAX }, { "checkpoint_stride", stride(s, s->checkpoint_stride), least, farthest > least ? farthest : least },
		{ "checkpoint_slots", s->checkpoint_slots, s->checkpoint != 0, INT32_MAX }, { "checkpoint_every", s->every, 0, INT32_MAX },
	};
	return check_extents(who, e, sizeof e / sizeof e[0]);
}

static tilert_status check_addresses(const char *who, const States *s)
{
	const unsigned index = (unsigned)tilert_dtype_size(s->indices_dtype), offset = (unsigned)tilert_dtype_size(s->seqlens_dtype);
	const CheckPointer p[] = {
		{ "initial_state", s->initial, 16, false }, { "final_state", s->final, 16, false }, { "checkpoint_state", s->checkpoint, 16, false },
		{ "state_indices", s->indices, index, false }, { "output_indices", s->outputs, index, false },
		{ "checkpoint_offsets", s->offsets, offset, s->checkpoint && s->every == 0 }, { "checkpoint_starts", s->starts, offset, s->checkpoint && s->every != 0 },
		{ "checkpoint_indices", s->rows, index, false },
	};
	return check_pointers(who, p, sizeof p / sizeof p[0]);
}

static tilert_status check_checkpoints(const char *who, const States *s)
{
	if (!s->checkpoint && (s->offsets || s->every != 0 || s->starts || s->rows))
		return launch_fail(TILERT_EINVAL, "%s: checkpoint_%s is given, but checkpoint_state is 0", who,
			s->offsets ? "offsets" : s->every != 0 ? "every" : s->starts ? "starts" : "indices");
	if (s->every % SLOT_TOKENS != 0)
		return launch_fail(TILERT_EINVAL, "%s: checkpoint_every is %lld, not a multiple of %d", who, (long long)s->every, SLOT_TOKENS);
	if (s->every != 0 && s->offsets)
		return launch_fail(TILERT_EINVAL, "%s: checkpoint_every is %lld and checkpoint_offsets is given: either", who, (long long)s->every);
	if (s->every == 0 && s->starts)
		return launch_fail(TILERT_EINVAL, "%s: checkpoint_starts is given, but checkpoint_every is 0", who);
	return TILERT_OK;
}

tilert_status states_check(const char *who, const States *s)
{
	tilert_status status = check_types(who, s);
	if (status == TILERT_OK)
		status = check_numbers(who, s);
	if (status == TILERT_OK)
		status = check_checkpoints(who, s);
	return status == TILERT_OK ? check_addresses(who, s) : status;
}

/* Of numbers that nobody has checked, too: at most what all of memory has. */
static int64_t times(int64_t a, int64_t b)
{
	const int64_t most = INT64_C(1) << 62;
	int64_t n;
	return __builtin_mul_overflow(a, b, &n) || n > most ? most : n;
}

static Region pool(const States *s, const char *name, tilert_ptr p, int64_t slots, int64_t given, tilert_dtype dtype, bool written)
{
	const int64_t size = (int64_t)tilert_dtype_size(dtype), one = elements(s) * size, apart = times(stride(s, given), size);
	return (Region){ name, p, slots > 0 ? times(slots - 1, apart) + one : 0, one, apart, written };
}

/* b, which is written, is a's slots: they are one. */
static bool merge(Region *a, Region *b)
{
	if (!a->p || a->p != b->p || a->pitch != b->pitch || a->row != b->row)
		return false;
	a->bytes = a->bytes > b->bytes ? a->bytes : b->bytes;
	a->written = true;
	b->p = 0;
	return true;
}

static void pools(const States *s, Region r[3])
{
	r[0] = pool(s, "initial_state", s->initial, initial_slots(s), s->stride, s->dtype, false);
	r[1] = pool(s, "final_state", s->final, final_slots(s), s->stride, s->dtype, true);
	r[2] = pool(s, "checkpoint_state", s->checkpoint, s->checkpoint_slots, s->checkpoint_stride, s->checkpoint_dtype, true);
}

void states_regions(const States *s, Region out[STATES_REGIONS])
{
	const int64_t index = (int64_t)tilert_dtype_size(s->indices_dtype), offset = (int64_t)tilert_dtype_size(s->seqlens_dtype), n = s->sequences;
	pools(s, out);
	merge(&out[0], &out[1]);
	if (!merge(&out[0], &out[2]))
		merge(&out[1], &out[2]);
	out[3] = (Region){ "state_indices", s->indices, n * index, 0, 0, false };
	out[4] = (Region){ "output_indices", s->outputs, n * index, 0, 0, false };
	out[5] = (Region){ "has_initial_state", s->has, n, 0, 0, false };
	out[6] = (Region){ "checkpoint_offsets", s->offsets, n * offset, 0, 0, false };
	out[7] = (Region){ "checkpoint_starts", s->starts, (n + 1) * offset, 0, 0, false };
	out[8] = (Region){ "checkpoint_indices", s->rows, (s->every != 0 ? s->checkpoint_slots : n) * index, 0, 0, false };
}

bool states_in_place(const States *s)
{
	Region r[3];
	pools(s, r);
	return merge(&r[0], &r[1]) || merge(&r[0], &r[2]);
}

/* ---- arguments --------------------------------------------------------------------- */

static void state(Args *a, const States *s, const char *name, tilert_ptr data, tilert_dtype dtype, int64_t slots, int64_t given, const char *dim,
	const char *far)
{
	const int64_t n = s->key_dim * s->value_dim, extents[] = { slots, s->heads, s->key_dim, s->value_dim };
	const int64_t strides[] = { stride(s, given), n, s->v_first ? 1 : s->value_dim, s->v_first ? s->key_dim : 1 };
	args_tensor(a, name, data, dtype, 4, extents, strides);
	args_dim(a, dim, slots);
	args_integer(a, far, strides[0]);
}

/* As it lies in memory: of a state the rows of what comes first. */
static void as_it_lies(Args *a, const States *s, const char *name, tilert_ptr data, int64_t slots)
{
	const int64_t rows = s->v_first ? s->value_dim : s->key_dim, row = s->v_first ? s->key_dim : s->value_dim;
	args_tensor(a, name, data, s->dtype, 4, (const int64_t[]){ slots, s->heads, rows, row }, (const int64_t[]){ stride(s, s->stride), rows * row, row, 1 });
}

/* Integers of 32 or 64 bits as the low 32 bits of each. */
static void integers(Args *a, const char *name, const char *far, tilert_ptr p, tilert_dtype dtype, int64_t n)
{
	const int64_t apart = dtype == TILERT_I64 ? 2 : 1;
	args_tensor(a, name, p, TILERT_I32, 1, &n, &apart);
	args_dim(a, far, apart);
}

static void initial(Args *a, const States *s)
{
	state(a, s, ARGS_TYPED(s->dtype, "h0"), s->initial, s->dtype, initial_slots(s), s->stride, "SLOTS0", "i0");
	as_it_lies(a, s, "initial", s->initial, initial_slots(s));
	integers(a, "index0", "n0", s->indices, s->indices_dtype, s->sequences);
	args_tensor(a, "has", s->has, TILERT_U8, 1, &s->sequences, NULL);
	args_integer(a, "null", s->null_slot);
}

static void final(Args *a, const States *s)
{
	state(a, s, ARGS_TYPED(s->dtype, "ht"), s->final, s->dtype, final_slots(s), s->stride, "SLOTST", "f0");
	as_it_lies(a, s, "final", s->final, final_slots(s));
	integers(a, "indext", "nt", outputs(s), s->indices_dtype, s->sequences);
}

/* f32, one after the other, K first. */
static States held(const States *s, tilert_ptr hold)
{
	States h = { .sequences = s->sequences, .heads = s->heads, .key_dim = s->key_dim, .value_dim = s->value_dim, .dtype = TILERT_F32,
		.indices_dtype = TILERT_I32, .null_slot = s->null_slot };
	h.initial = h.final = hold;
	return h;
}

static void checkpoints(Args *a, const States *s)
{
	enum { NEVER = 1 << 30 }; /* chunks to the next, where there is one */
	const int64_t rows = s->every != 0 ? s->checkpoint_slots : s->sequences;
	state(a, s, ARGS_TYPED(s->checkpoint_dtype, "hc"), s->checkpoint, s->checkpoint_dtype, s->checkpoint_slots, s->checkpoint_stride,
		"SLOTSC", "c0");
	integers(a, "indexc", "nc", s->rows, s->indices_dtype, rows);
	args_dim(a, "ROWSC", rows);
	integers(a, "stops", "s0", s->checkpoint ? s->offsets : 0, s->seqlens_dtype, s->sequences);
	integers(a, "rows", "s0", s->checkpoint ? s->starts : 0, s->seqlens_dtype, s->sequences + 1);
	args_integer(a, "every", s->every != 0 ? s->every / SLOT_TOKENS : NEVER);
}

void states_arguments(Args *a, const States *s, tilert_ptr hold)
{
	const States h = held(s, hold);
	initial(a, hold ? &h : s);
	final(a, s);
	args_integer(a, "in_place", states_in_place(s));
	checkpoints(a, s);
}

/* ---- kernels ------------------------------------------------------------------------ */

static tilert_status copy(Queue *q, const States *from, const States *to)
{
	Args a = { .n = 0 };
	initial(&a, from);
	final(&a, to);
	args_dim(&a, "SEQS", to->sequences);
	args_dim(&a, "HV", to->heads);
	args_dim(&a, "K", to->key_dim);
	args_dim(&a, "V", to->value_dim);
	return queue_shared(q, COPY_STATES, &a);
}

tilert_status states_only(Queue *q, const States *s) { return s->final ? copy(q, s, s) : TILERT_OK; }

tilert_status states_hold(Queue *q, const States *s, tilert_ptr hold)
{
	const States h = held(s, hold);
	return copy(q, s, &h);
}
