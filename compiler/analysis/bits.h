/* bits.h - sets of the numbers 0 .. n - 1. */
#ifndef TILE_BITS_H
#define TILE_BITS_H

#include <stdbool.h>
#include <stdint.h>

#include "dsl/support/arena.h"

typedef struct Bits { int words; uint64_t *word; } Bits;

Bits bits_new(Arena *a, int n);
Bits bits_copy(Arena *a, const Bits *s);
void bits_assign(Arena *a, Bits *to, const Bits *from); /* to: zeroes, or of the same n */
bool bits_join(Bits *s, const Bits *other); /* true when it grew */
void bits_meet(Bits *s, const Bits *other);
void bits_clear(Bits *s);
bool bits_empty(const Bits *s);

static inline bool bits_has(const Bits *s, int i) { return s->word[i / 64] >> i % 64 & 1; }
static inline void bits_add(Bits *s, int i) { s->word[i / 64] |= (uint64_t)1 << i % 64; }
static inline void bits_drop(Bits *s, int i) { s->word[i / 64] &= ~((uint64_t)1 << i % 64); }

#endif
