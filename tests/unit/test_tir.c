/* test_tir.c - TIR: building, text in both directions, the verifier and queries. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture.h"

static Fixture parse(const char *text)
{
	Fixture f = fixture();

	f.tir = tir_parse(f.arena, f.diags, machine_default(), add_source(&f, "t.tir", text));
	return f;
}

static char *text_of(const Tir *t)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	tir_print(t, out);
	fclose(out);
	return text;
}

/* Locations name the text they were read from, so they are left out. */
static void drop_locs(char *s)
{
	char *to = s;
	bool quoted = false;

	for (; *s; s++) {
		quoted ^= *s == '"' && s[-1] != '\\'; /* never the first character */
		if (!quoted && s[0] == ' ' && s[1] == '@')
			s += 1 + strspn(s + 1, "@0123456789:");
		*to++ = *s;
	}
	*to = '\0';
}

/* ---- building ---- */

static const Loc nowhere = { 0 };

static Value *constant(Tir *t, Region *r, int64_t v)
{
	Op *op = tir_op(t, OP_CONST, nowhere, type_scalar(DT_I32), 0, NULL);

	attr_set_int(t, op, AT_VALUE, v);
	tir_append(r, op);
	return op->result;
}

static Op *new_kernel(Tir *t)
{
	Op *k = tir_op(t, OP_KERNEL, nowhere, type_none(), 0, NULL);

	attr_set_text(t, k, AT_NAME, "k");
	attr_set_int(t, k, AT_THREADS, 128);
	tir_region(t, k, 0);
	tir_add_kernel(t, k);
	return k;
}

static void test_build(void **state)
{
	(void)state;
	Arena *a = arena_new();
	Tir *t = tir_new(a, diags_new(a), machine_default());
	Op *k = new_kernel(t);
	Region *body = k->regions[0];
	Value *one = constant(t, body, 1), *two = constant(t, body, 2);
	Op *add = tir_op(t, OP_ADD, nowhere, type_scalar(DT_I32), 2, (Value *[]){ one, two });

	tir_insert_after(one->def, add);
	assert_false(tir_verify(t)); /* two is defined after it */
	tir_remove(add);
	tir_append(body, add);
	Op *copy = tir_op(t, OP_ASSERT, nowhere, type_none(), 0, NULL);
	tir_add_operand(t, copy, one);
	assert_int_equal(copy->nargs, 1);
	char *text = text_of(t);
	assert_string_equal(text, "kernel {name=\"k\", threads=128} {\n"
		"  %0 = const {value=1} : i32\n  %1 = const {value=2} : i32\n  %2 = add %0, %1 : i32\n}\n");
	free(text);
	assert_true(tir_verify(t));
	arena_free(a);
}

static void test_attributes(void **state)
{
	(void)state;
	Arena *a = arena_new();
	Tir *t = tir_new(a, diags_new(a), machine_default());
	Op *k = new_kernel(t);

	attr_set_int(t, k, AT_WITHIN, 3);
	attr_set_text(t, k, AT_FORMAT, "x\"\n\\\x01");
	attr_set_real(t, k, AT_FVALUE, 2.0);
	attr_set_list(t, k, AT_DIMS, 3, (int64_t[]){ 1, -2, 3 });
	attr_set_int(t, k, AT_WITHIN, 4);
	assert_int_equal(attr_int(k, AT_WITHIN, 0), 4);
	assert_int_equal(attr_int(k, AT_FORMAT, 7), 7);
	assert_null(attr_get(k, AT_RING));
	char *text = text_of(t);
	assert_string_equal(text, "kernel {dims=[1, -2, 3], format=\"x\\\"\\n\\\\\\x01\", fvalue=2.0, name=\"k\", threads=128, within=4} {\n}\n");
	Fixture f = parse(text);
	assert_non_null(f.tir);
	assert_string_equal(attr_text(f.tir->first, AT_FORMAT, ""), "x\"\n\\\x01");
	free(text);
	arena_free(f.arena);
	arena_free(a);
}

/* ---- text ---- */

