/* bind.c - parameters of functions and members of structs bound to arguments, extents and types to names. */
#include "compiler/elaborate/bind.h"

/* ---- extents of parameters ---- */

static Ev extent_of(const ViewDim *d)
{
	return d->seen >= 0 ? ev_int(DT_I32, d->seen) : d->extent_value ? ev_of(d->extent_value) : ev_error();
}

static const char *noun(const Decl *p) { return p->member ? "member" : "parameter"; }

static void param_note(Elab *E, const Decl *p)
{
	diag_note(E->d, p->loc, "%s declared here", noun(p));
}

static bool extent_agrees(Elab *E, Loc loc, const Decl *p, const char *name, int k, Ev want, Ev have)
{
	if (want.kind == EV_ERROR || have.kind == EV_ERROR)
		return false;
	bool fixed = want.kind == EV_CONST && have.kind == EV_CONST;
	if (fixed ? want.i == have.i : want.kind == EV_VALUE && have.kind == EV_VALUE)
		return true;
	const char *is = have.kind == EV_CONST ? arena_printf(E->a, "%lld", (long long)have.i) : "known at run time only";
	const char *asked = want.kind == EV_CONST ? arena_printf(E->a, "%lld", (long long)want.i) : "a run-time extent";
	elab_error(E, loc, E_SHAPE, "extent %d of '%s' is %s, %s '%s' takes %s", k + 1, name ? name : "this", is, noun(p), p->name, asked);
	param_note(E, p);
	return false;
}

static bool bind_extent(Elab *E, Loc loc, const Decl *p, const Extent *x, const char *name, int k, Ev have)
{
	if (x->e->kind == EX_NAME && !sym_find(E, x->e->name)) {
		sym_define_ev(E, x->loc, x->e->name, have, "the extent of an argument");
		return have.kind != EV_ERROR;
	}
	if (extent_agrees(E, loc, p, name, k, eval_i32(E, x->e, "an extent"), have))
		return true;
	const Sym *y = x->e->kind == EX_NAME ? sym_find(E, x->e->name) : NULL;
	if (y && y->kind == SYM_DIM)
		diag_note(E->d, y->loc, "'%s' is this dim: a name that nothing declares takes the extent of the argument", y->name);
	return false;
}

static int extent_count(const Decl *p)
{
	int n = 0;
	for (const Extent *x = p->extents; x; x = x->next)
		n++;
	return n;
}

static bool bind_extents(Elab *E, Loc loc, const Decl *p, const View *v)
{
	int axes[TIR_MAX_RANK], n = view_axes(v, axes), k = 0;
	if (extent_count(p) != n) {
		elab_error(E, loc, E_SHAPE, "%s has %d dimensions, %s '%s' takes %d", ev_text(E, ev_tile(v)), n, noun(p), p->name, extent_count(p));
		param_note(E, p);
		return false;
	}
	for (const Extent *x = p->extents; x; x = x->next, k++) {
		const ViewDim *d = &v->dim[axes[k]];
		if (x->ring != d->ring) {
			elab_error(E, loc, E_SHAPE, "%s '%s' takes %s ring", noun(p), p->name, x->ring ? "a" : "no");
			param_note(E, p);
			return false;
		}
		if (!bind_extent(E, loc, p, x, v->name, k, extent_of(d)))
			return false;
	}
	return true;
}

/* ---- parameters ---- */

static TypeKind param_space(const Decl *p)
{
	return p->kind == DE_TENSOR ? TY_TENSOR : p->kind == DE_SHARED ? TY_SHARED : TY_FRAG;
}

bool bind_mismatch(Elab *E, Loc loc, const Decl *p, DiagCode code, const char *wanted, Ev x)
{
	elab_error(E, loc, code, "%s '%s' takes %s, not %s", noun(p), p->name, wanted, ev_text(E, x));
	param_note(E, p);
	return false;
}

