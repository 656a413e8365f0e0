/* options.c - the command line of tilerun: one table, from which --help is printed too. */
#include "runtime/tools/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/tools/option.h"
#include "runtime/tools/same_file.h"
#include "runtime/tools/tool.h"
#include "tilert/tilert.h"

typedef enum OptionId {
	OPT_KERNEL, OPT_ARG, OPT_DIM, OPT_SCALAR, OPT_OUT, OPT_DEVICE, OPT_TIME, OPT_COMPARE, OPT_TOL, OPT_SEED,
	OPT_SEEDS, OPT_NO_RACE_CHECK, OPT_NO_ARITHMETIC_CHECK, OPT_TIMEOUT, OPT_THREADS, OPT_DEFINE, OPT_INCLUDE, OPT_SWEEP, OPT_TRACE, OPT_RUN, OPT_LIST, OPT_JSON, OPT_MAN, OPT_COMPLETION, OPT_HELP, OPT_VERSION
} OptionId;

static const Option rows[] = {
	{ OPT_KERNEL, "--kernel", "NAME", "the kernel; may be left out when the module has one" },
	{ OPT_ARG, "--arg", "T=SOURCE", "a tensor: FILE.npy, or rand, randn, zeros, ones or uniform(LO,HI), each\n"
	                                "with an optional shape such as randn(2,T,64); @U: in the memory of tensor U" },
	{ OPT_DIM, "--dim", "T=1024", "a dim, for shapes and for dims that no tensor has" },
	{ OPT_SCALAR, "--scalar", "S=0.5", "a scalar parameter" },
	{ OPT_OUT, "--out", "T=FILE.npy", "writes a tensor after the run (bf16, 8-bit floats as f4)" },
	{ OPT_DEVICE, "--device", "DEVICE", "cpu | cuda   (default cpu; cuda:N: which of several)" },
	{ OPT_COMPARE, "--compare", "T=FILE.npy", "compares a tensor with a file; exit code 1 when it differs" },
	{ OPT_TOL, "--tol", "X", "largest RMS of the difference over RMS of the file (default: bf16 1e-2,\n"
	                      "f16 2e-3, f32 1e-3, e4m3 8e-2, e5m2 2e-1, integers 0)" },
	{ OPT_TIME, "--time", "[N]", "times N more launches (default 20; cpu 3)" },
	{ OPT_SEED, "--seed", "S", "of random tensors and of the CPU device's scheduling (default 1)" },
	{ OPT_SEEDS, "--seeds", "N", "runs N times, with the schedules of seeds S, S + 1, ..." },
	{ OPT_NO_RACE_CHECK, "--no-race-check", NULL, "CPU device: looks for no races and missing fences, and is faster" },
	{ OPT_NO_ARITHMETIC_CHECK, "--no-arithmetic-check", NULL, "CPU device: takes division by zero, shifts and conversions out of\n"
	                                                          "range as LANGUAGE.md has them (section 2)" },
	{ OPT_TIMEOUT, "--timeout", "SECONDS", "CPU device: ends a launch in which no thread comes to a barrier or ends for so long\n(default 60; 0: never)" },
	{ OPT_THREADS, "--threads", "N", "CPU device: host threads, which are its sm_count (default: all cores)" },
	{ OPT_DEFINE, "-D", "NAME=V", "passed to tilec" },
	{ OPT_INCLUDE, "-I", "DIR", "passed to tilec" },
	{ OPT_SWEEP, "--sweep", "NAME=A,B,C", "compiles and times a .tile file with each of these values of a param, and with each\n"
	                                      "combination where it is given several times: a table, the fastest last" },
	{ OPT_TRACE, "--trace", "FILE.json", "what stamp(n) of the kernel recorded, for ui.perfetto.dev: a row for each warp (a\n"
	                                     ".tile file is compiled with -D TRACE=256; a module has to be)" },
	{ OPT_RUN, "--run", NULL, "runs, where FILE alone would list: a kernel that needs no arguments" },
	{ OPT_LIST, "--list", NULL, "lists the kernels and their parameters, and runs nothing; so does FILE alone" },
	{ OPT_JSON, "--json", NULL, "lists as JSON" },
	{ OPT_MAN, "--man", NULL, "this text as a manual page: man -l <(tilerun --man)" },
	{ OPT_COMPLETION, "--completion", "SHELL", "bash | zsh | fish: what the shell reads to complete options" },
	{ OPT_HELP, "--help", NULL, "this text" },
	{ OPT_VERSION, "--version", NULL, "the version" },
};

