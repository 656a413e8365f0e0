/* tool.h - leaving with a message, and memory that never fails, for tilerun. */
#ifndef TILE_TOOLS_TOOL_H
#define TILE_TOOLS_TOOL_H

#include <stddef.h>

enum { EXIT_OK = 0, EXIT_MISMATCH = 1, EXIT_USAGE = 2, EXIT_RUN = 3 };

#if defined(__GNUC__)
#define TOOL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define TOOL_NORETURN __attribute__((noreturn))
#else
#define TOOL_PRINTF(f, a)
#define TOOL_NORETURN
#endif

/* Prints "tilerun: ..." and exits. */
void tool_die(int code, const char *format, ...) TOOL_PRINTF(2, 3) TOOL_NORETURN;

void *tool_alloc(size_t count, size_t size); /* zeroed */
void *tool_grow(void *array, size_t count, size_t size); /* room for count elements */
char *tool_copy(const char *text, size_t length);

#endif
