/* options.c - parses the command line from one table, which is also the text of --help. */
#include "compiler/driver/options.h"

#include <stdlib.h>
#include <string.h>

#include "dsl/support/diag.h"
#include "runtime/tools/option.h"

typedef struct EmitInfo { const char *name, *suffix; TargetSet targets; bool listing; } EmitInfo;
/* By EmitKind.  A listing goes to standard output unless -o says otherwise. */
static const EmitInfo emits[] = {
	[EMIT_AST] = { "ast", ".ast", TARGETS_GPU, true },
	[EMIT_TIR] = { "tir", ".tir", TARGETS_GPU, true },
	[EMIT_LLVM] = { "llvm", ".ll", TARGETS_GPU, true },
	[EMIT_PTX] = { "ptx", ".ptx", TARGETS_GPU, false },
	[EMIT_CUBIN] = { "cubin", ".cubin", TARGETS_GPU, false },
	[EMIT_OBJ] = { "obj", ".o", TARGETS_CPU, false },
	[EMIT_MODULE] = { "module", ".tmod", TARGETS_ALL, false },
	[EMIT_HEADER] = { "header", ".h", TARGETS_GPU, false },
};
enum { EMIT_KINDS = sizeof emits / sizeof emits[0] };

typedef enum OptionId {
	OPT_OUTPUT, OPT_EMIT, OPT_TARGET, OPT_DEFINE, OPT_INCLUDE, OPT_LEVEL, OPT_DEBUG, OPT_STRIP, OPT_MD, OPT_MF, OPT_MP,
	OPT_PTXAS, OPT_NO_SPILL, OPT_NO_SERIALIZED, OPT_FORMAT, OPT_REPORT, OPT_COLOR, OPT_VERBOSE,
	OPT_EXPLAIN, OPT_LIST_OPS, OPT_PASSES, OPT_PRINT_AFTER, OPT_TIME_PASSES, OPT_MAN, OPT_COMPLETION, OPT_VERSION, OPT_HELP
} OptionId;

static const Option rows[] = {
	{ OPT_OUTPUT, "-o", "FILE", "output; - is standard output.  Default: the input's name in this folder;\n"
		"ast, tir and llvm go to standard output" },
	{ OPT_EMIT, "--emit=", "KIND", "ast | tir | llvm | ptx | cubin | obj | module | header   (default module)" },
	{ OPT_TARGET, "--target=", "TARGET", 
#define MACHINE(id, name) name " | "
#include "compiler/machine/machines.def"
#undef MACHINE
		"cpu | all   (default: all for module, cpu for obj, else the first)" },
	{ OPT_DEFINE, "-D", "NAME=VALUE", "value of a param (without =VALUE: 1)" },
	{ OPT_INCLUDE, "-I", "DIR", "where import looks after the file's own folder" },
	{ OPT_LEVEL, "-O", "0..3", "optimisation (default -O3)" },
	{ OPT_DEBUG, "-g", NULL, "code for the CPU device that gdb steps line by line: not optimised;\nasserts also on the GPU, where products may then be serialised" },
	{ OPT_STRIP, "--strip", NULL, "a module without the source lines that profilers and debuggers show" },
	{ OPT_MD, "-MD", NULL, "write a dependency file for make or ninja" },
	{ OPT_MF, "-MF", "FILE", "its name (default: the output's with .d)" },
	{ OPT_MP, "-MP", NULL, "in it a rule for each import, so that make goes on when one is gone" },
	{ OPT_PTXAS, "--ptxas=", "PATH", "the assembler (default: $TILE_PTXAS, PATH, /usr/local/cuda/bin); none: PTX only" },
	{ OPT_NO_SPILL, "-Wno-spill", NULL, "registers spilled to memory are not an error" },
	{ OPT_NO_SERIALIZED, "-Wno-wgmma-serialized", NULL, "neither are wgmma groups that ptxas serialises" },
	{ OPT_FORMAT, "--diag-format=", "FORMAT", "text | line: one line per message | json: an object per line" },
	{ OPT_REPORT, "--report=", "FORMAT", "html: beside the output a page with each kernel's shared memory, registers,\nbarriers, schedule, roofline and bank conflicts" },
	{ OPT_COLOR, "--color=", "WHEN", "auto | always | never" },
	{ OPT_VERBOSE, "-v", NULL, "registers of each kernel and role, shared memory, spills, what stands\nbefore waits for products; what is run" },
	{ OPT_EXPLAIN, "--explain", "SLUG", "what a message's [slug] means and how to fix it" },
	{ OPT_LIST_OPS, "--list-ops", NULL, "the operations of TIR" },
	{ OPT_PASSES, "--passes=", "LIST", "run only these passes: none, or a comma-separated list" },
	{ OPT_PRINT_AFTER, "--print-after=", "PASS", "print TIR to standard error after a pass" },
	{ OPT_TIME_PASSES, "--time-passes", NULL, "print how long each step took" },
	{ OPT_MAN, "--man", NULL, "this text as a manual page: man -l <(tilec --man)" },
	{ OPT_COMPLETION, "--completion=", "SHELL", "bash | zsh | fish: what the shell reads to complete options" },
	{ OPT_VERSION, "--version", NULL, "the version" },
	{ OPT_HELP, "--help", NULL, "this text" },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const Usage usage = { .program = "tilec", .summary = "compiles GPU kernels written in .tile", .files = "tile tir", .options = rows, .n = ROWS,
	.synopsis = "[options] FILE.tile        (FILE may be - for standard input, or a .tir file)",
	.text = "  tilec add.tile                        compile for the GPU and the CPU device: add.tmod\n"
		"  tilec --emit=ptx -D C=128 -o - x.tile print PTX\n",
	.exits = "0 ok, 1 errors in the source, 2 wrong usage, 3 internal or input/output error" };

void options_help(FILE *out)
{
	usage_help(&usage, out);
}

void options_man(const char *version, FILE *out)
{
	usage_man(&usage, version, out);
}

bool options_completion(const char *shell, FILE *out)
{
	return usage_completion(&usage, shell, out);
}

/* One of `n` words, or -1. */
static int choose(const char *s, const char *const *words, int n)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(s, words[i]) == 0)
			return i;
	}
	return -1;
}

