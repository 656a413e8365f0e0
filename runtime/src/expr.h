/* expr.h - the postfix expressions of a module: extents, strides and grids over dims and scalars. */
#ifndef TILE_RUNTIME_EXPR_H
#define TILE_RUNTIME_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/src/pool.h"

typedef enum ExprOp {
	EX_INT, EX_SYMBOL, EX_SM_COUNT, /* operands */
	EX_ADD, EX_SUB, EX_MUL, EX_DIV, EX_REM, EX_CDIV, EX_MIN, EX_MAX
} ExprOp;

typedef struct ExprToken {
	ExprOp op;
	int64_t value; /* EX_INT: the number; EX_SYMBOL: its index */
} ExprToken;

typedef struct Expr {
	const char *text; /* postfix, as in the module; not terminated */
	size_t length;
	ExprToken *tokens; /* NULL until parsed */
	uint32_t count;
} Expr;

enum { EXPR_MAX_DEPTH = 64, EXPR_MAX_TOKENS = 1024 };

/* Index of a name, or -1. */
typedef int (*ExprLookup)(const void *context, const char *name, size_t length);

/* Parses e->text; on failure says why, nothing where memory is out, and returns false.  A parsed expression leaves one value and never
 * underflows or exceeds EXPR_MAX_DEPTH. */
bool rt_expr_parse(Expr *e, Pool *pool, ExprLookup lookup, const void *context, char *why, size_t why_size);

typedef struct ExprEnv {
	const int64_t *values; /* by symbol index */
	const bool *known;
	int64_t sm_count;
} ExprEnv;

typedef enum ExprResult { EXPR_OK, EXPR_UNKNOWN, EXPR_OVERFLOW, EXPR_DIV_ZERO } ExprResult;

/* On EXPR_UNKNOWN *out is the index of the symbol without a value. */
ExprResult rt_expr_eval(const Expr *e, const ExprEnv *env, int64_t *out);

/* The symbol when the expression is one bare name, else -1. */
static inline int rt_expr_bare_symbol(const Expr *e)
{
	return e->count == 1 && e->tokens[0].op == EX_SYMBOL ? (int)e->tokens[0].value : -1;
}

/* Writes it as a reader expects it, (T + 1) * H; names by symbol index. */
void rt_expr_format(const Expr *e, const char *const *names, char *out, size_t size);

#endif
