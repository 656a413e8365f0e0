/* test_arena.c - the arena: alignment, zeroing, large blocks, text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "dsl/support/arena.h"

static void test_alignment_and_zero(void **state)
{
	Arena *a = arena_new();

	(void)state;
	for (size_t align = 1; align <= alignof(max_align_t); align *= 2) {
		for (size_t size = 1; size < 300; size += 7) {
			unsigned char *p = arena_alloc(a, size, align);

			assert_int_equal((uintptr_t)p % align, 0);
			for (size_t i = 0; i < size; i++)
				assert_int_equal(p[i], 0);
			memset(p, 0xaa, size);
		}
	}
	arena_free(a);
}

static void test_blocks_do_not_overlap(void **state)
{
	Arena *a = arena_new();
	uint32_t *blocks[500];

	(void)state;
	for (uint32_t i = 0; i < 500; i++) {
		blocks[i] = ARENA_ARRAY(a, uint32_t, 1 + (i % 7) * 4000);
		blocks[i][0] = i;
		blocks[i][(i % 7) * 4000] = i;
	}
	for (uint32_t i = 0; i < 500; i++) {
		assert_int_equal(blocks[i][0], i);
		assert_int_equal(blocks[i][(i % 7) * 4000], i);
	}
	arena_free(a);
}

static void test_text(void **state)
{
	Arena *a = arena_new();
	char big[10000];

	(void)state;
	memset(big, 'x', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
	assert_string_equal(arena_strndup(a, "", 0), "");
	assert_string_equal(arena_printf(a, "%d %s", 7, "seven"), "7 seven");
	assert_int_equal(strlen(arena_printf(a, "%s%s", big, big)), 2 * strlen(big));
	arena_free(a);
}

static void test_free_null(void **state)
{
	(void)state;
	arena_free(NULL);
	arena_free(arena_new());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alignment_and_zero),
		cmocka_unit_test(test_blocks_do_not_overlap),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_free_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
