/* elab.h - what the files of the elaborator share: values of expressions, symbols, the context. */
#ifndef TILE_ELAB_H
#define TILE_ELAB_H

#include "compiler/analysis/bits.h"
#include "compiler/elaborate/elaborate.h"
#include "dsl/support/table.h"

typedef struct Elab Elab;
typedef struct View View;
typedef struct MBar MBar;
typedef struct Struct Struct;

/* ---- what an expression is ---- */

typedef enum EvKind {
	EV_ERROR, /* reported already: silences what follows */
	EV_VOID,  /* no value: a call without result, a scalar not yet assigned */
	EV_CONST, EV_VALUE, EV_TILE, EV_MBARRIER, EV_BARRIER, EV_STRUCT, EV_TEXT,
	EV_ABSENT /* an argument that does not exist */
} EvKind;

typedef struct Ev {
	EvKind kind;
	DType dtype;
	bool literal;    /* takes the type of the other operand */
	bool ranged;     /* a parallel index plus a constant: lo..hi */
	int64_t lo, hi;
	int64_t i;       /* EV_CONST of integers and bool */
	double f;        /* EV_CONST of floats */
	Value *value;    /* EV_VALUE */
	const View *view; /* EV_TILE */
	const MBar *bar; /* EV_MBARRIER, EV_BARRIER */
	const Struct *of; /* EV_STRUCT */
	const char *text;
	const struct Sym *absent; /* EV_ABSENT: whose declaration's condition is false */
} Ev;

typedef struct ViewDim {
	int64_t extent;      /* of the object; -1 at run time */
	Value *extent_value; /* of tensors with a run-time extent */
	int64_t take;        /* as {dims} of OP_VIEW: 0 whole, n slice, -1 index */
	int64_t seen;        /* extent of the view; -1 at run time */
	Ev start;            /* where take is not 0 */
	bool ring;
} ViewDim;

struct View {
	const char *name;
	Loc declared;
	Value *object;
	TypeKind space; /* TY_TENSOR, TY_SHARED, TY_FRAG */
	DType dtype;
	int rank;       /* of the object */
	ViewDim dim[TIR_MAX_RANK];
	bool trans;
	bool warp_view; /* .warp of a team's fragment */
	bool warp_frag;
	Direction dir;
	bool optional, strided;
};

struct MBar {
	const char *kind, *name; /* kind: "mbarrier", or "barrier" for a named one */
	Loc declared;
	Value *object;
	const char *element;     /* its number's name in the declaration */
	int64_t array;           /* elements; 0: no array */
	int64_t slots;           /* of each */
	bool ring, scalar;       /* scalar: declared without slots */
	bool indexed;
	Ev which, use;           /* which: EV_ERROR until an index has chosen the element */
};

/* ---- symbols ---- */

typedef enum SymKind {
	SYM_EV, SYM_VAR, SYM_DIM, SYM_TYPE, SYM_FN, SYM_STRUCT, SYM_KERNEL,
	SYM_ABSENT, /* declared under a condition that is false */
	SYM_UNCLEAR /* bound by two structs, to different things */
} SymKind;

typedef struct Sym {
	struct Sym *next;
	const char *name;
	Loc loc;
	SymKind kind;
	Ev ev;            /* SYM_EV: constants, SSA scalars, tiles, barriers */
	const char *fixed; /* why it cannot be assigned: "a constant"; NULL: it can be */
	DType dtype;      /* of scalars; SYM_TYPE: the type */
	int parallel;     /* the parallel loop that declares it, 0 for none */
	int read_in, combined_in; /* the last parallel loop that did */
	Value *mask;      /* in force where it was declared */
	Value *var;       /* SYM_VAR */
	int dim;          /* SYM_DIM: order of declaration */
	const Decl *decl; /* SYM_FN, SYM_STRUCT, SYM_KERNEL */
	bool member;      /* of a struct */
	bool derived;     /* bound by a member of a struct that the function takes: what the function declares itself hides it */
	const struct Sym *origin; /* SYM_ABSENT of a function: what was to be passed; SYM_DIM of a struct: the dim */
} Sym;

typedef struct Scope {
	struct Scope *parent;
	Sym *syms, *last;
	int n;
	Table *by_name; /* of a scope with many symbols, else NULL */
} Scope;

struct Struct {
	const Decl *decl;
	const Scope *scope; /* its members, and the extents and types that they bind */
	bool variable;      /* scalar members are variables, not values */
};

typedef struct Frame { /* an expanded call */
	struct Frame *caller;
	const Decl *fn;
	Region *region;
	Value *mask;
	int depth;
	DType ret;              /* of a scalar that is returned, else DT_NONE */
	const Decl *ret_struct; /* of a struct, else NULL */
	bool returned;
	Ev result;
} Frame;

