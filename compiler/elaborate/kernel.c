/* kernel.c - kernels and their roles: launch attributes, dims, parameters, grid. */
#include "compiler/elaborate/elab.h"

#include <string.h>

/* ---- dims ---- */

static void place_dim(Elab *E, Op *op, const DimSlot *before, const DimSlot *after)
{
	Region *r = E->kernel->regions[0];
	if (before)
		tir_insert_after(before->value->def, op);
	else if (after)
		tir_insert_before(after->value->def, op);
	else if (r->first)
		tir_insert_before(r->first, op);
	else
		tir_append(r, op);
}

/* Dims stand at the top in the order of their declarations, those that the kernel uses. */
Ev dim_value(Elab *E, Loc loc, const char *name, int order)
{
	if (!E->kernel) {
		elab_error(E, loc, E_NOT_CONSTANT, "dim '%s' is known at run time only", name);
		return ev_error();
	}
	DimSlot *before = NULL, **link = &E->dims;
	for (; *link && (*link)->order <= order; link = &(*link)->next) {
		if ((*link)->order == order)
			return ev_of((*link)->value);
		before = *link;
	}
	Op *op = tir_op(E->t, OP_DIM, E->kernel->loc, type_scalar(DT_I32), 0, NULL);
	attr_set_text(E->t, op, AT_NAME, name);
	op->result->name = name;
	place_dim(E, op, before, *link);
	DimSlot *slot = ARENA_NEW(E->a, DimSlot);
	*slot = (DimSlot){ *link, order, op->result };
	*link = slot;
	return ev_of(op->result);
}

/* ---- parameters ---- */

static void scalar_param(Elab *E, const Decl *written)
{
	const Decl *p = with_type(E, written);
	if (!p) {
		sym_define_ev(E, written->loc, written->name, ev_error(), NULL);
		return;
	}
	Op *op = emit_op(E, OP_PARAM, p->loc, type_scalar(p->dtype), 0, NULL);
	attr_set_text(E->t, op, AT_NAME, p->name);
	op->result->name = p->name;
	sym_define_ev(E, p->loc, p->name, ev_of(op->result), "a parameter");
}

static bool tensor_extents(Elab *E, const Decl *p, View *v, Ev *extents)
{
	bool ok = true;
	for (const Extent *x = p->extents; x; x = x->next) {
		if (x->ring || v->rank == MAX_TILE_RANK) {
			elab_error(E, x->loc, x->ring ? E_SHAPE : E_LIMIT, x->ring ? "a tensor has no ring" : "a tensor has at most 5 dimensions");
			return false;
		}
		bool known = x->e->kind != EX_NAME || sym_find(E, x->e->name);
		Ev e = eval_i32(E, x->e, "an extent");
		if (!known)
			diag_help(E->d, "an extent that the tensors of a launch say is declared: dim %s;", x->e->name);
		if (e.kind == EV_CONST && e.i < 1) {
			elab_error(E, x->loc, E_SHAPE, "extent %d of '%s' is %lld", v->rank + 1, p->name, (long long)e.i);
			e = ev_error();
		}
		ok &= e.kind != EV_ERROR;
		int64_t n = e.kind == EV_CONST ? e.i : -1;
		v->dim[v->rank] = (ViewDim){ .extent = n, .seen = n, .extent_value = e.kind == EV_VALUE ? e.value : NULL };
		extents[v->rank++] = e;
	}
	return ok;
}

/* A name that strides introduce is a dim which the caller passes. */
static void declare_stride_dim(Elab *E, const Expr *e)
{
	if (e->kind != EX_NAME || sym_find(E, e->name))
		return;
	refuse_builtin(E, e->loc, e->name);
	sym_define(E, e->loc, e->name, SYM_DIM)->dim = E->ndims++;
}

