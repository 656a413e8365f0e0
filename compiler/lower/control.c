/* control.c - regions, loops, conditions, roles; dispatch of every op to its lowering. */
#include <llvm-c/DebugInfo.h>

#include "compiler/analysis/liveness.h"
#include "compiler/lower/context.h"

#include <stdio.h>
#include <string.h>

/* A thread that is elected in it is known to the regions in it. */
static void lower_region(Lower *L, const Region *r)
{
	V outer = L->team.elected;
	lower_ops(L, r->first);
	L->team.elected = outer;
}

/* Rounds elect anew: a register less from round to round. */
static void lower_round(Lower *L, const Region *r)
{
	V outer = L->team.elected;
	L->team.elected = NULL;
	lower_ops(L, r->first);
	L->team.elected = outer;
}

static V as_bool(Lower *L, const Value *v) { return value_of(L, v); }

/* Loops stay rolled: ptxas unrolls small ones otherwise, wait loops included. */
static void keep_rolled(Lower *L, V branch)
{
	const char *text = "llvm.loop.unroll.disable";
	LLVMMetadataRef name = LLVMMDStringInContext2(L->cx, text, strlen(text));
	LLVMMetadataRef flag = LLVMMDNodeInContext2(L->cx, &name, 1);
	LLVMMetadataRef self = LLVMTemporaryMDNode(L->cx, NULL, 0);
	LLVMMetadataRef node = LLVMMDNodeInContext2(L->cx, (LLVMMetadataRef[]){ self, flag }, 2);
	LLVMMetadataReplaceAllUsesWith(self, node);
	unsigned kind = LLVMGetMDKindIDInContext(L->cx, "llvm.loop", 9);
	LLVMSetMetadata(branch, kind, LLVMMetadataAsValue(L->cx, node));
}

static void poll(Lower *L, const Op *loop)
{
	if (!L->ops->poll)
		return;
	debug_location(L, loop->loc);
	L->ops->poll(L);
}

static void lower_for(Lower *L, const Op *op)
{
	Value *arg = op->regions[0]->args[0];
	V lo = value_of(L, operand(op, ARG_LO)), hi = value_of(L, operand(op, ARG_HI)), step = value_of(L, operand(op, ARG_STEP));
	LLVMBasicBlockRef body = new_block(L, "for"), done = new_block(L, "for.end"), from = LLVMGetInsertBlock(L->b);
	LLVMBuildCondBr(L->b, LLVMBuildICmp(L->b, LLVMIntSLT, lo, hi, ""), body, done);
	LLVMPositionBuilderAtEnd(L->b, body);
	V i = LLVMBuildPhi(L->b, LLVMTypeOf(lo), "i");
	L->value[arg->id] = i;
	LLVMMetadataRef outer = debug_enter(L, op->loc);
	debug_value(L, arg, i, op->loc);
	lower_round(L, op->regions[0]);
	debug_leave(L, outer);
	poll(L, op);
	V next = LLVMBuildNSWAdd(L->b, i, step, "");
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(L->b);
	keep_rolled(L, LLVMBuildCondBr(L->b, LLVMBuildICmp(L->b, LLVMIntSLT, next, hi, ""), body, done));
	LLVMAddIncoming(i, (V[]){ lo, next }, (LLVMBasicBlockRef[]){ from, latch }, 2);
	LLVMPositionBuilderAtEnd(L->b, done);
}

static void lower_while(Lower *L, const Op *op)
{
	LLVMBasicBlockRef head = new_block(L, "while"), body = new_block(L, "while.body"), done = new_block(L, "while.end");
	LLVMBuildBr(L->b, head);
	LLVMPositionBuilderAtEnd(L->b, head);
	lower_round(L, op->regions[0]);
	V c = as_bool(L, operand(op->regions[0]->last, ARG_CONDITION));
	LLVMBuildCondBr(L->b, c, body, done);
	LLVMPositionBuilderAtEnd(L->b, body);
	lower_round(L, op->regions[1]);
	poll(L, op);
	keep_rolled(L, LLVMBuildBr(L->b, head));
	LLVMPositionBuilderAtEnd(L->b, done);
}

static void lower_if(Lower *L, const Op *op)
{
	bool other = op->regions[1] && op->regions[1]->first;
	LLVMBasicBlockRef then = new_block(L, "if"), done = new_block(L, "if.end"), els = other ? new_block(L, "else") : done;
	LLVMBuildCondBr(L->b, as_bool(L, operand(op, ARG_CONDITION)), then, els);
	LLVMPositionBuilderAtEnd(L->b, then);
	lower_region(L, op->regions[0]);
	LLVMBuildBr(L->b, done);
	if (other) {
		LLVMPositionBuilderAtEnd(L->b, els);
		lower_region(L, op->regions[1]);
		LLVMBuildBr(L->b, done);
	}
	LLVMPositionBuilderAtEnd(L->b, done);
}

