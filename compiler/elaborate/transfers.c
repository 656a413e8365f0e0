/* transfers.c - built-in statements that move tiles, synchronise, reduce and debug. */
#include "compiler/elaborate/builtins.h"

#include <string.h>

enum { MAX_COPY_GROUPS = 1 << 16 };

static Op *statement(Elab *E, const Call *c, int nargs, Value *const *args)
{
	return emit_op(E, c->b->op, c->e->loc, type_none(), nargs, args);
}

/* ---- operands ---- */

static bool has_slice(const View *v)
{
	for (int k = 0; k < v->rank; k++)
		if (v->dim[k].take > 0)
			return true;
	return false;
}

static bool check_limit(Elab *E, const Call *c, const View *a, const View *b)
{
	if (c->limit.kind == EV_VOID)
		return true;
	if ((a->space == TY_TENSOR && has_slice(a)) || (b->space == TY_TENSOR && has_slice(b)))
		return true;
	elab_error(E, c->s->limit->loc, E_CALL, "limit(...) needs a global tile with a slice [first +: n]");
	return false;
}

/* Uses that have never been may only be waited for. */
static bool check_use(Elab *E, Loc loc, const MBar *b)
{
	if (!b->ring || b->use.kind != EV_CONST || b->use.i >= 0)
		return true;
	elab_error(E, loc, E_INDEX, "use %lld of '%s' is negative: uses of a ring count from 0, and only a wait may be for one before", (long long)b->use.i, b->name);
	diag_note(E->d, b->declared, "declared here");
	return false;
}

/* Both tiles as operands, then the barrier and use when there are, then the limit. */
static Op *transfer(Elab *E, const Call *c)
{
	Value *args[5];
	int n = 0;
	for (int k = 0; k < 2; k++) {
		args[n] = view_value(E, c->loc[k], c->arg[k].view);
		if (!args[n++])
			return NULL;
	}
	if (c->n == 3) {
		const MBar *b = c->arg[2].bar;
		if (!check_use(E, c->loc[2], b))
			return NULL;
		args[n++] = barrier_value(E, c->loc[2], b);
		args[n++] = ev_value(E, c->loc[2], b->use);
	}
	if (c->limit.kind != EV_VOID)
		args[n++] = ev_value(E, c->e->loc, c->limit);
	return statement(E, c, n, args);
}

static bool same_type(Elab *E, const Call *c, const View *a, const View *b)
{
	if (a->dtype == b->dtype)
		return true;
	elab_error(E, c->e->loc, E_TYPE, "%s does not convert: %s is not %s", c->b->name, dtype_name(a->dtype), dtype_name(b->dtype));
	diag_help(E->d, "copy(src, dst) converts");
	return false;
}

static int64_t bytes_of(const View *v)
{
	int axes[TIR_MAX_RANK], n = view_axes(v, axes);
	int64_t bytes = dtype_bytes(v->dtype);
	for (int k = 0; k < n; k++) {
		if (v->dim[axes[k]].seen < 0)
			return -1;
		bytes *= v->dim[axes[k]].seen;
	}
	return bytes;
}

/* Indices first, then at most one slice, then whole dimensions. */
static bool is_contiguous(const View *v)
{
	bool inside = false;
	for (int k = 0; k < v->rank; k++) {
		if (inside && v->dim[k].take)
			return false;
		inside |= v->dim[k].take >= 0;
	}
	return !v->trans;
}

static bool bulk_fits(Elab *E, const Call *c, const View *global, const View *shared)
{
	int64_t g = bytes_of(global), s = bytes_of(shared);
	if (g < 0 || g != s || g % 16) {
		elab_error(E, c->e->loc, E_BULK, "%s of %lld bytes and %lld bytes: they agree and are a multiple of 16", c->b->name,
			(long long)g, (long long)s);
		return false;
	}
	if (!global->strided && !is_contiguous(global)) {
		elab_error(E, c->e->loc, E_BULK, "the global side of %s is not contiguous", c->b->name);
		diag_help(E->d, "index the leading dimensions, slice at most one, and take those after it whole");
		return false;
	}
	return true;
}

