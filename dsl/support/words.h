/* words.h - what the language has in place of words that others have. */
#ifndef TILE_SUPPORT_WORDS_H
#define TILE_SUPPORT_WORDS_H

/* A word of the language with the same meaning, "f32" for "float"; NULL: there is none. */
const char *word_meant(const char *foreign);
/* A sentence about what to write instead; NULL: there is none. */
const char *word_explained(const char *foreign);

#endif
