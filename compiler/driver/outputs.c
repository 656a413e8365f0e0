/* outputs.c - reads inputs whole and writes outputs whole or not at all. */
#define _DEFAULT_SOURCE /* realpath */
#include "compiler/driver/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/driver/signals.h"

bool input_exists(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* NULL: it can be read. */
static const char *why_unreadable(FILE *f)
{
	struct stat st;
	if (!f || fstat(fileno(f), &st) != 0)
		return strerror(errno);
	if (S_ISDIR(st.st_mode))
		return strerror(EISDIR);
	return f == stdin || S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) ? NULL : "it is no regular file";
}

static const char *read_whole(Arena *a, FILE *f, Buffer *b)
{
	char chunk[65536];
	size_t n;
	while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) {
		if (b->len + n > INPUT_LIMIT)
			return arena_printf(a, "it has more than %d bytes", INPUT_LIMIT);
		buffer_bytes(b, chunk, n);
	}
	return ferror(f) ? strerror(errno) : NULL;
}

char *input_read(Arena *a, const char *path, size_t *len, const char **error)
{
	bool standard = strcmp(path, "-") == 0;
	FILE *f = standard ? stdin : fopen(path, "rb");
	Buffer b = { .arena = a };
	const char *why = why_unreadable(f);
	if (!why)
		why = read_whole(a, f, &b);
	if (f && !standard)
		fclose(f);
	if (why)
		*error = arena_printf(a, "cannot read '%s': %s", path, why);
	*len = b.len;
	return why ? NULL : b.data ? b.data : arena_strndup(a, "", 0);
}

static bool write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

/* A device, a pipe, or a link to nothing, which makes what it names. */
static bool stays(const char *path)
{
	struct stat st, link;
	bool there = stat(path, &st) == 0;
	return there ? !S_ISREG(st.st_mode) : lstat(path, &link) == 0;
}

static const char *link_target(Arena *a, const char *path)
{
	char *real = realpath(path, NULL);
	const char *target = real ? arena_strndup(a, real, strlen(real)) : path;
	free(real);
	return target;
}

/* A new file beside the target, whose name may be as long as names can be, so of that is taken what leaves room.  One of a process that was
   killed may have the name: numbers of processes come again. */
static int open_temporary(Arena *a, const char *target, const char **name)
{
	enum { TRIES = 100, TAKEN = 200 };
	const char *slash = strrchr(target, '/'), *base = slash ? slash + 1 : target;
	int fd = -1;
	for (int i = 0; i < TRIES && (i == 0 || (fd < 0 && errno == EEXIST)); i++) {
		*name = arena_printf(a, "%.*s%.*s.tmp%ld", (int)(base - target), target, TAKEN, base, (long)getpid());
		if (i)
			*name = arena_printf(a, "%s.%d", *name, i);
		fd = open(*name, O_WRONLY | O_CREAT | O_EXCL, 0666);
	}
	return fd;
}

static bool write_closing(int fd, const void *data, size_t len)
{
	bool ok = write_all(fd, data, len);
	return close(fd) == 0 && ok;
}

static bool write_in_place(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	return fd >= 0 && write_closing(fd, data, len);
}

static bool write_renamed(Arena *a, const char *target, const void *data, size_t len)
{
	const char *name;
	sigset_t before = signals_hold();
	int fd = open_temporary(a, target, &name);
	bool ok = fd >= 0 && write_closing(fd, data, len) && rename(name, target) == 0;
	int error = errno;
	if (fd >= 0 && !ok)
		unlink(name);
	signals_release(&before);
	errno = error;
	return ok;
}

/* Also by another name, such as /dev/stdout: where it is a file, a new one would take the place of what is in it. */
static bool is_standard(const char *path)
{
	struct stat named, standard;
	return strcmp(path, "-") == 0 || (stat(path, &named) == 0 && fstat(STDOUT_FILENO, &standard) == 0
		&& named.st_dev == standard.st_dev && named.st_ino == standard.st_ino);
}

const char *output_write(Arena *a, const char *path, const void *data, size_t len)
{
	bool ok, standard = is_standard(path);
	if (standard) {
		fflush(stdout);
		ok = write_all(STDOUT_FILENO, data, len);
	} else {
		ok = stays(path) ? write_in_place(path, data, len) : write_renamed(a, link_target(a, path), data, len);
	}
	if (ok)
		return NULL;
	return standard ? arena_printf(a, "cannot write standard output: %s", strerror(errno)) : arena_printf(a, "cannot write '%s': %s", path, strerror(errno));
}

void buffer_bytes(Buffer *b, const void *data, size_t len)
{
	if (b->len + len + 1 > b->cap) {
		size_t cap = b->cap ? b->cap : 256;
		while (cap < b->len + len + 1)
			cap *= 2;
		char *grown = ARENA_ARRAY(b->arena, char, cap);
		if (b->len)
			memcpy(grown, b->data, b->len);
		b->data = grown;
		b->cap = cap;
	}
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buffer_put(Buffer *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	const char *s = arena_vprintf(b->arena, fmt, ap);
	va_end(ap);
	buffer_bytes(b, s, strlen(s));
}
