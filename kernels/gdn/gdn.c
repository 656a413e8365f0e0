/* gdn.c - checks the arguments of a GDN call and queues the kernels that plan.c and kernels.c choose: gdn_k1 (per chunk, parallel)
 * writes records into the workspace, gdn_k2 (per sequence or unit, head and block of V) carries the state over the chunks. */
#include <tilekern/gdn.h>

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "../common/call.h"
#include "kernels.h"

struct tilekern_gdn { GdnKernels kernels; int sm_count; };

tilert_status tilekern_gdn_open(tilert_device *d, tilekern_gdn **out)
{
	static const char *const who = "tilekern_gdn_open";
	tilert_device_info info;
	if (!d)
		return call_fail(TILERT_EINVAL, "%s: d is NULL", who);
	if (!out)
		return call_fail(TILERT_EINVAL, "%s: out is NULL", who);
	tilert_status s = tilert_device_get_info(d, &info);
	if (s != TILERT_OK)
		return call_passed_on(s, who);
	tilekern_gdn *gdn = malloc(sizeof *gdn);
	if (!gdn || !gdn_kernels_init(&gdn->kernels, d)) {
		free(gdn);
		return call_fail(TILERT_ENOMEM, "%s: no memory for %zu bytes", who, sizeof *gdn);
	}
	gdn->sm_count = info.sm_count;
	*out = gdn;
	return TILERT_OK;
}

void tilekern_gdn_close(tilekern_gdn *gdn)
{
	if (!gdn)
		return;
	gdn_kernels_free(&gdn->kernels);
	free(gdn);
}

/* ---- Extents ----------------------------------------------------------------------------------------------- */

enum { MAX_DIM = 256 };

static bool empty(const tilekern_gdn_params *p) { return gdn_sequences(p) == 0 || p->value_heads == 0; }

static size_t state_bytes(const tilekern_gdn_params *p)
{
	return (size_t)(gdn_sequences(p) * p->value_heads * p->key_dim * p->value_dim) * tilert_dtype_size(p->state_dtype);
}

static tilert_status check_extents(const char *who, const tilekern_gdn_params *p)
{
	const int64_t most = INT32_MAX;
	const CallExtent extents[] = {
		{ p->cu_seqlens ? "batch (with cu_seqlens)" : "batch", p->batch, p->cu_seqlens ? 1 : 0, p->cu_seqlens ? 1 : most }, { "tokens", p->tokens, 0, most },
		{ "sequences", p->sequences, 0, most }, { "qk_heads", p->qk_heads, p->value_heads > 0, most }, { "value_heads", p->value_heads, 0, most },
		{ "key_dim", p->key_dim, 8, MAX_DIM }, { "value_dim", p->value_dim, 8, MAX_DIM },
	};
	tilert_status s = call_check_extents(who, extents, sizeof extents / sizeof extents[0]);
	if (s != TILERT_OK)
		return s;
	if (p->key_dim % 8 != 0 || p->value_dim % 8 != 0)
		return call_fail(TILERT_EINVAL, "%s: key_dim x value_dim is %lld x %lld, not multiples of 8", who, (long long)p->key_dim,
			(long long)p->value_dim);
	if (p->value_heads > 0 && p->value_heads % p->qk_heads != 0)
		return call_fail(TILERT_EINVAL, "%s: value_heads is %lld, not a multiple of qk_heads, %lld", who, (long long)p->value_heads,
			(long long)p->qk_heads);
	/* Items of the grids are numbered in 32 bits. */
	int64_t blocks = gdn_sequences(p) * ((p->value_dim + GDN_C - 1) / GDN_C);
	int64_t per_head = gdn_slots(p) > blocks ? gdn_slots(p) : blocks;
	if (p->value_heads > 0 && per_head > most / p->value_heads)
		return call_fail(TILERT_EINVAL, "%s: %lld chunks or sequences x %lld heads are more than %lld", who, (long long)per_head,
			(long long)p->value_heads, (long long)most);
	return TILERT_OK;
}

/* What the caller gave, of whatever version, with extents that are served. */
static tilert_status take(const char *who, const tilekern_gdn_params *given, tilekern_gdn_params *p)
{
	enum { FIRST = offsetof(tilekern_gdn_params, workspace_bytes) + sizeof(size_t) };
	const tilekern_gdn_params defaults = TILEKERN_GDN_PARAMS_INIT;
	if (!given)
		return call_fail(TILERT_EINVAL, "%s: p is NULL", who);
	*p = defaults;
	tilert_status s = call_take_params(who, "tilekern_gdn_params_init", given, FIRST, p, sizeof *p);
	return s == TILERT_OK ? check_extents(who, p) : s;
}

