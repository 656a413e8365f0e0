/* guards.c - code that runs under a condition; what was checked before it holds in it. */
#include "compiler/lower/context.h"

Guard guard_begin(Lower *L, V cond)
{
	LLVMBasicBlockRef then = new_block(L, "then");
	Guard g = { LLVMGetInsertBlock(L->b), new_block(L, "after") };
	LLVMBuildCondBr(L->b, cond, then, g.after);
	LLVMPositionBuilderAtEnd(L->b, then);
	checks_guarded(L, g.before);
	return g;
}

void guard_end(Lower *L, Guard g)
{
	LLVMBuildBr(L->b, g.after);
	LLVMPositionBuilderAtEnd(L->b, g.after);
	checks_unguarded(L, g.before, g.after);
}
