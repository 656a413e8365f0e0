/* expr.c - parses, evaluates and prints the postfix expressions of a module. */
#include "runtime/src/expr.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *word;
	ExprOp op;
} operators[] = {
	{ "+", EX_ADD }, { "-", EX_SUB }, { "*", EX_MUL }, { "/", EX_DIV }, { "%", EX_REM },
	{ "cdiv", EX_CDIV }, { "min", EX_MIN }, { "max", EX_MAX },
};

/* ---- parsing ---- */

static bool find_operator(const char *word, size_t n, ExprOp *out)
{
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
		if (strlen(operators[i].word) == n && !memcmp(operators[i].word, word, n)) {
			*out = operators[i].op;
			return true;
		}
	}
	return false;
}

/* A decimal integer with an optional minus sign. */
static bool parse_integer(const char *word, size_t n, int64_t *out)
{
	bool negative = n > 1 && word[0] == '-';
	int64_t v = 0;

	for (size_t i = negative; i < n; i++) {
		if (word[i] < '0' || word[i] > '9')
			return false;
		int digit = word[i] - '0';
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, negative ? -digit : digit, &v))
			return false;
	}
	*out = v;
	return n > 0;
}

static bool parse_token(const char *word, size_t n, ExprLookup lookup, const void *context, ExprToken *t)
{
	t->value = 0;
	if (find_operator(word, n, &t->op))
		return true;
	if (n == strlen("sm_count") && !memcmp(word, "sm_count", n)) {
		t->op = EX_SM_COUNT;
		return true;
	}
	int symbol = lookup ? lookup(context, word, n) : -1;
	if (symbol >= 0) {
		*t = (ExprToken){ EX_SYMBOL, symbol };
		return true;
	}
	t->op = EX_INT;
	return parse_integer(word, n, &t->value);
}

static const char *next_word(const char *p, const char *end, size_t *n)
{
	while (p < end && *p == ' ')
		p++;
	const char *word = p;
	while (p < end && *p != ' ')
		p++;
	*n = (size_t)(p - word);
	return word;
}

static uint32_t count_words(const Expr *e)
{
	const char *p = e->text, *end = p + e->length;
	uint32_t count = 0;
	size_t n;

	for (p = next_word(p, end, &n); n && count <= EXPR_MAX_TOKENS; p = next_word(p + n, end, &n))
		count++;
	return count;
}

/* Stack depth after token `t`, or -1 when it would underflow or go too deep. */
static int depth_after(const ExprToken *t, int depth)
{
	if (t->op <= EX_SM_COUNT)
		return depth < EXPR_MAX_DEPTH ? depth + 1 : -1;
	return depth >= 2 ? depth - 1 : -1;
}

bool rt_expr_parse(Expr *e, Pool *pool, ExprLookup lookup, const void *context, char *why, size_t why_size)
{
	uint32_t count = count_words(e);
	const char *p = e->text, *end = p + e->length;
	int depth = 0;
	size_t n;

	if (count == 0 || count > EXPR_MAX_TOKENS) {
		snprintf(why, why_size, count ? "an expression is too long" : "an expression is empty");
		return false;
	}
	ExprToken *tokens = rt_pool_alloc(pool, count, sizeof *tokens);
	if (!tokens) {
		snprintf(why, why_size, "%s", "");
		return false;
	}
	for (uint32_t i = 0; i < count; i++, p += n) {
		p = next_word(p, end, &n);
		if (!parse_token(p, n, lookup, context, &tokens[i])) {
			snprintf(why, why_size, "\"%.*s\" is no dim, integer scalar, number or operator",
			         n > 64 ? 64 : (int)n, p);
			return false;
		}
		depth = depth_after(&tokens[i], depth);
		if (depth < 0) {
			snprintf(why, why_size, "an expression has too few operands or is too deep");
			return false;
		}
	}
	if (depth != 1) {
		snprintf(why, why_size, "an expression has too many operands");
		return false;
	}
	e->tokens = tokens;
	e->count = count;
	return true;
}

/* ---- evaluation ---- */

static ExprResult divide(ExprOp op, int64_t a, int64_t b, int64_t *out)
{
	if (b == 0)
		return EXPR_DIV_ZERO;
	if (a == INT64_MIN && b == -1)
		return EXPR_OVERFLOW;
	int64_t q = a / b, r = a % b;
	if (op == EX_REM)
		*out = r;
	else
		*out = q + (op == EX_CDIV && r != 0 && (r > 0) == (b > 0));
	return EXPR_OK;
}

