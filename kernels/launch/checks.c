#include "checks.h"

#include <math.h>
#include <string.h>

#include "error.h"

tilert_status check_version(const char *who, const char *family, const void *given, size_t first, void *params, size_t size)
{
	enum { MOST = 4096 }; /* a size beyond is none */
	const unsigned char *bytes = given;
	size_t n;
	if (!given)
		return launch_fail(TILERT_EINVAL, "%s: p is NULL", who);
	memcpy(&n, given, sizeof n);
	if (n < first || n > MOST)
		return launch_fail(TILERT_EINVAL, "%s: %s_params.size is %zu, not in %zu .. %d: start from %s_params_init", who, family, n, first, MOST, family);
	for (size_t i = size; i < n; i++) {
		if (bytes[i] != 0)
			return launch_fail(TILERT_EINVAL, "%s: %s_params.size is %zu, and byte %zu is not 0; this library knows the first %zu", who, family, n, i, size);
	}
	memcpy(params, given, n < size ? n : size);
	memcpy(params, &size, sizeof size);
	return TILERT_OK;
}

tilert_status check_extents(const char *who, const CheckExtent *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (e[i].value < e[i].low || e[i].value > e[i].high)
			return launch_fail(TILERT_EINVAL, "%s: %s is %lld, not in %lld .. %lld", who, e[i].name, (long long)e[i].value,
				(long long)e[i].low, (long long)e[i].high);
	}
	return TILERT_OK;
}

static bool allowed(const CheckDtype *d)
{
	for (int i = 0; i < d->count; i++) {
		if (d->have == d->allowed[i])
			return true;
	}
	return false;
}

tilert_status check_heads(const char *who, const CheckHeads *h)
{
	const CheckExtent extents[] = {
		{ "qk_heads", h->qk_heads, h->value_heads > 0, INT32_MAX }, { "value_heads", h->value_heads, 0, INT32_MAX },
		{ "key_dim", h->key_dim, 1, h->max_key_dim }, { "value_dim", h->value_dim, 1, h->max_value_dim },
	};
	tilert_status s = check_extents(who, extents, sizeof extents / sizeof extents[0]);
	if (s == TILERT_OK && h->value_heads > 0 && h->value_heads % h->qk_heads != 0)
		s = launch_fail(TILERT_EINVAL, "%s: value_heads is %lld, not a multiple of qk_heads, %lld", who, (long long)h->value_heads,
			(long long)h->qk_heads);
	return s;
}

tilert_status check_options(const char *who, unsigned options, unsigned known, tilekern_split split, float scale)
{
	static const struct { unsigned option, needs; const char *text; } pairs[] = {
		{ TILEKERN_TWICE_BETA, TILEKERN_SIGMOID_BETA, "TWICE_BETA without SIGMOID_BETA" },
		{ TILEKERN_BOUNDED_GATE, TILEKERN_RAW_GATE, "BOUNDED_GATE without RAW_GATE" },
	};
	if ((options & ~known) != 0)
		return launch_fail(TILERT_EINVAL, "%s: options is 0x%x, not within 0x%x", who, options, known);
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		if ((options & pairs[i].option) != 0 && (options & pairs[i].needs) == 0)
			return launch_fail(TILERT_EINVAL, "%s: options has %s", who, pairs[i].text);
	}
	if ((unsigned)split > TILEKERN_SPLIT_INVARIANT)
		return launch_fail(TILERT_EINVAL, "%s: split is %d, not in 0 .. %d", who, (int)split, TILEKERN_SPLIT_INVARIANT);
	if (!isfinite(scale))
		return launch_fail(TILERT_EINVAL, "%s: scale is %g", who, (double)scale);
	return TILERT_OK;
}

tilert_status check_dtypes(const char *who, const CheckDtype *d, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (allowed(&d[i]))
			continue;
		char list[64] = "";
		for (int j = 0; j < d[i].count; j++) {
			strcat(list, j == 0 ? "" : j + 1 < d[i].count ? ", " : " or ");
			strcat(list, tilert_dtype_name(d[i].allowed[j]));
		}
		return launch_fail(TILERT_EINVAL, "%s: %s is %d (%s), not %s", who, d[i].name, (int)d[i].have, tilert_dtype_name(d[i].have), list);
	}
	return TILERT_OK;
}

tilert_status check_pointers(const char *who, const CheckPointer *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i].wanted && p[i].p == 0)
			return launch_fail(TILERT_EINVAL, "%s: %s is 0", who, p[i].name);
		if (p[i].p % p[i].align != 0)
			return launch_fail(TILERT_EINVAL, "%s: %s is at 0x%llx, not a multiple of %u bytes", who, p[i].name,
				(unsigned long long)p[i].p, p[i].align);
	}
	return TILERT_OK;
}

/* ---- rows and regions -------------------------------------------------------------- */

static int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

tilekern_strides rows_strides(const Rows *r)
{
	const tilekern_strides g = r->given, contiguous = { r->tokens * r->heads * r->width, r->heads * r->width, r->width };
	const tilekern_strides s = g.batch == 0 && g.token == 0 && g.head == 0 ? contiguous : g;
	return (tilekern_strides){ r->batch > 1 ? s.batch : round_up(contiguous.batch, r->unit),
		r->tokens > 1 ? s.token : round_up(contiguous.token, r->unit), r->heads > 1 ? s.head : round_up(contiguous.head, r->unit) };
}

