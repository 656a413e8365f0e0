/* print.c - print() of kernels, and their clock. */
#define _DEFAULT_SOURCE
#include "runtime/cpu/cta.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SPEC_SIZE = 32, LINE_SIZE = 4096, LONGEST = 2048 }; /* of one argument, whose width and precision have three digits */

/* Formats one argument by a conversion like %-8.3f; integers have 64 bits where it says ll, else 32. */
static int format_one(char *to, size_t size, const char *flags, bool wide, char conversion, uint64_t bits)
{
	char spec[SPEC_SIZE + 8];
	double real;

	memcpy(&real, &bits, sizeof real);
	switch (conversion) {
	case 'd':
	case 'i':
		snprintf(spec, sizeof spec, "%%%slld", flags);
		return snprintf(to, size, spec, wide ? (long long)bits : (long long)(int32_t)bits);
	case 'u':
	case 'x':
	case 'X':
	case 'o':
		snprintf(spec, sizeof spec, "%%%sll%c", flags, conversion);
		return snprintf(to, size, spec, wide ? (unsigned long long)bits : (unsigned long long)(uint32_t)bits);
	case 'c':
		snprintf(spec, sizeof spec, "%%%sc", flags);
		return snprintf(to, size, spec, (int)bits);
	case 'f':
	case 'e':
	case 'g':
	case 'a':
	case 'F':
	case 'E':
	case 'G':
		snprintf(spec, sizeof spec, "%%%s%c", flags, conversion);
		return snprintf(to, size, spec, real);
	default:
		return snprintf(to, size, "%%%s%c", flags, conversion);
	}
}

void tilecpu_print(TileCpuThread *t, const char *format, uint32_t n, const uint64_t *args)
{
	char line[LINE_SIZE], flags[SPEC_SIZE];
	size_t at = 0;
	uint32_t used = 0;

	(void)t;
	flockfile(stdout); /* lines of different threads stay whole */
	for (const char *p = format; *p; p++) {
		size_t m = 0;
		bool wide = false;
		int wrote;

		if (sizeof line - at < LONGEST) {
			fwrite(line, 1, at, stdout);
			at = 0;
		}
		if (*p != '%' || p[1] == '%') {
			p += *p == '%';
			line[at++] = *p;
			continue;
		}
		for (p++; *p && strchr("-+ #0123456789.l", *p); p++) {
			wide |= *p == 'l';
			if (m < sizeof flags - 1 && *p != 'l')
				flags[m++] = *p;
		}
		flags[m] = '\0';
		if (!*p)
			break;
		wrote = format_one(line + at, sizeof line - at, flags, wide, *p, used < n ? args[used] : 0);
		used++;
		at = wrote > 0 && (size_t)wrote < sizeof line - at ? at + (size_t)wrote : sizeof line - 1;
	}
	fwrite(line, 1, at, stdout);
	fflush(stdout);
	funlockfile(stdout);
}

uint64_t tilecpu_clock(TileCpuThread *t)
{
	struct timespec now;

	(void)t;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
