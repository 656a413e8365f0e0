/* unpack.c - what is copied from the bytes before, and what is new. */
#include "runtime/src/unpack.h"

#include <stdlib.h>

#include "runtime/src/packing.h"

static bool unpack(PackCoder *c, PackModel *m, uint8_t *out, size_t bytes)
{
	for (size_t at = 0; at < bytes && !c->damaged;) {
		if (!pack_is_copy(c, m, at, 0)) {
			out[at] = (uint8_t)pack_literal(c, m, out, at, 0);
			at++;
			continue;
		}
		const size_t n = pack_copy(c, m, 0, 1, 1), from = m->distances[0];
		if (from > at || n > bytes - at)
			return false;
		for (const size_t end = at + n; at < end; at++)
			out[at] = out[at - from];
	}
	return !c->damaged && c->in == c->in_end;
}

Unpacked rt_unpack(const uint8_t *packed, size_t packed_bytes, uint8_t *out, size_t bytes)
{
	PackCoder c = { .range = UINT32_MAX, .in = packed, .in_end = packed + packed_bytes };
	PackModel *m = malloc(sizeof *m);

	if (!m)
		return UNPACK_NO_MEMORY;
	pack_model_init(m, pack_byte(&c) != 0);
	for (int i = 0; i < 4; i++)
		c.code = c.code << 8 | pack_byte(&c);
	const bool good = unpack(&c, m, out, bytes);
	free(m);
	return good ? UNPACKED : UNPACK_DAMAGED;
}
