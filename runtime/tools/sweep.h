/* sweep.h - one run for each combination of values of compile-time parameters. */
#ifndef TILE_TOOLS_SWEEP_H
#define TILE_TOOLS_SWEEP_H

#include "runtime/tools/options.h"

/* Runs `one`, which gives milliseconds or ends the program, in a process of its own for each combination of o->sweeps; prints a table, the fastest
 * last.  True when one at least ran. */
bool sweep(const Options *o, double (*one)(const Options *o));

#endif
