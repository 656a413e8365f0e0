/* text.c - text that grows, and the lines of a program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/gen/gen.h"

static void put(Text *t, const char *fmt, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	size_t n = (size_t)vsnprintf(NULL, 0, fmt, ap);
	if (t->len + n + 1 > t->cap) {
		t->cap = 2 * (t->len + n + 1);
		t->s = realloc(t->s, t->cap);
		if (!t->s)
			abort();
	}
	vsnprintf(t->s + t->len, n + 1, fmt, again);
	va_end(again);
	t->len += n;
}

void text_put(Text *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put(t, fmt, ap);
	va_end(ap);
}

void text_free(Text *t)
{
	free(t->s);
	*t = (Text){ 0 };
}

void line(Gen *g, const char *fmt, ...)
{
	va_list ap;
	for (int k = 0; k < g->depth; k++)
		text_put(&g->body, "\t");
	va_start(ap, fmt);
	put(&g->body, fmt, ap);
	va_end(ap);
	text_put(&g->body, "\n");
	g->p->statements++;
}

void open_block(Gen *g)
{
	g->depth++;
}

void close_block(Gen *g, const char *text)
{
	g->depth--;
	g->p->statements--;
	line(g, "%s", text);
}

int fresh(Gen *g)
{
	return g->names++;
}
