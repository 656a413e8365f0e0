#include "tests/numeric/kernels/gdn_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/accuracy.h"
#include "tests/check/float16.h"

/* The contract is an RMS ratio of .005 over a tensor and three times that in a chunk; fp16 keeps three bits more.  With a
 * token or two everything hangs on a few roundings. */
static void allowed(const GdnRow *row, int64_t tokens, double *overall, double *chunk)
{
	bool fp16 = row->in.fp16, tiny = tokens < 16;
	*overall = row->overall != 0 ? row->overall : tiny ? (fp16 ? 0.003 : 0.01) : fp16 ? 0.001 : 0.005;
	*chunk = row->chunk != 0 ? row->chunk : tiny ? *overall : 3 * *overall;
}

static void expect_accurate(const char *what, Accuracy a, double overall, double chunk)
{
	char text[256];
	if (getenv("TILE_TEST_VERBOSE"))
		print_message("    %-12s %s\n", what, accuracy_text(&a, text, sizeof text));
	if (a.not_finite || !(a.rms_ratio < overall) || !(a.worst_ratio < chunk))
		fail_msg("%s: %s; allowed are %g and %g", what, accuracy_text(&a, text, sizeof text), overall, chunk);
}

static void expect_accurate_state(const GdnRow *row, const char *what, Accuracy a, double overall, double chunk)
{
	if (a.not_finite || a.max_abs > row->least)
		expect_accurate(what, a, overall, chunk);
}

/* Sequences without tokens hand their states on, bit for bit. */
static void check_empty_sequences(const GdnRun *r, const float *final)
{
	int64_t n = gdn_run_state(r);
	for (int64_t s = 0; s < r->sequences; s++) {
		for (int64_t i = s * n; i < (s + 1) * n && r->offsets[s] == r->offsets[s + 1] && r->pool.to[s] >= 0; i++) {
			float expected = r->in.initial ? r->in.initial[i] : 0;
			if (!(final[i] == expected))
				fail_msg("sequence %lld has no tokens: element %lld of its final state is %g, not %g", (long long)s, (long long)(i - s * n),
					(double)final[i], (double)expected);
		}
	}
}

/* A record has, among others, the log2 decay of its chunk (float 191) and T in fp16, whose first element is the first beta (kernels/gdn/record.tile). */
static void check_records(const GdnRun *r, double *beta, double *decay)
{
	enum { RECORD = TILEKERN_GDN_RECORD_BYTES, DECAY = 191, T = 1024 };
	int64_t HV = r->row.in.value_heads;
	unsigned char *all = buffer_take(r->records);
	for (int64_t s = 0; s < r->sequences; s++) {
		for (int64_t t = r->offsets[s]; t < r->offsets[s + 1]; t += GDN_CHUNK) {
			for (int64_t h = 0; h < HV; h++) {
				const unsigned char *record = all + (gdn_run_slot(r, s, (t - r->offsets[s]) / GDN_CHUNK) * HV + h) * RECORD;
				int64_t end = t + GDN_CHUNK < r->offsets[s + 1] ? t + GDN_CHUNK : r->offsets[s + 1];
				double b = beta[t * HV + h], d = 1;
				float got_d;
				uint16_t got_b;
				memcpy(&got_d, record + DECAY * sizeof(float), sizeof got_d);
				got_d = exp2f(got_d);
				memcpy(&got_b, record + T, sizeof got_b);
				for (int64_t i = t; i < end; i++)
					d *= decay[i * HV + h];
				float first = fp16_to_float(got_b);
				if (!(fabs((double)first - b) <= b * 0x1p-10 + 0x1p-24) || !(fabs((double)got_d - d) <= 1e-4 * d + 1e-37))
					fail_msg("record of sequence %lld, token %lld, head %lld: first beta %g, not %g; decay %g, not %g", (long long)s, (long long)t, (long long)h,
						(double)first, b, (double)got_d, d);
			}
		}
	}
	free(all);
}

