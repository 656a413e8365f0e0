/* tir.c - building, querying and walking the tile IR. */
#include "compiler/tir/tir.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const OpInfo op_table[] = {
#define NAMES_(a, b, c, d, e, ...) { ARG_##a, ARG_##b, ARG_##c, ARG_##d, ARG_##e }
#define NAMES(...) NAMES_(__VA_ARGS__, NONE, NONE, NONE, NONE, NONE)
#define OP(id, text, operands, names, result, effect, regions, attributes, doc) \
	{ text, operands, names, result, effect, regions, attributes, doc },
#include "compiler/tir/ops.def"
#undef OP
#undef NAMES
#undef NAMES_
};

static const char *const operand_names[] = {
#define OPERAND(id, text) text,
#include "compiler/tir/operands.def"
#undef OPERAND
};

const char *operand_name(OperandId id) { return operand_names[id]; }

const OpInfo *op_info(Opcode op)
{
	return &op_table[op];
}

Opcode op_from_text(const char *text)
{
	for (int i = 0; i < OP_COUNT; i++)
		if (strcmp(op_table[i].text, text) == 0)
			return (Opcode)i;
	return OP_COUNT;
}

bool next_operand(const char **text, Operand *out)
{
	const char *p = *text + strspn(*text, " ");
	*out = (Operand){ .most = 1 };
	for (; *p && !isalpha((unsigned char)*p); p++) {
		out->access |= *p == '<' ? ACCESS_READ : *p == '>' ? ACCESS_WRITE : *p == '&' ? ACCESS_READ | ACCESS_WRITE : 0;
		out->async |= *p == '~';
		out->optional |= *p == '?';
	}
	if (!*p)
		return false;
	out->kind = *p++;
	if (*p == '*') {
		char *end;
		long n = strtol(p + 1, &end, 10);
		out->most = n ? (int)n : INT_MAX;
		p = end;
	}
	*text = p;
	return true;
}

void op_arity(Opcode op, int *least, int *most)
{
	const char *text = op_table[op].operands;
	Operand o;
	*least = *most = 0;
	while (next_operand(&text, &o)) {
		*least += !o.optional;
		*most = o.most == INT_MAX ? INT_MAX : *most + o.most;
	}
}

/* ---- types ---- */

Type type_tile(TypeKind kind, DType d, int rank, const int64_t *shape)
{
	Type t = { .kind = kind, .dtype = d, .rank = rank };
	for (int i = 0; i < rank && i < TIR_MAX_RANK; i++)
		t.shape[i] = shape ? shape[i] : -1;
	return t;
}

bool type_equal(Type a, Type b)
{
	if (a.kind != b.kind || a.dtype != b.dtype || a.rank != b.rank)
		return false;
	for (int i = 0; i < a.rank; i++)
		if (a.shape[i] != b.shape[i])
			return false;
	return true;
}

static const char *shape_text(Arena *a, Type t)
{
	const char *s = "";
	for (int i = 0; i < t.rank; i++) {
		const char *sep = i ? "x" : ", ";
		if (t.shape[i] < 0)
			s = arena_printf(a, "%s%s?", s, sep);
		else
			s = arena_printf(a, "%s%s%lld", s, sep, (long long)t.shape[i]);
	}
	return s;
}

static const char *tile_text(Arena *a, const char *space, Type t)
{
	return arena_printf(a, "%s<%s%s>", space, dtype_name(t.dtype), shape_text(a, t));
}

const char *type_text(Arena *a, Type t)
{
	switch (t.kind) {
	case TY_NONE: return "none";
	case TY_SCALAR: return dtype_name(t.dtype);
	case TY_VAR: return arena_printf(a, "var<%s>", dtype_name(t.dtype));
	case TY_MBARRIER: return "mbarrier";
	case TY_BARRIER: return "barrier";
	case TY_TENSOR: return arena_printf(a, "tensor<%s, rank %d>", dtype_name(t.dtype), t.rank);
	case TY_SHARED: return tile_text(a, "shared", t);
	case TY_FRAG: return tile_text(a, "frag", t);
	case TY_VIEW_TENSOR: return tile_text(a, "view.tensor", t);
	case TY_VIEW_SHARED: return tile_text(a, "view.shared", t);
	case TY_VIEW_FRAG: return tile_text(a, "view.frag", t);
	}
	return "none";
}

