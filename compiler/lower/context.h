/* context.h - what the files of compiler/lower/ share while one kernel is emitted. */
#ifndef TILE_LOWER_CONTEXT_H
#define TILE_LOWER_CONTEXT_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "compiler/analysis/effects.h"
#include "compiler/analysis/layout.h"
#include "compiler/analysis/tensormap.h"
#include "compiler/lower/backend.h"
#include "compiler/lower/lower.h"

/* Storage of an object while its kernel is emitted. */
struct Storage {
	const Op *object;
	V pointer;             /* frag, var: alloca; tensor: base; shared, mbarrier: base of stage 0 */
	const Layout *layout;  /* frag */
	int packed;            /* frag: elements of a register, <n x T>; 1: T */
	bool product;          /* frag: wgmma wrote it */
	V *extent, *stride;    /* tensor */
	bool exchanged;        /* tensor: its kernel writes it, or uses it in several ways, which have to be ordered */
	V overlaid;            /* cpu: tensor that is only read: i1, whether it shares memory with one that is written; NULL: none is */
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
	V elected;             /* i1: of a team of one warp, the thread that does what one thread does; NULL: not elected yet */
	V sync_id;             /* named barrier of the team, or NULL: CTA */
	bool apart;            /* there was a `once` that takes long: a warp's other threads may be ahead of the one in it */
} Team;

struct Lower {
	Arena *arena;
	const Tir *tir;
	Diags *diags;
	const LowerOptions *options;
	const Backend *ops;
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
	const TensorUse *tensor_uses; /* cpu: by Value id of the tensor */
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

static inline V value_of(const Lower *L, const Value *v) { return L->value[v->id]; } /* NULL: none on a GPU */
static inline Storage *storage_of(const Lower *L, const Op *object) { return L->storage[object->result->id]; }

/* types.c */
T type_of(Lower *L, DType d);
T param_type(Lower *L, const Op *op);
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
/* A form of the op that has no code here, which the passes before should not have let through. */
V lower_missing(Lower *L, const Op *op);

/* known.c */
enum { KNOWN_DEPTH = 12 };
bool is_const(V v, int64_t *c);
uint64_t width_mask(V v);
uint64_t bits_of(const Lower *L, V v);                /* that may be one */
bool always_below(const Lower *L, V v, uint64_t end); /* as far as its bits tell; unsigned */
/* Whether both are the same computation of the same values, which may be made twice; so far down. */
bool same_instructions(V a, V b, int depth);

/* guards.c */
/* Runs what is built between the two calls only where cond holds. */
typedef struct Guard { LLVMBasicBlockRef before, after; } Guard;
Guard guard_begin(Lower *L, V cond);
void guard_end(Lower *L, Guard g);

/* scalar.c */
V lower_scalar(Lower *L, const Op *op, V *args);      /* args and result may be vectors of two for 16-bit floats */
V convert(Lower *L, V v, DType from, DType to);       /* scalar */
V pack_pair(Lower *L, V lo, V hi, DType d);           /* <2 x T> */
V pair_to_word(Lower *L, V pair);                     /* i32 */
V word_to_pair(Lower *L, V word, DType d);
V narrow_pair(Lower *L, V lo, V hi, DType to);        /* two f32 to <2 x 16-bit> */
void widen_pair(Lower *L, V pair, DType from, V out[2]); /* to two f32 */

/* objects.c */
void declare_object(Lower *L, const Op *op);
void lower_var(Lower *L, const Op *op); /* OP_GET, OP_SET */
V frag_register(Lower *L, const Storage *s, int reg); /* pointer to it (to the pair that holds it when packed) */
/* address.c */
/* Address of an element; indices per object dimension, i32 or i64 as `types` says. */
V shared_address(Lower *L, const Op *object, V *index);
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
void check_presence(Lower *L, const Op *tensor); /* of one that may be absent */
void check_view(Lower *L, const TileRef *r);
/* What was checked before a guard holds in it, and behind it. */
void checks_guarded(Lower *L, LLVMBasicBlockRef before);
void checks_unguarded(Lower *L, LLVMBasicBlockRef before, LLVMBasicBlockRef after);
/* Operations that have no result of their own for some operands; where `counts` (NULL: always) holds. */
void check_division(Lower *L, DType d, V a, V b, V counts);
void check_shift(Lower *L, DType d, V a, V count, V counts);
void check_conversion(Lower *L, DType to, V f32, V counts);

/* watch.c */
void watch_overlays(Lower *L); /* behind the tensors' declarations */
bool is_followed(const Lower *L, const Op *tensor); /* told of, or where it shares memory */
void watch_shared(Lower *L, Watched how, const V *pointers, int count, V bytes);
void watch_global(Lower *L, Watched how, const Op *tensor, const V *pointers, int count, V bytes);
/* Of either kind, of those whose mask (NULL: always) holds, which this code need not be guarded by. */
void watch_chosen(Lower *L, Watched how, const Op *object, const V *pointers, const V *masks, int count, V bytes);
void watch_box(Lower *L, Watched how, const Op *tensor, V map, int rank, V *coord, V bar);
void watch_bulk(Lower *L, Watched how, const Op *tensor, V pointer, V bytes, V bar);

/* escape.c */
void lower_print(Lower *L, const Op *op, V *args);
V lower_ptx(Lower *L, const Op *op, V *args); /* its result, or NULL */
void lower_assert(Lower *L, const Op *op, V holds);
void lower_stamp(Lower *L, const Op *op);
/* elements.c */
void lower_parallel(Lower *L, const Op *op);
/* access.c */
void lower_element_op(Lower *L, const Op *op);        /* load, store, atomic outside parallel */
/* copy.c */
void lower_copy(Lower *L, const Op *op);
void lower_weave(Lower *L, const Op *op);
void lower_cp_async(Lower *L, const Op *op);
/* product.c */
void lower_mma(Lower *L, const Op *op);
void lower_wgmma_wait(Lower *L, const Op *op);
/* collective.c */
void lower_reduce(Lower *L, const Op *op);
void lower_scan(Lower *L, const Op *op);
/* async.c */
void lower_async(Lower *L, const Op *op);             /* tma, bulk, arrive, wait, sync, fences */
V issuing_thread(Lower *L, const Op *op);             /* i1: of those that execute op, the one that does what the team does once */
void team_sync(Lower *L);
void lower_vote(Lower *L, const Op *op);
/* control.c */
void lower_ops(Lower *L, const Op *first);            /* it and those behind it */
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
