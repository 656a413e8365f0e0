/* fields.c - every field of the parameters counts: a wrong value in it, and nothing else wrong, is refused by its name.  A field without a row here fails.
 * So is an address that is one byte beyond the right one.  No kernel runs: addresses are numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilekern/gdn.h>
#include <tilekern/kda.h>

#include "tests/numeric/kernels/numeric.h"

/* How a field is wrong. */
typedef enum Wrong {
	NUMBER,    /* the value */
	INFINITE,
	OUTPUT,    /* the address of o, or of dq, which is written */
	INPUT,     /* of v, for what is written itself */
	MISSING,   /* NULL */
	STRIDES,   /* the token's is -8 */
	ANY_VALUE  /* no value is wrong: state_v_first is in gdn_states_*, kda_*v_first* */
} Wrong;

typedef struct Field { const char *name; size_t offset, bytes; Wrong wrong; int64_t value; } Field;

#define FIELD(f, wrong, value) { #f, offsetof(PARAMS, f), sizeof(((PARAMS *)0)->f), wrong, value }
/* Those that operators share, in the same order. */
#define SHARED_FIELDS \
	FIELD(size, NUMBER, 8), FIELD(batch, NUMBER, 2), FIELD(tokens, NUMBER, -1), FIELD(sequences, NUMBER, -1), FIELD(qk_heads, NUMBER, 3), \
	FIELD(value_heads, NUMBER, 5), FIELD(key_dim, NUMBER, 300), FIELD(value_dim, NUMBER, 300), FIELD(dtype, NUMBER, TILERT_F32), \
	FIELD(gate_dtype, NUMBER, TILERT_I32), FIELD(beta_dtype, NUMBER, TILERT_I32), FIELD(a_log_dtype, NUMBER, TILERT_I32), \
	FIELD(dt_bias_dtype, NUMBER, TILERT_I32), FIELD(state_dtype, NUMBER, TILERT_I32), FIELD(checkpoint_dtype, NUMBER, TILERT_F16), \
	FIELD(seqlens_dtype, NUMBER, TILERT_F32), FIELD(indices_dtype, NUMBER, TILERT_F32), FIELD(state_v_first, ANY_VALUE, 0), \
	FIELD(options, NUMBER, 1 << 30), FIELD(split, NUMBER, 9), FIELD(scale, INFINITE, 0), FIELD(q, OUTPUT, 0), FIELD(k, OUTPUT, 0), FIELD(v, OUTPUT, 0), FIELD(g, OUTPUT, 0), \
	FIELD(beta, OUTPUT, 0), FIELD(a_log, OUTPUT, 0), FIELD(dt_bias, OUTPUT, 0), FIELD(cu_seqlens, OUTPUT, 0), FIELD(o, INPUT, 0), FIELD(q_strides, STRIDES, 0), \
	FIELD(k_strides, STRIDES, 0), FIELD(v_strides, STRIDES, 0), FIELD(g_strides, STRIDES, 0), FIELD(beta_strides, STRIDES, 0), FIELD(o_strides, STRIDES, 0), \
	FIELD(initial_state, OUTPUT, 0), FIELD(final_state, OUTPUT, 0), FIELD(state_stride, NUMBER, 8), FIELD(state_slots, NUMBER, 0), FIELD(state_indices, OUTPUT, 0), \
	FIELD(output_indices, OUTPUT, 0), FIELD(null_slot, NUMBER, -2), FIELD(has_initial_state, OUTPUT, 0), FIELD(checkpoint_state, OUTPUT, 0), \
	FIELD(checkpoint_stride, NUMBER, 8), FIELD(checkpoint_slots, NUMBER, 0), FIELD(checkpoint_offsets, OUTPUT, 0), FIELD(checkpoint_every, NUMBER, 65), \
	FIELD(checkpoint_starts, OUTPUT, 0), FIELD(checkpoint_indices, OUTPUT, 0), FIELD(workspace, OUTPUT, 0), FIELD(workspace_bytes, NUMBER, 0)

#define PARAMS tilekern_gdn_params
static const Field gdn_fields[] = { SHARED_FIELDS, FIELD(states, OUTPUT, 0), FIELD(u, OUTPUT, 0), FIELD(records, OUTPUT, 0) };
#undef PARAMS
#define PARAMS tilekern_kda_params
static const Field kda_fields[] = { SHARED_FIELDS, FIELD(lower_bound, NUMBER, 0x40000000 /* 2.0f */), FIELD(saved, OUTPUT, 0), FIELD(saved_bytes, NUMBER, 0) };
#undef PARAMS

