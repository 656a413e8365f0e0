/* symbols.h - the addresses that compiled code may ask for by name. */
#ifndef TILE_CPU_SYMBOLS_H
#define TILE_CPU_SYMBOLS_H

/* NULL when the name is none of them. */
void *symbol_address(const char *name);

#endif
