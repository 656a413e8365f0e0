/* states.h - the states that a call starts from, those that it ends with, and those on the way (stages/state.tile; tilekern/call.h has the rules). */
#ifndef TILE_LAUNCH_STATES_H
#define TILE_LAUNCH_STATES_H

#include "operator.h"
#include "sequences.h"

typedef struct States {
	int64_t sequences, heads, key_dim, value_dim;
	tilert_dtype dtype, checkpoint_dtype, seqlens_dtype, indices_dtype;
	bool v_first;
	tilert_ptr initial, final;
	int64_t stride, slots;
	tilert_ptr indices, outputs;
	int64_t null_slot;
	tilert_ptr has;
	tilert_ptr checkpoint;
	int64_t checkpoint_stride, checkpoint_slots;
	tilert_ptr offsets;
	int64_t every;
	tilert_ptr starts, rows; /* rows: their slots */
} States;
#define STATES_OF(p) ((States){ sequences_count(SEQUENCES_OF(p)), (p)->value_heads, (p)->key_dim, (p)->value_dim, (p)->state_dtype, (p)->checkpoint_dtype, \
	(p)->seqlens_dtype, (p)->indices_dtype, (p)->state_v_first != 0, (p)->initial_state, (p)->final_state, (p)->state_stride, (p)->state_slots, \
	(p)->state_indices, (p)->output_indices, (p)->null_slot, (p)->has_initial_state, (p)->checkpoint_state, (p)->checkpoint_stride, \
	(p)->checkpoint_slots, (p)->checkpoint_offsets, (p)->checkpoint_every, (p)->checkpoint_starts, (p)->checkpoint_indices })

/* All of them but for what overlaps. */
tilert_status states_check(const char *who, const States *s);
/* One region where they are one pool. */
enum { STATES_REGIONS = 3 + 6 };
void states_regions(const States *s, Region out[STATES_REGIONS]);
/* What is written may be in the memory of initial states. */
bool states_in_place(const States *s);

/*
 * For kernels, by type f32, bf16, f16 and with far strides of 64 bits:
 *   initial      h0, h016, h0f16 [SLOTS0], i0; index0, has
 *   final        ht, ht16, htf16 [SLOTST], f0; indext
 *   initial, final [SEQS][heads] of rows as they lie, by the caller's type, for kernels that take no indices
 *   checkpoints  hc, hc16, hcf16 [SLOTSC], c0; indexc [ROWSC]; stops, rows, every
 * and `null`.
 */
void states_arguments(Args *a, const States *s, tilert_ptr hold); /* hold: 0, or where states_hold left the initial states */
/* No tokens: the final states are the initial ones. */
tilert_status states_only(Queue *q, const States *s);
/* The initial states, f32, one after the other, to `hold`: for kernels that read them when others may have stored final ones in their place. */
tilert_status states_hold(Queue *q, const States *s, tilert_ptr hold);

#endif
