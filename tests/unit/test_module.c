/* test_module.c - reading modules: good ones, and that no damage can do worse than TILERT_EFORMAT. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/src/image.h"
#include "tests/unit/make_module.h"
#include "tilert/tilert.h"

/* The second is packed: "\x7f" "EL" twelve times, its byte 30 a 0. */
#define PACKED "\x01\x3f\x93\x08\x9a\x52\x39\xe9\x25\x97\x1e\xfe\xa3"
static const ModuleBlob blobs[] = { { "ptx", ".version 8.0", 13, 0 }, { "cubin:sm_90a", PACKED, 13, 36 } };

static uint8_t *example(size_t *size)
{
	return make_module(example_meta, blobs, 2, size);
}

static void check_blob(const Image *im, const char *kind, const char *bytes, size_t n)
{
	const Blob *b = rt_image_blob(im, kind);
	uint8_t *data;

	assert_non_null(b);
	assert_int_equal(b->bytes, n);
	assert_int_equal(rt_blob_data(b, &data), TILERT_OK);
	assert_memory_equal(data, bytes, n);
	free(data);
}

static void test_everything_is_read(void **state)
{
	size_t size;
	uint8_t *p = example(&size);
	Image im;

	(void)state;
	assert_int_equal(rt_image_parse(p, size, &im), TILERT_OK);
	free(p);
	assert_string_equal(im.source_name, "example.tile");
	assert_int_equal(im.n_kernels, 2);
	const KernelMeta *k = &im.kernels[0];
	assert_string_equal(k->name, "attend");
	assert_int_equal(k->threads, 384);
	assert_int_equal(k->smem_bytes, 196608);
	assert_true(k->dependent);
	assert_false(im.kernels[1].dependent);
	assert_int_equal(k->n_tensors, 4);
	assert_int_equal(k->n_dims, 3);
	assert_int_equal(k->n_symbols, 5);
	assert_int_equal(k->n_maps, 2);
	assert_int_equal(k->maps[0].rank, 3);
	assert_int_equal(k->maps[0].box[1], 64);
	assert_true(k->tensors[2].optional);
	assert_int_equal(k->tensors[0].align, 16);
	assert_int_equal(k->tensors[3].align, 4);
	assert_string_equal(k->tensors[3].shape, "[cdiv(T, 64)][H]");
	assert_int_equal(im.kernels[1].grid_rank, 1);
	check_blob(&im, "ptx", ".version 8.0", 13);
	check_blob(&im, "cubin:sm_90a", "\x7f" "EL\x7f" "EL\x7f" "EL\x7f" "EL\x7f" "EL\x7f" "EL\x7f" "EL\x7f" "EL\x7f" "EL\x7f" "EL\0EL\x7f" "EL", 36);
	assert_null(rt_image_blob(&im, "elf:x86_64"));
	rt_image_free(&im);
}

