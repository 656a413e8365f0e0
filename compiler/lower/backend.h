/* backend.h - how a machine's program becomes code: one table of hooks per back end (backend_nvptx.c, backend_cpu.c).  What the machine
 * has (limits, products) is compiler/machine/'s. */
#ifndef TILE_LOWER_BACKEND_H
#define TILE_LOWER_BACKEND_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "compiler/tir/tir.h"

typedef LLVMValueRef V;
typedef LLVMTypeRef T;
typedef struct Lower Lower;
typedef struct Storage Storage;

typedef enum Watched { WATCHED_READ, WATCHED_WRITTEN, WATCHED_ATOMIC, WATCHED_POLLED /* an atomic that adds 0 */, WATCHED_COPIED /* by cp.async */ } Watched;

/* One wgmma instruction; the accumulator is registers d[0 .. n/2) of a fragment's storage. */
typedef struct Wgmma {
	const Product *kind;
	unsigned n;
	V d;                    /* pointer to the first accumulator register */
	V a[4];                 /* packed A registers, or a[0] NULL */
	V desc_a_lo, desc_b_lo; /* low words (i32); the high words are constants */
	uint32_t desc_a_hi, desc_b_hi;
	bool accumulate, negate, a_mn, b_mn;
} Wgmma;

/* Parameters in the module's order: tensors, dims, scalars; then tensor maps. */
typedef struct Params { const Op **op; int n; } Params;

/* How the code of a machine's program is written.  What a back end is and can is said in its first fields, by which the rest of this
 * folder chooses; nothing asks which one it is. */