static bool transfer_fits(Elab *E, const Call *c, const View *global, const View *shared)
{
	if (c->b->op == OP_BULK_LOAD || c->b->op == OP_BULK_STORE)
		return bulk_fits(E, c, global, shared) && slices_fit(E, c->e->loc, global, false);
	bool tma = c->b->op == OP_TMA_LOAD || c->b->op == OP_TMA_STORE;
	if (tma ? !box_shape(E, c->e->loc, c->b->name, global, shared) : !same_shape(E, c->e->loc, c->b->name, c->arg[0].view, c->arg[1].view))
		return false;
	return same_type(E, c, c->arg[0].view, c->arg[1].view) && check_limit(E, c, global, shared);
}

static bool whole_fragment(Elab *E, const Call *c, int k)
{
	const View *v = c->arg[k].view;
	bool whole = !v->trans && !v->warp_view;
	for (int i = 0; i < v->rank; i++)
		whole &= v->dim[i].take == 0;
	if (!whole)
		elab_error(E, c->loc[k], E_SHAPE, "%s takes whole fragments, not a part or .T of '%s'", c->b->name, v->name);
	return whole;
}

/* ---- moving data ---- */

Ev bi_copy(Elab *E, const Call *c)
{
	const View *src = c->arg[0].view, *dst = c->arg[1].view;
	bool limited = c->limit.kind != EV_VOID;
	bool ok = check_writable(E, c->loc[1], dst) && same_shape(E, c->e->loc, c->b->name, src, dst) && check_limit(E, c, src, dst)
		&& slices_fit(E, c->loc[0], src, limited) && slices_fit(E, c->loc[1], dst, limited);
	if (ok && (c->b->op == OP_COPY || same_type(E, c, src, dst)))
		transfer(E, c);
	return ev_void();
}

Ev bi_weave(Elab *E, const Call *c)
{
	const View *src = c->arg[0].view, *dst = c->arg[1].view;
	bool ok = whole_fragment(E, c, 0) && whole_fragment(E, c, 1) && same_shape(E, c->e->loc, c->b->name, src, dst);
	if (ok && (dst->dtype == DT_BOOL || dtype_bits(dst->dtype) != 8 || src->dtype == DT_BOOL)) {
		elab_error(E, c->loc[1], E_TYPE, "weave makes fragments of 8-bit numbers; '%s' is of %s, '%s' of %s", src->name, dtype_name(src->dtype),
			dst->name, dtype_name(dst->dtype));
		return ev_void();
	}
	if (ok && c->n == 3 && (dtype_bits(src->dtype) != 16 || c->arg[2].i > 1)) {
		elab_error(E, c->loc[2], E_TYPE, "byte %lld of '%s', whose elements are %s; weave takes byte 0 or 1 of 16-bit elements", (long long)c->arg[2].i,
			src->name, dtype_name(src->dtype));
		return ev_void();
	}
	Value *args[2] = { ok ? view_value(E, c->loc[0], src) : NULL, ok ? view_value(E, c->loc[1], dst) : NULL };
	if (!args[0] || !args[1])
		return ev_void();
	Op *op = statement(E, c, 2, args);
	if (c->n == 3)
		attr_set_int(E->t, op, AT_BYTE, c->arg[2].i);
	return ev_void();
}

Ev bi_fill(Elab *E, const Call *c)
{
	tile_fill(E, c->e->loc, c->arg[0].view, c->arg[1]);
	return ev_void();
}

static int64_t cluster_size(const Elab *E) { return attr_int(E->kernel, AT_CLUSTER, 1); }

static bool in_cluster(Elab *E, const Call *c, const char *what)
{
	if (attr_get(E->kernel, AT_CLUSTER))
		return true;
	elab_error(E, c->e->loc, E_CALL, "%s is for kernels with cluster (n)", what);
	return false;
}

Ev bi_load(Elab *E, const Call *c)
{
	bool multicast = !strcmp(c->b->name, "tma_multicast");
	if ((multicast && !in_cluster(E, c, "tma_multicast")) || !transfer_fits(E, c, c->arg[0].view, c->arg[1].view))
		return ev_void();
	Op *op = transfer(E, c);
	if (op && multicast && cluster_size(E) > 1)
		attr_set_int(E->t, op, AT_MULTICAST, 1);
	return ev_void();
}

