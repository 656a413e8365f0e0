/* option.c - reads a command line by a table of options. */
#include "runtime/tools/option.h"

#include <string.h>

static bool is_joined(const Option *o, size_t n) { return o->name[n - 1] == '='; }
static bool is_optional(const Option *o) { return o->value && o->value[0] == '['; }

/* "--name", "--name=value", "-Dvalue": whether the word is this option; *value is what stands in it, or NULL. */
static bool is_option(const Option *o, const char *word, const char **value)
{
	size_t n = strlen(o->name);

	*value = NULL;
	if (strncmp(word, o->name, n))
		return false;
	bool exact = !word[n], attached = is_joined(o, n) || (n == 2 && o->value && !exact), equals = word[n] == '=';
	if (attached || equals)
		*value = word + n + !attached;
	return exact || attached || equals;
}

static const Option *find(const Usage *u, const char *word, const char **value)
{
	for (size_t i = 0; i < u->n; i++) {
		if (is_option(&u->options[i], word, value))
			return &u->options[i];
	}
	return NULL;
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

/* The next word, where the option takes it. */
static const char *following(CommandLine *l, const Option *o)
{
	if (!o->value || l->at >= l->argc || (is_optional(o) && !is_number(l->argv[l->at])))
		return NULL;
	return l->argv[l->at++];
}

bool command_line_next(CommandLine *l, Word *w)
{
	if (l->at < l->argc && !l->only_files && !strcmp(l->argv[l->at], "--")) {
		l->only_files = true;
		l->at++;
	}
	if (l->at >= l->argc)
		return false;
	*w = (Word){ .kind = WORD_FILE, .text = l->argv[l->at++] };
	if (l->only_files || w->text[0] != '-' || !w->text[1])
		return true;
	w->option = find(l->usage, strcmp(w->text, "-h") ? w->text : "--help", &w->value);
	if (w->option && !w->value)
		w->value = following(l, w->option);
	w->kind = !w->option ? WORD_UNKNOWN : w->value && !w->option->value ? WORD_WITH_VALUE
		: !w->value && w->option->value && !is_optional(w->option) ? WORD_WITHOUT_VALUE : WORD_OPTION;
	return true;
}