static void test_inspection_without_a_device(void **state)
{
	size_t size;
	uint8_t *p = example(&size);
	tilert_module *m;
	tilert_kernel *k;
	tilert_prepared *prepared;
	tilert_param param;
	tilert_kernel_info info;
	int64_t extents[TILERT_MAX_RANK] = { 0 };

	(void)state;
	assert_int_equal(tilert_module_load(NULL, p, size, &m), TILERT_OK);
	free(p);
	assert_int_equal(tilert_module_kernel_count(m), 2);
	assert_null(tilert_module_kernel_at(m, 2));
	assert_int_equal(tilert_module_kernel(m, "atend", &k), TILERT_ENOENT);
	assert_non_null(strstr(tilert_last_error(), "did you mean \"attend\"?"));
	assert_int_equal(tilert_module_kernel(m, "attend", &k), TILERT_OK);
	assert_int_equal(tilert_kernel_param_count(k), 9);
	assert_int_equal(tilert_kernel_param(k, 2, &param), TILERT_OK);
	assert_string_equal(param.shape, "[T][H * 2]");
	assert_int_equal(tilert_kernel_param(k, 8, &param), TILERT_OK);
	assert_string_equal(param.name, "steps");
	assert_int_equal(param.kind, TILERT_ARG_SCALAR);
	assert_int_equal(tilert_kernel_param(k, 9, &param), TILERT_EINVAL);
	assert_int_equal(tilert_kernel_get_info(k, &info), TILERT_OK);
	assert_int_equal(info.registers, 168);
	assert_int_equal(info.dependent, 1);
	const tilert_arg args[] = { { .name = "T", .kind = TILERT_ARG_DIM, .i = 65 },
		                    { .name = "H", .kind = TILERT_ARG_DIM, .i = 3 } };
	assert_int_equal(tilert_kernel_extents(k, 3, args, 2, extents), TILERT_OK);
	assert_int_equal(extents[0], 2);
	assert_int_equal(extents[1], 3);
	assert_int_equal(tilert_kernel_extents(k, 3, args, 1, extents), TILERT_EINVAL);
	assert_non_null(strstr(tilert_last_error(), "H is not known"));
	assert_int_equal(tilert_kernel_extents(k, 4, args, 2, extents), TILERT_EINVAL);
	assert_string_equal(tilert_last_error(), "tilert_kernel_extents: kernel attend has 4 tensors, and none of number 4");
	assert_int_equal(tilert_launch(NULL, args, 2, NULL), TILERT_EINVAL);
	assert_string_equal(tilert_last_error(), "tilert_launch: kernel or out is NULL");
	assert_int_equal(tilert_prepare(k, args, 2, &prepared), TILERT_EINVAL);
	tilert_module_close(m);
}

static void test_cpu_without_code(void **state)
{
	size_t size;
	uint8_t *p = example(&size);
	tilert_device *d;
	tilert_module *m;

	(void)state;
	assert_int_equal(tilert_device_open("cpu", &d), TILERT_OK);
	assert_int_equal(tilert_module_load(d, p, size, &m), TILERT_EARCH);
	assert_non_null(strstr(tilert_last_error(), "example.tile"));
	tilert_device_close(d);
	free(p);
}

static void test_cpu_has_as_many_processors_as_threads(void **state)
{
	tilert_device_info own, five, again;
	tilert_device *d;

	(void)state;
	assert_int_equal(tilert_device_open("cpu", &d), TILERT_OK);
	assert_int_equal(tilert_device_get_info(d, &own), TILERT_OK);
	assert_int_equal(tilert_cpu_configure(d, 1, 5), TILERT_OK);
	assert_int_equal(tilert_device_get_info(d, &five), TILERT_OK);
	assert_int_equal(tilert_cpu_configure(d, 1, 0), TILERT_OK);
	assert_int_equal(tilert_device_get_info(d, &again), TILERT_OK);
	assert_int_equal(five.sm_count, 5);
	assert_true(own.sm_count >= 1);
	assert_int_equal(again.sm_count, own.sm_count);
	tilert_device_close(d);
}

static void test_cpu_refuses_what_it_cannot_be(void **state)
{
	tilert_device_info info;
	tilert_device *d;

	(void)state;
	assert_int_equal(tilert_device_open("cpu", &d), TILERT_OK);
	assert_int_equal(tilert_cpu_configure(d, 1, 4000000000u), TILERT_EINVAL);
	assert_non_null(strstr(tilert_last_error(), "4000000000 threads, of which there may be 1024"));
	assert_int_equal(tilert_device_get_info(d, &info), TILERT_OK);
	assert_true(info.sm_count >= 1);
	assert_int_equal(tilert_cpu_set_checks(d, NULL), TILERT_EINVAL);
	assert_non_null(strstr(tilert_last_error(), "checks is NULL"));
	tilert_device_close(d);
}

static void check_no_crash(const uint8_t *bytes, size_t size)
{
	Image im;
	uint8_t *exact = malloc(size + !size); /* heap-exact, so that ASan sees every overrun */

	memcpy(exact, bytes, size);
	tilert_status s = rt_image_parse(exact, size, &im);
	free(exact);
	if (s != TILERT_OK) {
		assert_int_equal(s, TILERT_EFORMAT);
		return;
	}
	for (size_t i = 0; i < im.n_blobs; i++) {
		uint8_t *data = NULL;
		if (im.blobs[i].bytes > 1 << 20)
			continue; /* room is all that is missing */
		s = rt_blob_data(&im.blobs[i], &data);
		assert_true(s == TILERT_OK || s == TILERT_EFORMAT);
		free(data);
	}
	rt_image_free(&im);
}

