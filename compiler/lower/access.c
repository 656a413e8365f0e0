/* access.c - reads and writes of element loops, and of single threads: neighbouring registers become one vector access. */
#include "compiler/analysis/index.h"
#include "compiler/lower/batch.h"
#include "compiler/lower/registers.h"

#include <string.h>

typedef struct Access {
	const Op *op;
	const Op *object;
	TypeKind space;
	DType dtype;
	int rank;
	const Value *mask;
} Access;

/* A read that may as well be made where its mask is off is one of its neighbours' vectors.  Not on the CPU device: nobody asked for it. */
static Access access_of(Lower *L, const Op *op)
{
	const Op *o = operand(op, ARG_OBJECT)->def;
	Access a = { .op = op, .object = o, .space = o->result->type.kind, .dtype = o->result->type.dtype,
	             .rank = o->result->type.rank };
	if (L->ops->checks || !attr_int(op, AT_INSIDE, 0))
		a.mask = access_mask(op);
	return a;
}

/* One message an access, not one an element. */
static void report_misplaced(Batch *x, const Access *a, const char *message)
{
	if (x->L->misplaced == a->op)
		return;
	x->L->misplaced = a->op;
	diag_error(x->L->diags, a->op->loc, E_LAYOUT_CONFLICT, "%s", message);
	diag_help(x->L->diags, "stage it through a shared tile");
}

static int frag_reg(Batch *x, const Access *a, int r)
{
	Lower *L = x->L;
	Storage *s = storage_of(L, a->object);
	Coord at = x->layout->reg[x->first + r];
	int c[2] = { 0, 0 };
	for (int d = 0; d < a->rank; d++) {
		LoopIndex li = loop_index(x->body, access_index(a->op, d));
		if (!li.known) {
			lower_error(L, a->op->loc, "'%s' is in registers: its index must be a loop index plus a constant", attr_text(a->object, AT_NAME, "fragment"));
			return 0;
		}
		c[d] = (int)li.offset + (li.arg < 0 ? 0 : li.arg == 0 ? at.row : at.col);
	}
	int reg = layout_find_reg(s->layout, c[0], c[1]);
	if (reg < 0) {
		report_misplaced(x, a, arena_printf(L->arena, "element (%d, %d) of '%s' (layout %s) is not in the thread that runs this iteration (loop layout %s)",
		                                    c[0], c[1], attr_text(a->object, AT_NAME, "fragment"), layout_name(L->tir, a->object),
		                                    layout_name(L->tir, x->loop)));
		return 0;
	}
	return reg;
}

/* The thread parts of the access and of the fragment's layout must agree. */
static bool frag_threads_agree(Batch *x, const Access *a)
{
	const Layout *f = storage_of(x->L, a->object)->layout, *l = x->layout;
	bool narrow = attr_int(a->op, AT_WARP_SCOPE, 0);
	int arg[2] = { -1, -1 };
	for (int d = 0; d < a->rank && d < 2; d++)
		arg[d] = loop_index(x->body, access_index(a->op, d)).arg;
	for (int b = 0; b < 10; b++) {
		Coord lc = b < 5 ? l->lane[b] : l->warp[b - 5], fc = b < 5 ? f->lane[b] : f->warp[b - 5];
		if (narrow && b >= 5)
			break;
		int want[2];
		for (int d = 0; d < 2; d++)
			want[d] = d >= a->rank || arg[d] < 0 ? 0 : arg[d] == 0 ? lc.row : lc.col;
		if (want[0] != fc.row || (a->rank == 2 && want[1] != fc.col))
			return false;
	}
	return true;
}

static void emit_frag_load(Batch *x, const Access *a)
{
	Lower *L = x->L;
	Storage *s = storage_of(L, a->object);
	Vec *e = result_vec(x, a->op->result);
	T elem = LLVMGetElementType(LLVMGetAllocatedType(s->pointer));
	for (int r = 0; r < x->n; r++) {
		int reg = frag_reg(x, a, r);
		if (s->packed == 1) {
			V v = LLVMBuildLoad2(L->b, elem, frag_register(L, s, reg), "");
			e->s[r] = a->dtype == DT_BOOL ? LLVMBuildTrunc(L->b, v, L->i1, "") : v;
			continue;
		}
		V p = LLVMBuildLoad2(L->b, elem, frag_register(L, s, reg), "");
		if (s->packed == 2 && paired(x) && r % 2 == 0 && reg % 2 == 0 && frag_reg(x, a, r + 1) == reg + 1) {
			e->p[r / 2] = p;
			r++;
		} else {
			e->s[r] = LLVMBuildExtractElement(L->b, p, const_i32(L, reg % s->packed), "");
		}
	}
}

