/* compare.c - how far a tensor is from a reference, and what is in it. */
#include "runtime/tools/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "runtime/tools/element.h"
#include "runtime/tools/tool.h"

Difference compare_numbers(size_t count, ElementReader a, const void *a_context, ElementReader b, const void *b_context)
{
	Difference d = { 0, 0, 0 };
	double squares = 0, reference = 0;

	for (size_t i = 0; i < count; i++) {
		double x = a(a_context, i), y = b(b_context, i);
		if (x == y || (isnan(x) && isnan(y))) {
			reference += isfinite(y) ? y * y : 0;
		} else if (!isfinite(x) || !isfinite(y)) {
			d.mismatched++;
		} else {
			d.max_abs = fmax(d.max_abs, fabs(x - y));
			squares += (x - y) * (x - y);
			reference += y * y;
		}
	}
	if (count)
		d.rms_ratio = sqrt(squares / (reference > 0 ? reference : (double)count));
	return d;
}

static double read_tensor(const void *context, size_t i)
{
	const HostTensor *t = context;

	return element_get(t->dtype, t->data, i);
}

typedef struct Reference {
	Npy npy;
	tilert_dtype as;
} Reference;

static double read_reference(const void *context, size_t i)
{
	const Reference *r = context;

	return element_get_npy(&r->npy, i, r->as);
}

static void format_shape(int rank, const int64_t *extents, char *out, size_t size)
{
	size_t used = 0;

	out[0] = 0;
	for (int i = 0; i < rank && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "[%" PRId64 "]", extents[i]);
}

static void check_shape(const HostTensor *t, const Npy *n, const char *path)
{
	bool same = t->rank == n->rank;
	char ours[128], theirs[200];

	for (int i = 0; same && i < n->rank; i++)
		same = t->extents[i] == n->extents[i];
	if (same)
		return;
	format_shape(t->rank, t->extents, ours, sizeof ours);
	format_shape(n->rank, n->extents, theirs, sizeof theirs);
	tool_die(EXIT_RUN, "--compare %s: the tensor is %s but %s is %s", t->name, ours, path, theirs);
}

/* Those that differ, which doubles do not always show. */
static size_t unequal_integers(const HostTensor *t, const Npy *n)
{
	size_t unequal = 0;

	if (!element_is_integer(t->dtype) || n->kind == 'f' || n->kind == 'V')
		return 0;
	for (size_t i = 0; i < t->count; i++)
		unequal += !element_is_same_integer(t->dtype, t->data, n, i);
	return unequal;
}

/* What rounding to the type and the usual products leave. */
static double default_tolerance(tilert_dtype t)
{
	switch (t) {
	case TILERT_BF16: return 1e-2;
	case TILERT_F16: return 2e-3;
	case TILERT_E4M3: return 8e-2;
	case TILERT_E5M2: return 2e-1;
	case TILERT_TF32:
	case TILERT_F32: return 1e-3;
	default: return 0;
	}
}

bool compare_with_file(const HostTensor *t, const char *path, double tolerance)
{
	Reference r = { .as = t->dtype };
	char why[200];

	if (!npy_read(path, &r.npy, why, sizeof why))
		tool_die(EXIT_RUN, "%s: %s", path, why);
	check_shape(t, &r.npy, path);
	tolerance = tolerance < 0 ? default_tolerance(t->dtype) : tolerance;
	Difference d = compare_numbers(t->count, read_tensor, t, read_reference, &r);
	size_t unequal = tolerance > 0 ? 0 : unequal_integers(t, &r.npy);
	bool ok = d.rms_ratio <= tolerance && d.mismatched == 0 && unequal == 0;
	printf("%s: max abs error %.3g, RMS ratio %.3g (tolerance %.3g)", t->name, d.max_abs, d.rms_ratio, tolerance);
	if (d.mismatched)
		printf(", %zu NaN or infinite on one side only", d.mismatched);
	if (unequal)
		printf(", %zu of %zu integers differ", unequal, t->count);
	printf(": %s\n", ok ? "ok" : "FAILED");
	npy_free(&r.npy);
	return ok;
}

void print_summary(const HostTensor *t)
{
	double low = INFINITY, high = -INFINITY, sum = 0;
	size_t nans = 0;
	char shape[128];

	for (size_t i = 0; i < t->count; i++) {
		double v = element_get(t->dtype, t->data, i);
		if (isnan(v)) {
			nans++;
			continue;
		}
		low = fmin(low, v);
		high = fmax(high, v);
		sum += v;
	}
	format_shape(t->rank, t->extents, shape, sizeof shape);
	printf("%s: %s%s", t->name, tilert_dtype_name(t->dtype), shape);
	if (t->count > nans)
		printf(", min %.6g, max %.6g, mean %.6g", low, high, sum / (double)(t->count - nans));
	printf(", NaN %zu of %zu\n", nans, t->count);
}