/* ---- building ---- */

Tir *tir_new(Arena *a, Diags *d, const Machine *m)
{
	Tir *t = ARENA_NEW(a, Tir);
	t->arena = a;
	t->diags = d;
	t->machine = m;
	return t;
}

static Value *new_value(Tir *t, Type type)
{
	Value *v = ARENA_NEW(t->arena, Value);
	v->id = t->next_id++;
	v->type = type;
	return v;
}

void site_notes(Diags *d, const Site *site)
{
	enum { MOST = 4 };
	for (int shown = 0; site && shown < MOST; site = site->caller, shown++)
		diag_note(d, site->call, "in the expansion of '%s' here", site->fn);
}

void tir_error(const Tir *t, const Op *op, DiagCode code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	const char *text = arena_vprintf(t->arena, fmt, ap);
	va_end(ap);
	diag_error(t->diags, op->loc, code, "%s", text);
	site_notes(t->diags, op->site);
}

Op *tir_op(Tir *t, Opcode code, Loc loc, Type type, int nargs, Value *const *args)
{
	Op *op = ARENA_NEW(t->arena, Op);
	op->code = code;
	op->loc = loc;
	op->site = t->site;
	op->nargs = nargs;
	if (nargs) {
		op->args = ARENA_ARRAY(t->arena, Value *, nargs);
		memcpy(op->args, args, sizeof(Value *) * (size_t)nargs);
	}
	if (type.kind != TY_NONE) {
		op->result = new_value(t, type);
		op->result->def = op;
	}
	return op;
}

Region *tir_region(Tir *t, Op *owner, int index)
{
	Region *r = ARENA_NEW(t->arena, Region);
	r->owner = owner;
	owner->regions[index] = r;
	return r;
}

Value *tir_region_arg(Tir *t, Region *r, Type type, const char *name)
{
	Value *v = new_value(t, type);
	v->region = r;
	v->name = name;
	r->args[r->nargs++] = v;
	return v;
}

void tir_append(Region *r, Op *op)
{
	op->parent = r;
	op->next = NULL;
	op->prev = r->last;
	if (r->last)
		r->last->next = op;
	else
		r->first = op;
	r->last = op;
}

void tir_insert_before(Op *where, Op *op)
{
	op->parent = where->parent;
	op->prev = where->prev;
	op->next = where;
	if (where->prev)
		where->prev->next = op;
	else
		where->parent->first = op;
	where->prev = op;
}

void tir_insert_after(Op *where, Op *op)
{
	if (where->next)
		tir_insert_before(where->next, op);
	else
		tir_append(where->parent, op);
}

void tir_remove(Op *op)
{
	Region *r = op->parent;
	if (op->prev)
		op->prev->next = op->next;
	else
		r->first = op->next;
	if (op->next)
		op->next->prev = op->prev;
	else
		r->last = op->prev;
	op->prev = op->next = NULL;
	op->parent = NULL;
}

void tir_add_kernel(Tir *t, Op *kernel)
{
	kernel->prev = t->last;
	if (t->last)
		t->last->next = kernel;
	else
		t->first = kernel;
	t->last = kernel;
}

void tir_add_operand(Tir *t, Op *op, Value *v)
{
	Value **args = ARENA_ARRAY(t->arena, Value *, op->nargs + 1);
	if (op->nargs)
		memcpy(args, op->args, sizeof(Value *) * (size_t)op->nargs);
	args[op->nargs++] = v;
	op->args = args;
}

/* ---- attributes ---- */

static const AttrInfo attr_table[] = {
#define ATTR(id, text, kind, lo, hi, doc) { text, kind, lo, hi, doc },
#include "compiler/tir/attrs.def"
#undef ATTR
};

const AttrInfo *attr_info(AttrId id)
{
	return &attr_table[id];
}

static int by_text(const void *text, const void *row)
{
	return strcmp(text, ((const AttrInfo *)row)->text);
}

AttrId attr_from_text(const char *text)
{
	const AttrInfo *row = bsearch(text, attr_table, ATTR_IDS, sizeof *row, by_text);
	return row ? (AttrId)(row - attr_table) : ATTR_IDS;
}

