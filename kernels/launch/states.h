/* states.h - the states that a call starts from and those that it ends with (stages/state.tile). */
#ifndef TILE_LAUNCH_STATES_H
#define TILE_LAUNCH_STATES_H

#include "operator.h"

typedef struct States {
	int64_t sequences, heads, key_dim, value_dim;
	tilert_dtype dtype;
	bool v_first;
	tilert_ptr initial, final;
} States;
#define STATES_OF(p, count) ((States){ (count), (p)->value_heads, (p)->key_dim, (p)->value_dim, (p)->state_dtype, (p)->state_v_first != 0, \
	(p)->initial_state, (p)->final_state })

CheckDtype states_dtype(const States *s);
/* Adds theirs to the lists and returns how many these are. */
int states_pointers(const States *s, CheckPointer *out);
int states_regions(const States *s, Region *out);
enum { STATES_POINTERS = 2, STATES_REGIONS = 2 };
/* h0 or h016, ht or ht16, and the strides of their sequences, i0 and f0. */
void states_arguments(Args *a, const States *s);
/* No tokens: the final states are the initial ones. */
tilert_status states_only(Queue *q, const States *s);

#endif
