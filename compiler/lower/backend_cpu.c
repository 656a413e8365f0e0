/* backend_cpu.c - the program as an x86-64 object for the CPU device: machine operations as calls of the CPU device (runtime/abi/cpu_abi.h). */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <llvm-c/Target.h>

#include "compiler/lower/context.h"
#include "compiler/passes/pass.h"
#include "runtime/abi/cpu_abi.h"

/* Of the functions that are told of accesses: they change no memory that the kernel has. */
static LLVMAttributeRef attribute_only_watches(Lower *L)
{
	enum { ARGUMENTS = 1, INACCESSIBLE = 3 << 2 }; /* LLVM's MemoryEffects: reads those, reads and writes these */
	return LLVMCreateEnumAttribute(L->cx, LLVMGetEnumAttributeKindForName("memory", 6), ARGUMENTS | INACCESSIBLE);
}

/* Calls `name`; the argument types are those of the values.  Result NULL: void. */
static V call(Lower *L, const char *name, T result, int n, const V *args)
{
	T types[16];
	for (int i = 0; i < n; i++)
		types[i] = LLVMTypeOf(args[i]);
	T ft = LLVMFunctionType(result ? result : L->void_t, types, (unsigned)n, 0);
	V f = LLVMGetNamedFunction(L->module, name);
	if (!f) {
		f = LLVMAddFunction(L->module, name, ft);
		if (strncmp(name, "tilecpu_shared_", 15) == 0 || strncmp(name, "tilecpu_check_", 14) == 0 || strcmp(name, "tilecpu_global_reads") == 0)
			LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, attribute_only_watches(L));
	}
	return LLVMBuildCall2(L->b, ft, f, (V *)args, (unsigned)n, "");
}

static V self(Lower *L) { return LLVMGetParam(L->function, 0); }
/* With the number of its file. */
static V line(Lower *L)
{
	enum { MOST = (1 << TILE_CPU_FILE_SHIFT) - 1 };
	uint32_t file = L->source ? L->source - 1 : 0;
	file = file < TILE_CPU_MOST_FILES ? file : TILE_CPU_MOST_FILES;
	return const_i32(L, (L->line < MOST ? L->line : MOST) | file << TILE_CPU_FILE_SHIFT);
}
#define CALL(L, name, result, ...) \
	call(L, name, result, (int)(sizeof((V[]){ self(L), __VA_ARGS__ }) / sizeof(V)), (V[]){ self(L), __VA_ARGS__ })

/* Byte offset of a shared pointer. */
static V offset(Lower *L, V pointer)
{
	V p = LLVMBuildPtrToInt(L->b, pointer, L->i64, ""), base = LLVMBuildPtrToInt(L->b, L->shared, L->i64, "");
	return LLVMBuildTrunc(L->b, LLVMBuildSub(L->b, p, base, ""), L->i32, "");
}

static V field(Lower *L, size_t byte)
{
	V at = const_i32(L, (int64_t)byte);
	return LLVMBuildLoad2(L->b, L->i32, LLVMBuildGEP2(L->b, L->i8, self(L), &at, 1, ""), "");
}

/* One of each text; their addresses count, so they need no section whose entries are merged, and no symbols: 7% of an object. */
static V text_pointer(Lower *L, const char *text)
{
	const char *name = arena_printf(L->arena, "text %s", text);
	V global = LLVMGetNamedGlobal(L->module, name);
	if (!global) {
		V bytes = LLVMConstStringInContext2(L->cx, text, strlen(text), 0);
		global = LLVMAddGlobal(L->module, LLVMTypeOf(bytes), name);
		LLVMSetInitializer(global, bytes);
		LLVMSetGlobalConstant(global, 1);
		LLVMSetLinkage(global, LLVMPrivateLinkage);
	}
	return global;
}

