/* reduce.c - drops statements and blocks of a program for as long as it fails in the same way. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/random/check.h"
#include "tests/random/tools.h"

enum { MAX_LINES = 2000 };

typedef struct Lines { char *at[MAX_LINES]; bool dropped[MAX_LINES]; int n; } Lines;

static void split(char *text, Lines *l)
{
	for (char *p = strtok(text, "\n"); p && l->n < MAX_LINES; p = strtok(NULL, "\n"))
		l->at[l->n++] = p;
}

static char *joined(const Lines *l)
{
	size_t size = 1, used = 0;
	for (int k = 0; k < l->n; k++)
		size += strlen(l->at[k]) + 1;
	char *s = malloc(size);
	if (!s)
		abort();
	s[0] = '\0';
	for (int k = 0; k < l->n; k++)
		if (!l->dropped[k])
			used += (size_t)sprintf(s + used, "%s\n", l->at[k]);
	return s;
}

/* In a process of its own, with the program's text replaced. */
static Verdict verdict_of(Program *p, char *text, int opt_level, Report *shared)
{
	memset(shared, 0, sizeof *shared);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		tilert_device *d = programs_device(p->seed + 1);
		if (!d)
			_exit(3);
		p->text = text;
		check_batch(&(Batch){ .program = p, .n = 1, .cpu = true, .opt_level = opt_level }, d, shared, NULL);
		_exit(0);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? shared->verdict : V_CRASH;
}

/* The last line of the block that line k opens; k itself when it opens none. */
static int end_of(const Lines *l, int k)
{
	int depth = 0;
	for (int n = k; n < l->n; n++) {
		if (strchr(l->at[n], '}'))
			depth--;
		if (depth <= 0 && n > k && strchr(l->at[n], '}') && !strchr(l->at[n], '{'))
			return n;
		if (strchr(l->at[n], '{'))
			depth++;
		if (n == k && depth == 0)
			return k;
	}
	return k;
}

static bool may_go(const Lines *l, int k)
{
	static const char *const needed[] = { "kernel ", "sync(", "wait", "arrive", "mbarrier ", "} else" };
	if (l->dropped[k] || l->at[k][0] == '{' || strspn(l->at[k], "\t}") == strlen(l->at[k]))
		return false;
	for (size_t n = 0; n < sizeof needed / sizeof needed[0]; n++)
		if (strstr(l->at[k], needed[n]))
			return false;
	return true;
}

static void drop(Lines *l, int from, int to, bool dropped)
{
	for (int n = from; n <= to; n++)
		l->dropped[n] = dropped;
}

int reduce(uint64_t seed, int opt_level)
{
	Report *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	Program p;
	static Lines lines;
	program_generate(&p, seed);
	Verdict first = verdict_of(&p, p.text, opt_level, shared);
	split(p.text, &lines);
	for (bool changed = first != V_RIGHT && first != V_REFUSED; changed;) {
		changed = false;
		for (int k = lines.n; k-- > 0;) {
			int end = end_of(&lines, k);
			if (!may_go(&lines, k))
				continue;
			Lines before = lines;
			drop(&lines, k, end, true);
			char *text = joined(&lines);
			if (verdict_of(&p, text, opt_level, shared) == first)
				changed = true;
			else
				lines = before;
			free(text);
		}
	}
	char *text = joined(&lines);
	verdict_of(&p, text, opt_level, shared);
	printf("// seed %llu: %s: %s\n%s", (unsigned long long)seed, verdict_names[first], shared->text, text);
	free(text);
	return 0;
}
