/* frame.h - a call of an operator: the tensors that it holds, what is wrong with them, and what it gives back. */
#ifndef TILEKERN_TORCH_FRAME_H
#define TILEKERN_TORCH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <tilert/tilert.h>

#include "shim.h"

/* A kernel may not return with an exception's tensors held, so failures are noted in the frame and thrown by frame_end, when all is released. */
enum { FRAME_TENSORS = 40, FRAME_TEXT = 600 };
typedef struct Frame {
	const char *op;                 /* tilekern::gdn_fwd */
	Tensor held[FRAME_TENSORS];
	int n;
	bool failed, is_value;          /* a ValueError, else a RuntimeError */
	bool nones;                     /* outputs that are not wanted are None, not tensors without elements: each of those costs what a real one does */
	char text[FRAME_TEXT];
	const char *first_name;         /* of the first tensor that was taken, whose device and type others have; NULL: none yet */
	tilert_dtype first;
	int32_t device, index;
	struct Dim { int64_t n; const char *of; int axis; } dims[26]; /* by letter; `of` is NULL: not known yet */
} Frame;

/* What a tensor may be.  axes: a letter for each, that stands for the same extent wherever it is. */
typedef enum Types { ANY_FLOAT, HALF, SAME, F32, INDEX, BYTES } Types; /* HALF: bf16 or fp16; SAME: as the first tensor */
typedef enum Layout { ROWS, ROWS_16, DENSE } Layout; /* strides of any size; multiples of 16 bytes, the last one 1; contiguous */
typedef struct Arg { const char *name, *axes; Types types; Layout layout; bool optional, written; } Arg;

enum { MAX_AXES = 4 };
typedef struct Given {
	Tensor t; /* NULL: absent */
	tilert_ptr p;
	tilert_dtype type;
	int64_t sizes[MAX_AXES], strides[MAX_AXES];
} Given;

void frame_begin(Frame *f, const char *op, bool nones);
/* Holds the stack's tensors from here on: `optional` as the schema has it. */
Tensor frame_hold(Frame *f, Value v, bool optional);
/* Checks a tensor, and copies it to where its strides fit; false: it failed. */
bool frame_take(Frame *f, const Arg *a, Tensor t, Given *out);
/* A new tensor on the frame's device; it is the frame's until frame_end gives it back. */
bool frame_new(Frame *f, int rank, const int64_t *sizes, tilert_dtype type, Given *out);
/* In place of an output that is not wanted: a tensor of these extents, one of which is 0, or None. */
bool frame_unwanted(Frame *f, int rank, const int64_t *sizes, tilert_dtype type, Given *out);
bool frame_bytes(Frame *f, size_t bytes, size_t align, Given *out);
int64_t frame_dim(const Frame *f, char letter);
/* An extent that no tensor has as it is; of: what it is counted of. */
void frame_count(Frame *f, char letter, int64_t n, const char *of);
bool frame_fail(Frame *f, bool is_value, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Gives the outputs back, or throws. */
void frame_end(Frame *f, Value *stack, const Given *outputs, int n);

double value_double(Value v);
static inline bool value_bool(Value v) { return (uint8_t)v != 0; } /* the bytes above it may be anything */

#endif
