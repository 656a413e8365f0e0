/* ptxas.c - finds and runs ptxas on a private copy of the PTX. */
#include "compiler/driver/ptxas.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compiler/driver/outputs.h"
#include "compiler/driver/tool.h"

const char *ptxas_find(Arena *a, const char *option)
{
	const char *program = tool_find(a, "ptxas", option, "TILE_PTXAS");
	return program && strcmp(program, "none") ? program : NULL;
}

bool ptxas_assemble(Arena *a, const Tir *t, const char *ptx, size_t len, const PtxasOptions *o, PtxasResult *r)
{
	*r = (PtxasResult){ 0 };
	ToolFolder folder;
	if (!tool_folder_begin(a, &folder, &r->failure))
		return false;
	const char *dir = folder.path;
	const char *in = arena_printf(a, "%s/in.ptx", dir), *out = arena_printf(a, "%s/out.cubin", dir);
	const char *log = arena_printf(a, "%s/log", dir), *level = arena_printf(a, "-O%d", o->opt_level);
	const char *argv[12] = { o->program, arena_printf(a, "-arch=%s", t->machine->name), "-v", "--warn-on-spills", level, in, "-o", out };
	if (o->strip) { /* the second does nothing without the first */
		argv[8] = "--generate-line-info";
		argv[9] = "--suppress-debug-info";
	}
	if (o->verbose) {
		fputs("tilec:", stderr);
		for (int i = 0; argv[i]; i++)
			fprintf(stderr, " %s", argv[i]);
		fputc('\n', stderr);
	}
	int status = -1;
	bool ok = false;
	r->failure = output_write(a, in, ptx, len);
	if (!r->failure)
		status = tool_run(a, &folder, argv, log, &r->failure);
	if (!r->failure) {
		size_t n;
		const char *text = input_read(a, log, &n, &r->failure);
		ok = text && ptxas_read_log(a, t, ptx, text, o, r);
		if (text && ok && status != 0) {
			r->failure = arena_printf(a, "%s ended with status %d: %s", o->program, status, text);
			ok = false;
		}
	}
	if (ok) {
		r->cubin = input_read(a, out, &r->len, &r->failure);
		ok = r->cubin != NULL;
	}
	unlink(in);
	unlink(out);
	unlink(log);
	tool_folder_end(&folder);
	return ok;
}
