/* tool.h - programs of the CUDA toolkit: where they are, and running one. */
#ifndef TILE_DRIVER_TOOL_H
#define TILE_DRIVER_TOOL_H

#include <signal.h>
#include <stdbool.h>

#include "dsl/support/arena.h"

/* `option`, the environment's `variable`, PATH, /usr/local/cuda/bin; NULL when there is none. */
const char *tool_find(Arena *a, const char *name, const char *option, const char *variable);

/* A new folder for a tool's files.  Signals that end tilec wait until its end, before which the files are removed. */
typedef struct ToolFolder { const char *path; sigset_t before; } ToolFolder;
bool tool_folder_begin(Arena *a, ToolFolder *f, const char **error); /* false with a sentence in *error */
void tool_folder_end(const ToolFolder *f);

/* Runs argv with its output in the file `log`; the exit status, or -1 with a sentence in *error.  Signals that end tilec end the tool, too. */
int tool_run(Arena *a, const ToolFolder *f, const char *const *argv, const char *log, const char **error);

#endif
