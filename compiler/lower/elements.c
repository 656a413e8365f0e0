/* elements.c - element loops: the body is emitted op by op over batches of a thread's registers,
 * so that shared and global accesses of neighbouring registers become one vector access and
 * 16-bit arithmetic runs on packed pairs.
 */
#include "compiler/analysis/index.h"
#include "compiler/lower/context.h"
#include "compiler/lower/elements.h"

#include <string.h>

/* A value over a batch: per register, and per pair where it is 16-bit. */
typedef struct Vec { V *s, *p; } Vec;

typedef struct Batch {
	Lower *L;
	const Op *loop;        /* or NULL */
	const Region *body;
	const Layout *layout;
	int first, n;          /* registers first .. first + n */
	V base_row, base_col;
	V holder;              /* where elements have copies: in the thread that does what memory sees; else NULL */
	Vec *vec;              /* by Value id - low_id, of values of the body */
	unsigned low_id;
} Batch;

static bool packable(DType d) { return dtype_is_float(d) && dtype_bits(d) == 16; }

/* Steps that are no powers of two may carry. */
static V with_bit(Lower *L, V sum, V bit, int step)
{
	V part = build_mul_const(L, bit, step);
	return (step & (step - 1)) == 0 ? LLVMBuildOr(L->b, sum, part, "") : LLVMBuildAdd(L->b, sum, part, "");
}

void layout_base(Lower *L, const Layout *l, V lane, V warp, V *row, V *col)
{
	V r = const_i32(L, 0), c = const_i32(L, 0);
	for (int b = 0; b < 5 + l->warp_bits; b++) {
		Coord k = b < 5 ? l->lane[b] : l->warp[b - 5];
		if (k.row == 0 && k.col == 0)
			continue;
		V bit = LLVMBuildAnd(L->b, LLVMBuildLShr(L->b, b < 5 ? lane : warp, const_i32(L, b < 5 ? b : b - 5), ""), const_i32(L, 1), "");
		if (k.row)
			r = with_bit(L, r, bit, k.row);
		if (k.col)
			c = with_bit(L, c, bit, k.col);
	}
	*row = r;
	*col = c;
}

/* Variables are declared outside: what one holds is the same for all elements. */
static bool in_body(const Batch *x, const Value *v)
{
	return v->region == x->body || (v->def && v->def->parent == x->body && v->def->code != OP_GET);
}

static V element(Batch *x, const Value *v, int r)
{
	if (!in_body(x, v))
		return value_of(x->L, v);
	Vec *e = &x->vec[v->id - x->low_id];
	if (!e->s[r])
		e->s[r] = LLVMBuildExtractElement(x->L->b, e->p[r / 2], const_i32(x->L, r % 2), "");
	return e->s[r];
}

static V pair(Batch *x, const Value *v, int k)
{
	if (!in_body(x, v))
		return pack_pair(x->L, value_of(x->L, v), value_of(x->L, v), v->type.dtype);
	Vec *e = &x->vec[v->id - x->low_id];
	if (!e->p[k])
		e->p[k] = pack_pair(x->L, e->s[2 * k], e->s[2 * k + 1], v->type.dtype);
	return e->p[k];
}

static Vec *result_vec(Batch *x, const Value *v)
{
	Vec *e = &x->vec[v->id - x->low_id];
	e->s = ARENA_ARRAY(x->L->arena, V, x->n);
	e->p = ARENA_ARRAY(x->L->arena, V, x->n / 2 + 1);
	return e;
}

static bool paired(const Batch *x) { return x->layout->pairs && x->n % 2 == 0 && x->first % 2 == 0; }

static bool pair_op(Opcode c)
{
	return c == OP_ADD || c == OP_SUB || c == OP_MUL || c == OP_NEG || c == OP_MIN || c == OP_MAX;
}

