/* test_parser.c - the lexer and the grammar: golden trees and the wording of syntax errors.
 *
 * TILE_UPDATE_GOLDEN=1 in the environment rewrites the .ast files.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture.h"

#ifndef TILE_SOURCE_DIR
#define TILE_SOURCE_DIR "."
#endif
#define GOLDEN_DIR TILE_SOURCE_DIR "/tests/golden/ast"

static Fixture parse(const char *text)
{
	Fixture f = fixture();

	f.ast = ast_parse(f.arena, f.diags, add_source(&f, "t", text));
	return f;
}

static char *tree_of(const Fixture *f)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	ast_print(f->ast, out);
	fclose(out);
	return text;
}

static void check_errors(const char *text, const char *expected)
{
	Fixture f = parse(text);
	char *errors = errors_of(&f);

	assert_string_equal(errors, expected);
	free(errors);
	arena_free(f.arena);
}

static void check_tree(const char *text, const char *expected)
{
	Fixture f = parse(text);
	char *errors = errors_of(&f), *tree = tree_of(&f);

	assert_string_equal(errors, "");
	assert_string_equal(tree, expected);
	free(errors);
	free(tree);
	arena_free(f.arena);
}

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);

	if (!f)
		fail_msg("cannot open %s", path);
	assert_non_null(text);
	text[fread(text, 1, (1 << 20) - 1, f)] = '\0';
	fclose(f);
	return text;
}

static void update_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void check_golden(const char *name)
{
	char path[1024], *source, *tree, *errors, *expected;
	Fixture f;

	snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, name);
	source = read_file(path);
	f = parse(source);
	errors = errors_of(&f);
	assert_string_equal(errors, "");
	tree = tree_of(&f);
	snprintf(path, sizeof path, "%s/%.*s.ast", GOLDEN_DIR, (int)(strlen(name) - strlen(".tile")), name);
	if (getenv("TILE_UPDATE_GOLDEN"))
		update_file(path, tree);
	expected = read_file(path);
	if (strcmp(tree, expected) != 0)
		fail_msg("%s: the tree differs", path);
	free(source);
	free(errors);
	free(tree);
	free(expected);
	arena_free(f.arena);
}

static void test_golden(void **state)
{
	DIR *dir = opendir(GOLDEN_DIR);
	unsigned n = 0;

	(void)state;
	assert_non_null(dir);
	for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		const char *dot = strrchr(e->d_name, '.');

		if (dot && strcmp(dot, ".tile") == 0) {
			check_golden(e->d_name);
			n++;
		}
	}
	closedir(dir);
	assert_true(n >= 4);
}

static void test_precedence(void **state)
{
	(void)state;
	check_tree("const i32 A = 1 + 2 * -3;",
	           "(const i32 A\n  (+\n    (int 1)\n    (*\n      (int 2)\n      (neg\n        (int 3)))))\n");
	check_tree("dim A, B;", "(dim i32 A)\n(dim i32 B)\n");
	check_tree("const i32 A = x[1][:].T;",
	           "(const i32 A\n  (member T\n    (subscript\n      (name x)\n      (index\n        (int 1))\n      (all))))\n");
}

static void test_locations(void **state)
{
	const char *text = "fn f() {\n  x[i] = g(1,\n 2) + y;\n}";
	Fixture f = parse(text);
	const Stmt *s = f.ast->decls->body->body;
	const Expr *call = s->rhs->a;

	(void)state;
	assert_int_equal(s->loc.begin, strstr(text, "x[") - text);
	assert_int_equal(s->loc.end, strchr(text, ';') - text);
	assert_int_equal(call->loc.begin, strstr(text, "g(") - text);
	assert_int_equal(call->loc.end, strstr(text, " + y") - text);
	assert_int_equal(f.ast->decls->loc.begin, 3);
	arena_free(f.arena);
}

static void test_numbers(void **state)
{
	(void)state;
	check_errors("const i64 A = 9223372036854775807, B = 0x7fffffffffffffff;", "");
	check_errors("const i64 A = 18446744073709551616;", "t:1:15: error: this number does not fit u64 [syntax]\n");
	check_errors("const i64 A = 0x10000000000000000;", "t:1:15: error: this number does not fit u64 [syntax]\n");
	check_errors("const f32 A = 1e999;", "t:1:15: error: '1e999' does not fit f32, whose largest value is 3.40282347e38 [syntax]\n");
	check_errors("const f32 A = 1.0f;", "t:1:15: error: '1.0f' is not a number [syntax]\n");
	check_errors("const i32 A = 010;",
	             "t:1:15: error: '010' starts with a zero: there are no octal numbers [syntax]\n");
}

static void test_tokens(void **state)
{
	(void)state;
	check_errors("dim A; /* x", "t:1:8: error: this comment is not closed: '*/' is missing [syntax]\n");
	check_errors("import \"x;\ndim A;",
	             "t:1:8: error: this string is not closed: '\"' is missing [syntax]\n"
	             "t:1:11: error: expected ';', found 'dim' [syntax]\n");
	check_errors("import \"\\q\";", "t:1:9: error: unknown escape in a string [syntax]\n");
	check_errors("dim A$;", "t:1:6: error: unknown character '$' [syntax]\n");
	check_errors("dim A\xc3\xa9;", "t:1:6: error: unknown character '\xc3\xa9' [syntax]\n");
	check_errors("dim A\x80;", "t:1:6: error: unknown character: byte 0x80 [syntax]\n");
	check_errors("dim aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg;",
	             "t:1:5: error: a name has at most 63 characters [limit]\n");
}

