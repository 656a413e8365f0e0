/* float16.h - bf16 and fp16 as 16-bit patterns, on the host. */
#ifndef TILE_KERNELS_FLOAT16_H
#define TILE_KERNELS_FLOAT16_H

#include <stddef.h>
#include <stdint.h>

/* Round to nearest even; NaN stays NaN, values out of range become infinite. */
uint16_t bf16_from_float(float x);
uint16_t fp16_from_float(float x);
float bf16_to_float(uint16_t x);
float fp16_to_float(uint16_t x);

void bf16_array_to_float(const uint16_t *in, float *out, size_t n);

#endif
