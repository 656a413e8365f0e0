/* gdn.c - what the GDN forward has of its own: which calls are served, and the kernels that make one: chunk (per chunk, parallel) writes
 * records into the workspace, scan (per sequence or unit, head and block of V) carries the state over the chunks. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../launch/error.h"
#include "gdn.h"
#include "modules.h" /* generated: the modules as arrays */

enum { MAX_DIM = 256 };

/* ---- Variants ------------------------------------------------------------------------------------------------- */

static const Variant variants[] = {
#define VARIANT(kernel, type, keys, form, ...) { { kernel, type, keys, form }, "gdn_" #kernel, tilekern_gdn_##kernel##_##type##_##keys##_##form, \
	&tilekern_gdn_##kernel##_##type##_##keys##_##form##_bytes },
#include "variants.def"
#undef VARIANT
};

/* ---- Checks --------------------------------------------------------------------------------------------------- */

static int64_t slots(const tilekern_gdn_params *p) { return sequences_slots(SEQUENCES_OF(p)); }
static States states(const tilekern_gdn_params *p) { return STATES_OF(p); }
static size_t workspace(const void *p, int sm_count) { return gdn_plan(p, sm_count).bytes; }

static bool idle(const void *params)
{
	const tilekern_gdn_params *p = params;
	return sequences_count(SEQUENCES_OF(p)) == 0 || p->value_heads == 0;
}

static tilert_status extents(const char *who, const void *params)
{
	const tilekern_gdn_params *p = params;
	const CheckHeads heads = { p->qk_heads, p->value_heads, p->key_dim, p->value_dim, MAX_DIM, MAX_DIM };
	tilert_status s = check_heads(who, &heads);
	if (s != TILERT_OK)
		return s;
	return sequences_check(who, SEQUENCES_OF(p), p->value_heads, (p->value_dim + 63) / 64);
}

enum { OPTIONS = TILEKERN_L2NORM | TILEKERN_RAW_GATE | TILEKERN_SIGMOID_BETA | TILEKERN_TWICE_BETA };

void gdn_rows(const tilekern_gdn_params *p, Rows r[GDN_ROWS])
{
	const Rows rows[] = { FORWARD_ROWS_OF(p, 1, 1), [U] = { "u", p->u, p->dtype, p->batch, p->tokens, p->value_heads, p->value_dim, { 0, 0, 0 }, 8, true } };
	memcpy(r, rows, sizeof rows);
}

/* Units read v again when others have written o: what is written overlaps nothing. */
static tilert_status check_regions(const char *who, const tilekern_gdn_params *p)
{
	enum { OWN = 6 };
	Rows rows[GDN_ROWS];
	const States st = states(p);
	const int64_t chunks = p->tokens > 0 ? slots(p) * p->value_heads : 0;
	Region r[OWN + GDN_ROWS + STATES_REGIONS] = { FORWARD_REGIONS(p, p->value_heads),
		{ "states", p->states, chunks * p->key_dim * p->value_dim * (int64_t)tilert_dtype_size(p->dtype), 0, 0, true },
		{ "records", p->records, chunks * TILEKERN_GDN_RECORD_BYTES, 0, 0, true } };
	gdn_rows(p, rows);
	for (int i = 0; i < GDN_ROWS; i++)
		r[OWN + i] = rows_region(&rows[i]);
	states_regions(&st, r + OWN + GDN_ROWS);
	return check_apart(who, r, sizeof r / sizeof r[0]);
}

static tilert_status check_addresses(const char *who, const tilekern_gdn_params *p)
{
	const bool raw = p->tokens > 0 && (p->options & TILEKERN_RAW_GATE) != 0;
	const CheckPointer pointers[] = { FORWARD_POINTERS(p, (unsigned)tilert_dtype_size(p->gate_dtype), 16, raw, p->tokens > 0), { "states", p->states, 16, false },
		{ "u", p->u, 16, false }, { "records", p->records, WORKSPACE_ALIGN, false } };
	return check_pointers(who, pointers, sizeof pointers / sizeof pointers[0]);
}

/* They are contiguous. */
static tilert_status check_saved(const char *who, const tilekern_gdn_params *p)
{
	const struct { const char *name; tilert_ptr p; int64_t row; } saved[] = {
		{ "states", p->states, p->state_v_first ? p->key_dim : p->value_dim }, { "u", p->u, p->value_dim },
	};
	for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++) {
		if (saved[i].p && saved[i].row % 8 != 0)
			return launch_fail(TILERT_EINVAL, "%s: %s has rows of %lld, not a multiple of 8 (copies move 16 bytes)", who, saved[i].name,
				(long long)saved[i].row);
	}
	return TILERT_OK;
}

