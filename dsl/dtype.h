/* dtype.h - element types, shared by the AST, TIR and the back ends; the table is runtime/abi/dtypes.def. */
#ifndef TILE_DTYPE_H
#define TILE_DTYPE_H

#include <stdbool.h>

typedef enum DType {
	DT_NONE,
#define DTYPE(ID, name, bits, kind, digits, least, largest, over, computed) DT_##ID,
#include "runtime/abi/dtypes.def"
#undef DTYPE
} DType;

enum {
	DT_END = 1
#define DTYPE(ID, name, bits, kind, digits, least, largest, over, computed) + 1
#include "runtime/abi/dtypes.def"
#undef DTYPE
};

const char *dtype_name(DType t);
DType dtype_from_name(const char *name); /* DT_NONE when unknown */
unsigned dtype_bits(DType t);
unsigned dtype_bytes(DType t);
bool dtype_is_float(DType t);
bool dtype_is_float8(DType t);
bool dtype_is_int(DType t); /* not bool */
bool dtype_is_signed(DType t);
DType dtype_computed(DType t); /* the type of arithmetic on it: another where it is only stored */
double dtype_largest(DType t); /* finite number of a float */
double dtype_round(DType t, double v); /* to a float's nearest number, ties to even */
bool dtype_holds(DType t, double v);   /* a finite v is rounded to a number near it, not for want of a larger one */

#endif
