/* tilekern/call.h - what the operators of the kernel library share.
 *
 * An operator OP has a header tilekern/OP.h, a handle tilekern_OP and parameters tilekern_OP_params:
 *
 *     tilekern_OP_open              the operator on a device
 *     tilekern_OP_params_init       the parameters with their defaults
 *     tilekern_OP_workspace_bytes   what a call needs
 *     tilekern_OP_forward           checks the parameters and queues the work
 *     tilekern_OP_prepare, _launch  the same in two steps, for calls that are repeated
 *
 * Conventions are those of tilert.h: functions return a tilert_status and leave `out` parameters alone where they fail; NULL is no handle
 * and TILERT_EINVAL, but _close and _call_destroy accept it.  Nothing here allocates device memory or waits for the GPU; work is
 * queued on the stream given.  Every function may be called from several threads with the same handle, which is closed when nobody uses it
 * any more; the device must outlive it.
 *
 * Parameters.  The struct grows at its end: functions take an older, shorter one, whose later fields have their defaults, and a newer one
 * with zeros behind what they know.
 */
#ifndef TILEKERN_CALL_H
#define TILEKERN_CALL_H

#include <tilert/tilert.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Of these headers: 10000 major + 100 minor + patch.  Minor ones add fields and functions. */
#define TILEKERN_VERSION 100
/** Of the library that is linked. */
TILERT_API int tilekern_version(void);

/** Text for the last failure of a function of tilekern on this thread, with the names and numbers involved - also where the runtime or the
 *  driver failed below it: no other function need be asked.  Valid until the next failure; never NULL. */
TILERT_API const char *tilekern_last_error(void);

/** What a call computes from its raw inputs; or-ed together. */
typedef enum tilekern_options {
	TILEKERN_L2NORM = 1,       /**< q and k are divided by sqrt(sum of squares + 1e-6), per token and head */
	TILEKERN_RAW_GATE = 2,     /**< the log decay is -exp(a_log) softplus(g + dt_bias) */
	TILEKERN_SIGMOID_BETA = 4, /**< beta is sigmoid(beta) */
	TILEKERN_TWICE_BETA = 8,   /**< with SIGMOID_BETA: 2 sigmoid(beta), which allows negative eigenvalues */
	TILEKERN_BOUNDED_GATE = 16 /**< with RAW_GATE, KDA: the log decay is lower_bound sigmoid(exp(a_log) (g + dt_bias)) */
} tilekern_options;

/** How a long sequence of few heads is spread over the GPU. */
typedef enum tilekern_split {
	TILEKERN_SPLIT_AUTO,  /**< where it is faster; history whose decay is below 2^-24 is dropped */
	TILEKERN_SPLIT_EXACT, /**< where it is faster; nothing is dropped */
	TILEKERN_SPLIT_OFF
} tilekern_split;

/** Of a tensor [batch][tokens][heads][channels], in elements; channels are contiguous.  All zero: contiguous.  Tokens and heads are less
 *  than 2^31 apart, rows 2^38; the stride of what there is but one of may be anything. */
typedef struct tilekern_strides { int64_t batch, token, head; } tilekern_strides;

#ifdef __cplusplus
}
#endif
#endif
