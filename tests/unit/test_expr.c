/* test_expr.c - the postfix expressions of modules: parsing, evaluation, printing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "runtime/src/expr.h"

static const char *const names[] = { "T", "H", "min2" };
static const int64_t values[] = { 100, 0, 7 };
static const bool known[] = { true, true, true };

static int lookup(const void *context, const char *name, size_t n)
{
	(void)context;
	for (int i = 0; i < 3; i++) {
		if (strlen(names[i]) == n && !memcmp(names[i], name, n))
			return i;
	}
	return -1;
}

static bool parse(Pool *pool, const char *text, Expr *e)
{
	char why[160] = "";
	*e = (Expr){ .text = text, .length = strlen(text) };
	bool ok = rt_expr_parse(e, pool, lookup, NULL, why, sizeof why);
	assert_int_equal(ok, why[0] == 0);
	return ok;
}

static ExprResult evaluate(const char *text, int64_t *out)
{
	Pool pool = { NULL };
	Expr e;
	ExprEnv env = { values, known, 132 };

	assert_true(parse(&pool, text, &e));
	ExprResult r = rt_expr_eval(&e, &env, out);
	rt_pool_free(&pool);
	return r;
}

static void test_values(void **state)
{
	static const struct {
		const char *text;
		int64_t value;
	} rows[] = {
		{ "64", 64 }, { "-3", -3 }, { "T", 100 }, { "T 64 cdiv", 2 }, { "T 64 /", 1 }, { "T 64 %", 36 },
		{ "  T   2 *  ", 200 }, { "T 1 + 2 *", 202 }, { "T 3 4 + -", 93 }, { "T H max", 100 },
		{ "sm_count T max", 132 }, { "-7 2 cdiv", -3 }, { "-7 -2 cdiv", 4 }, { "7 -2 cdiv", -3 }, { "-7 2 /", -3 },
		{ "9223372036854775807", INT64_MAX }, { "-9223372036854775808", INT64_MIN },
		{ "-9223372036854775808 1 cdiv", INT64_MIN }, { "min2 2 +", 9 }, { "min2 T min", 7 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int64_t v = 0;
		assert_int_equal(evaluate(rows[i].text, &v), EXPR_OK);
		assert_true(v == rows[i].value);
	}
}

static void test_failures_of_evaluation(void **state)
{
	int64_t v;

	(void)state;
	assert_int_equal(evaluate("T H /", &v), EXPR_DIV_ZERO);
	assert_int_equal(evaluate("T H %", &v), EXPR_DIV_ZERO);
	assert_int_equal(evaluate("T H cdiv", &v), EXPR_DIV_ZERO);
	assert_int_equal(evaluate("9223372036854775807 1 +", &v), EXPR_OVERFLOW);
	assert_int_equal(evaluate("-9223372036854775808 1 -", &v), EXPR_OVERFLOW);
	assert_int_equal(evaluate("9223372036854775807 T *", &v), EXPR_OVERFLOW);
	assert_int_equal(evaluate("-9223372036854775808 -1 /", &v), EXPR_OVERFLOW);
	assert_int_equal(evaluate("-9223372036854775808 -1 %", &v), EXPR_OVERFLOW);
}

static void test_unknown_symbol_is_named(void **state)
{
	const bool none[3] = { true, false, true };
	ExprEnv env = { values, none, 1 };
	Pool pool = { NULL };
	Expr e;
	int64_t v = -1;

	(void)state;
	assert_true(parse(&pool, "T H +", &e));
	assert_int_equal(rt_expr_eval(&e, &env, &v), EXPR_UNKNOWN);
	assert_int_equal(v, 1);
	rt_pool_free(&pool);
}

static void test_malformed(void **state)
{
	static const char *const bad[] = { "", " ", "+", "T +", "T T", "T 2 * *", "x", "1x", "--1", "9223372036854775808",
		                           "T\t2", "1e3", "-", "T 2" };
	char deep[8 * EXPR_MAX_DEPTH] = "", longer[4 * EXPR_MAX_TOKENS] = "1";
	Pool pool = { NULL };
	Expr e;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(parse(&pool, bad[i], &e));
	for (int i = 0; i <= EXPR_MAX_DEPTH; i++)
		strcat(deep, "1 ");
	for (int i = 0; i < EXPR_MAX_DEPTH; i++)
		strcat(deep, "+ ");
	assert_false(parse(&pool, deep, &e));
	for (int i = 0; i < EXPR_MAX_TOKENS / 2; i++)
		strcat(longer, " T +");
	assert_false(parse(&pool, longer, &e));
	rt_pool_free(&pool);
}

static void test_printing(void **state)
{
	static const char *const rows[][2] = {
		{ "T 64 cdiv", "cdiv(T, 64)" }, { "T 1 + H *", "(T + 1) * H" }, { "T H 2 * +", "T + H * 2" },
		{ "T H 1 - -", "T - (H - 1)" }, { "T H - 1 -", "T - H - 1" }, { "sm_count T min", "min(sm_count, T)" },
		{ "-5", "-5" }, { "T 2 / 3 +", "T / 2 + 3" },
	};
	Pool pool = { NULL };
	char text[64], small[6];
	Expr e;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_true(parse(&pool, rows[i][0], &e));
		rt_expr_format(&e, names, text, sizeof text);
		assert_string_equal(text, rows[i][1]);
	}
	rt_expr_format(&e, names, small, sizeof small);
	assert_string_equal(small, "T / 2");
	rt_pool_free(&pool);
}

static void test_bare_symbol(void **state)
{
	Pool pool = { NULL };
	Expr e;

	(void)state;
	assert_true(parse(&pool, "H", &e));
	assert_int_equal(rt_expr_bare_symbol(&e), 1);
	assert_true(parse(&pool, "H 1 *", &e));
	assert_int_equal(rt_expr_bare_symbol(&e), -1);
	assert_true(parse(&pool, "3", &e));
	assert_int_equal(rt_expr_bare_symbol(&e), -1);
	rt_pool_free(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_failures_of_evaluation),
		cmocka_unit_test(test_unknown_symbol_is_named),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_printing),
		cmocka_unit_test(test_bare_symbol),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
