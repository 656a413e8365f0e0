/* tilekern/kda.h - Kimi Delta Attention on Hopper GPUs and on the CPU device.
 *
 *     tilekern_kda *kda;
 *     tilekern_kda_open(device, &kda);
 *     tilekern_kda_params p;
 *     tilekern_kda_params_init(&p);
 *     p.batch = 1; p.tokens = 8192; p.qk_heads = 32; p.value_heads = 32;
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
 * call.h has what all operators share: conventions, threads, errors, versions.
 */
#ifndef TILEKERN_KDA_H
#define TILEKERN_KDA_H

#include <string.h>
#include <tilekern/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilekern_kda tilekern_kda;

/** The compiled kernels are inside this library.  Each is loaded onto the device when a call first needs it, in tilekern_kda_prepare or
 *  tilekern_kda_forward: let that not be while a stream is captured into a graph. */
TILERT_API tilert_status tilekern_kda_open(tilert_device *d, tilekern_kda **out);
/** The work queued before must have finished.  Prepared calls may be destroyed later, but no longer launched. */
TILERT_API void tilekern_kda_close(tilekern_kda *kda);

/**
 * The arguments.  Tensors are contiguous unless they have strides.  What is written - o, final_state, workspace - must not overlap anything
 * else of the call.
 *
 * Gates may be any finite numbers up to 0.  Products within a chunk are fp16: k, v - S^T k, u and scale q.k must stay below 65504, and v
 * should not be much below 1e-4 (kernels/kda/README.md, Domain).  Without L2NORM keys should have norms of at most 1.
 */
typedef struct tilekern_kda_params {
	size_t size;                       /**< of this struct; set by tilekern_kda_params_init */
	int64_t batch, tokens;             /**< rows of the tensors and tokens of a row */
	int64_t sequences;                 /**< with cu_seqlens: how many there are; else each row is one */
	int64_t qk_heads, value_heads;     /**< value_heads is a multiple of qk_heads */
	int64_t key_dim, value_dim;        /**< multiples of 8, at most 128 and 256 */
	tilert_dtype dtype;                /**< of q, k, v, o: TILERT_BF16 or TILERT_F16 */
	tilert_dtype gate_dtype, beta_dtype; /**< TILERT_F32 or dtype */
	tilert_dtype state_dtype;          /**< of initial_state and final_state: TILERT_F32 or TILERT_BF16 */
	tilert_dtype seqlens_dtype;        /**< TILERT_I32 or TILERT_I64 */
	int state_v_first;                 /**< states are [value_dim][key_dim] instead of [key_dim][value_dim] */
	unsigned options;                  /**< tilekern_options */
	float scale;                       /**< 0: key_dim^-0.5 */
	float lower_bound;                 /**< with BOUNDED_GATE: in [-5, 0) */
	tilert_ptr q, k;                   /**< [batch][tokens][qk_heads][key_dim], at multiples of 16 bytes */
	tilert_ptr v;                      /**< [batch][tokens][value_heads][value_dim], at a multiple of 16 bytes */
	/** [batch][tokens][value_heads][key_dim], at a multiple of 16 bytes: natural logarithms of the decays, or the raw gate. */
	tilert_ptr g;
	tilert_ptr beta;                   /**< [batch][tokens][value_heads] */
	tilert_ptr a_log, dt_bias;         /**< f32 [value_heads] and [value_heads][key_dim], with RAW_GATE; 0: zeros */
	/** 0, or [sequences + 1] token offsets on the device, ascending from 0; batch is 1 and `tokens` the capacity: the last offset may
	 *  be less (nothing is read or written after it).  Other offsets give wrong numbers, but touch no other memory.  They are read when the kernels run: a captured launch may be replayed with others. */
	tilert_ptr cu_seqlens;
	tilert_ptr initial_state;          /**< state_dtype [sequences][value_heads][key_dim][value_dim], at a multiple of 16; 0: zeros */
	tilert_ptr o;                      /**< [batch][tokens][value_heads][value_dim], written; at a multiple of 16 bytes */
	tilert_ptr final_state;            /**< as initial_state, written; 0: not wanted */
	tilekern_strides q_strides, k_strides, v_strides, o_strides, g_strides, beta_strides; /**< all but beta: multiples of 16 bytes */
	tilert_ptr workspace;              /**< at a multiple of 256; in use until the work queued has finished */
	size_t workspace_bytes;
} tilekern_kda_params;

