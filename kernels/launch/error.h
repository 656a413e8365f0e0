/* error.h - the text of tilekern_last_error(). */
#ifndef TILE_LAUNCH_ERROR_H
#define TILE_LAUNCH_ERROR_H

#include <tilekern/call.h>

/* Sets the text and returns s. */
__attribute__((format(printf, 2, 3))) tilert_status launch_fail(tilert_status s, const char *format, ...);
/* What a function of the runtime returned, with our context before its text. */
tilert_status launch_passed_on(tilert_status s, const char *who);

#endif
