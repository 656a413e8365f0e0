/* option.h - a table of a program's options: what reads a command line by it, and prints it as help, manual page and completion. */
#ifndef TILE_TOOLS_OPTION_H
#define TILE_TOOLS_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A value follows a name that ends in = ("--emit=KIND"), else it is the next word or stands behind a = ("--kernel NAME", "--kernel=NAME"); behind a name of
 * one letter also directly ("-DNAME"). */
typedef struct Option {
	int id;
	const char *name;
	const char *value; /* NULL: none; "[N]": a number that may be left out; FILE, PATH, DIR in it: completion offers such */
	const char *help;  /* lines; where the value is one of some words they come first: "a | b", "a | b: what that is | c" */
} Option;

typedef struct Usage {
	const char *program, *summary, *synopsis; /* "tilec", "compiles ...", "[options] FILE" */
	const char *text;                         /* before the options: paragraphs and lines */
	const char *exits;                        /* what the exit status says */
	const char *files;                        /* suffixes of its input, for completion: "tile tir" */
	const Option *options;                    /* --help is one, and -h the same */
	size_t n;
} Usage;

/* ---- option.c: reading ---- */

typedef enum WordKind { WORD_FILE, WORD_OPTION, WORD_UNKNOWN, WORD_WITHOUT_VALUE, WORD_WITH_VALUE } WordKind;
typedef struct Word {
	WordKind kind;
	const char *text;     /* as it stands there */
	const Option *option; /* NULL: of a file, or unknown */
	const char *value;    /* or NULL */
} Word;

typedef struct CommandLine {
	const Usage *usage;
	int argc;
	char **argv;
	int at;          /* the next word; 1 at first */
	bool only_files; /* behind -- */
} CommandLine;

/* Takes an option and its value, or a file; false: no more.  WORD_WITHOUT_VALUE: it needs one, WORD_WITH_VALUE: it takes none. */
bool command_line_next(CommandLine *l, Word *w);

/* ---- option_text.c: printing ---- */

void usage_help(const Usage *u, FILE *out);
void usage_man(const Usage *u, const char *version, FILE *out);
/* Completion for bash, zsh or fish; false: another shell. */
bool usage_completion(const Usage *u, const char *shell, FILE *out);

#endif
