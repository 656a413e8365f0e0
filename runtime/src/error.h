/* error.h - sets the text behind tilert_last_error(). */
#ifndef TILE_RUNTIME_ERROR_H
#define TILE_RUNTIME_ERROR_H

#include "tilert/tilert.h"

#if defined(__GNUC__)
#define RT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define RT_PRINTF(f, a)
#endif

/* Records the sentence and returns `s`, so that a caller can `return rt_fail(...)`. */
tilert_status rt_fail(tilert_status s, const char *format, ...) RT_PRINTF(2, 3);

/* Puts `prefix` and ": " before the text of the failure being returned. */
tilert_status rt_fail_in(tilert_status s, const char *prefix);

/* The failure of an allocation on the host. */
tilert_status rt_fail_memory(const char *what);

#endif
