#include "operators.h"

#include <string.h>

#include "device.h"

/* The inputs that every operator begins with; the schemas below have them in this order. */
enum { Q, K, V, G, BETA, A_LOG, DT_BIAS, INPUTS };
#define INPUTS_SCHEMA "Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, Tensor? A_log, Tensor? dt_bias, "

/* Letters of extents: B rows, T tokens, H heads of q and k, G of v, K and V channels, N sequences, C offsets of them, D = G K, S slots. */
static const Arg inputs[FAMILIES][INPUTS] = {
	[GDN] = {
		{ "q", "BTHK", HALF, ROWS_16, false, false }, { "k", "BTHK", SAME, ROWS_16, false, false }, { "v", "BTGV", SAME, ROWS_16, false, false },
		{ "g", "BTG", ANY_FLOAT, ROWS, false, false }, { "beta", "BTG", ANY_FLOAT, ROWS, false, false },
		{ "A_log", "G", ANY_FLOAT, DENSE, true, false }, { "dt_bias", "G", ANY_FLOAT, DENSE, true, false },
	},
	[KDA] = {
		{ "q", "BTHK", HALF, ROWS_16, false, false }, { "k", "BTHK", SAME, ROWS_16, false, false }, { "v", "BTGV", SAME, ROWS_16, false, false },
		{ "g", "BTGK", ANY_FLOAT, ROWS_16, false, false }, { "beta", "BTG", ANY_FLOAT, ROWS, false, false },
		{ "A_log", "G", ANY_FLOAT, DENSE, true, false }, { "dt_bias", "D", ANY_FLOAT, DENSE, true, false },
	},
};
static const Arg cu_seqlens = { "cu_seqlens", "C", INDEX, DENSE, true, false };
static const Arg initial_state[2] = { { "initial_state", "NGKV", ANY_FLOAT, DENSE, true, false }, { "initial_state", "NGVK", ANY_FLOAT, DENSE, true, false } };
static const Arg final_gradient[2] = { { "dfinal_state", "NGKV", F32, DENSE, true, false }, { "dfinal_state", "NGVK", F32, DENSE, true, false } };
static const Arg output_gradient = { "dout", "BTGV", SAME, ROWS_16, false, false };
static const Arg saved_bytes = { "saved", "P", BYTES, DENSE, true, false };
static const Arg pool[2] = { { "pool", "SGKV", ANY_FLOAT, ROWS_16, false, true }, { "pool", "SGVK", ANY_FLOAT, ROWS_16, false, true } };
static const Arg slots = { "slots", "N", INDEX, DENSE, false, false };
static const Arg has_initial_state = { "has_initial_state", "N", BYTES, DENSE, true, false };
static const Arg out = { "out", "BTGV", SAME, ROWS_16, false, true };

static tilekern_strides strides(const Given *g) { return (tilekern_strides){ g->strides[0], g->strides[1], g->strides[2] }; }

/* ---- what all calls begin with ----------------------------------------------------------------------------------- */

static void take_inputs(Frame *f, FamilyName family, Value *stack, Given in[INPUTS])
{
	for (int i = 0; i < INPUTS; i++) {
		const Arg *a = &inputs[family][i];
		Tensor t = frame_hold(f, stack[i], a->optional);
		if (i == DT_BIAS)
			frame_count(f, 'D', frame_dim(f, 'G') * frame_dim(f, 'K'), "the heads and channels of g");
		if (!f->failed)
			frame_take(f, a, t, &in[i]);
	}
}

static bool take_offsets(Frame *f, Tensor t, Given *cu)
{
	if (!frame_take(f, &cu_seqlens, t, cu))
		return false;
	if (t && cu->sizes[0] == 0)
		return frame_fail(f, true, "cu_seqlens.shape[0] is 0, but one sequence has 2 offsets");
	if (t && frame_dim(f, 'B') != 1)
		return frame_fail(f, true, "q.shape[0] is %lld, but with cu_seqlens it is 1", (long long)frame_dim(f, 'B'));
	frame_count(f, 'N', t ? cu->sizes[0] - 1 : frame_dim(f, 'B'), t ? "the offsets of cu_seqlens" : "the rows of q");
	return true;
}

