/* scalar.c - scalar operations: folded when both operands are constant, else emitted. */
#include "compiler/elaborate/elab.h"

#include <math.h>
#include <string.h>

/* ---- values ---- */

Ev ev_of(Value *v)
{
	return (Ev){ .kind = EV_VALUE, .dtype = v->type.dtype, .value = v };
}

bool ev_is_scalar(Ev e)
{
	return e.kind == EV_CONST || e.kind == EV_VALUE;
}

static bool same_bits(double a, double b)
{
	return !memcmp(&a, &b, sizeof a);
}

static void remember_const(Elab *E, Value *v, Ev e)
{
	if (E->at.nconsts == E->consts_cap) {
		int cap = E->consts_cap ? 2 * E->consts_cap : 64;
		ConstSlot *bigger = ARENA_ARRAY(E->a, ConstSlot, cap);
		if (E->at.nconsts)
			memcpy(bigger, E->consts, sizeof *bigger * (size_t)E->at.nconsts);
		E->consts = bigger;
		E->consts_cap = cap;
	}
	E->consts[E->at.nconsts++] = (ConstSlot){ v, e.i, e.f };
}

enum { CONSTS_SEARCHED = 256 }; /* so that long unrolled code costs linear time */

Value *ev_value(Elab *E, Loc loc, Ev e)
{
	if (e.kind == EV_VALUE)
		return e.value;
	if (e.literal)
		e = fold_cast(e, e.dtype);
	int oldest = E->at.nconsts > CONSTS_SEARCHED ? E->at.nconsts - CONSTS_SEARCHED : 0;
	for (int k = E->at.nconsts; k-- > oldest;) {
		const ConstSlot *c = &E->consts[k];
		if (c->value->type.dtype == e.dtype && c->i == e.i && same_bits(c->f, e.f))
			return c->value;
	}
	Op *op = emit_op(E, OP_CONST, loc, type_scalar(e.dtype), 0, NULL);
	if (dtype_is_float(e.dtype))
		attr_set_real(E->t, op, AT_FVALUE, e.f);
	else
		attr_set_int(E->t, op, AT_VALUE, e.i);
	remember_const(E, op->result, e);
	return op->result;
}

/* ---- conversions ---- */

static Ev compare_zero(Elab *E, Loc loc, Ev e)
{
	Ev zero = fold_cast(ev_int(DT_I32, 0), e.dtype);
	return ev_binary(E, loc, BIN_NE, e, zero);
}

/* A finite number does not become infinite, or another, by itself. */
static Ev cast_const(Elab *E, Loc loc, Ev e, DType t)
{
	Ev r = fold_cast(e, t);
	double from = const_number(e);
	if (!dtype_is_float(t) || !isfinite(from) || dtype_holds(t, from))
		return r;
	elab_error(E, loc, E_TYPE, "%g does not fit %s, whose largest value is %g", from, dtype_name(t), dtype_largest(t));
	if (isinf(r.f))
		diag_help(E->d, "infinity is written 'inf'");
	return ev_error();
}

/* What a constant is declared with is a value of its type, as with -D: nothing is cut or wrapped by itself. */
Ev declared_value(Elab *E, const Decl *d, Ev x)
{
	if (x.kind != EV_CONST || const_fits(d->dtype, x))
		return ev_cast(E, d->loc, x, d->dtype);
	elab_error(E, d->loc, E_TYPE, "%s is not a value of type %s, which '%s' has", const_text(E, x), dtype_name(d->dtype), d->name);
	diag_help(E->d, "a conversion is written: %s(...)", dtype_name(d->dtype));
	return ev_error();
}

/* Appends to n operands where the operation's result counts: under `mask`, and where the arms around it are chosen.  For the CPU
 * device, which reports quotients, shifts and conversions that are out of range. */
static int add_whether_counts(Elab *E, Loc loc, Value **args, int n, Value *mask)
{
	for (const Chosen *k = E->at.chosen; k; k = k->outer)
		mask = mask_and(E, loc, mask, k->when ? k->c : ev_unary(E, loc, UN_NOT, k->c));
	if (mask)
		args[n++] = mask;
	return n;
}

/* Whether what is ranged stays so in type t, which may wrap around. */
static bool range_holds(DType t, Ev e)
{
	return dtype_is_int(t) && (dtype_bits(t) >= 32 || (int_fits(t, e.lo) && int_fits(t, e.hi)));
}