/* Of a backward. */
#define GRADIENT_FIELDS \
	FIELD(size, NUMBER, 8), FIELD(forward, MISSING, 0), FIELD(dout, OUTPUT, 0), FIELD(dfinal_state, OUTPUT, 0), FIELD(dq, INPUT, 0), FIELD(dk, INPUT, 0), \
	FIELD(dv, INPUT, 0), FIELD(dg, INPUT, 0), FIELD(dbeta, INPUT, 0), FIELD(da_log, INPUT, 0), FIELD(ddt_bias, INPUT, 0), FIELD(dinitial_state, INPUT, 0), \
	FIELD(dout_strides, STRIDES, 0), FIELD(dq_strides, STRIDES, 0), FIELD(dk_strides, STRIDES, 0), FIELD(dv_strides, STRIDES, 0), FIELD(dg_strides, STRIDES, 0), \
	FIELD(dbeta_strides, STRIDES, 0), FIELD(workspace, OUTPUT, 0), FIELD(workspace_bytes, NUMBER, 0)
#define PARAMS tilekern_gdn_backward_params
static const Field gdn_backward_fields[] = { GRADIENT_FIELDS };
#undef PARAMS
#define PARAMS tilekern_kda_backward_params
static const Field kda_backward_fields[] = { GRADIENT_FIELDS };
#undef PARAMS

/* The fields of a struct in order, with nothing but what alignment leaves between them. */
static void expect_all_fields(const Field *f, size_t n, size_t size)
{
	size_t end = 0;
	for (size_t i = 0; i < n; i++) {
		if (f[i].offset < end || f[i].offset - end >= sizeof(int64_t))
			fail_msg("there are fields without a row between bytes %zu and %zu (%s)", end, f[i].offset, f[i].name);
		end = f[i].offset + f[i].bytes;
	}
	if (size - end >= sizeof(int64_t))
		fail_msg("there are fields without a row behind byte %zu of %zu", end, size);
}

static void spoil(unsigned char *p, const Field *f, tilert_ptr o, tilert_ptr v)
{
	const tilekern_strides strides = { 0, -8, 8 };
	const float infinite = INFINITY;
	const void *const null = NULL;
	const void *wrong = f->wrong == INFINITE ? (const void *)&infinite : f->wrong == OUTPUT ? (const void *)&o : f->wrong == INPUT ? (const void *)&v
		: f->wrong == STRIDES ? (const void *)&strides : f->wrong == MISSING ? (const void *)&null : (const void *)&f->value;
	memcpy(p + f->offset, wrong, f->bytes);
}

static void expect_named(tilert_status s, const Field *f, const char *more)
{
	if (s != TILERT_EINVAL || !strstr(tilekern_last_error(), f->name) || !strstr(tilekern_last_error(), more))
		fail_msg("%s: status %d, no '%s' or '%s' in: %s", f->name, (int)s, f->name, more, s == TILERT_OK ? "" : tilekern_last_error());
}

/* Where nothing has one byte but has_initial_state. */
static bool misplace(unsigned char *p, const Field *f)
{
	tilert_ptr at;
	if ((f->wrong != OUTPUT && f->wrong != INPUT) || strcmp(f->name, "has_initial_state") == 0)
		return false;
	memcpy(&at, p + f->offset, sizeof at);
	if (at == 0) /* optional, and not there */
		return false;
	at++;
	memcpy(p + f->offset, &at, sizeof at);
	return true;
}

/* Everything is there: a packed call with pools, checkpoints every 64 tokens and raw gates. */
#define FILL(p, all_options) do { \
	tilert_ptr at = (tilert_ptr)1 << 40; \
	tilert_ptr *const addresses[] = { &(p)->q, &(p)->k, &(p)->v, &(p)->g, &(p)->beta, &(p)->a_log, &(p)->dt_bias, &(p)->cu_seqlens, &(p)->o, \
		&(p)->initial_state, &(p)->final_state, &(p)->state_indices, &(p)->output_indices, &(p)->has_initial_state, &(p)->checkpoint_state, \
		&(p)->checkpoint_starts, &(p)->checkpoint_indices, &(p)->workspace }; \
	for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++, at += (tilert_ptr)1 << 32) \
		*addresses[i] = at; \
	(p)->tokens = 200; \
	(p)->sequences = 3; \
	(p)->qk_heads = 2; \
	(p)->value_heads = 4; \
	(p)->options = all_options; \
	(p)->state_slots = 7; \
	(p)->checkpoint_slots = 9; \
	(p)->checkpoint_every = 64; \
} while (0)

