/* sweep.c - a process for each combination: one that does not compile, or faults, is a line of the table. */
#include "runtime/tools/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/tools/tool.h"

enum { MOST = 1000, REASON = 512 };
typedef struct Row {
	char *defines; /* "BN=128 STAGES=2" */
	double ms;     /* below 0: it failed */
	char reason[REASON];
} Row;

static size_t value_count(const char *list)
{
	size_t n = 1;
	for (; *list; list++)
		n += *list == ',';
	return n;
}

/* Value i of "a,b,c". */
static char *value_at(const char *list, size_t i)
{
	for (; i; i--)
		list = strchr(list, ',') + 1;
	return tool_copy(list, strcspn(list, ","));
}

static size_t combinations(const NameValues *s)
{
	size_t n = 1;
	for (size_t i = 0; i < s->count; i++) {
		n *= value_count(s->items[i].value);
		if (n > MOST)
			tool_die(EXIT_USAGE, "--sweep: more than %d combinations", MOST);
	}
	return n;
}

/* "NAME=VALUE" of parameter i in combination c; the last parameter changes fastest. */
static char *define_of(const NameValues *s, size_t i, size_t c)
{
	for (size_t k = s->count - 1; k > i; k--)
		c /= value_count(s->items[k].value);
	char *value = value_at(s->items[i].value, c % value_count(s->items[i].value));
	size_t size = strlen(s->items[i].name) + strlen(value) + 2;
	char *text = tool_alloc(size, 1);
	snprintf(text, size, "%s=%s", s->items[i].name, value);
	free(value);
	return text;
}

static char *joined(const NameValues *s, size_t c)
{
	char *all = tool_alloc(1, 1);
	for (size_t i = 0; i < s->count; i++) {
		char *one = define_of(s, i, c);
		size_t size = strlen(all) + strlen(one) + 2;
		char *more = tool_alloc(size, 1);
		snprintf(more, size, "%s%s%s", all, i ? " " : "", one);
		free(all);
		free(one);
		all = more;
	}
	return all;
}

/* In the child: result to one pipe, what is said to the other. */
static void run_child(const Options *o, size_t c, double (*one)(const Options *), const int result[2], const int said[2])
{
	Options mine = *o;
	size_t n = o->n_compiler_flags;
	mine.compiler_flags = tool_alloc(n + 2 * o->sweeps.count, sizeof *mine.compiler_flags);
	if (n)
		memcpy(mine.compiler_flags, o->compiler_flags, n * sizeof *mine.compiler_flags);
	for (size_t i = 0; i < o->sweeps.count; i++) {
		mine.compiler_flags[n++] = "-D";
		mine.compiler_flags[n++] = define_of(&o->sweeps, i, c);
	}
	mine.n_compiler_flags = n;
	close(result[0]);
	close(said[0]);
	if (!freopen("/dev/null", "w", stdout) || dup2(said[1], STDERR_FILENO) < 0)
		_exit(EXIT_RUN);
	double ms = one(&mine);
	_exit(write(result[1], &ms, sizeof ms) == sizeof ms ? EXIT_OK : EXIT_RUN);
}

/* The first line of what the child said, and what it wrote after that is passed over. */
static void read_reason(int fd, char reason[REASON])
{
	char buffer[4096];
	size_t used = 0;
	bool full = false;
	for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) {
		for (ssize_t i = 0; i < n && !full; i++) {
			full = buffer[i] == '\n' || used == REASON - 1;
			if (!full)
				reason[used++] = buffer[i];
		}
	}
	reason[used] = 0;
}

static void run_row(const Options *o, size_t c, double (*one)(const Options *), Row *row)
{
	int result[2], said[2], status;
	if (pipe(result) || pipe(said))
		tool_die(EXIT_RUN, "no pipe");
	pid_t child = fork();
	if (child < 0)
		tool_die(EXIT_RUN, "no process");
	if (child == 0)
		run_child(o, c, one, result, said);
	close(result[1]);
	close(said[1]);
	read_reason(said[0], row->reason);
	row->defines = joined(&o->sweeps, c);
	if (read(result[0], &row->ms, sizeof row->ms) != sizeof row->ms)
		row->ms = -1;
	close(result[0]);
	close(said[0]);
	if (waitpid(child, &status, 0) == child && WIFSIGNALED(status) && !row->reason[0])
		snprintf(row->reason, sizeof row->reason, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/* The rows' places are the same file's. */
static const char *without_place(const char *reason)
{
	static const char mark[] = ": error: ";
	const char *at = strstr(reason, mark);
	return at ? at + sizeof mark - 1 : reason;
}

/* Those that failed first, then the slower ones. */
static int by_time(const void *a, const void *b)
{
	double x = ((const Row *)a)->ms, y = ((const Row *)b)->ms;
	return x < 0 || y < 0 ? (x >= 0) - (y >= 0) : (x < y) - (x > y);
}

bool sweep(const Options *o, double (*one)(const Options *o))
{
	size_t n = combinations(&o->sweeps), width = 0;
	Row *rows = tool_alloc(n, sizeof *rows);
	bool terminal = isatty(STDERR_FILENO), any;

	for (size_t c = 0; c < n; c++) {
		if (terminal)
			fprintf(stderr, "\r\033[K%zu of %zu ", c + 1, n);
		run_row(o, c, one, &rows[c]);
		width = strlen(rows[c].defines) > width ? strlen(rows[c].defines) : width;
	}
	if (terminal)
		fprintf(stderr, "\r\033[K");
	qsort(rows, n, sizeof *rows, by_time);
	any = rows[n - 1].ms >= 0;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].ms >= 0)
			printf("%-*s  %10.4f ms\n", (int)width, rows[i].defines, rows[i].ms);
		else
			printf("%-*s  failed: %.120s\n", (int)width, rows[i].defines, without_place(rows[i].reason));
		free(rows[i].defines);
	}
	free(rows);
	return any;
}
