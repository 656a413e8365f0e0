/* backward.c - what the KDA backward has of its own: which calls are served, and the kernels that make one.  The forward may have left what is needed of it, or
 * scans again; backward_scan carries the state's gradient from the last token to the first, backward_grads makes gradients per chunk; the others add up and clear. */
#include <math.h>
#include <stddef.h>

#include "../launch/error.h"
#include "../launch/gradients.h"
#include "kda.h"

enum { LONGEST_PACKED = 64 /* chunks of a window that the device chooses (walk.tile) */, NARROW = 64, WIDE = 128 /* channels and columns of V of a part of a head in backward_grads.tile */, MOST = 256 /* K and V */,
	MOST_ADDED = 65535 /* rows and value heads, along y and z of a grid */ };

typedef tilekern_kda_backward_params Params;

/* The forward's parameters, of our version. */
static tilert_status take(const char *who, const Params *p, tilekern_kda_params *f)
{
	if (!p->forward)
		return launch_fail(TILERT_EINVAL, "%s: forward is NULL", who);
	return operator_take(kda_family, who, p->forward, f);
}

/* ---- Workspace -------------------------------------------------------------------------------------------------- */

/* Of a call's value heads: with their parts of V; and with those of K.  Whether gradients of q and k, and of the gate and beta, are first those of parts. */
typedef struct Parts { int64_t values, all; bool keys, gates; } Parts;

static int part_size(const tilekern_kda_params *f) { return kda_keys(f) == NARROW && f->value_dim <= NARROW ? NARROW : WIDE; }

static Parts parts_of(const tilekern_kda_params *f)
{
	const int size = part_size(f);
	const int64_t of_keys = (f->key_dim + size - 1) / size, values = f->value_heads * ((f->value_dim + size - 1) / size);
	return (Parts){ values, values * of_keys, values > f->qk_heads || (of_keys > 1 && (f->options & TILEKERN_L2NORM) != 0), values > f->value_heads };
}

/* Whether a kernel adds up gradients of parts. */
static bool adds_up(const Params *p, const tilekern_kda_params *f)
{
	const Parts parts = parts_of(f);
	return (parts.keys && (p->dq || p->dk)) || (parts.gates && (p->dg || p->dbeta));
}

/* Where the parts of a call's workspace are, and its size.  told: what the forward saved says where shares begin, if any may.  crowded: nearly all multiprocessors have two CTAs of a scan. */
typedef struct Plan { size_t saved, back, gradients, dv, sums, dq, dk, dg, dbeta, small, powers, bytes; KdaPlan shares; bool told, crowded; } Plan;

/* The forward's parameters without what it writes but for `saved` (kda_keys): of the scan that makes it again.  o is there for kernels that do not write it. */
static tilekern_kda_params again(const Params *p, const tilekern_kda_params *f)
{
	tilekern_kda_params c = *f;
	c.o = p->dout;
	c.o_strides = p->dout_strides;
	c.final_state = c.output_indices = c.checkpoint_state = c.checkpoint_offsets = c.checkpoint_starts = c.checkpoint_indices = c.workspace = 0;
	c.checkpoint_every = 0;
	c.saved = 1;
	return c;
}

static Plan plan(const Params *p, const tilekern_kda_params *f, int sm_count)
{
	const int64_t slots = sequences_slots(SEQUENCES_OF(f)), tokens = f->batch * f->tokens;
	const tilekern_kda_params scan = again(p, f);
	const Parts parts = parts_of(f);
	const int64_t keys = tokens * parts.values * f->key_dim;
	Plan l = { 0 };
	if (f->tokens == 0)
		return l;
	l.shares = kda_plan(&scan, sm_count);
	l.told = f->saved && l.shares.way != KDA_WHOLE && kda_plan(f, sm_count).way == l.shares.way;
	l.crowded = 4 * l.shares.ctas > 7 * sm_count;
	l.back = workspace_place(&l.bytes, (int64_t)l.shares.bytes);
	l.saved = workspace_place(&l.bytes, f->saved ? 0 : (int64_t)kda_saved(f).bytes);
	l.gradients = workspace_place(&l.bytes, slots * f->value_heads * kda_columns(f) * kda_keys(f) * 2);
	l.dv = workspace_place(&l.bytes, p->dv ? 0 : tokens * f->value_heads * f->value_dim * 2);
	l.sums = workspace_place(&l.bytes, p->da_log || p->ddt_bias ? slots * parts.all * 2 * part_size(f) * 4 : 0);
	l.dq = workspace_place(&l.bytes, p->dq && parts.keys ? keys * 2 : 0);
	l.dk = workspace_place(&l.bytes, p->dk && parts.keys ? keys * 2 : 0);
	l.dg = workspace_place(&l.bytes, p->dg && parts.gates ? keys * (int64_t)tilert_dtype_size(f->gate_dtype) : 0);
	l.dbeta = workspace_place(&l.bytes, p->dbeta && parts.gates ? tokens * parts.values * 4 : 0);
	l.small = workspace_place(&l.bytes, sizeof(int32_t));
	l.powers = workspace_place(&l.bytes, gradients_powers_bytes(SEQUENCES_OF(f), f->dtype, f->value_heads));
	return l;
}

