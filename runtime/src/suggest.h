/* suggest.h - the name that was probably meant. */
#ifndef TILE_RUNTIME_SUGGEST_H
#define TILE_RUNTIME_SUGGEST_H

#include <stddef.h>

typedef struct Suggestion {
	const char *wrong, *best; /* best: NULL while nothing is near */
	unsigned distance;
} Suggestion;

/* Offers a candidate: the one fewest edits away is kept, when it is near. */
void rt_suggest(Suggestion *s, const char *candidate);
/* "; did you mean \"scale\"?" or "". */
const char *rt_suggest_text(const Suggestion *s, char *out, size_t size);

#endif
