/* structs.c - structs: names for what functions take together.  A struct has no place of its own: a member is the tile, tensor or barrier that it was declared with, or the value of a scalar. */
#include "compiler/elaborate/bind.h"
#include "dsl/support/words.h"

#include <string.h>

enum { MAX_NAMES = 512 };

static const Decl *member_of(const Decl *type, const char *name, int *k)
{
	*k = 0;
	for (const Decl *m = type->params; m; m = m->next, ++*k)
		if (!strcmp(m->name, name))
			return m;
	return NULL;
}

static void unknown_member(Elab *E, Loc loc, const Decl *type, const char *name)
{
	const char *names[MAX_NAMES];
	unsigned n = 0;
	for (const Decl *m = type->params; m && n < MAX_NAMES; m = m->next)
		names[n++] = m->name;
	const char *near = nearest_name(name, names, n);
	if (near)
		elab_error(E, loc, E_UNKNOWN_NAME, "struct '%s' has no member '%s'; did you mean '%s'?", type->name, name, near);
	else
		elab_error(E, loc, E_UNKNOWN_NAME, "struct '%s' has no member '%s'", type->name, name);
	diag_note(E->d, type->loc, "'%s' is declared here", type->name);
}

void report_no_member(Elab *E, const Expr *e, const Struct *s) { unknown_member(E, e->loc, s->decl, e->name); }

/* ---- declarations ---- */

/* The expression of each member, by position or by name; a position goes on behind the last name. */
static bool match_fields(Elab *E, const Expr *init, const Decl *type, const Expr **of)
{
	int n = decl_count(type->params), k = 0;
	bool ok = true;
	for (const Expr *f = init->args; f; f = f->next, k++) {
		if (f->name && !member_of(type, f->name, &k)) {
			unknown_member(E, f->loc, type, f->name);
			return false;
		}
		if (k >= n) {
			elab_error(E, f->loc, E_CALL, "struct '%s' has %d member%s, this is one more", type->name, n, n == 1 ? "" : "s");
			diag_note(E->d, type->loc, "'%s' is declared here", type->name);
			return false;
		}
		if (of[k]) {
			elab_error(E, f->loc, E_CALL, "a member of struct '%s' is given twice", type->name);
			diag_note(E->d, of[k]->loc, "here");
			ok = false;
		}
		of[k] = f->a;
	}
	k = 0;
	for (const Decl *m = type->params; m; m = m->next, k++)
		if (!of[k]) {
			elab_error(E, init->loc, E_CALL, "member '%s' of struct '%s' is not given", m->name, type->name);
			diag_note(E->d, m->loc, "member declared here");
			ok = false;
		}
	return ok;
}

static void mark_members(const Decl *type, const Scope *members)
{
	for (const Decl *m = type->params; m; m = m->next) {
		Sym *y = sym_in(members, m->name);
		if (y)
			y->member = true;
		if (y && y->kind == SYM_EV && ev_is_scalar(y->ev))
			y->fixed = "a member of a struct";
	}
}

/* Members are bound as parameters are: their extents and types see the file of the struct. */
static const Scope *bind_members(Elab *E, const Decl *type, Argument *args)
{
	Scope *before = E->at.scope;
	File *file = E->at.file;
	E->at.scope = E->globals;
	E->at.file = file_of(E, type->loc.source);
	scope_push(E);
	const Scope *members = E->at.scope;
	bool ok = bind_all(E, type->params, args, NULL);
	E->at.scope = before;
	E->at.file = file;
	return ok ? members : NULL;
}

static const Struct *new_struct(Elab *E, const Decl *d, const Decl *type)
{
	if (!d->init || d->init->kind != EX_STRUCT) {
		elab_error(E, d->loc, E_TYPE, "'%s' is of struct '%s' and begins with its members: %s %s = { ... };", d->name, type->name, type->name, d->name);
		return NULL;
	}
	int n = decl_count(type->params);
	const Expr **of = ARENA_ARRAY(E->a, const Expr *, n + 1);
	if (!match_fields(E, d->init, type, of))
		return NULL;
	Argument *args = ARENA_ARRAY(E->a, Argument, n + 1);
	for (const Expr *f = d->init->args; f; f = f->next) { /* as they are written: calls in them assign */
		int k = 0;
		const Decl *m = type->params;
		for (; of[k] != f->a; m = m->next)
			k++;
		args[k] = eval_argument(E, f->a, m);
	}
	const Scope *members = bind_members(E, type, args);
	if (!members)
		return NULL;
	mark_members(type, members);
	Struct *s = ARENA_NEW(E->a, Struct);
	*s = (Struct){ type, members };
	return s;
}

void declare_struct(Elab *E, const Decl *d, const Decl *type)
{
	const Struct *s = new_struct(E, d, type);
	sym_define_ev(E, d->loc, d->name, s ? (Ev){ .kind = EV_STRUCT, .of = s } : ev_error(), "a struct");
}

/* ---- parameters ---- */

/* y, of a struct, and what is there.  Of another struct it is the same value; what a parameter has at run time is taken to agree, as of two parameters. */
static bool is_same(const Sym *here, const Sym *y)
{
	if (here->kind != y->kind)
		return false;
	if (y->kind == SYM_TYPE)
		return here->dtype == y->dtype;
	if (y->kind != SYM_EV || here->ev.kind != y->ev.kind)
		return false;
	return y->ev.kind == EV_CONST ? here->ev.i == y->ev.i : !here->derived || here->ev.value == y->ev.value;
}

/* What the members bind, N of x[N], is bound for the function as if it took them one by one, unless another struct binds it to something else. */
static bool bind_derived(Elab *E, Loc loc, const Decl *p, const Struct *s)
{
	for (const Sym *y = s->scope->syms; y; y = y->next) {
		if (y->kind == SYM_ABSENT || sym_in(s->scope, y->name)->member)
			continue;
		Sym *here = sym_in(E->at.scope, y->name);
		if (here && here->derived && !is_same(here, y)) {
			here->kind = SYM_UNCLEAR;
			continue;
		}
		if (here && y->kind != SYM_UNCLEAR && !is_same(here, y)) {
			elab_error(E, loc, E_SHAPE, "'%s' of parameter '%s' is not what it is of the parameters before", y->name, p->name);
			diag_note(E->d, y->loc, "of '%s'", p->name);
			diag_note(E->d, here->loc, "before");
			return false;
		}
		if (sym_find(E, y->name))
			continue;
		Sym *copy = sym_define(E, y->loc, y->name, y->kind);
		copy->ev = y->ev;
		copy->dtype = y->dtype;
		copy->fixed = y->fixed;
		copy->origin = y->origin;
		copy->derived = true;
	}
	return true;
}

bool bind_struct(Elab *E, Loc loc, const Decl *p, const Sym *type, Ev x)
{
	if (x.kind != EV_STRUCT || x.of->decl != type->decl)
		return bind_mismatch(E, loc, p, E_TYPE, arena_printf(E->a, "struct %s", type->name), x);
	sym_define_ev(E, p->loc, p->name, x, "a struct");
	return bind_derived(E, loc, p, x.of);
}

void bind_absent(Elab *E, const Struct *s)
{
	for (const Sym *y = s->scope->syms; y; y = y->next)
		if (y->kind == SYM_ABSENT && !sym_in(s->scope, y->name)->member && !sym_find(E, y->name))
			define_absent(E, y->loc, y->name, y);
}
