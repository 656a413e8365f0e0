/* track_groups - needs: asynchronous products between wgmma_fence and
 * wgmma_commit.  Establishes: no op touches a fragment in flight, no group is
 * left in flight at the end of a team, a loop ends with what it began with in
 * flight; wgmma_wait has the fragments it finishes as operands. */
#include "compiler/analysis/flow.h"
#include "compiler/analysis/index.h"
#include "compiler/passes/pass.h"

#include <string.h>

/* The hardware orders groups by age.  A state lists them from the youngest:
 * groups[0] is the open one (products not committed yet).  Where paths meet,
 * groups of one age are joined, which is exact for wgmma_wait. */
enum { MAX_GROUPS = 16 };

typedef struct Box { /* elements of a fragment, per dimension of the object */
	Op *frag;
	int rank;
	int64_t lo[TIR_MAX_RANK], hi[TIR_MAX_RANK];
} Box;

typedef struct Entry { /* one fragment of a product in flight; immutable */
	const struct Entry *next;
	Box box;
	bool result; /* D, else A */
	const Op *mma;
} Entry;

typedef struct State {
	int n; /* committed groups */
	const Entry *groups[MAX_GROUPS + 1];
} State;

typedef struct Told { const struct Told *next; const Op *mma; bool result; } Told;

typedef struct Tracker {
	Tir *t;
	const Told *told; /* the products of reported touches */
	const Op *unsound; /* the loop that does not end as it begins */
	bool ok;
} Tracker;

/* ---- boxes ---- */

static Box box_whole(Op *frag)
{
	const Type *ty = &frag->result->type;
	Box b = { .frag = frag, .rank = ty->rank };
	for (int i = 0; i < ty->rank; i++)
		b.hi[i] = ty->shape[i];
	return b;
}

static Box box_of(const TileRef *r)
{
	Box b = box_whole(r->object);
	for (int i = 0; i < b.rank; i++) {
		int64_t start;
		if (r->dims[i] == 0 || !value_const_int(r->start[i], &start))
			continue;
		b.lo[i] = start;
		b.hi[i] = start + (r->dims[i] > 0 ? r->dims[i] : 1);
	}
	return b;
}

/* What an element op in a loop covers. */
static Box box_of_element(const Op *op)
{
	const Region *loop = op->parent;
	const Attr *extents = attr_get(loop->owner, AT_EXTENTS);
	Box b = box_whole(operand(op, ARG_OBJECT)->def);
	for (int i = 0; i < b.rank; i++) {
		LoopIndex x = loop_index(loop, access_index(op, i));
		if (!x.known)
			continue;
		b.lo[i] = x.offset;
		b.hi[i] = x.offset + (x.arg >= 0 ? extents->list[x.arg] : 1);
	}
	return b;
}

static bool box_overlap(const Box *a, const Box *b)
{
	if (a->frag != b->frag)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->lo[i] >= b->hi[i] || b->lo[i] >= a->hi[i])
			return false;
	return true;
}

static bool box_equal(const Box *a, const Box *b)
{
	if (a->frag != b->frag)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->lo[i] != b->lo[i] || a->hi[i] != b->hi[i])
			return false;
	return true;
}

/* ---- groups ---- */

static bool group_has(const Entry *group, const Entry *e)
{
	for (; group; group = group->next)
		if (group->result == e->result && box_equal(&group->box, &e->box))
			return true;
	return false;
}

static const Entry *group_add(Tracker *k, const Entry *group, const Entry *e)
{
	if (group_has(group, e))
		return group;
	Entry *copy = ARENA_NEW(k->t->arena, Entry);
	*copy = *e;
	copy->next = group;
	return copy;
}

static const Entry *group_join(Tracker *k, const Entry *a, const Entry *b)
{
	for (; b; b = b->next)
		a = group_add(k, a, b);
	return a;
}

static bool group_within(const Entry *a, const Entry *b)
{
	for (; a; a = a->next)
		if (!group_has(b, a))
			return false;
	return true;
}

static bool state_equal(const State *a, const State *b)
{
	if (a->n != b->n)
		return false;
	for (int i = 0; i <= a->n; i++)
		if (!group_within(a->groups[i], b->groups[i]) || !group_within(b->groups[i], a->groups[i]))
			return false;
	return true;
}

static bool state_empty(const State *s)
{
	return s->n == 0 && !s->groups[0];
}

/* For messages: a result of the oldest group that has one, else an operand. */
static const Entry *first_pending(const State *s)
{
	const Entry *operand = NULL;
	for (int i = s->n; i >= 0; i--)
		for (const Entry *e = s->groups[i]; e; e = e->next) {
			if (e->result)
				return e;
			operand = e;
		}
	return operand;
}

/* ---- errors ---- */

static unsigned line_of(const Tracker *k, Loc loc)
{
	unsigned line = 0, col = 0;
	if (loc.source)
		diags_linecol(k->t->diags, loc, &line, &col);
	return line;
}

