/* depfile.c - the dependency file of -MD, as make and ninja read it. */
#include "compiler/driver/emit.h"

#include <string.h>

/* Backslashes before a blank are doubled, for the last one says that it is part of the name. */
static void put_name(Buffer *out, const char *name)
{
	size_t backslashes = 0;
	for (const char *p = name; *p; p++) {
		bool blank = *p == ' ' || *p == '\t';
		for (; blank && backslashes > 0; backslashes--)
			buffer_bytes(out, "\\", 1);
		backslashes = *p == '\\' ? backslashes + 1 : 0;
		if (blank || *p == '#' || *p == ':')
			buffer_bytes(out, "\\", 1);
		if (*p == '$')
			buffer_bytes(out, "$", 1);
		buffer_bytes(out, p, 1);
	}
}

static bool is_file(const Diags *d, unsigned i) { return strcmp(diags_source(d, i)->name, "<stdin>") != 0; }

const char *depfile_unsayable(const Diags *d, const PathList *read, const char *target)
{
	const char *found = strchr(target, '\n') ? target : NULL;
	for (unsigned i = 1; !found && i <= diags_source_count(d); i++)
		found = strchr(diags_source(d, i)->name, '\n') ? diags_source(d, i)->name : NULL;
	for (unsigned i = 0; !found && i < read->n; i++)
		found = strchr(read->path[i], '\n') ? read->path[i] : NULL;
	return found;
}

void path_list_add(Arena *a, PathList *l, const char *path)
{
	if (l->n == l->room) {
		const char **more = ARENA_ARRAY(a, const char *, l->room = 2 * l->room + 8);
		if (l->n)
			memcpy(more, l->path, l->n * sizeof *more);
		l->path = more;
	}
	l->path[l->n++] = path;
}

static bool is_source(const Diags *d, const char *path)
{
	bool found = false;
	for (unsigned i = 1; !found && i <= diags_source_count(d); i++)
		found = !strcmp(diags_source(d, i)->name, path);
	return found;
}

static void put_dependency(Buffer *out, const char *name)
{
	buffer_put(out, " \\\n  ");
	put_name(out, name);
}

static void put_empty_rule(Buffer *out, const char *name)
{
	put_name(out, name);
	buffer_put(out, ":\n");
}

/* What was read, or of that what was imported. */
static void put_each(const Diags *d, const PathList *read, bool imported, void (*put)(Buffer *out, const char *name), Buffer *out)
{
	for (unsigned i = 1 + imported; i <= diags_source_count(d); i++)
		if (is_file(d, i))
			put(out, diags_source(d, i)->name);
	for (unsigned i = 0; i < read->n; i++)
		if (!is_source(d, read->path[i]))
			put(out, read->path[i]);
}

void depfile_write(const Diags *d, const PathList *read, const char *target, bool empty_rules, Buffer *out)
{
	put_name(out, target);
	buffer_put(out, ":");
	put_each(d, read, false, put_dependency, out);
	buffer_put(out, "\n");
	if (empty_rules)
		put_each(d, read, true, put_empty_rule, out);
}
