/* barriers.c - mbarriers and named barriers: declarations, arrays of them and their indices. */
#include "compiler/elaborate/elab.h"

#include <string.h>

enum { MAX_SLOTS = 1024 };

/* ---- extents ---- */

/* [p < 2] names the element for from(Role[p]). */
static const Expr *extent_value(const Extent *x, const char **element)
{
	const Expr *e = x->e;
	bool bound = e->kind == EX_BINARY && e->op == BIN_LT && e->a->kind == EX_NAME;
	if (bound)
		*element = e->a->name;
	return bound ? e->b : e;
}

static bool eval_count(Elab *E, const Extent *x, MBar *b, const char *what, int64_t *n)
{
	if (!eval_const_int(E, extent_value(x, &b->element), "an extent", n))
		return false;
	if (*n >= 1 && *n <= MAX_SLOTS)
		return true;
	elab_error(E, x->loc, E_SHAPE, "%s '%s' has %lld %s, not 1 to %d", b->kind, b->name, (long long)*n, what, MAX_SLOTS);
	return false;
}

/* mbarrier b, b[slots], b[ring n], b[which][slots], b[which][ring n] */
static bool mbarrier_extents(Elab *E, const Decl *d, MBar *b)
{
	const Extent *last = d->extents;
	b->slots = 1;
	b->ring = b->scalar = !last;
	if (!last)
		return true;
	if (last->next) {
		if (last->ring || last->next->next) {
			elab_error(E, d->loc, E_SHAPE, "mbarrier '%s' has at most two extents, the ring last: %s[which][ring n]", d->name, d->name);
			return false;
		}
		if (!eval_count(E, last, b, "elements", &b->array))
			return false;
		last = last->next;
	}
	b->ring = last->ring;
	return eval_count(E, last, b, "slots", &b->slots);
}

static bool barrier_extents(Elab *E, const Decl *d, MBar *b)
{
	if (!d->extents)
		return true;
	if (d->extents->next || d->extents->ring) {
		elab_error(E, d->loc, E_SHAPE, "barrier '%s' has one extent at most, and no ring", d->name);
		return false;
	}
	return eval_count(E, d->extents, b, "elements", &b->array);
}

/* ---- arrivals ---- */

/* "Prep[1]" for one instance, "Prep[*]" for that with the element's number; NULL: reported. */
static const char *source_text(Elab *E, const MBar *b, const NameRef *n)
{
	int64_t instance;
	if (!n->instance)
		return n->name;
	if (b->element && n->instance->kind == EX_NAME && !strcmp(n->instance->name, b->element))
		return arena_printf(E->a, "%s[*]", n->name);
	if (!eval_const_int(E, n->instance, "the instance of a role", &instance)) {
		if (!b->element)
			diag_help(E->d, "the extent names the element: %s[p < n] ... from(%s[p])", b->name, n->name);
		return NULL;
	}
	return arena_printf(E->a, "%s[%lld]", n->name, (long long)instance);
}

/* "Who arrives": {from} or {count}, of which the grammar lets one be written. */
static bool set_arrivals(Elab *E, const Decl *d, const MBar *b, Op *op)
{
	const char *from = "";
	int64_t count;
	for (const NameRef *n = d->from; n; n = n->next) {
		const char *one = source_text(E, b, n);
		if (!one)
			return false;
		from = arena_printf(E->a, "%s%s%s", from, n == d->from ? "" : ",", one);
	}
	if (d->from) {
		attr_set_text(E->t, op, AT_FROM, from);
		return true;
	}
	if (!eval_const_int(E, d->count, "count(...)", &count))
		return false;
	bool named = d->kind == DE_BARRIER;
	if (named && count < 1) { /* bind_barriers knows how many there are */
		elab_error(E, d->count->loc, E_BARRIER, "'%s' counts at least one of the CTA's warps, not %lld", d->name, (long long)count);
		return false;
	}
	if (!named && (count < 1 || count > E->t->machine->arrivals)) {
		elab_error(E, d->count->loc, E_BARRIER, "'%s' counts 1 to %d arrivals, not %lld", d->name, E->t->machine->arrivals, (long long)count);
		return false;
	}
	attr_set_int(E->t, op, AT_COUNT, count);
	return true;
}

