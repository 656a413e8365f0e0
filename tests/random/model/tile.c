/* tile.c - statements on whole tiles. */
#include <math.h>
#include <string.h>

#include "tests/random/model/machine.h"

static bool is_warp_op(const Op *op)
{
	for (int k = 0; k < op->nargs; k++)
		if (op->args[k]->type.kind >= TY_TENSOR && tile_ref(op->args[k]).warp_scope)
			return true;
	return false;
}

/* ---- copies and fills ---- */

static void apply_limit(Env *e, const Op *op, int k, Cells *src, Cells *dst)
{
	if (op->nargs > k)
		cells_limit(src->ref.space == TY_TENSOR ? src : dst, uniform_int(e, op->args[k]));
}

/* Reads all before it writes: source and target may be parts of one tile. */
static void move(Env *e, const Op *op, const Cells *src, const Cells *dst, bool clip, bool add)
{
	int64_t n = cells_count(src);
	DType from = src->ref.dtype, to = dst->ref.dtype;
	Num *x = ARENA_ARRAY(e->m->arena, Num, n);
	if (cells_count(dst) != n)
		model_fail(e->m, op, "%lld elements to %lld", (long long)n, (long long)cells_count(dst));
	for (int64_t k = 0; k < n; k++)
		x[k] = num_convert(from, to, cells_load(e, op, src, k, clip));
	for (int64_t k = 0; k < n; k++) {
		if (add)
			x[k] = num_operate(OP_ADD, "", to, to, (Num[]){ cells_load(e, op, dst, k, clip), x[k] });
		cells_store(e, op, dst, k, x[k], clip);
	}
}

static void run_copy(Env *e, const Op *op, int warp)
{
	Cells src = cells_of(e, op, op->args[0], warp), dst = cells_of(e, op, op->args[1], warp);
	apply_limit(e, op, 2, &src, &dst);
	move(e, op, &src, &dst, false, false);
}

/* Column 4q + 2b + c of each 16 is column 8b + 2q + c of the source (b, c < 2; q < 4). */
static void run_weave(Env *e, const Op *op, int warp)
{
	Cells src = cells_of(e, op, op->args[0], warp), dst = cells_of(e, op, op->args[1], warp);
	DType from = src.ref.dtype, to = dst.ref.dtype;
	int64_t byte = attr_int(op, AT_BYTE, -1);
	for (int64_t k = cells_count(&dst); k-- > 0;) {
		int64_t column = 8 * (k / 2 % 2) + 2 * (k / 4 % 4) + k % 2;
		Num x = cells_load(e, op, &src, k / 16 * 16 + column, false);
		if (byte >= 0 && dtype_is_float(from))
			model_fail(e->m, op, "bytes of floats are not modelled");
		cells_store(e, op, &dst, k, byte < 0 || x.undefined ? num_convert(from, to, x) : num_int(to, x.i >> (8 * byte)), false);
	}
}

static void run_fill(Env *e, const Op *op, int warp)
{
	Cells dst = cells_of(e, op, op->args[0], warp);
	Num x = lane_value(e, op->args[1], warp == TEAM ? first_active(e) : 32 * warp);
	for (int64_t n = cells_count(&dst); n-- > 0;)
		cells_store(e, op, &dst, n, x, false);
}

/* ---- products, reductions, scans ---- */

static Num *gather(Env *e, const Op *op, const Cells *c)
{
	int64_t n = cells_count(c);
	Num *x = ARENA_ARRAY(e->m->arena, Num, n);
	for (int64_t k = 0; k < n; k++)
		x[k] = cells_load(e, op, c, k, false);
	return x;
}

static void run_mma(Env *e, const Op *op, int warp)
{
	Cells d = cells_of(e, op, op->args[0], warp), a = cells_of(e, op, op->args[1], warp), b = cells_of(e, op, op->args[2], warp);
	int64_t rows = d.shape[0], columns = d.shape[1], depth = a.shape[1];
	int64_t acc = attr_int(op, AT_ACC, 0);
	const Num *left = gather(e, op, &a), *right = gather(e, op, &b);
	DType type = op->args[0]->type.dtype;
	bool integers = !dtype_is_float(type);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++) {
			Num old = acc ? cells_load(e, op, &d, i * columns + j, false) : (Num){ .f = 0 };
			double sum = 0;
			int64_t whole = 0;
			for (int64_t k = 0; k < depth; k++) {
				const Num *x = &left[i * depth + k], *y = &right[k * columns + j];
				old.undefined |= x->undefined || y->undefined;
				sum += integers ? 0 : x->f * y->f;
				whole += integers ? x->i * y->i : 0;
			}
			Num r = integers ? num_int(type, (acc ? old.i : 0) + whole) : num_float(type, acc < 0 ? old.f - sum : old.f + sum);
			r.undefined = old.undefined;
			cells_store(e, op, &d, i * columns + j, r, false);
		}
}

