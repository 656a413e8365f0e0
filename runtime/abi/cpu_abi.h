/* cpu_abi.h - what code compiled with --target=cpu calls, and what calls it.
 *
 * A kernel is `void NAME(TileCpuThread *t, void *const *params)`, run once per GPU
 * thread, each on its own fiber.  params[i] points at parameter i in the
 * order of the module (tensor pointers, dims i32, scalars, tensor maps).
 * Shared addresses are byte offsets into t->smem; registers are 32-bit words.
 * `line` is the place in the source, for reports: its line, and from bit TILE_CPU_FILE_SHIFT on the number of its file, whose names are in
 * the symbol TILE_CPU_FILES: those of files 0, 1, ..., each with a NUL behind it, and one more.
 * The shared tiles of a kernel are in the symbol TILE_CPU_TILES_PREFIX with its name: TileCpuTiles, and one without a name behind them.
 *
 * The compiler's list of these functions is TILE_CPU_TABLE; the ELF loader
 * resolves them, and exp2f, log2f, sqrtf, tanhf, floorf, fmaf, memcpy, memset, by name.
 */
#ifndef TILE_CPU_ABI_H
#define TILE_CPU_ABI_H

#include <stdbool.h>
#include <stdint.h>

typedef struct TileCpuThread { /* layout known to compiled code; the runtime's own state follows it */
	uint8_t *smem;        /*  0: this CTA's shared memory */
	uint32_t thread;      /*  8: in the CTA */
	uint32_t block[3];    /* 12 */
	uint32_t grid[3];     /* 24 */
	uint32_t cluster_rank;/* 36 */
	const volatile uint32_t *interrupt; /* 40: not 0: loops call tilecpu_interrupted */
} TileCpuThread;

/* A tensor map as the kernel gets it (128 bytes, like CUtensorMap). */
typedef struct TileCpuTensorMap {
	uint8_t *base;
	int64_t dim[5];      /* innermost first, in elements */
	int64_t stride[5];   /* in bytes; stride[0] is the element size */
	uint16_t box[5];
	uint8_t rank, element_bytes, swizzle_bytes /* 0, 32, 64, 128 */, reserved;
	uint8_t dtype;       /* DType, for reductions */
} TileCpuTensorMap;
_Static_assert(sizeof(TileCpuTensorMap) <= 128, "a tensor map is 128 bytes");

enum { TILE_CPU_FILE_SHIFT = 20, TILE_CPU_MOST_FILES = 127 };
/* A thread's stack, and what of it a kernel's own frame may take: the rest is for what it calls.  Code does not probe what it jumps over. */
enum { TILE_CPU_STACK_BYTES = 512 << 10, TILE_CPU_FRAME_BYTES = 448 << 10 };
#define TILE_CPU_FILES "files."
#define TILE_CPU_TILES_PREFIX "tiles."

/* A tile of shared memory, for reports. */
typedef struct TileCpuTile {
	char name[64]; /* the source's; NUL behind it */
	uint32_t offset, stage_bytes; /* from one stage of a ring to the next */
	uint32_t element_bytes, swizzle; /* 0: linear */
	uint32_t ring, rank; /* ring: 1 where extents[0] are the stages, else 0 */
	uint32_t extents[6];
} TileCpuTile;

/* The types of a product's operands A and B: rows of runtime/abi/dtypes.def. */
#define TILE_CPU_PRODUCT(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)

