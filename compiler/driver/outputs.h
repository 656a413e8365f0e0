/* outputs.h - reads inputs whole and writes outputs whole or not at all. */
#ifndef TILE_DRIVER_OUTPUTS_H
#define TILE_DRIVER_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "dsl/support/arena.h"

enum { INPUT_LIMIT = 64 << 20 }; /* bytes */

bool input_exists(const char *path);
/* NUL-terminated beyond *len; NULL with a sentence in *error.  "-" is standard input; else a regular file or a pipe, of at most INPUT_LIMIT. */
char *input_read(Arena *a, const char *path, size_t *len, const char **error);

/* Writes to a temporary file beside `path`, or beside what it links to, and renames it; to devices and pipes directly; NULL, or a sentence.  "-" is standard output. */
const char *output_write(Arena *a, const char *path, const void *data, size_t len);

/* A text that grows; `data` is NUL-terminated once something was put. */
typedef struct Buffer { Arena *arena; char *data; size_t len, cap; } Buffer;
void buffer_bytes(Buffer *b, const void *data, size_t len);
__attribute__((format(printf, 2, 3))) void buffer_put(Buffer *b, const char *fmt, ...);

#endif
