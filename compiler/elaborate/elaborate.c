/* elaborate.c - a program from its files: imports, params and their overrides, constants, kernels. */
#include "compiler/elaborate/elab.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 65536 };

/* ---- overrides: -D NAME=value ---- */

static void read_trace(Elab *E, const char *s)
{
	char *end;
	E->trace = strtol(s, &end, 10);
	if (*s && !*end && E->trace >= 0 && E->trace <= MAX_POINTS)
		return;
	diag_error(E->d, (Loc){ 0 }, E_PARAM, "-D TRACE takes the number of points, 0 to %d, not '%s'", MAX_POINTS, s);
	E->trace = 0;
}

static void read_defines(Elab *E)
{
	E->defines = ARENA_ARRAY(E->a, Define, E->o->ndefines + 1);
	for (int k = 0; k < E->o->ndefines; k++) {
		const char *s = E->o->defines[k], *eq = strchr(s, '=');
		if (!eq || eq == s) {
			diag_error(E->d, (Loc){ 0 }, E_PARAM, "-D takes NAME=value, not '%s'", s);
			continue;
		}
		Define *def = &E->defines[E->ndefines++];
		def->name = arena_strndup(E->a, s, (size_t)(eq - s));
		def->value = eq + 1;
		if (!strcmp(def->name, "TRACE")) {
			def->used = true;
			read_trace(E, def->value);
		}
	}
}

/* As in the language: decimal or 0x, and no octal numbers. */
static bool parse_int(const char *s, bool large, int64_t *out)
{
	const char *digits = s + (*s == '-' || *s == '+');
	bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
	char *end;
	if (!isdigit((unsigned char)digits[0]) || (!hex && digits[0] == '0' && digits[1]))
		return false;
	errno = 0;
	*out = large ? (int64_t)strtoull(s, &end, hex ? 16 : 10) : strtoll(s, &end, hex ? 16 : 10);
	return !*end && !errno;
}

static bool parse_value(const char *s, DType t, Ev *out)
{
	char *end;
	if (isspace((unsigned char)s[0]))
		return false;
	if (t == DT_BOOL && (!strcmp(s, "true") || !strcmp(s, "false"))) {
		*out = ev_bool(s[0] == 't');
		return true;
	}
	if (dtype_is_float(t)) {
		bool word = !strcmp(s, "inf") || !strcmp(s, "-inf") || !strcmp(s, "nan");
		*out = ev_float(t, strtod(s, &end));
		return *s && !*end && (word || isfinite(out->f));
	}
	bool large = t == DT_U64 && s[0] != '-';
	int64_t v = 0;
	bool whole = parse_int(s, large, &v);
	*out = ev_int(t, v);
	return whole && (t == DT_BOOL ? v == 0 || v == 1 : large || int_fits(t, v));
}

/* The last -D for the param, or NULL. */
static const char *override_of(Elab *E, const Decl *d)
{
	const char *last = NULL;
	for (int k = 0; k < E->ndefines; k++)
		if (!strcmp(E->defines[k].name, d->name)) {
			last = E->defines[k].value;
			E->defines[k].used = true;
		}
	return last;
}

static DType type_param(Elab *E, const Decl *d)
{
	const char *last = override_of(E, d);
	DType t = last ? dtype_from_name(last) : d->dtype;
	if (t == DT_NONE)
		elab_error(E, d->loc, E_PARAM, "-D %s=%s is not a type", d->name, last);
	return t == DT_NONE ? d->dtype : t;
}

static Ev param_value(Elab *E, const Decl *d)
{
	const char *last = override_of(E, d);
	Ev x;
	if (!last) {
		x = eval_const(E, d->init, arena_printf(E->a, "param '%s'", d->name));
		return declared_value(E, d, x);
	}
	if (parse_value(last, d->dtype, &x))
		return x;
	elab_error(E, d->loc, E_PARAM, "-D %s=%s is not a value of type %s", d->name, last, dtype_name(d->dtype));
	return ev_error();
}

