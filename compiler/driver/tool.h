/* tool.h - programs of the CUDA toolkit: where they are, and running one. */
#ifndef TILE_DRIVER_TOOL_H
#define TILE_DRIVER_TOOL_H

#include "dsl/support/arena.h"

/* `option`, the environment's `variable`, PATH, /usr/local/cuda/bin; NULL when there is none. */
const char *tool_find(Arena *a, const char *name, const char *option, const char *variable);

/* Runs argv with its output in the file `log`; the exit status, or -1 with a sentence in *error. */
int tool_run(Arena *a, const char *const *argv, const char *log, const char **error);

/* A new folder for its files; NULL with a sentence in *error. */
const char *tool_folder(Arena *a, const char **error);

#endif
