/* product.c - matrix products: wgmma instruction sequences with their descriptors, and mma.sync. */
#include "compiler/lower/context.h"
#include "compiler/passes/pass.h"

#include <stdlib.h>
#include <string.h>

/* A shared operand as wgmma reads it. */
typedef struct SharedOperand {
	V low;                /* shared_word of the view's first element */
	unsigned swizzle;
	int rows;             /* of a panel */
	int column;           /* bytes from the start of the panel to the first element, where that is a constant */
	int bytes;            /* of an element */
	bool mn_major;
	uint32_t hi, lo_const;
} SharedOperand;

typedef struct Words { V w[4]; } Words;

/* check_products lets no other through. */
static const Product *kind_of(const Lower *L, const TileRef *a, const TileRef *b)
{
	const Product *k = machine_product(L->tir->machine, a->dtype, b->dtype);
	if (!k)
		abort();
	return k;
}

/* Where the view begins in its panel, in bytes, as far as it is known. */
static int panel_column(const TileRef *r, int bytes, unsigned swizzle)
{
	int64_t c = 0;
	if (r->start[r->object_rank - 1])
		value_const_int(r->start[r->object_rank - 1], &c);
	return (int)(c * bytes % swizzle);
}

static void fail_where(Lower *L, V cond, const char *text)
{
	Guard g = guard_begin(L, cond);
	L->ops->fail(L, text);
	guard_end(L, g);
}

/* Of a start that only the run knows: what check_products asks of constants.  `bytes` of a row are read in one piece. */
static void check_start(Lower *L, const TileRef *r, V *index, int64_t bytes)
{
	const char *name = attr_text(r->object, AT_NAME, "tile");
	V row = index[r->object_rank - 2], zero = const_i32(L, 0);
	int64_t panel = swizzle_bytes(r->object);
	V at = LLVMBuildURem(L->b, build_mul_const(L, index[r->object_rank - 1], dtype_bytes(r->dtype)), const_i32(L, panel), "");
	fail_where(L, LLVMBuildICmp(L->b, LLVMIntNE, LLVMBuildAnd(L->b, row, const_i32(L, 7), ""), zero, ""),
		arena_printf(L->arena, "a product reads '%s' from a row on that is no multiple of 8", name));
	V crosses = LLVMBuildICmp(L->b, LLVMIntUGT, at, const_i32(L, panel > bytes ? panel - bytes : 0), "");
	V odd = LLVMBuildICmp(L->b, LLVMIntNE, LLVMBuildAnd(L->b, at, const_i32(L, 15), ""), zero, "");
	fail_where(L, LLVMBuildOr(L->b, crosses, odd, ""),
		arena_printf(L->arena, "a product reads columns of '%s' that begin inside a panel of %lld and end in another, or begin at no multiple of %lld",
			name, (long long)(panel / dtype_bytes(r->dtype)), (long long)(16 / dtype_bytes(r->dtype))));
}

static bool constant_start(const TileRef *r, int d)
{
	int64_t c;
	return !r->start[d] || value_const_int(r->start[d], &c);
}

static void report_linear(Lower *L, const Op *op, const TileRef *r)
{
	const char *name = attr_text(r->object, AT_NAME, "tile");
	long long row = (long long)(r->object->result->type.shape[r->object_rank - 1] * dtype_bytes(r->dtype));
	if (row % 32)
		diag_error(L->diags, op->loc, E_WGMMA_SHAPE, "'%s' has rows of %lld bytes, not a multiple of 32: no swizzle divides them, and wgmma reads swizzled tiles", name, row);
	else
		diag_error(L->diags, op->loc, E_WGMMA_SHAPE, "'%s' is stored without a swizzle; wgmma reads swizzle128, swizzle64 or swizzle32 tiles", name);
}

