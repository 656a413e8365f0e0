/* C [M][N] = A [M][K] B [N][K]^T of 8-bit floats with block scales: quantises, compares a sample of C with double precision, then times.
 *
 *     fp8_gemm MODULE [M N K [DEVICE]] */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"
#include "runtime/abi/float8.h"
#include "tests/check/float16.h"

enum { BLOCK = 128 };

static int64_t blocks(int64_t n) { return (n + BLOCK - 1) / BLOCK; }

/* A matrix of bytes and its scales: one for `tall` rows and 128 columns, at [row block][column block] or the other way round. */
typedef struct Quantised {
	int64_t rows, columns, tall;
	bool by_columns;
	uint8_t *x;
	float *scale;
} Quantised;

static int64_t scale_rows(const Quantised *q) { return (q->rows + q->tall - 1) / q->tall; }

static float *scale_at(const Quantised *q, int64_t row, int64_t column)
{
	int64_t r = row / q->tall, k = column / BLOCK;
	return q->scale + (q->by_columns ? k * scale_rows(q) + r : r * blocks(q->columns) + k);
}

/* Normal numbers whose sizes differ from block to block, over the largest of the block. */
static Quantised quantise(int64_t rows, int64_t columns, int64_t tall, bool by_columns, uint64_t seed)
{
	Quantised q = { rows, columns, tall, by_columns, memory((size_t)(rows * columns), 1), NULL };
	float *x = memory((size_t)(tall * BLOCK), sizeof *x);
	Random *r = memory(1, sizeof *r);
	q.scale = memory((size_t)(scale_rows(&q) * blocks(columns)), sizeof *q.scale);
	random_init(r, seed);
	for (int64_t i = 0; i < rows; i += tall)
		for (int64_t k = 0; k < columns; k += BLOCK) {
			int64_t h = rows - i < tall ? rows - i : tall, w = columns - k < BLOCK ? columns - k : BLOCK;
			float most = 0, size = ldexpf(1, (int)((i / tall * 5 + k / BLOCK * 3) % 7) - 3);
			for (int64_t e = 0; e < h * w; e++) {
				x[e] = size * random_normal(r);
				most = fmaxf(most, fabsf(x[e]));
			}
			float scale = *scale_at(&q, i, k) = most / 448;
			for (int64_t e = 0; e < h * w; e++)
				q.x[(i + e / w) * columns + k + e % w] = float8_from(&float8_e4m3, x[e] / scale);
		}
	free(x);
	free(r);
	return q;
}

static double element(const Quantised *q, int64_t row, int64_t column)
{
	return (double)float8_to(&float8_e4m3, q->x[row * q->columns + column]) * (double)*scale_at(q, row, column);
}

/* Relative RMS error of some 2,500 elements, corners included. */
static double sampled_error(const Quantised *a, const Quantised *b, const uint16_t *c)
{
	Error e = { 0, 0 };
	for (int64_t i = 0; i < 50; i++)
		for (int64_t j = 0; j < 50; j++) {
			int64_t m = i * (a->rows - 1) / 49, n = j * (b->rows - 1) / 49;
			double sum = 0;
			for (int64_t k = 0; k < a->columns; k++)
				sum += element(a, m, k) * element(b, n, k);
			compare(&e, sum, (double)bf16_to_float(c[m * b->rows + n]));
		}
	return relative(&e);
}

int main(int argc, char **argv)
{
	tilert_device_info info;

	if (argc < 2 || (argc > 2 && argc < 5)) {
		fprintf(stderr, "usage: fp8_gemm MODULE [M N K [DEVICE]]\n");
		return 2;
	}
	tilert_device *device = open_device(argc > 5 ? argv[5] : NULL, &info);
	int64_t side = info.is_cuda ? 8192 : 256;
	int64_t M = argc > 2 ? atoll(argv[2]) : side, N = argc > 2 ? atoll(argv[3]) : side, K = argc > 2 ? atoll(argv[4]) : side;
	if (M < 1 || N < 1 || K < 1) {
		fprintf(stderr, "M, N and K are at least 1\n");
		return 2;
	}
	Quantised a = quantise(M, K, 1, true, 1), b = quantise(N, K, BLOCK, false, 2);
	tilert_arg args[] = {
		tensor(device, "a", TILERT_E4M3, (int64_t[4]){ M, K }, a.x), tensor(device, "a_scale", TILERT_F32, (int64_t[4]){ blocks(K), M }, a.scale),
		tensor(device, "b", TILERT_E4M3, (int64_t[4]){ N, K }, b.x), tensor(device, "b_scale", TILERT_F32, (int64_t[4]){ blocks(N), blocks(K) }, b.scale),
		tensor(device, "c", TILERT_BF16, (int64_t[4]){ M, N }, NULL) };
	Launch launch = launched(device, argv[1], "fp8_gemm", args, 5);
	uint16_t *c = downloaded(device, &args[4]);

	double error = sampled_error(&a, &b, c);
	bool right = error < 0.004; /* rounding C to bf16 gives .0017; tensor cores keep some 14 digits of the 128 sums */
	printf("%s: %s, M %lld N %lld K %lld: relative error %.1e %s", info.name, argv[1], (long long)M, (long long)N, (long long)K, error,
		right ? "" : "WRONG");
	if (right && info.is_cuda) {
		double ms = milliseconds(device, &launch.prepared, 1);
		printf("%.3f ms, %.0f TFLOP/s", ms, 2e-9 * (double)M * (double)N * (double)K / ms);
	}
	putchar('\n');

	finish(&launch, args, 5);
	free(a.x);
	free(a.scale);
	free(b.x);
	free(b.scale);
	free(c);
	return !right;
}
