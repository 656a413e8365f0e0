/* tensors.h - the tensors of a call in device memory, for all operators: their elements, rows of tokens, where an element of states is. */
#ifndef TILE_TESTS_TENSORS_H
#define TILE_TESTS_TENSORS_H

#include <tilekern/call.h>

#include "tests/numeric/kernels/numeric.h"

double element_load(tilert_dtype dtype, const void *p, int64_t i);
void element_store(tilert_dtype dtype, void *p, int64_t i, double x);

/* A tensor [batch][tokens][heads][width] in a buffer of its own, NaN between its elements when it has strides. */
typedef struct TokenTensor {
	Buffer buffer;
	int64_t batch, tokens, heads, width;
	tilekern_strides strides;
	int64_t first;  /* element of the buffer where it starts */
	tilert_dtype dtype;
	bool copied;    /* by TMA: whole 16 bytes of a row */
	double *value;  /* what the kernels read, where a test keeps it; else NULL */
} TokenTensor;

typedef struct TokenShape { int64_t batch, tokens, heads, width; } TokenShape;
/* Without a buffer. */
TokenTensor tokens_layout(TokenShape s, tilert_dtype dtype, bool copied, bool strided);
/* Its strides, but wild ones along what there is but one of: they are PyTorch's to choose. */
tilekern_strides tokens_odd_strides(const TokenTensor *t);
size_t tokens_bytes(const TokenTensor *t);
int64_t tokens_elements(const TokenTensor *t);
tilert_ptr tokens_address(const TokenTensor *t);
/* Elements in the order of the shape, for `rows` tokens of all batches; the others become NaN: the kernels must not use them. */
void tokens_upload(TokenTensor *t, const void *data, int64_t rows);
/* The same of value[], which becomes what the type made of it. */
void tokens_upload_values(TokenTensor *t, int64_t rows);
/* As floats, those of the first `rows` tokens, zeros for others; fails when anything else of the buffer was written. */
float *tokens_take(const TokenTensor *t, const char *name, int64_t rows);
/* Of all tokens: those behind the first `rows` must be 0. */
float *tokens_take_cleared(const TokenTensor *t, const char *name, int64_t rows);

/* n numbers, as i32 or i64. */
void integers_upload(Buffer b, const int64_t *x, int64_t n, bool i64);
Buffer integers_of(const int64_t *x, int64_t n, bool i64);
/* [sequences + 1] tokens: of packed sequences, whose lengths end with a negative one, or without lengths of a batch. */
int64_t *offsets_of(const int *lengths, int64_t batch, int64_t tokens, int64_t *sequences);

/* Where element i of [..][K][V] is in states that have V first, or not. */
int64_t states_place(bool v_first, int64_t K, int64_t V, int64_t i);

#endif
