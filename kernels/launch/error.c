#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char error_text[512];

const char *tilekern_last_error(void)
{
	return error_text;
}

tilert_status launch_fail(tilert_status s, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(error_text, sizeof error_text, format, args);
	va_end(args);
	return s;
}

tilert_status launch_passed_on(tilert_status s, const char *who)
{
	return s == TILERT_OK ? s : launch_fail(s, "%s: %s", who, tilert_last_error());
}

int tilekern_version(void) { return TILEKERN_VERSION; }
