/* lower.h - from TIR (all passes run) to code.  Only files in compiler/lower/ include LLVM. */
#ifndef TILE_LOWER_H
#define TILE_LOWER_H

#include "compiler/tir/tir.h"

typedef enum LowerTarget { LOWER_GPU, LOWER_CPU } LowerTarget;
typedef enum LowerForm {
	LOWER_LLVM,   /* LLVM IR as text, after optimisation when opt_level > 0 */
	LOWER_CODE    /* GPU: PTX text; CPU: an x86-64 ELF relocatable object */
} LowerForm;

typedef struct LowerOptions {
	LowerTarget target;
	LowerForm form;
	int opt_level;     /* 0..3 */
	bool debug;        /* cpu: not optimised, so that gdb can stop at every line; GPU: asserts are checked; all code has lines */
	bool strip;        /* cpu: no source lines */
	double *llvm_seconds, *codegen_seconds; /* may be NULL */
} LowerOptions;

typedef struct LowerResult { char *data; size_t len; } LowerResult; /* in the arena; data is NUL-terminated beyond len */

/* Errors go to t->diags. */
bool lower_module(Arena *a, const Tir *t, const LowerOptions *o, LowerResult *out);

const char *lower_llvm_version(void);

#endif