typedef struct Backend {
	const char *name;                      /* for messages; NULL: the machine's */
	const char *triple, *features;
	const char *(*processor)(const Tir *);
	void (*initialise)(void);              /* LLVM's part of it */
	LLVMCodeGenFileType code;              /* text or object file */
	LLVMRelocMode reloc;
	int codegen_level;                     /* of LLVM, at most */
	unsigned shared_space, global_space;   /* of addresses */
	bool checks;         /* the program is checked as it runs: indices, operands, accesses, use of what nobody set */
	bool halves;         /* it computes in 16-bit floats */
	bool division_traps; /* of integers, by 0 and of the least number by -1 */
	bool debugger;       /* one steps through it and sees variables */
	void (*declare_kernel)(Lower *, const Params *, const char *name); /* makes L->function */
	V (*parameter)(Lower *, int i, T type); /* type NULL: a tensor map, its address */
	V (*shared_memory)(Lower *);           /* of the CTA: its start */
	V (*descriptor_base)(Lower *);         /* the same, as descriptors of products have it */
	void (*end_module)(Lower *);           /* or NULL */
	V (*inline_ptx)(Lower *, const Op *, int n, V *args); /* its result, or NULL; hook NULL: it has none */
	V (*thread)(Lower *);                  /* in the CTA, i32 */
	V (*block_idx)(Lower *, int axis);
	V (*grid_dim)(Lower *, int axis);
	V (*cluster_rank)(Lower *);
	V (*uniform)(Lower *, V);              /* the same value in every lane, known to be so */
	V (*math)(Lower *, Opcode, V);         /* of math.def, of f32; NULL: of no other */
	V (*div_f32)(Lower *, V, V);
	V (*to_integer)(Lower *, V f32, bool is_signed, unsigned bits); /* 32 or 64; as LLVM's saturating conversions */
	V (*to_tf32)(Lower *, V f32);          /* to nearest even; the low bits 0 */
	V (*narrow8)(Lower *, DType to, V lo, V hi); /* two f32 to i16: 8-bit floats, nearest even, the largest where none is near */
	void (*widen8)(Lower *, DType from, V i16, V f32[2]);
	V (*shift)(Lower *, LLVMOpcode how, V, V count); /* of 32 or 64 bits; any count: it shifts by the width at most */
	void (*enter_role)(Lower *, const char *name, V instance);
	void (*setmaxnreg)(Lower *, int count, bool increase);
	void (*shared_access)(Lower *, Watched, V base, V offsets, V n, V bytes); /* with checks: at base + each of offsets[n] */
	/* the same of a tensor whose accesses have to be ordered: at each of pointers[n]; a box or `bytes` at a pointer, bar: of a load */
	void (*global_access)(Lower *, Watched, const Op *tensor, V pointers, V n, V bytes);
	void (*global_box)(Lower *, Watched, const Op *tensor, V map, int rank, V *coord, V bar);
	void (*global_bulk)(Lower *, Watched, const Op *tensor, V pointer, V bytes, V bar);
	void (*mbar_init)(Lower *, V bar, const Op *object, int slot);
	void (*mbar_init_done)(Lower *);
	void (*mbar_arrive)(Lower *, V bar, V bytes /* or NULL */);
	void (*mbar_arrive_at)(Lower *, V bar, V rank); /* the same barrier of another CTA of the cluster */
	void (*mbar_expect)(Lower *, V bar, V bytes);
	void (*mbar_wait)(Lower *, V bar, V parity);
	void (*tma_load)(Lower *, V map, int rank, V dst, V bar, V *coord, unsigned ctas); /* ctas: mask of the cluster; 0: this one */
	void (*tma_store)(Lower *, V map, int rank, V src, V *coord, bool add);
	void (*bulk_load)(Lower *, V dst, V src, V bytes, V bar);
	void (*bulk_store)(Lower *, V dst, V src, V bytes);
	void (*bulk_commit)(Lower *);
	void (*bulk_wait)(Lower *, int n, bool read);
	void (*cp_async)(Lower *, V dst, V src, unsigned bytes, V valid);
	void (*cp_async_commit)(Lower *);
	void (*cp_async_wait)(Lower *, int n);
	void (*fence_async)(Lower *);
	void (*fence_async_global)(Lower *);
	void (*fence_device)(Lower *);
	void (*bar_sync)(Lower *, V id, unsigned threads, const Op *object /* or NULL */);
	void (*bar_arrive)(Lower *, V id, unsigned threads, const Op *object);
	V (*vote)(Lower *, V i1_value, bool all, V id, unsigned threads); /* of the threads at that barrier; id NULL: of the warp */
	void (*syncwarp)(Lower *);
	V (*one_lane)(Lower *); /* i1: true in one lane of a converged warp */
	V (*shfl)(Lower *, V i32_value, int mode, V lane); /* 0 idx, 1 up, 2 down, 3 bfly */
	void (*wgmma)(Lower *, const Wgmma *);
	void (*wgmma_fence)(Lower *);
	void (*wgmma_commit)(Lower *);
	void (*wgmma_wait)(Lower *, int n, int count, V *registers, T *types); /* pointers to finished registers */
	void (*pin)(Lower *);                  /* arithmetic stays on its side of it */
	void (*ldmatrix)(Lower *, V address, int count, bool trans, V *out /* i32 */);
	void (*stmatrix)(Lower *, V address, int count, bool trans, V *in);
	V (*movmatrix)(Lower *, V in);
	void (*mma_sync)(Lower *, V d_pointers[4], V *a, V *b, const Product *kind);
	void (*grid_wait)(Lower *);
	void (*grid_launch)(Lower *);
	void (*cluster_sync)(Lower *);
	V (*clock)(Lower *);                   /* of the SM, i64 */
	V (*timer)(Lower *);                   /* nanoseconds, the same for all SMs, i64 */
	void (*poll)(Lower *); /* in every turn of a loop; or NULL */
	void (*print)(Lower *, const char *format, int n, V *args, const DType *types);
	void (*fail)(Lower *, const char *text);
	void (*fail_outside)(Lower *, const char *what, V i, int64_t n); /* i is not one of 0 .. n - 1 */
	/* of the indices in s->bounds those of dimensions `look`, bits; the last of these goes on for `more`; where mask (NULL: always) holds */
	void (*check_bounds)(Lower *, const Storage *s, unsigned look, V more, V mask);
	void (*check_division)(Lower *, DType, V a, V b); /* these three of any operands; a, b, count: i64 */
	void (*check_shift)(Lower *, DType, V a, V count);
	void (*check_conversion)(Lower *, DType to, V f32);
} Backend;
extern const Backend backend_nvptx, backend_cpu;

#endif
