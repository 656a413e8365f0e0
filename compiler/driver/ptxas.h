/* ptxas.h - assembles PTX with NVIDIA's ptxas and reads its report. */
#ifndef TILE_DRIVER_PTXAS_H
#define TILE_DRIVER_PTXAS_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/tir/tir.h"

typedef struct PtxasOptions {
	const char *program; /* from ptxas_find */
	int opt_level;
	bool allow_spill, allow_serialized;
	bool strip;          /* no source lines in the cubin */
	bool verbose;        /* print the command to standard error */
} PtxasOptions;

typedef struct PtxasKernel { const char *name; int registers, smem, stack, spill_stores, spill_loads; } PtxasKernel;

typedef struct PtxasResult {
	char *cubin;
	size_t len;
	int nkernels;
	PtxasKernel *kernels;
	const char *failure; /* a sentence when it could not be run; else NULL */
} PtxasResult;

/* `option`, $TILE_PTXAS, PATH, /usr/local/cuda/bin; NULL when there is none. */
const char *ptxas_find(Arena *a, const char *option);

/* Errors of ptxas, spills and serialised wgmma groups go to t->diags, at the kernel or at the line that the PTX names.
 * False when there are any, or when r->failure is set. */
bool ptxas_assemble(Arena *a, const Tir *t, const char *ptx, size_t len, const PtxasOptions *o, PtxasResult *r);

/* The report alone: `log` is what ptxas printed for `ptx`. */
bool ptxas_read_log(Arena *a, const Tir *t, const char *ptx, const char *log, const PtxasOptions *o, PtxasResult *r);

/* The entry of a kernel, or NULL. */
const PtxasKernel *ptxas_kernel(const PtxasResult *r, const char *name);

#endif
