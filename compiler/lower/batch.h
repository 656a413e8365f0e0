/* batch.h - values over a batch of registers, for element loops: elements.c runs the body, access.c its reads and writes. */
#ifndef TILE_LOWER_BATCH_H
#define TILE_LOWER_BATCH_H

#include "compiler/lower/context.h"

/* A value over a batch: per register, and per pair where it is 16-bit. */
typedef struct Vec { V *s, *p; } Vec;

typedef struct Batch {
	Lower *L;
	const Op *loop;        /* or NULL */
	const Region *body;
	const Layout *layout;
	int first, n;          /* registers first .. first + n */
	V base_row, base_col;
	V holder;              /* where elements have copies: in the thread that does what memory sees; else NULL */
	Vec *vec;              /* by Value id - low_id, of values of the body */
	unsigned low_id;
} Batch;

/* Pairs of these are computed as one. */
static inline bool packable(DType d) { return dtype_is_float(d) && dtype_bits(d) == 16; }

bool in_body(const Batch *x, const Value *v);
V element(Batch *x, const Value *v, int r);      /* of register r */
V pair(Batch *x, const Value *v, int k);         /* of registers 2 k and 2 k + 1 */
Vec *result_vec(Batch *x, const Value *v);
bool paired(const Batch *x);
void emit_access(Batch *x, const Op *op);        /* OP_LOAD, OP_STORE, OP_ATOMIC */

#endif
