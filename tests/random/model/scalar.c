/* scalar.c - what each lane does for itself: arithmetic, variables, elements. */
#include <string.h>

#include "tests/random/model/machine.h"

enum { MAX_OPERANDS = 3 };

static void set_one(Env *e, const Op *op, Num x)
{
	Lanes r = lanes_new(e, false);
	r.v[0] = x;
	lanes_set(e, op->result, r);
}

static void run_const(Env *e, const Op *op)
{
	DType t = op->result->type.dtype;
	const Attr *f = attr_get(op, AT_FVALUE);
	set_one(e, op, dtype_is_float(t) ? num_float(t, f ? f->f : 0) : num_int(t, attr_int(op, AT_VALUE, 0)));
}

static void run_operation(Env *e, const Op *op)
{
	Lanes in[MAX_OPERANDS];
	bool varying = false;
	for (int k = 0; k < op->nargs; k++) {
		in[k] = lanes_of(e, op->args[k]);
		varying |= in[k].stride != 0;
	}
	Lanes r = lanes_new(e, varying);
	/* The type of a choice is that of its sides. */
	DType t = op->args[op->code == OP_SELECT ? 1 : 0]->type.dtype;
	const char *pred = attr_text(op, AT_PRED, "");
	for (int n = 0; n < (varying ? e->lanes : 1); n++) {
		Num x[MAX_OPERANDS] = { { .i = 0 } };
		for (int k = 0; k < op->nargs; k++)
			x[k] = in[k].v[n * in[k].stride];
		r.v[n] = num_operate(op->code, pred, t, op->result->type.dtype, x);
	}
	lanes_set(e, op->result, r);
}

/* thread, lane, warp */
static void run_place(Env *e, const Op *op)
{
	Lanes r = lanes_new(e, true);
	for (int n = 0; n < e->lanes; n++)
		r.v[n].i = op->code == OP_LANE ? n % 32 : op->code == OP_WARP ? n / 32 : n;
	lanes_set(e, op->result, r);
}

/* Where threads are asked for inside an element loop of a warp, all elements see one thread. */
static bool run_place_outside(Env *e, const Op *op)
{
	if (!e->flatten)
		return false;
	int n = e->outer_lane;
	set_one(e, op, num_int(DT_I32, op->code == OP_LANE ? n % 32 : op->code == OP_WARP ? n / 32 : n));
	return true;
}

/* ---- variables ---- */

static void run_get(Env *e, const Op *op)
{
	const Lanes *var = object_of(e, op->args[0])->var;
	bool here = e->object[op->args[0]->id - e->m->base].var != NULL;
	if (here || !e->outer) {
		Lanes r = lanes_new(e, var->stride != 0);
		memcpy(r.v, var->v, sizeof(Num) * (size_t)(var->stride ? e->lanes : 1));
		lanes_set(e, op->result, r);
		return;
	}
	/* A variable of the code around: copied as what it is for these lanes. */
	int shift = 0;
	Env *owner = e;
	for (; !owner->object[op->args[0]->id - e->m->base].var; owner = owner->outer)
		shift += owner->outer_lane;
	Lanes r = lanes_new(e, !e->flatten && var->stride);
	for (int n = 0; n < (r.stride ? e->lanes : 1); n++)
		r.v[n] = var->v[(shift + n) * var->stride];
	lanes_set(e, op->result, r);
}

/* What all elements of a loop come to: which thread has which of them is the layout's, so a program can ask only whether any or all had it. */
static void run_combine(Env *e, const Op *op, bool all)
{
	Lanes x = lanes_of(e, op->args[1]), *var = object_of(e, op->args[0])->var;
	bool total = all;
	for (int n = 0; n < e->lanes; n++) {
		Num one = x.v[n * x.stride];
		if (one.undefined)
			model_fail(e->m, op, "what is combined is undefined");
		total = all ? total && one.i : total || one.i;
	}
	for (int n = 0; n < (var->stride ? e->outer->lanes : 1); n++)
		var->v[n].i = all ? var->v[n].i && total : var->v[n].i || total;
}

