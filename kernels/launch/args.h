/* args.h - everything that the kernels of a call may ask for, by name. */
#ifndef TILE_LAUNCH_ARGS_H
#define TILE_LAUNCH_ARGS_H

#include "checks.h"

enum { MAX_ARGS = 128 };
typedef struct Args { tilert_arg arg[MAX_ARGS]; size_t n; } Args;

/* strides in elements; NULL: contiguous.  An address of 0: absent. */
void args_tensor(Args *a, const char *name, tilert_ptr data, tilert_dtype dtype, int rank, const int64_t *extents, const int64_t *strides);
void args_dim(Args *a, const char *name, int64_t value);
void args_integer(Args *a, const char *name, int64_t value);
void args_float(Args *a, const char *name, double value);

/* A tensor of tokens, of rank 4 where it has a unit above 1, else 3: gates.  far: the kernels' name of its stride of rows, which has 64 bits; or NULL. */
void args_rows(Args *a, const Rows *r, const char *name, const char *far);

/* The name that a tensor of this type has: NAME, NAME16, NAMEf16 for f32, bf16, f16. */
#define ARGS_TYPED(dtype, name) ((dtype) == TILERT_F32 ? name : (dtype) == TILERT_BF16 ? name "16" : name "f16")

/* Prepares k with those that it names. */
tilert_status args_prepare(const char *who, tilert_kernel *k, const Args *all, tilert_prepared **out);

#endif
