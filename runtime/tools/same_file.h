/* same_file.h - whether two paths lead to one file. */
#ifndef TILE_TOOLS_SAME_FILE_H
#define TILE_TOOLS_SAME_FILE_H

#include <stdbool.h>

/* What is written to one would be lost by writing to the other: regular files, and names of what is not there yet.  Devices and pipes may be written to by several. */
bool is_same_file(const char *a, const char *b);

#endif
