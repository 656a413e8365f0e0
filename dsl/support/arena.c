/* arena.c - bump allocation from chunks that are all freed at once. */
#include "dsl/support/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_SIZE = 64 * 1024 };

typedef struct Chunk {
	struct Chunk *next;
	size_t used, size;
	max_align_t data[];
} Chunk;

struct Arena {
	Chunk *chunks; /* the first one is being filled */
};

static _Noreturn void out_of_memory(void)
{
	fputs("tilec: out of memory\n", stderr);
	exit(3);
}

Arena *arena_new(void)
{
	Arena *a = calloc(1, sizeof *a);

	if (!a)
		out_of_memory();
	return a;
}

void arena_free(Arena *a)
{
	if (!a)
		return;
	for (Chunk *c = a->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(a);
}

static Chunk *chunk_new(size_t size)
{
	Chunk *c;

	if (size > SIZE_MAX / 2)
		out_of_memory();
	c = calloc(1, sizeof *c + size);
	if (!c)
		out_of_memory();
	c->size = size;
	return c;
}

/* Offset of the next `size` bytes in `c`, or SIZE_MAX when they do not fit. */
static size_t chunk_place(const Chunk *c, size_t size, size_t align)
{
	size_t at = (c->used + align - 1) & ~(align - 1);

	return at <= c->size && size <= c->size - at ? at : SIZE_MAX;
}

void *arena_alloc(Arena *a, size_t size, size_t align)
{
	Chunk *c = a->chunks;
	size_t at = c ? chunk_place(c, size, align) : SIZE_MAX;

	if (at == SIZE_MAX) {
		int large = size > CHUNK_SIZE / 4;

		c = chunk_new(large ? size : CHUNK_SIZE);
		at = 0;
		if (large && a->chunks) { /* keep filling the current chunk */
			c->next = a->chunks->next;
			a->chunks->next = c;
		} else {
			c->next = a->chunks;
			a->chunks = c;
		}
	}
	c->used = at + size;
	return (char *)c->data + at;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
	char *p = arena_alloc(a, n + 1, 1);

	if (n)
		memcpy(p, s, n);
	return p;
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
	va_list again;
	int n;
	char *p;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		return arena_strndup(a, "", 0);
	p = arena_alloc(a, (size_t)n + 1, 1);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
	va_list ap;
	char *p;

	va_start(ap, fmt);
	p = arena_vprintf(a, fmt, ap);
	va_end(ap);
	return p;
}
