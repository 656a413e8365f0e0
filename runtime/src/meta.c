/* meta.c - reads the meta text of a module: one item per line, words, quoted strings and numbers.
 *
 * Expressions name dims and scalars that come after the tensors, so they are kept as text until the kernel ends.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/src/dtype.h"
#include "runtime/src/error.h"
#include "runtime/src/image.h"

enum {
	MAX_THREADS = 1024,    /* of a CTA, CUDA */
	MAX_CLUSTER = 16,      /* CTAs, sm_90 with the non-portable size allowed */
	MAX_SMEM = 1 << 20,    /* sanity only; the device's own limit is checked when it loads */
	MAX_BOX = 256,         /* elements along one axis, cuTensorMapEncodeTiled */
	MAX_NAME = 63,         /* LANGUAGE.md, section 15 */
	MAX_PARAMS = 1024,     /* of a kernel: 32,764 bytes of parameters, CUDA 12.1 */
};

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

typedef struct Reader {
	const char *p, *end;
	unsigned line;
	Image *im;
	KernelMeta *k; /* being read */
} Reader;

static tilert_status bad(const Reader *r, const char *what)
{
	return rt_fail(TILERT_EFORMAT, "module: meta line %u: %s", r->line, what);
}

static tilert_status bad_in(const Reader *r, const char *what, const char *name)
{
	return rt_fail(TILERT_EFORMAT, "module: meta line %u: %s \"%s\"", r->line, what, name);
}

/* ---- words ---- */

static void skip_spaces(Reader *r)
{
	while (r->p < r->end && *r->p == ' ')
		r->p++;
}

static size_t word_length(const Reader *r)
{
	const char *p = r->p;

	while (p < r->end && *p != ' ' && *p != '\n' && *p != '"')
		p++;
	return (size_t)(p - r->p);
}

static bool accept(Reader *r, const char *word)
{
	skip_spaces(r);
	size_t n = word_length(r);
	if (n != strlen(word) || memcmp(r->p, word, n))
		return false;
	r->p += n;
	return true;
}

static tilert_status expect(Reader *r, const char *word)
{
	return accept(r, word) ? TILERT_OK : bad_in(r, "expected", word);
}

static bool at_string(Reader *r)
{
	skip_spaces(r);
	return r->p < r->end && *r->p == '"';
}

static bool at_line_end(Reader *r)
{
	skip_spaces(r);
	return r->p == r->end || *r->p == '\n';
}

static tilert_status expect_line_end(Reader *r)
{
	if (!at_line_end(r))
		return bad(r, "something follows the end of the item");
	if (r->p < r->end)
		r->p++;
	r->line++;
	return TILERT_OK;
}

static tilert_status read_string(Reader *r, const char **out, size_t *length)
{
	if (!at_string(r))
		return bad(r, "expected a string");
	const char *start = ++r->p;
	while (r->p < r->end && *r->p != '"' && *r->p != '\n' && *r->p)
		r->p++;
	if (r->p == r->end || *r->p != '"')
		return bad(r, "a string is not closed");
	*out = start;
	*length = (size_t)(r->p++ - start);
	return TILERT_OK;
}

static tilert_status read_copy(Reader *r, size_t max, const char **out)
{
	const char *s = NULL;
	size_t n = 0;
	tilert_status status = read_string(r, &s, &n);

	if (status)
		return status;
	if (n == 0 || n > max)
		return bad(r, n ? "a name is too long" : "a name is empty");
	*out = rt_pool_string(&r->im->pool, s, n);
	return *out ? TILERT_OK : rt_fail_memory("a module");
}

/* As in the language: messages and lists have it as it is. */
static tilert_status read_name(Reader *r, size_t max, const char **out)
{
	tilert_status s = read_copy(r, max, out);

	if (!s && (isdigit((unsigned char)**out) || (*out)[strspn(*out, NAME_CHARACTERS)]))
		return bad(r, "a name is not one of letters, digits and _");
	return s;
}

