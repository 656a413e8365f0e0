/* ptxas.c - finds and runs ptxas on a private copy of the PTX. */
#include "compiler/driver/ptxas.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/driver/outputs.h"

extern char **environ;

static bool executable(const char *path)
{
	return access(path, X_OK) == 0;
}

const char *ptxas_find(Arena *a, const char *option)
{
	if (option)
		return option;
	const char *env = getenv("TILE_PTXAS");
	if (env && *env)
		return env;
	const char *path = getenv("PATH");
	for (const char *p = path ? path : ""; *p;) {
		size_t n = strcspn(p, ":");
		const char *candidate = arena_printf(a, "%.*s/ptxas", (int)n, p);
		if (n && executable(candidate))
			return candidate;
		p += n + (p[n] == ':');
	}
	return executable("/usr/local/cuda/bin/ptxas") ? "/usr/local/cuda/bin/ptxas" : NULL;
}

/* Runs argv with its output in the file `log`; the exit status, or -1 with *error. */
static int run(Arena *a, const char *const *argv, const char *log, const char **error)
{
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	pid_t pid;
	int bad = posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (bad) {
		*error = arena_printf(a, "cannot run '%s': %s", argv[0], strerror(bad));
		return -1;
	}
	int status;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			*error = arena_printf(a, "waiting for ptxas: %s", strerror(errno));
			return -1;
		}
	}
	if (!WIFEXITED(status)) {
		*error = arena_printf(a, "ptxas was ended by signal %d", WTERMSIG(status));
		return -1;
	}
	return WEXITSTATUS(status);
}

bool ptxas_assemble(Arena *a, const Tir *t, const char *ptx, size_t len, const PtxasOptions *o, PtxasResult *r)
{
	*r = (PtxasResult){ 0 };
	const char *tmp = getenv("TMPDIR");
	char *dir = arena_printf(a, "%s/tilec-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		r->failure = arena_printf(a, "cannot make a folder in %s: %s", tmp && *tmp ? tmp : "/tmp", strerror(errno));
		return false;
	}
	const char *in = arena_printf(a, "%s/in.ptx", dir), *out = arena_printf(a, "%s/out.cubin", dir);
	const char *log = arena_printf(a, "%s/log", dir), *level = arena_printf(a, "-O%d", o->opt_level);
	const char *const argv[] = { o->program, "-arch=sm_90a", "-v", "--warn-on-spills", level, in, "-o", out, NULL };
	if (o->verbose) {
		fputs("tilec:", stderr);
		for (int i = 0; argv[i]; i++)
			fprintf(stderr, " %s", argv[i]);
		fputc('\n', stderr);
	}
	int status = -1;
	bool ok = false;
	r->failure = output_write(a, in, ptx, len);
	if (!r->failure)
		status = run(a, argv, log, &r->failure);
	if (!r->failure) {
		size_t n;
		const char *text = input_read(a, log, &n, &r->failure);
		ok = text && ptxas_read_log(a, t, ptx, text, o, r);
		if (text && ok && status != 0) {
			r->failure = arena_printf(a, "%s ended with status %d: %s", o->program, status, text);
			ok = false;
		}
	}
	if (ok) {
		r->cubin = input_read(a, out, &r->len, &r->failure);
		ok = r->cubin != NULL;
	}
	unlink(in);
	unlink(out);
	unlink(log);
	rmdir(dir);
	return ok;
}
