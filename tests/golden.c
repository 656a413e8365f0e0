/* golden.c - one CMocka test per .tile or .tir file below a folder.
 *
 *   golden FOLDER TILEC [FILTER]
 *
 * What is checked is told by the files beside it:
 *   x.tile: x.ast  --emit=ast                 x.tir: x.out.tir  --emit=tir --passes=P
 *           x.tir  --emit=tir --passes=none          (P is the folder's name, below passes/)
 *           x.h    --emit=header
 * and by comments in it:
 *   // error: TEXT         this line gives an error that holds TEXT, and no other does (also: warning)
 *   // CHECK-ptx: TEXT     a line of --emit=ptx holds TEXT; several match in this order
 *                          (also CHECK-llvm, CHECK-tir, and CHECK-cpu: the LLVM IR for the CPU device)
 *   // CHECK-no-ptx: TEXT  no line holds it (and so on)
 *   // flags: ...          further options of tilec
 * TILE_UPDATE_GOLDEN=1 rewrites the files instead of comparing, and makes the one that ast/, elaborate/ and passes/ are for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/tool.h"

typedef struct Suite {
	const char *folder, *tilec, *filter;
	struct CMUnitTest *tests;
	size_t n, cap;
} Suite;

typedef struct Case {
	const Suite *suite;
	char *path;  /* relative to the folder */
	char *src, *flags; /* flags: those of the folder, then those of the file */
} Case;

static bool ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);
	return n >= m && strcmp(s + n - m, suffix) == 0;
}

static char *stem_of(const char *path)
{
	return text_of("%.*s", (int)(strrchr(path, '.') - path), path);
}

/* The output of tilec on the case's file and its messages, which name the file by its path in the folder. */
static char *run(const Case *c, const char *args, int *status)
{
	return shell(status, "cd '%s' && '%s' %s %s '%s'", c->suite->folder, c->suite->tilec, args, c->flags, c->path);
}

/* The output alone; fails the test when there are errors. */
static char *run_well(const Case *c, const char *args)
{
	int status;
	char *got = shell(&status, "cd '%s' && '%s' %s %s '%s' 2>/dev/null", c->suite->folder, c->suite->tilec, args, c->flags, c->path);
	if (status != 0)
		fail_msg("%s: tilec %s ended with %d:\n%s", c->path, args, status, run(c, args, &status));
	return got;
}

/* ---- whole outputs ---- */

static void show_difference(const char *path, const char *want, const char *got)
{
	unsigned line = 1;
	for (size_t n; n = strcspn(want, "\n"), want[n] && strncmp(want, got, n + 1) == 0; line++) {
		want += n + 1;
		got += n + 1;
	}
	fail_msg("%s differs in line %u:\n  expected %.*s\n  got      %.*s\n(TILE_UPDATE_GOLDEN=1 rewrites it)", path, line,
		(int)strcspn(want, "\n"), want, (int)strcspn(got, "\n"), got);
}

/* `create`: an update makes the file when it is not there. */
static bool check_golden(const Case *c, const char *suffix, const char *args, bool create)
{
	char *stem = stem_of(c->path), *path = text_of("%s/%s%s", c->suite->folder, stem, suffix);
	bool update = getenv("TILE_UPDATE_GOLDEN") != NULL;
	char *want = file_read(path, NULL);
	if (!want && update && create)
		want = text_of("%s", "");
	if (want) {
		char *got = run_well(c, args);
		if (update)
			assert_true(file_write(path, got, strlen(got)));
		else if (strcmp(want, got) != 0)
			show_difference(path, want, got);
		free(got);
	}
	bool any = want != NULL;
	free(want);
	free(path);
	free(stem);
	return any;
}

/* ---- ordered patterns ---- */

static const struct { const char *kind, *args; } listings[] = {
	{ "tir", "--emit=tir -o -" }, { "llvm", "--emit=llvm -o -" }, { "cpu", "--emit=llvm --target=cpu -o -" }, { "ptx", "--emit=ptx -o -" },
};

