/* checks.h - checks of a call's parameters: extents, dtypes, addresses, strides, memory that must not overlap.  Each names what is wrong and
 * the numbers; `who` is the function called. */
#ifndef TILE_LAUNCH_CHECKS_H
#define TILE_LAUNCH_CHECKS_H

#include <stdbool.h>
#include <tilekern/call.h>

/* The caller's parameters, a struct whose first member is its size, into one of `size` bytes that holds defaults: what the caller's version
 * does not have keeps them, what ours does not have must be 0.  `first`: the size of the first version; family: what sets the size is
 * called FAMILY_params_init. */
tilert_status check_version(const char *who, const char *family, const void *given, size_t first, void *params, size_t size);

typedef struct CheckExtent { const char *name; int64_t value, low, high; } CheckExtent;
tilert_status check_extents(const char *who, const CheckExtent *e, size_t n);

/* Heads and dims of an operator of the delta rule. */
typedef struct CheckHeads { int64_t qk_heads, value_heads, key_dim, value_dim, max_key_dim, max_value_dim; } CheckHeads;
tilert_status check_heads(const char *who, const CheckHeads *h);

/* options: only those of `known`, and what they need; a mode of splitting; a finite scale. */
tilert_status check_options(const char *who, unsigned options, unsigned known, tilekern_split split, float scale);

/* `allowed`: TILERT_* of at most four dtypes. */
typedef struct CheckDtype { const char *name; tilert_dtype have; int count; tilert_dtype allowed[4]; } CheckDtype;
tilert_status check_dtypes(const char *who, const CheckDtype *d, size_t n);

typedef struct CheckPointer { const char *name; tilert_ptr p; unsigned align; bool wanted; } CheckPointer;
/* Fails unless every wanted pointer is given and every given pointer is aligned. */
tilert_status check_pointers(const char *who, const CheckPointer *p, size_t n);

/* Memory that a call reads or writes, `bytes` from p on: all of it, or, with a pitch, the first `row` bytes of every `pitch`. */
typedef struct Region { const char *name; tilert_ptr p; int64_t bytes, row, pitch; bool written; } Region;
/* A size of the caller's, whatever it is. */
static inline int64_t region_bytes(size_t n) { return n < INT64_MAX ? (int64_t)n : INT64_MAX; }
/* Nothing that is written overlaps another. */
tilert_status check_apart(const char *who, const Region *r, size_t n);

/* A tensor [batch][tokens][heads]([width]) of a call; `unit`: what its strides are multiples of. */
typedef struct Rows {
	const char *name;
	tilert_ptr p;
	tilert_dtype dtype;
	int64_t batch, tokens, heads, width;
	tilekern_strides given;
	int64_t unit;
	bool written;
} Rows;
/* Those given, or contiguous ones where all are 0; where there is but one of something its stride is replaced, as nothing steps along it.
 * check_strides: of those that are there. */
tilekern_strides rows_strides(const Rows *r);
/* Elements of a row that are read, or written: those are whole 16 bytes. */
int64_t rows_width(const Rows *r);
Region rows_region(const Rows *r);
tilert_status check_strides(const char *who, const Rows *r, size_t n);

#endif
