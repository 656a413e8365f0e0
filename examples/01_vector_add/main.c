/* Adds two vectors on the GPU, or on the CPU device where there is none.
 *
 *     vector_add [MODULE [ELEMENTS [DEVICE]]] */
#include <stdio.h>
#include <stdlib.h>
#include <tilert/tilert.h>

static void check(tilert_status s, const char *what)
{
	if (s == TILERT_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, tilert_status_name(s), tilert_last_error());
	exit(1);
}

static tilert_arg vector(const char *name, tilert_ptr data, int64_t n)
{
	return (tilert_arg){ .name = name, .kind = TILERT_ARG_TENSOR,
		.tensor = { .data = data, .dtype = TILERT_F32, .rank = 1, .extents = { n } } };
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "vector_add.tmod";
	int64_t n = argc > 2 ? atoll(argv[2]) : 1000003;
	tilert_device *device;
	if (argc > 3)
		check(tilert_device_open(argv[3], &device), "open the device");
	else if (tilert_device_open("cuda", &device) != TILERT_OK)
		check(tilert_device_open("cpu", &device), "open the CPU device");
	if (n < 1) {
		fprintf(stderr, "%s elements?\n", argv[2]);
		return 2;
	}

	tilert_device_info info;
	tilert_module *module;
	tilert_kernel *kernel;
	check(tilert_device_get_info(device, &info), "describe the device");
	check(tilert_module_open(device, path, &module), "open the module");
	check(tilert_module_kernel(module, "vector_add", &kernel), "find the kernel");

	size_t bytes = (size_t)n * sizeof(float);
	float *x = malloc(bytes), *y = malloc(bytes), *z = malloc(bytes);
	if (!x || !y || !z) {
		fprintf(stderr, "no memory for 3 x %zu bytes\n", bytes);
		return 1;
	}
	for (int64_t i = 0; i < n; i++) {
		x[i] = (float)(i % 1000);
		y[i] = 0.25f * (float)(i % 77);
	}

	tilert_ptr dx, dy, dz;
	check(tilert_alloc(device, bytes, &dx), "allocate x");
	check(tilert_alloc(device, bytes, &dy), "allocate y");
	check(tilert_alloc(device, bytes, &dz), "allocate z");
	check(tilert_upload(device, dx, x, bytes), "upload x");
	check(tilert_upload(device, dy, y, bytes), "upload y");

	tilert_arg args[] = { vector("x", dx, n), vector("y", dy, n), vector("z", dz, n) };
	check(tilert_launch(kernel, args, 3, NULL), "launch");
	check(tilert_stream_sync(device, NULL), "run");
	check(tilert_download(device, z, dz, bytes), "download z");

	int64_t wrong = 0;
	for (int64_t i = 0; i < n; i++)
		wrong += z[i] != x[i] + y[i];
	printf("%s: %lld elements, %lld wrong\n", info.name, (long long)n, (long long)wrong);

	check(tilert_free(device, dx), "free x");
	check(tilert_free(device, dy), "free y");
	check(tilert_free(device, dz), "free z");
	tilert_module_close(module);
	tilert_device_close(device);
	free(x);
	free(y);
	free(z);
	return wrong != 0;
}