/* A place in a region: after `op`, or at its start. */
typedef struct Spot { Region *region; Op *op; } Spot;

/* The loop at hand, as `break` and `continue` see it.  At run time a jump sets a flag, and what follows is under it. */
typedef struct Loop {
	struct Loop *outer;
	unsigned jumps;      /* JUMP_... in its body */
	int parallel;        /* as Elab's, and its mask */
	Value *mask;
	Spot before, body;  /* where flags are declared: that of break, that of continue */
	Region *level;       /* a jump in this region is certain, unless one was taken before */
	Value *left, *skip;  /* the flags; NULL: none so far */
	Loc jump;            /* the last one */
	bool jumped;         /* the code at hand is not reached */
	bool maybe_jumped;   /* it is not on some path */
	bool maybe_continued, ended; /* ended: an unrolled loop's further copies are not reached */
} Loop;
enum { JUMP_BREAK = 1, JUMP_CONTINUE = 2 };

/* Arms of ?: and the like that are computed whether they are chosen or not. */
typedef struct Chosen {
	const struct Chosen *outer;
	Ev c;
	bool when;           /* what c is where the arm is chosen */
} Chosen;

typedef struct Define { const char *name, *value; bool used; } Define;
typedef struct ConstSlot { Value *value; int64_t i; double f; } ConstSlot;
typedef struct DimSlot { struct DimSlot *next; int order; Value *value; } DimSlot;
/* A file sees its own declarations and those of the files that it imports, and what they import. */
typedef struct File File;
typedef struct Import { const struct Import *next; File *file; } Import;
struct File {
	const char *path;
	uint32_t source;
	File *alike;           /* another with its last name and length */
	const Import *imports;
	Bits sees;             /* sources, itself included, as of so many imports of all files: */
	unsigned as_of;
};

typedef struct StmtList {
	const Stmt *first, *rest; /* rest: after the statement at hand */
	int asked;                /* what is assigned later */
	Table *last_assigned;     /* by name: the last statement that does, or NULL where little was asked */
} StmtList;

enum { MAX_UNROLL = 4096, MAX_CALL_DEPTH = 64, MAX_STRUCT_DEPTH = 64, MAX_TILE_RANK = 5, MAX_VALUES = 1 << 19, MAX_STATEMENTS = 1 << 21 };

/* Where the code at hand stands.  It is entered and left as one value: nothing of it outlives what it is said of. */
typedef struct Place {
	Region *region;       /* where ops are appended; NULL: nothing is computed at run time */
	int nconsts;          /* that are materialised and visible */
	Scope *scope;
	File *file;
	Frame *frame;         /* the call; NULL: none */
	StmtList *list;       /* the statement is in */
	Loop *loop;           /* NULL: none */
	int depth;            /* loops, run-time ifs, once around */
	int parallel;         /* the number of the element loop; 0 outside */
	Value *mask;          /* of its conditions; NULL: none */
	const Chosen *chosen; /* the arms; NULL: none */
	int64_t team_warps;
	bool in_role, in_async, in_grid;
	bool in_stride; /* dims have 64 bits, as offsets have */
} Place;

struct Elab {
	Place at;
	Arena *a;
	Diags *d;
	Tir *t;
	const ElabOptions *o;
	Define *defines;
	int ndefines;
	int64_t trace; /* points of each warp, of -D TRACE=n; 0: stamps are nothing */
	Table *paths, *alike; /* files by path, and by last name and length */
	File **file_of, **to_follow; /* by source; room to walk the imports */
	unsigned nfiles, file_room;
	unsigned imports;    /* of all files, with which what they see changes */
	int import_depth;

	Scope *globals;
	int ndims;
	int statements;
	int struct_depth;
	bool hopeless; /* too deep or too big: what follows is not expanded */

	/* the kernel at hand */
	Op *kernel;
	DimSlot *dims;
	Value *trace_tensor;

	/* element loops */
	int parallels;
	bool par_warp, par_team; /* it touches fragments of a warp, of the team */

	ConstSlot *consts; /* materialised and visible */
	int consts_cap;
};

/* ---- place.c: where code stands, and ops there ---- */

Place place_enter(Elab *E, Region *r); /* r: may be the region at hand */
void place_leave(Elab *E, Place before); /* constants of the region that both are in stay visible */
Op *emit_op(Elab *E, Opcode code, Loc loc, Type type, int nargs, Value *const *args);
Value *emit(Elab *E, Opcode code, Loc loc, DType result, int nargs, Value *const *args);
bool require_team_level(Elab *E, Loc loc, const char *what);
bool at_top(Elab *E, Loc loc, const char *what); /* else reports */

/* ---- report.c: messages ---- */