static bool shared_operand(Lower *L, const Op *op, const TileRef *r, bool mn_major, SharedOperand *o)
{
	V index[TIR_MAX_RANK];
	check_view(L, r);
	view_origin(L, r, index);
	o->swizzle = (unsigned)swizzle_bytes(r->object);
	o->rows = panel_rows(r->object);
	o->bytes = (int)dtype_bytes(r->dtype);
	o->mn_major = mn_major;
	if (o->swizzle == 0) {
		report_linear(L, op, r);
		return false;
	}
	if (L->ops->checks && !(constant_start(r, r->object_rank - 1) && constant_start(r, r->object_rank - 2)))
		check_start(L, r, index, r->shape[r->trans ? 0 : 1] * o->bytes);
	o->column = panel_column(r, o->bytes, o->swizzle);
	o->low = shared_word(L, r->object, index);
	uint32_t mode = o->swizzle == 128 ? 1 : o->swizzle == 64 ? 2 : 3;
	uint32_t sbo = 8 * o->swizzle >> 4, lbo = mn_major ? (uint32_t)o->rows * o->swizzle >> 4 : 1;
	o->hi = mode << 30 | sbo;
	o->lo_const = lbo << 16;
	return true;
}

/* Low descriptor word at (mn, k) elements from the view's origin; both are multiples of what wgmma steps by. */
static V descriptor(Lower *L, const SharedOperand *o, int mn, int k)
{
	int row = o->mn_major ? k : mn, w = (int)o->swizzle, col = o->column + (o->mn_major ? mn : k) * o->bytes;
	int off = col / w * o->rows * w + row * w + col % w - o->column;
	return build_add(L, o->low, const_i32(L, (int64_t)o->lo_const + off / 16));
}

/* Packed words of the A fragment's registers for the k-step from column k on of 64-row slice s. */
static void a_registers(Lower *L, const TileRef *a, int slice, int k, V out[4])
{
	Storage *s = storage_of(L, a->object);
	int64_t c0 = 0;
	for (int d = 0; d < a->object_rank; d++)
		if (a->start[d] && d == a->object_rank - 1)
			value_const_int(a->start[d], &c0);
	T word = LLVMVectorType(type_of(L, a->dtype), (unsigned)s->packed);
	for (int i = 0; i < 4; i++) {
		int reg = layout_find_reg(s->layout, 64 * slice + 8 * (i & 1), (int)c0 + k + 4 * s->packed * (i >> 1));
		out[i] = pair_to_word(L, LLVMBuildLoad2(L->b, word, frag_register(L, s, reg), ""));
	}
}

static int64_t column_start(const TileRef *r)
{
	int64_t c = 0;
	if (r->start[r->object_rank - 1])
		value_const_int(r->start[r->object_rank - 1], &c);
	return c;
}

