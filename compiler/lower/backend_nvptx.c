/* backend_nvptx.c - the program as PTX: NVVM intrinsics where LLVM has them, inline PTX where not. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/analysis/effects.h"
#include "compiler/lower/context.h"

#include <llvm-c/Target.h>

enum { SPACE_GLOBAL = 1, SPACE_SHARED = 3 }; /* of addresses */

#define INTR(L, name, ...) intrinsic(L, name, NULL, 0, (V[]){ __VA_ARGS__ }, (unsigned)(sizeof((V[]){ __VA_ARGS__ }) / sizeof(V)))

static V call0(Lower *L, const char *name) { return intrinsic(L, name, NULL, 0, NULL, 0); }

static void call_attr(Lower *L, V c, const char *name)
{
	LLVMAddCallSiteAttribute(c, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(L->cx, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0));
}

/* Inline PTX with side effects; convergent and unwinding nowhere. */
static V ptx(Lower *L, const char *text, const char *constraints, T result, V *args, unsigned n)
{
	T *types = ARENA_ARRAY(L->arena, T, n + 1);
	for (unsigned i = 0; i < n; i++)
		types[i] = LLVMTypeOf(args[i]);
	T ft = LLVMFunctionType(result ? result : L->void_t, types, n, 0);
	V f = LLVMGetInlineAsm(ft, text, strlen(text), constraints, strlen(constraints), 1, 0, LLVMInlineAsmDialectATT, 0);
	V c = LLVMBuildCall2(L->b, ft, f, args, n, "");
	call_attr(L, c, "nounwind");
	call_attr(L, c, "convergent");
	return c;
}

static V word_address(Lower *L, V shared) { return LLVMBuildPtrToInt(L->b, shared, L->i32, ""); }

static V nv_thread(Lower *L) { return call0(L, "llvm.nvvm.read.ptx.sreg.tid.x"); }

static V by_axis(Lower *L, const char *name, int axis)
{
	V v = call0(L, arena_printf(L->arena, "llvm.nvvm.read.ptx.sreg.%s.%c", name, "xyz"[axis]));
	LLVMAddCallSiteAttribute(v, LLVMAttributeReturnIndex, attribute_nonnegative(L));
	return v;
}

static V nv_block_idx(Lower *L, int axis) { return by_axis(L, "ctaid", axis); }
static V nv_grid_dim(Lower *L, int axis) { return by_axis(L, "nctaid", axis); }
static V nv_cluster_rank(Lower *L) { return call0(L, "llvm.nvvm.read.ptx.sreg.cluster.ctarank"); }

static V nv_shfl(Lower *L, V v, int mode, V lane)
{
	static const char *const names[] = { "idx", "up", "down", "bfly" };
	return INTR(L, arena_printf(L->arena, "llvm.nvvm.shfl.sync.%s.i32", names[mode]), const_i32(L, -1), v, lane, const_i32(L, mode == 1 ? 0 : 31));
}

static V nv_uniform(Lower *L, V v) { return nv_shfl(L, v, 0, const_i32(L, 0)); }

static V nv_math(Lower *L, Opcode op, V x)
{
	static const struct { Opcode op; const char *name; bool overloaded; } table[] = {
#define MATH(op, fold, nvvm, overloaded, host, flush, inverse) { op, nvvm, overloaded },
#include "compiler/tir/math.def"
#undef MATH
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (table[i].op != op)
			continue;
		V r = intrinsic(L, table[i].name, &L->f32, table[i].overloaded, &x, 1);
		if (op == OP_TANH)
			LLVMSetFastMathFlags(r, LLVMFastMathApproxFunc);
		return r;
	}
	return NULL;
}

static V nv_div(Lower *L, V a, V b) { return LLVMBuildFMul(L->b, a, nv_math(L, OP_RCP, b), ""); }

/* PTX's conversions saturate; only to 64 bits NaN is not 0. */
static V nv_to_integer(Lower *L, V v, bool is_signed, unsigned bits)
{
	if (bits == 32)
		return intrinsic(L, is_signed ? "llvm.nvvm.f2i.rz" : "llvm.nvvm.f2ui.rz", NULL, 0, &v, 1);
	V r = intrinsic(L, is_signed ? "llvm.nvvm.f2ll.rz" : "llvm.nvvm.f2ull.rz", NULL, 0, &v, 1);
	return LLVMBuildSelect(L->b, LLVMBuildFCmp(L->b, LLVMRealUNO, v, v, ""), const_i64(L, 0), r, "");
}

