/* context.h - what the files of compiler/lower/ share while one kernel is emitted. */
#ifndef TILE_LOWER_CONTEXT_H
#define TILE_LOWER_CONTEXT_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "compiler/analysis/layout.h"
#include "compiler/analysis/tensormap.h"
#include "compiler/lower/lower.h"

typedef LLVMValueRef V;
typedef LLVMTypeRef T;
typedef struct Lower Lower;

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

typedef struct Storage Storage;

typedef enum Watched { WATCHED_READ, WATCHED_WRITTEN, WATCHED_ATOMIC } Watched;

/* Machine operations; one table per target.  Shared addresses are pointers in address space 3 (sm_90a) or plain (cpu). */
typedef struct TargetOps {
	bool cpu;
	const char *triple, *features;
	const char *(*processor)(const Tir *);
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
	void (*shared_access)(Lower *, Watched, V base, V offsets, int n, V bytes); /* cpu: for its checks, at base + each of offsets[n] */
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
	/* of the indices in s->bounds those of dimensions `look`, bits; the last of these goes on for `more`; where mask (NULL: always) holds */
	void (*check_bounds)(Lower *, const Storage *s, unsigned look, V more, V mask);
	void (*check_division)(Lower *, DType, V a, V b); /* these three of any operands; a, b, count: i64 */
	void (*check_shift)(Lower *, DType, V a, V count);
	void (*check_conversion)(Lower *, DType to, V f32);
} TargetOps;
extern const TargetOps target_nvptx, target_cpu;

/* Storage of an object while its kernel is emitted. */
struct Storage {
	const Op *object;
	V pointer;             /* frag, var: alloca; tensor: base; shared, mbarrier: base of stage 0 */
	const Layout *layout;  /* frag */
	bool packed;           /* frag: <2 x T> registers */
	bool product;          /* frag: wgmma wrote it */
	V *extent, *stride;    /* tensor */
	V bounds;              /* cpu: tensor, shared: where indices are put to be checked, and the extents */
};

/* Indices that have been checked, where the code at hand comes after. */
typedef struct Checked {
	LLVMBasicBlockRef block;
	const Storage *s;
	int d;
	V index, more, mask;
} Checked;
enum { MOST_CHECKED = 64, MOST_GUARDS = 8 };
typedef struct CheckedIndices {
	Checked last[MOST_CHECKED]; /* the oldest makes room */
	unsigned n;
	LLVMBasicBlockRef guarded[MOST_GUARDS]; /* blocks before the guards at hand */
	int guards;
} CheckedIndices;

/* Who executes: a role instance or the whole CTA. */
typedef struct Team {
	const Op *op;
	int first_warp, warps;
	V instance;            /* i32, or NULL */
	V thread, lane, warp;  /* i32 in the team */
	V sync_id;             /* named barrier of the team, or NULL: CTA */
} Team;

struct Lower {
	Arena *arena;
	const Tir *tir;
	Diags *diags;
	const LowerOptions *options;
	const TargetOps *ops;
	LLVMContextRef cx;
	LLVMModuleRef module;
	LLVMBuilderRef b, entry_b; /* entry_b: allocas */
	LLVMTargetMachineRef machine;
	struct DebugInfo *debug;

	const Op *kernel;
	V function;
	TensorMaps maps;
	V *map_pointer;
	V *value;              /* by Value id: scalar */
	Storage **storage;     /* by Value id of the object */
	V shared;              /* start of the CTA's shared memory */
	unsigned nvalues;
	Team team;
	V cta_thread, cta_lane, cta_warp;
	V shared_word;         /* of the CTA's shared memory, as in descriptors */
	CheckedIndices checked;
	V watched;             /* cpu: where offsets of accesses are put to be told of, or NULL */
	unsigned line;         /* of the op being emitted */
	uint32_t source;       /* its file's */
	const Op *misplaced;   /* the access whose elements were last reported to be in other threads */

	T i1, i8, i16, i32, i64, f32, f16, bf16, ptr, ptr_shared, ptr_global, void_t;
};

/* types.c */
T type_of(Lower *L, DType d);
V const_i32(Lower *L, int64_t v);
V const_i64(Lower *L, int64_t v);
V const_f32(Lower *L, double v);
V build_add(Lower *L, V a, V b);
V build_mul_const(Lower *L, V a, int64_t c);
V to_i64(Lower *L, V v, DType d);
V intrinsic(Lower *L, const char *name, T *overloads, unsigned noverloads, V *args, unsigned nargs);
LLVMAttributeRef attribute_nonnegative(Lower *L); /* of an i32: saves the sign's part in divisions */
V entry_alloca(Lower *L, T type, const char *name);
LLVMBasicBlockRef new_block(Lower *L, const char *name);
/* Runs what is built between the two calls only where cond holds. */
typedef struct Guard { LLVMBasicBlockRef before, after; } Guard;
Guard guard_begin(Lower *L, V cond);
void guard_end(Lower *L, Guard g);
/* What is built up to either_else runs where cond holds, the rest up to either_end where it does not. */
typedef struct Either { LLVMBasicBlockRef other, done; } Either;
Either either_begin(Lower *L, V cond);
void either_else(Lower *L, Either e);
void either_end(Lower *L, Either e);

