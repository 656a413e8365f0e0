#include "example.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check/float16.h"

void check(tilert_status s, const char *what)
{
	if (s == TILERT_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, tilert_status_name(s), tilert_last_error());
	exit(1);
}

void *memory(size_t n, size_t size)
{
	void *p = calloc(n + 1, size);
	if (!p) {
		fprintf(stderr, "no memory for %zu bytes\n", n * size);
		exit(1);
	}
	return p;
}

uint16_t *normal_bf16(Random *r, int64_t n, float size)
{
	uint16_t *x = memory((size_t)n, sizeof *x);
	for (int64_t i = 0; i < n; i++)
		x[i] = bf16_from_float(size * random_normal(r));
	return x;
}

tilert_device *open_device(const char *name, tilert_device_info *info)
{
	tilert_device *d;
	if (name)
		check(tilert_device_open(name, &d), "open the device");
	else if (tilert_device_open("cuda", &d) != TILERT_OK)
		check(tilert_device_open("cpu", &d), "open the CPU device");
	check(tilert_device_get_info(d, info), "describe the device");
	return d;
}

static size_t bytes(const tilert_tensor *t)
{
	size_t n = tilert_dtype_size(t->dtype);
	for (int i = 0; i < t->rank; i++)
		n *= (size_t)t->extents[i];
	return n;
}

tilert_arg tensor(tilert_device *d, const char *name, tilert_dtype t, const int64_t extents[4], const void *data)
{
	tilert_arg a = { .name = name, .kind = TILERT_ARG_TENSOR, .tensor = { .dtype = t } };
	for (int i = 0; i < 4 && extents[i]; i++)
		a.tensor.extents[a.tensor.rank++] = extents[i];
	check(tilert_alloc(d, bytes(&a.tensor), &a.tensor.data), name);
	if (data)
		check(tilert_upload(d, a.tensor.data, data, bytes(&a.tensor)), name);
	else
		check(tilert_memset(d, a.tensor.data, 0xff, bytes(&a.tensor), NULL), name); /* a NaN in every format */
	return a;
}

void *downloaded(tilert_device *d, const tilert_arg *a)
{
	void *p = memory(bytes(&a->tensor), 1);
	check(tilert_download(d, p, a->tensor.data, bytes(&a->tensor)), a->name);
	return p;
}

Launch launched(tilert_device *d, const char *module, const char *kernel, const tilert_arg *args, size_t n)
{
	Launch l = { .device = d };
	tilert_kernel *k;
	check(tilert_module_open(d, module, &l.module), "open the module");
	check(tilert_module_kernel(l.module, kernel, &k), "find the kernel");
	check(tilert_prepare(k, args, n, &l.prepared), "prepare");
	check(tilert_prepared_launch(l.prepared, NULL), "launch");
	check(tilert_stream_sync(d, NULL), "run");
	return l;
}

void finish(Launch *l, const tilert_arg *args, size_t n)
{
	tilert_prepared_destroy(l->prepared);
	for (size_t i = 0; i < n; i++)
		check(tilert_free(l->device, args[i].tensor.data), "free");
	tilert_module_close(l->module);
	tilert_device_close(l->device);
}

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

double milliseconds(tilert_device *d, tilert_prepared *const *launches, int n)
{
	enum { ROUNDS = 9, LAUNCHES = 10 };
	float ms[ROUNDS];
	tilert_event *begin, *end;
	check(tilert_event_create(d, &begin), "create an event");
	check(tilert_event_create(d, &end), "create an event");
	for (int i = 0; i < ROUNDS; i++) {
		check(tilert_event_record(begin, NULL), "record");
		for (int j = 0; j < LAUNCHES * n; j++)
			check(tilert_prepared_launch(launches[j % n], NULL), "launch");
		check(tilert_event_record(end, NULL), "record");
		check(tilert_event_elapsed(begin, end, &ms[i]), "time");
	}
	tilert_event_destroy(begin);
	tilert_event_destroy(end);
	qsort(ms, ROUNDS, sizeof *ms, by_size);
	return (double)ms[ROUNDS / 2] / LAUNCHES;
}

void compare(Error *e, double want, double got)
{
	e->difference += isfinite(got) ? (got - want) * (got - want) : INFINITY;
	e->square += want * want;
}

double relative(const Error *e) { return sqrt(e->difference / e->square); }
