/* report_schedule.c - the schedule as a picture: a column for each role, what it does from above to below, and lines from who arrives at a barrier to who waits for it. */
#include "compiler/driver/report.h"

#include <string.h>

enum { MOST_STEPS = 400, WIDTH = 300, HEIGHT = 17, MOST_SHOWN = 90 };

typedef struct Step { const Op *op, *role, *barrier; const char *text, *fill; int depth, times, column, row; } Step;
typedef struct Schedule { const Tir *t; Step step[MOST_STEPS]; int n, column, row, depth, rows; const Op *role; } Schedule;

static const char *object(const Schedule *s, const Value *v)
{
	const Op *o = tile_ref(v).object;
	return report_text(s->t->arena, attr_text(o, AT_NAME, "?"));
}

static const char *barrier_text(const Schedule *s, const Op *b) { return report_text(s->t->arena, attr_text(b, AT_NAME, "?")); }

/* What an op does, in a few words; NULL: nothing to show.  *fill: its colour, *barrier: what it arrives at or waits for. */
static const char *words(const Schedule *s, const Op *op, const char **fill, const Op **barrier)
{
	Arena *a = s->t->arena;
	*fill = "#f4f4f4";
	switch (op->code) {
	case OP_WAIT: case OP_WAIT_PARITY:
		*fill = "#fbb4ae", *barrier = barrier_of(operand(op, ARG_BARRIER));
		return arena_printf(a, "wait %s", barrier_text(s, *barrier));
	case OP_ARRIVE:
		*fill = "#ccebc5", *barrier = barrier_of(operand(op, ARG_BARRIER));
		return arena_printf(a, "arrive %s", barrier_text(s, *barrier));
	case OP_SYNC: case OP_SYNC_ARRIVE:
		*fill = op->code == OP_SYNC ? "#fbb4ae" : "#ccebc5";
		*barrier = operand(op, ARG_BARRIER) ? barrier_of(operand(op, ARG_BARRIER)) : NULL;
		return arena_printf(a, "%s%s%s", op_info(op->code)->text, *barrier ? " " : "", *barrier ? barrier_text(s, *barrier) : "");
	case OP_TMA_LOAD: case OP_BULK_LOAD:
		*fill = "#fed9a6";
		return arena_printf(a, "load %s &#8592; %s", object(s, operand(op, ARG_TARGET)), object(s, operand(op, ARG_SOURCE)));
	case OP_TMA_STORE: case OP_BULK_STORE:
		*fill = "#fed9a6";
		return arena_printf(a, "%s %s &#8594; %s", attr_get(op, AT_REDUCE) ? "add" : "store", object(s, operand(op, ARG_SOURCE)), object(s, operand(op, ARG_TARGET)));
	case OP_CP_ASYNC: *fill = "#fed9a6"; return arena_printf(a, "cp_async %s", object(s, operand(op, ARG_TARGET)));
	case OP_MMA:
		*fill = "#b3cde3";
		return arena_printf(a, "%s %s = %s @ %s", attr_int(op, AT_ASYNC, 0) ? "async" : "product", object(s, operand(op, ARG_D)), object(s, operand(op, ARG_A)), object(s, operand(op, ARG_B)));
	case OP_WGMMA_WAIT: case OP_STORE_WAIT: case OP_CP_ASYNC_WAIT:
		*fill = "#decbe4";
		return arena_printf(a, "%s(%lld)", op_info(op->code)->text, (long long)attr_int(op, AT_N, 0));
	case OP_COPY: case OP_WEAVE: return arena_printf(a, "%s %s &#8594; %s", op_info(op->code)->text, object(s, operand(op, ARG_SOURCE)), object(s, operand(op, ARG_TARGET)));
	case OP_PARALLEL: case OP_REDUCE: case OP_SCAN: case OP_VOTE: case OP_FENCE_ASYNC: return op->code == OP_PARALLEL ? "element loop" : op_info(op->code)->text;
	case OP_FOR: case OP_WHILE: *fill = "none"; return op_info(op->code)->text;
	case OP_IF: *fill = "none"; return "if";
	default: return NULL;
	}
}

static void add_step(Schedule *s, const Op *op, const char *text, const char *fill, const Op *barrier)
{
	Step *last = s->n ? &s->step[s->n - 1] : NULL;
	if (last && last->role == s->role && last->depth == s->depth && last->barrier == barrier && strcmp(last->text, text) == 0 && strcmp(fill, "none") != 0) {
		last->times++; /* unrolled */
		return;
	}
	if (s->n < MOST_STEPS && s->row < MOST_SHOWN)
		s->step[s->n++] = (Step){ .op = op, .role = s->role, .barrier = barrier, .text = text, .fill = fill, .depth = s->depth, .times = 1, .column = s->column, .row = s->row++ };
}

static void add_region(Schedule *s, const Region *r);

static void add_op(Schedule *s, const Op *op)
{
	const char *fill;
	const Op *barrier = NULL;
	const char *text = op->code == OP_ROLE ? NULL : words(s, op, &fill, &barrier);
	int before = s->n, row = s->row;
	if (text)
		add_step(s, op, text, fill, barrier);
	if (op->code == OP_PARALLEL || op->code == OP_ROLE)
		return;
	s->depth++;
	int inside = s->n;
	for (int i = 0; i < 2; i++)
		if (op->regions[i])
			add_region(s, op->regions[i]);
	s->depth--;
	if (op->code == OP_IF && s->n == inside) /* nothing to show in it */
		s->n = before, s->row = row;
}

