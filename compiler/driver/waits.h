/* waits.h - what ptxas left in front of the waits for products. */
#ifndef TILE_DRIVER_WAITS_H
#define TILE_DRIVER_WAITS_H

#include <stdio.h>

#include "dsl/support/arena.h"

/* A line to `out` for each wgmma_wait that arithmetic stands before: how much of it, and whether the machine code still has it there.
 * Needs nvdisasm ($TILE_NVDISASM, PATH, /usr/local/cuda/bin); without it the line says so. */
void waits_report(Arena *a, const char *ptx, const void *cubin, size_t len, FILE *out);

#endif
