/* test_arena.c - the arena: alignment, zeroing, large blocks, text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "dsl/support/arena.h"
#include "dsl/support/table.h"

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

static void test_table(void **state)
{
	(void)state;
	Arena *a = arena_new();
	Table *t = table_new(a);
	int values[1000];

	for (int i = 0; i < 1000; i++)
		table_set(t, arena_printf(a, "key %d", i), &values[i]);
	table_set(t, "key 7", &values[8]);
	for (int i = 0; i < 1000; i++)
		assert_ptr_equal(table_get(t, arena_printf(a, "key %d", i)), &values[i == 7 ? 8 : i]);
	assert_null(table_get(t, "key 1000"));
	assert_null(table_get(t, ""));
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alignment_and_zero),
		cmocka_unit_test(test_blocks_do_not_overlap),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_free_null),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
