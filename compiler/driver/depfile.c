/* depfile.c - the dependency file of -MD, as make and ninja read it. */
#include "compiler/driver/emit.h"

static void put_name(Buffer *out, const char *name)
{
	for (const char *p = name; *p; p++) {
		if (*p == ' ' || *p == '#')
			buffer_bytes(out, "\\", 1);
		if (*p == '$')
			buffer_bytes(out, "$", 1);
		buffer_bytes(out, p, 1);
	}
}

void depfile_write(const Diags *d, const char *target, Buffer *out)
{
	put_name(out, target);
	buffer_put(out, ":");
	for (unsigned i = 1; i <= diags_source_count(d); i++) {
		const char *name = diags_source(d, i)->name;
		if (name[0] == '<')
			continue;
		buffer_put(out, " \\\n  ");
		put_name(out, name);
	}
	buffer_put(out, "\n");
}
