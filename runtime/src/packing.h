/* packing.h - what blobs of modules are packed with, both ways (MODULE.md): a coder of bits by their probabilities, and what a copy and a new byte are in bits.
 * unpack.c reads with it, compiler/driver/pack.c writes; each coding function does either, and gives the value that was coded. */
#ifndef TILE_RUNTIME_PACKING_H
#define TILE_RUNTIME_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	PACK_DISTANCES = 4,    /* of copies before, which are named by their age */
	PACK_LEAST = 2,        /* bytes of a copy from another distance, at least; from one of these 1 */
	PACK_COLUMNS = 16,     /* positions are told apart modulo 16, an instruction of a cubin */
	PACK_KINDS = 4,        /* whether each of the last two was a copy */
	PACK_CLASSES = 32,     /* numbers of so many binary digits */
	PACK_TOP = 4, PACK_LOW = 4, /* digits of a number that have probabilities: those behind the first, and the last */
};

/* That the next bit is 0, of 2^16: the mean of two, one of which learns fast. */
typedef struct PackBit { uint16_t fast, slow; } PackBit;

typedef struct PackNumber {
	PackBit class[PACK_CLASSES], top[PACK_CLASSES][1 << PACK_TOP], low[1 << PACK_LOW];
} PackNumber;

typedef struct PackModel {
	PackBit copy[PACK_KINDS][PACK_COLUMNS], known[PACK_KINDS], age[PACK_DISTANCES - 1], literal[PACK_COLUMNS][3 << 8];
	PackNumber length[2], distance[PACK_DISTANCES];
	size_t distances[PACK_DISTANCES]; /* the last one first */
	unsigned kind;
	bool columns;          /* new bytes are told apart by their position, else by the byte before */
} PackModel;

typedef struct PackCoder {
	uint32_t range, code;  /* code: of the reader */
	const uint8_t *in, *in_end;
	uint64_t low;          /* of the writer, from here on */
	void (*put)(void *to, uint8_t byte);
	void *to;
	uint8_t held;          /* the last byte, and how many of 255 behind it, which a carry would change */
	size_t held_more;
	bool writes, begun, damaged;
	const float *of_chance; /* bits of a chance, of 2^8 */
	float *bits;           /* where it only asks: how many it would take; the model then learns nothing */
} PackCoder;

static inline void pack_model_init(PackModel *m, bool columns)
{
	PackBit *all = (PackBit *)m;
	for (size_t i = 0; i < offsetof(PackModel, distances) / sizeof(PackBit); i++)
		all[i] = (PackBit){ 1 << 15, 1 << 15 };
	for (int i = 0; i < PACK_DISTANCES; i++)
		m->distances[i] = 1;
	m->kind = 0;
	m->columns = columns;
}

/* 1 .. 2^15 - 1, of 2^15. */
static inline uint32_t pack_chance(const PackBit *b) { return ((uint32_t)b->fast + b->slow) >> 2 | 1; }

static inline void pack_learn(PackBit *b, unsigned bit)
{
	b->fast = (uint16_t)(bit ? b->fast - (b->fast >> 4) : b->fast + ((65535 - b->fast) >> 4));
	b->slow = (uint16_t)(bit ? b->slow - (b->slow >> 6) : b->slow + ((65535 - b->slow) >> 6));
}

/* The highest byte of low goes, once no carry can change it. */
static inline void pack_shift(PackCoder *c)
{
	if (c->low < 0xff000000u || c->low >> 32) {
		const uint8_t carry = (uint8_t)(c->low >> 32);
		if (c->begun)
			c->put(c->to, (uint8_t)(c->held + carry));
		for (; c->held_more; c->held_more--)
			c->put(c->to, (uint8_t)(0xff + carry));
		c->held = (uint8_t)(c->low >> 24);
		c->begun = true;
	} else {
		c->held_more++;
	}
	c->low = (c->low & 0x00ffffff) << 8;
}

static inline uint8_t pack_byte(PackCoder *c)
{
	if (c->in < c->in_end)
		return *c->in++;
	c->damaged = true;
	return 0;
}

/* A bit that is 0 in `below` of the range. */
static inline unsigned pack_split(PackCoder *c, uint32_t below, unsigned bit)
{
	if (c->bits) {
		*c->bits += 1;
		return bit;
	}
	if (!c->writes)
		bit = c->code >= below;
	if (bit) {
		c->range -= below;
		c->low += below;
		c->code -= below;
	} else {
		c->range = below;
	}
	while (c->range < 1u << 24) {
		c->range <<= 8;
		if (c->writes)
			pack_shift(c);
		else
			c->code = c->code << 8 | pack_byte(c);
	}
	return bit;
}

static inline unsigned pack_bit(PackCoder *c, PackBit *b, unsigned bit)
{
	if (c->bits) {
		*c->bits += c->of_chance[(bit ? (1u << 15) - pack_chance(b) : pack_chance(b)) >> 7];
		return bit;
	}
	bit = pack_split(c, (c->range >> 15) * pack_chance(b), bit);
	pack_learn(b, bit);
	return bit;
}

