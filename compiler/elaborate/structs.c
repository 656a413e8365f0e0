/* structs.c - structs: names for what functions take together.  A struct has no place of its own: a member is the tile, tensor or barrier that it was declared with, or a scalar, which is a
 * variable where somebody assigns a member and else a value. */
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

static const Struct *struct_of(Elab *E, const Decl *type, const Scope *members, bool variable)
{
	for (const Decl *m = type->params; m; m = m->next) {
		Sym *y = sym_in(members, m->name);
		if (y)
			y->member = true;
		if (y && y->kind == SYM_EV && ev_is_scalar(y->ev))
			y->fixed = variable ? NULL : "a member of a struct";
	}
	Struct *s = ARENA_NEW(E->a, Struct);
	*s = (Struct){ type, members, variable };
	return s;
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

static const Struct *of_arguments(Elab *E, const Decl *type, Argument *args, bool variable)
{
	const Scope *members = bind_members(E, type, args);
	return members ? struct_of(E, type, members, variable) : NULL;
}

/* Of `{ ... }`. */
static const Struct *of_fields(Elab *E, const Expr *init, const Decl *type, bool variable)
{
	int n = decl_count(type->params);
	const Expr **of = ARENA_ARRAY(E->a, const Expr *, n + 1);
	if (!match_fields(E, init, type, of))
		return NULL;
	Argument *args = ARENA_ARRAY(E->a, Argument, n + 1);
	const Decl *m = type->params;
	int k = 0;
	for (const Expr *f = init->args; f; f = f->next) { /* as they are written: calls in them assign; mostly each is the member behind the last */
		while (of[k] != f->a) {
			m = m->next ? m->next : type->params;
			k = k + 1 < n ? k + 1 : 0;
		}
		args[k] = eval_argument(E, f->a, m);
		args[k].variable = variable;
		if (variable && args[k].dim)
			args[k] = (Argument){ .loc = f->a->loc, .x = eval(E, f->a), .variable = true };
	}
	return of_arguments(E, type, args, variable);
}

/* Until leave_struct: one that has itself as a member would have no end. */
static bool enter_struct(Elab *E, Loc loc)
{
	if (too_big(E, loc))
		return false;
	if (E->struct_depth < MAX_STRUCT_DEPTH) {
		E->struct_depth++;
		return true;
	}
	E->hopeless = true;
	elab_error(E, loc, E_LIMIT, "structs are nested more than %d deep: none can be a member of itself", MAX_STRUCT_DEPTH);
	return false;
}

static void leave_struct(Elab *E) { E->struct_depth--; }

/* d: the variable, or the member of one that is declared at loc. */
static const Struct *of_nothing(Elab *E, Loc loc, const Decl *d, const Decl *type)
{
	Argument *args = ARENA_ARRAY(E->a, Argument, decl_count(type->params) + 1);
	int k = 0;
	for (const Decl *m = type->params; m; m = m->next) {
		if (m->kind != DE_SCALAR) {
			elab_error(E, loc, E_TYPE, "%s'%s' is of struct '%s' and begins with its members: %s %s = { ... };", d->member ? "member " : "", d->name, type->name, type->name, d->name);
			diag_note(E->d, m->loc, "'%s' is no scalar", m->name);
			return NULL;
		}
		args[k++] = (Argument){ .loc = loc, .x = ev_void(), .variable = true };
	}
	if (!enter_struct(E, loc))
		return NULL;
	const Struct *s = of_arguments(E, type, args, true);
	leave_struct(E);
	return s;
}

static Sym *copy_sym(Elab *E, const Sym *y)
{
	Sym *copy = sym_define(E, y->loc, y->name, y->kind);
	copy->ev = y->ev;
	copy->dtype = y->dtype;
	copy->fixed = y->fixed;
	copy->dim = y->dim;
	copy->origin = y->origin;
	return copy;
}

static bool is_nested(const Sym *y) { return y->kind == SYM_EV && y->ev.kind == EV_STRUCT; }

static bool is_scalar(const Sym *y)
{
	return y->kind == SYM_VAR || y->kind == SYM_DIM || (y->kind == SYM_EV && (ev_is_scalar(y->ev) || y->ev.kind == EV_VOID));
}

/* EV_VOID: it has none yet. */
static Ev value_of(Elab *E, Loc loc, const Sym *y)
{
	if (y->kind == SYM_DIM)
		return dim_value(E, loc, y->origin->name, y->dim);
	return y->kind == SYM_VAR ? scalar_of(E, loc, y) : y->ev;
}

/* Its members with what they have here; `variable`: in variables of their own. */
static const Struct *copy_struct(Elab *E, Loc loc, const Struct *s, bool variable)
{
	if (!enter_struct(E, loc))
		return s;
	Scope *before = E->at.scope;
	E->at.scope = E->globals;
	scope_push(E);
	const Scope *members = E->at.scope;
	for (const Sym *y = s->scope->syms; y; y = y->next) {
		if (y->member && is_nested(y)) {
			sym_define_ev(E, y->loc, y->name, (Ev){ .kind = EV_STRUCT, .of = copy_struct(E, loc, y->ev.of, variable) }, y->fixed);
		} else if (y->member && is_scalar(y) && (variable || y->kind != SYM_DIM)) {
			Decl d = { .kind = DE_SCALAR, .loc = y->loc, .name = y->name, .dtype = y->kind == SYM_DIM ? DT_I32 : y->dtype };
			declare_scalar(E, &d, value_of(E, loc, y), variable);
		} else {
			copy_sym(E, y)->derived = y->derived;
		}
	}
	E->at.scope = before;
	leave_struct(E);
	return struct_of(E, s->decl, members, variable);
}

Ev eval_as(Elab *E, const Expr *e, const Decl *type)
{
	if (e->kind != EX_STRUCT || !type)
		return eval(E, e);
	const Struct *s = of_fields(E, e, type, false);
	return s ? (Ev){ .kind = EV_STRUCT, .of = s } : ev_error();
}

static const Struct *new_struct(Elab *E, const Decl *d, const Decl *type)
{
	if (!d->init)
		return of_nothing(E, d->loc, d, type);
	bool variable = assigned_later(E, d->name);
	if (d->init->kind == EX_STRUCT)
		return of_fields(E, d->init, type, variable);
	Ev x = eval(E, d->init);
	if (x.kind == EV_STRUCT && x.of->decl == type)
		return copy_struct(E, d->init->loc, x.of, variable);
	if (x.kind != EV_ERROR)
		elab_error(E, d->init->loc, E_TYPE, "'%s' is of struct '%s' and cannot be initialised with %s", d->name, type->name, ev_text(E, x));
	return NULL;
}

void declare_struct(Elab *E, const Decl *d, const Decl *type)
{
	const Struct *s = new_struct(E, d, type);
	sym_define_ev(E, d->loc, d->name, s ? (Ev){ .kind = EV_STRUCT, .of = s } : ev_error(), "a struct");
}

/* What is no scalar is a name for another thing, which nobody assigns. */
static bool assign_members(Elab *E, Loc loc, const Struct *to, const Struct *from)
{
	for (Sym *y = to->scope->syms; y; y = y->next) {
		const Sym *x = y->member ? sym_in(from->scope, y->name) : NULL;
		if (!x)
			continue;
		if (is_nested(y) && is_nested(x)) {
			if (!assign_members(E, loc, y->ev.of, x->ev.of))
				return false;
		} else if (is_scalar(y) && is_scalar(x)) {
			Ev v = value_of(E, loc, x);
			if (y->kind == SYM_VAR)
				set_var(E, loc, y, v);
			else
				set_ssa(E, loc, y, v);
		} else if (x->kind == SYM_ABSENT || y->kind == SYM_ABSENT) {
			report_absent(E, loc, x->kind == SYM_ABSENT ? x : y);
			return false;
		} else {
			elab_error(E, loc, E_TYPE, "a struct that is assigned has scalars, '%s' is none", y->name);
			diag_note(E->d, y->loc, "member of struct '%s'", to->decl->name);
			return false;
		}
	}
	return true;
}

void assign_struct(Elab *E, Loc loc, const Sym *y, Ev x)
{
	if (x.kind != EV_STRUCT || x.of->decl != y->ev.of->decl)
		elab_error(E, loc, E_TYPE, "'%s' is of struct '%s' and cannot be assigned %s", y->name, y->ev.of->decl->name, ev_text(E, x));
	else if (!y->ev.of->variable)
		elab_error(E, loc, E_TYPE, "'%s' is a member of a struct and cannot be assigned", y->name);
	else
		assign_members(E, loc, y->ev.of, struct_value(E, loc, x.of).of);
}

Ev struct_value(Elab *E, Loc loc, const Struct *s)
{
	return (Ev){ .kind = EV_STRUCT, .of = s->variable ? copy_struct(E, loc, s, false) : s };
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
		copy_sym(E, y)->derived = true;
	}
	return true;
}

