/* The GEMMs of examples/02_gemm. */
#include <math.h>
#include <stdlib.h>

#include "kernels/bench/bench.h"
#include "tests/check/float16.h"
#include "tests/check/random.h"

typedef struct Problem { const char *module; int64_t m, n, k; } Problem;

static uint16_t *random_matrix(int64_t n, uint64_t seed)
{
	uint16_t *x = bench_memory((size_t)n * 2);
	Random r;
	random_init(&r, seed);
	for (int64_t i = 0; i < n; i++)
		x[i] = bf16_from_float(random_normal(&r));
	return x;
}

/* Relative RMS error of 4096 elements spread over C. */
static double sampled_error(const Problem *g, const uint16_t *a, const uint16_t *b, const uint16_t *c)
{
	double error = 0, square = 0;
	for (int64_t s = 0; s < 4096; s++) {
		int64_t m = s / 64 * (g->m - 1) / 63, n = s % 64 * (g->n - 1) / 63;
		double sum = 0;
		for (int64_t k = 0; k < g->k; k++)
			sum += (double)bf16_to_float(a[m * g->k + k]) * (double)bf16_to_float(b[n * g->k + k]);
		double d = (double)bf16_to_float(c[m * g->n + n]) - sum;
		error += d * d;
		square += sum * sum;
	}
	return sqrt(error / square);
}

static void run(Bench *b, const Problem *g)
{
	const int64_t extents[3][2] = { { g->m, g->k }, { g->n, g->k }, { g->m, g->n } };
	size_t bytes[3];
	char file[64], shape[64];
	tilert_kernel *kernel;
	tilert_prepared *p;

	snprintf(file, sizeof file, "%s.tmod", g->module);
	snprintf(shape, sizeof shape, "%lld x %lld x %lld", (long long)g->m, (long long)g->n, (long long)g->k);
	tilert_module *module = bench_module(b, file);
	if (!module) {
		bench_refuse(b, g->module, "no %s in %s", file, b->modules);
		return;
	}
	for (int i = 0; i < 3; i++)
		bytes[i] = (size_t)(extents[i][0] * extents[i][1]) * 2;
	uint16_t *x = random_matrix(g->m * g->k, 1), *y = random_matrix(g->n * g->k, 2), *z = bench_memory(bytes[2]);
	tilert_ptr dx = bench_periodic(b, x, bytes[0], bytes[0]), dy = bench_periodic(b, y, bytes[1], bytes[1]), dz = bench_poisoned(b, bytes[2]);
	tilert_arg args[] = { bench_tensor("a", dx, TILERT_BF16, 2, extents[0]), bench_tensor("b", dy, TILERT_BF16, 2, extents[1]),
		bench_tensor("c", dz, TILERT_BF16, 2, extents[2]) };
	CHECK(tilert_module_kernel(module, "gemm", &kernel));
	CHECK(tilert_prepare(kernel, args, 3, &p));
	CHECK(tilert_prepared_launch(p, NULL));
	CHECK(tilert_stream_sync(b->device, NULL));
	CHECK(tilert_download(b->device, z, dz, bytes[2]));
	double error = sampled_error(g, x, y, z);
	if (error < 0.0025) {
		double ms = bench_time_prepared(b, p);
		bench_row(b, g->module, shape, ms, 2e-9 * (double)g->m * (double)g->n * (double)g->k / ms, "TFLOP/s", error);
	} else {
		bench_refuse(b, g->module, "%s: relative error %g", shape, error);
	}
	tilert_prepared_destroy(p);
	tilert_module_close(module);
	bench_free(b, dx);
	bench_free(b, dy);
	bench_free(b, dz);
	free(x);
	free(y);
	free(z);
}

void bench_gemm(Bench *b)
{
	static const Problem problems[] = {
		{ "5_clusters", 8192, 8192, 8192 }, { "5_clusters", 4096, 4096, 4096 }, { "5_clusters", 8192, 8192, 1024 },
		{ "5_clusters", 16384, 4096, 4096 }, { "4_warp_specialised", 8192, 8192, 8192 }, { "3_pipelined", 8192, 8192, 8192 }, { "2_tiled", 8192, 8192, 8192 },
		{ "1_naive", 2048, 2048, 2048 },
	};
	for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
		run(b, &problems[i]);
}
