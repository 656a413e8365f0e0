/* ast_parse.c - reads one source into a syntax tree and words its syntax errors. */
#include "dsl/ast.h"

#include <limits.h>
#include <string.h>

#include "dsl/parse.h"
#include "dsl/parser.h"
#include "dsl/support/words.h"

typedef struct Keyword {
	const char *text;
	int token;
} Keyword;

static const Keyword keywords[] = {
	{ "import", TOK_IMPORT }, { "param", TOK_PARAM }, { "const", TOK_CONST }, { "dim", TOK_DIM },
	{ "static_assert", TOK_STATIC_ASSERT }, { "fn", TOK_FN }, { "struct", TOK_STRUCT }, { "kernel", TOK_KERNEL },
	{ "role", TOK_ROLE },
	{ "shared", TOK_SHARED }, { "frag", TOK_FRAG }, { "mbarrier", TOK_MBARRIER }, { "barrier", TOK_BARRIER },
	{ "ring", TOK_RING }, { "if", TOK_IF }, { "else", TOK_ELSE }, { "for", TOK_FOR }, { "while", TOK_WHILE },
	{ "return", TOK_RETURN }, { "break", TOK_BREAK }, { "continue", TOK_CONTINUE },
	{ "once", TOK_ONCE }, { "async", TOK_ASYNC }, { "parallel", TOK_PARALLEL },
	{ "unroll", TOK_UNROLL }, { "true", TOK_TRUE }, { "false", TOK_FALSE },
	/* names elsewhere */
	{ "grid", TOK_GRID }, { "threads", TOK_THREADS }, { "occupancy", TOK_OCCUPANCY }, { "cluster", TOK_CLUSTER },
	{ "in", TOK_IN }, { "out", TOK_OUT }, { "inout", TOK_INOUT }, { "optional", TOK_OPTIONAL },
	{ "strides", TOK_STRIDES }, { "warp", TOK_WARP }, { "warpgroup", TOK_WARPGROUP },
	{ "setmaxnreg", TOK_SETMAXNREG }, { "layout", TOK_LAYOUT }, { "at", TOK_AT }, { "from", TOK_FROM },
	{ "count", TOK_COUNT }, { "batch", TOK_BATCH }, { "limit", TOK_LIMIT }, { "within", TOK_WITHIN }, { "type", TOK_TYPE },
};

enum { KEYWORD_COUNT = sizeof keywords / sizeof keywords[0], TEXT_SIZE = 64, LIST_SIZE = 256 };

Word parse_word(const char *text)
{
	DType t = dtype_from_name(text);

	if (t != DT_NONE)
		return (Word){ TOK_DTYPE, t };
	for (unsigned i = 0; i < KEYWORD_COUNT; i++) {
		if (strcmp(keywords[i].text, text) == 0)
			return (Word){ keywords[i].token, DT_NONE };
	}
	return (Word){ TOK_NAME, DT_NONE };
}

static bool is_reserved(int token)
{
	return (token >= TOK_IMPORT && token <= TOK_FALSE) || token == TOK_DTYPE;
}

static void track_braces(Parse *p, int token, Loc loc)
{
	if (token == '{') {
		if (p->brace_depth < MAX_OPEN_BRACES)
			p->braces[p->brace_depth] = loc;
		p->brace_depth++;
	} else if (token == '}' && p->brace_depth > 0) {
		p->brace_depth--;
	}
}

int parse_next_token(union TILE_YYSTYPE *value, Loc *loc, Parse *p)
{
	p->prev = p->token;
	p->prev_kind = p->token_kind;
	p->token_kind = parse_gives_up(p) ? TOK_END : lexer_scan(p, value, loc);
	p->token = *loc;
	if (p->prev_kind == ';' || p->prev_kind == '{' || p->prev_kind == '}') {
		p->start = p->token;
		p->start_kind = p->token_kind;
	}
	track_braces(p, p->token_kind, *loc);
	return p->token_kind;
}

void parse_error(Parse *p, Loc loc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_error(p->diags, loc, E_SYNTAX, "%s", arena_vprintf(p->arena, fmt, ap));
	va_end(ap);
}

bool parse_gives_up(const Parse *p)
{
	return diags_error_count(p->diags) - p->errors_before >= MAX_SYNTAX_ERRORS;
}

void parse_report_depth(Parse *p)
{
	if (p->too_deep)
		return;
	p->too_deep = true;
	diag_error(p->diags, p->token, E_LIMIT, "this is nested too deeply to be read");
}