static bool given_strides(Elab *E, const Decl *p, const View *v, Ev *strides)
{
	int k = 0;
	for (const Expr *e = p->strides; e; e = e->next, k++) {
		if (k == v->rank)
			break;
		declare_stride_dim(E, e);
		E->at.in_stride = true;
		Ev x = eval_scalar(E, e, "a stride");
		E->at.in_stride = false;
		if (x.kind != EV_ERROR && !dtype_is_int(x.dtype)) {
			elab_error(E, e->loc, E_TYPE, "a stride is an integer, not %s", dtype_name(x.dtype));
			x = ev_error();
		}
		if (x.kind == EV_ERROR)
			return false;
		strides[k] = ev_cast(E, e->loc, x, DT_I64);
		if (!e->next && k + 1 == v->rank)
			return true;
	}
	elab_error(E, p->loc, E_SHAPE, "'%s' has %d dimensions and needs as many strides", p->name, v->rank);
	return false;
}

static void contiguous_strides(Elab *E, const Decl *p, const View *v, const Ev *extents, Ev *strides)
{
	strides[v->rank - 1] = ev_int(DT_I64, 1);
	for (int k = v->rank - 1; k-- > 0;)
		strides[k] = ev_binary(E, p->loc, BIN_MUL, strides[k + 1], ev_cast(E, p->loc, extents[k + 1], DT_I64));
}

static bool tensor_param(Elab *E, const Decl *written)
{
	const Decl *p = with_type(E, written);
	Ev extents[TIR_MAX_RANK], strides[TIR_MAX_RANK];
	Value *args[2 * TIR_MAX_RANK];
	if (!p)
		return false;
	View *v = ARENA_NEW(E->a, View);
	*v = (View){ .name = p->name, .declared = p->loc, .space = TY_TENSOR, .dtype = p->dtype, .dir = p->dir,
		.optional = p->optional, .strided = p->strides != NULL };
	if (!tensor_extents(E, p, v, extents) || !v->rank)
		return false;
	if (!p->strides)
		contiguous_strides(E, p, v, extents, strides);
	else if (!given_strides(E, p, v, strides))
		return false;
	for (int k = 0; k < v->rank; k++)
		args[k] = ev_value(E, p->loc, extents[k]);
	for (int k = 0; k < v->rank; k++)
		args[v->rank + k] = ev_value(E, p->loc, strides[k]);
	Op *op = emit_op(E, OP_TENSOR, p->loc, type_tile(TY_TENSOR, p->dtype, v->rank, NULL), 2 * v->rank, args);
	attr_set_text(E->t, op, AT_NAME, p->name);
	attr_set_int(E->t, op, AT_DIR, p->dir == DIR_IN ? 1 : p->dir == DIR_OUT ? 2 : 3);
	if (p->optional)
		attr_set_int(E->t, op, AT_OPTIONAL, 1);
	op->result->name = p->name;
	v->object = op->result;
	sym_define_ev(E, p->loc, p->name, ev_tile(v), "a tensor");
	return true;
}

static void kernel_params(Elab *E, const Decl *d)
{
	for (const Decl *p = d->params; p; p = p->next) {
		refuse_builtin(E, p->loc, p->name);
		if (p->kind == DE_SCALAR && declared_here(E, p))
			scalar_param(E, p);
	}
	for (const Decl *p = d->params; p; p = p->next) {
		if (p->kind == DE_SCALAR || !declared_here(E, p))
			continue;
		if (p->kind != DE_TENSOR)
			elab_error(E, p->loc, E_SPACE, "'%s': a kernel's parameters are tensors and scalars", p->name);
		if (p->kind != DE_TENSOR || !tensor_param(E, p))
			sym_define_ev(E, p->loc, p->name, ev_error(), NULL);
	}
}

/* ---- launch ---- */

static void kernel_grid(Elab *E, const Decl *d)
{
	Value *args[3];
	int n = 0;
	E->at.in_grid = true;
	for (const Expr *e = d->grid; e; e = e->next) {
		Ev x = eval_i32(E, e, "an extent of the grid");
		if (n == 3) {
			elab_error(E, e->loc, E_SHAPE, "a grid has at most 3 extents");
			break;
		}
		if (x.kind == EV_ERROR)
			break;
		args[n++] = ev_value(E, e->loc, x);
	}
	E->at.in_grid = false;
	if (n)
		emit_op(E, OP_GRID, d->grid->loc, type_none(), n, args);
}