/* States of chunks, u and records. */
static void check_saved(GdnRun *r, double overall, double chunk)
{
	const GdnInputSpec *in = &r->row.in;
	int64_t HV = in->value_heads, gates = in->batch * in->tokens * HV, slots = tilekern_gdn_slots(&r->p), size = gdn_run_state(r);
	double *o = memory((size_t)gdn_run_outputs(r) * 8), *final = memory((size_t)(r->sequences * size) * 8), *states = memory((size_t)(slots * size) * 8);
	double *u = memory((size_t)gdn_run_outputs(r) * 8), *decay = memory((size_t)gates * 8), *beta = memory((size_t)gates * 8);
	float *got_u = gdn_run_u(r), *got_states = gdn_run_states(r);
	GdnReference ref = gdn_run_reference(r);
	memset(states, 0, (size_t)(slots * size) * 8);
	ref.states = states;
	ref.u = u;
	ref.decay = decay;
	ref.final_beta = beta;
	gdn_reference(&ref, o, final);
	expect_accurate("u", accuracy_of_packed(u, got_u, (AccuracyShape){ r->sequences, 0, HV, in->value_dim, GDN_CHUNK }, r->offsets), overall, chunk);
	expect_accurate_state(&r->row, "states", accuracy_of_floats(states, got_states, (AccuracyShape){ slots, 1, HV, in->key_dim * in->value_dim, 1 }), overall, chunk);
	check_records(r, beta, decay);
	double *doubles[] = { o, final, states, u, decay, beta };
	for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++)
		free(doubles[i]);
	free(got_u);
	free(got_states);
}

static void check_checkpoints(GdnRun *r, const double *ref_final, double overall, double chunk)
{
	int64_t state = gdn_run_state(r), rows = pool_checkpoint_rows(&r->pool), tokens, row;
	double *expected = memory((size_t)(rows * state + 1) * 8), *entering = memory((size_t)(tilekern_gdn_slots(&r->p) * state + 1) * 8);
	double *o = memory((size_t)(gdn_run_outputs(r) + 1) * 8), *final = memory((size_t)(r->sequences * state + 1) * 8);
	float *got = pool_checkpoints(&r->pool);
	GdnReference ref = gdn_run_reference(r);
	ref.states = entering;
	gdn_reference(&ref, o, final);
	memset(expected, 0, (size_t)(rows * state) * 8);
	for (int64_t n = 0; n < r->sequences; n++) {
		for (int64_t i = 0; pool_checkpoint(&r->pool, n, i, &tokens, &row); i++) {
			bool end = tokens == r->offsets[n + 1] - r->offsets[n];
			memcpy(expected + row * state, end ? ref_final + n * state : entering + gdn_run_slot(r, n, tokens / GDN_CHUNK) * state, (size_t)state * 8);
		}
	}
	if (r->row.pool.checkpoint_16 && r->row.state_bf16 && overall < 0.005)
		overall = 0.005;
	expect_accurate_state(&r->row, "checkpoints", accuracy_of_floats(expected, got, (AccuracyShape){ rows, 1, r->row.in.value_heads, state / r->row.in.value_heads, 1 }),
		overall, chunk);
	free(expected);
	free(entering);
	free(o);
	free(final);
	free(got);
}

void gdn_check(GdnRun *r)
{
	const GdnInputSpec *in = &r->row.in;
	int64_t K = in->key_dim, V = in->value_dim, HV = in->value_heads, states = r->sequences * gdn_run_state(r);
	float *o = gdn_run_output(r), *final = gdn_run_final(r);
	double *ref_o = memory((size_t)gdn_run_outputs(r) * 8), *ref_final = memory((size_t)states * 8), overall, chunk;

	GdnReference ref = gdn_run_reference(r);
	gdn_reference(&ref, ref_o, ref_final);
	allowed(&r->row, r->offsets[r->sequences], &overall, &chunk);
	expect_accurate("o", accuracy_of_packed(ref_o, o, (AccuracyShape){ r->sequences, 0, HV, V, GDN_CHUNK }, r->offsets), overall, chunk);
	if (r->row.pool.checkpoints)
		check_checkpoints(r, ref_final, overall, chunk);
	if (final) {
		for (int64_t n = 0; n < r->sequences; n++) {
			if (r->pool.to[n] < 0)
				memset(ref_final + n * gdn_run_state(r), 0, (size_t)gdn_run_state(r) * sizeof *ref_final);
		}
		if (r->row.state_bf16 && overall < 0.005)
			overall = 0.005; /* rounded once */
		expect_accurate_state(&r->row, "final state", accuracy_of_floats(ref_final, final, (AccuracyShape){ r->sequences, 1, HV, K * V, 1 }), overall, chunk);
		check_empty_sequences(r, final);
	}
	if (r->row.save)
		check_saved(r, overall, chunk);
	free(o);
	free(final);
	free(ref_o);
	free(ref_final);
}