Ev ev_cast(Elab *E, Loc loc, Ev e, DType t)
{
	if (!ev_is_scalar(e))
		return e;
	if (e.kind == EV_CONST)
		return cast_const(E, loc, e, t);
	if (e.dtype == t)
		return e;
	if (t == DT_BOOL)
		return compare_zero(E, loc, e);
	Value *args[2] = { e.value };
	int n = dtype_is_float(e.dtype) && dtype_is_int(t) ? add_whether_counts(E, loc, args, 1, E->at.mask) : 1;
	Ev r = ev_of(emit(E, OP_CAST, loc, t, n, args));
	if (e.ranged && range_holds(t, e)) {
		r.ranged = true;
		r.lo = e.lo;
		r.hi = e.hi;
	}
	return r;
}

Ev ev_condition(Elab *E, Loc loc, Ev e)
{
	if (e.kind == EV_ERROR)
		return e;
	if (!ev_is_scalar(e) || dtype_is_float(e.dtype)) {
		elab_error(E, loc, E_TYPE, "a condition is a bool or an integer, not %s", ev_text(E, e));
		return ev_error();
	}
	return ev_cast(E, loc, e, DT_BOOL);
}

static DType mixed_type(DType a, DType b)
{
	bool fa = dtype_is_float(a), fb = dtype_is_float(b);
	if (fa && fb) {
		a = dtype_computed(a);
		b = dtype_computed(b);
		return a == b ? a : (a == DT_F16 && b == DT_BF16) || (a == DT_BF16 && b == DT_F16) ? DT_NONE : DT_F32;
	}
	if (fa || fb)
		return dtype_computed(fa ? a : b);
	if (dtype_bits(a) != dtype_bits(b))
		return dtype_bits(a) > dtype_bits(b) ? a : b;
	return dtype_is_signed(a) ? b : a;
}

/* The type that a literal beside an operand of type t takes. */
static DType literal_type(Ev literal, DType t)
{
	if (dtype_is_float(t))
		return dtype_computed(t);
	if (dtype_is_int(literal.dtype) && dtype_is_int(t) && const_fits(t, literal))
		return t;
	return mixed_type(literal.dtype, t);
}

DType ev_unify(Elab *E, Loc loc, const char *what, Ev *a, Ev *b)
{
	if (a->kind == EV_ERROR || b->kind == EV_ERROR)
		return DT_NONE;
	if (!ev_is_scalar(*a) || !ev_is_scalar(*b)) {
		bool tile = a->kind == EV_TILE || b->kind == EV_TILE;
		elab_error(E, loc, E_TYPE, "%s of %s and %s", what, ev_text(E, *a), ev_text(E, *b));
		if (tile)
			diag_help(E->d, "element by element: parallel (i < M, j < N) x[i][j] = ...;");
		return DT_NONE;
	}
	DType t;
	bool ab = a->dtype == DT_BOOL, bb = b->dtype == DT_BOOL;
	if (ab != bb)
		t = DT_NONE;
	else if (ab)
		t = DT_BOOL;
	else if (a->literal && !b->literal)
		t = literal_type(*a, b->dtype);
	else if (b->literal && !a->literal)
		t = literal_type(*b, a->dtype);
	else
		t = mixed_type(a->dtype, b->dtype);
	if (t == DT_NONE) {
		elab_error(E, loc, E_TYPE, "%s of %s and %s", what, dtype_name(a->dtype), dtype_name(b->dtype));
		diag_help(E->d, "convert one of them: %s(...)", ab || bb ? "i32" : "f32");
		return DT_NONE;
	}
	bool literal = a->literal && b->literal;
	/* Literals keep their double until a type is forced on them. */
	bool keep = literal && dtype_is_float(t);
	if (keep) {
		*a = dtype_is_float(a->dtype) ? *a : (Ev){ .kind = EV_CONST, .dtype = t, .f = const_number(*a) };
		*b = dtype_is_float(b->dtype) ? *b : (Ev){ .kind = EV_CONST, .dtype = t, .f = const_number(*b) };
	} else {
		*a = ev_cast(E, loc, *a, t);
		*b = ev_cast(E, loc, *b, t);
	}
	a->literal = b->literal = literal;
	return t;
}

/* ---- binary operators ---- */

