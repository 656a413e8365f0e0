/* list.c - the kernels of a module and their parameters, for people and as JSON. */
#include "runtime/tools/list.h"

#include <stdbool.h>
#include <stdio.h>

#include "runtime/tools/run.h"

static const char *const directions[] = { "", "in", "out", "inout" };

static void list_param(const tilert_param *p)
{
	if (p->kind == TILERT_ARG_TENSOR)
		printf("  %s%s %s %s%s\n", p->optional ? "optional " : "", directions[p->direction & 3],
		       tilert_dtype_name(p->dtype), p->name, p->shape);
	else if (p->kind == TILERT_ARG_DIM)
		printf("  dim %s\n", p->name);
	else
		printf("  %s %s\n", tilert_dtype_name(p->dtype), p->name);
}

static void list_kernel(tilert_kernel *k)
{
	tilert_kernel_info info;
	tilert_param p;

	run_check(tilert_kernel_get_info(k, &info));
	printf("kernel %s: %u threads", tilert_kernel_name(k), info.threads);
	if (info.cluster > 1)
		printf(", clusters of %u", info.cluster);
	printf(", %u bytes of shared memory, %u registers%s\n", info.smem_bytes, info.registers,
		info.dependent ? ", waits for the grids before it" : "");
	for (size_t j = 0; j < tilert_kernel_param_count(k); j++) {
		run_check(tilert_kernel_param(k, j, &p));
		list_param(&p);
	}
}

void list_kernels(tilert_module *m)
{
	tilert_kernel *k;

	for (size_t i = 0; (k = tilert_module_kernel_at(m, i)); i++)
		list_kernel(k);
}

/* ---- JSON: names and shapes have no character that it would escape ---- */

static void put_param(const tilert_param *p)
{
	if (p->kind == TILERT_ARG_TENSOR)
		printf("{\"kind\": \"tensor\", \"name\": \"%s\", \"dtype\": \"%s\", \"shape\": \"%s\", \"direction\": \"%s\", \"optional\": %s}",
		       p->name, tilert_dtype_name(p->dtype), p->shape, directions[p->direction & 3], p->optional ? "true" : "false");
	else if (p->kind == TILERT_ARG_DIM)
		printf("{\"kind\": \"dim\", \"name\": \"%s\"}", p->name);
	else
		printf("{\"kind\": \"scalar\", \"name\": \"%s\", \"dtype\": \"%s\"}", p->name, tilert_dtype_name(p->dtype));
}

static void put_kernel(tilert_kernel *k)
{
	tilert_kernel_info info;
	tilert_param p;

	run_check(tilert_kernel_get_info(k, &info));
	printf("{\"name\": \"%s\", \"threads\": %u, \"cluster\": %u, \"shared_bytes\": %u, \"registers\": %u, \"waits_for_grids\": %s, \"params\": [",
	       tilert_kernel_name(k), info.threads, info.cluster, info.smem_bytes, info.registers, info.dependent ? "true" : "false");
	for (size_t j = 0; j < tilert_kernel_param_count(k); j++) {
		run_check(tilert_kernel_param(k, j, &p));
		printf(j ? ",\n  " : "\n  ");
		put_param(&p);
	}
	printf("]}");
}

void list_json(tilert_module *m)
{
	tilert_kernel *k;

	printf("{\"kernels\": [");
	for (size_t i = 0; (k = tilert_module_kernel_at(m, i)); i++) {
		printf(i ? ",\n" : "\n");
		put_kernel(k);
	}
	printf("\n]}\n");
}
