/* timeline.c - writes the points of stamp() as JSON trace events. */
#include "runtime/tools/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tools/tool.h"

/* Nanoseconds of a point; 0: not recorded. */
static int64_t at(const HostTensor *t, int64_t block, int64_t warp, int64_t point)
{
	const int64_t *x = t->data;
	return x[((block * t->extents[1] + warp) * t->extents[2] + point) * 2 + 1];
}

static int64_t first_time(const HostTensor *t)
{
	const int64_t *x = t->data;
	int64_t low = 0;
	for (size_t i = 1; i < t->count; i += 2) {
		if (x[i] && (!low || x[i] < low))
			low = x[i];
	}
	return low;
}

typedef struct Point { int64_t time, number; } Point;

static int by_time(const void *a, const void *b)
{
	const Point *x = a, *y = b;
	int64_t apart = x->time - y->time ? x->time - y->time : x->number - y->number;
	return (apart > 0) - (apart < 0);
}

/* Those of a warp that were recorded, in the order of their times. */
static int64_t points_of(const HostTensor *t, int64_t block, int64_t warp, Point *out)
{
	int64_t n = 0;
	for (int64_t i = 0; i < t->extents[2]; i++)
		if (at(t, block, warp, i))
			out[n++] = (Point){ at(t, block, warp, i), i };
	qsort(out, (size_t)n, sizeof *out, by_time);
	return n;
}

/* ---- events ----
 * As Perfetto's importer takes them: the numbers of threads differ between blocks, too, or their names are given to
 * another's; none is 0, which is the idle process; an interval's end and the next one's begin are the same text, or a
 * rounding makes them overlap and one is dropped. */

static int64_t process_of(int64_t block) { return block + 1; }
static int64_t thread_of(const HostTensor *t, int64_t block, int64_t warp)
{
	return t->extents[0] + 1 + block * t->extents[1] + warp;
}

typedef struct Writer { FILE *out; const HostTensor *t; int64_t origin; Point *points; bool any; } Writer;

static void print_event(Writer *w, char phase, int64_t pid, int64_t tid)
{
	fprintf(w->out, "%s{\"ph\":\"%c\",\"pid\":%" PRId64 ",\"tid\":%" PRId64, w->any ? ",\n" : "", phase, pid, tid);
	w->any = true;
}

static void print_time(Writer *w, int64_t time)
{
	int64_t ns = time - w->origin;
	fprintf(w->out, ",\"ts\":%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

/* Whether there was an interval. */
static bool print_warp(Writer *w, int64_t block, int64_t warp)
{
	Point *p = w->points;
	int64_t n = points_of(w->t, block, warp, p), pid = process_of(block), tid = thread_of(w->t, block, warp);
	for (int64_t i = 1; i < n; i++) {
		print_event(w, 'B', pid, tid);
		print_time(w, p[i - 1].time);
		fprintf(w->out, ",\"name\":\"%" PRId64 " to %" PRId64 "\"}", p[i - 1].number, p[i].number);
		print_event(w, 'E', pid, tid);
		print_time(w, p[i].time);
		fputs("}", w->out);
	}
	if (n < 2)
		return false;
	print_event(w, 'M', pid, tid);
	fprintf(w->out, ",\"name\":\"thread_name\",\"args\":{\"name\":\"warp %" PRId64 "\"}}", warp);
	return true;
}

static void print_block(Writer *w, const char *kernel, int64_t block)
{
	bool any = false;
	for (int64_t warp = 0; warp < w->t->extents[1]; warp++)
		any |= print_warp(w, block, warp);
	if (!any)
		return;
	print_event(w, 'M', process_of(block), process_of(block));
	fprintf(w->out, ",\"name\":\"process_name\",\"args\":{\"name\":\"%s, block %" PRId64 "\"}}", kernel, block);
}

void timeline_write(const HostTensor *t, const char *kernel, const char *path)
{
	Writer w = { .out = fopen(path, "w"), .t = t, .origin = first_time(t) };

	if (!w.out)
		tool_die(EXIT_RUN, "%s: %s", path, strerror(errno));
	w.points = tool_alloc((size_t)t->extents[2], sizeof *w.points);
	fputs("{\"traceEvents\":[\n", w.out);
	for (int64_t b = 0; b < t->extents[0]; b++)
		print_block(&w, kernel, b);
	fputs("\n]}\n", w.out);
	free(w.points);
	bool failed = ferror(w.out) != 0;
	if (fclose(w.out) || failed)
		tool_die(EXIT_RUN, "%s could not be written", path);
	if (!w.any)
		tool_die(EXIT_RUN, "%s: the kernel recorded no two points; does it have stamp(n)?", path);
}
