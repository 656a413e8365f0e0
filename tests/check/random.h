/* random.h - reproducible numbers for inputs: the same seed gives the same numbers everywhere. */
#ifndef TILE_KERNELS_RANDOM_H
#define TILE_KERNELS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Random {
	uint64_t state;
	float normal[4096]; /* a sample to draw from: normals of large tensors cost no logarithm */
} Random;

void random_init(Random *r, uint64_t seed);
uint64_t random_bits(Random *r);
double random_unit(Random *r); /* in [0, 1) */
float random_normal(Random *r);   /* mean 0, variance 1 */
int64_t pick(Random *r, int64_t n); /* 0 .. n - 1 */
bool toss(Random *r);

#endif
