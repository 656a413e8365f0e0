/* builtins.h - a checked call of a built-in function, as its handler sees it. */
#ifndef TILE_BUILTINS_H
#define TILE_BUILTINS_H

#include "compiler/elaborate/elab.h"

typedef struct Call Call;
typedef Ev BuiltinHandler(Elab *E, const Call *c);

typedef struct Builtin {
	const char *name, *signature, *args, *flags;
	BuiltinHandler *handler;
	Opcode op;
} Builtin;

struct Call {
	const Builtin *b;
	const Expr *e;
	const Stmt *s; /* NULL in an expression */
	int n;
	Ev *arg;  /* as many as are given, n of them evaluated */
	Loc *loc;
	Ev limit; /* EV_VOID when absent */
	int64_t within; /* 0 when absent */
};

#define BUILTIN(name, signature, args, flags, handler, op) BuiltinHandler handler;
#include "compiler/elaborate/builtins.def"
#undef BUILTIN

#endif
