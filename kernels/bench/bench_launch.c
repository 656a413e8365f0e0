/* Host time of a launch: tilert_prepared_launch against the driver's cuLaunchKernelEx, an empty kernel each; and of a call of two kernels, prepared and
 * not. */
#include <dlfcn.h>
#include <stdlib.h>
#include <tilekern/gdn.h>

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

/* ---- a GDN call ---- */

typedef struct Forward { tilekern_gdn *gdn; tilekern_gdn_params p; tilekern_gdn_call *call; } Forward;

#define CHECK_GDN(call) bench_check((call), tilekern_last_error(), #call)

static void launch_forward(void *p) { CHECK_GDN(tilekern_gdn_forward(((Forward *)p)->gdn, &((Forward *)p)->p, NULL)); }
static void launch_call(void *p) { CHECK_GDN(tilekern_gdn_launch(((Forward *)p)->call, NULL)); }

/* Of what an engine gives: a strided call of the pool, packed, too small to keep the GPU busy for longer than the host. */
static void time_gdn(Bench *b)
{
	enum { T = 256, N = 4, H = 16, HV = 32, D = 128 };
	static const unsigned char zeros[1 << 20];
	static const int32_t offsets[N + 1] = { 0, 64, 128, 192, 256 }, slots[N] = { 2, 0, 3, 1 };
	Forward f;
	tilekern_gdn_params *p = &f.p;
	const size_t qkv = (size_t)T * (2 * H + HV) * D * 2, state = (size_t)N * HV * D * D * 4;
	CHECK_GDN(tilekern_gdn_open(b->device, &f.gdn));
	tilekern_gdn_params_init(p);
	p->tokens = T;
	p->sequences = p->state_slots = N;
	p->qk_heads = H;
	p->value_heads = HV;
	p->options = TILEKERN_L2NORM;
	p->q = bench_periodic(b, zeros, sizeof zeros, qkv);
	p->k = p->q + (tilert_ptr)H * D * 2;
	p->v = p->k + (tilert_ptr)H * D * 2;
	p->q_strides = p->k_strides = p->v_strides = (tilekern_strides){ 0, (2 * H + HV) * D, D };
	p->g = bench_periodic(b, zeros, sizeof zeros, (size_t)T * HV * 4);
	p->beta = bench_periodic(b, zeros, sizeof zeros, (size_t)T * HV * 4);
	p->o = bench_poisoned(b, (size_t)T * HV * D * 2);
	p->initial_state = p->final_state = bench_periodic(b, zeros, sizeof zeros, state);
	p->cu_seqlens = bench_periodic(b, offsets, sizeof offsets, sizeof offsets);
	p->state_indices = bench_periodic(b, slots, sizeof slots, sizeof slots);
	CHECK_GDN(tilekern_gdn_workspace_bytes(f.gdn, p, &p->workspace_bytes));
	p->workspace = bench_poisoned(b, p->workspace_bytes);
	CHECK_GDN(tilekern_gdn_prepare(f.gdn, p, &f.call));
	double forward = host_ns(b, launch_forward, &f), prepared = host_ns(b, launch_call, &f);
	bench_row(b, "launch", "tilekern_gdn_forward", forward * 1e-6, 1e9 / forward, "calls/s", 0);
	bench_row(b, "launch", "tilekern_gdn_launch", prepared * 1e-6, 1e9 / prepared, "calls/s", 0);
	tilekern_gdn_call_destroy(f.call);
	tilekern_gdn_close(f.gdn);
	const tilert_ptr all[] = { p->q, p->g, p->beta, p->o, p->final_state, p->cu_seqlens, p->state_indices, p->workspace };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		bench_free(b, all[i]);
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
	time_gdn(b);
}