/* ---- the tensor of stamp() ---- */

static Ev blocks_of_grid(Elab *E, const Op *grid)
{
	Ev blocks = ev_of(operand(grid, ARG_X));
	for (int k = 1; k < grid->nargs; k++)
		blocks = ev_binary(E, grid->loc, BIN_MUL, blocks, ev_of(grid->args[k]));
	return blocks;
}

/* optional out i64 trace[blocks][warps][points][2] */
static void trace_param(Elab *E, const Decl *d)
{
	const Op *grid = E->at.region->last;
	if (!E->trace || !grid || grid->code != OP_GRID)
		return;
	for (const Decl *p = d->params; p; p = p->next)
		if (!strcmp(p->name, "trace"))
			elab_error(E, p->loc, E_REDEFINED, "'trace' is the parameter that -D TRACE adds to each kernel");
	const Ev extents[] = { blocks_of_grid(E, grid), ev_int(DT_I32, E->at.team_warps), ev_int(DT_I32, E->trace), ev_int(DT_I32, 2) };
	enum { RANK = sizeof extents / sizeof extents[0] };
	Value *args[2 * RANK];
	int64_t stride = 1;
	for (int k = RANK; k-- > 0;) {
		args[k] = ev_value(E, d->loc, extents[k]);
		args[RANK + k] = ev_value(E, d->loc, ev_int(DT_I64, stride));
		stride *= extents[k].i;
	}
	Op *op = emit_op(E, OP_TENSOR, d->loc, type_tile(TY_TENSOR, DT_I64, RANK, NULL), 2 * RANK, args);
	attr_set_text(E->t, op, AT_NAME, "trace");
	attr_set_int(E->t, op, AT_DIR, 2);
	attr_set_int(E->t, op, AT_OPTIONAL, 1);
	op->result->name = "trace";
	E->trace_tensor = op->result;
}

static int64_t launch_attr(Elab *E, const Expr *e, AttrId id, int64_t max, DiagCode code)
{
	int64_t n = 1;
	if (!e || !eval_const_int(E, e, attr_info(id)->text, &n))
		return 1;
	if (e->next) {
		elab_error(E, e->loc, code, "%s is one number from 1 to %lld", attr_info(id)->text, (long long)max);
		return 1;
	}
	if (n < 1 || n > max) {
		elab_error(E, e->loc, code, "%s (%lld) is not from 1 to %lld", attr_info(id)->text, (long long)n, (long long)max);
		return 1;
	}
	attr_set_int(E->t, E->kernel, id, n);
	return n;
}

/* Names that PTX or the code of every kernel has. */
static void refuse_name(Elab *E, const Decl *d)
{
	static const char *const taken[] = { "_", "vprintf", "tile_shared", "WARP_SZ" };
	for (size_t k = 0; k < sizeof taken / sizeof taken[0]; k++)
		if (!strcmp(d->name, taken[k]))
			elab_error(E, d->loc, E_REDEFINED, "no kernel can be called '%s': PTX or the compiler has that name", d->name);
}

static void start_kernel(Elab *E, const Decl *d)
{
	refuse_name(E, d);
	E->kernel = tir_op(E->t, OP_KERNEL, d->loc, type_none(), 0, NULL);
	tir_add_kernel(E->t, E->kernel);
	E->at.region = tir_region(E->t, E->kernel, 0);
	E->dims = NULL;
	E->at.nconsts = 0;
	E->at.depth = 0;
	attr_set_text(E->t, E->kernel, AT_NAME, d->name);
}