/* ---- declarations ---- */

bool declare_barrier(Elab *E, const Decl *d)
{
	bool named = d->kind == DE_BARRIER;
	MBar *b = ARENA_NEW(E->a, MBar);
	*b = (MBar){ .kind = named ? "barrier" : "mbarrier", .name = d->name, .declared = d->loc, .scalar = named };
	if (!at_top(E, d->loc, named ? "a named barrier" : "an mbarrier") || !(named ? barrier_extents(E, d, b) : mbarrier_extents(E, d, b)))
		return false;
	Op *op = emit_op(E, named ? OP_BARRIER : OP_MBARRIER, d->loc, (Type){ .kind = named ? TY_BARRIER : TY_MBARRIER }, 0, NULL);
	attr_set_text(E->t, op, AT_NAME, d->name);
	if (b->array)
		attr_set_int(E->t, op, AT_ARRAY, b->array);
	if (!named) {
		attr_set_int(E->t, op, AT_SLOTS, b->slots * (b->array ? b->array : 1));
		attr_set_int(E->t, op, AT_RING, b->ring ? b->slots : 0);
	}
	op->result->name = d->name;
	if (!set_arrivals(E, d, b, op))
		return false;
	b->object = op->result;
	sym_define_ev(E, d->loc, d->name, (Ev){ .kind = named ? EV_BARRIER : EV_MBARRIER, .bar = b }, named ? "a named barrier" : "an mbarrier");
	return true;
}

/* ---- indices ---- */

static bool barrier_is_array(const MBar *b)
{
	return b->array && b->which.kind == EV_ERROR;
}

/* Declared extents that no index has taken; the ring or slots last. */
int barrier_open_extents(const MBar *b, int64_t extents[2])
{
	int n = 0;
	if (barrier_is_array(b))
		extents[n++] = b->array;
	if (!b->scalar && !b->indexed)
		extents[n++] = b->slots;
	return n;
}

static bool index_fits(Elab *E, const MBar *b, Loc loc, const char *what, Ev i, int64_t n)
{
	if (i.kind != EV_CONST || (i.i >= 0 && i.i < n))
		return true;
	elab_error(E, loc, E_INDEX, "%s %lld of '%s' is outside 0 to %lld", what, (long long)i.i, b->name, (long long)n - 1);
	diag_note(E->d, b->declared, "declared here");
	return false;
}

static bool apply_subscript(Elab *E, MBar *b, const Sub *s)
{
	bool element = barrier_is_array(b);
	Ev i = eval_i32(E, s->a, element ? "an index" : b->ring ? "a use number" : "a slot");
	if (i.kind == EV_ERROR)
		return false;
	*(element ? &b->which : &b->use) = i;
	b->indexed |= !element;
	if (element)
		return index_fits(E, b, s->loc, "element", i, b->array);
	return b->ring || index_fits(E, b, s->loc, "slot", i, b->slots);
}

Ev barrier_subscript(Elab *E, Ev base, const Expr *e)
{
	MBar *b = ARENA_NEW(E->a, MBar);
	*b = *base.bar;
	for (const Sub *s = e->subs; s; s = s->next) {
		int64_t extents[2];
		if (!barrier_open_extents(b, extents) || s->kind != SUB_INDEX) {
			const char *form = b->scalar ? (b->array ? "[i]" : "") : b->array ? "[i][j]" : "[j]";
			elab_error(E, e->loc, E_BARRIER, "%s '%s' is used as %s%s", b->kind, b->name, b->name, form);
			diag_note(E->d, b->declared, "declared here");
			return ev_error();
		}
		if (!apply_subscript(E, b, s))
			return ev_error();
	}
	base.bar = b;
	return base;
}

Value *barrier_value(Elab *E, Loc loc, const MBar *b)
{
	if (!b->array)
		return b->object;
	Value *args[] = { b->object, ev_value(E, loc, b->which) };
	return emit_op(E, OP_PICK, loc, b->object->type, 2, args)->result;
}
