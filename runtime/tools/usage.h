/* usage.h - the table of a program's options as help, as a manual page and as completion for shells. */
#ifndef TILE_TOOLS_USAGE_H
#define TILE_TOOLS_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct UsageOption {
	const char *name;  /* "--emit=", "-D", "--kernel" */
	const char *value; /* NULL: none */
	const char *help;  /* lines */
} UsageOption;

typedef struct Usage {
	const char *program, *summary, *synopsis; /* "tilec", "compiles ...", "[options] FILE" */
	const char *text;                         /* before the options: paragraphs and lines */
	const char *exits;                        /* what the exit status says */
	const char *files;                        /* suffixes of its input, for completion: "tile tir" */
	const UsageOption *options;
	size_t n;
} Usage;

void usage_help(const Usage *u, FILE *out);
void usage_man(const Usage *u, const char *version, FILE *out);
/* Completion for bash, zsh or fish; false: another shell. */
bool usage_completion(const Usage *u, const char *shell, FILE *out);

#endif
