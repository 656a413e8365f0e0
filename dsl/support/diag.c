/* diag.c - collects diagnostics and prints them with the source line they are about. */
#include "dsl/support/diag_message.h"

#include <string.h>

enum { TAB_WIDTH = 4, BUCKETS = 256, NAME_MAX_LEN = 64, MAX_EXCERPT = 160, MAX_TEXT = 4096 };

typedef struct SourceText {
	Source source;
	uint32_t *lines; /* where each begins */
	uint32_t nlines;
} SourceText;

struct Diags {
	Arena *arena;
	SourceText **sources;
	unsigned source_count, source_room;
	Message *messages, **messages_end;
	Message *last; /* what a note belongs to; NULL after a repeated message */
	Message *buckets[BUCKETS];
	unsigned errors, warnings;
};

Diags *diags_new(Arena *a)
{
	Diags *d = ARENA_NEW(a, Diags);

	d->arena = a;
	d->messages_end = &d->messages;
	return d;
}

static void find_lines(Arena *a, SourceText *s)
{
	const char *text = s->source.text;
	size_t n = 1;

	for (size_t i = 0; i < s->source.len; i++)
		n += text[i] == '\n';
	s->lines = ARENA_ARRAY(a, uint32_t, n);
	s->nlines = 1;
	for (size_t i = 0; i < s->source.len; i++) {
		if (text[i] == '\n')
			s->lines[s->nlines++] = (uint32_t)i + 1;
	}
}

uint32_t diags_add_source(Diags *d, const char *name, const char *text, size_t len)
{
	SourceText *s = ARENA_NEW(d->arena, SourceText);

	s->source = (Source){ .name = name, .text = text, .len = len };
	find_lines(d->arena, s);
	if (d->source_count == d->source_room) {
		unsigned room = d->source_room ? 2 * d->source_room : 8;
		SourceText **more = ARENA_ARRAY(d->arena, SourceText *, room);

		if (d->source_count)
			memcpy(more, d->sources, d->source_count * sizeof *more);
		d->sources = more;
		d->source_room = room;
	}
	d->sources[d->source_count] = s;
	return ++d->source_count;
}

const Source *diags_source(const Diags *d, uint32_t index)
{
	return index && index <= d->source_count ? &d->sources[index - 1]->source : NULL;
}

unsigned diags_source_count(const Diags *d)
{
	return d->source_count;
}

static size_t clamp_offset(const Source *s, size_t at)
{
	return at < s->len ? at : s->len;
}

void diags_linecol(const Diags *d, Loc loc, unsigned *line, unsigned *col)
{
	const Source *source = diags_source(d, loc.source);
	const SourceText *s = source ? d->sources[loc.source - 1] : NULL;
	uint32_t at = s ? (uint32_t)clamp_offset(source, loc.begin) : 0, low = 0, high = s ? s->nlines : 1;

	while (high - low > 1) { /* the line begins at or before it */
		uint32_t middle = low + (high - low) / 2;

		if (s->lines[middle] <= at)
			low = middle;
		else
			high = middle;
	}
	*line = low + 1;
	*col = s ? at - s->lines[low] + 1 : 1;
}

static bool same_message(const Message *a, const Message *b)
{
	return a->loc.source == b->loc.source && a->loc.begin == b->loc.begin && a->loc.end == b->loc.end &&
	       a->severity == b->severity && a->code == b->code && strcmp(a->text, b->text) == 0;
}

/* Names and strings of the source are quoted; a very long one is not worth reading. */
static const char *shortened(Arena *a, const char *text)
{
	size_t n = strlen(text), head = MAX_TEXT / 2, tail = n - MAX_TEXT / 4;

	if (n <= MAX_TEXT)
		return text;
	while ((text[head] & 0xc0) == 0x80) /* not inside a UTF-8 character */
		head--;
	while ((text[tail] & 0xc0) == 0x80)
		tail++;
	return arena_printf(a, "%.*s...%s", (int)head, text, text + tail);
}

