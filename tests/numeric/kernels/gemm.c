#include <stdio.h>
#include <stdlib.h>

#include "tests/check/accuracy.h"
#include "tests/check/float16.h"
#include "tests/check/random.h"
#include "tests/numeric/kernels/numeric.h"

typedef struct Gemm { const char *module; int64_t m, n, k; } Gemm;

/* What the examples' README promises: the last columns say which K and N are multiples of what. */
static const Gemm gemms[] = {
	{ "1_naive", 1, 1, 1 }, { "1_naive", 17, 33, 5 }, { "1_naive", 40, 16, 64 },
	{ "2_tiled", 128, 128, 64 }, { "2_tiled", 130, 71, 128 }, { "2_tiled", 1, 1, 64 }, { "2_tiled", 257, 129, 192 },
	{ "3_pipelined", 128, 128, 64 }, { "3_pipelined", 200, 129, 72 }, { "3_pipelined", 1, 1, 8 }, { "3_pipelined", 129, 130, 648 },
	{ "4_warp_specialised", 128, 256, 64 }, { "4_warp_specialised", 1, 8, 8 }, { "4_warp_specialised", 300, 264, 200 },
	{ "4_warp_specialised", 65, 520, 136 }, { "4_warp_specialised", 2113, 776, 328 },
	{ "5_clusters", 128, 512, 64 }, { "5_clusters", 1, 8, 8 }, { "5_clusters", 300, 264, 200 }, { "5_clusters", 65, 1032, 136 },
	{ "5_clusters", 2113, 776, 328 },
};

static uint16_t *random_matrix(Random *r, int64_t n)
{
	uint16_t *x = memory((size_t)n * 2);
	for (int64_t i = 0; i < n; i++)
		x[i] = bf16_from_float(random_normal(r));
	return x;
}

static double *product(const uint16_t *a, const uint16_t *b, const Gemm *g)
{
	float *fa = memory((size_t)(g->m * g->k) * 4), *fb = memory((size_t)(g->n * g->k) * 4);
	double *c = memory((size_t)(g->m * g->n) * 8);
	bf16_array_to_float(a, fa, (size_t)(g->m * g->k));
	bf16_array_to_float(b, fb, (size_t)(g->n * g->k));
	for (int64_t i = 0; i < g->m; i++) {
		for (int64_t j = 0; j < g->n; j++) {
			double sum = 0;
			for (int64_t k = 0; k < g->k; k++)
				sum += (double)fa[i * g->k + k] * (double)fb[j * g->k + k];
			c[i * g->n + j] = sum;
		}
	}
	free(fa);
	free(fb);
	return c;
}

static void run(const void *spec)
{
	const Gemm *g = spec;
	const int64_t extents[3][2] = { { g->m, g->k }, { g->n, g->k }, { g->m, g->n } };
	char file[64], text[256];
	Random r;
	tilert_kernel *kernel;

	random_init(&r, 7);
	uint16_t *a = random_matrix(&r, g->m * g->k), *b = random_matrix(&r, g->n * g->k);
	Buffer da = buffer_of(a, (size_t)(g->m * g->k) * 2), db = buffer_of(b, (size_t)(g->n * g->k) * 2);
	Buffer dc = buffer_poisoned((size_t)(g->m * g->n) * 2);
	tilert_arg args[] = { tensor_arg("a", da, TILERT_BF16, 2, extents[0]), tensor_arg("b", db, TILERT_BF16, 2, extents[1]),
		tensor_arg("c", dc, TILERT_BF16, 2, extents[2]) };
	snprintf(file, sizeof file, "%s.tmod", g->module);
	OK(tilert_module_kernel(numeric_module(file), "gemm", &kernel));
	OK(tilert_launch(kernel, args, 3, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));

	uint16_t *c = buffer_take(dc);
	double *ref = product(a, b, g);
	Accuracy acc = accuracy_of_bf16(ref, c, (AccuracyShape){ 1, g->m, 1, g->n, 64 });
	/* Rounding to bf16 is at most 2^-8 of one element, and less than 2^-9 in the mean of many; fp32 sums add nothing that shows. */
	if (acc.not_finite || !(acc.worst_ratio < (g->m * g->n < 16 ? 0.004 : 0.0025)))
		fail_msg("%s", accuracy_text(&acc, text, sizeof text));
	buffer_free(da);
	buffer_free(db);
	buffer_free(dc);
	free(a);
	free(b);
	free(c);
	free(ref);
}

size_t gemm_cases(NumericCase *out)
{
	size_t n = sizeof gemms / sizeof gemms[0];
	for (size_t i = 0; i < n; i++) {
		const Gemm *g = &gemms[i];
		out[i] = numeric_case(run, g, "gemm_%s_m%lld_n%lld_k%lld", g->module, (long long)g->m, (long long)g->n, (long long)g->k);
	}
	return n;
}
