/* tool.c - finds and runs programs of the CUDA toolkit. */
#include "compiler/driver/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/driver/signals.h"

extern char **environ;

/* A folder may be entered, which is X_OK, too. */
static const char *executable(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? path : NULL;
}

const char *tool_find(Arena *a, const char *name, const char *option, const char *variable)
{
	if (option)
		return option;
	const char *env = getenv(variable);
	if (env && *env)
		return env;
	const char *path = getenv("PATH");
	for (const char *p = path ? path : ""; *p;) {
		size_t n = strcspn(p, ":");
		const char *found = n ? executable(arena_printf(a, "%.*s/%s", (int)n, p, name)) : NULL;
		if (found)
			return found;
		p += n + (p[n] == ':');
	}
	return executable(arena_printf(a, "/usr/local/cuda/bin/%s", name));
}

bool tool_folder_begin(Arena *a, ToolFolder *f, const char **error)
{
	const char *tmp = getenv("TMPDIR");
	char *path = arena_printf(a, "%s/tilec-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	f->path = path;
	f->before = signals_hold();
	if (mkdtemp(path))
		return true;
	*error = arena_printf(a, "cannot make a folder in %s: %s", tmp && *tmp ? tmp : "/tmp", strerror(errno));
	signals_release(&f->before);
	return false;
}

void tool_folder_end(const ToolFolder *f)
{
	rmdir(f->path);
	signals_release(&f->before);
}

static int start(const ToolFolder *f, const char *const *argv, const char *log, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &f->before);
	signal(SIGCHLD, SIG_DFL); /* there is nothing to wait for where the caller ignores it */
	int bad = posix_spawn(pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return bad;
}

/* The status it ended with; a signal that ended it ends tilec, too, with its folder. */
static bool wait_for(pid_t pid, int *status)
{
	sigset_t awaited = signals_ending();
	int got, ending = 0;
	pid_t ended;
	sigaddset(&awaited, SIGCHLD);
	sigprocmask(SIG_BLOCK, &awaited, NULL);
	while ((ended = waitpid(pid, status, WNOHANG)) == 0) {
		sigwait(&awaited, &got);
		if (got != SIGCHLD)
			kill(pid, ending = got);
	}
	if (ending)
		raise(ending);
	return ended == pid;
}

int tool_run(Arena *a, const ToolFolder *f, const char *const *argv, const char *log, const char **error)
{
	pid_t pid;
	int status, bad = start(f, argv, log, &pid);
	if (bad)
		*error = arena_printf(a, "cannot run '%s': %s", argv[0], strerror(bad));
	else if (!wait_for(pid, &status))
		*error = arena_printf(a, "waiting for '%s': %s", argv[0], strerror(errno));
	else if (!WIFEXITED(status))
		*error = arena_printf(a, "'%s' was ended by signal %d", argv[0], WTERMSIG(status));
	else
		return WEXITSTATUS(status);
	return -1;
}
