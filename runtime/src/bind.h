/* bind.h - checks the arguments of a launch against the description of a kernel; no device is involved. */
#ifndef TILE_RUNTIME_BIND_H
#define TILE_RUNTIME_BIND_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/src/image.h"
#include "tilert/tilert.h"

/* Which arguments there are: some; those that a launch needs; these and others, which are passed over, optional tensors at address 0
 * being absent and the first of a name counting. */
typedef enum BindMode { BIND_SOME, BIND_ALL, BIND_NAMED } BindMode;

/* The values of one launch. */
typedef struct Binding {
	const KernelMeta *k;
	BindMode mode;
	int64_t sm_count;
	const tilert_arg **tensors; /* by tensor; NULL: absent */
	const tilert_arg **symbols; /* by symbol; NULL: not passed (a dim may come from a tensor) */
	int64_t *values;            /* by symbol; of integers */
	bool *known;
	const char **origins;       /* by symbol: the tensor that bound it, or NULL when passed */
	void *memory;               /* of all these */
} Binding;

/* A tensor map with its numbers. */
typedef struct MapSpec {
	tilert_ptr base; /* 0: the tensor is absent */
	tilert_dtype dtype;
	uint32_t swizzle, rank;
	uint64_t dims[TILERT_MAX_RANK];
	uint64_t strides[TILERT_MAX_RANK];
	uint32_t box[TILERT_MAX_RANK];
} MapSpec;

/* Matches names and binds dims.  `args` must outlive the binding. */
tilert_status rt_bind(const KernelMeta *k, int64_t sm_count, const tilert_arg *args, size_t nargs, BindMode mode, Binding *out);
void rt_binding_free(Binding *b);

/* The strides of tensor i as it was passed, in elements; contiguous ones when none were given. */
tilert_status rt_bind_strides(const Binding *b, size_t i, int64_t strides[TILERT_MAX_RANK]);
/* Checks shapes, strides, pointers and alignment of the tensors that are present. */
tilert_status rt_bind_check(const Binding *b);
/* Extents of tensor i from the dims. */
tilert_status rt_bind_extents(const Binding *b, size_t i, int64_t extents[TILERT_MAX_RANK]);
tilert_status rt_bind_grid(const Binding *b, uint32_t grid[3]);
tilert_status rt_bind_map(const Binding *b, size_t i, MapSpec *out);
/* One 8-byte slot per tensor, dim and scalar, holding the parameter's bytes. */
tilert_status rt_bind_values(const Binding *b, uint64_t *slots);

#endif
