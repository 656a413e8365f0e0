/* report_roofline.c - one turn of each role's main loop, all roles together: what it asks of the tensor cores, special functions, arithmetic and loads, and the roofline. */
#include "compiler/driver/report.h"

#include <math.h>

#include "compiler/analysis/layout.h"

enum { WIDTH = 420, HEIGHT = 240 };

typedef struct Turn { const Tir *t; double flops, tensor, bytes, special, arithmetic; } Turn;

static bool is_loop(const Op *op) { return op->code == OP_FOR || op->code == OP_WHILE; }

static void count_product(Turn *x, const Op *op, double instances)
{
	TileRef d = tile_ref(operand(op, ARG_D)), a = tile_ref(operand(op, ARG_A));
	double flops = 2 * (double)(d.shape[0] * d.shape[1] * a.shape[1]) * instances * (d.warp_scope ? team_warps(tir_team(op)) : 1);
	x->flops += flops;
	x->tensor += flops / (x->t->machine->rates->tensor * 16.0 / (double)dtype_bits(a.dtype));
}

static void count_load(Turn *x, const Op *op, double instances)
{
	TileRef s = tile_ref(operand(op, ARG_TARGET));
	double bytes = (double)dtype_bits(s.dtype) / 8;
	for (int i = 0; i < s.rank; i++)
		bytes *= (double)s.shape[i];
	x->bytes += bytes * instances;
}

static bool is_special(Opcode op)
{
	switch (op) {
#define MATH(op, fold, nvvm, overloaded, host, flush, inverse) case op:
#include "compiler/tir/math.def"
#undef MATH
		return true;
	default: return false;
	}
}

static void count_elements(Turn *x, const Op *loop, double instances)
{
	const Attr *ext = attr_get(loop, AT_EXTENTS);
	double n = instances;
	for (int i = 0; i < loop->regions[0]->nargs; i++)
		n *= (double)ext->list[i];
	for (const Op *op = loop->regions[0]->first; op; op = op->next) {
		bool special = is_special(op->code);
		bool plain = op->result && op->result->type.kind == TY_SCALAR && dtype_is_float(op->result->type.dtype) && op_info(op->code)->effect == FX_PURE && op->nargs >= 2;
		x->special += special ? n : 0;
		x->arithmetic += plain ? n : 0;
	}
}

static void count_op(Turn *x, const Op *op)
{
	const Op *team = tir_team(op);
	double n = team->code == OP_ROLE ? (double)attr_int(team, AT_INSTANCES, 1) : 1;
	switch (op->code) {
	case OP_MMA: count_product(x, op, n); break;
	case OP_TMA_LOAD: case OP_BULK_LOAD: count_load(x, op, n); break;
	case OP_PARALLEL: count_elements(x, op, n); break;
	default: break;
	}
}

static bool has_work(Op *op, void *user)
{
	*(bool *)user |= op->code == OP_MMA || op->code == OP_TMA_LOAD || op->code == OP_BULK_LOAD;
	return op->code != OP_PARALLEL;
}

static bool has_working_loop(Op *op, void *user)
{
	if (is_loop(op))
		tir_walk(op->regions[op->code == OP_WHILE ? 1 : 0], has_work, user);
	return op->code != OP_PARALLEL;
}

/* Loops within have turns that nobody knows. */
static bool counts(Op *op, void *user)
{
	if (!is_loop(op))
		count_op(user, op);
	return op->code != OP_PARALLEL && !is_loop(op);
}

/* Innermost loops with products or loads. */
static bool visit(Op *op, void *user)
{
	Turn *x = user, own = { .t = x->t };
	if (!is_loop(op))
		return op->code != OP_PARALLEL;
	Region *body = op->regions[op->code == OP_WHILE ? 1 : 0];
	bool inner = false;
	tir_walk(body, has_working_loop, &inner);
	if (inner)
		return true;
	tir_walk(body, counts, &own);
	if (own.flops > 0 || own.bytes > 0) {
		x->flops += own.flops, x->tensor += own.tensor, x->bytes += own.bytes;
		x->special += own.special, x->arithmetic += own.arithmetic;
	}
	return false;
}

static void bar(Buffer *out, const char *name, double clocks, double most, const char *what)
{
	buffer_put(out, "<tr><td>%s</td><td class=n>%.0f</td><td><svg width=300 height=14><rect width=%.0f height=14 fill=\"%s\"/></svg></td><td>%s</td></tr>\n", name, clocks,
		most > 0 ? 300 * clocks / most : 0, clocks == most ? "#fb8072" : "#80b1d3", what);
}

