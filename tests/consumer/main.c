/* main.c - launches the kernel of scale.tile on the CPU device: consumer MODULE. */
#include <stdio.h>

#include "scale.h"

static int failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, tilert_last_error());
	return 1;
}

int main(int argc, char **argv)
{
	enum { N = 1000 };
	float x[N], y[N];
	tilert_device *device;
	tilert_module *module;
	tilert_kernel *kernel;
	scale_args args = { .factor = 3 };
	if (argc < 2)
		return 2;
	for (int i = 0; i < N; i++)
		x[i] = (float)i;
	if (tilert_device_open("cpu", &device) || tilert_module_open(device, argv[1], &module))
		return failed(argv[1]);
	args.x = (tilert_tensor){ .data = (tilert_ptr)(uintptr_t)x, .dtype = TILERT_F32, .rank = 1, .extents = { N } };
	args.y = (tilert_tensor){ .data = (tilert_ptr)(uintptr_t)y, .dtype = TILERT_F32, .rank = 1, .extents = { N } };
	if (tilert_module_kernel(module, "scale", &kernel) || scale_launch(kernel, &args, NULL))
		return failed("scale");
	for (int i = 0; i < N; i++) {
		if (y[i] != 3 * x[i]) {
			fprintf(stderr, "y[%d] is %g\n", i, (double)y[i]);
			return 1;
		}
	}
	tilert_module_close(module);
	tilert_device_close(device);
	puts("ok");
	return 0;
}
