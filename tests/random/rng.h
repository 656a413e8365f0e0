/* rng.h - splitmix64: the same numbers on every machine. */
#ifndef TILE_RANDOM_RNG_H
#define TILE_RANDOM_RNG_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Rng { uint64_t state; } Rng;

static inline uint64_t rng_next(Rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* 0 to n - 1. */
static inline int rng_below(Rng *r, int n) { return (int)(rng_next(r) >> 33) % n; }
static inline int rng_between(Rng *r, int lo, int hi) { return lo + rng_below(r, hi - lo + 1); }
/* True n times of 100. */
static inline bool rng_percent(Rng *r, int n) { return rng_below(r, 100) < n; }

#endif