typedef struct BinaryInfo {
	const char *text;
	Opcode code;
	const char *pred;    /* of comparisons */
	bool ints, floats, bools;
} BinaryInfo;

static const BinaryInfo binary_info[] = {
	[BIN_ADD] = { "'+'", OP_ADD, NULL, true, true, false },
	[BIN_SUB] = { "'-'", OP_SUB, NULL, true, true, false },
	[BIN_MUL] = { "'*'", OP_MUL, NULL, true, true, false },
	[BIN_DIV] = { "'/'", OP_DIV, NULL, true, true, false },
	[BIN_MOD] = { "'%'", OP_MOD, NULL, true, false, false },
	[BIN_SHL] = { "'<<'", OP_SHL, NULL, true, false, false },
	[BIN_SHR] = { "'>>'", OP_SHR, NULL, true, false, false },
	[BIN_AND] = { "'&'", OP_AND, NULL, true, false, true },
	[BIN_OR] = { "'|'", OP_OR, NULL, true, false, true },
	[BIN_XOR] = { "'^'", OP_XOR, NULL, true, false, true },
	[BIN_LT] = { "'<'", OP_CMP, "lt", true, true, false },
	[BIN_LE] = { "'<='", OP_CMP, "le", true, true, false },
	[BIN_GT] = { "'>'", OP_CMP, "gt", true, true, false },
	[BIN_GE] = { "'>='", OP_CMP, "ge", true, true, false },
	[BIN_EQ] = { "'=='", OP_CMP, "eq", true, true, true },
	[BIN_NE] = { "'!='", OP_CMP, "ne", true, true, true },
	[BIN_LAND] = { "'&&'", OP_AND, NULL, false, false, true },
	[BIN_LOR] = { "'||'", OP_OR, NULL, false, false, true },
	[BIN_MATMUL] = { "'@'", OP_MMA, NULL, false, false, false },
};

static bool const_is(Ev e, int64_t v)
{
	return e.kind == EV_CONST && !dtype_is_float(e.dtype) && e.i == v;
}

/* Integer identities; views of views would otherwise be full of them. */
static bool identity(int op, DType t, Ev a, Ev b, Ev *out)
{
	if (dtype_is_float(t) || t == DT_BOOL)
		return false;
	*out = a;
	switch (op) {
	case BIN_ADD:
		if (const_is(a, 0)) {
			*out = b;
			return true;
		}
		return const_is(b, 0);
	case BIN_SUB:
	case BIN_SHL:
	case BIN_SHR: return const_is(b, 0);
	case BIN_MUL:
		if (const_is(a, 1) || const_is(b, 0)) {
			*out = b;
			return true;
		}
		return const_is(b, 1) || const_is(a, 0);
	case BIN_DIV: return const_is(b, 1) || const_is(b, 0); /* zero divides as one does */
	case BIN_MOD:
		*out = ev_int(t, 0);
		return const_is(b, 1) || const_is(b, 0);
	default: return false;
	}
}

static void keep_range(int op, DType t, Ev a, Ev b, Ev *r)
{
	if (op == BIN_ADD && b.ranged && a.kind == EV_CONST) {
		Ev swap = a;
		a = b;
		b = swap;
	}
	if (!a.ranged || b.kind != EV_CONST || (op != BIN_ADD && op != BIN_SUB))
		return;
	bool low = op == BIN_ADD ? __builtin_add_overflow(a.lo, b.i, &r->lo) : __builtin_sub_overflow(a.lo, b.i, &r->lo);
	bool high = op == BIN_ADD ? __builtin_add_overflow(a.hi, b.i, &r->hi) : __builtin_sub_overflow(a.hi, b.i, &r->hi);
	r->ranged = !low && !high && range_holds(t, *r);
}

/* Division under a mask must not trap where the mask is off. */
static Ev guard_divisor(Elab *E, Loc loc, Ev b)
{
	return E->at.mask && b.kind != EV_CONST ? ev_select(E, loc, ev_of(E->at.mask), b, ev_int(b.dtype, 1)) : b;
}

/* A divisor or the count of a shift. */
static bool may_be_out_of_range(Ev b, bool divides, DType t)
{
	return b.kind != EV_CONST || (divides ? b.i == -1 : b.i < 0 || b.i >= (int64_t)dtype_bits(t));
}

