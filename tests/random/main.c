/* main.c - random programs against the model; see README.md. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/random/check.h"
#include "tests/random/tools.h"

typedef struct Options {
	uint64_t first, count;
	int batch, jobs, opt_level, seconds;
	bool verbose, gpu;
} Options;

typedef struct Totals {
	uint64_t programs[VERDICTS], statements, ops, tile_ops;
} Totals;

enum { MAX_BATCH = 64, BATCH_SECONDS = 120 };

/* ---- one batch in a process of its own, so that a crash is a verdict ---- */

typedef struct Worker {
	pid_t pid;
	uint64_t first;
	int n;
	time_t started;
	Report *reports; /* shared with it */
	int *statements;
} Worker;

static void run_batch(const Options *o, uint64_t first, int n, Report *reports, int *statements)
{
	Program programs[MAX_BATCH];
	tilert_device *device = programs_device(first + 1);
	if (!device)
		exit(3);
	for (int k = 0; k < n; k++) {
		program_generate(&programs[k], first + (uint64_t)k);
		statements[k] = programs[k].statements;
	}
	Batch b = { .program = programs, .n = n, .opt_level = o->opt_level < 0 ? (int)(first / (uint64_t)o->batch % 4) : o->opt_level,
		.schedule = first, .cpu = true, .gpu = o->gpu };
	check_batch(&b, device, reports, NULL);
	/* what one of them spoils is no verdict on the others */
	bool again = n > 1 && (reports[0].verdict == V_REFUSED || reports[0].verdict == V_INTERNAL);
	for (int k = 0; again && k < n; k++) {
		b.program = &programs[k];
		b.n = 1;
		check_batch(&b, device, &reports[k], NULL);
	}
	for (int k = 0; k < n; k++)
		program_free(&programs[k]);
	tilert_device_close(device);
}

static void start(Worker *w, const Options *o, uint64_t first, int n)
{
	w->first = first;
	w->n = n;
	w->started = time(NULL);
	memset(w->reports, 0, sizeof *w->reports * MAX_BATCH);
	fflush(NULL);
	w->pid = fork();
	if (w->pid == 0) {
		run_batch(o, first, n, w->reports, w->statements);
		exit(0);
	}
}

static void tell(const Options *o, uint64_t seed, const Report *r)
{
	char text[sizeof r->text];
	snprintf(text, sizeof text, "%s", r->text);
	text[strcspn(text, "\n")] = '\0';
	if (r->verdict != V_RIGHT && (r->verdict != V_REFUSED || o->verbose))
		printf("seed %llu: %s: %s\n", (unsigned long long)seed, verdict_names[r->verdict], text);
}

static void account(const Options *o, const Worker *w, Totals *t)
{
	for (int k = 0; k < w->n; k++) {
		const Report *r = &w->reports[k];
		t->programs[r->verdict]++;
		t->statements += (uint64_t)w->statements[k];
		t->ops += r->count.ops;
		t->tile_ops += r->count.tile_ops;
		tell(o, w->first + (uint64_t)k, r);
	}
}

/* A batch that crashed is run again one by one. */
static void finish(const Options *o, Worker *w, int status, Totals *t)
{
	w->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		account(o, w, t);
		return;
	}
	if (w->n == 1) {
		w->reports[0].verdict = V_CRASH;
		snprintf(w->reports[0].text, sizeof w->reports[0].text, WIFSIGNALED(status) ? "signal %d" : "exit %d",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		account(o, w, t);
		return;
	}
	uint64_t first = w->first;
	for (int k = 0, n = w->n; k < n; k++) {
		start(w, o, first + (uint64_t)k, 1);
		waitpid(w->pid, &status, 0);
		finish(o, w, status, t);
	}
}

static void kill_late(const Worker *w)
{
	if (w->pid && time(NULL) - w->started > BATCH_SECONDS)
		kill(w->pid, SIGKILL);
}

static void wait_one(const Options *o, Worker *workers, Totals *t)
{
	int status;
	for (;;) {
		for (int k = 0; k < o->jobs; k++) {
			if (workers[k].pid && waitpid(workers[k].pid, &status, WNOHANG) == workers[k].pid) {
				finish(o, &workers[k], status, t);
				return;
			}
			kill_late(&workers[k]);
		}
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	}
}

