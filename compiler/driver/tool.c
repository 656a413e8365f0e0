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

int tool_run(Arena *a, const char *const *argv, const char *log, const char **error)
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
			*error = arena_printf(a, "waiting for '%s': %s", argv[0], strerror(errno));
			return -1;
		}
	}
	if (!WIFEXITED(status)) {
		*error = arena_printf(a, "'%s' was ended by signal %d", argv[0], WTERMSIG(status));
		return -1;
	}
	return WEXITSTATUS(status);
}

const char *tool_folder(Arena *a, const char **error)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = arena_printf(a, "%s/tilec-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (mkdtemp(dir))
		return dir;
	*error = arena_printf(a, "cannot make a folder in %s: %s", tmp && *tmp ? tmp : "/tmp", strerror(errno));
	return NULL;
}
