/* verify.h - what the two halves of the verifier share: verify.c holds every op to its row of ops.def, verify_ops.c to what no row says. */
#ifndef TILE_TIR_VERIFY_H
#define TILE_TIR_VERIFY_H

#include "compiler/tir/tir.h"

typedef struct Verifier {
	const Tir *t;
	Value **visible; /* by id; NULL: not in scope */
	uint8_t attrs[OP_COUNT][ATTR_IDS]; /* AttrUse */
	int required[OP_COUNT];
	unsigned ids;
	bool sound;
} Verifier;

/* Reports; false. */
__attribute__((format(printf, 3, 4))) bool verify_bad(Verifier *v, const Op *op, const char *fmt, ...);
/* An operand of a letter's kind. */
bool verify_operand(Verifier *v, const Op *op, int i, char kind);
/* The op's own rules, where its row and operands are sound. */
void verify_rules(Verifier *v, const Op *op);
/* Conditions in an element loop are masks, so its body has no control flow. */
bool verify_in_loop(const Op *op);

#endif
