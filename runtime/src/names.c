/* names.c - the parameters of a kernel by name. */
#include <string.h>

#include "runtime/src/error.h"
#include "runtime/src/image.h"

static uint32_t hash(const char *name)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h ^ h >> 15;
}

static const char *name_of(const KernelMeta *k, size_t i)
{
	return i < k->n_tensors ? k->tensors[i].name : k->symbols[i - k->n_tensors].name;
}

/* At most half of the entries are taken. */
tilert_status rt_kernel_names(KernelMeta *k, Pool *pool)
{
	size_t n = k->n_tensors + k->n_symbols, room = 2;

	while (room < 2 * n)
		room *= 2;
	k->names = rt_pool_alloc(pool, room, sizeof *k->names);
	if (!k->names)
		return rt_fail_memory("a module");
	k->names_mask = (uint32_t)room - 1;
	for (size_t i = 0; i < n; i++) {
		uint32_t at = hash(name_of(k, i)) & k->names_mask;
		while (k->names[at])
			at = (at + 1) & k->names_mask;
		k->names[at] = (uint16_t)(i + 1);
	}
	return TILERT_OK;
}

int rt_kernel_param(const KernelMeta *k, const char *name)
{
	for (uint32_t at = hash(name) & k->names_mask; k->names[at]; at = (at + 1) & k->names_mask) {
		if (!strcmp(name_of(k, k->names[at] - 1u), name))
			return k->names[at] - 1;
	}
	return -1;
}
