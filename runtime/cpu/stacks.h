/* stacks.h - stacks of equal size, each above a guard page; those of a launch are kept for the next one. */
#ifndef TILE_CPU_STACKS_H
#define TILE_CPU_STACKS_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/abi/cpu_abi.h"

typedef struct StackPool {
	unsigned char *base;
	size_t stride, count, guards;
} StackPool;

/* At least `count` stacks: kept ones if there are any so large, else new ones.  `kept` may be NULL. */
bool stack_pool_open(StackPool *p, TileCpuStacks *kept, size_t count);
/* Keeps them if there is room. */
void stack_pool_close(StackPool *p, TileCpuStacks *kept);

/* The lowest byte of a stack and how large it is; what ran on it before is forgotten. */
void *stack_take(const StackPool *p, size_t index, size_t *size);

#endif
