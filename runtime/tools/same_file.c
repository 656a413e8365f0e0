/* same_file.c - files by what the system knows of them, and those that are not there yet by their folders and names. */
#include "runtime/tools/same_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_same(const struct stat *x, const struct stat *y)
{
	return x->st_dev == y->st_dev && x->st_ino == y->st_ino;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool stat_folder(const char *path, struct stat *out)
{
	size_t n = (size_t)(last_name(path) - path);
	char *folder = n ? malloc(n + 1) : NULL;

	if (folder) {
		memcpy(folder, path, n);
		folder[n] = 0;
	}
	bool ok = (folder || !n) && stat(n ? folder : ".", out) == 0;
	free(folder);
	return ok;
}

bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;
	bool a_is_there = stat(a, &x) == 0, b_is_there = stat(b, &y) == 0;

	if (a_is_there || b_is_there)
		return a_is_there && b_is_there && S_ISREG(x.st_mode) && is_same(&x, &y);
	return !strcmp(last_name(a), last_name(b)) && stat_folder(a, &x) && stat_folder(b, &y) && is_same(&x, &y);
}