tilert_status tilekern_gdn_workspace_bytes(tilekern_gdn *gdn, const tilekern_gdn_params *given, size_t *out)
{
	static const char *const who = "tilekern_gdn_workspace_bytes";
	tilekern_gdn_params p;
	if (!gdn)
		return call_fail(TILERT_EINVAL, "%s: gdn is NULL", who);
	tilert_status s = take(who, given, &p);
	if (s != TILERT_OK)
		return s;
	if (!out)
		return call_fail(TILERT_EINVAL, "%s: out is NULL", who);
	*out = gdn_plan(&p, gdn->sm_count).bytes;
	return TILERT_OK;
}

int64_t tilekern_gdn_slots(const tilekern_gdn_params *given)
{
	tilekern_gdn_params p;
	return take("tilekern_gdn_slots", given, &p) == TILERT_OK ? gdn_slots(&p) : 0;
}

/* ---- Arguments --------------------------------------------------------------------------------------------- */

static tilert_status check_dtype(const char *who, const char *name, tilert_dtype have, tilert_dtype a, tilert_dtype b)
{
	if (have == a || have == b)
		return TILERT_OK;
	return call_fail(TILERT_EINVAL, "%s: %s is %d (%s), not %s or %s", who, name, (int)have, tilert_dtype_name(have), tilert_dtype_name(a),
		tilert_dtype_name(b));
}

static tilert_status check_dtypes(const char *who, const tilekern_gdn_params *p)
{
	tilert_status s = check_dtype(who, "dtype", p->dtype, TILERT_BF16, TILERT_F16);
	if (s == TILERT_OK)
		s = check_dtype(who, "gate_dtype", p->gate_dtype, TILERT_F32, p->dtype);
	if (s == TILERT_OK)
		s = check_dtype(who, "beta_dtype", p->beta_dtype, TILERT_F32, p->dtype);
	if (s == TILERT_OK)
		s = check_dtype(who, "state_dtype", p->state_dtype, TILERT_F32, TILERT_BF16);
	return s == TILERT_OK ? check_dtype(who, "seqlens_dtype", p->seqlens_dtype, TILERT_I32, TILERT_I64) : s;
}

static tilert_status check_options(const char *who, const tilekern_gdn_params *p)
{
	const unsigned all = TILEKERN_GDN_L2NORM | TILEKERN_GDN_RAW_GATE | TILEKERN_GDN_SIGMOID_BETA | TILEKERN_GDN_TWICE_BETA;
	if ((p->options & ~all) != 0)
		return call_fail(TILERT_EINVAL, "%s: options is 0x%x, not within 0x%x", who, p->options, all);
	if ((p->options & TILEKERN_GDN_TWICE_BETA) != 0 && (p->options & TILEKERN_GDN_SIGMOID_BETA) == 0)
		return call_fail(TILERT_EINVAL, "%s: options has TWICE_BETA without SIGMOID_BETA", who);
	if ((unsigned)p->split > TILEKERN_GDN_SPLIT_OFF)
		return call_fail(TILERT_EINVAL, "%s: split is %d, not in 0 .. %d", who, (int)p->split, TILEKERN_GDN_SPLIT_OFF);
	if (!isfinite(p->scale))
		return call_fail(TILERT_EINVAL, "%s: scale is %g", who, (double)p->scale);
	return TILERT_OK;
}

/* The tensors [batch][tokens][heads]([channels]) of a call. */
typedef struct Tensor { const char *name; tilert_ptr p; tilert_dtype dtype; CallTokens shape; CallStrides strides; int64_t unit; bool written; } Tensor;
enum { Q, K, V, O, G, BETA, U, TENSORS };

static CallStrides given(tilekern_strides s) { return (CallStrides){ s.batch, s.token, s.head }; }

