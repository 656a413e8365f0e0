/* calls.c - functions, always expanded in place: parameters bound to arguments, extents to names. */
#include "compiler/elaborate/elab.h"

/* ---- extents of parameters ---- */

static Ev extent_of(const ViewDim *d)
{
	return d->seen >= 0 ? ev_int(DT_I32, d->seen) : d->extent_value ? ev_of(d->extent_value) : ev_error();
}

static void param_note(Elab *E, const Decl *p)
{
	diag_note(E->d, p->loc, "parameter declared here");
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
	elab_error(E, loc, E_SHAPE, "extent %d of '%s' is %s, parameter '%s' takes %s", k + 1, name ? name : "this", is, p->name, asked);
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
		elab_error(E, loc, E_SHAPE, "%s has %d dimensions, parameter '%s' takes %d", ev_text(E, ev_tile(v)), n, p->name, extent_count(p));
		param_note(E, p);
		return false;
	}
	for (const Extent *x = p->extents; x; x = x->next, k++) {
		const ViewDim *d = &v->dim[axes[k]];
		if (x->ring != d->ring) {
			elab_error(E, loc, E_SHAPE, "parameter '%s' takes %s ring", p->name, x->ring ? "a" : "no");
			param_note(E, p);
			return false;
		}
		if (!bind_extent(E, loc, p, x, v->name, k, extent_of(d)))
			return false;
	}
	return true;
}

/* ---- parameters ---- */

typedef struct Argument {
	Ev x;
	Sym *from; /* the variable of an element loop that is assigned */
	Sym *copy; /* the parameter that stands for it */
} Argument;

static TypeKind param_space(const Decl *p)
{
	return p->kind == DE_TENSOR ? TY_TENSOR : p->kind == DE_SHARED ? TY_SHARED : TY_FRAG;
}

static bool mismatch(Elab *E, Loc loc, const Decl *p, DiagCode code, const char *wanted, Ev x)
{
	elab_error(E, loc, code, "parameter '%s' takes %s, not %s", p->name, wanted, ev_text(E, x));
	param_note(E, p);
	return false;
}

static bool bind_tile(Elab *E, Loc loc, const Decl *p, Ev x)
{
	static const char *const wanted[] = { [TY_TENSOR] = "a global tensor", [TY_SHARED] = "a shared tile", [TY_FRAG] = "a fragment" };
	TypeKind space = param_space(p);
	if (x.kind != EV_TILE)
		return mismatch(E, loc, p, E_TYPE, wanted[space], x);
	if (x.view->space != space)
		return mismatch(E, loc, p, E_SPACE, wanted[space], x);
	if (space == TY_FRAG && (x.view->warp_frag || x.view->warp_view) != p->warp_scope)
		return mismatch(E, loc, p, E_SPACE, p->warp_scope ? "a warp fragment" : "a fragment of the team", x);
	if (p->type_name && !sym_find(E, p->type_name))
		define_type(E, p->type_loc, p->type_name, x.view->dtype);
	p = with_type(E, p);
	if (!p)
		return false;
	if (x.view->dtype != p->dtype)
		return mismatch(E, loc, p, E_TYPE, dtype_name(p->dtype), x);
	if (space == TY_TENSOR && p->dir != DIR_IN && x.view->dir == DIR_IN)
		return mismatch(E, loc, p, E_SPACE, "a tensor to write", x);
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
		return mismatch(E, loc, p, E_TYPE, named ? "a named barrier" : "an mbarrier", x);
	int64_t extents[2];
	int n = barrier_open_extents(x.bar, extents), k = 0;
	bool ring = false, fits = extent_count(p) == n;
	for (const Extent *e = p->extents; e; e = e->next) {
		ring |= e->ring;
		fits = fits && e->ring == (++k == n && !x.bar->scalar && x.bar->ring);
	}
	if (!fits)
		return mismatch(E, loc, p, E_BARRIER, barriers_text(E, p, ring), x);
	k = 0;
	for (const Extent *e = p->extents; e; e = e->next, k++)
		if (!bind_extent(E, loc, p, e, x.bar->name, k, ev_int(DT_I32, extents[k])))
			return false;
	sym_define_ev(E, p->loc, p->name, x, "a parameter");
	return true;
}

static bool bind_scalar(Elab *E, Loc loc, const Decl *p, Ev x, const Stmt *body)
{
	p = with_type(E, p);
	if (!p)
		return false;
	if (!ev_is_scalar(x))
		return mismatch(E, loc, p, E_TYPE, dtype_name(p->dtype), x);
	declare_scalar(E, p, x, assigns_name(E, body, p->name));
	return true;
}