/* scalar.c */
V lower_scalar(Lower *L, const Op *op, V *args);      /* args and result may be vectors of two for 16-bit floats */
V convert(Lower *L, V v, DType from, DType to);       /* scalar */
V pack_pair(Lower *L, V lo, V hi, DType d);           /* <2 x T> */
V pair_to_word(Lower *L, V pair);                     /* i32 */
V word_to_pair(Lower *L, V word, DType d);
V narrow_pair(Lower *L, V lo, V hi, DType to);        /* two f32 to <2 x 16-bit> */
void widen_pair(Lower *L, V pair, DType from, V out[2]); /* to two f32 */
V value_of(Lower *L, const Value *v);
void lower_var(Lower *L, const Op *op); /* OP_GET, OP_SET */

/* objects.c */
void declare_object(Lower *L, const Op *op);
Storage *storage_of(Lower *L, const Op *object);
V frag_register(Lower *L, const Storage *s, int reg); /* pointer to it (to the pair that holds it when packed) */
/* address.c */
bool always_below(const Lower *L, V v, uint64_t end); /* as far as its bits tell; unsigned */
/* Address of an element; indices per object dimension, i32 or i64 as `types` says. */
V shared_address(Lower *L, const Op *object, V *index);
V shared_offset(Lower *L, const Op *object, V *index, int64_t *constant); /* from the CTA's shared memory: returned + constant */
V box_address(Lower *L, const Op *object, V *index); /* for TMA, which swizzles by the bits of the address: of the element's row of a panel */
V shared_word(Lower *L, const Op *object, V *index); /* (address & 0x3ffff) >> 4 of a multiple of 16, as descriptors have it */
V global_address(Lower *L, const Op *object, V *index, const DType *types);
V barrier_address(Lower *L, const Op *bar, V slot);
/* Start of a shared view: the indices of its first element. */
void view_origin(Lower *L, const TileRef *r, V *index);

/* check.c: code for the CPU device; none for the GPU */
void declare_bounds(Lower *L, Storage *s); /* of a tensor or shared tile */
/* An element, and `more` (i64, NULL: 0) behind it in the last dimension; where mask (NULL: always) holds. */
void check_index(Lower *L, const Op *object, V *index, const DType *types, V more, V mask);
void check_view(Lower *L, const TileRef *r);
/* What was checked before a guard holds in it, and behind it. */
void checks_guarded(Lower *L, LLVMBasicBlockRef before);
void checks_unguarded(Lower *L, LLVMBasicBlockRef before, LLVMBasicBlockRef after);
/* Operations that have no result of their own for some operands; where `counts` (NULL: always) holds. */
void check_division(Lower *L, DType d, V a, V b, V counts);
void check_shift(Lower *L, DType d, V a, V count, V counts);
void check_conversion(Lower *L, DType to, V f32, V counts);

/* Whether both are the same computation of the same values, which may be made twice; so far down. */
bool same_instructions(V a, V b, int depth);
/* watch.c */
void watch_shared(Lower *L, Watched how, const V *pointers, int count, V bytes);

/* elements.c */
void lower_parallel(Lower *L, const Op *op);
void lower_element_op(Lower *L, const Op *op);        /* load, store, atomic outside parallel */
/* copy.c */
void lower_copy(Lower *L, const Op *op);
void lower_cp_async(Lower *L, const Op *op);
/* product.c */
void lower_mma(Lower *L, const Op *op);
void lower_wgmma_wait(Lower *L, const Op *op);
/* collective.c */
void lower_reduce(Lower *L, const Op *op);
void lower_scan(Lower *L, const Op *op);
/* async.c */
void lower_async(Lower *L, const Op *op);             /* tma, bulk, arrive, wait, sync, fences */
void team_sync(Lower *L);
void lower_vote(Lower *L, const Op *op);
/* control.c */
bool checks_asserts(const Lower *L);                  /* on a GPU only with -g */
void lower_region(Lower *L, const Region *r);
void lower_print(Lower *L, const Op *op, V *args);
V lower_ptx(Lower *L, const Op *op, V *args); /* its result, or NULL */
void lower_assert(Lower *L, const Op *op, V holds);
/* A form of the op that has no code here, which the passes before should not have let through. */
V lower_missing(Lower *L, const Op *op);
/* debug.c */
void debug_begin_module(Lower *L);
void debug_begin_kernel(Lower *L);
void debug_location(Lower *L, Loc loc);
void debug_end_module(Lower *L);
/* A block of the source, in which variables are; returned: what to leave it with. */
LLVMMetadataRef debug_enter(Lower *L, Loc loc);
void debug_leave(Lower *L, LLVMMetadataRef before);
/* Tells debuggers of a variable in memory, of a named scalar. */
void debug_variable(Lower *L, const char *name, DType d, V pointer, Loc loc);
void debug_value(Lower *L, const Value *value, V v, Loc loc);

__attribute__((format(printf, 3, 4))) void lower_error(Lower *L, Loc loc, const char *fmt, ...);

#endif
