/* register.c - what the Python package calls once, when torch is imported. */
#include <stdio.h>
#include <tilert/tilert.h>

#include "operators.h"

enum { FAILED = 1 };
static const uint64_t build_version = (uint64_t)2 << 56 | (uint64_t)10 << 48; /* the ABI that shim.h declares is that of 2.10 */

static int implement(const char *key)
{
	Library l;
	if (shim.aoti_torch_library_init_impl("tilekern", key, __FILE__, __LINE__, &l) != 0)
		return FAILED;
	for (int i = 0; i < OPERATORS; i++) {
		if (shim.torch_library_impl(l, operators[i].name, operators[i].kernel, build_version) != 0)
			return FAILED;
	}
	return 0;
}

/* What PyTorch refused, or NULL. */
static const char *define(void)
{
	Library l;
	if (shim.aoti_torch_library_init_def("tilekern", __FILE__, __LINE__, &l) != 0)
		return "the library tilekern";
	for (int i = 0; i < OPERATORS; i++) {
		if (shim.aoti_torch_library_def(l, operators[i].schema) != 0)
			return "the schema of an operator";
	}
	return implement("CPU") != 0 || implement("CUDA") != 0 ? "a kernel" : NULL;
}

/* Registers the operators with torch, which must have been imported.  0, or 1 with what went wrong in `why`. */
TILERT_API int tilekern_torch_register(char *why, size_t size);
int tilekern_torch_register(char *why, size_t size)
{
	const char *missing = shim_load();
	if (missing) {
		snprintf(why, size, "this PyTorch has no %s: tilekern needs 2.10 or later", missing);
		return FAILED;
	}
	const char *refused = define();
	if (refused)
		snprintf(why, size, "PyTorch refused %s", refused);
	return refused ? FAILED : 0;
}
