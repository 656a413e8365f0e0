/* host_expr.c - SSA scalars over dims, scalar parameters and sm_count as expressions that the host evaluates. */
#include "compiler/driver/emit.h"

#include <inttypes.h>
#include <string.h>

enum {
	MAX_DEPTH = 48,  /* the runtime's stack has 64 entries */
	MAX_NODES = 4096 /* of a value written out: one that is used twice is there twice */
};

static const char *operator_word(const Op *op)
{
	switch (op->code) {
	case OP_ADD: return "+";
	case OP_SUB: return "-";
	case OP_MUL: return "*";
	case OP_DIV: return "/";
	case OP_MOD: return "%";
	case OP_MIN: return "min";
	case OP_MAX: return "max";
	default: return NULL;
	}
}

static bool integer(const Value *v)
{
	return v->type.kind == TY_SCALAR && dtype_is_int(v->type.dtype);
}

/* (a + b - 1) / b, as `cdiv` is elaborated: gives a and b. */
static bool is_cdiv(const Op *op, const Value **a, const Value **b)
{
	if (op->code != OP_DIV || !operand(op, ARG_A)->def)
		return false;
	*b = operand(op, ARG_B);
	int64_t n = 0, c = 0, one = 0;
	bool fixed = value_const_int(*b, &n);
	const Op *top = operand(op, ARG_A)->def;
	if (top->code == OP_ADD && fixed && value_const_int(operand(top, ARG_B), &c) && c == n - 1 && c > 0) {
		*a = operand(top, ARG_A);
		return true;
	}
	if (top->code != OP_SUB || !value_const_int(operand(top, ARG_B), &one) || one != 1 || !operand(top, ARG_A)->def)
		return false;
	const Op *sum = operand(top, ARG_A)->def;
	int64_t other = 0;
	if (sum->code != OP_ADD || !(operand(sum, ARG_B) == *b || (fixed && value_const_int(operand(sum, ARG_B), &other) && other == n)))
		return false;
	*a = operand(sum, ARG_A);
	return true;
}

/* The host computes in 64 bits; what is beyond 32 is no extent, but what 8 or 16 bits cut is. */
static bool wraps_early(const Op *op)
{
	unsigned bits = dtype_bits(op->result->type.dtype);
	bool given = op->code == OP_CONST || op->code == OP_PARAM;
	return bits < 32 && !given;
}

/* NULL with *why set to the op that cannot be on the host. */
static const char *postfix(Arena *a, const Value *v, int depth, int *left, const Op **why)
{
	const Op *op = v->def;
	int64_t n;
	*why = op;
	if (!op || depth > MAX_DEPTH || --*left < 0 || !integer(v) || wraps_early(op))
		return NULL;
	if (value_const_int(v, &n))
		return arena_printf(a, "%" PRId64, n);
	const Value *x, *y;
	const char *word = operator_word(op), *p, *q;
	switch (op->code) {
	case OP_DIM:
	case OP_PARAM: return attr_text(op, AT_NAME, "?");
	case OP_SM_COUNT: return "sm_count";
	case OP_CAST: return postfix(a, operand(op, ARG_A), depth + 1, left, why);
	case OP_NEG:
		p = postfix(a, operand(op, ARG_A), depth + 1, left, why);
		return p ? arena_printf(a, "0 %s -", p) : NULL;
	case OP_SHL:
		p = value_const_int(operand(op, ARG_B), &n) && n >= 0 && n < 62 ? postfix(a, operand(op, ARG_A), depth + 1, left, why) : NULL;
		return p ? arena_printf(a, "%s %" PRId64 " *", p, (int64_t)1 << n) : NULL;
	default: break;
	}
	if (is_cdiv(op, &x, &y)) {
		word = "cdiv";
	} else {
		if (!word)
			return NULL;
		x = operand(op, ARG_A);
		y = operand(op, ARG_B);
	}
	p = postfix(a, x, depth + 1, left, why);
	q = p ? postfix(a, y, depth + 1, left, why) : NULL;
	return q ? arena_printf(a, "%s %s %s", p, q, word) : NULL;
}

const char *host_postfix(Arena *a, Diags *d, const Value *v, Loc use)
{
	const Op *why = NULL;
	int left = MAX_NODES;
	const char *s = postfix(a, v, 0, &left, &why);
	if (s)
		return s;
	if (left < 0) {
		diag_error(d, use, E_LIMIT, "this expression has more than %d operations where all it is made of is written out for the host", MAX_NODES);
		return NULL;
	}
	diag_error(d, use, E_UNSUPPORTED, "the host cannot compute this: only + - * / %% cdiv min max of integers of 32 or 64 bits,"
		" dims, scalar parameters and sm_count");
	if (why && why->loc.source)
		diag_note(d, why->loc, "'%s' is not among them", op_info(why->code)->text);
	return NULL;
}

static const char *infix(Arena *a, const Value *v, bool inner, int *left)
{
	const Op *op = v->def;
	int64_t n;
	if (!op || --*left < 0)
		return "...";
	if (value_const_int(v, &n))
		return arena_printf(a, "%" PRId64, n);
	if (op->code == OP_DIM || op->code == OP_PARAM)
		return attr_text(op, AT_NAME, "?");
	if (op->code == OP_SM_COUNT)
		return "sm_count";
	if (op->code == OP_CAST)
		return infix(a, operand(op, ARG_A), inner, left);
	const Value *x, *y;
	if (is_cdiv(op, &x, &y))
		return arena_printf(a, "cdiv(%s, %s)", infix(a, x, false, left), infix(a, y, false, left));
	const char *word = operator_word(op);
	if (!word)
		return "...";
	const char *p = infix(a, operand(op, ARG_A), true, left), *q = infix(a, operand(op, ARG_B), true, left);
	if (word[1])
		return arena_printf(a, "%s(%s, %s)", word, p, q);
	return arena_printf(a, inner ? "(%s %s %s)" : "%s %s %s", p, word, q);
}

const char *host_infix(Arena *a, const Value *v)
{
	int left = MAX_NODES;
	return infix(a, v, false, &left);
}
