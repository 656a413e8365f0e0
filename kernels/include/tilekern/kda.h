/* tilekern/kda.h - Kimi Delta Attention on Hopper GPUs and on the CPU device.
 *
 *     tilekern_kda *kda;
 *     tilekern_kda_open(device, &kda);
 *     tilekern_kda_params p;
 *     tilekern_kda_params_init(&p);
 *     p.batch = 1; p.tokens = 8192; p.heads = 96;
 *     p.q = q; p.k = k; p.v = v; p.g = g; p.beta = beta; p.o = o;
 *     tilekern_kda_workspace_bytes(kda, &p, &p.workspace_bytes);
 *     tilert_alloc(device, p.workspace_bytes, &p.workspace);
 *     tilekern_kda_forward(kda, &p, stream);
 *
 * What is computed, for each sequence and head, with the state S of 128 x 128
 * (rows: keys, columns: values) and token by token:
 *
 *     S <- diag(exp(g_t)) S;   S <- S + beta_t k_t (v_t - S^T k_t)^T;   o_t = scale S^T q_t
 *
 * call.h has what all operators share: conventions, threads, errors, versions.
 */
#ifndef TILEKERN_KDA_H
#define TILEKERN_KDA_H

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
 * The arguments.  Tensors are contiguous and start at multiples of 16 bytes.  What is written - o, final_state, workspace - must not
 * overlap anything else of the call.
 *
 * q and k are used as they are: normalise their rows (a norm above 1 makes the inverse within a chunk inaccurate).
 * v - S^T k, the values that the state is corrected by and scale q k are operands in fp16: below 65504 (beyond, the results
 * of that sequence and head are infinite or NaN), and accurate for v of 1e-4 RMS or more.
 */
typedef struct tilekern_kda_params {
	size_t size;                 /**< of this struct; set by tilekern_kda_params_init */
	int64_t batch, tokens, heads;
	int64_t key_dim, value_dim;  /**< 128 */
	tilert_dtype gate_dtype;     /**< TILERT_F32 or TILERT_BF16 */
	float scale;                 /**< 0: key_dim^-0.5 */
	tilert_ptr q, k, v;          /**< bf16 [batch][tokens][heads][128] */
	tilert_ptr g;                /**< gate_dtype [batch][tokens][heads][128]: natural logarithms of the decays, in [-5, 0];
	                                  *   below -5.4 they are read as -5.4 */
	tilert_ptr beta;             /**< f32 [batch][tokens][heads], in [0, 1] */
	tilert_ptr initial_state;    /**< f32 [batch][heads][128][128]; 0: zeros */
	tilert_ptr o;                /**< bf16 [batch][tokens][heads][128], written */
	tilert_ptr final_state;      /**< f32 [batch][heads][128][128], written; 0: not wanted */
	tilert_ptr workspace;        /**< at a multiple of 256; in use until the work queued has finished */
	size_t workspace_bytes;
} tilekern_kda_params;

#define TILEKERN_KDA_PARAMS_INIT { sizeof(tilekern_kda_params), 0, 0, 0, 128, 128, TILERT_F32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Defaults. */
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

#ifdef __cplusplus
}
#endif
#endif