static V nv_to_tf32(Lower *L, V v)
{
	return LLVMBuildBitCast(L->b, intrinsic(L, "llvm.nvvm.f2tf32.rn", NULL, 0, &v, 1), L->f32, "");
}

static bool is_e4m3(DType d) { return d == DT_E4M3; }

static V nv_narrow8(Lower *L, DType to, V lo, V hi)
{
	return intrinsic(L, is_e4m3(to) ? "llvm.nvvm.ff.to.e4m3x2.rn" : "llvm.nvvm.ff.to.e5m2x2.rn", NULL, 0, (V[]){ hi, lo }, 2);
}

static void nv_widen8(Lower *L, DType from, V pair, V out[2])
{
	V halves = intrinsic(L, is_e4m3(from) ? "llvm.nvvm.e4m3x2.to.f16x2.rn" : "llvm.nvvm.e5m2x2.to.f16x2.rn", NULL, 0, &pair, 1);
	for (int i = 0; i < 2; i++)
		out[i] = LLVMBuildFPExt(L->b, LLVMBuildExtractElement(L->b, halves, const_i32(L, i), ""), L->f32, "");
}

/* PTX's shifts clamp the count, LLVM's do not. */
static V nv_shift(Lower *L, LLVMOpcode how, V a, V n)
{
	static const char *const names[2][3] = { { "shl.b32", "shr.s32", "shr.u32" }, { "shl.b64", "shr.s64", "shr.u64" } };
	bool wide = LLVMTypeOf(a) == L->i64;
	const char *name = names[wide][how == LLVMShl ? 0 : how == LLVMAShr ? 1 : 2];
	if (wide) {
		n = intrinsic(L, "llvm.umin", &L->i64, 1, (V[]){ n, const_i64(L, 64) }, 2);
		n = LLVMBuildTrunc(L->b, n, L->i32, "");
	}
	const char *text = arena_printf(L->arena, "%s $0, $1, $2;", name), *regs = wide ? "=l,l,r" : "=r,r,r";
	T t = LLVMTypeOf(a), ft = LLVMFunctionType(t, (T[]){ t, L->i32 }, 2, 0);
	V f = LLVMGetInlineAsm(ft, text, strlen(text), regs, strlen(regs), 0, 0, LLVMInlineAsmDialectATT, 0);
	return LLVMBuildCall2(L->b, ft, f, (V[]){ a, n }, 2, "");
}

static void nv_enter_role(Lower *L, const char *name, V instance) { (void)L; (void)name; (void)instance; }

static void nv_setmaxnreg(Lower *L, int count, bool increase)
{
	INTR(L, increase ? "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32" : "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32", const_i32(L, count));
}