static bool bind_tile(Elab *E, Loc loc, const Decl *p, Ev x)
{
	static const char *const wanted[] = { [TY_TENSOR] = "a global tensor", [TY_SHARED] = "a shared tile", [TY_FRAG] = "a fragment" };
	TypeKind space = param_space(p);
	if (x.kind != EV_TILE)
		return bind_mismatch(E, loc, p, E_TYPE, wanted[space], x);
	if (x.view->space != space)
		return bind_mismatch(E, loc, p, E_SPACE, wanted[space], x);
	if (space == TY_FRAG && (x.view->warp_frag || x.view->warp_view) != p->warp_scope)
		return bind_mismatch(E, loc, p, E_SPACE, p->warp_scope ? "a warp fragment" : "a fragment of the team", x);
	if (p->type_name && !sym_find(E, p->type_name))
		define_type(E, p->type_loc, p->type_name, x.view->dtype);
	p = with_type(E, p);
	if (!p)
		return false;
	if (x.view->dtype != p->dtype)
		return bind_mismatch(E, loc, p, E_TYPE, dtype_name(p->dtype), x);
	if (space == TY_TENSOR && p->dir != DIR_IN && x.view->dir == DIR_IN)
		return bind_mismatch(E, loc, p, E_SPACE, "a tensor to write", x);
	if (!bind_extents(E, loc, p, x.view))
		return false;
	View *v = ARENA_NEW(E->a, View);
	*v = *x.view;
	v->name = p->name;
	if (p->dir == DIR_IN)
		v->dir = DIR_IN;
	sym_define_ev(E, p->loc, p->name, ev_tile(v), "a parameter");
	return true;
}

/* "one mbarrier", "a ring of mbarriers", "an array of barriers", "an array of rings of mbarriers" */
static const char *barriers_text(Elab *E, const Decl *p, bool ring)
{
	const char *kind = p->kind == DE_BARRIER ? "barrier" : "mbarrier";
	if (!p->extents)
		return arena_printf(E->a, "one %s", kind);
	if (!ring)
		return arena_printf(E->a, "an array of %ss", kind);
	return arena_printf(E->a, p->extents->next ? "an array of rings of %ss" : "a ring of %ss", kind);
}

static bool bind_barrier(Elab *E, Loc loc, const Decl *p, Ev x)
{
	bool named = p->kind == DE_BARRIER;
	if (x.kind != (named ? EV_BARRIER : EV_MBARRIER))
		return bind_mismatch(E, loc, p, E_TYPE, named ? "a named barrier" : "an mbarrier", x);
	int64_t extents[2];
	int n = barrier_open_extents(x.bar, extents), k = 0;
	bool ring = false, fits = extent_count(p) == n;
	for (const Extent *e = p->extents; e; e = e->next) {
		ring |= e->ring;
		fits = fits && e->ring == (++k == n && !x.bar->scalar && x.bar->ring);
	}
	if (!fits)
		return bind_mismatch(E, loc, p, E_BARRIER, barriers_text(E, p, ring), x);
	k = 0;
	for (const Extent *e = p->extents; e; e = e->next, k++)
		if (!bind_extent(E, loc, p, e, x.bar->name, k, ev_int(DT_I32, extents[k])))
			return false;
	sym_define_ev(E, p->loc, p->name, x, "a parameter");
	return true;
}

static bool bind_scalar(Elab *E, const Decl *p, const Argument *a, bool assigned)
{
	p = with_type(E, p);
	if (!p)
		return false;
	if (!ev_is_scalar(a->x) && !(a->variable && a->x.kind == EV_VOID))
		return bind_mismatch(E, a->loc, p, E_TYPE, dtype_name(p->dtype), a->x);
	declare_scalar(E, p, a->x, assigned);
	return true;
}

static bool is_reference(const Decl *p) { return p->kind == DE_SCALAR && p->dir != DIR_NONE; }

/* A variable of an element loop, which is the value that it has here: a copy, which is copied back behind the call (give_back). */
static bool bind_copy(Elab *E, Loc loc, const Decl *p, Argument *a, const char *wanted)
{
	if (a->from->dtype != p->dtype)
		return bind_mismatch(E, loc, p, E_TYPE, wanted, (Ev){ .kind = EV_CONST, .dtype = a->from->dtype });
	a->copy = sym_define_ev(E, p->loc, p->name, a->from->ev, NULL); /* of now: another argument may have changed it */
	a->copy->dtype = p->dtype;
	return true;
}

/* The caller's variable under another name. */
static bool bind_reference(Elab *E, Loc loc, const Decl *p, Argument *a)
{
	p = with_type(E, p);
	if (!p)
		return false;
	Ev x = a->x;
	const char *wanted = arena_printf(E->a, "a variable of type %s to assign", dtype_name(p->dtype));
	if (a->from)
		return bind_copy(E, loc, p, a, wanted);
	bool variable = x.kind == EV_VALUE && x.value->type.kind == TY_VAR;
	if (!variable || x.dtype != p->dtype)
		return bind_mismatch(E, loc, p, E_TYPE, wanted, x);
	Sym *y = sym_define(E, p->loc, p->name, SYM_VAR);
	y->dtype = p->dtype;
	y->var = x.value;
	y->parallel = 0; /* in an element loop a variable is from outside */
	return true;
}