/* CPU(name, result, parameters) */
#define TILE_CPU_TABLE(CPU) \
	/* names the role of this thread, for reports */ \
	CPU(tilecpu_role, void, (TileCpuThread *t, const char *name, uint32_t instance, uint32_t line)) \
	/* generic loads of `bytes` from shared memory, stores to it or atomics, are being made at base + each of at[n] */ \
	CPU(tilecpu_shared_reads, void, (TileCpuThread *t, uint32_t base, const uint32_t *at, uint32_t n, uint32_t bytes, uint32_t line)) \
	CPU(tilecpu_shared_atomics, void, (TileCpuThread *t, uint32_t base, const uint32_t *at, uint32_t n, uint32_t bytes, uint32_t line)) \
	CPU(tilecpu_shared_writes, void, (TileCpuThread *t, uint32_t base, const uint32_t *at, uint32_t n, uint32_t bytes, uint32_t line)) \
	/* the same at each of at[n] in tensor `name`, which lies at base and is used in several ways */ \
	CPU(tilecpu_global_reads, void, (TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)) \
	CPU(tilecpu_global_atomics, void, (TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)) \
	CPU(tilecpu_global_writes, void, (TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)) \
	/* atomics that add 0; what the cp.async that follows reads */ \
	CPU(tilecpu_global_polls, void, (TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)) \
	CPU(tilecpu_global_copies, void, (TileCpuThread *t, const char *name, const void *base, const void *const *at, uint32_t n, uint32_t bytes, uint32_t line)) \
	/* what the operation that follows does to such a tensor; how: 0 loads, 1 stores, 2 adds; bar: of a load */ \
	CPU(tilecpu_global_box, void, (TileCpuThread *t, const char *name, const void *base, const TileCpuTensorMap *map, const int32_t *coord, uint32_t bar, uint32_t how, uint32_t line)) \
	CPU(tilecpu_global_bulk, void, (TileCpuThread *t, const char *name, const void *base, const void *at, uint32_t bytes, uint32_t bar, uint32_t how, uint32_t line)) \
	/* name: the source's, with a slot where it has several (else 0xffffffff); NULL: none */ \
	CPU(tilecpu_mbar_init, void, (TileCpuThread *t, uint32_t bar, uint32_t count, const char *name, uint32_t slot)) \
	CPU(tilecpu_mbar_arrive, void, (TileCpuThread *t, uint32_t bar, uint32_t line)) \
	/* at the same barrier of the CTA of that rank in the cluster */ \
	CPU(tilecpu_mbar_arrive_at, void, (TileCpuThread *t, uint32_t bar, uint32_t rank, uint32_t line)) \
	CPU(tilecpu_mbar_expect_tx, void, (TileCpuThread *t, uint32_t bar, uint32_t bytes, uint32_t line)) \
	CPU(tilecpu_mbar_arrive_expect_tx, void, (TileCpuThread *t, uint32_t bar, uint32_t bytes, uint32_t line)) \
	CPU(tilecpu_mbar_wait, void, (TileCpuThread *t, uint32_t bar, uint32_t parity, uint32_t line)) \
	/* boxes between global and shared memory; coord: rank entries, innermost first */ \
	CPU(tilecpu_tma_load, void, (TileCpuThread *t, const TileCpuTensorMap *map, uint32_t dst, uint32_t bar, const int32_t *coord, uint32_t line)) \
	/* into the CTAs of the cluster whose bit is set, each at its own barrier */ \
	CPU(tilecpu_tma_multicast, void, (TileCpuThread *t, const TileCpuTensorMap *map, uint32_t dst, uint32_t bar, const int32_t *coord, uint32_t ctas, uint32_t line)) \
	CPU(tilecpu_tma_store, void, (TileCpuThread *t, const TileCpuTensorMap *map, uint32_t src, const int32_t *coord, uint32_t reduce_add, uint32_t line)) \
	CPU(tilecpu_bulk_load, void, (TileCpuThread *t, uint32_t dst, const void *src, uint32_t bytes, uint32_t bar, uint32_t line)) \
	CPU(tilecpu_bulk_store, void, (TileCpuThread *t, void *dst, uint32_t src, uint32_t bytes, uint32_t line)) \
	CPU(tilecpu_bulk_commit, void, (TileCpuThread *t)) \
	CPU(tilecpu_bulk_wait, void, (TileCpuThread *t, uint32_t n, uint32_t read, uint32_t line)) \
	/* bytes 4, 8 or 16, of which `valid` are read and the rest zero */ \
	CPU(tilecpu_cp_async, void, (TileCpuThread *t, uint32_t dst, const void *src, uint32_t bytes, uint32_t valid, uint32_t line)) \
	CPU(tilecpu_cp_async_commit, void, (TileCpuThread *t)) \
	CPU(tilecpu_cp_async_wait, void, (TileCpuThread *t, uint32_t n)) \
	CPU(tilecpu_fence_async, void, (TileCpuThread *t)) \
	CPU(tilecpu_fence_async_global, void, (TileCpuThread *t)) \
	CPU(tilecpu_fence_device, void, (TileCpuThread *t)) \
	/* bar.sync / bar.arrive id, threads; id 0 with all threads is __syncthreads; name: the source's or NULL */ \
	CPU(tilecpu_bar_sync, void, (TileCpuThread *t, uint32_t id, uint32_t threads, const char *name, uint32_t line)) \
	CPU(tilecpu_bar_arrive, void, (TileCpuThread *t, uint32_t id, uint32_t threads, const char *name, uint32_t line)) \
	/* the number of threads that come with 1: of those that gather at the barrier, of the warp */ \
	CPU(tilecpu_bar_vote, uint32_t, (TileCpuThread *t, uint32_t id, uint32_t threads, uint32_t value, uint32_t line)) \
	CPU(tilecpu_vote, uint32_t, (TileCpuThread *t, uint32_t value, uint32_t line)) \
	CPU(tilecpu_syncwarp, void, (TileCpuThread *t, uint32_t line)) \
	/* shfl.sync over the full warp; mode 0 idx, 1 up, 2 down, 3 bfly; out of range gives the own value */ \
	CPU(tilecpu_shfl, uint32_t, (TileCpuThread *t, uint32_t value, uint32_t mode, uint32_t lane, uint32_t line)) \
	/* m64 n k, k of 32 bytes, by the warpgroup: d[n/2] per thread (registers as in PTX; of integers i32), written when \
	 * waited for.  types: TILE_CPU_PRODUCT.  a: 4 words of the A fragment, or NULL for desc_a.  Descriptors as in PTX, addresses relative to smem.  flags: bit 0 add \
	 * to d (else start at zero), bit 1 negate A, bit 2 A is MN-major, bit 3 B is MN-major */ \
	CPU(tilecpu_wgmma, void, (TileCpuThread *t, float *d, uint32_t n, uint32_t types, const uint32_t *a, uint64_t desc_a, uint64_t desc_b, uint32_t flags, uint32_t line)) \
	CPU(tilecpu_wgmma_fence, void, (TileCpuThread *t)) \
	CPU(tilecpu_wgmma_commit, void, (TileCpuThread *t)) \
	CPU(tilecpu_wgmma_wait, void, (TileCpuThread *t, uint32_t n, uint32_t line)) \
	/* x1, x2, x4 of 8x8 16-bit matrices; every lane passes its row address as ldmatrix wants it */ \
	CPU(tilecpu_ldmatrix, void, (TileCpuThread *t, uint32_t *out, uint32_t address, uint32_t count, uint32_t trans, uint32_t line)) \
	CPU(tilecpu_stmatrix, void, (TileCpuThread *t, uint32_t address, const uint32_t *in, uint32_t count, uint32_t trans, uint32_t line)) \
	CPU(tilecpu_movmatrix, uint32_t, (TileCpuThread *t, uint32_t in, uint32_t line)) \
	/* m16n8k16 (16-bit) or m16n8k8 (tf32): d[4] += a[4] b[2] */ \
	CPU(tilecpu_mma_sync, void, (TileCpuThread *t, float *d, const uint32_t *a, const uint32_t *b, uint32_t types, uint32_t line)) \
	CPU(tilecpu_cluster_sync, void, (TileCpuThread *t, uint32_t line)) \
	/* C's printf with up to n 64-bit arguments: integers as int64, floats as double bits */ \
	CPU(tilecpu_print, void, (TileCpuThread *t, const char *format, uint32_t n, const uint64_t *args)) \
	/* ends the launch with an error that carries the text */ \
	CPU(tilecpu_fail, void, (TileCpuThread *t, const char *text, uint32_t line)) \
	CPU(tilecpu_fail_outside, void, (TileCpuThread *t, const char *what, int32_t i, int64_t n, uint32_t line)) \
	/* dims: dimensions to look at, bits, and the rank << 8; UINT32_MAX: the tensor is not there.  bounds: indices, then extents, \
	 * by dimension; the last index looked at goes on for `more` */ \
	CPU(tilecpu_check_bounds, void, (TileCpuThread *t, const char *name, uint32_t dims, const int64_t *bounds, int64_t more, uint32_t line)) \
	/* integers of |type| bits, signed below 0: a / b or a % b, a shifted by count, x converted, are about to be */ \
	CPU(tilecpu_check_division, void, (TileCpuThread *t, int32_t type, int64_t a, int64_t b, uint32_t line)) \
	CPU(tilecpu_check_shift, void, (TileCpuThread *t, int32_t type, int64_t a, int64_t count, uint32_t line)) \
	/* 8-bit floats (to, from: rows of dtypes.def): two numbers to bytes, one back */ \
	CPU(tilecpu_narrow8, uint32_t, (TileCpuThread *t, uint32_t to, float lo, float hi)) \
	CPU(tilecpu_widen8, float, (TileCpuThread *t, uint32_t from, uint32_t bits)) \
	CPU(tilecpu_check_conversion, void, (TileCpuThread *t, int32_t type, float x, uint32_t line)) \
	/* ends the launch: a loop goes on for too long */ \
	CPU(tilecpu_interrupted, void, (TileCpuThread *t, uint32_t line)) \
	CPU(tilecpu_clock, uint64_t, (TileCpuThread *t))

