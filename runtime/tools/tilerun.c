/* tilerun.c - runs one kernel of a module from the command line. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/tools/compare.h"
#include "runtime/tools/compile.h"
#include "runtime/tools/list.h"
#include "runtime/tools/options.h"
#include "runtime/tools/run.h"
#include "runtime/tools/sweep.h"
#include "runtime/tools/timeline.h"
#include "runtime/tools/tool.h"
#include "tilert/tilert.h"

static bool is_source(const char *path)
{
	size_t n = strlen(path);

	return n > 5 && !strcmp(path + n - 5, ".tile");
}

/* The CPU device runs what ptxas would refuse. */
static const char *target_for(const tilert_device *d)
{
	tilert_device_info info = { .is_cuda = 1 };

	if (d)
		run_check(tilert_device_get_info(d, &info));
	return info.is_cuda ? "--target=all" : "--target=cpu";
}

static tilert_module *open_module(tilert_device *d, const Options *o)
{
	tilert_module *m;

	if (is_source(o->file))
		return compile_and_open(d, target_for(d), o->file, o->compiler_flags, o->n_compiler_flags, o->trace ? "TRACE=256" : NULL);
	if (o->n_compiler_flags)
		tool_die(EXIT_USAGE, "%s is for .tile files, and %s is compiled", o->compiler_flags[0], o->file);
	run_check(tilert_module_open(d, o->file, &m));
	return m;
}

/* ---- progress ---- */

typedef struct Progress {
	const char *kernel;
	struct timespec last; /* when the line was printed */
	bool shown;
} Progress;

/* A line on the terminal, at most twice a second and not in the first half second. */
static void show_progress(void *user, uint64_t done, uint64_t all)
{
	Progress *p = user;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	double seconds = (double)(now.tv_sec - p->last.tv_sec) + 1e-9 * (double)(now.tv_nsec - p->last.tv_nsec);
	if (seconds < 0.5)
		return;
	p->last = now;
	p->shown = true;
	fprintf(stderr, "\r%s: %llu of %llu blocks, %.0f%% ", p->kernel, (unsigned long long)done,
	        (unsigned long long)all, all ? 100.0 * (double)done / (double)all : 100.0);
	fflush(stderr);
}

static void clear_progress(Progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}

/* What the library begins with, and tilert_cpu_set_checks replaces. */
static bool is_race_check_left_out(const Options *o)
{
	const char *environment = getenv("TILERT_NO_RACE_CHECK");

	return o->no_race_check || (environment && *environment && strcmp(environment, "0"));
}

static void set_up_cpu(tilert_device *d, const Options *o, Progress *p)
{
	run_check(tilert_cpu_configure(d, o->seed, o->threads));
	run_check(tilert_cpu_set_checks(d, &(tilert_cpu_checks){ .races = !is_race_check_left_out(o), .arithmetic = !o->no_arithmetic_check, .timeout = o->timeout }));
	clock_gettime(CLOCK_MONOTONIC, &p->last);
	if (isatty(STDERR_FILENO))
		run_check(tilert_cpu_set_progress(d, show_progress, p));
}

/* ---- the run ---- */

static tilert_kernel *choose_kernel(tilert_module *m, const char *name)
{
	tilert_kernel *k = tilert_module_kernel_at(m, 0);

	if (name && tilert_module_kernel(m, name, &k))
		tool_die(EXIT_USAGE, "%s", tilert_last_error());
	if (!name && tilert_module_kernel_count(m) > 1)
		tool_die(EXIT_USAGE, "the module has %zu kernels: choose one with --kernel (--list shows them)",
		         tilert_module_kernel_count(m));
	return k;
}

/* Writes, compares and describes the outputs; true when all comparisons were within the tolerance. */
static bool report(Run *r)
{
	const Options *o = r->o;
	bool ok = true;

	for (size_t i = 0; i < o->outs.count; i++)
		tensor_write(run_find_output(r, "--out", o->outs.items[i].name), o->outs.items[i].value);
	for (size_t i = 0; i < r->n_tensors && o->outs.count == 0; i++) {
		if ((r->directions[i] & 2) && r->tensors[i].data)
			print_summary(&r->tensors[i]);
	}
	for (size_t i = 0; i < o->compares.count; i++) {
		const NameValue *c = &o->compares.items[i];
		ok &= compare_with_file(run_find_output(r, "--compare", c->name), c->value, o->tolerance);
	}
	return ok;
}

