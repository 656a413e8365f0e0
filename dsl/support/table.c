/* table.c - open addressing; at most half full. */
#include "dsl/support/table.h"

#include <stdint.h>
#include <string.h>

enum { FIRST_SIZE = 16 };

typedef struct Slot {
	const char *key; /* NULL: free */
	void *value;
} Slot;

struct Table {
	Arena *arena;
	Slot *slots;
	size_t size, used; /* size: a power of two */
};

Table *table_new(Arena *a)
{
	Table *t = ARENA_NEW(a, Table);

	t->arena = a;
	t->size = FIRST_SIZE;
	t->slots = ARENA_ARRAY(a, Slot, t->size);
	return t;
}

static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h ^ h >> 15;
}

/* The slot that has the key, or the free one where it belongs. */
static Slot *slot_of(const Table *t, const char *key)
{
	size_t i = hash(key) & (t->size - 1);

	while (t->slots[i].key && strcmp(t->slots[i].key, key) != 0)
		i = (i + 1) & (t->size - 1);
	return &t->slots[i];
}

static void grow(Table *t)
{
	Slot *old = t->slots;
	size_t n = t->size;

	t->size *= 2;
	t->slots = ARENA_ARRAY(t->arena, Slot, t->size);
	for (size_t i = 0; i < n; i++)
		if (old[i].key)
			*slot_of(t, old[i].key) = old[i];
}

void *table_get(const Table *t, const char *key)
{
	return slot_of(t, key)->value;
}

void table_set(Table *t, const char *key, void *value)
{
	Slot *s = slot_of(t, key);

	if (!s->key) {
		if (2 * ++t->used > t->size) {
			grow(t);
			s = slot_of(t, key);
		}
		s->key = key;
	}
	s->value = value;
}