static const char *const sample =
	"// a comment\n"
	"kernel {name=\"k\", threads=256} {\n"
	"  %T = dim {name=\"T\"} : i32\n"
	"  %n = const {value=64} : i32\n"
	"  %f = const {fvalue=1.4426950408889634} : f32\n"
	"  %inf = const {fvalue=-inf} : f32\n"
	"  %z = const {value=0} : i32\n"
	"  %one = const {value=1} : i32\n"
	"  %x = tensor %T, %n, %n, %one {dir=1, name=\"x\"} : tensor<bf16, rank 2>\n"
	"  grid %T\n"
	"  %xs = shared {name=\"xs\", ring=3} : shared<bf16, 3x64x64>\n"
	"  %full = mbarrier {name=\"full\", ring=3, slots=3, count=1} : mbarrier\n"
	"  %both = barrier {name=\"both\", from=\"A\"} : barrier\n"
	"  %i = var {name=\"i\"} : var<i32>\n"
	"  sync\n"
	"  role {first_warp=0, warps=4, instances=1, name=\"A\"} (%w : i32) {\n"
	"    %acc = frag {name=\"acc\"} : frag<f32, 64x64>\n"
	"    for %z, %T, %n (%j : i32) {\n"
	"      %g = view %x, %j {dims=[64, 0]} : view.tensor<bf16, 64x64>\n"
	"      %all = view %x, %z {dims=[0, 8]} : view.tensor<bf16, ?x8>\n"
	"      %s = view %xs, %j {dims=[-1, 0, 0], trans=1} : view.shared<bf16, 64x64>\n"
	"      tma_load %g, %s, %full, %j\n"
	"      %a = view %acc {dims=[0, 0], warp_scope=1} : view.frag<f32, 16x64>\n"
	"    }\n"
	"    while {\n"
	"      %v = get %i : i32\n"
	"      %c = cmp %v, %n {pred=\"lt\"} : bool\n"
	"      yield %c\n"
	"    } {\n"
	"      once {\n"
	"        print %n {format=\"%d @1:2 // \\\"\"}\n"
	"      }\n"
	"    }\n"
	"    parallel {extents=[64, 64]} (%r : i32, %q : i32) {\n"
	"      %e = load %acc, %r, %q : f32\n"
	"      %b = cmp %e, %f {pred=\"gt\"} : bool\n"
	"      store %e, %acc, %r, %q, %b {masked=1}\n"
	"    }\n"
	"    sync %both\n"
	"  }\n"
	"}\n"
	"kernel {name=\"second\", threads=32} {\n"
	"  %T = const {value=1} : bool\n"
	"  if %T {\n"
	"    trap\n"
	"  }\n"
	"}\n";

static void test_round_trip(void **state)
{
	(void)state;
	Fixture f = parse(sample);
	char *errors = errors_of(&f);
	assert_string_equal(errors, "");
	assert_true(tir_verify(f.tir));
	char *once = text_of(f.tir);
	assert_non_null(strstr(once, "@3:3"));
	Fixture g = parse(once);
	assert_non_null(g.tir);
	assert_true(tir_verify(g.tir));
	char *twice = text_of(g.tir);
	drop_locs(once);
	drop_locs(twice);
	assert_string_equal(once, twice);
	assert_string_equal(f.tir->first->regions[0]->first->result->name, "T");
	free(errors);
	free(once);
	free(twice);
	arena_free(f.arena);
	arena_free(g.arena);
}

static void expect_parse_error(const char *text, const char *error)
{
	Fixture f = parse(text);
	char *errors = errors_of(&f);

	assert_null(f.tir);
	if (!strstr(errors, error))
		fail_msg("expected `%s` in:\n%s", error, errors);
	free(errors);
	arena_free(f.arena);
}

static void test_parse_errors(void **state)
{
	(void)state;
	expect_parse_error("kernel {name=\"k\" {", "t.tir:1:18: error: expected '}'");
	expect_parse_error("sync", "only kernels");
	expect_parse_error("kernel {\n  frobnicate\n}", "t.tir:2:3: error: unknown operation 'frobnicate'");
	expect_parse_error("kernel { assert %x }", "%x is not defined before this");
	expect_parse_error("kernel { %1 = thread : i32 %1 = lane : i32 }", "%1 is defined twice");
	expect_parse_error("kernel { %1 = thread }", "a result needs a type");
	expect_parse_error("kernel { sync : i32 }", "a type without a result");
	expect_parse_error("kernel { %1 = thread : i33 }", "unknown type 'i33'");
	expect_parse_error("kernel { %1 = frag : frag<f32, 1x2x3x4x5x6x7> }", "too many dimensions");
	expect_parse_error("kernel {name=\"k}", "closing quote");
	expect_parse_error("kernel {name=1, name=2} {}", "given twice");
	expect_parse_error("kernel {thread=32} {}", "unknown attribute 'thread'");
	expect_parse_error("kernel { sync {} }", "'sync' has 0 regions");
	expect_parse_error("kernel { once", "expected");
	expect_parse_error("kernel { % ", "name of a value");
}

