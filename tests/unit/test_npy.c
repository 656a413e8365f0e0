/* test_npy.c - .npy files: what is read, what is refused, and that what is written can be read. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/src/float16.h"
#include "runtime/tools/npy.h"

/* A file with this header text and `data` bytes of 1, 2, 3...; heap-exact, so that ASan sees every overrun. */
static uint8_t *make(int version, const char *header, size_t data, size_t *size)
{
	size_t prefix = version == 1 ? 10 : 12, n = strlen(header);
	uint8_t *p = calloc(1, prefix + n + data + !(prefix + n + data));

	memcpy(p, "\x93NUMPY", 6);
	p[6] = (uint8_t)version;
	p[8] = (uint8_t)n;
	p[9] = (uint8_t)(n >> 8);
	memcpy(p + prefix, header, n);
	for (size_t i = 0; i < data; i++)
		p[prefix + n + i] = (uint8_t)(i + 1);
	*size = prefix + n + data;
	return p;
}

static bool parse(int version, const char *header, size_t data, Npy *out, char *why, size_t why_size)
{
	size_t size;
	uint8_t *p = make(version, header, data, &size);
	bool ok = npy_parse(p, size, out, why, why_size);

	free(p);
	return ok;
}

static void test_versions_and_shapes(void **state)
{
	char why[200];
	Npy n;

	(void)state;
	for (int version = 1; version <= 2; version++) {
		assert_true(parse(version, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }  \n", 12, &n, why,
		                  sizeof why));
		assert_int_equal(n.kind, 'i');
		assert_int_equal(n.item_bytes, 2);
		assert_int_equal(n.rank, 2);
		assert_int_equal(n.extents[1], 3);
		assert_int_equal(n.count, 6);
		assert_int_equal(((uint8_t *)n.data)[11], 12);
		npy_free(&n);
	}
	assert_true(parse(1, "{'shape':(3,),'descr':\"|b1\",'fortran_order':False}", 3, &n, why, sizeof why));
	assert_int_equal(n.rank, 1);
	npy_free(&n);
	assert_true(parse(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 8, &n, why, sizeof why));
	assert_int_equal(n.rank, 0);
	assert_int_equal(n.count, 1);
	npy_free(&n);
	assert_true(parse(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9999999999999), }", 0, &n, why,
	                  sizeof why));
	assert_int_equal(n.count, 0);
	npy_free(&n);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *header, *why;
	} rows[] = {
		{ "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "big-endian" },
		{ "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "Fortran order" },
		{ "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "neither" },
		{ "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "c8" },
		{ "{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }", "f3" },
		{ "{'descr': '<V3', 'fortran_order': False, 'shape': (1,), }", "V3" },
		{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "records" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", "more data" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "more data" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "too large" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "tuple of numbers" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1", "tuple" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "dimensions" },
		{ "{'descr': '<f4', 'fortran_order': False}", "lacks" },
		{ "{'descr': '<f4', 'descr': '<f4'}", "repeated" },
		{ "{", "damaged" },
		{ "", "dict" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char why[200] = "";
		Npy n;
		assert_false(parse(1, rows[i].header, 16, &n, why, sizeof why));
		if (!strstr(why, rows[i].why))
			fail_msg("%s: %s", rows[i].header, why);
	}
}

static void test_damaged_files_do_not_crash(void **state)
{
	size_t size;
	uint8_t *p = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", 16, &size);
	char why[200];
	Npy n;

	(void)state;
	for (size_t cut = 0; cut < size; cut++) {
		uint8_t *copy = malloc(cut + !cut);
		memcpy(copy, p, cut);
		assert_false(npy_parse(copy, cut, &n, why, sizeof why));
		free(copy);
	}
	for (size_t bit = 0; bit < 8 * size; bit++) {
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (npy_parse(p, size, &n, why, sizeof why))
			npy_free(&n);
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(p);
}

static void test_write_and_read(void **state)
{
	char path[] = "/tmp/test_npy_XXXXXX", why[200];
	float data[6] = { 1, -2, 0.5f, 3e38f, 0, -0.0f };
	Npy out = { 'f', 4, 2, { 2, 3 }, 6, data }, in;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	for (int rank = 0; rank <= 2; rank++) {
		out.rank = rank;
		out.extents[0] = rank == 1 ? 6 : 2;
		out.count = rank ? 6 : 1;
		assert_true(npy_write(path, &out, why, sizeof why));
		assert_true(npy_read(path, &in, why, sizeof why));
		assert_int_equal(in.rank, rank);
		assert_int_equal(in.count, out.count);
		assert_memory_equal(in.data, data, in.count * 4);
		npy_free(&in);
	}
	unlink(path);
	assert_false(npy_read(path, &in, why, sizeof why));
	assert_false(npy_write("/nowhere/x.npy", &out, why, sizeof why));
	assert_false(npy_read("/tmp", &in, why, sizeof why));
}

static void test_float16(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 0x10000; h++) { /* every value that is no NaN survives the round trip */
		if ((h & 0x7c00) != 0x7c00 || !(h & 0x3ff))
			assert_int_equal(rt_to_f16(rt_from_f16((uint16_t)h)), h);
		if ((h & 0x7f80) != 0x7f80 || !(h & 0x7f))
			assert_int_equal(rt_to_bf16(rt_from_bf16((uint16_t)h)), h);
	}
	assert_int_equal(rt_to_bf16(rt_bits_float(0x3f808000)), 0x3f80); /* ties to even */
	assert_int_equal(rt_to_bf16(rt_bits_float(0x3f818000)), 0x3f82);
	assert_int_equal(rt_to_bf16(rt_bits_float(0x7f800001)), 0x7fc0); /* NaN stays NaN */
	assert_int_equal(rt_to_bf16(3.4e38f), 0x7f80);
	assert_int_equal(rt_to_f16(65519.0f), 0x7bff);
	assert_int_equal(rt_to_f16(65520.0f), 0x7c00);
	assert_int_equal(rt_to_f16(0x1p-25f), 0); /* tie to even zero */
	assert_int_equal(rt_to_f16(0x1.8p-24f), 2);
	assert_int_equal(rt_to_f16(2049.0f), 0x6800);
	assert_int_equal(rt_to_f16(-0.0f), 0x8000);
	assert_int_equal(rt_to_f16(rt_bits_float(0x7fc00000)), 0x7e00);
	assert_int_equal(rt_to_f16(0x1.ffcp-15f), 0x3ff + 1); /* rounds up into the normals */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions_and_shapes),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_damaged_files_do_not_crash),
		cmocka_unit_test(test_write_and_read),
		cmocka_unit_test(test_float16),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
