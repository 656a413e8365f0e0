/* test_flow.c - the driver of structured dataflow, by two analyses of one variable: what it may hold, and whether it is read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "compiler/analysis/flow.h"
#include "tests/unit/fixture.h"

/* Values 0 to 3 are %a to %d; v holds 0 first. */
static const char *const program =
	"kernel {name=\"k\", threads=64} {\n"
	"  %%a = const {value=0} : i32\n"
	"  %%b = const {value=1} : i32\n"
	"  %%c = const {value=2} : i32\n"
	"  %%d = const {value=3} : i32\n"
	"  %%t = const {value=1} : bool\n"
	"  %%v = var : var<i32>\n"
	"%s"
	"}\n";

/* Each in the order of the program.  holds: of each get, the values that it may give.  live: of each set, y where a get may follow before
 * another set, else n; of a while the body's first. */
static const struct { const char *code, *holds, *live; } rows[] = {
	{ "set %v, %b\n set %v, %c\n get %v", "2", "ny" },
	{ "if %t {\n set %v, %b\n }\n get %v", "01", "y" },
	{ "if %t {\n set %v, %b\n } {\n set %v, %c\n }\n get %v", "12", "yy" },
	{ "for %a, %d, %b (%i : i32) {\n get %v\n set %v, %c\n }\n get %v", "02 02", "y" },
	{ "for %a, %d, %b (%i : i32) {\n set %v, %c\n get %v\n }\n set %v, %d", "2", "yn" },
	{ "for %a, %d, %b (%i : i32) {\n for %a, %d, %b (%j : i32) {\n get %v\n set %v, %c\n }\n set %v, %b\n }\n get %v", "012 01", "yy" },
	{ "while {\n get %v\n yield %t\n } {\n set %v, %c\n }\n get %v", "02 02", "y" },
	{ "while {\n set %v, %b\n yield %t\n } {\n get %v\n set %v, %c\n }\n get %v", "1 1", "ny" },
	{ "once {\n set %v, %b\n }\n get %v", "01", "y" },
	{ "role {name=\"r\", first_warp=0, warps=1, instances=1} {\n set %v, %b\n get %v\n }\n get %v", "1 01", "y" },
};

typedef struct Trace { char text[64]; unsigned passed; } Trace;

static bool join_masks(const Flow *f, void *into, const void *other)
{
	unsigned *a = into, before = *a;

	(void)f;
	*a |= *(const unsigned *)other;
	return *a != before;
}

static void pass_forward(Flow *f, Op *op, void *state)
{
	Trace *t = f->user;
	unsigned *mask = state;
	int64_t value;

	t->passed += !f->quiet;
	if (op->code == OP_SET && value_const_int(op->args[1], &value))
		*mask = 1u << value;
	if (op->code != OP_GET || f->quiet)
		return;
	if (*t->text)
		strcat(t->text, " ");
	for (int i = 0; i < 4; i++)
		if (*mask >> i & 1)
			strcat(t->text, (char[]){ (char)('0' + i), 0 });
}

static void pass_backward(Flow *f, Op *op, void *state)
{
	Trace *t = f->user;
	unsigned *live = state;

	if (op->code == OP_SET && !f->quiet) {
		memmove(t->text + 1, t->text, strlen(t->text) + 1);
		*t->text = *live ? 'y' : 'n';
	}
	*live = op->code == OP_GET ? 1 : op->code == OP_SET ? 0 : *live;
}

static bool count(Op *op, void *user)
{
	*(unsigned *)user += !op->regions[0];
	return true;
}

static void test_flow(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		Fixture f = fixture();
		const char *text = arena_printf(f.arena, program, rows[i].code);
		Tir *t = tir_parse(f.arena, f.diags, machine_default(), add_source(&f, "t", text));
		Trace forward = { 0 }, backward = { 0 };
		unsigned holds = 1, live = 0, ops = 0;

		if (!t)
			fail_msg("%s: %s", rows[i].code, errors_of(&f));
		Flow flow = { .arena = f.arena, .user = &forward, .size = sizeof holds, .join = join_masks, .pass = pass_forward };
		flow_run(&flow, t->first->regions[0], &holds);
		assert_string_equal(forward.text, rows[i].holds);
		tir_walk(t->first->regions[0], count, &ops);
		assert_int_equal(forward.passed, ops); /* loud: each once */
		flow.user = &backward;
		flow.backward = true;
		flow.pass = pass_backward;
		flow_run(&flow, t->first->regions[0], &live);
		assert_string_equal(backward.text, rows[i].live);
		arena_free(f.arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_flow) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
