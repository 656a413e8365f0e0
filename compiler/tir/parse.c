/* parse.c - reads the text of print.c, generic over the op table.
 *
 *   module : op*
 *   op     : [%name =] text [%name, ...] [{name=value, ...}] [: type] [@line:col] region*
 *   region : [(%name : type, ...)] { op* }
 *
 * `//` starts a comment.  A value may be called %7 (its id) or %any_name.
 */
#include "compiler/tir/tir.h"
#include "dsl/support/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LIST = 64, MAX_DEPTH = 1000 /* of regions, over which the passes recurse */ };

typedef struct Parser {
	Tir *t;
	uint32_t source;
	const char *text;
	uint32_t at, last; /* last: end of the token before */
	bool failed;
	int depth;
	Table *names; /* of the kernel */
} Parser;

static Loc loc_at(const Parser *p, uint32_t begin, uint32_t end)
{
	return (Loc){ .source = p->source, .begin = begin, .end = end > begin ? end : begin + 1 };
}

/* Only the first error is reported: what follows it is noise. */
static bool fail(Parser *p, uint32_t begin, DiagCode code, const char *what)
{
	if (!p->failed)
		diag_error(p->t->diags, loc_at(p, begin, p->at), code, "%s", what);
	p->failed = true;
	return false;
}

/* ---- tokens ---- */

static void skip_space(Parser *p)
{
	for (;;) {
		char c = p->text[p->at];
		if (c == '/' && p->text[p->at + 1] == '/')
			while (p->text[p->at] && p->text[p->at] != '\n')
				p->at++;
		else if (c && isspace((unsigned char)c))
			p->at++;
		else
			return;
	}
}

static char peek(Parser *p)
{
	skip_space(p);
	return p->text[p->at];
}

static bool accept(Parser *p, char c)
{
	if (peek(p) != c)
		return false;
	p->last = ++p->at;
	return true;
}