static void describe(Call *c, const Frame *f, const Given in[INPUTS], const Given *cu)
{
	tilekern_gdn_params *p = &c->forward.gdn;
	p->batch = frame_dim(f, 'B'), p->tokens = frame_dim(f, 'T'), p->sequences = frame_dim(f, 'N');
	p->qk_heads = frame_dim(f, 'H'), p->value_heads = frame_dim(f, 'G'), p->key_dim = frame_dim(f, 'K'), p->value_dim = frame_dim(f, 'V');
	p->dtype = in[Q].type, p->gate_dtype = in[G].type, p->beta_dtype = in[BETA].type;
	p->q = in[Q].p, p->k = in[K].p, p->v = in[V].p, p->g = in[G].p, p->beta = in[BETA].p;
	p->q_strides = strides(&in[Q]), p->k_strides = strides(&in[K]), p->v_strides = strides(&in[V]);
	p->g_strides = strides(&in[G]), p->beta_strides = strides(&in[BETA]);
	p->a_log = in[A_LOG].p, p->dt_bias = in[DT_BIAS].p;
	if (in[A_LOG].t)
		p->a_log_dtype = in[A_LOG].type;
	if (in[DT_BIAS].t)
		p->dt_bias_dtype = in[DT_BIAS].type;
	if (cu->t)
		p->cu_seqlens = cu->p, p->seqlens_dtype = cu->type;
}

/* Numbers that every operator has, next to one another. */
enum { N_SCALE, N_OPTIONS, N_V_FIRST };

static bool call_begin(Call *c, FamilyName family, Frame *f, const Given in[INPUTS], const Given *cu, const Value *numbers, Value lower_bound)
{
	memset(c, 0, sizeof *c);
	if (numbers[N_OPTIONS] > UINT32_MAX)
		return frame_fail(f, true, "options is %lld, not in 0 .. %u", (long long)numbers[N_OPTIONS], UINT32_MAX);
	const double scale = value_double(numbers[N_SCALE]);
	if (scale != 0 && (float)scale == 0)
		return frame_fail(f, true, "scale is %g, less than a float can be: it would be 0, which stands for K^-0.5", scale);
	c->family = family;
	families[family].init(&c->forward);
	describe(c, f, in, cu);
	c->forward.gdn.scale = (float)scale;
	c->forward.gdn.options = (unsigned)numbers[N_OPTIONS];
	c->forward.gdn.state_v_first = value_bool(numbers[N_V_FIRST]);
	if (family == KDA)
		c->forward.kda.lower_bound = (float)value_double(lower_bound);
	return true;
}

/* [N][G] states of the frame's layout. */
static bool new_states(Frame *f, bool wanted, bool v_first, tilert_dtype type, Given *out_)
{
	const int64_t sizes[] = { wanted ? frame_dim(f, 'N') : 0, frame_dim(f, 'G'), frame_dim(f, v_first ? 'V' : 'K'), frame_dim(f, v_first ? 'K' : 'V') };
	return (wanted ? frame_new : frame_unwanted)(f, 4, sizes, type, out_);
}

static bool new_like(Frame *f, const Arg *a, tilert_dtype type, Given *out_)
{
	int64_t sizes[MAX_AXES];
	for (int i = 0; a->axes[i]; i++)
		sizes[i] = frame_dim(f, a->axes[i]);
	return frame_new(f, (int)strlen(a->axes), sizes, type, out_);
}

static bool new_none(Frame *f, tilert_dtype type, Given *out_) { return frame_unwanted(f, 1, (int64_t[]){ 0 }, type, out_); }

/* ---- forward ----------------------------------------------------------------------------------------------------- */

enum { INITIAL = INPUTS, CU, SCALE, OPTIONS, V_FIRST, WANT_FINAL, SAVE, LOWER_BOUND };
#define FORWARD_SCHEMA "Tensor? initial_state=None, Tensor? cu_seqlens=None, float scale=0., int options=0, bool state_v_first=False, " \
	"bool output_final_state=False, bool save=False, float lower_bound=-5."

enum { SAVED_ALIGN = 256 };
/* Room for what the forward saves; memory of the CPU that is not aligned is written by way of an aligned copy. */
static bool new_saved(Frame *f, Device *d, Call *c, bool save, Given *saved, Given *aligned)
{
	size_t bytes = 0;
	if (save && families[c->family].saved_bytes(d->handles[c->family], &c->forward, &bytes) != TILERT_OK)
		return frame_fail(f, true, "%s", tilekern_last_error());
	if (bytes == 0) {
		const bool ok = (save ? frame_new : frame_unwanted)(f, 1, (int64_t[]){ 0 }, TILERT_U8, saved);
		*aligned = *saved;
		return ok;
	}
	if (!frame_new(f, 1, (int64_t[]){ (int64_t)bytes }, TILERT_U8, saved))
		return false;
	*aligned = *saved;
	if (saved->p % SAVED_ALIGN != 0 && !frame_bytes(f, bytes, SAVED_ALIGN, aligned))
		return false;
	family_saved(c->family, &c->forward, aligned->p, bytes);
	return true;
}

