/* unpack.h - blobs of modules, packed as MODULE.md says; compiler/driver/pack.c is the other way. */
#ifndef TILE_RUNTIME_UNPACK_H
#define TILE_RUNTIME_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: the packed bytes are damaged, or are not `bytes` when unpacked. */
bool rt_unpack(const uint8_t *packed, size_t packed_bytes, uint8_t *out, size_t bytes);

#endif
