/* forward.h - what the forwards of all operators have by the same names: tensors of tokens, dtypes, addresses. */
#ifndef TILE_LAUNCH_FORWARD_H
#define TILE_LAUNCH_FORWARD_H

#include "states.h"

enum { Q, K, V, O, G, BETA, FORWARD_ROWS };
/* Of a call p; gates have `width` numbers a token and head, and strides that are multiples of `step`. */
#define FORWARD_ROWS_OF(p, width, step) \
	[Q] = { "q", (p)->q, (p)->dtype, (p)->batch, (p)->tokens, (p)->qk_heads, (p)->key_dim, (p)->q_strides, 8, false }, \
	[K] = { "k", (p)->k, (p)->dtype, (p)->batch, (p)->tokens, (p)->qk_heads, (p)->key_dim, (p)->k_strides, 8, false }, \
	[V] = { "v", (p)->v, (p)->dtype, (p)->batch, (p)->tokens, (p)->value_heads, (p)->value_dim, (p)->v_strides, 8, false }, \
	[O] = { "o", (p)->o, (p)->dtype, (p)->batch, (p)->tokens, (p)->value_heads, (p)->value_dim, (p)->o_strides, 8, true }, \
	[G] = { "g", (p)->g, (p)->gate_dtype, (p)->batch, (p)->tokens, (p)->value_heads, width, (p)->g_strides, step, false }, \
	[BETA] = { "beta", (p)->beta, (p)->beta_dtype, (p)->batch, (p)->tokens, (p)->value_heads, 1, (p)->beta_strides, 1, false }

#define FORWARD_DTYPES(p) \
	{ "dtype", (p)->dtype, 2, { TILERT_BF16, TILERT_F16 } }, sequences_dtype(SEQUENCES_OF(p)), \
	{ "gate_dtype", (p)->gate_dtype, 3, { TILERT_F32, TILERT_BF16, TILERT_F16 } }, { "beta_dtype", (p)->beta_dtype, 3, { TILERT_F32, TILERT_BF16, TILERT_F16 } }, \
	{ "a_log_dtype", (p)->a_log_dtype, 3, { TILERT_F32, TILERT_BF16, TILERT_F16 } }, \
	{ "dt_bias_dtype", (p)->dt_bias_dtype, 3, { TILERT_F32, TILERT_BF16, TILERT_F16 } }

/* gate, bias: what g and dt_bias begin at multiples of; rates: a_log is needed; space: so is a workspace. */
#define FORWARD_POINTERS(p, gate, bias, rates, space) \
	{ "q", (p)->q, 16, (p)->tokens > 0 }, { "k", (p)->k, 16, (p)->tokens > 0 }, { "v", (p)->v, 16, (p)->tokens > 0 }, { "g", (p)->g, gate, (p)->tokens > 0 }, \
	{ "beta", (p)->beta, (unsigned)tilert_dtype_size((p)->beta_dtype), (p)->tokens > 0 }, { "o", (p)->o, 16, (p)->tokens > 0 }, \
	{ "a_log", (p)->a_log, 16, rates }, { "dt_bias", (p)->dt_bias, bias, false }, { "workspace", (p)->workspace, WORKSPACE_ALIGN, space }, \
	sequences_pointer(SEQUENCES_OF(p))

/* biases: elements of dt_bias. */
#define FORWARD_REGIONS(p, biases) \
	{ "workspace", (p)->workspace, (p)->tokens > 0 ? region_bytes((p)->workspace_bytes) : 0, 0, 0, true }, \
	{ "a_log", (p)->a_log, (p)->value_heads * (int64_t)tilert_dtype_size((p)->a_log_dtype), 0, 0, false }, \
	{ "dt_bias", (p)->dt_bias, (biases) * (int64_t)tilert_dtype_size((p)->dt_bias_dtype), 0, 0, false }, sequences_region(SEQUENCES_OF(p))

#endif