static void run_set(Env *e, const Op *op)
{
	const char *how = attr_text(op, AT_COMBINE, "");
	if (*how) {
		run_combine(e, op, !strcmp(how, "and"));
		return;
	}
	Lanes *var = e->object[op->args[0]->id - e->m->base].var, x = lanes_of(e, op->args[1]);
	if (!var)
		model_fail(e->m, op, "a variable of the code around is set");
	bool varying = x.stride || !all_active(e) || var->stride;
	Lanes r = lanes_new(e, varying);
	for (int n = 0; n < (varying ? e->lanes : 1); n++)
		r.v[n] = e->active[n] ? x.v[n * x.stride] : var->v[n * var->stride];
	*var = r;
}

static void declare_var(Env *e, const Op *op)
{
	Lanes *var = ARENA_NEW(e->m->arena, Lanes);
	*var = lanes_new(e, false);
	var->v[0] = num_undefined();
	e->object[op->result->id - e->m->base] = (Object){ .var = var };
}

/* ---- elements ---- */

/* The operands of a load, store or atomic whose object is operand `at`. */
typedef struct Access {
	Env *e;
	const Op *op;
	int rank, warp_rows; /* the rows of a warp in a fragment of all: 16, else 0 */
	bool masked;
	const Store *store;  /* of warp frags the first */
	bool own;            /* each warp has its own store */
	Lanes index[TIR_MAX_RANK], mask;
} Access;

static Access access_of(Env *e, const Op *op, int at)
{
	Access a = { .e = e, .op = op, .rank = op->args[at]->type.rank, .masked = attr_int(op, AT_MASKED, 0) != 0 };
	a.store = object_of(e, op->args[at])->store;
	a.own = attr_int(op->args[at]->def, AT_WARP_SCOPE, 0) != 0;
	a.warp_rows = attr_int(op, AT_WARP_SCOPE, 0) && !a.own ? 16 : 0;
	for (int d = 0; d < a.rank; d++)
		a.index[d] = lanes_of(e, op->args[at + 1 + d]);
	if (a.masked)
		a.mask = lanes_of(e, op->args[op->nargs - 1]);
	return a;
}

/* Of a lane that executes; NULL where the mask is off. */
static const Store *access_lane(const Access *a, int lane, int64_t *index)
{
	int warp = (a->e->flatten ? a->e->outer_lane : lane) / 32;
	if (a->masked) {
		Num m = a->mask.v[lane * a->mask.stride];
		if (m.undefined)
			model_fail(a->e->m, a->op, "the mask is undefined");
		if (!m.i)
			return NULL;
	}
	for (int d = 0; d < a->rank; d++) {
		Num x = a->index[d].v[lane * a->index[d].stride];
		if (x.undefined)
			model_fail(a->e->m, a->op, "an index is undefined");
		index[d] = x.i;
	}
	index[0] += a->warp_rows * warp;
	return &a->store[a->own ? warp : 0];
}

static void run_load(Env *e, const Op *op)
{
	int64_t index[TIR_MAX_RANK];
	Access a = access_of(e, op, 0);
	Lanes r = lanes_new(e, true);
	for (int n = 0; n < e->lanes; n++) {
		const Store *s = e->active[n] ? access_lane(&a, n, index) : NULL;
		r.v[n] = num_undefined();
		if (s)
			r.v[n] = store_load(e->m, op, s, index);
		else if (e->active[n] && a.store->object->code == OP_TENSOR)
			r.v[n] = (Num){ 0 };
	}
	lanes_set(e, op->result, r);
}

static void run_store(Env *e, const Op *op)
{
	int64_t index[TIR_MAX_RANK];
	Access a = access_of(e, op, 1);
	Lanes x = lanes_of(e, op->args[0]);
	for (int n = 0; n < e->lanes; n++) {
		const Store *s = e->active[n] ? access_lane(&a, n, index) : NULL;
		if (s)
			store_store(e->m, op, s, index, x.v[n * x.stride]);
	}
}