static void emit_frag_store(Batch *x, const Access *a)
{
	Lower *L = x->L;
	Storage *s = storage_of(L, a->object);
	const Value *v = operand(a->op, ARG_VALUE);
	T elem = LLVMGetElementType(LLVMGetAllocatedType(s->pointer));
	for (int r = 0; r < x->n; r++) {
		int reg = frag_reg(x, a, r);
		V at = frag_register(L, s, reg);
		if (s->packed == 1) {
			V val = element(x, v, r);
			if (a->dtype == DT_BOOL)
				val = LLVMBuildZExt(L->b, val, L->i8, "");
			if (a->mask)
				val = LLVMBuildSelect(L->b, element(x, a->mask, r), val, LLVMBuildLoad2(L->b, elem, at, ""), "");
			LLVMBuildStore(L->b, val, at);
		} else if (!a->mask && s->packed == 2 && paired(x) && r % 2 == 0 && reg % 2 == 0 && frag_reg(x, a, r + 1) == reg + 1) {
			LLVMBuildStore(L->b, pair(x, v, r / 2), at);
			r++;
		} else {
			V old = LLVMBuildLoad2(L->b, elem, at, ""), val = element(x, v, r), k = const_i32(L, reg % s->packed);
			if (a->mask)
				val = LLVMBuildSelect(L->b, element(x, a->mask, r), val, LLVMBuildExtractElement(L->b, old, k, ""), "");
			LLVMBuildStore(L->b, LLVMBuildInsertElement(L->b, old, val, k, ""), at);
		}
	}
}

/* Whether the mask is the same for two registers of the batch, whatever it is. */
static bool same_mask(const Batch *x, const Value *mask, int r, int q)
{
	Coord a = x->layout->reg[x->first + r], b = x->layout->reg[x->first + q];
	if (!mask)
		return true;
	return (a.row == b.row || !depends_on_arg(x->body, mask, 0)) && (a.col == b.col || !depends_on_arg(x->body, mask, 1));
}

/* Registers whose elements lie side by side in memory: how many from register r on, a power of two, at most 16 bytes. */
static int run_length(Batch *x, const Access *a, int r)
{
	int bytes = (int)dtype_bytes(a->dtype), last = x->body->nargs - 1, max = 16 / bytes;
	while (a->space == TY_SHARED && a->rank > 1 && a->object->result->type.shape[a->rank - 1] % max != 0) /* rows begin at multiples of it */
		max /= 2;
	for (int d = 0; d + 1 < a->rank; d++) {
		int64_t run = constant_run(x->body, access_index(a->op, d), last);
		max = run < max ? (int)run : max;
	}
	const Value *li = access_index(a->op, a->rank - 1);
	if (!unit_in_arg(x->body, li, last))
		return 1;
	if (a->space == TY_TENSOR) {
		Value *stride = tensor_stride(a->object, a->rank - 1);
		int64_t one, row = 4096;
		if (!value_const_int(stride, &one) || one != 1)
			return 1;
		for (int d = 0; d + 1 < a->rank; d++) {
			int64_t s = value_divisor(NULL, tensor_stride(a->object, d), -1);
			row = s < row ? s : row;
		}
		max = row < max ? (int)row : max;
	}
	int64_t div = value_divisor(x->body, li, last);
	max = div < max ? (int)div : max;
	Coord c0 = x->layout->reg[x->first + r];
	int start = x->layout->rank == 2 ? c0.col : c0.row, n = 1;
	for (int b = 0; b < 10; b++) { /* thread bases must keep the alignment */
		Coord k = b < 5 ? x->layout->lane[b] : x->layout->warp[b - 5];
		int step = x->layout->rank == 2 ? k.col : k.row;
		while (step % max != 0)
			max /= 2;
	}
	while (start % max != 0)
		max /= 2;
	while (n < max && r + n < x->n) {
		Coord c = x->layout->reg[x->first + r + n];
		bool next = x->layout->rank == 2 ? c.row == c0.row && c.col == c0.col + n : c.row == c0.row + n;
		if (!next || !same_mask(x, a->mask, r, r + n))
			break;
		n++;
	}
	while ((n & (n - 1)) != 0)
		n--;
	return n;
}

