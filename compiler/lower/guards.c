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

Either either_begin(Lower *L, V cond)
{
	LLVMBasicBlockRef then = new_block(L, "then");
	Either e = { new_block(L, "else"), new_block(L, "done") };
	LLVMBuildCondBr(L->b, cond, then, e.other);
	LLVMPositionBuilderAtEnd(L->b, then);
	return e;
}

void either_else(Lower *L, Either e)
{
	LLVMBuildBr(L->b, e.done);
	LLVMPositionBuilderAtEnd(L->b, e.other);
}

void either_end(Lower *L, Either e)
{
	LLVMBuildBr(L->b, e.done);
	LLVMPositionBuilderAtEnd(L->b, e.done);
}