static void note_product(Tracker *k, const Entry *e)
{
	diag_note(k->t->diags, e->mma->loc, "the product that %s '%s' is issued here", e->result ? "writes" : "reads", object_name(e->box.frag));
}

/* One missing wait is one error, however often its product's fragment is touched. */
static bool is_new(Tracker *k, const Entry *e)
{
	for (const Told *t = k->told; t; t = t->next)
		if (t->mma == e->mma && t->result == e->result)
			return false;
	Told *t = ARENA_NEW(k->t->arena, Told);
	*t = (Told){ k->told, e->mma, e->result };
	k->told = t;
	return true;
}

static void error_touch(Tracker *k, const Op *op, const Entry *e, bool write)
{
	k->ok = false;
	if (!is_new(k, e))
		return;
	tir_error(k->t, op, E_IN_FLIGHT, "'%s' is %s while the product of line %u that %s it is in flight",
		object_name(e->box.frag), write ? "written" : "read", line_of(k, e->mma->loc), e->result ? "writes" : "reads");
	note_product(k, e);
	diag_help(k->t->diags, "put a wgmma_wait between the two");
}

static void error_left(Tracker *k, Loc loc, const State *s, const char *where)
{
	const Entry *e = first_pending(s);
	k->ok = false;
	if (!e) {
		diag_error(k->t->diags, loc, E_IN_FLIGHT, "a group of products may be in flight %s", where);
		return;
	}
	diag_error(k->t->diags, loc, E_IN_FLIGHT, "the product of line %u that %s '%s' may be in flight %s", line_of(k, e->mma->loc),
		e->result ? "writes" : "reads", object_name(e->box.frag), where);
	note_product(k, e);
}

static Loc end_of(const Op *op, int region)
{
	const Region *r = op->regions[region];
	return r && r->last ? r->last->loc : op->loc;
}

/* ---- touching ---- */

/* A product may add to a result in flight: the hardware keeps their order. */
static void touch(Tracker *k, const State *s, const Op *op, const Box *box, bool write, bool product)
{
	for (int i = s->n; i >= 0; i--)
		for (const Entry *e = s->groups[i]; e; e = e->next) {
			if (!box_overlap(box, &e->box) || (!write && !e->result))
				continue;
			if (product && e->result && box_equal(box, &e->box))
				continue;
			error_touch(k, op, e, write);
			return;
		}
}

static void touch_tile(Tracker *k, const State *s, const Op *op, const TileRef *r, bool write)
{
	if (r->space != TY_FRAG)
		return;
	Box b = box_of(r);
	touch(k, s, op, &b, write, false);
}

static void touch_tiles(Tracker *k, const State *s, const Op *op)
{
	Effect e[MAX_EFFECTS];
	for (int i = 0, n = op_effects(op, e); i < n; i++)
		touch_tile(k, s, op, &e[i].tile, e[i].writes);
}

static void touch_element(Tracker *k, const State *s, const Op *op, bool write)
{
	if (operand(op, ARG_OBJECT)->type.kind != TY_FRAG)
		return;
	Box b = box_of_element(op);
	touch(k, s, op, &b, write, false);
}

static void touch_loop(Tracker *k, const State *s, const Op *loop)
{
	if (state_empty(s))
		return;
	for (const Op *op = loop->regions[0]->first; op; op = op->next) {
		if (op->code == OP_LOAD)
			touch_element(k, s, op, false);
		if (op->code == OP_STORE)
			touch_element(k, s, op, true);
	}
}

/* ---- products and waits ---- */

static void add_entry(Tracker *k, State *s, const Op *mma, const Box *box, bool result)
{
	Entry e = { .box = *box, .result = result, .mma = mma };
	s->groups[0] = group_add(k, s->groups[0], &e);
}

/* Of what outlasts it: all is touched before any of it is in flight. */
static void product_async(Tracker *k, State *s, const Op *op)
{
	Effect e[MAX_EFFECTS];
	Box box[MAX_EFFECTS];
	int n = op_effects(op, e);
	for (int i = 0; i < n; i++)
		if (e[i].tile.space == TY_FRAG) {
			box[i] = box_of(&e[i].tile);
			touch(k, s, op, &box[i], e[i].writes, e[i].writes);
		}
	for (int i = 0; i < n; i++)
		if (e[i].tile.space == TY_FRAG)
			add_entry(k, s, op, &box[i], e[i].writes);
}

/* fence, product, commit, wait 0 in one: it would finish what is in flight unseen. */
static void product_sync(Tracker *k, State *s, const Op *op)
{
	if (state_empty(s))
		return;
	error_left(k, op->loc, s, "at a synchronous product");
	diag_help(k->t->diags, "put wgmma_wait(0) before it, or make it 'async'");
	*s = (State){ 0 };
}

static void product(Tracker *k, State *s, const Op *op)
{
	if (!mma_is_wgmma(op))
		touch_tiles(k, s, op);
	else if (op_lasts(op) == UNTIL_PRODUCTS)
		product_async(k, s, op);
	else
		product_sync(k, s, op);
}