static bool forward_outputs(Frame *f, Call *c, const Given *h0, Value *stack, Given outputs[2])
{
	tilekern_gdn_params *p = &c->forward.gdn;
	const bool wanted = value_bool(stack[WANT_FINAL]);
	if (!new_like(f, &out, p->dtype, &outputs[0]) || !new_states(f, wanted, p->state_v_first != 0, h0->t ? h0->type : TILERT_F32, &outputs[1]))
		return false;
	p->o = outputs[0].p;
	p->final_state = wanted ? outputs[1].p : 0;
	p->initial_state = h0->p;
	p->state_dtype = outputs[1].type;
	return true;
}

static bool run_forward(Frame *f, FamilyName family, Value *stack, Given outputs[3])
{
	Given in[INPUTS], h0, cu, aligned;
	Call c;
	take_inputs(f, family, stack, in);
	Tensor first = frame_hold(f, stack[INITIAL], true), offsets = frame_hold(f, stack[CU], true);
	const bool v_first = value_bool(stack[V_FIRST]);
	if (f->failed || !take_offsets(f, offsets, &cu) || !frame_take(f, &initial_state[v_first], first, &h0))
		return false;
	if (!call_begin(&c, family, f, in, &cu, stack + SCALE, stack[LOWER_BOUND]))
		return false;
	Device *d = device_of(f, family);
	if (!d || !forward_outputs(f, &c, &h0, stack, outputs) || !new_saved(f, d, &c, value_bool(stack[SAVE]), &outputs[2], &aligned) || !device_run(f, d, &c))
		return false;
	if (aligned.p != outputs[2].p)
		memcpy((void *)(uintptr_t)outputs[2].p, (const void *)(uintptr_t)aligned.p, (size_t)outputs[2].sizes[0]);
	return true;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

enum { B_SAVED = CU + 1, B_DOUT, B_DFINAL, B_SCALE, B_OPTIONS, B_V_FIRST, B_WANTED, B_LOWER_BOUND };
#define BACKWARD_SCHEMA "Tensor? initial_state, Tensor? cu_seqlens, Tensor? saved, Tensor dout, Tensor? dfinal_state, float scale=0., int options=0, " \
	"bool state_v_first=False, int wanted=255, float lower_bound=-5."

/* Bits of `wanted`, and the outputs. */
enum { D_Q, D_K, D_V, D_G, D_BETA, D_A_LOG, D_DT_BIAS, D_INITIAL, GRADIENTS };

static bool new_gradients(Frame *f, FamilyName family, const Given in[INPUTS], bool v_first, int64_t wanted, Given outputs[GRADIENTS])
{
	for (int i = 0; i < GRADIENTS; i++) {
		const tilert_dtype type = i < D_A_LOG ? in[i].type : TILERT_F32;
		bool ok;
		if (!(wanted >> i & 1) || (i < D_INITIAL && !in[i].t))
			ok = new_none(f, type, &outputs[i]);
		else if (i == D_INITIAL)
			ok = new_states(f, true, v_first, TILERT_F32, &outputs[i]);
		else
			ok = new_like(f, &inputs[family][i], type, &outputs[i]);
		if (!ok)
			return false;
	}
	return true;
}

/* What the forward left; memory of the CPU that is not aligned is copied. */
static bool take_saved(Frame *f, Device *d, Call *c, Tensor t, Given *saved)
{
	size_t bytes = 0;
	if (!frame_take(f, &saved_bytes, t, saved))
		return false;
	if (!t || saved->sizes[0] == 0)
		return true;
	if (families[c->family].saved_bytes(d->handles[c->family], &c->forward, &bytes) != TILERT_OK)
		return frame_fail(f, true, "%s", tilekern_last_error());
	if ((int64_t)bytes != saved->sizes[0])
		return frame_fail(f, true, "saved.shape[0] is %lld, but the forward of this call leaves %zu bytes", (long long)saved->sizes[0], bytes);
	if (saved->p % SAVED_ALIGN != 0 && f->device == shim.cuda)
		return frame_fail(f, true, "saved lies at 0x%llx, not at a multiple of %d", (unsigned long long)saved->p, SAVED_ALIGN);
	if (saved->p % SAVED_ALIGN != 0) {
		const Given from = *saved;
		if (!frame_bytes(f, bytes, SAVED_ALIGN, saved))
			return false;
		memcpy((void *)(uintptr_t)saved->p, (const void *)(uintptr_t)from.p, bytes);
	}
	family_saved(c->family, &c->forward, saved->p, bytes);
	return true;
}

static void describe_backward(Call *c, const Given *dout, const Given *ends, const Given d[GRADIENTS])
{
	tilekern_gdn_backward_params *p = &c->backward.gdn;
	c->is_backward = 1;
	p->size = sizeof *p;
	p->dout = dout->p, p->dout_strides = strides(dout), p->dfinal_state = ends->p;
	p->dq = d[D_Q].p, p->dk = d[D_K].p, p->dv = d[D_V].p, p->dg = d[D_G].p, p->dbeta = d[D_BETA].p;
	p->da_log = d[D_A_LOG].p, p->ddt_bias = d[D_DT_BIAS].p, p->dinitial_state = d[D_INITIAL].p;
}

static bool run_backward(Frame *f, FamilyName family, Value *stack, Given outputs[GRADIENTS])
{
	Given in[INPUTS], h0, cu, saved, dout, ends;
	Call c;
	take_inputs(f, family, stack, in);
	Tensor first = frame_hold(f, stack[INITIAL], true), offsets = frame_hold(f, stack[CU], true), left = frame_hold(f, stack[B_SAVED], true);
	Tensor of_o = frame_hold(f, stack[B_DOUT], false), of_final = frame_hold(f, stack[B_DFINAL], true);
	const bool v_first = value_bool(stack[B_V_FIRST]);
	if (f->failed || !take_offsets(f, offsets, &cu) || !frame_take(f, &initial_state[v_first], first, &h0) || !frame_take(f, &output_gradient, of_o, &dout) ||
		!frame_take(f, &final_gradient[v_first], of_final, &ends))
		return false;
	if (!call_begin(&c, family, f, in, &cu, stack + B_SCALE, stack[B_LOWER_BOUND]))
		return false;
	c.forward.gdn.initial_state = h0.p;
	c.forward.gdn.state_dtype = h0.t ? h0.type : TILERT_F32;
	Device *d = device_of(f, family);
	if (!d || !take_saved(f, d, &c, left, &saved) || !new_gradients(f, family, in, v_first, (int64_t)stack[B_WANTED], outputs))
		return false;
	describe_backward(&c, &dout, &ends, outputs);
	return device_run(f, d, &c);
}

/* ---- prefill: states in the slots of a pool ------------------------------------------------------------------------- */

enum { P_POOL = INPUTS, P_SLOTS, P_OUT, P_CU, P_HAS, P_SCALE, P_OPTIONS, P_V_FIRST, P_NULL_SLOT, P_LOWER_BOUND };
#define PREFILL_SCHEMA "Tensor(a!) pool, Tensor slots, Tensor(b!) out, Tensor? cu_seqlens=None, Tensor? has_initial_state=None, float scale=0., int options=0, " \
	"bool state_v_first=False, int null_slot=-1, float lower_bound=-5."

/* Slots may be any distance apart, what is in one is contiguous. */
static bool take_pool(Frame *f, const Arg *a, Tensor t, Given *p)
{
	if (!frame_take(f, a, t, p))
		return false;
	const int64_t row = p->sizes[3], state = row * p->sizes[2];
	if (p->strides[2] != row || (p->strides[1] != state && p->sizes[1] > 1))
		return frame_fail(f, true, "pool's strides within a slot are %lld and %lld, but contiguous ones are %lld and %lld", (long long)p->strides[1],
			(long long)p->strides[2], (long long)state, (long long)row);
	return true;
}

static void describe_pool(Call *c, const Given *p, const Given *at, const Given *has, const Given *o, int64_t null_slot)
{
	tilekern_gdn_params *x = &c->forward.gdn;
	x->initial_state = x->final_state = p->p;
	x->state_dtype = x->checkpoint_dtype = p->type;
	x->state_stride = p->strides[0];
	x->state_slots = p->sizes[0];
	x->state_indices = at->p;
	x->indices_dtype = at->type;
	x->has_initial_state = has->p;
	x->null_slot = null_slot;
	x->o = o->p;
	x->o_strides = strides(o);
}

static bool run_prefill(Frame *f, FamilyName family, Value *stack)
{
	Given in[INPUTS], states, at, o, cu, has;
	Call c;
	take_inputs(f, family, stack, in);
	Tensor t_pool = frame_hold(f, stack[P_POOL], false), t_slots = frame_hold(f, stack[P_SLOTS], false), t_out = frame_hold(f, stack[P_OUT], false);
	Tensor offsets = frame_hold(f, stack[P_CU], true), t_has = frame_hold(f, stack[P_HAS], true);
	const bool v_first = value_bool(stack[P_V_FIRST]);
	if (f->failed || !take_offsets(f, offsets, &cu) || !take_pool(f, &pool[v_first], t_pool, &states) || !frame_take(f, &slots, t_slots, &at) ||
		!frame_take(f, &out, t_out, &o) || !frame_take(f, &has_initial_state, t_has, &has))
		return false;
	if (!call_begin(&c, family, f, in, &cu, stack + P_SCALE, stack[P_LOWER_BOUND]))
		return false;
	describe_pool(&c, &states, &at, &has, &o, (int64_t)stack[P_NULL_SLOT]);
	Device *d = device_of(f, family);
	return d && device_run(f, d, &c);
}

/* ---- the table ------------------------------------------------------------------------------------------------------- */

#define FORWARD_KERNEL(NAME, FAMILY, OP, NONES) \
	static void NAME##_##OP(Value *stack, uint64_t n_inputs, uint64_t n_outputs) \
	{ \
		Frame f; \
		Given outputs[3]; \
		(void)n_inputs, (void)n_outputs; \
		frame_begin(&f, "tilekern::" #NAME "_fwd", NONES); \
		run_forward(&f, FAMILY, stack, outputs); \
		frame_end(&f, stack, outputs, 3); \
	}
#define BACKWARD_KERNEL(NAME, FAMILY, OP, NONES) \
	static void NAME##_##OP(Value *stack, uint64_t n_inputs, uint64_t n_outputs) \
	{ \
		Frame f; \
		Given outputs[GRADIENTS]; \
		(void)n_inputs, (void)n_outputs; \
		frame_begin(&f, "tilekern::" #NAME "_bwd", NONES); \
		run_backward(&f, FAMILY, stack, outputs); \
		frame_end(&f, stack, outputs, GRADIENTS); \
	}
#define PREFILL_KERNEL(NAME, FAMILY) \
	static void NAME##_prefill(Value *stack, uint64_t n_inputs, uint64_t n_outputs) \
	{ \
		Frame f; \
		(void)n_inputs, (void)n_outputs; \
		frame_begin(&f, "tilekern::" #NAME "_prefill", false); \
		run_prefill(&f, FAMILY, stack); \
		frame_end(&f, stack, NULL, 0); \
	}
#define KERNELS_OF(NAME, FAMILY) \
	FORWARD_KERNEL(NAME, FAMILY, fwd, false) \
	FORWARD_KERNEL(NAME, FAMILY, infer, true) \
	BACKWARD_KERNEL(NAME, FAMILY, bwd, false) \
	BACKWARD_KERNEL(NAME, FAMILY, grads, true) \
	PREFILL_KERNEL(NAME, FAMILY)
KERNELS_OF(gdn, GDN)
KERNELS_OF(kda, KDA)

#define FORWARD_ROW(NAME, OP) \
	{ #NAME "_" #OP, #NAME "_" #OP "(" INPUTS_SCHEMA FORWARD_SCHEMA ") -> (Tensor o, Tensor final_state, Tensor saved)", NAME##_##OP }
#define BACKWARD_ROW(NAME, OP) \
	{ #NAME "_" #OP, #NAME "_" #OP "(" INPUTS_SCHEMA BACKWARD_SCHEMA \
		") -> (Tensor dq, Tensor dk, Tensor dv, Tensor dg, Tensor dbeta, Tensor dA_log, Tensor ddt_bias, Tensor dinitial_state)", NAME##_##OP }
#define ROWS_OF(NAME) \
	FORWARD_ROW(NAME, fwd), FORWARD_ROW(NAME, infer), BACKWARD_ROW(NAME, bwd), BACKWARD_ROW(NAME, grads), \
	{ #NAME "_prefill", #NAME "_prefill(" INPUTS_SCHEMA PREFILL_SCHEMA ") -> ()", NAME##_prefill }
const OperatorRow operators[OPERATORS] = { ROWS_OF(gdn), ROWS_OF(kda) };
