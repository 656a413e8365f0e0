/* run_tile.h - compiles a .tile file with tilec and runs its kernels, for numeric tests.
 *
 * The device is $TILE_TEST_DEVICE (default "cpu"); the compiler is $TILE_TILEC, else the build's own.  Whatever goes wrong
 * fails the CMocka test with the reason.
 *
 *	TileRun *r = run_open(TILE_SOURCE_DIR "/kernels/add.tile", "C=64", NULL);
 *	TestTensor x = tensor_new(r, TILERT_F32, 1, (int64_t[]){ 1000 }), y = tensor_new(...);
 *	tensor_random(r, &x, -1, 1);
 *	run_launch(r, "add", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("y", &y), arg_int("n", 3) }, 3);
 *	tensor_compare(&y, want, 1e-3, 1e-5);
 *	tensor_free(&x); ... run_close(r);
 */
#ifndef TILE_TESTS_RUN_TILE_H
#define TILE_TESTS_RUN_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tilert/tilert.h"

typedef struct TileRun {
	tilert_device *device;
	tilert_module *module;
	bool is_cpu;
	uint64_t random; /* state of tensor_random; run_open sets it to 1 */
} TileRun;

/* "NAME=VALUE" defines, then NULL. */
TileRun *run_open(const char *tile_file, ...);
void run_close(TileRun *r);
/* Launches and waits.  run_try gives the status and leaves the text to tilert_last_error. */
void run_launch(TileRun *r, const char *kernel, const tilert_arg *args, size_t nargs);
tilert_status run_try(TileRun *r, const char *kernel, const tilert_arg *args, size_t nargs);

typedef struct TestTensor {
	TileRun *run;
	tilert_tensor t;  /* its storage is followed by guard bytes, which tensor_download checks */
	size_t count;     /* elements */
	double *value;    /* the host's copy */
} TestTensor;

/* On the device poisoned: every byte 0xff, which is NaN or -1. */
TestTensor tensor_new(TileRun *r, tilert_dtype dtype, int rank, const int64_t *extents);
void tensor_free(TestTensor *t);
/* From value[] to the device; afterwards value[] holds what the element type made of it. */
void tensor_upload(TestTensor *t);
void tensor_download(TestTensor *t);
/* Uniform in [lo, hi), the same on every run; uploads. */
void tensor_random(TileRun *r, TestTensor *t, double lo, double hi);
double random_uniform(TileRun *r);

/* Downloads; |got - want| <= atol + rtol |want| for each element, NaN nowhere. */
void tensor_compare(TestTensor *t, const double *want, double rtol, double atol);
/* Downloads; root mean square of got - want over that of want. */
double tensor_rms_error(TestTensor *t, const double *want);
/* Downloads; every element still is poison. */
void tensor_untouched(TestTensor *t);

static inline tilert_arg arg_tensor(const char *name, const TestTensor *t)
{
	return (tilert_arg){ .name = name, .kind = TILERT_ARG_TENSOR, .tensor = t->t };
}
static inline tilert_arg arg_int(const char *name, int64_t v)
{
	return (tilert_arg){ .name = name, .kind = TILERT_ARG_SCALAR, .i = v };
}
static inline tilert_arg arg_real(const char *name, double v)
{
	return (tilert_arg){ .name = name, .kind = TILERT_ARG_SCALAR, .f = v };
}
static inline tilert_arg arg_dim(const char *name, int64_t v)
{
	return (tilert_arg){ .name = name, .kind = TILERT_ARG_DIM, .i = v };
}

/* Element types as bits: rounds to nearest even; tf32 keeps its 10 fraction bits. */
void element_store(tilert_dtype t, void *p, double v);
double element_load(tilert_dtype t, const void *p);

#endif