static void emit_scalar(Batch *x, const Op *op)
{
	Lower *L = x->L;
	if (!op->result) {
		lower_error(L, op->loc, "`%s` has no meaning in an element loop", op_info(op->code)->text);
		return;
	}
	Vec *e = result_vec(x, op->result);
	DType d = op->result->type.dtype;
	bool narrow = packable(d), two = paired(x);
	V args[8];
	if (two && op->code == OP_CAST && packable(d) && op->args[0]->type.dtype == DT_F32) {
		for (int k = 0; k < x->n / 2; k++)
			e->p[k] = narrow_pair(L, element(x, op->args[0], 2 * k), element(x, op->args[0], 2 * k + 1), d);
		return;
	}
	if (two && op->code == OP_CAST && d == DT_F32 && packable(op->args[0]->type.dtype) && in_body(x, op->args[0])) {
		for (int k = 0; k < x->n / 2; k++)
			widen_pair(L, pair(x, op->args[0], k), op->args[0]->type.dtype, &e->s[2 * k]);
		return;
	}
	if (x->n % 2 == 0 && op->code == OP_CAST && is_float8(d) && op->args[0]->type.dtype == DT_F32) {
		for (int r = 0; r < x->n; r += 2) {
			V pair = L->ops->narrow8(L, d, element(x, op->args[0], r), element(x, op->args[0], r + 1));
			e->s[r] = LLVMBuildTrunc(L->b, pair, L->i8, "");
			e->s[r + 1] = LLVMBuildTrunc(L->b, LLVMBuildLShr(L->b, pair, LLVMConstInt(L->i16, 8, 0), ""), L->i8, "");
		}
		return;
	}
	if (two && narrow && pair_op(op->code)) {
		for (int k = 0; k < x->n / 2; k++) {
			for (int i = 0; i < op->nargs; i++)
				args[i] = pair(x, op->args[i], k);
			e->p[k] = lower_scalar(L, op, args);
		}
		return;
	}
	for (int r = 0; r < x->n; r++) {
		for (int i = 0; i < op->nargs && i < 8; i++)
			args[i] = op->args[i]->type.kind == TY_SCALAR ? element(x, op->args[i], r) : NULL;
		e->s[r] = lower_scalar(L, op, args);
	}
}

/* ---- accesses ---- */

typedef struct Access {
	const Op *op;
	const Op *object;
	TypeKind space;
	DType dtype;
	int rank, first_index;  /* operand number of index 0 */
	const Value *mask;
} Access;

/* A read that may as well be made where its mask is off is one of its neighbours' vectors.  Not on the CPU device: nobody asked for it. */
static Access access_of(Lower *L, const Op *op)
{
	int first = op->code == OP_LOAD ? 0 : 1;
	const Op *o = op->args[first]->def;
	Access a = { .op = op, .object = o, .space = o->result->type.kind, .dtype = o->result->type.dtype,
	             .rank = o->result->type.rank, .first_index = first + 1 };
	if (attr_int(op, AT_MASKED, 0) && (L->ops->cpu || !attr_int(op, AT_INSIDE, 0)))
		a.mask = op->args[op->nargs - 1];
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
		LoopIndex li = loop_index(x->body, a->op->args[a->first_index + d]);
		if (!li.known) {
			lower_error(L, a->op->loc, "'%s' is in registers: its index must be a loop index plus a constant", attr_text(a->object, AT_NAME, "fragment"));
			return 0;
		}
		c[d] = (int)li.offset + (li.arg < 0 ? 0 : li.arg == 0 ? at.row : at.col);
	}
	int reg = layout_find_reg(s->layout, c[0], c[1]);
	if (reg < 0) {
		report_misplaced(x, a, arena_printf(L->arena, "element (%d, %d) of '%s' (layout %s) is not in the thread that runs this iteration (loop layout %s)",
		                                    c[0], c[1], attr_text(a->object, AT_NAME, "fragment"), attr_text(a->object, AT_LAYOUT, "?"),
		                                    attr_text(x->loop, AT_LAYOUT, "?")));
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
		arg[d] = loop_index(x->body, a->op->args[a->first_index + d]).arg;
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
		if (!s->packed) {
			V v = LLVMBuildLoad2(L->b, elem, frag_register(L, s, reg), "");
			e->s[r] = a->dtype == DT_BOOL ? LLVMBuildTrunc(L->b, v, L->i1, "") : v;
			continue;
		}
		V p = LLVMBuildLoad2(L->b, elem, frag_register(L, s, reg), "");
		if (paired(x) && r % 2 == 0 && reg % 2 == 0 && frag_reg(x, a, r + 1) == reg + 1) {
			e->p[r / 2] = p;
			r++;
		} else {
			e->s[r] = LLVMBuildExtractElement(L->b, p, const_i32(L, reg % 2), "");
		}
	}
}

