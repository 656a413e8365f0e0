/* explain.c - the long explanation of a message, from dsl/ERRORS.md as it was when tilec was built. */
#include "compiler/driver/emit.h"

#include <string.h>

#include "compiler/driver/errors_md.h"

/* The slug a heading line names ("## `spill`", "### spill - ..."), as a range; false when the line is no heading. */
static bool heading_slug(const char *line, const char **slug, size_t *n)
{
	if (*line != '#')
		return false;
	line += strspn(line, "# `[");
	*slug = line;
	*n = strcspn(line, " `]\n");
	return *n > 0;
}

static const char *next_line(const char *p)
{
	p += strcspn(p, "\n");
	return *p ? p + 1 : p;
}

bool explain_print(const char *slug, FILE *out)
{
	bool inside = false, found = false;
	bool fenced = false;
	for (const char *p = tile_errors_md; *p; p = next_line(p)) {
		const char *name;
		size_t n;
		if (strncmp(p, "```", 3) == 0)
			fenced = !fenced;
		else if (!fenced && heading_slug(p, &name, &n)) {
			inside = n == strlen(slug) && strncmp(name, slug, n) == 0;
			found |= inside;
		}
		if (inside)
			fwrite(p, 1, (size_t)(next_line(p) - p), out);
	}
	return found;
}

void explain_list(FILE *out)
{
	for (unsigned i = 0; i < DIAG_COUNT; i++)
		fprintf(out, "%s%s", i ? " " : "", diag_slug((DiagCode)i));
	fputc('\n', out);
}
