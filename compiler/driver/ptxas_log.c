/* ptxas_log.c - what ptxas prints, as resources of kernels and as messages about the .tile source. */
#include "compiler/analysis/effects.h"
#include "compiler/driver/ptxas.h"
#include "compiler/driver/roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct LogReader {
	Arena *a;
	const Tir *t;
	const char *ptx;
	const PtxasOptions *o;
	PtxasResult *r;
	PtxasKernel *now; /* the kernel that property lines are about */
	bool ok;
} LogReader;

static const Op *kernel_named(const Tir *t, const char *name, size_t n)
{
	for (const Op *k = t->first; k; k = k->next) {
		const char *s = attr_text(k, AT_NAME, "");
		if (strlen(s) == n && strncmp(s, name, n) == 0)
			return k;
	}
	return NULL;
}

/* ---- from a line of PTX to a line of the source ---- */

/* The name that `.file N "name"` gives; its length in *n. */
static const char *file_name(const char *ptx, int number, size_t *n)
{
	for (const char *p = ptx; (p = strstr(p, ".file")) != NULL; p += 5) {
		char *end;
		if (strtol(p + 5, &end, 10) != number)
			continue;
		end += strspn(end, " \t");
		if (*end != '"')
			continue;
		*n = strcspn(end + 1, "\"\n");
		return end + 1;
	}
	return NULL;
}

static Loc source_line(const Diags *d, const char *name, size_t n, int line)
{
	for (unsigned i = 1; i <= diags_source_count(d); i++) {
		const Source *s = diags_source(d, i);
		size_t len = strlen(s->name);
		size_t common = len < n ? len : n; /* one may have a folder before it */
		if (memcmp(s->name + len - common, name + n - common, common) != 0)
			continue;
		const char *p = s->text;
		for (int k = 1; k < line && p; k++) {
			p = strchr(p, '\n');
			p = p ? p + 1 : NULL;
		}
		if (!p)
			return (Loc){ 0 };
		p += strspn(p, " \t");
		uint32_t begin = (uint32_t)(p - s->text);
		return (Loc){ i, begin, begin + (uint32_t)strcspn(p, "\n") };
	}
	return (Loc){ 0 };
}

