/* chain.c - prepared launches that are queued together. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/src/device.h"
#include "runtime/src/error.h"

struct tilert_chain {
	pthread_mutex_t lock; /* a graph is launched by one thread at a time */
	void *graph;          /* NULL: one by one */
	size_t n;
	tilert_prepared *launch[]; /* none with an empty grid */
};

static tilert_status check(tilert_prepared *const *p, size_t n, tilert_chain **out)
{
	if (!out || (n && !p))
		return rt_fail(TILERT_EINVAL, "tilert_chain_create: launches or out is NULL");
	for (size_t i = 0; i < n; i++) {
		if (!p[i])
			return rt_fail(TILERT_EINVAL, "tilert_chain_create: launch %zu is NULL", i);
		if (p[i]->device != p[0]->device)
			return rt_fail(TILERT_EINVAL, "tilert_chain_create: launch %zu is on another device than the first", i);
	}
	return TILERT_OK;
}

tilert_status tilert_chain_create(tilert_prepared *const *p, size_t n, tilert_chain **out)
{
	tilert_status s = check(p, n, out);

	if (s)
		return s;
	tilert_chain *c = calloc(1, sizeof *c + n * sizeof c->launch[0]);
	if (!c || pthread_mutex_init(&c->lock, NULL)) {
		free(c);
		return rt_fail_memory("a chain");
	}
	for (size_t i = 0; i < n; i++) {
		if (!p[i]->is_empty)
			c->launch[c->n++] = p[i];
	}
	if (c->n && p[0]->device->ops->graph_make)
		s = p[0]->device->ops->graph_make(c->launch, c->n, &c->graph);
	if (s)
		tilert_chain_destroy(c);
	else
		*out = c;
	return s;
}

static tilert_status launch_each(const tilert_chain *c, tilert_stream stream)
{
	tilert_status s = TILERT_OK;

	for (size_t i = 0; !s && i < c->n; i++)
		s = c->launch[i]->device->ops->launch(c->launch[i], stream);
	return s;
}

tilert_status tilert_chain_launch(tilert_chain *c, tilert_stream stream)
{
	if (!c)
		return rt_fail(TILERT_EINVAL, "tilert_chain_launch: NULL");
	if (!c->graph || c->launch[0]->device->ops->is_capturing(c->launch[0]->device, stream))
		return launch_each(c, stream);
	pthread_mutex_lock(&c->lock);
	tilert_status s = c->launch[0]->device->ops->graph_launch(c->launch[0]->device, c->graph, stream);
	pthread_mutex_unlock(&c->lock);
	return s;
}

void tilert_chain_destroy(tilert_chain *c)
{
	if (!c)
		return;
	if (c->graph)
		c->launch[0]->device->ops->graph_free(c->launch[0]->device, c->graph);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
