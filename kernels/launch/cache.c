#include "cache.h"

#include <stdlib.h>
#include <string.h>

/* Keys are a multiple of 8 bytes but for the last few. */
static uint64_t hash(const unsigned char *key, size_t bytes)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ bytes, word;
	for (size_t at = 0; at < bytes; at += 8) {
		word = 0;
		memcpy(&word, key + at, bytes - at < 8 ? bytes - at : 8);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}

Call *call_new(const void *key, size_t bytes)
{
	Call *c = calloc(1, sizeof *c + bytes);
	if (!c)
		return NULL;
	c->users = 1;
	c->key = (unsigned char *)(c + 1);
	c->key_bytes = bytes;
	if (bytes)
		memcpy(c->key, key, bytes);
	c->hash = hash(c->key, bytes);
	return c;
}

void call_free(Call *c)
{
	if (!c)
		return;
	tilert_chain_destroy(c->chain);
	for (int i = 0; i < c->n; i++)
		tilert_prepared_destroy(c->launch[i]);
	free(c);
}

int cache_init(Cache *c)
{
	memset(c->set, 0, sizeof c->set);
	return pthread_mutex_init(&c->lock, NULL);
}

void cache_clear(Cache *c)
{
	for (int i = 0; i < CACHE_SETS; i++) {
		for (int j = 0; j < CACHE_WAYS; j++)
			call_free(c->set[i].way[j]);
	}
	pthread_mutex_destroy(&c->lock);
}

static Call *find(Cache *c, uint64_t h, const void *key, size_t bytes)
{
	for (int i = 0; i < CACHE_WAYS; i++) {
		Call *call = c->set[h % CACHE_SETS].way[i];
		if (call && call->hash == h && call->key_bytes == bytes && memcmp(call->key, key, bytes) == 0)
			return call;
	}
	return NULL;
}

Call *cache_find(Cache *c, const void *key, size_t bytes)
{
	const uint64_t h = hash(key, bytes);
	pthread_mutex_lock(&c->lock);
	Call *call = find(c, h, key, bytes);
	if (call)
		call->users++;
	pthread_mutex_unlock(&c->lock);
	return call;
}

/* Whether nobody uses it any more. */
static bool drop(Call *call) { return call && --call->users == 0; }

void cache_keep(Cache *c, Call *call)
{
	unsigned set = call->hash % CACHE_SETS;
	pthread_mutex_lock(&c->lock);
	Call **way = &c->set[set].way[c->set[set].next++ % CACHE_WAYS], *old = *way;
	*way = call;
	call->users++;
	bool unused = drop(old);
	pthread_mutex_unlock(&c->lock);
	if (unused)
		call_free(old);
}

void cache_release(Cache *c, Call *call)
{
	pthread_mutex_lock(&c->lock);
	bool unused = drop(call);
	pthread_mutex_unlock(&c->lock);
	if (unused)
		call_free(call);
}