static Num join(const char *kind, Num a, Num b)
{
	Opcode code = !strcmp(kind, "max") ? OP_MAX : !strcmp(kind, "min") ? OP_MIN : !strcmp(kind, "prod") ? OP_MUL : OP_ADD;
	return num_operate(code, "", DT_F32, DT_F32, (Num[]){ a, b });
}

static void run_reduce(Env *e, const Op *op, int warp)
{
	Cells s = cells_of(e, op, op->args[0], warp), d = cells_of(e, op, op->args[1], warp);
	int64_t axis = attr_int(op, AT_AXIS, 0), rows = s.shape[0], columns = s.shape[1];
	const char *kind = attr_text(op, AT_KIND, "sum");
	for (int64_t k = 0; k < (axis ? rows : columns); k++) {
		Num r = cells_load(e, op, &s, axis ? k * columns : k, false);
		for (int64_t n = 1; n < (axis ? columns : rows); n++)
			r = join(kind, r, cells_load(e, op, &s, axis ? k * columns + n : n * columns + k, false));
		cells_store(e, op, &d, k, r, false);
	}
}

static void run_scan(Env *e, const Op *op, int warp)
{
	Cells x = cells_of(e, op, op->args[0], warp);
	int64_t axis = attr_int(op, AT_AXIS, 0), extent = x.shape[axis], inner = axis == 0 && x.rank == 2 ? x.shape[1] : 1;
	int64_t others = cells_count(&x) / extent, within = attr_int(op, AT_WITHIN, extent);
	bool reverse = attr_int(op, AT_REVERSE, 0) != 0;
	const char *kind = attr_text(op, AT_KIND, "sum");
	for (int64_t o = 0; o < others; o++) {
		int64_t base = inner > 1 ? o : o * extent;
		Num r = { 0 };
		for (int64_t k = 0; k < extent; k++) {
			int64_t at = base + inner * (reverse ? extent - 1 - k : k);
			Num v = cells_load(e, op, &x, at, false);
			r = k % within == 0 ? v : join(kind, r, v);
			cells_store(e, op, &x, at, r, false);
		}
	}
}

/* ---- asynchronous copies, which happen at once ---- */

static int64_t cells_bytes(const Cells *c)
{
	return cells_count(c) * dtype_bytes(c->ref.dtype);
}

/* To the same place in every CTA of the cluster. */
static void multicast(Team *t, const Op *op, const Cells *src, const Cells *dst)
{
	Model *m = t->env.m;
	for (int r = 0; r < m->cluster; r++) {
		Cells there = *dst;
		there.store = object_of(&m->cta[r].team[0].env, dst->ref.object->result)->store;
		move(&t->env, op, src, &there, true, false);
	}
}

static void run_load_async(Team *t, const Op *op)
{
	Env *e = &t->env;
	Cells src = cells_of(e, op, op->args[0], TEAM), dst = cells_of(e, op, op->args[1], TEAM);
	bool many = attr_int(op, AT_MULTICAST, 0) != 0;
	apply_limit(e, op, 4, &src, &dst);
	if (many)
		multicast(t, op, &src, &dst);
	else
		move(e, op, &src, &dst, true, false);
	barrier_bytes(t, op, op->args[2], uniform_int(e, op->args[3]), cells_bytes(&dst), many);
}

static void run_store_async(Env *e, const Op *op)
{
	Cells src = cells_of(e, op, op->args[0], TEAM), dst = cells_of(e, op, op->args[1], TEAM);
	apply_limit(e, op, 2, &src, &dst);
	move(e, op, &src, &dst, true, attr_get(op, AT_REDUCE) != NULL);
}

/* Element n of a bulk copy's shared or global side as a byte address: both are contiguous. */
static void run_bulk(Team *t, const Op *op)
{
	Env *e = &t->env;
	Cells src = cells_of(e, op, op->args[0], TEAM), dst = cells_of(e, op, op->args[1], TEAM);
	int64_t a[TIR_MAX_RANK], b[TIR_MAX_RANK], from = 0, to = 0, bytes = cells_bytes(&src);
	cells_index(&src, 0, a);
	cells_index(&dst, 0, b);
	for (int d = 0; d < src.store->rank; d++)
		from += a[d] * src.store->strides[d] * dtype_bytes(src.ref.dtype);
	for (int d = 0; d < dst.store->rank; d++)
		to += b[d] * dst.store->strides[d] * dtype_bytes(dst.ref.dtype);
	if (from < 0 || to < 0 || from + bytes > src.store->bytes || to + bytes > dst.store->bytes)
		model_fail(e->m, op, "leaves its tile");
	memcpy(dst.store->data + to, src.store->data + from, (size_t)bytes);
	memcpy(dst.store->defined + to, src.store->defined + from, (size_t)bytes);
	if (op->code == OP_BULK_LOAD)
		barrier_bytes(t, op, op->args[2], uniform_int(e, op->args[3]), bytes, false);
}

