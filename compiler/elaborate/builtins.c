/* builtins.c - finds a built-in function, checks its arguments against its row and calls its handler. */
#include "compiler/elaborate/builtins.h"

#include <string.h>

static const Builtin builtins[] = {
#define BUILTIN(name, signature, args, flags, handler, op) { name, signature, args, flags, handler, op },
#include "compiler/elaborate/builtins.def"
#undef BUILTIN
};
enum { NBUILTINS = sizeof builtins / sizeof builtins[0] };

static const Builtin *builtin_find(const char *name)
{
	for (int k = 0; k < NBUILTINS; k++)
		if (!strcmp(builtins[k].name, name))
			return &builtins[k];
	return NULL;
}

static bool has_flag(const Builtin *b, char flag)
{
	return strchr(b->flags, flag) != NULL;
}

bool builtin_exists(const char *name)
{
	return builtin_find(name) != NULL;
}

bool builtin_is_pure(const char *name)
{
	const Builtin *b = builtin_find(name);
	return b && has_flag(b, 'P');
}

const char *builtin_signature(const char *name)
{
	const Builtin *b = builtin_find(name);
	return b ? b->signature : NULL;
}

unsigned builtin_names(const char **out, unsigned max)
{
	unsigned n = 0;
	for (int k = 0; k < NBUILTINS && n < max; k++)
		out[n++] = builtins[k].name;
	return n;
}

/* ---- arguments ---- */

typedef enum Fit { FITS, UNFIT, SILENT } Fit;

static Fit fit_tile(Ev x, char kind)
{
	int axes[TIR_MAX_RANK];
	if (x.kind != EV_TILE)
		return UNFIT;
	bool element = view_axes(x.view, axes) == 0;
	TypeKind space = x.view->space;
	switch (kind) {
	case 'p': return element && space != TY_FRAG ? FITS : UNFIT;
	case 'g': return !element && space == TY_TENSOR ? FITS : UNFIT;
	case 's': return !element && space == TY_SHARED ? FITS : UNFIT;
	case 'r': return !element && space == TY_FRAG ? FITS : UNFIT;
	default: return element ? UNFIT : FITS;
	}
}

static Fit fit_scalar(Elab *E, const Expr *e, char kind, Ev *x)
{
	int64_t n;
	if (kind == 'n') {
		if (!eval_const_int(E, e, "this argument", &n))
			return SILENT;
		*x = ev_int(DT_I64, n);
		return n < 0 || n > INT32_MAX ? UNFIT : FITS;
	}
	*x = eval(E, e);
	if (kind == 'i' && ev_is_scalar(*x)) {
		if (!dtype_is_int(x->dtype) || (x->kind == EV_CONST && !const_fits(DT_I32, *x)))
			return UNFIT;
		*x = ev_cast(E, e->loc, *x, DT_I32);
	}
	return ev_is_scalar(*x) ? FITS : UNFIT;
}

static bool is_one_barrier(Elab *E, const Expr *e, const MBar *b)
{
	int64_t extents[2];
	if (!barrier_open_extents(b, extents))
		return true;
	const char *form = !b->array ? "[j]" : b->scalar ? "[i]" : "[i][j]";
	elab_error(E, e->loc, E_BARRIER, "'%s' is an array of %ss: say which, %s%s", b->name, b->kind, b->name, form);
	return false;
}

static Fit fit_barrier(Elab *E, const Expr *e, const Ev *x)
{
	if (x->kind != EV_BARRIER)
		return UNFIT;
	return is_one_barrier(E, e, x->bar) ? FITS : SILENT;
}

static Fit fit_mbarrier(Elab *E, const Expr *e, Ev *x)
{
	if (x->kind != EV_MBARRIER)
		return UNFIT;
	if (!is_one_barrier(E, e, x->bar))
		return SILENT;
	if (x->bar->indexed)
		return FITS;
	MBar *b = ARENA_NEW(E->a, MBar);
	*b = *x->bar;
	b->indexed = true;
	b->use = ev_int(DT_I32, 0);
	x->bar = b;
	return FITS;
}

/* Whatever may be declared with `if (c)`. */
static Fit fit_declared(Elab *E, const Expr *e, Ev *x)
{
	bool named = sym_of(E, e) != NULL;
	if (named && named_absent(E, e)) {
		*x = ev_void();
		return FITS;
	}
	*x = eval_place(E, e);
	return x->kind == EV_TILE || x->kind == EV_MBARRIER || x->kind == EV_BARRIER || (named && ev_is_scalar(*x)) ? FITS : UNFIT;
}

static Fit fit_arg(Elab *E, const Expr *e, char kind, Ev *x)
{
	Fit fit;
	if (kind == 'w') {
		*x = (Ev){ .kind = EV_TEXT, .text = e->kind == EX_NAME ? e->name : "" };
		return *x->text ? FITS : UNFIT;
	}
	if (strchr("ein*", kind))
		fit = fit_scalar(E, e, kind, x);
	else if (kind == 'x')
		fit = fit_declared(E, e, x);
	else {
		*x = eval_place(E, e);
		fit = kind == 'm' ? fit_mbarrier(E, e, x) : kind == 'b' ? fit_barrier(E, e, x)
			: kind == '"' ? (x->kind == EV_TEXT ? FITS : UNFIT) : fit_tile(*x, kind);
	}
	return x->kind == EV_ERROR ? SILENT : fit;
}

static const char *given_text(Elab *E, Ev x)
{
	return x.kind == EV_CONST && dtype_is_int(x.dtype) ? const_text(E, x) : ev_text(E, x);
}

