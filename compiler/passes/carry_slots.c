/* carry_slots - needs: nothing.  Establishes: where a ring's length is no power of two, the slot and the phase of a use number are carried
 * along with the variables it is made of, instead of divided for at each use: `mod` {use}, `wait`, `arrive` and loads take them.
 * Waits for use numbers that are never negative say so ({nonneg}) or stand under no condition; of other uses that may be negative
 * `check_use` is left.
 *
 * A use number is a sum of variables, loop indices and constants.  Each variable gets companions for its slot and parity, set where it is
 * set: slot(a + b) = slot(a) + slot(b), less n where that reaches n, and then the parity turns. */
#include "compiler/analysis/index.h"
#include "compiler/passes/pass.h"

enum { MAX_TERMS = 4 }; /* of a use number; longer sums are divided for */

/* Slot and parity of a value modulo ring length n, as values that stand behind its definition. */
typedef struct Place {
	struct Place *next; /* of the same value */
	int64_t n;
	Value *slot, *parity;
} Place;

/* What carries a variable or a loop index along. */
typedef struct Carrier {
	struct Carrier *next;
	int64_t n;
	Value *slot, *parity; /* variables */
} Carrier;

typedef struct Sets { struct Sets *next; Op *set; } Sets;

typedef struct Facts { /* of a value */
	Sets *sets;          /* of a variable */
	bool negative;       /* a variable that may be */
	Carrier *carriers;
	Place *places;
} Facts;

typedef struct Sites { struct Sites *next; Op *op; } Sites;

typedef struct Carry {
	Tir *t;
	Facts *facts; /* by value */
	unsigned nfacts;
	Sites *sites; /* what has a use number, and its last element */
	Sites **end;
} Carry;

static Facts *facts_of(Carry *c, const Value *v) { return v->id < c->nfacts ? &c->facts[v->id] : NULL; }

/* ---- what is where ---- */

static OperandId use_operand(const Op *op)
{
	switch (op->code) {
	case OP_WAIT: case OP_ARRIVE: case OP_TMA_LOAD: case OP_BULK_LOAD: return attr_int(op, AT_SLOT, 0) ? ARG_NONE : ARG_USE;
	case OP_MOD: return attr_int(op, AT_USE, 0) ? ARG_A : ARG_NONE;
	default: return ARG_NONE;
	}
}

static int64_t ring_of(const Op *op)
{
	int64_t n = 0;
	if (op->code == OP_MOD)
		return value_const_int(operand(op, ARG_B), &n) ? n : 0;
	return attr_int(barrier_of(operand(op, ARG_BARRIER)), AT_RING, 0);
}

static bool collect(Op *op, void *user)
{
	Carry *c = user;
	if (op->code == OP_SET) {
		Sets *s = ARENA_NEW(c->t->arena, Sets);
		Facts *f = facts_of(c, operand(op, ARG_VAR));
		*s = (Sets){ f->sets, op };
		f->sets = s;
	}
	if (use_operand(op) != ARG_NONE && ring_of(op) > 0) {
		Sites *s = ARENA_NEW(c->t->arena, Sites);
		*s = (Sites){ NULL, op };
		*c->end = s;
		c->end = &s->next;
	}
	return true;
}

/* ---- signs ---- */

/* Whether v may be negative; variables are taken to be as their facts say. */
static bool below_zero(Carry *c, const Value *v, int *left)
{
	int64_t n;
	if (value_const_int(v, &n))
		return n < 0;
	if (v->region && v->region->owner->code == OP_FOR)
		return below_zero(c, operand(v->region->owner, ARG_LO), left);
	const Op *d = v->def;
	if (!d || v->type.dtype != DT_I32 || (*left)-- <= 0)
		return true;
	switch (d->code) {
	case OP_GET: return facts_of(c, operand(d, ARG_VAR))->negative;
	case OP_BLOCK_IDX: case OP_GRID_DIM: case OP_THREAD: case OP_WARP: case OP_LANE: case OP_DIM: return false;
	case OP_ADD: case OP_MUL: case OP_DIV: case OP_MIN: return below_zero(c, operand(d, ARG_A), left) || below_zero(c, operand(d, ARG_B), left);
	case OP_MAX: return below_zero(c, operand(d, ARG_A), left) && below_zero(c, operand(d, ARG_B), left);
	case OP_AND: return below_zero(c, operand(d, ARG_A), left) && below_zero(c, operand(d, ARG_B), left);
	case OP_MOD: case OP_SHR: return below_zero(c, operand(d, ARG_A), left);
	case OP_SELECT: return below_zero(c, operand(d, ARG_A), left) || below_zero(c, operand(d, ARG_B), left);
	default: return true;
	}
}

