/* image.h - a module file taken apart: blobs and the description of each kernel (see MODULE.md). */
#ifndef TILE_RUNTIME_IMAGE_H
#define TILE_RUNTIME_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/src/expr.h"
#include "runtime/src/pool.h"
#include "tilert/tilert.h"

typedef struct Blob {
	char kind[17];
	const uint8_t *stored; /* packed where that is fewer bytes */
	size_t stored_bytes, bytes;
} Blob;

typedef struct TensorMeta {
	const char *name;
	tilert_dtype dtype;
	int direction; /* 1 in, 2 out, 3 inout */
	bool optional;
	uint32_t align; /* bytes the base address must be a multiple of */
	int rank;
	Expr extents[TILERT_MAX_RANK];
	Expr strides[TILERT_MAX_RANK]; /* in elements */
	const char *shape; /* "[B][T][128]" */
} TensorMeta;

/* What expressions refer to: the dims, then the scalars. */
typedef struct SymbolMeta {
	const char *name;
	tilert_dtype dtype; /* a dim: i32 */
} SymbolMeta;

typedef struct MapMeta {
	uint32_t tensor; /* index */
	tilert_dtype dtype;
	uint32_t swizzle; /* bytes: 0, 32, 64 or 128 */
	int rank;
	Expr dims[TILERT_MAX_RANK];    /* innermost first */
	Expr strides[TILERT_MAX_RANK]; /* bytes; [0] is the element size */
	uint32_t box[TILERT_MAX_RANK];
	uint32_t limited; /* the dim that ends at a limit, which the last one is once more; 0: none */
	bool stored;
} MapMeta;

typedef struct KernelMeta {
	const char *name;
	uint32_t threads, cluster, smem_bytes, registers, maps_expected;
	bool dependent; /* waits on the device for the grids before it, so that it may start while they run */
	TensorMeta *tensors;
	SymbolMeta *symbols;
	const char **symbol_names; /* as rt_expr_format wants them */
	MapMeta *maps;
	size_t n_tensors, n_dims, n_symbols, n_maps;
	Expr grid[3];
	int grid_rank;
	uint16_t *names; /* a hash table of parameters, 1 and up; 0: free */
	uint32_t names_mask;
} KernelMeta;

typedef struct Image {
	Pool pool;
	uint8_t *bytes;
	Blob *blobs;
	KernelMeta *kernels;
	size_t n_blobs, n_kernels;
	const char *source_name, *compiler;
} Image;

/* Copies and checks the file; TILERT_EFORMAT says what is wrong where.  On failure `out` needs no freeing. */
tilert_status rt_image_parse(const void *bytes, size_t size, Image *out);
void rt_image_free(Image *im);
const Blob *rt_image_blob(const Image *im, const char *kind); /* or NULL */
/* Its bytes, 16-byte aligned; free() them. */
tilert_status rt_blob_data(const Blob *b, uint8_t **out);

/* The index of a parameter, tensors first; -1: there is none.  The table is part of rt_meta_parse. */
int rt_kernel_param(const KernelMeta *k, const char *name);
tilert_status rt_kernel_names(KernelMeta *k, Pool *pool);

/* The meta text into im->kernels; part of rt_image_parse. */
tilert_status rt_meta_parse(Image *im, const char *text, size_t size);

#endif
