/* fixture.h - where tests of the compiler put what they make of a text, and its messages. */
#ifndef TILE_TESTS_FIXTURE_H
#define TILE_TESTS_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "compiler/tir/tir.h"
#include "dsl/ast.h"

typedef struct Fixture {
	Arena *arena;
	Diags *diags;
	Ast *ast; /* these two as the test has them */
	Tir *tir;
} Fixture;

static inline Fixture fixture(void)
{
	Fixture f = { .arena = arena_new() };

	f.diags = diags_new(f.arena);
	return f;
}

static inline uint32_t add_source(const Fixture *f, const char *name, const char *text)
{
	return diags_add_source(f->diags, name, text, strlen(text));
}

/* One line each; the caller frees them. */
static inline char *errors_of(const Fixture *f)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	diags_print(f->diags, out, (DiagStyle){ .one_line = true });
	fclose(out);
	return text;
}

#endif
