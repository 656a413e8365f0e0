/* tilekern/kda.h - Kimi Delta Attention (chunked prefill, forward and backward) on Hopper GPUs and on the CPU device.
 *
 *     tilekern_kda *kda;
 *     tilekern_kda_open(device, &kda);
 *     tilekern_kda_params p;
 *     tilekern_kda_params_init(&p);
 *     p.tokens = 8192; p.qk_heads = p.value_heads = 32;
 *     p.q = q; p.k = k; p.v = v; p.g = g; p.beta = beta; p.o = o;
 *     tilekern_kda_workspace_bytes(kda, &p, &p.workspace_bytes);
 *     tilert_alloc(device, p.workspace_bytes, &p.workspace);
 *     tilekern_kda_forward(kda, &p, stream);
 *
 * For each sequence and value head h, with q and k of head h / (value_heads / qk_heads) and the state S of key_dim x value_dim,
 * token by token:
 *
 *     S <- diag(exp(g_t)) S;   S <- S + beta_t k_t (v_t - S^T k_t)^T;   o_t = scale S^T q_t
 *
 * call.h has what all operators share: conventions, threads, errors, versions; tensors, states, checkpoints, splits.
 */
#ifndef TILEKERN_KDA_H
#define TILEKERN_KDA_H

#include <string.h>
#include <tilekern/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilekern_kda tilekern_kda;

/**
 * The arguments.  An optional address of 0: the tensor is not there, or not wanted.
 *
 * Gates may be any finite numbers up to 0.  Products within a chunk are fp16: k, v - S^T k, u and scale q.k must stay below 65504, and k, v
 * and scale q.k should not be much below 1e-4 (kernels/kda/README.md, Domain); with L2NORM, too, whose norms are taken out behind the
 * products: where q and k have norms of 3e-4 o is off by 5%.  Without L2NORM keys should have norms of at most 1.
 *
 * SPLIT_AUTO and SPLIT_EXACT cut sequences, but not where there are checkpoints, where key_dim is above 128, or where gates are of the type of 16 bits
 * that q, k and v are not of; where final states are in the place of initial ones not in windows of more than 4 chunks (kernels/kda/DESIGN.md); SPLIT_EXACT not with `saved` either.  Else they are SPLIT_OFF.  The backward takes SPLIT_EXACT as SPLIT_OFF,
 * and with `saved` SPLIT_AUTO, too, where the forward that left it was not cut or ran on a GPU with another number of multiprocessors.
 *
 * SPLIT_INVARIANT cuts a sequence of 1,024 tokens or more (kernels/kda/DESIGN.md, Units) where neither those exceptions nor `saved` forbid it and value_heads leave the GPU idle; the backward
 * takes it as SPLIT_OFF.  What is older than 2^-24 is dropped, as with SPLIT_AUTO, and nothing where no window is long enough: then the sequence is not cut.  A sequence that is
 * cut has other bits than its pieces have; whatever is not cut, SPLIT_OFF included, has the same bits in pieces cut at multiples of 64 tokens with f32 states, but where keys are
 * nearly the same: the first 64 tokens of a piece do not know of those before (DESIGN.md, Keys that are alike).
 */
