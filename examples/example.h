/* example.h - what the examples' programs share: they end with a message where something fails. */
#ifndef TILE_EXAMPLE_H
#define TILE_EXAMPLE_H

#include <stddef.h>
#include <stdint.h>
#include <tilert/tilert.h>

#include "tests/check/random.h"

void check(tilert_status s, const char *what);
void *memory(size_t n, size_t size); /* zeros */
uint16_t *normal_bf16(Random *r, int64_t n, float size);

/* The device of this name; NULL: a GPU where there is one, else the CPU device. */
tilert_device *open_device(const char *name, tilert_device_info *info);
/* A tensor of these extents (0: no more of them), with `data`, or full of NaN. */
tilert_arg tensor(tilert_device *d, const char *name, tilert_dtype t, const int64_t extents[4], const void *data);
void *downloaded(tilert_device *d, const tilert_arg *a);

/* A kernel that has run once. */
typedef struct Launch {
	tilert_device *device;
	tilert_module *module;
	tilert_prepared *prepared;
} Launch;
Launch launched(tilert_device *d, const char *module, const char *kernel, const tilert_arg *args, size_t n);
/* Frees the tensors and closes all. */
void finish(Launch *l, const tilert_arg *args, size_t n);
/* Milliseconds that n launches take together: the median of some rounds. */
double milliseconds(tilert_device *d, tilert_prepared *const *launches, int n);

/* What results differ by; one that is not finite makes the error infinite. */
typedef struct Error { double difference, square; } Error;
void compare(Error *e, double want, double got);
/* Relative root of mean squares; rounding results to bf16 alone gives .0017. */
double relative(const Error *e);

#endif
