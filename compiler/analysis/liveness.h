/* liveness.h - the registers that a team has, and those that its fragments need at least. */
#ifndef TILE_LIVENESS_H
#define TILE_LIVENESS_H

#include "compiler/tir/tir.h"

enum { PRESSURE_LARGEST = 3 };

/* Where the most registers of fragments are live: how many a thread, and the largest fragments there (NULL: fewer). */
typedef struct Pressure {
	int64_t registers;
	const Op *largest[PRESSURE_LARGEST];
} Pressure;

/* Needs layouts.  A fragment lives from where all of it is written to its last use; in loops, around the loop. */
Pressure fragment_pressure(const Tir *t, const Op *team);
int64_t fragment_registers(const Tir *t, const Op *frag, const Op *team);

/* Registers of a thread when the kernel starts, and those of a team's. */
int64_t launch_registers(const Machine *m, const Op *kernel);
int64_t team_registers(const Machine *m, const Op *team);

#endif
