/* strip.c - PTX without what only profilers and readers look at. */
#include "compiler/driver/emit.h"

#include <string.h>

static bool is_dropped(const char *line)
{
	static const char *const starts[] = { ".loc", ".file", "//" };
	line += strspn(line, " \t");
	for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
		if (strncmp(line, starts[i], strlen(starts[i])) == 0)
			return true;
	}
	return *line == '\n';
}

void ptx_strip(const char *ptx, Buffer *out)
{
	for (const char *line = ptx, *end; *line; line = end) {
		end = strchr(line, '\n');
		end = end ? end + 1 : line + strlen(line);
		if (!is_dropped(line))
			buffer_bytes(out, line, (size_t)(end - line));
	}
}