/* ---- the verifier ---- */

static const char *const prelude =
	"kernel {name=\"k\", threads=128} {\n"
	"  %z = const {value=0} : i32\n"
	"  %l = const {value=0} : i64\n"
	"  %f = const {fvalue=0.0} : f32\n"
	"  %t = const {value=1} : bool\n"
	"  %x = tensor %z, %z, %z, %z {dir=1, name=\"x\"} : tensor<bf16, rank 2>\n"
	"  %s = shared {name=\"s\"} : shared<bf16, 64x64>\n"
	"  %r = shared {name=\"r\", ring=2} : shared<bf16, 2x64x32>\n"
	"  %d = frag {name=\"d\"} : frag<f32, 64x64>\n"
	"  %e = frag {name=\"e\"} : frag<f32, 64>\n"
	"  %h = frag {name=\"h\"} : frag<bf16, 64x64>\n"
	"  %m = mbarrier {name=\"m\", slots=1, count=1} : mbarrier\n"
	"  %b = barrier {name=\"b\", from=\"A\"} : barrier\n"
	"  %v = var {name=\"v\"} : var<i32>\n";

static const struct { const char *op, *error; } ill_formed[] = {
	{ "%1 = add %z : i32", "add: 1 operands" },
	{ "%1 = thread : var<i32>", "thread: the result is var<i32>" },
	{ "%1 = thread : f32", "the result is f32, not i32" },
	{ "thread", "the result is missing" },
	{ "%1 = add %z, %l : i32", "operand 1 is i64, not i32" },
	{ "%1 = and %f, %f : f32", "not defined on f32" },
	{ "%1 = exp2 %z : i32", "not defined on i32" },
	{ "%1 = fma %z, %z, %z : i32", "not defined on i32" },
	{ "%1 = ldexp %f, %l : f32", "operand 1 is i64, not i32" },
	{ "%1 = cmp %z, %z {pred=\"less\"} : bool", "{pred} is \"less\"" },
	{ "%1 = cmp %z, %l {pred=\"lt\"} : bool", "not scalars of one type" },
	{ "%1 = cmp %z, %z {pred=\"lt\"} : i32", "the result is i32, not bool" },
	{ "%1 = select %z, %z, %z : i32", "operand 0 is i32, not bool" },
	{ "%1 = bitcast %z : i64", "the sizes differ" },
	{ "%1 = div %z, %z, %z : i32", "operand 2 is i32, not bool" },
	{ "%1 = shl %z, %l : i32", "operand 1 is i64, not i32" },
	{ "%1 = cast %f, %z : i32", "operand 1 is i32, not bool" },
	{ "%1 = const {value=1} : f32", "a literal of type f32 has {fvalue} and nothing else" },
	{ "%1 = const {fvalue=1.0} : i32", "a literal of type i32 has {value} and nothing else" },
	{ "%1 = block_idx {axis=3} : i32", "{axis} is 3" },
	{ "%1 = get %z : i32", "operand 0 is i32" },
	{ "%1 = get %v : f32", "the result is f32, not i32" },
	{ "set %v, %f", "operand 1 is f32, not i32" },
	{ "%1 = load %s, %z : bf16", "2 operands for rank 2" },
	{ "%1 = load %s, %z, %f : bf16", "operand 2 is f32, not an integer" },
	{ "%1 = load %s, %z, %z : f32", "f32 element of shared<bf16, 64x64>" },
	{ "%1 = load %s, %z, %z, %t : bf16", "4 operands for rank 2" },
	{ "%1 = load %d, %z, %z : f32", "outside an element loop" },
	{ "%1 = load %z : i32", "operand 0 is not an object" },
	{ "store %f, %s, %z, %z", "f32 element" },
	{ "atomic %f, %x, %z, %z {rmw=\"xor\"}", "{rmw} is \"xor\"" },
	{ "fill %d, %z", "operand 1 is i32, not f32" },
	{ "fill %z, %z", "operand 0 is i32, not a tile" },
	{ "copy %s, %e", "do not agree" },
	{ "copy %s, %d, %f", "operand 2 is f32, not an integer" },
	{ "mma %d, %s, %s", "{acc} is missing" },
	{ "mma %s, %s, %s {acc=0}", "operand 0 is shared<bf16, 64x64>, not a fragment" },
	{ "mma %d, %s, %r {acc=0}", "not matrices" },
	{ "%1 = view %r, %z {dims=[-1, 0, 0]} : view.shared<bf16, 64x32> mma %d, %s, %1 {acc=0}", "64x64 = 64x64 @ 64x32 do not agree" },
	{ "%1 = view %s {dims=[0]} : view.shared<bf16, 64>", "1 {dims} for rank 2" },
	{ "%1 = view %s {dims=[8, 0]} : view.shared<bf16, 8x64>", "0 starts for 1 sliced" },
	{ "%1 = view %s, %z {dims=[8, 0]} : view.shared<bf16, 9x64>", "extent 0 of the result is 9, not 8" },
	{ "%1 = view %r, %z {dims=[-1, 0, 0], trans=1} : view.shared<bf16, 64x32>", "extent 0 of the result is 64, not 32" },
	{ "%1 = view %s, %z {dims=[-1, 0]} : view.shared<bf16, 1x64>", "has rank 2, not 1" },
	{ "%1 = view %s, %z {dims=[8, 0]} : view.shared<f32, 8x64>", "not a view of its object" },
	{ "%1 = view %s, %z {dims=[8, 0]} : view.frag<bf16, 8x64>", "not a view of its object" },
	{ "%1 = thread : i32 %2 = view %d, %1 {dims=[8, 0]} : view.frag<f32, 8x64>", "not a constant" },
	{ "%1 = view %s {dims=[0, 0]} : view.shared<bf16, 64x64> %2 = view %1 {dims=[0, 0]} : view.shared<bf16, 64x64>", "operand 0 is not an object" },
	{ "weave %d, %d", "the target is of f32, not of 8 bits" },
	{ "%1 = frag : frag<u8, 64x64> weave %d, %1 {byte=0}", "a byte of f32, not of 16 bits" },
	{ "reduce %d, %e {kind=\"sum\", axis=2}", "{axis} is 2" },
	{ "reduce %d, %d {kind=\"sum\", axis=0}", "does not reduce" },
	{ "scan %d {kind=\"max\", axis=0}", "{kind} is \"max\"" },
	{ "tma_load %s, %x, %m, %z", "operand 0 is shared<bf16, 64x64>, not global" },
	{ "tma_store %s, %d", "operand 1 is frag<f32, 64x64>, not global" },
	{ "tma_load %x, %s, %b, %z", "operand 2 is barrier" },
	{ "arrive %b, %z", "operand 0 is barrier" },
	{ "wait %m, %f", "operand 1 is f32" },
	{ "sync %m", "operand 0 is mbarrier" },
	{ "wgmma_wait", "{n} is missing" },
	{ "wgmma_wait %s {n=0}", "operand 0 is shared" },
	{ "store_wait {n=\"x\"}", "{n} is a text, not an integer" },
	{ "sync {reverse=1}", "sync: has no attribute {reverse}" },
	{ "%1 = frag {warp_scope=2} : frag<f32, 4x4>", "{warp_scope} is 2, not in 0 to 1" },
	{ "%1 = view %s, %z {dims=[-64, 0]} : view.shared<bf16, 64>", "{dims} is -64, not in -1 to" },
	{ "%1 = view %s, %z {dims=[128, 0]} : view.shared<bf16, 128x64>", "dimension 0 takes 128 from 0 of 64" },
	{ "%1 = const {value=60} : i32 %2 = view %s, %1 {dims=[8, 0]} : view.shared<bf16, 8x64>", "dimension 0 takes 8 from 60 of 64" },
	{ "%1 = const {value=-1} : i32 %2 = view %s, %1 {dims=[-1, 0]} : view.shared<bf16, 64>", "dimension 0 takes 1 from -1 of 64" },
	{ "%1 = frag : frag<f32, 4x4x4>", "frag: has 3 dimensions, not 1 or 2" },
	{ "if %z { }", "operand 0 is i32, not bool" },
	{ "if %t", "region 0 is missing" },
	{ "for %z, %z, %z { }", "0 region arguments" },
	{ "for %z, %z, %l (%i : i32) { }", "operand 2 is i64" },
	{ "for %z, %z, %z (%i : i64) { }", "region argument 0 is not i32" },
	{ "while { } { }", "does not end in yield" },
	{ "yield %t", "does not end the condition" },
	{ "parallel {extents=[4]} (%i : i32, %j : i32) { }", "1 {extents} for 2 indices" },
	{ "parallel {extents=[4]} (%i : i32) { sync }", "sync: inside an element loop" },
	{ "parallel {extents=[4]} (%i : i32) { fill %s, %f }", "fill: inside an element loop" },
	{ "parallel {extents=[4]} (%i : i32) { if %t { } }", "if: inside an element loop" },
	{ "parallel {extents=[4]} (%i : i32) { %1 = view %s {dims=[0, 0]} : view.shared<bf16, 64x64> }", "view: inside an element loop" },
	{ "if %t { %1 = shared {name=\"n\"} : shared<f32, 4> }", "not at the top" },
	{ "%1 = shared {name=\"n\", ring=3} : shared<f32, 4x4>", "{ring} is 3" },
	{ "%1 = frag : frag<f32, 0x4>", "extent 0 is 0" },
	{ "%1 = frag : shared<f32, 4>", "the result is shared<f32, 4>" },
	{ "%1 = tensor %z, %z {name=\"y\", dir=1} : tensor<f32, rank 2>", "2 operands for rank 2" },
	{ "%1 = tensor %z {name=\"y\", dir=4} : tensor<f32, rank 1>", "{dir} is 4" },
	{ "%1 = tensor %z, %z {name=\"y z\", dir=1} : tensor<f32, rank 1>", "{name} is \"y z\", not letters, digits and _" },
	{ "%1 = dim {name=\"1\"} : i32", "{name} is \"1\", not letters, digits and _" },
	{ "%1 = tensor %z, %z {name=\"y\", dir=1} : tensor<f32, rank 1>", "a tensor behind '" },
	{ "%1 = mbarrier {name=\"n\", slots=1} : mbarrier", "neither {from} nor {count}" },
	{ "%1 = barrier {name=\"n\"} : barrier", "neither {from} nor {count}" },
	{ "role {name=\"A\", first_warp=0, warps=1} (%i : i32) { }", "{instances} is missing" },
	{ "once { role {name=\"A\", first_warp=0, warps=1, instances=1} (%i : i32) { } }", "inside a role or 'once'" },
	{ "kernel {name=\"n\", threads=32} { }", "inside a kernel" },
	{ "print %s {format=\"\"}", "operand 0 is shared" },
	{ "assert %z", "operand 0 is i32, not bool" },
	{ "if %t { %1 = thread : i32 } { set %v, %1 }", "operand 1 (%1) is not visible here" },
	{ "for %z, %z, %z (%1 : i32) { } set %v, %1", "operand 1 (%1) is not visible here" },
};