/* NULL: the file has nothing of that name. */
static const char *kind_of(const Elab *E, const char *name)
{
	for (const Sym *y = E->globals->syms; y; y = y->next)
		if (!strcmp(y->name, name))
			return y->kind == SYM_DIM ? "a dim, which a launch binds" : y->kind == SYM_FN ? "a function" : y->kind == SYM_STRUCT ? "a struct" : y->kind == SYM_KERNEL ? "a kernel"
				: "a const, which cannot be overridden: declare it as a param";
	return NULL;
}

static void report_unused_defines(Elab *E)
{
	int n = 0, max = 0;
	for (const Sym *y = E->globals->syms; y; y = y->next)
		max++;
	const char **params = ARENA_ARRAY(E->a, const char *, max + 1);
	for (const Sym *y = E->globals->syms; y; y = y->next)
		if (y->kind == SYM_TYPE || (y->fixed && !strcmp(y->fixed, "a param")))
			params[n++] = y->name;
	for (int k = 0; k < E->ndefines; k++) {
		const Define *def = &E->defines[k];
		if (def->used)
			continue;
		const char *near = nearest_name(def->name, params, (unsigned)n), *kind = kind_of(E, def->name);
		if (kind)
			diag_error(E->d, (Loc){ 0 }, E_PARAM, "-D %s: '%s' is no param but %s", def->name, def->name, kind);
		else if (near)
			diag_error(E->d, (Loc){ 0 }, E_PARAM, "-D %s: there is no such param; did you mean '%s'?", def->name, near);
		else
			diag_error(E->d, (Loc){ 0 }, E_PARAM, "-D %s: there is no such param", def->name);
	}
}

/* ---- declarations of a file ---- */

static void file_const(Elab *E, const Decl *written)
{
	const Decl *d = with_type(E, written);
	if (d)
		declare_const(E, d);
	else
		sym_define_ev(E, written->loc, written->name, ev_error(), NULL);
}

static void file_decl(Elab *E, const Decl *d)
{
	if (d->kind != DE_IMPORT && d->kind != DE_STATIC_ASSERT)
		refuse_builtin(E, d->loc, d->name);
	switch (d->kind) {
	case DE_IMPORT: import_file(E, d); break;
	case DE_PARAM: {
		Ev x = param_value(E, d);
		sym_define_ev(E, d->loc, d->name, x, "a param");
		break;
	}
	case DE_TYPE: define_type(E, d->loc, d->name, type_param(E, d)); break;
	case DE_CONST: file_const(E, d); break;
	case DE_STATIC_ASSERT: static_assertion(E, d->loc, d->init, d->text); break;
	case DE_DIM: sym_define(E, d->loc, d->name, SYM_DIM)->dim = E->ndims++; break;
	case DE_FN: sym_define(E, d->loc, d->name, SYM_FN)->decl = d; break;
	case DE_STRUCT: sym_define(E, d->loc, d->name, SYM_STRUCT)->decl = d; break;
	case DE_KERNEL: sym_define(E, d->loc, d->name, SYM_KERNEL)->decl = d; break;
	default: break;
	}
}

void file_decls(Elab *E, const Ast *ast, File *file)
{
	File *importer = E->at.file;
	E->at.file = file;
	for (const Decl *d = ast->decls; d; d = d->next)
		file_decl(E, d);
	E->at.file = importer;
}

Tir *elaborate(Arena *a, Diags *d, const Ast *main, const char *main_path, const ElabOptions *o)
{
	unsigned errors = diags_error_count(d);
	Elab E = { .a = a, .d = d, .o = o, .t = tir_new(a, d, o->machine) };
	read_defines(&E);
	scope_push(&E);
	E.globals = E.at.scope;
	file_decls(&E, main, main_file(&E, main_path, main->decls ? main->decls->loc.source : 1));
	report_unused_defines(&E);
	/* Kernels last: their bodies see every declaration, wherever it stands. */
	for (const Sym *y = E.globals->syms; y; y = y->next)
		if (y->kind == SYM_KERNEL)
			elaborate_kernel(&E, y->decl);
	return diags_error_count(d) == errors ? E.t : NULL;
}
