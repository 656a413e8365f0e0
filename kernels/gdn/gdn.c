/* gdn.c - checks the arguments of a GDN call, chooses its kernels and launches them: gdn_k1 (per chunk, parallel) writes records into
 * the workspace, gdn_k2 (per sequence, head and block of V) carries the state over the chunks.  No arithmetic happens here. */
#include <tilekern/gdn.h>

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../common/call.h"
#include "modules.h" /* generated: the modules as arrays */

enum { CHUNK = 64, RECORD_BYTES = 13312, MAX_DIM = 256, MAX_GROUP = 4, K1_PER_SM = 4 };
enum { ALIGN = 256 /* of the workspace's tensors */, WARM = 64, SHORTEST_PART = 4, SHORT = 12, PERSISTENT = 32 }; /* chunks; WARM is units.tile's */

/* ---- Kernels: loaded when a call first needs them -------------------------------------------------------- */

/* VARIANT(id, module, kernel); kernels/CMakeLists.txt compiles the modules of these names. */
#define GDN_KERNELS(VARIANT) \
	VARIANT(K1_BF16_64, gdn_k1_bf16_64, gdn_k1) \
	VARIANT(K1_BF16_128, gdn_k1_bf16_128, gdn_k1) \
	VARIANT(K1_BF16_256, gdn_k1_bf16_256, gdn_k1) \
	VARIANT(K1_F16_64, gdn_k1_f16_64, gdn_k1) \
	VARIANT(K1_F16_128, gdn_k1_f16_128, gdn_k1) \
	VARIANT(K1_F16_256, gdn_k1_f16_256, gdn_k1) \
	VARIANT(K2_BF16_64_1, gdn_k2_bf16_64_1, gdn_k2) \
	VARIANT(K2_BF16_64_2, gdn_k2_bf16_64_2, gdn_k2) \
	VARIANT(K2_BF16_128_1, gdn_k2_bf16_128_1, gdn_k2) \
	VARIANT(K2_BF16_128_2, gdn_k2_bf16_128_2, gdn_k2) \
	VARIANT(K2_F16_64_1, gdn_k2_f16_64_1, gdn_k2) \
	VARIANT(K2_F16_64_2, gdn_k2_f16_64_2, gdn_k2) \
	VARIANT(K2_F16_128_1, gdn_k2_f16_128_1, gdn_k2) \
	VARIANT(K2_F16_128_2, gdn_k2_f16_128_2, gdn_k2) \
	VARIANT(K2_BF16_256, gdn_k2_bf16_256, gdn_k2_wide) \
	VARIANT(K2_F16_256, gdn_k2_f16_256, gdn_k2_wide) \
	VARIANT(K2_BF16_64_PAIRS, gdn_k2_bf16_64_pairs, gdn_k2) \
	VARIANT(K2_BF16_128_PAIRS, gdn_k2_bf16_128_pairs, gdn_k2) \
	VARIANT(K2_F16_64_PAIRS, gdn_k2_f16_64_pairs, gdn_k2) \
	VARIANT(K2_F16_128_PAIRS, gdn_k2_f16_128_pairs, gdn_k2) \
	VARIANT(K2_BF16_64_SAVE, gdn_k2_bf16_64_save, gdn_k2) \
	VARIANT(K2_BF16_128_SAVE, gdn_k2_bf16_128_save, gdn_k2) \
	VARIANT(K2_F16_64_SAVE, gdn_k2_f16_64_save, gdn_k2) \
	VARIANT(K2_F16_128_SAVE, gdn_k2_f16_128_save, gdn_k2) \
	VARIANT(PARTS_BF16_64, gdn_parts_bf16_64, gdn_parts) \
	VARIANT(PARTS_BF16_128, gdn_parts_bf16_128, gdn_parts) \
	VARIANT(PARTS_F16_64, gdn_parts_f16_64, gdn_parts) \
	VARIANT(PARTS_F16_128, gdn_parts_f16_128, gdn_parts) \
	VARIANT(JOIN_64, gdn_join_64, gdn_join) \
	VARIANT(JOIN_128, gdn_join_128, gdn_join) \
	VARIANT(COPY_STATE, copy_state, copy_state) \
	VARIANT(CLEAR_STATE, copy_state, clear_state)

