#include "shim.h"

#include <dlfcn.h>
#include <stddef.h>

Shim shim;

/* A library that the process has already. */
static void *loaded(const char *name) { return dlopen(name, RTLD_NOW | RTLD_NOLOAD); }

/* A function pointer of any type, in *out. */
static int find(void *library, const char *name, void *out)
{
	void *symbol = library ? dlsym(library, name) : NULL;
	*(void **)out = symbol;
	return symbol != NULL;
}

static const char *find_torch(void *cpu)
{
#define FIND(R, NAME, ARGS) \
	if (!find(cpu, #NAME, &shim.NAME)) \
		return #NAME;
	SHIM_FUNCTIONS(FIND)
#undef FIND
	return NULL;
}

const char *shim_load(void)
{
	void *cpu = loaded("libtorch_cpu.so"), *cxx = loaded("libstdc++.so.6");
	const char *missing = cpu ? find_torch(cpu) : "libtorch_cpu.so";
	if (missing)
		return missing;
	if (!find(cxx, "_ZSt24__throw_invalid_argumentPKc", &shim.throw_value_error) ||
		!find(cxx, "_ZSt21__throw_runtime_errorPKc", &shim.throw_runtime_error))
		return "libstdc++.so.6";
	if (!find(cpu, "torch_delete_stable_ivalue", &shim.free_value) && !find(cxx, "_ZdlPv", &shim.free_value)) /* 2.13, before it operator delete */
		return "operator delete";
	find(loaded("libtorch_cuda.so"), "aoti_torch_get_current_cuda_stream", &shim.aoti_torch_get_current_cuda_stream);
	shim.cpu = shim.aoti_torch_device_type_cpu();
	shim.cuda = shim.aoti_torch_device_type_cuda();
	return NULL;
}