static tilert_status read_number(Reader *r, const char *what, uint32_t low, uint32_t high, uint32_t *out)
{
	skip_spaces(r);
	size_t n = word_length(r);
	uint64_t v = 0;

	if (n == 0 || n > 10)
		return bad_in(r, "expected a number for", what);
	for (size_t i = 0; i < n; i++) {
		if (r->p[i] < '0' || r->p[i] > '9')
			return bad_in(r, "expected a number for", what);
		v = v * 10 + (uint64_t)(r->p[i] - '0');
	}
	if (v < low || v > high)
		return rt_fail(TILERT_EFORMAT, "module: meta line %u: %s is %llu, which is not in %u..%u", r->line, what,
		               (unsigned long long)v, low, high);
	r->p += n;
	*out = (uint32_t)v;
	return TILERT_OK;
}

static tilert_status read_named_number(Reader *r, const char *what, uint32_t low, uint32_t high, uint32_t *out)
{
	tilert_status s = expect(r, what);

	return s ? s : read_number(r, what, low, high, out);
}

static tilert_status read_dtype(Reader *r, tilert_dtype *out)
{
	skip_spaces(r);
	size_t n = word_length(r);
	if (!rt_dtype_parse(r->p, n, out))
		return bad(r, "expected an element type");
	r->p += n;
	return TILERT_OK;
}

static tilert_status read_expr(Reader *r, Expr *out)
{
	return read_string(r, &out->text, &out->length);
}

/* ---- items ---- */

static int find_tensor(const KernelMeta *k, const char *name, size_t n)
{
	for (size_t i = 0; i < k->n_tensors; i++) {
		if (strlen(k->tensors[i].name) == n && !memcmp(k->tensors[i].name, name, n))
			return (int)i;
	}
	return -1;
}

static int find_symbol(const KernelMeta *k, const char *name, size_t n)
{
	for (size_t i = 0; i < k->n_symbols; i++) {
		if (strlen(k->symbols[i].name) == n && !memcmp(k->symbols[i].name, name, n))
			return (int)i;
	}
	return -1;
}

static tilert_status read_param_name(Reader *r, const char **out)
{
	tilert_status s = read_name(r, MAX_NAME, out);

	if (s)
		return s;
	if (find_tensor(r->k, *out, strlen(*out)) >= 0 || find_symbol(r->k, *out, strlen(*out)) >= 0)
		return bad_in(r, "a second parameter called", *out);
	if (r->k->n_tensors + r->k->n_symbols >= MAX_PARAMS)
		return bad(r, "too many parameters");
	return TILERT_OK;
}

static tilert_status read_direction(Reader *r, TensorMeta *t)
{
	if (accept(r, "in"))
		t->direction = 1;
	else if (accept(r, "out"))
		t->direction = 2;
	else if (accept(r, "inout"))
		t->direction = 3;
	else
		return bad(r, "expected in, out or inout");
	if (accept(r, "optional"))
		t->optional = true;
	else if (!accept(r, "required"))
		return bad(r, "expected required or optional");
	return TILERT_OK;
}

static tilert_status read_alignment(Reader *r, TensorMeta *t)
{
	t->align = (uint32_t)tilert_dtype_size(t->dtype);
	if (!accept(r, "align"))
		return TILERT_OK;
	tilert_status s = read_number(r, "align", 1, 256, &t->align);
	if (!s && (t->align & (t->align - 1)))
		return bad(r, "align is not a power of two");
	return s;
}

static tilert_status read_tensor_shape(Reader *r, TensorMeta *t)
{
	uint32_t rank = 0;
	tilert_status s = read_named_number(r, "rank", 1, TILERT_MAX_RANK, &rank);

	if (!s)
		s = expect(r, "extents");
	t->rank = s ? 0 : (int)rank;
	for (int i = 0; !s && i < t->rank; i++)
		s = read_expr(r, &t->extents[i]);
	if (!s)
		s = expect(r, "strides");
	for (int i = 0; !s && i < t->rank; i++)
		s = read_expr(r, &t->strides[i]);
	return s;
}