AttrUse op_attr_use(Opcode op, AttrId id)
{
	const char *name = attr_table[id].text;
	size_t len = strlen(name);
	for (const char *p = op_table[op].attributes; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");
		bool optional = p[n - 1] == '?';
		if (n - optional == len && strncmp(p, name, len) == 0)
			return optional ? USE_OPTIONAL : USE_REQUIRED;
		p += n;
	}
	return USE_NEVER;
}

static Attr *attr_slot(Tir *t, Op *op, AttrId id)
{
	Attr **at = &op->attrs;
	while (*at && (*at)->id < id)
		at = &(*at)->next;
	if (*at && (*at)->id == id) {
		**at = (Attr){ .next = (*at)->next, .id = id };
		return *at;
	}
	Attr *a = ARENA_NEW(t->arena, Attr);
	a->id = id;
	a->next = *at;
	*at = a;
	return a;
}

void attr_set_int(Tir *t, Op *op, AttrId id, int64_t v)
{
	Attr *a = attr_slot(t, op, id);
	a->kind = ATTR_INT;
	a->i = v;
}

void attr_set_real(Tir *t, Op *op, AttrId id, double v)
{
	Attr *a = attr_slot(t, op, id);
	a->kind = ATTR_REAL;
	a->f = v;
}

void attr_set_text(Tir *t, Op *op, AttrId id, const char *v)
{
	const char *copy = arena_strndup(t->arena, v, strlen(v)); /* v may be the old value */
	Attr *a = attr_slot(t, op, id);
	a->kind = ATTR_TEXT;
	a->text = copy;
}

void attr_set_list(Tir *t, Op *op, AttrId id, int n, const int64_t *v)
{
	int64_t *copy = ARENA_ARRAY(t->arena, int64_t, n ? n : 1);
	if (n)
		memcpy(copy, v, sizeof(int64_t) * (size_t)n);
	Attr *a = attr_slot(t, op, id);
	a->kind = ATTR_LIST;
	a->n = n;
	a->list = copy;
}

void attr_set_layout(Tir *t, Op *op, const Form *f)
{
	Attr *a = attr_slot(t, op, AT_LAYOUT);
	a->kind = ATTR_FORM;
	a->form = f;
}

const Form *attr_layout(const Op *op)
{
	const Attr *a = attr_get(op, AT_LAYOUT);
	return a ? a->form : NULL;
}

const char *layout_name(const Tir *t, const Op *op) { return attr_layout(op) ? form_text(t->arena, attr_layout(op)) : "none"; }

const Attr *attr_get(const Op *op, AttrId id)
{
	for (const Attr *a = op->attrs; a; a = a->next)
		if (a->id == id)
			return a;
	return NULL;
}

int64_t attr_int(const Op *op, AttrId id, int64_t otherwise)
{
	const Attr *a = attr_get(op, id);
	return a && a->kind == ATTR_INT ? a->i : otherwise;
}

const char *attr_text(const Op *op, AttrId id, const char *otherwise)
{
	const Attr *a = attr_get(op, id);
	return a && a->kind == ATTR_TEXT ? a->text : otherwise;
}

/* ---- operands ---- */

int operand_place(const Op *op, OperandId id)
{
	for (int i = 0; i < MOST_NAMED; i++)
		if (op_table[op->code].name[i] == id)
			return i;
	abort(); /* it has none of that name: a bug */
}

Value *operand(const Op *op, OperandId id)
{
	int i = operand_place(op, id);
	return i < op->nargs ? op->args[i] : NULL;
}

void set_operand(Op *op, OperandId id, Value *v) { op->args[operand_place(op, id)] = v; }

Value *access_index(const Op *op, int d) { return op->args[operand_place(op, ARG_OBJECT) + 1 + d]; }

Value *access_mask(const Op *op) { return attr_int(op, AT_MASKED, 0) ? op->args[op->nargs - 1] : NULL; }

Value *tensor_extent(const Op *tensor, int d) { return tensor->args[d]; }

Value *tensor_stride(const Op *tensor, int d) { return tensor->args[tensor->result->type.rank + d]; }

/* ---- tiles ---- */

static void view_ref(TileRef *r, const Op *view)
{
	const Attr *dims = attr_get(view, AT_DIMS);
	int next = 1;
	for (int i = 0; i < r->object_rank && dims && i < dims->n; i++) {
		r->dims[i] = dims->list[i];
		if (r->dims[i] != 0 && next < view->nargs)
			r->start[i] = view->args[next++];
	}
	r->trans = attr_int(view, AT_TRANS, 0) != 0;
	r->warp_scope |= attr_int(view, AT_WARP_SCOPE, 0) != 0;
}

