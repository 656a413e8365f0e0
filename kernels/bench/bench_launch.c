/* Host time of a launch: tilert_prepared_launch against the driver's cuLaunchKernelEx, an empty kernel each. */
#include <dlfcn.h>
#include <stdlib.h>

#include "kernels/bench/bench.h"

/* The driver's types as far as they are needed (cuda.h). */
typedef struct LaunchConfig {
	unsigned grid[3], block[3], shared_bytes;
	void *stream, *attributes;
	unsigned attribute_count;
} LaunchConfig;

typedef struct Driver {
	int (*device_get)(int *, int);
	int (*primary_context)(void **, int);
	int (*set_current)(void *);
	int (*module_load)(void **, const void *);
	int (*get_function)(void **, void *, const char *);
	int (*launch)(const LaunchConfig *, void *, void **, void **);
} Driver;

static const char empty_ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty(.param .u32 n)\n{\n\tret;\n}\n";

typedef struct Bare { Driver d; LaunchConfig config; void *function; } Bare;

static bool open_bare(Bare *b)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
	const struct { const char *name; void *slot; } symbols[] = {
		{ "cuDeviceGet", &b->d.device_get }, { "cuDevicePrimaryCtxRetain", &b->d.primary_context }, { "cuCtxSetCurrent", &b->d.set_current },
		{ "cuModuleLoadData", &b->d.module_load }, { "cuModuleGetFunction", &b->d.get_function }, { "cuLaunchKernelEx", &b->d.launch },
	};
	int device;
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		void *f = lib ? dlsym(lib, symbols[i].name) : NULL;
		if (!f)
			return false;
		*(void **)symbols[i].slot = f;
	}
	b->config = (LaunchConfig){ .grid = { 1, 1, 1 }, .block = { 32, 1, 1 } };
	return b->d.device_get(&device, 0) == 0 && b->d.primary_context(&context, device) == 0 && b->d.set_current(context) == 0
		&& b->d.module_load(&module, empty_ptx) == 0 && b->d.get_function(&b->function, module, "empty") == 0;
}

static void launch_bare(void *p)
{
	Bare *b = p;
	unsigned n = 0;
	void *params[] = { &n };
	if (b->d.launch(&b->config, b->function, params, NULL) != 0)
		bench_check(TILERT_EDEVICE, "failed", "cuLaunchKernelEx");
}

static void launch_tilert(void *p)
{
	CHECK(tilert_prepared_launch(p, NULL));
}

static int ascending(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;
	return (a > b) - (a < b);
}

/* Nanoseconds of host time per launch: batches that fit the driver's queue, the wait between them not counted. */
static double host_ns(Bench *b, void (*launch)(void *), void *arg)
{
	enum { BATCHES = 25, BATCH = 400 };
	double ns[BATCHES];
	for (int i = -2; i < BATCHES; i++) {
		double begin = bench_now_ms();
		for (int j = 0; j < BATCH; j++)
			launch(arg);
		if (i >= 0)
			ns[i] = (bench_now_ms() - begin) * 1e6 / BATCH;
		CHECK(tilert_stream_sync(b->device, NULL));
	}
	qsort(ns, BATCHES, sizeof ns[0], ascending);
	return ns[BATCHES / 2];
}

void bench_launch(Bench *b)
{
	Bare bare;
	tilert_module *module = bench_module(b, "empty.tmod");
	tilert_kernel *k;
	tilert_prepared *p;
	tilert_arg n = { .name = "n", .kind = TILERT_ARG_SCALAR };
	if (!module || !open_bare(&bare)) {
		bench_refuse(b, "launch", module ? "libcuda.so.1 lacks something" : "no empty.tmod");
		return;
	}
	CHECK(tilert_module_kernel(module, "empty", &k));
	CHECK(tilert_prepare(k, &n, 1, &p));
	for (int i = 0; i < 2; i++) { /* twice: the difference of two runs is the noise */
		double bare_ns = host_ns(b, launch_bare, &bare), our_ns = host_ns(b, launch_tilert, p);
		bench_row(b, "launch", "cuLaunchKernelEx", bare_ns * 1e-6, 1e9 / bare_ns, "launches/s", 0);
		bench_row(b, "launch", "tilert_prepared_launch", our_ns * 1e-6, 1e9 / our_ns, "launches/s", 0);
	}
	tilert_prepared_destroy(p);
	tilert_module_close(module);
}