static void element_index(Batch *x, const Access *a, int r, V *index, DType *types)
{
	for (int d = 0; d < a->rank; d++) {
		const Value *v = access_index(a->op, d);
		index[d] = element(x, v, r);
		types[d] = v->type.dtype;
	}
}

static V access_address(Batch *x, const Access *a, int r)
{
	V index[TIR_MAX_RANK];
	DType types[TIR_MAX_RANK];
	element_index(x, a, r, index, types);
	for (int d = 0; d < a->rank; d++)
		if (a->space == TY_SHARED)
			index[d] = convert(x->L, index[d], types[d], DT_I32);
	return a->space == TY_SHARED ? shared_address(x->L, a->object, index) : global_address(x->L, a->object, index, types);
}

/* Neighbouring registers that one access moves; mask: where it is made, or NULL. */
typedef struct Run { int first, n; V at, value, mask; } Run;

static void check_run(Batch *x, const Access *a, const Run *run)
{
	V index[TIR_MAX_RANK];
	DType types[TIR_MAX_RANK];
	element_index(x, a, run->first, index, types);
	check_index(x->L, a->object, index, types, run->n > 1 ? const_i64(x->L, run->n - 1) : NULL, run->mask);
}

static bool is_watched(Lower *L, const Access *a) { return L->ops->checks && (a->space != TY_TENSOR || is_followed(L, a->object)); }

/* Tells the CPU device of accesses to n elements each, made where mask (NULL: always) holds. */
static void note(Lower *L, const Access *a, Watched how, const V *at, int count, int n, V mask)
{
	if (!is_watched(L, a))
		return;
	V bytes = const_i32(L, dtype_bytes(a->dtype) * (unsigned)n);
	if (mask)
		bytes = LLVMBuildSelect(L->b, mask, bytes, const_i32(L, 0), "");
	if (a->space == TY_SHARED)
		watch_shared(L, how, at, count, bytes);
	else
		watch_global(L, how, a->object, at, count, bytes);
}

static bool same_masks(const V *masks, int n)
{
	bool same = true;
	for (int i = 1; i < n; i++)
		same &= masks[i] == masks[0] || (masks[i] && masks[0] && same_instructions(masks[i], masks[0], 8));
	return same;
}

/* Tells the CPU device of all runs, those of one length at once. */
static void note_runs(Batch *x, const Access *a, Watched how, const Run *runs, int count)
{
	V *at = ARENA_ARRAY(x->L->arena, V, 2 * count), *masks = at + count;
	bool *told = ARENA_ARRAY(x->L->arena, bool, count);
	for (int i = 0; i < count && is_watched(x->L, a); i++) {
		int n = 0;
		for (int k = i; !told[i] && k < count; k++)
			if (!told[k] && runs[k].n == runs[i].n) {
				at[n] = runs[k].at;
				masks[n++] = runs[k].mask;
				told[k] = k != i;
			}
		if (n && same_masks(masks, n))
			note(x->L, a, how, at, n, runs[i].n, masks[0]);
		else if (n)
			watch_chosen(x->L, how, a->object, at, masks, n, const_i32(x->L, dtype_bytes(a->dtype) * (unsigned)runs[i].n));
	}
}

static void check_runs(Batch *x, const Access *a, Watched how, const Run *runs, int count)
{
	if (!x->L->ops->checks)
		return;
	for (int i = 0; i < count; i++)
		check_run(x, a, &runs[i]);
	note_runs(x, a, how, runs, count);
}

/* The accesses of the registers from r on that have one mask; gives their number and moves r behind them. */
static int find_runs(Batch *x, const Access *a, int *r, Run *runs)
{
	int first = *r, count = 0;
	do {
		int n = run_length(x, a, *r);
		runs[count++] = (Run){ .first = *r, .n = n, .at = access_address(x, a, *r) };
		*r += n;
	} while (*r < x->n && same_mask(x, a->mask, first, *r));
	return count;
}

