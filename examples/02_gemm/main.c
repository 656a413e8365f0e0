/* C [M][N] = A [M][K] B [N][K]^T in bf16, by one of the five kernels: compares a sample of C with double precision, then times.
 *
 *     gemm MODULE [M N K [DEVICE]] */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"
#include "tests/check/float16.h"

/* Relative RMS error of some 10,000 elements, corners included. */
static double sampled_error(const uint16_t *a, const uint16_t *b, const uint16_t *c, int64_t M, int64_t N, int64_t K)
{
	Error e = { 0, 0 };
	for (int64_t i = 0; i < 100; i++) {
		for (int64_t j = 0; j < 100; j++) {
			int64_t m = i * (M - 1) / 99, n = j * (N - 1) / 99;
			double sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += (double)bf16_to_float(a[m * K + k]) * (double)bf16_to_float(b[n * K + k]);
			compare(&e, sum, (double)bf16_to_float(c[m * N + n]));
		}
	}
	return relative(&e);
}

int main(int argc, char **argv)
{
	tilert_device_info info;
	Random r;

	if (argc < 2 || (argc > 2 && argc < 5)) {
		fprintf(stderr, "usage: gemm MODULE [M N K [DEVICE]]\n");
		return 2;
	}
	tilert_device *device = open_device(argc > 5 ? argv[5] : NULL, &info);
	int64_t side = info.is_cuda ? 8192 : 256;
	int64_t M = argc > 2 ? atoll(argv[2]) : side, N = argc > 2 ? atoll(argv[3]) : side, K = argc > 2 ? atoll(argv[4]) : side;
	if (M < 1 || N < 1 || K < 1) {
		fprintf(stderr, "M, N and K are at least 1\n");
		return 2;
	}
	random_init(&r, 1);
	uint16_t *a = normal_bf16(&r, M * K, 1), *b = normal_bf16(&r, N * K, 1);
	tilert_arg args[] = { tensor(device, "a", TILERT_BF16, (int64_t[4]) { M, K }, a), tensor(device, "b", TILERT_BF16, (int64_t[4]) { N, K }, b),
		tensor(device, "c", TILERT_BF16, (int64_t[4]) { M, N }, NULL) };
	Launch launch = launched(device, argv[1], "gemm", args, 3);
	uint16_t *c = downloaded(device, &args[2]);

	double error = sampled_error(a, b, c, M, N, K);
	bool right = error < 0.004; /* rounding C to bf16 gives .0017, and never more than 2^-8 */
	printf("%s: %s, M %lld N %lld K %lld: relative error %.1e %s", info.name, argv[1], (long long)M, (long long)N, (long long)K, error,
		right ? "" : "WRONG");
	if (right && info.is_cuda) {
		double ms = milliseconds(device, &launch.prepared, 1);
		printf("%.3f ms, %.0f TFLOP/s", ms, 2e-9 * (double)M * (double)N * (double)K / ms);
	}
	putchar('\n');

	finish(&launch, args, 3);
	free(a);
	free(b);
	free(c);
	return !right;
}
