/* C [M][N] = A [M][K] B [N][K]^T in bf16, by one of the five kernels: compares a sample of C with double precision, then times.
 *
 *     gemm MODULE [M N K [DEVICE]] */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tilert/tilert.h>

#include "tests/check/float16.h"
#include "tests/check/random.h"

static void check(tilert_status s, const char *what)
{
	if (s == TILERT_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, tilert_status_name(s), tilert_last_error());
	exit(1);
}

static void *memory(size_t bytes)
{
	void *p = malloc(bytes);
	if (!p) {
		fprintf(stderr, "no memory for %zu bytes\n", bytes);
		exit(1);
	}
	return p;
}

static tilert_arg matrix(tilert_device *d, const char *name, int64_t rows, int64_t cols)
{
	tilert_arg a = { .name = name, .kind = TILERT_ARG_TENSOR, .tensor = { .dtype = TILERT_BF16, .rank = 2, .extents = { rows, cols } } };
	check(tilert_alloc(d, (size_t)(rows * cols) * 2, &a.tensor.data), name);
	return a;
}

static uint16_t *random_matrix(tilert_device *d, const tilert_arg *a, uint64_t seed)
{
	size_t n = (size_t)(a->tensor.extents[0] * a->tensor.extents[1]);
	uint16_t *x = memory(n * 2);
	Random *r = memory(sizeof *r);
	random_init(r, seed);
	for (size_t i = 0; i < n; i++)
		x[i] = bf16_from_float(random_normal(r));
	free(r);
	check(tilert_upload(d, a->tensor.data, x, n * 2), "upload");
	return x;
}

/* Relative RMS error of some 10,000 elements, corners included. */
static double sampled_error(const uint16_t *a, const uint16_t *b, const uint16_t *c, int64_t M, int64_t N, int64_t K)
{
	double error = 0, square = 0;
	for (int64_t i = 0; i < 100; i++) {
		for (int64_t j = 0; j < 100; j++) {
			int64_t m = i * (M - 1) / 99, n = j * (N - 1) / 99;
			double sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += (double)bf16_to_float(a[m * K + k]) * (double)bf16_to_float(b[n * K + k]);
			double d = (double)bf16_to_float(c[m * N + n]) - sum;
			error += d * d;
			square += sum * sum;
		}
	}
	return sqrt(error / square);
}

static double median_ms(tilert_device *d, tilert_prepared *p)
{
	enum { ROUNDS = 9, LAUNCHES = 10 };
	float ms[ROUNDS];
	tilert_event *begin, *end;
	check(tilert_event_create(d, &begin), "create an event");
	check(tilert_event_create(d, &end), "create an event");
	for (int i = 0; i < ROUNDS; i++) {
		check(tilert_event_record(begin, NULL), "record");
		for (int j = 0; j < LAUNCHES; j++)
			check(tilert_prepared_launch(p, NULL), "launch");
		check(tilert_event_record(end, NULL), "record");
		check(tilert_event_elapsed(begin, end, &ms[i]), "time");
		for (int j = i; j > 0 && ms[j] < ms[j - 1]; j--) {
			float t = ms[j];
			ms[j] = ms[j - 1];
			ms[j - 1] = t;
		}
	}
	tilert_event_destroy(begin);
	tilert_event_destroy(end);
	return (double)ms[ROUNDS / 2] / LAUNCHES;
}

int main(int argc, char **argv)
{
	tilert_device *device;
	tilert_device_info info;
	tilert_module *module;
	tilert_kernel *kernel;
	tilert_prepared *launch;

	if (argc < 2 || (argc > 2 && argc < 5)) {
		fprintf(stderr, "usage: gemm MODULE [M N K [DEVICE]]\n");
		return 2;
	}
	if (argc > 5)
		check(tilert_device_open(argv[5], &device), "open the device");
	else if (tilert_device_open("cuda", &device) != TILERT_OK)
		check(tilert_device_open("cpu", &device), "open the CPU device");
	check(tilert_device_get_info(device, &info), "describe the device");
	int64_t side = info.is_cuda ? 8192 : 256;
	int64_t M = argc > 2 ? atoll(argv[2]) : side, N = argc > 2 ? atoll(argv[3]) : side, K = argc > 2 ? atoll(argv[4]) : side;
	if (M < 1 || N < 1 || K < 1) {
		fprintf(stderr, "M, N and K are at least 1\n");
		return 2;
	}
	check(tilert_module_open(device, argv[1], &module), "open the module");
	check(tilert_module_kernel(module, "gemm", &kernel), "find the kernel");

	tilert_arg args[] = { matrix(device, "a", M, K), matrix(device, "b", N, K), matrix(device, "c", M, N) };
	uint16_t *a = random_matrix(device, &args[0], 1), *b = random_matrix(device, &args[1], 2);
	uint16_t *c = memory((size_t)(M * N) * 2);
	check(tilert_memset(device, args[2].tensor.data, 0xff, (size_t)(M * N) * 2, NULL), "poison C"); /* 0xffff is a NaN */
	check(tilert_prepare(kernel, args, 3, &launch), "prepare");
	check(tilert_prepared_launch(launch, NULL), "launch");
	check(tilert_stream_sync(device, NULL), "run");
	check(tilert_download(device, c, args[2].tensor.data, (size_t)(M * N) * 2), "download C");

	double error = sampled_error(a, b, c, M, N, K);
	bool right = error < 0.004; /* rounding C to bf16 gives .0017, and never more than 2^-8 */
	printf("%s: %s, M %lld N %lld K %lld: relative error %.1e %s", info.name, argv[1], (long long)M, (long long)N, (long long)K, error,
		right ? "" : "WRONG");
	if (right && info.is_cuda) {
		double ms = median_ms(device, launch);
		printf("%.3f ms, %.0f TFLOP/s", ms, 2e-9 * (double)M * (double)N * (double)K / ms);
	}
	putchar('\n');

	tilert_prepared_destroy(launch);
	for (int i = 0; i < 3; i++)
		check(tilert_free(device, args[i].tensor.data), "free");
	tilert_module_close(module);
	tilert_device_close(device);
	free(a);
	free(b);
	free(c);
	return !right;
}