static const char *text_of(const Parse *p, Loc loc)
{
	size_t n = loc.end - loc.begin;

	return arena_strndup(p->arena, p->source->text + loc.begin, n < TEXT_SIZE ? n : TEXT_SIZE);
}

static const char *describe(const Parse *p, Loc loc, int token)
{
	if (token == TOK_END)
		return "the end of the file";
	if (token == TOK_STRING)
		return "a string";
	return arena_printf(p->arena, "'%s'", text_of(p, loc));
}

static const char *list_expected(const Parse *p, const Expected *e)
{
	const char *text = "";

	for (unsigned i = 0; i < e->n; i++) {
		const char *join = i == 0 ? "" : i + 1 < e->n || e->more ? ", " : " or ";

		text = arena_printf(p->arena, "%s%s%s", text, join, e->items[i]);
	}
	return e->more ? arena_printf(p->arena, "%s ...", text) : text;
}

static bool on_later_line(const Parse *p, Loc a, Loc b)
{
	return b.begin > a.end && memchr(p->source->text + a.end, '\n', b.begin - a.end) != NULL;
}

/* The keyword or type that `word` was probably meant to be. */
static const char *nearest_word(const char *word)
{
	const char *candidates[KEYWORD_COUNT];

	if (word_meant(word))
		return word_meant(word);
	for (unsigned i = 0; i < KEYWORD_COUNT; i++)
		candidates[i] = keywords[i].text;
	return nearest_name(word, candidates, KEYWORD_COUNT);
}

static bool substituted(Parse *p, Loc loc, int token)
{
	const char *help = token == TOK_NAME ? word_explained(text_of(p, loc)) : NULL;

	if (help)
		diag_help(p->diags, "%s", help);
	return help != NULL;
}

static void suggest(Parse *p, Loc at, const Expected *e)
{
	if (substituted(p, at, p->token_kind) || substituted(p, p->prev, p->prev_kind))
		return;
	if (p->token_kind == '{' && substituted(p, p->start, p->start_kind)) /* `switch (x) {` reads as a call until the brace */
		return;

	bool two_names = p->prev_kind == TOK_NAME && p->token_kind == TOK_NAME;
	const char *near = NULL;

	if (e->name && is_reserved(p->token_kind) && e->n && strcmp(e->items[0], "a name") == 0)
		diag_help(p->diags, "%s is a word of the language and cannot be a name", describe(p, at, p->token_kind));
	else if (two_names && !on_later_line(p, p->prev, at))
		near = nearest_word(text_of(p, p->prev));
	else if (p->token_kind == '{' && p->prev_kind == ')' && p->start_kind == TOK_NAME)
		near = nearest_word(text_of(p, p->start)); /* `paralel (i < 64) {` reads as a call until the brace */
	else if (p->token_kind == TOK_NAME && !e->name)
		near = nearest_word(text_of(p, at));
	if (near)
		diag_help(p->diags, "did you mean '%s'?", near);
}

void parse_report(Parse *p, Loc at, const Expected *e)
{
	Loc where = at;
	const char *found = describe(p, at, p->token_kind);

	if (parse_gives_up(p))
		return; /* the end of the file was made up */
	/* What is missing at the end of a line is missing there, not where the next one begins. */
	if (e->closing && p->prev.end > 0 && (on_later_line(p, p->prev, at) || p->token_kind == TOK_END))
		where = (Loc){ at.source, p->prev.end, p->prev.end };
	if (e->n)
		parse_error(p, where, "expected %s, found %s", list_expected(p, e), found);
	else
		parse_error(p, where, "unexpected %s", found);
	suggest(p, at, e);
	if (p->token_kind == TOK_END && p->brace_depth > 0 && p->brace_depth <= MAX_OPEN_BRACES)
		diag_note(p->diags, p->braces[p->brace_depth - 1], "this '{' is not closed");
}

Ast *ast_parse(Arena *a, Diags *d, uint32_t source)
{
	Ast *ast = ARENA_NEW(a, Ast);
	Parse *p = ARENA_NEW(a, Parse);

	*p = (Parse){ .arena = a, .diags = d, .source = diags_source(d, source), .index = source };
	p->decls_end = &p->decls;
	p->errors_before = diags_error_count(d);
	if (p->source->len > INT_MAX / 4) {
		diag_error(d, (Loc){ source, 0, 0 }, E_LIMIT, "the file is too large");
		return ast;
	}
	lexer_open(p);
	tile_yyparse(p);
	lexer_close(p);
	ast->decls = p->decls;
	return ast;
}
