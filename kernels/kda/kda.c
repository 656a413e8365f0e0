/* kda.c - what the KDA forward has of its own: which calls are served, and the kernels that make one: kda_k1 (per chunk, parallel) writes records
 * and tiles into the workspace, kda_k2 (per sequence and head) carries the state over the chunks. */
#include <tilekern/kda.h>

#include <math.h>
#include <stddef.h>

#include "../launch/error.h"
#include "../launch/operator.h"
#include "modules.h" /* generated: the modules as arrays */

enum { DIM = 128, CHUNK = 64, RECORD_BYTES = 12800, TILE_BYTES = CHUNK * DIM * 2 };

enum { k1, k2 };
enum { none, f32, bf16 };
enum { any };

static const Variant variants[] = {
#define VARIANT(kernel, type, keys, form, ...) { { kernel, type, keys, form }, "kda_" #kernel, tilekern_kda_##kernel##_##type##_##keys##_##form, \
	&tilekern_kda_##kernel##_##type##_##keys##_##form##_bytes },
#include "variants.def"
#undef VARIANT
};

/* ---- Checks ----------------------------------------------------------------------- */

static int64_t chunks(const tilekern_kda_params *p)
{
	return p->batch * (p->tokens / CHUNK + (p->tokens % CHUNK != 0)) * p->heads;
}

static size_t record_bytes(const tilekern_kda_params *p)
{
	return ((size_t)chunks(p) * RECORD_BYTES + 255) / 256 * 256;
}

static size_t workspace(const void *p, int sm_count)
{
	(void)sm_count;
	return record_bytes(p) + (size_t)chunks(p) * 3 * TILE_BYTES;
}

static bool idle(const void *params)
{
	const tilekern_kda_params *p = params;
	return p->batch == 0 || p->heads == 0;
}

static tilert_status extents(const char *who, const void *params)
{
	const tilekern_kda_params *p = params;
	const CheckExtent extents[] = { { "batch", p->batch, 0, INT32_MAX }, { "tokens", p->tokens, 0, INT32_MAX }, { "heads", p->heads, 0, INT32_MAX } };
	tilert_status s = check_extents(who, extents, sizeof extents / sizeof extents[0]);
	if (s != TILERT_OK)
		return s;
	if (p->key_dim != DIM)
		return launch_fail(TILERT_EINVAL, "%s: key_dim is %lld; only %d is served", who, (long long)p->key_dim, DIM);
	if (p->value_dim != DIM)
		return launch_fail(TILERT_EINVAL, "%s: value_dim is %lld; only %d is served", who, (long long)p->value_dim, DIM);
	/* Chunks are numbered in 32 bits, and the grid's x axis has 2^31 - 1 blocks. */
	int64_t per_sequence = (p->tokens / CHUNK + 1) * p->heads;
	if (p->heads > 0 && p->batch > 0 && (per_sequence > INT32_MAX || p->batch > INT32_MAX / per_sequence))
		return launch_fail(TILERT_EINVAL, "%s: batch x tokens / %d x heads is %lld x %lld x %lld chunks, more than %d", who, CHUNK, (long long)p->batch,
			(long long)(p->tokens / CHUNK + 1), (long long)p->heads, INT32_MAX);
	return TILERT_OK;
}

static tilert_status check_regions(const char *who, const tilekern_kda_params *p)
{
	const int64_t rows = p->batch * p->tokens * p->heads, state = p->batch * p->heads * DIM * DIM * 4;
	const Region r[] = {
		{ "q", p->q, rows * DIM * 2, 0, 0, false }, { "k", p->k, rows * DIM * 2, 0, 0, false }, { "v", p->v, rows * DIM * 2, 0, 0, false },
		{ "g", p->g, rows * DIM * (int64_t)tilert_dtype_size(p->gate_dtype), 0, 0, false }, { "beta", p->beta, rows * 4, 0, 0, false },
		{ "o", p->o, rows * DIM * 2, 0, 0, true }, { "initial_state", p->initial_state, state, 0, 0, false },
		{ "final_state", p->final_state, state, 0, 0, true },
		{ "workspace", p->workspace, p->tokens > 0 ? (int64_t)p->workspace_bytes : 0, 0, 0, true },
	};
	return check_apart(who, r, sizeof r / sizeof r[0]);
}

