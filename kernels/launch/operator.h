/* operator.h - what every operator does: it opens on a device, loads its kernels as calls need them, takes and checks parameters, prepares
 * and launches calls.  An operator is a Family, and its public functions are OPERATOR_FUNCTIONS.  README.md says how to add one. */
#ifndef TILE_LAUNCH_OPERATOR_H
#define TILE_LAUNCH_OPERATOR_H

#include <stddef.h>

#include "args.h"
#include "cache.h"

/* A compiled kernel and what it is chosen by: numbers whose meaning is the operator's, 0 where it has no more. */
enum { AXES = 4 };
typedef struct Variant {
	int axes[AXES];
	const char *kernel;
	const unsigned char *image;
	const size_t *bytes;
} Variant;

typedef struct Operator Operator;

/* A call being made. */
typedef struct Queue { Operator *op; const char *who; Call *call; } Queue;

/* The parameters are the operator's struct, of this library's version. */
typedef struct Family {
	const char *name;          /* what its functions begin with: tilekern_gdn */
	void (*init)(void *p);     /* their defaults */
	size_t size, first;        /* of the parameters: of ours, of their first version */
	const Variant *variants;
	int variant_count;
	tilert_status (*extents)(const char *who, const void *p);                   /* those that workspaces depend on are served */
	tilert_status (*check)(const char *who, const void *p);                     /* the rest of them, but for the workspace */
	bool (*idle)(const void *p);                                                /* there is nothing to do */
	size_t (*workspace)(const void *p, int sm_count);                           /* its bytes; p->extents are checked */
	tilert_status (*queue)(Queue *q, const void *p, int sm_count);              /* by queue_kernel */
	size_t workspace_bytes;    /* where the size_t of the caller's workspace is in the parameters */
} Family;

/* The next kernel of the call: the variant with these axes, loaded if it is not yet, with those of the arguments that it names. */
tilert_status queue_kernel(Queue *q, const int axes[AXES], const Args *all);
/* The same for one of those that all operators share. */
typedef enum SharedKernel { COPY_STATES, DEAL, CLEAR, LARGEST, POWERS, SCALE_BACK, SHARED_KERNELS } SharedKernel;
tilert_status queue_shared(Queue *q, SharedKernel k, const Args *all);

/* The next part of a workspace, whose size so far is in *at. */
enum { WORKSPACE_ALIGN = 256 };
size_t workspace_place(size_t *at, int64_t bytes);

struct Operator { const Family *family; tilert_device *device; int sm_count; struct Loaded *loaded; };

tilert_status operator_open(const Family *f, tilert_device *d, const void *out, Operator **op);
void operator_close(Operator *op);
/* The caller's parameters, of whatever version, with extents that are served, into f->size bytes. */
tilert_status operator_take(const Family *f, const char *who, const void *given, void *p);
tilert_status operator_workspace(const Family *f, const Operator *op, const void *given, size_t *out);
tilert_status operator_prepare(const Family *f, Operator *op, const void *given, const void *out, Call **call);
/* Parameters with a pointer to those of another family. */
typedef struct Inner { const Family *family; size_t at; } Inner;
/* verb: of the function called, NULL: it is called as the family.  inner: or NULL. */
tilert_status operator_run(const Family *f, const Inner *inner, const char *verb, Operator *op, const void *given, tilert_stream s);
tilert_status operator_launch(const Family *f, const Call *c, tilert_stream s);
void operator_call_destroy(Call *c);

#define PREPARE_FUNCTION(NAME, FUNCTION, PARAMS, FAMILY) \
	tilert_status FUNCTION(tilekern_##NAME *x, const PARAMS *p, tilekern_##NAME##_call **out) \
	{ \
		Call *c; \
		tilert_status s = operator_prepare(FAMILY, (Operator *)x, p, out, &c); \
		if (s == TILERT_OK) \
			*out = (tilekern_##NAME##_call *)c; \
		return s; \
	}

/* The functions of tilekern/NAME.h. */
#define OPERATOR_FUNCTIONS(NAME, FAMILY) \
	struct tilekern_##NAME { Operator op; }; \
	tilert_status tilekern_##NAME##_open(tilert_device *d, tilekern_##NAME **out) \
	{ \
		Operator *op; \
		tilert_status s = operator_open(FAMILY, d, out, &op); \
		if (s == TILERT_OK) \
			*out = (tilekern_##NAME *)op; \
		return s; \
	} \
	void tilekern_##NAME##_close(tilekern_##NAME *x) { operator_close((Operator *)x); } \
	tilert_status tilekern_##NAME##_workspace_bytes(tilekern_##NAME *x, const tilekern_##NAME##_params *p, size_t *out) \
	{ \
		return operator_workspace(FAMILY, (Operator *)x, p, out); \
	} \
	PREPARE_FUNCTION(NAME, tilekern_##NAME##_prepare, tilekern_##NAME##_params, FAMILY) \
	tilert_status tilekern_##NAME##_launch(tilekern_##NAME##_call *c, tilert_stream s) { return operator_launch(FAMILY, (Call *)c, s); } \
	void tilekern_##NAME##_call_destroy(tilekern_##NAME##_call *c) { operator_call_destroy((Call *)c); } \
	tilert_status tilekern_##NAME##_forward(tilekern_##NAME *x, const tilekern_##NAME##_params *p, tilert_stream s) \
	{ \
		return operator_run(FAMILY, NULL, "forward", (Operator *)x, p, s); \
	} \
	_Static_assert(sizeof(tilekern_##NAME##_params) <= MAX_PARAMS, "operator.h: MAX_PARAMS is too small")

/* Those of the backward of NAME, on the handle of its forward, whose variants include the backward's and whose family is NAME_family; name of the family: tilekern_NAME_backward. */
#define BACKWARD_FUNCTIONS(NAME, FAMILY) \
	tilert_status tilekern_##NAME##_backward_workspace_bytes(tilekern_##NAME *x, const tilekern_##NAME##_backward_params *p, size_t *out) \
	{ \
		return operator_workspace(FAMILY, (Operator *)x, p, out); \
	} \
	tilert_status tilekern_##NAME##_backward(tilekern_##NAME *x, const tilekern_##NAME##_backward_params *p, tilert_stream s) \
	{ \
		const Inner inner = { NAME##_family, offsetof(tilekern_##NAME##_backward_params, forward) }; \
		return operator_run(FAMILY, &inner, NULL, (Operator *)x, p, s); \
	} \
	PREPARE_FUNCTION(NAME, tilekern_##NAME##_backward_prepare, tilekern_##NAME##_backward_params, FAMILY) \
	_Static_assert(sizeof(tilekern_##NAME##_backward_params) <= MAX_PARAMS, "operator.h: MAX_PARAMS is too small")
enum { MAX_PARAMS = 1024 };

#endif