static bool choose_target(Options *o, const char *name)
{
	const Machine *m = machine_named(name);
	o->machine = m ? m : machine_default();
	o->targets = m ? TARGETS_GPU : strcmp(name, "cpu") == 0 ? TARGETS_CPU : strcmp(name, "all") == 0 ? TARGETS_ALL : TARGETS_DEFAULT;
	return o->targets != TARGETS_DEFAULT;
}

static const char *unknown_option(Arena *a, const char *s)
{
	const char *names[ROWS];
	for (unsigned i = 0; i < ROWS; i++)
		names[i] = rows[i].name;
	size_t n = strcspn(s, "=");
	const char *near = nearest_name(arena_strndup(a, s, s[n] ? n + 1 : n), names, ROWS);
	return near ? arena_printf(a, "unknown option '%s'; did you mean '%s'?", s, near)
		: arena_printf(a, "unknown option '%s'; see tilec --help", s);
}

static bool apply(Arena *a, Options *o, const Option *r, const char *arg, const char **error)
{
	static const char *const colors[] = { "auto", "always", "never" };
	static const char *const reports[] = { "html" };
	static const char *const formats[] = { "text", "line", "json" };
	int k = 0;
	switch ((OptionId)r->id) {
	case OPT_OUTPUT: o->output = arg; break;
	case OPT_EMIT:
		while (k < EMIT_KINDS && strcmp(arg, emits[k].name) != 0)
			k++;
		if (k == EMIT_KINDS)
			k = -1;
		o->emit = k < 0 ? EMIT_MODULE : (EmitKind)k;
		break;
	case OPT_TARGET: k = choose_target(o, arg) ? 0 : -1; break;
	case OPT_DEFINE: o->define[o->ndefines++] = !*arg || strchr(arg, '=') ? arg : arena_printf(a, "%s=1", arg); break;
	case OPT_INCLUDE: o->include[o->nincludes++] = arg; break;
	case OPT_LEVEL:
		k = arg[0] >= '0' && arg[0] <= '3' && !arg[1] ? arg[0] - '0' : -1;
		o->opt_level = k;
		break;
	case OPT_DEBUG: o->debug = true; break;
	case OPT_STRIP: o->strip = true; break;
	case OPT_MD: o->depfile = true; break;
	case OPT_MF: o->depfile = true; o->depfile_path = arg; break;
	case OPT_MP: o->depfile = o->empty_rules = true; break;
	case OPT_PTXAS: o->ptxas = arg; break;
	case OPT_NO_SPILL: o->allow_spill = true; break;
	case OPT_NO_SERIALIZED: o->allow_serialized = true; break;
	case OPT_FORMAT: k = choose(arg, formats, 3); o->format = (DiagFormat)k; break;
	case OPT_REPORT: k = choose(arg, reports, 1); o->report = true; break;
	case OPT_COLOR: k = choose(arg, colors, 3); o->color = k < 0 ? COLOR_AUTO : (ColorMode)k; break;
	case OPT_VERBOSE: o->verbose = true; break;
	case OPT_EXPLAIN: o->action = ACTION_EXPLAIN; o->explain = arg; break;
	case OPT_LIST_OPS: o->action = ACTION_LIST_OPS; break;
	case OPT_PASSES: o->passes = arg; break;
	case OPT_PRINT_AFTER: o->print_after = arg; break;
	case OPT_TIME_PASSES: o->time_passes = true; break;
	case OPT_MAN: o->action = ACTION_MAN; break;
	case OPT_COMPLETION: o->action = ACTION_COMPLETION; o->shell = arg; break;
	case OPT_VERSION: o->action = ACTION_VERSION; break;
	case OPT_HELP: o->action = ACTION_HELP; break;
	}
	if (k < 0)
		*error = arena_printf(a, "'%s' is no value of %s; it takes %s: %s", arg, r->name, r->value, r->help);
	return k >= 0;
}