static const Usage usage = { .program = "tilerun", .summary = "runs a kernel of a .tile file or module once", .synopsis = "FILE [options]", .files = "tile tmod",
	.text = "Runs a kernel once.  FILE is a module (tilec --emit=module), or a .tile file, which tilec compiles first.\n"
	        "Outputs that are not given start as NaN.  Without --out a summary of the outputs is printed.\n\n"
	        "  tilerun add.tile --arg x=rand --arg y=rand --dim N=1000 --out z=z.npy\n"
	        "  tilerun kda.tmod --kernel kda_fwd --arg q=q.npy --compare o=ref.npy --tol 1e-2 --device cuda --time\n",
	.exits = "0 fine, 1 a comparison failed, 2 wrong usage, 3 the run failed", .options = rows, .n = sizeof rows / sizeof *rows };

static void print_man(void)
{
	char version[64];
	snprintf(version, sizeof version, "tilerun %s", tilert_version());
	usage_man(&usage, version, stdout);
}

static void print_completion(const char *shell)
{
	if (!usage_completion(&usage, shell, stdout))
		tool_die(EXIT_USAGE, "there is completion for bash, zsh and fish, not for '%s'", shell);
}

/* ---- values ---- */

static void add_pair(NameValues *list, const char *option, const char *text)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || !equals[1])
		tool_die(EXIT_USAGE, "%s %s: expected NAME=VALUE", option, text);
	char *name = tool_copy(text, (size_t)(equals - text));
	if (options_find(list, name) && strcmp(option, "--out"))
		tool_die(EXIT_USAGE, "%s: %s is given twice", option, name);
	list->items = tool_grow(list->items, list->count + 1, sizeof *list->items);
	list->items[list->count++] = (NameValue){ name, equals + 1 };
}

static double parse_real(const char *option, const char *text)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v >= 0))
		tool_die(EXIT_USAGE, "%s %s: expected a number of at least 0", option, text);
	return v;
}

static uint64_t parse_unsigned(const char *option, const char *text, uint64_t low, uint64_t high)
{
	int64_t bits;
	uint64_t v;

	if (*text == '-' || !tool_integer(text, true, &bits) || (v = (uint64_t)bits) < low || v > high)
		tool_die(EXIT_USAGE, "%s %s: expected a number in %llu..%llu", option, text, (unsigned long long)low,
		         (unsigned long long)high);
	return v;
}

static void add_compiler_flag(Options *o, const char *flag, const char *value)
{
	o->compiler_flags = tool_grow(o->compiler_flags, o->n_compiler_flags + 2, sizeof *o->compiler_flags);
	o->compiler_flags[o->n_compiler_flags++] = flag;
	o->compiler_flags[o->n_compiler_flags++] = value;
}

static void apply(Options *o, const Option *row, const char *value)
{
	switch ((OptionId)row->id) {
	case OPT_KERNEL: o->kernel = value; break;
	case OPT_ARG: add_pair(&o->args, row->name, value); break;
	case OPT_DIM: add_pair(&o->dims, row->name, value); break;
	case OPT_SCALAR: add_pair(&o->scalars, row->name, value); break;
	case OPT_OUT: add_pair(&o->outs, row->name, value); break;
	case OPT_DEVICE: o->device = value; break;
	case OPT_COMPARE: add_pair(&o->compares, row->name, value); break;
	case OPT_TOL: o->tolerance = parse_real(row->name, value); break;
	case OPT_SEED: o->seed = parse_unsigned(row->name, value, 0, UINT64_MAX); break;
	case OPT_SEEDS: o->seeds = (unsigned)parse_unsigned(row->name, value, 1, 1000000); break;
	case OPT_NO_RACE_CHECK: o->no_race_check = true; break;
	case OPT_NO_ARITHMETIC_CHECK: o->no_arithmetic_check = true; break;
	case OPT_TIMEOUT: o->timeout = parse_real(row->name, value); break;
	case OPT_THREADS: o->threads = (unsigned)parse_unsigned(row->name, value, 1, 1024); break;
	case OPT_DEFINE:
	case OPT_INCLUDE: add_compiler_flag(o, row->name, value); break;
	case OPT_SWEEP: add_pair(&o->sweeps, row->name, value); break;
	case OPT_TRACE: o->trace = value; break;
	case OPT_RUN: break; /* the line has more than the file */
	case OPT_LIST: o->list = true; break;
	case OPT_JSON: o->list = o->json = true; break;
	case OPT_TIME:
		o->time = true;
		if (value)
			o->repeats = (unsigned)parse_unsigned(row->name, value, 1, 1000000);
		break;
	case OPT_HELP:
		usage_help(&usage, stdout);
		tool_check_output();
		exit(EXIT_OK);
	case OPT_MAN:
		print_man();
		tool_check_output();
		exit(EXIT_OK);
	case OPT_COMPLETION:
		print_completion(value);
		tool_check_output();
		exit(EXIT_OK);
	case OPT_VERSION:
		printf("tilerun %s\n", tilert_version());
		tool_check_output();
		exit(EXIT_OK);
	}
}