static TypeKind space_of(TypeKind k)
{
	switch (k) {
	case TY_VIEW_TENSOR: return TY_TENSOR;
	case TY_VIEW_SHARED: return TY_SHARED;
	case TY_VIEW_FRAG: return TY_FRAG;
	default: return k;
	}
}

Op *barrier_of(const Value *v)
{
	return v->def->code == OP_PICK ? operand(v->def, ARG_OBJECT)->def : v->def;
}

TileRef tile_ref(const Value *v)
{
	const Op *def = v->def;
	const Value *object = def->code == OP_VIEW ? operand(def, ARG_OBJECT) : v;
	TileRef r = {
		.object = object->def,
		.space = space_of(v->type.kind),
		.dtype = v->type.dtype,
		.rank = v->type.rank,
		.object_rank = object->type.rank,
		.warp_scope = attr_int(object->def, AT_WARP_SCOPE, 0) != 0,
	};
	memcpy(r.shape, v->type.shape, sizeof r.shape);
	if (def->code == OP_VIEW)
		view_ref(&r, def);
	return r;
}

static int proper_extents(const int64_t *extents, int n, int64_t *out)
{
	int m = 0;
	for (int k = 0; k < n; k++)
		if (extents[k] != 1)
			out[m++] = extents[k];
	return m;
}

bool box_fills(const int64_t *of_box, int box_rank, const int64_t *of_tile, int tile_rank)
{
	int64_t box[TIR_MAX_RANK], tile[TIR_MAX_RANK], rows = 1;
	int n = proper_extents(of_box, box_rank, box), m = proper_extents(of_tile, tile_rank, tile), more = n - m;
	if (more < 0 || (more > 0 && m < 2))
		return false;
	for (int k = 0; m && k <= more; k++) {
		if (box[k] < 1 || box[k] > tile[0])
			return false;
		rows = rows > tile[0] ? rows : rows * box[k];
	}
	for (int k = 1; k < m; k++)
		if (box[more + k] != tile[k])
			return false;
	return !m || rows == tile[0];
}

int first_slice(const TileRef *r)
{
	for (int d = 0; d < r->object_rank; d++)
		if (r->dims[d] > 0)
			return d;
	return -1;
}

const char *ptx_text_error(Arena *a, const char *text, int n)
{
	for (const char *p = strchr(text, '$'); p; p = strchr(p, '$')) {
		size_t digits = strspn(p + 1, "0123456789");
		if (p[1] == '$') {
			p += 2;
			continue;
		}
		if (!digits || digits > 4 || atoi(p + 1) >= n)
			return arena_printf(a, "'%.*s' is none of the %d operands $0 to $%d; a dollar sign is $$", (int)(digits ? digits + 1 : 2), p, n, n - 1);
		p += 1 + digits;
	}
	return NULL;
}

/* ---- walking ---- */

void tir_walk(Region *r, OpVisitor visit, void *user)
{
	if (!r)
		return;
	for (Op *op = r->first, *next; op; op = next) {
		next = op->next; /* the visitor may remove op */
		if (!visit(op, user))
			continue;
		tir_walk(op->regions[0], visit, user);
		tir_walk(op->regions[1], visit, user);
	}
}

Op *tir_enclosing(const Op *op, Opcode code)
{
	for (const Region *r = op->parent; r; r = r->owner->parent)
		if (r->owner->code == code)
			return r->owner;
	return NULL;
}

Op *tir_team(const Op *op)
{
	Op *role = tir_enclosing(op, OP_ROLE);
	return role ? role : tir_enclosing(op, OP_KERNEL);
}

int team_warps(const Op *team)
{
	if (team->code == OP_ROLE)
		return (int)attr_int(team, AT_WARPS, 1);
	return (int)(attr_int(team, AT_THREADS, 32) / 32);
}

bool value_const_int(const Value *v, int64_t *out)
{
	if (!v || !v->def || v->def->code != OP_CONST)
		return false;
	const Attr *a = attr_get(v->def, AT_VALUE);
	if (!a || a->kind != ATTR_INT)
		return false;
	*out = a->i;
	return true;
}
