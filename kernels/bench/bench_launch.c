/* Host time of a launch: tilert_prepared_launch against the driver's cuLaunchKernelEx, an empty kernel each; and of calls of the operators, prepared and
 * not. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <tilekern/gdn.h>
#include <tilekern/kda.h>

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

/* ---- calls of operators ---- */

/* Of what an engine gives: a strided call of the pool, packed, too small to keep the GPU busy for longer than the host. */
enum { T = 256, N = 4, H = 16, HV = 32, D = 128, INPUTS = 8 };
typedef struct Inputs { tilert_ptr qkv, g, beta, o, states, offsets, slots, workspace; tilekern_strides strides; } Inputs;

static Inputs make_inputs(Bench *b, int64_t gates)
{
	static const unsigned char zeros[1 << 20];
	static const int32_t offsets[N + 1] = { 0, 64, 128, 192, 256 }, slots[N] = { 2, 0, 3, 1 };
	const size_t row = T * HV * 4;
	return (Inputs){ .qkv = bench_periodic(b, zeros, sizeof zeros, (size_t)T * (2 * H + HV) * D * 2),
		.g = bench_periodic(b, zeros, sizeof zeros, row * (size_t)gates), .beta = bench_periodic(b, zeros, sizeof zeros, row),
		.o = bench_poisoned(b, (size_t)T * HV * D * 2), .states = bench_periodic(b, zeros, sizeof zeros, (size_t)N * HV * D * D * 4),
		.offsets = bench_periodic(b, offsets, sizeof offsets, sizeof offsets), .slots = bench_periodic(b, slots, sizeof slots, sizeof slots),
		.strides = { 0, (2 * H + HV) * D, D } };
}

static void free_inputs(Bench *b, const Inputs *in)
{
	const tilert_ptr all[INPUTS] = { in->qkv, in->g, in->beta, in->o, in->states, in->offsets, in->slots, in->workspace };
	for (int i = 0; i < INPUTS; i++)
		bench_free(b, all[i]);
}

static void row(Bench *b, const char *what, double ns) { bench_row(b, "launch", what, ns * 1e-6, 1e9 / ns, "calls/s", 0); }

/* forward with parameters that it remembers, with others each time, and a prepared call; OP is gdn or kda, GATES the channels of g. */
#define TIME_OPERATOR(OP, GATES) \
	typedef struct OP##_timed { tilekern_##OP *op; tilekern_##OP##_params p; tilekern_##OP##_call *call; } OP##_timed; \
	static void OP##_check(tilert_status s) { bench_check(s, tilekern_last_error(), "tilekern_" #OP); } \
	static void OP##_forward(void *x) { OP##_check(tilekern_##OP##_forward(((OP##_timed *)x)->op, &((OP##_timed *)x)->p, NULL)); } \
	static void OP##_launch(void *x) { OP##_check(tilekern_##OP##_launch(((OP##_timed *)x)->call, NULL)); } \
	static void OP##_other(void *x) \
	{ \
		((OP##_timed *)x)->p.scale += 1e-4f; \
		OP##_forward(x); \
	} \
	static void OP##_time(Bench *b) \
	{ \
		OP##_timed f; \
		tilekern_##OP##_params *p = &f.p; \
		Inputs in = make_inputs(b, GATES); \
		OP##_check(tilekern_##OP##_open(b->device, &f.op)); \
		tilekern_##OP##_params_init(p); \
		p->tokens = T; \
		p->sequences = p->state_slots = N; \
		p->qk_heads = strcmp(#OP, "gdn") == 0 ? H : HV; \
		p->value_heads = HV; \
		p->options = TILEKERN_L2NORM; \
		p->q = in.qkv; \
		p->k = p->q + (tilert_ptr)H * D * 2; \
		p->v = p->k + (tilert_ptr)H * D * 2; \
		p->q_strides = p->k_strides = p->v_strides = in.strides; \
		p->g = in.g; \
		p->beta = in.beta; \
		p->o = in.o; \
		p->initial_state = p->final_state = in.states; \
		p->cu_seqlens = in.offsets; \
		p->state_indices = in.slots; \
		OP##_check(tilekern_##OP##_workspace_bytes(f.op, p, &p->workspace_bytes)); \
		in.workspace = p->workspace = bench_poisoned(b, p->workspace_bytes); \
		OP##_check(tilekern_##OP##_prepare(f.op, p, &f.call)); \
		row(b, "tilekern_" #OP "_forward", host_ns(b, OP##_forward, &f)); \
		row(b, "tilekern_" #OP "_launch", host_ns(b, OP##_launch, &f)); \
		row(b, "tilekern_" #OP "_forward, other arguments", host_ns(b, OP##_other, &f)); \
		tilekern_##OP##_call_destroy(f.call); \
		tilekern_##OP##_close(f.op); \
		free_inputs(b, &in); \
	}
TIME_OPERATOR(gdn, 1)
TIME_OPERATOR(kda, D)

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
	gdn_time(b);
	kda_time(b);
}
