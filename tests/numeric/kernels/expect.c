/* expect.c - what tests of several operators demand. */
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/numeric.h"

void expect_same(const char *what, const float *x, const float *y, int64_t n)
{
	for (int64_t i = 0; i < n && x && y; i++) {
		if (memcmp(x + i, y + i, sizeof *x) != 0)
			fail_msg("%s: element %lld is %.9g and %.9g", what, (long long)i, (double)x[i], (double)y[i]);
	}
}

void expect_words(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (!strstr(text, *words))
			fail_msg("no '%s' in: %s", *words, text);
	}
}