/* ---- arguments that do not exist ---- */

void define_absent(Elab *E, Loc loc, const char *name, const Sym *y)
{
	sym_define(E, loc, name, SYM_ABSENT)->origin = y->origin ? y->origin : y;
}

/* What nothing but such an argument could have bound does not exist, either. */
static void define_absent_parts(Elab *E, const Decl *p, const Sym *y)
{
	if (p->type_name && !sym_find(E, p->type_name))
		define_absent(E, p->type_loc, p->type_name, y);
	for (const Extent *x = p->extents; x; x = x->next)
		if (x->e->kind == EX_NAME && !sym_find(E, x->e->name))
			define_absent(E, x->loc, x->e->name, y);
}

/* ---- binding ---- */

static bool bind_dim(Elab *E, const Decl *p, const Sym *dim)
{
	Sym *y = sym_define(E, p->loc, p->name, SYM_DIM);
	y->dim = dim->dim;
	y->origin = dim->origin ? dim->origin : dim;
	return true;
}

static bool bind_one(Elab *E, const Decl *p, Argument *a, const Stmt *body)
{
	const Sym *type = p->kind == DE_SCALAR && p->type_name ? sym_find(E, p->type_name) : NULL;
	bool assigned = p->member ? a->variable : p->kind == DE_SCALAR && !is_reference(p) && assigns_name(E, body, p->name);
	Ev x = a->x;
	if (a->dim)
		return bind_dim(E, p, a->dim);
	if (x.kind == EV_ERROR)
		return false;
	if (x.kind == EV_ABSENT) {
		define_absent(E, p->loc, p->name, x.absent);
		return true;
	}
	switch (p->kind) {
	case DE_SCALAR:
		if (type && type->kind == SYM_STRUCT)
			return bind_struct(E, p, type->decl, a, assigned);
		return is_reference(p) ? bind_reference(E, a->loc, p, a) : bind_scalar(E, p, a, assigned);
	case DE_MBARRIER: case DE_BARRIER: return bind_barrier(E, a->loc, p, x);
	default: return bind_tile(E, a->loc, p, x);
	}
}

int decl_count(const Decl *list)
{
	int n = 0;
	for (; list; list = list->next)
		n++;
	return n;
}

bool bind_all(Elab *E, const Decl *params, Argument *args, const Stmt *body)
{
	bool ok = true;
	int k = 0;
	for (const Decl *p = params; p; p = p->next)
		ok &= bind_one(E, p, &args[k++], body);
	k = 0;
	for (const Decl *p = params; p && ok; p = p->next, k++)
		if (args[k].x.kind == EV_ABSENT)
			define_absent_parts(E, p, args[k].x.absent);
		else if (args[k].x.kind == EV_STRUCT)
			bind_absent(E, args[k].x.of);
	return ok;
}

/* ---- arguments ---- */

/* A variable by reference: itself, not its value. */
static Argument eval_reference(Elab *E, const Expr *e)
{
	Sym *y = sym_of(E, e);
	if (y && y->kind == SYM_VAR)
		return (Argument){ .x = { .kind = EV_VALUE, .dtype = y->dtype, .value = y->var } };
	if (y && y->kind == SYM_EV && !y->fixed && E->at.parallel && y->parallel == E->at.parallel && (ev_is_scalar(y->ev) || y->ev.kind == EV_VOID))
		return (Argument){ .x = y->ev, .from = y };
	return (Argument){ .x = eval(E, e) };
}

Argument eval_argument(Elab *E, const Expr *e, const Decl *p)
{
	const Sym *absent = named_absent(E, e);
	if (absent)
		return (Argument){ .loc = e->loc, .x = { .kind = EV_ABSENT, .absent = absent } };
	const Sym *y = p->member && p->kind == DE_SCALAR && p->dtype == DT_I32 ? sym_of(E, e) : NULL;
	if (y && y->kind == SYM_DIM)
		return (Argument){ .loc = e->loc, .dim = y };
	const Sym *type = p->type_name && e->kind == EX_STRUCT ? sym_in(E->globals, p->type_name) : NULL;
	Argument a = is_reference(p) ? eval_reference(E, e) : (Argument){ .x = eval_as(E, e, type && type->kind == SYM_STRUCT ? type->decl : NULL) };
	if (a.x.kind == EV_STRUCT && !is_reference(p)) /* of now: arguments behind it may assign it */
		a.x = struct_value(E, e->loc, a.x.of);
	a.loc = e->loc;
	return a;
}
