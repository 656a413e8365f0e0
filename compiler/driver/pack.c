/* pack.c - blobs of modules as runtime/MODULE.md packs them: greedy with one step of foresight, over chains of positions with equal hashes. */
#include "compiler/driver/emit.h"

#include <stdint.h>
#include <string.h>

#include "runtime/src/unpack.h"

enum { HASH_BITS = 16, NONE = -1, CANDIDATES = 48, ENOUGH = 256 /* bytes of a copy: no better one is looked for */ };

typedef struct Packer {
	const uint8_t *in;
	size_t n, distance; /* of the copy before */
	int32_t *head, *before;
	Buffer *out;
} Packer;

typedef struct Copy { size_t length, distance; } Copy;

static uint32_t hash(const uint8_t *p)
{
	uint32_t word;
	memcpy(&word, p, sizeof word);
	return word * 2654435761u >> (32 - HASH_BITS);
}

static size_t equal(const Packer *p, size_t a, size_t b)
{
	size_t n = 0;
	while (b + n < p->n && p->in[a + n] == p->in[b + n])
		n++;
	return n;
}

static void remember(Packer *p, size_t at)
{
	if (at + PACK_LEAST > p->n)
		return;
	int32_t *head = &p->head[hash(p->in + at)];
	p->before[at] = *head;
	*head = (int32_t)at;
}

static size_t number_bytes(size_t v) { return v < 1 << 7 ? 1 : v < 1 << 14 ? 2 : v < 1 << 21 ? 3 : 4; }

/* Bytes that it saves. */
static size_t gain(const Packer *p, Copy c)
{
	size_t cost = 1 + number_bytes(c.distance == p->distance ? 0 : c.distance);
	return c.length > cost && c.length >= PACK_LEAST ? c.length - cost : 0;
}

static Copy find(const Packer *p, size_t at)
{
	Copy best = { 0, 0 };
	if (at + PACK_LEAST > p->n)
		return best;
	if (p->distance && p->distance <= at)
		best = (Copy){ equal(p, at - p->distance, at), p->distance };
	int32_t from = p->head[hash(p->in + at)];
	for (int i = 0; from != NONE && i < CANDIDATES && best.length < ENOUGH; i++, from = p->before[from]) {
		Copy c = { equal(p, (size_t)from, at), at - (size_t)from };
		if (gain(p, c) > gain(p, best))
			best = c;
	}
	return best;
}

static void put_byte(Packer *p, size_t v) { buffer_bytes(p->out, &(uint8_t){ (uint8_t)v }, 1); }

static void put_number(Packer *p, size_t v)
{
	for (; v >= 0x80; v >>= 7)
		put_byte(p, (v & 0x7f) | 0x80);
	put_byte(p, v);
}

static size_t nibble(size_t v) { return v < PACK_LONG ? v : PACK_LONG; }

/* The literals from `begin` to `at`, then a copy; one of length 0 is the end. */
static void put(Packer *p, size_t begin, size_t at, Copy c)
{
	size_t literals = at - begin, more = c.length ? c.length - PACK_LEAST : 0;
	put_byte(p, nibble(literals) << 4 | nibble(more));
	if (literals >= PACK_LONG)
		put_number(p, literals - PACK_LONG);
	buffer_bytes(p->out, p->in + begin, literals);
	if (!c.length)
		return;
	if (more >= PACK_LONG)
		put_number(p, more - PACK_LONG);
	put_number(p, c.distance == p->distance ? 0 : c.distance);
	p->distance = c.distance;
}

static void pack_all(Packer *p)
{
	size_t begin = 0, at = 0;
	while (at < p->n) {
		Copy c = find(p, at);
		remember(p, at);
		if (gain(p, c) == 0 || (c.length < ENOUGH && gain(p, find(p, at + 1)) > gain(p, c) + 1)) {
			at++;
			continue;
		}
		put(p, begin, at, c);
		for (size_t i = 1; i < c.length; i++)
			remember(p, at + i);
		at = begin = at + c.length;
	}
	if (begin < p->n)
		put(p, begin, p->n, (Copy){ 0, 0 });
}

bool pack_blob(Arena *a, const void *data, size_t n, Buffer *out)
{
	if (n > INT32_MAX)
		return false;
	Packer p = { .in = data, .n = n, .out = out, .head = ARENA_ARRAY(a, int32_t, 1 << HASH_BITS), .before = ARENA_ARRAY(a, int32_t, n + 1) };
	for (int i = 0; i < 1 << HASH_BITS; i++)
		p.head[i] = NONE;
	pack_all(&p);
	return out->len < n;
}