static void unpack(Batch *x, const Access *a, Vec *e, const Run *run)
{
	Lower *L = x->L;
	V v = run->value;
	bool pairs = packable(a->dtype) && paired(x) && run->n >= 2 && run->first % 2 == 0;
	if (pairs && run->n > 2) {
		v = LLVMBuildBitCast(L->b, v, LLVMVectorType(L->i32, (unsigned)run->n / 2), "");
		for (int k = 0; k < run->n / 2; k++)
			e->p[run->first / 2 + k] = word_to_pair(L, LLVMBuildExtractElement(L->b, v, const_i32(L, k), ""), a->dtype);
		return;
	}
	if (pairs) {
		e->p[run->first / 2] = v;
		return;
	}
	for (int k = 0; k < run->n; k++) {
		V s = run->n == 1 ? v : LLVMBuildExtractElement(L->b, v, const_i32(L, k), "");
		e->s[run->first + k] = a->dtype == DT_BOOL ? LLVMBuildTrunc(L->b, s, L->i1, "") : s;
	}
}

static void load_run(Lower *L, const Access *a, Run *run)
{
	T t = a->dtype == DT_BOOL ? L->i8 : type_of(L, a->dtype);
	run->value = LLVMBuildLoad2(L->b, run->n == 1 ? t : LLVMVectorType(t, (unsigned)run->n), run->at, "");
	LLVMSetAlignment(run->value, dtype_bytes(a->dtype) * (unsigned)run->n);
}

/* Loads where the mask holds, else zero. */
static void load_masked(Batch *x, const Access *a, V mask, Run *runs, int count)
{
	Lower *L = x->L;
	LLVMBasicBlockRef from[2] = { LLVMGetInsertBlock(L->b), NULL };
	Guard g = guard_begin(L, mask);
	check_runs(x, a, WATCHED_READ, runs, count);
	for (int i = 0; i < count; i++)
		load_run(L, a, &runs[i]);
	from[1] = LLVMGetInsertBlock(L->b);
	guard_end(L, g);
	for (int i = 0; i < count; i++) {
		T t = LLVMTypeOf(runs[i].value);
		V phi = LLVMBuildPhi(L->b, t, "");
		LLVMAddIncoming(phi, (V[]){ LLVMConstNull(t), runs[i].value }, from, 2);
		runs[i].value = phi;
	}
}

/* An address that may be read whatever the index: in the access's own tile, as another may be written at that moment. */
static V readable(Lower *L, const Access *a)
{
	V index[TIR_MAX_RANK];
	for (int d = 0; d < a->rank; d++)
		index[d] = const_i32(L, 0);
	return a->space == TY_TENSOR ? storage_of(L, a->object)->pointer : shared_address(L, a->object, index);
}

static bool writes(const Region *body, const Op *object)
{
	for (const Op *op = body->first; op; op = op->next)
		if ((op->code == OP_STORE || op->code == OP_ATOMIC) && operand(op, ARG_OBJECT)->def == object)
			return true;
	return false;
}

/* Without a branch, so that equal loads are still one; the CPU device is told of it behind the last. */
static void load_anywhere(Batch *x, const Access *a, Run *run, V mask)
{
	V at = run->at;
	run->mask = mask;
	if (x->L->ops->checks)
		check_run(x, a, run);
	if (mask)
		run->at = LLVMBuildSelect(x->L->b, mask, at, readable(x->L, a), "");
	load_run(x->L, a, run);
	run->at = at;
}

/* Where register r's element is written to memory; NULL: always. */
static V write_mask(Batch *x, const Value *mask, int r)
{
	V m = mask ? element(x, mask, r) : NULL;
	return m && x->holder ? LLVMBuildAnd(x->L->b, m, x->holder, "") : m ? m : x->holder;
}

