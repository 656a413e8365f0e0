/* flow.c - states along the structure of a program: it has no jumps. */
#include "compiler/analysis/flow.h"

#include <stddef.h>
#include <string.h>

static void assign(const Flow *f, void *to, const void *from)
{
	if (f->copy)
		f->copy(f, to, from);
	else
		memcpy(to, from, f->size);
}

static void *copy_of(const Flow *f, const void *state)
{
	void *s = arena_alloc(f->arena, f->size, _Alignof(max_align_t));
	memset(s, 0, f->size);
	assign(f, s, state);
	return s;
}

/* ---- loops ---- */

/* One round from `head` on, to `end`: where the next one begins.  `exit`: the state outside of the loop where that is neither of the two,
 * but between the regions of a `while`, else NULL. */
static void *one_round(Flow *f, Op *op, const void *head, void **exit)
{
	void *end = copy_of(f, head);
	*exit = NULL;
	bool body_first = op->code == OP_WHILE && f->backward && f->one_round; /* which the condition sees, but no next round */
	if (body_first) {
		flow_run(f, op->regions[1], end);
		f->join(f, end, head);
	}
	flow_run(f, op->regions[0], end);
	if (op->code == OP_WHILE && !body_first) {
		*exit = copy_of(f, end);
		flow_run(f, op->regions[1], end);
	}
	if (f->round)
		f->round(f, op, head, end);
	return end;
}

static void loop(Flow *f, Op *op, void *state)
{
	bool outer = f->quiet;
	void *end = NULL, *exit = NULL;
	f->quiet = !f->one_round;
	for (bool grown = !f->one_round; grown;) {
		end = one_round(f, op, state, &exit);
		grown = f->join(f, state, end);
	}
	f->quiet = outer;
	if (!end || !(outer || f->pure))
		end = one_round(f, op, state, &exit);
	if (exit) {
		assign(f, state, exit);
		return;
	}
	f->join(f, end, state);
	assign(f, state, end);
}

/* ---- the others ---- */

static void arms(Flow *f, Op *op, void *state)
{
	void *other = copy_of(f, state);
	int first = f->backward && op->regions[1];
	void *of[] = { state, other };
	for (int i = 0; i < 2; i++)
		if (op->regions[i ^ first])
			flow_run(f, op->regions[i ^ first], of[i ^ first]);
	f->join(f, state, other);
}

static void enter(Flow *f, Op *op, void *state)
{
	const void *before = f->leave ? copy_of(f, state) : NULL;
	if (f->enter && !f->enter(f, op, state)) {
		f->pass(f, op, state);
		return;
	}
	bool by_some = op->code == OP_ROLE || op->code == OP_ONCE;
	void *skipped = by_some ? copy_of(f, state) : NULL;
	switch (op->code) {
	case OP_FOR: case OP_WHILE: loop(f, op, state); break;
	case OP_IF: arms(f, op, state); break;
	default: flow_run(f, op->regions[0], state); break;
	}
	if (f->leave)
		f->leave(f, op, before, state);
	if (by_some)
		f->join(f, state, skipped);
}

void flow_run(Flow *f, Region *r, void *state)
{
	for (Op *op = f->backward ? r->last : r->first, *next; op; op = next) {
		next = f->backward ? op->prev : op->next; /* what is inserted beside op is not passed */
		if (op->regions[0])
			enter(f, op, state);
		else
			f->pass(f, op, state);
	}
}