static bool check_patterns(const Case *c, const char *kind, const char *args)
{
	char *mark = text_of("// CHECK-%s: ", kind), *got = NULL;
	const char *at = NULL;
	for (const char *p = c->src; (p = strstr(p, mark)) != NULL;) {
		p += strlen(mark);
		if (!got)
			at = got = run_well(c, args);
		char *want = text_of("%.*s", (int)strcspn(p, "\n"), p);
		const char *hit = strstr(at, want);
		if (!hit)
			fail_msg("%s: '%s' is not in the output of tilec %s, or not after the pattern before it", c->path, want, args);
		at = hit + strlen(want);
		free(want);
	}
	bool any = got != NULL;
	free(got);
	free(mark);
	return any;
}

static bool check_absent(const Case *c, const char *kind, const char *args)
{
	char *mark = text_of("// CHECK-no-%s: ", kind), *got = NULL;
	bool any = false;
	for (const char *p = c->src; (p = strstr(p, mark)) != NULL;) {
		p += strlen(mark);
		if (!got)
			got = run_well(c, args);
		any = true;
		char *unwanted = text_of("%.*s", (int)strcspn(p, "\n"), p);
		if (strstr(got, unwanted))
			fail_msg("%s: '%s' is in the output of tilec %s", c->path, unwanted, args);
		free(unwanted);
	}
	free(got);
	free(mark);
	return any;
}

/* ---- messages ---- */

/* Blanks the first unblanked "FILE:LINE:...: KIND: ...TEXT..." of `got`; false when there is none. */
static bool take_message(const Case *c, char *got, unsigned line, const char *kind, const char *text)
{
	char *where = text_of("%s:%u:", c->path, line), *mark = text_of(": %s: ", kind);
	bool found = false;
	for (char *p = got; *p && !found;) {
		size_t n = strcspn(p, "\n");
		char *one = text_of("%.*s", (int)n, p);
		found = strncmp(one, where, strlen(where)) == 0 && strstr(one, mark) && strstr(one, text);
		if (found)
			memset(p, '#', n);
		free(one);
		p += n + (p[n] == '\n');
	}
	free(where);
	free(mark);
	return found;
}

/* Matches every "// KIND: TEXT" of the source; returns their number. */
static unsigned expected_messages(const Case *c, const char *kind, char *got)
{
	char *mark = text_of("// %s: ", kind);
	unsigned line = 1, n = 0;
	for (const char *p = c->src; *p; p++) {
		line += *p == '\n';
		if (strncmp(p, mark, strlen(mark)) != 0)
			continue;
		const char *text = p + strlen(mark), *next = strstr(text, " // ");
		size_t len = strcspn(text, "\n");
		if (next && (size_t)(next - text) < len)
			len = (size_t)(next - text);
		char *want = text_of("%.*s", (int)len, text);
		if (!take_message(c, got, line, kind, want))
			fail_msg("%s:%u: no %s with '%s' in:\n%s", c->path, line, kind, want, got);
		free(want);
		n++;
	}
	free(mark);
	return n;
}

static bool check_messages(const Case *c)
{
	if (!strstr(c->src, "// error: ") && !strstr(c->src, "// warning: "))
		return false;
	int status;
	char *got = run(c, "--diag-format=line --emit=tir -o /dev/null", &status);
	unsigned errors = expected_messages(c, "error", got), warnings = expected_messages(c, "warning", got);
	if (strstr(got, ": error: ") || (warnings && strstr(got, ": warning: ")))
		fail_msg("%s: messages that no comment expects:\n%s", c->path, got);
	if (status != (errors ? 1 : 0))
		fail_msg("%s: tilec ended with %d:\n%s", c->path, status, got);
	free(got);
	return true;
}

/* ---- the suite ---- */

/* Below golden/passes/P only pass P runs; "// flags: ..." adds to that. */
static char *flags_of(const Case *c)
{
	const char *flags = strstr(c->src, "// flags: "), *end = strrchr(c->path, '/'), *begin = end;
	while (begin && begin > c->path && begin[-1] != '/')
		begin--;
	bool pass = ends_with(c->path, ".tir") && strncmp(c->path, "passes/", 7) == 0;
	return text_of("%s%.*s %.*s", pass ? "--passes=" : "", pass ? (int)(end - begin) : 0, pass ? begin : "",
		flags ? (int)strcspn(flags + 10, "\n") : 0, flags ? flags + 10 : "");
}

