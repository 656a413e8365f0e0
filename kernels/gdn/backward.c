/* backward.c - what the GDN backward has of its own: which calls are served, and the kernels that make one.  The forward's chunk makes records and
 * backward_states the states of chunks and u, unless the forward has saved them; backward_scan carries the state's gradient from the last chunk to the first, backward_grads makes the
 * gradients of each chunk; the others add up and clear. */
#include <stddef.h>

#include "../launch/error.h"
#include "../launch/gradients.h"
#include "gdn.h"

enum { TILE = 128 /* channels of keys that the kernels are for; the wide ones, twice as many */, MAX_DIM = 256 };

typedef tilekern_gdn_backward_params Params;

/* The forward's parameters, of our version. */
static tilert_status take(const char *who, const Params *p, tilekern_gdn_params *f)
{
	if (!p->forward)
		return launch_fail(TILERT_EINVAL, "%s: forward is NULL", who);
	return operator_take(gdn_family, who, p->forward, f);
}

/* ---- Workspace -------------------------------------------------------------------------------------------------- */

/* Where the parts of a call's workspace are, behind those of the scan, and its size. */
typedef struct Plan { size_t states, gradients, u, dv, sums, part, small, powers, bytes; } Plan;

static bool wide(const tilekern_gdn_params *f) { return f->key_dim > TILE; }

/* Channels of a state's gradient in memory: of the kernels' tiles. */
static int64_t gradient_keys(const tilekern_gdn_params *f) { return gdn_key_tile(f); }

/* Its columns: kernels for up to 64 channels have blocks of 64, others of 128. */
static int64_t gradient_values(const tilekern_gdn_params *f) { return gdn_key_tile(f) == TILE / 2 ? (f->value_dim + 63) / 64 * 64 : gdn_value_tile(f); }

/* The forward left what the backward needs of it. */
static bool saved(const tilekern_gdn_params *f) { return f->states && f->u && f->records; }

/* The forward of which chunk, backward_states and backward_scan have plan and arguments: it saves u, and its output is where dv comes. */
static tilekern_gdn_params again(const Params *p, const tilekern_gdn_params *f, const Plan *l)
{
	tilekern_gdn_params c = *f;
	c.final_state = c.checkpoint_state = c.states = c.records = 0;
	c.workspace = p->workspace;
	c.u = saved(f) ? f->u : p->workspace + l->u;
	c.o = p->dv ? p->dv : p->workspace + l->dv;
	c.o_strides = p->dv ? p->dv_strides : (tilekern_strides){ 0, 0, 0 };
	return c;
}

static Plan plan(const Params *p, const tilekern_gdn_params *f, int sm_count)
{
	const int64_t chunks = sequences_slots(SEQUENCES_OF(f)) * f->value_heads, values = f->batch * f->tokens * f->value_heads * f->value_dim;
	Plan l = { .u = 1 };
	if (f->tokens == 0)
		return (Plan){ 0 };
	const tilekern_gdn_params c = again(p, f, &l);
	const GdnPlan scanned = gdn_plan(&c, sm_count);
	l.u = 0;
	workspace_place(&l.bytes, saved(f) ? 0 : (int64_t)scanned.bytes);
	l.states = workspace_place(&l.bytes, saved(f) ? 0 : chunks * f->key_dim * f->value_dim * 2);
	l.gradients = workspace_place(&l.bytes, chunks * gradient_keys(f) * gradient_values(f) * 2);
	l.u = workspace_place(&l.bytes, saved(f) ? 0 : values * 2);
	l.dv = workspace_place(&l.bytes, p->dv ? 0 : values * 2);
	l.sums = workspace_place(&l.bytes, p->da_log || p->ddt_bias ? chunks * 2 * (int64_t)sizeof(float) : 0);
	l.part = workspace_place(&l.bytes, wide(f) ? chunks * SLOT_TOKENS * (int64_t)sizeof(float) : 0);
	l.small = workspace_place(&l.bytes, sizeof(int32_t));
	l.powers = workspace_place(&l.bytes, gradients_powers_bytes(SEQUENCES_OF(f), f->dtype, f->value_heads));
	return l;
}

static size_t workspace(const void *p, int sm_count)
{
	tilekern_gdn_params f;
	return take("", p, &f) == TILERT_OK && sequences_have_tokens(SEQUENCES_OF(&f)) ? plan(p, &f, sm_count).bytes : 0;
}

/* ---- Checks --------------------------------------------------------------------------------------------------- */

static tilert_status extents(const char *who, const void *p)
{
	tilekern_gdn_params f;
	tilert_status s = take(who, p, &f);
	return s == TILERT_OK ? gradients_check_dims(who, f.key_dim, f.value_dim, MAX_DIM) : s;
}

static bool idle(const void *p)
{
	tilekern_gdn_params f;
	return take("", p, &f) != TILERT_OK || f.value_heads == 0;
}

#define ROWS_OF(p, f) GRADIENTS_OF(p, f, 1, 1) /* a gate is one number */

