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
