/* main.c - tilec: from options and one input to one output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler/driver/emit.h"
#include "compiler/driver/options.h"
#include "compiler/driver/report.h"
#include "compiler/driver/roles.h"
#include "compiler/driver/waits.h"
#include "compiler/elaborate/elaborate.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/pass.h"
#include "dsl/ast.h"
#include "runtime/tools/same_file.h"

typedef enum ExitCode { EXIT_OK, EXIT_SOURCE, EXIT_USAGE, EXIT_TROUBLE } ExitCode;

typedef struct Compilation {
	Arena *arena;
	Diags *diags;
	const Options *o;
	const char *source_name;
	PathList *read; /* imports */
} Compilation;

static ExitCode trouble(const char *text)
{
	fprintf(stderr, "tilec: %s\n", text);
	return EXIT_TROUBLE;
}

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Prints what a step took with --time-passes; returns the time. */
static double timed(const Compilation *c, const char *step, double since)
{
	double t = now();
	if (c->o->time_passes)
		fprintf(stderr, "%-14s %9.3f ms\n", step, 1e3 * (t - since));
	return t;
}

/* ---- outputs ---- */

static bool is_standard(const char *path) { return strcmp(path, "-") == 0; }

static bool is_input(const Compilation *c, const char *path)
{
	bool found = false;
	for (unsigned i = 1; !found && i <= diags_source_count(c->diags); i++)
		found = is_same_file(path, diags_source(c->diags, i)->name);
	for (unsigned i = 0; !found && i < c->read->n; i++)
		found = is_same_file(path, c->read->path[i]);
	return found;
}

/* NULL: writing `path` overwrites nothing that was read, nor the other output. */
static const char *overwritten(const Compilation *c, const char *path, const char *other)
{
	if (!is_standard(path) && is_input(c, path))
		return arena_printf(c->arena, "'%s' would be overwritten: it is an input", path);
	if (other && is_standard(path) == is_standard(other) && (is_standard(path) || is_same_file(path, other)))
		return arena_printf(c->arena, "'%s' is to be two outputs at once", path);
	return NULL;
}

static ExitCode finish(const Compilation *c, const void *data, size_t len)
{
	const char *error = overwritten(c, c->o->output, c->o->depfile ? c->o->depfile_path : NULL);
	if (!error && c->o->depfile)
		error = overwritten(c, c->o->depfile_path, NULL);
	if (!error && c->o->depfile && depfile_unsayable(c->diags, c->read, c->o->output))
		error = arena_printf(c->arena, "-MD: no dependency file can have the name '%s', which has a line break", depfile_unsayable(c->diags, c->read, c->o->output));
	if (error) {
		fprintf(stderr, "tilec: %s\n", error);
		return EXIT_USAGE;
	}
	if (c->o->depfile) { /* before the output, which make takes for up to date once it is there */
		Buffer deps = { .arena = c->arena };
		depfile_write(c->diags, c->read, c->o->output, c->o->empty_rules, &deps);
		error = output_write(c->arena, c->o->depfile_path, deps.data, deps.len);
	}
	if (!error)
		error = output_write(c->arena, c->o->output, data, len);
	return error ? trouble(error) : EXIT_OK;
}

typedef void (*Printer)(const void *what, FILE *out);
static void print_ast(const void *ast, FILE *out) { ast_print(ast, out); }
static void print_tir(const void *tir, FILE *out) { tir_print(tir, out); }

static ExitCode finish_printed(const Compilation *c, Printer print, const void *what)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return trouble("out of memory");
	print(what, f);
	fclose(f);
	ExitCode code = finish(c, text, len);
	free(text);
	return code;
}

static bool lower(const Compilation *c, const Tir *t, LowerTarget target, LowerForm form, LowerResult *r)
{
	double llvm = 0, codegen = 0;
	LowerOptions lo = { .target = target, .form = form, .opt_level = c->o->opt_level, .debug = c->o->debug, .strip = c->o->strip,
		.llvm_seconds = &llvm, .codegen_seconds = &codegen };
	bool ok = lower_module(c->arena, t, &lo, r);
	if (c->o->time_passes) {
		const char *name = target == LOWER_CPU ? "cpu" : t->machine->name;
		fprintf(stderr, "%-6s %-7s %9.3f ms\n%-6s %-7s %9.3f ms\n", "LLVM", name, 1e3 * llvm, "code", name, 1e3 * codegen);
	}
	return ok;
}

static void print_resources(const Compilation *c, const Tir *t, const PtxasResult *r)
{
	if (!c->o->verbose)
		return;
	for (const Op *k = t->first; k; k = k->next) {
		const char *name = attr_text(k, AT_NAME, "?");
		const PtxasKernel *p = ptxas_kernel(r, name);
		fprintf(stderr, "tilec: kernel %s: ", name);
		if (p)
			fprintf(stderr, "%d registers, ", p->registers);
		fprintf(stderr, "%lld bytes of shared memory", (long long)kernel_smem(k) + (p ? p->smem : 0));
		if (p)
			fprintf(stderr, ", %d bytes of stack, %d bytes of spill stores, %d of spill loads", p->stack, p->spill_stores, p->spill_loads);
		fputc('\n', stderr);
		roles_report(t, k, stderr);
	}
}

