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

/* The states' gradients, as the states of a scan that runs from the final ones to the initial ones. */
#define GRADIENTS_STATES_OF(p, f) ((States){ .sequences = sequences_count(SEQUENCES_OF(f)), .heads = (f)->value_heads, .key_dim = (f)->key_dim, \
	.value_dim = (f)->value_dim, .dtype = TILERT_F32, .v_first = (f)->state_v_first != 0, .initial = (p)->dfinal_state, .final = (p)->dinitial_state })
/* dht [SEQS], d0; dh0 [SEQS], j0. */
void gradients_states_arguments(Args *a, const States *s);

/* A backward's dims are multiples of 8, at most `most`. */
tilert_status gradients_check_dims(const char *who, int64_t key_dim, int64_t value_dim, int64_t most);
/* What sizes of elements come from: before anything that has one. */
tilert_status gradients_check_types(const char *who, tilert_dtype dtype, tilert_dtype gate_dtype, tilert_dtype beta_dtype);
/* dout, which is needed, and the strides of all. */
tilert_status gradients_check_rows(const char *who, const Rows r[GRADIENTS]);
/* da_log and ddt_bias are those of raw gates only. */
tilert_status gradients_check_raw(const char *who, unsigned options, tilert_ptr da_log, tilert_ptr ddt_bias);

#endif
