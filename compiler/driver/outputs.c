/* outputs.c - reads inputs whole and writes outputs whole or not at all. */
#include "compiler/driver/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *input_read(Arena *a, const char *path, size_t *len, const char **error)
{
	bool standard = strcmp(path, "-") == 0;
	FILE *f = standard ? stdin : fopen(path, "rb");
	Buffer b = { .arena = a };
	char chunk[65536];
	size_t n;
	while (f && (n = fread(chunk, 1, sizeof chunk, f)) > 0)
		buffer_bytes(&b, chunk, n);
	bool bad = !f || ferror(f);
	if (bad)
		*error = arena_printf(a, "cannot read '%s': %s", path, strerror(errno));
	if (f && !standard)
		fclose(f);
	*len = b.len;
	return bad ? NULL : b.data ? b.data : arena_strndup(a, "", 0);
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

const char *output_write(Arena *a, const char *path, const void *data, size_t len)
{
	if (strcmp(path, "-") == 0) {
		fflush(stdout);
		return write_all(STDOUT_FILENO, data, len) ? NULL : arena_printf(a, "cannot write standard output: %s", strerror(errno));
	}
	struct stat st;
	bool in_place = stat(path, &st) == 0 && !S_ISREG(st.st_mode); /* a device or pipe */
	const char *name = in_place ? path : arena_printf(a, "%s.tmp%ld", path, (long)getpid());
	int fd = open(name, in_place ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL, 0666);
	if (fd < 0)
		return arena_printf(a, "cannot write '%s': %s", path, strerror(errno));
	bool ok = write_all(fd, data, len);
	ok = close(fd) == 0 && ok;
	ok = ok && (in_place || rename(name, path) == 0);
	if (ok)
		return NULL;
	const char *error = arena_printf(a, "cannot write '%s': %s", path, strerror(errno));
	if (!in_place)
		unlink(name);
	return error;
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
