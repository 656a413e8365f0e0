/* args.c - tensors from --arg: .npy files and generators. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tools/element.h"
#include "runtime/tools/npy.h"
#include "runtime/tools/tensor.h"
#include "runtime/tools/tool.h"

/* ---- parsing ---- */

typedef struct Text {
	const char *tensor, *all, *p;
	const NameValues *dims;
} Text;

static void bad(const Text *t, const char *what)
{
	tool_die(EXIT_USAGE, "--arg %s=%s: %s", t->tensor, t->all, what);
}

static const struct {
	const char *name;
	int kind;
} generators[] = {
	{ "rand", SRC_UNIFORM }, { "randn", SRC_NORMAL }, { "zeros", SRC_ZEROS },
	{ "ones", SRC_ONES }, { "uniform", SRC_UNIFORM },
};

/* True when the text is a generator: a name of the table alone or before a parenthesis. */
static bool find_generator(const char *text, size_t *length, int *kind)
{
	*length = strcspn(text, "(");
	for (size_t i = 0; i < sizeof generators / sizeof *generators; i++) {
		if (strlen(generators[i].name) == *length && !memcmp(text, generators[i].name, *length)) {
			*kind = generators[i].kind;
			return true;
		}
	}
	return false;
}

static void skip_spaces(Text *t)
{
	while (*t->p == ' ')
		t->p++;
}

/* True when another item follows; then t->p is at it.  False at the end of the text. */
static bool next_item(Text *t, bool *is_first)
{
	skip_spaces(t);
	if (*is_first && *t->p != ')') {
		*is_first = false;
		return true;
	}
	if (*t->p == ',') {
		t->p++;
		skip_spaces(t);
		*is_first = false;
		return true;
	}
	if (*t->p != ')' || t->p[1])
		bad(t, "expected , or ) and nothing after");
	return false;
}

static double read_real(Text *t)
{
	char *end;
	double v = strtod(t->p, &end);

	if (end == t->p || !isfinite(v))
		bad(t, "expected a number");
	t->p = end;
	return v;
}

static int64_t parse_extent(const Text *t, const char *text)
{
	int64_t v;

	if (!tool_integer(text, false, &v) || v < 0)
		bad(t, "an extent is a number or the name of a --dim");
	return v;
}

static int64_t read_extent(Text *t)
{
	size_t n = 0;

	while (isalnum((unsigned char)t->p[n]) || t->p[n] == '_')
		n++;
	if (n == 0)
		bad(t, "an extent is a number or the name of a --dim");
	char *word = tool_copy(t->p, n);
	const char *value = isdigit((unsigned char)word[0]) ? word : options_find(t->dims, word);
	if (!value)
		tool_die(EXIT_USAGE, "--arg %s=%s: \"%s\" is no number and not given by --dim", t->tensor, t->all, word);
	int64_t v = parse_extent(t, value);
	free(word);
	t->p += n;
	return v;
}

Source source_parse(const char *tensor, const char *text, const NameValues *dims)
{
	Text t = { tensor, text, text, dims };
	Source s = { .kind = SRC_FILE, .path = text, .low = 0, .high = 1 };
	size_t length;
	int kind;
	bool is_first = true;

	if (text[0] == '@')
		return (Source){ .kind = SRC_SAME, .path = text + 1 };
	if (!find_generator(text, &length, &kind))
		return s;
	s.kind = kind;
	bool is_uniform = length == strlen("uniform");
	t.p += length;
	if (*t.p == '(')
		t.p++;
	else if (is_uniform)
		bad(&t, "expected uniform(LO,HI)");
	else
		return s;
	if (is_uniform) {
		s.low = next_item(&t, &is_first) ? read_real(&t) : 0;
		if (!next_item(&t, &is_first))
			bad(&t, "expected uniform(LO,HI)");
		s.high = read_real(&t);
		if (s.high < s.low)
			bad(&t, "LO is above HI");
	}
	while (next_item(&t, &is_first)) {
		if (s.rank == TILERT_MAX_RANK)
			bad(&t, "more than 5 dimensions");
		s.extents[s.rank++] = read_extent(&t);
	}
	s.has_shape = s.rank > 0;
	return s;
}

/* ---- values ---- */

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static double next_uniform(uint64_t *state)
{
	return (double)(next_random(state) >> 11) * 0x1p-53;
}

/* Box and Muller's transform; one of the pair is enough. */
static double next_normal(uint64_t *state)
{
	double radius = sqrt(-2 * log(1 - next_uniform(state)));

	return radius * cos(6.283185307179586 * next_uniform(state));
}

