/* tools.h - what the tester does beside running programs. */
#ifndef TILE_RANDOM_TOOLS_H
#define TILE_RANDOM_TOOLS_H

#include <stdint.h>

/* Prints the smallest program found that fails as this seed's does. */
int reduce(uint64_t seed, int opt_level);
/* Writes modules, inputs' recipes and digests of what must come out for random_runner. */
int pack_programs(const char *folder, uint64_t first, uint64_t count);

#endif
