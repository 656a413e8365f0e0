/* kda_forward.c - kernels/kda/forward.tile, the KDA forward in one kernel, against the token recurrence: each gate, a row of tails and
 * chunks, initial and final states.  The library does not call it yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check/kda_ref.h"
#include "tests/support/run_tile.h"

enum { B = 2, T = 77, H = 2, D = 128 };
enum { LOG, BOUNDED, SOFTPLUS };

static tilert_arg dim(const char *name, int64_t v) { return (tilert_arg){ .name = name, .kind = TILERT_ARG_DIM, .i = v }; }

static float *floats(const TestTensor *t)
{
	float *f = malloc(t->count * sizeof *f);
	for (size_t i = 0; i < t->count; i++)
		f[i] = (float)t->value[i];
	return f;
}

static void normalise(TestTensor *t)
{
	for (size_t row = 0; row < t->count; row += D) {
		double sum = 0;
		for (int d = 0; d < D; d++)
			sum += t->value[row + d] * t->value[row + d];
		for (int d = 0; d < D; d++)
			t->value[row + d] /= sqrt(sum);
	}
	tensor_upload(t);
}

/* The natural logarithm of the decay from the raw gate. */
static double log_decay(int gate, double x, double a_log, double bias)
{
	double z = x + bias;
	return gate == LOG ? x : gate == BOUNDED ? -5 / (1 + exp(-exp(a_log) * z)) : -exp(a_log) * log1p(exp(z));
}

static void check(int gate)
{
	char define[16];
	snprintf(define, sizeof define, "GATE=%d", gate);
	TileRun *r = run_open(TILE_SOURCE_DIR "/kernels/kda/forward.tile", define, NULL);
	const int64_t rows[] = { B, T, H, D }, per_token[] = { B, T, H }, states[] = { B, H, D, D };
	TestTensor q = tensor_new(r, TILERT_BF16, 4, rows), k = tensor_new(r, TILERT_BF16, 4, rows), v = tensor_new(r, TILERT_BF16, 4, rows);
	TestTensor g = tensor_new(r, TILERT_BF16, 4, rows), o = tensor_new(r, TILERT_BF16, 4, rows), beta = tensor_new(r, TILERT_F32, 3, per_token);
	TestTensor h0 = tensor_new(r, TILERT_F32, 4, states), ht = tensor_new(r, TILERT_F32, 4, states);
	TestTensor a_log = tensor_new(r, TILERT_F32, 1, (int64_t[]){ H }), bias = tensor_new(r, TILERT_F32, 2, (int64_t[]){ H, D });
	tensor_random(r, &q, -1, 1);
	tensor_random(r, &k, -1, 1);
	tensor_random(r, &v, -1, 1);
	tensor_random(r, &g, gate == LOG ? -2 : -4, gate == LOG ? 0 : 2);
	tensor_random(r, &beta, 0, 1);
	tensor_random(r, &h0, -.2, .2);
	tensor_random(r, &a_log, -.5, .5);
	tensor_random(r, &bias, -.5, .5);
	normalise(&q);
	normalise(&k);

	tilert_arg args[64] = { arg_tensor("q", &q), arg_tensor("k", &k), arg_tensor("v", &v), arg_tensor("g", &g), arg_tensor("beta", &beta),
		arg_tensor("h0", &h0), arg_tensor("o", &o), arg_tensor("ht", &ht), arg_real("scale", 1 / sqrt(D)), arg_real("bound", -5), arg_int("options", 0),
		dim("V", D), dim("SEQS", B) };
	int n = 13;
	if (gate != LOG) {
		args[n++] = arg_tensor("a_log", &a_log);
		args[n++] = arg_tensor("dt_bias", &bias);
	}
	static const char *const names[][4] = { { "q0", "q1", "q2" }, { "k0", "k1", "k2" }, { "g0", "g1", "g2" }, { "v0", "v1", "v2" }, { "o0", "o1", "o2" },
		{ "b0", "b1", "b2" }, { "i0", "i1", "i2", "i3" }, { "f0", "f1", "f2", "f3" } };
	static const int64_t strides[][4] = { { T * H * D, H * D, D }, { T * H, H, 1 }, { H * D * D, D * D, D, 1 } };
	for (int i = 0; i < 8; i++)
		for (int d = 0; d < (i < 6 ? 3 : 4); d++)
			args[n++] = dim(names[i][d], strides[i < 5 ? 0 : i - 4 < 2 ? 1 : 2][d]);
	run_launch(r, "kda_forward", args, (size_t)n);

	for (size_t i = 0; i < g.count; i++)
		g.value[i] = log_decay(gate, g.value[i], a_log.value[i / D % H], bias.value[i % (H * D)]);
	KdaReference ref = { .batch = B, .tokens = T, .heads = H, .key_dim = D, .value_dim = D, .q = floats(&q), .k = floats(&k), .v = floats(&v),
		.g = floats(&g), .beta = floats(&beta), .initial = floats(&h0) };
	double *want = malloc(o.count * sizeof *want), *state = malloc(ht.count * sizeof *state);
	kda_reference(&ref, want, state);
	double error = tensor_rms_error(&o, want), state_error = tensor_rms_error(&ht, state);
	if (!(error < .005 && state_error < .005))
		fail_msg("gate %d: o %.4f, state %.4f; .005 are allowed", gate, error, state_error);
	free(want);
	free(state);
	const float *inputs[] = { ref.q, ref.k, ref.v, ref.g, ref.beta, ref.initial };
	for (int i = 0; i < 6; i++)
		free((void *)inputs[i]);
	TestTensor *all[] = { &q, &k, &v, &g, &o, &beta, &h0, &ht, &a_log, &bias };
	for (int i = 0; i < 10; i++)
		tensor_free(all[i]);
	run_close(r);
}

static void test_log(void **state) { (void)state; check(LOG); }
static void test_bounded(void **state) { (void)state; check(BOUNDED); }
static void test_softplus(void **state) { (void)state; check(SOFTPLUS); }

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_log), cmocka_unit_test(test_bounded), cmocka_unit_test(test_softplus) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
