/* test_effects.c - what ops.def says of operands, for every operation, and what attributes change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <string.h>

#include "compiler/analysis/effects.h"
#include "tests/unit/fixture.h"

static void test_signatures(void **state)
{
	(void)state;
	for (int op = 0; op < OP_COUNT; op++) {
		const char *text = op_info((Opcode)op)->operands, *name = op_info((Opcode)op)->text;
		bool optional = false;
		Operand o;
		int least, most, n = 0, touched = 0;

		while (next_operand(&text, &o)) {
			if (!strchr("eikcltgsroxSfvmba", o.kind))
				fail_msg("%s has an operand of kind %c", name, o.kind);
			if (o.access && !strchr("tgsroxv", o.kind))
				fail_msg("%s reads or writes an operand of kind %c", name, o.kind);
			if (o.async && !o.access)
				fail_msg("%s has an operand of the async proxy that it neither reads nor writes", name);
			if (optional && !o.optional)
				fail_msg("%s has an operand behind one that may be left out", name);
			if (o.access && o.most > 1)
				fail_msg("%s touches several operands of one letter, which op_effects counts as one", name);
			touched += o.access != 0;
			optional = o.optional;
			n = o.most == INT_MAX ? INT_MAX : n + o.most;
		}
		assert_true(text[strspn(text, " ")] == 0); /* no signs without a letter */
		op_arity((Opcode)op, &least, &most);
		assert_int_equal(most, n);
		assert_in_range(touched, 0, MAX_EFFECTS);
		assert_in_range(least, 0, most);
	}
}

/* Operands that are one each have names, in turn and different; so have no others. */
static void test_names(void **state)
{
	(void)state;
	for (int op = 0; op < OP_COUNT; op++) {
		const OpInfo *info = op_info((Opcode)op);
		const char *text = info->operands;
		int letters = 0, names = 0;
		Operand o;

		while (next_operand(&text, &o) && o.most == 1)
			letters++;
		while (names < MOST_NAMED && info->name[names] != ARG_NONE)
			names++;
		if (names > letters || (names < letters && op != OP_VIEW)) /* whose starts are tile_ref's */
			fail_msg("%s has %d names for %d operands", info->text, names, letters);
		for (int i = 0; i < names; i++)
			for (int k = 0; k < i; k++)
				assert_int_not_equal(info->name[i], info->name[k]);
		for (int i = names; i < MOST_NAMED; i++)
			assert_int_equal(info->name[i], ARG_NONE);
	}
}

static const char *const program =
	"kernel {name=\"k\", threads=128} {\n"
	"  %z = const {value=0} : i32\n"
	"  %t = const {value=1} : bool\n"
	"  %f = const {fvalue=0.0} : f32\n"
	"  %x = tensor %z, %z, %z, %z {dir=3, name=\"x\"} : tensor<bf16, rank 2>\n"
	"  %v = view %x, %z, %z {dims=[64, 64]} : view.tensor<bf16, 64x64>\n"
	"  %s = shared {name=\"s\"} : shared<bf16, 64x64>\n"
	"  %u = shared {name=\"u\"} : shared<f32, 64x64>\n"
	"  %d = frag {name=\"d\"} : frag<f32, 64x64>\n"
	"  %h = frag {name=\"h\", warp_scope=1} : frag<f32, 16x64>\n"
	"  %w = frag {name=\"w\", warp_scope=1} : frag<bf16, 16x64>\n"
	"  %y = frag {name=\"y\", warp_scope=1} : frag<bf16, 64x64>\n"
	"  %r = frag {name=\"r\"} : frag<f32, 64>\n"
	"  %m = mbarrier {name=\"m\", slots=1, count=1} : mbarrier\n"
	"  %s\n"
	"}\n";

/* Each operand that is touched: its number, < > or &, ~, and ! where all that was in it is gone. */
static const struct { const char *op, *effects; } rows[] = {
	{ "fill %d, %f", "0>!" },
	{ "copy %s, %d", "0< 1>!" },
	{ "mma %d, %s, %s {acc=0}", "0>! 1~< 2~<" },
	{ "mma %d, %s, %s {acc=1}", "0& 1~< 2~<" },
	{ "mma %h, %w, %y {acc=-1}", "0& 1< 2<" },
	{ "mma %d, %s, %s {acc=1, inst=\"mma_sync\"}", "0& 1< 2<" },
	{ "reduce %d, %r {kind=\"sum\", axis=1}", "0< 1>!" },
	{ "scan %r {kind=\"sum\", axis=0}", "0&" },
	{ "tma_load %v, %s, %m, %z", "0< 1~>!" },
	{ "tma_store %s, %v", "0~< 1>!" },
	{ "tma_store %s, %v {reduce=\"add\"}", "0~< 1>" },
	{ "bulk_load %v, %s, %m, %z", "0< 1~>!" },
	{ "cp_async %v, %s", "0< 1>!" },
	{ "store %f, %u, %z, %z", "1>!" },
	{ "store %f, %u, %z, %z, %t {masked=1}", "1>" },
	{ "atomic %f, %u, %z, %z {rmw=\"add\"}", "1&" },
	{ "%q = load %u, %z, %z : f32", "0<" },
	{ "wgmma_wait %d {n=0}", "" },
	{ "arrive %m, %z", "" },
	{ "sync", "" },
};

static void effects_text(const Op *op, char *out)
{
	Effect e[MAX_EFFECTS];
	int n = op_effects(op, e);

	*out = 0;
	for (int i = 0; i < n; i++)
		out += sprintf(out, "%s%d%s%s%s", i ? " " : "", e[i].operand, e[i].async ? "~" : "",
			e[i].reads && e[i].writes ? "&" : e[i].reads ? "<" : ">", e[i].kills ? "!" : "");
}

static void test_effects(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		Fixture f = fixture();
		const char *cut = strstr(program, "  %s\n}");
		char *text = arena_printf(f.arena, "%.*s  %s\n}\n", (int)(cut - program), program, rows[i].op), got[64];
		Tir *t = tir_parse(f.arena, f.diags, machine_default(), add_source(&f, "t", text));

		if (!t || !tir_verify(t))
			fail_msg("%s: %s", rows[i].op, errors_of(&f));
		effects_text(t->first->regions[0]->last, got);
		if (strcmp(got, rows[i].effects))
			fail_msg("%s: '%s', not '%s'", rows[i].op, got, rows[i].effects);
		arena_free(f.arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signatures),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_effects),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