static V cpu_thread(Lower *L) { return field(L, offsetof(TileCpuThread, thread)); }
static V cpu_block_idx(Lower *L, int axis) { return field(L, offsetof(TileCpuThread, block) + 4 * (size_t)axis); }
static V cpu_grid_dim(Lower *L, int axis) { return field(L, offsetof(TileCpuThread, grid) + 4 * (size_t)axis); }
static V cpu_cluster_rank(Lower *L) { return field(L, offsetof(TileCpuThread, cluster_rank)); }
static V cpu_uniform(Lower *L, V v) { (void)L; return v; }

static V libm(Lower *L, const char *name, V x) { return call(L, name, L->f32, 1, &x); }

/* Where `cond` tells so of x's absolute value and the limit: x times `by`. */
static V where(Lower *L, LLVMRealPredicate cond, double limit, V x, double by)
{
	V size = intrinsic(L, "llvm.fabs", &L->f32, 1, &x, 1), is = LLVMBuildFCmp(L->b, cond, size, const_f32(L, limit), "");
	return LLVMBuildSelect(L->b, is, LLVMBuildFMul(L->b, x, const_f32(L, by), ""), x, "");
}

/* Subnormals as 0, as in what the GPU has for these functions (.ftz): kernels that need them are wrong there. */
static V flushed(Lower *L, V x) { return where(L, LLVMRealOLT, 0x1p-126, x, 0); }

static V cpu_div(Lower *L, V a, V b) /* a * rcp(b), but rounded once */
{
	return LLVMBuildFDiv(L->b, a, where(L, LLVMRealOGT, 0x1p126, flushed(L, b), INFINITY), "");
}

static V cpu_math(Lower *L, Opcode op, V x)
{
	static const struct { Opcode op; const char *host; char flush; bool inverse; } table[] = {
#define MATH(op, fold, nvvm, overloaded, host, flush, inverse) { op, host, flush, inverse },
#include "compiler/tir/math.def"
#undef MATH
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (table[i].op != op)
			continue;
		V r = table[i].flush == 'i' ? flushed(L, x) : x;
		r = table[i].host ? libm(L, table[i].host, r) : r;
		r = table[i].flush == 'o' ? flushed(L, r) : r;
		return table[i].inverse ? cpu_div(L, const_f32(L, 1), r) : r;
	}
	return NULL;
}

