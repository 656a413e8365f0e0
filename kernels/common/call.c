#include "call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[512];

const char *tilekern_last_error(void)
{
	return error_text;
}

tilert_status call_fail(tilert_status s, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(error_text, sizeof error_text, format, args);
	va_end(args);
	return s;
}

tilert_status call_passed_on(tilert_status s, const char *what)
{
	return s == TILERT_OK ? s : call_fail(s, "%s: %s", what, tilert_last_error());
}

/* ---- checks -------------------------------------------------------------------- */

tilert_status call_take_params(const char *who, const char *init, const void *given, size_t first, void *params, size_t size)
{
	enum { MOST = 4096 }; /* a size beyond is none */
	const unsigned char *bytes = given;
	size_t n;
	memcpy(&n, given, sizeof n);
	if (n < first || n > MOST)
		return call_fail(TILERT_EINVAL, "%s: p->size is %zu, not in %zu .. %d: start from %s", who, n, first, MOST, init);
	for (size_t i = size; i < n; i++) {
		if (bytes[i] != 0)
			return call_fail(TILERT_EINVAL, "%s: p->size is %zu, and byte %zu is not 0; this library knows the first %zu", who, n, i, size);
	}
	memcpy(params, given, n < size ? n : size);
	memcpy(params, &size, sizeof size);
	return TILERT_OK;
}

tilert_status call_check_pointers(const char *who, const CallPointer *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i].wanted && p[i].p == 0)
			return call_fail(TILERT_EINVAL, "%s: %s is 0", who, p[i].name);
		if (p[i].p % p[i].align != 0)
			return call_fail(TILERT_EINVAL, "%s: %s is at 0x%llx, not a multiple of %u bytes", who, p[i].name,
				(unsigned long long)p[i].p, p[i].align);
	}
	return TILERT_OK;
}

tilert_status call_check_extents(const char *who, const CallExtent *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (e[i].value < e[i].low || e[i].value > e[i].high)
			return call_fail(TILERT_EINVAL, "%s: %s is %lld, not in %lld .. %lld", who, e[i].name, (long long)e[i].value,
				(long long)e[i].low, (long long)e[i].high);
	}
	return TILERT_OK;
}

/* ---- strides and regions --------------------------------------------------------- */

CallStrides call_strides(const CallTokens *t, CallStrides s)
{
	CallStrides contiguous = { t->tokens * t->heads * t->width, t->heads * t->width, t->width };
	if (s.batch == 0 && s.token == 0 && s.head == 0)
		return contiguous;
	return (CallStrides){ t->batch > 1 ? s.batch : contiguous.batch, t->tokens > 1 ? s.token : contiguous.token,
		t->heads > 1 ? s.head : contiguous.head };
}

tilert_status call_check_strides(const char *who, const char *name, const CallTokens *t, CallStrides given, int64_t unit)
{
	const CallStrides s = call_strides(t, given);
	const int64_t farthest = INT64_C(1) << 38; /* elements; tensor maps have 40 bits of bytes */
	const struct { const char *field; int64_t value, high; } all[] = {
		{ "batch", s.batch, farthest }, { "token", s.token, INT32_MAX }, { "head", s.head, INT32_MAX },
	};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (all[i].value < 0 || all[i].value > all[i].high)
			return call_fail(TILERT_EINVAL, "%s: %s_strides.%s is %lld, not in 0 .. %lld", who, name, all[i].field, (long long)all[i].value,
				(long long)all[i].high);
		if (all[i].value % unit != 0)
			return call_fail(TILERT_EINVAL, "%s: %s_strides.%s is %lld, not a multiple of %lld", who, name, all[i].field, (long long)all[i].value,
				(long long)unit);
	}
	return TILERT_OK;
}

CallRegion call_region(const char *name, tilert_ptr p, const CallTokens *t, CallStrides given, size_t element, bool written)
{
	CallStrides s = call_strides(t, given);
	CallRegion r = { .name = name, .p = p, .written = written };
	if (t->batch == 0 || t->tokens == 0 || t->heads == 0)
		return r;
	bool heads_inside = s.head <= s.token;
	int64_t inner = heads_inside ? s.head : s.token, outer = heads_inside ? s.token : s.head, count = heads_inside ? t->heads : t->tokens;
	int64_t last = (t->batch - 1) * s.batch + (t->tokens - 1) * s.token + (t->heads - 1) * s.head, bytes = (int64_t)element;
	bool gaps = inner > t->width && outer % inner == 0;
	r.bytes = (last + t->width) * bytes;
	r.row = (gaps ? t->width : (count - 1) * inner + t->width) * bytes;
	r.pitch = (gaps ? inner : outer) * bytes;
	if (r.row > r.pitch || (t->batch > 1 && s.batch * bytes % r.pitch != 0))
		r.pitch = 0;
	return r;
}