static void emit_memory_load(Batch *x, const Access *a)
{
	Vec *e = result_vec(x, a->op->result);
	Run *all = ARENA_ARRAY(x->L->arena, Run, x->n), *runs = all;
	bool uniform = true, written = writes(x->body, a->object), branch = a->space == TY_TENSOR || written; /* no place that another thread writes */
	bool alone = written && x->holder && x->L->ops->checks; /* the other copies drop what they read (infer_layouts.c); the device is not told of it */
	for (int k = 0; k < x->body->nargs; k++) {
		for (int d = 0; d < a->rank; d++)
			uniform &= !depends_on_arg(x->body, access_index(a->op, d), k);
		uniform &= !access_mask(a->op) || !depends_on_arg(x->body, access_mask(a->op), k);
	}
	for (int r = 0, count; r < x->n; runs += count) {
		int first = r;
		count = 1;
		if (uniform) {
			runs[0] = (Run){ .first = 0, .n = 1, .at = access_address(x, a, 0) };
			r = x->n;
		} else {
			count = find_runs(x, a, &r, runs);
		}
		V mask = alone ? write_mask(x, a->mask, first) : a->mask ? element(x, a->mask, first) : NULL;
		if (mask && branch) {
			load_masked(x, a, mask, runs, count);
		} else {
			for (int i = 0; i < count; i++)
				load_anywhere(x, a, &runs[i], mask);
		}
		for (int i = 0; i < count; i++)
			unpack(x, a, e, &runs[i]);
	}
	if (!(a->mask || alone) || !branch)
		note_runs(x, a, WATCHED_READ, all, (int)(runs - all));
	for (int r = 1; uniform && r < x->n; r++)
		e->s[r] = e->s[0];
}

static V store_value(Batch *x, const Access *a, const Value *v, int r, int n)
{
	Lower *L = x->L;
	if (packable(a->dtype) && paired(x) && n >= 2 && r % 2 == 0) {
		if (n == 2)
			return pair(x, v, r / 2);
		V w = LLVMGetUndef(LLVMVectorType(L->i32, (unsigned)n / 2));
		for (int k = 0; k < n / 2; k++)
			w = LLVMBuildInsertElement(L->b, w, pair_to_word(L, pair(x, v, r / 2 + k)), const_i32(L, k), "");
		return w;
	}
	T t = a->dtype == DT_BOOL ? L->i8 : type_of(L, a->dtype);
	V w = n == 1 ? NULL : LLVMGetUndef(LLVMVectorType(t, (unsigned)n));
	for (int k = 0; k < n; k++) {
		V s = element(x, v, r + k);
		if (a->dtype == DT_BOOL)
			s = LLVMBuildZExt(L->b, s, L->i8, "");
		if (n == 1)
			return s;
		w = LLVMBuildInsertElement(L->b, w, s, const_i32(L, k), "");
	}
	return w;
}

/* What adds nothing looks at what others have added. */
static Watched kind_of_atomic(const Access *a)
{
	int64_t n;
	bool nothing = value_const_int(operand(a->op, ARG_VALUE), &n) && n == 0 && strcmp(attr_text(a->op, AT_RMW, "add"), "add") == 0;
	return nothing ? WATCHED_POLLED : WATCHED_ATOMIC;
}

static V atomic(Lower *L, const Access *a, V at, V v)
{
	const char *how = attr_text(a->op, AT_RMW, "add");
	bool f = dtype_is_float(a->dtype), s = dtype_is_signed(a->dtype);
	LLVMAtomicRMWBinOp op = f ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
	if (strcmp(how, "min") == 0)
		op = f ? LLVMAtomicRMWBinOpFMin : s ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin;
	else if (strcmp(how, "max") == 0)
		op = f ? LLVMAtomicRMWBinOpFMax : s ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax;
	return LLVMBuildAtomicRMW(L->b, op, at, v, LLVMAtomicOrderingMonotonic, 0);
}

static void emit_atomic(Batch *x, const Access *a)
{
	Lower *L = x->L;
	Vec *e = a->op->result ? result_vec(x, a->op->result) : NULL;
	for (int r = 0; r < x->n; r++) {
		V slot = NULL, v = element(x, operand(a->op, ARG_VALUE), r), at = access_address(x, a, r), mask = write_mask(x, a->mask, r);
		check_runs(x, a, kind_of_atomic(a), &(Run){ .first = r, .n = 1, .at = at, .mask = mask }, 1);
		if (!mask) {
			V old = atomic(L, a, at, v);
			if (e)
				e->s[r] = old;
			continue;
		}
		if (e)
			slot = entry_alloca(L, type_of(L, a->dtype), "old");
		Guard g = guard_begin(L, mask);
		V old = atomic(L, a, at, v);
		if (slot)
			LLVMBuildStore(L->b, old, slot);
		guard_end(L, g);
		if (slot)
			e->s[r] = LLVMBuildLoad2(L->b, type_of(L, a->dtype), slot, "");
	}
}

