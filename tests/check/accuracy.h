/* accuracy.h - how far a result is from a reference in double precision.
 *
 * One ratio over a whole tensor hides an error confined to one tail, one head
 * or a few small rows, so the worst ratio per (sequence, head, chunk) and the
 * largest absolute difference are measured with it.
 */
#ifndef TILE_KERNELS_ACCURACY_H
#define TILE_KERNELS_ACCURACY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Accuracy {
	int64_t not_finite;     /* elements of the result that are NaN or infinite; any makes every ratio infinite */
	double rms_ratio;       /* RMS(reference - result) / (RMS(reference) + 1e-8), over everything */
	double worst_ratio;     /* the largest such ratio of one chunk */
	int64_t worst_sequence, worst_head, worst_chunk;
	double max_abs;         /* the largest absolute difference */
	int64_t max_abs_index;  /* where, as an element index */
} Accuracy;

/* Shape of reference and result: [batch][tokens][heads][width], compared in chunks of `chunk` tokens.
 * A state [batch][heads][K][V] is one token of width K V; a matrix [M][N] is M tokens of one head. */
typedef struct AccuracyShape { int64_t batch, tokens, heads, width, chunk; } AccuracyShape;

Accuracy accuracy_of_floats(const double *reference, const float *result, AccuracyShape s);
Accuracy accuracy_of_bf16(const double *reference, const uint16_t *result, AccuracyShape s);
/* Packed in one row: sequence b of s.batch is tokens offsets[b] .. offsets[b + 1] - 1; s.tokens is not looked at. */
Accuracy accuracy_of_packed(const double *reference, const float *result, AccuracyShape s, const int64_t *offsets);
/* The same, where a chunk's RMS counts as at least this part of the whole's: where little is left, its roundings are those of more. */
Accuracy accuracy_of_packed_least(const double *reference, const float *result, AccuracyShape s, const int64_t *offsets, double least);
/* "rms 4.1e-03, worst 5.0e-03 (sequence 0, head 1, chunk 2), max abs 3.1e-02": into `text`, which is returned. */
char *accuracy_text(const Accuracy *a, char *text, size_t size);

#endif
