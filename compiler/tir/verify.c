/* verify.c - what every TIR module satisfies at every stage: the rows of ops.def and attrs.def, regions, visibility. */
#include "compiler/tir/verify.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool verify_bad(Verifier *v, const Op *op, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	const char *text = arena_vprintf(v->t->arena, fmt, ap);
	va_end(ap);
	diag_error(v->t->diags, op->loc, E_TIR, "%s: %s", op_info(op->code)->text, text);
	v->sound = false;
	return false;
}

/* ---- the rows ---- */

static bool is_view(const Value *v) { return v->type.kind >= TY_VIEW_TENSOR; }

static bool result_kind_ok(const Op *op)
{
	const Value *r = op->result;
	switch (op_info(op->code)->result) {
	case RES_NONE: return !r;
	case RES_SCALAR: return r && r->type.kind == TY_SCALAR;
	case RES_OBJECT: return r && r->type.kind >= TY_VAR && r->type.kind <= TY_FRAG;
	case RES_VIEW: return r && is_view(r);
	case RES_MAYBE: return !r || r->type.kind == TY_SCALAR;
	}
	return false;
}

/* The row of ops.def; the checks after it rely on these. */
static bool check_row(Verifier *v, const Op *op)
{
	const OpInfo *info = op_info(op->code);
	int least, most;
	op_arity(op->code, &least, &most);
	if (op->nargs < least || op->nargs > most)
		return verify_bad(v, op, "%d operands", op->nargs);
	if (!result_kind_ok(op))
		return verify_bad(v, op, "the result is %s", op->result ? type_text(v->t->arena, op->result->type) : "missing");
	for (int i = info->regions; i < 2; i++)
		if (op->regions[i])
			return verify_bad(v, op, "has a region too many");
	if (!op->parent && op->code != OP_KERNEL)
		return verify_bad(v, op, "is in no region");
	if (op->parent && op->code == OP_KERNEL)
		return verify_bad(v, op, "inside a kernel");
	return true;
}

/* What comes into a module by its name, which is a symbol of the code or in expressions there. */
static bool is_named_outside(const Op *op)
{
	return op->code == OP_KERNEL || op->code == OP_TENSOR || op->code == OP_DIM || op->code == OP_PARAM;
}

static bool is_name(const char *s)
{
	static const char digits[] = "0123456789", others[] = "0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	return *s && !strchr(digits, *s) && !s[strspn(s, others)];
}

static bool check_attr(Verifier *v, const Op *op, const Attr *a)
{
	static const char *const kinds[] = { "an integer", "a real", "a text", "a list", "a layout" };
	const AttrInfo *info = attr_info(a->id);
	if (v->attrs[op->code][a->id] == USE_NEVER)
		return verify_bad(v, op, "has no attribute {%s}", info->text);
	if (a->kind != info->kind)
		return verify_bad(v, op, "{%s} is %s, not %s", info->text, kinds[a->kind], kinds[info->kind]);
	if (a->id == AT_NAME && is_named_outside(op) && !is_name(a->text))
		return verify_bad(v, op, "{name} is \"%s\", not letters, digits and _", a->text);
	int n = a->kind == ATTR_LIST ? a->n : a->kind == ATTR_INT;
	for (int k = 0; k < n; k++) {
		int64_t i = a->kind == ATTR_LIST ? a->list[k] : a->i;
		if (i < info->lo || i > info->hi)
			return verify_bad(v, op, "{%s} is %lld, not in %lld to %lld", info->text, (long long)i, (long long)info->lo, (long long)info->hi);
	}
	return true;
}

/* The attributes that ops.def gives it, of the kinds and ranges of attrs.def. */
static bool check_attrs(Verifier *v, const Op *op)
{
	int required = v->required[op->code];
	for (const Attr *a = op->attrs; a; a = a->next) {
		required -= v->attrs[op->code][a->id] == USE_REQUIRED;
		if (!check_attr(v, op, a))
			return false;
	}
	for (int id = 0; required && id < ATTR_IDS; id++)
		if (v->attrs[op->code][id] == USE_REQUIRED && !attr_get(op, (AttrId)id))
			return verify_bad(v, op, "{%s} is missing", attr_info((AttrId)id)->text);
	return true;
}

/* The operands that ops.def gives it. */
static bool check_operands(Verifier *v, const Op *op)
{
	const char *text = op_info(op->code)->operands;
	Operand o;
	for (int i = 0; next_operand(&text, &o);)
		for (int k = 0; k < o.most && i < op->nargs; k++, i++)
			if (!verify_operand(v, op, i, o.kind))
				return false;
	return true;
}

static bool check_visible(Verifier *v, const Op *op)
{
	for (int i = 0; i < op->nargs; i++) {
		const Value *a = op->args[i];
		if (!a || a->id >= v->ids || v->visible[a->id] != a)
			return verify_bad(v, op, "operand %d (%%%u) is not visible here", i, a ? a->id : 0);
	}
	return true;
}

static void show(Verifier *v, const Op *op, Value *value)
{
	if (value->id >= v->ids || v->visible[value->id])
		verify_bad(v, op, "%%%u is not a fresh id", value->id);
	else
		v->visible[value->id] = value;
}

static void hide(Verifier *v, const Value *value)
{
	if (value->id < v->ids && v->visible[value->id] == value)
		v->visible[value->id] = NULL;
}

static void verify_region(Verifier *v, Region *r);

/* Stops at the first ill-formed op: what uses its result could not be checked. */
static void verify_op(Verifier *v, Op *op)
{
	if (check_row(v, op) && check_attrs(v, op) && check_visible(v, op) && check_operands(v, op)) {
		if (op->parent && op->parent->owner->code == OP_PARALLEL && !verify_in_loop(op))
			verify_bad(v, op, "inside an element loop");
		verify_rules(v, op);
	}
	if (op->result && op->result->def != op)
		verify_bad(v, op, "the result belongs to another op");
	for (int i = 0; i < 2 && v->sound; i++)
		if (op->regions[i])
			verify_region(v, op->regions[i]);
}

static void verify_region(Verifier *v, Region *r)
{
	for (int i = 0; i < r->nargs; i++)
		show(v, r->owner, r->args[i]);
	for (Op *op = r->first; op && v->sound; op = op->next) {
		if (op->parent != r || (op->next && op->next->prev != op))
			verify_bad(v, op, "is linked into another region");
		verify_op(v, op);
		if (op->result)
			show(v, op, op->result);
	}
	for (const Op *op = r->first; op; op = op->next)
		if (op->result)
			hide(v, op->result);
	for (int i = 0; i < r->nargs; i++)
		hide(v, r->args[i]);
}

bool tir_verify(const Tir *t)
{
	Verifier v = { .t = t, .ids = t->next_id, .sound = true };
	for (int op = 0; op < OP_COUNT; op++)
		for (int id = 0; id < ATTR_IDS; id++)
			v.required[op] += (v.attrs[op][id] = (uint8_t)op_attr_use((Opcode)op, (AttrId)id)) == USE_REQUIRED;
	v.visible = calloc((size_t)t->next_id + 1, sizeof *v.visible);
	if (!v.visible)
		abort();
	for (Op *k = t->first; k && v.sound; k = k->next)
		verify_op(&v, k);
	free(v.visible);
	return v.sound;
}