/* What passes for whole: the text and the tables are read. */
static void check_signed(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size + !size);

	memcpy(copy, bytes, size);
	sign_module(copy, size);
	check_no_crash(copy, size);
	free(copy);
}

static void test_truncations(void **state)
{
	size_t size;
	uint8_t *p = example(&size);
	Image im;

	(void)state;
	for (size_t cut = 0; cut < size; cut++) {
		check_signed(p, cut);
		assert_int_equal(rt_image_parse(p, cut, &im), TILERT_EFORMAT);
	}
	free(p);
}

static void test_bit_flips(void **state)
{
	size_t size;
	Image im;
	uint8_t *p = example(&size);

	(void)state;
	for (size_t bit = 0; bit < 8 * size; bit++) {
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(rt_image_parse(p, size, &im), TILERT_EFORMAT); /* by the checksum, if by nothing else */
		check_signed(p, size);
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(p);
}

static void test_many_blobs(void **state)
{
	enum { MOST = 64 };
	char kinds[MOST + 1][16];
	ModuleBlob many[MOST + 1];
	size_t size;
	Image im;

	(void)state;
	for (int i = 0; i <= MOST; i++) {
		snprintf(kinds[i], sizeof kinds[i], "k%d", i);
		many[i] = (ModuleBlob){ kinds[i], "x", 1, 0 };
	}
	for (int n = MOST; n <= MOST + 1; n++) {
		uint8_t *p = make_module(example_meta, many, (size_t)n, &size);
		assert_int_equal(rt_image_parse(p, size, &im), n > MOST ? TILERT_EFORMAT : TILERT_OK);
		free(p);
		if (n > MOST)
			assert_string_equal(tilert_last_error(), "module: 65 blobs, of which there may be 64");
		else
			rt_image_free(&im);
	}
}

static void test_random_damage(void **state)
{
	size_t size;
	uint8_t *p = example(&size), *copy = malloc(size);
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		memcpy(copy, p, size);
		for (int i = 0; i < 1 + round % 8; i++) {
			random = random * 1664525u + 1013904223u;
			size_t at = (random >> 8) % size;
			random = random * 1664525u + 1013904223u;
			copy[at] = round & 1 ? (uint8_t)(random >> 16) : p[(random >> 8) % size];
		}
		check_signed(copy, size);
	}
	free(copy);
	free(p);
}

#define HEAD "module \"m\" compiler \"c\"\nkernel \"k\" threads 32 cluster 1 smem 0 registers 0 tensormaps 0\n"
#define X "tensor \"x\" bf16 in required rank 1 extents \"N\" strides \"1\"\ndim \"N\"\n"