int64_t rows_width(const Rows *r) { return r->written ? round_up(r->width, r->unit) : r->width; }

/* From the first to the last of `extent`; of numbers that nobody has memory for, too. */
static int64_t distance(int64_t extent, int64_t stride)
{
	const int64_t most = INT64_C(1) << 60;
	return stride > 0 && extent - 1 > most / stride ? most : (extent - 1) * stride;
}

/* What a tensor has more than one of, the nearest first; how many of these there are. */
typedef struct Step { const char *field; int64_t extent, stride; } Step;
enum { STEPS = 3 };
static int steps_of(const Rows *r, Step out[STEPS])
{
	const tilekern_strides s = rows_strides(r);
	const Step all[STEPS] = { { "head", r->heads, s.head }, { "token", r->tokens, s.token }, { "batch", r->batch, s.batch } };
	int n = 0;
	for (int i = 0; i < STEPS; i++) {
		int at = all[i].extent > 1 ? n++ : -1;
		for (; at > 0 && out[at - 1].stride > all[i].stride; at--)
			out[at] = out[at - 1];
		if (at >= 0)
			out[at] = all[i];
	}
	return n;
}

/* Rows of what is written lie side by side: from the nearest to the farthest, each stride is at least what lies within it. */
static tilert_status check_rows_apart(const char *who, const Rows *r)
{
	Step step[STEPS];
	const int n = steps_of(r, step);
	int64_t within = rows_width(r);
	for (int i = 0; i < n; i++) {
		if (step[i].stride < within)
			return launch_fail(TILERT_EINVAL, "%s: %s_strides.%s is %lld, but %lld elements lie within it: rows that are written overlap", who, r->name,
				step[i].field, (long long)step[i].stride, (long long)within);
		within += distance(step[i].extent, step[i].stride);
	}
	return TILERT_OK;
}

tilert_status check_strides(const char *who, const Rows *rows, size_t n)
{
	const int64_t farthest = (INT64_C(1) << 38) - 1; /* elements; tensor maps have 40 bits of bytes */
	for (const Rows *r = rows; r < rows + n; r++) {
		const tilekern_strides s = rows_strides(r);
		const struct { const char *field; int64_t value, high; } all[] = {
			{ "batch", s.batch, farthest }, { "token", s.token, INT32_MAX }, { "head", s.head, INT32_MAX },
		};
		for (size_t i = 0; r->p && i < sizeof all / sizeof all[0]; i++) {
			if (all[i].value < 0 || all[i].value > all[i].high)
				return launch_fail(TILERT_EINVAL, "%s: %s_strides.%s is %lld, not in 0 .. %lld", who, r->name, all[i].field,
					(long long)all[i].value, (long long)all[i].high);
			if (all[i].value % r->unit != 0)
				return launch_fail(TILERT_EINVAL, "%s: %s_strides.%s is %lld, not a multiple of %lld (copies move 16 bytes)", who, r->name, all[i].field,
					(long long)all[i].value, (long long)r->unit);
		}
		if (r->p && r->written && r->batch > 0 && r->tokens > 0 && r->heads > 0) {
			const tilert_status status = check_rows_apart(who, r);
			if (status != TILERT_OK)
				return status;
		}
	}
	return TILERT_OK;
}

Region rows_region(const Rows *t)
{
	const int64_t bytes = (int64_t)tilert_dtype_size(t->dtype);
	Region r = { .name = t->name, .p = t->p, .written = t->written };
	Step step[STEPS];
	if (!t->p || t->batch == 0 || t->tokens == 0 || t->heads == 0) /* strides of what is not there are not checked */
		return r;
	const int n = steps_of(t, step);
	int64_t within = rows_width(t);
	for (int i = 0; i < n; i++) { /* the pitch is the nearest stride that leaves a gap, if those farther are multiples of it */
		bool repeats = r.pitch == 0 && step[i].stride > within;
		for (int j = i + 1; j < n; j++)
			repeats = repeats && step[j].stride % step[i].stride == 0;
		if (repeats) {
			r.row = within * bytes;
			r.pitch = step[i].stride * bytes;
		}
		within += distance(step[i].extent, step[i].stride);
	}
	r.bytes = within * bytes;
	return r;
}

static bool overlap(const Region *a, const Region *b)
{
	if (a->p > b->p)
		return overlap(b, a);
	tilert_ptr apart = b->p - a->p;
	if (a->p == 0 || a->bytes == 0 || b->bytes == 0 || apart >= (tilert_ptr)a->bytes)
		return false;
	if (a->pitch == 0 || a->pitch != b->pitch)
		return true;
	int64_t d = (int64_t)(apart % (tilert_ptr)a->pitch);
	return d < a->row || d + b->row > a->pitch;
}

tilert_status check_apart(const char *who, const Region *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n; j++) {
			if ((r[i].written || r[j].written) && overlap(&r[i], &r[j]))
				return launch_fail(TILERT_EINVAL, "%s: %s (0x%llx, %lld bytes) and %s (0x%llx, %lld bytes) overlap", who, r[i].name,
					(unsigned long long)r[i].p, (long long)r[i].bytes, r[j].name, (unsigned long long)r[j].p, (long long)r[j].bytes);
		}
	}
	return TILERT_OK;
}
