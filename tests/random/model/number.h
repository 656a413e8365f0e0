/* number.h - one scalar of any element type and the operations on it, each by the rule of its type: integers wrap, floats are
 * rounded once to nearest even.
 *
 * Written from dsl/LANGUAGE.md, not from the compiler: it must not share its mistakes.
 */
#ifndef TILE_RANDOM_NUMBER_H
#define TILE_RANDOM_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/tir/tir.h"

typedef struct Num {
	union {
		int64_t i; /* integers, wrapped to their type (u64: its bits); bool: 0 or 1 */
		double f;  /* floats: a value that the type has */
	};
	bool undefined; /* never written, or made of such numbers */
} Num;

Num num_int(DType t, int64_t v);
Num num_float(DType t, double v);
Num num_undefined(void);
double num_value(DType t, Num x); /* as a real number */

Num num_decode(DType t, const unsigned char *bytes);
void num_encode(DType t, Num x, unsigned char *bytes);

/* To nearest even in t. */
double num_round(DType t, double v);
Num num_convert(DType from, DType to, Num x);
/* Scalar operations of ops.def; `pred` of OP_CMP; t is the operands' type. */
bool num_has(Opcode code);
Num num_operate(Opcode code, const char *pred, DType t, DType result, const Num *x);

#endif
