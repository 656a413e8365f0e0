/* reference.h - attention and its gradients in double precision, for sequences that lie one behind the other. */
#ifndef ATTENTION_REFERENCE_H
#define ATTENTION_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Attention {
	int64_t sequences, heads, key_heads, width;
	int32_t *q_start, *k_start; /* sequences + 1 each: the rows of a sequence */
	bool causal;
	int64_t window; /* 0: none */
	double cap;     /* 0: none */
	double scale;
	const float *q, *k, *v; /* [row][head][width] */
} Attention;

/* o [width] and lse of query i of a sequence, for one head.  p [keys]: the probabilities, or NULL. */
void attention_row(const Attention *a, int64_t sequence, int64_t i, int64_t head, double *o, double *lse, double *p);
/* What d_o [row][head][width] makes of q, k and v; dq, dk, dv are zero before. */
void attention_gradients(const Attention *a, const float *d_o, double *dq, double *dk, double *dv);

#endif
