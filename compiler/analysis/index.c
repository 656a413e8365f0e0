/* index.c - affine form and divisibility of index values. */
#include "compiler/analysis/index.h"

static bool is_arg(const Region *loop, const Value *v, int *arg)
{
	for (int i = 0; loop && i < loop->nargs; i++)
		if (loop->args[i] == v) {
			*arg = i;
			return true;
		}
	return false;
}

/* Of integers: floats round. */
static bool converts_integer(const Op *cast) { return dtype_is_int(operand(cast, ARG_A)->type.dtype); }

/* No number of a loop is cut off. */
static bool keeps_index(const Op *cast) { return converts_integer(cast) && dtype_is_int(cast->result->type.dtype) && dtype_bits(cast->result->type.dtype) >= 32; }

static LoopIndex index_of(const Region *loop, const Value *v, int *left)
{
	int arg;
	int64_t c;
	if (is_arg(loop, v, &arg))
		return (LoopIndex){ true, arg, 0 };
	if (value_const_int(v, &c))
		return (LoopIndex){ true, -1, c };
	if (!v->def || (*left)-- <= 0)
		return (LoopIndex){ 0 };
	if (v->def->code == OP_CAST && keeps_index(v->def))
		return index_of(loop, operand(v->def, ARG_A), left);
	if (v->def->code == OP_ADD || v->def->code == OP_SUB) {
		LoopIndex a = index_of(loop, operand(v->def, ARG_A), left), b = index_of(loop, operand(v->def, ARG_B), left);
		if (a.known && b.known && b.arg < 0)
			return (LoopIndex){ true, a.arg, v->def->code == OP_ADD ? wrapped_sum(a.offset, b.offset) : wrapped_difference(a.offset, b.offset) };
		if (a.known && b.known && a.arg < 0 && v->def->code == OP_ADD)
			return (LoopIndex){ true, b.arg, wrapped_sum(a.offset, b.offset) };
	}
	return (LoopIndex){ 0 };
}

LoopIndex loop_index(const Region *loop, const Value *v) { return index_of(loop, v, &(int){ MOST_VALUES }); }

static bool inside(const Region *loop, const Op *op)
{
	for (const Region *r = op->parent; r; r = r->owner ? r->owner->parent : NULL)
		if (r == loop)
			return true;
	return false;
}

static bool differs_each_time(Opcode c) { return c == OP_ATOMIC || c == OP_PTX || c == OP_CLOCK; }

/* What a value is computed from in a loop.  `nothing`: values of which that has been asked, and nothing was found. */
typedef bool IsSource(const Region *loop, const Value *v, const void *user);
enum { REMEMBERED = 256 };
typedef struct Asked { const Value *nothing[REMEMBERED]; int left; } Asked;

static bool computed_from(const Region *loop, const Value *v, Asked *asked, IsSource *is_source, const void *user)
{
	const Value **slot = &asked->nothing[v->id % REMEMBERED];
	if (*slot == v)
		return false;
	if (is_source(loop, v, user))
		return true;
	if (!v->def || !inside(loop, v->def))
		return false;
	if (asked->left-- <= 0)
		return true;
	for (int i = 0; i < v->def->nargs; i++)
		if (computed_from(loop, v->def->args[i], asked, is_source, user))
			return true;
	*slot = v;
	return false;
}

static bool is_source_arg(const Region *loop, const Value *v, const void *arg)
{
	int a;
	if (is_arg(loop, v, &a))
		return a == *(const int *)arg;
	return v->def && inside(loop, v->def) && differs_each_time(v->def->code);
}

bool depends_on_arg(const Region *loop, const Value *v, int arg) { return computed_from(loop, v, &(Asked){ .left = MOST_VALUES }, is_source_arg, &arg); }

static bool is_read_of(const Region *loop, const Value *v, const void *tile)
{
	(void)loop;
	return v->def && v->def->code == OP_LOAD && tile_ref(operand(v->def, ARG_OBJECT)).object == tile;
}

bool depends_on_tile(const Region *loop, const Value *v, const Op *tile) { return computed_from(loop, v, &(Asked){ .left = MOST_VALUES }, is_read_of, tile); }

enum { SIGN_DEPTH = 8 };

static bool small(const Value *v)
{
	int64_t c;
	return !value_const_int(v, &c) || (c >= -65536 && c <= 65536);
}

static bool never_negative(const Value *v, int depth);

