/* dtype.h - what the runtime asks of element types besides name and size. */
#ifndef TILE_RUNTIME_DTYPE_H
#define TILE_RUNTIME_DTYPE_H

#include <stdbool.h>

#include "tilert/tilert.h"

bool rt_dtype_is_float(tilert_dtype t);
bool rt_dtype_parse(const char *name, size_t length, tilert_dtype *out);

#endif