/* The last .loc at or before the line in its function, else the kernel. */
static Loc loc_of_ptx_line(const LogReader *lr, long line)
{
	const Op *kernel = NULL;
	int file = 0, tile_line = 0;
	const char *p = lr->ptx;
	for (long k = 1; k <= line && *p; k++) {
		const char *s = p + strspn(p, " \t");
		const char *entry = strncmp(s, ".visible .entry", 15) == 0 ? s + 15 : strncmp(s, ".entry", 6) == 0 ? s + 6 : NULL;
		if (entry) {
			entry += strspn(entry, " \t");
			kernel = kernel_named(lr->t, entry, strcspn(entry, " \t(\n"));
			file = 0;
		}
		if (strncmp(s, ".loc", 4) == 0) {
			char *end;
			file = (int)strtol(s + 4, &end, 10);
			tile_line = (int)strtol(end, NULL, 10);
		}
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	size_t n;
	const char *name = file ? file_name(lr->ptx, file, &n) : NULL;
	Loc loc = name ? source_line(lr->t->diags, name, n, tile_line) : (Loc){ 0 };
	return loc.source || !kernel ? loc : kernel->loc;
}

/* ---- messages ---- */

/* The kernel named by "in function 'x'" or "in the function 'x'"; the only one of the file when there is no such text. */
static const Op *kernel_of(const LogReader *lr, const char *line)
{
	const char *p = strstr(line, "function '");
	if (p)
		return kernel_named(lr->t, p + 10, strcspn(p + 10, "'"));
	return lr->t->first == lr->t->last ? lr->t->first : NULL;
}

static Loc place(const LogReader *lr, const char *line, const Op *kernel)
{
	const char *at = strstr(line, "around line ");
	Loc loc = at ? loc_of_ptx_line(lr, strtol(at + 12, NULL, 10)) : (Loc){ 0 };
	return loc.source || !kernel ? loc : kernel->loc;
}

static const char *kernel_text(LogReader *lr, const Op *kernel)
{
	return kernel ? arena_printf(lr->a, "kernel '%s'", attr_text(kernel, AT_NAME, "?")) : "this file";
}

/* A product of wgmma that is not waited for where the region ends; NULL: none. */
static const Op *product_left(const Region *r)
{
	const Op *left = NULL;
	for (const Op *op = r->first; op; op = op->next) {
		if (op->code == OP_MMA && mma_is_wgmma(op))
			left = op_lasts(op) == UNTIL_PRODUCTS ? op : NULL;
		if (op->code == OP_WGMMA_WAIT && attr_int(op, AT_N, 0) == 0)
			left = NULL;
	}
	return left;
}

static bool find_carried(Op *op, void *user)
{
	const Op **found = user;
	if (!*found && (op->code == OP_FOR || op->code == OP_WHILE))
		*found = product_left(op->regions[op->code == OP_WHILE]);
	return true;
}

/* C7514 is about a product in flight at the end of a loop's turn, for which the next turn waits with another behind it. */
static const Op *carried_product(const Op *kernel, int number)
{
	const Op *found = NULL;
	if (kernel && number == 7514)
		tir_walk(kernel->regions[0], find_carried, &found);
	return found;
}

/* What ptxas then says of registers is not the source's fault. */
static void help_optimise(LogReader *lr)
{
	if (lr->o->opt_level == 0)
		diag_help(lr->t->diags, "with -O0 nothing is kept in registers: -O1 is enough; --target=cpu leaves the GPU's code out");
}

/* "(C7510) Potential Performance Loss: ..." and the notes about injected instructions. */
static void performance_message(LogReader *lr, const char *line)
{
	const char *code = strstr(line, "(C7"), *text = strstr(line, "Loss: ");
	text = text ? text + 6 : code ? code + strcspn(code, " ") : line;
	text += strspn(text, " ");
	const char *end = text + strlen(text);
	static const char *const tails[] = { " in the function '", " in function '", " in around line " };
	for (unsigned i = 0; i < sizeof tails / sizeof tails[0]; i++) {
		const char *p = strstr(text, tails[i]);
		if (p && p < end)
			end = p;
	}
	int n = (int)(end - text), number = code ? atoi(code + 2) : 0;
	const Op *kernel = kernel_of(lr, line);
	Loc loc = place(lr, line, kernel);
	const char *who = kernel_text(lr, kernel);
	if (strstr(line, "setmaxnreg")) {
		diag_error(lr->t->diags, loc, E_SETMAXNREG, "ptxas C%d: %s: %.*s", number, who, n, text);
		lr->ok = false;
	} else if (strstr(line, "serialized")) {
		if (lr->o->allow_serialized)
			return;
		const Op *carried = carried_product(kernel, number);
		diag_error(lr->t->diags, carried ? carried->loc : loc, W_SERIALIZED, "ptxas C%d: %s: %.*s", number, who, n, text);
		if (carried)
			diag_help(lr->t->diags, "this product is in flight at the end of a turn of its loop; wait for it in the next before another is issued, or issue both in one turn");
		help_optimise(lr);
		diag_help(lr->t->diags, "-Wno-wgmma-serialized compiles it nevertheless");
		lr->ok = false;
	} else if (!lr->o->allow_serialized) {
		diag_warning(lr->t->diags, loc, W_SERIALIZED, "ptxas C%d: %s: %.*s", number, who, n, text);
	}
}

/* "ptxas in.ptx, line 212; error   : TEXT" */
static void hard_error(LogReader *lr, const char *line)
{
	const char *at = strstr(line, ", line "), *text = strstr(line, " : ");
	text = text ? text + 3 : line;
	Loc loc = at ? loc_of_ptx_line(lr, strtol(at + 7, NULL, 10)) : place(lr, line, kernel_of(lr, line));
	diag_error(lr->t->diags, loc, E_PTXAS, "ptxas: %s", text);
	if (at) {
		const char *p = lr->ptx;
		for (long k = strtol(at + 7, NULL, 10); k > 1 && p; k--) {
			p = strchr(p, '\n');
			p = p ? p + 1 : NULL;
		}
		if (p) {
			p += strspn(p, " \t");
			diag_help(lr->t->diags, "the instruction is: %.*s", (int)strcspn(p, "\n"), p);
		}
	}
	lr->ok = false;
}

/* The number before `word` in a line of properties; 0 without it. */
static int number_before(const char *line, const char *word)
{
	const char *p = strstr(line, word);
	if (!p)
		return 0;
	while (p > line && p[-1] == ' ')
		p--;
	while (p > line && p[-1] >= '0' && p[-1] <= '9')
		p--;
	return atoi(p);
}

static PtxasKernel *entry(LogReader *lr, const char *name, size_t n)
{
	for (int i = 0; i < lr->r->nkernels; i++) {
		const char *s = lr->r->kernels[i].name;
		if (strlen(s) == n && strncmp(s, name, n) == 0)
			return &lr->r->kernels[i];
	}
	if (!kernel_named(lr->t, name, n))
		return NULL;
	PtxasKernel *k = &lr->r->kernels[lr->r->nkernels++];
	k->name = arena_strndup(lr->a, name, n);
	return k;
}

static void read_line(LogReader *lr, const char *line)
{
	const char *p = strstr(line, "Compiling entry function '");
	const char *q = strstr(line, "Function properties for ");
	if (p) {
		lr->now = entry(lr, p + 26, strcspn(p + 26, "'"));
	} else if (q) {
		lr->now = entry(lr, q + 24, strcspn(q + 24, " \n"));
	} else if (strstr(line, "bytes stack frame")) {
		if (lr->now) {
			lr->now->stack = number_before(line, "bytes stack frame");
			lr->now->spill_stores = number_before(line, "bytes spill stores");
			lr->now->spill_loads = number_before(line, "bytes spill loads");
		}
	} else if (strstr(line, ": Used ")) {
		if (lr->now) {
			lr->now->registers = number_before(line, "registers");
			lr->now->smem = number_before(line, "bytes smem");
		}
	} else if (strstr(line, "; error") || strstr(line, "ptxas error") || strstr(line, "; fatal")) {
		hard_error(lr, line);
	} else if (strstr(line, "ptxas fatal")) {
		if (lr->ok) /* else it only says that there were errors */
			hard_error(lr, line);
	} else if (strstr(line, "Potential Performance Loss") || strstr(line, "is injected in")) {
		performance_message(lr, line);
	}
}

static int fuller_first(const void *x, const void *y)
{
	const RoleRegisters *a = x, *b = y;
	const int64_t left = a->fragments * b->has, right = b->fragments * a->has;
	return (left < right) - (left > right);
}

/* ptxas has no more than sums of a kernel, and any role may be the one that spills. */
static void note_roles(LogReader *lr, const Op *kernel)
{
	RoleRegisters list[ROLES_MAX];
	const int n = roles_of(lr->t, kernel, list);
	const char *text = "";
	qsort(list, (size_t)n, sizeof *list, fuller_first);
	for (int i = 0; i < n; i++)
		text = arena_printf(lr->a, "%s%s %lld of %lld in '%s'", text, i ? "," : "", (long long)list[i].fragments, (long long)list[i].has, attr_text(list[i].role, AT_NAME, "?"));
	if (n) {
		diag_note(lr->t->diags, list[0].role->loc, "ptxas does not say in which role; of its registers per thread fragments take%s", text);
		return;
	}
	const RoleRegisters all = role_fullest(lr->t, kernel);
	diag_note(lr->t->diags, kernel->loc, "fragments take %lld of %lld registers per thread", (long long)all.fragments, (long long)all.has);
}

static void report_spills(LogReader *lr)
{
	for (int i = 0; i < lr->r->nkernels; i++) {
		const PtxasKernel *k = &lr->r->kernels[i];
		if (k->spill_stores + k->spill_loads == 0 || lr->o->allow_spill)
			continue;
		const Op *op = kernel_named(lr->t, k->name, strlen(k->name));
		diag_error(lr->t->diags, op->loc, W_SPILL,
			"kernel '%s' does not fit its registers: %d bytes of spill stores, %d of spill loads", k->name, k->spill_stores, k->spill_loads);
		note_roles(lr, op);
		help_optimise(lr);
		diag_help(lr->t->diags, "smaller fragments, more warps or setmaxnreg give room; -Wno-spill compiles it nevertheless");
		lr->ok = false;
	}
}

bool ptxas_read_log(Arena *a, const Tir *t, const char *ptx, const char *log, const PtxasOptions *o, PtxasResult *r)
{
	int n = 0;
	for (const Op *k = t->first; k; k = k->next)
		n++;
	r->kernels = ARENA_ARRAY(a, PtxasKernel, n ? n : 1);
	r->nkernels = 0;
	LogReader lr = { .a = a, .t = t, .ptx = ptx, .o = o, .r = r, .ok = true };
	for (const char *p = log; *p;) {
		size_t len = strcspn(p, "\n");
		read_line(&lr, arena_strndup(a, p, len));
		p += len + (p[len] == '\n');
	}
	report_spills(&lr);
	return lr.ok;
}

const PtxasKernel *ptxas_kernel(const PtxasResult *r, const char *name)
{
	for (int i = 0; r && i < r->nkernels; i++) {
		if (strcmp(r->kernels[i].name, name) == 0)
			return &r->kernels[i];
	}
	return NULL;
}
