/* test_lowering.c - every operation, element type and math function goes through the verifier and both lowerings:
 * what the verifier accepts has code, and what it refuses has not reached a lowering. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "compiler/elaborate/elaborate.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/pass.h"
#include "tests/unit/fixture.h"

enum { DTYPES = DT_END };

static Tir *elaborate_text(const Fixture *f, const char *text, const char *define)
{
	const Ast *ast = ast_parse(f->arena, f->diags, add_source(f, "t", text));
	ElabOptions o = { .machine = machine_default(), .defines = &define, .ndefines = define != NULL };

	return ast && !diags_error_count(f->diags) ? elaborate(f->arena, f->diags, ast, "t", &o) : NULL;
}

/* Passes, then code for both targets; fails the test with the messages. */
static void lower_both(const Fixture *f, const Tir *t)
{
	for (int target = LOWER_GPU; target <= LOWER_CPU; target++) {
		LowerOptions o = { .target = (LowerTarget)target, .form = LOWER_CODE, .opt_level = 1 };
		LowerResult r;

		if (!lower_module(f->arena, t, &o, &r))
			fail_msg("target %d:\n%s", target, errors_of(f));
		assert_true(r.len > 0);
	}
}

/* ---- every operation ---- */

static const char *const programs[] = {
	/* scalars, loops, elements, debugging */
	"dim N;\nkernel a(inout f32 x[N], optional in f32 z[N], inout i32 n[4], out i64 c[4], i32 s) grid (cdiv(sm_count, 2)) threads (64) {\n"
	"	i32 i = 0; f32 v = x[thread()]; i32 b = n[lane() % 4] + blockIdx.x * gridDim.x + warp();\n"
	"	while (i < s) { i++; v = fma(v, 2.0, abs(v)) - min(v, -v) / max(v, 3.0); }\n"
	"	for (i32 k = 0; k < s; k++) b = (b << 1) ^ (b >> 3) & ~b | (b * k % 7);\n"
	"	if (present(z)) v = v + z[0]; else v = bitcast(f32, b);\n"
	"	v = exp2(log2(sqrt(rsqrt(rcp(tanh(floor(ldexp(v, s))))))));\n"
	"	parallel (j < 64) x[j] = v > 1.0 ? v : f32(j);\n"
	"	parallel (j < 64) { x[j] = ptx(f32, \"neg.f32 $0, $1;\", x[j]) + f32(clock() + lane() + gridDim.x); print(\"%d\\n\", j); assert(v > 0.0, \"v\"); }\n"
	"	parallel (j < 64) trap();\n"
	"	once { c[0] = clock(); print(\"%d %f\\n\", b, v); assert(b > 0, \"b\"); atomic_add(n[1], 1); u32 q = ptx(u32, \"mov.u32 $0, $1;\", s); n[2] = i32(q); }\n"
	"	if (s == 77) trap();\n"
	"	stamp(1);\n"
	"}\n",
	/* tiles, products, collectives */
	"kernel b(in f16 x[64][64], in f16 z[64][64], out f32 y[64][64], out f32 w[64]) grid (1) threads (128) {\n"
	"	shared f16 a[64][64], b[64][64]; frag f32 d[64][64], e[64], g[64][64];\n"
	"	cp_async(x, a); cp_async_commit(); cp_async_wait(0); copy(z, b); sync();\n"
	"	g = 0.5; async { d = a @ b; } parallel (i < 64, j < 64) g[i][j] = exp2(g[i][j]); wgmma_wait(0); d += a @ b;\n"
	"	cumsum(d, 1); reduce_sum(d, e, 1); copy(g, y); copy(d, y); fill(d, 1.0); copy(e, w);\n"
	"	frag e4m3 n[64][64]; weave(d, n); copy(n, y);\n"
	"}\n",
	"kernel c(in f16 x[16][16], in f16 z[16][8], out f32 y[16][8]) grid (1) threads (32) {\n"
	"	warp frag f16 a[16][16], b[16][8]; warp frag f32 d[16][8]; copy(x, a); copy(z, b); d = a @ b; copy(d, y);\n"
	"}\n",
	/* asynchronous copies and barriers */
	"kernel d(in f32 x[64][32], inout f32 y[64][32], in f32 u[32], out f32 o[32]) grid (2) threads (96) cluster (2) {\n"
	"	shared f32 s[64][32], t[64][32], l[32]; mbarrier m[ring 1] from(A), q[2] count(1), r[ring 1] from(A, B); barrier h from(A, B);\n"
	"	grid_wait(); i32 rank = cluster_rank(); cluster_sync();\n"
	"	role A warp(0) { tma_load(x, s, m[0]); bulk_load(u, l, m[0]); arrive(m[0]); arrive(q[0]); wait(q[0], 0); arrive(r[0]); arrive(r[0], 1); sync_arrive(h); }\n"
	"	role B warp(1..2) { wait(m[0]); copy(s, t); unfenced(); sync_warp(); sync(); fence_async(); fence_async_global(); fence_device(); sync(h); tma_store(t, y); bulk_store(l, o); store_wait(0); arrive(r[0]); arrive(r[0], 0); }\n"
	"	grid_launch();\n"
	"}\n",
	"kernel e(inout f32 y[64], i32 n) grid (1) threads (64) {\n"
	"	mbarrier m[2][ring 2] count(1), w[ring 3] count(2); role A warp(0..1) { arrive(m[n % 2][0]); wait(m[n % 2][0]); y[0] = 1.0;\n"
	"	i32 j = n; for (i32 k = 0; k < n; k++) { arrive(w[j]); wait(w[j]); j++; }\n"
	"	bool some = false; parallel (i < 64) some |= y[i] > 0; if (any(some) && all(some, warp)) y[1] = inf;\n"
	"	if (n == 77) parallel (i < 64) { trap(); y[i] = ptx(f32, \"mov.f32 $0, $1;\", y[i]) else (y[0] + f32(clock())); } }\n"
	"}\n",
};