static void lower_wgmma(Lower *L, const Op *op)
{
	TileRef d = tile_ref(operand(op, ARG_D)), a = tile_ref(operand(op, ARG_A)), b = tile_ref(operand(op, ARG_B));
	bool rs = a.space == TY_FRAG, async = attr_int(op, AT_ASYNC, 0);
	int acc = (int)attr_int(op, AT_ACC, 0);
	Storage *ds = storage_of(L, d.object);
	ds->product = true;
	const Product *kind = kind_of(L, &a, &b);
	int kstep = kind->k, K = (int)a.shape[1], N = (int)d.shape[1];
	int groups = L->team.warps / 4, slices = (int)d.shape[0] / (64 * groups), nstep = (int)wgmma_columns(L->tir->machine, N);
	SharedOperand sa = { 0 }, sb;
	if (!shared_operand(L, op, &b, !b.trans, &sb) || (!rs && !shared_operand(L, op, &a, a.trans, &sa)))
		return;
	if (!rs && groups > 1) { /* warpgroup g reads its own rows of A: of what is stored transposed, whole panels */
		V g = LLVMBuildLShr(L->b, L->team.warp, const_i32(L, 2), "");
		int step = 64 * slices * (a.trans ? sa.bytes * sa.rows : (int)sa.swizzle);
		sa.low = build_add(L, sa.low, build_mul_const(L, g, step / 16));
	}
	int steps = K / kstep;
	Words *regs = ARENA_ARRAY(L->arena, Words, slices * steps);
	if (rs)
		for (int s = 0; s < slices; s++)
			for (int k = 0; k < steps; k++)
				a_registers(L, &a, s, k * kstep, regs[s * steps + k].w);
	if (!async)
		L->ops->wgmma_fence(L);
	for (int k = 0; k < steps; k++)
		for (int s = 0; s < slices; s++)
			for (int n = 0; n < N; n += nstep) {
				Wgmma w = { .n = (unsigned)nstep, .kind = kind, .accumulate = k > 0 || acc != 0, .negate = acc < 0,
				            .a_mn = a.trans, .b_mn = !b.trans };
				int reg = layout_find_reg(ds->layout, 64 * s, (int)column_start(&d) + n);
				w.d = frag_register(L, ds, reg);
				if (rs)
					memcpy(w.a, regs[s * steps + k].w, sizeof w.a);
				else
					w.desc_a_lo = descriptor(L, &sa, 64 * s, k * kstep);
				w.desc_a_hi = sa.hi;
				w.desc_b_lo = descriptor(L, &sb, n, k * kstep);
				w.desc_b_hi = sb.hi;
				L->ops->wgmma(L, &w);
			}
	if (async)
		return;
	L->ops->wgmma_commit(L);
	int count = slices * N / 2;
	V *tied = ARENA_ARRAY(L->arena, V, count);
	T *types = ARENA_ARRAY(L->arena, T, count);
	for (int i = 0; i < count; i++)
		types[i] = type_of(L, d.dtype);
	for (int s = 0, i = 0; s < slices; s++)
		for (int r = 0; r < N / 2; r++)
			tied[i++] = frag_register(L, ds, layout_find_reg(ds->layout, 64 * s, (int)column_start(&d)) + r);
	L->ops->wgmma_wait(L, 0, count, tied, types);
}

void lower_wgmma_wait(Lower *L, const Op *op)
{
	int count = 0;
	for (int i = 0; i < op->nargs; i++)
		count += storage_of(L, tile_ref(op->args[i]).object)->layout->nregs;
	V *tied = ARENA_ARRAY(L->arena, V, count + 1);
	T *types = ARENA_ARRAY(L->arena, T, count + 1);
	int n = 0;
	for (int i = 0; i < op->nargs; i++) {
		Storage *s = storage_of(L, tile_ref(op->args[i]).object);
		for (int r = 0; r < s->layout->nregs; r++) {
			types[n] = type_of(L, s->object->result->type.dtype);
			tied[n++] = frag_register(L, s, r);
		}
	}
	L->ops->wgmma_wait(L, (int)attr_int(op, AT_N, 0), count, tied, types);
}

/* ---- mma.sync ---- */

/* The operands of m16n8k16 (16-bit) are what the `mma` layout has.  m16n8k8 (tf32) wants columns k and k + 4 in lane k, which
 * has columns 2k and 2k + 1: a permutation of K that is the same in A and B changes nothing. */

static V tf32_word(Lower *L, const Storage *s, int row, int col)
{
	return LLVMBuildBitCast(L->b, LLVMBuildLoad2(L->b, L->f32, frag_register(L, s, layout_find_reg(s->layout, row, col)), ""), L->i32, "");
}

static V pair_word(Lower *L, const Storage *s, DType d, int row, int col)
{
	T pair = LLVMVectorType(type_of(L, d), 2);
	return pair_to_word(L, LLVMBuildLoad2(L->b, pair, frag_register(L, s, layout_find_reg(s->layout, row, col)), ""));
}

static int row_start(const TileRef *r)
{
	int64_t row = 0;
	if (r->start[0])
		value_const_int(r->start[0], &row);
	return (int)row;
}

static void a_words(Lower *L, const TileRef *a, int k, bool negate, V out[4])
{
	const Storage *s = storage_of(L, a->object);
	bool wide = dtype_bits(a->dtype) == 32;
	int row = row_start(a), col = (int)column_start(a) + k;
	for (int i = 0; i < 4; i++) {
		int r = row + 8 * (i & 1), half = i >> 1;
		out[i] = wide ? tf32_word(L, s, r, col + half) : pair_word(L, s, a->dtype, r, col + 8 * half);
		if (negate)
			out[i] = LLVMBuildXor(L->b, out[i], const_i32(L, wide ? 0x80000000 : 0x80008000), "");
	}
}