static Worker *new_workers(int n)
{
	size_t each = sizeof(Report) * MAX_BATCH + sizeof(int) * MAX_BATCH;
	char *shared = mmap(NULL, each * (size_t)n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	Worker *w = calloc((size_t)n, sizeof *w);
	if (shared == MAP_FAILED || !w)
		abort();
	for (int k = 0; k < n; k++) {
		w[k].reports = (Report *)(shared + each * (size_t)k);
		w[k].statements = (int *)(w[k].reports + MAX_BATCH);
	}
	return w;
}

static int running(const Worker *w, int n)
{
	int count = 0;
	for (int k = 0; k < n; k++)
		count += w[k].pid != 0;
	return count;
}

static int run_all(const Options *o)
{
	Worker *workers = new_workers(o->jobs);
	Totals t = { 0 };
	time_t end = time(NULL) + o->seconds;
	uint64_t at = o->first, last = o->first + o->count;
	while (at < last || running(workers, o->jobs)) {
		bool more = at < last && (!o->seconds || time(NULL) < end);
		int k = 0;
		while (k < o->jobs && workers[k].pid)
			k++;
		if (!more)
			last = at;
		if (!more || k == o->jobs) {
			if (running(workers, o->jobs))
				wait_one(o, workers, &t);
			continue;
		}
		int n = last - at < (uint64_t)o->batch ? (int)(last - at) : o->batch;
		start(&workers[k], o, at, n);
		at += (uint64_t)n;
	}
	uint64_t bad = 0, all = 0;
	for (int v = 0; v < VERDICTS; v++) {
		all += t.programs[v];
		bad += v != V_RIGHT && v != V_REFUSED ? t.programs[v] : 0;
	}
	printf("%llu programs from seed %llu, %llu statements, %llu tile operations:", (unsigned long long)all, (unsigned long long)o->first,
		(unsigned long long)t.statements, (unsigned long long)t.tile_ops);
	for (int v = 0; v < VERDICTS; v++)
		if (t.programs[v])
			printf(" %llu %s", (unsigned long long)t.programs[v], verdict_names[v]);
	printf("\n");
	free(workers);
	return bad != 0;
}

/* ---- the command line ---- */

static int show(uint64_t seed)
{
	Program p;
	program_generate(&p, seed);
	fputs(p.text, stdout);
	program_free(&p);
	return 0;
}

static int usage(void)
{
	fputs("usage: random [--first=SEED] [--count=N] [--seconds=N] [--batch=N] [--jobs=N] [-O0..3] [--gpu] [-v]\n"
	      "       random --show=SEED\n"
	      "       random --reduce=SEED\n"
	      "       random --pack=FOLDER [--first=SEED] [--count=N]\n", stderr);
	return 2;
}

static const char *value_of(const char *arg, const char *name)
{
	size_t n = strlen(name);
	return !strncmp(arg, name, n) ? arg + n : NULL;
}

int main(int argc, char **argv)
{
	Options o = { .count = 300, .batch = 6, .jobs = 2, .opt_level = -1 };
	const char *v, *reduced = NULL, *folder = NULL;
	for (int k = 1; k < argc; k++) {
		const char *a = argv[k];
		if ((v = value_of(a, "--first=")))
			o.first = strtoull(v, NULL, 0);
		else if ((v = value_of(a, "--count=")))
			o.count = strtoull(v, NULL, 0);
		else if ((v = value_of(a, "--seconds=")))
			o.seconds = atoi(v);
		else if ((v = value_of(a, "--batch=")))
			o.batch = atoi(v);
		else if ((v = value_of(a, "--jobs=")))
			o.jobs = atoi(v);
		else if ((v = value_of(a, "-O")))
			o.opt_level = atoi(v);
		else if (!strcmp(a, "--gpu"))
			o.gpu = true;
		else if (!strcmp(a, "-v"))
			o.verbose = true;
		else if ((v = value_of(a, "--show=")))
			return show(strtoull(v, NULL, 0));
		else if ((v = value_of(a, "--reduce=")))
			reduced = v;
		else if ((v = value_of(a, "--pack=")))
			folder = v;
		else
			return usage();
	}
	if (o.batch < 1 || o.batch > MAX_BATCH || o.jobs < 1)
		return usage();
	if (reduced)
		return reduce(strtoull(reduced, NULL, 0), o.opt_level < 0 ? 2 : o.opt_level);
	return folder ? pack_programs(folder, o.first, o.count) : run_all(&o);
}
