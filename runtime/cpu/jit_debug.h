/* jit_debug.h - tells debuggers about code that was loaded at run time. */
#ifndef TILE_CPU_JIT_DEBUG_H
#define TILE_CPU_JIT_DEBUG_H

#include <stdint.h>

typedef struct JitEntry JitEntry;

/* elf, whose section headers have the addresses of the loaded sections, must stay until
 * jit_debug_remove.  NULL (out of memory) is accepted there. */
JitEntry *jit_debug_add(const void *elf, uint64_t size);
void jit_debug_remove(JitEntry *e);

#endif