static V cpu_to_integer(Lower *L, V v, bool is_signed, unsigned bits)
{
	T t = bits == 64 ? L->i64 : L->i32;
	return intrinsic(L, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", (T[]){ t, L->f32 }, 2, &v, 1);
}

static V cpu_to_tf32(Lower *L, V v)
{
	V u = LLVMBuildBitCast(L->b, v, L->i32, ""), odd = LLVMBuildAnd(L->b, LLVMBuildLShr(L->b, u, const_i32(L, 13), ""), const_i32(L, 1), "");
	V r = LLVMBuildAnd(L->b, build_add(L, u, build_add(L, odd, const_i32(L, 0xfff))), const_i32(L, 0xffffe000), "");
	r = LLVMBuildSelect(L->b, LLVMBuildFCmp(L->b, LLVMRealUNO, v, v, ""), const_i32(L, 0x7fffe000), r, "");
	return LLVMBuildBitCast(L->b, r, L->f32, "");
}

static V cpu_narrow8(Lower *L, DType to, V lo, V hi)
{
	return LLVMBuildTrunc(L->b, CALL(L, "tilecpu_narrow8", L->i32, const_i32(L, to), lo, hi), L->i16, "");
}

static void cpu_widen8(Lower *L, DType from, V pair, V out[2])
{
	for (int i = 0; i < 2; i++) {
		V bits = LLVMBuildAnd(L->b, LLVMBuildLShr(L->b, LLVMBuildZExt(L->b, pair, L->i32, ""), const_i32(L, 8 * i), ""), const_i32(L, 0xff), "");
		out[i] = CALL(L, "tilecpu_widen8", L->f32, const_i32(L, from), bits);
	}
}

static V cpu_shift(Lower *L, LLVMOpcode how, V a, V n)
{
	T t = LLVMTypeOf(a);
	unsigned bits = LLVMGetIntTypeWidth(t);
	V fits = LLVMBuildICmp(L->b, LLVMIntULT, n, LLVMConstInt(t, bits, 0), "");
	V last = LLVMConstInt(t, bits - 1, 0), r = LLVMBuildBinOp(L->b, how, a, LLVMBuildSelect(L->b, fits, n, last, ""), "");
	return how == LLVMAShr ? r : LLVMBuildSelect(L->b, fits, r, LLVMConstNull(t), "");
}

static void cpu_enter_role(Lower *L, const char *name, V instance) { CALL(L, "tilecpu_role", NULL, text_pointer(L, name), instance, line(L)); }
static void cpu_setmaxnreg(Lower *L, int count, bool increase) { (void)L; (void)count; (void)increase; }
static void cpu_shared_access(Lower *L, Watched how, V base, V offsets, V n, V bytes)
{
	static const char *const names[] = { "tilecpu_shared_reads", "tilecpu_shared_writes", "tilecpu_shared_atomics", "tilecpu_shared_atomics" };
	CALL(L, names[how], NULL, offset(L, base), offsets, n, bytes, line(L));
}

static V name_of(Lower *L, const Op *object)
{
	const char *name = object ? attr_text(object, AT_NAME, NULL) : NULL;
	return name ? text_pointer(L, name) : LLVMConstNull(L->ptr);
}

static V words(Lower *L, int n, V *v)
{
	V a = entry_alloca(L, LLVMArrayType2(L->i32, (uint64_t)(n ? n : 1)), "words");
	for (int i = 0; v && i < n; i++) {
		V at = const_i32(L, i);
		LLVMBuildStore(L->b, v[i], LLVMBuildGEP2(L->b, L->i32, a, &at, 1, ""));
	}
	return a;
}

static V tensor_pointer(Lower *L, const Op *tensor) { return storage_of(L, tensor)->pointer; }
static V barrier_or_none(Lower *L, V bar) { return bar ? offset(L, bar) : const_i32(L, 0); }

static void cpu_global_access(Lower *L, Watched how, const Op *tensor, V pointers, V n, V bytes)
{
	static const char *const names[] = { "tilecpu_global_reads", "tilecpu_global_writes", "tilecpu_global_atomics", "tilecpu_global_polls", "tilecpu_global_copies" };
	CALL(L, names[how], NULL, name_of(L, tensor), tensor_pointer(L, tensor), pointers, n, bytes, line(L));
}

static void cpu_global_box(Lower *L, Watched how, const Op *tensor, V map, int rank, V *coord, V bar)
{
	CALL(L, "tilecpu_global_box", NULL, name_of(L, tensor), tensor_pointer(L, tensor), map, words(L, rank, coord), barrier_or_none(L, bar), const_i32(L, how), line(L));
}

static void cpu_global_bulk(Lower *L, Watched how, const Op *tensor, V pointer, V bytes, V bar)
{
	CALL(L, "tilecpu_global_bulk", NULL, name_of(L, tensor), tensor_pointer(L, tensor), pointer, bytes, barrier_or_none(L, bar), const_i32(L, how), line(L));
}

static void cpu_mbar_init(Lower *L, V bar, const Op *object, int slot)
{
	V number = const_i32(L, attr_int(object, AT_SLOTS, 1) > 1 ? slot : -1);
	CALL(L, "tilecpu_mbar_init", NULL, offset(L, bar), const_i32(L, attr_int(object, AT_COUNT, 1)), name_of(L, object), number);
}
static void cpu_nothing(Lower *L) { (void)L; }

static void cpu_mbar_arrive(Lower *L, V bar, V bytes)
{
	if (bytes)
		CALL(L, "tilecpu_mbar_arrive_expect_tx", NULL, offset(L, bar), bytes, line(L));
	else
		CALL(L, "tilecpu_mbar_arrive", NULL, offset(L, bar), line(L));
}

static void cpu_mbar_expect(Lower *L, V bar, V bytes) { CALL(L, "tilecpu_mbar_expect_tx", NULL, offset(L, bar), bytes, line(L)); }
static void cpu_mbar_arrive_at(Lower *L, V bar, V rank) { CALL(L, "tilecpu_mbar_arrive_at", NULL, offset(L, bar), rank, line(L)); }
static void cpu_mbar_wait(Lower *L, V bar, V parity) { CALL(L, "tilecpu_mbar_wait", NULL, offset(L, bar), parity, line(L)); }

static V word(Lower *L, V a, int i)
{
	V at = const_i32(L, i);
	return LLVMBuildLoad2(L->b, L->i32, LLVMBuildGEP2(L->b, L->i32, a, &at, 1, ""), "");
}

static void cpu_tma_load(Lower *L, V map, int rank, V dst, V bar, V *coord, unsigned ctas)
{
	if (ctas)
		CALL(L, "tilecpu_tma_multicast", NULL, map, offset(L, dst), offset(L, bar), words(L, rank, coord), const_i32(L, ctas), line(L));
	else
		CALL(L, "tilecpu_tma_load", NULL, map, offset(L, dst), offset(L, bar), words(L, rank, coord), line(L));
}

static void cpu_tma_store(Lower *L, V map, int rank, V src, V *coord, bool add)
{
	CALL(L, "tilecpu_tma_store", NULL, map, offset(L, src), words(L, rank, coord), const_i32(L, add), line(L));
}

static void cpu_bulk_load(Lower *L, V dst, V src, V bytes, V bar)
{
	CALL(L, "tilecpu_bulk_load", NULL, offset(L, dst), src, bytes, offset(L, bar), line(L));
}

static void cpu_bulk_store(Lower *L, V dst, V src, V bytes) { CALL(L, "tilecpu_bulk_store", NULL, dst, offset(L, src), bytes, line(L)); }
static void cpu_bulk_commit(Lower *L) { call(L, "tilecpu_bulk_commit", NULL, 1, (V[]){ self(L) }); }
static void cpu_bulk_wait(Lower *L, int n, bool read) { CALL(L, "tilecpu_bulk_wait", NULL, const_i32(L, n), const_i32(L, read), line(L)); }

static void cpu_cp_async(Lower *L, V dst, V src, unsigned bytes, V valid)
{
	CALL(L, "tilecpu_cp_async", NULL, offset(L, dst), src, const_i32(L, bytes), valid, line(L));
}

static void cpu_cp_async_commit(Lower *L) { call(L, "tilecpu_cp_async_commit", NULL, 1, (V[]){ self(L) }); }
static void cpu_cp_async_wait(Lower *L, int n) { CALL(L, "tilecpu_cp_async_wait", NULL, const_i32(L, n)); }
static void cpu_fence_async(Lower *L) { call(L, "tilecpu_fence_async", NULL, 1, (V[]){ self(L) }); }
static void cpu_fence_async_global(Lower *L) { call(L, "tilecpu_fence_async_global", NULL, 1, (V[]){ self(L) }); }
static void cpu_fence_device(Lower *L) { call(L, "tilecpu_fence_device", NULL, 1, (V[]){ self(L) }); }
static void cpu_bar_sync(Lower *L, V id, unsigned threads, const Op *object)
{
	CALL(L, "tilecpu_bar_sync", NULL, id, const_i32(L, threads), name_of(L, object), line(L));
}

static void cpu_bar_arrive(Lower *L, V id, unsigned threads, const Op *object)
{
	CALL(L, "tilecpu_bar_arrive", NULL, id, const_i32(L, threads), name_of(L, object), line(L));
}

static V cpu_vote(Lower *L, V value, bool all, V id, unsigned threads)
{
	V word = LLVMBuildZExt(L->b, value, L->i32, "");
	V n = id ? CALL(L, "tilecpu_bar_vote", L->i32, id, const_i32(L, threads), word, line(L)) : CALL(L, "tilecpu_vote", L->i32, word, line(L));
	return LLVMBuildICmp(L->b, all ? LLVMIntEQ : LLVMIntUGT, n, const_i32(L, !all ? 0 : id ? threads : 32), "");
}

static V cpu_one_lane(Lower *L) { return LLVMBuildICmp(L->b, LLVMIntEQ, L->team.lane, const_i32(L, 0), ""); }
static void cpu_syncwarp(Lower *L) { CALL(L, "tilecpu_syncwarp", NULL, line(L)); }
static V cpu_shfl(Lower *L, V v, int mode, V lane) { return CALL(L, "tilecpu_shfl", L->i32, v, const_i32(L, mode), lane, line(L)); }

static V desc(Lower *L, V lo, uint32_t hi)
{
	return LLVMBuildOr(L->b, LLVMBuildZExt(L->b, lo, L->i64, ""), const_i64(L, (int64_t)((uint64_t)hi << 32)), "");
}

static V product_types(Lower *L, const Product *k) { return const_i32(L, TILE_CPU_PRODUCT(k->a, k->b)); }

static void cpu_wgmma(Lower *L, const Wgmma *w)
{
	V a = w->a[0] ? words(L, 4, (V *)w->a) : LLVMConstNull(L->ptr);
	V da = w->a[0] ? const_i64(L, 0) : desc(L, w->desc_a_lo, w->desc_a_hi);
	int flags = w->accumulate | w->negate << 1 | w->a_mn << 2 | w->b_mn << 3;
	CALL(L, "tilecpu_wgmma", NULL, w->d, const_i32(L, w->n), product_types(L, w->kind), a, da, desc(L, w->desc_b_lo, w->desc_b_hi),
	     const_i32(L, flags), line(L));
}

static void cpu_wgmma_fence(Lower *L) { call(L, "tilecpu_wgmma_fence", NULL, 1, (V[]){ self(L) }); }
static void cpu_wgmma_commit(Lower *L) { call(L, "tilecpu_wgmma_commit", NULL, 1, (V[]){ self(L) }); }

static void cpu_wgmma_wait(Lower *L, int n, int count, V *regs, T *types)
{
	(void)count;
	(void)regs;
	(void)types;
	CALL(L, "tilecpu_wgmma_wait", NULL, const_i32(L, n), line(L));
}

static void cpu_pin(Lower *L) { (void)L; }

static void cpu_ldmatrix(Lower *L, V address, int count, bool trans, V *out)
{
	V w = words(L, 4, NULL);
	CALL(L, "tilecpu_ldmatrix", NULL, w, offset(L, address), const_i32(L, count), const_i32(L, trans), line(L));
	for (int i = 0; i < count; i++)
		out[i] = word(L, w, i);
}

static void cpu_stmatrix(Lower *L, V address, int count, bool trans, V *in)
{
	CALL(L, "tilecpu_stmatrix", NULL, offset(L, address), words(L, count, in), const_i32(L, count), const_i32(L, trans), line(L));
}

static V cpu_movmatrix(Lower *L, V in) { return CALL(L, "tilecpu_movmatrix", L->i32, in, line(L)); }

static void cpu_mma_sync(Lower *L, V d[4], V *a, V *b, const Product *kind)
{
	V acc = entry_alloca(L, LLVMArrayType2(L->f32, 4), "d");
	for (int i = 0; i < 4; i++) {
		V at = const_i32(L, i);
		LLVMBuildStore(L->b, LLVMBuildLoad2(L->b, L->f32, d[i], ""), LLVMBuildGEP2(L->b, L->f32, acc, &at, 1, ""));
	}
	CALL(L, "tilecpu_mma_sync", NULL, acc, words(L, 4, a), words(L, 2, b), product_types(L, kind), line(L));
	for (int i = 0; i < 4; i++) {
		V at = const_i32(L, i);
		LLVMBuildStore(L->b, LLVMBuildLoad2(L->b, L->f32, LLVMBuildGEP2(L->b, L->f32, acc, &at, 1, ""), ""), d[i]);
	}
}

static void cpu_cluster_sync(Lower *L) { CALL(L, "tilecpu_cluster_sync", NULL, line(L)); }
static V cpu_clock(Lower *L) { return call(L, "tilecpu_clock", L->i64, 1, (V[]){ self(L) }); }

/* The device stops endless loops. */
static void cpu_poll(Lower *L)
{
	V at = const_i32(L, offsetof(TileCpuThread, interrupt)), flag = LLVMBuildLoad2(L->b, L->ptr, LLVMBuildGEP2(L->b, L->i8, self(L), &at, 1, ""), "");
	V stop = LLVMBuildLoad2(L->b, L->i32, flag, "");
	LLVMSetVolatile(stop, 1);
	Guard g = guard_begin(L, LLVMBuildICmp(L->b, LLVMIntNE, stop, const_i32(L, 0), ""));
	CALL(L, "tilecpu_interrupted", NULL, line(L));
	guard_end(L, g);
}

static void cpu_print(Lower *L, const char *format, int n, V *args, const DType *types)
{
	V a = entry_alloca(L, LLVMArrayType2(L->i64, (uint64_t)(n ? n : 1)), "args");
	for (int i = 0; i < n; i++) {
		V v = args[i], at = const_i32(L, i);
		if (dtype_is_float(types[i])) {
			v = LLVMBuildFPExt(L->b, convert(L, v, types[i], DT_F32), LLVMDoubleTypeInContext(L->cx), "");
			v = LLVMBuildBitCast(L->b, v, L->i64, "");
		} else {
			v = convert(L, v, types[i], DT_I64);
		}
		LLVMBuildStore(L->b, v, LLVMBuildGEP2(L->b, L->i64, a, &at, 1, ""));
	}
	CALL(L, "tilecpu_print", NULL, text_pointer(L, format), const_i32(L, n), a);
}

static void cpu_fail(Lower *L, const char *text) { CALL(L, "tilecpu_fail", NULL, text_pointer(L, text), line(L)); }

static void cpu_fail_outside(Lower *L, const char *what, V i, int64_t n)
{
	CALL(L, "tilecpu_fail_outside", NULL, text_pointer(L, what), i, LLVMConstInt(L->i64, (unsigned long long)n, 1), line(L));
}

static void cpu_check_bounds(Lower *L, const Storage *s, unsigned look, V more, V mask)
{
	const Op *o = s->object;
	V dims = const_i32(L, look | (unsigned)o->result->type.rank << 8);
	if (attr_int(o, AT_OPTIONAL, 0)) {
		V given = LLVMBuildICmp(L->b, LLVMIntNE, s->pointer, LLVMConstNull(LLVMTypeOf(s->pointer)), "");
		dims = LLVMBuildSelect(L->b, given, dims, const_i32(L, -1), "");
	}
	if (mask)
		dims = LLVMBuildSelect(L->b, mask, dims, const_i32(L, 0), "");
	CALL(L, "tilecpu_check_bounds", NULL, name_of(L, o), dims, s->bounds, more, line(L));
}

static V integer_type(Lower *L, DType d) { return const_i32(L, (int)dtype_bits(d) * (dtype_is_signed(d) ? -1 : 1)); }

static void cpu_check_division(Lower *L, DType d, V a, V b) { CALL(L, "tilecpu_check_division", NULL, integer_type(L, d), a, b, line(L)); }

static void cpu_check_shift(Lower *L, DType d, V a, V count)
{
	CALL(L, "tilecpu_check_shift", NULL, integer_type(L, d), a, count, line(L));
}

static void cpu_check_conversion(Lower *L, DType to, V x) { CALL(L, "tilecpu_check_conversion", NULL, integer_type(L, to), x, line(L)); }

/* ---- kernels and modules ---- */

static TileCpuTile tile_entry(const Op *op)
{
	const Type *t = &op->result->type;
	bool ring = attr_int(op, AT_RING, 0) > 0;
	TileCpuTile x = {
		.offset = (uint32_t)attr_int(op, AT_OFFSET, 0), .stage_bytes = (uint32_t)attr_int(op, AT_STAGE_BYTES, 0),
		.element_bytes = (uint32_t)dtype_bytes(t->dtype), .swizzle = t->rank - ring >= 2 ? (uint32_t)swizzle_bytes(op) : 0,
		.ring = ring, .rank = (uint32_t)t->rank,
	};
	snprintf(x.name, sizeof x.name, "%s", object_name(op));
	for (int d = 0; d < t->rank; d++)
		x.extents[d] = (uint32_t)t->shape[d];
	return x;
}

/* For the device's reports. */
static void declare_tiles(Lower *L, const char *kernel)
{
	size_t n = 0;
	for (const Op *op = L->kernel->regions[0]->first; op; op = op->next)
		n += op->code == OP_SHARED;
	TileCpuTile *tiles = ARENA_ARRAY(L->arena, TileCpuTile, n + 1);
	memset(tiles, 0, (n + 1) * sizeof *tiles);
	n = 0;
	for (const Op *op = L->kernel->regions[0]->first; op; op = op->next)
		if (op->code == OP_SHARED)
			tiles[n++] = tile_entry(op);
	V bytes = LLVMConstStringInContext2(L->cx, (const char *)tiles, (n + 1) * sizeof *tiles, 1);
	V g = LLVMAddGlobal(L->module, LLVMTypeOf(bytes), arena_printf(L->arena, TILE_CPU_TILES_PREFIX "%s", kernel));
	LLVMSetInitializer(g, bytes);
	LLVMSetGlobalConstant(g, 1);
	LLVMSetAlignment(g, _Alignof(TileCpuTile));
}

/* LLVM tells lower.c of a frame that is larger. */
#define STACK_ATTRIBUTE "warn-stack-size"

static void cpu_declare_kernel(Lower *L, const Params *p, const char *name)
{
	T types[] = { L->ptr, L->ptr };
	(void)p;
	declare_tiles(L, name);
	L->function = LLVMAddFunction(L->module, arena_printf(L->arena, TILE_CPU_KERNEL_PREFIX "%s", name), LLVMFunctionType(L->void_t, types, 2, 0));
	const char *most = arena_printf(L->arena, "%d", TILE_CPU_FRAME_BYTES);
	LLVMAddAttributeAtIndex(L->function, LLVMAttributeFunctionIndex,
	                        LLVMCreateStringAttribute(L->cx, STACK_ATTRIBUTE, sizeof STACK_ATTRIBUTE - 1, most, (unsigned)strlen(most)));
}

static V cpu_parameter(Lower *L, int i, T type)
{
	V at = const_i32(L, i), slot = LLVMBuildGEP2(L->b, L->ptr, LLVMGetParam(L->function, 1), &at, 1, "");
	V where = LLVMBuildLoad2(L->b, L->ptr, slot, "");
	return type ? LLVMBuildLoad2(L->b, type, where, "") : where;
}

static V cpu_shared_memory(Lower *L) { return LLVMBuildLoad2(L->b, L->ptr, self(L), "smem"); }

static V cpu_descriptor_base(Lower *L) { return const_i32(L, 0); }

static void cpu_initialise(void)
{
	LLVMInitializeX86TargetInfo();
	LLVMInitializeX86Target();
	LLVMInitializeX86TargetMC();
	LLVMInitializeX86AsmPrinter();
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* For the device's reports. */
static void cpu_end_module(Lower *L)
{
	unsigned sources = diags_source_count(L->diags), n = sources < TILE_CPU_MOST_FILES ? sources : TILE_CPU_MOST_FILES;
	size_t room = 0, len = 0;
	for (unsigned i = 1; i <= n; i++)
		room += strlen(last_name(diags_source(L->diags, i)->name)) + 1;
	char *text = ARENA_ARRAY(L->arena, char, room + 1);
	for (unsigned i = 1; i <= n; i++) {
		const char *name = last_name(diags_source(L->diags, i)->name);
		memcpy(text + len, name, strlen(name));
		len += strlen(name);
		text[len++] = '\0';
	}
	V names = LLVMConstStringInContext2(L->cx, text, room, 0), g = LLVMAddGlobal(L->module, LLVMTypeOf(names), TILE_CPU_FILES);
	LLVMSetInitializer(g, names);
	LLVMSetGlobalConstant(g, 1);
}

/* Runs on every machine of the last decade; the heavy products run in the runtime. */
static const char *cpu_processor(const Tir *t)
{
	(void)t;
	return "x86-64-v2";
}

/* Kernels' checks of each access are many calls, over which LLVM's better code generation takes five times as long to gain nothing. */
const Backend backend_cpu = {
	.name = "the CPU device",
	.triple = "x86_64-unknown-linux-gnu", .features = "", .processor = cpu_processor, .initialise = cpu_initialise,
	.code = LLVMObjectFile, .reloc = LLVMRelocPIC, .codegen_level = 0,
	.checks = true, .division_traps = true, .debugger = true,
	.declare_kernel = cpu_declare_kernel, .parameter = cpu_parameter, .shared_memory = cpu_shared_memory, .descriptor_base = cpu_descriptor_base,
	.end_module = cpu_end_module,
	.thread = cpu_thread, .block_idx = cpu_block_idx, .grid_dim = cpu_grid_dim, .cluster_rank = cpu_cluster_rank,
	.uniform = cpu_uniform, .math = cpu_math, .div_f32 = cpu_div, .to_integer = cpu_to_integer, .to_tf32 = cpu_to_tf32, .narrow8 = cpu_narrow8, .widen8 = cpu_widen8, .shift = cpu_shift, .enter_role = cpu_enter_role, .setmaxnreg = cpu_setmaxnreg,
	.shared_access = cpu_shared_access, .global_access = cpu_global_access, .global_box = cpu_global_box, .global_bulk = cpu_global_bulk, .mbar_init = cpu_mbar_init, .mbar_init_done = cpu_nothing, .mbar_arrive = cpu_mbar_arrive, .mbar_arrive_at = cpu_mbar_arrive_at,
	.mbar_expect = cpu_mbar_expect, .mbar_wait = cpu_mbar_wait, .tma_load = cpu_tma_load, .tma_store = cpu_tma_store,
	.bulk_load = cpu_bulk_load, .bulk_store = cpu_bulk_store, .bulk_commit = cpu_bulk_commit, .bulk_wait = cpu_bulk_wait,
	.cp_async = cpu_cp_async, .cp_async_commit = cpu_cp_async_commit, .cp_async_wait = cpu_cp_async_wait, .fence_async = cpu_fence_async, .fence_async_global = cpu_fence_async_global, .fence_device = cpu_fence_device,
	.bar_sync = cpu_bar_sync, .bar_arrive = cpu_bar_arrive, .vote = cpu_vote, .syncwarp = cpu_syncwarp, .one_lane = cpu_one_lane, .shfl = cpu_shfl, .wgmma = cpu_wgmma,
	.wgmma_fence = cpu_wgmma_fence, .wgmma_commit = cpu_wgmma_commit, .wgmma_wait = cpu_wgmma_wait, .pin = cpu_pin, .ldmatrix = cpu_ldmatrix,
	.stmatrix = cpu_stmatrix, .movmatrix = cpu_movmatrix, .mma_sync = cpu_mma_sync, .grid_wait = cpu_nothing, .grid_launch = cpu_nothing,
	.cluster_sync = cpu_cluster_sync, .clock = cpu_clock, .timer = cpu_clock, .poll = cpu_poll, .print = cpu_print, .fail = cpu_fail,
	.fail_outside = cpu_fail_outside, .check_bounds = cpu_check_bounds, .check_division = cpu_check_division, .check_shift = cpu_check_shift,
	.check_conversion = cpu_check_conversion,
};
