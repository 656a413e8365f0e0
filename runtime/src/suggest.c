/* suggest.c - the name that was probably meant: the nearest by edit distance. */
#include "runtime/src/suggest.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LENGTH = 64 };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;
	return m < c ? m : c;
}

/* Levenshtein's distance, one row at a time. */
static unsigned edit_distance(const char *a, const char *b)
{
	size_t n = strlen(b);
	unsigned row[MAX_LENGTH + 1];

	if (strlen(a) > MAX_LENGTH || n > MAX_LENGTH)
		return MAX_LENGTH;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			unsigned above = row[j];
			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[n];
}

void rt_suggest(Suggestion *s, const char *candidate)
{
	size_t n = strlen(s->wrong);
	unsigned limit = n <= 2 ? 1 : n <= 5 ? 2 : 3;
	unsigned d = edit_distance(s->wrong, candidate);

	if (d <= limit && d < n && (!s->best || d < s->distance)) {
		s->best = candidate;
		s->distance = d;
	}
}

const char *rt_suggest_text(const Suggestion *s, char *out, size_t size)
{
	if (s->best)
		snprintf(out, size, "; did you mean \"%s\"?", s->best);
	else
		out[0] = 0;
	return out;
}
