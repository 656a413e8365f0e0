/* emit.h - the smaller outputs of tilec: modules, C headers, dependency files, explanations. */
#ifndef TILE_DRIVER_EMIT_H
#define TILE_DRIVER_EMIT_H

#include <stdbool.h>
#include <stdio.h>

#include "compiler/driver/outputs.h"
#include "compiler/driver/ptxas.h"
#include "compiler/tir/tir.h"

/* ---- host_expr.c: scalars that the host computes before a launch ---- */

/* Postfix as in runtime/abi/MODULE.md; an error at `use` and NULL when `v` is no expression of dims, scalars and sm_count. */
const char *host_postfix(Arena *a, Diags *d, const Value *v, Loc use);
/* The same as C-like text, for comments; "..." when it is none. */
const char *host_infix(Arena *a, const Value *v);
/* Element i of a tensor's extents or strides. */

/* ---- module_writer.c ---- */

typedef struct ModuleParts { /* of length 0: absent */
	const char *ptx, *cubin, *elf;
	size_t ptx_len, cubin_len, elf_len;
	const PtxasResult *resources; /* or NULL */
} ModuleParts;
/* The file of runtime/abi/MODULE.md; false after errors in t->diags. */
bool module_write(const Tir *t, const char *source_name, const ModuleParts *parts, Buffer *out);
/* Dynamic shared memory of a kernel, in bytes. */
int64_t kernel_smem(const Op *kernel);

/* ---- pack.c ---- */

/* Packs as runtime/abi/MODULE.md says; false: it gets no smaller.  columns: bytes that are 16 apart are alike, as in cubins. */
bool pack_blob(Arena *a, const void *data, size_t n, bool columns, Buffer *out);

/* ---- strip.c ---- */

/* Without source lines and comments. */
void ptx_strip(const char *ptx, Buffer *out);

/* ---- header.c ---- */

/* A C header with a struct of arguments and a launch function per kernel. */
void header_write(const Tir *t, const char *source_name, Buffer *out);

/* ---- depfile.c ---- */

/* Paths that imports were read from; some lead to what has been read by another, which is the source's name then. */
typedef struct PathList { const char **path; unsigned n, room; } PathList;
void path_list_add(Arena *a, PathList *l, const char *path);

/* "target: sources", from the sources read so far, and behind it "import:" for each import where empty_rules. */
void depfile_write(const Diags *d, const PathList *read, const char *target, bool empty_rules, Buffer *out);
/* A name among them that no such file can have, or NULL. */
const char *depfile_unsayable(const Diags *d, const PathList *read, const char *target);

/* ---- explain.c ---- */

/* The section of dsl/ERRORS.md for a slug; false when there is none. */
bool explain_print(const char *slug, FILE *out);
void explain_list(FILE *out); /* every slug */

/* What `tilec --list-ops` prints. */
void list_ops(FILE *out);

#endif