static void test_verifier(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof ill_formed / sizeof ill_formed[0]; i++) {
		char text[2048];
		snprintf(text, sizeof text, "%s  %s\n}\n", prelude, ill_formed[i].op);
		Fixture f = parse(text);
		char *errors = errors_of(&f);
		if (!f.tir)
			fail_msg("`%s` does not parse:\n%s", ill_formed[i].op, errors);
		free(errors);
		bool sound = tir_verify(f.tir);
		errors = errors_of(&f);
		if (sound || !strstr(errors, ill_formed[i].error))
			fail_msg("`%s`: expected `%s` in:\n%s", ill_formed[i].op, ill_formed[i].error, errors);
		free(errors);
		arena_free(f.arena);
	}
}

static void test_prelude_is_sound(void **state)
{
	(void)state;
	char text[2048];
	snprintf(text, sizeof text, "%s}\n", prelude);
	Fixture f = parse(text);
	assert_non_null(f.tir);
	assert_true(tir_verify(f.tir));
	arena_free(f.arena);
}

/* ---- queries ---- */

static Op *find_op(const Tir *t, Opcode code)
{
	for (Op *op = t->first->regions[0]->first; op; op = op->next) {
		if (op->code == code)
			return op;
		if (op->code != OP_ROLE)
			continue;
		for (Op *in = op->regions[0]->first; in; in = in->next)
			if (in->code == code)
				return in;
	}
	return NULL;
}