/* Of log2: intensity 1 to 4096 from left to right, 1 to 4096 TFLOP/s from below. */
static double x_of(double intensity) { return WIDTH * fmin(fmax(log2(intensity), 0), 12) / 12; }
static double y_of(double tflops) { return HEIGHT - HEIGHT * fmin(fmax(log2(tflops), 0), 12) / 12; }

static void roof(Buffer *out, double bandwidth, double peak, const char *name, int dy)
{
	double ridge = peak / bandwidth;
	buffer_put(out, "<path d=\"M0 %.1f L%.1f %.1f L%d %.1f\" fill=\"none\" stroke=\"#888\"/><text x=%.1f y=%.1f fill=\"#666\">%s</text>\n", y_of(bandwidth * 1e-12), x_of(ridge),
		y_of(peak * 1e-12), WIDTH, y_of(peak * 1e-12), x_of(4) + 6, y_of(4 * bandwidth * 1e-12) + dy, name);
}

static void draw_roofline(const Turn *x, double most, Buffer *out)
{
	const Rates *r = x->t->machine->rates;
	double clocks = r->multiprocessors * r->clock, peak = clocks * x->flops / x->tensor;
	double intensity = x->flops / x->bytes, rate = clocks * x->flops / most;
	buffer_put(out, "<svg width=%d height=%d viewBox=\"-10 -14 %d %d\">\n", WIDTH + 60, HEIGHT + 50, WIDTH + 60, HEIGHT + 50);
	roof(out, clocks * r->loaded, peak, "L2", -6);
	roof(out, r->memory, peak, "memory", 14);
	buffer_put(out, "<text x=%d y=%.1f fill=\"#666\" text-anchor=\"end\">%.0f TFLOP/s</text><path d=\"M0 0V%dH%d\" fill=\"none\" stroke=\"#222\"/><text x=%d y=%d text-anchor=\"end\">FLOP a byte loaded, 1 to 4096</text>"
		"<circle cx=%.1f cy=%.1f r=5 fill=\"#fb8072\"><title>%.0f FLOP a byte, at most %.0f TFLOP/s</title></circle><text x=%.1f y=%.1f>%.0f, at most %.0f TFLOP/s</text></svg>\n",
		WIDTH, y_of(peak * 1e-12) - 4, peak * 1e-12, HEIGHT, WIDTH, WIDTH, HEIGHT + 16, x_of(intensity), y_of(rate * 1e-12), intensity, rate * 1e-12, x_of(intensity) - 150,
		y_of(rate * 1e-12) + 20, intensity, rate * 1e-12);
}

void report_roofline(const Tir *t, const Op *kernel, Buffer *out)
{
	Turn x = { .t = t };
	tir_walk(kernel->regions[0], visit, &x);
	const Rates *r = t->machine->rates;
	double clocks[] = { x.tensor, x.bytes / r->loaded, x.special / r->special, x.arithmetic / r->arithmetic }, most = 0;
	for (int i = 0; i < 4; i++)
		most = fmax(most, clocks[i]);
	buffer_put(out, "<h3>Roofline</h3>\n");
	if (!(x.tensor > 0) || !(x.bytes > 0)) {
		buffer_put(out, "<p>No loop with products and one with loads: there is nothing to compare.</p>\n");
		return;
	}
	buffer_put(out, "<p class=note>A turn of each innermost loop with products or loads, those of all roles together, on one multiprocessor (%s) at its full clock, "
		"which its power limit does not allow for long. What stands in further loops within is not counted. Loops are taken to have as many turns as one another.</p>\n<table><tr><th>unit</th><th>clocks</th><th></th><th></th></tr>\n", r->device);
	bar(out, "tensor cores", clocks[0], most, arena_printf(t->arena, "%.1f MFLOP", x.flops * 1e-6));
	bar(out, "loads", clocks[1], most, arena_printf(t->arena, "%.0f KiB, at %d bytes a clock", x.bytes / 1024, r->loaded));
	bar(out, "special functions", clocks[2], most, arena_printf(t->arena, "%.0f", x.special));
	bar(out, "arithmetic of elements", clocks[3], most, arena_printf(t->arena, "%.0f", x.arithmetic));
	buffer_put(out, "</table>\n");
	draw_roofline(&x, most, out);
}
