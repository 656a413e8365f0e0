/* old_glibc.c - what LLVM's and libstdc++'s archives take from a newer glibc than tilec is linked for (static_llvm.cmake). */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* glibc 2.32: "there is one thread", for which libstdc++ leaves out atomic operations. */
extern char __libc_single_threaded;
char __libc_single_threaded = 0;

/* glibc 2.33: how much memory malloc has; for LLVM's statistics. */
struct mallinfo2 { size_t fields[10]; };
struct mallinfo2 mallinfo2(void);
struct mallinfo2 mallinfo2(void) { return (struct mallinfo2){ { 0 } }; }

/* glibc 2.36: for names of temporary files. */
uint32_t arc4random(void);
uint32_t arc4random(void)
{
	uint32_t word = 0;
	FILE *f = fopen("/dev/urandom", "r");
	if (f) {
		if (fread(&word, sizeof word, 1, f) != 1)
			word = 0;
		fclose(f);
	}
	return word;
}