static bool is_reference(const Decl *p) { return p->kind == DE_SCALAR && p->dir != DIR_NONE; }

/* A variable of an element loop, which is the value that it has here: a copy, which is copied back behind the call (give_back). */
static bool bind_copy(Elab *E, Loc loc, const Decl *p, Argument *a, const char *wanted)
{
	if (a->from->dtype != p->dtype)
		return mismatch(E, loc, p, E_TYPE, wanted, (Ev){ .kind = EV_CONST, .dtype = a->from->dtype });
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
		return mismatch(E, loc, p, E_TYPE, wanted, x);
	Sym *y = sym_define(E, p->loc, p->name, SYM_VAR);
	y->dtype = p->dtype;
	y->var = x.value;
	y->parallel = 0; /* in an element loop a variable is from outside */
	return true;
}

/* ---- arguments that do not exist ---- */

static void define_absent(Elab *E, Loc loc, const char *name, const Sym *y)
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

static bool bind_param(Elab *E, Loc loc, const Decl *p, Argument *a, const Stmt *body)
{
	Ev x = a->x;
	if (x.kind == EV_ERROR)
		return false;
	if (x.kind == EV_ABSENT) {
		define_absent(E, p->loc, p->name, x.absent);
		return true;
	}
	switch (p->kind) {
	case DE_SCALAR: return is_reference(p) ? bind_reference(E, loc, p, a) : bind_scalar(E, loc, p, x, body);
	case DE_MBARRIER: case DE_BARRIER: return bind_barrier(E, loc, p, x);
	default: return bind_tile(E, loc, p, x);
	}
}

/* ---- calls ---- */

static int count_args(const Expr *e)
{
	int n = 0;
	for (const Expr *x = e->args; x; x = x->next)
		n++;
	return n;
}

static int count_params(const Decl *fn)
{
	int n = 0;
	for (const Decl *p = fn->params; p; p = p->next)
		n++;
	return n;
}

static bool call_allowed(Elab *E, const Expr *e, const Decl *fn)
{
	int given = count_args(e), wanted = count_params(fn);
	if (given != wanted) {
		elab_error(E, e->loc, E_CALL, "'%s' takes %d argument%s, not %d", fn->name, wanted, wanted == 1 ? "" : "s", given);
		diag_note(E->d, fn->loc, "declared here");
		return false;
	}
	if (E->at.frame && E->at.frame->depth >= MAX_CALL_DEPTH) {
		E->hopeless = true;
		elab_error(E, e->loc, E_CALL, "calls are nested more than %d deep: functions are expanded and cannot recurse", MAX_CALL_DEPTH);
		return false;
	}
	return true;
}

static bool bind_params(Elab *E, const Expr *e, const Decl *fn, Argument *args)
{
	bool ok = true;
	int k = 0;
	const Expr *x = e->args;
	for (const Decl *p = fn->params; p; p = p->next, x = x->next)
		ok &= bind_param(E, x->loc, p, &args[k++], fn->body);
	k = 0;
	for (const Decl *p = fn->params; p && ok; p = p->next, k++)
		if (args[k].x.kind == EV_ABSENT)
			define_absent_parts(E, p, args[k].x.absent);
	return ok;
}

/* A variable by reference: itself, not its value. */
static Argument eval_reference(Elab *E, const Expr *e)
{
	Sym *y = e->kind == EX_NAME ? sym_find(E, e->name) : NULL;
	if (y && y->kind == SYM_VAR)
		return (Argument){ .x = { .kind = EV_VALUE, .dtype = y->dtype, .value = y->var } };
	if (y && y->kind == SYM_EV && !y->fixed && E->at.parallel && y->parallel == E->at.parallel && (ev_is_scalar(y->ev) || y->ev.kind == EV_VOID))
		return (Argument){ .x = y->ev, .from = y };
	return (Argument){ .x = eval(E, e) };
}

static Argument eval_argument(Elab *E, const Expr *e, const Decl *p)
{
	const Sym *absent = named_absent(E, e);
	if (absent)
		return (Argument){ .x = { .kind = EV_ABSENT, .absent = absent } };
	return is_reference(p) ? eval_reference(E, e) : (Argument){ .x = eval(E, e) };
}