/* ---- declarations ---- */

static void declare_frag(Env *e, const Op *op)
{
	int copies = attr_int(op, AT_WARP_SCOPE, 0) ? e->warps : 1;
	Store *s = ARENA_ARRAY(e->m->arena, Store, copies);
	for (int k = 0; k < copies; k++)
		store_init(e->m, &s[k], op, 0);
	e->object[op->result->id - e->m->base] = (Object){ .store = s };
}

static void declare_shared(Env *e, const Op *op)
{
	Store *s = ARENA_NEW(e->m->arena, Store);
	store_init(e->m, s, op, op->nargs);
	if (op->nargs) {
		const Store *root = object_of(e, op->args[0])->store;
		int64_t at = attr_int(op, AT_AT_OFFSET, 0);
		if (at + s->bytes > root->bytes)
			model_fail(e->m, op, "is not inside the tile whose storage it shares");
		s->data = root->data + at;
		s->defined = root->defined + at;
	}
	e->object[op->result->id - e->m->base] = (Object){ .store = s };
}

static void declare_tensor(Env *e, const Op *op)
{
	const char *name = attr_text(op, AT_NAME, "");
	const ModelArgs *args = e->m->args;
	Store *s = ARENA_NEW(e->m->arena, Store);
	for (int k = 0; k < args->ntensors; k++) {
		const ModelTensor *x = &args->tensor[k];
		if (strcmp(x->name, name))
			continue;
		*s = (Store){ .object = op, .dtype = op->result->type.dtype, .rank = op->result->type.rank, .data = x->data,
			.defined = x->defined, .bytes = (int64_t)x->bytes };
		int64_t n = 1;
		for (int d = s->rank; d-- > 0;) {
			s->extents[d] = x->extents[d];
			s->strides[d] = n;
			n *= x->extents[d];
		}
	}
	if (!s->data)
		model_fail(e->m, op, "'%s' is not given", name);
	e->object[op->result->id - e->m->base] = (Object){ .store = s };
}

/* ---- dispatch ---- */

typedef void PerWarp(Env *e, const Op *op, int warp);

/* Once by the team, or by each of its warps. */
static void each(Env *e, const Op *op, PerWarp *run)
{
	if (!is_warp_op(op)) {
		run(e, op, TEAM);
		return;
	}
	for (int w = 0; w < e->warps; w++)
		if (e->active[32 * w])
			run(e, op, w);
}

bool tile_step(Team *t, const Op *op)
{
	Env *e = &t->env;
	switch (op->code) {
	case OP_TENSOR: declare_tensor(e, op); break;
	case OP_SHARED: declare_shared(e, op); break;
	case OP_FRAG: declare_frag(e, op); break;
	case OP_VIEW: break;
	case OP_FILL: each(e, op, run_fill); break;
	case OP_WEAVE: each(e, op, run_weave); break;
	case OP_COPY: case OP_CP_ASYNC: each(e, op, run_copy); break;
	case OP_MMA: each(e, op, run_mma); break;
	case OP_REDUCE: each(e, op, run_reduce); break;
	case OP_SCAN: each(e, op, run_scan); break;
	case OP_TMA_LOAD: run_load_async(t, op); break;
	case OP_TMA_STORE: run_store_async(e, op); break;
	case OP_BULK_LOAD: case OP_BULK_STORE: run_bulk(t, op); break;
	case OP_PARALLEL: parallel_run(t, op); break;
	case OP_WGMMA_FENCE: case OP_WGMMA_COMMIT: case OP_WGMMA_WAIT: case OP_PIN: case OP_STORE_WAIT: case OP_CP_ASYNC_COMMIT: case OP_CP_ASYNC_WAIT:
	case OP_FENCE_ASYNC: case OP_FENCE_ASYNC_GLOBAL: case OP_FENCE_DEVICE: case OP_GRID_WAIT: case OP_GRID_LAUNCH: case OP_GRID: break;
	default: return false;
	}
	if (op->code != OP_VIEW && op_info(op->code)->effect == FX_WRITE)
		e->m->count->tile_ops++;
	return true;
}