Ev bi_store(Elab *E, const Call *c)
{
	const View *global = c->arg[1].view;
	if (!check_writable(E, c->loc[1], global) || !transfer_fits(E, c, global, c->arg[0].view))
		return ev_void();
	Op *op = transfer(E, c);
	if (op && !strcmp(c->b->name, "tma_reduce_add"))
		attr_set_text(E->t, op, AT_REDUCE, "add");
	return ev_void();
}

/* Statements without operands; a count is {n}. */
Ev bi_plain(Elab *E, const Call *c)
{
	int64_t most = c->b->op == OP_WGMMA_WAIT ? E->t->machine->product_groups : MAX_COPY_GROUPS;
	if (c->n && c->arg[0].i > most) {
		elab_error(E, c->loc[0], E_CALL, "argument 1 of %s is %lld, more than %lld groups", c->b->signature, (long long)c->arg[0].i,
			(long long)most);
		return ev_void();
	}
	Op *op = statement(E, c, 0, NULL);
	if (c->n)
		attr_set_int(E->t, op, AT_N, c->arg[0].i);
	if (!strcmp(c->b->name, "store_wait_read"))
		attr_set_int(E->t, op, AT_READ, 1);
	return ev_void();
}

/* ---- reductions and scans ---- */

static bool check_axis(Elab *E, const Call *c, int k, int rank)
{
	if (c->arg[k].i < rank)
		return true;
	elab_error(E, c->loc[k], E_SHAPE, "axis %lld of a tile with %d dimension%s", (long long)c->arg[k].i, rank, rank == 1 ? "" : "s");
	return false;
}

/* Reductions and scans work on the registers of whole f32 fragments. */
static bool whole_f32(Elab *E, const Call *c, int k)
{
	const View *v = c->arg[k].view;
	if (!whole_fragment(E, c, k))
		return false;
	if (v->dtype != DT_F32)
		elab_error(E, c->loc[k], E_TYPE, "%s takes f32 fragments, '%s' is of %s", c->b->name, v->name, dtype_name(v->dtype));
	return v->dtype == DT_F32;
}

Ev bi_reduce(Elab *E, const Call *c)
{
	const View *src = c->arg[0].view, *dst = c->arg[1].view;
	int axes[TIR_MAX_RANK];
	if (!whole_f32(E, c, 0) || !whole_f32(E, c, 1))
		return ev_void();
	int64_t axis = c->arg[2].i;
	bool flat = view_axes(src, axes) != 2 || view_axes(dst, axes) != 1;
	if (!flat && !check_axis(E, c, 2, 2))
		return ev_void();
	if (flat || view_extent(src, axis == 0) != view_extent(dst, 0)) {
		elab_error(E, c->e->loc, E_SHAPE, "%s of %s along axis %lld does not give %s", c->b->name, view_shape_text(E, src), (long long)axis,
			view_shape_text(E, dst));
		return ev_void();
	}
	Value *args[2] = { view_value(E, c->loc[0], src), view_value(E, c->loc[1], dst) };
	if (!args[0] || !args[1])
		return ev_void();
	Op *op = statement(E, c, 2, args);
	attr_set_text(E->t, op, AT_KIND, c->b->name + strlen("reduce_"));
	attr_set_int(E->t, op, AT_AXIS, axis);
	return ev_void();
}

