/* option_text.c - one table, three prints: help, roff, and what each shell reads. */
#include "runtime/tools/option.h"

#include <string.h>

/* A name that ends in = has its value in the same word. */
static bool is_joined(const char *name)
{
	size_t n = strlen(name);
	return n && name[n - 1] == '=';
}

static void print_left(const Option *o, char *left, size_t size)
{
	snprintf(left, size, "%s%s%s", o->name, o->value && !is_joined(o->name) ? " " : "", o->value ? o->value : "");
}

void usage_help(const Usage *u, FILE *out)
{
	fprintf(out, "usage: %s %s\n\n%s\n", u->program, u->synopsis, u->text);
	for (size_t i = 0; i < u->n; i++) {
		char left[64];
		print_left(&u->options[i], left, sizeof left);
		fprintf(out, "  %-24s", left);
		for (const char *p = u->options[i].help; *p; p++) {
			fputc(*p, out);
			if (*p == '\n')
				fprintf(out, "  %-24s", "");
		}
		fputc('\n', out);
	}
	fprintf(out, "\nexit status: %s\n", u->exits);
}

/* ---- manual pages ---- */

/* Text of a page: - and \ are escaped, and a line does not begin with a control character. */
static void print_roff(const char *text, FILE *out)
{
	bool begins = true;
	for (; *text; text++) {
		if (begins && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		if (*text == '\\' || *text == '-')
			fputc('\\', out);
		fputc(*text == '\\' ? 'e' : *text, out);
		begins = *text == '\n';
	}
}

void usage_man(const Usage *u, const char *version, FILE *out)
{
	fprintf(out, ".TH %s 1 \"\" \"%s\"\n.SH NAME\n%s \\- ", u->program, version, u->program);
	print_roff(u->summary, out);
	fprintf(out, "\n.SH SYNOPSIS\n.B %s\n", u->program);
	print_roff(u->synopsis, out);
	fputs("\n.SH DESCRIPTION\n.nf\n", out);
	print_roff(u->text, out);
	fputs(".fi\n.SH OPTIONS\n", out);
	for (size_t i = 0; i < u->n; i++) {
		char left[64];
		print_left(&u->options[i], left, sizeof left);
		fputs(".TP\n.B ", out);
		print_roff(left, out);
		fputc('\n', out);
		print_roff(u->options[i].help, out);
		fputc('\n', out);
	}
	fputs(".SH EXIT STATUS\n", out);
	print_roff(u->exits, out);
	fputc('\n', out);
}

/* ---- completion ---- */

typedef enum ValueKind { VALUE_NONE, VALUE_WORDS, VALUE_FILE, VALUE_FOLDER, VALUE_OTHER } ValueKind;

static bool is_optional(const Option *o) { return o->value && o->value[0] == '['; }

static ValueKind kind_of(const Option *o)
{
	if (!o->value || is_optional(o))
		return VALUE_NONE;
	size_t n = strcspn(o->help, " :\n");
	if (o->help[n] == ':' || !strncmp(o->help + n, " | ", 3))
		return VALUE_WORDS;
	if (strstr(o->value, "FILE") || strstr(o->value, "PATH"))
		return VALUE_FILE;
	return strstr(o->value, "DIR") ? VALUE_FOLDER : VALUE_OTHER;
}

/* Those that a help text begins with. */
static void print_words(const char *help, FILE *out)
{
	for (const char *p = help, *next; p; p = next ? next + 3 : NULL) {
		fprintf(out, "%s%.*s", p == help ? "" : " ", (int)strcspn(p, " :\n"), p);
		next = strstr(p, " | ");
	}
}

static int name_length(const Option *o) { return (int)(strlen(o->name) - is_joined(o->name)); }

/* A value is a word of its own behind the option, or behind the option and a =, at which bash divides words. */
static void bash_value(const Option *o, FILE *out)
{
	ValueKind kind = kind_of(o);
	if (kind == VALUE_NONE || kind == VALUE_FILE)
		return;
	fprintf(out, "\t%.*s) ", name_length(o), o->name);
	if (kind == VALUE_WORDS) {
		fputs("COMPREPLY=($(compgen -W '", out);
		print_words(o->help, out);
		fputs("' -- \"$word\"))", out);
	} else if (kind == VALUE_FOLDER) {
		fputs("compopt -o filenames; COMPREPLY=($(compgen -d -- \"$word\"))", out);
	} else {
		fputs("COMPREPLY=()", out);
	}
	fputs("; return;;\n", out);
}

static void bash(const Usage *u, FILE *out)
{
	fprintf(out, "_%s() {\n\tlocal word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}\n"
		"\tif [[ $word == = ]]; then word=\n\telif [[ $option == = ]]; then option=${COMP_WORDS[COMP_CWORD - 2]}\n\tfi\n\tcase $option in\n", u->program);
	for (size_t i = 0; i < u->n; i++)
		bash_value(&u->options[i], out);
	fputs("\tesac\n\tif [[ $word == -* ]]; then\n\t\tCOMPREPLY=($(compgen -W '", out);
	for (size_t i = 0; i < u->n; i++)
		fprintf(out, "%s%s", i ? " " : "", u->options[i].name);
	fputs("' -- \"$word\"))\n\t\t[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n\telse\n\t\tcompopt -o filenames\n\t\tCOMPREPLY=($(compgen -f -- \"$word\"))\n\tfi\n}\n", out);
	fprintf(out, "complete -F _%s %s\n", u->program, u->program);
}

/* The first line of a help text inside single quotes; quotes and, for zsh, brackets and colons are left out. */
static void print_first_line(const char *text, FILE *out)
{
	for (; *text && *text != '\n'; text++) {
		if (!strchr("'[]:\\", *text))
			fputc(*text, out);
	}
}

static void zsh_value(const Option *o, FILE *out)
{
	if (!o->value)
		return;
	fputs(is_optional(o) ? "::" : ":", out);
	print_first_line(o->value, out);
	switch (kind_of(o)) {
	case VALUE_WORDS:
		fputs(":(", out);
		print_words(o->help, out);
		fputc(')', out);
		break;
	case VALUE_FILE: fputs(":_files", out); break;
	case VALUE_FOLDER: fputs(":_files -/", out); break;
	case VALUE_NONE: case VALUE_OTHER: fputs(": ", out); break;
	}
}

static void zsh(const Usage *u, FILE *out)
{
	fprintf(out, "#compdef %s\n_arguments \\\n", u->program);
	for (size_t i = 0; i < u->n; i++) {
		const Option *o = &u->options[i];
		fprintf(out, "\t'*%s%s[", o->name, is_joined(o->name) ? "-" : "");
		print_first_line(o->help, out);
		fputc(']', out);
		zsh_value(o, out);
		fputs("' \\\n", out);
	}
	fputs("\t'*:file:_files -g \"", out);
	for (const char *p = u->files, *end; *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, " ");
		fprintf(out, "%s*.%.*s", p == u->files ? "" : " ", (int)(end - p), p);
	}
	fputs("\"'\n", out);
}

