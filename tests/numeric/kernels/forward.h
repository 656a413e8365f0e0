/* forward.h - what every operator's forward promises of memory: offsets that are read when kernels run, offsets that are none, tensors and slots far apart. */
#ifndef TILE_TESTS_FORWARD_H
#define TILE_TESTS_FORWARD_H

#include "tests/numeric/kernels/pool.h"

enum { FQ, FK, FV, FO, FG, FBETA, FORWARD_TENSORS };

typedef struct ForwardTensor { const TokenTensor *tensor; tilert_ptr *p; tilekern_strides *strides; } ForwardTensor;

/* A call of an operator that is ready to run; `run` is the operator's own. */
typedef struct Forward {
	void *run;
	void (*call)(void *run);              /* and waits; nothing behind the workspace was written */
	void (*check)(void *run), (*poison)(void *run);
	void (*take)(void *run);              /* reads back all that is written, which fails when something else was */
	void *(*prepare)(void *run);
	void (*launch)(void *call, tilert_stream s);
	void (*destroy)(void *call);
	ForwardTensor tensor[FORWARD_TENSORS];
	Pool *pool;
	Buffer cu, a_log, dt_bias;
	bool i64;
	const int *lengths;
	int64_t tokens, sequences, *offsets;
	uint64_t seed;
} Forward;
#define FORWARD_TENSORS_OF(r) { { &(r)->q, &(r)->p.q, &(r)->p.q_strides }, { &(r)->k, &(r)->p.k, &(r)->p.k_strides }, { &(r)->v, &(r)->p.v, &(r)->p.v_strides }, \
	{ &(r)->o, &(r)->p.o, &(r)->p.o_strides }, { &(r)->g, &(r)->p.g, &(r)->p.g_strides }, { &(r)->beta, &(r)->p.beta, &(r)->p.beta_strides } }

/* Parameters that all operators have by the same names, from the tensors and the row of a run. */
#define FORWARD_PARAMS(r) do { \
	(r)->p.batch = (r)->q.batch, (r)->p.tokens = (r)->q.tokens, (r)->p.qk_heads = (r)->q.heads, (r)->p.value_heads = (r)->v.heads; \
	(r)->p.key_dim = (r)->q.width, (r)->p.value_dim = (r)->v.width; \
	(r)->p.dtype = (r)->q.dtype, (r)->p.gate_dtype = (r)->g.dtype, (r)->p.beta_dtype = (r)->beta.dtype; \
	(r)->p.sequences = (r)->row.lengths ? (r)->sequences : 0; \
	(r)->p.seqlens_dtype = (r)->row.lengths_i64 ? TILERT_I64 : TILERT_I32; \
	(r)->p.cu_seqlens = (r)->cu.p; \
	(r)->p.options = (r)->row.options, (r)->p.split = (r)->row.split, (r)->p.scale = (r)->row.scale; \
	forward_tensors((ForwardTensor[])FORWARD_TENSORS_OF(r), (r)->row.strided); \
} while (0)
/* Addresses and, where they are not dense, strides. */
void forward_tensors(const ForwardTensor tensor[FORWARD_TENSORS], bool strided);
/* Strides that are wild along what there is but one of. */
void forward_odd_strides(const ForwardTensor tensor[FORWARD_TENSORS]);

/* What was recorded runs again with other lengths. */
void forward_replayed(const Forward *f);
/* Offsets that are none - negative, descending, beyond the tokens: nothing but the outputs is written, and the call after it is right. */
void forward_wild(const Forward *f);
/* The same of checkpoint_offsets, checkpoint_starts and checkpoint_indices. */
void forward_wild_checkpoints(const Forward *f);
/* One tensor after the other with tokens, or the two rows of a batch, so far apart that element offsets pass 2^31; the gaps are never touched.  K first, contiguous. */
void forward_far_tokens(const Forward *f);
void forward_far_rows(const Forward *f);
/* Two sequences whose slots are more than 2^31 bytes apart, in place.  f32.  CPU device only: a GPU has no memory that is not there until it is touched. */
void forward_far_slots(const Forward *f);

/* Checkpoints that go to slots of the pool that the states are in, in place: the bits of those that go elsewhere.  f32, K first, i32 indices of slots and checkpoints. */
void forward_checkpoints_in_pool(const Forward *f);

/* Of every operator, backwards too: `run` with wild offsets in `cu`, which are as they were afterwards; the n `kept` buffers do not change. */
void offsets_wild(const Forward *f, const Buffer *kept, size_t n, void (*run)(void *user), void *user);

#endif
