/* batch.c - values over a batch of registers: of one register, of a pair. */
#include "compiler/lower/batch.h"

/* Variables are declared outside: what one holds is the same for all elements. */
bool in_body(const Batch *x, const Value *v)
{
	return v->region == x->body || (v->def && v->def->parent == x->body && v->def->code != OP_GET);
}

V element(Batch *x, const Value *v, int r)
{
	if (!in_body(x, v))
		return value_of(x->L, v);
	Vec *e = &x->vec[v->id - x->low_id];
	if (!e->s[r])
		e->s[r] = LLVMBuildExtractElement(x->L->b, e->p[r / 2], const_i32(x->L, r % 2), "");
	return e->s[r];
}

V pair(Batch *x, const Value *v, int k)
{
	if (!in_body(x, v))
		return pack_pair(x->L, value_of(x->L, v), value_of(x->L, v), v->type.dtype);
	Vec *e = &x->vec[v->id - x->low_id];
	if (!e->p[k])
		e->p[k] = pack_pair(x->L, e->s[2 * k], e->s[2 * k + 1], v->type.dtype);
	return e->p[k];
}

Vec *result_vec(Batch *x, const Value *v)
{
	Vec *e = &x->vec[v->id - x->low_id];
	e->s = ARENA_ARRAY(x->L->arena, V, x->n);
	e->p = ARENA_ARRAY(x->L->arena, V, x->n / 2 + 1);
	return e;
}

bool paired(const Batch *x) { return x->layout->pairs && x->n % 2 == 0 && x->first % 2 == 0; }