static ExprResult apply(ExprOp op, int64_t a, int64_t b, int64_t *out)
{
	bool overflow = false;

	switch (op) {
	case EX_ADD: overflow = __builtin_add_overflow(a, b, out); break;
	case EX_SUB: overflow = __builtin_sub_overflow(a, b, out); break;
	case EX_MUL: overflow = __builtin_mul_overflow(a, b, out); break;
	case EX_DIV:
	case EX_REM:
	case EX_CDIV: return divide(op, a, b, out);
	case EX_MIN: *out = a < b ? a : b; break;
	case EX_MAX: *out = a > b ? a : b; break;
	case EX_INT:
	case EX_SYMBOL:
	case EX_SM_COUNT: break; /* operands: not here */
	}
	return overflow ? EXPR_OVERFLOW : EXPR_OK;
}

ExprResult rt_expr_eval(const Expr *e, const ExprEnv *env, int64_t *out)
{
	int64_t stack[EXPR_MAX_DEPTH];
	int depth = 0;

	for (uint32_t i = 0; i < e->count; i++) {
		const ExprToken *t = &e->tokens[i];
		if (t->op == EX_SYMBOL) {
			if (!env->known[t->value]) {
				*out = t->value;
				return EXPR_UNKNOWN;
			}
			stack[depth++] = env->values[t->value];
		} else if (t->op == EX_INT) {
			stack[depth++] = t->value;
		} else if (t->op == EX_SM_COUNT) {
			stack[depth++] = env->sm_count;
		} else {
			depth--;
			ExprResult r = apply(t->op, stack[depth - 1], stack[depth], &stack[depth - 1]);
			if (r != EXPR_OK)
				return r;
		}
	}
	*out = stack[0];
	return EXPR_OK;
}

/* ---- printing ---- */

typedef struct Printer {
	const Expr *e;
	const char *const *names;
	char *out;
	size_t size, used;
} Printer;

static void put(Printer *p, const char *s)
{
	for (; *s; s++) {
		if (p->used + 1 < p->size)
			p->out[p->used++] = *s;
	}
	if (p->size)
		p->out[p->used] = 0;
}

/* First token of the subexpression that ends at token `last`. */
static uint32_t start_of(const Expr *e, uint32_t last)
{
	for (uint32_t need = 1;; last--) {
		need = e->tokens[last].op <= EX_SM_COUNT ? need - 1 : need + 1;
		if (!need)
			return last;
	}
}

static int precedence(ExprOp op)
{
	return op == EX_ADD || op == EX_SUB ? 1 : op == EX_MUL || op == EX_DIV || op == EX_REM ? 2 : 3;
}

static const char *operator_word(ExprOp op)
{
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
		if (operators[i].op == op)
			return operators[i].word;
	}
	return "?";
}

static void print_at(Printer *p, uint32_t last, int outer);

static void print_operator(Printer *p, uint32_t last, int outer)
{
	ExprOp op = p->e->tokens[last].op;
	uint32_t right = last - 1, left = start_of(p->e, right) - 1;
	int own = precedence(op);
	bool is_call = own == 3, parens = !is_call && own < outer;

	if (is_call)
		put(p, operator_word(op));
	if (is_call || parens)
		put(p, "(");
	print_at(p, left, is_call ? 0 : own);
	if (is_call) {
		put(p, ", ");
	} else {
		put(p, " ");
		put(p, operator_word(op));
		put(p, " ");
	}
	print_at(p, right, is_call ? 0 : own + 1);
	if (is_call || parens)
		put(p, ")");
}

static void print_at(Printer *p, uint32_t last, int outer)
{
	const ExprToken *t = &p->e->tokens[last];
	char number[24];

	if (p->used + 1 >= p->size)
		return; /* full: also bounds the work on long expressions */
	if (t->op == EX_SYMBOL) {
		put(p, p->names[t->value]);
	} else if (t->op == EX_SM_COUNT) {
		put(p, "sm_count");
	} else if (t->op == EX_INT) {
		snprintf(number, sizeof number, "%" PRId64, t->value);
		put(p, number);
	} else {
		print_operator(p, last, outer);
	}
}

void rt_expr_format(const Expr *e, const char *const *names, char *out, size_t size)
{
	Printer p = { e, names, out, size, 0 };

	put(&p, "");
	print_at(&p, e->count - 1, 0);
}
