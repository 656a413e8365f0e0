/* parse.h - what the lexer, the grammar and ast_parse.c share; private to the parser. */
#ifndef TILE_PARSE_H
#define TILE_PARSE_H

#include "dsl/ast.h"

enum {
	MAX_NAME = 63,
	MAX_DIMS = 5,
	MAX_EXPR_DEPTH = 1000, /* later passes recurse over expressions */
	MAX_OPEN_BRACES = 64,  /* remembered for messages */
	MAX_SYNTAX_ERRORS = 200 /* of one file; then reading stops */
};

union TILE_YYSTYPE;

typedef struct Parse {
	Arena *arena;
	Diags *diags;
	const Source *source;
	uint32_t index;
	uint32_t offset; /* of the next byte to scan */
	void *scanner, *buffer;
	Loc token, prev; /* the token read last, and the one before it */
	int token_kind, prev_kind;
	Loc start; /* the first token of the statement being read */
	int start_kind;
	Loc braces[MAX_OPEN_BRACES];
	unsigned brace_depth;
	bool too_deep;
	unsigned errors_before;
	Decl *decls, **decls_end;
} Parse;

/* Lists that are being built: `next`-linked from head to tail. */
typedef struct ExprList { Expr *head, *tail; unsigned depth; } ExprList;
typedef struct SubList { Sub *head, *tail; unsigned depth; } SubList;
typedef struct StmtList { Stmt *head, *tail; } StmtList;
typedef struct DeclList { Decl *head, *tail; } DeclList;
typedef struct ExtentList { Extent *head, *tail; } ExtentList;
typedef struct BindList { Bind *head, *tail; } BindList;
typedef struct NameList { NameRef *head, *tail; } NameList;

typedef struct TypeRef { DType dtype; const char *name; Loc loc; } TypeRef; /* a type, or the name of one */
typedef struct CallSuffix { Expr *limit, *within; } CallSuffix;
typedef struct ForHead { Stmt *init, *step; Expr *cond; } ForHead;

/* Evaluates `node` once. */
#define LIST_APPEND(list, node) \
	((list).head ? (void)((list).tail = (list).tail->next = (node)) : (void)((list).head = (list).tail = (node)))

/* lexer.l */
void lexer_open(Parse *p);
void lexer_close(Parse *p);
int lexer_scan(Parse *p, union TILE_YYSTYPE *value, Loc *loc);

/* ast_parse.c: between the lexer and the grammar */
typedef struct Word { int token; DType dtype; } Word;
Word parse_word(const char *text);
int parse_next_token(union TILE_YYSTYPE *value, Loc *loc, Parse *p);
__attribute__((format(printf, 3, 4))) void parse_error(Parse *p, Loc loc, const char *fmt, ...);
bool parse_gives_up(const Parse *p);

/* What could stand where the parser stopped, as the grammar's tokens. */
typedef struct Expected {
	const char *items[8];
	unsigned n;
	bool more;     /* items were left out */
	bool closing;  /* something complete stands before: a ';', ')' ... is missing */
	bool name;     /* a name could stand here */
} Expected;
void parse_report(Parse *p, Loc at, const Expected *expected);
void parse_report_depth(Parse *p);

/* parse_build.c: nodes */
Expr *build_expr(Parse *p, ExprKind kind, Loc loc);
Expr *build_unary(Parse *p, UnaryOp op, Expr *a, Loc loc);
Expr *build_binary(Parse *p, BinaryOp op, Expr *a, Expr *b, Loc loc);
Expr *build_cond(Parse *p, Expr *a, Expr *b, Expr *c, Loc loc);
Expr *build_call(Parse *p, const char *name, DType dtype, ExprList args, Loc loc);
Expr *build_field(Parse *p, const char *name, Expr *a, Loc loc); /* name: NULL for the next member */
Expr *build_struct(Parse *p, ExprList fields, Loc loc);
Expr *build_otherwise(Parse *p, Expr *call, Expr *otherwise); /* ptx(...) else otherwise */
Expr *build_cast(Parse *p, DType dtype, Expr *a, Loc loc);
Expr *build_subscript(Parse *p, Expr *a, SubList subs, Loc loc);
Expr *build_member(Parse *p, Expr *a, const char *name, Loc loc);
Sub *build_sub(Parse *p, SubKind kind, Expr *a, Expr *n, Loc loc);
void list_add_expr(ExprList *list, Expr *e);
void list_add_sub(SubList *list, Sub *s);

Stmt *build_stmt(Parse *p, StmtKind kind, Loc loc);
Stmt *build_block(Parse *p, StmtList list, Loc loc);
Stmt *build_body(Parse *p, Stmt *s, Loc loc); /* an empty block when s could not be read */
Stmt *build_decl_stmt(Parse *p, DeclList list, Loc loc);
Stmt *build_assign(Parse *p, AssignOp op, Expr *lhs, Expr *rhs, Loc loc);
Stmt *build_increment(Parse *p, AssignOp op, Expr *lhs, Loc loc);
Stmt *build_call_stmt(Parse *p, Expr *e, CallSuffix suffix, Loc loc);
Stmt *build_if(Parse *p, Expr *cond, Stmt *then, Stmt *other, Loc loc);
Stmt *build_for(Parse *p, bool unroll, ForHead head, Stmt *body, Loc loc);
Stmt *build_async(Parse *p, Stmt *body, Loc loc);
Stmt *build_parallel(Parse *p, BindList binds, Expr *batch, Stmt *body, Loc loc);
Stmt *build_role(Parse *p, Role role, Stmt *body, Loc loc);
Stmt *build_static_assert(Parse *p, Expr *cond, const char *text, Loc loc);
void set_once(Parse *p, Expr **where, Expr *e, const char *what, Loc loc);

Bind *build_bind(Parse *p, const char *name, Expr *extent, Loc loc);
Extent *build_extent(Parse *p, bool ring, Expr *e, Loc loc);
NameRef *build_name_ref(Parse *p, const char *name, Loc loc);

Decl *build_decl(Parse *p, DeclKind kind, const char *name, Loc loc);
Decl *build_value(Parse *p, DeclKind kind, DType dtype, const char *name, Expr *init, Loc loc);
Decl *build_barrier(Parse *p, DeclKind kind, const char *name, ExtentList extents, NameList from, Expr *count, Loc loc);
Decl *build_tile(Parse *p, const char *name, ExtentList extents, Loc loc);
Decl *build_tensor(Parse *p, Decl *head, TypeRef type, Decl *tile, ExprList strides);
Decl *build_scalar_param(Parse *p, TypeRef type, Decl *tile);
void set_layout(Parse *p, Decl *d, const char *layout, ExprList args, Loc loc);
void set_at(Parse *p, Decl *d, const char *name, Loc name_loc, Expr *offset, Loc loc);
void set_kind(DeclList list, DeclKind kind, TypeRef type, bool warp_scope);
void build_tensors(Parse *p, Decl *head, TypeRef type, DeclList tiles);
void build_scalar_params(Parse *p, TypeRef type, DeclList names);
void build_barrier_members(Parse *p, DeclKind kind, DeclList names);
void add_members(DeclList *list, DeclList group);
void check_function(Parse *p, const Decl *fn);
void check_struct(Parse *p, const Decl *s);
void check_kernel(Parse *p, const Decl *kernel);
void add_decls(Parse *p, DeclList list);

#endif
