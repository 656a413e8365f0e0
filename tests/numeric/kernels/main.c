/* Runs kernels on $TILE_TEST_DEVICE and compares them with references in double precision.
 *
 *     test_numeric [FILTER]      only tests whose name matches, with * and ?
 *     test_numeric --families    what names begin with */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/numeric.h"

enum { MAX_CASES = 1280, MOST_CASES = 320 /* of a family */, MAX_MODULES = 16, GUARD = 4096 };

static tilert_device *device;
static struct { char name[64]; tilert_module *module; } modules[MAX_MODULES];

static const char *device_name(void)
{
	const char *name = getenv("TILE_TEST_DEVICE");
	return name && *name ? name : "cpu";
}

void numeric_ok(tilert_status s, const char *text, const char *call, const char *file, int line)
{
	if (s == TILERT_OK)
		return;
	print_error("%s: %s: %s\n", call, tilert_status_name(s), text);
	_fail(file, line);
}

tilert_device *numeric_device(void)
{
	return device;
}

bool numeric_on_cpu(void)
{
	return strcmp(device_name(), "cpu") == 0;
}

static tilert_module *open_module(const char *name)
{
	const char *folders = getenv("TILE_TEST_MODULES");
	tilert_module *m = NULL;
	tilert_status s = TILERT_ENOENT;
	for (const char *f = folders ? folders : NUMERIC_MODULES; s == TILERT_ENOENT && *f;) {
		char path[1024];
		size_t n = strcspn(f, ":");
		snprintf(path, sizeof path, "%.*s/%s", (int)n, f, name);
		s = tilert_module_open(device, path, &m);
		f += n + (f[n] == ':');
	}
	OK(s);
	return m;
}

tilert_module *numeric_module(const char *name)
{
	size_t i = 0;
	for (; i < MAX_MODULES && modules[i].module; i++) {
		if (strcmp(modules[i].name, name) == 0)
			return modules[i].module;
	}
	assert_true(i < MAX_MODULES);
	modules[i].module = open_module(name);
	snprintf(modules[i].name, sizeof modules[i].name, "%s", name);
	return modules[i].module;
}

int random_calls(Random *r, uint64_t seed, int fewer, bool *named)
{
	const char *from = getenv("TILE_TEST_RANDOM"), *calls = getenv("TILE_TEST_CALLS");
	*named = from != NULL;
	random_init(r, from ? strtoull(from, NULL, 0) : seed);
	return !from ? fewer : calls ? atoi(calls) : 200;
}

bool random_runs(int i)
{
	const char *first = getenv("TILE_TEST_FIRST");
	return !first || i >= atoi(first);
}

NumericCase numeric_case(void (*run)(const void *spec), const void *spec, const char *format, ...)
{
	NumericCase c = { .run = run, .spec = spec };
	va_list args;
	va_start(args, format);
	vsnprintf(c.name, sizeof c.name, format, args);
	va_end(args);
	return c;
}

void *memory(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);
	assert_non_null(p);
	return p;
}

/* TILE_TEST_POISON=0 leaves memory as it is allocated, for a tool that looks for reads of what nobody wrote. */
static bool poisons(void)
{
	const char *poison = getenv("TILE_TEST_POISON");
	return !poison || strcmp(poison, "0") != 0;
}

void buffer_poison(Buffer b)
{
	OK(tilert_memset(device, b.p - GUARD, 0xff, GUARD, NULL));
	OK(tilert_memset(device, b.p + b.bytes, 0xff, GUARD, NULL));
	if (poisons())
		OK(tilert_memset(device, b.p, 0xff, b.bytes, NULL));
	OK(tilert_stream_sync(device, NULL));
}

Buffer buffer_poisoned(size_t bytes)
{
	Buffer b = { 0, bytes };
	OK(tilert_alloc(device, GUARD + bytes + GUARD, &b.p));
	b.p += GUARD;
	buffer_poison(b);
	return b;
}

Buffer buffer_of(const void *data, size_t bytes)
{
	Buffer b = buffer_poisoned(bytes);
	if (bytes)
		OK(tilert_upload(device, b.p, data, bytes));
	return b;
}