/* The CPU device is told behind the last. */
static void emit_memory_store(Batch *x, const Access *a)
{
	Lower *L = x->L;
	Run *all = ARENA_ARRAY(L->arena, Run, x->n), *runs = all;
	for (int r = 0, count; r < x->n; runs += count) {
		int first = r;
		count = find_runs(x, a, &r, runs);
		V mask = write_mask(x, a->mask, first);
		Guard g = { 0 };
		for (int i = 0; i < count; i++)
			runs[i].value = store_value(x, a, operand(a->op, ARG_VALUE), runs[i].first, runs[i].n);
		if (mask)
			g = guard_begin(L, mask);
		for (int i = 0; i < count && L->ops->checks; i++)
			check_run(x, a, &runs[i]);
		for (int i = 0; i < count; i++)
			LLVMSetAlignment(LLVMBuildStore(L->b, runs[i].value, runs[i].at), dtype_bytes(a->dtype) * (unsigned)runs[i].n);
		if (mask)
			guard_end(L, g);
		for (int i = 0; i < count; i++)
			runs[i].mask = mask;
	}
	note_runs(x, a, WATCHED_WRITTEN, all, (int)(runs - all));
}

static void report_other_threads(Batch *x, const Access *a)
{
	const char *name = attr_text(a->object, AT_NAME, "fragment"), *have = layout_name(x->L->tir, a->object), *loop = layout_name(x->L->tir, x->loop);
	report_misplaced(x, a, strcmp(have, loop) == 0
		? arena_printf(x->L->arena, "'%s' and this loop have layout %s, but the element that an iteration takes of it is another than the iteration's own: "
		               "it is in another thread", name, have)
		: arena_printf(x->L->arena, "'%s' has layout %s, but this loop runs with layout %s: its elements are in other threads", name, have, loop));
}

void emit_access(Batch *x, const Op *op)
{
	Access a = access_of(x->L, op);
	if (a.space == TY_FRAG) {
		if (!frag_threads_agree(x, &a))
			report_other_threads(x, &a);
		op->code == OP_LOAD ? emit_frag_load(x, &a) : emit_frag_store(x, &a);
	} else if (op->code == OP_LOAD) {
		emit_memory_load(x, &a);
	} else if (op->code == OP_ATOMIC) {
		emit_atomic(x, &a);
	} else {
		emit_memory_store(x, &a);
	}
}

/* Outside element loops: one thread's own access. */
void lower_element_op(Lower *L, const Op *op)
{
	Access a = access_of(L, op);
	V index[TIR_MAX_RANK];
	DType types[TIR_MAX_RANK];
	for (int d = 0; d < a.rank; d++) {
		const Value *v = access_index(op, d);
		index[d] = value_of(L, v);
		types[d] = v->type.dtype;
	}
	V mask = a.mask ? value_of(L, a.mask) : NULL;
	check_index(L, a.object, index, types, NULL, mask);
	for (int d = 0; d < a.rank; d++)
		if (a.space == TY_SHARED)
			index[d] = convert(L, index[d], types[d], DT_I32);
	V at = a.space == TY_SHARED ? shared_address(L, a.object, index) : global_address(L, a.object, index, types);
	T t = a.dtype == DT_BOOL ? L->i8 : type_of(L, a.dtype);
	if (op->code == OP_LOAD) {
		note(L, &a, WATCHED_READ, &at, 1, 1, mask);
		if (a.mask)
			at = LLVMBuildSelect(L->b, mask, at, readable(L, &a), "");
		V v = LLVMBuildLoad2(L->b, t, at, "");
		L->value[op->result->id] = a.dtype == DT_BOOL ? LLVMBuildTrunc(L->b, v, L->i1, "") : v;
		return;
	}
	Guard g = { 0 };
	if (a.mask)
		g = guard_begin(L, mask);
	V v = value_of(L, operand(op, ARG_VALUE));
	note(L, &a, op->code == OP_ATOMIC ? kind_of_atomic(&a) : WATCHED_WRITTEN, &at, 1, 1, NULL);
	if (op->code == OP_ATOMIC) {
		V old = atomic(L, &a, at, v);
		if (op->result)
			L->value[op->result->id] = old;
	} else {
		LLVMBuildStore(L->b, a.dtype == DT_BOOL ? LLVMBuildZExt(L->b, v, L->i8, "") : v, at);
	}
	if (a.mask)
		guard_end(L, g);
}
