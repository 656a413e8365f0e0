/* lanes.c - values of the lanes that execute together. */
#include <stdarg.h>
#include <string.h>

#include "tests/random/model/machine.h"

void model_fail(Model *m, const Op *at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	unsigned line = 0, col = 0;
	if (at && at->loc.source)
		diags_linecol(m->t->diags, at->loc, &line, &col);
	int n = snprintf(m->error, m->error_size, "line %u: %s: ", line, at ? op_info(at->code)->text : "kernel");
	if (n > 0 && (size_t)n < m->error_size)
		vsnprintf(m->error + n, m->error_size - (size_t)n, fmt, ap);
	va_end(ap);
	longjmp(m->fail, 1);
}

void env_init(Env *e, Model *m, Cta *cta, Env *outer, int outer_lane, int lanes)
{
	*e = (Env){ .m = m, .cta = cta, .outer = outer, .outer_lane = outer_lane, .lanes = lanes, .warps = (lanes + 31) / 32 };
	e->value = ARENA_ARRAY(m->arena, Lanes, m->ids);
	e->object = ARENA_ARRAY(m->arena, Object, m->ids);
	e->active = ARENA_ARRAY(m->arena, unsigned char, lanes);
	memset(e->active, 1, (size_t)lanes);
}

Lanes lanes_of(Env *e, const Value *v)
{
	Lanes l = e->value[v->id - e->m->base];
	if (l.v)
		return l;
	if (!e->outer)
		model_fail(e->m, v->def, "%%%u has no value", v->id);
	l = lanes_of(e->outer, v);
	l.v += e->outer_lane * l.stride;
	return e->flatten ? (Lanes){ l.v, 0 } : l;
}

Num lane_value(Env *e, const Value *v, int lane)
{
	Lanes l = lanes_of(e, v);
	return l.v[lane * l.stride];
}

int first_active(const Env *e)
{
	int k = 0;
	while (k < e->lanes && !e->active[k])
		k++;
	return k < e->lanes ? k : 0;
}

bool all_active(const Env *e)
{
	return memchr(e->active, 0, (size_t)e->lanes) == NULL;
}

int64_t uniform_int(Env *e, const Value *v)
{
	Num x = lane_value(e, v, first_active(e));
	if (x.undefined)
		model_fail(e->m, v->def, "an operand is undefined");
	return x.i;
}

Lanes lanes_new(Env *e, bool varying)
{
	return (Lanes){ ARENA_ARRAY(e->m->arena, Num, varying ? e->lanes : 1), varying };
}

void lanes_set(Env *e, const Value *v, Lanes l)
{
	e->value[v->id - e->m->base] = l;
}

Object *object_of(Env *e, const Value *v)
{
	Object *o = &e->object[v->id - e->m->base];
	if (o->store || o->mbarrier || o->barrier || o->var)
		return o;
	if (!e->outer)
		model_fail(e->m, v->def, "%%%u is no object here", v->id);
	return object_of(e->outer, v);
}