/* What the forward may serve and the backward does not. */
static tilert_status check_served(const char *who, const Params *p, const tilekern_gdn_params *f)
{
	tilert_status s = gradients_check_types(who, SEQUENCES_OF(f), f->dtype, f->gate_dtype, f->beta_dtype);
	if (s == TILERT_OK && !saved(f) && (f->states || f->u || f->records))
		s = launch_fail(TILERT_EINVAL, "%s: of the forward's states, u and records, at 0x%llx, 0x%llx and 0x%llx, all are needed, or none", who,
			(unsigned long long)f->states, (unsigned long long)f->u, (unsigned long long)f->records);
	return s == TILERT_OK ? gradients_check_raw(who, f->options, p->da_log, p->ddt_bias) : s;
}

/* Of what the backward adds to the forward. */
static tilert_status check_own(const char *who, const Params *p, const tilekern_gdn_params *f)
{
	const int64_t hv = f->value_heads, chunks = f->tokens > 0 ? sequences_slots(SEQUENCES_OF(f)) * hv : 0;
	const Rows rows[] = ROWS_OF(p, f);
	const States st = STATES_OF(f);
	Rows given[GDN_ROWS];
	gdn_rows(f, given);
	given[U].written = false;
	const CheckPointer pointers[] = { GRADIENTS_POINTERS(p, f, (unsigned)tilert_dtype_size(f->gate_dtype), 16), { "states", f->states, 16, false },
		{ "u", f->u, 16, false }, { "records", f->records, WORKSPACE_ALIGN, false } };
	const Region regions[] = { GRADIENTS_REGIONS(p, f, gradients_states_bytes(&st), hv), { "states", f->states, chunks * f->key_dim * f->value_dim * 2, 0, 0, false },
		{ "records", f->records, chunks * TILEKERN_GDN_RECORD_BYTES, 0, 0, false } };
	return gradients_check(who, &(GradientsCheck){ rows, given, GDN_ROWS, &st, pointers, sizeof pointers / sizeof pointers[0], regions, sizeof regions / sizeof regions[0] });
}

/* The forward's parameters without what it writes. */
static tilekern_gdn_params inputs(const tilekern_gdn_params *f)
{
	tilekern_gdn_params c = *f;
	c.o_strides = (tilekern_strides){ 0, 0, 0 };
	c.o = c.final_state = c.output_indices = c.checkpoint_state = c.checkpoint_offsets = c.checkpoint_starts = c.checkpoint_indices = 0;
	c.checkpoint_every = c.checkpoint_slots = 0;
	c.workspace = 0;
	c.workspace_bytes = 0;
	return c;
}

static tilert_status check(const char *who, const void *params)
{
	const Params *p = params;
	tilekern_gdn_params f;
	tilert_status s = take(who, p, &f);
	if (s != TILERT_OK)
		return s;
	f = inputs(&f);
	s = check_served(who, p, &f);
	if (s == TILERT_OK && !idle(p))
		s = check_own(who, p, &f);
	f.states = f.u = f.records = 0; /* the rest as the forward checks it, its output where dv comes later */
	f.workspace = p->workspace;
	f.o = p->dv ? p->dv : p->workspace;
	f.o_strides = p->dv ? p->dv_strides : f.o_strides;
	return s == TILERT_OK ? gdn_family->check(who, &f) : s;
}

/* ---- Calls ---------------------------------------------------------------------------------------------------- */

static void add_gradients(Args *a, const Rows r[GRADIENTS])
{
	args_rows(a, &r[DQ], "dq", "x0");
	args_rows(a, &r[DK], "dk", "y0");
	args_rows(a, &r[DV], "dv", "w0");
	args_rows(a, &r[DG], ARGS_TYPED(r[DG].dtype, "dg"), "z0");
	args_rows(a, &r[DBETA], ARGS_TYPED(r[DBETA].dtype, "dbeta"), "e0");
}

/* What only the backward has; dv is there even if it is not wanted. */
static void add_arguments(Args *a, const Params *p, const tilekern_gdn_params *f, const tilekern_gdn_params *c, const Plan *l)
{
	const int64_t n = sequences_slots(SEQUENCES_OF(f)), hv = f->value_heads, heads[] = { hv };
	const bool key_first = saved(f) && !f->state_v_first;
	const int64_t states[] = { n, hv, key_first ? f->key_dim : f->value_dim, key_first ? f->value_dim : f->key_dim }, gradients[] = { n, hv, gradient_values(f), gradient_keys(f) };
	const int64_t sums[] = { hv, n, 2 }, part[] = { hv, n, SLOT_TOKENS };
	const States ends = GRADIENTS_STATES_OF(p, f);
	Rows r[] = ROWS_OF(p, f);
	r[DV].p = c->o;
	r[DV].given = c->o_strides;
	args_rows(a, &r[DOUT], "dout", "r0");
	add_gradients(a, r);
	gradients_states_arguments(a, &ends);
	args_tensor(a, key_first ? "hkv" : "hvk", saved(f) ? f->states : p->workspace + l->states, f->dtype, 4, states, NULL);
	args_dim(a, "GV", gradients[2]);
	args_dim(a, "GK", gradients[3]);
	args_tensor(a, "dstates", p->workspace + l->gradients, f->dtype, 4, gradients, NULL);
	args_tensor(a, "sums", p->da_log || p->ddt_bias ? p->workspace + l->sums : 0, TILERT_F32, 3, sums, NULL);
	args_tensor(a, "partial", p->workspace + l->part, TILERT_F32, 3, part, NULL);
	gradients_powers_arguments(a, SEQUENCES_OF(f), f->value_heads, p->workspace + l->powers);
	args_tensor(a, "small", p->workspace + l->small, TILERT_I32, 1, (const int64_t[]){ 1 }, NULL);
	args_tensor(a, "da_log", p->da_log, TILERT_F32, 1, heads, NULL);
	args_tensor(a, "ddt_bias", p->ddt_bias, TILERT_F32, 1, heads, NULL);
}

