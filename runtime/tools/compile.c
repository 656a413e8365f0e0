/* compile.c - runs tilec on a .tile file, with the module in a folder of its own that is removed at once. */
#include "runtime/tools/compile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/tools/tool.h"

enum { FIXED_FLAGS = 9, NOT_FOUND = 127 };

/* The tilec beside this program, or NULL. */
static char *find_beside(void)
{
	char self[PATH_MAX + sizeof "/tilec"];
	ssize_t n = readlink("/proc/self/exe", self, PATH_MAX);

	if (n <= 0)
		return NULL;
	self[n] = 0;
	char *slash = strrchr(self, '/');
	if (!slash)
		return NULL;
	memcpy(slash + 1, "tilec", sizeof "tilec");
	return access(self, X_OK) ? NULL : tool_copy(self, strlen(self));
}

static int run(const char **argv)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		return -1;
	if (child == 0) {
		execvp(argv[0], (char *const *)(const void *)argv);
		_exit(NOT_FOUND);
	}
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_compiler(const char *path, const char *output, const char *const *flags, size_t n_flags, const char *define)
{
	const char **argv = tool_alloc(n_flags + FIXED_FLAGS + 1, sizeof *argv);
	char *beside = find_beside();
	size_t n = 0;

	argv[n++] = beside ? beside : "tilec";
	argv[n++] = "--emit=module";
	argv[n++] = "--target=all";
	if (define) { /* before the user's, which win */
		argv[n++] = "-D";
		argv[n++] = define;
	}
	for (size_t i = 0; i < n_flags; i++)
		argv[n++] = flags[i];
	argv[n++] = "-o";
	argv[n++] = output;
	argv[n++] = "--"; /* a name may begin with a - */
	argv[n++] = path;
	int code = run(argv);
	free(argv);
	free(beside);
	return code;
}

tilert_module *compile_and_open(tilert_device *d, const char *path, const char *const *flags, size_t n_flags, const char *define)
{
	char folder[PATH_MAX], output[PATH_MAX + sizeof "/module.tmod"];
	const char *tmp = getenv("TMPDIR");
	tilert_module *m = NULL;

	if (access(path, R_OK))
		tool_die(EXIT_RUN, "%s: %s", path, strerror(errno));
	snprintf(folder, sizeof folder, "%s/tilerun-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(folder))
		tool_die(EXIT_RUN, "%s: %s", folder, strerror(errno));
	snprintf(output, sizeof output, "%s/module.tmod", folder);
	int code = run_compiler(path, output, flags, n_flags, define);
	tilert_status s = code == 0 ? tilert_module_open(d, output, &m) : TILERT_OK;
	unlink(output);
	rmdir(folder);
	if (code == NOT_FOUND)
		tool_die(EXIT_RUN, "tilec was not found beside tilerun or in PATH; it is needed to compile %s", path);
	if (code)
		tool_die(EXIT_RUN, "tilec could not compile %s", path);
	if (s)
		tool_die(EXIT_RUN, "%s", tilert_last_error());
	return m;
}
