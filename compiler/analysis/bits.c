/* bits.c - sets as arrays of words in an arena. */
#include "compiler/analysis/bits.h"

#include <string.h>

Bits bits_new(Arena *a, int n)
{
	Bits s = { .words = n / 64 + 1 };
	s.word = ARENA_ARRAY(a, uint64_t, s.words);
	return s;
}

Bits bits_copy(Arena *a, const Bits *s)
{
	Bits copy = { .words = s->words, .word = ARENA_ARRAY(a, uint64_t, s->words) };
	memcpy(copy.word, s->word, sizeof *s->word * (size_t)s->words);
	return copy;
}

void bits_assign(Arena *a, Bits *to, const Bits *from)
{
	if (to->word)
		memcpy(to->word, from->word, sizeof *to->word * (size_t)from->words);
	else
		*to = bits_copy(a, from);
}

bool bits_join(Bits *s, const Bits *other)
{
	uint64_t grown = 0;
	for (int i = 0; i < s->words; i++) {
		grown |= other->word[i] & ~s->word[i];
		s->word[i] |= other->word[i];
	}
	return grown != 0;
}

void bits_meet(Bits *s, const Bits *other)
{
	for (int i = 0; i < s->words; i++)
		s->word[i] &= other->word[i];
}

void bits_clear(Bits *s)
{
	memset(s->word, 0, sizeof *s->word * (size_t)s->words);
}

bool bits_empty(const Bits *s)
{
	uint64_t any = 0;
	for (int i = 0; i < s->words; i++)
		any |= s->word[i];
	return any == 0;
}
