/* tma.c - boxes of tensors and plain bytes between global and shared memory: swizzle, bounds, reductions. */
#include "runtime/cpu/cta.h"

#include <string.h>

#include "runtime/include/tilert/tilert.h"
#include "runtime/src/float16.h"

enum { MAX_ROW = 256 * 8 };

/* ---- checks, as cuTensorMapEncode and the hardware make them ---- */

static void check_map(Thread *t, const TileCpuTensorMap *m, uint32_t line)
{
	if (m->rank < 1 || m->rank > 5)
		report_fail(t, line, "a tensor map of rank %u", m->rank);
	if ((uintptr_t)m->base % 16)
		report_fail(t, line, "the tensor of a tensor map is not aligned to 16 bytes");
	for (unsigned i = 0; i < m->rank; i++) {
		if (m->box[i] < 1 || m->box[i] > 256)
			report_fail(t, line, "dimension %u of a tensor map's box is %u", i, m->box[i]);
		if (i && m->stride[i] % 16)
			report_fail(t, line, "stride %u of a tensor map is %lld bytes, not a multiple of 16", i, (long long)m->stride[i]);
	}
	if (m->swizzle_bytes & (m->swizzle_bytes - 1) || m->swizzle_bytes == 16 || m->swizzle_bytes > 128)
		report_fail(t, line, "a tensor map with a swizzle of %u bytes", m->swizzle_bytes);
}

void transfer_box(Thread *t, Transfer *x, const TileCpuTensorMap *map, uint32_t smem, const int32_t *coord, uint32_t line)
{
	check_map(t, map, line);
	memset(x, 0, sizeof *x);
	x->map = map;
	x->smem = smem;
	memcpy(x->coord, coord, map->rank * sizeof *coord);
	x->row_bytes = (uint32_t)map->box[0] * map->element_bytes;
	x->rows = 1;
	for (unsigned i = 1; i < map->rank; i++)
		x->rows *= map->box[i];
	x->bytes = x->rows * x->row_bytes;
	if (x->row_bytes % 16 || x->row_bytes > MAX_ROW)
		report_fail(t, line, "rows of a TMA box have %u bytes, not a multiple of 16", x->row_bytes);
	if (map->swizzle_bytes && x->row_bytes > map->swizzle_bytes)
		report_fail(t, line, "rows of a TMA box have %u bytes, more than its swizzle of %u", x->row_bytes, map->swizzle_bytes);
	if ((int64_t)coord[0] * map->element_bytes % 16)
		report_fail(t, line, "a TMA box begins at column %d of %s, which is %lld bytes: not a multiple of 16", coord[0], tensor_text(t->cta->worker, map).text,
			(long long)coord[0] * map->element_bytes);
	check_shared(t, "TMA box", smem, x->bytes, 128, line);
}

void transfer_plain(Thread *t, Transfer *x, const void *global, uint32_t smem, uint32_t bytes, uint32_t line)
{
	memset(x, 0, sizeof *x);
	if (bytes % 16 || (uintptr_t)global % 16)
		report_fail(t, line, "a bulk copy of %u bytes at global address ...%02x; both must be multiples of 16", bytes,
			(unsigned)((uintptr_t)global & 0xff));
	check_shared(t, "bulk copy", smem, bytes, 16, line);
	x->plain = (uint8_t *)(uintptr_t)global;
	x->smem = smem;
	x->bytes = bytes;
	x->row_bytes = 16;
	x->rows = bytes / 16;
}

/* ---- one row of a box ---- */

/* The part of a row that is inside the tensor: bytes [begin, end) of it, and where byte `begin` is. */
typedef struct RowPart {
	uint8_t *global;
	uint32_t begin, end;
} RowPart;

static RowPart row_part(const Transfer *x, uint32_t row)
{
	const TileCpuTensorMap *m = x->map;
	int64_t low = x->coord[0] < 0 ? -(int64_t)x->coord[0] : 0;
	int64_t high = m->dim[0] - x->coord[0] < m->box[0] ? m->dim[0] - x->coord[0] : m->box[0];
	RowPart p = { .global = m->base };

	for (unsigned i = 1; i < m->rank; i++) {
		int64_t at = (int64_t)x->coord[i] + row % m->box[i];

		row /= m->box[i];
		if (at < 0 || at >= m->dim[i])
			return p;
		p.global += at * m->stride[i];
	}
	if (low >= high)
		return p;
	p.global += (x->coord[0] + low) * m->element_bytes;
	p.begin = (uint32_t)low * m->element_bytes;
	p.end = (uint32_t)high * m->element_bytes;
	return p;
}

