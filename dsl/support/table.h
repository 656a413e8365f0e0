/* table.h - a hash table from strings to pointers, in an arena. */
#ifndef TILE_SUPPORT_TABLE_H
#define TILE_SUPPORT_TABLE_H

#include "dsl/support/arena.h"

typedef struct Table Table;

Table *table_new(Arena *a);
/* NULL: there is none.  Keys are kept by the caller. */
void *table_get(const Table *t, const char *key);
void table_set(Table *t, const char *key, void *value);

#endif
