/* fiber.h - stackful threads of execution that switch to each other inside one host thread. */
#ifndef TILE_CPU_FIBER_H
#define TILE_CPU_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/cpu/stacks.h"

typedef void (*FiberEntry)(void *arg); /* must leave with fiber_leave */

typedef struct Fiber {
	void *sp; /* saved stack pointer; elsewhere than on x86-64 a ucontext_t */
	void *low; /* the lowest byte of the stack */
	size_t size;
	FiberEntry entry;
	void *arg;
	struct Fiber *from; /* for ASan: who switched to it last, */
	void *fake; /* and what it knows of the frames */
} Fiber;

/* Makes f start entry(arg) on stack `index` when first switched to.  The stack is
 * anew: what ran on it before is forgotten. */
void fiber_start(Fiber *f, const StackPool *p, size_t index, FiberEntry entry, void *arg);
/* Makes f stand for the host thread that calls. */
void fiber_of_host(Fiber *f);
void fiber_of_host_end(Fiber *f);

void fiber_switch(Fiber *from, Fiber *to);
/* The same for a fiber that is never switched to again. */
void fiber_leave(Fiber *from, Fiber *to);

#endif