static bool may_be_negative(Carry *c, const Value *v) { return below_zero(c, v, &(int){ MOST_VALUES }); }

static bool spread_negative(Op *op, void *user)
{
	Carry *c = ((void **)user)[0];
	bool *changed = ((void **)user)[1];
	if (op->code == OP_SET) {
		Facts *f = facts_of(c, operand(op, ARG_VAR));
		if (!f->negative && may_be_negative(c, operand(op, ARG_VALUE)))
			f->negative = *changed = true;
	}
	return true;
}

/* A variable is never negative if no set makes it so from variables that never are. */
static void find_negative(Carry *c, Op *kernel)
{
	bool changed = true;
	while (changed) {
		changed = false;
		tir_walk(kernel->regions[0], spread_negative, (void *[]){ c, &changed });
	}
}

/* ---- building ---- */

static Value *emit(Op **at, Op *op)
{
	tir_insert_after(*at, op);
	*at = op;
	return op->result;
}

static Value *number(Carry *c, Op **at, int64_t n)
{
	Op *op = tir_op(c->t, OP_CONST, (*at)->loc, type_scalar(DT_I32), 0, NULL);
	attr_set_int(c->t, op, AT_VALUE, n);
	return emit(at, op);
}

static Value *binary(Carry *c, Op **at, Opcode code, Value *a, Value *b)
{
	return emit(at, tir_op(c->t, code, (*at)->loc, type_scalar(DT_I32), 2, (Value *[]){ a, b }));
}

static Value *compare(Carry *c, Op **at, const char *pred, Value *a, Value *b)
{
	Op *op = tir_op(c->t, OP_CMP, (*at)->loc, type_scalar(DT_BOOL), 2, (Value *[]){ a, b });
	attr_set_text(c->t, op, AT_PRED, pred);
	return emit(at, op);
}

static Value *choose(Carry *c, Op **at, Value *cond, Value *a, Value *b)
{
	return emit(at, tir_op(c->t, OP_SELECT, (*at)->loc, type_scalar(DT_I32), 3, (Value *[]){ cond, a, b }));
}

static int64_t floor_div(int64_t a, int64_t n) { return a / n - (a % n < 0); }

/* slot and parity, slot below 2 n, brought below n. */
static Place wrapped(Carry *c, Op **at, int64_t n, Value *slot, Value *parity)
{
	Value *length = number(c, at, n), *over = compare(c, at, "ge", slot, length);
	Value *turned = binary(c, at, OP_XOR, parity, number(c, at, 1));
	return (Place){ NULL, n, choose(c, at, over, binary(c, at, OP_SUB, slot, length), slot), choose(c, at, over, turned, parity) };
}

static Place add_constant(Carry *c, Op **at, Place a, int64_t by)
{
	int64_t slots = by - floor_div(by, a.n) * a.n;
	if (floor_div(by, a.n) & 1)
		a.parity = binary(c, at, OP_XOR, a.parity, number(c, at, 1));
	return slots ? wrapped(c, at, a.n, binary(c, at, OP_ADD, a.slot, number(c, at, slots)), a.parity) : a;
}

static Place add_places(Carry *c, Op **at, Place a, Place b)
{
	return wrapped(c, at, a.n, binary(c, at, OP_ADD, a.slot, b.slot), binary(c, at, OP_XOR, a.parity, b.parity));
}

/* By division, rounding down. */
static Place divided(Carry *c, Op **at, int64_t n, Value *v)
{
	Value *length = number(c, at, n), *zero = number(c, at, 0), *one = number(c, at, 1);
	Value *turn = binary(c, at, OP_DIV, v, length), *slot = binary(c, at, OP_SUB, v, binary(c, at, OP_MUL, turn, length));
	if (may_be_negative(c, v)) {
		Value *below = compare(c, at, "lt", slot, zero);
		slot = choose(c, at, below, binary(c, at, OP_ADD, slot, length), slot);
		turn = choose(c, at, below, binary(c, at, OP_SUB, turn, one), turn);
	}
	return (Place){ NULL, n, slot, binary(c, at, OP_AND, turn, one) };
}

/* ---- sums ---- */

static bool is_loop_index(const Value *v)
{
	int64_t step;
	return v->region && v->region->owner->code == OP_FOR && value_const_int(operand(v->region->owner, ARG_STEP), &step);
}

