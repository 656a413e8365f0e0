/* arena.h - bump allocation with one lifetime.
 *
 * What a compilation builds (text, AST, types, TIR) lives in one arena and
 * dies with it; passes never free.
 */
#ifndef TILE_SUPPORT_ARENA_H
#define TILE_SUPPORT_ARENA_H

#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a); /* accepts NULL */

/* Zeroed storage; out of memory ends the process, so callers need no check. */
void *arena_alloc(Arena *a, size_t size, size_t align);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);
__attribute__((format(printf, 2, 3))) char *arena_printf(Arena *a, const char *fmt, ...);

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T), alignof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n), alignof(T)))

#endif