/* Tiles stay references, elements are loaded. */
static Argument *eval_arguments(Elab *E, const Expr *e, const Decl *fn)
{
	Argument *args = ARENA_ARRAY(E->a, Argument, count_args(e) + 1);
	const Decl *p = fn->params;
	int k = 0;
	for (const Expr *x = e->args; x; x = x->next, p = p->next)
		args[k++] = eval_argument(E, x, p);
	return args;
}

static const Site *new_site(Elab *E, const Expr *e, const Decl *fn)
{
	Site *s = ARENA_NEW(E->a, Site);
	*s = (Site){ E->t->site, fn->name, e->loc };
	return s;
}

/* DT_NONE: nothing is returned. */
static bool returned_type(Elab *E, const Decl *fn, DType *t)
{
	const Decl *d = with_type(E, fn);
	*t = d ? d->dtype : DT_NONE;
	return d != NULL;
}

/* What the function has made of variables of an element loop. */
static void give_back(Elab *E, const Expr *e, const Argument *args, int n)
{
	for (int k = 0; k < n; k++) {
		if (!args[k].copy || args[k].copy->ev.kind == EV_VOID)
			continue;
		for (int j = 0; j < k; j++)
			if (args[j].from == args[k].from)
				elab_error(E, e->loc, E_CALL, "'%s' is passed twice to be assigned", args[k].from->name);
		set_ssa(E, e->loc, args[k].from, args[k].copy->ev);
	}
}

static Ev expand(Elab *E, const Expr *e, const Decl *fn, Argument *args)
{
	Frame frame = { .caller = E->at.frame, .fn = fn, .region = E->at.region, .mask = E->at.mask, .result = ev_void() };
	frame.depth = E->at.frame ? E->at.frame->depth + 1 : 1;
	Place before = E->at;
	E->at.loop = NULL;
	E->at.scope = E->globals;
	E->at.file = file_of(E, fn->loc.source);
	scope_push(E);
	bool ok = bind_params(E, e, fn, args) && returned_type(E, fn, &frame.ret);
	const Site *site = E->t->site;
	E->at.frame = &frame;
	E->t->site = new_site(E, e, fn);
	if (ok)
		exec_list(E, fn->body->body);
	E->t->site = site;
	place_leave(E, before);
	if (!ok)
		return ev_error();
	give_back(E, e, args, count_args(e));
	if (frame.ret != DT_NONE && !frame.returned) {
		if (!E->hopeless)
			elab_error(E, fn->loc, E_CALL, "'%s' ends without 'return'", fn->name);
		return ev_error();
	}
	return frame.result;
}

Ev fn_call(Elab *E, const Expr *e, const Decl *fn)
{
	if (E->hopeless || !call_allowed(E, e, fn))
		return ev_error();
	if (!E->at.region) {
		elab_error(E, e->loc, E_NOT_CONSTANT, "functions are called in a kernel's body only");
		return ev_error();
	}
	if (E->at.in_async) {
		elab_error(E, e->loc, E_TYPE, "async takes products only");
		return ev_error();
	}
	return expand(E, e, fn, eval_arguments(E, e, fn));
}

void exec_return(Elab *E, const Stmt *s)
{
	Frame *f = E->at.frame;
	if (!f) {
		elab_error(E, s->loc, E_CALL, "'return' outside a function: a kernel runs to its end");
		diag_help(E->d, "put what comes after it under the opposite condition: if (...) { ... }");
		return;
	}
	if (f->region != E->at.region || f->mask != E->at.mask) {
		elab_error(E, s->loc, E_CALL, "'return' is the last statement of a function, not under a run-time condition or in a loop");
		diag_help(E->d, "choose the value with ?:");
		f->returned = true;
		f->result = ev_error();
		return;
	}
	Ev x = s->rhs ? eval(E, s->rhs) : ev_void();
	f->returned = true;
	f->result = x;
	if ((f->ret != DT_NONE) != (s->rhs != NULL)) {
		elab_error(E, s->loc, E_CALL, "'%s' returns %s", f->fn->name, f->ret == DT_NONE ? "nothing" : dtype_name(f->ret));
		f->result = ev_error();
	} else if (s->rhs && x.kind != EV_ERROR) {
		if (!ev_is_scalar(x)) {
			elab_error(E, s->loc, E_TYPE, "'%s' returns %s, not %s", f->fn->name, dtype_name(f->ret), ev_text(E, x));
			x = ev_error();
		}
		f->result = ev_cast(E, s->loc, x, f->ret);
	}
}
