/* elaborate.h - from syntax trees to TIR: names, types, constants, views and calls resolved. */
#ifndef TILE_ELABORATE_H
#define TILE_ELABORATE_H

#include "compiler/tir/tir.h"
#include "dsl/ast.h"

typedef struct ElabOptions {
	const Machine *machine;
	const char *const *defines; /* "NAME=value" */
	int ndefines;
	const char *const *include_dirs;
	int ninclude_dirs;
	/* Returns the text of a file (kept by the caller's arena) or NULL; for imports.  *why: unless there is no such file. */
	char *(*read_file)(void *user, const char *path, size_t *len, const char **why);
	/* Whether two paths lead to one file; NULL: it is not known. */
	bool (*same_file)(const char *a, const char *b);
	void *user;
} ElabOptions;

/* NULL after errors, which are in d. */
Tir *elaborate(Arena *a, Diags *d, const Ast *main, const char *main_path, const ElabOptions *o);

#endif
