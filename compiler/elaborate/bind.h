/* bind.h - what calls.c and structs.c share: parameters, and members, bound to arguments. */
#ifndef TILE_BIND_H
#define TILE_BIND_H

#include "compiler/elaborate/elab.h"

typedef struct Argument {
	Loc loc;
	Ev x;
	Sym *from; /* the variable of an element loop that is assigned */
	Sym *copy; /* the parameter that stands for it */
	const Sym *dim; /* a member that is a dim: a kernel has the dims that it uses */
	bool variable;  /* a member of a struct of variables; x may be EV_VOID */
} Argument;

/* Tiles stay references, elements are loaded, what does not exist is EV_ABSENT. */
Argument eval_argument(Elab *E, const Expr *e, const Decl *p);
/* Defines a list of parameters, one of args each, and what they bind, in the scope at hand.  body: of the function, or NULL. */
bool bind_all(Elab *E, const Decl *params, Argument *args, const Stmt *body);

int decl_count(const Decl *list);

/* structs.c */
bool bind_struct(Elab *E, const Decl *p, const Decl *type, const Argument *a, bool assigned); /* assigned: a member, in the function */
Ev struct_value(Elab *E, Loc loc, const Struct *s); /* as it is here, whoever assigns it later */
bool struct_holds(const Struct *s, const Sym *y); /* as a member, or as one of a member */
void bind_absent(Elab *E, const Struct *s); /* behind all parameters, of which another may have bound it */

void define_absent(Elab *E, Loc loc, const char *name, const Sym *y);
bool bind_mismatch(Elab *E, Loc loc, const Decl *p, DiagCode code, const char *wanted, Ev x); /* false */

#endif
