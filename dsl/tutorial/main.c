/* y [N][M] = x [M][N] transposed, by one of the steps: compared bit for bit and, on a GPU, timed.
 *
 *     transpose MODULE [M N [DEVICE]] */
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"

static int64_t differences(const uint16_t *x, const uint16_t *y, int64_t M, int64_t N)
{
	int64_t count = 0;
	for (int64_t m = 0; m < M; m++)
		for (int64_t n = 0; n < N; n++)
			count += x[m * N + n] != y[n * M + m];
	return count;
}

int main(int argc, char **argv)
{
	tilert_device_info info;

	if (argc != 2 && argc != 4 && argc != 5) {
		fprintf(stderr, "usage: transpose MODULE [M N [DEVICE]]\n");
		return 2;
	}
	tilert_device *device = open_device(argc > 4 ? argv[4] : NULL, &info);
	int64_t M = argc > 2 ? atoll(argv[2]) : info.is_cuda ? 8192 : 520, N = argc > 2 ? atoll(argv[3]) : info.is_cuda ? 8192 : 200;
	if (M < 8 || N < 8 || M % 8 || N % 8) {
		fprintf(stderr, "M and N are multiples of 8\n");
		return 2;
	}
	uint16_t *x = memory((size_t)(M * N), sizeof *x);
	for (int64_t i = 0; i < M * N; i++)
		x[i] = (uint16_t)(i * 40503 % 32609); /* no NaN */
	tilert_arg args[] = { tensor(device, "x", TILERT_BF16, (int64_t[4]) { M, N }, x), tensor(device, "y", TILERT_BF16, (int64_t[4]) { N, M }, NULL) };
	Launch launch = launched(device, argv[1], "transpose", args, 2);

	uint16_t *y = downloaded(device, &args[1]);
	int64_t wrong = differences(x, y, M, N);
	printf("%s: %s, %lld x %lld: %lld wrong", info.name, argv[1], (long long)M, (long long)N, (long long)wrong);
	if (!wrong && info.is_cuda) {
		double ms = milliseconds(device, &launch.prepared, 1);
		printf(", %.3f ms, %.0f GB/s", ms, 4e-6 * (double)(M * N) / ms);
	}
	putchar('\n');

	finish(&launch, args, 2);
	free(x);
	free(y);
	return wrong != 0;
}
