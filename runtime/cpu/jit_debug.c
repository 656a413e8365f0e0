/* jit_debug.c - GDB's interface for run-time code: a list that it reads and a function where it stops. */
#include "runtime/cpu/jit_debug.h"

#include <pthread.h>
#include <stdlib.h>

/* Names and layouts are GDB's. */

struct JitEntry {
	struct JitEntry *next, *previous;
	const void *elf;
	uint64_t size;
};

typedef struct JitDescriptor {
	uint32_t version;
	uint32_t action;
	JitEntry *relevant, *first;
} JitDescriptor;

enum { JIT_NONE, JIT_REGISTER, JIT_UNREGISTER };

/* The one state of the process that this library has: the interface is a variable.  Weak,
 * for another JIT in the same program may bring the same. */
extern JitDescriptor __jit_debug_descriptor;
void __jit_debug_register_code(void);

__attribute__((weak)) JitDescriptor __jit_debug_descriptor = { .version = 1 };

__attribute__((weak, noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void announce(JitEntry *e, uint32_t action)
{
	__jit_debug_descriptor.relevant = e;
	__jit_debug_descriptor.action = action;
	__jit_debug_register_code();
	__jit_debug_descriptor.action = JIT_NONE;
}

JitEntry *jit_debug_add(const void *elf, uint64_t size)
{
	JitEntry *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	e->elf = elf;
	e->size = size;
	pthread_mutex_lock(&lock);
	e->next = __jit_debug_descriptor.first;
	if (e->next)
		e->next->previous = e;
	__jit_debug_descriptor.first = e;
	announce(e, JIT_REGISTER);
	pthread_mutex_unlock(&lock);
	return e;
}

void jit_debug_remove(JitEntry *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&lock);
	*(e->previous ? &e->previous->next : &__jit_debug_descriptor.first) = e->next;
	if (e->next)
		e->next->previous = e->previous;
	announce(e, JIT_UNREGISTER);
	pthread_mutex_unlock(&lock);
	free(e);
}