static void test_tile_ref(void **state)
{
	(void)state;
	Fixture f = parse("kernel {name=\"k\", threads=256} {\n"
		"  %j = const {value=5} : i32\n"
		"  %s = shared {name=\"s\", ring=3} : shared<bf16, 3x64x128>\n"
		"  role {name=\"A\", first_warp=4, warps=2, instances=2} (%i : i32) {\n"
		"    %v = view %s, %i, %j {dims=[-1, 0, 32], trans=1} : view.shared<bf16, 32x64>\n"
		"  }\n"
		"}\n");
	assert_non_null(f.tir);
	assert_true(tir_verify(f.tir));
	Op *view = find_op(f.tir, OP_VIEW), *tile = find_op(f.tir, OP_SHARED);
	TileRef r = tile_ref(view->result);
	int64_t c;
	assert_ptr_equal(r.object, tile);
	assert_int_equal(r.space, TY_SHARED);
	assert_int_equal(r.rank, 2);
	assert_int_equal(r.shape[0], 32);
	assert_int_equal(r.object_rank, 3);
	assert_ptr_equal(r.start[0], view->args[1]);
	assert_null(r.start[1]);
	assert_true(value_const_int(r.start[2], &c) && c == 5);
	assert_false(value_const_int(r.start[0], &c));
	assert_true(r.trans && !r.warp_scope);
	TileRef whole = tile_ref(tile->result);
	assert_int_equal(whole.rank, 3);
	assert_int_equal(whole.dims[2], 0);
	assert_int_equal(team_warps(tir_team(view)), 2);
	assert_int_equal(team_warps(tir_team(tile)), 8);
	assert_null(tir_enclosing(tile, OP_ROLE));
	arena_free(f.arena);
}

