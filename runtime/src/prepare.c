/* prepare.c - the public launch calls: check once, then queue as often as wanted. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/src/device.h"
#include "runtime/src/error.h"

static size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* One block: the struct, maps, values, params. */
static tilert_prepared *make(const tilert_kernel *kernel)
{
	const KernelMeta *k = kernel->meta;
	const size_t n_values = k->n_tensors + k->n_symbols, maps_at = round_up(sizeof(tilert_prepared), alignof(CUtensorMap));
	const size_t values_at = maps_at + k->n_maps * sizeof(CUtensorMap), params_at = values_at + n_values * sizeof(uint64_t);
	const size_t bytes = round_up(params_at + (n_values + k->n_maps) * sizeof(void *), alignof(CUtensorMap));
	unsigned char *memory = aligned_alloc(alignof(CUtensorMap), bytes);

	if (!memory)
		return NULL;
	memset(memory, 0, bytes);
	tilert_prepared *p = (tilert_prepared *)(void *)memory;
	p->kernel = kernel;
	p->device = kernel->module->device;
	p->maps = (CUtensorMap *)(void *)(memory + maps_at);
	p->values = (uint64_t *)(void *)(memory + values_at);
	p->params = (void **)(void *)(memory + params_at);
	for (size_t i = 0; i < n_values; i++)
		p->params[i] = &p->values[i];
	for (size_t i = 0; i < k->n_maps; i++)
		p->params[n_values + i] = &p->maps[i];
	return p;
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
		s = rt_bind_values(b, p->values);
	p->is_empty = p->grid[0] == 0 || p->grid[1] == 0 || p->grid[2] == 0;
	return s || p->is_empty ? s : build_maps(p, b);
}

static tilert_status prepare(const char *who, tilert_kernel *k, const tilert_arg *args, size_t nargs, BindMode mode, tilert_prepared **out)
{
	Binding b;

	if (!k || !out)
		return rt_fail(TILERT_EINVAL, "%s: kernel or out is NULL", who);
	tilert_device *d = k->module->device;
	if (!d)
		return rt_fail(TILERT_EINVAL, "kernel %s: its module was loaded without a device, for inspection only",
		               k->meta->name);
	tilert_status s = rt_bind(k->meta, d->sm_count, args, nargs, mode, &b);
	if (s)
		return s;
	tilert_prepared *p = make(k);
	if (!p) {
		rt_binding_free(&b);
		return rt_fail_memory("a launch");
	}
	s = fill(p, &b);
	rt_binding_free(&b);
	if (s)
		tilert_prepared_destroy(p);
	else
		*out = p;
	return s;
}

tilert_status tilert_prepare(tilert_kernel *k, const tilert_arg *args, size_t nargs, tilert_prepared **out)
{
	return prepare("tilert_prepare", k, args, nargs, BIND_ALL, out);
}

tilert_status tilert_prepare_named(tilert_kernel *k, const tilert_arg *args, size_t nargs, tilert_prepared **out)
{
	return prepare("tilert_prepare_named", k, args, nargs, BIND_NAMED, out);
}

void tilert_prepared_destroy(tilert_prepared *p)
{
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
	if (p && grid)
		memcpy(grid, p->grid, sizeof p->grid);
}

tilert_status tilert_launch(tilert_kernel *k, const tilert_arg *args, size_t nargs, tilert_stream stream)
{
	tilert_prepared *p = NULL;
	tilert_status s = prepare("tilert_launch", k, args, nargs, BIND_ALL, &p);

	if (s)
		return s;
	s = tilert_prepared_launch(p, stream);
	tilert_prepared_destroy(p); /* the driver has copied the parameters */
	return s;
}
