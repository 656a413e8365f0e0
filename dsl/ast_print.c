/* ast_print.c - prints a syntax tree as S-expressions, for --emit=ast and the golden tests. */
#include "dsl/ast.h"

typedef struct Printer {
	FILE *out;
	int depth;
} Printer;

static void print_expr(Printer *p, const Expr *e);
static void print_stmt(Printer *p, const Stmt *s);
static void print_decl(Printer *p, const Decl *d);

__attribute__((format(printf, 2, 3))) static void open_node(Printer *p, const char *fmt, ...)
{
	va_list ap;

	if (p->depth)
		fputc('\n', p->out);
	fprintf(p->out, "%*s(", 2 * p->depth++, "");
	va_start(ap, fmt);
	vfprintf(p->out, fmt, ap);
	va_end(ap);
}

static void close_node(Printer *p)
{
	fputc(')', p->out);
	if (--p->depth == 0)
		fputc('\n', p->out);
}

static void print_string(Printer *p, const char *s)
{
	fputs(" \"", p->out);
	for (; *s; s++) {
		if (*s == '\n')
			fputs("\\n", p->out);
		else if (*s == '\t')
			fputs("\\t", p->out);
		else if (*s == '"' || *s == '\\')
			fprintf(p->out, "\\%c", *s);
		else
			fputc(*s, p->out);
	}
	fputc('"', p->out);
}

static void print_exprs(Printer *p, const Expr *e)
{
	for (; e; e = e->next)
		print_expr(p, e);
}

static void print_named(Printer *p, const char *what, const Expr *list)
{
	if (!list)
		return;
	open_node(p, "%s", what);
	print_exprs(p, list);
	close_node(p);
}

static void print_subs(Printer *p, const Sub *s)
{
	static const char *const names[] = { [SUB_INDEX] = "index", [SUB_SLICE] = "slice", [SUB_ALL] = "all" };

	for (; s; s = s->next) {
		open_node(p, "%s", names[s->kind]);
		if (s->a)
			print_expr(p, s->a);
		if (s->n)
			print_expr(p, s->n);
		close_node(p);
	}
}

static const char *unary_name(int op)
{
	static const char *const names[] = { [UN_NEG] = "neg", [UN_NOT] = "!", [UN_BITNOT] = "~", [UN_PLUS] = "plus" };

	return names[op];
}

static const char *binary_name(int op)
{
	static const char *const names[] = {
		[BIN_ADD] = "+", [BIN_SUB] = "-", [BIN_MUL] = "*", [BIN_DIV] = "/", [BIN_MOD] = "%", [BIN_SHL] = "<<",
		[BIN_SHR] = ">>", [BIN_AND] = "&", [BIN_OR] = "|", [BIN_XOR] = "^", [BIN_LT] = "<", [BIN_LE] = "<=",
		[BIN_GT] = ">", [BIN_GE] = ">=", [BIN_EQ] = "==", [BIN_NE] = "!=", [BIN_LAND] = "&&", [BIN_LOR] = "||",
		[BIN_MATMUL] = "@",
	};

	return names[op];
}

static void open_expr(Printer *p, const Expr *e)
{
	switch (e->kind) {
	case EX_INT: open_node(p, "int %llu", (unsigned long long)e->i); break;
	case EX_REAL: open_node(p, "real %.17g", e->f); break;
	case EX_BOOL: open_node(p, "bool %s", e->i ? "true" : "false"); break;
	case EX_STRING: open_node(p, "string"); print_string(p, e->name); break;
	case EX_NAME: open_node(p, "name %s", e->name); break;
	case EX_UNARY: open_node(p, "%s", unary_name(e->op)); break;
	case EX_BINARY: open_node(p, "%s", binary_name(e->op)); break;
	case EX_COND: open_node(p, "?:"); break;
	case EX_CALL: open_node(p, "call %s", e->name); break;
	case EX_CAST: open_node(p, "cast %s", dtype_name(e->dtype)); break;
	case EX_TYPED_CALL: open_node(p, "call %s %s", e->name, dtype_name(e->dtype)); break;
	case EX_SUBSCRIPT: open_node(p, "subscript"); break;
	case EX_MEMBER: open_node(p, "member %s", e->name); break;
	case EX_STRUCT: open_node(p, "struct"); break;
	case EX_FIELD: open_node(p, e->name ? "field %s" : "field", e->name); break;
	}
}

static void print_expr(Printer *p, const Expr *e)
{
	open_expr(p, e);
	if (e->a)
		print_expr(p, e->a);
	if (e->b)
		print_expr(p, e->b);
	if (e->c)
		print_expr(p, e->c);
	print_exprs(p, e->args);
	print_subs(p, e->subs);
	close_node(p);
}

static void print_decls(Printer *p, const Decl *d)
{
	for (; d; d = d->next)
		print_decl(p, d);
}

static void print_binds(Printer *p, const Bind *b)
{
	for (; b; b = b->next) {
		open_node(p, "bind %s", b->name);
		print_expr(p, b->extent);
		close_node(p);
	}
}

static void print_role(Printer *p, const Role *r)
{
	print_binds(p, r->instances);
	open_node(p, "%s", r->warpgroups ? "warpgroup" : "warp");
	print_expr(p, r->first);
	if (r->last)
		print_expr(p, r->last);
	close_node(p);
	print_named(p, "setmaxnreg", r->setmaxnreg);
}