/* Everything but what tilert_prepare checks. */
static tilert_status check(const char *who, const void *params)
{
	const tilekern_gdn_params *p = params;
	const States st = states(p);
	const CheckDtype dtypes[] = { FORWARD_DTYPES(p) };
	Rows rows[GDN_ROWS];
	gdn_rows(p, rows);
	tilert_status s = check_dtypes(who, dtypes, sizeof dtypes / sizeof dtypes[0]);
	if (s == TILERT_OK)
		s = check_options(who, p->options, OPTIONS, p->split, p->scale);
	if (s != TILERT_OK || idle(p))
		return s;
	s = check_addresses(who, p);
	if (s == TILERT_OK)
		s = states_check(who, &st);
	if (s == TILERT_OK)
		s = check_saved(who, p);
	if (s == TILERT_OK && p->tokens > 0)
		s = check_strides(who, rows, GDN_ROWS);
	return s == TILERT_OK ? check_regions(who, p) : s;
}

/* ---- Calls ---------------------------------------------------------------------------------------------------- */

Args gdn_arguments(const tilekern_gdn_params *p, const GdnPlan *l, tilert_ptr hold)
{
	const int64_t k = gdn_key_tile(p), v = gdn_value_tile(p), n = slots(p), hv = p->value_heads, heads[] = { hv };
	const int64_t fade[] = { hv, n }, starts[] = { l->starts_count, hv, v, k }, change[] = { l->starts_count, hv, 2 * k, k };
	const int64_t units[] = { l->units, 4 }, taken[] = { l->units, hv };
	const int64_t records[] = { n, hv, TILEKERN_GDN_RECORD_BYTES };
	const int64_t entering[] = { n, hv, p->state_v_first ? p->value_dim : p->key_dim, p->state_v_first ? p->key_dim : p->value_dim };
	const States st = states(p);
	Rows rows[GDN_ROWS];
	Args a = { .n = 0 };
	gdn_rows(p, rows);
	args_rows(&a, &rows[Q], "q", "q0");
	args_rows(&a, &rows[K], "k", "k0");
	args_rows(&a, &rows[V], "v", "v0");
	args_rows(&a, &rows[O], "o", "o0");
	args_rows(&a, &rows[G], ARGS_TYPED(p->gate_dtype, "g"), "g0");
	args_rows(&a, &rows[BETA], ARGS_TYPED(p->beta_dtype, "beta"), "b0");
	args_rows(&a, &rows[U], "us", NULL);
	args_tensor(&a, ARGS_TYPED(p->a_log_dtype, "a_log"), p->a_log, p->a_log_dtype, 1, heads, NULL);
	args_tensor(&a, ARGS_TYPED(p->dt_bias_dtype, "dt_bias"), p->dt_bias, p->dt_bias_dtype, 1, heads, NULL);
	sequences_arguments(&a, SEQUENCES_OF(p));
	states_arguments(&a, &st, hold);
	if (p->states) /* else the backward may have its own */
		args_tensor(&a, p->state_v_first ? "hvk" : "hkv", p->states, p->dtype, 4, entering, NULL);
	args_tensor(&a, "rec", p->records ? p->records : p->workspace, TILERT_U8, 3, records, NULL);
	args_tensor(&a, "numbers", p->records ? p->records : p->workspace, TILERT_F32, 3, (const int64_t[]){ n, hv, TILEKERN_GDN_RECORD_BYTES / 4 }, NULL);
	args_tensor(&a, "fade", p->workspace + l->fade, TILERT_F32, 2, fade, NULL);
	args_tensor(&a, "pending", p->workspace + l->pending, TILERT_I32, 1, (const int64_t[]){ 1 }, NULL);
	args_tensor(&a, "starts", l->joined ? p->workspace + l->starts : 0, TILERT_F32, 4, starts, NULL);
	args_tensor(&a, "change", l->joined ? p->workspace + l->change : 0, TILERT_BF16, 4, change, NULL);
	args_tensor(&a, "units", p->workspace, TILERT_I32, 2, units, NULL);
	args_tensor(&a, "work", p->workspace + l->work, TILERT_I32, 1, (const int64_t[]){ 3 }, NULL);
	args_tensor(&a, "held", p->workspace + l->held, TILERT_I32, 2, taken, NULL);
	args_tensor(&a, "shares", p->workspace + l->shares, TILERT_I32, 2, (const int64_t[]){ l->shares_count, 6 }, NULL);
	args_tensor(&a, "hand", p->workspace + l->hand, TILERT_F32, 3, (const int64_t[]){ l->shares_count, 128, 128 }, NULL);
	args_integer(&a, "least", l->least);
	args_float(&a, "share", (double)l->share);
	args_dim(&a, "UNITS", l->units);
	args_dim(&a, "STARTS", l->starts_count);
	args_dim(&a, "VP", v);
	args_integer(&a, "part", l->part);
	args_integer(&a, "ordered", l->ordered);
	args_integer(&a, "ctas", l->ctas);
	args_integer(&a, "warm", l->warm);
	args_integer(&a, "most", l->most);
	args_float(&a, "negligible", (double)l->negligible);
	args_integer(&a, "group", l->group);
	args_integer(&a, "active", l->active);
	args_integer(&a, "options", p->options);
	args_float(&a, "scale", p->scale != 0 ? (double)p->scale : 1 / sqrt((double)p->key_dim));
	return a;
}

