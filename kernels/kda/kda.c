/* kda.c - checks the arguments of a KDA call and launches its kernels: kda_k1 (per chunk, parallel) writes records and tiles into
 * the workspace, kda_k2 (per sequence and head) carries the state over the chunks.  No arithmetic happens here. */
#include <tilekern/kda.h>

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../common/call.h"
#include "modules.h" /* generated: the modules as arrays */

enum { DIM = 128, CHUNK = 64, RECORD_BYTES = 12800, TILE_BYTES = CHUNK * DIM * 2 };

/* ---- The library on a device ---------------------------------------------- */

enum { K1_F32, K1_BF16, K2, STATE, MODULES };

struct tilekern_kda {
	tilert_module *module[MODULES];
	tilert_kernel *k1_f32, *k1_bf16, *k2; /* the first by the dtype of the gates */
	tilert_kernel *copy_state, *clear_state;
};

static tilert_status find_kernels(tilekern_kda *kda)
{
	const struct { int module; const char *name; tilert_kernel **out; } wanted[] = {
		{ K1_F32, "kda_k1", &kda->k1_f32 }, { K1_BF16, "kda_k1", &kda->k1_bf16 }, { K2, "kda_k2", &kda->k2 },
		{ STATE, "copy_state", &kda->copy_state }, { STATE, "clear_state", &kda->clear_state },
	};
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		tilert_status s = tilert_module_kernel(kda->module[wanted[i].module], wanted[i].name, wanted[i].out);
		if (s != TILERT_OK)
			return call_passed_on(s, "tilekern_kda_open");
	}
	return TILERT_OK;
}

tilert_status tilekern_kda_open(tilert_device *d, tilekern_kda **out)
{
	const struct { const unsigned char *image; size_t bytes; } images[MODULES] = {
		[K1_F32] = { tilekern_kda_k1_f32, tilekern_kda_k1_f32_bytes },
		[K1_BF16] = { tilekern_kda_k1_bf16, tilekern_kda_k1_bf16_bytes },
		[K2] = { tilekern_kda_k2, tilekern_kda_k2_bytes },
		[STATE] = { tilekern_copy_state, tilekern_copy_state_bytes },
	};
	if (!d)
		return call_fail(TILERT_EINVAL, "tilekern_kda_open: d is NULL");
	if (!out)
		return call_fail(TILERT_EINVAL, "tilekern_kda_open: out is NULL");
	tilekern_kda *kda = calloc(1, sizeof *kda);
	if (!kda)
		return call_fail(TILERT_ENOMEM, "tilekern_kda_open: no memory for %zu bytes", sizeof *kda);
	tilert_status s = TILERT_OK;
	for (int i = 0; i < MODULES && s == TILERT_OK; i++)
		s = call_passed_on(tilert_module_load(d, images[i].image, images[i].bytes, &kda->module[i]), "tilekern_kda_open");
	if (s == TILERT_OK)
		s = find_kernels(kda);
	if (s != TILERT_OK) {
		tilekern_kda_close(kda);
		return s;
	}
	*out = kda;
	return TILERT_OK;
}

void tilekern_kda_close(tilekern_kda *kda)
{
	if (!kda)
		return;
	for (int i = 0; i < MODULES; i++)
		tilert_module_close(kda->module[i]);
	free(kda);
}

/* ---- Arguments ------------------------------------------------------------------ */

static int64_t chunks(const tilekern_kda_params *p)
{
	return p->batch * (p->tokens / CHUNK + (p->tokens % CHUNK != 0)) * p->heads;
}

static bool empty(const tilekern_kda_params *p)
{
	return p->batch == 0 || p->heads == 0;
}

static size_t record_bytes(const tilekern_kda_params *p)
{
	return ((size_t)chunks(p) * RECORD_BYTES + 255) / 256 * 256;
}

static size_t workspace_bytes(const tilekern_kda_params *p)
{
	return record_bytes(p) + (size_t)chunks(p) * 3 * TILE_BYTES;
}

static tilert_status check_extents(const char *who, const tilekern_kda_params *p)
{
	const CallExtent extents[] = { { "batch", p->batch, 0, INT32_MAX }, { "tokens", p->tokens, 0, INT32_MAX }, { "heads", p->heads, 0, INT32_MAX } };
	tilert_status s = call_check_extents(who, extents, sizeof extents / sizeof extents[0]);
	if (s != TILERT_OK)
		return s;
	if (p->key_dim != DIM)
		return call_fail(TILERT_EINVAL, "%s: key_dim is %lld; only %d is served", who, (long long)p->key_dim, DIM);
	if (p->value_dim != DIM)
		return call_fail(TILERT_EINVAL, "%s: value_dim is %lld; only %d is served", who, (long long)p->value_dim, DIM);
	/* Chunks are numbered in 32 bits, and the grid's x axis has 2^31 - 1 blocks. */
	int64_t per_sequence = (p->tokens / CHUNK + 1) * p->heads;
	if (p->heads > 0 && p->batch > 0 && (per_sequence > INT32_MAX || p->batch > INT32_MAX / per_sequence))
		return call_fail(TILERT_EINVAL, "%s: batch x tokens / %d x heads is %lld x %lld x %lld chunks, more than %d", who, CHUNK, (long long)p->batch,
			(long long)(p->tokens / CHUNK + 1), (long long)p->heads, INT32_MAX);
	return TILERT_OK;
}

