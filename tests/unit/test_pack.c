/* test_pack.c - what is packed is the same when unpacked, and smaller where it repeats itself. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "compiler/driver/emit.h"
#include "runtime/src/unpack.h"

/* Packs n bytes, compares, and returns the packed size; n where they are not packed. */
static size_t packed_as(const uint8_t *bytes, size_t n, bool columns)
{
	Arena *a = arena_new();
	Buffer packed = { .arena = a };
	bool smaller = pack_blob(a, bytes, n, columns, &packed);
	uint8_t *exact = malloc(packed.len + !packed.len), *out = malloc(n + !n); /* heap-exact, so that ASan sees every overrun */
	memcpy(exact, packed.data, packed.len);
	assert_int_equal(rt_unpack(exact, packed.len, out, n), UNPACKED);
	assert_memory_equal(out, bytes, n);
	assert_int_equal(rt_unpack(exact, packed.len - 1, out, n), UNPACK_DAMAGED);
	size_t size = smaller ? packed.len : n;
	assert_int_equal(smaller, packed.len < n);
	free(out);
	free(exact);
	arena_free(a);
	return size;
}

static size_t round_trip(const uint8_t *bytes, size_t n)
{
	const size_t columns = packed_as(bytes, n, true), text = packed_as(bytes, n, false);
	return columns < text ? columns : text;
}

static uint32_t next(uint32_t *random) { return *random = *random * 1664525u + 1013904223u, *random >> 8; }

static void test_nothing(void **state)
{
	(void)state;
	assert_int_equal(round_trip((const uint8_t *)"", 0), 0);
	assert_int_equal(round_trip((const uint8_t *)"a", 1), 1);
	assert_int_equal(round_trip((const uint8_t *)"aaaa", 4), 4);
}

static void test_runs(void **state)
{
	enum { MOST = 70000 };
	uint8_t *bytes = calloc(1, MOST);

	(void)state;
	for (size_t n = 1; n <= MOST; n = n * 3 + 1)
		assert_true(round_trip(bytes, n) <= (n < 20 ? n : 20));
	free(bytes);
}

/* Numbers of new bytes and of copied ones of every number of digits, up to those where a copy is taken as it is. */
static void test_lengths(void **state)
{
	uint8_t bytes[1200];
	uint32_t random = 7;

	(void)state;
	for (size_t literals = 1; literals < 300; literals += 1 + literals / 3) {
		for (size_t copied = 1; copied < 300; copied += 1 + copied / 8) {
			for (size_t i = 0; i < literals; i++)
				bytes[i] = (uint8_t)next(&random);
			for (size_t i = 0; i < copied; i++)
				bytes[literals + i] = bytes[i % literals];
			round_trip(bytes, literals + copied);
		}
	}
}

static void test_noise_is_left_alone(void **state)
{
	uint8_t bytes[5000];
	uint32_t random = 1;

	(void)state;
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)next(&random);
	assert_int_equal(round_trip(bytes, sizeof bytes), sizeof bytes);
}

/* Text of few words, at distances of one to four bytes. */
static void test_words(void **state)
{
	static const char *const words[] = { "\tmov.b32 \t%r", "\tadd.s64 \t%rd", ", ", ";\n", "17", "4", "\tld.shared.v4.b32 " };
	enum { MOST = 300000 };
	uint8_t *bytes = malloc(MOST + 32);
	uint32_t random = 3;
	size_t n = 0;

	(void)state;
	while (n < MOST) {
		const char *w = words[next(&random) % (sizeof words / sizeof words[0])];
		memcpy(bytes + n, w, strlen(w));
		n += strlen(w);
	}
	for (size_t some = n; some > 0; some /= 5)
		round_trip(bytes, some);
	assert_true(round_trip(bytes, n) < n / 6);
	free(bytes);
}

/* What is not packed bytes gives an answer, in bounds. */
static void test_damage(void **state)
{
	uint8_t noise[200], out[3000];
	uint32_t random = 5;
	int good = 0;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		for (size_t i = 0; i < sizeof noise; i++)
			noise[i] = (uint8_t)next(&random);
		const size_t n = next(&random) % sizeof noise, bytes = next(&random) % sizeof out;
		uint8_t *exact = malloc(n + !n), *into = malloc(bytes + !bytes);
		memcpy(exact, noise, n);
		good += rt_unpack(exact, n, into, bytes) == UNPACKED;
		free(into);
		free(exact);
	}
	assert_true(good < 30);
}

/* Instructions of 16 bytes that differ in one column. */
static void test_columns(void **state)
{
	enum { ROWS = 4000 };
	uint8_t *bytes = malloc(16 * ROWS);
	uint32_t random = 9;

	(void)state;
	for (size_t i = 0; i < 16 * ROWS; i++)
		bytes[i] = (uint8_t)(i % 16 == 3 ? next(&random) : i % 16 * 7);
	const size_t columns = packed_as(bytes, 16 * ROWS, true);
	assert_true(columns < ROWS + ROWS / 8 && columns < packed_as(bytes, 16 * ROWS, false));
	free(bytes);
}

static void test_strip(void **state)
{
	Arena *a = arena_new();
	Buffer out = { .arena = a };

	(void)state;
	ptx_strip("//\n// by\n.version 8.7\n\n\t.file\t1 \"a.tile\"\n$L__tmp0:\n\t.loc\t1 2 3\n\tret;\n\t// inline\n}", &out);
	assert_string_equal(out.data, ".version 8.7\n$L__tmp0:\n\tret;\n}");
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing), cmocka_unit_test(test_runs), cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_noise_is_left_alone), cmocka_unit_test(test_words), cmocka_unit_test(test_columns),
		cmocka_unit_test(test_damage), cmocka_unit_test(test_strip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
