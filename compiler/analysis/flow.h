/* flow.h - one driver of structured dataflow: what holds before and behind each op, over loops, conditions, roles and `once`.
 *
 * An analysis hands in what a state is, how two join, and what an op does to one.  Passes that report or insert do so where
 * `quiet` is not set: while the states at the head of a loop are still growing its ops are passed over again and again. */
#ifndef TILE_ANALYSIS_FLOW_H
#define TILE_ANALYSIS_FLOW_H

#include "compiler/tir/tir.h"

typedef struct Flow Flow;
struct Flow {
	Arena *arena;
	void *user;
	size_t size;     /* of a state */
	bool backward;
	bool one_round;  /* nothing is carried from a round of a loop to the next */
	bool pure;       /* `pass` may be called more often than the program has the op: the driver saves a round of loops */
	void (*copy)(const Flow *, void *to, const void *from);    /* NULL: its bytes */
	bool (*join)(const Flow *, void *into, const void *other); /* whether `into` has grown */
	void (*pass)(Flow *, Op *, void *state);                   /* an op without regions, or one that is not entered */
	bool (*enter)(Flow *, Op *, void *state);                  /* an op with regions; false: it is passed as one.  NULL: all are entered */
	/* Behind it, or before it when backward; `before` is the state that it was entered with.  Of roles and `once`: then those who do
	 * not execute them join.  NULL: nothing. */
	void (*leave)(Flow *, Op *, const void *before, void *state);
	void (*round)(Flow *, Op *loop, const void *begin, void *end); /* of a loop: one round.  NULL: nothing */
	bool quiet;      /* the driver's: this op will be passed again */
};

void flow_run(Flow *f, Region *r, void *state);

#endif
