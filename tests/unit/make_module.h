/* make_module.h - module files put together by hand, for tests of the runtime. */
#ifndef TILE_TESTS_MAKE_MODULE_H
#define TILE_TESTS_MAKE_MODULE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/src/checksum.h"

typedef struct ModuleBlob {
	const char *kind;
	const void *data;
	size_t bytes;
	size_t unpacked; /* 0: it is not packed */
} ModuleBlob;

static inline void put_little_endian(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static inline void sign_module(uint8_t *p, size_t size)
{
	if (size >= MODULE_HEADER_BYTES)
		put_little_endian(p + MODULE_CHECKSUM_AT, module_checksum(p, size), 8);
}

/* A module with this meta text and these blobs; free() it. */
static inline uint8_t *make_module(const char *meta, const ModuleBlob *blobs, size_t n_blobs, size_t *size)
{
	const size_t head = MODULE_HEADER_BYTES;
	size_t meta_bytes = strlen(meta), at = head + MODULE_ENTRY_BYTES * n_blobs + meta_bytes, end = at;

	for (size_t i = 0; i < n_blobs; i++)
		end = (end + 15) / 16 * 16 + blobs[i].bytes;
	uint8_t *p = calloc(1, end);
	memcpy(p, "TILEMOD4", 8);
	put_little_endian(p + 8, meta_bytes, 4);
	put_little_endian(p + 12, n_blobs, 4);
	memcpy(p + head + MODULE_ENTRY_BYTES * n_blobs, meta, meta_bytes);
	for (size_t i = 0; i < n_blobs; i++) {
		at = (at + 15) / 16 * 16;
		uint8_t *entry = p + head + MODULE_ENTRY_BYTES * i;
		memcpy(entry, blobs[i].kind, strlen(blobs[i].kind));
		put_little_endian(entry + 16, at, 8);
		put_little_endian(entry + 24, blobs[i].bytes, 8);
		put_little_endian(entry + 32, blobs[i].unpacked ? blobs[i].unpacked : blobs[i].bytes, 8);
		memcpy(p + at, blobs[i].data, blobs[i].bytes);
		at += blobs[i].bytes;
	}
	sign_module(p, end);
	*size = end;
	return p;
}

/* Two kernels that use everything the format has. */
static const char example_meta[] =
	"module \"example.tile\" compiler \"0.1.0\"\n"
	"kernel \"attend\" threads 384 cluster 2 smem 196608 registers 168 tensormaps 2 dependent\n"
	"tensor \"q\" bf16 in required rank 3 extents \"T\" \"H\" \"128\" strides \"H 128 *\" \"128\" \"1\"\n"
	"tensor \"k\" bf16 in required rank 3 extents \"T\" \"H\" \"128\" strides \"H 128 *\" \"128\" \"1\"\n"
	"tensor \"g\" f32 in optional rank 2 extents \"T\" \"H 2 *\" strides \"ld\" \"1\"\n"
	"tensor \"o\" f32 out required rank 2 extents \"T 64 cdiv\" \"H\" strides \"H\" \"1\"\n"
	"dim \"T\"\n"
	"dim \"H\"\n"
	"dim \"ld\"\n"
	"scalar \"scale\" f32\n"
	"scalar \"steps\" u8\n"
	"tensormap tensor \"q\" dtype bf16 swizzle 128 dims \"128\" \"T\" \"H\" strides \"2\" \"H 256 *\" \"256\" box 64 64 1\n"
	"tensormap tensor \"g\" dtype f32 swizzle 0 dims \"H 2 *\" \"T\" \"T\" strides \"4\" \"ld 4 *\" \"ld 4 *\" box 4 8 1 limited 1\n"
	"grid \"T 64 cdiv 2 *\" \"H\" \"steps 1 max\"\n"
	"end\n"
	"kernel \"clear\" threads 128 cluster 1 smem 0 registers 16 tensormaps 0\n"
	"tensor \"x\" f32 out required rank 1 extents \"N\" strides \"1\"\n"
	"dim \"N\"\n"
	"grid \"N 128 cdiv sm_count min\"\n"
	"end\n";

#endif