typedef struct tilekern_kda_params {
	size_t size;                         /**< of this struct; set by tilekern_kda_params_init */
	int64_t batch, tokens;               /**< rows of the tensors and tokens of a row */
	int64_t sequences;                   /**< with cu_seqlens: how many there are; else each row is one */
	int64_t qk_heads, value_heads;       /**< value_heads is a multiple of qk_heads */
	int64_t key_dim, value_dim;          /**< 1 .. 256 */
	tilert_dtype dtype;                  /**< of q, k, v, o: TILERT_BF16 or TILERT_F16 */
	tilert_dtype gate_dtype, beta_dtype; /**< TILERT_F32, TILERT_BF16 or TILERT_F16 */
	tilert_dtype a_log_dtype, dt_bias_dtype; /**< TILERT_F32, TILERT_BF16 or TILERT_F16 */
	tilert_dtype state_dtype;            /**< of initial_state and final_state: TILERT_F32, TILERT_BF16 or TILERT_F16 */
	tilert_dtype checkpoint_dtype;       /**< state_dtype or TILERT_F32 */
	tilert_dtype seqlens_dtype;          /**< of cu_seqlens, checkpoint_offsets, checkpoint_starts: TILERT_I32 or TILERT_I64 */
	tilert_dtype indices_dtype;          /**< of state_indices, output_indices, checkpoint_indices: TILERT_I32 or TILERT_I64 */
	int state_v_first;                   /**< states are [value_dim][key_dim] instead of [key_dim][value_dim] */
	unsigned options;                    /**< tilekern_options */
	tilekern_split split;
	float scale;                         /**< 0: key_dim^-0.5 */

	tilert_ptr q, k;                     /**< dtype [batch][tokens][qk_heads][key_dim], at multiples of 16 bytes */
	tilert_ptr v;                        /**< dtype [batch][tokens][value_heads][value_dim], at a multiple of 16 bytes */
	tilert_ptr g;                        /**< gate_dtype [batch][tokens][value_heads][key_dim]: natural logarithm of the decay, or the raw
	                                      *   gate; at a multiple of 16 bytes */
	tilert_ptr beta;                     /**< beta_dtype [batch][tokens][value_heads] */
	tilert_ptr a_log, dt_bias;           /**< [value_heads], at a multiple of 16 bytes, and [value_heads][key_dim], with RAW_GATE; optional: zeros */
	tilert_ptr cu_seqlens;               /**< optional: packed sequences, [sequences + 1] offsets (call.h) */
	tilert_ptr o;                        /**< dtype [batch][tokens][value_heads][value_dim], written; at a multiple of 16 bytes */
	tilekern_strides q_strides, k_strides, v_strides, g_strides, beta_strides, o_strides; /**< all but beta: multiples of 16 bytes */

	/* States (call.h): [slots][value_heads] states in slots that are state_stride elements apart. */
	tilert_ptr initial_state;            /**< optional: zeros; at a multiple of 16 bytes */
	tilert_ptr final_state;              /**< optional, written; at a multiple of 16 bytes; may be initial_state */
	int64_t state_stride;                /**< 0: value_heads x key_dim x value_dim */
	int64_t state_slots;                 /**< with indices: of the pool */
	tilert_ptr state_indices;            /**< optional: the slots of the sequences, [sequences] */
	tilert_ptr output_indices;           /**< optional: those of final states; else state_indices */
	int64_t null_slot;                   /**< indices up to this stand for no slot */
	tilert_ptr has_initial_state;        /**< optional: bytes [sequences]; 0: the sequence starts from zeros */

	/* Checkpoints (call.h): states on the way. */
	tilert_ptr checkpoint_state;         /**< optional, written; at a multiple of 16 bytes */
	int64_t checkpoint_stride;           /**< 0: value_heads x key_dim x value_dim */
	int64_t checkpoint_slots;            /**< rows or slots that there are */
	tilert_ptr checkpoint_offsets;       /**< optional: tokens [sequences] */
	int64_t checkpoint_every;            /**< tokens, a multiple of 64; 0: checkpoint_offsets */
	tilert_ptr checkpoint_starts;        /**< with checkpoint_every: rows [sequences + 1] */
	tilert_ptr checkpoint_indices;       /**< optional: the slots of rows, [sequences], or [checkpoint_slots] with checkpoint_every */

	tilert_ptr workspace;                /**< at a multiple of 256; in use until the work queued has finished */
	size_t workspace_bytes;

	float lower_bound;                   /**< with BOUNDED_GATE: the least log decay, in [-5, 0) */

	tilert_ptr saved;                    /**< optional, written: what the backward of this call then need not compute again; at a multiple of 256.
	                                      *   Gates must have the type of q, k, v or be f32, key_dim and value_dim multiples of 8 */
	size_t saved_bytes;                  /**< tilekern_kda_saved_bytes */
} tilekern_kda_params;

/** Defaults: contiguous bf16 tensors of 128 channels, f32 gates and states, no options, a lower bound of -5; addresses 0. */
static inline void tilekern_kda_params_init(tilekern_kda_params *p)
{
	memset(p, 0, sizeof *p);
	p->size = sizeof *p;
	p->batch = 1;
	p->key_dim = p->value_dim = 128;
	p->dtype = TILERT_BF16;
	p->gate_dtype = p->beta_dtype = p->a_log_dtype = p->dt_bias_dtype = p->state_dtype = p->checkpoint_dtype = TILERT_F32;
	p->seqlens_dtype = p->indices_dtype = TILERT_I32;
	p->null_slot = -1;
	p->lower_bound = -5;
}

/** The operator on a device.  Its kernels are inside this library; each is loaded onto the device when a call first needs it, in
 *  tilekern_kda_prepare or tilekern_kda_forward; that may be while a stream is captured into a graph.
 *  @return TILERT_EINVAL, TILERT_ENOMEM. */
TILERT_API tilert_status tilekern_kda_open(tilert_device *d, tilekern_kda **out);
/** Before closing, wait for the calls that were queued.  Prepared calls may be destroyed later, but no longer launched, nor may graphs that calls were captured
 *  into. */