static void emit_frag_store(Batch *x, const Access *a)
{
	Lower *L = x->L;
	Storage *s = storage_of(L, a->object);
	const Value *v = a->op->args[0];
	T elem = LLVMGetElementType(LLVMGetAllocatedType(s->pointer));
	for (int r = 0; r < x->n; r++) {
		int reg = frag_reg(x, a, r);
		V at = frag_register(L, s, reg);
		if (!s->packed) {
			V val = element(x, v, r);
			if (a->dtype == DT_BOOL)
				val = LLVMBuildZExt(L->b, val, L->i8, "");
			if (a->mask)
				val = LLVMBuildSelect(L->b, element(x, a->mask, r), val, LLVMBuildLoad2(L->b, elem, at, ""), "");
			LLVMBuildStore(L->b, val, at);
		} else if (!a->mask && paired(x) && r % 2 == 0 && reg % 2 == 0 && frag_reg(x, a, r + 1) == reg + 1) {
			LLVMBuildStore(L->b, pair(x, v, r / 2), at);
			r++;
		} else {
			V old = LLVMBuildLoad2(L->b, elem, at, ""), val = element(x, v, r), k = const_i32(L, reg % 2);
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
		int64_t run = constant_run(x->body, a->op->args[a->first_index + d], last);
		max = run < max ? (int)run : max;
	}
	const Value *li = a->op->args[a->first_index + a->rank - 1];
	if (!unit_in_arg(x->body, li, last))
		return 1;
	if (a->space == TY_TENSOR) {
		Value *stride = a->object->args[a->object->nargs - 1];
		int64_t one, row = 4096;
		if (!value_const_int(stride, &one) || one != 1)
			return 1;
		for (int d = 0; d + 1 < a->rank; d++) {
			int64_t s = value_divisor(NULL, a->object->args[a->rank + d], -1);
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

static void access_index(Batch *x, const Access *a, int r, V *index, DType *types)
{
	for (int d = 0; d < a->rank; d++) {
		const Value *v = a->op->args[a->first_index + d];
		index[d] = element(x, v, r);
		types[d] = v->type.dtype;
	}
}

static V access_address(Batch *x, const Access *a, int r)
{
	V index[TIR_MAX_RANK];
	DType types[TIR_MAX_RANK];
	access_index(x, a, r, index, types);
	for (int d = 0; d < a->rank; d++)
		if (a->space == TY_SHARED && dtype_bits(types[d]) == 64)
			index[d] = LLVMBuildTrunc(x->L->b, index[d], x->L->i32, "");
	return a->space == TY_SHARED ? shared_address(x->L, a->object, index) : global_address(x->L, a->object, index, types);
}

/* Neighbouring registers that one access moves; mask: where it is made, or NULL. */
typedef struct Run { int first, n; V at, value, mask; } Run;

static void check_run(Batch *x, const Access *a, const Run *run)
{
	V index[TIR_MAX_RANK];
	DType types[TIR_MAX_RANK];
	access_index(x, a, run->first, index, types);
	check_index(x->L, a->object, index, types, run->n > 1 ? const_i64(x->L, run->n - 1) : NULL, run->mask);
}

/* Tells the CPU device of accesses to shared memory of n elements each, made where mask (NULL: always) holds. */
static void note(Lower *L, const Access *a, Watched how, const V *at, int count, int n, V mask)
{
	if (a->space != TY_SHARED || !L->ops->cpu)
		return;
	V bytes = const_i32(L, dtype_bytes(a->dtype) * (unsigned)n);
	watch_shared(L, how, at, count, mask ? LLVMBuildSelect(L->b, mask, bytes, const_i32(L, 0), "") : bytes);
}

static bool told_together(const Run *a, const Run *b)
{
	return a->n == b->n && (a->mask == b->mask || (a->mask && b->mask && same_instructions(a->mask, b->mask, 8)));
}

/* Tells the CPU device of all runs, those of one mask at once. */
static void note_runs(Batch *x, const Access *a, Watched how, const Run *runs, int count)
{
	V *at = ARENA_ARRAY(x->L->arena, V, count);
	bool *told = ARENA_ARRAY(x->L->arena, bool, count);
	for (int i = 0; i < count; i++) {
		int n = 0;
		for (int k = i; !told[i] && k < count; k++)
			if (k == i || (!told[k] && told_together(&runs[i], &runs[k]))) {
				at[n++] = runs[k].at;
				told[k] = k != i;
			}
		if (n)
			note(x->L, a, how, at, n, runs[i].n, runs[i].mask);
	}
}

static void check_runs(Batch *x, const Access *a, Watched how, const Run *runs, int count)
{
	if (!x->L->ops->cpu)
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
		if ((op->code == OP_STORE || op->code == OP_ATOMIC) && op->args[1]->def == object)
			return true;
	return false;
}

/* Without a branch, so that equal loads are still one; the CPU device is told of it behind the last. */
static void load_anywhere(Batch *x, const Access *a, Run *run, V mask)
{
	V at = run->at;
	run->mask = mask;
	if (x->L->ops->cpu)
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
	bool alone = written && x->holder && x->L->ops->cpu; /* the other copies drop what they read (infer_layouts.c); the device is not told of it */
	for (int i = a->first_index; i < a->op->nargs; i++)
		for (int k = 0; k < x->body->nargs; k++)
			uniform &= !depends_on_arg(x->body, a->op->args[i], k);
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
		V slot = NULL, v = element(x, a->op->args[0], r), at = access_address(x, a, r), mask = write_mask(x, a->mask, r);
		check_runs(x, a, WATCHED_ATOMIC, &(Run){ .first = r, .n = 1, .at = at, .mask = mask }, 1);
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

static void emit_memory_store(Batch *x, const Access *a)
{
	Lower *L = x->L;
	Run *runs = ARENA_ARRAY(L->arena, Run, x->n);
	for (int r = 0; r < x->n;) {
		int first = r, count = find_runs(x, a, &r, runs);
		V mask = write_mask(x, a->mask, first);
		Guard g = { 0 };
		for (int i = 0; i < count; i++)
			runs[i].value = store_value(x, a, a->op->args[0], runs[i].first, runs[i].n);
		if (mask)
			g = guard_begin(L, mask);
		check_runs(x, a, WATCHED_WRITTEN, runs, count);
		for (int i = 0; i < count; i++)
			LLVMSetAlignment(LLVMBuildStore(L->b, runs[i].value, runs[i].at), dtype_bytes(a->dtype) * (unsigned)runs[i].n);
		if (mask)
			guard_end(L, g);
	}
}

static void report_other_threads(Batch *x, const Access *a)
{
	const char *name = attr_text(a->object, AT_NAME, "fragment"), *have = attr_text(a->object, AT_LAYOUT, "?"), *loop = attr_text(x->loop, AT_LAYOUT, "?");
	report_misplaced(x, a, strcmp(have, loop) == 0
		? arena_printf(x->L->arena, "'%s' and this loop have layout %s, but the element that an iteration takes of it is another than the iteration's own: "
		               "it is in another thread", name, have)
		: arena_printf(x->L->arena, "'%s' has layout %s, but this loop runs with layout %s: its elements are in other threads", name, have, loop));
}

static void emit_access(Batch *x, const Op *op)
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

static void emit_print(Batch *x, const Op *op)
{
	Guard g = { 0 };
	if (x->holder)
		g = guard_begin(x->L, x->holder);
	for (int r = 0; r < x->n; r++) {
		V *args = ARENA_ARRAY(x->L->arena, V, op->nargs + 1);
		for (int i = 0; i < op->nargs; i++)
			args[i] = element(x, op->args[i], r);
		lower_print(x->L, op, args);
	}
	if (x->holder)
		guard_end(x->L, g);
}

static void emit_ptx(Batch *x, const Op *op)
{
	Vec *e = op->result ? result_vec(x, op->result) : NULL;
	V *args = ARENA_ARRAY(x->L->arena, V, op->nargs + 1);
	for (int r = 0; r < x->n; r++) {
		for (int i = 0; i < op->nargs; i++)
			args[i] = element(x, op->args[i], r);
		V v = lower_ptx(x->L, op, args);
		if (e)
			e->s[r] = v;
	}
}

static void emit_assert(Batch *x, const Op *op)
{
	for (int r = 0; r < x->n; r++)
		lower_assert(x->L, op, element(x, op->args[0], r));
}

/* A bool outside the loop takes this thread's elements. */
static void emit_combine(Batch *x, const Op *op)
{
	Lower *L = x->L;
	bool all = strcmp(attr_text(op, AT_COMBINE, "or"), "and") == 0;
	V at = storage_of(L, op->args[0]->def)->pointer;
	V sum = LLVMBuildTrunc(L->b, LLVMBuildLoad2(L->b, L->i8, at, ""), L->i1, "");
	for (int r = 0; r < x->n; r++) {
		V v = element(x, op->args[1], r);
		sum = all ? LLVMBuildAnd(L->b, sum, v, "") : LLVMBuildOr(L->b, sum, v, "");
	}
	LLVMBuildStore(L->b, LLVMBuildZExt(L->b, sum, L->i8, ""), at);
}

static void emit_batch(Batch *x)
{
	Lower *L = x->L;
	for (int k = 0; k < x->body->nargs; k++) {
		Vec *e = result_vec(x, x->body->args[k]);
		for (int r = 0; r < x->n; r++) {
			Coord c = x->layout->reg[x->first + r];
			e->s[r] = LLVMBuildNSWAdd(L->b, k == 0 ? x->base_row : x->base_col, const_i32(L, k == 0 ? c.row : c.col), "");
		}
	}
	for (const Op *op = x->body->first; op; op = op->next) {
		debug_location(L, op->loc);
		switch (op->code) {
		case OP_LOAD: case OP_STORE: case OP_ATOMIC: emit_access(x, op); break;
		case OP_PRINT: emit_print(x, op); break;
		case OP_ASSERT: emit_assert(x, op); break;
		case OP_TRAP: L->ops->fail(L, "trap"); break;
		case OP_PTX: emit_ptx(x, op); break;
		case OP_GET: lower_var(L, op); break;
		case OP_SET: emit_combine(x, op); break;
		case OP_VIEW: break;
		default: emit_scalar(x, op); break;
		}
	}
}

static void number_values(Batch *x)
{
	unsigned low = x->body->args[0]->id, high = low;
	for (int k = 1; k < x->body->nargs; k++) {
		low = x->body->args[k]->id < low ? x->body->args[k]->id : low;
		high = x->body->args[k]->id > high ? x->body->args[k]->id : high;
	}
	for (const Op *op = x->body->first; op; op = op->next) {
		low = op->result && op->result->id < low ? op->result->id : low;
		high = op->result && op->result->id > high ? op->result->id : high;
	}
	x->low_id = low;
	x->vec = ARENA_ARRAY(x->L->arena, Vec, high - low + 1);
}

V first_copy(Lower *L, const Layout *l)
{
	unsigned lanes = 0, warps = 0;
	for (int b = 0; b < 5 + l->warp_bits; b++) {
		Coord k = b < 5 ? l->lane[b] : l->warp[b - 5];
		if (k.row == 0 && k.col == 0)
			*(b < 5 ? &lanes : &warps) |= 1u << (b < 5 ? b : b - 5);
	}
	if (!lanes && !warps)
		return NULL;
	V bits = LLVMBuildAnd(L->b, L->team.lane, const_i32(L, lanes), "");
	if (warps)
		bits = LLVMBuildOr(L->b, bits, LLVMBuildAnd(L->b, L->team.warp, const_i32(L, warps), ""), "");
	return LLVMBuildICmp(L->b, LLVMIntEQ, bits, const_i32(L, 0), "");
}

static bool sets_fragment(const Region *body)
{
	for (const Op *op = body->first; op; op = op->next)
		if (op->code == OP_STORE && op->args[1]->type.kind == TY_FRAG)
			return true;
	return false;
}

void lower_parallel(Lower *L, const Op *op)
{
	const Attr *ext = attr_get(op, AT_EXTENTS);
	const char *why = "";
	bool warp_scope = attr_int(op, AT_WARP_SCOPE, 0);
	Batch x = { .L = L, .loop = op, .body = op->regions[0] };
	x.layout = layout_from_text(L->arena, attr_text(op, AT_LAYOUT, "?"), op->regions[0]->nargs, ext->list, warp_scope ? 1 : L->team.warps, &why);
	if (!x.layout) {
		lower_error(L, op->loc, "element loop without layout: %s", why);
		return;
	}
	number_values(&x);
	layout_base(L, x.layout, L->team.lane, warp_scope ? const_i32(L, 0) : L->team.warp, &x.base_row, &x.base_col);
	int batch = (int)attr_int(op, AT_BATCH, 8);
	/* Copies of an element run what sets fragments; the rest, and what memory sees, only the first of each. */
	Guard g = { 0 };
	V first = first_copy(L, x.layout);
	bool all = sets_fragment(x.body);
	if (all)
		x.holder = first;
	else if (first)
		g = guard_begin(L, first);
	for (x.first = 0; x.first < x.layout->nregs; x.first += x.n) {
		x.n = x.layout->nregs - x.first < batch ? x.layout->nregs - x.first : batch;
		emit_batch(&x);
	}
	if (first && !all)
		guard_end(L, g);
}

/* Outside element loops: one thread's own access. */
void lower_element_op(Lower *L, const Op *op)
{
	Access a = access_of(L, op);
	V index[TIR_MAX_RANK];
	DType types[TIR_MAX_RANK];
	for (int d = 0; d < a.rank; d++) {
		const Value *v = op->args[a.first_index + d];
		index[d] = value_of(L, v);
		types[d] = v->type.dtype;
	}
	V mask = a.mask ? value_of(L, a.mask) : NULL;
	check_index(L, a.object, index, types, NULL, mask);
	for (int d = 0; d < a.rank; d++)
		if (a.space == TY_SHARED && dtype_bits(types[d]) == 64)
			index[d] = LLVMBuildTrunc(L->b, index[d], L->i32, "");
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
	V v = value_of(L, op->args[0]);
	note(L, &a, op->code == OP_ATOMIC ? WATCHED_ATOMIC : WATCHED_WRITTEN, &at, 1, 1, NULL);
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