static bool wrong_count(Elab *E, const Call *c, int given)
{
	elab_error(E, c->e->loc, E_CALL, "wrong number of arguments: %d for %s", given, c->b->signature);
	return false;
}

static int list_length(const Expr *list)
{
	int n = 0;
	for (; list; list = list->next)
		n++;
	return n;
}

static bool eval_args(Elab *E, Call *c)
{
	const char *kinds = c->b->args;
	int given = list_length(c->e->args);
	bool optional = false, ok = true;
	c->arg = ARENA_ARRAY(E->a, Ev, given + 1);
	c->loc = ARENA_ARRAY(E->a, Loc, given + 1);
	for (const Expr *e = c->e->args; e; e = e->next, c->n++) {
		if (*kinds == '|') {
			optional = true;
			kinds++;
		}
		if (!*kinds)
			return wrong_count(E, c, given);
		c->loc[c->n] = e->loc;
		Fit fit = fit_arg(E, e, *kinds, &c->arg[c->n]);
		if (fit == UNFIT)
			elab_error(E, e->loc, E_CALL, "argument %d of %s is %s", c->n + 1, c->b->signature, given_text(E, c->arg[c->n]));
		ok &= fit == FITS;
		kinds += *kinds != '*';
	}
	if (*kinds && *kinds != '|' && *kinds != '*' && !optional)
		return wrong_count(E, c, given);
	return ok;
}

/* As i32, which extents are: what lies beyond counts as its nearest number. */
static Ev eval_limit(Elab *E, const Expr *e)
{
	Ev x = eval_scalar(E, e, "the limit");
	if (x.kind == EV_ERROR || !dtype_is_int(x.dtype) || (x.kind == EV_VALUE && (dtype_bits(x.dtype) < 32 || x.dtype == DT_I32)))
		return ev_as_i32(E, e->loc, x, "the limit");
	bool large = x.dtype == DT_U64 && x.i < 0;
	if (x.kind == EV_CONST)
		return ev_int(DT_I32, large || x.i > INT32_MAX ? INT32_MAX : x.i < INT32_MIN ? INT32_MIN : x.i);
	if (dtype_is_signed(x.dtype))
		x = ev_of(emit(E, OP_MAX, e->loc, x.dtype, 2, (Value *[]){ x.value, ev_value(E, e->loc, ev_int(x.dtype, INT32_MIN)) }));
	x = ev_of(emit(E, OP_MIN, e->loc, x.dtype, 2, (Value *[]){ x.value, ev_value(E, e->loc, ev_int(x.dtype, INT32_MAX)) }));
	return ev_cast(E, e->loc, x, DT_I32);
}

static bool eval_suffixes(Elab *E, Call *c)
{
	const Expr *limit = c->s ? c->s->limit : NULL, *within = c->s ? c->s->within : NULL;
	c->limit = ev_void();
	if (limit && !has_flag(c->b, 'L')) {
		elab_error(E, limit->loc, E_CALL, "%s takes no limit(...)", c->b->signature);
		return false;
	}
	if (within && !has_flag(c->b, 'W')) {
		elab_error(E, within->loc, E_CALL, "%s takes no within(...)", c->b->signature);
		return false;
	}
	if (limit)
		c->limit = eval_limit(E, limit);
	if (within && !eval_const_int(E, within, "the extent of within(...)", &c->within))
		return false;
	return c->limit.kind != EV_ERROR;
}

/* ---- the call ---- */

static bool allowed_here(Elab *E, const Call *c)
{
	const Builtin *b = c->b;
	if (!E->at.region || (E->at.in_grid && !has_flag(b, 'P'))) {
		if (has_flag(b, 'P'))
			return true; /* folds or is reported as not constant */
		elab_error(E, c->e->loc, E_NOT_CONSTANT, "'%s' is for a kernel's body only", b->name);
		return false;
	}
	if (has_flag(b, 'T') && !require_team_level(E, c->e->loc, b->name))
		return false;
	if (c->s && !has_flag(b, 'S')) {
		elab_error(E, c->e->loc, E_CALL, "the value of '%s' is not used", b->name);
		return false;
	}
	return true;
}

/* bitcast(IO, x) with a type by its name is bitcast(f16, x). */
static const Expr *with_named_type(Elab *E, const Expr *e)
{
	const Sym *y = e->kind == EX_CALL && e->args && e->args->kind == EX_NAME ? sym_find(E, e->args->name) : NULL;
	if (!y || y->kind != SYM_TYPE)
		return e;
	Expr *typed = ARENA_NEW(E->a, Expr);
	*typed = *e;
	typed->kind = EX_TYPED_CALL;
	typed->dtype = y->dtype;
	typed->args = e->args->next;
	return typed;
}

Ev builtin_call(Elab *E, const Expr *written, const Stmt *s)
{
	const Expr *e = with_named_type(E, written);
	Call c = { .b = builtin_find(e->name), .e = e, .s = s };
	if (!c.b) {
		report_unknown(E, e->loc, e->name, true);
		return ev_error();
	}
	bool typed = !strcmp(e->name, "bitcast") || !strcmp(e->name, "ptx");
	if (typed != (e->kind == EX_TYPED_CALL)) {
		elab_error(E, e->loc, E_CALL, "%s: the first argument %s a type", c.b->signature, typed ? "is" : "is not");
		return ev_error();
	}
	if (!allowed_here(E, &c))
		return ev_error();
	if (!s && !has_flag(c.b, 'V')) {
		elab_error(E, e->loc, E_TYPE, "'%s' has no value", e->name);
		return ev_error();
	}
	bool ok = eval_args(E, &c);
	if (!eval_suffixes(E, &c) || !ok)
		return ev_error();
	return c.b->handler(E, &c);
}
