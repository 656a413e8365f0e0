/* Times kernels on a GPU.  Correctness comes first: what is wrong is not timed, and makes the exit status 1.
 *
 *     bench [--csv FILE] [--modules DIRS] [startup] [gemm] [gdn] [gdn_backward] [kda] [kda_backward] [twophase] [launch] */
#include "kernels/bench/bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/check/graph.h"

void bench_check(tilert_status s, const char *text, const char *what)
{
	if (s == TILERT_OK)
		return;
	fflush(stdout);
	fprintf(stderr, "%s: %s: %s\n", what, tilert_status_name(s), text);
	exit(1);
}

void *bench_memory(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);
	if (!p) {
		fprintf(stderr, "no memory for %zu bytes\n", bytes);
		exit(1);
	}
	return p;
}

double bench_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

tilert_module *bench_module(Bench *b, const char *name)
{
	tilert_module *m;
	for (const char *folder = b->modules; *folder;) {
		char path[1024];
		size_t n = strcspn(folder, ":");
		snprintf(path, sizeof path, "%.*s/%s", (int)n, folder, name);
		tilert_status s = tilert_module_open(b->device, path, &m);
		if (s == TILERT_OK)
			return m;
		if (s != TILERT_ENOENT)
			bench_check(s, tilert_last_error(), path);
		folder += n + (folder[n] == ':');
	}
	return NULL;
}

static double elapsed(void (*launch)(void *), void *arg, tilert_stream stream, int n, tilert_event *begin, tilert_event *end)
{
	float ms;
	CHECK(tilert_event_record(begin, stream));
	for (int i = 0; i < n; i++)
		launch(arg);
	CHECK(tilert_event_record(end, stream));
	CHECK(tilert_event_elapsed(begin, end, &ms));
	return (double)ms / n;
}

static int ascending(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;
	return (a > b) - (a < b);
}

/* `launch` queues on `stream`. */
static double time_on(Bench *b, tilert_stream stream, void (*launch)(void *), void *arg)
{
	enum { ROUNDS = 9 };
	double ms[ROUNDS];
	tilert_event *begin, *end;
	CHECK(tilert_event_create(b->device, &begin));
	CHECK(tilert_event_create(b->device, &end));
	elapsed(launch, arg, stream, 3, begin, end);
	double once = elapsed(launch, arg, stream, 5, begin, end);
	int n = once > 0 ? (int)(20 / once) : 200; /* 20 ms between two events */
	n = n < 5 ? 5 : n > 400 ? 400 : n;
	for (int i = 0; i < ROUNDS; i++)
		ms[i] = elapsed(launch, arg, stream, n, begin, end);
	qsort(ms, ROUNDS, sizeof ms[0], ascending);
	tilert_event_destroy(begin);
	tilert_event_destroy(end);
	return ms[ROUNDS / 2];
}

double bench_time(Bench *b, void (*launch)(void *), void *arg)
{
	return time_on(b, NULL, launch, arg);
}

typedef struct Replay { Graph *graph; tilert_stream stream; } Replay;

static void launch_graph(void *user)
{
	Replay *r = user;
	bench_check(graph_launch(r->graph, r->stream) ? TILERT_OK : TILERT_EDEVICE, "failed", "cuGraphLaunch");
}

double bench_time_graph(Bench *b, void (*work)(void *, tilert_stream), void *arg)
{
	const char *failed;
	Replay r = { 0 };
	CHECK(tilert_stream_create(b->device, &r.stream));
	r.graph = graph_record(work, arg, r.stream, &failed);
	bench_check(r.graph ? TILERT_OK : TILERT_EDEVICE, "failed", r.graph ? "" : failed);
	double ms = time_on(b, r.stream, launch_graph, &r);
	graph_free(r.graph);
	CHECK(tilert_stream_destroy(b->device, r.stream));
	return ms;
}

static void launch_prepared(void *p)
{
	CHECK(tilert_prepared_launch(p, NULL));
}

double bench_time_prepared(Bench *b, tilert_prepared *p)
{
	return bench_time(b, launch_prepared, p);
}