bool bind_struct(Elab *E, const Decl *p, const Decl *type, const Argument *a, bool assigned)
{
	bool reference = p->dir != DIR_NONE, nothing = a->variable && a->x.kind == EV_VOID;
	const Struct *s = nothing ? of_nothing(E, a->loc, p, type) : a->x.kind == EV_STRUCT && a->x.of->decl == type ? a->x.of : NULL;
	if (nothing && !s)
		return false;
	if (!s || (reference && !s->variable))
		return bind_mismatch(E, a->loc, p, E_TYPE, arena_printf(E->a, reference ? "a variable of struct %s to assign" : "struct %s", type->name), a->x);
	if (!nothing && assigned) /* of its own; what is passed by value is none of the caller's variables (eval_argument) */
		s = copy_struct(E, a->loc, s, assigned);
	Sym *y = sym_define_ev(E, p->loc, p->name, (Ev){ .kind = EV_STRUCT, .of = s }, "a struct");
	if (reference && s->scope->syms) /* declared where the caller's is: maybe outside of an element loop */
		y->parallel = s->scope->syms->parallel;
	return bind_derived(E, a->loc, p, s);
}

bool struct_holds(const Struct *s, const Sym *y)
{
	for (const Sym *x = s->scope->syms; x; x = x->next)
		if (x == y || (x->member && is_nested(x) && struct_holds(x->ev.of, y)))
			return true;
	return false;
}

void bind_absent(Elab *E, const Struct *s)
{
	for (const Sym *y = s->scope->syms; y; y = y->next)
		if (y->kind == SYM_ABSENT && !sym_in(s->scope, y->name)->member && !sym_find(E, y->name))
			define_absent(E, y->loc, y->name, y);
}
