/* cache.h - calls that were prepared before: the same parameters queue the same kernels. */
#ifndef TILE_LAUNCH_CACHE_H
#define TILE_LAUNCH_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <tilert/tilert.h>

/* What a prepared call queues, in this order.  Of a cache: while it is used it stays, though the cache may have let go of it. */
enum { MAX_LAUNCHES = 16 };
typedef struct Call {
	tilert_prepared *launch[MAX_LAUNCHES];
	tilert_chain *chain; /* of them all, or NULL */
	int n, users;
	uint64_t hash;
	size_t key_bytes;
	unsigned char *key;
} Call;

/* What is not used any more: its kernels and itself. */
void call_free(Call *c);

/* Sets of a few calls with equal low bits of their hashes; one that comes takes the place of the oldest. */
enum { CACHE_SETS = 64, CACHE_WAYS = 4 };
typedef struct Cache {
	pthread_mutex_t lock;
	struct { Call *way[CACHE_WAYS]; unsigned next; } set[CACHE_SETS];
} Cache;

int cache_init(Cache *c); /* 0, or what pthread_mutex_init says */
void cache_clear(Cache *c);
/* The call with this key, now used once more; or NULL. */
Call *cache_find(Cache *c, const void *key, size_t bytes);
/* Keeps a call that is used once, by the caller. */
void cache_keep(Cache *c, Call *call);
/* The caller uses it no more. */
void cache_release(Cache *c, Call *call);

/* A call with a key, used by the caller; or NULL. */
Call *call_new(const void *key, size_t bytes);

#endif
