/* element.h - elements of tensors and of .npy files as doubles. */
#ifndef TILE_TOOLS_ELEMENT_H
#define TILE_TOOLS_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/tools/npy.h"
#include "tilert/tilert.h"

double element_get(tilert_dtype t, const void *data, size_t i);
void element_set(tilert_dtype t, void *data, size_t i, double v); /* integers: truncated, kept in range */
bool element_is_integer(tilert_dtype t); /* bool included */

/* Element i of the file; u2 is raw bits when `as` is bf16. */
double element_get_npy(const Npy *n, size_t i, tilert_dtype as);
/* Of two integers, whose doubles may be the same from 2^53 on: whether they are. */
bool element_is_same_integer(tilert_dtype t, const void *data, const Npy *n, size_t i);
/* The file's elements as `t`: the same type, or f4 and u2 for bf16.  False: the type does not fit. */
bool element_from_npy(const Npy *n, tilert_dtype t, void *out);
/* The .npy type for `t`; bf16 becomes f4. */
void element_npy_type(tilert_dtype t, char *kind, unsigned *item_bytes);

#endif
