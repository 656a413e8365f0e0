/* place.c - where the code at hand stands, and what is appended there. */
#include "compiler/elaborate/elab.h"

Place place_enter(Elab *E, Region *r)
{
	Place before = E->at;
	E->at.region = r;
	return before;
}

void place_leave(Elab *E, Place before)
{
	int nconsts = E->at.region == before.region ? E->at.nconsts : before.nconsts;
	E->at = before;
	E->at.nconsts = nconsts;
}

Op *emit_op(Elab *E, Opcode code, Loc loc, Type type, int nargs, Value *const *args)
{
	Op *op = tir_op(E->t, code, loc, type, nargs, args);
	tir_append(E->at.region, op);
	return op;
}

Value *emit(Elab *E, Opcode code, Loc loc, DType result, int nargs, Value *const *args)
{
	return emit_op(E, code, loc, type_scalar(result), nargs, args)->result;
}

bool require_team_level(Elab *E, Loc loc, const char *what)
{
	if (!E->at.parallel)
		return true;
	elab_error(E, loc, E_SPACE, "'%s' is for the whole team and cannot stand in an element loop", what);
	return false;
}

bool at_top(Elab *E, Loc loc, const char *what)
{
	if (E->at.region == E->kernel->regions[0] && !E->at.depth)
		return true;
	elab_error(E, loc, E_SPACE, "%s is declared at the top of a kernel's body", what);
	return false;
}
