/* kda.c - what the KDA forward has of its own: which calls are served, and the kernel that makes one. */
#include "kda.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../launch/error.h"
#include "plan.h"
#include "modules.h" /* generated: the modules as arrays */

enum { MAX_KEYS = 256, MAX_VALUES = 256, COLUMNS = 64 /* of V, that a warpgroup has of a state */ };

/* ---- Variants ------------------------------------------------------------------------------------------------- */

static const Variant variants[] = {
#define VARIANT(kernel, type, keys, form, ...) { { kernel, type, keys, form }, "kda_" #kernel, tilekern_kda_##kernel##_##type##_##keys##_##form, \
	&tilekern_kda_##kernel##_##type##_##keys##_##form##_bytes },
#include "variants.def"
#undef VARIANT
};

static int type(tilert_dtype t) { return t == TILERT_F32 ? f32 : t == TILERT_F16 ? f16 : bf16; }

/* ---- Checks --------------------------------------------------------------------------------------------------- */

static States states(const tilekern_kda_params *p) { return STATES_OF(p); }

static size_t workspace(const void *p, int sm_count)
{
	return kda_plan_forward(p, sm_count).bytes;
}

static bool idle(const void *params)
{
	const tilekern_kda_params *p = params;
	return sequences_count(SEQUENCES_OF(p)) == 0 || p->value_heads == 0;
}

static tilert_status extents(const char *who, const void *params)
{
	const tilekern_kda_params *p = params;
	const CheckHeads heads = { p->qk_heads, p->value_heads, p->key_dim, p->value_dim, MAX_KEYS, MAX_VALUES };
	tilert_status s = check_heads(who, &heads);
	if (s != TILERT_OK)
		return s;
	return sequences_check(who, SEQUENCES_OF(p), p->value_heads, kda_columns(p) / COLUMNS);
}

enum { OPTIONS = TILEKERN_L2NORM | TILEKERN_RAW_GATE | TILEKERN_SIGMOID_BETA | TILEKERN_TWICE_BETA | TILEKERN_BOUNDED_GATE };

static tilert_status check_bound(const char *who, const tilekern_kda_params *p)
{
	if ((p->options & TILEKERN_BOUNDED_GATE) == 0 || (p->lower_bound >= -5 && p->lower_bound < 0))
		return TILERT_OK;
	return launch_fail(TILERT_EINVAL, "%s: lower_bound is %g, not in [-5, 0)", who, (double)p->lower_bound);
}

void kda_rows(const tilekern_kda_params *p, Rows r[FORWARD_ROWS])
{
	const Rows rows[] = { FORWARD_ROWS_OF(p, p->key_dim, p->gate_dtype == TILERT_F32 ? 4 : 8) };
	memcpy(r, rows, sizeof rows);
}

/* Loads run ahead of stores: what is written overlaps nothing. */
static tilert_status check_regions(const char *who, const tilekern_kda_params *p)
{
	enum { OWN = 5 };
	Rows rows[FORWARD_ROWS];
	const States st = states(p);
	Region r[OWN + FORWARD_ROWS + STATES_REGIONS] = { FORWARD_REGIONS(p, p->value_heads * p->key_dim),
		{ "saved", p->saved, p->tokens > 0 ? region_bytes(p->saved_bytes) : 0, 0, 0, true } };
	kda_rows(p, rows);
	for (int i = 0; i < FORWARD_ROWS; i++)
		r[OWN + i] = rows_region(&rows[i]);
	states_regions(&st, r + OWN + FORWARD_ROWS);
	return check_apart(who, r, sizeof r / sizeof r[0]);
}

static tilert_status check_addresses(const char *who, const tilekern_kda_params *p)
{
	const unsigned bias = (unsigned)tilert_dtype_size(p->dt_bias_dtype);
	const CheckPointer pointers[] = { FORWARD_POINTERS(p, 16, bias, false, p->tokens > 0 && workspace(p, 1) > 0), { "saved", p->saved, WORKSPACE_ALIGN, false } };
	return check_pointers(who, pointers, sizeof pointers / sizeof pointers[0]);
}

