/* compile.h - runs tilec on a .tile file. */
#ifndef TILE_TOOLS_COMPILE_H
#define TILE_TOOLS_COMPILE_H

#include <stddef.h>

#include "tilert/tilert.h"

/* Compiles it, target being an option of tilec, and loads the module; d may be NULL, `define` (NAME=VALUE, given before the flags), too.  Leaves the program when tilec fails. */
tilert_module *compile_and_open(tilert_device *d, const char *target, const char *path, const char *const *flags, size_t n_flags, const char *define);

#endif