/* `bits` bits, the highest first; tree has 2^bits. */
static inline unsigned pack_tree(PackCoder *c, PackBit *tree, unsigned bits, unsigned v)
{
	unsigned node = 1;
	for (unsigned i = bits; i-- > 0;)
		node = node << 1 | pack_bit(c, &tree[node], v >> i & 1);
	return node - (1u << bits);
}

/* How many digits v + 1 has behind its first. */
static inline unsigned pack_class(uint32_t v)
{
	unsigned n = 0;
	for (v++; v > 1; v >>= 1)
		n++;
	return n;
}

/* Of these, those that have probabilities: behind the first, and the last. */
static inline unsigned pack_top(unsigned class) { return class < PACK_TOP ? class : PACK_TOP; }
static inline unsigned pack_low(unsigned class) { return class - pack_top(class) < PACK_LOW ? class - pack_top(class) : PACK_LOW; }

/* Below 2^31 - 1. */
static inline uint32_t pack_number(PackCoder *c, PackNumber *n, uint32_t v)
{
	const unsigned class = pack_tree(c, n->class, 5, pack_class(v)), top = pack_top(class), low = pack_low(class);
	uint32_t digits = pack_tree(c, n->top[class], top, (v + 1) >> (class - top) & ((1u << top) - 1));
	digits |= 1u << top;
	for (unsigned i = class - top; i-- > low;)
		digits = digits << 1 | pack_split(c, c->range >> 1, (v + 1) >> i & 1);
	return (digits << low | pack_tree(c, n->low, low, (v + 1) & ((1u << low) - 1))) - 1;
}

static inline PackBit *pack_literals(PackModel *m, size_t at, unsigned before) { return m->literal[m->columns ? at % PACK_COLUMNS : before >> 4]; }

/* A new byte.  Behind a copy it is most likely near what the copy would have gone on with, and never that. */
static inline unsigned pack_literal(PackCoder *c, PackModel *m, const uint8_t *begin, size_t at, unsigned v)
{
	PackBit *tree = pack_literals(m, at, at ? begin[at - 1] : 0);
	unsigned node = 1;
	int i = 7;
	if (m->kind & 1) {
		const unsigned likely = begin[at - m->distances[0]];
		for (bool same = true; i >= 0 && same; i--) {
			const unsigned digit = likely >> i & 1, bit = pack_bit(c, &tree[((1 + digit) << 8) + node], v >> i & 1);
			node = node << 1 | bit;
			same = bit == digit;
		}
	}
	for (; i >= 0; i--)
		node = node << 1 | pack_bit(c, &tree[node], v >> i & 1);
	m->kind = m->kind << 1 & (PACK_KINDS - 1);
	return node & 0xff;
}

static inline unsigned pack_is_copy(PackCoder *c, PackModel *m, size_t at, unsigned v)
{
	return pack_bit(c, &m->copy[m->kind][m->columns ? at % PACK_COLUMNS : 0], v);
}

/* age: of the copy's distance, or PACK_DISTANCES where it is another. */
static inline void pack_remember(PackModel *m, unsigned age, size_t distance)
{
	for (unsigned i = age < PACK_DISTANCES ? age : PACK_DISTANCES - 1; i > 0; i--)
		m->distances[i] = m->distances[i - 1];
	m->distances[0] = distance;
	m->kind = (m->kind << 1 | 1) & (PACK_KINDS - 1);
}

static inline unsigned pack_age(PackCoder *c, PackModel *m, unsigned age)
{
	unsigned n = 0;
	if (!pack_bit(c, &m->known[m->kind], age < PACK_DISTANCES))
		return PACK_DISTANCES;
	while (n < PACK_DISTANCES - 1 && pack_bit(c, &m->age[n], age > n))
		n++;
	return n;
}

/* Distances of short copies are told apart by their length. */
static inline unsigned pack_distance_kind(size_t length) { return length - PACK_LEAST < PACK_DISTANCES ? (unsigned)(length - PACK_LEAST) : PACK_DISTANCES - 1; }

/* A copy: its distance becomes the first of the model's.  Gives its length. */
static inline size_t pack_copy(PackCoder *c, PackModel *m, unsigned age, size_t length, size_t distance)
{
	age = pack_age(c, m, age);
	const unsigned known = age < PACK_DISTANCES, least = known ? 1 : PACK_LEAST;
	length = pack_number(c, &m->length[known], (uint32_t)(length - least)) + least;
	if (known)
		distance = m->distances[age];
	else
		distance = (size_t)pack_number(c, &m->distance[pack_distance_kind(length)], (uint32_t)(distance - 1)) + 1;
	pack_remember(m, age, distance);
	return length;
}

#endif
