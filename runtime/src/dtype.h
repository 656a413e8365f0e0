/* dtype.h - what the runtime asks of element types besides name and size. */
#ifndef TILE_RUNTIME_DTYPE_H
#define TILE_RUNTIME_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stddef.h>

#include "runtime/abi/float8.h"
#include "runtime/abi/float8.h"
#include "tilert/tilert.h"

bool rt_dtype_is_float(tilert_dtype t);
bool rt_dtype_parse(const char *name, size_t length, tilert_dtype *out);

/* NULL: no float of 8 bits.  Inline for tilerun, which sees the public functions alone. */
static inline const Float8 *rt_float8(tilert_dtype t)
{
	return t == TILERT_E4M3 ? &float8_e4m3 : t == TILERT_E5M2 ? &float8_e5m2 : NULL;
}

#endif
