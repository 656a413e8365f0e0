/* registers.h - where a thread's part of a layout begins. */
#ifndef TILE_LOWER_REGISTERS_H
#define TILE_LOWER_REGISTERS_H

#include "compiler/lower/context.h"

/* Row and column of register 0's origin: the lane and warp parts of the layout. */
void layout_base(Lower *L, const Layout *l, V lane, V warp, V *row, V *col);
/* In the threads that hold the first copy of their elements; NULL where there are no others. */
V first_copy(Lower *L, const Layout *l);

#endif
