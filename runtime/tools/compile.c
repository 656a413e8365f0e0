/* compile.c - runs tilec on a .tile file; the module comes through a pipe, so that no file is left behind by whoever is interrupted. */
#include "runtime/tools/compile.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
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

typedef struct Image {
	char *bytes;
	size_t size;
} Image;

static void read_all(int from, Image *image)
{
	enum { STEP = 1 << 16 };
	ssize_t n;

	*image = (Image){ 0 };
	do {
		image->bytes = tool_grow(image->bytes, image->size + STEP, 1);
		n = read(from, image->bytes + image->size, STEP);
		image->size += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
}

/* The exit status, or -1; what it has written to standard output in *image. */
static int run(const char **argv, Image *image)
{
	int status, ends[2];

	fflush(stdout);
	signal(SIGCHLD, SIG_DFL); /* there is nothing to wait for where the caller ignores it */
	pid_t child = pipe(ends) ? -1 : fork();
	if (child < 0)
		return -1;
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		for (int i = 0; i < 2; i++)
			if (ends[i] != STDOUT_FILENO)
				close(ends[i]);
		execvp(argv[0], (char *const *)(const void *)argv);
		_exit(NOT_FOUND);
	}
	close(ends[1]);
	read_all(ends[0], image);
	close(ends[0]);
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_compiler(const char *target, const char *path, const char *const *flags, size_t n_flags, const char *define, Image *image)
{
	const char **argv = tool_alloc(n_flags + FIXED_FLAGS + 1, sizeof *argv);
	char *beside = find_beside();
	size_t n = 0;

	argv[n++] = beside ? beside : "tilec";
	argv[n++] = "--emit=module";
	argv[n++] = target;
	if (define) { /* before the user's, which win */
		argv[n++] = "-D";
		argv[n++] = define;
	}
	for (size_t i = 0; i < n_flags; i++)
		argv[n++] = flags[i];
	argv[n++] = "-o";
	argv[n++] = "-";
	argv[n++] = "--"; /* a name may begin with a - */
	argv[n++] = path;
	int code = run(argv, image);
	free(argv);
	free(beside);
	return code;
}

tilert_module *compile_and_open(tilert_device *d, const char *target, const char *path, const char *const *flags, size_t n_flags, const char *define)
{
	Image image = { 0 };
	tilert_module *m = NULL;

	if (access(path, R_OK))
		tool_die(EXIT_RUN, "%s: %s", path, strerror(errno));
	int code = run_compiler(target, path, flags, n_flags, define, &image);
	tilert_status s = code == 0 ? tilert_module_load(d, image.bytes, image.size, &m) : TILERT_OK;
	free(image.bytes);
	if (code == NOT_FOUND)
		tool_die(EXIT_RUN, "tilec was not found beside tilerun or in PATH; it is needed to compile %s", path);
	if (code)
		tool_die(EXIT_RUN, "tilec could not compile %s", path);
	if (s)
		tool_die(EXIT_RUN, "%s", tilert_last_error());
	return m;
}
