/* pool.h - the states of a call of any operator: pools, indices, checkpoints; laid out, uploaded, and read back with everything between them. */
#ifndef TILE_TESTS_POOL_H
#define TILE_TESTS_POOL_H

#include "tests/numeric/kernels/tensors.h"

typedef enum PoolCheckpoints { POOL_NO_CHECKPOINTS, POOL_AT_OFFSETS, POOL_EVERY_64, POOL_EVERY_192 } PoolCheckpoints;

/* How states lie: without `slots` sequence n has slot n of dense ones. */
typedef struct PoolSpec {
	bool slots;               /* indices in another order, gaps between slots and slots that nobody has */
	bool outputs;             /* final states go to slots of their own */
	bool in_place;            /* the same memory for both */
	bool nulls;               /* some sequences have none: null slot 0, which vLLM has, negative indices, or beyond the pool */
	bool has;                 /* some sequences start from zeros, whatever is in their slots */
	bool i64;                 /* indices */
	PoolCheckpoints checkpoints;
	bool checkpoint_slots;    /* rows have slots */
	bool checkpoint_16;       /* of the states' type, not f32 */
} PoolSpec;
PoolSpec pool_random(Random *r);

/* Fields of a forward's parameters, by the same names in all operators. */
typedef struct PoolFields {
	tilert_ptr *initial_state, *final_state, *has_initial_state, *state_indices, *output_indices, *checkpoint_state, *checkpoint_offsets, *checkpoint_starts,
		*checkpoint_indices;
	tilert_dtype *state_dtype, *checkpoint_dtype, *indices_dtype;
	int64_t *state_slots, *state_stride, *null_slot, *checkpoint_slots, *checkpoint_stride, *checkpoint_every;
	int *state_v_first;
} PoolFields;
#define POOL_FIELDS(p) { .initial_state = &(p)->initial_state, .final_state = &(p)->final_state, .has_initial_state = &(p)->has_initial_state, \
	.state_indices = &(p)->state_indices, .output_indices = &(p)->output_indices, .checkpoint_state = &(p)->checkpoint_state, \
	.checkpoint_offsets = &(p)->checkpoint_offsets, .checkpoint_starts = &(p)->checkpoint_starts, .checkpoint_indices = &(p)->checkpoint_indices, \
	.state_dtype = &(p)->state_dtype, .checkpoint_dtype = &(p)->checkpoint_dtype, .indices_dtype = &(p)->indices_dtype, .state_slots = &(p)->state_slots, \
	.state_stride = &(p)->state_stride, .null_slot = &(p)->null_slot, .checkpoint_slots = &(p)->checkpoint_slots, \
	.checkpoint_stride = &(p)->checkpoint_stride, .checkpoint_every = &(p)->checkpoint_every, .state_v_first = &(p)->state_v_first }

typedef struct Pool {
	PoolSpec spec;            /* this and the next lines: the caller's */
	PoolFields field;
	int64_t sequences, heads, key_dim, value_dim;
	const int64_t *offsets;   /* [sequences + 1] tokens of all rows */
	tilert_dtype type;
	bool v_first, strided, offsets_i64, initial, final;
	float *start;             /* [sequences][heads][key_dim][value_dim], with `initial`; becomes what the sequences start from */
	int64_t slots, stride;    /* of h0 and ht, in elements */
	int64_t *from, *to;       /* slots of the sequences; negative: none */
	int64_t *reached;         /* the first row of checkpoints of each sequence, and how many there are */
	Buffer h0, ht, index, outdex, has, stops, starts, rows, checkpoints;
} Pool;

/* Buffers and fields. */
void pool_make(Pool *p, uint64_t seed);
void pool_free(Pool *p);
/* What a call writes becomes NaN; states in place are what they were. */
void pool_poison(Pool *p);
int64_t pool_state(const Pool *p); /* elements of the states of a sequence */
/* As floats, [sequences][heads][key_dim][value_dim], zero where a sequence has no slot; NULL without a final state.  Fails when anything else
 * of the pool was written. */
float *pool_final(Pool *p);
/* As floats, [rows][heads][key_dim][value_dim], zero where nothing is to be stored; fails when something was. */
float *pool_checkpoints(Pool *p);
/* Where the checkpoints of a sequence are: after (i + 1) x every tokens, or at one offset; the row; false: there is no i-th. */
bool pool_checkpoint(const Pool *p, int64_t sequence, int64_t i, int64_t *tokens, int64_t *row);
int64_t pool_checkpoint_rows(const Pool *p);

#endif