/* What the caller gave, of whatever version, with extents that are served. */
static tilert_status take(const char *who, const tilekern_kda_params *given, tilekern_kda_params *p)
{
	enum { FIRST = offsetof(tilekern_kda_params, workspace_bytes) + sizeof(size_t) };
	const tilekern_kda_params defaults = TILEKERN_KDA_PARAMS_INIT;
	if (!given)
		return call_fail(TILERT_EINVAL, "%s: p is NULL", who);
	*p = defaults;
	tilert_status s = call_take_params(who, "tilekern_kda_params_init", given, FIRST, p, sizeof *p);
	return s == TILERT_OK ? check_extents(who, p) : s;
}

tilert_status tilekern_kda_workspace_bytes(const tilekern_kda_params *given, size_t *out)
{
	tilekern_kda_params p;
	tilert_status s = take("tilekern_kda_workspace_bytes", given, &p);
	if (s != TILERT_OK)
		return s;
	if (!out)
		return call_fail(TILERT_EINVAL, "tilekern_kda_workspace_bytes: out is NULL");
	*out = workspace_bytes(&p);
	return TILERT_OK;
}

static tilert_status check_apart(const char *who, const tilekern_kda_params *p)
{
	const int64_t rows = p->batch * p->tokens * p->heads, state = p->batch * p->heads * DIM * DIM * 4;
	const CallRegion r[] = {
		{ "q", p->q, rows * DIM * 2, 0, 0, false }, { "k", p->k, rows * DIM * 2, 0, 0, false }, { "v", p->v, rows * DIM * 2, 0, 0, false },
		{ "g", p->g, rows * DIM * (int64_t)tilert_dtype_size(p->gate_dtype), 0, 0, false }, { "beta", p->beta, rows * 4, 0, 0, false },
		{ "o", p->o, rows * DIM * 2, 0, 0, true }, { "initial_state", p->initial_state, state, 0, 0, false },
		{ "final_state", p->final_state, state, 0, 0, true },
		{ "workspace", p->workspace, p->tokens > 0 ? (int64_t)p->workspace_bytes : 0, 0, 0, true },
	};
	return call_check_apart(who, r, sizeof r / sizeof r[0]);
}

/* Everything but what tilert_prepare checks. */
static tilert_status check_arguments(const tilekern_kda_params *p)
{
	static const char *const who = "tilekern_kda_prepare";
	if (empty(p))
		return TILERT_OK;
	if (p->gate_dtype != TILERT_F32 && p->gate_dtype != TILERT_BF16)
		return call_fail(TILERT_EINVAL, "%s: gate_dtype is %d (%s), not f32 or bf16", who, (int)p->gate_dtype, tilert_dtype_name(p->gate_dtype));
	if (!isfinite(p->scale))
		return call_fail(TILERT_EINVAL, "%s: scale is %g", who, (double)p->scale);
	const CallPointer pointers[] = {
		{ "q", p->q, 16, p->tokens > 0 }, { "k", p->k, 16, p->tokens > 0 }, { "v", p->v, 16, p->tokens > 0 },
		{ "g", p->g, 16, p->tokens > 0 }, { "beta", p->beta, 4, p->tokens > 0 }, { "o", p->o, 16, p->tokens > 0 },
		{ "initial_state", p->initial_state, 16, false }, { "final_state", p->final_state, 16, false },
		{ "workspace", p->workspace, 256, p->tokens > 0 },
	};
	tilert_status s = call_check_pointers(who, pointers, sizeof pointers / sizeof pointers[0]);
	if (s == TILERT_OK)
		s = check_apart(who, p);
	if (s != TILERT_OK)
		return s;
	if (p->workspace_bytes < workspace_bytes(p))
		return call_fail(TILERT_EINVAL, "%s: workspace_bytes is %zu, but %zu are needed", who, p->workspace_bytes, workspace_bytes(p));
	return TILERT_OK;
}