static bool note_op(Op *op, void *seen)
{
	((bool *)seen)[op->code] = true;
	return true;
}

static void test_every_op(void **state)
{
	(void)state;
	bool seen[OP_COUNT] = { [OP_KERNEL] = true };

	for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
		Fixture f = fixture();
		Tir *t = elaborate_text(&f, programs[i], "TRACE=4");

		for (Op *k = t ? t->first : NULL; k; k = k->next)
			tir_walk(k->regions[0], note_op, seen); /* some are others behind the passes */
		if (!t || !passes_run(t, &(PassOptions){ 0 }))
			fail_msg("program %zu:\n%s", i, errors_of(&f));
		for (Op *k = t->first; k; k = k->next)
			tir_walk(k->regions[0], note_op, seen);
		lower_both(&f, t);
		arena_free(f.arena);
	}
	for (int op = 0; op < OP_COUNT; op++)
		if (!seen[op])
			fail_msg("no program here has `%s`", op_info((Opcode)op)->text);
}

/* Whichever value is the first of a kernel; scans across the warps of a role find their scratch. */
static void test_first_value_is_a_tile(void **state)
{
	(void)state;
	Fixture f = fixture();
	Tir *t = tir_parse(f.arena, f.diags, machine_default(), add_source(&f, "t", "kernel {name=\"k\", threads=384} {\n"
		"  %0 = shared {name=\"s\"} : shared<f32, 16>\n"
		"  role {first_warp=8, instances=1, name=\"One\", warps=4} (%j : i32) {\n"
		"    %g = frag {layout=\"blocked(1,4)\", name=\"g\"} : frag<f32, 4x512>\n"
		"    %zero = const {fvalue=0.0} : f32\n    fill %0, %zero\n    fill %g, %zero\n"
		"    scan %g {axis=1, kind=\"prod\"}\n  }\n}\n"));

	if (!t || !passes_run(t, &(PassOptions){ 0 }))
		fail_msg("%s", errors_of(&f));
	lower_both(&f, t);
	arena_free(f.arena);
}

/* ---- every scalar operation on every element type ---- */

typedef struct Sum { FILE *out; char *text; size_t len; int accepted[OP_COUNT]; } Sum;

static void put_tensors(FILE *out)
{
	fputs("kernel {name=\"k\", threads=32} {\n  %n = const {value=64} : i32\n  %one = const {value=1} : i32\n", out);
	for (int d = DT_NONE + 1; d < DTYPES; d++)
		fprintf(out, "  %%t%d = tensor %%n, %%one {name=\"t%d\", dir=3} : tensor<%s, rank 1>\n", d, d, dtype_name((DType)d));
	fputs("  grid %one\n", out);
}

static const char *attributes_of(Opcode op)
{
	switch (op) {
	case OP_CMP: return " {pred=\"lt\"}";
	case OP_BLOCK_IDX: case OP_GRID_DIM: return " {axis=1}";
	default: return "";
	}
}

/* Loads the operands, computes, stores the result; names end in n. */
static void put_case(FILE *out, Opcode op, const DType *types, DType result, int n, const char *index)
{
	const OpInfo *info = op_info(op);
	int least, most;

	op_arity(op, &least, &most);
	for (int i = 0; i < least; i++)
		fprintf(out, "  %%a%d_%d = load %%t%d, %s : %s\n", n, i, types[i], index, dtype_name(types[i]));
	fprintf(out, "  %%r%d = %s", n, info->text);
	for (int i = 0; i < least; i++)
		fprintf(out, "%s%%a%d_%d", i ? ", " : " ", n, i);
	fprintf(out, "%s : %s\n  store %%r%d, %%t%d, %s\n", attributes_of(op), dtype_name(result), n, result, index);
}

static bool verifies(Opcode op, const DType *types, DType result)
{
	Fixture f = fixture();
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	put_tensors(out);
	put_case(out, op, types, result, 0, "%one");
	fputs("}\n", out);
	fclose(out);
	Tir *t = tir_parse(f.arena, f.diags, machine_default(), add_source(&f, "t", text));
	if (!t)
		fail_msg("%s:\n%s", text, errors_of(&f));
	bool sound = tir_verify(t);
	arena_free(f.arena);
	free(text);
	return sound;
}

