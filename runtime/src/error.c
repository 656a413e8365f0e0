/* error.c - the thread's last error, status names and the version. */
#include "runtime/src/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef RT_VERSION_TEXT
#define RT_VERSION_TEXT "0.1.0"
#endif

enum { TEXT_BYTES = 8192 }; /* room for a PTX compilation log */

static _Thread_local char last_text[TEXT_BYTES];

tilert_status rt_fail(tilert_status s, const char *format, ...)
{
	char text[TEXT_BYTES]; /* the arguments may point into last_text */
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	memcpy(last_text, text, strlen(text) + 1);
	return s;
}

tilert_status rt_fail_in(tilert_status s, const char *prefix)
{
	return rt_fail(s, "%s: %s", prefix, last_text);
}

tilert_status rt_fail_memory(const char *what)
{
	return rt_fail(TILERT_ENOMEM, "out of memory for %s", what);
}

const char *tilert_last_error(void)
{
	return last_text;
}

const char *tilert_status_name(tilert_status s)
{
	switch (s) {
	case TILERT_OK: return "TILERT_OK";
	case TILERT_EINVAL: return "TILERT_EINVAL";
	case TILERT_ENOMEM: return "TILERT_ENOMEM";
	case TILERT_ENODRIVER: return "TILERT_ENODRIVER";
	case TILERT_ENODEV: return "TILERT_ENODEV";
	case TILERT_EARCH: return "TILERT_EARCH";
	case TILERT_EFORMAT: return "TILERT_EFORMAT";
	case TILERT_ENOENT: return "TILERT_ENOENT";
	case TILERT_EDEVICE: return "TILERT_EDEVICE";
	case TILERT_EIO: return "TILERT_EIO";
	}
	return "unknown status";
}

const char *tilert_version(void)
{
	return RT_VERSION_TEXT;
}
