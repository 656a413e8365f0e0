#include "tests/check/accuracy.h"

#include <math.h>
#include <stdio.h>

#include "tests/check/float16.h"

static double ratio(double error, double reference, double n)
{
	return n > 0 ? sqrt(error / n) / (sqrt(reference / n) + 1e-8) : 0;
}

/* The mean square of the reference. */
static double mean_square(const double *reference, AccuracyShape s, const int64_t *offsets)
{
	double sum = 0;
	int64_t n = 0;
	for (int64_t b = 0; b < s.batch; b++) {
		const int64_t row = s.heads * s.width, first = (offsets ? offsets[b] : b * s.tokens) * row, last = (offsets ? offsets[b + 1] : (b + 1) * s.tokens) * row;
		n += last - first;
		for (int64_t i = first; i < last; i++)
			sum += reference[i] * reference[i];
	}
	return n > 0 ? sum / (double)n : 0;
}

/* `floats` or `halves` is the result; the other is NULL. */
static Accuracy measure(const double *reference, const float *floats, const uint16_t *halves, AccuracyShape s, const int64_t *offsets, double part)
{
	Accuracy a = { 0 };
	const double least = part > 0 ? part * part * mean_square(reference, s, offsets) : 0;
	double all_error = 0, all_reference = 0;
	int64_t all_tokens = 0;
	for (int64_t b = 0; b < s.batch; b++) {
		int64_t start = offsets ? offsets[b] : b * s.tokens, end = offsets ? offsets[b + 1] : start + s.tokens;
		all_tokens += end - start;
		for (int64_t h = 0; h < s.heads; h++) {
			for (int64_t first = start; first < end; first += s.chunk) {
				int64_t last = first + s.chunk < end ? first + s.chunk : end;
				double error = 0, square = 0;
				for (int64_t t = first; t < last; t++) {
					int64_t row = (t * s.heads + h) * s.width;
					for (int64_t i = row; i < row + s.width; i++) {
						double x = floats ? (double)floats[i] : (double)bf16_to_float(halves[i]);
						double d = fabs(x - reference[i]);
						square += reference[i] * reference[i];
						if (!isfinite(x)) {
							a.not_finite++;
							d = INFINITY;
						}
						error += d * d;
						if (d > a.max_abs) {
							a.max_abs = d;
							a.max_abs_index = i;
						}
					}
				}
				const double n = (double)((last - first) * s.width), r = ratio(error, fmax(square, least * n), n);
				if (r > a.worst_ratio) {
					a.worst_ratio = r;
					a.worst_sequence = b;
					a.worst_head = h;
					a.worst_chunk = (first - start) / s.chunk;
				}
				all_error += error;
				all_reference += square;
			}
		}
	}
	a.rms_ratio = ratio(all_error, all_reference, (double)(all_tokens * s.heads * s.width));
	return a;
}

Accuracy accuracy_of_floats(const double *reference, const float *result, AccuracyShape s)
{
	return measure(reference, result, NULL, s, NULL, 0);
}

Accuracy accuracy_of_bf16(const double *reference, const uint16_t *result, AccuracyShape s)
{
	return measure(reference, NULL, result, s, NULL, 0);
}

Accuracy accuracy_of_packed(const double *reference, const float *result, AccuracyShape s, const int64_t *offsets)
{
	return measure(reference, result, NULL, s, offsets, 0);
}

Accuracy accuracy_of_packed_least(const double *reference, const float *result, AccuracyShape s, const int64_t *offsets, double least)
{
	return measure(reference, result, NULL, s, offsets, least);
}

char *accuracy_text(const Accuracy *a, char *text, size_t size)
{
	if (a->not_finite)
		snprintf(text, size, "%lld elements are not finite, the first in sequence %lld, head %lld, chunk %lld", (long long)a->not_finite,
			(long long)a->worst_sequence, (long long)a->worst_head, (long long)a->worst_chunk);
	else
		snprintf(text, size, "rms %.2e, worst %.2e (sequence %lld, head %lld, chunk %lld), max abs %.2e", a->rms_ratio, a->worst_ratio,
			(long long)a->worst_sequence, (long long)a->worst_head, (long long)a->worst_chunk, a->max_abs);
	return text;
}