static void fish(const Usage *u, FILE *out)
{
	static const char *const takes[] = { [VALUE_NONE] = "", [VALUE_WORDS] = "-x -a '", [VALUE_FILE] = "-r -F", [VALUE_FOLDER] = "-x -a '(__fish_complete_directories)'",
		[VALUE_OTHER] = "-x" };
	for (size_t i = 0; i < u->n; i++) {
		const Option *o = &u->options[i];
		const char *name = o->name + strspn(o->name, "-");
		bool is_long = o->name[1] == '-', is_letter = !is_long && !name[1];
		fprintf(out, "complete -c %s %s %.*s %s", u->program, is_long ? "-l" : is_letter ? "-s" : "-o", name_length(o) - (int)(name - o->name), name, takes[kind_of(o)]);
		if (kind_of(o) == VALUE_WORDS) {
			print_words(o->help, out);
			fputc('\'', out);
		}
		fputs(" -d '", out);
		print_first_line(o->help, out);
		fputs("'\n", out);
	}
}

bool usage_completion(const Usage *u, const char *shell, FILE *out)
{
	static const struct { const char *name; void (*print)(const Usage *, FILE *); } shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
	for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
		if (!strcmp(shell, shells[i].name)) {
			shells[i].print(u, out);
			return true;
		}
	}
	return false;
}