static bool takes_long(Op *op, void *found)
{
	*(bool *)found |= op->code == OP_WAIT || op->code == OP_WAIT_PARITY || op->code == OP_FOR || op->code == OP_WHILE;
	return true;
}

static void lower_once(Lower *L, const Op *op)
{
	Guard g = guard_begin(L, issuing_thread(L, op));
	Team saved = L->team;
	lower_region(L, op->regions[0]);
	L->team = saved;
	tir_walk(op->regions[0], takes_long, &L->team.apart);
	guard_end(L, g);
}

/* ---- roles ---- */

static bool power_of_two(int x) { return (x & (x - 1)) == 0; }

static void lower_role(Lower *L, const Op *op)
{
	Team saved = L->team;
	int first = (int)attr_int(op, AT_FIRST_WARP, 0), warps = (int)attr_int(op, AT_WARPS, 1), n = (int)attr_int(op, AT_INSTANCES, 1);
	Team *t = &L->team;
	*t = (Team){ .op = op, .first_warp = first, .warps = warps, .lane = L->cta_lane };
	V in_role = LLVMBuildSub(L->b, L->cta_warp, const_i32(L, first), "");
	t->instance = n == 1 ? const_i32(L, 0) : LLVMBuildUDiv(L->b, in_role, const_i32(L, warps), "");
	if (warps == 1)
		t->warp = const_i32(L, 0);
	else if (power_of_two(warps) && first % warps == 0)
		t->warp = LLVMBuildAnd(L->b, L->cta_warp, const_i32(L, warps - 1), "");
	else
		t->warp = LLVMBuildURem(L->b, in_role, const_i32(L, warps), "");
	t->thread = LLVMBuildOr(L->b, LLVMBuildShl(L->b, t->warp, const_i32(L, 5), ""), t->lane, "");
	if (warps > 1)
		t->sync_id = build_add(L, t->instance, const_i32(L, attr_int(op, AT_SYNC_ID, 1)));
	if (op->regions[0]->nargs > 0)
		L->value[op->regions[0]->args[0]->id] = t->instance;
	L->ops->enter_role(L, attr_text(op, AT_NAME, "role"), t->instance);
	LLVMMetadataRef outer = debug_enter(L, op->loc);
	if (op->regions[0]->nargs > 0)
		debug_value(L, op->regions[0]->args[0], t->instance, op->loc);
	lower_region(L, op->regions[0]);
	debug_leave(L, outer);
	L->team = saved;
}

static int role_end(const Op *op)
{
	return (int)(attr_int(op, AT_FIRST_WARP, 0) + attr_int(op, AT_WARPS, 1) * attr_int(op, AT_INSTANCES, 1));
}

/* The warps of all warpgroups that roles of the list share with roles[i], directly or by others: *lo to *hi - 1. */
static void shared_warpgroups(const Op *const *roles, int n, int i, int *lo, int *hi)
{
	*lo = (int)attr_int(roles[i], AT_FIRST_WARP, 0) / 4 * 4;
	*hi = (role_end(roles[i]) + 3) / 4 * 4;
	for (int k = 0; k < n; k++) {
		int first = (int)attr_int(roles[k], AT_FIRST_WARP, 0) / 4 * 4, end = (role_end(roles[k]) + 3) / 4 * 4;
		if (first >= *hi || end <= *lo || (first >= *lo && end <= *hi))
			continue;
		*lo = first < *lo ? first : *lo;
		*hi = end > *hi ? end : *hi;
		k = -1;
	}
}