static void expect_guard(Buffer b, int64_t first)
{
	static unsigned char guard[GUARD];
	OK(tilert_download(device, guard, b.p + (tilert_ptr)first, GUARD));
	for (int64_t i = 0; i < GUARD; i++) {
		if (guard[i] != 0xff)
			fail_msg("byte %lld of a buffer of %zu was written", (long long)(first + i), b.bytes);
	}
}

void *buffer_take(Buffer b)
{
	unsigned char *data = memory(b.bytes);
	OK(tilert_download(device, data, b.p, b.bytes));
	expect_guard(b, -GUARD);
	expect_guard(b, (int64_t)b.bytes);
	return data;
}

void buffer_free(Buffer b)
{
	if (b.p)
		OK(tilert_free(device, b.p - GUARD));
}

tilert_arg tensor_arg(const char *name, Buffer b, tilert_dtype dtype, int rank, const int64_t *extents)
{
	tilert_arg a = { .name = name, .kind = TILERT_ARG_TENSOR, .tensor = { .data = b.p, .dtype = dtype, .rank = rank } };
	memcpy(a.tensor.extents, extents, (size_t)rank * sizeof *extents);
	return a;
}

static void run_case(void **state)
{
	const NumericCase *c = *state;
	c->run(c->spec);
}

static void close_device(void)
{
	for (size_t i = 0; i < MAX_MODULES; i++)
		tilert_module_close(modules[i].module);
	tilert_device_close(device);
}

static bool has_family(const char *name)
{
	for (const char *f = NUMERIC_FAMILIES; *f;) {
		size_t n = strcspn(f, " ");
		if (strncmp(name, f, n) == 0 && name[n] == '_')
			return true;
		f += n + (f[n] == ' ');
	}
	return false;
}

static int print_families(void)
{
	for (const char *c = NUMERIC_FAMILIES; *c; c++)
		putchar(*c == ' ' ? '\n' : *c);
	putchar('\n');
	return 0;
}

int main(int argc, char **argv)
{
	static NumericCase cases[MAX_CASES];
	static struct CMUnitTest tests[MAX_CASES];
	static size_t (*const families[])(NumericCase *) = { vector_add_cases, calls_cases, fields_cases, gemm_cases, kda_cases, kda_bits_cases, kda_plans_cases, kda_wrong_cases,
		kda_random_cases, kda_backward_cases, gdn_cases, gdn_bits_cases, gdn_wrong_cases, gdn_random_cases, gdn_states_cases, gdn_backward_cases,
		launch_cases, limits_cases, math_cases, dealt_cases };
	size_t n = 0;

	if (argc > 1 && strcmp(argv[1], "--families") == 0)
		return print_families();
	if (tilert_device_open(device_name(), &device) != TILERT_OK) {
		fprintf(stderr, "TILE_TEST_DEVICE=%s: %s\n", device_name(), tilert_last_error());
		return 1;
	}
	for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
		if (n + MOST_CASES > MAX_CASES) {
			fprintf(stderr, "%zu tests, and there is room for %d: raise MAX_CASES\n", n + MOST_CASES, MAX_CASES);
			return 1;
		}
		n += families[f](cases + n);
	}
	for (size_t i = 0; i < n; i++) {
		if (!has_family(cases[i].name)) {
			fprintf(stderr, "%s begins with none of " NUMERIC_FAMILIES ": nobody would run it\n", cases[i].name);
			return 1;
		}
		tests[i] = (struct CMUnitTest){ .name = cases[i].name, .test_func = run_case, .initial_state = &cases[i] };
	}
	if (argc > 1) {
		size_t chosen = 0;
		for (size_t i = 0; i < n; i++)
			chosen += fnmatch(argv[1], tests[i].name, 0) == 0;
		if (chosen == 0) { /* would pass */
			fprintf(stderr, "no test is called '%s'\n", argv[1]);
			return 1;
		}
		cmocka_set_test_filter(argv[1]);
	}
	int failed = _cmocka_run_group_tests("numeric", tests, n, NULL, NULL);
	close_device();
	return failed != 0;
}
