/* tool.h - for test programs that run tilec: files, shell commands, temporary names. */
#ifndef TILE_TESTS_TOOL_H
#define TILE_TESTS_TOOL_H

#include <stdbool.h>
#include <stddef.h>

/* NUL-terminated, to be freed; NULL when the file cannot be read. */
char *file_read(const char *path, size_t *len);
bool file_write(const char *path, const char *data, size_t len);
bool file_exists(const char *path);

/* Runs a shell command; standard output and error together, to be freed.  *status is the exit status, -1 after a signal. */
__attribute__((format(printf, 2, 3))) char *shell(int *status, const char *fmt, ...);

/* To be freed. */
__attribute__((format(printf, 1, 2))) char *text_of(const char *fmt, ...);

/* A new empty file in $TMPDIR that ends in `suffix`; its name is to be freed. */
char *temporary_file(const char *suffix);

#endif
