#include "tests/check/random.h"

#include <math.h>

enum { TABLE = 4096 };

/* splitmix64 */
uint64_t random_bits(Random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

double random_unit(Random *r)
{
	return (double)(random_bits(r) >> 11) * 0x1p-53;
}

void random_init(Random *r, uint64_t seed)
{
	const double tau = 6.283185307179586;
	double square = 0;
	r->state = seed;
	for (int i = 0; i < TABLE; i += 2) { /* each value with its negative: the mean is exactly 0 */
		double x = sqrt(-2 * log(1 - random_unit(r))) * cos(tau * random_unit(r));
		square += 2 * x * x;
		r->normal[i] = (float)x;
		r->normal[i + 1] = (float)-x;
	}
	/* The sum of two draws has variance 1. */
	double factor = 1 / sqrt(2 * square / TABLE);
	for (int i = 0; i < TABLE; i++)
		r->normal[i] *= (float)factor;
}

float random_normal(Random *r)
{
	uint64_t x = random_bits(r);
	return r->normal[x >> 52] + r->normal[x >> 40 & (TABLE - 1)];
}

int64_t pick(Random *r, int64_t n) { return (int64_t)(random_bits(r) >> 33) % n; }
bool toss(Random *r) { return pick(r, 2) != 0; }
