#include "tests/numeric/kernels/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "tests/check/float16.h"

double element_load(tilert_dtype dtype, const void *p, int64_t i)
{
	switch (dtype) {
	case TILERT_BF16: return (double)bf16_to_float(((const uint16_t *)p)[i]);
	case TILERT_F16: return (double)fp16_to_float(((const uint16_t *)p)[i]);
	default: return (double)((const float *)p)[i];
	}
}

void element_store(tilert_dtype dtype, void *p, int64_t i, double x)
{
	switch (dtype) {
	case TILERT_BF16: ((uint16_t *)p)[i] = bf16_from_float((float)x); break;
	case TILERT_F16: ((uint16_t *)p)[i] = fp16_from_float((float)x); break;
	default: ((float *)p)[i] = (float)x;
	}
}

TokenTensor tokens_layout(TokenShape s, tilert_dtype dtype, bool copied, bool strided)
{
	TokenTensor t = { .batch = s.batch, .tokens = s.tokens, .heads = s.heads, .width = s.width, .dtype = dtype, .copied = copied };
	/* As a slice of something larger: what lies between has multiples of 8 elements where TMA reads. */
	const int64_t unit = copied ? 8 : 1, gap = strided ? unit : 0;
	t.strides.head = strided ? (s.width + unit - 1) / unit * unit + gap : s.width;
	t.strides.token = s.heads * t.strides.head + 3 * gap;
	t.strides.batch = s.tokens * t.strides.token + 5 * gap;
	t.first = copied ? 2 * gap : gap; /* one element: gates need no more than their own alignment */
	return t;
}

tilekern_strides tokens_odd_strides(const TokenTensor *t)
{
	return (tilekern_strides){ t->batch == 1 ? INT64_C(7777777777777) : t->strides.batch, t->strides.token, t->heads == 1 ? -3 : t->strides.head };
}

size_t tokens_bytes(const TokenTensor *t) { return (size_t)(t->first + t->batch * t->strides.batch) * tilert_dtype_size(t->dtype); }
int64_t tokens_elements(const TokenTensor *t) { return t->batch * t->tokens * t->heads * t->width; }
tilert_ptr tokens_address(const TokenTensor *t) { return t->buffer.p + (tilert_ptr)((size_t)t->first * tilert_dtype_size(t->dtype)); }

/* Of the i-th token and head. */
static int64_t place(const TokenTensor *t, int64_t i)
{
	return t->first + i / t->heads / t->tokens * t->strides.batch + i / t->heads % t->tokens * t->strides.token + i % t->heads * t->strides.head;
}

void tokens_upload(TokenTensor *t, const void *data, int64_t rows)
{
	const size_t size = tilert_dtype_size(t->dtype), bytes = tokens_bytes(t), row = (size_t)t->width * size;
	unsigned char *laid = memory(bytes);
	memset(laid, 0xff, bytes);
	for (int64_t i = 0; i < rows * t->heads; i++)
		memcpy(laid + (size_t)place(t, i) * size, (const unsigned char *)data + (size_t)i * row, row);
	buffer_free(t->buffer);
	t->buffer = buffer_of(laid, bytes);
	free(laid);
}

void tokens_upload_values(TokenTensor *t, int64_t rows)
{
	const int64_t n = rows * t->heads * t->width;
	void *data = memory((size_t)n * tilert_dtype_size(t->dtype));
	for (int64_t i = 0; i < n; i++) {
		element_store(t->dtype, data, i, t->value[i]);
		t->value[i] = element_load(t->dtype, data, i);
	}
	tokens_upload(t, data, rows);
	free(data);
}

float *tokens_take(const TokenTensor *t, const char *name, int64_t rows)
{
	const size_t size = tilert_dtype_size(t->dtype), bytes = tokens_bytes(t);
	const int64_t written = t->copied ? (t->width + 7) / 8 * 8 : t->width;
	unsigned char *laid = buffer_take(t->buffer);
	float *out = calloc((size_t)tokens_elements(t) + 1, sizeof *out);
	assert_non_null(out);
	for (int64_t i = 0; i < rows * t->heads; i++) {
		const int64_t at = place(t, i);
		for (int64_t j = 0; j < t->width; j++)
			out[i * t->width + j] = (float)element_load(t->dtype, laid, at + j);
		for (int64_t j = t->width; j < written; j++)
			assert_true(element_load(t->dtype, laid, at + j) == 0);
		memset(laid + (size_t)at * size, 0xff, (size_t)written * size);
	}
	for (size_t i = 0; i < bytes; i++) {
		if (laid[i] != 0xff)
			fail_msg("byte %zu of %s, which is no output, was written", i, name);
	}
	free(laid);
	return out;
}

float *tokens_take_cleared(const TokenTensor *t, const char *name, int64_t rows)
{
	const int64_t all = t->batch * t->tokens, width = t->heads * t->width;
	float *out = tokens_take(t, name, all);
	for (int64_t i = rows * width; i < all * width; i++) {
		if (out[i] != 0)
			fail_msg("%s: token %lld is behind the last sequence and not 0", name, (long long)(i / width));
	}
	return out;
}

void integers_upload(Buffer b, const int64_t *x, int64_t n, bool i64)
{
	int32_t *small = memory((size_t)(n + 1) * sizeof *small);
	for (int64_t i = 0; i < n; i++)
		small[i] = (int32_t)x[i];
	if (n)
		OK(tilert_upload(numeric_device(), b.p, i64 ? (const void *)x : small, (size_t)n * (i64 ? 8 : 4)));
	free(small);
}

Buffer integers_of(const int64_t *x, int64_t n, bool i64)
{
	Buffer b = buffer_poisoned((size_t)n * (i64 ? 8 : 4));
	integers_upload(b, x, n, i64);
	return b;
}

int64_t *offsets_of(const int *lengths, int64_t batch, int64_t tokens, int64_t *sequences)
{
	for (*sequences = lengths ? 0 : batch; lengths && lengths[*sequences] >= 0;)
		++*sequences;
	int64_t *offsets = memory((size_t)(*sequences + 1) * sizeof *offsets);
	offsets[0] = 0;
	for (int64_t n = 0; n < *sequences; n++)
		offsets[n + 1] = offsets[n] + (lengths ? lengths[n] : tokens);
	return offsets;
}

int64_t states_place(bool v_first, int64_t K, int64_t V, int64_t i) { return v_first ? i / (K * V) * (K * V) + i % V * K + i / V % K : i; }
