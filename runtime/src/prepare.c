/* prepare.c - the public launch calls: check once, then queue as often as wanted. */
#include <stdlib.h>
#include <string.h>

#include "runtime/src/device.h"
#include "runtime/src/error.h"

static tilert_status allocate(tilert_prepared *p, const KernelMeta *k)
{
	size_t n_values = k->n_tensors + k->n_symbols;

	p->values = calloc(n_values + 1, sizeof *p->values);
	p->params = calloc(n_values + k->n_maps + 1, sizeof *p->params);
	if (k->n_maps)
		p->maps = aligned_alloc(alignof(CUtensorMap), k->n_maps * sizeof *p->maps);
	if (!p->values || !p->params || (k->n_maps && !p->maps))
		return rt_fail_memory("a launch");
	if (k->n_maps)
		memset(p->maps, 0, k->n_maps * sizeof *p->maps);
	for (size_t i = 0; i < n_values; i++)
		p->params[i] = &p->values[i];
	for (size_t i = 0; i < k->n_maps; i++)
		p->params[n_values + i] = &p->maps[i];
	return TILERT_OK;
}

static tilert_status build_maps(tilert_prepared *p, const Binding *b)
{
	MapSpec *specs = calloc(b->k->n_maps + 1, sizeof *specs);
	tilert_status s = specs ? TILERT_OK : rt_fail_memory("a launch");

	for (size_t i = 0; !s && i < b->k->n_maps; i++)
		s = rt_bind_map(b, i, &specs[i]);
	if (!s)
		s = p->device->ops->prepare(p, specs);
	free(specs);
	return s;
}

static tilert_status fill(tilert_prepared *p, const Binding *b)
{
	tilert_status s = rt_bind_check(b);

	if (!s)
		s = rt_bind_grid(b, p->grid);
	if (!s)
		s = allocate(p, b->k);
	if (!s)
		s = rt_bind_values(b, p->values);
	p->is_empty = p->grid[0] == 0 || p->grid[1] == 0 || p->grid[2] == 0;
	return s || p->is_empty ? s : build_maps(p, b);
}

tilert_status tilert_prepare(tilert_kernel *k, const tilert_arg *args, size_t nargs, tilert_prepared **out)
{
	Binding b;

	if (!k || !out)
		return rt_fail(TILERT_EINVAL, "tilert_prepare: kernel or out is NULL");
	tilert_device *d = k->module->device;
	if (!d)
		return rt_fail(TILERT_EINVAL, "kernel %s: its module was loaded without a device, for inspection only",
		               k->meta->name);
	tilert_status s = rt_bind(k->meta, d->info.sm_count, args, nargs, true, &b);
	if (s)
		return s;
	tilert_prepared *p = calloc(1, sizeof *p);
	if (!p) {
		rt_binding_free(&b);
		return rt_fail_memory("a launch");
	}
	p->kernel = k;
	p->device = d;
	s = fill(p, &b);
	rt_binding_free(&b);
	if (s)
		tilert_prepared_destroy(p);
	else
		*out = p;
	return s;
}

void tilert_prepared_destroy(tilert_prepared *p)
{
	if (!p)
		return;
	free(p->values);
	free(p->maps);
	free(p->params);
	free(p);
}

tilert_status tilert_prepared_launch(tilert_prepared *p, tilert_stream s)
{
	if (!p)
		return rt_fail(TILERT_EINVAL, "tilert_prepared_launch: NULL");
	return p->is_empty ? TILERT_OK : p->device->ops->launch(p, s);
}

void tilert_prepared_grid(const tilert_prepared *p, uint32_t grid[3])
{
	memcpy(grid, p->grid, sizeof p->grid);
}

tilert_status tilert_launch(tilert_kernel *k, const tilert_arg *args, size_t nargs, tilert_stream stream)
{
	tilert_prepared *p = NULL;
	tilert_status s = tilert_prepare(k, args, nargs, &p);

	if (s)
		return s;
	s = tilert_prepared_launch(p, stream);
	tilert_prepared_destroy(p); /* the driver has copied the parameters */
	return s;
}