/* The page of --report; r: what ptxas said, or NULL. */
static ExitCode write_report(const Compilation *c, const Tir *t, const PtxasResult *r)
{
	Buffer page = { .arena = c->arena };
	if (!c->o->report)
		return EXIT_OK;
	const char *error = overwritten(c, c->o->report_path, c->o->output);
	if (!error && c->o->depfile)
		error = overwritten(c, c->o->report_path, c->o->depfile_path);
	if (error) {
		fprintf(stderr, "tilec: %s\n", error);
		return EXIT_USAGE;
	}
	report_html(t, c->source_name, r, &page);
	error = output_write(c->arena, c->o->report_path, page.data, page.len);
	return error ? trouble(error) : EXIT_OK;
}

/* True when assembled; else *code says how it ended. */
static bool assemble(const Compilation *c, const Tir *t, const char *program, const LowerResult *ptx, PtxasResult *r, ExitCode *code)
{
	PtxasOptions po = { .program = program, .opt_level = c->o->opt_level, .allow_spill = c->o->allow_spill || c->o->debug,
		.allow_serialized = c->o->allow_serialized || c->o->debug, .strip = c->o->strip, .verbose = c->o->verbose };
	double start = now();
	bool ok = ptxas_assemble(c->arena, t, ptx->data, ptx->len, &po, r);
	timed(c, "ptxas", start);
	if (r->nkernels)
		print_resources(c, t, r);
	if (ok && c->o->verbose)
		waits_report(c->arena, ptx->data, r->cubin, r->len, stderr);
	*code = r->failure ? trouble(r->failure) : ok ? EXIT_OK : EXIT_SOURCE;
	return ok;
}

static ExitCode emit_module(const Compilation *c, const Tir *t)
{
	ModuleParts parts = { 0 };
	LowerResult ptx = { 0 }, elf = { 0 };
	Buffer stripped = { .arena = c->arena };
	PtxasResult assembled = { 0 };
	if (!t->first)
		return trouble(arena_printf(c->arena, "%s has no kernel: there is nothing to put into a module", c->source_name));
	if (c->o->targets & TARGETS_GPU) {
		if (!lower(c, t, LOWER_GPU, LOWER_CODE, &ptx))
			return EXIT_SOURCE;
		const char *program = ptxas_find(c->arena, c->o->ptxas);
		ExitCode code;
		if (program && !assemble(c, t, program, &ptx, &assembled, &code))
			return code;
		if (!program && c->o->verbose)
			fputs("tilec: there is no ptxas: the module has PTX only, which the driver assembles\n", stderr);
		parts.resources = &assembled;
		parts.cubin = assembled.cubin;
		parts.cubin_len = assembled.len;
		if (c->o->strip)
			ptx_strip(ptx.data, &stripped);
		parts.ptx = c->o->strip ? stripped.data : ptx.data;
		parts.ptx_len = c->o->strip ? stripped.len : ptx.len;
	}
	if (c->o->targets & TARGETS_CPU) {
		if (!lower(c, t, LOWER_CPU, LOWER_CODE, &elf))
			return EXIT_SOURCE;
		parts.elf = elf.data;
		parts.elf_len = elf.len;
	}
	ExitCode code = write_report(c, t, &assembled);
	if (code)
		return code;
	Buffer out = { .arena = c->arena };
	if (!module_write(t, c->source_name, &parts, &out))
		return EXIT_SOURCE;
	return finish(c, out.data, out.len);
}

static ExitCode emit_code(const Compilation *c, const Tir *t)
{
	LowerResult r = { 0 };
	bool cpu = c->o->emit == EMIT_OBJ || c->o->targets == TARGETS_CPU;
	const char *program = NULL;
	if (c->o->emit == EMIT_CUBIN) {
		program = ptxas_find(c->arena, c->o->ptxas);
		if (!program)
			return trouble("--emit=cubin needs ptxas of the CUDA toolkit: put it on PATH or name it with --ptxas=PATH or $TILE_PTXAS");
	}
	if (!lower(c, t, cpu ? LOWER_CPU : LOWER_GPU, c->o->emit == EMIT_LLVM ? LOWER_LLVM : LOWER_CODE, &r))
		return EXIT_SOURCE;
	if (program) {
		PtxasResult assembled;
		ExitCode code;
		if (!assemble(c, t, program, &r, &assembled, &code) || (code = write_report(c, t, &assembled)))
			return code;
		return finish(c, assembled.cubin, assembled.len);
	}
	print_resources(c, t, NULL);
	ExitCode code = write_report(c, t, NULL);
	return code ? code : finish(c, r.data, r.len);
}

static ExitCode emit_header(const Compilation *c, const Tir *t)
{
	Buffer out = { .arena = c->arena };
	header_write(t, c->source_name, &out);
	return finish(c, out.data, out.len);
}

