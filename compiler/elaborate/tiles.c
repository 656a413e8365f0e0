/* tiles.c - views: subscripts compose into starts per object dimension; elements are loaded and stored. */
#include "compiler/elaborate/elab.h"

#include <string.h>

Ev ev_tile(const View *v)
{
	return (Ev){ .kind = EV_TILE, .dtype = v->dtype, .view = v };
}

/* ---- subscripts ---- */

static Ev index_value(Elab *E, const Expr *e)
{
	Ev r = eval_scalar(E, e, "an index");
	if (r.kind == EV_ERROR)
		return r;
	if (!dtype_is_int(r.dtype)) {
		elab_error(E, e->loc, E_TYPE, "an index is an integer, not %s", dtype_name(r.dtype));
		return ev_error();
	}
	if (r.kind == EV_CONST && !const_fits(DT_I64, r))
		return ev_as_i32(E, e->loc, r, "an index");
	bool wide = dtype_bits(r.dtype) == 64;
	if (r.kind == EV_CONST && const_fits(DT_I32, r))
		wide = false;
	return ev_cast(E, e->loc, r, wide ? DT_I64 : DT_I32);
}

static const char *tile_name(const View *v)
{
	return v->name ? v->name : "tile";
}

static bool check_index(Elab *E, Loc loc, const View *v, const ViewDim *d, Ev e)
{
	if (d->ring && e.kind == EV_CONST && e.i < 0) {
		elab_error(E, loc, E_INDEX, "use %lld of '%s' is negative: uses of a ring count from 0", (long long)e.i, tile_name(v));
		diag_note(E->d, v->declared, "declared here");
		return false;
	}
	if (d->ring || d->seen < 0)
		return true;
	if (e.kind == EV_CONST && (e.i < 0 || e.i >= d->seen)) {
		elab_error(E, loc, E_INDEX, "index %lld of '%s' is outside 0 to %lld", (long long)e.i, tile_name(v), (long long)d->seen - 1);
		diag_note(E->d, v->declared, "declared here");
		return false;
	}
	if (e.ranged && !E->at.mask && v->space != TY_TENSOR && (e.lo < 0 || e.hi >= d->seen)) {
		elab_error(E, loc, E_INDEX, "index of '%s' runs from %lld to %lld, outside 0 to %lld", tile_name(v), (long long)e.lo,
			(long long)e.hi, (long long)d->seen - 1);
		diag_note(E->d, v->declared, "declared here");
		return false;
	}
	return true;
}

static bool apply_index(Elab *E, const Sub *s, View *v, ViewDim *d)
{
	Ev e = index_value(E, s->a);
	if (e.kind == EV_ERROR || !check_index(E, s->a->loc, v, d, e))
		return false;
	if (d->ring) {
		e = ev_binary(E, s->a->loc, BIN_MOD, e, ev_int(DT_I32, d->extent));
		if (e.kind == EV_VALUE && e.value->def && e.value->def->code == OP_MOD)
			attr_set_int(E->t, e.value->def, AT_USE, 1); /* use numbers of tiles are not negative */
	}
	if (d->take > 0)
		e = ev_binary(E, s->a->loc, BIN_ADD, d->start, e);
	d->start = e;
	d->take = -1;
	return e.kind != EV_ERROR;
}

static bool check_slice(Elab *E, const Sub *s, const View *v, const ViewDim *d, Ev e, int64_t n)
{
	if (n < 1) {
		elab_error(E, s->loc, E_INDEX, "a slice takes at least one element, not %lld", (long long)n);
		return false;
	}
	if (v->space == TY_TENSOR) /* transfers read zeros past the end */
		return true;
	if (v->space == TY_FRAG && e.kind != EV_CONST) {
		elab_error(E, s->a->loc, E_NOT_CONSTANT, "the start of a fragment slice must be known at compile time");
		return false;
	}
	int64_t first = e.kind == EV_CONST ? e.i : 0;
	if (first < 0 || first + n > d->seen) {
		elab_error(E, s->loc, E_INDEX, "slice [%lld +: %lld] of '%s' does not fit %lld elements", (long long)first, (long long)n,
			tile_name(v), (long long)d->seen);
		diag_note(E->d, v->declared, "declared here");
		return false;
	}
	return true;
}