/* A number from 2^31 on is below zero where it becomes one with a sign. */
static bool stays_positive(const Op *cast, int depth)
{
	const Value *from = operand(cast, ARG_A);
	unsigned bits = dtype_bits(from->type.dtype) + (dtype_is_signed(from->type.dtype) ? 0 : 1);
	return converts_integer(cast) && dtype_bits(cast->result->type.dtype) >= bits && never_negative(from, depth);
}

/* Counts and places, and what sums, products and the like make of those, which is taken not to overflow. */
static bool never_negative(const Value *v, int depth)
{
	int64_t c;
	if (!dtype_is_signed(v->type.dtype))
		return true;
	if (!v->def) {
		const Op *owner = v->region->owner;
		return owner->code != OP_FOR || (depth > 0 && never_negative(operand(owner, ARG_LO), depth - 1));
	}
	if (value_const_int(v, &c))
		return c >= 0 && small(v);
	if (depth == 0)
		return false;
	const Op *d = v->def;
	switch (d->code) {
	case OP_DIM: case OP_GRID_DIM: case OP_BLOCK_IDX: case OP_CLUSTER_RANK: case OP_THREAD: case OP_LANE: case OP_WARP: return true;
	case OP_CAST: return stays_positive(d, depth - 1);
	case OP_MOD: case OP_SHR: return never_negative(operand(d, ARG_A), depth - 1);
	case OP_ADD: case OP_MUL: case OP_DIV: case OP_MIN: return never_negative(operand(d, ARG_A), depth - 1) && never_negative(operand(d, ARG_B), depth - 1);
	case OP_AND: case OP_MAX: return never_negative(operand(d, ARG_A), depth - 1) || never_negative(operand(d, ARG_B), depth - 1);
	default: return false;
	}
}

/* Where quotients and remainders of neighbours are those of numbers from zero on. */
static bool counts_up(const Value *v) { return never_negative(v, SIGN_DEPTH); }

static bool unit(const Region *loop, const Value *v, int arg, int *left)
{
	int a;
	if (is_arg(loop, v, &a))
		return a == arg;
	if (!v->def || (*left)-- <= 0)
		return false;
	if (v->def->code == OP_CAST)
		return converts_integer(v->def) && unit(loop, operand(v->def, ARG_A), arg, left);
	if (v->def->code == OP_ADD) {
		Value *x = operand(v->def, ARG_A), *y = operand(v->def, ARG_B);
		return (unit(loop, x, arg, left) && !depends_on_arg(loop, y, arg)) ||
		       (unit(loop, y, arg, left) && !depends_on_arg(loop, x, arg));
	}
	/* Consecutive within aligned runs, whose length value_divisor bounds. */
	if (v->def->code == OP_XOR)
		return (unit(loop, operand(v->def, ARG_A), arg, left) && !depends_on_arg(loop, operand(v->def, ARG_B), arg)) ||
		       (unit(loop, operand(v->def, ARG_B), arg, left) && !depends_on_arg(loop, operand(v->def, ARG_A), arg));
	int64_t c;
	if (v->def->code == OP_MOD && value_const_int(operand(v->def, ARG_B), &c))
		return counts_up(operand(v->def, ARG_A)) && unit(loop, operand(v->def, ARG_A), arg, left);
	return v->def->code == OP_SUB && unit(loop, operand(v->def, ARG_A), arg, left) && !depends_on_arg(loop, operand(v->def, ARG_B), arg);
}

bool unit_in_arg(const Region *loop, const Value *v, int arg) { return unit(loop, v, arg, &(int){ MOST_VALUES }); }

