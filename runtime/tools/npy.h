/* npy.h - NumPy's .npy files, versions 1 and 2, little-endian and in C order. */
#ifndef TILE_TOOLS_NPY_H
#define TILE_TOOLS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NPY_MAX_RANK = 8 };

typedef struct Npy {
	char kind; /* 'f', 'i', 'u' or 'b' */
	unsigned item_bytes;
	int rank;
	int64_t extents[NPY_MAX_RANK];
	size_t count; /* elements */
	void *data;
} Npy;

/* Takes the bytes of a file apart; out->data is a new copy.  On failure `why` says what is wrong. */
bool npy_parse(const void *bytes, size_t size, Npy *out, char *why, size_t why_size);
bool npy_read(const char *path, Npy *out, char *why, size_t why_size);
/* Writes to a temporary name beside `path`, then renames. */
bool npy_write(const char *path, const Npy *in, char *why, size_t why_size);
void npy_free(Npy *n);

#endif