/* Every name of the tables is one of the other. */
static void test_attribute_table(void **state)
{
	(void)state;
	for (int id = 0; id < ATTR_IDS; id++) {
		int ops = 0;
		assert_int_equal(attr_from_text(attr_info((AttrId)id)->text), id); /* they are sorted */
		for (int op = 0; op < OP_COUNT; op++)
			ops += op_attr_use((Opcode)op, (AttrId)id) != USE_NEVER;
		if (!ops)
			fail_msg("no op has {%s}", attr_info((AttrId)id)->text);
	}
	for (int op = 0; op < OP_COUNT; op++) {
		char *copy = strdup(op_info((Opcode)op)->attributes);
		for (char *name = strtok(copy, " ?"); name; name = strtok(NULL, " ?"))
			if (attr_from_text(name) == ATTR_IDS)
				fail_msg("{%s} of %s is no row of attrs.def", name, op_info((Opcode)op)->text);
		free(copy);
	}
	assert_int_equal(attr_from_text("warps_scope"), ATTR_IDS);
}

static void test_op_table(void **state)
{
	(void)state;
	for (int i = 0; i < OP_COUNT; i++)
		assert_int_equal(op_from_text(op_info((Opcode)i)->text), i);
	assert_int_equal(op_from_text("nothing"), OP_COUNT);
}

static void test_layouts(void **state)
{
	static const char *const texts[] = { "mma", "mma8", "linear", "swizzle128", "swizzle64", "swizzle32", "blocked(4)", "blocked(1,8)",
		"rows(mma 64x128)", "cols(blocked(2,4) 32x64)" };
	static const char *const none[] = { "", "mm", "mma9", "swizzle16", "swizzle128x", "blocked", "blocked()", "blocked(1,2", "blocked(1, 2)",
		"rows(mma)", "rows(mma 64x64) ", "rows(linear 8x8)", "rows(blocked(4) 8x8)", "rows(rows(mma 8x8) 8x8)" };
	Arena *a = arena_new();

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		const Form *f = form_from_text(a, texts[i]);
		assert_non_null(f);
		assert_string_equal(form_text(a, f), texts[i]);
		for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
			assert_int_equal(form_equal(f, form_from_text(a, texts[k])), i == k);
	}
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		assert_null(form_from_text(a, none[i]));
	arena_free(a);
	Fixture f = parse("kernel {name=\"k\", threads=128} { %d = frag {layout=\"mmaa\"} : frag<f32, 64x64> }");
	assert_null(f.tir);
	char *errors = errors_of(&f);
	assert_non_null(strstr(errors, "\"mmaa\" is no layout"));
	free(errors);
	arena_free(f.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_build),
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_parse_errors),
		cmocka_unit_test(test_prelude_is_sound),
		cmocka_unit_test(test_verifier),
		cmocka_unit_test(test_tile_ref),
		cmocka_unit_test(test_op_table),
		cmocka_unit_test(test_attribute_table),
		cmocka_unit_test(test_layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
