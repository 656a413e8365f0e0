/* compare.h - how far a tensor is from a reference, and what is in it. */
#ifndef TILE_TOOLS_COMPARE_H
#define TILE_TOOLS_COMPARE_H

#include <stdbool.h>

#include "runtime/tools/tensor.h"

typedef struct Difference {
	double max_abs;
	double rms_ratio;  /* RMS of the difference over RMS of the reference (over 1 when that is 0) */
	size_t mismatched; /* NaN or infinite on one side only */
} Difference;

/* Two columns of `count` numbers, read through the callbacks. */
typedef double (*ElementReader)(const void *context, size_t i);
Difference compare_numbers(size_t count, ElementReader a, const void *a_context, ElementReader b, const void *b_context);

/* Prints one line and returns whether the tensor is within the tolerance. */
bool compare_with_file(const HostTensor *t, const char *path, double tolerance);
/* Prints shape, least, largest, mean and the number of NaN. */
void print_summary(const HostTensor *t);

#endif
