/* tilekern/gdn.h - Gated Delta Net (chunked prefill, forward and backward) on Hopper GPUs and on the CPU device.
 *
 *     tilekern_gdn *gdn;
 *     tilekern_gdn_open(device, &gdn);
 *     tilekern_gdn_params p;
 *     tilekern_gdn_params_init(&p);
 *     p.tokens = 8192; p.qk_heads = 16; p.value_heads = 64;
 *     p.q = q; p.k = k; p.v = v; p.g = g; p.beta = beta; p.o = o;
 *     tilekern_gdn_workspace_bytes(gdn, &p, &p.workspace_bytes);
 *     tilert_alloc(device, p.workspace_bytes, &p.workspace);
 *     tilekern_gdn_forward(gdn, &p, stream);
 *
 * For each sequence and value head h, with q and k of head h / (value_heads / qk_heads) and the state S of key_dim x value_dim,
 * token by token:
 *
 *     S <- exp(g_t) S;   S <- S + beta_t k_t (v_t - S^T k_t)^T;   o_t = scale S^T q_t
 *
 * call.h has what all operators share: conventions, threads, errors, versions; tensors, states, checkpoints, splits.
 */
#ifndef TILEKERN_GDN_H
#define TILEKERN_GDN_H

#include <string.h>
#include <tilekern/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilekern_gdn tilekern_gdn;

/** Of a chunk and value head: T, fp16, and the gate (kernels/gdn/record.tile). */
enum { TILEKERN_GDN_RECORD_BYTES = 7296 };

/**
 * The arguments.  An optional address of 0: the tensor is not there, or not wanted.
 *
 * Products within a chunk are fp16: v - S^T k, u and scale q.k must stay below 65504 and v should not be much below 1e-5
 * (kernels/gdn/README.md, Domain); what decays below 2^-24 within 64 tokens counts as nothing.  Without L2NORM keys should have norms of at most 1.
 */
typedef struct tilekern_gdn_params {
	size_t size;                         /**< of this struct; set by tilekern_gdn_params_init */
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
	tilert_ptr g;                        /**< gate_dtype [batch][tokens][value_heads]: natural logarithm of the decay, <= 0, or the raw gate */
	tilert_ptr beta;                     /**< beta_dtype [batch][tokens][value_heads] */
	tilert_ptr a_log, dt_bias;           /**< [value_heads], with RAW_GATE, at multiples of 16 bytes; dt_bias is optional: zeros */
	tilert_ptr cu_seqlens;               /**< optional: packed sequences, [sequences + 1] offsets (call.h) */
	tilert_ptr o;                        /**< dtype [batch][tokens][value_heads][value_dim], written; at a multiple of 16 bytes */
	tilekern_strides q_strides, k_strides, v_strides, g_strides, beta_strides, o_strides; /**< q, k, v, o: multiples of 8 */

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

	/* What a backward pass may want.  Chunks of 64 tokens are numbered by slots: chunk c of sequence n is slot n ceil(tokens / 64) + c, with
	 * cu_seqlens floor(cu_seqlens[n] / 64) + n + c; tilekern_gdn_slots tells how many there are.  Slots without tokens get no states;
	 * their records are those of a chunk that does nothing. */
	tilert_ptr states;                   /**< optional, written: dtype [slots][value_heads] states: S as it enters the chunk; at a multiple of 16 */
	tilert_ptr u;                        /**< optional, written: dtype [batch][tokens][value_heads][value_dim]: T (v - k+ S), the rows added to S */
	tilert_ptr records;                  /**< optional, written: [slots][value_heads][TILEKERN_GDN_RECORD_BYTES] at a multiple of 256 */
} tilekern_gdn_params;

/** Defaults: contiguous bf16 tensors of 128 channels, f32 gates and states, no options; addresses 0. */
static inline void tilekern_gdn_params_init(tilekern_gdn_params *p)
{
	memset(p, 0, sizeof *p);
	p->size = sizeof *p;
	p->batch = 1;
	p->key_dim = p->value_dim = 128;
	p->dtype = TILERT_BF16;
	p->gate_dtype = p->beta_dtype = p->a_log_dtype = p->dt_bias_dtype = p->state_dtype = p->checkpoint_dtype = TILERT_F32;
	p->seqlens_dtype = p->indices_dtype = TILERT_I32;
	p->null_slot = -1;
}

/** The operator on a device.  Its kernels are inside this library; each is loaded onto the device when a call first needs it, in
 *  tilekern_gdn_prepare or tilekern_gdn_forward; that may be while a stream is captured into a graph.
 *  @return TILERT_EINVAL, TILERT_ENOMEM. */
TILERT_API tilert_status tilekern_gdn_open(tilert_device *d, tilekern_gdn **out);
/** Before closing, wait for the calls that were queued.  Prepared calls may be destroyed later, but no longer launched, nor may graphs that calls were captured
 *  into. */
