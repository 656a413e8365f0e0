/* jumps.c - break and continue.  Where the jump is certain, what follows is left out; else it sets a flag, and what follows
 * it in the body of the loop is under an `if` on that flag: TIR has no other control flow. */
#include "compiler/elaborate/elab.h"

/* ---- flags ---- */

static Spot place_here(const Elab *E)
{
	return (Spot){ E->at.region, E->at.region->last };
}

static void insert_at(Spot *at, Op *op)
{
	if (at->op)
		tir_insert_after(at->op, op);
	else if (at->region->first)
		tir_insert_before(at->region->first, op);
	else
		tir_append(at->region, op);
	at->op = op;
}

/* A variable that is false there. */
static Value *new_flag(Elab *E, Loc loc, Spot at, const char *name)
{
	Op *var = tir_op(E->t, OP_VAR, loc, (Type){ .kind = TY_VAR, .dtype = DT_BOOL }, 0, NULL);
	Op *no = tir_op(E->t, OP_CONST, loc, type_scalar(DT_BOOL), 0, NULL);
	attr_set_text(E->t, var, AT_NAME, name);
	var->result->name = name;
	attr_set_int(E->t, no, AT_VALUE, 0);
	Op *set = tir_op(E->t, OP_SET, loc, type_none(), 2, (Value *[]){ var->result, no->result });
	insert_at(&at, var);
	insert_at(&at, no);
	insert_at(&at, set);
	return var->result;
}

static void raise_flag(Elab *E, Loc loc, Value *flag)
{
	emit_op(E, OP_SET, loc, type_none(), 2, (Value *[]){ flag, ev_value(E, loc, ev_bool(true)) });
}

Value *loop_left_flag(Elab *E)
{
	Loop *l = E->at.loop;
	if (!l->left)
		l->left = new_flag(E, l->jump, l->before, "break");
	return l->left;
}

/* Raised by every jump of an iteration: that of break does where there are no others. */
static Value *iteration_flag(Elab *E)
{
	Loop *l = E->at.loop;
	if (!(l->jumps & JUMP_CONTINUE))
		return loop_left_flag(E);
	if (!l->skip)
		l->skip = new_flag(E, l->jump, l->body, "continue");
	return l->skip;
}

/* ---- loops ---- */

void loop_enter(Elab *E, Loop *l, const Stmt *body)
{
	*l = (Loop){ .outer = E->at.loop, .jumps = jumps_of(body), .parallel = E->at.parallel, .mask = E->at.mask, .jump = body->loc };
	l->before = place_here(E);
	E->at.loop = l;
}

void loop_leave(Elab *E)
{
	E->at.loop = E->at.loop->outer;
}

void loop_body_begins(Elab *E)
{
	Loop *l = E->at.loop;
	l->body = place_here(E);
	l->level = E->at.region;
	l->skip = NULL;
	l->jumped = l->maybe_jumped = l->maybe_continued = false;
}

bool jump_arm_enter(Elab *E)
{
	bool maybe = E->at.loop && E->at.loop->maybe_jumped;
	if (E->at.loop)
		E->at.loop->maybe_jumped = false;
	return maybe;
}

void jump_arm_leave(Elab *E, bool maybe)
{
	Loop *l = E->at.loop;
	if (!l)
		return;
	l->maybe_jumped |= l->jumped || maybe;
	l->jumped = false;
}

void unless_jumped(Elab *E, Loc loc, Value *flag, LoopPart *run, const Stmt *part)
{
	Loop *l = E->at.loop;
	Value *jumped = emit(E, OP_GET, loc, DT_BOOL, 1, &flag);
	Value *on = emit(E, OP_NOT, loc, DT_BOOL, 1, &jumped);
	Op *op = emit_op(E, OP_IF, loc, type_none(), 1, &on);
	Region *r = tir_region(E->t, op, 0), *level = l->level;
	tir_region(E->t, op, 1);
	Place saved = place_enter(E, r);
	if (level == saved.region)
		l->level = r;
	l->maybe_jumped = false;
	E->at.depth++;
	run(E, part);
	l->level = level;
	place_leave(E, saved);
	l->maybe_jumped = true;
	l->jumped = false;
}

bool jump_ends_list(Elab *E, const Stmt *rest)
{
	Loop *l = E->at.loop;
	if (!l || l->jumped || !l->maybe_jumped || l->parallel != E->at.parallel)
		return l && l->jumped;
	if (rest)
		unless_jumped(E, l->jump, iteration_flag(E), exec_list, rest);
	return true;
}

/* ---- the jump ---- */

static bool jump_allowed(Elab *E, const Stmt *s)
{
	const Loop *l = E->at.loop;
	const char *word = s->kind == ST_BREAK ? "break" : "continue";
	if (!l)
		elab_error(E, s->loc, E_SYNTAX, "'%s' stands in no loop%s", word, E->at.frame ? " of its function" : "");
	else if (l->parallel != E->at.parallel)
		elab_error(E, s->loc, E_UNSUPPORTED, "'%s' in an element loop: its elements are independent", word);
	else if (l->mask != E->at.mask)
		elab_error(E, s->loc, E_UNSUPPORTED, "'%s' under a run-time condition in an element loop", word);
	else
		return true;
	if (l)
		diag_help(E->d, "put what is not to be done under an 'if'");
	return false;
}

void exec_jump(Elab *E, const Stmt *s)
{
	Loop *l = E->at.loop;
	if (!jump_allowed(E, s))
		return;
	bool certain = E->at.region == l->level, out = s->kind == ST_BREAK;
	l->jump = s->loc;
	l->jumped = true;
	l->maybe_continued |= !out;
	if (certain && out && !l->maybe_continued)
		l->ended = true;
	if (E->at.region != l->body.region) {
		raise_flag(E, s->loc, iteration_flag(E));
		if (out && (l->jumps & JUMP_CONTINUE))
			raise_flag(E, s->loc, loop_left_flag(E));
	} else if (out && l->left) {
		raise_flag(E, s->loc, l->left);
	}
}
