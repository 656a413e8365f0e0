/* form.c - values of {layout} and their text. */
#include "compiler/tir/form.h"

#include <stdio.h>
#include <string.h>

const Form form_mma = { .kind = FORM_MMA, .n = 8 }, form_mma8 = { .kind = FORM_MMA, .n = 16 }, form_linear = { .kind = FORM_LINEAR };

static const Form *form_new(Arena *a, Form f)
{
	Form *copy = ARENA_NEW(a, Form);
	*copy = f;
	return copy;
}

const Form *form_blocked(Arena *a, int m, int n) { return form_new(a, (Form){ .kind = FORM_BLOCKED, .m = m, .n = n, .rank = 2 }); }

const Form *form_blocked_line(Arena *a, int n) { return form_new(a, (Form){ .kind = FORM_BLOCKED, .m = 1, .n = n, .rank = 1 }); }

const Form *form_part(Arena *a, FormKind rows_or_cols, const Form *of, int m, int n)
{
	return form_new(a, (Form){ .kind = rows_or_cols, .m = m, .n = n, .of = of });
}

const Form *form_spread(Arena *a, const Form *rows_or_cols) { return form_new(a, (Form){ .kind = FORM_SPREAD, .of = rows_or_cols }); }

const Form *form_swizzle(int bytes)
{
	static const Form swizzles[] = { { .kind = FORM_SWIZZLE, .n = 128 }, { .kind = FORM_SWIZZLE, .n = 64 }, { .kind = FORM_SWIZZLE, .n = 32 } };
	for (size_t i = 0; i < sizeof swizzles / sizeof swizzles[0]; i++)
		if (swizzles[i].n == bytes)
			return &swizzles[i];
	return &form_linear;
}

const char *form_text(Arena *a, const Form *f)
{
	switch (f->kind) {
	case FORM_MMA: return f->n == 8 ? "mma" : "mma8";
	case FORM_BLOCKED: return f->rank == 2 ? arena_printf(a, "blocked(%d,%d)", f->m, f->n) : arena_printf(a, "blocked(%d)", f->n);
	case FORM_ROWS: return arena_printf(a, "rows(%s %dx%d)", form_text(a, f->of), f->m, f->n);
	case FORM_COLS: return arena_printf(a, "cols(%s %dx%d)", form_text(a, f->of), f->m, f->n);
	case FORM_SPREAD: return arena_printf(a, "spread(%s)", form_text(a, f->of));
	case FORM_LINEAR: return "linear";
	case FORM_SWIZZLE: return arena_printf(a, "swizzle%d", f->n);
	}
	return "";
}

/* rows(FORM mxn) */
static const Form *part_from_text(Arena *a, const char *text)
{
	int m, n;
	const char *space = strrchr(text, ' ');
	if (!space || sscanf(space, " %dx%d", &m, &n) != 2)
		return NULL;
	const Form *of = form_from_text(a, arena_strndup(a, text + 5, (size_t)(space - text - 5)));
	bool whole = of && (of->kind == FORM_MMA || (of->kind == FORM_BLOCKED && of->rank == 2));
	return whole ? form_part(a, *text == 'r' ? FORM_ROWS : FORM_COLS, of, m, n) : NULL;
}

/* spread(PART) */
static const Form *spread_from_text(Arena *a, const char *text)
{
	size_t before = strlen("spread("), n = strlen(text);
	const Form *of = form_from_text(a, arena_strndup(a, text + before, n - before - (n > before)));
	return of && (of->kind == FORM_ROWS || of->kind == FORM_COLS) ? form_spread(a, of) : NULL;
}

const Form *form_from_text(Arena *a, const char *text)
{
	static const Form *const words[] = { &form_mma, &form_mma8, &form_linear };
	const Form *f = NULL;
	int m, n;
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(text, form_text(a, words[i])) == 0)
			return words[i];
	if (sscanf(text, "blocked(%d,%d)", &m, &n) == 2)
		f = form_blocked(a, m, n);
	else if (sscanf(text, "blocked(%d)", &n) == 1)
		f = form_blocked_line(a, n);
	else if (sscanf(text, "swizzle%d", &n) == 1)
		f = form_swizzle(n);
	else if (strncmp(text, "rows(", 5) == 0 || strncmp(text, "cols(", 5) == 0)
		f = part_from_text(a, text);
	else if (strncmp(text, "spread(", 7) == 0)
		f = spread_from_text(a, text);
	return f && strcmp(text, form_text(a, f)) == 0 ? f : NULL; /* nothing before, between or behind */
}

bool form_equal(const Form *a, const Form *b)
{
	if (a == b || !a || !b)
		return a == b;
	return a->kind == b->kind && a->m == b->m && a->n == b->n && a->rank == b->rank && form_equal(a->of, b->of);
}
