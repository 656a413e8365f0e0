/* ast.h - the syntax tree of a .tile file, as written: no names resolved, no
 * constants folded.  Nodes live in the compilation's arena.
 */
#ifndef TILE_AST_H
#define TILE_AST_H

#include <stdint.h>

#include "dsl/dtype.h"
#include "dsl/support/diag.h"

typedef struct Expr Expr;
typedef struct Stmt Stmt;
typedef struct Decl Decl;

/* Lists are singly linked through `next`, in source order. */

typedef enum UnaryOp { UN_NEG, UN_NOT, UN_BITNOT, UN_PLUS } UnaryOp;
typedef enum BinaryOp {
	BIN_ADD, BIN_SUB, BIN_MUL, BIN_DIV, BIN_MOD, BIN_SHL, BIN_SHR, BIN_AND, BIN_OR, BIN_XOR,
	BIN_LT, BIN_LE, BIN_GT, BIN_GE, BIN_EQ, BIN_NE, BIN_LAND, BIN_LOR, BIN_MATMUL
} BinaryOp;

typedef enum SubKind { SUB_INDEX, SUB_SLICE, SUB_ALL } SubKind;
typedef struct Sub { /* one subscript: [a], [a +: n], [:] */
	struct Sub *next;
	SubKind kind;
	Loc loc;
	Expr *a, *n;
} Sub;

typedef enum ExprKind {
	EX_INT, EX_REAL, EX_BOOL, EX_STRING,
	EX_NAME,   /* name */
	EX_UNARY,  /* op, a */
	EX_BINARY, /* op, a, b; includes @ */
	EX_COND,   /* a ? b : c */
	EX_CALL,   /* name(args), builtin or fn */
	EX_CAST,   /* dtype(a) */
	EX_TYPED_CALL, /* bitcast(type, args), ptx(type, args): name, dtype, args; b: of ptx, its value on the CPU device, or NULL */
	EX_SUBSCRIPT,  /* a[subs], all the brackets of one chain */
	EX_MEMBER,     /* a.name: .T, .warp, blockIdx.x, a member of a struct */
	EX_STRUCT,     /* {args}: EX_FIELD */
	EX_FIELD,      /* a, or .name = a */
} ExprKind;

struct Expr {
	Expr *next;
	ExprKind kind;
	Loc loc;
	int op;           /* UnaryOp or BinaryOp */
	DType dtype;
	const char *name; /* names, members, strings (unescaped) */
	int64_t i;
	double f;
	Expr *a, *b, *c;
	Expr *args;
	Sub *subs;
};

typedef enum AssignOp { AS_SET, AS_ADD, AS_SUB, AS_MUL, AS_DIV, AS_MOD, AS_AND, AS_OR, AS_XOR, AS_SHL, AS_SHR } AssignOp;

typedef struct Bind { /* i < extent, of parallel and role instances */
	struct Bind *next;
	Loc loc;
	const char *name;
	Expr *extent;
} Bind;

typedef enum StmtKind {
	ST_BLOCK,    /* body */
	ST_DECL,     /* decl (list): scalars, const, frag, shared, mbarrier, barrier */
	ST_ASSIGN,   /* lhs assign_op rhs; also x++ (rhs 1) */
	ST_CALL,     /* rhs is EX_CALL or EX_TYPED_CALL; limit may be set */
	ST_IF,       /* cond, body, other (may be NULL) */
	ST_FOR,      /* init, cond, step, body; unroll */
	ST_WHILE,    /* cond, body */
	ST_ONCE,     /* body */
	ST_PARALLEL, /* binds, body, batch */
	ST_ASYNC,    /* body: a ST_ASSIGN or a block of them */
	ST_ROLE,     /* role */
	ST_RETURN,   /* rhs (may be NULL) */
	ST_BREAK, ST_CONTINUE,
	ST_STATIC_ASSERT, /* cond, text */
} StmtKind;

typedef struct Role {
	const char *name;
	Bind *instances;  /* at most one, or NULL */
	bool warpgroups;  /* first..last count warpgroups, else warps */
	Expr *first, *last; /* last NULL: only first */
	Expr *setmaxnreg; /* may be NULL */
} Role;

struct Stmt {
	Stmt *next;
	StmtKind kind;
	Loc loc;
	Stmt *body, *other;  /* body of a block is a list; of others one statement */
	Stmt *init, *step;
	Expr *cond;
	Expr *lhs, *rhs;
	AssignOp assign_op;
	Expr *limit, *within; /* of calls */
	Decl *decl;
	Bind *binds;
	Expr *batch;
	bool unroll;
	Role *role;
	const char *text;
};

typedef enum DeclKind {
	DE_PARAM, DE_TYPE, /* param type: dtype is its default */
	DE_CONST, DE_DIM, DE_SCALAR, /* scalar variable */
	DE_SHARED, DE_FRAG, DE_MBARRIER, DE_BARRIER,
	DE_TENSOR,  /* kernel parameter, or tensor parameter of fn */
	DE_FN, DE_STRUCT, DE_KERNEL, DE_IMPORT, DE_STATIC_ASSERT
} DeclKind;

typedef enum Direction { DIR_NONE, DIR_IN, DIR_OUT, DIR_INOUT } Direction;

typedef struct Extent { /* one [ ... ] of a declaration */
	struct Extent *next;
	Loc loc;
	bool ring;
	Expr *e;
} Extent;

typedef struct NameRef { struct NameRef *next; Loc loc; const char *name; Expr *instance; } NameRef; /* instance: of a role, or NULL */

struct Decl {
	Decl *next;
	DeclKind kind;
	Loc loc;          /* of the name */
	const char *name; /* text of an import */
	DType dtype;
	const char *type_name; /* of tiles and tensors: a type that has this name; dtype is DT_NONE then */
	Loc type_loc;
	Extent *extents;
	Expr *exists;     /* NULL: always; kernel parameters, tiles, barriers */
	Expr *init;       /* param, const, scalar; static_assert condition */
	const char *text; /* static_assert message */

	/* shared, frag */
	const char *layout;   /* NULL: inferred */
	Expr *layout_args;
	bool warp_scope;      /* warp frag */
	const char *at_name;  /* at(tile, offset) */
	Loc at_loc;
	Expr *at_offset;

	/* mbarrier, barrier */
	NameRef *from;
	Expr *count;

	/* tensor */
	Direction dir;
	bool optional;
	Expr *strides;

	bool member;          /* of a struct */

	/* fn, struct, kernel */
	Decl *params;         /* of a struct its members */
	Stmt *body;           /* ST_BLOCK */
	Expr *grid, *threads, *occupancy, *cluster;
};

typedef struct Ast { Decl *decls; } Ast; /* of one file */

/* Parses source number `source` of `d`.  Errors go to d; the tree holds what could be read. */
Ast *ast_parse(Arena *a, Diags *d, uint32_t source);

/* Prints as indented S-expressions, one node a line. */
void ast_print(const Ast *ast, FILE *out);

#endif
