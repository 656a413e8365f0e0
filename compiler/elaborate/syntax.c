/* syntax.c - questions answered by the syntax alone: what is assigned, what has effects. */
#include "compiler/elaborate/elab.h"

#include <string.h>

/* ---- what is assigned ---- */

typedef bool (*AssignVisitor)(void *user, const char *name, const Stmt *s); /* true: that is enough */

static bool each_changed(const Elab *E, const Expr *e, const Stmt *s, AssignVisitor visit, void *user);

static bool each_changed_of(const Elab *E, const Expr *list, const Stmt *s, AssignVisitor visit, void *user)
{
	for (; list; list = list->next)
		if (each_changed(E, list, s, visit, user))
			return true;
	return false;
}

/* The variable of now.of.start; NULL: e is no variable, or part of one. */
static const char *root_name(const Expr *e)
{
	while (e->kind == EX_MEMBER)
		e = e->a;
	return e->kind == EX_NAME ? e->name : NULL;
}

/* A call assigns the names that a function takes as out or inout scalars, wherever in an expression it stands. */
static bool each_changed(const Elab *E, const Expr *e, const Stmt *s, AssignVisitor visit, void *user)
{
	if (!e)
		return false;
	const Sym *y = e->kind == EX_CALL && e->args && !builtin_exists(e->name) ? sym_find(E, e->name) : NULL;
	const Decl *p = y && y->kind == SYM_FN ? y->decl->params : NULL;
	for (const Expr *x = e->args; x && p; x = x->next, p = p->next)
		if (p->kind == DE_SCALAR && p->dir != DIR_NONE && root_name(x) && visit(user, root_name(x), s))
			return true;
	for (const Sub *sub = e->subs; sub; sub = sub->next)
		if (each_changed(E, sub->a, s, visit, user))
			return true;
	return each_changed_of(E, e->args, s, visit, user) || each_changed(E, e->a, s, visit, user) || each_changed(E, e->b, s, visit, user) ||
		each_changed(E, e->c, s, visit, user);
}

static bool each_changed_by(const Elab *E, const Stmt *s, AssignVisitor visit, void *user)
{
	for (const Decl *d = s->decl; d; d = d->next)
		if (each_changed(E, d->init, s, visit, user))
			return true;
	return each_changed(E, s->cond, s, visit, user) || each_changed(E, s->lhs, s, visit, user) || each_changed(E, s->rhs, s, visit, user) ||
		each_changed(E, s->limit, s, visit, user);
}

static bool each_assigned(const Elab *E, const Stmt *list, AssignVisitor visit, void *user)
{
	for (const Stmt *s = list; s; s = s->next) {
		if (s->kind == ST_ASSIGN && root_name(s->lhs) && visit(user, root_name(s->lhs), s))
			return true;
		if (each_changed_by(E, s, visit, user))
			return true;
		if (each_assigned(E, s->body, visit, user) || each_assigned(E, s->other, visit, user))
			return true;
		if (each_assigned(E, s->init, visit, user) || each_assigned(E, s->step, visit, user))
			return true;
	}
	return false;
}

static bool is_name(void *user, const char *name, const Stmt *s)
{
	(void)s;
	return !strcmp(user, name);
}

bool assigns_name(const Elab *E, const Stmt *list, const char *name)
{
	return each_assigned(E, list, is_name, (void *)name);
}

static bool note_last(void *last, const char *name, const Stmt *s)
{
	table_set(last, name, (void *)s);
	return false;
}

enum { SCANNED = 16 }; /* questions about a list that are answered without a table of it */

bool assigned_later(Elab *E, const char *name)
{
	StmtList *l = E->at.list;
	if (!l || !l->rest)
		return false;
	if (++l->asked <= SCANNED)
		return assigns_name(E, l->rest, name);
	if (!l->last_assigned) {
		l->last_assigned = table_new(E->a);
		each_assigned(E, l->first, note_last, l->last_assigned);
	}
	const Stmt *last = table_get(l->last_assigned, name);
	return last && last->loc.begin >= l->rest->loc.begin;
}