static void nv_mbar_init(Lower *L, V bar, const Op *object, int slot)
{
	(void)slot;
	ptx(L, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", NULL, (V[]){ word_address(L, bar), const_i32(L, attr_int(object, AT_COUNT, 1)) }, 2);
}

static void nv_mbar_init_done(Lower *L) { ptx(L, "fence.mbarrier_init.release.cluster;", "~{memory}", NULL, NULL, 0); }

static void nv_mbar_arrive(Lower *L, V bar, V bytes)
{
	if (bytes)
		ptx(L, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", NULL, (V[]){ word_address(L, bar), bytes }, 2);
	else
		ptx(L, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", NULL, (V[]){ word_address(L, bar) }, 1);
}

/* Without .release.cluster, for which ptxas puts a fence of the whole GPU in front: the slots of a ring are in shared memory, and a GEMM of
 * clusters ran at two thirds of its speed. */
static void nv_mbar_arrive_at(Lower *L, V bar, V rank)
{
	ptx(L, "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\tmbarrier.arrive.shared::cluster.b64 _, [there];\n\t}",
	    "r,r,~{memory}", NULL, (V[]){ word_address(L, bar), rank }, 2);
}

static void nv_mbar_expect(Lower *L, V bar, V bytes)
{
	ptx(L, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], $1;", "r,r,~{memory}", NULL, (V[]){ word_address(L, bar), bytes }, 2);
}

/* The loop is inside the asm: neither LLVM nor ptxas may unroll it. */
static void nv_mbar_wait(Lower *L, V bar, V parity)
{
	ptx(L, "{\n\t.reg .pred done;\n\tagain:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n\t@done bra ready;\n\tbra again;\n\tready:\n\t}",
	    "r,r,~{memory}", NULL, (V[]){ word_address(L, bar), parity }, 2);
}

/* Text "{$a, $b, ...}" of n operands from a. */
static int put_list(char *s, int a, int n)
{
	int len = sprintf(s, "{");
	for (int i = 0; i < n; i++)
		len += sprintf(s + len, "%s$%d", i ? ", " : "", a + i);
	return len + sprintf(s + len, "}");
}

static void nv_tma_load(Lower *L, V map, int rank, V dst, V bar, V *coord, unsigned ctas)
{
	char text[320], cons[64] = "r,l,r";
	int n = sprintf(text, "cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes%s [$0], [$1, ", rank,
	                ctas ? ".multicast::cluster" : "");
	n += put_list(text + n, 3, rank);
	sprintf(text + n, ctas ? "], [$2], $%d;" : "], [$2];", 3 + rank);
	V args[9] = { word_address(L, dst), LLVMBuildPtrToInt(L->b, map, L->i64, ""), word_address(L, bar) };
	for (int i = 0; i < rank; i++) {
		args[3 + i] = coord[i];
		strcat(cons, ",r");
	}
	args[3 + rank] = LLVMConstInt(L->i16, ctas, 0);
	strcat(cons, ctas ? ",h,~{memory}" : ",~{memory}");
	ptx(L, text, cons, NULL, args, (unsigned)(3 + rank + (ctas != 0)));
}

static void nv_tma_store(Lower *L, V map, int rank, V src, V *coord, bool add)
{
	char text[256], cons[64] = "r,l";
	int n = sprintf(text, "cp.%sasync.bulk.tensor.%dd.global.shared::cta%s.bulk_group [$1, ", add ? "reduce." : "", rank, add ? ".add.tile" : "");
	n += put_list(text + n, 2, rank);
	sprintf(text + n, "], [$0];");
	V args[8] = { word_address(L, src), LLVMBuildPtrToInt(L->b, map, L->i64, "") };
	for (int i = 0; i < rank; i++) {
		args[2 + i] = coord[i];
		strcat(cons, ",r");
	}
	strcat(cons, ",~{memory}");
	ptx(L, text, cons, NULL, args, (unsigned)(2 + rank));
}

static void nv_bulk_load(Lower *L, V dst, V src, V bytes, V bar)
{
	ptx(L, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];", "r,l,r,r,~{memory}", NULL,
	    (V[]){ word_address(L, dst), LLVMBuildPtrToInt(L->b, src, L->i64, ""), bytes, word_address(L, bar) }, 4);
}

static void nv_bulk_store(Lower *L, V dst, V src, V bytes)
{
	ptx(L, "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;", "l,r,r,~{memory}", NULL,
	    (V[]){ LLVMBuildPtrToInt(L->b, dst, L->i64, ""), word_address(L, src), bytes }, 3);
}

static void nv_bulk_commit(Lower *L) { ptx(L, "cp.async.bulk.commit_group;", "~{memory}", NULL, NULL, 0); }

static void nv_bulk_wait(Lower *L, int n, bool read)
{
	ptx(L, arena_printf(L->arena, "cp.async.bulk.wait_group%s %d;", read ? ".read" : "", n), "~{memory}", NULL, NULL, 0);
}

static void nv_cp_async(Lower *L, V dst, V src, unsigned bytes, V valid)
{
	ptx(L, arena_printf(L->arena, "cp.async.%s.shared.global [$0], [$1], %u, $2;", bytes == 16 ? "cg" : "ca", bytes), "r,l,r,~{memory}", NULL,
	    (V[]){ word_address(L, dst), LLVMBuildPtrToInt(L->b, src, L->i64, ""), valid }, 3);
}

static void nv_cp_async_commit(Lower *L) { ptx(L, "cp.async.commit_group;", "~{memory}", NULL, NULL, 0); }
static void nv_cp_async_wait(Lower *L, int n) { ptx(L, arena_printf(L->arena, "cp.async.wait_group %d;", n), "~{memory}", NULL, NULL, 0); }
static void nv_fence_device(Lower *L) { ptx(L, "fence.acq_rel.gpu;", "~{memory}", NULL, NULL, 0); }
static void nv_fence_async_global(Lower *L) { ptx(L, "fence.proxy.async.global;", "~{memory}", NULL, NULL, 0); }
static void nv_fence_async(Lower *L) { ptx(L, "fence.proxy.async.shared::cta;", "~{memory}", NULL, NULL, 0); }

static void nv_bar_sync(Lower *L, V id, unsigned threads, const Op *object)
{
	(void)object;
	ptx(L, arena_printf(L->arena, "bar.sync $0, %u;", threads), "r,~{memory}", NULL, (V[]){ id }, 1);
}

static void nv_bar_arrive(Lower *L, V id, unsigned threads, const Op *object)
{
	(void)object;
	ptx(L, arena_printf(L->arena, "bar.arrive $0, %u;", threads), "r,~{memory}", NULL, (V[]){ id }, 1);
}

/* Unlike a comparison of the thread's number this needs no register, nor the slow read of the number that ptxas puts in its place. */
static V nv_one_lane(Lower *L)
{
	V elected = INTR(L, "llvm.nvvm.elect.sync", const_i32(L, -1));
	return LLVMBuildExtractValue(L->b, elected, 1, "");
}

static V nv_vote(Lower *L, V value, bool all, V id, unsigned threads)
{
	if (!id)
		return INTR(L, all ? "llvm.nvvm.vote.all.sync" : "llvm.nvvm.vote.any.sync", const_i32(L, -1), value);
	const char *text = arena_printf(L->arena, "{ .reg .pred p, q; setp.ne.u32 p, $1, 0; bar.red.%s.pred q, $2, %u, p; selp.u32 $0, 1, 0, q; }",
		all ? "and" : "or", threads);
	V word = ptx(L, text, "=r,r,r,~{memory}", L->i32, (V[]){ LLVMBuildZExt(L->b, value, L->i32, ""), id }, 2);
	return LLVMBuildICmp(L->b, LLVMIntNE, word, const_i32(L, 0), "");
}

static void nv_syncwarp(Lower *L) { ptx(L, "bar.warp.sync 0xffffffff;", "~{memory}", NULL, NULL, 0); }

/* ---- products ---- */

static V descriptor(Lower *L, V lo, uint32_t hi)
{
	return LLVMBuildOr(L->b, LLVMBuildZExt(L->b, lo, L->i64, ""), const_i64(L, (int64_t)((uint64_t)hi << 32)), "");
}

static V register_at(Lower *L, T type, V first, int i)
{
	V at = const_i32(L, i);
	return LLVMBuildGEP2(L->b, type, first, &at, 1, "");
}

static bool of_integers(const Product *k) { return dtype_is_int(k->d); }

/* "=f" outputs, then inputs tied to them when the accumulator is read: LLVM keeps them in place. */
static void nv_wgmma(Lower *L, const Wgmma *w)
{
	unsigned nd = w->n / 2, n = 0;
	T type = type_of(L, w->kind->d);
	char sum = of_integers(w->kind) ? 'r' : 'f';
	char *text = arena_alloc(L->arena, 2048, 1), *cons = arena_alloc(L->arena, 2048, 1);
	int t = sprintf(text, "wgmma.mma_async.sync.aligned.m64n%uk%d.%s.%s ", w->n, w->kind->k, of_integers(w->kind) ? "s32" : "f32", w->kind->types);
	int c = 0;
	V args[140];
	T elems[128];
	t += put_list(text + t, 0, (int)nd);
	for (unsigned i = 0; i < nd; i++) {
		elems[i] = type;
		c += sprintf(cons + c, "%s=%c", i ? "," : "", sum);
	}
	for (unsigned i = 0; w->accumulate && i < nd; i++) {
		args[n++] = LLVMBuildLoad2(L->b, type, register_at(L, type, w->d, (int)i), "");
		c += sprintf(cons + c, ",%u", i);
	}
	int next = (int)(nd + n);
	if (w->a[0]) {
		t += sprintf(text + t, ", ");
		t += put_list(text + t, next, 4);
		next += 4;
		for (int i = 0; i < 4; i++)
			args[n++] = w->a[i];
		c += sprintf(cons + c, ",r,r,r,r");
	} else {
		t += sprintf(text + t, ", $%d", next++);
		args[n++] = descriptor(L, w->desc_a_lo, w->desc_a_hi);
		c += sprintf(cons + c, ",l");
	}
	t += sprintf(text + t, ", $%d, %d", next, w->accumulate);
	if (!of_integers(w->kind))
		t += sprintf(text + t, ", %d, 1", w->negate ? -1 : 1);
	args[n++] = descriptor(L, w->desc_b_lo, w->desc_b_hi);
	if (w->kind->both_majors && !w->a[0])
		t += sprintf(text + t, ", %d", w->a_mn);
	if (w->kind->both_majors)
		t += sprintf(text + t, ", %d", w->b_mn);
	sprintf(text + t, ";");
	sprintf(cons + c, ",l,~{memory}");
	V r = ptx(L, text, cons, LLVMStructTypeInContext(L->cx, elems, nd, 0), args, n);
	for (unsigned i = 0; i < nd; i++)
		LLVMBuildStore(L->b, LLVMBuildExtractValue(L->b, r, i, ""), register_at(L, type, w->d, (int)i));
}

static void nv_wgmma_fence(Lower *L) { ptx(L, "wgmma.fence.sync.aligned;", "~{memory}", NULL, NULL, 0); }
static void nv_wgmma_commit(Lower *L) { ptx(L, "wgmma.commit_group.sync.aligned;", "~{memory}", NULL, NULL, 0); }

/* Ties the finished accumulators to the wait, so that no reader can move above it. */
static void nv_wgmma_wait(Lower *L, int n, int count, V *regs, T *types)
{
	const char *text = arena_printf(L->arena, "wgmma.wait_group.sync.aligned %d;", n);
	if (count == 0) {
		ptx(L, text, "~{memory}", NULL, NULL, 0);
		return;
	}
	for (int first = 0; first < count; first += 128) {
		int k = count - first < 128 ? count - first : 128, c = 0;
		char *cons = arena_alloc(L->arena, 2048, 1);
		V args[128];
		T elems[128];
		for (int i = 0; i < k; i++) {
			elems[i] = types[first + i];
			c += sprintf(cons + c, "%s=%c", i ? "," : "", elems[i] == L->f32 ? 'f' : 'r');
			args[i] = LLVMBuildLoad2(L->b, elems[i], regs[first + i], "");
		}
		for (int i = 0; i < k; i++)
			c += sprintf(cons + c, ",%d", i);
		sprintf(cons + c, ",~{memory}");
		V r = ptx(L, first == 0 ? text : "", cons, k == 1 ? elems[0] : LLVMStructTypeInContext(L->cx, elems, (unsigned)k, 0), args, (unsigned)k);
		for (int i = 0; i < k; i++)
			LLVMBuildStore(L->b, k == 1 ? r : LLVMBuildExtractValue(L->b, r, (unsigned)i, ""), regs[first + i]);
	}
}

/* An instruction with side effects under a condition that never holds: a grid has blocks, which ptxas does not know.  Of what ptxas moves
 * no arithmetic over this one is the cheapest: with its constant and its comparison three issue slots; fences become branches, and neither
 * barriers nor shuffles nor accesses of memory hold. */
static void nv_pin(Lower *L)
{
	ptx(L, "{\n\t.reg .b32 blocks;\n\t.reg .pred never;\n\tmov.u32 blocks, %nctaid.x;\n\tsetp.eq.u32 never, blocks, 0;\n\t@never griddepcontrol.launch_dependents;\n\t}", "~{memory}", NULL, NULL, 0);
}

static void nv_ldmatrix(Lower *L, V address, int count, bool trans, V *out)
{
	char text[160], cons[64] = "";
	int n = sprintf(text, "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 ", count, trans ? ".trans" : "");
	n += put_list(text + n, 0, count);
	sprintf(text + n, ", [$%d];", count);
	T elems[4] = { L->i32, L->i32, L->i32, L->i32 };
	for (int i = 0; i < count; i++)
		strcat(cons, "=r,");
	strcat(cons, "r,~{memory}");
	V r = ptx(L, text, cons, LLVMStructTypeInContext(L->cx, elems, (unsigned)count, 0), (V[]){ word_address(L, address) }, 1);
	for (int i = 0; i < count; i++)
		out[i] = LLVMBuildExtractValue(L->b, r, (unsigned)i, "");
}

static void nv_stmatrix(Lower *L, V address, int count, bool trans, V *in)
{
	char text[160], cons[64] = "r";
	int n = sprintf(text, "stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [$0], ", count, trans ? ".trans" : "");
	n += put_list(text + n, 1, count);
	sprintf(text + n, ";");
	V args[5] = { word_address(L, address) };
	for (int i = 0; i < count; i++) {
		args[1 + i] = in[i];
		strcat(cons, ",r");
	}
	strcat(cons, ",~{memory}");
	ptx(L, text, cons, NULL, args, (unsigned)(1 + count));
}

static V nv_movmatrix(Lower *L, V in) { return ptx(L, "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r", L->i32, &in, 1); }

static void nv_mma_sync(Lower *L, V d[4], V *a, V *b, const Product *kind)
{
	const char *text = arena_printf(L->arena, "mma.sync.aligned.m16n8k%d.row.col.f32.%s.f32 {$0,$1,$2,$3}, {$8,$9,$10,$11}, {$12,$13}, {$4,$5,$6,$7};",
	                                kind->k, kind->types);
	V args[10];
	T elems[4] = { L->f32, L->f32, L->f32, L->f32 };
	for (int i = 0; i < 4; i++) {
		args[i] = LLVMBuildLoad2(L->b, L->f32, d[i], "");
		args[4 + i] = a[i];
	}
	args[8] = b[0];
	args[9] = b[1];
	V r = ptx(L, text, "=f,=f,=f,=f,0,1,2,3,r,r,r,r,r,r", LLVMStructTypeInContext(L->cx, elems, 4, 0), args, 10);
	for (int i = 0; i < 4; i++)
		LLVMBuildStore(L->b, LLVMBuildExtractValue(L->b, r, (unsigned)i, ""), d[i]);
}

static void nv_grid_wait(Lower *L) { ptx(L, "griddepcontrol.wait;", "~{memory}", NULL, NULL, 0); }
static void nv_grid_launch(Lower *L) { ptx(L, "griddepcontrol.launch_dependents;", "~{memory}", NULL, NULL, 0); }

/* Not .aligned: at a kernel's end the lanes of a warp may come apart. */
static void nv_cluster_sync(Lower *L)
{
	ptx(L, "barrier.cluster.arrive;\n\tbarrier.cluster.wait;", "~{memory}", NULL, NULL, 0);
}

static V nv_timer(Lower *L) { return ptx(L, "mov.u64 $0, %globaltimer;", "=l,~{memory}", L->i64, NULL, 0); }
static V nv_clock(Lower *L) { return ptx(L, "mov.u64 $0, %clock64;", "=l,~{memory}", L->i64, NULL, 0); }

/* The arguments lie one after the other, each at a multiple of its size. */
static void nv_print(Lower *L, const char *format, int n, V *args, const DType *types)
{
	T *elems = ARENA_ARRAY(L->arena, T, n + 1);
	V *vals = ARENA_ARRAY(L->arena, V, n + 1);
	for (int i = 0; i < n; i++) {
		bool f = dtype_is_float(types[i]);
		vals[i] = convert(L, args[i], types[i], f ? DT_F32 : dtype_bits(types[i]) == 64 ? DT_I64 : DT_I32);
		if (f)
			vals[i] = LLVMBuildFPExt(L->b, vals[i], LLVMDoubleTypeInContext(L->cx), "");
		elems[i] = LLVMTypeOf(vals[i]);
	}
	T st = LLVMStructTypeInContext(L->cx, elems, (unsigned)n, 0);
	V buf = entry_alloca(L, n ? st : L->i64, "args");
	for (int i = 0; i < n; i++)
		LLVMBuildStore(L->b, vals[i], LLVMBuildStructGEP2(L->b, st, buf, (unsigned)i, ""));
	T ft = LLVMFunctionType(L->i32, (T[]){ L->ptr, L->ptr }, 2, 0);
	V f = LLVMGetNamedFunction(L->module, "vprintf");
	if (!f)
		f = LLVMAddFunction(L->module, "vprintf", ft);
	LLVMBuildCall2(L->b, ft, f, (V[]){ LLVMBuildGlobalStringPtr(L->b, format, "format"), buf }, 2, "");
}

static bool find_products(Op *op, void *found)
{
	*(bool *)found |= op->code == OP_MMA && mma_is_wgmma(op);
	return op->code != OP_PARALLEL;
}

/* In kernels with wgmma the call that prints makes ptxas serialise the products, and `trap` makes it spill: there a write to address 0 ends
 * the kernel, and only -g prints. */
static void nv_fail(Lower *L, const char *text)
{
	bool products = false;
	tir_walk(L->kernel->regions[0], find_products, &products);
	if (!products || L->options->debug)
		nv_print(L, arena_printf(L->arena, "line %u: %s\n", L->line, text), 0, NULL, NULL);
	if (products)
		ptx(L, "st.volatile.global.u32 [$0], $1;", "l,r,~{memory}", NULL, (V[]){ const_i64(L, 0), const_i32(L, L->line) }, 2);
	else
		ptx(L, "trap;", "~{memory}", NULL, NULL, 0);
}

/* ---- kernels ---- */

static void string_attr(Lower *L, LLVMAttributeIndex where, const char *name, const char *value)
{
	LLVMAddAttributeAtIndex(L->function, where,
	                        LLVMCreateStringAttribute(L->cx, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

static void kernel_attributes(Lower *L, const Params *p)
{
	LLVMSetFunctionCallConv(L->function, 71); /* ptx_kernel */
	string_attr(L, LLVMAttributeFunctionIndex, "nvvm.reqntid", arena_printf(L->arena, "%d,1,1", (int)attr_int(L->kernel, AT_THREADS, 128)));
	string_attr(L, LLVMAttributeFunctionIndex, "nvvm.minctasm", arena_printf(L->arena, "%d", (int)attr_int(L->kernel, AT_OCCUPANCY, 1)));
	int cluster = (int)attr_int(L->kernel, AT_CLUSTER, 1);
	if (cluster > 1)
		string_attr(L, LLVMAttributeFunctionIndex, "nvvm.cluster_dim", arena_printf(L->arena, "%d,1,1", cluster));
	unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5), align = LLVMGetEnumAttributeKindForName("align", 5);
	for (int i = 0; i < p->n; i++)
		if (p->op[i]->code == OP_DIM)
			LLVMAddAttributeAtIndex(L->function, (LLVMAttributeIndex)(i + 1), attribute_nonnegative(L));
	for (int i = 0; i < L->maps.n; i++) {
		LLVMAttributeIndex at = (LLVMAttributeIndex)(p->n + i + 1);
		LLVMAddAttributeAtIndex(L->function, at, LLVMCreateTypeAttribute(L->cx, byval, LLVMArrayType2(L->i8, (uint64_t)L->tir->machine->map_bytes)));
		LLVMAddAttributeAtIndex(L->function, at, LLVMCreateEnumAttribute(L->cx, align, (uint64_t)L->tir->machine->map_align));
		string_attr(L, at, "nvvm.grid_constant", "");
	}
}

static void nv_declare_kernel(Lower *L, const Params *p, const char *name)
{
	T *types = ARENA_ARRAY(L->arena, T, p->n + L->maps.n + 1);
	for (int i = 0; i < p->n; i++)
		types[i] = param_type(L, p->op[i]);
	for (int i = 0; i < L->maps.n; i++)
		types[p->n + i] = L->ptr;
	L->function = LLVMAddFunction(L->module, name, LLVMFunctionType(L->void_t, types, (unsigned)(p->n + L->maps.n), 0));
	kernel_attributes(L, p);
}

static V nv_parameter(Lower *L, int i, T type)
{
	(void)type;
	return LLVMGetParam(L->function, (unsigned)i);
}

/* Through a shuffle, which ptxas cannot undo: it would make the address of shared memory again wherever it is used, from the CTA's number in its cluster,
 * some 30 cycles in front of a wait.  Where several CTAs share a multiprocessor, another one runs meanwhile, and the register is missing. */
static V nv_shared_memory(Lower *L)
{
	V g = LLVMGetNamedGlobal(L->module, "tile_shared");
	if (!g) {
		g = LLVMAddGlobalInAddressSpace(L->module, LLVMArrayType2(L->i8, 0), "tile_shared", SPACE_SHARED);
		LLVMSetLinkage(g, LLVMExternalLinkage);
		LLVMSetAlignment(g, 1024);
	}
	if (attr_int(L->kernel, AT_OCCUPANCY, 1) > 1)
		return g;
	return LLVMBuildIntToPtr(L->b, nv_uniform(L, word_address(L, g)), L->ptr_shared, "tile_shared");
}

static V nv_descriptor_base(Lower *L)
{
	V a = LLVMBuildPtrToInt(L->b, L->shared, L->i32, "");
	return LLVMBuildLShr(L->b, LLVMBuildAnd(L->b, a, const_i32(L, 0x3ffff), ""), const_i32(L, 4), "");
}

/* The register class of inline PTX that holds a value. */
static char constraint(DType d) { return dtype_bits(d) == 16 ? 'h' : dtype_is_float(d) ? 'f' : dtype_bits(d) == 64 ? 'l' : 'r'; }

static V nv_inline_ptx(Lower *L, const Op *op, int n, V *args)
{
	char *cons = ARENA_ARRAY(L->arena, char, 2 * n + 16), *at = cons;
	T *types = ARENA_ARRAY(L->arena, T, n + 1);
	if (op->result)
		at += sprintf(at, "=%c,", constraint(op->result->type.dtype));
	for (int i = 0; i < n; i++) {
		types[i] = LLVMTypeOf(args[i]);
		at += sprintf(at, "%c,", constraint(op->args[i]->type.dtype));
	}
	strcpy(at, "~{memory}");
	const char *text = attr_text(op, AT_TEXT, "");
	T ft = LLVMFunctionType(op->result ? type_of(L, op->result->type.dtype) : L->void_t, types, (unsigned)n, 0);
	V fn = LLVMGetInlineAsm(ft, text, strlen(text), cons, strlen(cons), 1, 0, LLVMInlineAsmDialectATT, 0);
	return LLVMBuildCall2(L->b, ft, fn, args, (unsigned)n, "");
}

static void nv_initialise(void)
{
	LLVMInitializeNVPTXTargetInfo();
	LLVMInitializeNVPTXTarget();
	LLVMInitializeNVPTXTargetMC();
	LLVMInitializeNVPTXAsmPrinter();
}

/* ---- the processor ---- */

static bool find_own(Op *op, void *found)
{
	switch (op->code) {
	case OP_WGMMA_FENCE: case OP_WGMMA_COMMIT: case OP_WGMMA_WAIT:
	case OP_PTX: /* may be anything */
		*(bool *)found = true;
		break;
	case OP_MMA: *(bool *)found |= mma_is_wgmma(op); break;
	case OP_ROLE: *(bool *)found |= attr_get(op, AT_SETMAXNREG) != NULL; break;
	default: break;
	}
	return true;
}

/* PTX for a machine's own extensions runs there only, that of its family on later GPUs too. */
static const char *nv_processor(const Tir *t)
{
	bool own = false;
	for (const Op *k = t->first; k; k = k->next)
		tir_walk(k->regions[0], find_own, &own);
	return own ? t->machine->name : t->machine->family;
}

const Backend backend_nvptx = {
	.triple = "nvptx64-nvidia-cuda", .features = "+ptx87", .processor = nv_processor, .initialise = nv_initialise,
	.code = LLVMAssemblyFile, .reloc = LLVMRelocDefault, .codegen_level = 2, .shared_space = SPACE_SHARED, .global_space = SPACE_GLOBAL,
	.halves = true,
	.declare_kernel = nv_declare_kernel, .parameter = nv_parameter, .shared_memory = nv_shared_memory, .descriptor_base = nv_descriptor_base,
	.inline_ptx = nv_inline_ptx,
	.thread = nv_thread, .block_idx = nv_block_idx, .grid_dim = nv_grid_dim, .cluster_rank = nv_cluster_rank, .uniform = nv_uniform,
	.math = nv_math, .div_f32 = nv_div, .to_integer = nv_to_integer, .to_tf32 = nv_to_tf32, .narrow8 = nv_narrow8, .widen8 = nv_widen8, .shift = nv_shift, .enter_role = nv_enter_role, .setmaxnreg = nv_setmaxnreg,
	.mbar_init = nv_mbar_init, .mbar_init_done = nv_mbar_init_done, .mbar_arrive = nv_mbar_arrive, .mbar_arrive_at = nv_mbar_arrive_at, .mbar_expect = nv_mbar_expect,
	.mbar_wait = nv_mbar_wait, .tma_load = nv_tma_load, .tma_store = nv_tma_store, .bulk_load = nv_bulk_load, .bulk_store = nv_bulk_store,
	.bulk_commit = nv_bulk_commit, .bulk_wait = nv_bulk_wait, .cp_async = nv_cp_async, .cp_async_commit = nv_cp_async_commit,
	.cp_async_wait = nv_cp_async_wait, .fence_async = nv_fence_async, .fence_async_global = nv_fence_async_global, .fence_device = nv_fence_device, .bar_sync = nv_bar_sync, .bar_arrive = nv_bar_arrive,
	.vote = nv_vote, .syncwarp = nv_syncwarp, .one_lane = nv_one_lane, .shfl = nv_shfl, .wgmma = nv_wgmma, .wgmma_fence = nv_wgmma_fence, .wgmma_commit = nv_wgmma_commit,
	.wgmma_wait = nv_wgmma_wait, .pin = nv_pin, .ldmatrix = nv_ldmatrix, .stmatrix = nv_stmatrix, .movmatrix = nv_movmatrix, .mma_sync = nv_mma_sync,
	.grid_wait = nv_grid_wait, .grid_launch = nv_grid_launch, .cluster_sync = nv_cluster_sync, .clock = nv_clock, .timer = nv_timer, .print = nv_print,
	.fail = nv_fail,
};
