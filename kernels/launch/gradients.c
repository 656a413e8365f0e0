#include "gradients.h"

#include "error.h"

/* Zeros of 16 bits are the same in every type: such tensors are given as bf16. */
static void add(Args *a, const Rows *r, const char *f32, const char *bits16, const char *far)
{
	Rows t = *r;
	if (t.dtype != TILERT_F32)
		t.dtype = TILERT_BF16;
	args_rows(a, &t, t.dtype == TILERT_F32 ? f32 : bits16, far);
}

tilert_status gradients_clear(Queue *q, Sequences s, const Rows r[GRADIENTS])
{
	const bool wide = r[DG].unit > 1; /* a gate for each channel */
	Args a = { .n = 0 };
	add(&a, &r[DQ], NULL, "dq", "x0");
	add(&a, &r[DK], NULL, "dk", "y0");
	add(&a, &r[DV], NULL, "dv", "w0");
	add(&a, &r[DG], wide ? "dgs" : "dg", wide ? "dgs16" : "dg16", "z0");
	add(&a, &r[DBETA], "dbeta", "dbeta16", "e0");
	sequences_arguments(&a, s);
	const struct { const char *name; int64_t value; } dims[] = { { "B", s.batch }, { "T", s.tokens }, { "H", r[DQ].heads }, { "HV", r[DV].heads },
		{ "K", rows_width(&r[DQ]) }, { "V", rows_width(&r[DV]) }, { "G", rows_width(&r[DG]) } };
	for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
		args_dim(&a, dims[i].name, dims[i].value);
	return queue_shared(q, CLEAR, &a);
}

tilert_status gradients_of_none(Queue *q, Sequences s, const Rows r[GRADIENTS], const States *ends, tilert_ptr da_log, tilert_ptr ddt_bias, int64_t width)
{
	Rows sums[GRADIENTS]; /* as the gate's and beta's of one token */
	for (int i = 0; i < GRADIENTS; i++)
		sums[i] = (Rows){ .dtype = i == DG || i == DBETA ? TILERT_F32 : TILERT_BF16, .batch = 1, .tokens = 1, .heads = r[DV].heads, .width = 1, .unit = r[i].unit };
	sums[DG].p = ddt_bias, sums[DG].width = width;
	sums[DBETA].p = da_log;
	tilert_status status = ends->sequences > 0 ? states_only(q, ends) : TILERT_OK;
	if (status == TILERT_OK && s.cu_seqlens && s.tokens > 0)
		status = gradients_clear(q, s, r);
	return status == TILERT_OK && (da_log || ddt_bias) ? gradients_clear(q, (Sequences){ .batch = 1, .tokens = 1, .dtype = s.dtype }, sums) : status;
}

/* Those of each slot and value head; behind them what they are made of. */
static int64_t powers_of(Sequences s, int64_t value_heads) { return sequences_slots(s) * value_heads * (int64_t)sizeof(float); }

int64_t gradients_powers_bytes(Sequences s, tilert_dtype dtype, int64_t value_heads)
{
	return dtype == TILERT_F16 ? 2 * powers_of(s, value_heads) + sequences_count(s) * value_heads * (int64_t)sizeof(float) : 0;
}

void gradients_powers_arguments(Args *a, Sequences s, int64_t value_heads, tilert_ptr powers)
{
	const int64_t extents[] = { sequences_slots(s), value_heads };
	args_tensor(a, "powers", powers, TILERT_F32, 2, extents, NULL);
}

/* What these kernels have in common, of a tensor of tokens. */
static Args powers_arguments(Sequences s, const Rows *r, tilert_ptr powers)
{
	Args a = { .n = 0 };
	const struct { const char *name; int64_t value; } dims[] = { { "B", s.batch }, { "T", s.tokens }, { "HV", r->heads }, { "V", rows_width(r) },
		{ "SLOTS", sequences_slots(s) } };
	for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
		args_dim(&a, dims[i].name, dims[i].value);
	sequences_arguments(&a, s);
	gradients_powers_arguments(&a, s, r->heads, powers);
	return a;
}

tilert_status gradients_make_powers(Queue *q, Sequences s, const Rows *dout, const States *ends, int64_t qk_heads, tilert_ptr powers)
{
	const int64_t sizes[] = { sequences_slots(s) + sequences_count(s), ends->heads }, states[] = { ends->sequences, ends->heads, ends->key_dim * ends->value_dim };
	Args a = powers_arguments(s, dout, powers);
	if (dout->dtype != TILERT_F16)
		return TILERT_OK;
	args_rows(&a, dout, "dout", "r0");
	args_tensor(&a, "dht", ends->initial, TILERT_F32, 3, states, NULL);
	args_dim(&a, "KV", states[2]);
	args_dim(&a, "H", qk_heads);
	args_tensor(&a, "sizes", powers + (tilert_ptr)powers_of(s, dout->heads), TILERT_F32, 2, sizes, NULL);
	tilert_status status = queue_shared(q, LARGEST, &a);
	return status == TILERT_OK ? queue_shared(q, POWERS, &a) : status;
}