/* Terms of v that are not constant, if it is a sum that can be carried; else a large number. */
static int terms_of(const Value *v, int *left)
{
	int64_t n;
	if (value_const_int(v, &n))
		return 0;
	if (v->type.dtype != DT_I32 || (*left)-- <= 0)
		return MAX_TERMS + 1;
	if (is_loop_index(v))
		return 1;
	const Op *d = v->def;
	if (!d)
		return MAX_TERMS + 1;
	if (d->code == OP_GET)
		return operand(d, ARG_VAR)->def && operand(d, ARG_VAR)->def->code == OP_VAR ? 1 : MAX_TERMS + 1;
	if (d->code == OP_ADD) {
		int a = terms_of(operand(d, ARG_A), left);
		return a > MAX_TERMS ? a : a + terms_of(operand(d, ARG_B), left);
	}
	if (d->code == OP_SUB && value_const_int(operand(d, ARG_B), &n))
		return terms_of(operand(d, ARG_A), left);
	return MAX_TERMS + 1;
}

static bool carried(const Value *v)
{
	int n = terms_of(v, &(int){ MOST_VALUES });
	return n >= 1 && n <= MAX_TERMS;
}

static Place place_of(Carry *c, Value *v, int64_t n);

static Value *new_variable(Carry *c, Op *behind, const char *name)
{
	Op *var = tir_op(c->t, OP_VAR, behind->loc, (Type){ .kind = TY_VAR, .dtype = DT_I32 }, 0, NULL);
	attr_set_text(c->t, var, AT_NAME, name);
	tir_insert_after(behind, var);
	return var->result;
}

static void set_variable(Carry *c, Op **at, Value *var, Value *v)
{
	emit(at, tir_op(c->t, OP_SET, (*at)->loc, type_none(), 2, (Value *[]){ var, v }));
}

static Value *get_variable(Carry *c, Op **at, Value *var)
{
	return emit(at, tir_op(c->t, OP_GET, (*at)->loc, type_scalar(DT_I32), 1, (Value *[]){ var }));
}

static Carrier *find_carrier(Facts *f, int64_t n)
{
	for (Carrier *k = f->carriers; k; k = k->next)
		if (k->n == n)
			return k;
	return NULL;
}

static Carrier *new_carrier(Carry *c, Facts *f, Op *behind, int64_t n)
{
	Carrier *k = ARENA_NEW(c->t->arena, Carrier);
	*k = (Carrier){ f->carriers, n, new_variable(c, behind, "slot"), new_variable(c, behind, "phase") };
	f->carriers = k;
	return k;
}

/* Of a variable: set wherever it is. */
static Carrier *variable_carrier(Carry *c, Value *var, int64_t n)
{
	Facts *f = facts_of(c, var);
	Carrier *k = find_carrier(f, n);
	if (k)
		return k;
	k = new_carrier(c, f, var->def, n);
	for (Sets *s = f->sets; s; s = s->next) {
		Value *v = operand(s->set, ARG_VALUE);
		int64_t known;
		Op *at = s->set;
		Place p;
		if (value_const_int(v, &known))
			p = (Place){ NULL, n, number(c, &at, known - floor_div(known, n) * n), number(c, &at, floor_div(known, n) & 1) };
		else
			p = carried(v) ? place_of(c, v, n) : divided(c, &at, n, v);
		set_variable(c, &at, k->slot, p.slot);
		set_variable(c, &at, k->parity, p.parity);
	}
	return k;
}

/* Of a loop's index: set before the loop and at the end of its body. */
static Carrier *index_carrier(Carry *c, Value *index, int64_t n)
{
	Facts *f = facts_of(c, index);
	Carrier *k = find_carrier(f, n);
	if (k)
		return k;
	Op *loop = index->region->owner, *at = tir_op(c->t, OP_CONST, loop->loc, type_scalar(DT_I32), 0, NULL);
	attr_set_int(c->t, at, AT_VALUE, 0);
	tir_insert_before(loop, at);
	k = new_carrier(c, f, at, n);
	at = loop->prev;
	Place p = divided(c, &at, n, operand(loop, ARG_LO));
	set_variable(c, &at, k->slot, p.slot);
	set_variable(c, &at, k->parity, p.parity);
	int64_t step = 1;
	value_const_int(operand(loop, ARG_STEP), &step);
	at = index->region->last;
	Place now = { NULL, n, get_variable(c, &at, k->slot), get_variable(c, &at, k->parity) };
	Place next = add_constant(c, &at, now, step);
	set_variable(c, &at, k->slot, next.slot);
	set_variable(c, &at, k->parity, next.parity);
	return k;
}