/* Roles that follow one another: first by warpgroup, which sets its registers as one, then by role. */
static const Op *lower_roles(Lower *L, const Op *first)
{
	const Op *roles[64];
	int n = 0;
	const Op *op = first;
	for (; op && (op->code == OP_ROLE || op->code == OP_CONST) && n < 64; op = op->next)
		if (op->code == OP_ROLE)
			roles[n++] = op;
		else
			L->value[op->result->id] = lower_scalar(L, op, NULL);
	LLVMBasicBlockRef end = new_block(L, "roles.end");
	bool done[64] = { false };
	int64_t launch = launch_registers(L->tir->machine, L->kernel);
	for (int i = 0; i < n; i++) {
		if (done[i])
			continue;
		int regs = (int)attr_int(roles[i], AT_SETMAXNREG, 0);
		int lo, hi;
		shared_warpgroups(roles, n, i, &lo, &hi);
		LLVMBasicBlockRef in = new_block(L, "warpgroup"), next = new_block(L, "next");
		V below = LLVMBuildICmp(L->b, LLVMIntULT, LLVMBuildSub(L->b, L->cta_warp, const_i32(L, lo), ""), const_i32(L, hi - lo), "");
		LLVMBuildCondBr(L->b, below, in, next);
		LLVMPositionBuilderAtEnd(L->b, in);
		if (regs)
			L->ops->setmaxnreg(L, regs, regs > launch);
		for (int k = i; k < n; k++) {
			int f = (int)attr_int(roles[k], AT_FIRST_WARP, 0), e = role_end(roles[k]);
			if (done[k] || f < lo || e > hi)
				continue;
			done[k] = true;
			if (f == lo && e == hi) {
				lower_role(L, roles[k]);
				continue;
			}
			V mine = LLVMBuildICmp(L->b, LLVMIntULT, LLVMBuildSub(L->b, L->cta_warp, const_i32(L, f), ""), const_i32(L, e - f), "");
			Guard g = guard_begin(L, mine);
			lower_role(L, roles[k]);
			guard_end(L, g);
		}
		LLVMBuildBr(L->b, end);
		LLVMPositionBuilderAtEnd(L->b, next);
	}
	LLVMBuildBr(L->b, end);
	LLVMPositionBuilderAtEnd(L->b, end);
	return op;
}

/* ---- dispatch ---- */

/* Objects among the operands are NULL. */
static V *scalar_operands(Lower *L, const Op *op)
{
	V *args = ARENA_ARRAY(L->arena, V, op->nargs + 1);
	for (int i = 0; i < op->nargs; i++)
		args[i] = op->args[i]->type.kind == TY_SCALAR ? value_of(L, op->args[i]) : NULL;
	return args;
}

static void lower_ptx_op(Lower *L, const Op *op)
{
	V r = lower_ptx(L, op, scalar_operands(L, op));
	if (op->result)
		L->value[op->result->id] = r;
}

static void lower_op(Lower *L, const Op *op)
{
	switch (op->code) {
	case OP_DIM: case OP_PARAM: case OP_TENSOR: case OP_GRID: case OP_VIEW: case OP_YIELD: case OP_SM_COUNT: case OP_BARRIER: case OP_PICK: break;
	case OP_SHARED: case OP_FRAG: case OP_VAR: case OP_MBARRIER: declare_object(L, op); break;
	case OP_FOR: lower_for(L, op); break;
	case OP_IF: lower_if(L, op); break;
	case OP_WHILE: lower_while(L, op); break;
	case OP_ONCE: lower_once(L, op); break;
	case OP_PARALLEL: lower_parallel(L, op); break;
	case OP_GET: case OP_SET: lower_var(L, op); break;
	case OP_LOAD: case OP_STORE: case OP_ATOMIC: lower_element_op(L, op); break;
	case OP_COPY: lower_copy(L, op); break;
	case OP_WEAVE: lower_weave(L, op); break;
	case OP_MMA: lower_mma(L, op); break;
	case OP_WGMMA_FENCE: L->ops->wgmma_fence(L); break;
	case OP_WGMMA_COMMIT: L->ops->wgmma_commit(L); break;
	case OP_WGMMA_WAIT: lower_wgmma_wait(L, op); break;
	case OP_PIN: L->ops->pin(L); break;
	case OP_REDUCE: lower_reduce(L, op); break;
	case OP_SCAN: lower_scan(L, op); break;
	case OP_VOTE: lower_vote(L, op); break;
	case OP_CP_ASYNC: lower_cp_async(L, op); break;
	case OP_PRINT: lower_print(L, op, scalar_operands(L, op)); break;
	case OP_ASSERT: lower_assert(L, op, value_of(L, operand(op, ARG_CONDITION))); break;
	case OP_TRAP: L->ops->fail(L, "trap"); break;
	case OP_PTX: lower_ptx_op(L, op); break;
	case OP_STAMP: lower_stamp(L, op); break;
	default:
		if (op_info(op->code)->result == RES_SCALAR)
			L->value[op->result->id] = lower_scalar(L, op, scalar_operands(L, op));
		else
			lower_async(L, op);
	}
	if (op->result && op->result->type.kind == TY_SCALAR)
		debug_value(L, op->result, value_of(L, op->result), op->loc);
}

void lower_ops(Lower *L, const Op *first)
{
	for (const Op *op = first; op;) {
		debug_location(L, op->loc);
		if (op->code == OP_ROLE) {
			op = lower_roles(L, op);
			continue;
		}
		lower_op(L, op);
		op = op->next;
	}
}