static tilert_status check_saved(const char *who, const tilekern_kda_params *p)
{
	const size_t needed = p->saved ? kda_saved(p).bytes : 0;
	if (p->saved_bytes < needed)
		return launch_fail(TILERT_EINVAL, "%s: saved_bytes is %zu, but %zu are needed", who, p->saved_bytes, needed);
	if (p->saved && (p->key_dim % 8 != 0 || p->value_dim % 8 != 0))
		return launch_fail(TILERT_EINVAL, "%s: key_dim x value_dim (with saved) is %lld x %lld, not multiples of 8", who, (long long)p->key_dim, (long long)p->value_dim);
	return p->saved ? check_dtypes(who, &(CheckDtype){ "gate_dtype (with saved)", p->gate_dtype, 2, { TILERT_F32, p->dtype } }, 1) : TILERT_OK;
}

/* Everything but what tilert_prepare checks. */
static tilert_status check(const char *who, const void *params)
{
	const tilekern_kda_params *p = params;
	const States st = states(p);
	const CheckDtype dtypes[] = { FORWARD_DTYPES(p) };
	Rows rows[FORWARD_ROWS];
	kda_rows(p, rows);
	tilert_status s = check_dtypes(who, dtypes, sizeof dtypes / sizeof dtypes[0]);
	if (s == TILERT_OK)
		s = check_options(who, p->options, OPTIONS, p->split, p->scale);
	if (s == TILERT_OK)
		s = check_bound(who, p);
	if (s != TILERT_OK || idle(p))
		return s;
	s = check_saved(who, p);
	if (s == TILERT_OK)
		s = check_addresses(who, p);
	if (s == TILERT_OK)
		s = states_check(who, &st);
	if (s == TILERT_OK)
		s = check_strides(who, rows, FORWARD_ROWS);
	return s == TILERT_OK ? check_regions(who, p) : s;
}

/* ---- Calls ---------------------------------------------------------------------------------------------------- */

Args kda_arguments(const tilekern_kda_params *p)
{
	const int64_t bias[] = { p->value_heads, p->key_dim };
	const States st = states(p);
	const double bound = (p->options & TILEKERN_BOUNDED_GATE) != 0 ? (double)p->lower_bound : -5; /* else it may be anything */
	Rows rows[FORWARD_ROWS];
	Args a = { .n = 0 };
	kda_rows(p, rows);
	args_rows(&a, &rows[Q], "q", "q0");
	args_rows(&a, &rows[K], "k", "k0");
	args_rows(&a, &rows[V], "v", "v0");
	args_rows(&a, &rows[O], "o", "o0");
	args_rows(&a, &rows[G], "g", "g0");
	args_rows(&a, &rows[BETA], ARGS_TYPED(p->beta_dtype, "beta"), "b0");
	args_tensor(&a, ARGS_TYPED(p->a_log_dtype, "a_log"), p->a_log, p->a_log_dtype, 1, bias, NULL);
	args_tensor(&a, ARGS_TYPED(p->dt_bias_dtype, "dt_bias"), p->dt_bias, p->dt_bias_dtype, 2, bias, NULL);
	sequences_arguments(&a, SEQUENCES_OF(p));
	states_arguments(&a, &st, 0);
	args_integer(&a, "options", p->options);
	args_float(&a, "bound", bound);
	args_float(&a, "log2_bound", bound * 1.4426950408889634);
	args_float(&a, "scale", p->scale != 0 ? (double)p->scale : 1 / sqrt((double)p->key_dim));
	return a;
}

enum { BY_LENGTH = 2 }; /* of `alone`: walk.tile */

/* What a launch is for: walk.tile. */
typedef enum Task { EITHER = -1, SCAN, WINDOWS, SHARES, PARTS, ALONE, STATES, LOOKS, PUTS, UNITS, SINGLE } Task;