Ev bi_scan(Elab *E, const Call *c)
{
	const View *x = c->arg[0].view;
	int axes[TIR_MAX_RANK];
	int64_t axis = c->arg[1].i;
	if (c->n == 3 && strcmp(c->arg[2].text, "reverse")) {
		elab_error(E, c->loc[2], E_CALL, "argument 3 of %s is not 'reverse'", c->b->signature);
		return ev_void();
	}
	if (!whole_f32(E, c, 0) || !check_axis(E, c, 1, view_axes(x, axes)))
		return ev_void();
	int64_t extent = view_extent(x, (int)axis);
	if (c->s->within && (c->within < 1 || extent % c->within)) {
		elab_error(E, c->s->within->loc, E_SHAPE, "within(%lld) does not divide the %lld elements of axis %lld", (long long)c->within,
			(long long)extent, (long long)axis);
		return ev_void();
	}
	Value *v = view_value(E, c->loc[0], x);
	if (!v)
		return ev_void();
	Op *op = statement(E, c, 1, &v);
	attr_set_text(E->t, op, AT_KIND, !strcmp(c->b->name, "cumprod") ? "prod" : "sum");
	attr_set_int(E->t, op, AT_AXIS, axis);
	if (c->n == 3)
		attr_set_int(E->t, op, AT_REVERSE, 1);
	if (c->within)
		attr_set_int(E->t, op, AT_WITHIN, c->within);
	return ev_void();
}

/* ---- synchronisation ---- */

static bool check_rank(Elab *E, const Call *c)
{
	Ev rank = c->arg[1];
	if (!in_cluster(E, c, "an arrive with the rank of a CTA"))
		return false;
	if (rank.kind != EV_CONST || (rank.i >= 0 && rank.i < cluster_size(E)))
		return true;
	long long last = (long long)cluster_size(E) - 1;
	elab_error(E, c->loc[1], E_INDEX, "rank %lld is not in a cluster of %lld, whose %s%lld", (long long)rank.i, last + 1,
		last ? "CTAs are 0 to " : "only CTA is ", last);
	return false;
}

Ev bi_arrive(Elab *E, const Call *c)
{
	const MBar *b = c->arg[0].bar;
	if (!check_use(E, c->loc[0], b))
		return ev_void();
	Value *args[3] = { barrier_value(E, c->loc[0], b), ev_value(E, c->loc[0], b->use) };
	if (c->n == 2 && !check_rank(E, c))
		return ev_void();
	bool ranked = c->n == 2 && !(c->arg[1].kind == EV_CONST && cluster_size(E) == 1);
	if (ranked)
		args[2] = ev_value(E, c->loc[1], c->arg[1]);
	statement(E, c, ranked ? 3 : 2, args);
	return ev_void();
}

static bool is_parity(Elab *E, Loc loc, Ev x)
{
	if (x.kind != EV_CONST || x.i == 0 || x.i == 1)
		return true;
	elab_error(E, loc, E_BARRIER, "the parity of a wait is 0 or 1, not %lld", (long long)x.i);
	diag_help(E->d, "phases count from 0, and the parity is that of the phase waited for: its number %% 2");
	return false;
}

Ev bi_wait(Elab *E, const Call *c)
{
	const MBar *b = c->arg[0].bar;
	Value *args[3];
	if (c->n == 1 && !b->ring) {
		elab_error(E, c->e->loc, E_BARRIER, "'%s' has no ring, so its phase is not known", b->name);
		diag_help(E->d, "declare it %s[ring n], or write wait(%s[s], parity)", b->name, b->name);
		diag_note(E->d, b->declared, "declared here");
		return ev_void();
	}
	if (c->n == 2 && b->ring && !b->scalar) {
		elab_error(E, c->e->loc, E_BARRIER, "'%s' has a ring: its use number says the parity", b->name);
		diag_help(E->d, "write wait(%s[j])", b->name);
		return ev_void();
	}
	args[0] = barrier_value(E, c->loc[0], b);
	args[1] = ev_value(E, c->loc[0], b->use);
	if (c->n == 1) {
		statement(E, c, 2, args);
		return ev_void();
	}
	if (!is_parity(E, c->loc[1], c->arg[1]))
		return ev_void();
	args[2] = ev_value(E, c->loc[1], c->arg[1]);
	emit_op(E, OP_WAIT_PARITY, c->e->loc, type_none(), 3, args);
	return ev_void();
}

Ev bi_sync(Elab *E, const Call *c)
{
	Value *barrier = c->n ? barrier_value(E, c->loc[0], c->arg[0].bar) : NULL;
	statement(E, c, c->n, &barrier);
	return ev_void();
}

