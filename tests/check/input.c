#include "tests/check/input.h"

#include <math.h>
#include <stdlib.h>

void input_normalise(float *x, int64_t n)
{
	double square = 0;
	for (int64_t i = 0; i < n; i++)
		square += (double)x[i] * (double)x[i];
	float factor = (float)(1 / sqrt(square + 1e-6));
	for (int64_t i = 0; i < n; i++)
		x[i] *= factor;
}

float input_mild_gate(Random *r)
{
	return -log1pf(expf(-4 - random_normal(r)));
}

float input_sigmoid(Random *r)
{
	return 1 / (1 + expf(-random_normal(r)));
}

void *input_array(int64_t n, size_t size)
{
	return malloc(n > 0 ? (size_t)n * size : 1);
}