enum { MOST_DIVISOR = 4096 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t low_power(int64_t c)
{
	if (c == 0)
		return MOST_DIVISOR;
	uint64_t p = (uint64_t)c & -(uint64_t)c;
	return p < MOST_DIVISOR ? (int64_t)p : MOST_DIVISOR;
}

static int64_t divisor(const Region *loop, const Value *v, int zero_arg, int *left);

static int64_t divisor_of(const Region *loop, const Op *op, OperandId id, int zero_arg, int *left) { return divisor(loop, operand(op, id), zero_arg, left); }

static int64_t divisor(const Region *loop, const Value *v, int zero_arg, int *left)
{
	int arg;
	int64_t c;
	if (is_arg(loop, v, &arg))
		return arg == zero_arg ? MOST_DIVISOR : 1;
	if (value_const_int(v, &c))
		return low_power(c);
	if (!v->def || (*left)-- <= 0)
		return 1;
	const Op *d = v->def;
	switch (d->code) {
	case OP_CAST: return converts_integer(d) ? divisor_of(loop, d, ARG_A, zero_arg, left) : 1;
	case OP_ADD: case OP_SUB: case OP_XOR: case OP_MOD: return smaller(divisor_of(loop, d, ARG_A, zero_arg, left), divisor_of(loop, d, ARG_B, zero_arg, left));
	case OP_SELECT: return smaller(divisor_of(loop, d, ARG_A, zero_arg, left), divisor_of(loop, d, ARG_B, zero_arg, left));
	case OP_MUL: return smaller(divisor_of(loop, d, ARG_A, zero_arg, left) * divisor_of(loop, d, ARG_B, zero_arg, left), MOST_DIVISOR);
	case OP_SHL: {
		int64_t a = divisor_of(loop, d, ARG_A, zero_arg, left);
		return value_const_int(operand(d, ARG_B), &c) && c >= 0 && c < 12 ? smaller(a << c, MOST_DIVISOR) : a;
	}
	default: return 1;
	}
}

int64_t value_divisor(const Region *loop, const Value *v, int zero_arg) { return divisor(loop, v, zero_arg, &(int){ MOST_VALUES }); }

static bool residue(const Value *v, int64_t m, int64_t *r, int *left)
{
	int64_t a, b;
	*r = 0;
	if (!v || divisor(NULL, v, -1, left) % m == 0)
		return true;
	if (value_const_int(v, &a)) {
		*r = a & (m - 1);
		return true;
	}
	if ((*left)-- <= 0)
		return false;
	const Op *d = v->def, *loop = v->region ? v->region->owner : NULL;
	if (loop && loop->code == OP_FOR) /* start, end, step */
		return divisor(NULL, operand(loop, ARG_STEP), -1, left) % m == 0 && residue(operand(loop, ARG_LO), m, r, left);
	if (d && d->code == OP_CAST && converts_integer(d))
		return residue(operand(d, ARG_A), m, r, left);
	if (!d || (d->code != OP_ADD && d->code != OP_SUB) || !residue(operand(d, ARG_A), m, &a, left) || !residue(operand(d, ARG_B), m, &b, left))
		return false;
	*r = (d->code == OP_ADD ? a + b : a - b) & (m - 1);
	return true;
}

bool value_residue(const Value *v, int64_t m, int64_t *r) { return residue(v, m, r, &(int){ MOST_VALUES }); }

static int64_t run_of(const Region *loop, const Value *v, int arg, int *left)
{
	int64_t c;
	if (!depends_on_arg(loop, v, arg))
		return MOST_DIVISOR;
	if (!v->def || v->def->parent != loop || (*left)-- <= 0)
		return 1;
	const Op *d = v->def;
	if (d->code == OP_DIV && value_const_int(operand(d, ARG_B), &c) && c > 0 && counts_up(operand(d, ARG_A)) && unit(loop, operand(d, ARG_A), arg, left)) {
		int64_t a = divisor(loop, operand(d, ARG_A), arg, left), p = low_power(c);
		return a < p ? a : p;
	}
	switch (d->code) {
	case OP_ADD: case OP_SUB: case OP_MUL: case OP_XOR: case OP_CAST: case OP_DIV: {
		int64_t least = MOST_DIVISOR;
		for (int i = 0; i < d->nargs; i++) {
			int64_t r = run_of(loop, d->args[i], arg, left);
			least = r < least ? r : least;
		}
		return least;
	}
	default: return 1;
	}
}

int64_t constant_run(const Region *loop, const Value *v, int arg) { return run_of(loop, v, arg, &(int){ MOST_VALUES }); }

/* `places`: what counts places may be in it, too. */
static bool arithmetic_of(const Value *v, int depth, bool places)
{
	const Op *d = v->def;
	if (!d) /* a loop's counter, a role's instance */
		return places;
	if (depth == 0)
		return false;
	switch (d->code) {
	case OP_CONST: return small(v);
	case OP_DIM: case OP_GRID_DIM: return true;
	case OP_BLOCK_IDX: case OP_CLUSTER_RANK: case OP_THREAD: case OP_LANE: case OP_WARP: return places;
	case OP_CAST: return dtype_is_int(operand(d, ARG_A)->type.dtype) && arithmetic_of(operand(d, ARG_A), depth - 1, places);
	case OP_ADD: case OP_SUB: case OP_MUL: case OP_DIV: case OP_MOD: case OP_MIN: case OP_MAX:
		return arithmetic_of(operand(d, ARG_A), depth - 1, places) && arithmetic_of(operand(d, ARG_B), depth - 1, places);
	default: return false;
	}
}

bool index_arithmetic(const Value *v, int depth) { return arithmetic_of(v, depth, true); }

bool extent_arithmetic(const Value *v, int depth) { return arithmetic_of(v, depth, false); }
