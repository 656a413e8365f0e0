/* tool.c - for test programs that run tilec: files, shell commands, temporary names. */
#include "tests/support/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *read_all(FILE *f, size_t *len)
{
	size_t n = 0, cap = 4096;
	char *s = malloc(cap);
	while (s) {
		size_t got = fread(s + n, 1, cap - n - 1, f);
		n += got;
		if (got == 0)
			break;
		if (cap - n < 2) {
			char *grown = realloc(s, cap *= 2);
			if (!grown)
				free(s);
			s = grown;
		}
	}
	if (s)
		s[n] = '\0';
	if (len)
		*len = n;
	return s;
}

char *file_read(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return NULL;
	char *s = read_all(f, len);
	fclose(f);
	return s;
}

bool file_write(const char *path, const char *data, size_t len)
{
	FILE *f = fopen(path, "wb");
	if (!f)
		return false;
	bool ok = fwrite(data, 1, len, f) == len;
	return fclose(f) == 0 && ok;
}

bool file_exists(const char *path)
{
	return access(path, R_OK) == 0;
}

static char *vtext(const char *fmt, va_list ap)
{
	va_list again;
	if (!fmt)
		abort();
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	char *s = malloc((size_t)n + 1);
	if (!s)
		abort();
	vsnprintf(s, (size_t)n + 1, fmt, ap);
	return s;
}

char *text_of(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = vtext(fmt, ap);
	va_end(ap);
	return s;
}

char *shell(int *status, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *command = vtext(fmt, ap);
	va_end(ap);
	char *both = text_of("{ %s\n} 2>&1", command);
	fflush(NULL);
	FILE *f = popen(both, "r");
	char *out = f ? read_all(f, NULL) : NULL;
	int end = f ? pclose(f) : -1;
	*status = end >= 0 && WIFEXITED(end) ? WEXITSTATUS(end) : -1;
	free(command);
	free(both);
	return out ? out : text_of("the command could not be run");
}

char *temporary_file(const char *suffix)
{
	const char *tmp = getenv("TMPDIR");
	char *base = text_of("%s/tile-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	int fd = mkstemp(base);
	if (fd >= 0)
		close(fd);
	char *name = text_of("%s%s", base, suffix);
	if (*suffix && rename(base, name) != 0)
		perror(name);
	free(base);
	return name;
}
