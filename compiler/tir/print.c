/* print.c - TIR as text; parse.c reads it back. */
#include "compiler/tir/tir.h"

#include <math.h>
#include <stdlib.h>

typedef struct Printer {
	const Tir *t;
	FILE *out;
	int depth;
} Printer;

static void print_text(FILE *out, const char *s)
{
	fputc('"', out);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c == '\n')
			fputs("\\n", out);
		else if (c == '\t')
			fputs("\\t", out);
		else if (c < 32 || c == 127)
			fprintf(out, "\\x%02x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

/* The shortest decimal that reads back as the same number, always with a
 * mark that tells it from an integer. */
static void print_real(FILE *out, double f)
{
	char buf[40];
	if (isnan(f) || isinf(f)) {
		fputs(isnan(f) ? "nan" : f < 0 ? "-inf" : "inf", out);
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(buf, sizeof buf, "%.*g", digits, f);
		if (strtod(buf, NULL) == f)
			break;
	}
	bool marked = false;
	for (const char *p = buf; *p; p++)
		marked |= *p == '.' || *p == 'e';
	fprintf(out, "%s%s", buf, marked ? "" : ".0");
}

static void print_list(FILE *out, const Attr *a)
{
	fputc('[', out);
	for (int i = 0; i < a->n; i++)
		fprintf(out, "%s%lld", i ? ", " : "", (long long)a->list[i]);
	fputc(']', out);
}

static void print_attr(FILE *out, Arena *arena, const Attr *a)
{
	fprintf(out, "%s=", attr_info(a->id)->text);
	switch (a->kind) {
	case ATTR_INT: fprintf(out, "%lld", (long long)a->i); break;
	case ATTR_REAL: print_real(out, a->f); break;
	case ATTR_TEXT: print_text(out, a->text); break;
	case ATTR_LIST: print_list(out, a); break;
	case ATTR_FORM: print_text(out, form_text(arena, a->form)); break;
	}
}

static void print_attrs(FILE *out, Arena *arena, const Attr *a)
{
	if (!a)
		return;
	fputs(" {", out);
	for (; a; a = a->next) {
		print_attr(out, arena, a);
		if (a->next)
			fputs(", ", out);
	}
	fputc('}', out);
}

static void print_loc(Printer *p, Loc loc)
{
	unsigned line, col;
	if (!loc.source)
		return;
	diags_linecol(p->t->diags, loc, &line, &col);
	fprintf(p->out, " @%u:%u", line, col);
}

static void indent(Printer *p)
{
	for (int i = 0; i < p->depth; i++)
		fputs("  ", p->out);
}

static void print_op(Printer *p, const Op *op);

static void print_region(Printer *p, const Region *r)
{
	for (int i = 0; i < r->nargs; i++)
		fprintf(p->out, "%s%%%u : %s", i ? ", " : " (", r->args[i]->id,
			type_text(p->t->arena, r->args[i]->type));
	fputs(r->nargs ? ") {\n" : " {\n", p->out);
	p->depth++;
	for (const Op *op = r->first; op; op = op->next)
		print_op(p, op);
	p->depth--;
	indent(p);
	fputc('}', p->out);
}

static void print_op(Printer *p, const Op *op)
{
	indent(p);
	if (op->result)
		fprintf(p->out, "%%%u = ", op->result->id);
	fputs(op_info(op->code)->text, p->out);
	for (int i = 0; i < op->nargs; i++)
		fprintf(p->out, "%s%%%u", i ? ", " : " ", op->args[i]->id);
	print_attrs(p->out, p->t->arena, op->attrs);
	if (op->result)
		fprintf(p->out, " : %s", type_text(p->t->arena, op->result->type));
	print_loc(p, op->loc);
	for (int i = 0; i < 2; i++)
		if (op->regions[i])
			print_region(p, op->regions[i]);
	fputc('\n', p->out);
}

void tir_print(const Tir *t, FILE *out)
{
	Printer p = { .t = t, .out = out };
	for (const Op *k = t->first; k; k = k->next) {
		print_op(&p, k);
		if (k->next)
			fputc('\n', out);
	}
}
