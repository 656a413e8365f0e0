/* fiber.c - switches stacks in ten instructions on x86-64, by ucontext elsewhere (and with TILE_CPU_UCONTEXT). */
#define _GNU_SOURCE
#include "runtime/cpu/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef TILE_CPU_SANITIZED /* what runs on the stacks is told of them */
#include <sanitizer/common_interface_defs.h>

static void before_switch(void **fake, Fiber *from, Fiber *to)
{
	to->from = from;
	__sanitizer_start_switch_fiber(fake, to->low, to->size);
}

static void after_switch(void *fake)
{
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

/* Tells where `from`'s stack is.  The host leaves for a fiber that starts before it is come back to, so its own is known by then, too. */
static void after_first_switch(Fiber *from)
{
	const void *low;

	__sanitizer_finish_switch_fiber(NULL, &low, &from->size);
	from->low = (void *)(uintptr_t)low;
}
#else
static void before_switch(void **fake, Fiber *from, Fiber *to)
{
	(void)fake;
	(void)from;
	(void)to;
}

static void after_switch(void *fake)
{
	(void)fake;
}

static void after_first_switch(Fiber *from)
{
	(void)from;
}
#endif

static void take_stack(Fiber *f, const StackPool *p, size_t index, FiberEntry entry, void *arg)
{
	f->low = stack_take(p, index, &f->size);
	f->entry = entry;
	f->arg = arg;
	f->fake = NULL;
}

void fiber_main(Fiber *f); /* called by the first switch */

void fiber_main(Fiber *f)
{
	after_first_switch(f->from);
	f->entry(f->arg);
	abort();
}

/* ---- the switch ---- */

#if defined(__x86_64__) && !defined(TILE_CPU_UCONTEXT)

void tilecpu_fiber_swap(void **save, void *to);
void tilecpu_fiber_first(void);

__asm__(".text\n"
	".globl tilecpu_fiber_swap\n"
	".hidden tilecpu_fiber_swap\n"
	".type tilecpu_fiber_swap,@function\n"
	"tilecpu_fiber_swap:\n"
	"	pushq %rbp\n	pushq %rbx\n	pushq %r12\n	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n	popq %rbx\n	popq %rbp\n"
	"	ret\n"
	".size tilecpu_fiber_swap,.-tilecpu_fiber_swap\n"
	".globl tilecpu_fiber_first\n"
	".hidden tilecpu_fiber_first\n"
	".type tilecpu_fiber_first,@function\n"
	"tilecpu_fiber_first:\n"
	"	.cfi_startproc\n"
	"	.cfi_undefined rip\n" /* debuggers stop here */
	"	movq %r12, %rdi\n"
	"	callq *%r13\n"
	"	ud2\n"
	"	.cfi_endproc\n"
	".size tilecpu_fiber_first,.-tilecpu_fiber_first\n");

void fiber_start(Fiber *f, const StackPool *p, size_t index, FiberEntry entry, void *arg)
{
	/* as tilecpu_fiber_swap pops them */
	enum { R15, R14, R13, R12, RBX, RBP, RETURN, FRAME_WORDS };
	uintptr_t *sp;

	take_stack(f, p, index, entry, arg);
	/* popped, it leaves the stack pointer 16-aligned, as it has to be before a call */
	sp = (uintptr_t *)(void *)((unsigned char *)f->low + f->size - 64) - FRAME_WORDS;
	memset(sp, 0, FRAME_WORDS * sizeof *sp);
	sp[R12] = (uintptr_t)f;
	sp[R13] = (uintptr_t)fiber_main;
	sp[RETURN] = (uintptr_t)tilecpu_fiber_first;
	f->sp = sp;
}

void fiber_of_host(Fiber *f)
{
	memset(f, 0, sizeof *f);
}

void fiber_of_host_end(Fiber *f)
{
	(void)f;
}

static void swap(Fiber *from, const Fiber *to)
{
	tilecpu_fiber_swap(&from->sp, to->sp);
}

#else

#include <ucontext.h>

/* makecontext passes ints only: the fiber goes in two halves */
static void first(unsigned high, unsigned low)
{
	fiber_main((Fiber *)(((uintptr_t)high << 16 << 16) | low));
}

static ucontext_t *context_of(Fiber *f)
{
	return f->sp;
}

void fiber_start(Fiber *f, const StackPool *p, size_t index, FiberEntry entry, void *arg)
{
	ucontext_t *c;
	uintptr_t self = (uintptr_t)f;

	take_stack(f, p, index, entry, arg);
	/* the context lies at the foot of the stack */
	c = f->sp = f->low;
	getcontext(c);
	c->uc_stack.ss_sp = (char *)f->low + sizeof *c;
	c->uc_stack.ss_size = f->size - sizeof *c;
	c->uc_link = NULL;
	makecontext(c, (void (*)(void))first, 2, (unsigned)(self >> 16 >> 16), (unsigned)self);
}

void fiber_of_host(Fiber *f)
{
	memset(f, 0, sizeof *f);
	f->sp = calloc(1, sizeof(ucontext_t));
	if (!f->sp)
		abort();
}

void fiber_of_host_end(Fiber *f)
{
	free(f->sp);
}

static void swap(Fiber *from, Fiber *to)
{
	swapcontext(context_of(from), context_of(to));
}

#endif

void fiber_switch(Fiber *from, Fiber *to)
{
	before_switch(&from->fake, from, to);
	swap(from, to);
	after_switch(from->fake);
}

void fiber_leave(Fiber *from, Fiber *to)
{
	before_switch(NULL, from, to);
	swap(from, to);
	abort();
}
