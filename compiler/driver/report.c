/* report.c - the page of --report=html: the frame, registers, shared memory and barriers. */
#include "compiler/driver/report.h"

#include <string.h>

#include "compiler/driver/emit.h"
#include "compiler/driver/roles.h"

enum { MAP_WIDTH = 900 };

static const char head[] =
	"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n<style>\n"
	"body { font: 15px/1.4 sans-serif; margin: 2em; max-width: 1200px; color: #222; background: #fff }\n"
	"h1, h2, h3 { font-weight: 600 } h2 { border-top: 1px solid #ccc; padding-top: .8em }\n"
	"table { border-collapse: collapse } th, td { padding: .15em .8em .15em 0; text-align: left; vertical-align: top }\n"
	"th { color: #666; font-weight: normal } td.n { text-align: right } code, svg { font-family: monospace } svg { font-size: 11px }\n"
	"p.note { color: #666; max-width: 60em }\n</style></head><body>\n<h1>%s</h1>\n<p>Compiled for %s by tilec " TILE_VERSION ".</p>\n";

static const char *const colours[] = { "#8dd3c7", "#fdb462", "#80b1d3", "#fb8072", "#b3de69", "#bebada", "#fccde5", "#ffed6f" };

const char *report_text(Arena *a, const char *s)
{
	Buffer b = { .arena = a };
	for (; *s; s++) {
		const char *mark = *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '&' ? "&amp;" : *s == '"' ? "&quot;" : NULL;
		buffer_bytes(&b, mark ? mark : s, mark ? strlen(mark) : 1);
	}
	return b.data ? b.data : "";
}

unsigned report_line(const Tir *t, const Op *op)
{
	unsigned line = 0, col;
	if (op->loc.source)
		diags_linecol(t->diags, op->loc, &line, &col);
	return line;
}

static const char *name_of(Arena *a, const Op *op) { return report_text(a, attr_text(op, AT_NAME, "?")); }

/* ---- registers ---- */

static void registers_row(Arena *a, const Tir *t, const char *name, int warps, const RoleRegisters *r, Buffer *out)
{
	int64_t most = t->machine->thread_registers;
	buffer_put(out, "<tr><td>%s</td><td class=n>%d</td><td class=n>%lld</td><td class=n>%lld</td><td><svg width=260 height=14>"
		"<rect width=%lld height=14 fill=\"#eee\"/><rect width=%lld height=14 fill=\"#80b1d3\"/></svg></td></tr>\n", report_text(a, name), warps,
		(long long)r->has, (long long)r->fragments, (long long)r->has, (long long)(r->fragments < most ? r->fragments : most));
}

static void registers(const Tir *t, const Op *kernel, const PtxasKernel *p, Buffer *out)
{
	RoleRegisters list[ROLES_MAX], whole = role_fullest(t, kernel);
	int n = roles_of(t, kernel, list);
	buffer_put(out, "<h3>Registers</h3>\n");
	if (p)
		buffer_put(out, "<p>%d a thread at the launch, %d bytes of stack, %d bytes of spill stores, %d of spill loads.</p>\n", p->registers, p->stack,
			p->spill_stores, p->spill_loads);
	buffer_put(out, "<table><tr><th>role</th><th>warps</th><th>has</th><th>fragments take</th><th></th></tr>\n");
	for (int i = 0; i < n; i++)
		registers_row(t->arena, t, attr_text(list[i].role, AT_NAME, "?"), team_warps(list[i].role) * (int)attr_int(list[i].role, AT_INSTANCES, 1), &list[i], out);
	if (!n)
		registers_row(t->arena, t, "all", team_warps(kernel), &whole, out);
	buffer_put(out, "</table>\n");
}

/* ---- shared memory ---- */

static void map_stages(const Tir *t, const Op *op, int colour, int row, double scale, Buffer *out)
{
	const Type *ty = &op->result->type;
	int64_t stages = attr_int(op, AT_RING, 0) ? ty->shape[0] : 1, first = attr_int(op, AT_OFFSET, 0), step = attr_int(op, AT_STAGE_BYTES, 0), bytes = attr_int(op, AT_BYTES, 0);
	for (int64_t s = 0; s < stages; s++) {
		double x = scale * (double)(first + s * step), w = scale * (double)bytes;
		buffer_put(out, "<rect x=%.1f y=%d width=%.1f height=22 fill=\"%s\" stroke=\"#fff\"><title>%s, stage %lld: %lld bytes from %lld on</title></rect>", x, row * 26,
			w > 1 ? w : 1, colours[colour % 8], name_of(t->arena, op), (long long)s, (long long)bytes, (long long)(first + s * step));
		if (w > 40)
			buffer_put(out, "<text x=%.1f y=%d>%s%s</text>", x + 4, row * 26 + 15, name_of(t->arena, op), stages > 1 ? arena_printf(t->arena, "[%lld]", (long long)s) : "");
	}
}

