/* options.h - the command line of tilerun. */
#ifndef TILE_TOOLS_OPTIONS_H
#define TILE_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct NameValue {
	char *name;
	const char *value;
} NameValue;

typedef struct NameValues {
	NameValue *items;
	size_t count;
} NameValues;

typedef struct Options {
	const char *file, *kernel, *device;
	const char *trace; /* where the timeline of stamp() goes, or NULL */
	NameValues args, dims, scalars, outs, compares, sweeps;
	const char **compiler_flags; /* -D NAME=v and -I DIR, for tilec */
	size_t n_compiler_flags;
	double tolerance; /* negative: by the tensor's type */
	double timeout;   /* of the CPU device, seconds */
	uint64_t seed;
	unsigned threads; /* of the CPU device; 0: all cores */
	unsigned seeds;   /* to run with, from `seed` on */
	bool list, json, time, no_race_check, no_arithmetic_check;
	unsigned repeats; /* 0: the device's default */
} Options;

/* Leaves the program for --help, --version and mistakes. */
void options_parse(Options *o, int argc, char **argv);
void options_free(Options *o);
const char *options_find(const NameValues *list, const char *name); /* the value, or NULL */

#endif