tilert_status gradients_scale_back(Queue *q, Sequences s, const Rows *dv, tilert_ptr powers)
{
	Args a = powers_arguments(s, dv, powers);
	if (dv->dtype != TILERT_F16 || !dv->p)
		return TILERT_OK;
	args_rows(&a, dv, "dv", "w0");
	return queue_shared(q, SCALE_BACK, &a);
}

void gradients_states_arguments(Args *a, const States *s)
{
	const int64_t kv = s->key_dim * s->value_dim, extents[] = { s->sequences, s->heads, s->key_dim, s->value_dim };
	const int64_t strides[] = { s->heads * kv, kv, s->v_first ? 1 : s->value_dim, s->v_first ? s->key_dim : 1 };
	args_tensor(a, "dht", s->initial, TILERT_F32, 4, extents, strides);
	args_integer(a, "d0", strides[0]);
	args_tensor(a, "dh0", s->final, TILERT_F32, 4, extents, strides);
	args_integer(a, "j0", strides[0]);
}

tilert_status gradients_check_dims(const char *who, int64_t key_dim, int64_t value_dim, int64_t most)
{
	const CheckExtent dims[] = { { "key_dim", key_dim, 8, most }, { "value_dim", value_dim, 8, most } };
	tilert_status s = check_extents(who, dims, 2);
	if (s == TILERT_OK && (key_dim % 8 != 0 || value_dim % 8 != 0))
		s = launch_fail(TILERT_EINVAL, "%s: key_dim x value_dim is %lld x %lld, not multiples of 8", who, (long long)key_dim, (long long)value_dim);
	return s;
}

tilert_status gradients_check_types(const char *who, Sequences s, tilert_dtype dtype, tilert_dtype gate_dtype, tilert_dtype beta_dtype)
{
	const CheckDtype dtypes[] = {
		{ "dtype", dtype, 2, { TILERT_BF16, TILERT_F16 } }, { "gate_dtype", gate_dtype, 3, { TILERT_F32, TILERT_BF16, TILERT_F16 } },
		{ "beta_dtype", beta_dtype, 3, { TILERT_F32, TILERT_BF16, TILERT_F16 } }, sequences_dtype(s),
	};
	return check_dtypes(who, dtypes, sizeof dtypes / sizeof dtypes[0]);
}

int64_t gradients_states_bytes(const States *s) { return s->sequences * s->heads * s->key_dim * s->value_dim * (int64_t)sizeof(float); }

static tilert_status check_regions(const char *who, const GradientsCheck *c)
{
	enum { MOST = 40 };
	Region r[MOST];
	size_t n = 0;
	if (c->region_count + (size_t)c->input_count + GRADIENTS + STATES_REGIONS > MOST)
		return launch_fail(TILERT_EINVAL, "%s: %zu regions and %d inputs are more than there is room for", who, c->region_count, c->input_count);
	for (size_t i = 0; i < c->region_count; i++)
		r[n++] = c->regions[i];
	for (int i = 0; i < c->input_count; i++)
		r[n++] = rows_region(&c->inputs[i]);
	for (int i = 0; i < GRADIENTS; i++)
		r[n++] = rows_region(&c->gradients[i]);
	states_regions(c->states, r + n);
	return check_apart(who, r, n + STATES_REGIONS);
}

tilert_status gradients_check(const char *who, const GradientsCheck *c)
{
	const Rows *dout = &c->gradients[DOUT];
	tilert_status s = check_pointers(who, &(CheckPointer){ "dout", dout->p, 16, dout->batch > 0 && dout->tokens > 0 }, 1);
	if (s == TILERT_OK)
		s = check_strides(who, c->gradients, GRADIENTS);
	if (s == TILERT_OK)
		s = check_pointers(who, c->pointers, c->pointer_count);
	if (s == TILERT_OK)
		s = check_strides(who, c->inputs, (size_t)c->input_count);
	return s == TILERT_OK ? check_regions(who, c) : s;
}

tilert_status gradients_check_raw(const char *who, unsigned options, tilert_ptr da_log, tilert_ptr ddt_bias)
{
	const char *name = da_log ? "da_log" : ddt_bias ? "ddt_bias" : NULL;
	if (!name || (options & TILEKERN_RAW_GATE) != 0)
		return TILERT_OK;
	return launch_fail(TILERT_EINVAL, "%s: %s is given, which needs RAW_GATE; options are 0x%x", who, name, options);
}
