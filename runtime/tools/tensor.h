/* tensor.h - tensors of a run in host memory, and where their first values come from. */
#ifndef TILE_TOOLS_TENSOR_H
#define TILE_TOOLS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/tools/options.h"
#include "tilert/tilert.h"

typedef struct HostTensor {
	const char *name;
	tilert_dtype dtype;
	int rank;
	int64_t extents[TILERT_MAX_RANK];
	size_t count, bytes;
	void *data;
	const char *same; /* another tensor, in whose memory it lies, or NULL */
} HostTensor;

/* What --arg says: a file, a generator with an optional shape, or another tensor, whose memory it shares. */
typedef struct Source {
	enum { SRC_FILE, SRC_ZEROS, SRC_ONES, SRC_UNIFORM, SRC_NORMAL, SRC_POISON, SRC_SAME } kind;
	const char *path; /* SRC_FILE; SRC_SAME: the tensor */
	double low, high; /* SRC_UNIFORM */
	bool has_shape;
	int rank;
	int64_t extents[TILERT_MAX_RANK];
} Source;

/* Extents may be names in `dims`. */
Source source_parse(const char *tensor, const char *text, const NameValues *dims);

/* Makes t->data.  t has name and type, and for generators its extents, which files bring along.  Leaves the program
 * when the file does not fit. */
void tensor_fill(HostTensor *t, const Source *from, uint64_t seed);
void tensor_set_extents(HostTensor *t, int rank, const int64_t *extents);
void tensor_write(const HostTensor *t, const char *path);
void tensor_free(HostTensor *t);

#endif