static bool expect(Parser *p, char c)
{
	if (accept(p, c))
		return true;
	return fail(p, p->at, E_SYNTAX, arena_printf(p->t->arena, "expected '%c'", c));
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* A run of letters, digits, `_` and `.`; NULL when there is none. */
static const char *word(Parser *p)
{
	peek(p);
	uint32_t begin = p->at;
	while (is_word(p->text[p->at]))
		p->at++;
	p->last = p->at;
	return p->at > begin ? arena_strndup(p->t->arena, p->text + begin, p->at - begin) : NULL;
}

static bool integer(Parser *p, int64_t *out)
{
	char *end;
	peek(p);
	*out = strtoll(p->text + p->at, &end, 10);
	if (end == p->text + p->at)
		return fail(p, p->at, E_SYNTAX, "expected an integer");
	p->last = p->at = (uint32_t)(end - p->text);
	return true;
}

/* ---- values ---- */

static bool define(Parser *p, uint32_t begin, const char *name, Value *v)
{
	if (table_get(p->names, name))
		return fail(p, begin, E_REDEFINED, arena_printf(p->t->arena, "%%%s is defined twice", name));
	table_set(p->names, name, v);
	if (isdigit((unsigned char)name[0]))
		v->id = (unsigned)strtoul(name, NULL, 10);
	else if (!v->name)
		v->name = name;
	return true;
}

static const char *value_name(Parser *p)
{
	if (!expect(p, '%'))
		return NULL;
	const char *name = is_word(p->text[p->at]) ? word(p) : NULL;
	if (!name)
		fail(p, p->at, E_SYNTAX, "expected the name of a value after '%'");
	return name;
}

static Value *value(Parser *p)
{
	peek(p);
	uint32_t begin = p->at;
	const char *name = value_name(p);
	Value *v = name ? table_get(p->names, name) : NULL;
	if (name && !v)
		fail(p, begin, E_UNKNOWN_NAME, arena_printf(p->t->arena, "%%%s is not defined before this", name));
	return v;
}

/* Ids of numbered values are kept, so the others start above them. */
static unsigned first_free_id(const char *s)
{
	unsigned long top = 0;
	for (; *s; s++) {
		if (*s != '%' || !isdigit((unsigned char)s[1]))
			continue;
		unsigned long id = strtoul(s + 1, NULL, 10) + 1;
		top = id > top && id < 1u << 30 ? id : top;
	}
	return (unsigned)top;
}

/* ---- types ---- */

static bool tile_kind(const char *s, TypeKind *kind)
{
	static const struct { const char *name; TypeKind kind; } table[] = {
		{ "var", TY_VAR }, { "tensor", TY_TENSOR }, { "shared", TY_SHARED }, { "frag", TY_FRAG },
		{ "view.tensor", TY_VIEW_TENSOR }, { "view.shared", TY_VIEW_SHARED }, { "view.frag", TY_VIEW_FRAG },
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (strcmp(table[i].name, s) == 0) {
			*kind = table[i].kind;
			return true;
		}
	return false;
}

static bool shape_extent(Parser *p, Type *t)
{
	if (t->rank == TIR_MAX_RANK)
		return fail(p, p->at, E_SYNTAX, "too many dimensions");
	if (accept(p, '?')) {
		t->shape[t->rank++] = -1;
		return true;
	}
	int64_t n;
	if (!integer(p, &n))
		return false;
	t->shape[t->rank++] = n;
	return true;
}

static bool shape(Parser *p, Type *t)
{
	do
		if (!shape_extent(p, t))
			return false;
	while (accept(p, 'x'));
	return true;
}

static bool tensor_rank(Parser *p, Type *t)
{
	uint32_t begin = p->at;
	const char *w = word(p);
	int64_t rank;
	if (!w || strcmp(w, "rank") != 0)
		return fail(p, begin, E_SYNTAX, "expected 'rank'");
	if (!integer(p, &rank))
		return false;
	if (rank < 0 || rank > TIR_MAX_RANK)
		return fail(p, begin, E_SYNTAX, "too many dimensions");
	*t = type_tile(TY_TENSOR, t->dtype, (int)rank, NULL);
	return true;
}

static bool tile_type(Parser *p, Type *t)
{
	if (!expect(p, '<'))
		return false;
	uint32_t begin = p->at;
	const char *d = word(p);
	t->dtype = d ? dtype_from_name(d) : DT_NONE;
	if (t->dtype == DT_NONE)
		return fail(p, begin, E_SYNTAX, "expected an element type");
	if (t->kind != TY_VAR && accept(p, ',') && !(t->kind == TY_TENSOR ? tensor_rank(p, t) : shape(p, t)))
		return false;
	return expect(p, '>');
}

static bool type(Parser *p, Type *t)
{
	peek(p);
	uint32_t begin = p->at;
	const char *w = word(p);
	*t = type_none();
	if (!w)
		return fail(p, begin, E_SYNTAX, "expected a type");
	if (strcmp(w, "mbarrier") == 0)
		t->kind = TY_MBARRIER;
	else if (strcmp(w, "barrier") == 0)
		t->kind = TY_BARRIER;
	else if (tile_kind(w, &t->kind))
		return tile_type(p, t);
	else
		*t = type_scalar(dtype_from_name(w));
	if (t->kind == TY_SCALAR && t->dtype == DT_NONE)
		return fail(p, begin, E_SYNTAX, arena_printf(p->t->arena, "unknown type '%s'", w));
	return true;
}

/* ---- attributes ---- */

static int hex_digit(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	return isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

static char escape(Parser *p)
{
	char c = p->text[p->at++];
	if (c == 'x' && hex_digit(p->text[p->at]) >= 0 && hex_digit(p->text[p->at + 1]) >= 0) {
		p->at += 2;
		return (char)(hex_digit(p->text[p->at - 2]) * 16 + hex_digit(p->text[p->at - 1]));
	}
	return c == 'n' ? '\n' : c == 't' ? '\t' : c;
}

static const char *quoted(Parser *p)
{
	uint32_t begin = p->at++;
	const char *close = p->text + p->at;
	while (*close && *close != '"' && *close != '\n')
		close += *close == '\\' && close[1] ? 2 : 1;
	char *s = ARENA_ARRAY(p->t->arena, char, (size_t)(close - p->text) - p->at + 1);
	size_t n = 0;
	while (p->text + p->at < close) {
		char c = p->text[p->at++];
		s[n++] = c == '\\' ? escape(p) : c;
	}
	if (p->text[p->at] != '"') {
		fail(p, begin, E_SYNTAX, "text without a closing quote");
		return NULL;
	}
	p->last = ++p->at;
	return s;
}

static bool list_attr(Parser *p, Op *op, AttrId id)
{
	int64_t list[MAX_LIST];
	int n = 0;
	expect(p, '[');
	while (!accept(p, ']')) {
		if (n == MAX_LIST)
			return fail(p, p->at, E_SYNTAX, "list too long");
		if ((n && !expect(p, ',')) || !integer(p, &list[n]))
			return false;
		n++;
	}
	attr_set_list(p->t, op, id, n, list);
	return true;
}

static bool number_attr(Parser *p, Op *op, AttrId id)
{
	const char *s = p->text + p->at;
	char *int_end, *real_end;
	long long i = strtoll(s, &int_end, 10);
	double f = strtod(s, &real_end); /* also inf and nan */
	if (real_end == s)
		return fail(p, p->at, E_SYNTAX, "expected the value of an attribute");
	if (int_end == real_end)
		attr_set_int(p->t, op, id, i);
	else
		attr_set_real(p->t, op, id, f);
	p->last = p->at = (uint32_t)(real_end - p->text);
	return true;
}

static bool unknown_attr(Parser *p, uint32_t begin, const char *name)
{
	const char *names[ATTR_IDS];
	for (int i = 0; i < ATTR_IDS; i++)
		names[i] = attr_info((AttrId)i)->text;
	fail(p, begin, E_UNKNOWN_NAME, arena_printf(p->t->arena, "unknown attribute '%s'", name));
	const char *near = nearest_name(name, names, ATTR_IDS);
	if (near)
		diag_help(p->t->diags, "did you mean '%s'?", near);
	return false;
}

static bool layout_attr(Parser *p, Op *op, uint32_t begin, const char *text)
{
	const Form *f = form_from_text(p->t->arena, text);
	if (!f)
		return fail(p, begin, E_LAYOUT, arena_printf(p->t->arena, "\"%s\" is no layout", text));
	attr_set_layout(p->t, op, f);
	return true;
}

static bool attr(Parser *p, Op *op)
{
	peek(p);
	uint32_t begin = p->at;
	const char *name = word(p);
	if (!name)
		return fail(p, begin, E_SYNTAX, "expected the name of an attribute");
	AttrId id = attr_from_text(name);
	if (id == ATTR_IDS)
		return unknown_attr(p, begin, name);
	if (attr_get(op, id))
		return fail(p, begin, E_REDEFINED, arena_printf(p->t->arena, "attribute '%s' is given twice", name));
	if (!expect(p, '='))
		return false;
	if (peek(p) == '[')
		return list_attr(p, op, id);
	if (peek(p) != '"')
		return number_attr(p, op, id);
	const char *s = quoted(p);
	if (s && attr_info(id)->kind == ATTR_FORM)
		return layout_attr(p, op, begin, s);
	if (s)
		attr_set_text(p->t, op, id, s);
	return s != NULL;
}

/* `{` opens attributes when `name =` follows, otherwise a region. */
static bool attrs_follow(Parser *p)
{
	uint32_t at = p->at, last = p->last;
	bool yes = accept(p, '{') && word(p) && peek(p) == '=';
	p->at = at;
	p->last = last;
	return yes;
}

static bool attrs(Parser *p, Op *op)
{
	if (!attrs_follow(p))
		return true;
	expect(p, '{');
	do
		if (!attr(p, op))
			return false;
	while (accept(p, ','));
	return expect(p, '}');
}

/* ---- ops ---- */

static Op *parse_op(Parser *p);

static bool region_args(Parser *p, Region *r)
{
	if (!accept(p, '('))
		return true;
	do {
		peek(p);
		uint32_t begin = p->at;
		const char *name = value_name(p);
		Type ty;
		if (!name || !expect(p, ':') || !type(p, &ty))
			return false;
		if (r->nargs == REGION_MAX_ARGS)
			return fail(p, begin, E_SYNTAX, "too many region arguments");
		if (!define(p, begin, name, tir_region_arg(p->t, r, ty, NULL)))
			return false;
	} while (accept(p, ','));
	return expect(p, ')');
}

static bool region_ops(Parser *p, Region *r)
{
	if (!expect(p, '{'))
		return false;
	while (!accept(p, '}')) {
		if (!peek(p))
			return fail(p, p->at, E_SYNTAX, "expected '}'");
		Op *op = parse_op(p);
		if (!op)
			return false;
		tir_append(r, op);
	}
	return true;
}

static bool regions(Parser *p, Op *op)
{
	int n = 0;
	while (peek(p) == '{' || peek(p) == '(') {
		if (n == op_info(op->code)->regions)
			return fail(p, p->at, E_SYNTAX, arena_printf(p->t->arena, "'%s' has %d regions", op_info(op->code)->text, n));
		if (++p->depth > MAX_DEPTH)
			return fail(p, p->at, E_LIMIT, arena_printf(p->t->arena, "regions are nested more than %d deep", MAX_DEPTH));
		Region *r = tir_region(p->t, op, n++);
		if (!region_args(p, r) || !region_ops(p, r))
			return false;
		p->depth--;
	}
	return true;
}

typedef struct Operands { int n, room; Value **list; } Operands;

static void add_operand(Parser *p, Operands *o, Value *v)
{
	if (o->n == o->room) {
		o->room = o->room ? 2 * o->room : 4;
		Value **more = ARENA_ARRAY(p->t->arena, Value *, o->room);
		if (o->n)
			memcpy(more, o->list, sizeof *more * (size_t)o->n);
		o->list = more;
	}
	o->list[o->n++] = v;
}

static bool operands(Parser *p, Operands *o)
{
	if (peek(p) != '%')
		return true;
	do {
		Value *v = value(p);
		if (!v)
			return false;
		add_operand(p, o, v);
	} while (accept(p, ','));
	return true;
}

/* An op without operands may be followed by the definition of the next one. */
static bool operands_follow(Parser *p)
{
	uint32_t at = p->at, last = p->last;
	bool yes = accept(p, '%') && word(p) && peek(p) != '=';
	p->at = at;
	p->last = last;
	return yes;
}

static bool skip_loc(Parser *p)
{
	int64_t n;
	return !accept(p, '@') || (integer(p, &n) && expect(p, ':') && integer(p, &n));
}

static bool set_result(Parser *p, Op *op, uint32_t begin, const char *name, Type ty)
{
	if ((name != NULL) != (ty.kind != TY_NONE))
		return fail(p, begin, E_SYNTAX, name ? "a result needs a type" : "a type without a result");
	if (!name)
		return true;
	Value *v = ARENA_NEW(p->t->arena, Value);
	*v = (Value){ .type = ty, .def = op, .name = attr_text(op, AT_NAME, NULL) };
	if (!isdigit((unsigned char)name[0]))
		v->id = p->t->next_id++;
	op->result = v;
	return define(p, begin, name, v);
}

static Opcode opcode(Parser *p)
{
	peek(p);
	uint32_t begin = p->at;
	const char *text = word(p);
	Opcode code = text ? op_from_text(text) : OP_COUNT;
	if (!text)
		fail(p, begin, E_SYNTAX, "expected an operation");
	else if (code == OP_COUNT)
		fail(p, begin, E_UNKNOWN_NAME, arena_printf(p->t->arena, "unknown operation '%s'", text));
	return code;
}

static bool op_tail(Parser *p, Op *op, const char *name, uint32_t begin)
{
	Type ty = type_none();
	if (!attrs(p, op) || (accept(p, ':') && !type(p, &ty)))
		return false;
	op->loc = loc_at(p, begin, p->last);
	return set_result(p, op, begin, name, ty) && skip_loc(p) && regions(p, op);
}

static Op *parse_op(Parser *p)
{
	peek(p);
	uint32_t begin = p->at;
	const char *name = peek(p) == '%' ? value_name(p) : NULL;
	Operands o = { 0 };
	if (p->failed || (name && !expect(p, '=')))
		return NULL;
	Opcode code = opcode(p);
	if (code == OP_COUNT || (operands_follow(p) && !operands(p, &o)))
		return NULL;
	Op *op = tir_op(p->t, code, loc_at(p, begin, p->last), type_none(), o.n, o.list);
	return op_tail(p, op, name, begin) ? op : NULL;
}

Tir *tir_parse(Arena *a, Diags *d, const Machine *m, uint32_t source)
{
	Parser p = { .t = tir_new(a, d, m), .source = source, .text = diags_source(d, source)->text };
	size_t len = strlen(p.text);
	if (len != diags_source(d, source)->len) {
		diag_error(d, loc_at(&p, (uint32_t)len, (uint32_t)len + 1), E_SYNTAX, "a byte 0 in the text");
		return NULL;
	}
	if (strncmp(p.text, "\xef\xbb\xbf", 3) == 0)
		p.at = 3; /* a byte order mark */
	p.t->next_id = first_free_id(p.text);
	while (peek(&p)) {
		p.names = table_new(a);
		uint32_t begin = p.at;
		Op *op = parse_op(&p);
		if (!op)
			return NULL;
		if (op->code != OP_KERNEL) {
			fail(&p, begin, E_SYNTAX, "only kernels stand at the top of a module");
			return NULL;
		}
		tir_add_kernel(p.t, op);
	}
	return p.t;
}
