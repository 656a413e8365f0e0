/* scope.c - symbols by name, and messages that say from which expanded call they come. */
#include "compiler/elaborate/elab.h"
#include "dsl/support/words.h"

#include <string.h>

enum { MAX_CANDIDATES = 512 };

Scope *scope_push(Elab *E)
{
	Scope *saved = E->at.scope;
	Scope *s = ARENA_NEW(E->a, Scope);
	s->parent = saved;
	E->at.scope = s;
	return saved;
}

void scope_pop(Elab *E, Scope *saved)
{
	E->at.scope = saved;
}

Sym *sym_in(const Scope *s, const char *name)
{
	if (s->by_name)
		return table_get(s->by_name, name);
	for (Sym *y = s->syms; y; y = y->next)
		if (!strcmp(y->name, name))
			return y;
	return NULL;
}

/* ---- what a file sees ---- */

static bool is_seen(const Elab *E, const Scope *s, const Sym *y)
{
	return s != E->globals || !E->at.file || file_sees(E, E->at.file, y->loc.source);
}

Sym *sym_find(const Elab *E, const char *name)
{
	for (const Scope *s = E->at.scope; s; s = s->parent) {
		Sym *y = sym_in(s, name);
		if (y && is_seen(E, s, y))
			return y;
	}
	return NULL;
}

Sym *sym_of(const Elab *E, const Expr *e)
{
	if (e->kind == EX_NAME)
		return sym_find(E, e->name);
	const Sym *base = e->kind == EX_MEMBER ? sym_of(E, e->a) : NULL;
	return base && base->kind == SYM_EV && base->ev.kind == EV_STRUCT ? sym_in(base->ev.of->scope, e->name) : NULL;
}

const Sym *named_absent(const Elab *E, const Expr *e)
{
	const Sym *y = sym_of(E, e);
	for (; !y && (e->kind == EX_SUBSCRIPT || e->kind == EX_MEMBER); y = sym_of(E, e))
		e = e->a;
	return y && y->kind == SYM_ABSENT ? y : NULL;
}

void refuse_builtin(Elab *E, Loc loc, const char *name)
{
	static const char *const values[] = { "sm_count", "blockIdx", "gridDim", "inf", "nan" };
	bool value = false;
	for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
		value |= !strcmp(name, values[k]);
	if (value || builtin_exists(name))
		elab_error(E, loc, E_REDEFINED, "'%s' is built in: choose another name", name);
}

enum { LISTED = 16 }; /* symbols of a scope that is searched one by one */

static void add_to_table(Elab *E, Scope *s, Sym *y)
{
	if (++s->n < LISTED)
		return;
	if (!s->by_name) {
		s->by_name = table_new(E->a);
		for (Sym *old = s->syms; old; old = old->next)
			if (!table_get(s->by_name, old->name))
				table_set(s->by_name, old->name, old);
	}
	table_set(s->by_name, y->name, y);
}

Sym *sym_define(Elab *E, Loc loc, const char *name, SymKind kind)
{
	const Sym *before = sym_in(E->at.scope, name);
	if (before && !before->derived) {
		elab_error(E, loc, E_REDEFINED, "'%s' is already defined", name);
		diag_note(E->d, before->loc, "here");
	}
	Sym *y = ARENA_NEW(E->a, Sym);
	y->name = name;
	y->loc = loc;
	y->kind = kind;
	y->parallel = E->at.parallel;
	y->mask = E->at.mask;
	add_to_table(E, E->at.scope, y);
	/* The newest of equal names would be hidden behind the older one. */
	if (before) {
		y->next = E->at.scope->syms;
		E->at.scope->syms = y;
	} else if (E->at.scope->last) {
		E->at.scope->last->next = y;
		E->at.scope->last = y;
	} else {
		E->at.scope->syms = E->at.scope->last = y;
	}
	return y;
}

Sym *sym_define_ev(Elab *E, Loc loc, const char *name, Ev ev, const char *fixed)
{
	Sym *y = sym_define(E, loc, name, SYM_EV);
	y->ev = ev;
	y->dtype = ev.dtype;
	y->fixed = fixed;
	return y;
}