static void tile_row(const Tir *t, const Op *op, Buffer *out)
{
	const Value *home = operand(op, ARG_OBJECT);
	buffer_put(out, "<tr><td><code>%s</code></td><td><code>%s</code></td><td>%s</td><td class=n>%lld</td><td class=n>%lld</td><td class=n>%u</td><td>%s</td></tr>\n", name_of(t->arena, op),
		report_text(t->arena, type_text(t->arena, op->result->type)), layout_name(t, op), (long long)attr_int(op, AT_OFFSET, 0), (long long)attr_int(op, AT_BYTES, 0),
		report_line(t, op), home ? arena_printf(t->arena, "in the storage of %s", name_of(t->arena, home->def)) : "");
}

static void shared_memory(const Tir *t, const Op *kernel, Buffer *out)
{
	int64_t smem = kernel_smem(kernel), most = t->machine->cta_shared;
	int n = 0;
	buffer_put(out, "<h3>Shared memory</h3>\n<p>%lld bytes of the %lld that a block can have; by their offsets, what shares storage below.</p>\n<svg width=%d height=52>"
		"<rect width=%d height=22 fill=\"#eee\"/>", (long long)smem, (long long)most, MAP_WIDTH, MAP_WIDTH);
	for (const Op *op = kernel->regions[0]->first; op; op = op->next)
		if (op->code == OP_SHARED)
			map_stages(t, op, n++, op->nargs > 0, (double)MAP_WIDTH / (double)(most > smem ? most : smem), out);
	buffer_put(out, "</svg>\n<table><tr><th>tile</th><th>type</th><th>layout</th><th>offset</th><th>bytes of a stage</th><th>line</th><th></th></tr>\n");
	for (const Op *op = kernel->regions[0]->first; op; op = op->next)
		if (op->code == OP_SHARED)
			tile_row(t, op, out);
	buffer_put(out, "</table>\n");
}

/* ---- barriers ---- */

static void barrier_row(const Tir *t, const Op *op, Buffer *out)
{
	bool m = op->code == OP_MBARRIER;
	long long n = (long long)attr_int(op, m ? AT_COUNT : AT_THREADS, 0);
	buffer_put(out, "<tr><td><code>%s</code></td><td>%s</td><td>%s</td><td class=n>%lld %s</td><td>%s</td><td class=n>%u</td></tr>\n", name_of(t->arena, op),
		m ? arena_printf(t->arena, "mbarrier at %lld", (long long)attr_int(op, AT_OFFSET, 0)) : arena_printf(t->arena, "named, hardware barrier %lld", (long long)attr_int(op, AT_ID, 0)),
		m ? arena_printf(t->arena, "%lld slots", (long long)attr_int(op, AT_SLOTS, 1)) : "", n, m ? "arrivals a phase" : "threads",
		report_text(t->arena, attr_text(op, AT_FROM, "")), report_line(t, op));
}

static void barriers(const Tir *t, const Op *kernel, Buffer *out)
{
	buffer_put(out, "<h3>Barriers</h3>\n<table><tr><th>name</th><th>kind</th><th></th><th></th><th>from</th><th>line</th></tr>\n");
	for (const Op *op = kernel->regions[0]->first; op; op = op->next)
		if (op->code == OP_MBARRIER || op->code == OP_BARRIER)
			barrier_row(t, op, out);
	buffer_put(out, "</table>\n");
}

void report_html(const Tir *t, const char *source_name, const PtxasResult *r, Buffer *out)
{
	const char *name = report_text(t->arena, source_name);
	buffer_put(out, head, name, name, t->machine->name);
	for (const Op *k = t->first; k; k = k->next) {
		buffer_put(out, "<h2 id=\"%s\">Kernel <code>%s</code></h2>\n<p>Line %u: %lld threads a block.</p>\n", name_of(t->arena, k), name_of(t->arena, k), report_line(t, k),
			(long long)attr_int(k, AT_THREADS, 0));
		registers(t, k, ptxas_kernel(r, attr_text(k, AT_NAME, "?")), out);
		shared_memory(t, k, out);
		barriers(t, k, out);
		report_schedule(t, k, out);
		report_roofline(t, k, out);
		report_banks(t, k, out);
	}
	buffer_put(out, "</body></html>\n");
}