static void test_several_errors(void **state)
{
	(void)state;
	check_errors("fn f() {\n  x = ;\n  y = 1\n  z = 2;\n  g(1 2);\n  if (x { y = 1; }\n  w = 3;\n}\ndim ;\n",
	             "t:2:7: error: expected an expression, found ';' [syntax]\n"
	             "t:3:8: error: expected ';', found 'z' [syntax]\n"
	             "t:5:7: error: expected ',' or ')', found '2' [syntax]\n"
	             "t:6:9: error: expected ')', found '{' [syntax]\n"
	             "t:9:5: error: expected a name, found ';' [syntax]\n");
	check_errors("kernel k(in bf16 q[4]) grd (1) threads (2) {\n  x = 1;\n  for (i = 0; i < 3) { a = 1; }\n}\ndim A\n",
	             "t:1:24: error: expected 'grid', 'threads', 'occupancy', 'cluster' or '{', found 'grd' [syntax]\n"
	             "t:3:20: error: expected ';', found ')' [syntax]\n"
	             "t:5:6: error: expected ';' or ',', found the end of the file [syntax]\n");
}

static void test_statement_errors(void **state)
{
	(void)state;
	check_errors("fn f() { x == 1; }", "t:1:10: error: this expression is computed and not used [syntax]\n");
	check_errors("fn f() { f(x) = 1; }",
	             "t:1:10: error: this cannot be assigned to: it is not a variable, a tile or an element [syntax]\n");
	check_errors("fn f() { f32 x[4]; }", "t:1:15: error: a scalar variable has no extents [syntax]\n");
	check_errors("fn f() { i32 role = 1; }", "t:1:14: error: expected a name, found 'role' [syntax]\n");
	check_errors("fn f() { frag f32 x[1][1][1][1][1][1]; }",
	             "t:1:35: error: 'x' has more than 5 dimensions [limit]\n");
	check_errors("fn f() { async g(); }",
	             "t:1:16: error: 'async' takes products: 'X = A @ B;', 'X += A @ B;' or a block of them [syntax]\n");
	check_errors("kernel k(f32 x[4]) grid (1) grid (2) {}",
	             "t:1:14: error: 'x' has extents but does not say where it lives [syntax]\n"
	             "t:1:29: error: 'grid' is given twice [syntax]\n"
	             "t:1:8: error: kernel 'k' has no threads [syntax]\n");
	check_errors("fn f() { S s = { 1, }; a = ; S t = { .a = 1, .b }, u = {}; T v = { { 1 }, .t = { 2 } }; b = ; }",
	             "t:1:21: error: expected an expression, found '}' [syntax]\n"
	             "t:1:28: error: expected an expression, found ';' [syntax]\n"
	             "t:1:49: error: expected '=', found '}' [syntax]\n"
	             "t:1:57: error: expected an expression, found '}' [syntax]\n"
	             "t:1:93: error: expected an expression, found ';' [syntax]\n");
	check_errors("fn f() { a = 1;", "t:1:16: error: expected a statement or '}', found the end of the file [syntax]\n");
}

static void check_deep(const char *head, const char *open, unsigned n, unsigned errors)
{
	size_t size = strlen(head) + strlen(open) * n + 16;
	char *text = calloc(1, size);
	Fixture f;

	assert_non_null(text);
	strcpy(text, head);
	for (char *at = text + strlen(text); n > 0; n--, at += strlen(open))
		strcpy(at, open);
	strcat(text, "1; }");
	f = parse(text);
	assert_int_equal(diags_error_count(f.diags), errors);
	arena_free(f.arena);
	free(text);
}

static void test_depth(void **state)
{
	(void)state;
	check_deep("fn f() { a = ", "1 + ", 900, 0);
	check_deep("fn f() { a = ", "1 + ", 100000, 1);
	check_deep("fn f() { a = ", "- ", 100000, 1);
	check_deep("fn f() { a = ", "(", 100000, 1);
	check_deep("fn f() ", "{", 100000, 1);
	check_deep("fn f() { ", "if (a) b(); else ", 100000, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_several_errors),
		cmocka_unit_test(test_statement_errors),
		cmocka_unit_test(test_depth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