static void launch_attrs(Elab *E, const Decl *d)
{
	int64_t threads = launch_attr(E, d->threads, AT_THREADS, E->t->machine->threads, E_THREADS);
	if (d->threads && threads % 32 && threads != 1)
		elab_error(E, d->threads->loc, E_THREADS, "threads (%lld) is not a multiple of 32", (long long)threads);
	E->at.team_warps = (threads + 31) / 32;
	launch_attr(E, d->occupancy, AT_OCCUPANCY, E->t->machine->occupancy, E_THREADS);
	launch_attr(E, d->cluster, AT_CLUSTER, E->t->machine->cluster, E_THREADS);
}

void elaborate_kernel(Elab *E, const Decl *d)
{
	Place before = E->at;
	scope_push(E);
	E->at.file = file_of(E, d->loc.source);
	start_kernel(E, d);
	kernel_params(E, d);
	launch_attrs(E, d);
	kernel_grid(E, d);
	trace_param(E, d);
	scope_push(E);
	exec_list(E, d->body->body);
	E->kernel = NULL;
	place_leave(E, before);
}

/* ---- roles ---- */

static bool role_allowed(Elab *E, const Stmt *s)
{
	if (!require_team_level(E, s->loc, "role"))
		return false;
	const char *where = E->at.in_role ? "in a role" : E->at.depth ? "in a loop or under a run-time condition" : NULL;
	if (where)
		elab_error(E, s->loc, E_ROLE, "role '%s' stands %s", s->role->name, where);
	return !where;
}

typedef struct RoleWarps { int64_t first, warps, instances; } RoleWarps;

static bool role_warps(Elab *E, const Stmt *s, RoleWarps *w)
{
	const Role *r = s->role;
	const Machine *m = E->t->machine;
	int64_t first, last, unit = r->warpgroups ? 4 : 1, most = m->threads / m->warp;
	w->instances = 1;
	if (!eval_const_int(E, r->first, "the first warp of a role", &w->first))
		return false;
	first = last = w->first;
	if (r->last && !eval_const_int(E, r->last, "the last warp of a role", &last))
		return false;
	if (r->instances && !eval_const_int(E, r->instances->extent, "the instances of a role", &w->instances))
		return false;
	bool sane = w->first >= 0 && last >= w->first && last < most && w->instances >= 1 && w->instances <= most;
	w->first *= unit;
	w->warps = (last + 1) * unit - w->first;
	int64_t end = w->first + w->warps * w->instances;
	if (sane && end <= E->at.team_warps)
		return true;
	const char *each = r->instances ? arena_printf(E->a, "%lld instances of ", (long long)w->instances) : "";
	elab_error(E, s->loc, E_ROLE, "role '%s' has %s%s %lld to %lld, the CTA has %lld warps", r->name, each, r->warpgroups ? "warpgroups" : "warps",
		(long long)first, (long long)last, (long long)E->at.team_warps);
	return false;
}

void exec_role(Elab *E, const Stmt *s)
{
	const Role *r = s->role;
	RoleWarps w;
	int64_t regs = 0;
	if (!role_allowed(E, s) || !role_warps(E, s, &w))
		return;
	if (r->setmaxnreg && !eval_const_int(E, r->setmaxnreg, "setmaxnreg(...)", &regs))
		return;
	Op *op = emit_op(E, OP_ROLE, s->loc, type_none(), 0, NULL);
	attr_set_text(E->t, op, AT_NAME, r->name);
	attr_set_int(E->t, op, AT_FIRST_WARP, w.first);
	attr_set_int(E->t, op, AT_WARPS, w.warps);
	attr_set_int(E->t, op, AT_INSTANCES, w.instances);
	if (r->setmaxnreg)
		attr_set_int(E->t, op, AT_SETMAXNREG, regs);
	Region *body = tir_region(E->t, op, 0);
	Value *instance = tir_region_arg(E->t, body, type_scalar(DT_I32), r->instances ? r->instances->name : NULL);
	Place saved = place_enter(E, body);
	scope_push(E);
	if (r->instances)
		sym_define_ev(E, r->instances->loc, r->instances->name, ev_of(instance), "the instance of a role");
	E->at.in_role = true;
	E->at.team_warps = w.warps;
	exec(E, s->body);
	place_leave(E, saved);
}
