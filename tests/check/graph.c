#include "tests/check/graph.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The entry points of cuda.h that graphs need. */
typedef struct Driver {
	int (*stream_context)(tilert_stream, void **context);
	int (*set_current)(void *context);
	int (*begin_capture)(tilert_stream, int mode);
	int (*end_capture)(tilert_stream, void **graph);
	int (*instantiate)(void **exec, void *graph, uint64_t flags);
	int (*launch)(void *exec, tilert_stream);
	int (*exec_destroy)(void *);
	int (*destroy)(void *);
} Driver;

struct Graph {
	Driver d;
	void *graph, *exec;
};

static const char *open_driver(Driver *d)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	const struct { const char *name; void *slot; } symbols[] = {
		{ "cuStreamGetCtx", &d->stream_context }, { "cuCtxSetCurrent", &d->set_current },
		{ "cuStreamBeginCapture_v2", &d->begin_capture }, { "cuStreamEndCapture", &d->end_capture },
		{ "cuGraphInstantiateWithFlags", &d->instantiate }, { "cuGraphLaunch", &d->launch },
		{ "cuGraphExecDestroy", &d->exec_destroy }, { "cuGraphDestroy", &d->destroy },
	};
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		*(void **)symbols[i].slot = lib ? dlsym(lib, symbols[i].name) : NULL;
		if (!*(void **)symbols[i].slot)
			return symbols[i].name;
	}
	return NULL;
}

static const char *capture(Graph *g, void (*work)(void *, tilert_stream), void *user, tilert_stream stream)
{
	enum { CAPTURE_GLOBAL = 0 }; /* refuses what might wait, from every thread */
	void *context;
	const char *missing = open_driver(&g->d);
	if (missing)
		return missing;
	if (g->d.stream_context(stream, &context) != 0)
		return "cuStreamGetCtx";
	if (g->d.set_current(context) != 0)
		return "cuCtxSetCurrent";
	if (g->d.begin_capture(stream, CAPTURE_GLOBAL) != 0)
		return "cuStreamBeginCapture";
	work(user, stream);
	if (g->d.end_capture(stream, &g->graph) != 0)
		return "cuStreamEndCapture";
	return g->d.instantiate(&g->exec, g->graph, 0) != 0 ? "cuGraphInstantiate" : NULL;
}

Graph *graph_record(void (*work)(void *, tilert_stream), void *user, tilert_stream stream, const char **failed)
{
	Graph *g = calloc(1, sizeof *g);
	*failed = g ? capture(g, work, user, stream) : "malloc";
	if (!*failed)
		return g;
	graph_free(g);
	return NULL;
}

bool graph_launch(Graph *g, tilert_stream stream)
{
	return g->d.launch(g->exec, stream) == 0;
}

void graph_free(Graph *g)
{
	if (!g)
		return;
	if (g->exec)
		g->d.exec_destroy(g->exec);
	if (g->graph)
		g->d.destroy(g->graph);
	free(g);
}
