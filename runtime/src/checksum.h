/* checksum.h - of a module file; what tilec writes and the runtime compares (MODULE.md). */
#ifndef TILE_RUNTIME_CHECKSUM_H
#define TILE_RUNTIME_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MODULE_HEADER_BYTES = 24, MODULE_ENTRY_BYTES = 40, MODULE_CHECKSUM_AT = 16 };

/* Over words of 8 bytes, that at MODULE_CHECKSUM_AT and what is missing of the last as zeros.  Each step is one to one in the word
 * and in what came before, so that no change of a single word goes unseen. */
static inline uint64_t module_checksum(const void *bytes, size_t size)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ size;

	for (size_t at = 0; at < size; at += 8) {
		uint64_t word = 0;
		memcpy(&word, (const char *)bytes + at, size - at < 8 ? size - at : 8);
		h = (h ^ (at == MODULE_CHECKSUM_AT ? 0 : word)) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}

#endif
