/* gradients.h - what the backwards of all operators have: the gradients of tokens, those of states, rows behind the last sequence. */
#ifndef TILE_LAUNCH_GRADIENTS_H
#define TILE_LAUNCH_GRADIENTS_H

#include "states.h"

enum { DOUT, DQ, DK, DV, DG, DBETA, GRADIENTS };
/* Of a call p with the forward f; gates have `width` numbers a token and head, and strides that are multiples of `unit`. */
#define GRADIENTS_OF(p, f, width, unit) { \
	[DOUT] = { "dout", (p)->dout, (f)->dtype, (f)->batch, (f)->tokens, (f)->value_heads, (f)->value_dim, (p)->dout_strides, 8, false }, \
	[DQ] = { "dq", (p)->dq, (f)->dtype, (f)->batch, (f)->tokens, (f)->qk_heads, (f)->key_dim, (p)->dq_strides, 8, true }, \
	[DK] = { "dk", (p)->dk, (f)->dtype, (f)->batch, (f)->tokens, (f)->qk_heads, (f)->key_dim, (p)->dk_strides, 8, true }, \
	[DV] = { "dv", (p)->dv, (f)->dtype, (f)->batch, (f)->tokens, (f)->value_heads, (f)->value_dim, (p)->dv_strides, 8, true }, \
	[DG] = { "dg", (p)->dg, (f)->gate_dtype, (f)->batch, (f)->tokens, (f)->value_heads, width, (p)->dg_strides, unit, true }, \
	[DBETA] = { "dbeta", (p)->dbeta, (f)->beta_dtype, (f)->batch, (f)->tokens, (f)->value_heads, 1, (p)->dbeta_strides, 1, true } }
/* Zeros into the rows behind the last of packed sequences. */
tilert_status gradients_clear(Queue *q, Sequences s, const Rows r[GRADIENTS]);
/* Of a call of no tokens or no sequences: the gradient of the states passes through; zeros into all rows, and into the gradients of a_log and dt_bias, [value heads] and [value heads][width], which are sums of
 * none. */
tilert_status gradients_of_none(Queue *q, Sequences s, const Rows r[GRADIENTS], const States *ends, tilert_ptr da_log, tilert_ptr ddt_bias, int64_t width);

/* In fp16 gradients between the kernels are times powers of two (stages/power.tile): bytes of workspace for these, 0 where the dtype is another; `powers`, for the kernels. */
int64_t gradients_powers_bytes(Sequences s, tilert_dtype dtype, int64_t value_heads);
void gradients_powers_arguments(Args *a, Sequences s, int64_t value_heads, tilert_ptr powers);
/* The kernels that make them, before all others, of dout and of the final states' gradients (GRADIENTS_STATES_OF), and the one that takes them out of dv again, behind all that read it.
 * They do nothing where the dtype is another. */
tilert_status gradients_make_powers(Queue *q, Sequences s, const Rows *dout, const States *ends, int64_t qk_heads, tilert_ptr powers);
tilert_status gradients_scale_back(Queue *q, Sequences s, const Rows *dv, tilert_ptr powers);

/* The states' gradients, as the states of a scan that runs from the final ones to the initial ones. */
#define GRADIENTS_STATES_OF(p, f) ((States){ .sequences = sequences_count(SEQUENCES_OF(f)), .heads = (f)->value_heads, .key_dim = (f)->key_dim, \
	.value_dim = (f)->value_dim, .dtype = TILERT_F32, .v_first = (f)->state_v_first != 0, .initial = (p)->dfinal_state, .final = (p)->dinitial_state })
/* dht [SEQS], d0; dh0 [SEQS], j0. */
void gradients_states_arguments(Args *a, const States *s);

/* A backward's dims are multiples of 8, at most `most`. */
tilert_status gradients_check_dims(const char *who, int64_t key_dim, int64_t value_dim, int64_t most);
/* What sizes of elements come from: before anything that has one. */
tilert_status gradients_check_types(const char *who, Sequences s, tilert_dtype dtype, tilert_dtype gate_dtype, tilert_dtype beta_dtype);
/* Addresses, and memory but for tensors of tokens and states, of a call p with the forward f; gate, bias: what dg and ddt_bias begin at multiples of; biases: elements of dt_bias. */
#define GRADIENTS_POINTERS(p, f, gate, bias) { "dfinal_state", (p)->dfinal_state, 16, false }, { "dq", (p)->dq, 16, false }, { "dk", (p)->dk, 16, false }, \
	{ "dv", (p)->dv, 16, false }, { "dg", (p)->dg, gate, false }, { "dbeta", (p)->dbeta, (unsigned)tilert_dtype_size((f)->beta_dtype), false }, \
	{ "da_log", (p)->da_log, 16, false }, { "ddt_bias", (p)->ddt_bias, bias, false }, { "dinitial_state", (p)->dinitial_state, 16, false }, \
	{ "workspace", (p)->workspace, WORKSPACE_ALIGN, sequences_have_tokens(SEQUENCES_OF(f)) }, sequences_pointer(SEQUENCES_OF(f))
#define GRADIENTS_REGIONS(p, f, states, biases) { "workspace", (p)->workspace, (f)->tokens > 0 ? region_bytes((p)->workspace_bytes) : 0, 0, 0, true }, \
	{ "a_log", (f)->a_log, (f)->value_heads * (int64_t)tilert_dtype_size((f)->a_log_dtype), 0, 0, false }, \
	{ "dt_bias", (f)->dt_bias, (biases) * (int64_t)tilert_dtype_size((f)->dt_bias_dtype), 0, 0, false }, sequences_region(SEQUENCES_OF(f)), \
	{ "dfinal_state", (p)->dfinal_state, states, 0, 0, false }, { "dinitial_state", (p)->dinitial_state, states, 0, 0, true }, \
	{ "da_log", (p)->da_log, (f)->value_heads * 4, 0, 0, true }, { "ddt_bias", (p)->ddt_bias, (biases) * 4, 0, 0, true }
int64_t gradients_states_bytes(const States *s);

/* What a backward adds to its forward. */
typedef struct GradientsCheck {
	const Rows *gradients, *inputs; /* [GRADIENTS]; the forward's */
	int input_count;
	const States *states;           /* the forward's */
	const CheckPointer *pointers;
	size_t pointer_count;
	const Region *regions;          /* but for those of all these */
	size_t region_count;
} GradientsCheck;
/* dout is there, strides, addresses; kernels read inputs again when others have written: what is written overlaps nothing. */
tilert_status gradients_check(const char *who, const GradientsCheck *c);
/* da_log and ddt_bias are those of raw gates only. */
tilert_status gradients_check_raw(const char *who, unsigned options, tilert_ptr da_log, tilert_ptr ddt_bias);

#endif