void define_type(Elab *E, Loc loc, const char *name, DType t)
{
	sym_define(E, loc, name, SYM_TYPE)->dtype = t;
}

static void note_unseen(Elab *E, const char *name)
{
	const Sym *unseen = sym_in(E->globals, name);
	if (unseen && !is_seen(E, E->globals, unseen))
		diag_note(E->d, unseen->loc, "'%s' is declared here, in a file that this one does not import", name);
}

static void report_no_type(Elab *E, const Decl *d)
{
	const char *candidates[MAX_CANDIDATES] = { NULL };
	unsigned n = 0;
	for (DType t = DT_NONE + 1; dtype_bits(t); t++)
		candidates[n++] = dtype_name(t);
	for (const Scope *s = E->at.scope; s; s = s->parent)
		for (const Sym *y = s->syms; y && n < MAX_CANDIDATES; y = y->next)
			if (y->kind == SYM_TYPE)
				candidates[n++] = y->name;
	const char *near = word_meant(d->type_name), *help = word_explained(d->type_name);
	if (!near && !help)
		near = nearest_name(d->type_name, candidates, n);
	if (near)
		elab_error(E, d->type_loc, E_UNKNOWN_NAME, "'%s' is not a type; did you mean '%s'?", d->type_name, near);
	else
		elab_error(E, d->type_loc, E_UNKNOWN_NAME, "'%s' is not a type", d->type_name);
	if (help)
		diag_help(E->d, "%s", help);
	note_unseen(E, d->type_name);
}

const Decl *with_type(Elab *E, const Decl *d)
{
	if (!d->type_name)
		return d;
	const Sym *y = sym_find(E, d->type_name);
	if (y && y->kind == SYM_ABSENT) {
		report_absent(E, d->type_loc, y);
		return NULL;
	}
	if (y && y->kind == SYM_UNCLEAR) {
		elab_error(E, d->type_loc, E_UNKNOWN_NAME, "'%s' is not one type: structs that the function takes bind it differently", d->type_name);
		return NULL;
	}
	if (y && y->kind == SYM_STRUCT) {
		elab_error(E, d->type_loc, E_TYPE, "'%s' is a struct: functions take and return it, bodies and structs declare it, nothing else has its type", d->type_name);
		return NULL;
	}
	if (!y || y->kind != SYM_TYPE) {
		report_no_type(E, d);
		return NULL;
	}
	Decl *typed = ARENA_NEW(E->a, Decl);
	*typed = *d;
	typed->dtype = y->dtype;
	return typed;
}

void report_unknown(Elab *E, Loc loc, const char *name, bool call)
{
	const char *candidates[MAX_CANDIDATES] = { NULL };
	unsigned n = call ? builtin_names(candidates, MAX_CANDIDATES / 2) : 0;
	for (const Scope *s = E->at.scope; s; s = s->parent)
		for (const Sym *y = s->syms; y && n < MAX_CANDIDATES; y = y->next)
			if ((y->kind == SYM_FN) == call && is_seen(E, s, y))
				candidates[n++] = y->name;
	const char *near = call ? word_meant(name) : NULL, *help = word_explained(name), *what = call ? "function" : "name";
	if (!call && builtin_signature(name))
		help = arena_printf(E->a, "it is a function: %s", builtin_signature(name));
	if (!near && !help)
		near = nearest_name(name, candidates, n);
	if (near)
		elab_error(E, loc, E_UNKNOWN_NAME, "unknown %s '%s'; did you mean '%s'?", what, name, near);
	else
		elab_error(E, loc, E_UNKNOWN_NAME, "unknown %s '%s'", what, name);
	if (help && !near)
		diag_help(E->d, "%s", help);
	note_unseen(E, name);
}

void report_no_function(Elab *E, const Expr *call, const Sym *y)
{
	const Sym *hidden = sym_in(E->globals, call->name);
	elab_error(E, call->loc, E_CALL, "'%s' is not a function", call->name);
	bool hides = hidden && hidden != y && hidden->kind == SYM_FN && is_seen(E, E->globals, hidden);
	diag_note(E->d, y->loc, "'%s' is declared here%s", call->name, hides ? " and hides the function of that name" : "");
	if (hides)
		diag_note(E->d, hidden->loc, "the function is declared here");
}