/* OP is gdn or kda; MORE: what only it has. */
#define FIELDS_TEST(OP, OPTIONS, MORE) \
	static void run_##OP(const void *unused) \
	{ \
		tilekern_##OP *op; \
		tilekern_##OP##_call *call; \
		tilekern_##OP##_params p, wrong; \
		(void)unused; \
		expect_all_fields(OP##_fields, sizeof OP##_fields / sizeof OP##_fields[0], sizeof p); \
		numeric_ok(tilekern_##OP##_open(numeric_device(), &op), tilekern_last_error(), "open", __FILE__, __LINE__); \
		tilekern_##OP##_params_init(&p); \
		FILL(&p, OPTIONS); \
		MORE; \
		numeric_ok(tilekern_##OP##_workspace_bytes(op, &p, &p.workspace_bytes), tilekern_last_error(), "workspace_bytes", __FILE__, __LINE__); \
		numeric_ok(tilekern_##OP##_prepare(op, &p, &call), tilekern_last_error(), "prepare", __FILE__, __LINE__); \
		tilekern_##OP##_call_destroy(call); \
		for (size_t i = 0; i < sizeof OP##_fields / sizeof OP##_fields[0]; i++) { \
			wrong = p; \
			if (OP##_fields[i].wrong == ANY_VALUE) \
				continue; \
			spoil((unsigned char *)&wrong, &OP##_fields[i], p.o, p.v); \
			expect_named(tilekern_##OP##_prepare(op, &wrong, &call), &OP##_fields[i], ""); \
			wrong = p; \
			if (misplace((unsigned char *)&wrong, &OP##_fields[i])) \
				expect_named(tilekern_##OP##_prepare(op, &wrong, &call), &OP##_fields[i], " is at 0x"); \
		} \
		tilekern_##OP##_close(op); \
	}
FIELDS_TEST(gdn, TILEKERN_RAW_GATE, (void)0)
FIELDS_TEST(kda, TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE, (p.saved = (tilert_ptr)1 << 50, p.saved_bytes = (size_t)1 << 40))

/* Every gradient is wanted, of a forward with an initial state. */
#define FILL_GRADIENTS(p) do { \
	tilert_ptr at = (tilert_ptr)1 << 52; \
	tilert_ptr *const addresses[] = { &(p)->dout, &(p)->dfinal_state, &(p)->dq, &(p)->dk, &(p)->dv, &(p)->dg, &(p)->dbeta, &(p)->da_log, &(p)->ddt_bias, \
		&(p)->dinitial_state, &(p)->workspace }; \
	for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++, at += (tilert_ptr)1 << 32) \
		*addresses[i] = at; \
} while (0)

#define BACKWARD_FIELDS_TEST(OP, OPTIONS) \
	static void run_backward_##OP(const void *unused) \
	{ \
		tilekern_##OP *op; \
		tilekern_##OP##_call *call; \
		tilekern_##OP##_params f; \
		tilekern_##OP##_backward_params p, wrong; \
		(void)unused; \
		expect_all_fields(OP##_backward_fields, sizeof OP##_backward_fields / sizeof OP##_backward_fields[0], sizeof p); \
		numeric_ok(tilekern_##OP##_open(numeric_device(), &op), tilekern_last_error(), "open", __FILE__, __LINE__); \
		tilekern_##OP##_params_init(&f); \
		FILL(&f, OPTIONS); \
		f.o = 0; \
		tilekern_##OP##_backward_params_init(&p); \
		p.forward = &f; \
		FILL_GRADIENTS(&p); \
		numeric_ok(tilekern_##OP##_backward_workspace_bytes(op, &p, &p.workspace_bytes), tilekern_last_error(), "workspace_bytes", __FILE__, __LINE__); \
		numeric_ok(tilekern_##OP##_backward_prepare(op, &p, &call), tilekern_last_error(), "prepare", __FILE__, __LINE__); \
		tilekern_##OP##_call_destroy(call); \
		for (size_t i = 0; i < sizeof OP##_backward_fields / sizeof OP##_backward_fields[0]; i++) { \
			wrong = p; \
			spoil((unsigned char *)&wrong, &OP##_backward_fields[i], p.dq, f.v); \
			expect_named(tilekern_##OP##_backward_prepare(op, &wrong, &call), &OP##_backward_fields[i], ""); \
			wrong = p; \
			if (misplace((unsigned char *)&wrong, &OP##_backward_fields[i])) \
				expect_named(tilekern_##OP##_backward_prepare(op, &wrong, &call), &OP##_backward_fields[i], " is at 0x"); \
		} \
		tilekern_##OP##_close(op); \
	}
BACKWARD_FIELDS_TEST(gdn, TILEKERN_RAW_GATE)
BACKWARD_FIELDS_TEST(kda, TILEKERN_RAW_GATE | TILEKERN_BOUNDED_GATE)

/* One buffer of 4 tensors of 2 heads of 128 channels, contiguous or with the rows of a batch within each token: what is written there is as far apart as it is in tensors of its own.  One that
 * is 16 bytes nearer is not. */
#define INTERLEAVED_TEST(OP) \
	static void run_interleaved_##OP(const void *unused) \
	{ \
		enum { BATCH = 3, TOKENS = 5, TENSOR = 2 * 128, TOKEN = 4 * TENSOR }; \
		const tilekern_strides layouts[] = { { TOKENS * TOKEN, TOKEN, 128 }, { TOKEN, BATCH * TOKEN, 128 } }; \
		const tilert_ptr buffer = (tilert_ptr)1 << 56, apart = TENSOR * 2; \
		tilekern_##OP *op; \
		tilekern_##OP##_call *call; \
		(void)unused; \
		numeric_ok(tilekern_##OP##_open(numeric_device(), &op), tilekern_last_error(), "open", __FILE__, __LINE__); \
		for (const tilekern_strides *l = layouts; l < layouts + sizeof layouts / sizeof layouts[0]; l++) { \
			tilekern_##OP##_params f; \
			tilekern_##OP##_backward_params p; \
			tilekern_##OP##_params_init(&f); \
			FILL(&f, 0); \
			f.cu_seqlens = f.initial_state = f.final_state = f.state_indices = f.output_indices = f.checkpoint_state = f.checkpoint_starts = f.checkpoint_indices = 0; \
			f.checkpoint_every = 0; \
			f.batch = BATCH, f.tokens = TOKENS, f.value_heads = f.qk_heads; \
			f.q = buffer, f.k = buffer + apart, f.v = buffer + 2 * apart, f.o = buffer + 3 * apart; \
			f.q_strides = f.k_strides = f.v_strides = f.o_strides = *l; \
			numeric_ok(tilekern_##OP##_workspace_bytes(op, &f, &f.workspace_bytes), tilekern_last_error(), "workspace_bytes", __FILE__, __LINE__); \
			numeric_ok(tilekern_##OP##_prepare(op, &f, &call), tilekern_last_error(), "prepare", __FILE__, __LINE__); \
			tilekern_##OP##_call_destroy(call); \
			f.o -= 16; \
			assert_int_equal(tilekern_##OP##_prepare(op, &f, &call), TILERT_EINVAL); \
			assert_non_null(strstr(tilekern_last_error(), "overlap")); \
			tilekern_##OP##_backward_params_init(&p); \
			p.forward = &f; \
			FILL_GRADIENTS(&p); \
			p.da_log = p.ddt_bias = 0; \
			p.dq = buffer + 4 * apart * BATCH * TOKENS, p.dk = p.dq + apart, p.dv = p.dk + apart; \
			p.dq_strides = p.dk_strides = p.dv_strides = *l; \
			numeric_ok(tilekern_##OP##_backward_workspace_bytes(op, &p, &p.workspace_bytes), tilekern_last_error(), "workspace_bytes", __FILE__, __LINE__); \
			numeric_ok(tilekern_##OP##_backward_prepare(op, &p, &call), tilekern_last_error(), "prepare", __FILE__, __LINE__); \
			tilekern_##OP##_call_destroy(call); \
			p.dk += 16; \
			assert_int_equal(tilekern_##OP##_backward_prepare(op, &p, &call), TILERT_EINVAL); \
			assert_non_null(strstr(tilekern_last_error(), "overlap")); \
		} \
		assert_int_equal(tilekern_##OP##_backward(NULL, NULL, NULL), TILERT_EINVAL); \
		assert_non_null(strstr(tilekern_last_error(), "tilekern_" #OP "_backward: the operator is NULL")); \
		tilekern_##OP##_close(op); \
	}
INTERLEAVED_TEST(gdn)
INTERLEAVED_TEST(kda)

/* A size of memory beyond all there is counts as what it is, not as a negative one. */
static void run_endless(const void *unused)
{
	tilekern_kda *op;
	tilekern_kda_call *call;
	tilekern_kda_params p;
	(void)unused;
	numeric_ok(tilekern_kda_open(numeric_device(), &op), tilekern_last_error(), "open", __FILE__, __LINE__);
	tilekern_kda_params_init(&p);
	FILL(&p, TILEKERN_RAW_GATE);
	p.workspace = p.q - 256;
	p.workspace_bytes = SIZE_MAX;
	assert_int_equal(tilekern_kda_prepare(op, &p, &call), TILERT_EINVAL);
	assert_non_null(strstr(tilekern_last_error(), "workspace (0xffffffff00, 9223372036854775807 bytes)"));
	tilekern_kda_close(op);
}

size_t fields_cases(NumericCase *out)
{
	const NumericCase cases[] = { { "fields_of_gdn", run_gdn, NULL }, { "fields_of_kda", run_kda, NULL },
		{ "fields_of_gdn_backward", run_backward_gdn, NULL }, { "fields_of_kda_backward", run_backward_kda, NULL },
		{ "fields_interleaved_gdn", run_interleaved_gdn, NULL }, { "fields_interleaved_kda", run_interleaved_kda, NULL }, { "fields_endless_workspace", run_endless, NULL } };
	memcpy(out, cases, sizeof cases);
	return sizeof cases / sizeof cases[0];
}
