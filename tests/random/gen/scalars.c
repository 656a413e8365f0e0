/* scalars.c - scalar code of each thread: variables, ifs, whiles, functions; constants folded beside the same at run time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/gen/gen.h"

/* The name of t, or of a `param type` that is t. */
static const char *type_name(Gen *g, DType t, char text[NAME_SIZE * 2])
{
	if (!CHANCE(g, 12))
		return dtype_name(t);
	snprintf(text, NAME_SIZE * 2, "%s_t%d", g->p->kernel, fresh(g));
	text_put(&g->head, "param type %s = %s;\n", text, dtype_name(t));
	return text;
}

static int declare(Gen *g, Ex e)
{
	char text[NAME_SIZE * 2];
	if (g->nvars == MAX_VARS) {
		ex_free(&e);
		return -1;
	}
	DType t = computed(e.type);
	e = ex_into(g, e, t, e.range);
	Var *v = &g->var[g->nvars++];
	*v = (Var){ .type = t, .range = e.range, .uniform = !g->threads_differ };
	snprintf(v->name, sizeof v->name, "v%d", fresh(g));
	line(g, "%s %s = %s;", type_name(g, t, text), v->name, e.s);
	ex_free(&e);
	return g->nvars - 1;
}

static int assignable(Gen *g)
{
	for (int tries = 0; tries < 8 && g->nvars; tries++) {
		int k = rng_below(&g->rng, g->nvars);
		if (!g->var[k].gone && !g->var[k].constant && g->var[k].uniform == !g->threads_differ)
			return k;
	}
	return -1;
}

static void set(Gen *g, int k)
{
	static const char *const ops[] = { "+=", "-=", "*=", "&=", "|=", "^=" };
	Var *v = &g->var[k];
	bool whole = !dtype_is_float(v->type) && v->type != DT_BOOL && range_inside(type_range(v->type), v->range);
	Ex e = ex_into(g, ex_any(g, 2), v->type, v->range);
	line(g, "%s %s %s;", v->name, whole && CHANCE(g, 40) ? PICK(g, ops) : "=", e.s);
	ex_free(&e);
}

/* In team-level code: variables that tile statements use, so the same for all threads. */
bool st_scalar(Gen *g)
{
	int k = assignable(g);
	if (k < 0 || CHANCE(g, 30)) {
		if (g->nesting)
			return false;
		k = declare(g, ex_of_type(g, CHANCE(g, 60) ? DT_I32 : random_type(g), 2));
		return k >= 0;
	}
	set(g, k);
	return true;
}

/* ---- threads that differ ---- */

static void code(Gen *g, int n, int depth);

static void branch(Gen *g, int depth)
{
	Ex c = ex_condition(g, 2);
	int vars = g->nvars;
	line(g, "if (%s) {", c.s);
	ex_free(&c);
	open_block(g);
	code(g, 2, depth - 1);
	g->nvars = vars;
	if (CHANCE(g, 60)) {
		close_block(g, "} else {");
		open_block(g);
		code(g, 2, depth - 1);
		g->nvars = vars;
	}
	close_block(g, "}");
}

static void repeat(Gen *g, int depth)
{
	int id = fresh(g), vars = g->nvars;
	Ex e = ex_into(g, ex_any(g, 1), DT_I32, (Range){ 0, 5, 0 });
	bool counted = CHANCE(g, 60);
	if (counted)
		line(g, "for (i32 c%d = 0; c%d < %s; c%d++) {", id, id, e.s, id);
	else {
		line(g, "i32 c%d = %s;", id, e.s);
		line(g, "while (c%d > 0) {", id);
	}
	ex_free(&e);
	open_block(g);
	code(g, 2, depth - 1);
	if (counted && CHANCE(g, 30)) {
		Ex c = ex_condition(g, 2);
		line(g, "if (%s) %s;", c.s, CHANCE(g, 50) ? "break" : "continue");
		ex_free(&c);
		code(g, 1, 0);
	}
	g->nvars = vars;
	if (!counted)
		line(g, "c%d--;", id);
	close_block(g, "}");
}

static void code(Gen *g, int n, int depth)
{
	while (n-- > 0) {
		int kind = rng_below(&g->rng, 10), k = assignable(g);
		if (kind < 3 || k < 0)
			declare(g, ex_any(g, 3));
		else if (kind < 7 || depth == 0)
			set(g, k);
		else if (kind < 9)
			branch(g, depth);
		else
			repeat(g, depth);
	}
}

/* ---- functions ---- */

/* fn T f(T a, T b) { return ...; } and a call of it. */
static Ex call(Gen *g)
{
	int id = fresh(g), vars = g->nvars;
	DType t = CHANCE(g, 50) ? DT_I32 : random_float(g);
	Range r = dtype_is_float(t) ? (Range){ -8, 8, 2 } : type_range(t);
	bool differ = g->threads_differ;
	Ex a = ex_into(g, ex_any(g, 2), t, r), b = ex_into(g, ex_any(g, 2), t, r);
	for (int k = 0; k < g->nvars; k++)
		g->var[k].gone ^= true;
	for (int k = 0; k < 2; k++) {
		Var *v = &g->var[g->nvars++];
		*v = (Var){ .type = t, .range = r, .uniform = !differ };
		snprintf(v->name, sizeof v->name, "%c", 'a' + k);
	}
	g->threads_differ = false;
	g->var[vars].uniform = g->var[vars + 1].uniform = true;
	Ex e = ex_of_type(g, t, 3);
	g->threads_differ = differ;
	g->nvars = vars;
	for (int k = 0; k < g->nvars; k++)
		g->var[k].gone ^= true;
	char text[NAME_SIZE * 2];
	const char *type = type_name(g, t, text);
	text_put(&g->head, "fn %s %s_f%d(%s a, %s b) { %s c = %s; return c; }\n", type, g->p->kernel, id, type, dtype_name(t), type, e.s);
	Ex r2 = ex_make(t, e.range, "%s_f%d(%s, %s)", g->p->kernel, id, a.s, b.s);
	ex_free(&a);
	ex_free(&b);
	ex_free(&e);
	return r2;
}

