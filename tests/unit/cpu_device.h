/* cpu_device.h - runs kernels written in C on the CPU device. */
#ifndef TILE_TESTS_CPU_DEVICE_H
#define TILE_TESTS_CPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/abi/cpu_abi.h"

enum { SEEDS = 24 };
#define NO_SLOT UINT32_MAX

extern char error[8192]; /* of the last run */

typedef struct Run {
	TileCpuKernel kernel;
	uint32_t grid, threads, smem, cluster;
	uint64_t seed;
	unsigned workers;
	TileCpuStacks *stacks;
	bool unchecked; /* for races */
	double timeout;
} Run;

int run_kernel(Run r, void *const *params);
#define RUN(params, ...) run_kernel((Run){ __VA_ARGS__ }, params)

void expect_ok(int status);
void expect_error(int status, const char *part);

/* ---- in kernels ---- */

void sync_all(TileCpuThread *t, uint32_t threads, uint32_t line);
void put32(TileCpuThread *t, uint32_t offset, uint32_t value, uint32_t line);
uint32_t get32(const TileCpuThread *t, uint32_t offset);
/* Told as compiled code does. */
void reads(TileCpuThread *t, uint32_t offset, uint32_t bytes, uint32_t line);
void writes(TileCpuThread *t, uint32_t offset, uint32_t bytes, uint32_t line);

uint32_t rng(uint32_t *s);

#endif