static tilert_status read_tensor(Reader *r)
{
	KernelMeta *k = r->k;
	TensorMeta t = { .name = NULL };
	tilert_status s = read_param_name(r, &t.name);

	if (!s)
		s = read_dtype(r, &t.dtype);
	if (!s)
		s = read_direction(r, &t);
	if (!s)
		s = read_alignment(r, &t);
	if (!s)
		s = read_tensor_shape(r, &t);
	if (s)
		return s;
	k->tensors = rt_pool_grow(&r->im->pool, k->tensors, k->n_tensors, sizeof t);
	if (!k->tensors)
		return rt_fail_memory("a module");
	k->tensors[k->n_tensors++] = t;
	return expect_line_end(r);
}

static tilert_status add_symbol(Reader *r, SymbolMeta symbol)
{
	KernelMeta *k = r->k;

	k->symbols = rt_pool_grow(&r->im->pool, k->symbols, k->n_symbols, sizeof symbol);
	k->symbol_names = rt_pool_grow(&r->im->pool, k->symbol_names, k->n_symbols, sizeof *k->symbol_names);
	if (!k->symbols || !k->symbol_names)
		return rt_fail_memory("a module");
	k->symbol_names[k->n_symbols] = symbol.name;
	k->symbols[k->n_symbols++] = symbol;
	return expect_line_end(r);
}

static tilert_status read_dim(Reader *r)
{
	SymbolMeta dim = { NULL, TILERT_I32 };
	tilert_status s = read_param_name(r, &dim.name);

	if (s)
		return s;
	r->k->n_dims++;
	return add_symbol(r, dim);
}

static tilert_status read_scalar(Reader *r)
{
	SymbolMeta scalar = { NULL, TILERT_F32 };
	tilert_status s = read_param_name(r, &scalar.name);

	if (!s)
		s = read_dtype(r, &scalar.dtype);
	return s ? s : add_symbol(r, scalar);
}

/* The rows of a box in shared memory must be whole 16-byte units, and one swizzle atom at most. */
static tilert_status check_map(const Reader *r, const MapMeta *m)
{
	uint32_t row_bytes = m->box[0] * (uint32_t)tilert_dtype_size(m->dtype);

	if (m->swizzle != 0 && m->swizzle != 32 && m->swizzle != 64 && m->swizzle != 128)
		return bad(r, "swizzle is not 0, 32, 64 or 128");
	if (row_bytes % 16)
		return bad(r, "the innermost side of the box is not a multiple of 16 bytes");
	if (m->swizzle && row_bytes > m->swizzle)
		return bad(r, "the innermost side of the box is wider than the swizzle");
	return TILERT_OK;
}

/* Neither the innermost dim nor the last. */
static tilert_status read_limited(Reader *r, MapMeta *m)
{
	if (m->rank < 3)
		return bad(r, "a tensor map with a limit has less than 3 dims");
	return read_number(r, "limited", 1, (uint32_t)m->rank - 2, &m->limited);
}

static tilert_status read_map_shape(Reader *r, MapMeta *m)
{
	tilert_status s = expect(r, "dims");

	while (!s && at_string(r)) {
		if (m->rank == TILERT_MAX_RANK)
			return bad(r, "a tensor map has more than 5 dims");
		s = read_expr(r, &m->dims[m->rank++]);
	}
	if (!s && m->rank == 0)
		return bad(r, "a tensor map has no dims");
	if (!s)
		s = expect(r, "strides");
	for (int i = 0; !s && i < m->rank; i++)
		s = read_expr(r, &m->strides[i]);
	if (!s)
		s = expect(r, "box");
	for (int i = 0; !s && i < m->rank; i++)
		s = read_number(r, "box", 1, MAX_BOX, &m->box[i]);
	if (!s && accept(r, "limited"))
		s = read_limited(r, m);
	m->stored = !s && accept(r, "stored");
	return s ? s : check_map(r, m);
}

