/* tool.h - leaving with a message, and memory that never fails, for tilerun. */
#ifndef TILE_TOOLS_TOOL_H
#define TILE_TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Ends the program if what was printed could not be written. */
void tool_check_output(void);

void *tool_alloc(size_t count, size_t size); /* zeroed */
void *tool_grow(void *array, size_t count, size_t size); /* room for count elements */
char *tool_copy(const char *text, size_t length);
/* An integer as the language has it, perhaps with a sign: decimal or 0x, none is octal; from 2^63 on its bits, where `is_u64`. */
bool tool_integer(const char *text, bool is_u64, int64_t *out);

#endif