static bool overlap(const CallRegion *a, const CallRegion *b)
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

tilert_status call_check_apart(const char *who, const CallRegion *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n; j++) {
			if ((r[i].written || r[j].written) && overlap(&r[i], &r[j]))
				return call_fail(TILERT_EINVAL, "%s: %s (0x%llx, %lld bytes) and %s (0x%llx, %lld bytes) overlap", who, r[i].name,
					(unsigned long long)r[i].p, (long long)r[i].bytes, r[j].name, (unsigned long long)r[j].p, (long long)r[j].bytes);
		}
	}
	return TILERT_OK;
}

/* ---- arguments ------------------------------------------------------------------- */

static tilert_arg *next(CallArgs *a, const char *name, tilert_arg_kind kind)
{
	tilert_arg *x = &a->arg[a->n < CALL_MAX_ARGS ? a->n++ : CALL_MAX_ARGS - 1];
	*x = (tilert_arg){ .name = name, .kind = kind };
	return x;
}

void call_tensor(CallArgs *a, const char *name, tilert_ptr data, tilert_dtype dtype, int rank, const int64_t *extents, const int64_t *strides)
{
	tilert_tensor *t = &next(a, name, TILERT_ARG_TENSOR)->tensor;
	*t = (tilert_tensor){ .data = data, .dtype = dtype, .rank = rank };
	memcpy(t->extents, extents, (size_t)rank * sizeof *extents);
	if (strides)
		memcpy(t->strides, strides, (size_t)rank * sizeof *strides);
}

void call_dim(CallArgs *a, const char *name, int64_t value) { next(a, name, TILERT_ARG_DIM)->i = value; }
void call_integer(CallArgs *a, const char *name, int64_t value) { next(a, name, TILERT_ARG_SCALAR)->i = value; }
void call_float(CallArgs *a, const char *name, double value) { next(a, name, TILERT_ARG_SCALAR)->f = value; }

static const tilert_arg *find(const CallArgs *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++) {
		if (strcmp(all->arg[i].name, name) == 0)
			return &all->arg[i];
	}
	return NULL;
}

static tilert_status prepare(const char *who, tilert_kernel *k, const CallArgs *all, tilert_prepared **out)
{
	tilert_arg args[CALL_MAX_ARGS];
	size_t n = 0;
	for (size_t i = 0; i < tilert_kernel_param_count(k); i++) {
		tilert_param param;
		tilert_status s = tilert_kernel_param(k, i, &param);
		if (s != TILERT_OK)
			return call_passed_on(s, who);
		const tilert_arg *found = find(all, param.name);
		if (!found && (param.optional || param.kind == TILERT_ARG_DIM))
			continue; /* dims are bound by the tensors */
		if (!found || n == CALL_MAX_ARGS)
			return call_fail(TILERT_EINVAL, "%s: kernel %s asks for '%s'", who, tilert_kernel_name(k), param.name);
		if (found->kind != TILERT_ARG_TENSOR || found->tensor.data != 0 || !param.optional)
			args[n++] = *found;
	}
	return call_passed_on(tilert_prepare(k, args, n, out), who);
}

tilert_status call_add(CallList *c, const char *who, tilert_kernel *k, const CallArgs *all)
{
	if (c->n == CALL_MAX_LAUNCHES)
		return call_fail(TILERT_EINVAL, "%s: more than %d kernels", who, CALL_MAX_LAUNCHES);
	tilert_status s = prepare(who, k, all, &c->launch[c->n]);
	c->n += s == TILERT_OK;
	return s;
}

tilert_status call_launch(const CallList *c, const char *who, tilert_stream stream)
{
	for (int i = 0; i < c->n; i++) {
		tilert_status s = tilert_prepared_launch(c->launch[i], stream);
		if (s != TILERT_OK)
			return call_passed_on(s, who);
	}
	return TILERT_OK;
}

void call_clear(CallList *c)
{
	for (int i = 0; i < c->n; i++)
		tilert_prepared_destroy(c->launch[i]);
	c->n = 0;
}