static void list_tensors(const tilekern_gdn_params *p, Tensor t[TENSORS])
{
	const CallTokens qk = { p->batch, p->tokens, p->qk_heads, p->key_dim }, v = { p->batch, p->tokens, p->value_heads, p->value_dim };
	const CallTokens gate = { p->batch, p->tokens, p->value_heads, 1 };
	t[Q] = (Tensor){ "q", p->q, p->dtype, qk, given(p->q_strides), 8, false };
	t[K] = (Tensor){ "k", p->k, p->dtype, qk, given(p->k_strides), 8, false };
	t[V] = (Tensor){ "v", p->v, p->dtype, v, given(p->v_strides), 8, false };
	t[O] = (Tensor){ "o", p->o, p->dtype, v, given(p->o_strides), 8, true };
	t[G] = (Tensor){ "g", p->g, p->gate_dtype, gate, given(p->g_strides), 1, false };
	t[BETA] = (Tensor){ "beta", p->beta, p->beta_dtype, gate, given(p->beta_strides), 1, false };
	t[U] = (Tensor){ "u", p->u, p->dtype, v, { 0, 0, 0 }, 8, true };
}

static tilert_status check_strides(const char *who, const tilekern_gdn_params *p)
{
	Tensor t[TENSORS];
	tilert_status s = TILERT_OK;
	list_tensors(p, t);
	for (int i = 0; i < TENSORS && s == TILERT_OK; i++)
		s = call_check_strides(who, t[i].name, &t[i].shape, t[i].strides, t[i].unit);
	return s;
}

/* Units read v and the initial states again when others have written: what is written overlaps nothing. */
static tilert_status check_apart(const char *who, const tilekern_gdn_params *p)
{
	Tensor t[TENSORS];
	int64_t state = (int64_t)state_bytes(p), chunks = p->tokens > 0 ? gdn_slots(p) * p->value_heads : 0, heads = p->value_heads * 4;
	CallRegion r[TENSORS + 8] = {
		[TENSORS] = { "initial_state", p->initial_state, state, 0, 0, false }, { "final_state", p->final_state, state, 0, 0, true },
		{ "states", p->states, chunks * p->key_dim * p->value_dim * (int64_t)tilert_dtype_size(p->dtype), 0, 0, true },
		{ "records", p->records, chunks * TILEKERN_GDN_RECORD_BYTES, 0, 0, true },
		{ "workspace", p->workspace, p->tokens > 0 ? (int64_t)p->workspace_bytes : 0, 0, 0, true }, { "a_log", p->a_log, heads, 0, 0, false },
		{ "dt_bias", p->dt_bias, heads, 0, 0, false },
		{ "cu_seqlens", p->cu_seqlens, (gdn_sequences(p) + 1) * (int64_t)tilert_dtype_size(p->seqlens_dtype), 0, 0, false },
	};
	list_tensors(p, t);
	for (int i = 0; i < TENSORS; i++)
		r[i] = call_region(t[i].name, t[i].p, &t[i].shape, t[i].strides, tilert_dtype_size(t[i].dtype), t[i].written);
	return call_check_apart(who, r, sizeof r / sizeof r[0]);
}

/* Everything but what tilert_prepare checks. */
static tilert_status check_arguments(const char *who, const tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	tilert_status s = check_dtypes(who, p);
	if (s == TILERT_OK)
		s = check_options(who, p);
	if (s != TILERT_OK || empty(p))
		return s;
	bool tokens = p->tokens > 0, raw = tokens && (p->options & TILEKERN_GDN_RAW_GATE) != 0;
	unsigned gate = (unsigned)tilert_dtype_size(p->gate_dtype), beta = (unsigned)tilert_dtype_size(p->beta_dtype);
	const CallPointer pointers[] = {
		{ "q", p->q, 16, tokens }, { "k", p->k, 16, tokens }, { "v", p->v, 16, tokens }, { "g", p->g, gate, tokens },
		{ "beta", p->beta, beta, tokens }, { "o", p->o, 16, tokens }, { "a_log", p->a_log, 4, raw }, { "dt_bias", p->dt_bias, 4, false },
		{ "cu_seqlens", p->cu_seqlens, (unsigned)tilert_dtype_size(p->seqlens_dtype), false }, { "initial_state", p->initial_state, 16, false },
		{ "final_state", p->final_state, 16, false }, { "workspace", p->workspace, GDN_ALIGN, tokens }, { "states", p->states, 16, false }, { "u", p->u, 16, false },
		{ "records", p->records, GDN_ALIGN, false },
	};
	s = call_check_pointers(who, pointers, sizeof pointers / sizeof pointers[0]);
	if (s != TILERT_OK)
		return s;
	s = check_strides(who, p);
	if (s == TILERT_OK)
		s = check_apart(who, p);
	if (s != TILERT_OK)
		return s;
	if (p->workspace_bytes < gdn_plan(p, gdn->sm_count).bytes)
		return call_fail(TILERT_EINVAL, "%s: workspace_bytes is %zu, but %zu are needed", who, p->workspace_bytes, gdn_plan(p, gdn->sm_count).bytes);
	return TILERT_OK;
}

