/* tilekern/error.h - why a function of the kernel library failed. */
#ifndef TILEKERN_ERROR_H
#define TILEKERN_ERROR_H

#include <tilert/tilert.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Text for the last failure of a tilekern function on this thread; valid until its next one; never NULL. */
TILERT_API const char *tilekern_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