/* ---- twins ---- */

/* The same expression of constants and of parameters that have their values. */
static void twin(Gen *g, int y, int k)
{
	static const DType types[] = { DT_I8, DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64, DT_U64 };
	static const char *const ops[] = { "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", "==", ">", "!=" };
	DType s = PICK(g, types), t = CHANCE(g, 60) ? s : PICK(g, types);
	const char *op = PICK(g, ops);
	bool counts = strchr("/%", op[0]) != NULL || !strcmp(op, "<<") || !strcmp(op, ">>");
	Program *p = g->p;
	if (p->nscalars + 2 > MAX_SCALARS)
		return;
	ScalarParam *a = &p->scalar[p->nscalars++], *b = &p->scalar[p->nscalars++];
	*a = (ScalarParam){ .type = s, .i = (int64_t)rng_next(&g->rng) >> rng_below(&g->rng, 60) };
	*b = (ScalarParam){ .type = t, .i = counts ? rng_between(&g->rng, 1, 70) : (int64_t)rng_next(&g->rng) >> rng_below(&g->rng, 60) };
	ScalarParam *both[] = { a, b };
	for (int n = 0; n < 2; n++) {
		ScalarParam *v = both[n];
		unsigned bits = dtype_bits(v->type), drop = 64 - bits + (v->type == DT_U64);
		v->i = dtype_is_signed(v->type) ? (int64_t)((uint64_t)v->i << drop) >> drop : (int64_t)((uint64_t)v->i << drop >> drop);
		if (v->i == INT64_MIN || (n == 1 && v->i == 0)) /* no such literal; no such divisor */
			v->i = 3;
		snprintf(v->name, sizeof v->name, "t%d", fresh(g));
		text_put(&g->params, ", %s %s", dtype_name(v->type), v->name);
	}
	line(g, "once %s[%d] = i64(%s(%lld) %s %s(%lld));", g->tile[y].name, 2 * k, dtype_name(s), (long long)a->i, op, dtype_name(t), (long long)b->i);
	line(g, "once %s[%d] = i64(%s %s %s);", g->tile[y].name, 2 * k + 1, a->name, op, b->name);
}

static void twins(Gen *g)
{
	enum { PAIRS = 4 };
	int64_t n = 2 * PAIRS;
	int y = tile_param(g, 2, DT_I64, 1, &n, type_range(DT_I64));
	if (y < 0 || g->grid > 1)
		return;
	snprintf(g->p->tensor[g->p->ntensors - 1].name, NAME_SIZE, "twins");
	snprintf(g->tile[y].name, sizeof g->tile[y].name, "twins");
	/* the parameter was written with its first name */
	char *at = strrchr(g->params.s, ' ');
	g->params.len = (size_t)(at - g->params.s) + 1;
	text_put(&g->params, "twins[%d]", 2 * PAIRS);
	g->tile[y].writes = g->tile[y].reads = false;
	g->p->twins = true;
	for (int k = 0; k < PAIRS; k++)
		twin(g, y, k);
}

/* ---- the kernel ---- */

static void parameter(Gen *g, DType t)
{
	Program *p = g->p;
	ScalarParam *v = &p->scalar[p->nscalars++];
	*v = (ScalarParam){ .type = t };
	snprintf(v->name, sizeof v->name, "p%d", fresh(g));
	v->i = rng_between(&g->rng, t == DT_BOOL || !dtype_is_signed(t) ? 0 : -50, t == DT_BOOL ? 1 : 50);
	v->f = (double)v->i / 4;
	double x = dtype_is_float(t) ? v->f : (double)v->i;
	text_put(&g->params, ", %s %s", dtype_name(t), v->name);
	Range r = t == DT_BOOL ? type_range(t) : (Range){ x, x, dtype_is_float(t) ? 2 : 0 };
	Var *var = &g->var[g->nvars++];
	*var = (Var){ .type = t, .range = r, .uniform = true, .constant = true };
	snprintf(var->name, sizeof var->name, "%s", v->name);
}

void kernel_scalar(Gen *g)
{
	int64_t n = 32 * g->warps;
	DType t = random_type(g);
	Range r = default_range(g, t);
	int x = tile_param(g, 1, t, 1, &n, r);
	parameter(g, random_type(g) == DT_F32 ? DT_F32 : DT_I32);
	parameter(g, PICK(g, ((DType[]){ DT_I8, DT_U16, DT_I64, DT_F32, DT_I32, DT_U32 })));
	g->threads_differ = true;
	declare(g, ex_make(t, r, "%s[thread()]", g->tile[x].name));
	for (int parts = rng_between(&g->rng, 1, 3); parts > 0; parts--) {
		code(g, rng_between(&g->rng, 2, 5), 3);
		if (CHANCE(g, 50))
			lanes_vote(g);
		if (CHANCE(g, 50))
			lanes_exchange(g);
	}
	if (CHANCE(g, 60))
		declare(g, call(g));
	for (int k = 0, shown = 0; k < g->nvars && shown < 8; k++) {
		Var *v = &g->var[k];
		if (v->gone || v->constant)
			continue;
		int y = tile_param(g, 2, v->type, 1, &n, v->range);
		if (y < 0)
			break;
		line(g, "%s[thread()] = %s;", g->tile[y].name, v->name);
		shown++;
	}
	g->threads_differ = false;
	if (CHANCE(g, 50) && g->grid == 1)
		twins(g);
}
