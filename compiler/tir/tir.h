/* tir.h - the tile IR: what a program means in terms of tiles, teams and
 * barriers, with every compile-time choice of the source already made.
 *
 * A module is a list of kernel ops.  An op has operands, at most one result,
 * attributes and up to two regions.  Scalars are SSA values, visible in the
 * rest of their region and in regions nested in it.  Everything mutable is an
 * object (var, frag, shared, tensor, mbarrier): there are no phis.
 *
 * Text form (print and parse are inverse):
 *
 *   %7 = load %3, %1, %2 {masked=0} : f32 @12:9
 *   for %0, %4, %5 @20:3 (%i : i32) {
 *     ...
 *   }
 *
 * Stages.  Elaboration leaves {layout} of fragments, parallel loops and shared
 * tiles empty where the source gives none, and {count}, {bytes}, {offset},
 * {inst}, {id} unset; the passes of compiler/passes/ fill them in.  The verifier
 * checks what holds at every stage.
 */
#ifndef TILE_TIR_H
#define TILE_TIR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler/machine/machine.h"
#include "compiler/tir/form.h"
#include "dsl/support/diag.h"

typedef enum ResultKind { RES_NONE, RES_SCALAR, RES_OBJECT, RES_VIEW, RES_MAYBE } ResultKind;
typedef enum OpEffect { FX_PURE, FX_READ, FX_WRITE, FX_SYNC, FX_CONTROL, FX_DECL } OpEffect;

typedef enum Opcode {
#define OP(id, text, operands, names, result, effect, regions, attributes, doc) id,
#include "compiler/tir/ops.def"
#undef OP
	OP_COUNT
} Opcode;

typedef enum OperandId {
#define OPERAND(id, text) ARG_##id,
#include "compiler/tir/operands.def"
#undef OPERAND
	OPERAND_IDS
} OperandId;
const char *operand_name(OperandId id);

enum { MOST_NAMED = 5 };
typedef struct OpInfo {
	const char *text;
	const char *operands; /* "<t >t ?i", as ops.def has it */
	uint8_t name[MOST_NAMED]; /* of them, OperandId */
	ResultKind result;
	OpEffect effect;
	int regions;
	const char *attributes; /* "name ring? ..." */
	const char *doc;
} OpInfo;
const OpInfo *op_info(Opcode op);
/* OP_COUNT when there is none. */
Opcode op_from_text(const char *text);

/* One sign and letter of a row's operands. */
enum { ACCESS_READ = 1, ACCESS_WRITE = 2 };
typedef struct Operand {
	char kind;        /* the letter */
	uint8_t access;   /* ACCESS_READ, ACCESS_WRITE, both or 0 */
	bool async;       /* through the async proxy */
	bool optional;
	int most;         /* how many of them; INT_MAX: any number */
} Operand;
/* Takes the next from *text; false at the end. */
bool next_operand(const char **text, Operand *out);
void op_arity(Opcode op, int *least, int *most); /* most INT_MAX: any number */

/* ---- types ---- */

enum { TIR_MAX_RANK = 6 }; /* a ring dimension and five more */

typedef enum TypeKind {
	TY_NONE, TY_SCALAR, TY_VAR, TY_MBARRIER, TY_BARRIER,
	TY_TENSOR, TY_SHARED, TY_FRAG,            /* objects; tensor: rank only, no shape */
	TY_VIEW_TENSOR, TY_VIEW_SHARED, TY_VIEW_FRAG /* shape after dropping indexed dimensions and .T; fixed extents only */
} TypeKind;

typedef struct Type {
	TypeKind kind;
	DType dtype;
	int rank;
	int64_t shape[TIR_MAX_RANK]; /* tensors: -1; a view of a whole run-time extent: -1 */
} Type;

/* ---- attributes ---- */

typedef enum AttrId {
#define ATTR(id, text, kind, lo, hi, doc) id,
#include "compiler/tir/attrs.def"
#undef ATTR
	ATTR_IDS
} AttrId;

typedef enum AttrKind { ATTR_INT, ATTR_REAL, ATTR_TEXT, ATTR_LIST, ATTR_FORM } AttrKind;
typedef struct AttrInfo {
	const char *text;
	AttrKind kind;
	int64_t lo, hi;
	const char *doc;
} AttrInfo;
const AttrInfo *attr_info(AttrId id);
AttrId attr_from_text(const char *text); /* ATTR_IDS when there is none */
/* Whether a row of ops.def has the attribute. */
typedef enum AttrUse { USE_NEVER, USE_OPTIONAL, USE_REQUIRED } AttrUse;
AttrUse op_attr_use(Opcode op, AttrId id);

typedef struct Attr {
	struct Attr *next; /* sorted by id */
	AttrId id;
	AttrKind kind;
	int64_t i;
	double f;
	const char *text;
	int n;
	int64_t *list;
	const Form *form;
} Attr;

/* ---- values, ops, regions ---- */

typedef struct Op Op;
typedef struct Region Region;

/* The expanded call that an op comes from. */
typedef struct Site { const struct Site *caller; const char *fn; Loc call; } Site;

typedef struct Value {
	unsigned id;      /* unique in the kernel; printed as %id */
	Type type;
	Op *def;          /* NULL for a region argument */
	Region *region;   /* of a region argument */
	const char *name; /* the source's name or NULL; for messages */
} Value;

enum { REGION_MAX_ARGS = 2 };
struct Region {
	Op *owner;
	Op *first, *last;
	int nargs;
	Value *args[REGION_MAX_ARGS];
};