static Num combine(const Op *op, DType t, Num old, Num x)
{
	const char *rmw = attr_text(op, AT_RMW, "add");
	Opcode code = !strcmp(rmw, "min") ? OP_MIN : !strcmp(rmw, "max") ? OP_MAX : OP_ADD;
	return num_operate(code, "", t, t, (Num[]){ old, x });
}

static void run_atomic(Env *e, const Op *op)
{
	int64_t index[TIR_MAX_RANK];
	DType t = op->args[0]->type.dtype;
	Access a = access_of(e, op, 1);
	Lanes r = lanes_new(e, true), x = lanes_of(e, op->args[0]);
	for (int n = 0; n < e->lanes; n++) {
		const Store *s = e->active[n] ? access_lane(&a, n, index) : NULL;
		r.v[n] = num_undefined();
		if (!s)
			continue;
		r.v[n] = store_load(e->m, op, s, index);
		store_store(e->m, op, s, index, combine(op, t, r.v[n], x.v[n * x.stride]));
	}
	if (op->result)
		lanes_set(e, op->result, r);
}

/* ---- votes ---- */

static void run_vote(Env *e, const Op *op)
{
	bool all = !strcmp(attr_text(op, AT_KIND, ""), "all"), warp = attr_int(op, AT_WARP_SCOPE, 0) != 0;
	int span = warp ? 32 : e->lanes;
	Lanes x = lanes_of(e, op->args[0]), r = lanes_new(e, warp);
	for (int first = 0; first < e->lanes; first += span) {
		Num v = num_int(DT_BOOL, all);
		for (int n = first; n < first + span; n++) {
			Num one = x.v[n * x.stride];
			if (e->active[n] && one.undefined)
				model_fail(e->m, op, "a vote is undefined");
			if (e->active[n] && (one.i != 0) != all)
				v.i = !all;
		}
		for (int n = first; n < (warp ? first + span : 1); n++)
			r.v[n] = v;
	}
	lanes_set(e, op->result, r);
}

/* ---- parameters ---- */

static void run_param(Env *e, const Op *op)
{
	const ModelArgs *a = e->m->args;
	const char *name = attr_text(op, AT_NAME, "");
	for (int k = 0; k < a->nscalars; k++)
		if (!strcmp(a->scalar[k].name, name)) {
			set_one(e, op, a->scalar[k].value);
			return;
		}
	model_fail(e->m, op, "'%s' is not given", name);
}

bool scalar_step(Env *e, const Op *op)
{
	switch (op->code) {
	case OP_CONST: run_const(e, op); return true;
	case OP_DIM: case OP_PARAM: run_param(e, op); return true;
	case OP_THREAD: case OP_LANE: case OP_WARP:
		if (!run_place_outside(e, op))
			run_place(e, op);
		return true;
	case OP_BLOCK_IDX: set_one(e, op, num_int(DT_I32, e->cta->block[attr_int(op, AT_AXIS, 0)])); return true;
	case OP_GRID_DIM: set_one(e, op, num_int(DT_I32, e->m->grid[attr_int(op, AT_AXIS, 0)])); return true;
	case OP_CLUSTER_RANK: set_one(e, op, num_int(DT_I32, e->cta->rank)); return true;
	case OP_VAR: declare_var(e, op); return true;
	case OP_GET: run_get(e, op); return true;
	case OP_SET: run_set(e, op); return true;
	case OP_LOAD: run_load(e, op); return true;
	case OP_STORE: run_store(e, op); return true;
	case OP_ATOMIC: run_atomic(e, op); return true;
	case OP_VOTE: run_vote(e, op); return true;
	default:
		if (!num_has(op->code))
			return false;
		run_operation(e, op);
		return true;
	}
}
