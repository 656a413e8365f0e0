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
	"  %n = mbarrier {name=\"n\", slots=1, from=\"r\"} : mbarrier\n"
	"  %s\n"
	"}\n";

/* Each operand that is touched: its number, < > or &, ~, ! where all that was in it is gone, and until when: nothing, of products, of bulk stores, of
 * copies, of a phase. */
static const struct { const char *op, *effects; } rows[] = {
	{ "fill %d, %f", "0>!" },
	{ "copy %s, %d", "0< 1>!" },
	{ "mma %d, %s, %s {acc=0}", "0>! 1~< 2~<" },
	{ "mma %d, %s, %s {acc=1}", "0& 1~< 2~<" },
	{ "mma %d, %s, %s {acc=1, async=1}", "0&p 1~<p 2~<p" },
	{ "mma %h, %w, %y {acc=1, async=1}", "0& 1< 2<" },
	{ "mma %d, %s, %s {acc=1, async=1, inst=\"mma_sync\"}", "0& 1< 2<" },
	{ "mma %h, %w, %y {acc=-1}", "0& 1< 2<" },
	{ "mma %d, %s, %s {acc=1, inst=\"mma_sync\"}", "0& 1< 2<" },
	{ "reduce %d, %r {kind=\"sum\", axis=1}", "0< 1>!" },
	{ "scan %r {kind=\"sum\", axis=0}", "0&" },
	{ "tma_load %v, %s, %m, %z", "0<f 1~>!f" },
	{ "tma_store %s, %v", "0~<s 1>!s" },
	{ "tma_store %s, %v {reduce=\"add\"}", "0~<s 1>s" },
	{ "bulk_load %v, %s, %m, %z", "0<f 1~>!f" },
	{ "bulk_store %s, %v", "0~<s 1>!s" },
	{ "cp_async %v, %s", "0<c 1>!c" },
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
	static const char *const until[] = { "", "p", "s", "c", "f" };
	int n = op_effects(op, e);

	*out = 0;
	for (int i = 0; i < n; i++)
		out += sprintf(out, "%s%d%s%s%s%s", i ? " " : "", e[i].operand, e[i].async ? "~" : "",
			e[i].reads && e[i].writes ? "&" : e[i].reads ? "<" : ">", e[i].kills ? "!" : "", until[e[i].until]);
}

/* The op of a line behind the declarations. */
static const Op *op_of(Fixture *f, const char *line)
{
	const char *cut = strstr(program, "  %s\n}");
	char *text = arena_printf(f->arena, "%.*s  %s\n}\n", (int)(cut - program), program, line);
	Tir *t = tir_parse(f->arena, f->diags, machine_default(), add_source(f, "t", text));

	if (!t || !tir_verify(t))
		fail_msg("%s: %s", line, errors_of(f));
	return t->first->regions[0]->last;
}

static void test_effects(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		Fixture f = fixture();
		char got[64];

		effects_text(op_of(&f, rows[i].op), got);
		if (strcmp(got, rows[i].effects))
			fail_msg("%s: '%s', not '%s'", rows[i].op, got, rows[i].effects);
		arena_free(f.arena);
	}
}

/* Who does it, and ! where one thread may in `once`; what it waits for, closes a group of, or r: releases. */
static const struct { const char *op, *doing; } doings[] = {
	{ "fill %d, %f", "team" },
	{ "fill %h, %f", "warp" },
	{ "mma %d, %s, %s {acc=1}", "team" },
	{ "mma %h, %w, %y {acc=1}", "warp" },
	{ "wgmma_commit", "team closes p" },
	{ "wgmma_wait {n=0}", "team awaits p" },
	{ "tma_load %v, %s, %m, %z", "team!" },
	{ "tma_load %v, %s, %m, %z {multicast=1}", "cluster!" },
	{ "tma_store %s, %v", "team!" },
	{ "store_wait {n=0}", "team! awaits s" },
	{ "cp_async %v, %s", "team" },
	{ "cp_async_commit", "thread closes c" },
	{ "cp_async_wait {n=0}", "thread awaits c" },
	{ "arrive %m, %z", "warp! r" }, /* count by hand */
	{ "arrive %n, %z", "team r" },
	{ "wait %m, %z", "warp! awaits f" },
	{ "wait_parity %m, %z, %z", "warp! awaits f" },
	{ "sync", "team r" },
	{ "sync_warp", "warp r" },
	{ "cluster_sync", "cluster r" },
	{ "%q = vote %t {kind=\"any\"} : bool", "team" },
	{ "%q = vote %t {kind=\"any\", warp_scope=1} : bool", "warp" },
	{ "store %f, %u, %z, %z", "thread" },
	{ "%q = lane : i32", "thread" },
	{ "fence_async", "thread" },
	{ "fence_async_global", "thread" },
};

static void test_doing(void **state)
{
	static const char *const who[] = { "thread", "warp", "team", "cluster" }, *const until[] = { "", "p", "s", "c", "f" };

	(void)state;
	for (size_t i = 0; i < sizeof doings / sizeof doings[0]; i++) {
		Fixture f = fixture();
		const Op *op = op_of(&f, doings[i].op);
		Doing d = op_doing(op);
		Until awaits = op_awaits(op), closes = op_closes(op);
		const char *got =
			arena_printf(f.arena, "%s%s%s%s%s%s%s", who[d.doer], d.alone ? "!" : "", awaits ? " awaits " : "",
				until[awaits], closes ? " closes " : "", until[closes], op_releases(op) ? " r" : "");

		if (strcmp(got, doings[i].doing))
			fail_msg("%s: '%s', not '%s'", doings[i].op, got, doings[i].doing);
		arena_free(f.arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signatures),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_effects),
		cmocka_unit_test(test_doing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