/* Each tensor has its own sequence, whatever the order of the command line. */
static uint64_t seed_for(const char *name, uint64_t seed)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return hash ^ seed * UINT64_C(0x9e3779b97f4a7c15);
}

static void generate(HostTensor *t, const Source *from, uint64_t seed)
{
	uint64_t state = seed_for(t->name, seed);
	bool is_integer = element_is_integer(t->dtype);

	if (is_integer && (from->kind == SRC_NORMAL || (from->kind == SRC_UNIFORM && from->low == 0 && from->high == 1)))
		tool_die(EXIT_USAGE, "--arg %s: %s has integers; use uniform(LO,HI), zeros or ones", t->name, t->name);
	for (size_t i = 0; i < t->count; i++) {
		double v = from->kind == SRC_ONES      ? 1
		           : from->kind == SRC_NORMAL  ? next_normal(&state)
		           : from->kind == SRC_UNIFORM ? from->low + (from->high - from->low) * next_uniform(&state)
		                                       : 0;
		element_set(t->dtype, t->data, i, is_integer ? floor(v) : v);
	}
}

void tensor_set_extents(HostTensor *t, int rank, const int64_t *extents)
{
	uint64_t count = 1, bytes;
	bool overflow = false, empty = false;

	t->rank = rank;
	for (int i = 0; i < rank; i++) {
		t->extents[i] = extents[i];
		empty |= extents[i] == 0;
		overflow |= __builtin_mul_overflow(count, (uint64_t)extents[i], &count);
	}
	if (empty)
		count = 0, overflow = false;
	overflow |= __builtin_mul_overflow(count, (uint64_t)tilert_dtype_size(t->dtype), &bytes);
	if (overflow || bytes > SIZE_MAX / 2)
		tool_die(EXIT_USAGE, "%s is too large", t->name);
	t->count = (size_t)count;
	t->bytes = (size_t)bytes;
}

static void read_npy(HostTensor *t, const char *path)
{
	char why[200];
	Npy n;

	if (!npy_read(path, &n, why, sizeof why))
		tool_die(EXIT_RUN, "%s: %s", path, why);
	if (n.rank > TILERT_MAX_RANK || n.rank < 1)
		tool_die(EXIT_RUN, "%s has %d dimensions; a tensor has 1 to 5", path, n.rank);
	tensor_set_extents(t, n.rank, n.extents);
	t->data = tool_alloc(t->bytes, 1);
	if (!element_from_npy(&n, t->dtype, t->data)) {
		char kind;
		unsigned item_bytes;
		element_npy_type(t->dtype, &kind, &item_bytes);
		tool_die(EXIT_RUN, "%s has elements %c%u; %s is %s, which is read from %c%u%s", path, n.kind, n.item_bytes,
		         t->name, tilert_dtype_name(t->dtype), kind, item_bytes,
		         t->dtype == TILERT_BF16 ? " (rounded), V2 or u2 (bits)" : t->dtype == TILERT_E4M3 ? " (rounded), V1 or u1 (bits)"
		         : t->dtype == TILERT_E5M2 ? " (rounded), f1 or u1 (bits)" : "");
	}
	npy_free(&n);
}

void tensor_fill(HostTensor *t, const Source *from, uint64_t seed)
{
	if (from->kind == SRC_FILE) {
		read_npy(t, from->path);
		return;
	}
	t->data = tool_alloc(t->bytes, 1);
	t->same = from->kind == SRC_SAME ? from->path : NULL;
	if (from->kind == SRC_POISON)
		memset(t->data, 0xff, t->bytes); /* a NaN in every floating type */
	else if (!t->same)
		generate(t, from, seed);
}

void tensor_write(const HostTensor *t, const char *path)
{
	char why[200];
	Npy n = { .rank = t->rank, .count = t->count, .data = t->data };
	float *wide = NULL;

	element_npy_type(t->dtype, &n.kind, &n.item_bytes);
	memcpy(n.extents, t->extents, (size_t)t->rank * sizeof *t->extents);
	if (n.item_bytes != tilert_dtype_size(t->dtype)) {
		n.data = wide = tool_alloc(t->count, sizeof *wide);
		for (size_t i = 0; i < t->count; i++)
			wide[i] = (float)element_get(t->dtype, t->data, i);
	}
	if (!npy_write(path, &n, why, sizeof why))
		tool_die(EXIT_RUN, "%s: %s", path, why);
	free(wide);
}

void tensor_free(HostTensor *t)
{
	free(t->data);
	t->data = NULL;
}
