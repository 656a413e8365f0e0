/* unpack.h - blobs of modules, packed as MODULE.md says; compiler/driver/pack.c is the other way. */
#ifndef TILE_RUNTIME_UNPACK_H
#define TILE_RUNTIME_UNPACK_H

#include <stddef.h>
#include <stdint.h>

typedef enum Unpacked {
	UNPACKED,
	UNPACK_DAMAGED, /* the packed bytes, or they are not `bytes` when unpacked */
	UNPACK_NO_MEMORY
} Unpacked;

Unpacked rt_unpack(const uint8_t *packed, size_t packed_bytes, uint8_t *out, size_t bytes);

#endif