/* That of the forms that serves the call: those for plain states are faster, and are there for gates of the type of q, k, v, in bf16 for f32 ones, too. */
static int form_for(const tilekern_kda_params *p, int form, int columns /* of V, of an item */)
{
	const bool states = p->initial_state || p->final_state, whole = p->key_dim == kda_keys(p) && p->value_dim % columns == 0;
	const bool served = kda_keys(p) <= 128 && !(form >= looks_bf16 && form <= looks_f16) && (p->gate_dtype == p->dtype || (p->gate_dtype == TILERT_F32 && p->dtype == TILERT_BF16));
	return served && !p->checkpoint_state && (!states || (whole && p->state_dtype == TILERT_F32)) ? plain + form : form;
}

static tilert_status queue_task(Queue *q, const tilekern_kda_params *p, const Args *call, Task task, const KdaPlan *l)
{
	const int gate = type(p->gate_dtype);
	Args a = *call;
	args_integer(&a, "task", task);
	args_integer(&a, "warm", l->warm);
	args_integer(&a, "alone", l->way == KDA_ALONE ? 1 : l->way == KDA_EITHER || l->by_length ? BY_LENGTH : 0);
	args_integer(&a, "pieces", l->pieces);
	args_integer(&a, "least", l->least);
	args_integer(&a, "cut_from", l->cut_from);
	const bool parted = kda_keys(p) == 128 && gate != f32; /* forward.tile */
	const int form = task == SCAN ? l->halves ? half_bf16 : kda_deals(p, l) ? dealt_bf16 : bf16 : task == UNITS ? units_bf16 : parted && (task == WINDOWS || task >= LOOKS) ? looks_bf16 : cut_bf16;
	return queue_kernel(q, (int[AXES]){ forward, type(p->dtype), kda_keys(p), form_for(p, form + gate - bf16, kda_keys(p) == 128 && !l->halves ? 128 : COLUMNS) }, &a);
}

void kda_share_arguments(Args *a, const KdaPlan *l, tilert_ptr back, tilert_ptr work)
{
	args_tensor(a, "back", l->way != KDA_WHOLE ? back : 0, TILERT_I32, 1, (const int64_t[]){ l->ctas }, NULL);
	args_tensor(a, "begun", l->by_length || (l->way > KDA_WINDOWS && l->way < KDA_UNITS) ? work + l->begun : 0, TILERT_I32, 1, (const int64_t[]){ l->ctas }, NULL);
	args_dim(a, "CTAS", l->ctas);
	args_integer(a, "ctas", l->ctas);
	args_integer(a, "part", l->part);
	args_integer(a, "run", l->run);
	args_integer(a, "each", l->each);
	args_tensor(a, "begins", l->way == KDA_UNITS ? work + l->begins : 0, TILERT_I32, 1, (const int64_t[]){ l->begins_count }, NULL);
	args_dim(a, "BEGINS", l->begins_count);
	args_tensor(a, "enter", l->way > KDA_WINDOWS && l->keys > 0 ? work + l->enter : 0, TILERT_F32, 4, (const int64_t[]){ l->ctas, 2, l->keys, l->keys }, NULL);
	args_tensor(a, "across", l->way > KDA_WINDOWS && l->way < KDA_UNITS ? work + l->across : 0, TILERT_BF16, 4, (const int64_t[]){ l->ctas, 2, l->keys, l->keys }, NULL);
}

/* Before a call whose CTAs wait for what others say in n numbers. */
tilert_status kda_queue_reset(Queue *q, tilert_ptr numbers, int64_t n)
{
	Args a = { .n = 0 };
	args_tensor(&a, "back", numbers, TILERT_I32, 1, &n, NULL);
	args_dim(&a, "CTAS", n);
	return queue_kernel(q, (int[AXES]){ reset, none, 128, any }, &a);
}

