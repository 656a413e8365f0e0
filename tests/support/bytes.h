/* bytes.h - 8-bit floats by their definition, for tests: slow, and nothing of the product's. */
#ifndef TILE_TESTS_BYTES_H
#define TILE_TESTS_BYTES_H

#include <math.h>
#include <stdbool.h>

typedef struct ByteFormat { int mantissa, bias; bool infinite; unsigned largest; } ByteFormat;

static const ByteFormat byte_e4m3 = { 3, 7, false, 0x7e }, byte_e5m2 = { 2, 15, true, 0x7b };

static inline double byte_value(const ByteFormat *f, unsigned bits)
{
	unsigned e = (bits & 127) >> f->mantissa, m = bits & ((1u << f->mantissa) - 1);
	double fraction = m / (double)(1u << f->mantissa), v;

	if ((bits & 127) > f->largest)
		v = f->infinite && m == 0 ? INFINITY : NAN;
	else
		v = e ? (1 + fraction) * pow(2, (int)e - f->bias) : fraction * pow(2, 1 - f->bias);
	return bits & 128 ? -v : v;
}

/* The nearest number; of two the one whose last bit is 0, by looking at all; beyond the largest the largest. */
static inline unsigned byte_nearest(const ByteFormat *f, double x)
{
	unsigned best = 0;
	double least = INFINITY, size = fmin(fabs(x), byte_value(f, f->largest));

	if (isnan(x))
		return 0x7f;
	for (unsigned b = 0; b <= f->largest; b++) {
		double off = fabs(byte_value(f, b) - size);
		if (off < least || (off == least && b % 2 == 0)) {
			least = off;
			best = b;
		}
	}
	return best | (signbit(x) ? 128 : 0);
}

#endif