static tilert_status read_map(Reader *r)
{
	KernelMeta *k = r->k;
	MapMeta m = { .tensor = 0 };
	const char *name = NULL;
	size_t n = 0;
	tilert_status s = expect(r, "tensor");

	if (!s)
		s = read_string(r, &name, &n);
	if (s)
		return s;
	int tensor = find_tensor(k, name, n);
	if (tensor < 0)
		return bad(r, "a tensor map of an unknown tensor");
	m.tensor = (uint32_t)tensor;
	s = expect(r, "dtype");
	if (!s)
		s = read_dtype(r, &m.dtype);
	if (!s)
		s = read_named_number(r, "swizzle", 0, 128, &m.swizzle);
	if (!s)
		s = read_map_shape(r, &m);
	if (s)
		return s;
	if (k->n_maps >= MAX_PARAMS)
		return bad(r, "too many tensor maps");
	k->maps = rt_pool_grow(&r->im->pool, k->maps, k->n_maps, sizeof m);
	if (!k->maps)
		return rt_fail_memory("a module");
	k->maps[k->n_maps++] = m;
	return expect_line_end(r);
}

static tilert_status read_grid(Reader *r)
{
	tilert_status s = TILERT_OK;

	while (!s && at_string(r)) {
		if (r->k->grid_rank == 3)
			return bad(r, "a grid has more than 3 extents");
		s = read_expr(r, &r->k->grid[r->k->grid_rank++]);
	}
	if (!s && r->k->grid_rank == 0)
		return bad(r, "a grid has no extents");
	return s ? s : expect_line_end(r);
}

/* ---- the end of a kernel: expressions ---- */

static int lookup_symbol(const void *context, const char *name, size_t n)
{
	const KernelMeta *k = context;
	int i = find_symbol(k, name, n);

	return i >= 0 && !rt_dtype_is_float(k->symbols[i].dtype) ? i : -1;
}

static tilert_status parse_exprs(Reader *r, Expr *list, int count)
{
	char why[160];

	for (int i = 0; i < count; i++) {
		if (!rt_expr_parse(&list[i], &r->im->pool, lookup_symbol, r->k, why, sizeof why))
			return !why[0] ? rt_fail_memory("a module")
			               : rt_fail(TILERT_EFORMAT, "module: kernel %s (ends on meta line %u): %s", r->k->name, r->line, why);
	}
	return TILERT_OK;
}

static tilert_status describe_shape(Reader *r, TensorMeta *t)
{
	char text[512] = "";
	size_t used = 0;

	for (int i = 0; i < t->rank && used + 1 < sizeof text; i++) {
		char extent[96];
		rt_expr_format(&t->extents[i], r->k->symbol_names, extent, sizeof extent);
		used += (size_t)snprintf(text + used, sizeof text - used, "[%s]", extent);
	}
	t->shape = rt_pool_string(&r->im->pool, text, strlen(text));
	return t->shape ? TILERT_OK : rt_fail_memory("a module");
}

static tilert_status finish_kernel(Reader *r)
{
	KernelMeta *k = r->k;
	tilert_status s = TILERT_OK;

	if (k->n_maps != k->maps_expected)
		s = rt_fail(TILERT_EFORMAT, "module: kernel %s (ends on meta line %u) has %zu of %u tensormaps", k->name, r->line, k->n_maps,
		            k->maps_expected);
	if (!s)
		s = parse_exprs(r, k->grid, k->grid_rank);
	for (size_t i = 0; !s && i < k->n_tensors; i++) {
		s = parse_exprs(r, k->tensors[i].extents, k->tensors[i].rank);
		if (!s)
			s = parse_exprs(r, k->tensors[i].strides, k->tensors[i].rank);
		if (!s)
			s = describe_shape(r, &k->tensors[i]);
	}
	if (!s)
		s = rt_kernel_names(k, &r->im->pool);
	for (size_t i = 0; !s && i < k->n_maps; i++) {
		s = parse_exprs(r, k->maps[i].dims, k->maps[i].rank);
		if (!s)
			s = parse_exprs(r, k->maps[i].strides, k->maps[i].rank);
		if (k->tensors[k->maps[i].tensor].align < 16)
			k->tensors[k->maps[i].tensor].align = 16; /* cuTensorMapEncodeTiled: globalAddress */
	}
	return s;
}

