/* call.h - what the C launchers share: the error text, checks of arguments, kernels prepared with arguments by name. */
#ifndef TILE_KERNELS_CALL_H
#define TILE_KERNELS_CALL_H

#include <stdbool.h>
#include <tilekern/error.h>

/* Sets the text of tilekern_last_error() and returns s. */
__attribute__((format(printf, 2, 3))) tilert_status call_fail(tilert_status s, const char *format, ...);
/* What a function of the runtime returned, with our context before its text. */
tilert_status call_passed_on(tilert_status s, const char *what);

/* The caller's parameters, a struct whose first member is its size, into one of `size` bytes that holds defaults: what the caller's version
 * does not have keeps them, what ours does not have must be 0.  `first`: the size of the first version; init: what sets the size. */
tilert_status call_take_params(const char *who, const char *init, const void *given, size_t first, void *params, size_t size);

typedef struct CallPointer { const char *name; tilert_ptr p; unsigned align; bool wanted; } CallPointer;
/* Those wanted are there, all are aligned. */
tilert_status call_check_pointers(const char *who, const CallPointer *p, size_t n);

/* Memory that a call reads or writes, `bytes` from p on: all of it, or, with a pitch, the first `row` bytes of every `pitch`. */
typedef struct CallRegion { const char *name; tilert_ptr p; int64_t bytes, row, pitch; bool written; } CallRegion;
/* Nothing that is written overlaps another. */
tilert_status call_check_apart(const char *who, const CallRegion *r, size_t n);

/* A tensor [batch][tokens][heads][width], heads of `width` contiguous elements. */
typedef struct CallTokens { int64_t batch, tokens, heads, width; } CallTokens;
typedef struct CallStrides { int64_t batch, token, head; } CallStrides;
/* Those given, or contiguous ones where all are 0; where there is but one of something its stride is replaced, as nothing steps along it. */
CallStrides call_strides(const CallTokens *t, CallStrides given);
/* Of tensor `name`: in range, multiples of `unit`. */
tilert_status call_check_strides(const char *who, const char *name, const CallTokens *t, CallStrides given, int64_t unit);
CallRegion call_region(const char *name, tilert_ptr p, const CallTokens *t, CallStrides s, size_t element, bool written);

typedef struct CallExtent { const char *name; int64_t value, low, high; } CallExtent;
tilert_status call_check_extents(const char *who, const CallExtent *e, size_t n);

/* Everything that the kernels of a call may ask for, by name. */
enum { CALL_MAX_ARGS = 48 };
typedef struct CallArgs { tilert_arg arg[CALL_MAX_ARGS]; size_t n; } CallArgs;

/* strides in elements; NULL: contiguous.  An address of 0: absent. */
void call_tensor(CallArgs *a, const char *name, tilert_ptr data, tilert_dtype dtype, int rank, const int64_t *extents, const int64_t *strides);
void call_dim(CallArgs *a, const char *name, int64_t value);
void call_integer(CallArgs *a, const char *name, int64_t value);
void call_float(CallArgs *a, const char *name, double value);

/* What a call queues, in this order. */
enum { CALL_MAX_LAUNCHES = 4 };
typedef struct CallList { tilert_prepared *launch[CALL_MAX_LAUNCHES]; int n; } CallList;

/* Prepares a kernel, with those of the arguments that it names, as the list's next. */
tilert_status call_add(CallList *c, const char *who, tilert_kernel *k, const CallArgs *all);
tilert_status call_launch(const CallList *c, const char *who, tilert_stream s);
void call_clear(CallList *c);

#endif