__attribute__((format(printf, 4, 5))) void elab_error(Elab *E, Loc loc, DiagCode code, const char *fmt, ...);
void report_absent(Elab *E, Loc loc, const Sym *y);
const Sym *named_absent(const Elab *E, const Expr *e); /* what does not exist and is named, or a part of it; or NULL */
const char *ev_text(Elab *E, Ev ev); /* "bf16 shared tile 64x128" */
const char *view_shape_text(Elab *E, const View *v);

/* ---- view.c ---- */

int view_axes(const View *v, int axes[TIR_MAX_RANK]); /* object dimensions in the order seen */
int64_t view_extent(const View *v, int seen_axis);

/* ---- scope.c: symbols ---- */

Scope *scope_push(Elab *E);
void scope_pop(Elab *E, Scope *saved);
Sym *sym_find(const Elab *E, const char *name);
Sym *sym_in(const Scope *s, const char *name);
Sym *sym_of(const Elab *E, const Expr *e); /* of a name, or of a member of a struct; NULL: e is neither, or there is none */
/* A name of a file or of a launch: not that of a built-in. */
void refuse_builtin(Elab *E, Loc loc, const char *name);
/* Reports a second definition in the same scope; the symbol is usable all the same. */
Sym *sym_define(Elab *E, Loc loc, const char *name, SymKind kind);
Sym *sym_define_ev(Elab *E, Loc loc, const char *name, Ev ev, const char *fixed);
void define_type(Elab *E, Loc loc, const char *name, DType t);
/* d with its type looked up where it is a name; NULL: reported. */
const Decl *with_type(Elab *E, const Decl *d);
void report_unknown(Elab *E, Loc loc, const char *name, bool call);
/* What is called has been found as y, which is none. */
void report_no_function(Elab *E, const Expr *call, const Sym *y);

/* ---- imports.c, elaborate.c: files ---- */

File *main_file(Elab *E, const char *path, uint32_t source);
File *file_of(const Elab *E, uint32_t source);
bool file_sees(const Elab *E, File *f, uint32_t source);
void import_file(Elab *E, const Decl *d);
void file_decls(Elab *E, const Ast *ast, File *file);

/* ---- constants.c ---- */

Ev ev_error(void);
Ev ev_void(void);
Ev ev_int(DType t, int64_t v);
Ev ev_float(DType t, double v);
Ev ev_bool(bool v);
bool int_fits(DType t, int64_t v);
double const_number(Ev x);
const char *const_text(Elab *E, Ev x);
/* Whether an integer type has the constant's value; what floats have, ev_cast says. */
bool const_fits(DType t, Ev x);
/* Both operands of type t.  False: division by zero. */
bool fold_binary(int op, DType t, Ev a, Ev b, Ev *out);
Ev fold_cast(Ev a, DType t);

/* ---- scalar.c: scalar operations, folded where they can be ---- */

Ev ev_of(Value *v);
bool ev_is_scalar(Ev e);
Value *ev_value(Elab *E, Loc loc, Ev e);
Ev ev_cast(Elab *E, Loc loc, Ev e, DType t);
Ev declared_value(Elab *E, const Decl *d, Ev x);
Ev ev_condition(Elab *E, Loc loc, Ev e); /* to bool */
DType ev_unify(Elab *E, Loc loc, const char *what, Ev *a, Ev *b); /* DT_NONE: reported */
Ev ev_binary(Elab *E, Loc loc, int op, Ev a, Ev b);
Ev ev_unary(Elab *E, Loc loc, int op, Ev a);
Ev ev_select(Elab *E, Loc loc, Ev c, Ev a, Ev b);
Value *mask_and(Elab *E, Loc loc, Value *mask, Ev c);

/* ---- expr.c ---- */

Ev eval(Elab *E, const Expr *e);       /* elements are loaded */
Ev eval_place(Elab *E, const Expr *e); /* elements stay views of rank 0 */
Ev eval_scalar(Elab *E, const Expr *e, const char *what);
Ev scalar_of(Elab *E, Loc loc, const Sym *y); /* of a variable or a value, what it is here */
Ev eval_const(Elab *E, const Expr *e, const char *what); /* EV_CONST or EV_ERROR */
bool eval_const_int(Elab *E, const Expr *e, const char *what, int64_t *out);
Ev eval_i32(Elab *E, const Expr *e, const char *what);
Ev ev_as_i32(Elab *E, Loc loc, Ev x, const char *what); /* of what has been evaluated */
Ev eval_and(Elab *E, Loc loc, Ev a, const Expr *b); /* a && b */

/* ---- syntax.c: questions about syntax ---- */

bool assigns_name(const Elab *E, const Stmt *list, const char *name);
bool assigned_later(Elab *E, const char *name); /* after the statement at hand, in its list */
/* JUMP_...: the jumps of a loop with this body. */
unsigned jumps_of(const Stmt *body);
bool expr_is_pure(const Elab *E, const Expr *e);
/* Whether e stays the same while `body` runs. */
bool expr_is_invariant(const Elab *E, const Expr *e, const Stmt *body, const char *index);