static size_t workspace(const void *p, int sm_count)
{
	tilekern_kda_params f;
	return take("", p, &f) == TILERT_OK && sequences_have_tokens(SEQUENCES_OF(&f)) ? plan(p, &f, sm_count).bytes : 0;
}

/* ---- Checks --------------------------------------------------------------------------------------------------- */

static tilert_status extents(const char *who, const void *p)
{
	tilekern_kda_params f;
	tilert_status s = take(who, p, &f);
	return s == TILERT_OK ? gradients_check_dims(who, f.key_dim, f.value_dim, MOST) : s;
}

static bool idle(const void *p)
{
	tilekern_kda_params f;
	return take("", p, &f) != TILERT_OK || f.value_heads == 0;
}

#define ROWS_OF(p, f) GRADIENTS_OF(p, f, (f)->key_dim, (f)->gate_dtype == TILERT_F32 ? 4 : 8)

/* What the forward may serve and the backward does not. */
static tilert_status check_served(const char *who, const Params *p, const tilekern_kda_params *f)
{
	const CheckExtent grid[] = { { "batch", f->batch, 0, MOST_ADDED }, { "value_heads", f->value_heads, 0, MOST_ADDED } };
	tilert_status s = gradients_check_types(who, SEQUENCES_OF(f), f->dtype, f->gate_dtype, f->beta_dtype);
	if (s == TILERT_OK)
		s = check_dtypes(who, &(CheckDtype){ "gate_dtype", f->gate_dtype, 2, { TILERT_F32, f->dtype } }, 1);
	if (s == TILERT_OK && adds_up(p, f))
		s = check_extents(who, grid, 2);
	return s == TILERT_OK ? gradients_check_raw(who, f->options, p->da_log, p->ddt_bias) : s;
}

/* Of what the backward adds to the forward. */
static tilert_status check_own(const char *who, const Params *p, const tilekern_kda_params *f)
{
	const tilekern_kda_params scan = again(p, f);
	const Rows rows[] = ROWS_OF(p, f);
	const States st = STATES_OF(&scan);
	Rows given[FORWARD_ROWS];
	kda_rows(f, given);
	given[O].p = 0;
	const CheckPointer pointers[] = { GRADIENTS_POINTERS(p, f, 16, 4) };
	const Region regions[] = { GRADIENTS_REGIONS(p, f, gradients_states_bytes(&st), f->value_heads * f->key_dim),
		{ "saved", f->saved, f->tokens > 0 ? region_bytes(f->saved_bytes) : 0, 0, 0, false } };
	return gradients_check(who, &(GradientsCheck){ rows, given, FORWARD_ROWS, &st, pointers, sizeof pointers / sizeof pointers[0], regions, sizeof regions / sizeof regions[0] });
}

/* The forward's parameters as it would check them, its output where dv comes later. */
static tilekern_kda_params checkable(const Params *p, const tilekern_kda_params *f)
{
	tilekern_kda_params c = again(p, f);
	c.o = p->dv ? p->dv : p->workspace;
	c.o_strides = p->dv ? p->dv_strides : (tilekern_strides){ 0, 0, 0 };
	c.saved = f->saved;
	c.workspace_bytes = 0;
	if ((unsigned)c.split <= TILEKERN_SPLIT_INVARIANT)
		c.split = TILEKERN_SPLIT_OFF; /* which needs none */
	return c;
}

static tilert_status check(const char *who, const void *params)
{
	const Params *p = params;
	tilekern_kda_params f;
	tilert_status s = take(who, p, &f);
	if (s != TILERT_OK)
		return s;
	const tilekern_kda_params c = checkable(p, &f);
	s = check_served(who, p, &f);
	if (s == TILERT_OK && !idle(p))
		s = check_own(who, p, &f);
	return s == TILERT_OK ? kda_family->check(who, &c) : s;
}

/* ---- Calls ---------------------------------------------------------------------------------------------------- */