/* ---- what jumps, what has effects, what changes ---- */

unsigned jumps_of(const Stmt *body)
{
	unsigned jumps = 0;
	for (const Stmt *s = body; s; s = s->next) {
		if (s->kind == ST_BREAK || s->kind == ST_CONTINUE)
			jumps |= s->kind == ST_BREAK ? JUMP_BREAK : JUMP_CONTINUE;
		else if (s->kind != ST_FOR && s->kind != ST_WHILE)
			jumps |= jumps_of(s->body) | jumps_of(s->other);
	}
	return jumps;
}

static bool is_constant_divisor(const Elab *E, const Expr *e)
{
	if (e->kind == EX_INT || e->kind == EX_REAL)
		return true;
	const Sym *y = sym_of(E, e);
	return y && y->kind == SYM_EV && y->ev.kind == EV_CONST;
}

static bool all_pure(const Elab *E, const Expr *list)
{
	for (; list; list = list->next)
		if (!expr_is_pure(E, list))
			return false;
	return true;
}

/* Calls without effect: built-in functions and conversions to a named type. */
static bool call_is_pure(const Elab *E, const Expr *e)
{
	const Sym *y = sym_find(E, e->name);
	return builtin_is_pure(e->name) || (y && y->kind == SYM_TYPE);
}

bool expr_is_pure(const Elab *E, const Expr *e)
{
	if (!e)
		return true;
	switch (e->kind) {
	case EX_SUBSCRIPT: return false;
	case EX_CALL: /* cdiv divides */
		return call_is_pure(E, e) && strcmp(e->name, "cdiv") && all_pure(E, e->args);
	case EX_TYPED_CALL: return !strcmp(e->name, "bitcast") && all_pure(E, e->args);
	case EX_BINARY:
		if ((e->op == BIN_DIV || e->op == BIN_MOD) && !is_constant_divisor(E, e->b))
			return false;
		break;
	default: break;
	}
	return expr_is_pure(E, e->a) && expr_is_pure(E, e->b) && expr_is_pure(E, e->c);
}

typedef struct Around { const Stmt *body; const char *index; } Around;

static bool invariant(const Elab *E, const Expr *e, const Around *loop);

static bool all_invariant(const Elab *E, const Expr *list, const Around *loop)
{
	for (; list; list = list->next)
		if (!invariant(E, list, loop))
			return false;
	return true;
}

/* Elements of `in` tensors do not change while the kernel runs. */
static bool invariant_element(const Elab *E, const Expr *e, const Around *loop)
{
	const Sym *y = sym_of(E, e->a);
	if (!y || y->kind != SYM_EV || y->ev.kind != EV_TILE)
		return false;
	const View *v = y->ev.view;
	if (v->space != TY_TENSOR || v->dir != DIR_IN)
		return false;
	for (const Sub *s = e->subs; s; s = s->next)
		if (s->a && !invariant(E, s->a, loop))
			return false;
	return true;
}

static bool invariant(const Elab *E, const Expr *e, const Around *loop)
{
	if (!e)
		return true;
	switch (e->kind) {
	case EX_NAME: return strcmp(e->name, loop->index) != 0 && !assigns_name(E, loop->body, e->name);
	case EX_SUBSCRIPT: return invariant_element(E, e, loop);
	case EX_CALL: return call_is_pure(E, e) && all_invariant(E, e->args, loop);
	case EX_TYPED_CALL: return !strcmp(e->name, "bitcast") && all_invariant(E, e->args, loop);
	default: return invariant(E, e->a, loop) && invariant(E, e->b, loop) && invariant(E, e->c, loop);
	}
}

bool expr_is_invariant(const Elab *E, const Expr *e, const Stmt *body, const char *index)
{
	Around loop = { body, index };
	return invariant(E, e, &loop);
}
