/* waits.c - compares PTX and machine code: does the arithmetic that stands before a wait for products still stand there?
 *
 * Both texts are read line by line.  The n-th wait of a source line in one is the n-th of that line in the other.  Before a wait count the
 * operations of its basic block in the PTX; in the machine code, whose blocks are others, those since the last wait before that block,
 * and what they have too many at the last wait of the block is from before it. */
#include "compiler/driver/waits.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/driver/outputs.h"
#include "compiler/driver/tool.h"

enum { WORTH_TELLING = 16 };

typedef struct Place { const char *file; size_t file_len; long line; long groups; const char *kernel; size_t kernel_len; } Place;

typedef struct Wait {
	struct Wait *next;
	const struct Wait *before; /* in the same block of the PTX */
	Place at;
	int number;                /* among those of this place */
	long overlapped, all;      /* operations since the products; since the block began, in machine code since the wait before */
} Wait;

typedef struct Waits { Wait *first, **end; } Waits;

typedef struct Reader {
	Arena *a;
	const char *ptx;
	Waits *waits;
	const Wait *before;
	Place at;
	long overlapped, all;
} Reader;

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static bool among(const char *s, const char *const *list)
{
	for (; *list; list++)
		if (begins(s, *list))
			return true;
	return false;
}

/* The last part of a path. */
static void set_file(Place *p, const char *name, size_t n)
{
	p->file = name;
	for (size_t i = 0; i < n; i++)
		if (name[i] == '/')
			p->file = name + i + 1;
	p->file_len = n - (size_t)(p->file - name);
}

static bool same_place(const Place *a, const Place *b)
{
	return a->line == b->line && a->groups == b->groups && a->file_len == b->file_len && a->kernel_len == b->kernel_len &&
	       (a->file_len == 0 || memcmp(a->file, b->file, a->file_len) == 0) && memcmp(a->kernel, b->kernel, a->kernel_len) == 0;
}

static const Wait *add_wait(Reader *r, long groups)
{
	Wait *w = ARENA_NEW(r->a, Wait);
	r->at.groups = groups;
	*w = (Wait){ .before = r->before, .at = r->at, .overlapped = r->overlapped, .all = r->all };
	for (const Wait *o = r->waits->first; o; o = o->next)
		w->number += same_place(&o->at, &w->at);
	*r->waits->end = w;
	r->waits->end = &w->next;
	return w;
}

static const Wait *wait_like(const Waits *list, const Wait *w)
{
	for (const Wait *o = list->first; o; o = o->next)
		if (o->number == w->number && same_place(&o->at, &w->at))
			return o;
	return NULL;
}

/* ---- PTX ---- */

static bool ptx_arithmetic(const char *s)
{
	static const char *const ordinary[] = { "mul", "add", "sub", "fma", "max", "min", NULL };
	size_t n = strcspn(s, " \t");
	const char *type = s + n;
	bool special = false;
	for (const char *p = s; p < type; p++)
		special |= begins(p, ".approx.");
	if (special || begins(s, "cvt.rn.bf16x2.f32") || begins(s, "cvt.rn.f16x2.f32"))
		return true;
	while (type > s && type[-1] != '.')
		type--;
	return among(s, ordinary) && (begins(type, "f32") || begins(type, "f16") || begins(type, "bf16"));
}

/* .file 3 "name" */
static void ptx_file(Reader *r, long number)
{
	for (const char *p = r->ptx; (p = strstr(p, "\t.file")) != NULL; p++) {
		char *end;
		if (strtol(p + 6, &end, 10) != number || !(end = strchr(end, '"')))
			continue;
		set_file(&r->at, end + 1, strcspn(end + 1, "\"\n"));
		return;
	}
}

static void ptx_line(Reader *r, const char *s)
{
	const char *entry = begins(s, ".visible .entry ") ? s + 16 : begins(s, ".entry ") ? s + 7 : NULL;
	char *end;
	if (entry) {
		r->at = (Place){ .kernel = entry, .kernel_len = strcspn(entry, "( \t\n") };
	} else if (begins(s, ".loc")) {
		ptx_file(r, strtol(s + 4, &end, 10));
		r->at.line = strtol(end, NULL, 10);
	} else if (begins(s, "wgmma.commit_group")) {
		r->overlapped = 0;
	} else if (begins(s, "wgmma.wait_group.sync.aligned")) {
		r->before = add_wait(r, strtol(s + 29, NULL, 10));
		r->overlapped = 0;
	} else if (s[strcspn(s, " \t:\n")] == ':') {
		r->before = NULL;
		r->overlapped = r->all = 0;
	} else if (ptx_arithmetic(s)) {
		r->overlapped++;
		r->all++;
	}
}

/* ---- machine code, as nvdisasm prints it ---- */

static bool sass_arithmetic(const char *s)
{
	static const char *const names[] = { "MUFU", "FMUL", "FADD", "FFMA", "FMNMX", "HMUL2", "HADD2", "HFMA2", "HMNMX2", "F2FP", NULL };
	return among(s, names);
}

