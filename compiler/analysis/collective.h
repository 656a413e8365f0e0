/* collective.h - how reductions and scans go through a layout: what each level of positions costs, and the
 * shared memory where they cross warps. */
#ifndef TILE_COLLECTIVE_H
#define TILE_COLLECTIVE_H

#include "compiler/analysis/layout.h"

/* A position along an axis in mixed radix, the lowest digit first: each digit is held by registers, by one bit of the
 * lane, or by bits of the warp. */
typedef enum LevelKind { LEVEL_REGISTERS, LEVEL_LANE, LEVEL_WARPS } LevelKind;
typedef struct Level {
	LevelKind kind;
	int unit, radix; /* of the digit: position / unit % radix */
	int bit;         /* of the lane */
} Level;

enum { MAX_LEVELS = 16 };
typedef struct Levels {
	int n;
	Level level[MAX_LEVELS];
} Levels;

/* The levels of a scan that restarts every `within` positions.  False: `within` cuts a level of this layout. */
bool scan_levels(const Layout *l, int axis, int within, Levels *out);

/* Bits of the warp that move along an axis. */
unsigned warp_bits_along(const Layout *l, int axis);
int coord_along(const Layout *l, Coord c, int axis);
int extent_along(const Layout *l, int axis); /* 1 for the axis that a one-dimensional layout has not */

/* {within} of an OP_SCAN, or the axis's extent. */
int scan_within(const Op *scan, const Layout *l);

/* Bytes of shared memory that an OP_REDUCE or OP_SCAN with layouts needs, 0 when it stays in warps. */
int64_t collective_scratch(Arena *a, const Op *op);

#endif