typedef enum KernelId {
#define KERNEL_ID(id, module, kernel) id,
	GDN_KERNELS(KERNEL_ID)
#undef KERNEL_ID
	KERNELS
} KernelId;

struct tilekern_gdn {
	tilert_device *device;
	int sm_count;
	pthread_mutex_t lock; /* of what follows */
	tilert_module *module[KERNELS];
	tilert_kernel *kernel[KERNELS];
};

static tilert_status load(tilekern_gdn *gdn, KernelId id)
{
	const struct { const unsigned char *image; const size_t *bytes; const char *kernel; } table[KERNELS] = {
#define KERNEL_ROW(id, module, kernel) [id] = { tilekern_##module, &tilekern_##module##_bytes, #kernel },
		GDN_KERNELS(KERNEL_ROW)
#undef KERNEL_ROW
	};
	tilert_module *m;
	tilert_kernel *k;
	tilert_status s = tilert_module_load(gdn->device, table[id].image, *table[id].bytes, &m);
	if (s != TILERT_OK)
		return call_passed_on(s, "tilekern_gdn");
	s = tilert_module_kernel(m, table[id].kernel, &k);
	if (s != TILERT_OK) {
		call_passed_on(s, "tilekern_gdn");
		tilert_module_close(m);
		return s;
	}
	gdn->module[id] = m;
	gdn->kernel[id] = k;
	return TILERT_OK;
}

static tilert_status kernel(tilekern_gdn *gdn, KernelId id, tilert_kernel **out)
{
	pthread_mutex_lock(&gdn->lock);
	tilert_status s = gdn->kernel[id] ? TILERT_OK : load(gdn, id);
	*out = gdn->kernel[id];
	pthread_mutex_unlock(&gdn->lock);
	return s;
}

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
	tilekern_gdn *gdn = calloc(1, sizeof *gdn);
	if (!gdn || pthread_mutex_init(&gdn->lock, NULL) != 0) {
		free(gdn);
		return call_fail(TILERT_ENOMEM, "%s: no memory for %zu bytes", who, sizeof *gdn);
	}
	gdn->device = d;
	gdn->sm_count = info.sm_count;
	*out = gdn;
	return TILERT_OK;
}

void tilekern_gdn_close(tilekern_gdn *gdn)
{
	if (!gdn)
		return;
	for (int i = 0; i < KERNELS; i++)
		tilert_module_close(gdn->module[i]);
	pthread_mutex_destroy(&gdn->lock);
	free(gdn);
}

/* ---- Shapes ------------------------------------------------------------------------------------------------ */