/* Each is emitted as a thread's own operation, and in an element loop, where 16-bit floats go in pairs. */
static void add_case(Sum *s, Opcode op, const DType *types, DType result, FILE *loop, int *n)
{
	if (!verifies(op, types, result))
		return;
	put_case(s->out, op, types, result, ++*n, "%one");
	put_case(loop, op, types, result, ++*n, "%i");
	s->accepted[op]++;
}

static bool is_scalar_op(Opcode op)
{
	const OpInfo *info = op_info(op);
	return info->result == RES_SCALAR && info->effect == FX_PURE && op != OP_CONST && op != OP_PRESENT && op != OP_SM_COUNT;
}

static void test_scalar_ops_on_types(void **state)
{
	(void)state;
	Fixture f = fixture();
	Sum s = { 0 };
	char *loop_text = NULL;
	size_t loop_len;
	int n = 0;
	FILE *loop = open_memstream(&loop_text, &loop_len);

	s.out = open_memstream(&s.text, &s.len);
	put_tensors(s.out);
	for (int op = 0; op < OP_COUNT; op++) {
		for (int a = DT_NONE + 1; is_scalar_op((Opcode)op) && a < DTYPES; a++)
			for (int r = DT_NONE + 1; r < DTYPES; r++) {
				bool two = op == OP_CAST || op == OP_BITCAST || op == OP_CMP;
				DType types[3] = { op == OP_SELECT ? DT_BOOL : (DType)a, op == OP_LDEXP ? DT_I32 : (DType)a, (DType)a };

				if (two || r == a)
					add_case(&s, (Opcode)op, types, (DType)r, loop, &n);
			}
		if (is_scalar_op((Opcode)op) && !s.accepted[op])
			fail_msg("the verifier accepts `%s` on no type", op_info((Opcode)op)->text);
	}
	fclose(loop);
	fprintf(s.out, "  parallel {extents=[64]} (%%i : i32) {\n%s  }\n}\n", loop_text);
	fclose(s.out);
	Tir *t = tir_parse(f.arena, f.diags, machine_default(), add_source(&f, "t", s.text));
	if (!t || !passes_run(t, &(PassOptions){ 0 }))
		fail_msg("%s", errors_of(&f));
	lower_both(&f, t);
	assert_int_equal(s.accepted[OP_CAST], (DTYPES - 1) * (DTYPES - 1));
	assert_int_equal(s.accepted[OP_ADD], DTYPES - 4); /* not bool, not e4m3, not e5m2 */
	assert_int_equal(s.accepted[OP_EXP2], 4);
	free(s.text);
	free(loop_text);
	arena_free(f.arena);
}

/* ---- every pure function of the language on every type, of constants and of values ---- */

typedef struct Function { const char *name, *args; } Function;
static const Function functions[] = {
#define BUILTIN(name, signature, args, flags, handler, op) { (flags)[1] == 'P' && (args)[0] == 'e' ? name : NULL, args },
#include "compiler/elaborate/builtins.def"
#undef BUILTIN
};

/* "name(a, a)" of x, "" first for bitcast. */
static char *call_text(Arena *a, const Function *fn, const char *x, DType t)
{
	bool typed = strcmp(fn->name, "bitcast") == 0;
	char *s = arena_printf(a, typed ? "%s(%s" : "%s(", fn->name, dtype_name(t));

	for (const char *p = fn->args; *p; p++)
		s = arena_printf(a, "%s%s%s", s, p == fn->args && !typed ? "" : ", ", *p == 'i' ? "2" : x);
	return arena_printf(a, "%s)", s);
}

static void test_functions_on_types(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		int good = 0;

		for (int d = DT_NONE + 1; functions[i].name && d < DTYPES; d++) {
			Fixture f = fixture();
			const char *t = dtype_name((DType)d);
			const char *constant = arena_printf(f.arena, "%s(%d)", t, 2), *text = arena_printf(f.arena,
				"kernel k(inout %s x[64]) grid (1) threads (32) {\n"
				"	%s c = %s(%s);\n	x[0] = %s(%s);\n	parallel (i < 64) x[i] = %s(%s) + c;\n}\n", t, t,
				t, call_text(f.arena, &functions[i], constant, (DType)d), t, call_text(f.arena, &functions[i], "x[1]", (DType)d),
				t, call_text(f.arena, &functions[i], "x[i]", (DType)d));
			Tir *tir = elaborate_text(&f, text, NULL);

			if (tir && passes_run(tir, &(PassOptions){ 0 })) {
				lower_both(&f, tir);
				good++;
			}
			char *errors = errors_of(&f);
			if (strstr(errors, "[tir]") || (!tir && !*errors))
				fail_msg("%s:\n%s", text, errors);
			free(errors);
			arena_free(f.arena);
		}
		if (functions[i].name && good < 4)
			fail_msg("%s works on %d types only", functions[i].name, good);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_op),
		cmocka_unit_test(test_first_value_is_a_tile),
		cmocka_unit_test(test_scalar_ops_on_types),
		cmocka_unit_test(test_functions_on_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