#define TILEKERN_KDA_PARAMS_INIT { sizeof(tilekern_kda_params), 1, 0, 0, 0, 0, 128, 128, TILERT_BF16, TILERT_F32, TILERT_F32, TILERT_F32, \
	TILERT_I32, 0, 0, 0, -5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, 0, 0 }

/** Defaults: contiguous bf16 tensors of 128 channels, f32 gates and states, no options, a lower bound of -5; addresses 0. */
static inline void tilekern_kda_params_init(tilekern_kda_params *p)
{
	const tilekern_kda_params init = TILEKERN_KDA_PARAMS_INIT;
	*p = init;
}

/** Bytes of workspace that a call with these extents needs.  @return TILERT_EINVAL for extents that are not served. */
TILERT_API tilert_status tilekern_kda_workspace_bytes(tilekern_kda *kda, const tilekern_kda_params *p, size_t *out);

/** Queues the forward pass.  @return TILERT_EINVAL when an argument is wrong; the text names it. */
TILERT_API tilert_status tilekern_kda_forward(tilekern_kda *kda, const tilekern_kda_params *p, tilert_stream s);

/**
 * The same in two steps, for calls repeated with the same arguments: tilekern_kda_prepare checks them and builds the tensor maps,
 * tilekern_kda_launch only queues (a stream being captured into a CUDA graph is fine).  A call belongs to the tilekern_kda
 * it was prepared with and is launched only while that is open.
 */
typedef struct tilekern_kda_call tilekern_kda_call;
TILERT_API tilert_status tilekern_kda_prepare(tilekern_kda *kda, const tilekern_kda_params *p, tilekern_kda_call **out);
TILERT_API tilert_status tilekern_kda_launch(tilekern_kda_call *c, tilert_stream s);
TILERT_API void tilekern_kda_call_destroy(tilekern_kda_call *c);

/**
 * The backward: gradients of <o, dout> + <final_state, dfinal_state>.  What is wanted has an address; what is not is not computed.  The forward is
 * scanned again for what is needed of it: nothing but its inputs is kept.  Every gradient has the same bits in every run.
 *
 * bf16 q, k, v and gates, value_dim up to 128, decays of at least e^-5.4 a token (lower ones are read as that).  Rows of gradients behind the last
 * offset of cu_seqlens are written as 0.  kernels/kda/README.md has the errors.
 */
typedef struct tilekern_kda_backward_params {
	size_t size;                       /**< of this struct; set by tilekern_kda_backward_params_init */
	/** The forward's: extents, dtypes, options, inputs and initial_state; o, final_state and workspace are not looked at. */
	const tilekern_kda_params *forward;
	tilert_ptr dout;                   /**< as o */
	tilert_ptr dfinal_state;           /**< f32, as final_state; 0: zeros */
	tilert_ptr dq, dk, dv, dg, dbeta;  /**< as q, k, v, g, beta, of their dtypes, written; 0: not wanted */
	tilert_ptr da_log, ddt_bias;       /**< f32, as a_log and dt_bias, with RAW_GATE, written; 0: not wanted */
	tilert_ptr dinitial_state;         /**< f32, as initial_state, written; 0: not wanted */
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

/** Bytes of workspace that a call for these gradients, null or not, needs. */
TILERT_API tilert_status tilekern_kda_backward_workspace_bytes(tilekern_kda *kda, const tilekern_kda_backward_params *p, size_t *out);
TILERT_API tilert_status tilekern_kda_backward(tilekern_kda *kda, const tilekern_kda_backward_params *p, tilert_stream s);
/** For tilekern_kda_launch. */
TILERT_API tilert_status tilekern_kda_backward_prepare(tilekern_kda *kda, const tilekern_kda_backward_params *p, tilekern_kda_call **out);

#ifdef __cplusplus
}
#endif
#endif