/* ---- kernels and the whole ---- */

static tilert_status read_kernel_line(Reader *r)
{
	KernelMeta *k = r->k;
	tilert_status s = read_name(r, 255, &k->name);

	if (!s)
		s = read_named_number(r, "threads", 1, MAX_THREADS, &k->threads);
	if (!s)
		s = read_named_number(r, "cluster", 1, MAX_CLUSTER, &k->cluster);
	if (!s)
		s = read_named_number(r, "smem", 0, MAX_SMEM, &k->smem_bytes);
	if (!s)
		s = read_named_number(r, "registers", 0, 255, &k->registers);
	if (!s)
		s = read_named_number(r, "tensormaps", 0, MAX_PARAMS, &k->maps_expected);
	k->dependent = !s && accept(r, "dependent");
	return s ? s : expect_line_end(r);
}

static tilert_status read_kernel(Reader *r)
{
	Image *im = r->im;

	im->kernels = rt_pool_grow(&im->pool, im->kernels, im->n_kernels, sizeof *im->kernels);
	if (!im->kernels)
		return rt_fail_memory("a module");
	r->k = &im->kernels[im->n_kernels];
	tilert_status s = read_kernel_line(r);
	while (!s && accept(r, "tensor"))
		s = read_tensor(r);
	while (!s && accept(r, "dim"))
		s = read_dim(r);
	while (!s && accept(r, "scalar"))
		s = read_scalar(r);
	while (!s && accept(r, "tensormap"))
		s = read_map(r);
	if (!s)
		s = expect(r, "grid");
	if (!s)
		s = read_grid(r);
	if (!s)
		s = expect(r, "end");
	if (!s)
		s = finish_kernel(r);
	if (s)
		return s;
	im->n_kernels++;
	return expect_line_end(r);
}

static tilert_status read_module_line(Reader *r)
{
	tilert_status s = expect(r, "module");

	if (!s)
		s = read_copy(r, 4095, &r->im->source_name);
	if (!s)
		s = expect(r, "compiler");
	if (!s)
		s = read_copy(r, 255, &r->im->compiler);
	return s ? s : expect_line_end(r);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In order, so that many take no longer each than few. */
static tilert_status check_kernel_names(Image *im)
{
	const char **names = rt_pool_alloc(&im->pool, im->n_kernels, sizeof *names);

	if (!names)
		return rt_fail_memory("a module");
	for (size_t i = 0; i < im->n_kernels; i++)
		names[i] = im->kernels[i].name;
	qsort(names, im->n_kernels, sizeof *names, by_name);
	for (size_t i = 1; i < im->n_kernels; i++) {
		if (!strcmp(names[i - 1], names[i]))
			return rt_fail(TILERT_EFORMAT, "module: two kernels called \"%s\"", names[i]);
	}
	return TILERT_OK;
}

tilert_status rt_meta_parse(Image *im, const char *text, size_t size)
{
	Reader r = { text, text + size, 1, im, NULL };
	tilert_status s = read_module_line(&r);

	while (!s && accept(&r, "kernel"))
		s = read_kernel(&r);
	if (!s && r.p != r.end)
		return bad(&r, "expected \"kernel\"");
	if (!s && im->n_kernels == 0)
		return bad(&r, "the module has no kernels");
	return s ? s : check_kernel_names(im);
}