static bool apply_slice(Elab *E, const Sub *s, View *v, ViewDim *d)
{
	int64_t n;
	if (d->ring) {
		elab_error(E, s->loc, E_INDEX, "the ring dimension of '%s' takes a use number, not a slice", tile_name(v));
		return false;
	}
	Ev e = index_value(E, s->a);
	if (!eval_const_int(E, s->n, "the extent of a slice", &n) || e.kind == EV_ERROR || !check_slice(E, s, v, d, e, n))
		return false;
	if (v->space != TY_TENSOR && n == d->seen && e.kind == EV_CONST)
		return true; /* all of it */
	if (v->warp_view && d == &v->dim[0]) {
		elab_error(E, s->loc, E_SPACE, "the rows of '.warp' cannot be sliced");
		return false;
	}
	d->start = d->take > 0 ? ev_binary(E, s->loc, BIN_ADD, d->start, e) : e;
	d->take = d->seen = n;
	return d->start.kind != EV_ERROR;
}

static View *view_copy(Elab *E, const View *v)
{
	View *c = ARENA_NEW(E->a, View);
	*c = *v;
	return c;
}

/* .T holds while both of the exchanged dimensions are there. */
static void settle_transpose(View *v, const int *axes, int n)
{
	if (!v->trans)
		return;
	if (v->dim[axes[n - 1]].take < 0 || v->dim[axes[n - 2]].take < 0)
		v->trans = false;
}

static Ev subscript_tile(Elab *E, const View *base, const Expr *e)
{
	View *v = view_copy(E, base);
	int axes[TIR_MAX_RANK], n = view_axes(v, axes), k = 0;
	bool ok = true;
	for (const Sub *s = e->subs; s; s = s->next, k++) {
		if (k == n) {
			elab_error(E, s->loc, E_SHAPE, "'%s' has %d dimension%s, this is one subscript too many", tile_name(v), n, n == 1 ? "" : "s");
			diag_note(E->d, v->declared, "declared here");
			return ev_error();
		}
		if (s->kind == SUB_INDEX)
			ok &= apply_index(E, s, v, &v->dim[axes[k]]);
		else if (s->kind == SUB_SLICE)
			ok &= apply_slice(E, s, v, &v->dim[axes[k]]);
	}
	settle_transpose(v, axes, n);
	return ok ? ev_tile(v) : ev_error();
}

Ev view_subscript(Elab *E, Ev base, const Expr *e)
{
	if (base.kind == EV_TILE)
		return subscript_tile(E, base.view, e);
	if (base.kind == EV_MBARRIER || base.kind == EV_BARRIER)
		return barrier_subscript(E, base, e);
	elab_error(E, e->loc, E_TYPE, "%s takes no subscripts", ev_text(E, base));
	return ev_error();
}

/* ---- .T and .warp ---- */

static Ev warp_member(Elab *E, View *v, Loc loc)
{
	bool team_frag = v->space == TY_FRAG && !v->warp_frag && !v->warp_view && v->rank == 2 && !v->trans;
	if (!team_frag || v->dim[0].take != 0) {
		elab_error(E, loc, E_SPACE, "'.warp' takes a fragment of the team with all its rows, not %s", ev_text(E, ev_tile(v)));
		return ev_error();
	}
	int64_t rows = v->dim[0].extent;
	if (rows != 16 * E->at.team_warps || E->at.team_warps % 4) {
		elab_error(E, loc, E_SHAPE, "'.warp' takes 64 rows per warpgroup; '%s' has %lld rows for %lld warps", tile_name(v),
			(long long)rows, (long long)E->at.team_warps);
		return ev_error();
	}
	v->warp_view = true;
	v->dim[0].seen = 16;
	return ev_tile(v);
}

Ev view_member(Elab *E, Ev base, const Expr *e)
{
	int axes[TIR_MAX_RANK];
	bool t = !strcmp(e->name, "T"), warp = !strcmp(e->name, "warp");
	if (base.kind != EV_TILE || (!t && !warp)) {
		elab_error(E, e->loc, E_TYPE, "%s has no member '%s'", ev_text(E, base), e->name);
		return ev_error();
	}
	View *v = view_copy(E, base.view);
	if (warp)
		return warp_member(E, v, e->loc);
	if (view_axes(v, axes) < 2) {
		elab_error(E, e->loc, E_SHAPE, "'.T' takes at least two dimensions, not %s", ev_text(E, base));
		return ev_error();
	}
	v->trans = !v->trans;
	return ev_tile(v);
}

/* ---- as operands ---- */

static TypeKind view_kind(TypeKind space)
{
	return space == TY_TENSOR ? TY_VIEW_TENSOR : space == TY_SHARED ? TY_VIEW_SHARED : TY_VIEW_FRAG;
}

static bool is_whole(const View *v)
{
	for (int k = 0; k < v->rank; k++)
		if (v->dim[k].take)
			return false;
	/* The extents of a tensor are in the type of its views only. */
	return !v->trans && !v->warp_view && v->space != TY_TENSOR;
}