/* ---- the line ---- */

static void take_word(Options *o, const Word *w)
{
	switch (w->kind) {
	case WORD_UNKNOWN: tool_die(EXIT_USAGE, "unknown option %s; tilerun --help lists them", w->text);
	case WORD_WITH_VALUE: tool_die(EXIT_USAGE, "%s takes no value", w->option->name);
	case WORD_WITHOUT_VALUE: tool_die(EXIT_USAGE, "%s needs a value: %s", w->option->name, w->option->value);
	case WORD_OPTION: apply(o, w->option, w->value); break;
	case WORD_FILE:
		if (o->file)
			tool_die(EXIT_USAGE, "two files, %s and %s", o->file, w->text);
		o->file = w->text;
	}
}

typedef struct Output { const char *option, *name, *equals, *path; } Output;

static Output output_at(const Options *o, size_t i)
{
	return i < o->outs.count ? (Output){ "--out", o->outs.items[i].name, "=", o->outs.items[i].value } : (Output){ "--trace", "", "", o->trace };
}

/* What is written is written before anything is compared: to what is not there yet, too. */
static void check_references(const Options *o)
{
	struct stat there;

	for (size_t c = 0; c < o->compares.count; c++)
		if (stat(o->compares.items[c].value, &there))
			tool_die(EXIT_RUN, "%s: %s", o->compares.items[c].value, strerror(errno));
}

/* Tensors may be written to the files that they were read from, but to no other that is read or written. */
static void check_outputs(const Options *o)
{
	size_t n = o->outs.count + (o->trace != NULL);

	check_references(o);
	for (size_t i = 0; i < n; i++) {
		const Output x = output_at(o, i);
		if (is_same_file(x.path, o->file))
			tool_die(EXIT_USAGE, "%s %s%s%s would write over the file that is run", x.option, x.name, x.equals, x.path);
		for (size_t c = 0; c < o->compares.count; c++)
			if (is_same_file(x.path, o->compares.items[c].value))
				tool_die(EXIT_USAGE, "%s %s%s%s would write over the file that --compare %s=%s reads", x.option, x.name, x.equals, x.path,
				         o->compares.items[c].name, o->compares.items[c].value);
		for (size_t k = 0; k < i; k++) {
			const Output y = output_at(o, k);
			if (is_same_file(x.path, y.path))
				tool_die(EXIT_USAGE, "%s %s%s%s would write over what %s %s%s%s writes", x.option, x.name, x.equals, x.path, y.option, y.name,
				         y.equals, y.path);
		}
	}
}

void options_parse(Options *o, int argc, char **argv)
{
	CommandLine line = { .usage = &usage, .argc = argc, .argv = argv, .at = 1 };
	Word w;

	*o = (Options){ .device = "cpu", .tolerance = -1, .timeout = 60, .seed = 1, .seeds = 1 };
	while (command_line_next(&line, &w))
		take_word(o, &w);
	if (!o->file)
		tool_die(EXIT_USAGE, "no file; tilerun --help says what to give");
	check_outputs(o);
	if (argc == 2)
		o->list = true;
}

const char *options_find(const NameValues *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++) {
		if (!strcmp(list->items[i].name, name))
			return list->items[i].value;
	}
	return NULL;
}

static void free_pairs(NameValues *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].name);
	free(list->items);
}

void options_free(Options *o)
{
	free_pairs(&o->args);
	free_pairs(&o->dims);
	free_pairs(&o->scalars);
	free_pairs(&o->outs);
	free_pairs(&o->compares);
	free_pairs(&o->sweeps);
	free(o->compiler_flags);
}