static Message *message_new(Diags *d, Severity severity, Loc loc, const char *fmt, va_list ap)
{
	Message *m = ARENA_NEW(d->arena, Message);

	m->severity = severity;
	m->loc = loc;
	m->text = shortened(d->arena, arena_vprintf(d->arena, fmt, ap));
	m->notes_end = &m->notes;
	return m;
}

/* Repeats are dropped here and not when printing, so that the counts agree with what is seen. */
static void add_message(Diags *d, Message *m)
{
	Message **bucket = &d->buckets[(m->loc.begin + m->loc.source) % BUCKETS];

	d->last = NULL;
	for (const Message *o = *bucket; o; o = o->chain) {
		if (same_message(m, o))
			return;
	}
	m->chain = *bucket;
	*bucket = m;
	*d->messages_end = m;
	d->messages_end = &m->next;
	d->last = m;
	if (m->severity == SEV_ERROR)
		d->errors++;
	else
		d->warnings++;
}

static void add_note(Diags *d, Message *m)
{
	if (!d->last)
		return;
	*d->last->notes_end = m;
	d->last->notes_end = &m->next;
}

void diag_error(Diags *d, Loc loc, DiagCode code, const char *fmt, ...)
{
	va_list ap;
	Message *m;

	va_start(ap, fmt);
	m = message_new(d, SEV_ERROR, loc, fmt, ap);
	va_end(ap);
	m->code = code;
	add_message(d, m);
}

void diag_warning(Diags *d, Loc loc, DiagCode code, const char *fmt, ...)
{
	va_list ap;
	Message *m;

	va_start(ap, fmt);
	m = message_new(d, SEV_WARNING, loc, fmt, ap);
	va_end(ap);
	m->code = code;
	add_message(d, m);
}

void diag_note(Diags *d, Loc loc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_note(d, message_new(d, SEV_NOTE, loc, fmt, ap));
	va_end(ap);
}

void diag_help(Diags *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_note(d, message_new(d, SEV_HELP, (Loc){ 0 }, fmt, ap));
	va_end(ap);
}

const Message *diags_messages(const Diags *d)
{
	return d->messages;
}

unsigned diags_error_count(const Diags *d)
{
	return d->errors;
}

const char *diag_slug(DiagCode code)
{
	static const char *const slugs[] = {
#define DIAG(id, slug) slug,
#include "dsl/support/diag_codes.def"
#undef DIAG
	};

	return (unsigned)code < DIAG_COUNT ? slugs[code] : "unknown";
}

const char *severity_name(Severity s)
{
	static const char *const names[] = { "error", "warning", "note", "help" };

	return names[s];
}

static const char *severity_color(Severity s)
{
	static const char *const colors[] = { "\033[1;31m", "\033[1;35m", "\033[1;36m", "\033[1;32m" };

	return colors[s];
}

static const char *paint(DiagStyle style, const char *escape)
{
	return style.color ? escape : "";
}

/* Columns that byte `c` takes when the cursor is at `col`: tabs go to the next
 * stop, the later bytes of a UTF-8 character to the place of its first. */
static unsigned width_at(unsigned char c, unsigned col)
{
	if (c == '\t')
		return TAB_WIDTH - col % TAB_WIDTH;
	return (c & 0xc0) == 0x80 ? 0 : 1;
}

static void print_line(FILE *out, const char *text, size_t begin, size_t end)
{
	unsigned col = 0;

	for (size_t i = begin; i < end; i++) {
		unsigned char c = (unsigned char)text[i];
		unsigned w = width_at(c, col);

		col += w;
		if (c == '\t')
			fprintf(out, "%*s", (int)w, "");
		else
			fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
	}
	fputc('\n', out);
}

/* The underline starts at byte `from` and ends before `to`, both in the line that begins at `begin`. */
static void print_underline(FILE *out, const char *text, size_t begin, size_t from, size_t to)
{
	unsigned col = 0, width = 0;

	for (size_t i = begin; i < from; i++)
		col += width_at((unsigned char)text[i], col);
	fprintf(out, "%*s^", (int)col, "");
	for (size_t i = from; i < to; i++)
		width += width_at((unsigned char)text[i], col + width);
	for (unsigned i = 1; i < width; i++)
		fputc('~', out);
}

