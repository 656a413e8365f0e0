/* pass.h - the passes over TIR and the driver that runs them in table order. */
#ifndef TILE_PASSES_PASS_H
#define TILE_PASSES_PASS_H

#include "compiler/analysis/effects.h"
#include "compiler/analysis/layout.h"

typedef enum PassId {
#define PASS(id, name, function, contract) id,
#include "compiler/passes/passes.def"
#undef PASS
	PASS_COUNT
} PassId;

typedef struct PassOptions {
	const char *print_after; /* a pass, "all", or NULL */
	FILE *print_to;          /* needed with print_after */
	const char *only;        /* "name,name"; NULL: all; order is the table's */
	bool time;
	FILE *time_to;
} PassOptions;

/* Verifies before the first pass and after each; false after errors. */
bool passes_run(Tir *t, const PassOptions *o);

/* Each reports its errors and returns false after any. */
#define PASS(id, name, function, contract) bool function(Tir *t);
#include "compiler/passes/passes.def"
#undef PASS

/* ---- shared by passes ---- */

/* The ids of all values of a kernel.  Arrays by id are as long as all kernels together: a pass has one, and clears of it what a
 * kernel touched. */
void each_id(const Region *r, void (*visit)(unsigned id, void *user), void *user);
/* Columns of one wgmma instruction of a product of n. */
int64_t wgmma_columns(const Machine *m, int64_t n);
int64_t tile_bytes(const TileRef *r); /* -1 with a run-time extent */
/* The tile whose storage a shared tile is in: itself unless declared `at`. */
const Op *shared_root(const Op *shared);
/* Bytes of one stage of it. */
int64_t shared_stage_bytes(const Op *shared);
/* The name of an object as the source has it. */
const char *object_name(const Op *object);
/* Copies the next of comma-separated names into `name`; false at the end. */
bool next_name(const char **list, char *name, size_t size);

#endif
