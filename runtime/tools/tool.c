/* tool.c - leaving with a message, and memory that never fails. */
#include "runtime/tools/tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tool_die(int code, const char *format, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "tilerun: ");
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(code);
}

void tool_check_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		tool_die(EXIT_RUN, "standard output could not be written");
}

void *tool_alloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size ? size : 1);

	if (!p)
		tool_die(EXIT_RUN, "out of memory for %zu x %zu bytes", count, size);
	return p;
}

void *tool_grow(void *array, size_t count, size_t size)
{
	void *p = count <= SIZE_MAX / size ? realloc(array, count * size) : NULL;

	if (!p)
		tool_die(EXIT_RUN, "out of memory for %zu x %zu bytes", count, size);
	return p;
}

char *tool_copy(const char *text, size_t length)
{
	char *s = tool_alloc(length + 1, 1);

	memcpy(s, text, length);
	return s;
}

bool tool_integer(const char *text, bool is_u64, int64_t *out)
{
	const char *digits = text + (*text == '-' || *text == '+');
	bool is_hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
	int base = is_hex ? 16 : 10;
	char *end;

	if (!isdigit((unsigned char)digits[0]) || (!is_hex && digits[0] == '0' && digits[1]))
		return false;
	errno = 0;
	*out = is_u64 && *text != '-' ? (int64_t)strtoull(text, &end, base) : strtoll(text, &end, base);
	return !*end && !errno;
}
