#include "args.h"

#include <string.h>

#include "error.h"

static tilert_arg *next(Args *a, const char *name, tilert_arg_kind kind)
{
	tilert_arg *x = &a->arg[a->n < MAX_ARGS ? a->n : MAX_ARGS - 1]; /* args_prepare refuses more */
	a->n++;
	*x = (tilert_arg){ .name = name, .kind = kind };
	return x;
}

void args_tensor(Args *a, const char *name, tilert_ptr data, tilert_dtype dtype, int rank, const int64_t *extents, const int64_t *strides)
{
	tilert_tensor *t = &next(a, name, TILERT_ARG_TENSOR)->tensor;
	*t = (tilert_tensor){ .data = data, .dtype = dtype, .rank = rank };
	memcpy(t->extents, extents, (size_t)rank * sizeof *extents);
	if (strides)
		memcpy(t->strides, strides, (size_t)rank * sizeof *strides);
}

void args_dim(Args *a, const char *name, int64_t value) { next(a, name, TILERT_ARG_DIM)->i = value; }
void args_integer(Args *a, const char *name, int64_t value) { next(a, name, TILERT_ARG_SCALAR)->i = value; }
void args_float(Args *a, const char *name, double value) { next(a, name, TILERT_ARG_SCALAR)->f = value; }

void args_rows(Args *a, const Rows *r, const char *name, const char *far)
{
	const int64_t extents[] = { r->batch, r->tokens, r->heads, rows_width(r) };
	const tilekern_strides s = rows_strides(r);
	const int64_t strides[] = { s.batch, s.token, s.head, 1 };
	args_tensor(a, name, r->p, r->dtype, r->unit > 1 ? 4 : 3, extents, strides);
	if (far)
		args_integer(a, far, s.batch);
}

tilert_status args_prepare(const char *who, tilert_kernel *k, const Args *all, tilert_prepared **out)
{
	if (all->n > MAX_ARGS)
		return launch_fail(TILERT_EINVAL, "%s: %zu arguments, %d have room", who, all->n, MAX_ARGS);
	return launch_passed_on(tilert_prepare_named(k, all->arg, all->n, out), who);
}
