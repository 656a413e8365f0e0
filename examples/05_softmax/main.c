/* y = softmax of each row of x by one of the two kernels, compared with double precision and, on a GPU, timed.
 *
 *     softmax MODULE [M N [DEVICE]] */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"
#include "tests/check/float16.h"

static double error_of(const uint16_t *x, const uint16_t *y, int64_t M, int64_t N)
{
	Error e = { 0, 0 };
	for (int64_t m = 0; m < M; m += M / 1000 + 1) {
		double top = -INFINITY, sum = 0;
		for (int64_t n = 0; n < N; n++)
			top = fmax(top, (double)bf16_to_float(x[m * N + n]));
		for (int64_t n = 0; n < N; n++)
			sum += exp((double)bf16_to_float(x[m * N + n]) - top);
		for (int64_t n = 0; n < N; n++)
			compare(&e, exp((double)bf16_to_float(x[m * N + n]) - top) / sum, (double)bf16_to_float(y[m * N + n]));
	}
	return relative(&e);
}

int main(int argc, char **argv)
{
	tilert_device_info info;
	Random r;

	if (argc != 2 && argc != 4 && argc != 5) {
		fprintf(stderr, "usage: softmax MODULE [M N [DEVICE]]\n");
		return 2;
	}
	tilert_device *device = open_device(argc > 4 ? argv[4] : NULL, &info);
	int64_t M = argc > 2 ? atoll(argv[2]) : info.is_cuda ? 1 << 17 : 100, N = argc > 2 ? atoll(argv[3]) : 1000;
	if (M < 1 || N < 1) {
		fprintf(stderr, "M and N are at least 1\n");
		return 2;
	}
	random_init(&r, 1);
	uint16_t *x = normal_bf16(&r, M * N, 4);
	tilert_arg args[] = { tensor(device, "x", TILERT_BF16, (int64_t[4]) { M, N }, x), tensor(device, "y", TILERT_BF16, (int64_t[4]) { M, N }, NULL) };
	Launch launch = launched(device, argv[1], "softmax", args, 2);

	uint16_t *y = downloaded(device, &args[1]);
	double error = error_of(x, y, M, N);
	bool right = error < 0.004;
	printf("%s: %s, %lld rows of %lld: relative error %.1e%s", info.name, argv[1], (long long)M, (long long)N, error, right ? "" : " WRONG");
	if (right && info.is_cuda) {
		double ms = milliseconds(device, &launch.prepared, 1);
		printf(", %.3f ms, %.0f GB/s", ms, 4e-6 * (double)(M * N) / ms);
	}
	putchar('\n');

	finish(&launch, args, 2);
	free(x);
	free(y);
	return !right;
}