/* ---- the way there ---- */

static char *read_import(void *user, const char *path, size_t *len, const char **why)
{
	const Compilation *c = user;
	char *text = input_exists(path) ? input_read(c->arena, path, len, why) : NULL;
	if (text)
		path_list_add(c->arena, c->read, path);
	return text;
}

static Tir *build_tir(const Compilation *c, uint32_t source, const Ast *ast)
{
	if (!ast)
		return tir_parse(c->arena, c->diags, c->o->machine, source);
	ElabOptions eo = { .machine = c->o->machine, .defines = c->o->define, .ndefines = c->o->ndefines, .include_dirs = c->o->include,
		.ninclude_dirs = c->o->nincludes, .read_file = read_import, .same_file = is_same_file, .user = (void *)c };
	return elaborate(c->arena, c->diags, ast, c->o->input, &eo);
}

static bool has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);
	return n >= m && strcmp(s + n - m, suffix) == 0;
}

static ExitCode compile(const Compilation *c, const char *text, size_t len)
{
	uint32_t source = diags_add_source(c->diags, c->source_name, text, len);
	bool is_tir = has_suffix(c->o->input, ".tir");
	double t0 = now();
	const Ast *ast = is_tir ? NULL : ast_parse(c->arena, c->diags, source);
	if (diags_error_count(c->diags))
		return EXIT_SOURCE;
	t0 = timed(c, "parse", t0);
	if (c->o->emit == EMIT_AST)
		return ast ? finish_printed(c, print_ast, ast) : trouble("--emit=ast needs a .tile file");
	Tir *t = build_tir(c, source, ast);
	if (!t || diags_error_count(c->diags))
		return EXIT_SOURCE;
	timed(c, is_tir ? "parse TIR" : "elaborate", t0);
	bool none = c->o->passes && strcmp(c->o->passes, "none") == 0;
	PassOptions po = { .print_after = c->o->print_after, .print_to = stderr, .only = none ? "" : c->o->passes,
		.time = c->o->time_passes, .time_to = stderr };
	if (!passes_run(t, &po) || diags_error_count(c->diags))
		return EXIT_SOURCE;
	switch (c->o->emit) {
	case EMIT_TIR: return finish_printed(c, print_tir, t);
	case EMIT_MODULE: return emit_module(c, t);
	case EMIT_HEADER: return emit_header(c, t);
	default: return emit_code(c, t);
	}
}

static ExitCode compile_file(Arena *a, const Options *o)
{
	PathList read = { 0 };
	Compilation c = { .read = &read, .arena = a, .diags = diags_new(a), .o = o, .source_name = strcmp(o->input, "-") == 0 ? "<stdin>" : o->input };
	const char *error = NULL;
	size_t len = 0;
	const char *text = input_read(a, o->input, &len, &error);
	if (!text)
		return trouble(error);
	ExitCode code = compile(&c, text, len);
	bool color = o->color == COLOR_ALWAYS || (o->color == COLOR_AUTO && isatty(STDERR_FILENO));
	if (o->format == FORMAT_JSON)
		diags_print_json(c.diags, stderr);
	else
		diags_print(c.diags, stderr, (DiagStyle){ .color = color, .one_line = o->format == FORMAT_LINE, .limit = o->format == FORMAT_LINE ? 0 : 20 });
	if (code == EXIT_SOURCE && diags_error_count(c.diags) == 0)
		return trouble("internal error: a step failed without a message");
	return code;
}

static ExitCode run(Arena *a, int argc, char **argv)
{
	Options o;
	const char *error;
	if (!options_parse(a, argc, argv, &o, &error)) {
		fprintf(stderr, "tilec: %s\n", error);
		return EXIT_USAGE;
	}
	switch (o.action) {
	case ACTION_HELP: options_help(stdout); return EXIT_OK;
	case ACTION_MAN: options_man("tilec " TILE_VERSION, stdout); return EXIT_OK;
	case ACTION_COMPLETION:
		if (options_completion(o.shell, stdout))
			return EXIT_OK;
		fprintf(stderr, "tilec: there is completion for bash, zsh and fish, not for '%s'\n", o.shell);
		return EXIT_USAGE;
	case ACTION_VERSION: printf("tilec " TILE_VERSION " (LLVM %s)\n", lower_llvm_version()); return EXIT_OK;
	case ACTION_LIST_OPS: list_ops(stdout); return EXIT_OK;
	case ACTION_EXPLAIN:
		if (explain_print(o.explain, stdout))
			return EXIT_OK;
		fprintf(stderr, "tilec: there is no message [%s]; there are: ", o.explain);
		explain_list(stderr);
		return EXIT_USAGE;
	case ACTION_COMPILE: break;
	}
	return compile_file(a, &o);
}

int main(int argc, char **argv)
{
	Arena *a = arena_new();
	ExitCode code = run(a, argc, argv);
	arena_free(a);
	if ((fflush(stdout) || ferror(stdout)) && code == EXIT_OK)
		code = trouble("cannot write standard output");
	return (int)code;
}