static void add_region(Schedule *s, const Region *r)
{
	for (const Op *op = r->first; op; op = op->next)
		add_op(s, op);
}

static void add_column(Schedule *s, const Op *team)
{
	s->role = team;
	s->row = s->depth = 0;
	add_region(s, team->regions[0]);
	s->rows = s->row > s->rows ? s->row : s->rows;
	s->column++;
}

static bool add_role(Op *op, void *user)
{
	if (op->code == OP_ROLE)
		add_column(user, op);
	return op->code != OP_ROLE && op->code != OP_PARALLEL;
}

static bool waits(const Step *x) { return x->op->code == OP_WAIT || x->op->code == OP_WAIT_PARITY || x->op->code == OP_SYNC; }

/* From the first arrival of a role at a barrier to the first wait of each other one. */
static void draw_line(const Schedule *s, const Step *from, const Step *to, Buffer *out)
{
	int right = to->column > from->column, x0 = from->column * WIDTH + (right ? WIDTH - 34 : 8), x1 = to->column * WIDTH + (right ? 8 : WIDTH - 34);
	int y0 = from->row * HEIGHT + 30, y1 = to->row * HEIGHT + 30;
	buffer_put(out, "<path d=\"M%d %d C%d %d %d %d %d %d\" fill=\"none\" stroke=\"#4a7\" stroke-width=\"1.2\" marker-end=\"url(#to)\"><title>%s</title></path>\n", x0, y0,
		right ? x0 + 30 : x0 - 30, y0, right ? x1 - 30 : x1 + 30, y1, x1, y1, barrier_text(s, from->barrier));
}

static bool first_of(const Schedule *s, const Step *x)
{
	for (const Step *o = s->step; o < x; o++)
		if (o->role == x->role && o->barrier == x->barrier && waits(o) == waits(x))
			return false;
	return true;
}

static void draw_lines(const Schedule *s, Buffer *out)
{
	for (const Step *from = s->step; from < s->step + s->n; from++)
		for (const Step *to = s->step; to < s->step + s->n; to++)
			if (from->barrier && !waits(from) && to->barrier == from->barrier && waits(to) && to->role != from->role && first_of(s, from) && first_of(s, to))
				draw_line(s, from, to, out);
}

static void draw_step(const Schedule *s, const Step *x, Buffer *out)
{
	int at = x->column * WIDTH + 8 + 10 * (x->depth < 8 ? x->depth : 8), y = 22 + x->row * HEIGHT;
	bool block = strcmp(x->fill, "none") == 0;
	if (!block)
		buffer_put(out, "<rect x=%d y=%d width=%d height=%d rx=3 fill=\"%s\"/>", at, y, WIDTH - 42 - 10 * (x->depth < 8 ? x->depth : 8), HEIGHT - 2, x->fill);
	buffer_put(out, "<text x=%d y=%d%s>%s%s<title>line %u</title></text>\n", at + 4, y + 11, block ? " fill=\"#888\"" : "", x->text,
		x->times > 1 ? arena_printf(s->t->arena, " &#215;%d", x->times) : "", report_line(s->t, x->op));
}

static void draw_head(const Schedule *s, const Step *x, Buffer *out)
{
	bool role = x->role->code == OP_ROLE;
	int64_t n = role ? attr_int(x->role, AT_INSTANCES, 1) : 1;
	buffer_put(out, "<text x=%d y=14 font-weight=\"bold\">%s%s</text>\n", x->column * WIDTH + 8, role ? report_text(s->t->arena, attr_text(x->role, AT_NAME, "?")) : "all threads",
		n > 1 ? arena_printf(s->t->arena, " (%lld of them)", (long long)n) : "");
}

void report_schedule(const Tir *t, const Op *kernel, Buffer *out)
{
	Schedule *s = ARENA_NEW(t->arena, Schedule);
	*s = (Schedule){ .t = t };
	add_column(s, kernel);
	if (!s->n)
		s->column = 0;
	tir_walk(kernel->regions[0], add_role, s);
	buffer_put(out, "<h3>Schedule</h3>\n<p class=note>What each role does, one below the other; lines lead from who arrives at a barrier to who waits for it. %s</p>\n",
		s->rows >= MOST_SHOWN ? "What is further down is left out." : "");
	buffer_put(out, "<div style=\"overflow-x: auto\"><svg width=%d height=%d><defs><marker id=\"to\" markerWidth=7 markerHeight=7 refX=6 refY=3.5 orient=\"auto\"><path d=\"M0 0L7 3.5L0 7z\" fill=\"#4a7\"/></marker></defs>\n",
		s->column * WIDTH, s->rows * HEIGHT + 30);
	for (int i = 0; i < s->n; i++) {
		if (i == 0 || s->step[i].role != s->step[i - 1].role)
			draw_head(s, &s->step[i], out);
		draw_step(s, &s->step[i], out);
	}
	draw_lines(s, out);
	buffer_put(out, "</svg></div>\n");
}
