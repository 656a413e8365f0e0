/* memory.c - each allocation that the runtime makes fails in turn: a clean error, nothing lost, and the same again works.
 *   memory MODULE   (memory.tile, for the CPU device; linked with --wrap of what is wrapped here)
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tilert/tilert.h"

enum { M = 64, CTAS = 2 };

/* ---- allocations: the `failing`th is refused ---- */

static unsigned calls, failing;
static long live;

static bool refuse(void) { return __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == failing; }
static void *count(void *p, long by)
{
	if (p)
		__atomic_add_fetch(&live, by, __ATOMIC_RELAXED);
	return p;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__real_mmap(void *at, size_t n, int protection, int flags, int file, off_t offset);
int __real_munmap(void *at, size_t n);
void __real_free(void *p);

void *__wrap_malloc(size_t n) { return refuse() ? NULL : count(__real_malloc(n), 1); }
void *__wrap_calloc(size_t n, size_t size) { return refuse() ? NULL : count(__real_calloc(n, size), 1); }
void *__wrap_realloc(void *p, size_t n) { return refuse() ? NULL : count(__real_realloc(p, n), !p); }
void *__wrap_aligned_alloc(size_t alignment, size_t n) { return refuse() ? NULL : count(__real_aligned_alloc(alignment, n), 1); }
void __wrap_free(void *p) { __real_free(count(p, -1)); }
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int file, off_t offset)
{
	void *p = refuse() ? MAP_FAILED : __real_mmap(at, n, protection, flags, file, offset);

	if (p != MAP_FAILED)
		count(p, 1);
	return p;
}
int __wrap_munmap(void *at, size_t n) { return count(at, -1), __real_munmap(at, n); }

/* ---- what a program does ---- */

static _Alignas(256) uint16_t a[M * 256];
static _Alignas(256) float x[64 * 64], hand[CTAS * 128], c[M * 64], y[CTAS * 64 * 64];
static _Alignas(256) int32_t flags[CTAS * 2];

#define TENSOR(NAME, TYPE, ...) { .name = #NAME, .tensor = { (tilert_ptr)(uintptr_t)NAME, TYPE, 2 + (sizeof (int64_t[]){ __VA_ARGS__ } > 16), { __VA_ARGS__ }, { 0 } } }

static tilert_status launch(tilert_kernel *k)
{
	const tilert_arg args[] = {
		TENSOR(a, TILERT_BF16, M, 256), TENSOR(x, TILERT_F32, 64, 64), TENSOR(flags, TILERT_I32, CTAS, 2), TENSOR(hand, TILERT_F32, CTAS, 128),
		TENSOR(c, TILERT_F32, M, 64), TENSOR(y, TILERT_F32, CTAS, 64, 64),
	};
	tilert_prepared *p = NULL;
	tilert_chain *chain = NULL;
	int64_t extents[TILERT_MAX_RANK];

	memset(flags, 0, sizeof flags);
	tilert_status s = tilert_kernel_extents(k, 0, args, 6, extents);
	if (!s)
		s = tilert_prepare(k, args, 6, &p);
	if (!s)
		s = tilert_chain_create(&p, 1, &chain);
	if (!s)
		s = tilert_chain_launch(chain, NULL);
	tilert_chain_destroy(chain);
	tilert_prepared_destroy(p);
	return s;
}

static tilert_status use(tilert_device *d, const void *image, size_t size)
{
	tilert_module *m = NULL;
	tilert_event *e = NULL;
	tilert_kernel *k;
	tilert_ptr p = 0;
	tilert_status s = tilert_module_load(d, image, size, &m);

	if (!s)
		s = tilert_module_kernel(m, "memory", &k);
	if (!s)
		s = tilert_alloc(d, 1000, &p);
	if (!s)
		s = tilert_event_create(d, &e);
	if (!s)
		s = launch(k);
	tilert_event_destroy(e);
	tilert_free(d, p);
	tilert_module_close(m);
	return s;
}

static tilert_status program(const void *image, size_t size, unsigned workers)
{
	tilert_device *d = NULL;
	tilert_status s = tilert_device_open("cpu", &d);

	if (!s)
		s = tilert_cpu_configure(d, 1, workers);
	if (!s)
		s = use(d, image, size);
	tilert_device_close(d);
	return s;
}

/* Of one failure. */
static bool is_fine(tilert_status s, unsigned n)
{
	const char *text = tilert_last_error();

	if (live)
		return printf("allocation %u: %ld are left\n", n, live), false;
	if (s != TILERT_OK && (s != TILERT_ENOMEM || !strstr(text, "out of memory for ")))
		return printf("allocation %u: %s, %s\n", n, tilert_status_name(s), text), false;
	return true;
}

/* Until a run has fewer allocations than the one that is to fail: that one has to be good.  GDB's list of objects goes without a node that there is no memory for. */
static bool each_fails(const void *image, size_t size, unsigned workers)
{
	unsigned untold = 0;

	for (failing = 1;; failing++) {
		calls = live = 0;
		const tilert_status s = program(image, size, workers);
		if (!is_fine(s, failing))
			return false;
		if (calls < failing)
			break;
		untold += !s;
	}
	printf("%u workers: %u allocations, %u of whose failures made no difference\n", workers, failing - 1, untold);
	return untold <= 1;
}

int main(int argc, char **argv)
{
	static unsigned char image[1 << 18];
	FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
	const size_t size = f ? fread(image, 1, sizeof image, f) : 0;

	if (f)
		fclose(f);
	return !each_fails(image, size, 1) || !each_fails(image, size, CTAS);
}
