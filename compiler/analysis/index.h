/* index.h - what the compiler can say about index values: affine form over loop indices, divisibility. */
#ifndef TILE_INDEX_H
#define TILE_INDEX_H

#include "compiler/tir/tir.h"

/* Values that are made of one another twice at each step have as many paths as 2 to the number of steps: so many are looked at. */
enum { MOST_VALUES = 4096 };

/* Of what a program says, which may be any numbers. */
static inline int64_t wrapped_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t wrapped_difference(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t wrapped_product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* v = loop argument `arg` (0 or 1) of `loop` + offset, or no argument (-1) + offset. */
typedef struct LoopIndex { bool known; int arg; int64_t offset; } LoopIndex;
LoopIndex loop_index(const Region *loop, const Value *v);
/* Whether v is computed from argument `arg` of the loop in any way, or by what gives another value each time. */
bool depends_on_arg(const Region *loop, const Value *v, int arg);
/* From an element of a tile that the loop reads. */
bool depends_on_tile(const Region *loop, const Value *v, const Op *tile);
/* v grows by one with argument arg, at least within aligned runs of value_divisor(loop, v, arg). */
bool unit_in_arg(const Region *loop, const Value *v, int arg);
/* The largest power of two (at most 4096) known to divide v, with loop arguments counted as zero when `zero_arg` is theirs. */
int64_t value_divisor(const Region *loop, const Value *v, int zero_arg);
/* v modulo m, a power of two, where that is known.  Unlike value_divisor it follows the counters of loops: vectors as wide as that would allow take registers that kernels
 * do not have (forward.tile). */
bool value_residue(const Value *v, int64_t m, int64_t *r);

/* The largest power of two such that v is the same for all values of arg in an aligned run of that length. */
int64_t constant_run(const Region *loop, const Value *v, int arg);

/* Whether v is computed from dims, block and thread numbers, loop counters and small constants alone, which is taken not to overflow;
 * looks `depth` operations deep. */
bool index_arithmetic(const Value *v, int depth);
/* From dims, gridDim and small constants alone, which is taken not to be 0 as a divisor. */
bool extent_arithmetic(const Value *v, int depth);

#endif