static void launch(Run *r, tilert_prepared *p, Progress *progress)
{
	tilert_status s = tilert_prepared_launch(p, NULL);

	clear_progress(progress);
	if (s && r->o->seeds > 1)
		tool_die(EXIT_RUN, "seed %llu: %s", (unsigned long long)r->seed, tilert_last_error());
	run_check(s);
	run_download(r);
}

/* The seeds but the last; false: a comparison failed. */
static bool run_seeds(Run *r, tilert_prepared *p, Progress *progress)
{
	const NameValues *compares = &r->o->compares;
	bool ok = true;

	for (unsigned n = 1; n < r->o->seeds && ok; n++) {
		launch(r, p, progress);
		for (size_t i = 0; i < compares->count; i++)
			ok &= compare_with_file(run_find_output(r, "--compare", compares->items[i].name), compares->items[i].value, r->o->tolerance);
		if (!ok)
			printf("with seed %llu\n", (unsigned long long)r->seed);
		run_check(tilert_cpu_configure(r->device, ++r->seed, r->o->threads));
		run_restore(r);
	}
	return ok;
}

static bool run(Run *r, Progress *progress, double *ms)
{
	tilert_prepared *p;

	run_build_arguments(r);
	run_upload(r);
	run_check(tilert_prepare(r->kernel, r->args, r->n_args, &p));
	bool ok = run_seeds(r, p, progress);
	if (ok) {
		launch(r, p, progress);
		ok = report(r);
	}
	if (r->o->trace)
		timeline_write(run_find_output(r, "--trace", "trace"), tilert_kernel_name(r->kernel), r->o->trace);
	if (r->o->time)
		*ms = run_time(r, p);
	clear_progress(progress);
	tilert_prepared_destroy(p);
	return ok;
}

static tilert_device *open_device(const Options *o, Progress *progress)
{
	tilert_device_info info;
	tilert_device *d;
	tilert_status s = tilert_device_open(o->device, &d);

	if (s)
		tool_die(s == TILERT_EINVAL ? EXIT_USAGE : EXIT_RUN, "%s", tilert_last_error());
	run_check(tilert_device_get_info(d, &info));
	if (!info.is_cuda)
		set_up_cpu(d, o, progress);
	return d;
}

/* Compiles or opens the file, runs or lists; false: a comparison failed. */
static bool run_file(const Options *o, double *ms)
{
	Progress progress = { .kernel = "" };
	bool ok = true;
	tilert_device *d = o->list ? NULL : open_device(o, &progress);
	tilert_module *m = open_module(d, o);

	if (o->list) {
		(o->json ? list_json : list_kernels)(m);
	} else {
		Run r = { .o = o, .device = d, .kernel = choose_kernel(m, o->kernel), .seed = o->seed };
		progress.kernel = tilert_kernel_name(r.kernel);
		ok = run(&r, &progress, ms);
		run_free(&r);
	}
	tilert_module_close(m);
	tilert_device_close(d);
	return ok;
}

static double run_timed(const Options *o)
{
	Options timed = *o;
	double ms = 0;

	timed.time = true;
	if (!run_file(&timed, &ms))
		tool_die(EXIT_MISMATCH, "a comparison failed");
	return ms;
}

int main(int argc, char **argv)
{
	Options o;
	double ms;

	options_parse(&o, argc, argv);
	if (o.sweeps.count && !is_source(o.file))
		tool_die(EXIT_USAGE, "--sweep is for .tile files, and %s is compiled", o.file);
	if (o.sweeps.count && o.list)
		tool_die(EXIT_USAGE, "--sweep runs and --%s does not: one of them", o.json ? "json" : "list");
	bool ok = o.sweeps.count ? sweep(&o, run_timed) : run_file(&o, &ms);
	options_free(&o);
	tool_check_output();
	return ok ? EXIT_OK : EXIT_MISMATCH;
}