static void commit(Tracker *k, State *s, const Op *op)
{
	if (s->n == MAX_GROUPS) {
		error_left(k, op->loc, s, "with too many younger groups");
		*s = (State){ 0 };
		return;
	}
	memmove(&s->groups[1], &s->groups[0], sizeof s->groups[0] * (size_t)(s->n + 1));
	s->groups[0] = NULL;
	s->n++;
}

static bool still_pending(const State *s, const Box *box)
{
	for (int i = 0; i <= s->n; i++)
		for (const Entry *e = s->groups[i]; e; e = e->next)
			if (e->result && box_overlap(&e->box, box))
				return true;
	return false;
}

/* A fragment declared in an arm of an `if` cannot be named after it. */
static bool visible_at(const Op *frag, const Op *op)
{
	const Region *r = op->parent;
	while (r && r != frag->parent)
		r = r->owner->parent;
	return r != NULL;
}

static void finish(Tracker *k, const State *rest, Op *wait, const Entry *group)
{
	for (; group; group = group->next) {
		bool known = !group->result || still_pending(rest, &group->box) || !visible_at(group->box.frag, wait);
		for (int i = 0; i < wait->nargs; i++)
			known |= wait->args[i] == group->box.frag->result;
		if (!known)
			tir_add_operand(k->t, wait, group->box.frag->result);
	}
}

static void wait_groups(Tracker *k, State *s, Op *op)
{
	State before = *s;
	int n = (int)attr_int(op, AT_N, 0);
	while (s->n > n)
		s->groups[s->n--] = NULL;
	for (int i = before.n; i > s->n; i--)
		finish(k, s, op, before.groups[i]);
}

/* ---- flow ---- */

static void check_same_groups(Tracker *k, Op *loop, int body, const State *in, const State *out)
{
	if (state_equal(in, out))
		return;
	if (first_pending(out))
		error_left(k, end_of(loop, body), out, "at the end of a loop that does not begin with it");
	else
		error_left(k, loop->loc, in, "where a loop begins, not at its end");
	diag_help(k->t->diags, "wait for it in the loop, or issue the same products before the loop");
}

/* One round is enough: a sound loop ends as it began. */
static void round_of(Flow *f, Op *op, const void *begin, void *end)
{
	Tracker *k = f->user;
	check_same_groups(k, op, op->code == OP_WHILE ? 1 : 0, begin, end);
	if (!state_equal(begin, end))
		k->unsound = op;
}

static void check_end(Tracker *k, const Op *team, const State *out)
{
	if (state_empty(out))
		return;
	error_left(k, end_of(team, 0), out, team->code == OP_ROLE ? "at the end of its role" : "at the end of the kernel");
	diag_help(k->t->diags, "end with wgmma_wait(0)");
}

static bool enter(Flow *f, Op *op, void *state)
{
	(void)f;
	if (op->code == OP_ROLE)
		*(State *)state = (State){ 0 };
	return op->code != OP_PARALLEL;
}

static void leave(Flow *f, Op *op, const void *before, void *state)
{
	Tracker *k = f->user;
	State *s = state;
	if (op->code == OP_ROLE) {
		check_end(k, op, s);
		*s = *(const State *)before;
	} else if (k->unsound == op) { /* one error each */
		*s = (State){ 0 };
	}
}

static void pass_op(Flow *f, Op *op, void *state)
{
	Tracker *k = f->user;
	State *s = state;
	switch (op->code) {
	case OP_PARALLEL: touch_loop(k, s, op); break;
	case OP_MMA: product(k, s, op); break;
	case OP_LOAD: case OP_STORE: case OP_ATOMIC: break; /* fragments have elements in loops only */
	default:
		if (op_closes(op) == UNTIL_PRODUCTS)
			commit(k, s, op);
		else if (op_awaits(op) == UNTIL_PRODUCTS)
			wait_groups(k, s, op);
		else
			touch_tiles(k, s, op);
	}
}

static bool state_join(const Flow *f, void *into, const void *other)
{
	State *a = into;
	const State *b = other;
	a->n = a->n > b->n ? a->n : b->n;
	for (int i = 0; i <= a->n; i++)
		a->groups[i] = group_join(f->user, a->groups[i], b->groups[i]);
	return false; /* nobody asks, of one round */
}

bool pass_track_groups(Tir *t)
{
	Tracker k = { .t = t, .ok = true };
	Flow f = { .arena = t->arena, .user = &k, .size = sizeof(State), .one_round = true, .join = state_join, .pass = pass_op, .enter = enter,
		.leave = leave, .round = round_of };
	for (Op *kernel = t->first; kernel; kernel = kernel->next) {
		State s = { 0 };
		flow_run(&f, kernel->regions[0], &s);
		check_end(&k, kernel, &s);
	}
	return k.ok;
}