static void one_case(void **state)
{
	Case *c = *state;
	char *full = text_of("%s/%s", c->suite->folder, c->path);
	c->src = file_read(full, NULL);
	free(full);
	assert_non_null(c->src);
	c->flags = flags_of(c);
	bool any = check_messages(c);
	if (ends_with(c->path, ".tir")) {
		any |= check_golden(c, ".out.tir", "--emit=tir", !any && !strstr(c->src, "// CHECK-"));
	} else {
		bool only = !any && !strstr(c->src, "// CHECK-");
		any |= check_golden(c, ".ast", "--emit=ast", only && strncmp(c->path, "ast/", 4) == 0);
		any |= check_golden(c, ".tir", "--emit=tir --passes=none", only && strncmp(c->path, "elaborate/", 10) == 0);
		any |= check_golden(c, ".h", "--emit=header -o -", false);
	}
	for (size_t i = 0; i < sizeof listings / sizeof listings[0]; i++) {
		any |= check_patterns(c, listings[i].kind, listings[i].args);
		any |= check_absent(c, listings[i].kind, listings[i].args);
	}
	if (!any)
		fail_msg("%s: nothing to check", c->path);
}

/* x.tir is an input unless it is what x.tile or another .tir gives. */
static bool is_input(const Suite *s, const char *path)
{
	if (ends_with(path, ".tile"))
		return true;
	if (!ends_with(path, ".tir") || ends_with(path, ".out.tir"))
		return false;
	char *stem = stem_of(path), *tile = text_of("%s/%s.tile", s->folder, stem);
	bool output = file_exists(tile);
	free(tile);
	free(stem);
	return !output;
}

static void add_case(Suite *s, const char *path)
{
	if (!is_input(s, path) || (s->filter && !strstr(path, s->filter)))
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->tests = realloc(s->tests, s->cap * sizeof *s->tests);
		if (!s->tests)
			abort();
	}
	Case *c = calloc(1, sizeof *c);
	if (!c)
		abort();
	*c = (Case){ .suite = s, .path = text_of("%s", path) };
	s->tests[s->n++] = (struct CMUnitTest){ .name = c->path, .test_func = one_case, .initial_state = c };
}

static void scan(Suite *s, const char *below)
{
	char *dir = text_of("%s/%s", s->folder, below);
	struct dirent **entries;
	int n = scandir(dir, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		char *path = text_of("%s%s%s", below, *below ? "/" : "", name), *full = text_of("%s/%s", s->folder, path);
		struct stat st;
		if (name[0] != '.' && stat(full, &st) == 0) {
			if (S_ISDIR(st.st_mode))
				scan(s, path);
			else
				add_case(s, path);
		}
		free(full);
		free(path);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	free(dir);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fputs("usage: golden FOLDER TILEC [FILTER]\n", stderr);
		return 2;
	}
	char here[4096];
	if (!getcwd(here, sizeof here)) {
		perror("golden");
		return 2;
	}
	char *tilec = text_of("%s%s%s", argv[2][0] == '/' ? "" : here, argv[2][0] == '/' ? "" : "/", argv[2]); /* it is run elsewhere */
	Suite s = { .folder = argv[1], .tilec = tilec, .filter = argc > 3 ? argv[3] : NULL };
	scan(&s, "");
	int failed = s.n ? _cmocka_run_group_tests(argv[1], s.tests, s.n, NULL, NULL) : 0;
	if (!s.n)
		puts("[  PASSED  ] 0 test(s).");
	for (size_t i = 0; i < s.n; i++) {
		Case *c = s.tests[i].initial_state;
		free(c->path);
		free(c->src);
		free(c->flags);
		free(c);
	}
	free(s.tests);
	free(tilec);
	return failed;
}