static Ev emit_binary(Elab *E, Loc loc, int op, DType t, Ev a, Ev b)
{
	const BinaryInfo *info = &binary_info[op];
	bool divides = dtype_is_int(t) && (op == BIN_DIV || op == BIN_MOD), shifts = op == BIN_SHL || op == BIN_SHR;
	if (divides)
		b = guard_divisor(E, loc, b);
	Value *args[3] = { ev_value(E, loc, a), ev_value(E, loc, b) };
	int n = (divides || shifts) && may_be_out_of_range(b, divides, t) ? add_whether_counts(E, loc, args, 2, shifts ? E->at.mask : NULL) : 2;
	Op *o = emit_op(E, info->code, loc, type_scalar(info->pred ? DT_BOOL : t), n, args);
	if (info->pred)
		attr_set_text(E->t, o, AT_PRED, info->pred);
	Ev r = ev_of(o->result);
	if (!info->pred && dtype_is_int(t))
		keep_range(op, t, a, b, &r);
	return r;
}

/* A shift has the type of its left operand; it is done in the width of a wider count. */
static DType unify_shift(Elab *E, Loc loc, const char *what, Ev *a, Ev *b)
{
	bool ok = ev_is_scalar(*a) && ev_is_scalar(*b) && dtype_is_int(a->dtype) && dtype_is_int(b->dtype);
	if (!ok || a->literal || b->literal)
		return ev_unify(E, loc, what, a, b);
	static const DType wide[2][2] = { { DT_U32, DT_U64 }, { DT_I32, DT_I64 } }; /* signed, 64 bits */
	DType t = a->dtype;
	if (dtype_bits(b->dtype) > dtype_bits(t))
		t = dtype_bits(b->dtype) == 16 ? (dtype_is_signed(t) ? DT_I16 : DT_U16) : wide[dtype_is_signed(t)][dtype_bits(b->dtype) == 64];
	*a = ev_cast(E, loc, *a, t);
	*b = ev_cast(E, loc, *b, t);
	return t;
}

/* Literals have no type of their own to wrap around in. */
static bool literals_fit(int op, DType t, int64_t a, int64_t b)
{
	int64_t r = 0;
	uint64_t ua = (uint64_t)a, ub = (uint64_t)b, u = 0;
	if (t == DT_U64)
		return op == BIN_ADD ? !__builtin_add_overflow(ua, ub, &u) : op == BIN_SUB ? ua >= ub : op == BIN_MUL ? !__builtin_mul_overflow(ua, ub, &u)
			: op == BIN_SHL ? ub < 64 && ua << ub >> ub == ua : op != BIN_SHR || ub < 64;
	switch (op) {
	case BIN_ADD: return !__builtin_add_overflow(a, b, &r) && int_fits(t, r);
	case BIN_SUB: return !__builtin_sub_overflow(a, b, &r) && int_fits(t, r);
	case BIN_MUL: return !__builtin_mul_overflow(a, b, &r) && int_fits(t, r);
	case BIN_SHL: return b >= 0 && b < 63 && !__builtin_mul_overflow(a, INT64_C(1) << b, &r) && int_fits(t, r);
	case BIN_SHR: return b >= 0 && b < (int64_t)dtype_bits(t);
	default: return true;
	}
}

static Ev binary_of(Elab *E, Loc loc, int op, DType t, Ev a, Ev b)
{
	const BinaryInfo *info = &binary_info[op];
	if (t == DT_NONE)
		return ev_error();
	bool allowed = t == DT_BOOL ? info->bools : dtype_is_float(t) ? info->floats : info->ints;
	if (!allowed) {
		elab_error(E, loc, E_TYPE, "%s is not defined for %s", info->text, dtype_name(t));
		return ev_error();
	}
	Ev r;
	if (a.kind == EV_CONST && b.kind == EV_CONST) {
		bool literal = a.literal && b.literal;
		if (literal && dtype_is_int(t) && !literals_fit(op, t, a.i, b.i)) {
			elab_error(E, loc, E_TYPE, "%s of %s and %s does not fit %s: one of them wants a type, as in %s(%s)", info->text, const_text(E, a), const_text(E, b),
				dtype_name(t), t == DT_U64 ? "u64" : "i64", const_text(E, a));
			return ev_error();
		}
		if (!fold_binary(op, t, a, b, &r)) {
			elab_error(E, loc, E_NOT_CONSTANT, "division by zero in a constant expression");
			return ev_error();
		}
		r.literal = literal && !info->pred;
		return r;
	}
	if (identity(op, t, a, b, &r))
		return r;
	if (!E->at.region) {
		elab_error(E, loc, E_NOT_CONSTANT, "this is not known at compile time");
		return ev_error();
	}
	return emit_binary(E, loc, op, t, a, b);
}

