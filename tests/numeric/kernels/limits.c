/* limits.c - boxes that a limit cuts at every row, bit for bit. */
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/numeric.h"

enum { HEADS = 3, MAX_BOXES = 4096, ONE_BF16 = 0x3f80, ONE_F32 = 0x3f800000 };

typedef struct Shape {
	const char *module;
	tilert_dtype dtype;
	int rows, width, skip;
} Shape;

/* Where the boxes of a launch begin, and their limits; the first `stored` of them are for stores, too. */
typedef struct Boxes { int n, stored, tokens; int32_t start[MAX_BOXES], end[MAX_BOXES]; } Boxes;

typedef struct Limits {
	Shape s;
	Boxes *b;
	size_t row; /* bytes */
	Buffer starts, ends;
} Limits;

static void add_box(Boxes *b, int start, int64_t end)
{
	assert_true(b->n < MAX_BOXES);
	b->start[b->n] = start;
	b->end[b->n++] = (int32_t)end;
}

/* Every limit from two rows above the tile to two behind it, at a start; fewer where the CPU device runs them. */
static void add_limits(Boxes *b, int start, int rows, int step)
{
	static const int64_t wild[] = { INT32_MIN, -7, 0, 1, INT32_MAX - 1, INT32_MAX };
	for (int k = -2; k <= rows + 2; k += step)
		add_box(b, start, start + k);
	for (size_t i = 0; i < sizeof wild / sizeof *wild; i++)
		add_box(b, start, wild[i]);
	for (int k = -1; k <= 1; k++)
		add_box(b, start, b->tokens + k);
}

static Boxes *make_boxes(int rows)
{
	Boxes *b = memory(sizeof *b);
	*b = (Boxes){ .tokens = 2 * rows + 9 };
	const int starts[] = { 0, 1, rows - 3, b->tokens - rows / 2, b->tokens - 1, b->tokens, b->tokens + 5 };
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
		add_limits(b, starts[i], rows, i == 2 || !numeric_on_cpu() ? 1 : 7);
	b->stored = b->n;
	for (int end = rows - 3; end < b->tokens + 2; end += 5) /* begins before the tensor, as stores must not */
		add_box(b, -3, end);
	return b;
}

static bool inside(const Boxes *b, int box, int row)
{
	int t = b->start[box] + row;
	return t >= 0 && t < b->tokens && t < b->end[box];
}