/* ---- tiles.c: views and elements ---- */

Ev view_subscript(Elab *E, Ev base, const Expr *e);
Ev view_member(Elab *E, Ev base, const Expr *e);
Value *view_value(Elab *E, Loc loc, const View *v); /* object or OP_VIEW */
Ev element_load(Elab *E, Loc loc, const View *v);
void element_store(Elab *E, Loc loc, const View *v, Ev x);
Ev element_atomic(Elab *E, Loc loc, const View *v, Ev x, const char *rmw, bool want);
bool check_writable(Elab *E, Loc loc, const View *v);
/* Constant slices of a tensor lie in it; limited: the first is cut at run time. */
bool slices_fit(Elab *E, Loc loc, const View *v, bool limited);
bool same_shape(Elab *E, Loc loc, const char *what, const View *a, const View *b);
bool box_shape(Elab *E, Loc loc, const char *what, const View *global, const View *tile); /* of TMA */
Ev ev_tile(const View *v);

/* ---- barriers.c ---- */

bool declare_barrier(Elab *E, const Decl *d);
Ev barrier_subscript(Elab *E, Ev base, const Expr *e);
int barrier_open_extents(const MBar *b, int64_t extents[2]);
Value *barrier_value(Elab *E, Loc loc, const MBar *b); /* the object, or one of its elements */

/* ---- tilestmt.c: statements on whole tiles ---- */

bool is_product(const Expr *e);
void product_assign(Elab *E, const Stmt *s);
void tile_assign(Elab *E, const Stmt *s, const View *dst);
void tile_fill(Elab *E, Loc loc, const View *dst, Ev x);
void exec_async(Elab *E, const Stmt *s);

/* ---- builtins.c, calls.c ---- */

bool builtin_exists(const char *name);
bool builtin_is_pure(const char *name);
const char *builtin_signature(const char *name); /* NULL: it is none */
unsigned builtin_names(const char **out, unsigned max);
/* s: the call as a statement, or NULL in an expression. */
Ev builtin_call(Elab *E, const Expr *e, const Stmt *s);
Ev fn_call(Elab *E, const Expr *e, const Decl *fn);
void exec_return(Elab *E, const Stmt *s);

/* ---- structs.c: what functions take together ---- */

void declare_struct(Elab *E, const Decl *d, const Decl *type);
Ev eval_as(Elab *E, const Expr *e, const Decl *type); /* of this struct, if it is not NULL: e may be { ... } */
void assign_struct(Elab *E, Loc loc, const Sym *y, Ev x);
void report_no_member(Elab *E, const Expr *e, const Struct *s);

/* ---- jumps.c: break and continue ---- */

void loop_enter(Elab *E, Loop *l, const Stmt *body);
void loop_leave(Elab *E);
void loop_body_begins(Elab *E); /* E->at.region is where */
Value *loop_left_flag(Elab *E); /* declared at the first call */
/* Runs `part` in a region for when the flag is not set. */
typedef void LoopPart(Elab *E, const Stmt *part);
void unless_jumped(Elab *E, Loc loc, Value *flag, LoopPart *run, const Stmt *part);
void exec_jump(Elab *E, const Stmt *s);
/* Around a region that is not on every path; enter's result is for leave. */
bool jump_arm_enter(Elab *E);
void jump_arm_leave(Elab *E, bool maybe);
/* After a statement of a list; true: the rest of the list is done. */
bool jump_ends_list(Elab *E, const Stmt *rest);

/* ---- stmt.c, parallel.c, decls.c, kernel.c ---- */

void set_var(Elab *E, Loc loc, const Sym *y, Ev x);
void set_ssa(Elab *E, Loc loc, Sym *y, Ev x); /* assigns a variable of an element loop */
void exec(Elab *E, const Stmt *s);
void exec_list(Elab *E, const Stmt *list);
void exec_loop(Elab *E, const Stmt *s); /* loops.c */
void exec_while(Elab *E, const Stmt *s);
bool too_big(Elab *E, Loc loc); /* with one statement, or copy of a struct, more */
void exec_parallel(Elab *E, const Stmt *s);
void parallel_if(Elab *E, const Stmt *s, Ev c);
void declare(Elab *E, const Decl *d);
bool declared_here(Elab *E, const Decl *d); /* false: defined as absent, or in error */
void declare_const(Elab *E, const Decl *d);
void declare_scalar(Elab *E, const Decl *d, Ev init, bool mutable_);
void static_assertion(Elab *E, Loc loc, const Expr *cond, const char *text);
void exec_role(Elab *E, const Stmt *s);
void elaborate_kernel(Elab *E, const Decl *d);
Ev dim_value(Elab *E, Loc loc, const char *name, int order);

#endif