Ev bi_vote(Elab *E, const Call *c)
{
	Ev x = ev_condition(E, c->loc[0], c->arg[0]);
	if (c->n == 2 && strcmp(c->arg[1].text, "warp")) {
		elab_error(E, c->loc[1], E_CALL, "argument 2 of %s is not 'warp'", c->b->signature);
		return ev_error();
	}
	if (x.kind != EV_VALUE)
		return x;
	Op *op = emit_op(E, OP_VOTE, c->e->loc, type_scalar(DT_BOOL), 1, &x.value);
	attr_set_text(E->t, op, AT_KIND, c->b->name);
	if (c->n == 2)
		attr_set_int(E->t, op, AT_WARP_SCOPE, 1);
	return ev_of(op->result);
}

/* ---- atomics, debugging, escape ---- */

Ev bi_atomic(Elab *E, const Call *c)
{
	return element_atomic(E, c->e->loc, c->arg[0].view, c->arg[1], c->b->name + strlen("atomic_"), !c->s);
}

static bool unmasked(Elab *E, const Call *c)
{
	if (!E->at.mask)
		return true;
	elab_error(E, c->e->loc, E_UNSUPPORTED, "%s under a condition of an element loop", c->b->name);
	return false;
}

typedef struct Conversion {
	const char *percent, *length, *letter; /* in the format: where it begins, its l's, its last character */
} Conversion;

static const char *up_to_three_digits(const char *p)
{
	size_t n = strspn(p, "0123456789");
	return p + (n < 3 ? n : 3);
}

/* The next conversion of a format, if there is one; behind it *at. */
static bool next_conversion(const char **at, Conversion *out)
{
	const char *p = strchr(*at, '%');
	while (p && p[1] == '%')
		p = strchr(p + 2, '%');
	if (!p)
		return false;
	out->percent = p++;
	p = up_to_three_digits(p + strspn(p, "-+ #0"));
	if (*p == '.')
		p = up_to_three_digits(p + 1);
	out->length = p;
	out->letter = p += strspn(p, "l");
	*at = *p ? p + 1 : p;
	return true;
}

/* How many conversions a format has; -1 when one is not known, which the message names. */
static int count_conversions(Elab *E, Loc loc, const char *format)
{
	Conversion v;
	int n = 0;
	for (; next_conversion(&format, &v); n++) {
		if (*v.letter && strchr("duxfeg", *v.letter))
			continue;
		elab_error(E, loc, E_CALL, "print knows the conversions d u x f e g with flags, a width and a precision, not '%.*s'",
			(int)(format - v.percent), v.percent);
		diag_help(E->d, "a percent sign is %%%%");
		return -1;
	}
	return n;
}

/* Small integers and 16-bit floats are widened as C's variable arguments are. */
static Ev print_argument(Elab *E, Loc loc, Ev x)
{
	if (dtype_is_float(x.dtype))
		return ev_cast(E, loc, x, DT_F32);
	if (dtype_bits(x.dtype) >= 32)
		return x;
	return ev_cast(E, loc, x, dtype_is_signed(x.dtype) ? DT_I32 : DT_U32);
}

Ev bi_print(Elab *E, const Call *c)
{
	Value **args = ARENA_ARRAY(E->a, Value *, c->n);
	const char *format = c->arg[0].text, *text = "", *from = format, *at = format;
	int least, most;
	Conversion v;
	op_arity(OP_PRINT, &least, &most);
	if (!unmasked(E, c))
		return ev_void();
	int n = count_conversions(E, c->loc[0], format);
	if (n < 0)
		return ev_void();
	if (n != c->n - 1) {
		elab_error(E, c->e->loc, E_CALL, "the format has %d conversion%s for %d value%s", n, n == 1 ? "" : "s", c->n - 1, c->n == 2 ? "" : "s");
		return ev_void();
	}
	if (n > most) {
		elab_error(E, c->e->loc, E_LIMIT, "print has %d values; a GPU's printf takes at most %d", n, most);
		return ev_void();
	}
	for (int k = 1; next_conversion(&at, &v); k++, from = at) {
		Ev x = c->arg[k];
		if (dtype_is_float(x.dtype) != (strchr("feg", *v.letter) != NULL)) {
			elab_error(E, c->loc[k], E_CALL, "conversion %%%c of %s", *v.letter, dtype_name(x.dtype));
			return ev_void();
		}
		x = print_argument(E, c->loc[k], x);
		args[k - 1] = ev_value(E, c->loc[k], x);
		bool wide = !dtype_is_float(x.dtype) && dtype_bits(x.dtype) == 64; /* the length is the value's, whatever was written */
		text = arena_printf(E->a, "%s%.*s%s%c", text, (int)(v.length - from), from, wide ? "ll" : "", *v.letter);
	}
	attr_set_text(E->t, statement(E, c, n, args), AT_FORMAT, arena_printf(E->a, "%s%s", text, from));
	return ev_void();
}

