#include "states.h"

static int64_t bytes(const States *s)
{
	return s->sequences * s->heads * s->key_dim * s->value_dim * (int64_t)tilert_dtype_size(s->dtype);
}

CheckDtype states_dtype(const States *s) { return (CheckDtype){ "state_dtype", s->dtype, 2, { TILERT_F32, TILERT_BF16 } }; }

int states_pointers(const States *s, CheckPointer *out)
{
	out[0] = (CheckPointer){ "initial_state", s->initial, 16, false };
	out[1] = (CheckPointer){ "final_state", s->final, 16, false };
	return STATES_POINTERS;
}

int states_regions(const States *s, Region *out)
{
	out[0] = (Region){ "initial_state", s->initial, bytes(s), 0, 0, false };
	out[1] = (Region){ "final_state", s->final, bytes(s), 0, 0, true };
	return STATES_REGIONS;
}

static void tensor(Args *a, const States *s, const char *name, tilert_ptr data, const char *far)
{
	const int64_t n = s->key_dim * s->value_dim, extents[] = { s->sequences, s->heads, s->key_dim, s->value_dim };
	const int64_t strides[] = { s->heads * n, n, s->v_first ? 1 : s->value_dim, s->v_first ? s->key_dim : 1 };
	args_tensor(a, name, data, s->dtype, 4, extents, strides);
	args_integer(a, far, strides[0]);
}

static void as_it_lies(Args *a, const States *s, const char *name, tilert_ptr data)
{
	const int64_t extents[] = { s->sequences, s->heads, s->v_first ? s->value_dim : s->key_dim, s->v_first ? s->key_dim : s->value_dim };
	args_tensor(a, name, data, s->dtype, 4, extents, NULL);
}

void states_arguments(Args *a, const States *s)
{
	bool f32 = s->dtype == TILERT_F32;
	tensor(a, s, f32 ? "h0" : "h016", s->initial, "i0");
	tensor(a, s, f32 ? "ht" : "ht16", s->final, "f0");
	as_it_lies(a, s, "initial", s->initial);
	as_it_lies(a, s, "final", s->final);
}

tilert_status states_only(Queue *q, const States *s)
{
	if (!s->final)
		return TILERT_OK;
	const int64_t rows[] = { bytes(s) / 128, 32 };
	Args a = { .n = 0 };
	args_tensor(&a, "ht", s->final, TILERT_U32, 2, rows, NULL);
	args_tensor(&a, "h0", s->initial, TILERT_U32, 2, rows, NULL);
	return queue_shared(q, s->initial ? COPY_STATE : CLEAR_STATE, &a);
}
