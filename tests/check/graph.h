/* graph.h - work on a CUDA stream, recorded once as a graph and replayed, by the driver's own functions. */
#ifndef TILE_KERNELS_GRAPH_H
#define TILE_KERNELS_GRAPH_H

#include <stdbool.h>
#include <tilert/tilert.h>

typedef struct Graph Graph;

/* Records what `work` queues on `stream`, not the default one.  On failure NULL, and `failed` tells which function of the driver. */
Graph *graph_record(void (*work)(void *user, tilert_stream), void *user, tilert_stream stream, const char **failed);
bool graph_launch(Graph *g, tilert_stream stream);
void graph_free(Graph *g);

#endif
