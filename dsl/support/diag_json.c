/* diag_json.c - diagnostics for editors: a JSON object per line. */
#include "dsl/support/diag_message.h"

/* Bytes of the UTF-8 character at p; 0 when it is none. */
static unsigned utf8_length(const unsigned char *p)
{
	unsigned n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
	for (unsigned i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	bool overlong = (n == 3 && p[0] == 0xe0 && p[1] < 0xa0) || (n == 4 && p[0] == 0xf0 && p[1] < 0x90);
	bool surrogate = n == 3 && p[0] == 0xed && p[1] >= 0xa0, beyond = n == 4 && p[0] == 0xf4 && p[1] >= 0x90;
	return overlong || surrogate || beyond ? 0 : n;
}

static void print_string(const char *text, FILE *out)
{
	const unsigned char *p = (const unsigned char *)text;
	fputc('"', out);
	while (*p) {
		unsigned n = utf8_length(p);
		if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p < 0x20 || *p == 0x7f)
			fprintf(out, "\\u%04x", *p);
		else if (!n)
			fputs("\\ufffd", out);
		else
			fwrite(p, 1, n, out);
		p += n ? n : 1;
	}
	fputc('"', out);
}

static void print_fields(const Diags *d, const Message *m, FILE *out)
{
	const Source *s = diags_source(d, m->loc.source);
	if (s) {
		unsigned line, column, end_line, end_column;
		diags_linecol(d, m->loc, &line, &column);
		diags_linecol(d, (Loc){ m->loc.source, m->loc.end, m->loc.end }, &end_line, &end_column);
		fputs("\"file\":", out);
		print_string(s->name, out);
		fprintf(out, ",\"line\":%u,\"column\":%u,\"endLine\":%u,\"endColumn\":%u,", line, column, end_line, end_column);
	}
	fprintf(out, "\"severity\":\"%s\",", severity_name(m->severity));
	if (m->severity == SEV_ERROR || m->severity == SEV_WARNING)
		fprintf(out, "\"code\":\"%s\",", diag_slug(m->code));
	fputs("\"message\":", out);
	print_string(m->text, out);
}

void diags_print_json(const Diags *d, FILE *out)
{
	for (const Message *m = diags_messages(d); m; m = m->next) {
		fputc('{', out);
		print_fields(d, m, out);
		fputs(",\"notes\":[", out);
		for (const Message *n = m->notes; n; n = n->next) {
			fputs(n == m->notes ? "{" : ",{", out);
			print_fields(d, n, out);
			fputc('}', out);
		}
		fputs("]}\n", out);
	}
}