TILERT_API void tilekern_kda_close(tilekern_kda *kda);

/** Bytes of workspace that a call with these extents, types and optional outputs needs.  More tokens, sequences or heads never need less, so a
 *  workspace for the largest of each serves all calls.  @return TILERT_EINVAL for extents that are not served. */
TILERT_API tilert_status tilekern_kda_workspace_bytes(tilekern_kda *kda, const tilekern_kda_params *p, size_t *out);

/** Bytes of `saved` that a call with these extents needs.  @return TILERT_EINVAL for extents that are not served. */
TILERT_API tilert_status tilekern_kda_saved_bytes(tilekern_kda *kda, const tilekern_kda_params *p, size_t *out);

/** Queues the forward pass.  @return TILERT_EINVAL when an argument is wrong (nothing is queued then); TILERT_ENOMEM, TILERT_EARCH, TILERT_EDEVICE
 *  from the runtime below. */
TILERT_API tilert_status tilekern_kda_forward(tilekern_kda *kda, const tilekern_kda_params *p, tilert_stream s);

/**
 * The same in two steps, for calls repeated with the same arguments: tilekern_kda_prepare checks them and builds the tensor maps (errors as
 * above), tilekern_kda_launch only queues (a stream being captured into a CUDA graph is fine; TILERT_EDEVICE).  A call belongs to the
 * tilekern_kda it was prepared with and is launched only while that is open; several threads may launch it.
 */
typedef struct tilekern_kda_call tilekern_kda_call;
TILERT_API tilert_status tilekern_kda_prepare(tilekern_kda *kda, const tilekern_kda_params *p, tilekern_kda_call **out);
TILERT_API tilert_status tilekern_kda_launch(tilekern_kda_call *c, tilert_stream s);
TILERT_API void tilekern_kda_call_destroy(tilekern_kda_call *c);

/**
 * The backward: gradients of <o, dout> + <final_state, dfinal_state>.  What is wanted has an address; what is not is not computed.  What it needs of
 * the forward is in forward->saved, where that call left it, or made again from the inputs where that is 0.  Every gradient has the same bits in every run.
 *
 * Gates have the type of q, k, v or are f32; key_dim and value_dim are multiples of 8; where value_heads is more than qk_heads or a dim more than 128, batch and
 * value_heads are at most 65535.  Rows of gradients behind the last offset of cu_seqlens are written
 * as 0.  kernels/kda/RESULTS.md has the errors.
 */
typedef struct tilekern_kda_backward_params {
	size_t size;                       /**< of this struct; set by tilekern_kda_backward_params_init */
	/** The forward's: extents, dtypes, options, inputs, initial states, `saved`; its workspace is not looked at, nor what else it writes but for whether that forbids cuts. */
	const tilekern_kda_params *forward;
	tilert_ptr dout;                   /**< as o */
	tilert_ptr dfinal_state;           /**< f32 [sequences][value_heads] states, contiguous, V first as the forward's; 0: zeros */
	tilert_ptr dq, dk, dv, dg, dbeta;  /**< as q, k, v, g, beta, of their dtypes, written; 0: not wanted */
	tilert_ptr da_log, ddt_bias;       /**< f32, as a_log and dt_bias, with RAW_GATE, da_log at a multiple of 16 bytes, written; 0: not wanted */
	tilert_ptr dinitial_state;         /**< as dfinal_state, written, also for a sequence that begins without a state: as of one of zeros; 0: not wanted */
	tilekern_strides dout_strides, dq_strides, dk_strides, dv_strides, dg_strides, dbeta_strides; /**< all but dbeta: multiples of 16 bytes */
	tilert_ptr workspace;              /**< at a multiple of 256; in use until the work queued has finished */
	size_t workspace_bytes;
} tilekern_kda_backward_params;

/** Contiguous tensors; addresses 0. */
static inline void tilekern_kda_backward_params_init(tilekern_kda_backward_params *p)
{
	memset(p, 0, sizeof *p);
	p->size = sizeof *p;
}

/** Bytes of workspace that a call for these gradients needs.  A gradient that is null may make it more: where dv is, its place is there. */
TILERT_API tilert_status tilekern_kda_backward_workspace_bytes(tilekern_kda *kda, const tilekern_kda_backward_params *p, size_t *out);
TILERT_API tilert_status tilekern_kda_backward(tilekern_kda *kda, const tilekern_kda_backward_params *p, tilert_stream s);
/** For tilekern_kda_launch. */
TILERT_API tilert_status tilekern_kda_backward_prepare(tilekern_kda *kda, const tilekern_kda_backward_params *p, tilekern_kda_call **out);

#ifdef __cplusplus
}
#endif
#endif