void bench_csv(Bench *b, const char *what, const char *shape, double ms, double rate, const char *unit, double error)
{
	if (!b->csv)
		return;
	fprintf(b->csv, "\"%s\",%s,\"%s\",%.2f,%.1f,%s,%.2e\n", b->info.name, what, shape, 1e3 * ms, rate, unit, error);
	fflush(b->csv);
}

void bench_row(Bench *b, const char *what, const char *shape, double ms, double rate, const char *unit, double error)
{
	printf("%-22s %-30s %9.2f us %8.0f %-14s error %.1e\n", what, shape, 1e3 * ms, rate, unit, error);
	fflush(stdout);
	bench_csv(b, what, shape, ms, rate, unit, error);
}

void bench_refuse(Bench *b, const char *what, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("%-22s NOT TIMED: ", what);
	vprintf(format, args);
	putchar('\n');
	fflush(stdout);
	va_end(args);
	b->failures++;
}

tilert_ptr bench_poisoned(Bench *b, size_t bytes)
{
	tilert_ptr p;
	CHECK(tilert_alloc(b->device, bytes, &p));
	CHECK(tilert_memset(b->device, p, 0xff, bytes, NULL));
	CHECK(tilert_stream_sync(b->device, NULL));
	return p;
}

tilert_ptr bench_periodic(Bench *b, const void *data, size_t period, size_t bytes)
{
	tilert_ptr p;
	CHECK(tilert_alloc(b->device, bytes, &p));
	for (size_t at = 0; at < bytes; at += period)
		CHECK(tilert_upload(b->device, p + at, data, bytes - at < period ? bytes - at : period));
	return p;
}

void bench_free(Bench *b, tilert_ptr p)
{
	CHECK(tilert_free(b->device, p));
}

tilert_arg bench_tensor(const char *name, tilert_ptr p, tilert_dtype dtype, int rank, const int64_t *extents)
{
	tilert_arg a = { .name = name, .kind = TILERT_ARG_TENSOR, .tensor = { .data = p, .dtype = dtype, .rank = rank } };
	memcpy(a.tensor.extents, extents, (size_t)rank * sizeof *extents);
	return a;
}

static const struct { const char *name; void (*run)(Bench *); } sections[] = {
	{ "startup", bench_startup }, { "gemm", bench_gemm }, { "gdn", bench_gdn }, { "gdn_backward", bench_gdn_backward }, { "kda", bench_kda }, { "kda_backward", bench_kda_backward },
	{ "twophase", bench_twophase }, { "launch", bench_launch },
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

static int usage(void)
{
	fputs("usage: bench [--csv FILE] [--modules DIRS] [startup] [gemm] [gdn] [gdn_backward] [kda] [kda_backward] [twophase] [launch]\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	Bench b = { .modules = BENCH_MODULES };
	bool wanted[SECTIONS] = { false }, all = true;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--csv") == 0 && i + 1 < argc) {
			b.csv = fopen(argv[++i], "a");
			if (!b.csv) {
				perror(argv[i]);
				return 1;
			}
			continue;
		}
		if (strcmp(argv[i], "--modules") == 0 && i + 1 < argc) {
			b.modules = argv[++i];
			continue;
		}
		int s = 0;
		while (s < SECTIONS && strcmp(argv[i], sections[s].name) != 0)
			s++;
		if (s == SECTIONS)
			return usage();
		wanted[s] = true;
		all = false;
	}
	double begin = bench_now_ms();
	CHECK(tilert_device_open("cuda", &b.device));
	b.open_ms = bench_now_ms() - begin;
	CHECK(tilert_device_get_info(b.device, &b.info));
	printf("%s, %d SMs\n", b.info.name, b.info.sm_count);
	for (int s = 0; s < SECTIONS; s++) {
		if (all || wanted[s])
			sections[s].run(&b);
	}
	if (b.csv)
		fclose(b.csv);
	tilert_device_close(b.device);
	return b.failures != 0;
}