tilert_status kda_queue_begins(Queue *q, const tilekern_kda_params *p, const KdaPlan *l, tilert_ptr back, tilert_ptr work, bool states)
{
	const bool makes = l->way == KDA_MADE && states;
	Args a = kda_arguments(p);
	if (l->way != KDA_WINDOWS && l->way != KDA_MADE)
		return TILERT_OK;
	kda_share_arguments(&a, l, back, work);
	tilert_status s = makes ? kda_queue_reset(q, back, l->ctas) : TILERT_OK;
	return s == TILERT_OK ? queue_task(q, p, &a, makes ? STATES : WINDOWS, l) : s;
}

static tilert_status queue_shares(Queue *q, const tilekern_kda_params *p, const KdaPlan *l, const Args *a)
{
	static const Task tasks[] = { [KDA_ALONE] = ALONE, [KDA_EITHER] = EITHER, [KDA_NEEDED] = SHARES, [KDA_EXACTLY] = PARTS };
	const States st = states(p);
	const bool waits = l->way != KDA_ALONE || states_in_place(&st);
	tilert_status s = waits ? kda_queue_reset(q, p->workspace, (int64_t)(l->begun / sizeof(int32_t)) + l->ctas) : TILERT_OK; /* `back` and `begun` */
	return s == TILERT_OK ? queue_task(q, p, a, tasks[l->way], l) : s;
}

/* Which units can begin; the call. */
static tilert_status queue_units(Queue *q, const tilekern_kda_params *p, const KdaPlan *l, const Args *a)
{
	const States st = states(p);
	tilert_status s = l->single ? kda_queue_reset(q, p->workspace + l->begins, l->begins_count) : TILERT_OK;
	if (s == TILERT_OK && l->looks > 0) {
		KdaPlan looks = *l;
		Args other = kda_arguments(p);
		looks.ctas = l->looks;
		looks.keys = 0; /* without `enter` */
		kda_share_arguments(&other, &looks, p->workspace, p->workspace);
		s = queue_task(q, p, &other, LOOKS, l);
	}
	if (s == TILERT_OK)
		s = queue_task(q, p, a, l->single ? SINGLE : UNITS, l);
	return s == TILERT_OK && states_in_place(&st) ? queue_task(q, p, a, PUTS, l) : s;
}

/* form: one of those with SAVE. */
static tilert_status queue_saving(Queue *q, const tilekern_kda_params *p, const Args *call, tilert_ptr saved, int form)
{
	Args a = *call;
	kda_saved_arguments(&a, p, saved);
	args_tensor(&a, "outcome", saved + kda_saved(p).outcome, TILERT_I32, 1, (const int64_t[]){ 1 }, NULL);
	return queue_kernel(q, (int[AXES]){ forward, type(p->dtype), kda_keys(p), form_for(p, form, kda_keys(p) == 128 ? 128 : COLUMNS) }, &a);
}

static tilert_status queue(Queue *q, const void *params, int sm_count)
{
	const tilekern_kda_params *p = params;
	const KdaPlan l = kda_plan_forward(p, sm_count);
	const tilert_ptr back = p->saved ? p->saved + kda_saved(p).back : p->workspace;
	if (p->tokens == 0) {
		const States st = states(p);
		return states_only(q, &st);
	}
	Args a = kda_arguments(p);
	kda_share_arguments(&a, &l, back, p->workspace);
	if (l.way > KDA_WINDOWS && l.way != KDA_MADE)
		return l.way == KDA_UNITS ? queue_units(q, p, &l, &a) : queue_shares(q, p, &l, &a);
	tilert_status s = kda_queue_begins(q, p, &l, back, p->workspace, true);
	if (s != TILERT_OK)
		return s;
	if (p->saved)
		return queue_saving(q, p, &a, p->saved, p->gate_dtype == TILERT_F32 ? save_f32 : save_same);
	KdaPlan halves = l;
	halves.halves = true;
	s = queue_task(q, p, &a, SCAN, &l);
	return s == TILERT_OK && l.run < 0 ? queue_task(q, p, &a, SCAN, &halves) : s;
}