/* Everything a KDA kernel may ask for; what is optional and absent has address 0. */
static CallArgs all_arguments(const tilekern_kda_params *p)
{
	const int64_t vectors[] = { p->batch, p->tokens, p->heads, DIM }, states[] = { p->batch, p->heads, DIM, DIM };
	const int64_t records[] = { chunks(p), RECORD_BYTES }, tiles[] = { chunks(p), 2, CHUNK, DIM }, last_tiles[] = { chunks(p), CHUNK, DIM };
	CallArgs a = { .n = 0 };
	call_tensor(&a, "q", p->q, TILERT_BF16, 4, vectors, NULL);
	call_tensor(&a, "k", p->k, TILERT_BF16, 4, vectors, NULL);
	call_tensor(&a, "v", p->v, TILERT_BF16, 4, vectors, NULL);
	call_tensor(&a, p->gate_dtype == TILERT_F32 ? "g" : "g16", p->g, p->gate_dtype, 4, vectors, NULL);
	call_tensor(&a, "beta", p->beta, TILERT_F32, 3, vectors, NULL);
	call_tensor(&a, "o", p->o, TILERT_BF16, 4, vectors, NULL);
	call_tensor(&a, "h0", p->initial_state, TILERT_F32, 4, states, NULL);
	call_tensor(&a, "ht", p->final_state, TILERT_F32, 4, states, NULL);
	call_tensor(&a, "rec", p->workspace, TILERT_U8, 2, records, NULL);
	call_tensor(&a, "x", p->workspace + record_bytes(p), TILERT_BF16, 4, tiles, NULL);
	call_tensor(&a, "km", p->workspace + record_bytes(p) + (size_t)chunks(p) * 2 * TILE_BYTES, TILERT_F16, 3, last_tiles, NULL);
	call_float(&a, "scale", p->scale != 0 ? (double)p->scale : 1 / sqrt(DIM));
	return a;
}

/* ---- Calls ---------------------------------------------------------------------- */

struct tilekern_kda_call { CallList list; };

/* No tokens: the final state is the initial one. */
static tilert_status prepare_state_only(tilekern_kda *kda, const tilekern_kda_params *p, tilekern_kda_call *c)
{
	if (!p->final_state)
		return TILERT_OK;
	const int64_t rows[] = { p->batch * p->heads * (DIM * DIM * 4 / 128), 32 };
	CallArgs a = { .n = 0 };
	call_tensor(&a, "ht", p->final_state, TILERT_U32, 2, rows, NULL);
	call_tensor(&a, "h0", p->initial_state, TILERT_U32, 2, rows, NULL);
	return call_add(&c->list, "tilekern_kda_prepare", p->initial_state ? kda->copy_state : kda->clear_state, &a);
}

tilert_status tilekern_kda_prepare(tilekern_kda *kda, const tilekern_kda_params *given, tilekern_kda_call **out)
{
	tilekern_kda_params p;
	if (!kda)
		return call_fail(TILERT_EINVAL, "tilekern_kda_prepare: kda is NULL");
	if (!out)
		return call_fail(TILERT_EINVAL, "tilekern_kda_prepare: out is NULL");
	tilert_status s = take("tilekern_kda_prepare", given, &p);
	if (s == TILERT_OK)
		s = check_arguments(&p);
	if (s != TILERT_OK)
		return s;
	tilekern_kda_call *c = calloc(1, sizeof *c);
	if (!c)
		return call_fail(TILERT_ENOMEM, "tilekern_kda_prepare: no memory for %zu bytes", sizeof *c);
	if (!empty(&p) && p.tokens == 0) {
		s = prepare_state_only(kda, &p, c);
	} else if (!empty(&p)) {
		CallArgs a = all_arguments(&p);
		s = call_add(&c->list, "tilekern_kda_prepare", p.gate_dtype == TILERT_F32 ? kda->k1_f32 : kda->k1_bf16, &a);
		if (s == TILERT_OK)
			s = call_add(&c->list, "tilekern_kda_prepare", kda->k2, &a);
	}
	if (s != TILERT_OK) {
		tilekern_kda_call_destroy(c);
		return s;
	}
	*out = c;
	return TILERT_OK;
}

tilert_status tilekern_kda_launch(tilekern_kda_call *c, tilert_stream stream)
{
	if (!c)
		return call_fail(TILERT_EINVAL, "tilekern_kda_launch: c is NULL");
	return call_launch(&c->list, "tilekern_kda_launch", stream);
}

void tilekern_kda_call_destroy(tilekern_kda_call *c)
{
	if (!c)
		return;
	call_clear(&c->list);
	free(c);
}

tilert_status tilekern_kda_forward(tilekern_kda *kda, const tilekern_kda_params *p, tilert_stream stream)
{
	tilekern_kda_call *c;
	tilert_status s = tilekern_kda_prepare(kda, p, &c);
	if (s != TILERT_OK)
		return s;
	s = tilekern_kda_launch(c, stream);
	tilekern_kda_call_destroy(c);
	return s;
}