/* The kernel that does it all, after the one that puts the sequences in order. */
static tilert_status queue_single(Queue *q, const tilekern_gdn_params *p, const Args *a)
{
	static const int forms[2][2] = { { kf32, vf32 }, { kio, vio } }; /* states in the type of q, k, v; V first */
	const int form = forms[p->state_dtype != TILERT_F32][p->state_v_first != 0];
	tilert_status s = queue_shared(q, DEAL, a);
	return s == TILERT_OK ? queue_kernel(q, (int[AXES]){ forward, p->dtype == TILERT_F16 ? f16 : bf16, 128, form }, a) : s;
}

static tilert_status queue_scan(Queue *q, const tilekern_gdn_params *p, const GdnPlan *l, const Args *a)
{
	const int type = p->dtype == TILERT_F16 ? f16 : bf16, keys = (int)gdn_key_tile(p);
	static const int plain[2][2] = { { v128, v64 }, { t128, t64 } }; /* states of 16 bits; narrow */
	const int form = keys > 128 ? v64 : gdn_saves(p) ? save : p->checkpoint_state ? stops : plain[keys > 64 && p->state_dtype != TILERT_F32][l->narrow];
	tilert_status s = queue_kernel(q, (int[AXES]){ chunk, type, keys, any }, a);
	if (s == TILERT_OK && l->joined)
		s = queue_kernel(q, (int[AXES]){ scan_units, type, keys, any }, a);
	if (s == TILERT_OK && l->joined)
		s = queue_kernel(q, (int[AXES]){ join_units, none, keys, any }, a);
	return s == TILERT_OK ? queue_kernel(q, (int[AXES]){ keys > 128 ? scan_wide : scan, type, keys, form }, a) : s;
}

static tilert_status queue(Queue *q, const void *params, int sm_count)
{
	const tilekern_gdn_params *p = params;
	const States st = states(p);
	if (p->tokens == 0)
		return states_only(q, &st);
	const GdnPlan l = gdn_plan(p, sm_count);
	/* Several units may warm up from the initial state, when the last one is done. */
	const tilert_ptr hold = l.part > 0 && l.most == 0 && states_in_place(&st) ? p->workspace + l.hold : 0;
	Args a = gdn_arguments(p, &l, hold);
	if (l.single)
		return queue_single(q, p, &a);
	if (gdn_norms(p))
		args_tensor(&a, "norm_q", p->workspace + l.norm_q, TILERT_F32, 3, (const int64_t[]){ slots(p), p->qk_heads, SLOT_TOKENS }, NULL);
	tilert_status s = hold ? states_hold(q, &st, hold) : TILERT_OK;
	return s == TILERT_OK ? queue_scan(q, p, &l, &a) : s;
}

static void init(void *p) { tilekern_gdn_params_init(p); }

static const Family family = {
	.name = "tilekern_gdn", .init = init, .size = sizeof(tilekern_gdn_params), .first = sizeof(tilekern_gdn_params),
	.workspace_bytes = offsetof(tilekern_gdn_params, workspace_bytes),
	.variants = variants, .variant_count = sizeof variants / sizeof variants[0],
	.extents = extents, .check = check, .idle = idle, .workspace = workspace, .queue = queue,
};

const Family *const gdn_family = &family;

OPERATOR_FUNCTIONS(gdn, &family);

int64_t tilekern_gdn_slots(const tilekern_gdn_params *given)
{
	tilekern_gdn_params p;
	return operator_take(&family, "tilekern_gdn_slots", given, &p) == TILERT_OK ? slots(&p) : 0;
}
