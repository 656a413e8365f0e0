/* pool.c - memory that lives and dies with one module: a list of blocks. */
#include "runtime/src/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct PoolBlock {
	PoolBlock *next;
	alignas(max_align_t) unsigned char bytes[];
};

void *rt_pool_alloc(Pool *p, size_t count, size_t size)
{
	if (size && count > (SIZE_MAX - sizeof(PoolBlock)) / size)
		return NULL;
	PoolBlock *b = calloc(1, sizeof *b + count * size);
	if (!b)
		return NULL;
	b->next = p->blocks;
	p->blocks = b;
	return b->bytes;
}

char *rt_pool_string(Pool *p, const char *text, size_t length)
{
	char *s = rt_pool_alloc(p, length + 1, 1);

	if (s)
		memcpy(s, text, length);
	return s;
}

void *rt_pool_grow(Pool *p, void *array, size_t count, size_t size)
{
	if (array && (count & (count - 1)))
		return array; /* not yet at a power of two: there is room */
	void *bigger = rt_pool_alloc(p, count ? 2 * count : 1, size);
	if (bigger && count)
		memcpy(bigger, array, count * size);
	return bigger;
}

void rt_pool_free(Pool *p)
{
	while (p->blocks) {
		PoolBlock *b = p->blocks;
		p->blocks = b->next;
		free(b);
	}
}