static void init(void *p) { tilekern_kda_params_init(p); }

static const Family family = {
	.name = "tilekern_kda", .init = init, .size = sizeof(tilekern_kda_params), .first = sizeof(tilekern_kda_params),
	.workspace_bytes = offsetof(tilekern_kda_params, workspace_bytes),
	.variants = variants, .variant_count = sizeof variants / sizeof variants[0],
	.extents = extents, .check = check, .idle = idle, .workspace = workspace, .queue = queue,
};

OPERATOR_FUNCTIONS(kda, &family);

/* ---- For the backward ----------------------------------------------------------------------------------------- */

const Family *const kda_family = &family;

enum { RECORD = 4480 /* saved.tile */ };

int64_t kda_columns(const tilekern_kda_params *p) { return (p->value_dim + COLUMNS - 1) / COLUMNS * COLUMNS; }

KdaSaved kda_saved(const tilekern_kda_params *p)
{
	const int64_t chunks = sequences_slots(SEQUENCES_OF(p)) * p->value_heads;
	KdaSaved l = { 0 };
	if (p->tokens == 0)
		return l;
	l.records = workspace_place(&l.bytes, chunks * 2 * RECORD);
	l.states = workspace_place(&l.bytes, chunks * kda_columns(p) * kda_keys(p) * 2);
	l.u = workspace_place(&l.bytes, p->batch * p->tokens * p->value_heads * p->value_dim * 2);
	l.outcome = workspace_place(&l.bytes, (int64_t)sizeof(int32_t));
	l.back = workspace_place(&l.bytes, KDA_SAVED_SHARES * (int64_t)sizeof(int32_t));
	return l;
}

void kda_saved_arguments(Args *a, const tilekern_kda_params *p, tilert_ptr saved)
{
	const KdaSaved l = kda_saved(p);
	const int64_t n = sequences_slots(SEQUENCES_OF(p)), hv = p->value_heads;
	const int64_t records[] = { n, hv, 2, RECORD }, states[] = { n, hv, kda_columns(p), kda_keys(p) }, u[] = { p->batch, p->tokens, hv, p->value_dim };
	args_tensor(a, "rec", saved + l.records, TILERT_U8, 4, records, NULL);
	args_tensor(a, "states", saved + l.states, TILERT_BF16, 4, states, NULL);
	args_tensor(a, "u", saved + l.u, TILERT_BF16, 4, u, NULL);
	args_dim(a, "VP", kda_columns(p));
	args_dim(a, "KP", kda_keys(p));
}

tilert_status kda_queue_saved(Queue *q, const tilekern_kda_params *p, const KdaPlan *l, tilert_ptr back, tilert_ptr work, tilert_ptr saved)
{
	tilekern_kda_params f = *p;
	f.o = 0;
	Args a = kda_arguments(&f);
	kda_share_arguments(&a, l, back, work);
	const bool wide = kda_keys(p) > 128; /* not compiled for this alone */
	const int form = (wide ? save_same : only_same) + (p->gate_dtype == TILERT_F32);
	tilert_status s = kda_queue_begins(q, p, l, back, work, true);
	return s == TILERT_OK ? queue_saving(q, p, &a, saved, form) : s;
}

tilert_status tilekern_kda_saved_bytes(tilekern_kda *kda, const tilekern_kda_params *p, size_t *out)
{
	static const char who[] = "tilekern_kda_saved_bytes";
	tilekern_kda_params f;
	if (!kda || !out)
		return launch_fail(TILERT_EINVAL, "%s: %s is NULL", who, kda ? "out" : "the operator");
	tilert_status s = operator_take(&family, who, p, &f);
	if (s == TILERT_OK)
		*out = kda_saved(&f).bytes;
	return s;
}