struct Op {
	Op *prev, *next;
	Region *parent;   /* NULL for kernels */
	Opcode code;
	Loc loc;
	const Site *site; /* NULL: of no function */
	Value *result;    /* or NULL */
	int nargs;
	Value **args;
	Attr *attrs;
	Region *regions[2];
};

typedef struct Tir {
	Arena *arena;
	Diags *diags;
	const Machine *machine; /* that it is a program of */
	Op *first, *last; /* kernels */
	unsigned next_id;
	const Site *site; /* of the ops that are made now */
} Tir;

Tir *tir_new(Arena *a, Diags *d, const Machine *m);

/* Notes in which calls: the last few. */
void site_notes(Diags *d, const Site *site);
/* An error at op, with these notes. */
__attribute__((format(printf, 4, 5))) void tir_error(const Tir *t, const Op *op, DiagCode code, const char *fmt, ...);

/* ---- building ---- */

/* Creates an op that is in no region yet.  `type.kind` TY_NONE: no result. */
Op *tir_op(Tir *t, Opcode code, Loc loc, Type type, int nargs, Value *const *args);
Region *tir_region(Tir *t, Op *owner, int index); /* creates owner->regions[index] */
Value *tir_region_arg(Tir *t, Region *r, Type type, const char *name);
void tir_append(Region *r, Op *op);
void tir_insert_before(Op *where, Op *op);
void tir_insert_after(Op *where, Op *op);
void tir_remove(Op *op);
void tir_add_kernel(Tir *t, Op *kernel);
void tir_add_operand(Tir *t, Op *op, Value *v);

static inline Type type_none(void) { return (Type){ .kind = TY_NONE }; }
static inline Type type_scalar(DType d) { return (Type){ .kind = TY_SCALAR, .dtype = d }; }
Type type_tile(TypeKind kind, DType d, int rank, const int64_t *shape);
bool type_equal(Type a, Type b);
/* "frag<f32, 64x128>", as printed in TIR. */
const char *type_text(Arena *a, Type t);

/* ---- attributes ---- */

void attr_set_int(Tir *t, Op *op, AttrId id, int64_t v);
void attr_set_real(Tir *t, Op *op, AttrId id, double v);
void attr_set_text(Tir *t, Op *op, AttrId id, const char *v);
void attr_set_list(Tir *t, Op *op, AttrId id, int n, const int64_t *v);
void attr_set_layout(Tir *t, Op *op, const Form *f);
const Attr *attr_get(const Op *op, AttrId id); /* NULL when unset */
const Form *attr_layout(const Op *op);         /* NULL when unset */
const char *layout_name(const Tir *t, const Op *op); /* as it is written; "none" when unset */
int64_t attr_int(const Op *op, AttrId id, int64_t otherwise);
const char *attr_text(const Op *op, AttrId id, const char *otherwise);

/* ---- operands ---- */

/* NULL when it is left out; of an op that has none of that name in ops.def it is not asked. */
Value *operand(const Op *op, OperandId id);
int operand_place(const Op *op, OperandId id); /* its number, whether it is there or not */
void set_operand(Op *op, OperandId id, Value *v); /* that is there */
/* Of loads, stores and atomics: the index of dimension d of their object; the mask or NULL. */
Value *access_index(const Op *op, int d);
Value *access_mask(const Op *op);
Value *tensor_extent(const Op *tensor, int d);
Value *tensor_stride(const Op *tensor, int d);

/* ---- tiles: objects and views alike ---- */

typedef struct TileRef {
	Op *object;           /* OP_TENSOR, OP_SHARED or OP_FRAG */
	TypeKind space;       /* TY_TENSOR, TY_SHARED or TY_FRAG */
	DType dtype;
	int rank;             /* of the view */
	int64_t shape[TIR_MAX_RANK]; /* after .T */
	int object_rank;
	int64_t dims[TIR_MAX_RANK];  /* per object dimension: 0 whole, n slice, -1 index */
	Value *start[TIR_MAX_RANK];  /* index or start; NULL where whole */
	bool trans;
	bool warp_scope;      /* a fragment of each warp, or a warp's rows of the team's */
} TileRef;
TileRef tile_ref(const Value *v);
/* Whether a box of TMA fills a tile: but for extents of one element theirs are the same, or the box's first ones make the rows of the tile. */
bool box_fills(const int64_t *box, int box_rank, const int64_t *tile, int tile_rank);
int first_slice(const TileRef *r);  /* the dimension that a limit is about; -1 without one */

/* The declaration of a barrier, or of the array that it is picked from. */
Op *barrier_of(const Value *v);

/* NULL: each $ of inline PTX is $$ or one of the n operands. */
const char *ptx_text_error(Arena *a, const char *text, int n);

/* ---- walking ---- */

typedef bool (*OpVisitor)(Op *op, void *user); /* false: do not enter its regions */
void tir_walk(Region *r, OpVisitor visit, void *user);
Op *tir_enclosing(const Op *op, Opcode code); /* nearest ancestor, or NULL */
/* The team executing op: its role, or the kernel. */
Op *tir_team(const Op *op);
int team_warps(const Op *team);
/* Whether v is a compile-time integer; stores it. */
bool value_const_int(const Value *v, int64_t *out);

/* ---- text ---- */

void tir_print(const Tir *t, FILE *out);
/* Parses TIR text of source `source`; errors to d; NULL on errors. */
Tir *tir_parse(Arena *a, Diags *d, const Machine *m, uint32_t source);
/* Reports what is ill-formed as E_TIR (our bug); true when sound. */
bool tir_verify(const Tir *t);

#endif