/* `far`: the kernels' name of its stride of rows, which has 64 bits. */
static void token_major(CallArgs *a, const Tensor *t, const char *name, const char *far)
{
	const int64_t extents[] = { t->shape.batch, t->shape.tokens, t->shape.heads, t->shape.width };
	CallStrides s = call_strides(&t->shape, t->strides);
	const int64_t strides[] = { s.batch, s.token, s.head, 1 };
	call_tensor(a, name, t->p, t->dtype, t->unit > 1 ? 4 : 3, extents, strides);
	if (far)
		call_integer(a, far, s.batch);
}

static void state(CallArgs *a, const tilekern_gdn_params *p, const char *name, tilert_ptr data, const char *far)
{
	const int64_t n = p->key_dim * p->value_dim, extents[] = { gdn_sequences(p), p->value_heads, p->key_dim, p->value_dim };
	const int64_t strides[] = { p->value_heads * n, n, p->state_v_first ? 1 : p->value_dim, p->state_v_first ? p->key_dim : 1 };
	call_tensor(a, name, data, p->state_dtype, 4, extents, strides);
	call_integer(a, far, strides[0]);
}

static CallArgs all_arguments(const tilekern_gdn_params *p, const GdnPlan *l)
{
	const int64_t fade[] = { p->value_heads, gdn_slots(p) }, k = gdn_key_tile(p), v = gdn_value_tile(p);
	const int64_t starts[] = { l->units, p->value_heads, v, k }, change[] = { l->units, p->value_heads, 2 * k, k };
	const int64_t records[] = { gdn_slots(p), p->value_heads, TILEKERN_GDN_RECORD_BYTES }, heads[] = { p->value_heads }, offsets[] = { gdn_sequences(p) + 1 };
	bool f32 = p->state_dtype == TILERT_F32;
	CallArgs a = { .n = 0 };
	Tensor t[TENSORS];
	list_tensors(p, t);
	token_major(&a, &t[Q], "q", "q0");
	token_major(&a, &t[K], "k", "k0");
	token_major(&a, &t[V], "v", "v0");
	token_major(&a, &t[O], "o", "o0");
	token_major(&a, &t[G], p->gate_dtype == TILERT_F32 ? "g" : "g16", "g0");
	token_major(&a, &t[BETA], p->beta_dtype == TILERT_F32 ? "beta" : "beta16", "b0");
	call_tensor(&a, "a_log", p->a_log, TILERT_F32, 1, heads, NULL);
	call_tensor(&a, "dt_bias", p->dt_bias, TILERT_F32, 1, heads, NULL);
	call_tensor(&a, p->seqlens_dtype == TILERT_I32 ? "cu" : "cu64", p->cu_seqlens, p->seqlens_dtype, 1, offsets, NULL);
	call_tensor(&a, "rec", p->records ? p->records : p->workspace, TILERT_U8, 3, records, NULL);
	call_tensor(&a, "fade", p->workspace + l->fade, TILERT_F32, 2, fade, NULL);
	call_tensor(&a, "pending", p->workspace + l->pending, TILERT_I32, 1, (const int64_t[]){ 1 }, NULL);
	call_tensor(&a, "starts", l->joined ? p->workspace + l->starts : 0, TILERT_F32, 4, starts, NULL);
	call_tensor(&a, "change", l->joined ? p->workspace + l->change : 0, TILERT_BF16, 4, change, NULL);
	state(&a, p, f32 ? "h0" : "h016", p->initial_state, "i0");
	state(&a, p, f32 ? "ht" : "ht16", p->final_state, "f0");
	const int64_t states[] = { gdn_slots(p), p->value_heads, p->state_v_first ? p->value_dim : p->key_dim, p->state_v_first ? p->key_dim : p->value_dim };
	call_tensor(&a, p->state_v_first ? "hvk" : "hkv", p->states, p->dtype, 4, states, NULL);
	token_major(&a, &t[U], "us", NULL);
	call_dim(&a, "SEQS", gdn_sequences(p));
	call_dim(&a, "UNITS", l->units);
	call_dim(&a, "VP", v);
	call_integer(&a, "tokens", p->tokens);
	call_integer(&a, "part", l->part);
	call_integer(&a, "ctas", l->ctas);
	call_integer(&a, "warm", l->warm);
	call_float(&a, "negligible", (double)l->negligible);
	call_integer(&a, "group", l->group);
	call_integer(&a, "active", l->active);
	call_integer(&a, "options", p->options);
	call_float(&a, "scale", p->scale != 0 ? (double)p->scale : 1 / sqrt((double)p->key_dim));
	return a;
}