/* Everything but what tilert_prepare checks. */
static tilert_status check(const char *who, const void *params)
{
	const tilekern_kda_params *p = params;
	const CheckDtype gate = { "gate_dtype", p->gate_dtype, 2, { TILERT_F32, TILERT_BF16 } };
	const CheckPointer pointers[] = {
		{ "q", p->q, 16, p->tokens > 0 }, { "k", p->k, 16, p->tokens > 0 }, { "v", p->v, 16, p->tokens > 0 },
		{ "g", p->g, 16, p->tokens > 0 }, { "beta", p->beta, 4, p->tokens > 0 }, { "o", p->o, 16, p->tokens > 0 },
		{ "initial_state", p->initial_state, 16, false }, { "final_state", p->final_state, 16, false },
		{ "workspace", p->workspace, 256, p->tokens > 0 },
	};
	if (idle(p))
		return TILERT_OK;
	tilert_status s = check_dtypes(who, &gate, 1);
	if (s == TILERT_OK && !isfinite(p->scale))
		s = launch_fail(TILERT_EINVAL, "%s: scale is %g", who, (double)p->scale);
	if (s == TILERT_OK)
		s = check_pointers(who, pointers, sizeof pointers / sizeof pointers[0]);
	return s == TILERT_OK ? check_regions(who, p) : s;
}

/* ---- Calls ---------------------------------------------------------------------- */

static Args all_arguments(const tilekern_kda_params *p)
{
	const int64_t vectors[] = { p->batch, p->tokens, p->heads, DIM }, states[] = { p->batch, p->heads, DIM, DIM };
	const int64_t records[] = { chunks(p), RECORD_BYTES }, tiles[] = { chunks(p), 2, CHUNK, DIM }, last_tiles[] = { chunks(p), CHUNK, DIM };
	Args a = { .n = 0 };
	args_tensor(&a, "q", p->q, TILERT_BF16, 4, vectors, NULL);
	args_tensor(&a, "k", p->k, TILERT_BF16, 4, vectors, NULL);
	args_tensor(&a, "v", p->v, TILERT_BF16, 4, vectors, NULL);
	args_tensor(&a, p->gate_dtype == TILERT_F32 ? "g" : "g16", p->g, p->gate_dtype, 4, vectors, NULL);
	args_tensor(&a, "beta", p->beta, TILERT_F32, 3, vectors, NULL);
	args_tensor(&a, "o", p->o, TILERT_BF16, 4, vectors, NULL);
	args_tensor(&a, "h0", p->initial_state, TILERT_F32, 4, states, NULL);
	args_tensor(&a, "ht", p->final_state, TILERT_F32, 4, states, NULL);
	args_tensor(&a, "rec", p->workspace, TILERT_U8, 2, records, NULL);
	args_tensor(&a, "x", p->workspace + record_bytes(p), TILERT_BF16, 4, tiles, NULL);
	args_tensor(&a, "km", p->workspace + record_bytes(p) + (size_t)chunks(p) * 2 * TILE_BYTES, TILERT_F16, 3, last_tiles, NULL);
	args_float(&a, "scale", p->scale != 0 ? (double)p->scale : 1 / sqrt(DIM));
	return a;
}

/* No tokens: the final state is the initial one. */
static tilert_status state_only(Queue *q, const tilekern_kda_params *p)
{
	if (!p->final_state)
		return TILERT_OK;
	const int64_t rows[] = { p->batch * p->heads * (DIM * DIM * 4 / 128), 32 };
	Args a = { .n = 0 };
	args_tensor(&a, "ht", p->final_state, TILERT_U32, 2, rows, NULL);
	args_tensor(&a, "h0", p->initial_state, TILERT_U32, 2, rows, NULL);
	return queue_shared(q, p->initial_state ? COPY_STATE : CLEAR_STATE, &a);
}

static tilert_status queue(Queue *q, const void *params, int sm_count)
{
	const tilekern_kda_params *p = params;
	(void)sm_count;
	if (p->tokens == 0)
		return state_only(q, p);
	const Args a = all_arguments(p);
	tilert_status s = queue_kernel(q, (int[AXES]){ k1, p->gate_dtype == TILERT_F32 ? f32 : bf16, DIM, any }, &a);
	return s == TILERT_OK ? queue_kernel(q, (int[AXES]){ k2, none, DIM, any }, &a) : s;
}

static const tilekern_kda_params defaults = TILEKERN_KDA_PARAMS_INIT;
static const Family family = {
	.name = "tilekern_kda", .defaults = &defaults, .size = sizeof defaults,
	.first = offsetof(tilekern_kda_params, workspace_bytes) + sizeof(size_t), .workspace_bytes = offsetof(tilekern_kda_params, workspace_bytes),
	.variants = variants, .variant_count = sizeof variants / sizeof variants[0],
	.extents = extents, .check = check, .idle = idle, .workspace = workspace, .queue = queue,
};

OPERATOR_FUNCTIONS(kda, &family);