static Place index_place(Carry *c, Value *index, int64_t n)
{
	Carrier *k = index_carrier(c, index, n);
	Op *first = index->region->first, *slot = tir_op(c->t, OP_GET, first->loc, type_scalar(DT_I32), 1, (Value *[]){ k->slot });
	Op *parity = tir_op(c->t, OP_GET, first->loc, type_scalar(DT_I32), 1, (Value *[]){ k->parity });
	tir_insert_before(first, slot);
	tir_insert_before(first, parity);
	return (Place){ NULL, n, slot->result, parity->result };
}

static Place sum_place(Carry *c, Value *v, int64_t n)
{
	Op *d = v->def, *at = d;
	int64_t known;
	if (d->code == OP_GET) {
		Carrier *k = variable_carrier(c, operand(d, ARG_VAR), n);
		return (Place){ NULL, n, get_variable(c, &at, k->slot), get_variable(c, &at, k->parity) };
	}
	if (value_const_int(operand(d, ARG_B), &known))
		return add_constant(c, &at, place_of(c, operand(d, ARG_A), n), d->code == OP_SUB ? -known : known);
	if (value_const_int(operand(d, ARG_A), &known))
		return add_constant(c, &at, place_of(c, operand(d, ARG_B), n), known);
	Place a = place_of(c, operand(d, ARG_A), n), b = place_of(c, operand(d, ARG_B), n);
	return add_places(c, &at, a, b);
}

/* Of a sum that can be carried; made once, behind its definition. */
static Place place_of(Carry *c, Value *v, int64_t n)
{
	Facts *f = facts_of(c, v);
	for (Place *p = f->places; p; p = p->next)
		if (p->n == n)
			return *p;
	Place *p = ARENA_NEW(c->t->arena, Place);
	*p = v->def ? sum_place(c, v, n) : index_place(c, v, n);
	p->next = f->places;
	f->places = p;
	return *p;
}

/* ---- uses ---- */

static void rewrite_wait(Carry *c, Op *wait, Place p)
{
	Op *parity = tir_op(c->t, OP_WAIT_PARITY, wait->loc, type_none(), 3, (Value *[]){ operand(wait, ARG_BARRIER), p.slot, p.parity });
	Op *at = wait;
	if (may_be_negative(c, operand(wait, ARG_USE))) {
		Value *used = compare(c, &at, "ge", operand(wait, ARG_USE), number(c, &at, 0));
		Op *when = tir_op(c->t, OP_IF, wait->loc, type_none(), 1, &used);
		tir_append(tir_region(c->t, when, 0), parity);
		tir_region(c->t, when, 1);
		emit(&at, when);
	} else {
		emit(&at, parity);
	}
	tir_remove(wait);
}

static void replace_everywhere(Region *r, Value *old, Value *new)
{
	for (Op *op = r->first; op; op = op->next) {
		for (int i = 0; i < op->nargs; i++)
			if (op->args[i] == old)
				op->args[i] = new;
		for (int i = 0; i < 2; i++)
			if (op->regions[i])
				replace_everywhere(op->regions[i], old, new);
	}
}

static void rewrite(Carry *c, Op *op)
{
	OperandId at = use_operand(op);
	int64_t n = ring_of(op);
	if (op->code == OP_WAIT && !may_be_negative(c, operand(op, at)))
		attr_set_int(c->t, op, AT_NONNEG, 1);
	if ((n & (n - 1)) == 0 || !carried(operand(op, at)))
		return;
	Place p = place_of(c, operand(op, at), n);
	if (op->code == OP_WAIT) {
		rewrite_wait(c, op, p);
	} else if (op->code == OP_MOD) {
		replace_everywhere(op->parent, op->result, p.slot); /* a value is visible in its region alone */
		tir_remove(op);
	} else {
		if (may_be_negative(c, operand(op, at)))
			tir_insert_before(op, tir_op(c->t, OP_CHECK_USE, op->loc, type_none(), 2, (Value *[]){ operand(op, ARG_BARRIER), operand(op, at) }));
		set_operand(op, at, p.slot);
		attr_set_int(c->t, op, AT_SLOT, 1);
	}
}

static void forget(unsigned id, void *user)
{
	Carry *c = user;
	if (id < c->nfacts)
		c->facts[id] = (Facts){ 0 };
}

bool pass_carry_slots(Tir *t)
{
	unsigned n = t->next_id;
	Facts *facts = ARENA_ARRAY(t->arena, Facts, n + 1);
	for (Op *kernel = t->first; kernel; kernel = kernel->next) {
		Carry c = { .t = t, .facts = facts, .nfacts = n };
		c.end = &c.sites;
		each_id(kernel->regions[0], forget, &c);
		tir_walk(kernel->regions[0], collect, &c);
		find_negative(&c, kernel);
		for (Sites *s = c.sites; s; s = s->next)
			rewrite(&c, s->op);
	}
	return true;
}