Ev bi_assert(Elab *E, const Call *c)
{
	Ev x = ev_condition(E, c->loc[0], c->arg[0]);
	if (x.kind == EV_ERROR || (x.kind == EV_CONST && x.i))
		return ev_void();
	if (E->at.mask) { /* holds wherever the mask is off */
		Ev off = ev_unary(E, c->e->loc, UN_NOT, ev_of(E->at.mask));
		x = ev_binary(E, c->e->loc, BIN_LOR, off, ev_of(ev_value(E, c->e->loc, x)));
	}
	Value *v = ev_value(E, c->e->loc, x);
	attr_set_text(E->t, statement(E, c, 1, &v), AT_TEXT, c->arg[1].text);
	return ev_void();
}

Ev bi_trap(Elab *E, const Call *c)
{
	if (unmasked(E, c))
		statement(E, c, 0, NULL);
	return ev_void();
}

/* PTX has no registers of 8 bits, and predicates cannot be operands of inline PTX. */
static bool ptx_register(Elab *E, Loc loc, DType d)
{
	if (dtype_bits(d) >= 16)
		return true;
	elab_error(E, loc, E_TYPE, "ptx takes and gives values of 16, 32 and 64 bits, not %s", dtype_name(d));
	diag_help(E->d, "convert it: i32(...)");
	return false;
}

Ev bi_ptx(Elab *E, const Call *c)
{
	Value **args = ARENA_ARRAY(E->a, Value *, c->n + 1);
	const Expr *otherwise = c->e->b;
	int n = 0;
	if (!unmasked(E, c))
		return ev_error();
	const char *why = ptx_text_error(E->a, c->arg[0].text, c->n);
	if (why) {
		elab_error(E, c->loc[0], E_CALL, "%s", why);
		return ev_error();
	}
	if (!ptx_register(E, c->e->loc, c->e->dtype))
		return ev_error();
	for (int k = 1; k < c->n; k++) {
		if (!ptx_register(E, c->loc[k], c->arg[k].dtype))
			return ev_error();
		args[n++] = ev_value(E, c->loc[k], c->arg[k]);
	}
	if (otherwise) {
		Ev x = ev_cast(E, otherwise->loc, eval_scalar(E, otherwise, "the value on the CPU device"), c->e->dtype);
		if (x.kind == EV_ERROR)
			return x;
		args[n++] = ev_value(E, otherwise->loc, x);
	}
	Op *op = emit_op(E, OP_PTX, c->e->loc, type_scalar(c->e->dtype), n, args);
	attr_set_text(E->t, op, AT_TEXT, c->arg[0].text);
	if (otherwise)
		attr_set_int(E->t, op, AT_OTHERWISE, 1);
	return ev_of(op->result);
}

Ev bi_stamp(Elab *E, const Call *c)
{
	Ev point = c->arg[0];
	if (!E->trace)
		return ev_void();
	if (point.kind == EV_CONST && (point.i < 0 || point.i >= E->trace)) {
		elab_error(E, c->loc[0], E_CALL, "point %lld of stamp: -D TRACE=%lld has points 0 to %lld", (long long)point.i,
			(long long)E->trace, (long long)E->trace - 1);
		return ev_error();
	}
	statement(E, c, 2, (Value *[]){ E->trace_tensor, ev_value(E, c->loc[0], point) });
	return ev_void();
}