static const char *assign_name(AssignOp op)
{
	static const char *const names[] = {
		[AS_SET] = "=", [AS_ADD] = "+=", [AS_SUB] = "-=", [AS_MUL] = "*=", [AS_DIV] = "/=", [AS_MOD] = "%=",
		[AS_AND] = "&=", [AS_OR] = "|=", [AS_XOR] = "^=", [AS_SHL] = "<<=", [AS_SHR] = ">>=",
	};

	return names[op];
}

static void open_stmt(Printer *p, const Stmt *s)
{
	switch (s->kind) {
	case ST_BLOCK: open_node(p, "block"); break;
	case ST_DECL: open_node(p, "decl"); break;
	case ST_ASSIGN: open_node(p, "%s", assign_name(s->assign_op)); break;
	case ST_CALL: open_node(p, "do"); break;
	case ST_IF: open_node(p, "if"); break;
	case ST_FOR: open_node(p, s->unroll ? "unroll-for" : "for"); break;
	case ST_WHILE: open_node(p, "while"); break;
	case ST_ONCE: open_node(p, "once"); break;
	case ST_PARALLEL: open_node(p, "parallel"); break;
	case ST_ASYNC: open_node(p, "async"); break;
	case ST_ROLE: open_node(p, "role %s", s->role->name); break;
	case ST_RETURN: open_node(p, "return"); break;
	case ST_BREAK: open_node(p, "break"); break;
	case ST_CONTINUE: open_node(p, "continue"); break;
	case ST_STATIC_ASSERT: open_node(p, "static_assert"); print_string(p, s->text); break;
	}
}

static void print_part(Printer *p, const char *what, const Stmt *s)
{
	if (!s)
		return;
	open_node(p, "%s", what);
	print_stmt(p, s);
	close_node(p);
}

static void print_stmt(Printer *p, const Stmt *s)
{
	open_stmt(p, s);
	print_decls(p, s->decl);
	print_binds(p, s->binds);
	if (s->role)
		print_role(p, s->role);
	if (s->lhs)
		print_expr(p, s->lhs);
	if (s->rhs)
		print_expr(p, s->rhs);
	print_named(p, "limit", s->limit);
	print_named(p, "within", s->within);
	print_named(p, "batch", s->batch);
	print_part(p, "init", s->init);
	print_named(p, "cond", s->cond);
	print_part(p, "step", s->step);
	for (const Stmt *b = s->body; b; b = b->next)
		print_stmt(p, b);
	print_part(p, "else", s->other);
	close_node(p);
}

static const char *kind_name(DeclKind kind)
{
	static const char *const names[] = {
		[DE_PARAM] = "param", [DE_TYPE] = "param type", [DE_CONST] = "const", [DE_DIM] = "dim", [DE_SCALAR] = "scalar",
		[DE_SHARED] = "shared", [DE_FRAG] = "frag", [DE_MBARRIER] = "mbarrier", [DE_BARRIER] = "barrier",
		[DE_TENSOR] = "tensor", [DE_FN] = "fn", [DE_STRUCT] = "struct", [DE_KERNEL] = "kernel", [DE_IMPORT] = "import",
		[DE_STATIC_ASSERT] = "static_assert",
	};

	return names[kind];
}

static const char *direction_name(Direction dir)
{
	static const char *const names[] = { [DIR_NONE] = "", [DIR_IN] = " in", [DIR_OUT] = " out", [DIR_INOUT] = " inout" };

	return names[dir];
}

static void open_decl(Printer *p, const Decl *d)
{
	open_node(p, "%s%s%s%s", d->warp_scope ? "warp-" : "", kind_name(d->kind), d->optional ? " optional" : "",
	          direction_name(d->dir));
	if (d->kind == DE_IMPORT) {
		print_string(p, d->name);
		return;
	}
	if (d->dtype != DT_NONE)
		fprintf(p->out, " %s", dtype_name(d->dtype));
	if (d->type_name)
		fprintf(p->out, " %s", d->type_name);
	if (d->name)
		fprintf(p->out, " %s", d->name);
	if (d->text)
		print_string(p, d->text);
}

static void print_extents(Printer *p, const Extent *x)
{
	for (; x; x = x->next) {
		open_node(p, x->ring ? "ring" : "extent");
		print_expr(p, x->e);
		close_node(p);
	}
}

static void print_place(Printer *p, const Decl *d)
{
	if (d->layout) {
		open_node(p, "layout %s", d->layout);
		print_exprs(p, d->layout_args);
		close_node(p);
	}
	if (d->at_name) {
		open_node(p, "at %s", d->at_name);
		print_expr(p, d->at_offset);
		close_node(p);
	}
	for (const NameRef *n = d->from; n; n = n->next) {
		open_node(p, "from %s", n->name);
		if (n->instance)
			print_expr(p, n->instance);
		close_node(p);
	}
	print_named(p, "if", d->exists);
	print_named(p, "count", d->count);
	print_named(p, "strides", d->strides);
}

static void print_decl(Printer *p, const Decl *d)
{
	open_decl(p, d);
	print_extents(p, d->extents);
	if (d->init)
		print_expr(p, d->init);
	print_place(p, d);
	if (d->params) {
		open_node(p, "params");
		print_decls(p, d->params);
		close_node(p);
	}
	print_named(p, "grid", d->grid);
	print_named(p, "threads", d->threads);
	print_named(p, "occupancy", d->occupancy);
	print_named(p, "cluster", d->cluster);
	if (d->body)
		print_stmt(p, d->body);
	close_node(p);
}

void ast_print(const Ast *ast, FILE *out)
{
	Printer p = { .out = out };

	print_decls(&p, ast->decls);
}