Ev ev_binary(Elab *E, Loc loc, int op, Ev a, Ev b)
{
	const char *what = binary_info[op].text;
	bool shift = op == BIN_SHL || op == BIN_SHR;
	DType left = a.dtype, t = shift ? unify_shift(E, loc, what, &a, &b) : ev_unify(E, loc, what, &a, &b);
	bool literal = a.literal;
	Ev r = binary_of(E, loc, op, t, a, b);
	return shift && !literal && !b.literal && r.kind != EV_ERROR && r.dtype != left ? ev_cast(E, loc, r, left) : r;
}

/* ---- unary operators, selection, masks ---- */

static const char *const unary_text[] = {
	[UN_NEG] = "unary '-'", [UN_NOT] = "'!'", [UN_BITNOT] = "'~'", [UN_PLUS] = "unary '+'"
};

static Ev fold_unary(int op, Ev a)
{
	Ev r;
	if (op == UN_BITNOT)
		r = ev_int(a.dtype, ~a.i);
	else if (op == UN_NEG)
		r = dtype_is_float(a.dtype) ? (Ev){ .kind = EV_CONST, .dtype = a.dtype, .f = -a.f }
					    : ev_int(a.dtype, (int64_t)(0 - (uint64_t)a.i));
	else
		r = a;
	r.literal = a.literal;
	return r;
}

Ev ev_unary(Elab *E, Loc loc, int op, Ev a)
{
	if (a.kind == EV_ERROR)
		return a;
	if (op == UN_NOT) {
		a = ev_condition(E, loc, a);
		if (a.kind == EV_CONST)
			return ev_bool(!a.i);
		return a.kind == EV_ERROR ? a : ev_of(emit(E, OP_NOT, loc, DT_BOOL, 1, &a.value));
	}
	bool ok = ev_is_scalar(a) && a.dtype != DT_BOOL && !(op == UN_BITNOT && dtype_is_float(a.dtype));
	if (!ok) {
		elab_error(E, loc, E_TYPE, "%s of %s", unary_text[op], ev_text(E, a));
		return ev_error();
	}
	if (op == UN_PLUS)
		return a;
	if (dtype_computed(a.dtype) != a.dtype)
		a = ev_cast(E, loc, a, dtype_computed(a.dtype));
	if (a.kind == EV_CONST && a.literal && op == UN_NEG && dtype_is_int(a.dtype) && a.i == INT64_MIN)
		a.dtype = a.dtype == DT_U64 ? DT_I64 : DT_U64;
	if (a.kind == EV_CONST && a.literal && op == UN_NEG && a.dtype == DT_U64 && a.i != INT64_MIN) {
		elab_error(E, loc, E_TYPE, "unary '-' of %s does not fit i64: it wants a type, as in u64(%s)", const_text(E, a), const_text(E, a));
		return ev_error();
	}
	if (a.kind == EV_CONST)
		return fold_unary(op, a);
	return ev_of(emit(E, op == UN_NEG ? OP_NEG : OP_NOT, loc, a.dtype, 1, &a.value));
}

Ev ev_select(Elab *E, Loc loc, Ev c, Ev a, Ev b)
{
	if (c.kind == EV_ERROR)
		return c;
	DType t = ev_unify(E, loc, "a choice", &a, &b);
	if (t == DT_NONE)
		return ev_error();
	if (c.kind == EV_CONST)
		return c.i ? a : b;
	if (a.kind == EV_VALUE && b.kind == EV_VALUE && a.value == b.value)
		return a;
	Value *args[3] = { c.value, ev_value(E, loc, a), ev_value(E, loc, b) };
	return ev_of(emit(E, OP_SELECT, loc, args[1]->type.dtype, 3, args));
}

Value *mask_and(Elab *E, Loc loc, Value *mask, Ev c)
{
	Value *v = ev_value(E, loc, c);
	if (!mask)
		return v;
	Value *args[2] = { mask, v };
	return emit(E, OP_AND, loc, DT_BOOL, 2, args);
}
