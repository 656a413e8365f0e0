/* options.h - the command line of tilec. */
#ifndef TILE_DRIVER_OPTIONS_H
#define TILE_DRIVER_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "compiler/machine/machine.h"
#include "dsl/support/arena.h"

typedef enum EmitKind { EMIT_AST, EMIT_TIR, EMIT_LLVM, EMIT_PTX, EMIT_CUBIN, EMIT_OBJ, EMIT_MODULE, EMIT_HEADER } EmitKind;
typedef enum TargetSet { TARGETS_DEFAULT = 0, TARGETS_GPU = 1, TARGETS_CPU = 2, TARGETS_ALL = 3 } TargetSet;
typedef enum Action { ACTION_COMPILE, ACTION_HELP, ACTION_MAN, ACTION_COMPLETION, ACTION_VERSION, ACTION_EXPLAIN, ACTION_LIST_OPS } Action;
typedef enum ColorMode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } ColorMode;

typedef enum DiagFormat { FORMAT_TEXT, FORMAT_LINE, FORMAT_JSON } DiagFormat;

typedef struct Options {
	Action action;
	const char *explain;
	const char *input;       /* "-": standard input */
	const char *output;      /* "-": standard output; after options_parse never NULL */
	EmitKind emit;
	const Machine *machine;  /* whose program it is, for either target */
	TargetSet targets;       /* after options_parse never TARGETS_DEFAULT */
	int ndefines;
	const char **define;     /* "NAME=VALUE" */
	int nincludes;
	const char **include;
	bool depfile, empty_rules;
	const char *depfile_path;
	bool report;
	const char *report_path; /* after options_parse not NULL where `report` is */
	const char *passes;      /* --passes=...; NULL: all */
	const char *print_after;
	bool time_passes, verbose, debug, strip;
	bool allow_spill, allow_serialized;
	DiagFormat format;
	ColorMode color;
	int opt_level;
	const char *ptxas;
	const char *shell; /* of --completion */
} Options;

/* False after a wrong use; *error is a sentence then. */
bool options_parse(Arena *a, int argc, char **argv, Options *o, const char **error);
void options_help(FILE *out);
void options_man(const char *version, FILE *out);
bool options_completion(const char *shell, FILE *out); /* false: no shell that is known */

#endif
