/* test_driver.c - the CUDA back end on a fake libcuda: loading, contexts, code, tensor maps, launches, errors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/src/cuda_api.h"
#include "tests/unit/fake_cuda.h"
#include "tests/unit/make_module.h"
#include "tilert/tilert.h"

#ifndef TILE_FAKE_CUDA
#define TILE_FAKE_CUDA "./libfake_cuda.so"
#endif

static FakeCuda *fake;
static void *(*fake_context)(int device);

static const ModuleBlob code[] = { { "cubin:sm_90a", "\x7f" "ELF....", 9, 0 }, { "ptx", ".version 8.0", 13, 0 } };

static int load_fake(void **state)
{
	(void)state;
	void *library = dlopen(TILE_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return -1;
	void *f = dlsym(library, "fake_cuda_context");
	memcpy(&fake_context, &f, sizeof f);
	fake = dlsym(library, "fake_cuda_state");
	return setenv("TILE_LIBCUDA", TILE_FAKE_CUDA, 1);
}

static int reset(void **state)
{
	(void)state;
	memset(fake, 0, sizeof *fake);
	return 0;
}

static tilert_device *open_device(const char *name)
{
	tilert_device *d = NULL;

	assert_int_equal(tilert_device_open(name, &d), TILERT_OK);
	return d;
}

static tilert_status load(tilert_device *d, const ModuleBlob *blobs, size_t n, tilert_module **out)
{
	size_t size;
	uint8_t *p = make_module(example_meta, blobs, n, &size);
	tilert_status s = tilert_module_load(d, p, size, out);

	free(p);
	return s;
}

/* In a child, since the driver is loaded once per process.  What may be there later is looked for again. */
static void test_missing_driver(void **state)
{
	(void)state;
	pid_t child = fork();
	if (child == 0) {
		tilert_device *d;
		setenv("TILE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
		bool ok = tilert_device_open("cuda", &d) == TILERT_ENODRIVER && strstr(tilert_last_error(), "/nowhere/");
		ok = ok && tilert_device_open("cuda", &d) == TILERT_ENODRIVER && strstr(tilert_last_error(), "/nowhere/");
		setenv("TILE_LIBCUDA", TILE_FAKE_CUDA, 1);
		fake->fail_call = 1;
		ok = ok && tilert_device_open("cuda", &d) == TILERT_ENODRIVER && strstr(tilert_last_error(), "cuInit: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
		ok = ok && tilert_device_open("cuda", &d) == TILERT_OK;
		_exit(ok ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_names_and_info(void **state)
{
	static const char *const bad[] = { "", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda0", "cuda:-1", "cpu:0", "7" };
	tilert_device *d = NULL;
	tilert_device_info info;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(tilert_device_open(bad[i], &d), TILERT_EINVAL);
	assert_int_equal(tilert_device_open("cuda:2", &d), TILERT_ENODEV);
	assert_non_null(strstr(tilert_last_error(), "the driver sees 2 devices"));
	assert_null(d);
	d = open_device("cuda:1");
	assert_int_equal(tilert_device_get_info(d, &info), TILERT_OK);
	assert_string_equal(info.name, "Fake GPU");
	assert_int_equal(info.compute_major, 8);
	assert_int_equal(info.sm_count, 132);
	assert_int_equal(tilert_cpu_configure(d, 1, 1), TILERT_EINVAL);
	tilert_device_close(d);
}

static void test_primary_context_is_retained(void **state)
{
	tilert_ptr p;

	(void)state;
	tilert_device *d = open_device("cuda");
	assert_int_equal(fake->retains, 1);
	assert_int_equal(tilert_alloc(d, 100, &p), TILERT_OK);
	assert_int_equal(fake->pushes, 1);
	assert_int_equal(fake->pops, 1);
	assert_int_equal(fake->depth, 0);
	assert_int_equal(tilert_free(d, p), TILERT_OK);
	tilert_device_close(d);
	assert_int_equal(fake->releases, 1);
	assert_int_equal(fake->pushes, fake->pops);
}

static void test_current_context_is_adopted(void **state)
{
	tilert_ptr p;

	(void)state;
	fake->contexts[fake->depth++] = fake_context(0);
	tilert_device *d = open_device("cuda:0");
	assert_int_equal(fake->retains, 0);
	assert_int_equal(tilert_alloc(d, 0, &p), TILERT_OK);
	assert_int_equal(tilert_free(d, p), TILERT_OK);
	assert_int_equal(fake->pushes, 0);
	tilert_device *other = open_device("cuda:1"); /* the context is on another device */
	assert_int_equal(fake->retains, 1);
	assert_int_equal(tilert_alloc(other, 8, &p), TILERT_OK);
	assert_int_equal(tilert_free(other, p), TILERT_OK);
	assert_int_equal(fake->pushes, 2);
	assert_ptr_equal(fake->contexts[fake->depth - 1], fake_context(0));
	tilert_device_close(other);
	tilert_device_close(d);
	assert_int_equal(fake->releases, 1);
}

static void test_memory_streams_events(void **state)
{
	const char text[] = "bytes";
	char back[sizeof text] = "";
	tilert_ptr p;
	tilert_stream s;
	tilert_event *a, *b;
	float ms = 0;

	(void)state;
	tilert_device *d = open_device("cuda");
	assert_int_equal(tilert_alloc(d, (size_t)1 << 40, &p), TILERT_ENOMEM);
	assert_non_null(strstr(tilert_last_error(), "1099511627776 bytes"));
	assert_int_equal(tilert_alloc(d, sizeof text, &p), TILERT_OK);
	assert_int_equal(tilert_upload(d, p, text, sizeof text), TILERT_OK);
	assert_int_equal(tilert_download(d, back, p, sizeof text), TILERT_OK);
	assert_string_equal(back, text);
	assert_int_equal(tilert_stream_create(d, &s), TILERT_OK);
	assert_int_equal(tilert_memset(d, p, 'x', 2, s), TILERT_OK);
	assert_int_equal(tilert_event_create(d, &a), TILERT_OK);
	assert_int_equal(tilert_event_create(d, &b), TILERT_OK);
	assert_int_equal(tilert_event_record(a, s), TILERT_OK);
	assert_int_equal(tilert_event_record(b, s), TILERT_OK);
	assert_int_equal(tilert_event_elapsed(a, b, &ms), TILERT_OK);
	assert_true(ms == 1.5f);
	assert_int_equal(tilert_stream_sync(d, s), TILERT_OK);
	tilert_event_destroy(a);
	tilert_event_destroy(b);
	assert_int_equal(tilert_stream_destroy(d, s), TILERT_OK);
	assert_int_equal(tilert_free(d, p), TILERT_OK);
	assert_int_equal(fake->allocs, fake->frees);
	assert_int_equal(fake->pushes, fake->pops);
	tilert_device_close(d);
}

static void test_which_code_is_loaded(void **state)
{
	tilert_module *m;

	(void)state;
	tilert_device *hopper = open_device("cuda:0"), *ampere = open_device("cuda:1");
	assert_int_equal(load(hopper, code, 2, &m), TILERT_OK);
	assert_false(fake->loaded_ptx);
	assert_int_equal(fake->max_dynamic_smem, 196608);
	tilert_module_close(m);
	assert_int_equal(fake->unloads, 1);

	fake->fail_cubin = CUDA_ERROR_NO_BINARY_FOR_GPU; /* then the PTX */
	assert_int_equal(load(hopper, code, 2, &m), TILERT_OK);
	assert_true(fake->loaded_ptx);
	tilert_module_close(m);
	assert_int_equal(load(hopper, code, 1, &m), TILERT_EARCH);

	fake->fail_ptx = CUDA_ERROR_INVALID_PTX;
	assert_int_equal(load(hopper, code, 2, &m), TILERT_EDEVICE);
	assert_non_null(strstr(tilert_last_error(), "ptxas fatal: line 7"));
	assert_int_equal(load(ampere, code, 1, &m), TILERT_EARCH); /* 9.0a does not run on 8.0 */
	assert_non_null(strstr(tilert_last_error(), "compute capability 8.0"));
	fake->fail_ptx = 0;
	assert_int_equal(load(ampere, code, 2, &m), TILERT_EARCH); /* shared memory */
	assert_non_null(strstr(tilert_last_error(), "196608 bytes of shared memory; Fake GPU has 166912"));
	assert_int_equal(fake->loads, fake->unloads);
	tilert_device_close(hopper);
	tilert_device_close(ampere);
}

typedef struct Launch {
	tilert_device *d;
	tilert_module *m;
	tilert_kernel *k;
	tilert_arg args[6];
} Launch;

static tilert_arg tensor(const char *name, tilert_dtype t, int rank, int64_t a, int64_t b, int64_t c)
{
	tilert_arg arg = { .name = name, .kind = TILERT_ARG_TENSOR };

	arg.tensor = (tilert_tensor){ .data = 0x7000, .dtype = t, .rank = rank, .extents = { a, b, c } };
	return arg;
}

static Launch set_up_launch(int64_t t)
{
	Launch l = { .d = open_device("cuda") };

	assert_int_equal(load(l.d, code, 2, &l.m), TILERT_OK);
	assert_int_equal(tilert_module_kernel(l.m, "attend", &l.k), TILERT_OK);
	l.args[0] = tensor("q", TILERT_BF16, 3, t, 4, 128);
	l.args[1] = tensor("k", TILERT_BF16, 3, t, 4, 128);
	l.args[2] = tensor("o", TILERT_F32, 2, (t + 63) / 64, 4, 0);
	l.args[3] = (tilert_arg){ .name = "ld", .kind = TILERT_ARG_DIM, .i = 8 };
	l.args[4] = (tilert_arg){ .name = "scale", .kind = TILERT_ARG_SCALAR, .f = 2 };
	l.args[5] = (tilert_arg){ .name = "steps", .kind = TILERT_ARG_SCALAR, .i = 1 };
	return l;
}

static void close_launch(Launch *l)
{
	tilert_module_close(l->m);
	tilert_device_close(l->d);
	assert_int_equal(fake->pushes, fake->pops);
	assert_int_equal(fake->depth, 0);
}

static void test_launch(void **state)
{
	Launch l = set_up_launch(1000);
	tilert_prepared *p;
	uint32_t grid[3];

	(void)state;
	assert_int_equal(tilert_prepare(l.k, l.args, 6, &p), TILERT_OK);
	tilert_prepared_grid(NULL, grid);
	tilert_prepared_grid(p, NULL);
	tilert_prepared_grid(p, grid);
	assert_int_equal(grid[0], 32);
	assert_int_equal(fake->maps, 1); /* g is absent */
	assert_int_equal(fake->map_dtype, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
	assert_int_equal(fake->map_swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
	assert_int_equal(fake->map_l2, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
	assert_int_equal(fake->map_base, 0x7000);
	assert_int_equal(fake->map_dims[0], 128);
	assert_int_equal(fake->map_dims[1], 1000);
	assert_int_equal(fake->map_strides[0], 1024);
	assert_int_equal(fake->map_strides[1], 256);
	assert_int_equal(fake->map_box[0], 64);
	assert_int_equal(fake->launches, 0);
	fake->n_params = 11;
	int calls = fake->driver_calls;
	assert_int_equal(tilert_prepared_launch(p, (tilert_stream)fake), TILERT_OK);
	assert_int_equal(fake->driver_calls, calls + 1);
	assert_int_equal(fake->grid[0], 32);
	assert_int_equal(fake->grid[1], 4);
	assert_int_equal(fake->block[0], 384);
	assert_int_equal(fake->smem, 196608);
	assert_int_equal(fake->cluster, 2);
	assert_int_equal(fake->dependent, 1);
	assert_ptr_equal(fake->stream, fake);
	assert_int_equal(fake->params[0], 0x7000);
	assert_int_equal(fake->params[2], 0); /* the absent tensor */
	assert_int_equal((uint32_t)fake->params[4], 1000);
	assert_int_equal((uint32_t)fake->params[7], 0x40000000);
	assert_int_equal((uint8_t)fake->params[8], 1);
	assert_true(fake->params[9] == UINT64_C(0x5a5a5a5a5a5a5a5a));
	assert_int_equal(fake->params[10], 0);
	assert_int_equal(tilert_prepared_launch(p, NULL), TILERT_OK);
	assert_int_equal(fake->launches, 2);
	tilert_prepared_destroy(p);
	close_launch(&l);
}

static void test_launch_without_attributes(void **state)
{
	Launch l = set_up_launch(64);
	tilert_arg x = tensor("x", TILERT_F32, 1, 1000, 0, 0);

	(void)state;
	assert_int_equal(tilert_module_kernel(l.m, "clear", &l.k), TILERT_OK);
	assert_int_equal(tilert_launch(l.k, &x, 1, NULL), TILERT_OK);
	assert_int_equal(fake->launches, 1);
	assert_int_equal(fake->cluster, 1);
	assert_int_equal(fake->dependent, 0);
	close_launch(&l);
}

static void test_empty_grid_launches_nothing(void **state)
{
	Launch l = set_up_launch(0);

	(void)state;
	assert_int_equal(tilert_launch(l.k, l.args, 6, NULL), TILERT_OK);
	assert_int_equal(fake->launches, 0);
	assert_int_equal(fake->maps, 0);
	close_launch(&l);
}

/* A graph, made of what would have been launched; one by one into a stream that is being captured. */
static void test_chain(void **state)
{
	Launch l = set_up_launch(1000);
	tilert_prepared *p[3];
	tilert_chain *c;

	(void)state;
	assert_int_equal(tilert_prepare(l.k, l.args, 6, &p[0]), TILERT_OK);
	assert_int_equal(tilert_prepare(l.k, l.args, 6, &p[2]), TILERT_OK);
	p[1] = p[0];
	fake->thread_mode = 1;
	assert_int_equal(tilert_chain_create(p, 3, &c), TILERT_OK);
	assert_int_equal(fake->recorded, 3);
	assert_int_equal(fake->launches, 0);
	assert_int_equal(fake->thread_mode, 1);
	assert_int_equal(fake->streams, 0);
	assert_int_equal(fake->graphs, 0);
	assert_int_equal(fake->execs, 1);
	int calls = fake->driver_calls;
	assert_int_equal(tilert_chain_launch(c, (tilert_stream)fake), TILERT_OK);
	assert_int_equal(tilert_chain_launch(c, NULL), TILERT_OK);
	assert_int_equal(fake->driver_calls, calls + 2);
	assert_int_equal(fake->graph_launches, 2);
	fake->capturing = 1;
	assert_int_equal(tilert_chain_launch(c, (tilert_stream)fake), TILERT_OK);
	assert_int_equal(fake->launches, 3);
	assert_int_equal(fake->graph_launches, 2);
	assert_int_equal(fake->refused, 0);
	fake->capturing = 0;
	tilert_chain_destroy(c);
	assert_int_equal(fake->execs, 0);
	tilert_prepared_destroy(p[0]);
	tilert_prepared_destroy(p[2]);
	close_launch(&l);
}

/* A chain of our own is made and given up inside a capture, and a module loaded, used and closed: neither touches a captured stream. */
static void test_what_a_capture_may_meet(void **state)
{
	Launch l = set_up_launch(1000);
	tilert_prepared *p;
	tilert_chain *before, *within;
	tilert_module *m;
	const int usual = 1;

	(void)state;
	fake->thread_mode = usual;
	assert_int_equal(tilert_prepare(l.k, l.args, 6, &p), TILERT_OK);
	assert_int_equal(tilert_chain_create(&p, 1, &before), TILERT_OK);
	fake->capturing = 1;
	tilert_chain_destroy(before);
	assert_int_equal(tilert_chain_create(&p, 1, &within), TILERT_OK);
	assert_int_equal(tilert_chain_launch(within, (tilert_stream)fake), TILERT_OK);
	tilert_chain_destroy(within);
	assert_int_equal(load(l.d, code, 2, &m), TILERT_OK);
	tilert_module_close(m);
	assert_int_equal(fake->refused, 0);
	assert_int_equal(fake->thread_mode, usual);
	fake->capturing = 0;
	assert_int_equal(fake->launches, 1);
	assert_int_equal(fake->execs, 0);
	assert_int_equal(fake->loads, 2);
	tilert_prepared_destroy(p);
	close_launch(&l);
}

static void test_chains_that_are_none(void **state)
{
	Launch l = set_up_launch(1000);
	tilert_prepared *p[2] = { NULL };
	tilert_chain *c = NULL;

	(void)state;
	assert_int_equal(tilert_chain_create(NULL, 0, &c), TILERT_OK);
	assert_int_equal(tilert_chain_launch(c, NULL), TILERT_OK);
	tilert_chain_destroy(c);
	tilert_chain_destroy(NULL);
	c = NULL;
	assert_int_equal(tilert_prepare(l.k, l.args, 6, &p[0]), TILERT_OK);
	assert_int_equal(tilert_chain_create(p, 2, &c), TILERT_EINVAL);
	assert_non_null(strstr(tilert_last_error(), "launch 1 is NULL"));
	assert_int_equal(tilert_chain_create(p, 1, NULL), TILERT_EINVAL);
	assert_int_equal(tilert_chain_launch(NULL, NULL), TILERT_EINVAL);
	fake->fail_launch = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(tilert_chain_create(p, 1, &c), TILERT_EDEVICE);
	assert_non_null(strstr(tilert_last_error(), "launch of 32 x 4 x 1"));
	fake->fail_launch = 0;
	fake->fail_capture = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(tilert_chain_create(p, 1, &c), TILERT_EDEVICE);
	assert_non_null(strstr(tilert_last_error(), "cuStreamBeginCapture"));
	assert_null(c);
	assert_int_equal(fake->streams, 0);
	assert_int_equal(fake->graphs, 0);
	assert_int_equal(fake->execs, 0);
	tilert_prepared_destroy(p[0]);
	close_launch(&l);
}

static void test_launch_on_a_capturing_stream(void **state)
{
	Launch l = set_up_launch(1000);
	tilert_prepared *p;

	(void)state;
	fake->capturing = 1;
	assert_int_equal(tilert_launch(l.k, l.args, 6, (tilert_stream)fake), TILERT_OK);
	assert_int_equal(tilert_prepare(l.k, l.args, 6, &p), TILERT_OK);
	assert_int_equal(tilert_prepared_launch(p, (tilert_stream)fake), TILERT_OK);
	tilert_prepared_destroy(p);
	assert_int_equal(tilert_memset(l.d, 0x7000, 0, 0, (tilert_stream)fake), TILERT_OK);
	assert_int_equal(fake->launches, 2);
	assert_int_equal(fake->refused, 0);
	assert_int_equal(tilert_stream_sync(l.d, (tilert_stream)fake), TILERT_EDEVICE); /* the driver's refusal is passed on */
	assert_int_equal(fake->refused, 1);
	fake->capturing = 0;
	close_launch(&l);
}

static void test_errors_of_launches(void **state)
{
	Launch l = set_up_launch(64);

	(void)state;
	fake->fail_launch = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(tilert_launch(l.k, l.args, 6, NULL), TILERT_EDEVICE);
	assert_non_null(strstr(tilert_last_error(), "kernel attend: launch of 2 x 4 x 1 blocks of 384 threads"));
	assert_non_null(strstr(tilert_last_error(), "CUDA_ERROR_INVALID_VALUE: as the test wanted"));
	fake->fail_map = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(tilert_launch(l.k, l.args, 6, NULL), TILERT_EDEVICE);
	assert_non_null(strstr(tilert_last_error(), "kernel attend: tensor map of q: cuTensorMapEncodeTiled"));
	l.args[0].tensor.extents[0] = 128;
	assert_int_equal(tilert_launch(l.k, l.args, 6, NULL), TILERT_EINVAL);
	assert_string_equal(tilert_last_error(), "kernel attend: q has T = 128 but k has T = 64");
	close_launch(&l);
}

/* After a fault every call has its error, which is nothing about the module or the launch at hand. */
static void test_lost_context(void **state)
{
	Launch l = set_up_launch(64);
	tilert_module *m = NULL;
	const char *lost = "CUDA_ERROR_ILLEGAL_INSTRUCTION: as the test wanted; a kernel that was launched before ended like this and "
		"the context is lost";

	(void)state;
	fake->fail_launch = fake->fail_cubin = fake->fail_ptx = CUDA_ERROR_ILLEGAL_INSTRUCTION;
	assert_int_equal(tilert_launch(l.k, l.args, 6, NULL), TILERT_EDEVICE);
	assert_non_null(strstr(tilert_last_error(), lost));
	assert_int_equal(load(l.d, code, 2, &m), TILERT_EDEVICE);
	assert_non_null(strstr(tilert_last_error(), lost));
	assert_null(strstr(tilert_last_error(), "PTX"));
	fake->fail_launch = fake->fail_cubin = fake->fail_ptx = 0;
	close_launch(&l);
}

/* ---- each call of the driver fails in turn ---- */

/* What a program does, but for the end of it. */
static tilert_status use_all(Launch *l, tilert_prepared *p[2], tilert_chain **chain, tilert_stream *stream, tilert_event *e[2], tilert_ptr *memory)
{
	static const char here[100];
	char back[100];
	float ms;
	tilert_status s = tilert_device_open("cuda", &l->d);

	if (!s)
		s = load(l->d, code, 2, &l->m);
	if (!s)
		s = tilert_module_kernel(l->m, "attend", &l->k);
	for (int i = 0; !s && i < 2; i++)
		s = tilert_prepare(l->k, l->args, 6, &p[i]);
	if (!s)
		s = tilert_chain_create(p, 2, chain);
	if (!s)
		s = tilert_alloc(l->d, sizeof here, memory);
	if (!s)
		s = tilert_memset(l->d, *memory, 1, sizeof here, NULL);
	if (!s)
		s = tilert_upload(l->d, *memory, here, sizeof here);
	if (!s)
		s = tilert_stream_create(l->d, stream);
	for (int i = 0; !s && i < 2; i++)
		s = tilert_event_create(l->d, &e[i]);
	for (int i = 0; !s && i < 2; i++)
		s = tilert_event_record(e[i], *stream);
	if (!s)
		s = tilert_prepared_launch(p[0], *stream);
	if (!s)
		s = tilert_chain_launch(*chain, *stream);
	if (!s)
		s = tilert_stream_sync(l->d, *stream);
	if (!s)
		s = tilert_event_elapsed(e[0], e[1], &ms);
	return s ? s : tilert_download(l->d, back, *memory, sizeof back);
}

/* Statuses of what gives things back are as good as those of what takes them. */
static tilert_status use_and_close(Launch l)
{
	tilert_prepared *p[2] = { NULL };
	tilert_chain *chain = NULL;
	tilert_event *e[2] = { NULL };
	tilert_stream stream = NULL;
	tilert_ptr memory = 0;
	tilert_status s = use_all(&l, p, &chain, &stream, e, &memory), ends;

	tilert_chain_destroy(chain);
	for (int i = 0; i < 2; i++) {
		tilert_prepared_destroy(p[i]);
		tilert_event_destroy(e[i]);
	}
	ends = l.d ? tilert_stream_destroy(l.d, stream) : TILERT_OK;
	s = s ? s : ends;
	ends = l.d ? tilert_free(l.d, memory) : TILERT_OK;
	if (ends) /* refused: it is there still */
		free((void *)(uintptr_t)memory);
	s = s ? s : ends;
	tilert_module_close(l.m);
	tilert_device_close(l.d);
	return s;
}

/* Where these fail there is another way, or nothing to be told: the function that calls them gives things back and returns nothing. */
static bool may_pass(const char *failed)
{
	static const char *const names[] = { "cuCtxGetCurrent", "cuCtxPopCurrent", "cuThreadExchangeStreamCaptureMode", "cuStreamIsCapturing",
		"cuModuleLoadDataEx" /* then the PTX */, "cuDevicePrimaryCtxRelease", "cuModuleUnload", "cuGraphDestroy", "cuGraphExecDestroy", "cuStreamDestroy",
		"cuEventDestroy", "cuCtxPushCurrent" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (!strcmp(failed, names[i]))
			return true;
	}
	return false;
}

static void assert_nothing_left(int n)
{
	if (fake->retains != fake->releases || fake->loads != fake->unloads || fake->allocs != fake->frees || fake->streams || fake->graphs || fake->execs ||
	    fake->depth || fake->thread_mode != 1)
		fail_msg("call %d, %s, failed: %d contexts, %d modules, %d allocations, %d streams, %d graphs, %d ready ones, %d contexts on the stack, capture mode %d are left",
			n, fake->failed, fake->retains - fake->releases, fake->loads - fake->unloads, fake->allocs - fake->frees, fake->streams, fake->graphs, fake->execs,
			fake->depth, fake->thread_mode);
}

/* A mode that could not be changed is not changed back. */
static void test_capture_mode_fails(void **state)
{
	tilert_device *d = open_device("cuda");
	tilert_module *m;

	(void)state;
	fake->thread_mode = 1;
	fake->fail_call = fake->calls + 3;
	assert_int_equal(load(d, code, 2, &m), TILERT_OK);
	assert_string_equal(fake->failed, "cuThreadExchangeStreamCaptureMode");
	assert_int_equal(fake->thread_mode, 1);
	tilert_module_close(m);
	tilert_device_close(d);
}

static void test_each_call_fails(void **state)
{
	Launch l = set_up_launch(1000);

	close_launch(&l);
	l.d = NULL, l.m = NULL;
	for (int n = 1;; n++) {
		reset(state);
		fake->thread_mode = 1;
		fake->fail_call = n;
		tilert_status s = use_and_close(l);
		if (!fake->failed)
			break;
		if (!s && !may_pass(fake->failed))
			fail_msg("call %d, %s, failed, and nothing was said", n, fake->failed);
		if (s && !strstr(tilert_last_error(), "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: as the test wanted"))
			fail_msg("call %d, %s: %s", n, fake->failed, tilert_last_error());
		if (!may_pass(fake->failed) && strcmp(fake->failed, "cuMemFree"))
			assert_nothing_left(n);
		fake->fail_call = fake->depth = 0;
		assert_int_equal(use_and_close(l), TILERT_OK);
	}
}

static void test_null_arguments(void **state)
{
	tilert_device *d = open_device("cuda");
	tilert_ptr p;
	char byte = 0;

	(void)state;
	assert_int_equal(tilert_device_open(NULL, &d), TILERT_EINVAL);
	assert_int_equal(tilert_alloc(NULL, 1, &p), TILERT_EINVAL);
	assert_int_equal(tilert_alloc(d, 1, NULL), TILERT_EINVAL);
	assert_int_equal(tilert_upload(d, 0, &byte, 1), TILERT_EINVAL);
	assert_int_equal(tilert_upload(d, 0, NULL, 0), TILERT_OK);
	assert_int_equal(tilert_free(d, 0), TILERT_OK);
	assert_int_equal(tilert_module_load(d, NULL, 0, NULL), TILERT_EINVAL);
	assert_int_equal(tilert_prepared_launch(NULL, NULL), TILERT_EINVAL);
	tilert_device_close(d);
	tilert_device_close(NULL);
	tilert_module_close(NULL);
	tilert_prepared_destroy(NULL);
	tilert_event_destroy(NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_missing_driver), /* first: before the driver is loaded here */
		TEST(test_names_and_info),
		TEST(test_primary_context_is_retained),
		TEST(test_current_context_is_adopted),
		TEST(test_memory_streams_events),
		TEST(test_which_code_is_loaded),
		TEST(test_launch),
		TEST(test_launch_without_attributes),
		TEST(test_empty_grid_launches_nothing),
		TEST(test_launch_on_a_capturing_stream),
		TEST(test_what_a_capture_may_meet),
		TEST(test_chain),
		TEST(test_chains_that_are_none),
		TEST(test_errors_of_launches),
		TEST(test_lost_context),
		TEST(test_capture_mode_fails),
		TEST(test_each_call_fails),
		TEST(test_null_arguments),
	};
	return cmocka_run_group_tests(tests, load_fake, NULL);
}
