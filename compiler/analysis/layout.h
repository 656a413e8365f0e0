/* layout.h - which thread and register of a team hold element (i, j) of a fragment.
 *
 * A layout is linear over the bits of lane and warp and a table over
 * registers: element = sum of lane bases + sum of warp bases + reg[r].  A basis of
 * (0, 0) means that the bit does not matter: the element is replicated.
 */
#ifndef TILE_LAYOUT_H
#define TILE_LAYOUT_H

#include "compiler/tir/tir.h"

typedef struct Coord { int16_t row, col; } Coord; /* one-dimensional: col is 0 */

typedef struct Layout {
	int rank;             /* 1 or 2 */
	int rows, cols;
	int warp_bits;        /* 0: a single warp (or warp scope) */
	Coord lane[5], warp[5];
	int nregs;
	Coord *reg;
	bool pairs;           /* registers 2k, 2k+1 are neighbours (col, or row when rank is 1): 16-bit elements are packed */
	bool quads;           /* registers 4k .. 4k + 3 are neighbours (col): 8-bit elements are packed */
} Layout;

enum { LAYOUT_EXTENT = 4096 };

/* NULL when the shape does not fit; *why says so. */
const Layout *layout_of(Arena *a, const Form *f, int rank, const int64_t *shape, int warps, const char **why);
/* Elements of one stored register: 1, or as many as are packed. */
int layout_packs(const Layout *l, DType d);
/* Columns of a block of a layout of products: mma 8, mma8 16; of another (or NULL): 0. */
int mma_columns(const Form *f); /* NULL: 0 */
/* The register of a thread that has element (row, col) beside its first one; -1: none. */
int layout_find_reg(const Layout *l, int row, int col);

/* ---- of shared tiles: swizzle128, swizzle64, swizzle32, or linear ---- */
int64_t swizzle_bytes(const Op *shared); /* 0: linear */
int panel_rows(const Op *shared);        /* a panel has the columns of a swizzle's width */

#endif