/* ---- Calls --------------------------------------------------------------------------------------------------- */

struct tilekern_gdn_call { CallList list; };

static tilert_status add(CallList *list, const char *who, tilekern_gdn *gdn, GdnKernelId id, const CallArgs *a)
{
	tilert_kernel *k;
	tilert_status s = gdn_kernels_get(&gdn->kernels, id, &k);
	return s == TILERT_OK ? call_add(list, who, k, a) : s;
}

/* No tokens: the final state is the initial one. */
static tilert_status prepare_state_only(CallList *list, const char *who, tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	if (!p->final_state)
		return TILERT_OK;
	const int64_t rows[] = { (int64_t)(state_bytes(p) / 128), 32 };
	CallArgs a = { .n = 0 };
	call_tensor(&a, "ht", p->final_state, TILERT_U32, 2, rows, NULL);
	call_tensor(&a, "h0", p->initial_state, TILERT_U32, 2, rows, NULL);
	return add(list, who, gdn, p->initial_state ? COPY_STATE : CLEAR_STATE, &a);
}

static tilert_status prepare_chunks(CallList *list, const char *who, tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	GdnPlan l = gdn_plan(p, gdn->sm_count);
	CallArgs a = all_arguments(p, &l);
	tilert_status s = add(list, who, gdn, gdn_k1_of(p), &a);
	if (s == TILERT_OK && l.joined)
		s = add(list, who, gdn, gdn_parts_of(p), &a);
	if (s == TILERT_OK && l.joined)
		s = add(list, who, gdn, gdn_join_of(p), &a);
	return s == TILERT_OK ? add(list, who, gdn, gdn_k2_of(p, &l), &a) : s;
}

tilert_status tilekern_gdn_prepare(tilekern_gdn *gdn, const tilekern_gdn_params *given, tilekern_gdn_call **out)
{
	static const char *const who = "tilekern_gdn_prepare";
	tilekern_gdn_params p;
	if (!gdn)
		return call_fail(TILERT_EINVAL, "%s: gdn is NULL", who);
	tilert_status s = take(who, given, &p);
	if (s == TILERT_OK)
		s = check_arguments(who, gdn, &p);
	if (s != TILERT_OK)
		return s;
	if (!out)
		return call_fail(TILERT_EINVAL, "%s: out is NULL", who);
	tilekern_gdn_call *c = calloc(1, sizeof *c);
	if (!c)
		return call_fail(TILERT_ENOMEM, "%s: no memory for %zu bytes", who, sizeof *c);
	if (!empty(&p))
		s = p.tokens == 0 ? prepare_state_only(&c->list, who, gdn, &p) : prepare_chunks(&c->list, who, gdn, &p);
	if (s != TILERT_OK) {
		tilekern_gdn_call_destroy(c);
		return s;
	}
	*out = c;
	return TILERT_OK;
}

tilert_status tilekern_gdn_launch(tilekern_gdn_call *c, tilert_stream stream)
{
	if (!c)
		return call_fail(TILERT_EINVAL, "tilekern_gdn_launch: c is NULL");
	return call_launch(&c->list, "tilekern_gdn_launch", stream);
}

void tilekern_gdn_call_destroy(tilekern_gdn_call *c)
{
	if (!c)
		return;
	call_clear(&c->list);
	free(c);
}

tilert_status tilekern_gdn_forward(tilekern_gdn *gdn, const tilekern_gdn_params *p, tilert_stream stream)
{
	tilekern_gdn_call *c;
	tilert_status s = tilekern_gdn_prepare(gdn, p, &c);
	if (s != TILERT_OK)
		return s;
	s = tilekern_gdn_launch(c, stream);
	tilekern_gdn_call_destroy(c);
	return s;
}
