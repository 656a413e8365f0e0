/* report.c - messages, and what things are called in them. */
#include "compiler/elaborate/elab.h"

#include <stdarg.h>
#include <stdlib.h>

void elab_error(Elab *E, Loc loc, DiagCode code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	const char *text = arena_vprintf(E->a, fmt, ap);
	va_end(ap);
	diag_error(E->d, loc, code, "%s", text);
	site_notes(E->d, E->t->site);
}

void report_absent(Elab *E, Loc loc, const Sym *y)
{
	if (y->origin)
		elab_error(E, loc, E_UNKNOWN_NAME, "'%s' does not exist: it comes with '%s', and the condition of that declaration is false", y->name, y->origin->name);
	else
		elab_error(E, loc, E_UNKNOWN_NAME, "'%s' does not exist: the condition of its declaration is false", y->name);
	diag_note(E->d, (y->origin ? y->origin : y)->loc, "declared here");
	diag_help(E->d, "use it under 'if (...)' with the same condition, which leaves the other arm unchecked");
}

const char *view_shape_text(Elab *E, const View *v)
{
	int axes[TIR_MAX_RANK];
	int n = view_axes(v, axes);
	const char *s = "";
	for (int k = 0; k < n; k++) {
		int64_t x = v->dim[axes[k]].seen;
		const char *sep = k ? "x" : "";
		s = x < 0 ? arena_printf(E->a, "%s%s?", s, sep) : arena_printf(E->a, "%s%s%lld", s, sep, (long long)x);
	}
	return s;
}

static const char *space_text(const View *v)
{
	switch (v->space) {
	case TY_TENSOR: return "global tensor";
	case TY_SHARED: return "shared tile";
	case TY_FRAG: return v->warp_frag || v->warp_view ? "warp fragment" : "fragment";
	default: abort(); /* no tile */
	}
}

const char *ev_text(Elab *E, Ev ev)
{
	switch (ev.kind) {
	case EV_CONST:
	case EV_VALUE: return arena_printf(E->a, "%s", dtype_name(ev.dtype));
	case EV_TILE:
		return arena_printf(E->a, "%s %s %s", dtype_name(ev.view->dtype), space_text(ev.view), *view_shape_text(E, ev.view) ? view_shape_text(E, ev.view) : "element");
	case EV_MBARRIER: return arena_printf(E->a, "mbarrier '%s'", ev.bar->name);
	case EV_BARRIER: return arena_printf(E->a, "named barrier '%s'", ev.bar->name);
	case EV_STRUCT: return arena_printf(E->a, "struct %s", ev.of->decl->name);
	case EV_TEXT: return "text";
	default: return "no value";
	}
}
