/* unpack.c - what is copied from the bytes before, and what is new. */
#include "runtime/src/unpack.h"

#include <string.h>

typedef struct Unpacker {
	const uint8_t *in, *in_end;
	uint8_t *begin, *out, *end;
	size_t distance; /* of the copy before */
} Unpacker;

/* 7 bits a byte, the lowest first; the last has no bit 7. */
static bool number(Unpacker *u, size_t *v)
{
	*v = 0;
	for (unsigned shift = 0; shift < 63 && u->in < u->in_end; shift += 7) {
		*v |= (size_t)(*u->in & 0x7f) << shift;
		if (!(*u->in++ & 0x80))
			return true;
	}
	return false;
}

static bool length(Unpacker *u, unsigned nibble, size_t *v)
{
	size_t more = 0;

	if (nibble == PACK_LONG && !number(u, &more))
		return false;
	*v = nibble + more;
	return true;
}

static bool literals(Unpacker *u, size_t n)
{
	if (n > (size_t)(u->in_end - u->in) || n > (size_t)(u->end - u->out))
		return false;
	memcpy(u->out, u->in, n);
	u->in += n;
	u->out += n;
	return true;
}

static bool copy(Unpacker *u, size_t n)
{
	size_t distance;

	if (!number(u, &distance))
		return false;
	if (distance)
		u->distance = distance;
	if (u->distance == 0 || u->distance > (size_t)(u->out - u->begin) || n > (size_t)(u->end - u->out))
		return false;
	for (const uint8_t *from = u->out - u->distance; n > u->distance; n -= u->distance, u->out += u->distance)
		memcpy(u->out, from, u->distance);
	memcpy(u->out, u->out - u->distance, n);
	u->out += n;
	return true;
}

bool rt_unpack(const uint8_t *packed, size_t packed_bytes, uint8_t *out, size_t bytes)
{
	Unpacker u = { .in = packed, .in_end = packed + packed_bytes, .begin = out, .out = out, .end = out + bytes };

	while (u.out < u.end) {
		if (u.in == u.in_end)
			return false;
		unsigned head = *u.in++;
		size_t n;
		if (!length(&u, head >> 4, &n) || !literals(&u, n))
			return false;
		if (u.out < u.end && (!length(&u, head & 15, &n) || !copy(&u, n + PACK_LEAST)))
			return false;
	}
	return u.in == u.in_end;
}