static int64_t sequences(const tilekern_gdn_params *p) { return p->cu_seqlens ? p->sequences : p->batch; }
static bool empty(const tilekern_gdn_params *p) { return sequences(p) == 0 || p->value_heads == 0; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Chunks, numbered as common/sequences.tile says. */
static int64_t slots(const tilekern_gdn_params *p)
{
	return p->cu_seqlens ? p->tokens / CHUNK + p->sequences : p->batch * ceil_div(p->tokens, CHUNK);
}

/* k2 then writes more than o and the final state. */
static bool saves(const tilekern_gdn_params *p) { return p->states || p->u; }
static int64_t padded_value_dim(const tilekern_gdn_params *p) { return ceil_div(p->value_dim, 128) * 128; }
static int64_t key_tile(const tilekern_gdn_params *p) { return p->key_dim <= 64 ? 64 : p->key_dim <= 128 ? 128 : 256; }

/* ---- Plan: how the chunks are spread over the device -------------------------------------------------------- */

typedef struct Plan {
	int64_t part;        /* chunks of a unit (units.tile); 0: a unit is a sequence */
	int64_t units;
	bool narrow;         /* one state warpgroup, 64 columns of V, a CTA ... */
	bool pairs;          /* ... and two CTAs a multiprocessor */
	int64_t ctas;        /* of k2, at most: persistent for short sequences, long ones are better handed out as CTAs become free */
	int64_t active;      /* sequences scanned at once (k1.tile) */
	bool joined;         /* units may need parts.tile and join.tile */
	int warm;            /* chunks that a unit may be warmed up with */
	float negligible;    /* log2 of what is left of a state that may be dropped */
	size_t fade, pending, starts, change, bytes; /* in the workspace, after the records */
} Plan;

static void lay_out(Plan *l, const tilekern_gdn_params *p)
{
	int64_t heads = p->value_heads, k = key_tile(p);
	l->fade = (size_t)(slots(p) * heads) * RECORD_BYTES;
	l->pending = (l->fade + (size_t)(slots(p) * heads) * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
	l->starts = l->pending + ALIGN;
	l->change = l->starts + (l->joined ? (size_t)(l->units * heads * padded_value_dim(p) * k) * sizeof(float) : 0);
	l->bytes = l->change + (l->joined ? (size_t)(l->units * heads * 2 * k * k) * 2 : 0);
}

/* A chunk takes a CTA 1.06 us with 64 columns of V and 1.5 us with 128 (H200; bench/README.md): the first is for calls that leave
 * multiprocessors idle.  Units fill the device once where sequences and heads do not. */
static Plan plan_of(const tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	int64_t n = sequences(p), lanes = n * p->value_heads * ceil_div(p->value_dim, 128), chunks = n ? ceil_div(slots(p), n) : 0;
	Plan l = { .units = n, .negligible = p->split == TILEKERN_GDN_SPLIT_EXACT ? -INFINITY : -24 };
	if (p->split != TILEKERN_GDN_SPLIT_OFF && p->key_dim <= 128 && lanes > 0 && lanes <= gdn->sm_count / 2 && chunks >= 2 * SHORTEST_PART) {
		int64_t part = ceil_div(chunks, gdn->sm_count / lanes);
		l.part = part < SHORTEST_PART ? SHORTEST_PART : part;
		l.units = p->cu_seqlens ? slots(p) / l.part + n : n * ceil_div(chunks, l.part);
		int64_t longest = p->cu_seqlens ? slots(p) - n : chunks;
		l.joined = (longest - 1) / l.part * l.part > WARM;
		l.warm = p->split == TILEKERN_GDN_SPLIT_EXACT && l.joined ? 0 : WARM;
	}
	int64_t ctas = l.units * p->value_heads * ceil_div(p->value_dim, 64);
	bool whole = ctas > gdn->sm_count && !saves(p);
	l.pairs = whole && (p->value_dim <= 64 || (l.part > 0 ? l.part : chunks) <= SHORT);
	l.narrow = !whole || l.pairs;
	bool direct = p->key_dim == key_tile(p) && p->value_dim % (l.narrow ? 64 : 128) == 0 && (!p->final_state || p->state_dtype == TILERT_F32);
	l.ctas = l.part == 0 && chunks <= PERSISTENT && direct && !saves(p) ? gdn->sm_count * (l.pairs ? 2 : 1) : INT32_MAX;
	/* Sequences that all have as many slots. */
	int64_t at_once = lanes > 0 ? gdn->sm_count / (lanes / n) : 0;
	l.active = n > 0 && slots(p) % n == 0 && at_once > 1 ? (at_once < n ? at_once : n) : 1;
	lay_out(&l, p);
	return l;
}

static size_t state_bytes(const tilekern_gdn_params *p)
{
	return (size_t)(sequences(p) * p->value_heads * p->key_dim * p->value_dim) * tilert_dtype_size(p->state_dtype);
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
	int64_t per_head = slots(p) > sequences(p) * ceil_div(p->value_dim, CHUNK) ? slots(p) : sequences(p) * ceil_div(p->value_dim, CHUNK);
	if (p->value_heads > 0 && per_head > most / p->value_heads)
		return call_fail(TILERT_EINVAL, "%s: %lld chunks or sequences x %lld heads are more than %lld", who, (long long)per_head,
			(long long)p->value_heads, (long long)most);
	return TILERT_OK;
}

static tilert_status check_struct(const char *who, const tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	if (!gdn)
		return call_fail(TILERT_EINVAL, "%s: gdn is NULL", who);
	if (!p)
		return call_fail(TILERT_EINVAL, "%s: p is NULL", who);
	if (p->size != sizeof *p)
		return call_fail(TILERT_EINVAL, "%s: p->size is %zu, not %zu: start from TILEKERN_GDN_PARAMS_INIT", who, p->size, sizeof *p);
	return check_extents(who, p);
}

tilert_status tilekern_gdn_workspace_bytes(tilekern_gdn *gdn, const tilekern_gdn_params *p, size_t *out)
{
	tilert_status s = check_struct("tilekern_gdn_workspace_bytes", gdn, p);
	if (s != TILERT_OK)
		return s;
	if (!out)
		return call_fail(TILERT_EINVAL, "tilekern_gdn_workspace_bytes: out is NULL");
	*out = plan_of(gdn, p).bytes;
	return TILERT_OK;
}

int64_t tilekern_gdn_slots(const tilekern_gdn_params *p)
{
	return p && p->size == sizeof *p && check_extents("tilekern_gdn_slots", p) == TILERT_OK ? slots(p) : 0;
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

/* Everything but what tilert_prepare checks. */
static tilert_status check_arguments(const char *who, const tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	tilert_status s = check_struct(who, gdn, p);
	if (s == TILERT_OK)
		s = check_dtypes(who, p);
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
		{ "final_state", p->final_state, 16, false }, { "workspace", p->workspace, ALIGN, tokens }, { "states", p->states, 16, false }, { "u", p->u, 16, false },
		{ "records", p->records, ALIGN, false },
	};
	s = call_check_pointers(who, pointers, sizeof pointers / sizeof pointers[0]);
	if (s != TILERT_OK)
		return s;
	if (saves(p) && p->key_dim > 128)
		return call_fail(TILERT_EINVAL, "%s: key_dim is %lld; states and u are saved up to 128", who, (long long)p->key_dim);
	if (p->initial_state != 0 && p->initial_state == p->final_state)
		return call_fail(TILERT_EINVAL, "%s: initial_state and final_state are both 0x%llx", who, (unsigned long long)p->final_state);
	if (p->workspace_bytes < plan_of(gdn, p).bytes)
		return call_fail(TILERT_EINVAL, "%s: workspace_bytes is %zu, but %zu are needed", who, p->workspace_bytes, plan_of(gdn, p).bytes);
	return TILERT_OK;
}

/* A tensor [batch][tokens][heads]([channels]).  The stride of a single row is never used, and may be too large for a dim. */
static void token_major(CallArgs *a, const tilekern_gdn_params *p, const char *name, tilert_ptr data, tilert_dtype dtype, int64_t heads,
	int64_t channels, tilekern_strides given)
{
	const int64_t extents[] = { p->batch, p->tokens, heads, channels };
	int64_t unit = channels ? channels : 1;
	tilekern_strides s = given.batch || given.token || given.head ? given
		: (tilekern_strides){ p->tokens * heads * unit, heads * unit, unit };
	const int64_t strides[] = { p->batch == 1 ? s.token : s.batch, s.token, s.head, 1 };
	call_tensor(a, name, data, dtype, channels ? 4 : 3, extents, strides);
}

static void state(CallArgs *a, const tilekern_gdn_params *p, const char *name, tilert_ptr data)
{
	const int64_t n = p->key_dim * p->value_dim, extents[] = { sequences(p), p->value_heads, p->key_dim, p->value_dim };
	const int64_t strides[] = { p->value_heads * n, n, p->state_v_first ? 1 : p->value_dim, p->state_v_first ? p->key_dim : 1 };
	call_tensor(a, name, data, p->state_dtype, 4, extents, strides);
}

/* Value heads that one item of k1 makes: they share the products of q and k, but items must fill the device. */
static int64_t group_of(const tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	int64_t per_key = p->value_heads / p->qk_heads, items = slots(p) * p->value_heads;
	for (int64_t g = MAX_GROUP; g > 1; g--) {
		if (per_key % g == 0 && items / g >= gdn->sm_count * K1_PER_SM)
			return g;
	}
	return 1;
}

static CallArgs all_arguments(const tilekern_gdn *gdn, const tilekern_gdn_params *p, const Plan *l)
{
	const int64_t fade[] = { p->value_heads, slots(p) }, k = key_tile(p), v = padded_value_dim(p);
	const int64_t starts[] = { l->units, p->value_heads, v, k }, change[] = { l->units, p->value_heads, 2 * k, k };
	const int64_t records[] = { slots(p), p->value_heads, RECORD_BYTES }, heads[] = { p->value_heads }, offsets[] = { sequences(p) + 1 };
	bool f32 = p->state_dtype == TILERT_F32;
	CallArgs a = { .n = 0 };
	token_major(&a, p, "q", p->q, p->dtype, p->qk_heads, p->key_dim, p->q_strides);
	token_major(&a, p, "k", p->k, p->dtype, p->qk_heads, p->key_dim, p->k_strides);
	token_major(&a, p, "v", p->v, p->dtype, p->value_heads, p->value_dim, p->v_strides);
	token_major(&a, p, "o", p->o, p->dtype, p->value_heads, p->value_dim, p->o_strides);
	token_major(&a, p, p->gate_dtype == TILERT_F32 ? "g" : "g16", p->g, p->gate_dtype, p->value_heads, 0, p->g_strides);
	token_major(&a, p, p->beta_dtype == TILERT_F32 ? "beta" : "beta16", p->beta, p->beta_dtype, p->value_heads, 0, p->beta_strides);
	call_tensor(&a, "a_log", p->a_log, TILERT_F32, 1, heads, NULL);
	call_tensor(&a, "dt_bias", p->dt_bias, TILERT_F32, 1, heads, NULL);
	call_tensor(&a, p->seqlens_dtype == TILERT_I32 ? "cu" : "cu64", p->cu_seqlens, p->seqlens_dtype, 1, offsets, NULL);
	call_tensor(&a, "rec", p->records ? p->records : p->workspace, TILERT_U8, 3, records, NULL);
	call_tensor(&a, "fade", p->workspace + l->fade, TILERT_F32, 2, fade, NULL);
	call_tensor(&a, "pending", p->workspace + l->pending, TILERT_I32, 1, (const int64_t[]){ 1 }, NULL);
	call_tensor(&a, "starts", l->joined ? p->workspace + l->starts : 0, TILERT_F32, 4, starts, NULL);
	call_tensor(&a, "change", l->joined ? p->workspace + l->change : 0, TILERT_BF16, 4, change, NULL);
	state(&a, p, f32 ? "h0" : "h016", p->initial_state);
	state(&a, p, f32 ? "ht" : "ht16", p->final_state);
	const int64_t states[] = { slots(p), p->value_heads, p->state_v_first ? p->value_dim : p->key_dim, p->state_v_first ? p->key_dim : p->value_dim };
	call_tensor(&a, p->state_v_first ? "hvk" : "hkv", p->states, p->dtype, 4, states, NULL);
	token_major(&a, p, "us", p->u, p->dtype, p->value_heads, p->value_dim, (tilekern_strides){ 0 });
	call_dim(&a, "SEQS", sequences(p));
	call_dim(&a, "UNITS", l->units);
	call_dim(&a, "VP", v);
	call_integer(&a, "tokens", p->tokens);
	call_integer(&a, "part", l->part);
	call_integer(&a, "ctas", l->ctas);
	call_integer(&a, "warm", l->warm);
	call_float(&a, "negligible", (double)l->negligible);
	call_integer(&a, "group", group_of(gdn, p));
	call_integer(&a, "active", l->active);
	call_integer(&a, "options", p->options);
	call_float(&a, "scale", p->scale != 0 ? (double)p->scale : 1 / sqrt((double)p->key_dim));
	return a;
}

/* ---- Which kernels ----------------------------------------------------------------------------------------- */

static KernelId k1_of(const tilekern_gdn_params *p)
{
	static const KernelId ids[2][3] = { { K1_BF16_64, K1_BF16_128, K1_BF16_256 }, { K1_F16_64, K1_F16_128, K1_F16_256 } };
	return ids[p->dtype == TILERT_F16][(p->key_dim > 64) + (p->key_dim > 128)];
}

static KernelId k2_of(const tilekern_gdn_params *p, const Plan *l)
{
	static const KernelId ids[2][2][3] = { /* f16, K > 64, narrow + pairs */
		{ { K2_BF16_64_2, K2_BF16_64_1, K2_BF16_64_PAIRS }, { K2_BF16_128_2, K2_BF16_128_1, K2_BF16_128_PAIRS } },
		{ { K2_F16_64_2, K2_F16_64_1, K2_F16_64_PAIRS }, { K2_F16_128_2, K2_F16_128_1, K2_F16_128_PAIRS } },
	};
	static const KernelId saving[2][2] = { { K2_BF16_64_SAVE, K2_BF16_128_SAVE }, { K2_F16_64_SAVE, K2_F16_128_SAVE } };
	if (saves(p))
		return saving[p->dtype == TILERT_F16][p->key_dim > 64];
	if (p->key_dim > 128)
		return p->dtype == TILERT_F16 ? K2_F16_256 : K2_BF16_256;
	return ids[p->dtype == TILERT_F16][p->key_dim > 64][l->narrow + l->pairs];
}

static KernelId parts_of(const tilekern_gdn_params *p)
{
	static const KernelId ids[2][2] = { { PARTS_BF16_64, PARTS_BF16_128 }, { PARTS_F16_64, PARTS_F16_128 } };
	return ids[p->dtype == TILERT_F16][p->key_dim > 64];
}

/* ---- Calls --------------------------------------------------------------------------------------------------- */

enum { MAX_LAUNCHES = 4 };
struct tilekern_gdn_call { tilert_prepared *launch[MAX_LAUNCHES]; int n; };

static tilert_status add(tilekern_gdn_call *c, const char *who, tilekern_gdn *gdn, KernelId id, const CallArgs *a)
{
	tilert_kernel *k;
	tilert_status s = kernel(gdn, id, &k);
	if (s == TILERT_OK)
		s = call_prepare(who, k, a, &c->launch[c->n]);
	c->n += s == TILERT_OK;
	return s;
}

/* No tokens: the final state is the initial one. */
static tilert_status prepare_state_only(tilekern_gdn_call *c, const char *who, tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	if (!p->final_state)
		return TILERT_OK;
	const int64_t rows[] = { (int64_t)(state_bytes(p) / 128), 32 };
	CallArgs a = { .n = 0 };
	call_tensor(&a, "ht", p->final_state, TILERT_U32, 2, rows, NULL);
	call_tensor(&a, "h0", p->initial_state, TILERT_U32, 2, rows, NULL);
	return add(c, who, gdn, p->initial_state ? COPY_STATE : CLEAR_STATE, &a);
}

static tilert_status prepare_chunks(tilekern_gdn_call *c, const char *who, tilekern_gdn *gdn, const tilekern_gdn_params *p)
{
	Plan l = plan_of(gdn, p);
	CallArgs a = all_arguments(gdn, p, &l);
	tilert_status s = add(c, who, gdn, k1_of(p), &a);
	if (s == TILERT_OK && l.joined)
		s = add(c, who, gdn, parts_of(p), &a);
	if (s == TILERT_OK && l.joined)
		s = add(c, who, gdn, p->key_dim > 64 ? JOIN_128 : JOIN_64, &a);
	return s == TILERT_OK ? add(c, who, gdn, k2_of(p, &l), &a) : s;
}

tilert_status tilekern_gdn_prepare(tilekern_gdn *gdn, const tilekern_gdn_params *p, tilekern_gdn_call **out)
{
	static const char *const who = "tilekern_gdn_prepare";
	tilert_status s = check_arguments(who, gdn, p);
	if (s != TILERT_OK)
		return s;
	if (!out)
		return call_fail(TILERT_EINVAL, "%s: out is NULL", who);
	tilekern_gdn_call *c = calloc(1, sizeof *c);
	if (!c)
		return call_fail(TILERT_ENOMEM, "%s: no memory for %zu bytes", who, sizeof *c);
	if (!empty(p))
		s = p->tokens == 0 ? prepare_state_only(c, who, gdn, p) : prepare_chunks(c, who, gdn, p);
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
	for (int i = 0; i < c->n; i++) {
		tilert_status s = tilert_prepared_launch(c->launch[i], stream);
		if (s != TILERT_OK)
			return call_passed_on(s, "tilekern_gdn_launch");
	}
	return TILERT_OK;
}

void tilekern_gdn_call_destroy(tilekern_gdn_call *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->n; i++)
		tilert_prepared_destroy(c->launch[i]);
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
