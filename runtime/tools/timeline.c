/* timeline.c - writes the points of stamp() as JSON trace events. */
#include "runtime/tools/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
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

static void print_warp(FILE *out, const HostTensor *t, int64_t block, int64_t warp, int64_t origin, bool *first)
{
	int64_t last = -1;
	for (int64_t i = 0; i < t->extents[2]; i++) {
		int64_t now = at(t, block, warp, i);
		if (now && last >= 0) {
			int64_t begin = at(t, block, warp, last);
			fprintf(out, "%s{\"name\":\"%" PRId64 " to %" PRId64 "\",\"ph\":\"X\",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":%.3f,\"dur\":%.3f}",
				*first ? "" : ",\n", last, i, block, warp, 1e-3 * (double)(begin - origin), 1e-3 * (double)(now - begin));
			*first = false;
		}
		if (now)
			last = i;
	}
}

static void print_block(FILE *out, const HostTensor *t, const char *kernel, int64_t block, int64_t origin, bool *first)
{
	bool before = *first;
	for (int64_t w = 0; w < t->extents[1]; w++)
		print_warp(out, t, block, w, origin, first);
	if (*first == before && before)
		return;
	fprintf(out, ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%" PRId64 ",\"args\":{\"name\":\"%s, block %" PRId64 "\"}}", block, kernel, block);
	for (int64_t w = 0; w < t->extents[1]; w++)
		fprintf(out, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"args\":{\"name\":\"warp %" PRId64 "\"}}", block, w, w);
}

void timeline_write(const HostTensor *t, const char *kernel, const char *path)
{
	FILE *out = fopen(path, "w");
	int64_t origin = first_time(t);
	bool first = true;

	if (!out)
		tool_die(EXIT_RUN, "%s: %s", path, strerror(errno));
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
	for (int64_t b = 0; b < t->extents[0]; b++)
		print_block(out, t, kernel, b, origin, &first);
	fputs("\n]}\n", out);
	bool failed = ferror(out) != 0;
	if (fclose(out) || failed)
		tool_die(EXIT_RUN, "%s could not be written", path);
	if (first)
		tool_die(EXIT_RUN, "%s: the kernel recorded no two points; does it have stamp(n)?", path);
}
