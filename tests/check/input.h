/* input.h - what the inputs of the attention kernels have in common. */
#ifndef TILE_KERNELS_INPUT_H
#define TILE_KERNELS_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "tests/check/random.h"

/* x / sqrt(sum of squares + 1e-6) */
void input_normalise(float *x, int64_t n);
/* log(sigmoid(4 + normal)): a half-life of about 25 tokens */
float input_mild_gate(Random *r);
/* sigmoid(normal) */
float input_sigmoid(Random *r);
/* malloc of n elements, at least one. */
void *input_array(int64_t n, size_t size);

#endif
