/* effects.h - what an op does to tiles: from its row of ops.def, and the few rules that depend on attributes. */
#ifndef TILE_ANALYSIS_EFFECTS_H
#define TILE_ANALYSIS_EFFECTS_H

#include "compiler/tir/tir.h"

typedef struct Effect {
	int operand;
	TileRef tile;
	bool reads, writes;
	bool async; /* through the async proxy: a tile in shared memory of TMA, bulk copies, warpgroups' products */
	bool kills; /* writes all elements of the operand, whatever they were */
} Effect;

enum { MAX_EFFECTS = 3 };
/* The op's own, not of what is in its regions; in the order of the operands. */
int op_effects(const Op *op, Effect out[MAX_EFFECTS]);

/* Whether a kernel's accesses to a tensor have to be ordered: it reads and writes it, or has atomics beside these (TMA's additions among them),
 * or atomics that pass on what a fence has ordered. */
bool tensor_is_exchanged(const Op *kernel, const Op *tensor);

/* Whether a product is done by warpgroups; before `select` everything that is not of one warp counts. */
bool mma_is_wgmma(const Op *mma);
/* What was written before it is seen by others behind it: arrivals and barriers. */
bool op_releases(const Op *op);

#endif
