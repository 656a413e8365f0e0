/* parse_build.c - makes the nodes of the syntax tree for the grammar's actions. */
#include "dsl/parse.h"

#include <string.h>

/* The parser's expressions know their depth, which bounds the recursion of every later pass. */
typedef struct DeepExpr {
	Expr expr;
	unsigned depth;
} DeepExpr;

static unsigned depth_of(const Expr *e)
{
	return e ? ((const DeepExpr *)e)->depth : 0;
}

static unsigned max_depth(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

Expr *build_expr(Parse *p, ExprKind kind, Loc loc)
{
	DeepExpr *e = ARENA_NEW(p->arena, DeepExpr);

	e->expr.kind = kind;
	e->expr.loc = loc;
	e->depth = 1;
	return &e->expr;
}

/* Gives `e` its depth from its children's; one that is too deep becomes a leaf. */
static Expr *set_depth(Parse *p, Expr *e, unsigned children)
{
	if (children >= MAX_EXPR_DEPTH) {
		parse_report_depth(p);
		return build_expr(p, EX_INT, e->loc);
	}
	((DeepExpr *)e)->depth = children + 1;
	return e;
}

Expr *build_unary(Parse *p, UnaryOp op, Expr *a, Loc loc)
{
	Expr *e = build_expr(p, EX_UNARY, loc);

	e->op = op;
	e->a = a;
	return set_depth(p, e, depth_of(a));
}

Expr *build_binary(Parse *p, BinaryOp op, Expr *a, Expr *b, Loc loc)
{
	Expr *e = build_expr(p, EX_BINARY, loc);

	e->op = op;
	e->a = a;
	e->b = b;
	return set_depth(p, e, max_depth(depth_of(a), depth_of(b)));
}

Expr *build_cond(Parse *p, Expr *a, Expr *b, Expr *c, Loc loc)
{
	Expr *e = build_expr(p, EX_COND, loc);

	e->a = a;
	e->b = b;
	e->c = c;
	return set_depth(p, e, max_depth(depth_of(a), max_depth(depth_of(b), depth_of(c))));
}

Expr *build_call(Parse *p, const char *name, DType dtype, ExprList args, Loc loc)
{
	Expr *e = build_expr(p, dtype == DT_NONE ? EX_CALL : EX_TYPED_CALL, loc);

	e->name = name;
	e->dtype = dtype;
	e->args = args.head;
	return set_depth(p, e, args.depth);
}

Expr *build_otherwise(Parse *p, Expr *call, Expr *otherwise)
{
	if (strcmp(call->name, "ptx"))
		parse_error(p, call->loc, "only ptx(...) has an 'else', its value on the CPU device");
	call->b = otherwise;
	return set_depth(p, call, max_depth(depth_of(call), depth_of(otherwise)));
}

Expr *build_cast(Parse *p, DType dtype, Expr *a, Loc loc)
{
	Expr *e = build_expr(p, EX_CAST, loc);

	e->dtype = dtype;
	e->a = a;
	return set_depth(p, e, depth_of(a));
}

/* `(x[a])[b]` is `x[a][b]`: a subscript never stands directly on a subscript. */
static Expr *join_subscripts(Parse *p, Expr *first, SubList subs, Loc loc)
{
	Sub *last = first->subs;

	while (last->next)
		last = last->next;
	last->next = subs.head;
	first->loc = loc;
	return set_depth(p, first, max_depth(depth_of(first), subs.depth));
}

Expr *build_subscript(Parse *p, Expr *a, SubList subs, Loc loc)
{
	Expr *e;

	if (a->kind == EX_SUBSCRIPT)
		return join_subscripts(p, a, subs, loc);
	e = build_expr(p, EX_SUBSCRIPT, loc);
	e->a = a;
	e->subs = subs.head;
	return set_depth(p, e, max_depth(depth_of(a), subs.depth));
}

Expr *build_member(Parse *p, Expr *a, const char *name, Loc loc)
{
	Expr *e = build_expr(p, EX_MEMBER, loc);

	e->a = a;
	e->name = name;
	return set_depth(p, e, depth_of(a));
}

Expr *build_field(Parse *p, const char *name, Expr *a, Loc loc)
{
	Expr *e = build_expr(p, EX_FIELD, loc);

	e->name = name;
	e->a = a;
	return set_depth(p, e, depth_of(a));
}

Expr *build_struct(Parse *p, ExprList fields, Loc loc)
{
	Expr *e = build_expr(p, EX_STRUCT, loc);

	e->args = fields.head;
	return set_depth(p, e, fields.depth);
}

Sub *build_sub(Parse *p, SubKind kind, Expr *a, Expr *n, Loc loc)
{
	Sub *s = ARENA_NEW(p->arena, Sub);

	s->kind = kind;
	s->a = a;
	s->n = n;
	s->loc = loc;
	return s;
}

void list_add_expr(ExprList *list, Expr *e)
{
	LIST_APPEND(*list, e);
	list->depth = max_depth(list->depth, depth_of(e));
}

void list_add_sub(SubList *list, Sub *s)
{
	LIST_APPEND(*list, s);
	list->depth = max_depth(list->depth, max_depth(depth_of(s->a), depth_of(s->n)));
}

Stmt *build_stmt(Parse *p, StmtKind kind, Loc loc)
{
	Stmt *s = ARENA_NEW(p->arena, Stmt);

	s->kind = kind;
	s->loc = loc;
	return s;
}

Stmt *build_block(Parse *p, StmtList list, Loc loc)
{
	Stmt *s = build_stmt(p, ST_BLOCK, loc);

	s->body = list.head;
	return s;
}

Stmt *build_body(Parse *p, Stmt *s, Loc loc)
{
	return s ? s : build_block(p, (StmtList){ 0 }, loc);
}

Stmt *build_decl_stmt(Parse *p, DeclList list, Loc loc)
{
	Stmt *s = build_stmt(p, ST_DECL, loc);

	s->decl = list.head;
	return s;
}

static void check_target(Parse *p, const Expr *e)
{
	if (e->kind == EX_NAME || e->kind == EX_SUBSCRIPT || e->kind == EX_MEMBER)
		return;
	parse_error(p, e->loc, "this cannot be assigned to: it is not a variable, a tile or an element");
}

Stmt *build_assign(Parse *p, AssignOp op, Expr *lhs, Expr *rhs, Loc loc)
{
	Stmt *s = build_stmt(p, ST_ASSIGN, loc);

	check_target(p, lhs);
	s->assign_op = op;
	s->lhs = lhs;
	s->rhs = rhs;
	return s;
}

Stmt *build_increment(Parse *p, AssignOp op, Expr *lhs, Loc loc)
{
	Expr *one = build_expr(p, EX_INT, loc);

	one->i = 1;
	return build_assign(p, op, lhs, one, loc);
}

Stmt *build_call_stmt(Parse *p, Expr *e, CallSuffix suffix, Loc loc)
{
	Stmt *s = build_stmt(p, ST_CALL, loc);

	if (e->kind != EX_CALL && e->kind != EX_TYPED_CALL) {
		parse_error(p, e->loc, "this expression is computed and not used");
		if (e->kind == EX_BINARY && e->op == BIN_EQ)
			diag_help(p->diags, "'==' compares; an assignment is written with '='");
		else
			diag_help(p->diags, "a statement is an assignment, a call or a declaration");
		return NULL;
	}
	s->rhs = e;
	s->limit = suffix.limit;
	s->within = suffix.within;
	return s;
}

Stmt *build_if(Parse *p, Expr *cond, Stmt *then, Stmt *other, Loc loc)
{
	Stmt *s = build_stmt(p, ST_IF, loc);

	s->cond = cond;
	s->body = build_body(p, then, loc);
	s->other = other;
	return s;
}

Stmt *build_for(Parse *p, bool unroll, ForHead head, Stmt *body, Loc loc)
{
	Stmt *s = build_stmt(p, ST_FOR, loc);

	s->unroll = unroll;
	s->init = head.init;
	s->cond = head.cond;
	s->step = head.step;
	s->body = build_body(p, body, loc);
	return s;
}

static void check_async(Parse *p, const Stmt *s)
{
	if (s->kind == ST_ASSIGN)
		return;
	parse_error(p, s->loc, "'async' takes products: 'X = A @ B;', 'X += A @ B;' or a block of them");
}

Stmt *build_async(Parse *p, Stmt *body, Loc loc)
{
	Stmt *s = build_stmt(p, ST_ASYNC, loc);

	s->body = body;
	if (body->kind != ST_BLOCK) {
		check_async(p, body);
		return s;
	}
	for (const Stmt *b = body->body; b; b = b->next)
		check_async(p, b);
	return s;
}

Stmt *build_parallel(Parse *p, BindList binds, Expr *batch, Stmt *body, Loc loc)
{
	Stmt *s = build_stmt(p, ST_PARALLEL, loc);

	if (binds.head && binds.head->next && binds.head->next->next)
		parse_error(p, binds.head->next->next->loc, "'parallel' has one or two indices");
	s->binds = binds.head;
	s->batch = batch;
	s->body = build_body(p, body, loc);
	return s;
}

Stmt *build_role(Parse *p, Role role, Stmt *body, Loc loc)
{
	Stmt *s = build_stmt(p, ST_ROLE, loc);

	s->role = ARENA_NEW(p->arena, Role);
	*s->role = role;
	s->body = body;
	return s;
}

Stmt *build_static_assert(Parse *p, Expr *cond, const char *text, Loc loc)
{
	Stmt *s = build_stmt(p, ST_STATIC_ASSERT, loc);

	s->cond = cond;
	s->text = text;
	return s;
}

void set_once(Parse *p, Expr **where, Expr *e, const char *what, Loc loc)
{
	if (*where)
		parse_error(p, loc, "'%s' is given twice", what);
	*where = e;
}

Bind *build_bind(Parse *p, const char *name, Expr *extent, Loc loc)
{
	Bind *b = ARENA_NEW(p->arena, Bind);

	b->name = name;
	b->extent = extent;
	b->loc = loc;
	return b;
}

Extent *build_extent(Parse *p, bool ring, Expr *e, Loc loc)
{
	Extent *x = ARENA_NEW(p->arena, Extent);

	x->ring = ring;
	x->e = e;
	x->loc = loc;
	return x;
}

NameRef *build_name_ref(Parse *p, const char *name, Loc loc)
{
	NameRef *n = ARENA_NEW(p->arena, NameRef);

	n->name = name;
	n->loc = loc;
	return n;
}

Decl *build_decl(Parse *p, DeclKind kind, const char *name, Loc loc)
{
	Decl *d = ARENA_NEW(p->arena, Decl);

	d->kind = kind;
	d->name = name;
	d->loc = loc;
	return d;
}

Decl *build_value(Parse *p, DeclKind kind, DType dtype, const char *name, Expr *init, Loc loc)
{
	Decl *d = build_decl(p, kind, name, loc);

	d->dtype = dtype;
	d->init = init;
	return d;
}

Decl *build_barrier(Parse *p, DeclKind kind, const char *name, ExtentList extents, NameList from, Expr *count, Loc loc)
{
	Decl *d = build_decl(p, kind, name, loc);

	d->extents = extents.head;
	d->from = from.head;
	d->count = count;
	return d;
}

Decl *build_tile(Parse *p, const char *name, ExtentList extents, Loc loc)
{
	Decl *d = build_decl(p, DE_FRAG, name, loc);
	unsigned dims = 0;

	d->extents = extents.head;
	for (const Extent *x = extents.head; x; x = x->next) {
		dims += !x->ring;
		if (dims == MAX_DIMS + 1 && !x->ring)
			diag_error(p->diags, x->loc, E_LIMIT, "'%s' has more than %d dimensions", name, MAX_DIMS);
	}
	return d;
}

static void reject_layout(Parse *p, const Decl *d, const char *what)
{
	if (d->layout || d->at_name)
		parse_error(p, d->loc, "%s has no layout() or at(): these are for shared and frag tiles", what);
}

static void set_type(Decl *d, TypeRef type)
{
	d->dtype = type.dtype;
	d->type_name = type.name;
	d->type_loc = type.loc;
}

Decl *build_tensor(Parse *p, Decl *head, TypeRef type, Decl *tile, ExprList strides)
{
	reject_layout(p, tile, "a tensor");
	if (!tile->extents && head->dir != DIR_IN && !head->optional && !strides.head) { /* a scalar by reference */
		tile->kind = DE_SCALAR;
		set_type(tile, type);
		tile->dir = head->dir;
		return tile;
	}
	if (!tile->extents)
		parse_error(p, tile->loc, "tensor '%s' has no extents; a scalar parameter has no direction, or out or inout", tile->name);
	tile->kind = DE_TENSOR;
	set_type(tile, type);
	tile->dir = head->dir;
	tile->optional = head->optional;
	tile->strides = strides.head;
	return tile;
}

Decl *build_scalar_param(Parse *p, TypeRef type, Decl *tile)
{
	reject_layout(p, tile, "a scalar");
	if (tile->extents) {
		parse_error(p, tile->loc, "'%s' has extents but does not say where it lives", tile->name);
		diag_help(p->diags, "write 'in', 'out' or 'inout' before a tensor, 'frag' or 'shared' before a tile");
	}
	tile->kind = DE_SCALAR;
	set_type(tile, type);
	return tile;
}

void set_layout(Parse *p, Decl *d, const char *layout, ExprList args, Loc loc)
{
	if (d->layout)
		parse_error(p, loc, "'layout' is given twice");
	d->layout = layout;
	d->layout_args = args.head;
}

void set_at(Parse *p, Decl *d, const char *name, Loc name_loc, Expr *offset, Loc loc)
{
	if (d->at_name)
		parse_error(p, loc, "'at' is given twice");
	d->at_name = name;
	d->at_loc = name_loc;
	d->at_offset = offset;
}

void set_kind(DeclList list, DeclKind kind, TypeRef type, bool warp_scope)
{
	for (Decl *d = list.head; d; d = d->next) {
		d->kind = kind;
		set_type(d, type);
		d->warp_scope = warp_scope;
	}
}

/* Of a parameter, or a member of a struct. */
static void reject_place(Parse *p, const Decl *d)
{
	if (d->layout || d->at_name)
		parse_error(p, d->loc, "'%s' has the layout and the place of what is passed: layout() and at() are for tiles that are declared", d->name);
}

void check_function(Parse *p, const Decl *fn)
{
	for (const Decl *d = fn->params; d; d = d->next) {
		reject_place(p, d);
		if (d->exists)
			parse_error(p, d->loc, "'%s': parameters of a kernel are under a condition, those of a function are always there", d->name);
	}
}

void build_tensors(Parse *p, Decl *head, TypeRef type, DeclList tiles)
{
	for (Decl *d = tiles.head; d; d = d->next)
		build_tensor(p, head, type, d, (ExprList){ 0 });
}

void build_scalar_params(Parse *p, TypeRef type, DeclList names)
{
	for (Decl *d = names.head; d; d = d->next)
		build_scalar_param(p, type, d);
}

void build_barrier_members(Parse *p, DeclKind kind, DeclList names)
{
	for (Decl *d = names.head; d; d = d->next) {
		reject_layout(p, d, "a barrier");
		d->kind = kind;
	}
}

void add_members(DeclList *list, DeclList group)
{
	if (list->head)
		list->tail->next = group.head;
	else
		list->head = group.head;
	list->tail = group.tail;
}

void check_struct(Parse *p, const Decl *s)
{
	if (!s->params)
		parse_error(p, s->loc, "struct '%s' has no members", s->name);
	for (Decl *d = s->params; d; d = d->next) {
		d->member = true;
		reject_place(p, d);
		if (d->exists)
			parse_error(p, d->loc, "'%s': what a kernel declares is under a condition, members of a struct are always there", d->name);
		if (d->kind == DE_SCALAR && d->dir != DIR_NONE) {
			parse_error(p, d->loc, "'%s': a scalar member has no direction", d->name);
			diag_help(p->diags, "a function assigns the members of a struct that it takes as out or inout");
		}
	}
}

static void check_kernel_params(Parse *p, const Decl *kernel)
{
	for (const Decl *d = kernel->params; d; d = d->next) {
		if (d->kind != DE_TENSOR && d->kind != DE_SCALAR)
			parse_error(p, d->loc, "'%s': a kernel's parameters are tensors (in, out, inout) and scalars", d->name);
		else if (d->kind == DE_SCALAR && d->dir != DIR_NONE)
			parse_error(p, d->loc, "tensor '%s' has no extents; a scalar parameter of a kernel has no direction", d->name);
	}
}

void check_kernel(Parse *p, const Decl *kernel)
{
	unsigned n = 0;

	check_kernel_params(p, kernel);
	for (const Expr *e = kernel->grid; e; e = e->next) {
		if (++n == 4)
			parse_error(p, e->loc, "a grid has at most 3 extents");
	}
	if (!kernel->grid) {
		parse_error(p, kernel->loc, "kernel '%s' has no grid", kernel->name);
		diag_help(p->diags, "write 'grid (x, y, z)' after the parameters: 1 to 3 extents, in blocks");
	}
	if (!kernel->threads) {
		parse_error(p, kernel->loc, "kernel '%s' has no threads", kernel->name);
		diag_help(p->diags, "write 'threads (n)' after the parameters: threads of a block");
	}
}

void add_decls(Parse *p, DeclList list)
{
	if (!list.head)
		return;
	*p->decls_end = list.head;
	p->decls_end = &list.tail->next;
}
