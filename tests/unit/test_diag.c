/* test_diag.c - what a diagnostic looks like, and how names are suggested. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "dsl/support/diag.h"

static const char source[] = "fn f() {\n\tcopy(r, os);\n  a = \xc3\xa9 + b;\n}\n";

typedef struct Fixture {
	Arena *arena;
	Diags *diags;
	uint32_t index;
} Fixture;

static Fixture open_fixture(void)
{
	Fixture f = { .arena = arena_new() };

	f.diags = diags_new(f.arena);
	f.index = diags_add_source(f.diags, "a.tile", source, sizeof source - 1);
	return f;
}

static Loc loc_of(const Fixture *f, const char *text)
{
	uint32_t at = (uint32_t)(strstr(source, text) - source);

	return (Loc){ f->index, at, at + (uint32_t)strlen(text) };
}

static void check_printed(const Fixture *f, DiagStyle style, const char *expected)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	diags_print(f->diags, out, style);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
	arena_free(f->arena);
}

static void test_excerpt(void **state)
{
	Fixture f = open_fixture();

	(void)state;
	diag_error(f.diags, loc_of(&f, "os"), E_TYPE, "'%s' is odd", "os");
	diag_note(f.diags, loc_of(&f, "f"), "declared here");
	diag_help(f.diags, "make it even");
	check_printed(&f, (DiagStyle){ 0 },
	              "a.tile:2:10: error: 'os' is odd [type]\n"
	              "    2 |     copy(r, os);\n"
	              "      |             ^~\n"
	              "a.tile:1:1: note: declared here\n"
	              "    1 | fn f() {\n"
	              "      | ^\n"
	              "help: make it even\n");
}

static void test_several_lines_and_utf8(void **state)
{
	Fixture f = open_fixture();
	Loc call = loc_of(&f, "copy"), b = loc_of(&f, "b;");

	(void)state;
	diag_warning(f.diags, (Loc){ f.index, call.begin, b.end }, W_SPILL, "first");
	diag_warning(f.diags, b, W_SPILL, "second");
	diag_warning(f.diags, (Loc){ f.index, 10000, 10001 }, W_SPILL, "beyond");
	diag_error(f.diags, (Loc){ 0 }, E_LIMIT, "no place");
	check_printed(&f, (DiagStyle){ 0 },
	              "a.tile:2:2: warning: first [spill]\n"
	              "    2 |     copy(r, os);\n"
	              "      |     ^~~~~~~~~~~~\n"
	              "a.tile:3:12: warning: second [spill]\n"
	              "    3 |   a = \xc3\xa9 + b;\n"
	              "      |           ^~\n"
	              "a.tile:5:1: warning: beyond [spill]\n"
	              "    5 | \n"
	              "      | ^\n"
	              "tilec: error: no place [limit]\n");
}

static void test_one_line_and_repeats(void **state)
{
	Fixture f = open_fixture();

	(void)state;
	for (int i = 0; i < 3; i++) {
		diag_error(f.diags, loc_of(&f, "os"), E_TYPE, "odd");
		diag_note(f.diags, loc_of(&f, "fn"), "not shown in one line");
	}
	diag_error(f.diags, loc_of(&f, "os"), E_SHAPE, "odd");
	assert_int_equal(diags_error_count(f.diags), 2);
	check_printed(&f, (DiagStyle){ .one_line = true },
	              "a.tile:2:10: error: odd [type]\na.tile:2:10: error: odd [shape]\n");
}

static void test_limit(void **state)
{
	Fixture f = open_fixture();

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		diag_error(f.diags, (Loc){ f.index, i, i + 1 }, E_TYPE, "e%u", (unsigned)i);
	check_printed(&f, (DiagStyle){ .one_line = true, .limit = 2 },
	              "a.tile:1:1: error: e0 [type]\na.tile:1:2: error: e1 [type]\n"
	              "tilec: too many errors (3 more)\n");
}

static void test_color(void **state)
{
	Fixture f = open_fixture();

	(void)state;
	diag_error(f.diags, loc_of(&f, "fn"), E_TYPE, "x");
	check_printed(&f, (DiagStyle){ .one_line = true, .color = true },
	              "\033[1ma.tile:1:1: \033[1;31merror:\033[0m x [type]\n");
}

static void test_json(void **state)
{
	Fixture f = open_fixture();
	char *text = NULL;
	size_t size;

	(void)state;
	diag_error(f.diags, loc_of(&f, "os"), E_TYPE, "a \"quoted\\\" \n one, \xc3\xa9 and \xff");
	diag_note(f.diags, loc_of(&f, "fn"), "here");
	diag_help(f.diags, "try");
	diag_warning(f.diags, (Loc){ 0 }, W_SPILL, "no place");
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	diags_print_json(f.diags, out);
	fclose(out);
	assert_string_equal(text,
		"{\"file\":\"a.tile\",\"line\":2,\"column\":10,\"endLine\":2,\"endColumn\":12,\"severity\":\"error\",\"code\":\"type\","
		"\"message\":\"a \\\"quoted\\\\\\\" \\u000a one, \xc3\xa9 and \\ufffd\",\"notes\":["
		"{\"file\":\"a.tile\",\"line\":1,\"column\":1,\"endLine\":1,\"endColumn\":3,\"severity\":\"note\",\"message\":\"here\"},"
		"{\"severity\":\"help\",\"message\":\"try\"}]}\n"
		"{\"severity\":\"warning\",\"code\":\"spill\",\"message\":\"no place\",\"notes\":[]}\n");
	free(text);
	arena_free(f.arena);
}

static void test_sources(void **state)
{
	Fixture f = open_fixture();
	unsigned line, col;

	(void)state;
	assert_int_equal(diags_add_source(f.diags, "b.tile", "x", 1), 2);
	assert_int_equal(diags_source_count(f.diags), 2);
	assert_string_equal(diags_source(f.diags, 2)->name, "b.tile");
	assert_null(diags_source(f.diags, 0));
	assert_null(diags_source(f.diags, 3));
	diags_linecol(f.diags, loc_of(&f, "a = "), &line, &col);
	assert_int_equal(line, 3);
	assert_int_equal(col, 3);
	arena_free(f.arena);
}

static void test_nearest_name(void **state)
{
	const char *const names[] = { "copy", "tma_load", "tma_store", "exp2", "x" };

	(void)state;
	assert_string_equal(nearest_name("cpoy", names, 5), "copy");
	assert_string_equal(nearest_name("tma_laod", names, 5), "tma_load");
	assert_string_equal(nearest_name("tmastore", names, 5), "tma_store");
	assert_string_equal(nearest_name("exp", names, 5), "exp2");
	assert_null(nearest_name("y", names, 5));
	assert_null(nearest_name("reduce", names, 5));
	assert_null(nearest_name("", names, 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_excerpt),
		cmocka_unit_test(test_several_lines_and_utf8),
		cmocka_unit_test(test_one_line_and_repeats),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_color),
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_nearest_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
