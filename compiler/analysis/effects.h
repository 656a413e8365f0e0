/* effects.h - what an op does: to which tiles and through which proxy (its row of ops.def), who does it together and
 * until when it lasts (its row of effects.def), and the few rules that depend on attributes. */
#ifndef TILE_ANALYSIS_EFFECTS_H
#define TILE_ANALYSIS_EFFECTS_H

#include "compiler/tir/tir.h"

/* What waits for the end of what an op does. */
typedef enum Until {
	UNTIL_PASSED,   /* nothing: behind the op it is over */
	UNTIL_PRODUCTS, /* wgmma_wait, for groups */
	UNTIL_STORES,   /* store_wait, for groups */
	UNTIL_COPIES,   /* cp_async_wait, for groups */
	UNTIL_PHASE     /* a wait for the phase of the op's mbarrier */
} Until;

typedef struct Effect {
	int operand;
	TileRef tile;
	bool reads, writes;
	bool async; /* through the async proxy: a tile in shared memory of TMA, bulk copies, warpgroups' products */
	bool kills; /* writes all elements of the operand, whatever they were */
	Until until;
} Effect;

enum { MAX_EFFECTS = 3 };
/* The op's own, not of what is in its regions; in the order of the operands. */
int op_effects(const Op *op, Effect out[MAX_EFFECTS]);

/* What waits for the end of the op; which end it waits for itself; of which kind it closes a group.
 * UNTIL_PASSED: none. */
Until op_lasts(const Op *op);
Until op_awaits(const Op *op);
Until op_closes(const Op *op);
/* What was written before it is seen by others behind it: arrivals and barriers. */
bool op_releases(const Op *op);

/* The smallest group of threads that must reach an op together. */
typedef enum Doer { EACH_THREAD, WHOLE_WARP, WHOLE_TEAM, WHOLE_CLUSTER } Doer;
typedef struct Doing {
	Doer doer;
	bool alone;       /* it may also stand in `once`, as a single thread does it */
	const char *what; /* messages call it; NULL: they are about an op beside it */
} Doing;
Doing op_doing(const Op *op);

/* What a kernel does with a tensor.  exchanged: its accesses have to be ordered, as it writes it, or has reads beside atomics (TMA's additions among them), or a
 * fence orders something by them. */
typedef struct TensorUse { bool written, exchanged; } TensorUse;
/* By the numbers of tensors, of which there are `numbers`. */
TensorUse *tensor_uses(Arena *a, const Op *kernel, unsigned numbers);

/* Whether a product is done by warpgroups; before `select` everything that is not of one warp counts. */
bool mma_is_wgmma(const Op *mma);

#endif