TILERT_API void tilekern_gdn_close(tilekern_gdn *gdn);

/** Bytes of workspace that a call with these extents, types and optional outputs needs.  More tokens, sequences or heads never need less, so a
 *  workspace for the largest of each serves all calls.  @return TILERT_EINVAL for extents that are not served. */
TILERT_API tilert_status tilekern_gdn_workspace_bytes(tilekern_gdn *gdn, const tilekern_gdn_params *p, size_t *out);

/** Chunks that states and records are numbered by; 0 for extents that are not served. */
TILERT_API int64_t tilekern_gdn_slots(const tilekern_gdn_params *p);

/** Queues the forward pass.  @return TILERT_EINVAL when an argument is wrong (nothing is queued then); TILERT_ENOMEM, TILERT_EARCH, TILERT_EDEVICE
 *  from the runtime below. */
TILERT_API tilert_status tilekern_gdn_forward(tilekern_gdn *gdn, const tilekern_gdn_params *p, tilert_stream s);

/**
 * The same in two steps, for calls repeated with the same arguments: tilekern_gdn_prepare checks them and builds the tensor maps (errors as
 * above), tilekern_gdn_launch only queues (a stream being captured into a CUDA graph is fine; TILERT_EDEVICE).  A call belongs to the
 * tilekern_gdn it was prepared with and is launched only while that is open; several threads may launch it.
 */
typedef struct tilekern_gdn_call tilekern_gdn_call;
TILERT_API tilert_status tilekern_gdn_prepare(tilekern_gdn *gdn, const tilekern_gdn_params *p, tilekern_gdn_call **out);
TILERT_API tilert_status tilekern_gdn_launch(tilekern_gdn_call *c, tilert_stream s);
TILERT_API void tilekern_gdn_call_destroy(tilekern_gdn_call *c);

/**
 * The backward: gradients of <o, dout> + <final_state, dfinal_state>.  What is wanted has an address; what is not is not computed.  Every gradient has the same
 * bits in every run.  Where forward->states, u and records are given they are what the forward left there; else the forward is scanned again for
 * them, and only its inputs need be kept.
 *
 * key_dim and value_dim are multiples of 8 up to 256; a key_dim above 128 takes slower kernels.  With fp16 dout and dfinal_state may be of any size, too: what is
 * fp16 on the way is scaled by a power of two (kernels/gdn/README.md, Backward).  Rows of gradients behind the last offset of cu_seqlens are written as 0.
 * kernels/gdn/RESULTS.md has the errors.
 */
typedef struct tilekern_gdn_backward_params {
	size_t size;                       /**< of this struct; set by tilekern_gdn_backward_params_init */
	/** The forward's: extents, dtypes, options, inputs, initial states, what it saved; o, final states and its workspace are not looked at. */
	const tilekern_gdn_params *forward;
	tilert_ptr dout;                   /**< as o */
	tilert_ptr dfinal_state;           /**< f32 [sequences][value_heads] states, contiguous, V first as the forward's; 0: zeros */
	tilert_ptr dq, dk, dv, dg, dbeta;  /**< as q, k, v, g, beta, of their dtypes, written; 0: not wanted */
	tilert_ptr da_log, ddt_bias;       /**< f32 [value_heads], with RAW_GATE, at multiples of 16 bytes, written; 0: not wanted */
	tilert_ptr dinitial_state;         /**< as dfinal_state, written, also for a sequence that begins without a state: as of one of zeros; 0: not wanted */
	tilekern_strides dout_strides, dq_strides, dk_strides, dv_strides, dg_strides, dbeta_strides; /**< those of dout, dq, dk, dv: multiples of 8 */
	tilert_ptr workspace;              /**< at a multiple of 256; in use until the work queued has finished */
	size_t workspace_bytes;
} tilekern_gdn_backward_params;

/** Contiguous tensors; addresses 0. */
static inline void tilekern_gdn_backward_params_init(tilekern_gdn_backward_params *p)
{
	memset(p, 0, sizeof *p);
	p->size = sizeof *p;
}

/** Bytes of workspace that a call for these gradients needs.  A gradient that is null may make it more: where dv is, its place is there. */
TILERT_API tilert_status tilekern_gdn_backward_workspace_bytes(tilekern_gdn *gdn, const tilekern_gdn_backward_params *p, size_t *out);
TILERT_API tilert_status tilekern_gdn_backward(tilekern_gdn *gdn, const tilekern_gdn_backward_params *p, tilert_stream s);
/** For tilekern_gdn_launch. */
TILERT_API tilert_status tilekern_gdn_backward_prepare(tilekern_gdn *gdn, const tilekern_gdn_backward_params *p, tilekern_gdn_call **out);

#ifdef __cplusplus
}
#endif
#endif
