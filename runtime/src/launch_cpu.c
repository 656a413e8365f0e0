/* launch_cpu.c - code and launches of the CPU device (runtime/cpu). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/abi/cpu_abi.h"
#include "runtime/src/device.h"
#include "runtime/src/error.h"

_Static_assert(sizeof(TileCpuTensorMap) <= sizeof(CUtensorMap), "both kinds of tensor map share their storage");

enum { REPORT_BYTES = 7 << 10 }; /* with the name of the kernel it is a text of error.c */

static tilert_status find_entries(tilert_module *m)
{
	for (size_t i = 0; i < m->image.n_kernels; i++) {
		char symbol[sizeof TILE_CPU_KERNEL_PREFIX + 255]; /* names have at most 255 characters: meta.c */
		snprintf(symbol, sizeof symbol, TILE_CPU_KERNEL_PREFIX "%s", m->kernels[i].meta->name);
		TileCpuKernel entry = tilecpu_image_symbol(m->code, symbol);
		if (!entry)
			return rt_fail(TILERT_EFORMAT, "module: its CPU code has no kernel %s", m->kernels[i].meta->name);
		memcpy(&m->kernels[i].code, &entry, sizeof entry);
	}
	return TILERT_OK;
}

tilert_status rt_cpu_code_load(tilert_module *m)
{
	const Blob *elf = rt_image_blob(&m->image, "elf:x86_64");
	char text[512] = "";
	uint8_t *code = NULL;

	if (!elf)
		return rt_fail(TILERT_EARCH, "module %s has no code for the CPU device: compile it with --target=cpu or all",
		               m->image.source_name);
	tilert_status s = rt_blob_data(elf, &code);
	if (s)
		return s;
	m->code = tilecpu_image_load(code, elf->bytes, text, sizeof text);
	free(code);
	if (!m->code)
		return !text[0] ? rt_fail_memory("a module") : rt_fail(TILERT_EFORMAT, "module: its CPU code cannot be loaded: %s", text);
	s = find_entries(m);
	if (s)
		rt_cpu_code_unload(m);
	return s;
}

void rt_cpu_code_unload(tilert_module *m)
{
	tilecpu_image_free(m->code);
	m->code = NULL;
}

static TileCpuTensorMap make_map(const MapSpec *spec)
{
	TileCpuTensorMap map = {
		.base = (uint8_t *)(uintptr_t)spec->base,
		.rank = (uint8_t)spec->rank,
		.element_bytes = (uint8_t)tilert_dtype_size(spec->dtype),
		.swizzle_bytes = (uint8_t)spec->swizzle,
		.dtype = (uint8_t)spec->dtype,
	};

	for (uint32_t i = 0; i < spec->rank; i++) {
		map.dim[i] = (int64_t)spec->dims[i];
		map.stride[i] = (int64_t)spec->strides[i];
		map.box[i] = (uint16_t)spec->box[i];
	}
	return map;
}

tilert_status rt_cpu_prepare(tilert_prepared *p, const MapSpec *specs)
{
	for (size_t i = 0; i < p->kernel->meta->n_maps; i++) {
		TileCpuTensorMap map = make_map(&specs[i]);
		if (specs[i].base)
			memcpy(&p->maps[i], &map, sizeof map);
	}
	return TILERT_OK;
}

static bool locate(const void *user, const char *tensor, uint64_t byte, char *text, uint32_t size)
{
	return rt_locate(user, tensor, byte, text, size);
}

static const char *tensor_of(const void *user, const TileCpuTensorMap *map)
{
	return rt_tensor_of_map(user, map);
}

tilert_status rt_cpu_launch(const tilert_prepared *p, tilert_stream stream)
{
	const KernelMeta *k = p->kernel->meta;
	tilert_device *d = p->device;
	char report[REPORT_BYTES] = "";

	(void)stream;
	TileCpuLaunch l = {
		.kernel_name = k->name,
		.source_name = p->kernel->module->image.source_name,
		.files = tilecpu_image_files(p->kernel->module->code),
		.tiles = tilecpu_image_tiles(p->kernel->module->code, k->name),
		.locate = locate,
		.tensor_of = tensor_of,
		.user_of_names = p,
		.grid = { p->grid[0], p->grid[1], p->grid[2] },
		.threads = k->threads,
		.cluster = k->cluster,
		.smem_bytes = k->smem_bytes,
		.params = p->params,
		.stacks = d->stacks,
		.error = report,
		.error_size = sizeof report,
	};
	memcpy(&l.entry, &p->kernel->code, sizeof l.entry);
	pthread_mutex_lock(&d->lock);
	l.seed = d->seed;
	l.workers = d->threads;
	l.no_race_check = !d->checks.races;
	l.no_arithmetic_check = !d->checks.arithmetic;
	l.timeout = d->checks.timeout;
	l.progress = d->progress;
	l.user = d->progress_user;
	pthread_mutex_unlock(&d->lock);
	const int result = tilecpu_launch(&l);
	if (result)
		return rt_fail(result == TILE_CPU_NO_MEMORY ? TILERT_ENOMEM : TILERT_EDEVICE, "kernel %s: %s", k->name, report);
	return TILERT_OK;
}