/* "dir/x.tile" with another suffix, with the folder or without. */
static const char *renamed(Arena *a, const char *path, const char *suffix, bool folder)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.'), *from = folder ? path : name;
	int n = dot && dot != name ? (int)(dot - from) : (int)strlen(from);
	return arena_printf(a, "%.*s%s", n, from, suffix);
}

/* What depends on several options. */
static bool complete(Arena *a, Options *o, const char **error)
{
	const EmitInfo *e = &emits[o->emit];
	if (o->targets == TARGETS_DEFAULT)
		o->targets = e->targets;
	if (o->targets == TARGETS_ALL && o->emit == EMIT_LLVM)
		*error = arena_printf(a, "--emit=llvm is for one target: --target=%s or --target=cpu", o->machine->name);
	else if ((o->emit == EMIT_PTX || o->emit == EMIT_CUBIN) && !(o->targets & TARGETS_GPU))
		*error = arena_printf(a, "--emit=%s is for --target=%s", e->name, o->machine->name);
	else if (o->emit == EMIT_OBJ && !(o->targets & TARGETS_CPU))
		*error = "--emit=obj is for --target=cpu";
	if (*error)
		return false;
	bool standard = e->listing || strcmp(o->input, "-") == 0;
	if (!o->output)
		o->output = standard ? "-" : renamed(a, o->input, e->suffix, false);
	if (o->report)
		o->report_path = renamed(a, strcmp(o->output, "-") == 0 ? o->input : o->output, ".html", strcmp(o->output, "-") != 0);
	if (o->report && (o->emit == EMIT_AST || o->emit == EMIT_TIR || o->emit == EMIT_HEADER)) {
		*error = arena_printf(a, "--report is of code; --emit=%s makes none", e->name);
		return false;
	}
	if (o->report && strcmp(o->report_path, "-.html") == 0) {
		*error = "--report needs the name of an input or of an output";
		return false;
	}
	if (o->depfile && !o->depfile_path) {
		if (strcmp(o->output, "-") == 0) {
			*error = "-MD needs -MF when the output is standard output";
			return false;
		}
		o->depfile_path = renamed(a, o->output, ".d", true);
	}
	return true;
}

static bool take_word(Arena *a, Options *o, const Word *w, const char **error)
{
	switch (w->kind) {
	case WORD_OPTION: return apply(a, o, w->option, w->value, error);
	case WORD_FILE:
		if (o->input)
			*error = arena_printf(a, "one input file at a time; both '%s' and '%s' are given", o->input, w->text);
		o->input = w->text;
		break;
	case WORD_UNKNOWN: *error = unknown_option(a, w->text); break;
	case WORD_WITHOUT_VALUE: *error = arena_printf(a, "%s needs an argument", w->text); break;
	case WORD_WITH_VALUE: *error = arena_printf(a, "%s takes no value", w->option->name); break;
	}
	return !*error;
}

bool options_parse(Arena *a, int argc, char **argv, Options *o, const char **error)
{
	CommandLine line = { .usage = &usage, .argc = argc, .argv = argv, .at = 1 };
	Word w;
	*o = (Options){ .emit = EMIT_MODULE, .opt_level = 3, .machine = machine_default() };
	*error = NULL;
	o->define = ARENA_ARRAY(a, const char *, argc);
	o->include = ARENA_ARRAY(a, const char *, argc);
	while (command_line_next(&line, &w)) {
		if (!take_word(a, o, &w, error))
			return false;
	}
	if (o->action != ACTION_COMPILE)
		return true;
	if (!o->input) {
		*error = "no input file; see tilec --help";
		return false;
	}
	return complete(a, o, error);
}