/* What only the backward has, but for gradients that may be those of parts. */
static void add_arguments(Args *a, const Params *p, const tilekern_kda_params *f, const Plan *l)
{
	const int64_t n = sequences_slots(SEQUENCES_OF(f)), hv = f->value_heads;
	const Parts parts = parts_of(f);
	const int64_t states[] = { n, hv, kda_columns(f), kda_keys(f) }, sums[] = { n, parts.all, 2, part_size(f) }, heads[] = { hv, f->key_dim };
	const States ends = GRADIENTS_STATES_OF(p, f);
	const tilert_ptr w = p->workspace;
	Rows r[] = ROWS_OF(p, f);
	if (!p->dv) {
		r[DV].p = w + l->dv;
		r[DV].given = (tilekern_strides){ 0, 0, 0 };
	}
	const KdaSaved in = kda_saved(f);
	kda_share_arguments(a, &l->shares, l->told ? f->saved + in.back : w + l->back, w + l->back);
	args_tensor(a, "told", l->shares.way == KDA_MADE ? w + l->back + l->shares.begun : 0, TILERT_I32, 1, (const int64_t[]){ l->shares.ctas }, NULL);
	args_integer(a, "longest", l->shares.warm > LONGEST_PACKED ? l->shares.warm : LONGEST_PACKED);
	args_tensor(a, "outcome", l->told ? f->saved + in.outcome : f->saved ? 0 : w + l->saved + in.outcome, TILERT_I32, 1, (const int64_t[]){ 1 }, NULL);
	kda_saved_arguments(a, f, f->saved ? f->saved : w + l->saved);
	args_rows(a, &r[DOUT], "dout", "r0");
	args_rows(a, &r[DV], "dv", "w0");
	args_tensor(a, "dstates", w + l->gradients, TILERT_BF16, 4, states, NULL);
	gradients_states_arguments(a, &ends);
	const struct { const char *name; int64_t value; } dims[] = { { "B", f->batch }, { "T", f->tokens }, { "H", f->qk_heads }, { "HV", hv },
		{ "HO", parts.values }, { "HS", parts.all }, { "K", f->key_dim }, { "V", f->value_dim } };
	for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
		args_dim(a, dims[i].name, dims[i].value);
	args_integer(a, "crowded", l->crowded);
	args_integer(a, "parts", (parts.keys ? 1 : 0) | (parts.gates ? 2 : 0)); /* backward_grads.tile */
	gradients_powers_arguments(a, SEQUENCES_OF(f), f->value_heads, w + l->powers);
	args_tensor(a, "sums", p->da_log || p->ddt_bias ? w + l->sums : 0, TILERT_F32, 4, sums, NULL);
	args_tensor(a, "small", w + l->small, TILERT_I32, 1, (const int64_t[]){ 1 }, NULL);
	args_tensor(a, "da_log", p->da_log, TILERT_F32, 1, heads, NULL);
	args_tensor(a, "ddt_bias", p->ddt_bias, TILERT_F32, 2, heads, NULL);
}

/* dq, dk, dg and dbeta as the caller's, or, with `each`, as those of every part. */
static void add_gradients(Args *a, const Params *p, const tilekern_kda_params *f, const Plan *l, bool each)
{
	const Parts parts = parts_of(f);
	const struct { int which; bool each; tilert_ptr to; } moved[] = { { DQ, parts.keys, p->workspace + l->dq }, { DK, parts.keys, p->workspace + l->dk },
		{ DG, parts.gates, p->workspace + l->dg }, { DBETA, parts.gates, p->workspace + l->dbeta } };
	Rows r[] = ROWS_OF(p, f);
	for (int i = 0; i < 4; i++) {
		Rows *x = &r[moved[i].which];
		if (!each || !moved[i].each)
			continue;
		x->heads = parts.values;
		x->given = (tilekern_strides){ 0, 0, 0 };
		x->p = x->p ? moved[i].to : 0;
	}
	if (each && parts.gates)
		r[DBETA].dtype = TILERT_F32;
	args_rows(a, &r[DQ], "dq", "x0");
	args_rows(a, &r[DK], "dk", "y0");
	args_rows(a, &r[DG], "dg", "z0");
	args_rows(a, &r[DBETA], ARGS_TYPED(r[DBETA].dtype, "dbeta"), "e0");
}

/* The sums over parts and value heads of a group. */
static tilert_status queue_heads(Queue *q, const Args *whole, const Params *p, const tilekern_kda_params *f, const Plan *l)
{
	const Parts parts = parts_of(f);
	const int64_t each[] = { f->batch, f->tokens, parts.values, f->key_dim };
	const bool wide = f->gate_dtype == TILERT_F32;
	const tilert_ptr w = p->workspace, dg = p->dg && parts.gates ? w + l->dg : 0;
	const Rows rows[] = ROWS_OF(p, f);
	Args a = *whole;
	args_tensor(&a, "dq_each", p->dq && parts.keys ? w + l->dq : 0, f->dtype, 4, each, NULL);
	args_tensor(&a, "dk_each", p->dk && parts.keys ? w + l->dk : 0, f->dtype, 4, each, NULL);
	args_tensor(&a, wide ? "dg_eachf32" : "dg_each", dg, f->gate_dtype, 4, each, NULL);
	args_rows(&a, &rows[DG], wide ? "dgsf32" : "dgs", NULL);
	args_tensor(&a, "dbeta_each", p->dbeta && parts.gates ? w + l->dbeta : 0, TILERT_F32, 3, each, NULL);
	return queue_kernel(q, (int[AXES]){ backward_heads, f->dtype == TILERT_F16 ? f16 : bf16, f->key_dim <= WIDE ? WIDE : MOST, any }, &a);
}