static void sass_line(Reader *r, const char *s)
{
	const char *file = begins(s, "//## File \"") ? s + 11 : NULL, *op = begins(s, "/*") ? strstr(s, "*/") : NULL, *wait;
	if (file) {
		size_t n = strcspn(file, "\"\n");
		const char *line = strstr(file + n, "line ");
		set_file(&r->at, file, n);
		r->at.line = line ? strtol(line + 5, NULL, 10) : 0;
	} else if (begins(s, ".text.")) {
		r->at = (Place){ .kernel = s + 6, .kernel_len = strcspn(s + 6, ":\n") };
		r->all = 0;
	}
	if (!op)
		return;
	op += 2 + strspn(op + 2, " \t");
	if (*op == '@') {
		op += strcspn(op, " \t");
		op += strspn(op, " \t");
	}
	if (begins(op, "WARPGROUP.DEPBAR.LE") && (wait = strstr(op, "gsb0, ")) != NULL) {
		add_wait(r, strtol(wait + 6, NULL, 0));
		r->all = 0;
	} else if (sass_arithmetic(op)) {
		r->all++;
	}
}

static Waits read_waits(Arena *a, const char *ptx, const char *text, void (*read)(Reader *, const char *))
{
	Waits found = { NULL, NULL };
	Reader reader = { .a = a, .ptx = ptx, .waits = &found }, *r = &reader;
	found.end = &found.first;
	for (const char *p = text; *p;) {
		read(r, p + strspn(p, " \t"));
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	return found;
}

/* What nvdisasm prints; NULL with a sentence in *error. */
static const char *disassemble(Arena *a, const char *program, const void *cubin, size_t len, const char **error)
{
	ToolFolder folder;
	if (!tool_folder_begin(a, &folder, error))
		return NULL;
	const char *in = arena_printf(a, "%s/in.cubin", folder.path), *log = arena_printf(a, "%s/log", folder.path), *text = NULL;
	const char *const argv[] = { program, "-c", "-g", in, NULL };
	size_t n;
	*error = output_write(a, in, cubin, len);
	if (!*error && tool_run(a, &folder, argv, log, error) == 0)
		text = input_read(a, log, &n, error);
	else if (!*error)
		*error = arena_printf(a, "'%s' failed", program);
	unlink(in);
	unlink(log);
	tool_folder_end(&folder);
	return text;
}

/* Operations before a wait since its block began; -1 when a wait is not found. */
static long before_in_sass(const Waits *sass, const Wait *w)
{
	long n = 0;
	for (; w; w = w->before) {
		const Wait *q = wait_like(sass, w);
		if (!q)
			return -1;
		n += q->all;
	}
	return n;
}

/* How many of the operations before a wait are behind it in the machine code; -1: not known. */
static long operations_behind(const Waits *sass, const Wait *w)
{
	const Wait *last = w;
	while (last->next && last->next->before == last)
		last = last->next;
	long there = before_in_sass(sass, w), at_last = before_in_sass(sass, last);
	if (there < 0 || at_last < 0)
		return -1;
	long foreign = at_last > last->all ? at_last - last->all : 0, behind = w->all + foreign - there;
	return behind > 0 ? behind : 0;
}

static void report(const Waits *sass, const Wait *w, FILE *out)
{
	long behind = sass ? operations_behind(sass, w) : -1;
	fprintf(out, "tilec: kernel %.*s: wgmma_wait(%ld) at %.*s:%ld stands behind %ld operations", (int)w->at.kernel_len, w->at.kernel, w->at.groups,
		(int)w->at.file_len, w->at.file, w->at.line, w->overlapped);
	if (behind > w->overlapped / 2)
		fprintf(out, "; ptxas moved it above %ld of them", behind);
	else if (behind >= 0)
		fputs(", and so it does in the machine code", out);
	fputc('\n', out);
}

void waits_report(Arena *a, const char *ptx, const void *cubin, size_t len, FILE *out)
{
	const char *error = NULL, *text = NULL, *program = NULL;
	Waits in_ptx = read_waits(a, ptx, ptx, ptx_line), in_sass;
	bool any = false;
	for (const Wait *w = in_ptx.first; w; w = w->next)
		any |= w->overlapped >= WORTH_TELLING;
	if (!any)
		return;
	program = tool_find(a, "nvdisasm", NULL, "TILE_NVDISASM");
	text = program ? disassemble(a, program, cubin, len, &error) : NULL;
	if (text)
		in_sass = read_waits(a, ptx, text, sass_line);
	else
		fprintf(out, "tilec: %s: waits are not compared with the machine code\n", program ? error : "there is no nvdisasm");
	for (const Wait *w = in_ptx.first; w; w = w->next)
		if (w->overlapped >= WORTH_TELLING)
			report(text ? &in_sass : NULL, w, out);
}
