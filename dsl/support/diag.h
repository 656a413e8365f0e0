/* diag.h - every message a user of tilec sees about a source file.
 *
 * Diagnostics are collected and printed as
 *
 *   file:line:col: error: text [slug]
 *      12 |   copy(r, os);
 *         |        ^~~~~
 *   file:line:col: note: ...
 *   help: ...
 *
 * A Loc names a source (index into the Sources table) and a byte range.
 */
#ifndef TILE_SUPPORT_DIAG_H
#define TILE_SUPPORT_DIAG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dsl/support/arena.h"

typedef struct Loc { uint32_t source, begin, end; } Loc; /* source 0: no place; bytes [begin, end) */

typedef struct Source {
	const char *name; /* as the user wrote it; "<stdin>" for "-" */
	const char *text; /* NUL-terminated */
	size_t len;
} Source;

/* One row per kind of message: dsl/support/diag_codes.def, DIAG(E_NAME, "slug"). */
typedef enum DiagCode {
#define DIAG(id, slug) id,
#include "dsl/support/diag_codes.def"
#undef DIAG
	DIAG_COUNT
} DiagCode;

typedef struct Diags Diags;

Diags *diags_new(Arena *a);

/* Registers a source text; returns its index (from 1). */
uint32_t diags_add_source(Diags *d, const char *name, const char *text, size_t len);
const Source *diags_source(const Diags *d, uint32_t index);
unsigned diags_source_count(const Diags *d);
/* 1-based line and column (bytes) of an offset. */
void diags_linecol(const Diags *d, Loc loc, unsigned *line, unsigned *col);

__attribute__((format(printf, 4, 5))) void diag_error(Diags *d, Loc loc, DiagCode code, const char *fmt, ...);
__attribute__((format(printf, 4, 5))) void diag_warning(Diags *d, Loc loc, DiagCode code, const char *fmt, ...);
/* Attached to the diagnostic before it. */
__attribute__((format(printf, 3, 4))) void diag_note(Diags *d, Loc loc, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void diag_help(Diags *d, const char *fmt, ...);

unsigned diags_error_count(const Diags *d);
const char *diag_slug(DiagCode code);

typedef struct DiagStyle {
	bool color;
	bool one_line; /* --diag-format=line: no excerpt, notes or help */
	unsigned limit; /* errors printed before "too many errors"; 0: all */
} DiagStyle;
/* Prints in order of appearance; identical messages at one place once. */
void diags_print(const Diags *d, FILE *out, DiagStyle style);
/* All of them, a JSON object per line: severity, code, message, notes (a list of the same without notes) and, where there is a place, file, line,
 * column, endLine and endColumn, from 1 and in bytes, the end being behind the last. */
void diags_print_json(const Diags *d, FILE *out);

/* The candidate closest to `name` by edit distance, or NULL when none is near. */
const char *nearest_name(const char *name, const char *const *candidates, unsigned n);

#endif
