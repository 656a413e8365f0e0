/* calls.c - functions, always expanded in place. */
#include "compiler/elaborate/bind.h"

static int count_args(const Expr *e)
{
	int n = 0;
	for (const Expr *x = e->args; x; x = x->next)
		n++;
	return n;
}

static bool call_allowed(Elab *E, const Expr *e, const Decl *fn)
{
	int given = count_args(e), wanted = decl_count(fn->params);
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

static bool returned_type(Elab *E, const Decl *fn, Frame *f)
{
	const Sym *y = fn->type_name ? sym_find(E, fn->type_name) : NULL;
	if (y && y->kind == SYM_STRUCT) {
		f->ret_struct = y->decl;
		return true;
	}
	const Decl *d = with_type(E, fn);
	f->ret = d ? d->dtype : DT_NONE;
	return d != NULL;
}

static bool returns(const Frame *f) { return f->ret != DT_NONE || f->ret_struct; }

/* Whether another argument assigns this variable of an element loop, too. */
static bool passed_twice(const Argument *args, int n, int k)
{
	for (int j = 0; j < n; j++)
		if ((j < k && args[j].from == args[k].from) || (args[j].x.kind == EV_STRUCT && struct_holds(args[j].x.of, args[k].from)))
			return true;
	return false;
}

/* What the function has made of variables of an element loop. */
static void give_back(Elab *E, const Expr *e, const Argument *args, int n)
{
	for (int k = 0; k < n; k++) {
		if (!args[k].copy || args[k].copy->ev.kind == EV_VOID)
			continue;
		if (passed_twice(args, n, k))
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
	bool ok = bind_all(E, fn->params, args, fn->body) && returned_type(E, fn, &frame);
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
	if (returns(&frame) && !frame.returned) {
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

/* x as what the function returns. */
static Ev returned_value(Elab *E, Loc loc, const Frame *f, Ev x)
{
	bool fits = f->ret_struct ? x.kind == EV_STRUCT && x.of->decl == f->ret_struct : ev_is_scalar(x);
	if (!fits) {
		const char *type = f->ret_struct ? arena_printf(E->a, "struct %s", f->ret_struct->name) : dtype_name(f->ret);
		elab_error(E, loc, E_TYPE, "'%s' returns %s, not %s", f->fn->name, type, ev_text(E, x));
		return ev_error();
	}
	return f->ret_struct ? struct_value(E, loc, x.of) : ev_cast(E, loc, x, f->ret);
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
	Ev x = s->rhs ? eval_as(E, s->rhs, f->ret_struct) : ev_void();
	f->returned = true;
	f->result = x;
	if (returns(f) != (s->rhs != NULL)) {
		elab_error(E, s->loc, E_CALL, "'%s' returns %s", f->fn->name, f->ret_struct ? f->ret_struct->name : f->ret == DT_NONE ? "nothing" : dtype_name(f->ret));
		f->result = ev_error();
	} else if (s->rhs && x.kind != EV_ERROR) {
		f->result = returned_value(E, s->loc, f, x);
	}
}
