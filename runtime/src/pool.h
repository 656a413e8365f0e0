/* pool.h - memory that lives and dies with one module. */
#ifndef TILE_RUNTIME_POOL_H
#define TILE_RUNTIME_POOL_H

#include <stddef.h>

typedef struct PoolBlock PoolBlock;
typedef struct Pool {
	PoolBlock *blocks;
} Pool;

/* Zeroed memory, or NULL. */
void *rt_pool_alloc(Pool *p, size_t count, size_t size);
/* A NUL-terminated copy, or NULL. */
char *rt_pool_string(Pool *p, const char *text, size_t length);
/* `array` of `count` elements with room for one more (capacities are powers of two), or NULL. */
void *rt_pool_grow(Pool *p, void *array, size_t count, size_t size);
void rt_pool_free(Pool *p);

#endif
