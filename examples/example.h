/* example.h - what the examples' programs share: they end with a message where something fails. */
#ifndef TILE_EXAMPLE_H
#define TILE_EXAMPLE_H

#include <stddef.h>
#include <tilert/tilert.h>

void check(tilert_status s, const char *what);
void *memory(size_t n, size_t size); /* zeros */
/* A GPU where there is one and `cpu` is not set. */
tilert_device *open_device(int cpu, tilert_device_info *info);
/* A tensor of these extents (0: no more of them), with `data`, or full of NaN. */
tilert_arg tensor(tilert_device *d, const char *name, tilert_dtype t, const int64_t extents[4], const void *data);
void *downloaded(tilert_device *d, const tilert_arg *a);
/* Milliseconds that n launches take together: the median of some rounds. */
double milliseconds(tilert_device *d, tilert_prepared *const *launches, int n);

#endif
