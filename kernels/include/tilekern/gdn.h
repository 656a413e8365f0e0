/* tilekern/gdn.h - Gated Delta Net (chunked prefill, forward) on Hopper GPUs and on the CPU device.
 *
 *     tilekern_gdn *gdn;
 *     tilekern_gdn_open(device, &gdn);
 *     tilekern_gdn_params p;
 *     tilekern_gdn_params_init(&p);
 *     p.batch = 1; p.tokens = 8192; p.qk_heads = 16; p.value_heads = 64;
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
 * call.h has what all operators share: conventions, threads, errors, versions.
 */
#ifndef TILEKERN_GDN_H
#define TILEKERN_GDN_H

#include <tilekern/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilekern_gdn tilekern_gdn;

/** The compiled kernels are inside this library.  Each is loaded onto the device when a call first needs it, in tilekern_gdn_prepare or
 *  tilekern_gdn_forward: let that not be while a stream is captured into a graph. */
TILERT_API tilert_status tilekern_gdn_open(tilert_device *d, tilekern_gdn **out);
/** The work queued before must have finished.  Prepared calls may be destroyed later, but no longer launched. */
TILERT_API void tilekern_gdn_close(tilekern_gdn *gdn);

/** Of a chunk and value head: T, fp16, and the gate (kernels/gdn/record.tile). */
enum { TILEKERN_GDN_RECORD_BYTES = 7296 };

/**
 * The arguments.  Tensors are contiguous unless they have strides.  What is written - o, final_state, states, u, records, workspace -
 * must not overlap anything else of the call.
 *
 * Products within a chunk are fp16: v - S^T k, u and scale q.k must stay below 65504 and v should not be much below 1e-5
 * (kernels/gdn/README.md, Domain); what decays below 2^-24 within 64 tokens counts as nothing.  Without L2NORM keys should have norms of at most 1.
 */
typedef struct tilekern_gdn_params {
	size_t size;                       /**< of this struct; set by tilekern_gdn_params_init */
	int64_t batch, tokens;             /**< rows of the tensors and tokens of a row */
	int64_t sequences;                 /**< with cu_seqlens: how many there are; else each row is one */
	int64_t qk_heads, value_heads;     /**< value_heads is a multiple of qk_heads */
	int64_t key_dim, value_dim;        /**< multiples of 8, at most 256 */
	tilert_dtype dtype;                /**< of q, k, v, o: TILERT_BF16 or TILERT_F16 */
	tilert_dtype gate_dtype, beta_dtype; /**< TILERT_F32 or dtype */
	tilert_dtype state_dtype;          /**< of initial_state and final_state: TILERT_F32 or TILERT_BF16 */
	tilert_dtype seqlens_dtype;        /**< TILERT_I32 or TILERT_I64 */
	int state_v_first;                 /**< states are [value_dim][key_dim] instead of [key_dim][value_dim] */
	unsigned options;                  /**< tilekern_options */
	tilekern_split split;
	float scale;                       /**< 0: key_dim^-0.5 */
	tilert_ptr q, k;                   /**< [batch][tokens][qk_heads][key_dim], at multiples of 16 bytes */
	tilert_ptr v;                      /**< [batch][tokens][value_heads][value_dim], at a multiple of 16 bytes */
	tilert_ptr g;                      /**< [batch][tokens][value_heads]: natural logarithm of the decay, <= 0, or the raw gate */
	tilert_ptr beta;                   /**< [batch][tokens][value_heads] */
	tilert_ptr a_log, dt_bias;         /**< f32 [value_heads], with RAW_GATE; dt_bias 0: zeros */
	/** 0, or [sequences + 1] token offsets on the device, ascending from 0; batch is 1 and `tokens` the capacity: the last offset may
	 *  be less (nothing is read or written after it).  Other offsets give wrong numbers, but touch no other memory.  They are read when the kernels run: a captured launch may be replayed with others. */
	tilert_ptr cu_seqlens;
	tilert_ptr initial_state;          /**< state_dtype [sequences][value_heads][key_dim][value_dim], at a multiple of 16; 0: zeros */
	tilert_ptr o;                      /**< [batch][tokens][value_heads][value_dim], written; at a multiple of 16 bytes */
	tilert_ptr final_state;            /**< as initial_state, written; 0: not wanted */
	/** What a backward pass, or a cache of prefixes, may want; 0: not wanted.
	 *  Chunks of 64 tokens are numbered by slots: chunk c of sequence n is slot n ceil(tokens / 64) + c, with cu_seqlens
	 *  floor(cu_seqlens[n] / 64) + n + c; tilekern_gdn_slots tells how many there are.  Slots without tokens
	 *  get no states; their records are those of a chunk that does nothing. */
	tilert_ptr states;                 /**< dtype [slots][value_heads] states, each as initial_state: S as it enters the chunk */
	tilert_ptr u;                      /**< dtype [batch][tokens][value_heads][value_dim]: T (v - k+ S), the rows added to S */
	tilert_ptr records;                /**< [slots][value_heads][TILEKERN_GDN_RECORD_BYTES], bytes at a multiple of 256 */
	tilekern_strides q_strides, k_strides, v_strides, o_strides, g_strides, beta_strides; /**< q, k, v, o: multiples of 8 */
	tilert_ptr workspace;              /**< at a multiple of 256; in use until the work queued has finished */
	size_t workspace_bytes;
} tilekern_gdn_params;

#define TILEKERN_GDN_PARAMS_INIT { sizeof(tilekern_gdn_params), 1, 0, 0, 0, 0, 128, 128, TILERT_BF16, TILERT_F32, TILERT_F32, TILERT_F32, \
	TILERT_I32, 0, 0, TILEKERN_SPLIT_AUTO, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, \
	{ 0, 0, 0 }, { 0, 0, 0 }, 0, 0 }

/** Defaults: contiguous bf16 tensors of 128 channels, f32 gates and states, no options; addresses 0. */
static inline void tilekern_gdn_params_init(tilekern_gdn_params *p)
{
	const tilekern_gdn_params init = TILEKERN_GDN_PARAMS_INIT;
	*p = init;
}

/** Bytes of workspace that a call with these extents needs.  @return TILERT_EINVAL for extents that are not served. */
TILERT_API tilert_status tilekern_gdn_workspace_bytes(tilekern_gdn *gdn, const tilekern_gdn_params *p, size_t *out);

/** Chunks that states and records are numbered by; 0 for extents that are not served. */
TILERT_API int64_t tilekern_gdn_slots(const tilekern_gdn_params *p);

/** Queues the forward pass.  @return TILERT_EINVAL when an argument is wrong; the text names it. */
TILERT_API tilert_status tilekern_gdn_forward(tilekern_gdn *gdn, const tilekern_gdn_params *p, tilert_stream s);

/**
 * The same in two steps, for calls repeated with the same arguments: tilekern_gdn_prepare checks them and builds the tensor maps,
 * tilekern_gdn_launch only queues (a stream being captured into a CUDA graph is fine).  A call belongs to the tilekern_gdn
 * it was prepared with and is launched only while that is open.
 */
typedef struct tilekern_gdn_call tilekern_gdn_call;
TILERT_API tilert_status tilekern_gdn_prepare(tilekern_gdn *gdn, const tilekern_gdn_params *p, tilekern_gdn_call **out);
TILERT_API tilert_status tilekern_gdn_launch(tilekern_gdn_call *c, tilert_stream s);
TILERT_API void tilekern_gdn_call_destroy(tilekern_gdn_call *c);

#ifdef __cplusplus
}
#endif
#endif