/* Element (2t + half, g) of an 8x8 block of [k][n] for lane 4g + t: its row is in lanes 8t + 4 half .., two columns in each. */
static V transposed_tf32(Lower *L, const Storage *s, int row, int col, int half)
{
	V t = LLVMBuildAnd(L->b, L->team.lane, const_i32(L, 3), ""), g = LLVMBuildLShr(L->b, L->team.lane, const_i32(L, 2), "");
	V from = build_add(L, build_mul_const(L, t, 8), LLVMBuildLShr(L->b, g, const_i32(L, 1), ""));
	from = build_add(L, from, const_i32(L, 4 * half));
	V even = L->ops->shfl(L, tf32_word(L, s, row, col), 0, from), odd = L->ops->shfl(L, tf32_word(L, s, row, col + 1), 0, from);
	V is_odd = LLVMBuildTrunc(L->b, LLVMBuildAnd(L->b, g, const_i32(L, 1), ""), L->i1, "");
	return LLVMBuildSelect(L->b, is_odd, odd, even, "");
}

/* One 8-column block of B, k-step k.  A stored [n][k] fragment has the words as they are; a [k][n] one is transposed. */
static void b_words(Lower *L, const TileRef *b, int n, int k, V out[2])
{
	const Storage *s = storage_of(L, b->object);
	bool wide = dtype_bits(b->dtype) == 32;
	int row = row_start(b), col = (int)column_start(b);
	for (int half = 0; half < 2; half++) {
		int k_half = k + (wide ? 0 : 8 * half);
		if (wide)
			out[half] = b->trans ? tf32_word(L, s, row + n, col + k + half) : transposed_tf32(L, s, row + k, col + n, half);
		else if (b->trans)
			out[half] = pair_word(L, s, b->dtype, row + n, col + k_half);
		else
			out[half] = L->ops->movmatrix(L, pair_word(L, s, b->dtype, row + k_half, col + n));
	}
}

static void lower_mma_sync(Lower *L, const Op *op)
{
	TileRef d = tile_ref(operand(op, ARG_D)), a = tile_ref(operand(op, ARG_A)), b = tile_ref(operand(op, ARG_B));
	Storage *ds = storage_of(L, d.object);
	const Product *kind = kind_of(L, &a, &b);
	int depth = kind->k, steps = (int)a.shape[1] / depth, blocks = (int)d.shape[1] / 8;
	int acc = (int)attr_int(op, AT_ACC, 0);
	Words *all_b = ARENA_ARRAY(L->arena, Words, steps * blocks), *all_a = ARENA_ARRAY(L->arena, Words, steps);
	for (int k = 0; k < steps; k++)
		for (int n = 0; n < blocks; n++)
			b_words(L, &b, 8 * n, depth * k, all_b[k * blocks + n].w);
	for (int k = 0; k < steps; k++)
		a_words(L, &a, depth * k, acc < 0, all_a[k].w);
	for (int n = 0; n < blocks; n++) {
		V dp[4];
		int row = row_start(&d), col = (int)column_start(&d) + 8 * n;
		for (int i = 0; i < 4; i++) {
			dp[i] = frag_register(L, ds, layout_find_reg(ds->layout, row + 8 * (i >> 1), col + (i & 1)));
			if (acc == 0)
				LLVMBuildStore(L->b, const_f32(L, 0), dp[i]);
		}
		for (int k = 0; k < steps; k++)
			L->ops->mma_sync(L, dp, all_a[k].w, all_b[k * blocks + n].w, kind);
	}
}

void lower_mma(Lower *L, const Op *op)
{
	if (strcmp(attr_text(op, AT_INST, ""), "mma_sync") == 0)
		lower_mma_sync(L, op);
	else
		lower_wgmma(L, op);
}