static void launch(const Limits *l, const char *name, Buffer x, int x_rank, const int64_t *x_extents, Buffer y, int y_rank,
	const int64_t *y_extents)
{
	tilert_kernel *k;
	const int64_t n = l->b->n;
	tilert_arg args[] = { tensor_arg("x", x, l->s.dtype, x_rank, x_extents), tensor_arg("starts", l->starts, TILERT_I32, 1, &n),
		tensor_arg("ends", l->ends, TILERT_I32, 1, &n), tensor_arg("y", y, l->s.dtype, y_rank, y_extents) };
	OK(tilert_module_kernel(numeric_module(l->s.module), name, &k));
	OK(tilert_launch(k, args, 4, NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
}

static void wrong(const Limits *l, const char *what, int box, int row)
{
	fail_msg("%s: %s: start %d, limit %d: row %d", l->s.module, what, l->b->start[box], l->b->end[box], row);
}

static unsigned char *noise(size_t bytes)
{
	unsigned char *p = memory(bytes);
	for (size_t i = 0; i < bytes; i++)
		p[i] = (unsigned char)(i * 2654435761u >> 13);
	return p;
}

static bool all_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

/* ---- loads: the last of the heads ---- */

static void check_load(const Limits *l, const char *name, int rank, int first)
{
	const int64_t n = l->b->n, tokens = l->b->tokens, rows = l->s.rows, width = l->s.width;
	const int64_t x4[] = { 1, tokens, HEADS, width }, y3[] = { n, rows, width };
	const size_t row = l->row;
	unsigned char *x = noise((size_t)tokens * HEADS * row);
	Buffer dx = buffer_of(x, (size_t)tokens * HEADS * row), dy = buffer_poisoned((size_t)(n * rows) * row);
	launch(l, name, dx, rank, rank == 4 ? x4 : x4 + 1, dy, 3, y3);
	unsigned char *y = buffer_take(dy);
	for (int box = 0; box < n; box++)
		for (int r = first; r < rows; r++) {
			const unsigned char *got = y + (size_t)(box * rows + r) * row;
			if (inside(l->b, box, r) ? memcmp(got, x + ((size_t)(l->b->start[box] + r) * HEADS + HEADS - 1) * row, row) != 0 : !all_zero(got, row))
				wrong(l, name, box, r);
		}
	buffer_free(dx);
	buffer_free(dy);
	free(x);
	free(y);
}

/* ---- stores ---- */

static void check_store(const Limits *l, const char *name, int rank, int first)
{
	const int64_t n = l->b->n, tokens = l->b->tokens, rows = l->s.rows, width = l->s.width;
	const int64_t x3[] = { n, rows, width }, y4[] = { n, tokens, 1, width }, y3[] = { n, tokens, width };
	const size_t row = l->row;
	unsigned char *x = noise((size_t)(n * rows) * row), *poison = memory(row);
	memset(poison, 0xff, row);
	Buffer dx = buffer_of(x, (size_t)(n * rows) * row), dy = buffer_poisoned((size_t)(n * tokens) * row);
	launch(l, name, dx, 3, x3, dy, rank, rank == 4 ? y4 : y3);
	unsigned char *y = buffer_take(dy);
	for (int box = 0; box < n; box++)
		for (int t = 0; t < tokens; t++) {
			int r = t - l->b->start[box];
			bool written = r >= first && r < rows && inside(l->b, box, r);
			if (memcmp(y + (size_t)(box * tokens + t) * row, written ? x + (size_t)(box * rows + r) * row : poison, row) != 0)
				wrong(l, name, box, r);
		}
	buffer_free(dx);
	buffer_free(dy);
	free(x);
	free(y);
	free(poison);
}

/* ---- sums: 1 to each element of the rows, which are 1 ---- */

static void *ones(const Limits *l, size_t count)
{
	uint32_t *p = memory(count * 4);
	for (size_t i = 0; i < count; i++)
		if (l->s.dtype == TILERT_F32)
			p[i] = ONE_F32;
		else
			((uint16_t *)p)[i] = ONE_BF16;
	return p;
}

static bool is_sum(const Limits *l, const void *y, size_t element, bool added)
{
	uint32_t one = l->s.dtype == TILERT_F32 ? ONE_F32 : ONE_BF16, two = l->s.dtype == TILERT_F32 ? 0x40000000 : 0x4000;
	uint32_t got = l->s.dtype == TILERT_F32 ? ((const uint32_t *)y)[element] : ((const uint16_t *)y)[element];
	return got == (added ? two : one);
}

static void check_add(const Limits *l)
{
	const int64_t n = l->b->n, tokens = l->b->tokens, rows = l->s.rows, width = l->s.width;
	const int64_t x3[] = { n, rows, width }, y3[] = { n, tokens, width };
	size_t most = (size_t)(n * tokens * width);
	void *one = ones(l, most);
	Buffer dx = buffer_of(one, (size_t)(n * rows) * l->row), dy = buffer_of(one, (size_t)(n * tokens) * l->row);
	launch(l, "add", dx, 3, x3, dy, 3, y3);
	void *y = buffer_take(dy);
	for (size_t i = 0; i < most; i++) {
		int box = (int)(i / (size_t)(tokens * width)), r = (int)(i / (size_t)width % (size_t)tokens) - l->b->start[box];
		if (!is_sum(l, y, i, r >= 0 && r < rows && inside(l->b, box, r)))
			wrong(l, "add", box, r);
	}
	buffer_free(dx);
	buffer_free(dy);
	free(one);
	free(y);
}

static void run_limits(const void *spec)
{
	const Shape *s = spec;
	Limits l = { .s = *s, .b = make_boxes(s->rows), .row = (size_t)s->width * tilert_dtype_size(s->dtype) };
	l.starts = buffer_of(l.b->start, (size_t)l.b->n * sizeof(int32_t));
	l.ends = buffer_of(l.b->end, (size_t)l.b->n * sizeof(int32_t));
	check_load(&l, "load", 3, 0);
	check_load(&l, "load_linear", 3, 0);
	check_load(&l, "load_part", 4, s->skip);
	l.b->n = l.b->stored;
	check_store(&l, "store", 3, 0);
	check_store(&l, "store_part", 4, s->skip);
	if (s->dtype == TILERT_F32 || s->dtype == TILERT_BF16)
		check_add(&l);
	buffer_free(l.starts);
	buffer_free(l.ends);
	free(l.b);
}

size_t limits_cases(NumericCase *out)
{
	/* two panels, one, 64, 32 and 16 bytes a row, four panels */
	static const Shape shapes[] = {
		{ "limits_bf16_64_128.tmod", TILERT_BF16, 64, 128, 3 },
		{ "limits_f32_32_32.tmod", TILERT_F32, 32, 32, 3 },
		{ "limits_u8_64_64.tmod", TILERT_U8, 64, 64, 2 },
		{ "limits_bf16_32_16.tmod", TILERT_BF16, 32, 16, 4 },
		{ "limits_f32_128_4.tmod", TILERT_F32, 128, 4, 8 },
		{ "limits_bf16_16_256.tmod", TILERT_BF16, 16, 256, 3 },
	};
	size_t n = sizeof shapes / sizeof *shapes;
	for (size_t i = 0; i < n; i++) {
		out[i] = numeric_case(run_limits, &shapes[i], "%.*s", (int)strcspn(shapes[i].module, "."), shapes[i].module);
	}
	return n;
}