uint32_t transfer_row(const Transfer *x, uint32_t row, uint8_t **global)
{
	RowPart p = { .global = x->plain + (size_t)row * 16, .end = 16 };

	if (x->map)
		p = row_part(x, row);
	*global = p.global;
	return p.end - p.begin;
}

static uint32_t chunk_address(const Transfer *x, uint32_t row, uint32_t chunk)
{
	uint32_t width = x->map->swizzle_bytes ? x->map->swizzle_bytes : 16;

	return swizzled(x->smem + row * x->row_bytes + chunk * 16, width);
}

static void load_row(const Transfer *x, uint8_t *smem, uint32_t row)
{
	RowPart p = row_part(x, row);
	uint8_t bytes[MAX_ROW];

	if (p.begin > 0 || p.end < x->row_bytes)
		memset(bytes, 0, x->row_bytes);
	if (p.end > p.begin)
		memcpy(bytes + p.begin, p.global, p.end - p.begin);
	for (uint32_t i = 0; i < x->row_bytes / 16; i++)
		memcpy(smem + chunk_address(x, row, i), bytes + i * 16, 16);
}

void transfer_load(const Transfer *x, Cta *c, uint32_t first, uint32_t rows)
{
	if (!x->map) {
		memcpy(c->smem + x->smem + first * 16, x->plain + (size_t)first * 16, (size_t)rows * 16);
		return;
	}
	for (uint32_t i = 0; i < rows; i++)
		load_row(x, c->smem, first + i);
}

void transfer_stage(const Transfer *x, const Cta *c, uint8_t *staged)
{
	if (!x->map) {
		memcpy(staged, c->smem + x->smem, x->bytes);
		return;
	}
	for (uint32_t row = 0; row < x->rows; row++)
		for (uint32_t i = 0; i < x->row_bytes / 16; i++)
			memcpy(staged + row * x->row_bytes + i * 16, c->smem + chunk_address(x, row, i), 16);
}

/* ---- reductions: other host threads add to the same memory ---- */

static void add_f32(uint32_t *to, float x)
{
	uint32_t old = __atomic_load_n(to, __ATOMIC_RELAXED), sum;

	do
		sum = rt_float_bits(rt_bits_float(old) + x);
	while (!__atomic_compare_exchange_n(to, &old, sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void add_bf16(uint16_t *to, uint16_t x)
{
	uint16_t old = __atomic_load_n(to, __ATOMIC_RELAXED), sum;

	do
		sum = rt_to_bf16(rt_from_bf16(old) + rt_from_bf16(x));
	while (!__atomic_compare_exchange_n(to, &old, sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void add_f16(uint16_t *to, uint16_t x)
{
	uint16_t old = __atomic_load_n(to, __ATOMIC_RELAXED), sum;

	do
		sum = rt_to_f16(rt_from_f16(old) + rt_from_f16(x));
	while (!__atomic_compare_exchange_n(to, &old, sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void add_element(uint8_t *to, const uint8_t *from, unsigned dtype)
{
	uint32_t word = 0;
	uint16_t half;

	memcpy(&half, from, sizeof half);
	if (dtype == TILERT_F32 || dtype == TILERT_I32 || dtype == TILERT_U32)
		memcpy(&word, from, sizeof word);
	switch (dtype) {
	case TILERT_F32: add_f32((uint32_t *)(void *)to, rt_bits_float(word)); break;
	case TILERT_BF16: add_bf16((uint16_t *)(void *)to, half); break;
	case TILERT_F16: add_f16((uint16_t *)(void *)to, half); break;
	default: __atomic_fetch_add((uint32_t *)(void *)to, word, __ATOMIC_RELAXED);
	}
}

void transfer_store(const Transfer *x, const uint8_t *staged, bool reduce)
{
	if (!x->map) {
		memcpy(x->plain, staged, x->bytes);
		return;
	}
	for (uint32_t row = 0; row < x->rows; row++) {
		RowPart p = row_part(x, row);
		const uint8_t *from = staged + row * x->row_bytes + p.begin;

		if (p.end > p.begin && !reduce)
			memcpy(p.global, from, p.end - p.begin);
		for (uint32_t i = 0; reduce && i < p.end - p.begin; i += x->map->element_bytes)
			add_element(p.global + i, from + i, x->map->dtype);
	}
}