Value *view_value(Elab *E, Loc loc, const View *v)
{
	if (is_whole(v))
		return v->object;
	Value *args[1 + TIR_MAX_RANK] = { v->object };
	int nargs = 1, axes[TIR_MAX_RANK], n = view_axes(v, axes);
	int64_t dims[TIR_MAX_RANK], shape[TIR_MAX_RANK] = { 0 };
	for (int k = 0; k < v->rank; k++) {
		dims[k] = v->dim[k].take;
		if (!dims[k])
			continue;
		if (v->space == TY_FRAG && v->dim[k].start.kind != EV_CONST) {
			elab_error(E, loc, E_NOT_CONSTANT, "an index of fragment '%s' must be known at compile time here", tile_name(v));
			return NULL;
		}
		if (v->space == TY_FRAG && dims[k] < 0) {
			elab_error(E, loc, E_SHAPE, "a part of fragment '%s' keeps its %d dimension%s: an index takes an element in an element loop, no row or column", tile_name(v), v->rank, v->rank == 1 ? "" : "s");
			diag_help(E->d, "stage it through a shared tile, whose rows are tiles");
			return NULL;
		}
		args[nargs++] = ev_value(E, loc, v->dim[k].start);
	}
	for (int k = 0; k < n; k++)
		shape[k] = v->dim[axes[k]].seen;
	Op *op = emit_op(E, OP_VIEW, loc, type_tile(view_kind(v->space), v->dtype, n, shape), nargs, args);
	attr_set_list(E->t, op, AT_DIMS, v->rank, dims);
	if (v->trans)
		attr_set_int(E->t, op, AT_TRANS, 1);
	if (v->warp_view)
		attr_set_int(E->t, op, AT_WARP_SCOPE, 1);
	op->result->name = v->name;
	return op->result;
}

/* ---- elements ---- */

static bool check_element_place(Elab *E, Loc loc, const View *v)
{
	if (v->space != TY_FRAG)
		return true;
	if (!E->at.parallel) {
		elab_error(E, loc, E_SPACE, "an element of fragment '%s' outside an element loop", tile_name(v));
		diag_help(E->d, "its elements are spread over the team: parallel (i < M, j < N) ... %s[i][j] ...", tile_name(v));
		return false;
	}
	if (v->warp_view || v->warp_frag)
		E->par_warp = true;
	else
		E->par_team = true;
	return true;
}

/* Object and indices at args[at], then the mask; returns the number of operands. */
static int element_args(Elab *E, Loc loc, const View *v, Value **args, int at)
{
	args[at++] = v->object;
	for (int k = 0; k < v->rank; k++)
		args[at++] = ev_value(E, loc, v->dim[k].start);
	if (E->at.mask)
		args[at++] = E->at.mask;
	return at;
}

static void element_attrs(Elab *E, Op *op, const View *v)
{
	if (E->at.mask)
		attr_set_int(E->t, op, AT_MASKED, 1);
	if (v->warp_view)
		attr_set_int(E->t, op, AT_WARP_SCOPE, 1);
}

/* Whether the element is in the tile whatever a mask says: its indices are constants, those of element loops, use numbers. */
static bool surely_inside(const View *v)
{
	for (int k = 0; k < v->rank; k++) {
		const ViewDim *d = &v->dim[k];
		if (!d->ring && d->start.kind != EV_CONST && (!d->start.ranged || d->start.lo < 0 || d->start.hi >= d->extent))
			return false;
	}
	return true;
}

Ev element_load(Elab *E, Loc loc, const View *v)
{
	Value *args[3 + TIR_MAX_RANK];
	if (E->at.in_grid || !E->at.region) {
		elab_error(E, loc, E_NOT_CONSTANT, "elements are known in a kernel's body only");
		return ev_error();
	}
	if (!check_element_place(E, loc, v))
		return ev_error();
	int n = element_args(E, loc, v, args, 0);
	Op *op = emit_op(E, OP_LOAD, loc, type_scalar(v->dtype), n, args);
	element_attrs(E, op, v);
	if (E->at.mask && v->space == TY_SHARED && surely_inside(v))
		attr_set_int(E->t, op, AT_INSIDE, 1);
	return ev_of(op->result);
}

bool check_writable(Elab *E, Loc loc, const View *v)
{
	if (v->space != TY_TENSOR || v->dir != DIR_IN)
		return true;
	elab_error(E, loc, E_SPACE, "'%s' is an 'in' tensor and cannot be written", tile_name(v));
	diag_note(E->d, v->declared, "declared here");
	return false;
}

static bool convertible(Elab *E, Loc loc, const View *v, Ev x)
{
	if (x.kind == EV_ERROR)
		return false;
	if (ev_is_scalar(x))
		return true;
	elab_error(E, loc, E_TYPE, "an element of '%s' is %s, not %s", tile_name(v), dtype_name(v->dtype), ev_text(E, x));
	return false;
}

