#include <stdlib.h>

#include "tests/numeric/kernels/numeric.h"

static void run(const void *spec)
{
	const int64_t n = *(const int64_t *)spec;
	size_t bytes = (size_t)n * sizeof(float);
	float *x = memory(bytes), *y = memory(bytes);
	for (int64_t i = 0; i < n; i++) {
		x[i] = (float)(i % 1000) - 500;
		y[i] = 0.25f * (float)(i % 77);
	}
	Buffer dx = buffer_of(x, bytes), dy = buffer_of(y, bytes), dz = buffer_poisoned(bytes);
	tilert_arg args[] = { tensor_arg("x", dx, TILERT_F32, 1, &n), tensor_arg("y", dy, TILERT_F32, 1, &n),
		tensor_arg("z", dz, TILERT_F32, 1, &n) };
	tilert_kernel *k;
	OK(tilert_module_kernel(numeric_module("vector_add.tmod"), "vector_add", &k));
	OK(tilert_launch(k, args, 3, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	float *z = buffer_take(dz);
	for (int64_t i = 0; i < n; i++) {
		if (!(z[i] == x[i] + y[i]))
			fail_msg("z[%lld] is %g, not %g + %g", (long long)i, (double)z[i], (double)x[i], (double)y[i]);
	}
	buffer_free(dx);
	buffer_free(dy);
	buffer_free(dz);
	free(x);
	free(y);
	free(z);
}

size_t vector_add_cases(NumericCase *out)
{
	static const int64_t sizes[] = { 1, 3, 255, 1023, 1024, 1025, 5000 };
	size_t n = sizeof sizes / sizeof sizes[0];
	for (size_t i = 0; i < n; i++) {
		out[i] = numeric_case(run, &sizes[i], "vector_add_of_%lld", (long long)sizes[i]);
	}
	return n;
}