#define TILE_CPU_DECLARE(name, result, params) result name params;
TILE_CPU_TABLE(TILE_CPU_DECLARE)
#undef TILE_CPU_DECLARE

typedef void (*TileCpuKernel)(TileCpuThread *t, void *const *params);

/* ---- the runtime's side ---- */

/* Stacks of a launch's threads, kept for the next one. */
typedef struct TileCpuStacks TileCpuStacks;
TileCpuStacks *tilecpu_stacks_open(void);
void tilecpu_stacks_close(TileCpuStacks *kept);

typedef struct TileCpuLaunch {
	TileCpuKernel entry;
	const char *kernel_name, *source_name, *files; /* files: as tilecpu_image_files gives them, or NULL */
	const TileCpuTile *tiles; /* as tilecpu_image_tiles gives them, or NULL */
	/* "x[3][4]" of byte `byte` of a tensor; false: it has no such name; or NULL */
	bool (*locate)(const void *user, const char *tensor, uint64_t byte, char *text, uint32_t size);
	/* the tensor that a map is of, or NULL; or NULL */
	const char *(*tensor_of)(const void *user, const TileCpuTensorMap *map);
	const void *user_of_names; /* of these two */
	uint32_t grid[3], threads, cluster, smem_bytes;
	void *const *params;
	uint64_t seed;     /* scheduling and asynchrony; the same seed gives the same run of each CTA */
	unsigned workers;  /* host threads; 0: one per core */
	TileCpuStacks *stacks; /* NULL: none are kept */
	bool no_race_check, no_arithmetic_check;
	double timeout;    /* seconds without progress after which the launch fails; 0: never */
	void (*progress)(void *user, uint64_t ctas_done, uint64_t ctas); /* or NULL */
	void *user;
	char *error;       /* receives a report when the result is not 0 */
	uint32_t error_size;
} TileCpuLaunch;

/* 0, or -1 after a deadlock, a failed check or a trap; then `error` says role, line and barrier.  Or there is no memory. */
enum { TILE_CPU_NO_MEMORY = -2 };
int tilecpu_launch(const TileCpuLaunch *l);

/* Loads a relocatable x86-64 ELF object; NULL and a sentence in error on failure, an empty one where memory is out. */
typedef struct TileCpuImage TileCpuImage;
TileCpuImage *tilecpu_image_load(const void *elf, uint64_t size, char *error, uint32_t error_size);
/* What the symbol of a kernel begins with: no kernel's name is that of a function of the device or of C. */
#define TILE_CPU_KERNEL_PREFIX "kernel."
TileCpuKernel tilecpu_image_symbol(const TileCpuImage *im, const char *name);
/* What TILE_CPU_FILES is in it; NULL: it has none. */
const char *tilecpu_image_files(const TileCpuImage *im);
/* What that kernel's tiles are; NULL: it does not say. */
const TileCpuTile *tilecpu_image_tiles(const TileCpuImage *im, const char *kernel);
void tilecpu_image_free(TileCpuImage *im);

#endif