static void test_what_and_where(void **state)
{
	static const struct {
		const char *meta, *text;
	} rows[] = {
		{ "module \"m\" compiler \"c\"\n", "no kernels" },
		{ "kernel", "line 1: expected \"module\"" },
		{ "module \"m compiler\n", "line 1: a string is not closed" },
		{ HEAD "grid \"1\"\n", "line 4: expected \"end\"" },
		{ HEAD "grid\nend\n", "line 3: a grid has no extents" },
		{ HEAD "grid \"1\" \"1\" \"1\" \"1\"\nend\n", "more than 3" },
		{ HEAD "grid \"M\"\nend\n", "\"M\" is no dim" },
		{ HEAD "scalar \"s\" f32\ngrid \"s\"\nend\n", "\"s\" is no dim, integer scalar" },
		{ HEAD "dim \"N\"\ndim \"N\"\n", "line 4: a second parameter called \"N\"" },
		{ HEAD "dim \"\"\n", "name is empty" },
		{ HEAD "dim \"N\\\"\n", "line 3: a name is not one of letters, digits and _" },
		{ HEAD "dim \"1\"\n", "line 3: a name is not one of letters, digits and _" },
		{ HEAD "scalar \"s\x1b[31m\" f32\n", "line 3: a name is not one of letters, digits and _" },
		{ HEAD "grid \"1\"\nend\nkernel \"j\" threads 1 cluster 1 smem 0 registers 0 tensormaps 0\ngrid \"1\"\nend\n"
		  "kernel \"k\" threads 1 cluster 1 smem 0 registers 0 tensormaps 0\ngrid \"1\"\nend\n", "two kernels called \"k\"" },
		{ HEAD "dim \"N\" 3\n", "line 3: something follows" },
		{ HEAD "scalar \"s\" f33\n", "expected an element type" },
		{ HEAD "tensor \"x\" f32 into\n", "expected in, out or inout" },
		{ HEAD "tensor \"x\" f32 in\n", "expected required or optional" },
		{ HEAD "tensor \"x\" f32 in required rank 6\n", "rank is 6, which is not in 1..5" },
		{ HEAD "tensor \"x\" f32 in required align 3 rank 1\n", "power of two" },
		{ "module \"m\" compiler \"c\"\nkernel \"k\" threads 32 cluster 1 smem 0 registers 0 tensormaps 0 dependant\n", "something follows" },
		{ HEAD X "tensormap tensor \"y\"", "unknown tensor" },
		{ "module \"m\" compiler \"c\"\nkernel \"k\" threads 32 cluster 1 smem 0 registers 0 tensormaps 2\n" X
		  "tensormap tensor \"x\" dtype bf16 swizzle 0 dims \"N\" strides \"2\" box 8\ngrid \"1\"\nend\n", "has 1 of 2 tensormaps" },
		{ HEAD X "tensormap tensor \"x\" dtype bf16 swizzle 48 dims \"N\" strides \"2\" box 8\n", "swizzle" },
		{ HEAD X "tensormap tensor \"x\" dtype bf16 swizzle 32 dims \"N\" strides \"2\" box 64\n", "wider" },
		{ HEAD X "tensormap tensor \"x\" dtype bf16 swizzle 0 dims \"N\" strides \"2\" box 7\n", "16 bytes" },
		{ HEAD X "tensormap tensor \"x\" dtype bf16 swizzle 0 dims \"N\" strides \"2\" box 512\n", "1..256" },
		{ HEAD X "tensormap tensor \"x\" dtype bf16 swizzle 0 dims \"N\" \"N\" strides \"2\" \"16\" box 8 1 limited 1\n", "less than 3 dims" },
		{ HEAD X "tensormap tensor \"x\" dtype bf16 swizzle 0 dims \"N\" \"N\" \"N\" strides \"2\" \"16\" \"16\" box 8 1 1 limited 2\n", "limited is 2, which is not in 1..1" },
		{ "module \"m\" compiler \"c\"\nkernel \"k\" threads 2048", "threads is 2048, which is not in 1..1024" },
		{ "module \"m\" compiler \"c\"\nkernel \"k\" threads 99999999999", "expected a number" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t size;
		uint8_t *p = make_module(rows[i].meta, NULL, 0, &size);
		Image im;
		assert_int_equal(rt_image_parse(p, size, &im), TILERT_EFORMAT);
		if (!strstr(tilert_last_error(), rows[i].text))
			fail_msg("%s: %s", rows[i].meta, tilert_last_error());
		free(p);
	}
}

/* In a moment: each name was looked for among all before. */
static void test_many_kernels(void **state)
{
	enum { KERNELS = 150000, ROW = 100 };
	char *meta = malloc(KERNELS * ROW), *at = meta + sprintf(meta, "module \"m\" compiler \"c\"\n");
	size_t size;
	Image im;

	(void)state;
	for (int i = 0; i < KERNELS; i++)
		at += sprintf(at, "kernel \"k%d\" threads 1 cluster 1 smem 0 registers 0 tensormaps 0\ngrid \"1\"\nend\n", i);
	uint8_t *p = make_module(meta, NULL, 0, &size);
	const clock_t begin = clock();
	assert_int_equal(rt_image_parse(p, size, &im), TILERT_OK);
	assert_int_equal(im.n_kernels, KERNELS);
	assert_true(clock() - begin < 10 * CLOCKS_PER_SEC);
	rt_image_free(&im);
	free(p);
	free(meta);
}

static void check_bad_blob(const ModuleBlob *b, const char *text)
{
	size_t size;
	Image im;
	uint8_t *data, *p = make_module(example_meta, b, 1, &size);

	assert_int_equal(rt_image_parse(p, size, &im), TILERT_OK);
	assert_int_equal(rt_blob_data(&im.blobs[0], &data), TILERT_EFORMAT);
	assert_non_null(strstr(tilert_last_error(), text));
	rt_image_free(&im);
	free(p);
}

static void test_bad_containers(void **state)
{
	size_t size;
	Image im;
	const ModuleBlob twice[] = { blobs[0], blobs[0] }, open_text = { "ptx", "abc", 3, 0 };

	(void)state;
	assert_int_equal(rt_image_parse("PK", 2, &im), TILERT_EFORMAT);
	assert_non_null(strstr(tilert_last_error(), "TILEMOD4"));
	assert_int_equal(rt_image_parse("TILEMOD2 of last year, longer", 30, &im), TILERT_EFORMAT);
	assert_non_null(strstr(tilert_last_error(), "it begins with TILEMOD2, this runtime reads TILEMOD4"));
	uint8_t *p = make_module(example_meta, twice, 2, &size);
	assert_int_equal(rt_image_parse(p, size, &im), TILERT_EFORMAT);
	free(p);
	check_bad_blob(&open_text, "NUL-terminated");
}

/* What follows a damaged packing is told by the sizes. */
static void test_bad_packing(void **state)
{
	static const ModuleBlob rows[] = {
		{ "x", PACKED, 12, 36 },                /* without its last byte */
		{ "x", PACKED "\0", 14, 36 },          /* with another */
		{ "x", PACKED, 13, 35 }, { "x", PACKED, 13, 37 },
		{ "x", "\x01\x3f\x93", 3, 36 },         /* less than the coder's first code */
		{ "x", "\0\x30\x9b\x37\x72\x9c\x60\x67\x87", 9, 10 }, /* "ab", 8 bytes from 3 before */
		{ "x", "\0\xc3\x01\x8b\xfa\0", 6, 8 }, /* a copy first */
		{ "x", "\0\x30\x9b\x37\x90\x4f\x57\x31\x87", 9, 10 }, /* "ab", 9 bytes where there is room for 8 */
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		check_bad_blob(&rows[i], "does not unpack to");
}

static void test_bad_unpacked_size(void **state)
{
	static const ModuleBlob rows[] = { { "x", "abc", 3, 2 }, { "x", "abc", 3, SIZE_MAX } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t size;
		Image im;
		uint8_t *p = make_module(example_meta, &rows[i], 1, &size);
		assert_int_equal(rt_image_parse(p, size, &im), TILERT_EFORMAT);
		assert_non_null(strstr(tilert_last_error(), "has 3 bytes"));
		free(p);
	}
}

static void test_files(void **state)
{
	tilert_module *m;

	(void)state;
	assert_int_equal(tilert_module_open(NULL, "/nowhere/x.tmod", &m), TILERT_ENOENT);
	assert_non_null(strstr(tilert_last_error(), "/nowhere/x.tmod"));
	assert_int_equal(tilert_module_open(NULL, "/", &m), TILERT_EIO);
	assert_int_equal(tilert_module_open(NULL, "/dev/zero", &m), TILERT_EIO);
	assert_non_null(strstr(tilert_last_error(), "/dev/zero: it is no regular file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_is_read),
		cmocka_unit_test(test_inspection_without_a_device),
		cmocka_unit_test(test_cpu_without_code),
		cmocka_unit_test(test_cpu_has_as_many_processors_as_threads),
		cmocka_unit_test(test_cpu_refuses_what_it_cannot_be),
		cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_bit_flips),
		cmocka_unit_test(test_random_damage),
		cmocka_unit_test(test_many_blobs),
		cmocka_unit_test(test_what_and_where),
		cmocka_unit_test(test_many_kernels),
		cmocka_unit_test(test_bad_containers),
		cmocka_unit_test(test_bad_packing),
		cmocka_unit_test(test_bad_unpacked_size),
		cmocka_unit_test(test_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
