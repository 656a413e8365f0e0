/* tilekern/call.h - what the operators of the kernel library share.
 *
 * An operator OP has a header tilekern/OP.h, a handle tilekern_OP and parameters tilekern_OP_params:
 *
 *     tilekern_OP_open              the operator on a device
 *     tilekern_OP_params_init       the parameters with their defaults
 *     tilekern_OP_workspace_bytes   what a call needs
 *     tilekern_OP_forward           checks the parameters and queues the work; parameters that are equal to those of one of the
 *                                   last 256 calls of this handle are not checked again, which saves the host microseconds
 *     tilekern_OP_prepare, _launch  the same in two steps, for calls that are repeated: the least work for the host.  Except on a stream
 *                                   that is being captured, a call's kernels are then one CUDA graph (tilert_chain_create says what that costs)
 *
 * Conventions are those of tilert.h: functions return a tilert_status and leave `out` parameters alone where they fail; a NULL
 * handle is TILERT_EINVAL, except that _close and _call_destroy accept it.  Nothing here waits for the GPU or allocates device memory, except for .1 MB that the driver takes
 * in _prepare; work is queued on the stream given.  Every function may be called from several threads with the same handle, which is closed when nobody uses it
 * any more; the device must outlive it.
 *
 * Every function may be called while a stream is captured into a CUDA graph, by this thread or another; what is queued on that stream is captured.  Such a
 * graph has copies of what its kernels are given: it needs the tensors, the workspace and the open handle, while a prepared call that was captured may
 * be destroyed.
 *
 * Parameters.  The struct grows at its end: functions accept an older, shorter one, whose missing fields have their defaults, and a newer one
 * if it has zeros behind what they know.
 */
#ifndef TILEKERN_CALL_H
#define TILEKERN_CALL_H

#include <tilert/tilert.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Of these headers: 10000 major + 100 minor + patch.  Minor versions add fields and functions. */
#define TILEKERN_VERSION 100
/** Of the library that is linked. */
TILERT_API int tilekern_version(void);

/** Text for the last failure of a function of tilekern on this thread, with the names and numbers involved - also where the runtime or the
 *  driver failed below it: no other function has to be asked.  Valid until the next failure; never NULL. */
TILERT_API const char *tilekern_last_error(void);

/** What a call computes from its raw inputs; or-ed together. */
typedef enum tilekern_options {
	TILEKERN_L2NORM = 1,       /**< q and k are divided by sqrt(sum of squares + 1e-6), per token and head */
	TILEKERN_RAW_GATE = 2,     /**< the log decay is -exp(a_log) softplus(g + dt_bias) */
	TILEKERN_SIGMOID_BETA = 4, /**< beta is sigmoid(beta) */
	TILEKERN_TWICE_BETA = 8,   /**< with SIGMOID_BETA: 2 sigmoid(beta), which allows negative eigenvalues */
	TILEKERN_BOUNDED_GATE = 16 /**< with RAW_GATE, KDA: the log decay is lower_bound sigmoid(exp(a_log) (g + dt_bias)) */
} tilekern_options;

/** How a long sequence of few heads is spread over the GPU.  Every mode gives the same bits in every run of the same call. */
typedef enum tilekern_split {
	TILEKERN_SPLIT_AUTO,     /**< where it is faster; history whose decay is below 2^-24 is dropped */
	TILEKERN_SPLIT_EXACT,    /**< where it is faster; nothing is dropped */
	TILEKERN_SPLIT_OFF,      /**< nowhere: a sequence gives the same bits whatever it is packed with, and in pieces cut at multiples of 64 tokens with f32 states (KDA: but where keys are nearly the same, tilekern/kda.h) */
	/** By its own length, the heads and dims alone: a sequence gives the same bits whatever it is packed with.  GDN: with n =
	 *  value_heads x ceil(value_dim / 128), one of less than 2 x max(24, n^2 / 16) chunks of 64 tokens, and any where n is more than half of the GPU's
	 *  multiprocessors, is not cut: it gives these bits in pieces cut at multiples of 64 tokens with f32 states, too.  KDA: so does one of up to 992 tokens; tilekern/kda.h
	 *  has the rest. */
	TILEKERN_SPLIT_INVARIANT
} tilekern_split;

/*
 * Tensors.
 *
 * Those of tokens are [batch][tokens][heads][channels] with contiguous channels.  Copies of q, k, v and o (TMA) need starts at multiples of 16 bytes and
 * strides that are multiples of 8 elements: 60 channels are served in rows of 64, but not contiguous heads of 60.  Rows that a
 * call writes are filled with zeros up to the next multiple of 8 channels.
 *
 * What a call writes must not overlap anything else of the call, nor itself by its strides, except that final_state may be initial_state (below), and checkpoint_state the same pool,
 * whose slots then are to be different ones, which is not looked at; tensors interleaved in one buffer
 * (q, k, v in a convolution's output) are fine.
 *
 * Packed sequences.  cu_seqlens are sequences + 1 token offsets on the device, ascending from 0; batch is 1 and `tokens` the capacity: the last
 * offset may be less, and nothing is read or written after it.  Sequences may have no tokens.  Other offsets give wrong numbers, but touch
 * no other memory.  They, all indices and offsets below, are read when the kernels run: a captured launch may be replayed with others.
 *
 * States.  Sequence n starts from the states in slot n of initial_state and leaves them in slot n of final_state.  Slots are state_stride elements apart,
 * 2^31 bytes and more if need be, and within one the heads and their states are contiguous.  With state_indices it is slot state_indices[n] of a pool
 * of state_slots, for final_state slot output_indices[n] where those are given.  An index up to null_slot (0 for vLLM, -1 for SGLang), a negative one, or
 * one beyond the pool names no slot: it reads as zeros and nothing is stored.  Of 64-bit indices the low 32 bits count.  final_state may be initial_state, by
 * the same stride; then, and always, a slot that is written belongs to one sequence, and another one does not read it.  Without tokens a final
 * state is the initial one.
 *
 * Checkpoints are the states of a sequence after some of its tokens, the same bits as the final state of a call that ends there (SPLIT_OFF, or where it is
 * not cut).  Either checkpoint_offsets has for each sequence a number of its tokens, a multiple of 64, or 0: none; its row is the sequence's number.  Or
 * there is one every checkpoint_every tokens: those of sequence n go to rows checkpoint_starts[n] and on, one for each whole checkpoint_every of its
 * length.  Row r is slot r of checkpoint_state, with checkpoint_indices slot checkpoint_indices[r], null as above.  Offsets beyond a
 * sequence's end or between multiples, rows and slots beyond checkpoint_slots are not stored.
 */

/** Of a tensor [batch][tokens][heads][channels], in elements; channels are contiguous.  All zero: contiguous.  Tokens and heads are less
 *  than 2^31 apart, rows (and slots of states) 2^38; the stride of an extent of 1 may be anything. */
typedef struct tilekern_strides { int64_t batch, token, head; } tilekern_strides;

#ifdef __cplusplus
}
#endif
#endif
