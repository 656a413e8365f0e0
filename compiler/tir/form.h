/* form.h - the value of a {layout}: how the elements of a fragment or element loop are spread over threads, those of a shared tile over
 * memory.  What comes of it for a shape and so many warps is compiler/analysis/layout.h's. */
#ifndef TILE_TIR_FORM_H
#define TILE_TIR_FORM_H

#include <stdbool.h>

#include "dsl/support/arena.h"

typedef enum FormKind {
	FORM_MMA,     /* mma, mma8: as products have it; n: columns of a block, 8 or 16 */
	FORM_BLOCKED, /* blocked(m,n), of one dimension blocked(n): the elements that a thread has in a row */
	FORM_ROWS,    /* rows(FORM mxn), cols(FORM mxn): what is left of a form of m rows and n columns when the other dimension goes */
	FORM_COLS,
	FORM_SPREAD,  /* spread(ROWS OR COLS): of what is left each element in one thread, as far as the threads that have copies divide them */
	FORM_LINEAR,
	FORM_SWIZZLE  /* n: bytes, 128, 64 or 32 */
} FormKind;

typedef struct Form {
	FormKind kind;
	int m, n;
	int rank;              /* blocked */
	const struct Form *of; /* rows, cols, spread */
} Form;

extern const Form form_mma, form_mma8, form_linear;

const Form *form_blocked(Arena *a, int m, int n);
const Form *form_blocked_line(Arena *a, int n);
const Form *form_part(Arena *a, FormKind rows_or_cols, const Form *of, int m, int n);
const Form *form_spread(Arena *a, const Form *rows_or_cols);
const Form *form_swizzle(int bytes); /* 0: linear */

const char *form_text(Arena *a, const Form *f);
const Form *form_from_text(Arena *a, const char *text); /* NULL: it is none */
bool form_equal(const Form *a, const Form *b);          /* either may be NULL */

#endif