static tilert_status queue_none(Queue *q, const Params *p, const tilekern_gdn_params *f)
{
	const Rows rows[] = ROWS_OF(p, f);
	const States ends = GRADIENTS_STATES_OF(p, f);
	return gradients_of_none(q, SEQUENCES_OF(f), rows, &ends, p->da_log, p->ddt_bias, 1);
}

/* The forward again: records, the states that enter the chunks, u.  scan_wide makes o, too. */
static tilert_status queue_again(Queue *q, const tilekern_gdn_params *f, int type, const Args *a)
{
	tilert_status s = queue_kernel(q, (int[AXES]){ chunk, type, (int)gdn_key_tile(f), any }, a);
	return s == TILERT_OK ? queue_kernel(q, wide(f) ? (int[AXES]){ scan_wide, type, MAX_DIM, v64 } : (int[AXES]){ backward_states, type, (int)gdn_key_tile(f), any }, a) : s;
}

static tilert_status queue_all(Queue *q, const Params *p, const tilekern_gdn_params *f)
{
	const Plan l = plan(p, f, q->op->sm_count);
	tilekern_gdn_params c = again(p, f, &l);
	const GdnPlan scanned = gdn_plan(&c, q->op->sm_count);
	const int type = f->dtype == TILERT_F16 ? f16 : bf16, form = gdn_key_tile(f) == TILE / 2 ? any : saved(f) && !f->state_v_first ? kio : vio;
	if (saved(f))
		c.records = f->records;
	Args a = gdn_arguments(&c, &scanned, 0);
	add_arguments(&a, p, f, &c, &l);
	const Rows rows[] = ROWS_OF(p, f);
	const States ends = GRADIENTS_STATES_OF(p, f);
	tilert_status s = gradients_make_powers(q, SEQUENCES_OF(f), &rows[DOUT], &ends, f->qk_heads, p->workspace + l.powers);
	if (s == TILERT_OK && !saved(f))
		s = queue_again(q, f, type, &a);
	if (s == TILERT_OK)
		s = queue_kernel(q, (int[AXES]){ wide(f) ? backward_scan_wide : backward_scan, type, (int)gradient_keys(f), any }, &a);
	if (s == TILERT_OK && (p->dq || p->dk || p->dg || p->dbeta || p->da_log || p->ddt_bias))
		s = queue_kernel(q, (int[AXES]){ wide(f) ? backward_grads_wide : backward_grads, type, (int)gradient_keys(f), form }, &a);
	if (s == TILERT_OK && p->dbeta && (f->options & TILEKERN_SIGMOID_BETA) == 0)
		s = queue_kernel(q, (int[AXES]){ backward_beta, type, TILE, any }, &a);
	if (s == TILERT_OK && (p->da_log || p->ddt_bias))
		s = queue_kernel(q, (int[AXES]){ backward_sums, none, TILE, any }, &a);
	if (s == TILERT_OK)
		s = gradients_scale_back(q, SEQUENCES_OF(f), &rows[DV], p->workspace + l.powers);
	return s == TILERT_OK && f->cu_seqlens ? gradients_clear(q, SEQUENCES_OF(f), rows) : s;
}

static tilert_status queue(Queue *q, const void *params, int sm_count)
{
	const Params *p = params;
	tilekern_gdn_params f;
	tilert_status s = take(q->who, p, &f);
	(void)sm_count;
	if (s != TILERT_OK)
		return s;
	f = inputs(&f);
	return !sequences_have_tokens(SEQUENCES_OF(&f)) ? queue_none(q, p, &f) : queue_all(q, p, &f);
}

static void init(void *p) { tilekern_gdn_backward_params_init(p); }

static const Family family = {
	.name = "tilekern_gdn_backward", .init = init, .size = sizeof(Params), .first = sizeof(Params), .workspace_bytes = offsetof(Params, workspace_bytes),
	.extents = extents, .check = check, .idle = idle, .workspace = workspace, .queue = queue,
};

BACKWARD_FUNCTIONS(gdn, &family);
