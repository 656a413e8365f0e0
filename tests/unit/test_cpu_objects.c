/* test_cpu_objects.c - the CPU device, driven through its ABI by kernels written in C: objects that it loads. */
#define _DEFAULT_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cpu_device.h"

static const char object_source[] =
	"#include <stdint.h>\n"
	"#include <math.h>\n"
	"typedef struct T { uint8_t *smem; uint32_t thread, block[3], grid[3], rank; } T;\n"
	"void tilecpu_bar_sync(T *t, uint32_t id, uint32_t n, const char *name, uint32_t line);\n"
	"#ifdef UNKNOWN\n"
	"void nobody_has_this(void);\n"
	"#else\n"
	"#define nobody_has_this()\n"
	"#endif\n"
	"static const float table[4] = { 1, 2, 3, 4 };\n"
	"static const float *const pointers[4] = { &table[3], &table[2], &table[1], &table[0] };\n"
	"int counter;\n"
	"int initial = 40;\n"
	"__attribute__((noinline)) static float helper(float x) { return exp2f(x) + *pointers[(int)x % 4]; }\n"
	"void object_kernel(T *t, void *const *params) {\n"
	"	float *out = params[0];\n"
	"	((float *)t->smem)[t->thread] = helper((float)t->thread);\n"
	"	tilecpu_bar_sync(t, 0, 32, 0, 7);\n"
	"	nobody_has_this();\n"
	"	counter++;\n"
	"	out[t->thread] = ((float *)t->smem)[31 - t->thread] + initial;\n"
	"	if (t->thread == 0) out[32] = (float)counter;\n"
	"}\n";

static void *read_file(const char *name, size_t *size)
{
	FILE *f = fopen(name, "rb");
	char *data;

	if (!f)
		return NULL;
	data = malloc(1 << 20);
	*size = fread(data, 1, 1 << 20, f);
	fclose(f);
	return data;
}

/* The object of the source above, or NULL where there is no C compiler. */
static void *compile(const char *options, size_t *size)
{
	char source[] = "/tmp/test_cpu_XXXXXX", command[512], object[64];
	int fd = mkstemp(source);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	void *data;

	if (!f)
		return NULL;
	fputs(object_source, f);
	fclose(f);
	snprintf(object, sizeof object, "%s.o", source);
	snprintf(command, sizeof command, "cc -x c -c -g -fPIC %s -o %s %s 2>/dev/null", options, object, source);
	data = system(command) == 0 ? read_file(object, size) : NULL;
	remove(object);
	remove(source);
	return data;
}

static void run_object(const char *options)
{
	size_t size;
	void *elf = compile(options, &size);
	float out[33];
	void *params[] = { out };
	TileCpuImage *im;

	if (!elf)
		skip();
	im = tilecpu_image_load(elf, size, error, sizeof error);
	free(elf);
	if (!im)
		fail_msg("%s", error);
	assert_null(tilecpu_image_symbol(im, "helper"));
	assert_non_null(tilecpu_image_symbol(im, "object_kernel"));
	expect_ok(RUN(params, .kernel = tilecpu_image_symbol(im, "object_kernel"), .threads = 32, .smem = 128));
	for (int i = 0; i < 32; i++)
		assert_true(out[i] == exp2f((float)(31 - i)) + (float)(4 - (31 - i) % 4) + 40);
	assert_in_range((int)out[32], 1, 32);
	tilecpu_image_free(im);
}

static void test_object(void **state)
{
	(void)state;
	run_object("-O0");
	run_object("-O2 -fno-plt");
	run_object("-O1 -ffunction-sections -fno-asynchronous-unwind-tables");
}

static void test_bad_objects(void **state)
{
	size_t size;
	uint8_t *elf = compile("-O1 -DUNKNOWN", &size);
	TileCpuImage *im;
	uint32_t s = 3;
	Elf64_Ehdr header;
	Elf64_Shdr *none;

	(void)state;
	assert_null(tilecpu_image_load("abc", 3, error, sizeof error));
	if (!elf)
		skip();
	assert_null(tilecpu_image_load(elf, size, error, sizeof error));
	expect_error(-1, "unknown symbol 'nobody_has_this'");
	for (size_t cut = 0; cut < size; cut += 97) {
		im = tilecpu_image_load(elf, cut, error, sizeof error);
		assert_null(im);
	}
	memcpy(&header, elf, sizeof header);
	none = (Elf64_Shdr *)(void *)(elf + header.e_shoff);
	assert_int_equal(none->sh_type, SHT_NULL); /* whose place is not looked at: nothing of it is loaded */
	*none = (Elf64_Shdr){ .sh_type = SHT_NULL, .sh_flags = SHF_ALLOC, .sh_offset = (uint64_t)1 << 40, .sh_size = 4096 };
	assert_null(tilecpu_image_load(elf, size, error, sizeof error));
	expect_error(-1, "unknown symbol 'nobody_has_this'");
	*none = (Elf64_Shdr){ .sh_type = SHT_NULL };
	for (int i = 0; i < 3000; i++) { /* damaged, it may load or not, but not crash */
		size_t at = rng(&s) % size;
		uint8_t old = elf[at];

		elf[at] = (uint8_t)rng(&s);
		tilecpu_image_free(tilecpu_image_load(elf, size, error, sizeof error));
		elf[at] = old;
	}
	free(elf);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_object),
		cmocka_unit_test(test_bad_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