void element_store(Elab *E, Loc loc, const View *v, Ev x)
{
	Value *args[3 + TIR_MAX_RANK];
	if (!convertible(E, loc, v, x) || !check_writable(E, loc, v) || !check_element_place(E, loc, v))
		return;
	args[0] = ev_value(E, loc, ev_cast(E, loc, x, v->dtype));
	int n = element_args(E, loc, v, args, 1);
	element_attrs(E, emit_op(E, OP_STORE, loc, type_none(), n, args), v);
}

Ev element_atomic(Elab *E, Loc loc, const View *v, Ev x, const char *rmw, bool want)
{
	Value *args[3 + TIR_MAX_RANK];
	if (!convertible(E, loc, v, x) || !check_writable(E, loc, v))
		return ev_error();
	if (v->dtype == DT_BOOL || dtype_computed(v->dtype) != v->dtype) {
		elab_error(E, loc, E_TYPE, "atomic_%s of '%s', whose elements are %s", rmw, tile_name(v), dtype_name(v->dtype));
		return ev_error();
	}
	args[0] = ev_value(E, loc, ev_cast(E, loc, x, v->dtype));
	int n = element_args(E, loc, v, args, 1);
	Op *op = emit_op(E, OP_ATOMIC, loc, want ? type_scalar(v->dtype) : type_none(), n, args);
	attr_set_text(E->t, op, AT_RMW, rmw);
	element_attrs(E, op, v);
	return want ? ev_of(op->result) : ev_void();
}

/* ---- shapes ---- */

/* The first extent that is known at run time only, from 1; 0: none. */
static int runtime_extent(const View *v)
{
	int axes[TIR_MAX_RANK], n = view_axes(v, axes);
	for (int k = 0; k < n; k++)
		if (v->dim[axes[k]].seen < 0)
			return k + 1;
	return 0;
}

/* Extents in order without those of one element. */
static int proper_extents(const View *v, int64_t *out)
{
	int axes[TIR_MAX_RANK], n = view_axes(v, axes), m = 0;
	for (int k = 0; k < n; k++)
		if (v->dim[axes[k]].seen != 1)
			out[m++] = v->dim[axes[k]].seen;
	return m;
}

bool slices_fit(Elab *E, Loc loc, const View *v, bool limited)
{
	for (int k = 0; k < v->rank && v->space == TY_TENSOR; k++) {
		const ViewDim *d = &v->dim[k];
		if (d->take <= 0)
			continue;
		if (!limited && d->extent >= 0 && d->start.kind == EV_CONST && (d->start.i < 0 || d->start.i + d->take > d->extent)) {
			elab_error(E, loc, E_INDEX, "slice [%lld +: %lld] of '%s' does not fit %lld elements", (long long)d->start.i,
				(long long)d->take, tile_name(v), (long long)d->extent);
			diag_note(E->d, v->declared, "declared here");
			return false;
		}
		limited = false;
	}
	return true;
}

bool box_shape(Elab *E, Loc loc, const char *what, const View *global, const View *tile)
{
	int64_t box[TIR_MAX_RANK], rows[TIR_MAX_RANK];
	int n = proper_extents(global, box), m = proper_extents(tile, rows);
	if (!global->trans && !tile->trans && !runtime_extent(global) && box_fills(box, n, rows, m))
		return true;
	return same_shape(E, loc, what, global, tile);
}

bool same_shape(Elab *E, Loc loc, const char *what, const View *a, const View *b)
{
	int64_t x[TIR_MAX_RANK], y[TIR_MAX_RANK];
	int n = proper_extents(a, x), m = proper_extents(b, y), ka = runtime_extent(a), kb = runtime_extent(b);
	const View *open = ka ? a : b;
	if ((ka || kb) && n != m) {
		elab_error(E, loc, E_SHAPE, "%s: '%s' has %d dimensions (%s) but '%s' has %d (%s)", what, tile_name(a), n, view_shape_text(E, a),
			tile_name(b), m, view_shape_text(E, b));
		diag_help(E->d, "an index takes one away: %s[...][i]", tile_name(n > m ? a : b));
		return false;
	}
	if (ka || kb) {
		elab_error(E, loc, E_SHAPE, "extent %d of '%s' is known at run time only", ka ? ka : kb, tile_name(open));
		diag_help(E->d, "take a part of it: %s[... first +: n ...]", tile_name(open));
		return false;
	}
	if (n == m && !memcmp(x, y, sizeof *x * (size_t)n))
		return true;
	elab_error(E, loc, E_SHAPE, "%s: '%s' is %s but '%s' is %s", what, tile_name(a), view_shape_text(E, a), tile_name(b),
		view_shape_text(E, b));
	return false;
}
