/* test_delta.c - the gradients of tests/check/delta.c against differences of its loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tests/check/delta.h"
#include "tests/support/run_tile.h"

enum { T = 11, H = 2, HV = 4, K = 5, V = 3, SEQS = 3, MAX = T * HV * K };
static const int64_t offsets[SEQS + 1] = { 0, 4, 4, 10 };

/* All inputs, or all gradients. */
typedef struct Set { double q[MAX], k[MAX], v[MAX], g[MAX], beta[MAX], a_log[HV], dt_bias[HV * K], initial[SEQS * HV * K * V]; } Set;

static double dout[T * HV * V], dstate[SEQS * HV * K * V];

static void randomise(TileRun *r, double *x, size_t n, double low, double high)
{
	for (size_t i = 0; i < n; i++)
		x[i] = low + (high - low) * random_uniform(r);
}

static double loss(Delta *p)
{
	static double o[T * HV * V], state[SEQS * HV * K * V];
	double sum = 0;
	assert_true(delta_run(p, &(DeltaResult){ .o = o, .state = state }));
	for (size_t i = 0; i < sizeof o / sizeof *o; i++)
		sum += o[i] * dout[i];
	for (size_t i = 0; i < sizeof state / sizeof *state; i++)
		sum += state[i] * dstate[i];
	return sum;
}

/* The gradients of n inputs. */
static void compare(Delta *p, const char *name, double *x, const double *gradient, size_t n)
{
	const double h = 1e-4;
	for (size_t i = 0; i < n; i++) {
		double kept = x[i], f[4];
		for (int j = 0; j < 4; j++) {
			x[i] = kept + h * (double[]){ -2, -1, 1, 2 }[j];
			f[j] = loss(p);
		}
		x[i] = kept;
		double want = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
		if (!(fabs(gradient[i] - want) <= 1e-8 * (1 + fabs(want))))
			fail_msg("d%s[%zu] is %.12g, by differences %.12g", name, i, gradient[i], want);
	}
}

static void check(DeltaGate gate, int64_t gate_dim, bool norm, bool sigmoid, bool twice)
{
	static Set in, d;
	TileRun r = { .random = 1 };
	Delta p = { .batch = 1, .tokens = T, .qk_heads = H, .value_heads = HV, .key_dim = K, .value_dim = V, .gate_dim = gate_dim, .sequences = SEQS,
		.offsets = offsets, .scale = .7, .l2norm = norm, .sigmoid_beta = sigmoid, .twice_beta = twice, .gate = gate, .bound = -5, .q = in.q, .k = in.k,
		.v = in.v, .g = in.g, .beta = in.beta, .a_log = in.a_log, .dt_bias = in.dt_bias, .initial = in.initial, .dout = dout, .dstate = dstate };
	DeltaResult out = { .q = d.q, .k = d.k, .v = d.v, .g = d.g, .beta = d.beta, .a_log = d.a_log, .dt_bias = d.dt_bias, .initial = d.initial };
	randomise(&r, (double *)&in, sizeof in / sizeof(double), -1, 1);
	randomise(&r, dout, sizeof dout / sizeof(double), -1, 1);
	randomise(&r, dstate, sizeof dstate / sizeof(double), -1, 1);
	assert_true(delta_run(&p, &out));
	compare(&p, "q", in.q, d.q, T * H * K);
	compare(&p, "k", in.k, d.k, T * H * K);
	compare(&p, "v", in.v, d.v, T * HV * V);
	compare(&p, "g", in.g, d.g, (size_t)(T * HV * gate_dim));
	compare(&p, "beta", in.beta, d.beta, T * HV);
	compare(&p, "initial", in.initial, d.initial, SEQS * HV * K * V);
	if (gate != DELTA_GATE_LOG) {
		compare(&p, "a_log", in.a_log, d.a_log, HV);
		compare(&p, "dt_bias", in.dt_bias, d.dt_bias, (size_t)(HV * gate_dim));
	}
}

static void test_per_channel(void **state)
{
	(void)state;
	check(DELTA_GATE_LOG, K, false, false, false);
	check(DELTA_GATE_SOFTPLUS, K, true, true, false);
	check(DELTA_GATE_BOUNDED, K, true, true, true);
}

static void test_per_head(void **state)
{
	(void)state;
	check(DELTA_GATE_LOG, 1, false, false, false);
	check(DELTA_GATE_SOFTPLUS, 1, true, true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_per_channel), cmocka_unit_test(test_per_head) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
