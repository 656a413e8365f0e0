/* docs.c - the examples of the documentation: one CMocka test per fenced block.
 *
 *   docs TILEC FILE.md...
 *
 * ```tile blocks compile to TIR; ```tile-error blocks give a message whose [slug] is the name in the heading above;
 * ```tile-error-ptxas blocks do where the assembler is installed and are skipped elsewhere.  LANGUAGE.md has every built-in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/tool.h"

enum { MAX_BLOCKS = 512 };

typedef struct Block {
	const char *tilec;
	char *name;  /* FILE:LINE */
	char *text;
	char *slug;  /* of the heading above; NULL: the block compiles */
	bool needs_ptxas;
} Block;

typedef struct Book {
	Block block[MAX_BLOCKS];
	struct CMUnitTest test[MAX_BLOCKS];
	size_t n;
} Book;

static bool ptxas_is_missing(const char *tilec, const char *path)
{
	int status;
	char *got = shell(&status, "'%s' --emit=cubin -o /dev/null '%s'", tilec, path);
	bool missing = strstr(got, "needs ptxas") != NULL;
	free(got);
	return missing;
}

static void one_block(void **state)
{
	const Block *b = *state;
	char *path = temporary_file(".tile");
	assert_true(file_write(path, b->text, strlen(b->text)));
	int status;
	char *got = shell(&status, "'%s' --diag-format=line --emit=tir -o /dev/null '%s'", b->tilec, path);
	char *want = text_of("[%s]", b->slug ? b->slug : "");
	if (b->slug && !strstr(got, want) && status == 0) { /* it may come from a later step */
		free(got);
		got = shell(&status, "'%s' --diag-format=line --emit=module -o /dev/null '%s'", b->tilec, path);
	}
	bool skipped = b->needs_ptxas && ptxas_is_missing(b->tilec, path);
	unlink(path);
	free(path);
	if (skipped) {
		free(got);
		free(want);
		skip();
	}
	if (!b->slug && status != 0)
		fail_msg("%s does not compile:\n%s", b->name, got);
	if (b->slug && !strstr(got, want))
		fail_msg("%s: no message %s; tilec ended with %d:\n%s", b->name, want, status, got);
	free(want);
	free(got);
}

static char *slug_of(const char *heading)
{
	heading += strspn(heading, "# `[");
	return text_of("%.*s", (int)strcspn(heading, " `]\n"), heading);
}

static void add_block(Book *book, const char *tilec, const char *file, unsigned line, const char *text, size_t len,
	char *slug, bool needs_ptxas)
{
	if (book->n == MAX_BLOCKS)
		abort();
	Block *b = &book->block[book->n];
	const char *slash = strrchr(file, '/');
	*b = (Block){ tilec, text_of("%s:%u", slash ? slash + 1 : file, line), text_of("%.*s", (int)len, text), slug, needs_ptxas };
	book->test[book->n++] = (struct CMUnitTest){ .name = b->name, .test_func = one_block, .initial_state = b };
}

static bool is_line(const char *line, size_t n, const char *text)
{
	return n == strlen(text) && strncmp(line, text, n) == 0;
}

static void read_book(Book *book, const char *tilec, const char *file)
{
	char *src = file_read(file, NULL), *heading = text_of("%s", "");
	const char *start = NULL;
	bool want = false, wrong = false, ptxas = false;
	unsigned line = 0, start_line = 0;
	for (const char *p = src; p && *p;) {
		size_t n = strcspn(p, "\n");
		line++;
		if (strncmp(p, "```", 3) == 0 && !start) {
			ptxas = is_line(p, n, "```tile-error-ptxas");
			wrong = ptxas || is_line(p, n, "```tile-error");
			want = wrong || is_line(p, n, "```tile");
			start = p + n + 1;
			start_line = line + 1;
		} else if (strncmp(p, "```", 3) == 0) {
			if (want)
				add_block(book, tilec, file, start_line, start, (size_t)(p - start), wrong ? text_of("%s", heading) : NULL, ptxas);
			start = NULL;
		} else if (*p == '#' && !start) {
			free(heading);
			heading = slug_of(p);
		}
		p += n + (p[n] == '\n');
	}
	free(heading);
	free(src);
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = text; (p = strstr(p, word)); p += n) {
		bool starts = p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
		if (starts && !(isalnum((unsigned char)p[n]) || p[n] == '_'))
			return true;
	}
	return false;
}

static void builtins_are_described(void **state)
{
	static const char *const builtins[] = {
#define BUILTIN(name, ...) name,
#include "compiler/elaborate/builtins.def"
#undef BUILTIN
	};
	const char *file = *state;
	char *text = file_read(file, NULL);
	assert_non_null(text);
	for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++) {
		if (!has_word(text, builtins[i]))
			fail_msg("%s does not mention the built-in %s", file, builtins[i]);
	}
	free(text);
}

static void add_reference(Book *book, char *file)
{
	size_t n = strlen(file), m = strlen("LANGUAGE.md");
	if (n < m || strcmp(file + n - m, "LANGUAGE.md") != 0)
		return;
	if (book->n == MAX_BLOCKS)
		abort();
	book->test[book->n++] = (struct CMUnitTest){ .name = "builtins_are_described", .test_func = builtins_are_described, .initial_state = file };
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fputs("usage: docs TILEC FILE.md...\n", stderr);
		return 2;
	}
	Book *book = calloc(1, sizeof *book);
	if (!book)
		return 1;
	for (int i = 2; i < argc; i++) {
		read_book(book, argv[1], argv[i]);
		add_reference(book, argv[i]);
	}
	int failed = book->n ? _cmocka_run_group_tests("docs", book->test, book->n, NULL, NULL) : 0;
	if (!book->n)
		puts("[  PASSED  ] 0 test(s).");
	for (size_t i = 0; i < book->n; i++) {
		free(book->block[i].name);
		free(book->block[i].text);
		free(book->block[i].slug);
	}
	free(book);
	return failed;
}