static void print_excerpt(const Source *s, unsigned line, Loc loc, DiagStyle style, FILE *out)
{
	size_t at = clamp_offset(s, loc.begin), last = clamp_offset(s, loc.end);
	size_t begin = at, end = at;

	while (begin > 0 && at - begin < MAX_EXCERPT && s->text[begin - 1] != '\n') /* of a very long line, what surrounds the place */
		begin--;
	while (end < s->len && end - at < MAX_EXCERPT && s->text[end] != '\n')
		end++;
	if (end > begin && s->text[end - 1] == '\r')
		end--;
	if (last > end)
		last = end;
	while (last > at && (s->text[last - 1] == ' ' || s->text[last - 1] == '\t'))
		last--;
	fprintf(out, "%5u | ", line);
	print_line(out, s->text, begin, end);
	fprintf(out, "      | %s", paint(style, "\033[1;32m"));
	print_underline(out, s->text, begin, at, last);
	fprintf(out, "%s\n", paint(style, "\033[0m"));
}

static void print_message(const Diags *d, const Message *m, DiagStyle style, FILE *out)
{
	const Source *s = diags_source(d, m->loc.source);
	bool coded = m->severity == SEV_ERROR || m->severity == SEV_WARNING;
	unsigned line = 0, col = 0;

	fputs(paint(style, "\033[1m"), out);
	if (s) {
		diags_linecol(d, m->loc, &line, &col);
		fprintf(out, "%s:%u:%u: ", s->name, line, col);
	} else if (coded) {
		fputs("tilec: ", out);
	}
	fprintf(out, "%s%s:%s %s", paint(style, severity_color(m->severity)), severity_name(m->severity),
	        paint(style, "\033[0m"), m->text);
	if (coded)
		fprintf(out, " [%s]", diag_slug(m->code));
	fputc('\n', out);
	if (s && !style.one_line)
		print_excerpt(s, line, m->loc, style, out);
}

void diags_print(const Diags *d, FILE *out, DiagStyle style)
{
	unsigned errors = 0;

	for (const Message *m = d->messages; m; m = m->next) {
		if (m->severity == SEV_ERROR && style.limit && errors++ == style.limit) {
			fprintf(out, "tilec: too many errors (%u more)\n", d->errors - style.limit);
			return;
		}
		print_message(d, m, style, out);
		for (const Message *n = m->notes; n && !style.one_line; n = n->next)
			print_message(d, n, style, out);
	}
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits (insert, delete, replace, swap of neighbours) from a to b; both at most NAME_MAX_LEN long. */
static unsigned edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned rows[3][NAME_MAX_LEN + 1];
	unsigned *before = rows[0], *prev = rows[1], *cur = rows[2];

	for (size_t j = 0; j <= nb; j++)
		prev[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *free_row = before;

		cur[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			cur[j] = min3(prev[j] + 1, cur[j - 1] + 1, prev[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < cur[j])
				cur[j] = before[j - 2] + 1;
		}
		before = prev;
		prev = cur;
		cur = free_row;
	}
	return prev[nb];
}

const char *nearest_name(const char *name, const char *const *candidates, unsigned n)
{
	size_t len = strlen(name);
	unsigned best = len <= 2 ? 1 : len <= 5 ? 2 : 3;
	const char *found = NULL;

	if (len == 0 || len > NAME_MAX_LEN)
		return NULL;
	for (unsigned i = 0; i < n; i++) {
		size_t clen = strlen(candidates[i]);
		unsigned dist;

		if (clen == 0 || clen > NAME_MAX_LEN)
			continue;
		dist = edit_distance(name, len, candidates[i], clen);
		/* A name of which nothing remains is no suggestion. */
		if (dist < len && dist < clen && (found ? dist < best : dist <= best)) {
			best = dist;
			found = candidates[i];
		}
	}
	return found;
}