static tilert_status queue_none(Queue *q, const Params *p, const tilekern_kda_params *f)
{
	const Rows rows[] = ROWS_OF(p, f);
	const States ends = GRADIENTS_STATES_OF(p, f);
	return gradients_of_none(q, SEQUENCES_OF(f), rows, &ends, p->da_log, p->ddt_bias, f->key_dim);
}

static tilert_status queue_all(Queue *q, const Params *p, const tilekern_kda_params *f, int sm_count)
{
	const Plan l = plan(p, f, sm_count);
	const tilekern_kda_params scan = again(p, f);
	const bool raw_gate = (f->options & TILEKERN_RAW_GATE) != 0, keys = p->dq || p->dk, gates = p->dg || p->dbeta;
	const int type = f->dtype == TILERT_F16 ? f16 : bf16, gate = f->gate_dtype == TILERT_F32 ? f32 : same, most = f->key_dim <= WIDE ? WIDE : MOST;
	const int kind = (f->options & TILEKERN_BOUNDED_GATE) != 0 ? bounded : raw, form = !raw_gate ? gate : gate == f32 ? raw_f32 : kind;
	const bool bare = kda_keys(f) <= WIDE && !p->dfinal_state && !p->dinitial_state; /* of gradients of states */
	const bool joins = l.shares.way == KDA_MADE;
	const int scans = !joins ? gate : gate == f32 ? joins_f32 : joins_same;
	Args whole = kda_arguments(f);
	add_arguments(&whole, p, f, &l);
	Args each = whole;
	add_gradients(&whole, p, f, &l, false);
	add_gradients(&each, p, f, &l, true);
	const Rows rows[] = ROWS_OF(p, f);
	const States ends = GRADIENTS_STATES_OF(p, f);
	tilert_status s = gradients_make_powers(q, SEQUENCES_OF(f), &rows[DOUT], &ends, f->qk_heads, p->workspace + l.powers);
	if (s == TILERT_OK && !f->saved)
		s = kda_queue_saved(q, &scan, &l.shares, p->workspace + l.back, p->workspace + l.back, p->workspace + l.saved);
	else if (s == TILERT_OK && !l.told)
		s = kda_queue_begins(q, &scan, &l.shares, p->workspace + l.back, p->workspace + l.back, false);
	if (s == TILERT_OK && joins)
		s = kda_queue_reset(q, p->workspace + l.back + l.shares.begun, l.shares.ctas);
	if (s == TILERT_OK)
		s = queue_kernel(q, (int[AXES]){ backward_scan, type, kda_keys(f), bare ? plain + scans : scans }, &each);
	if (s == TILERT_OK && (keys || gates || p->da_log || p->ddt_bias))
		s = queue_kernel(q, (int[AXES]){ backward_grads, type, part_size(f), form }, &each);
	if (s == TILERT_OK && adds_up(p, f))
		s = queue_heads(q, &whole, p, f, &l);
	if (s == TILERT_OK && p->dbeta && (f->options & TILEKERN_SIGMOID_BETA) == 0)
		s = queue_kernel(q, (int[AXES]){ backward_beta, type, most, gate }, &whole);
	if (s == TILERT_OK && (p->da_log || p->ddt_bias))
		s = queue_kernel(q, (int[AXES]){ backward_sums, none, WIDE, any }, &each);
	if (s == TILERT_OK)
		s = gradients_scale_back(q, SEQUENCES_OF(f), &rows[DV], p->workspace + l.powers);
	return s == TILERT_OK && f->cu_seqlens ? gradients_clear(q, SEQUENCES_OF(f), rows) : s;
}

static tilert_status queue(Queue *q, const void *params, int sm_count)
{
	const Params *p = params;
	tilekern_kda_params f;
	tilert_status s = take(q->who, p, &f);
	if (s != TILERT_OK)
		return s;
	return !sequences_have_tokens(SEQUENCES_OF(&f)) ? queue_none(q, p, &f) : queue_all(q, p, &f, sm_count);
}

static void init(void *p) { tilekern_kda_backward_params_init(p); }

static const Family family = {
	.name = "tilekern_kda_backward", .init = init, .size = sizeof(Params), .first = sizeof(Params), .workspace_bytes = offsetof(Params, workspace_bytes),
	.extents = extents, .check = check, .idle = idle, .workspace = workspace, .queue = queue,
};

BACKWARD_FUNCTIONS(kda, &family);
