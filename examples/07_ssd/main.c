/* Mamba-2's SSD, forward, compared with the recurrence in double precision and, on a GPU, timed.
 *
 *     ssd MODULE [BATCH TOKENS HEADS GROUPS [DEVICE]] */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"
#include "tests/check/float16.h"

enum { P = 64, N = 128 }; /* of ssd.tile */
typedef struct Problem {
	int64_t batch, tokens, heads, groups;
	uint16_t *x, *b, *c;
	float *dt, *a, *d, *initial;
} Problem;

static float *reals(Random *r, int64_t n, double low, double high)
{
	float *x = memory((size_t)n, sizeof *x);
	for (int64_t i = 0; i < n; i++)
		x[i] = (float)(low + (high - low) * random_unit(r));
	return x;
}

static Problem problem(int64_t batch, int64_t tokens, int64_t heads, int64_t groups)
{
	Random r;
	random_init(&r, 1);
	Problem p = { .batch = batch, .tokens = tokens, .heads = heads, .groups = groups };
	p.x = normal_bf16(&r, batch * tokens * heads * P, 1);
	p.b = normal_bf16(&r, batch * tokens * groups * N, 0.3f);
	p.c = normal_bf16(&r, batch * tokens * groups * N, 0.3f);
	p.dt = reals(&r, batch * tokens * heads, 0.001, 0.3);
	p.a = reals(&r, heads, -8, -0.5);
	p.d = reals(&r, heads, -1, 1);
	p.initial = reals(&r, batch * heads * P * N, -1, 1);
	return p;
}

/* One head of one batch, token after token. */
static void check_head(const Problem *p, int64_t z, int64_t h, const uint16_t *y, const float *final, Error *ey, Error *es)
{
	double *state = memory(P * N, sizeof *state);
	int64_t at = (z * p->heads + h) * P * N;
	for (int i = 0; i < P * N; i++)
		state[i] = (double)p->initial[at + i];
	for (int64_t t = 0; t < p->tokens; t++) {
		int64_t token = z * p->tokens + t, group = (token * p->groups + h / (p->heads / p->groups)) * N;
		double dt = (double)p->dt[token * p->heads + h], decay = exp(dt * (double)p->a[h]);
		for (int i = 0; i < P; i++) {
			int64_t n = (token * p->heads + h) * P + i;
			double x = (double)bf16_to_float(p->x[n]), sum = (double)p->d[h] * x;
			for (int k = 0; k < N; k++) {
				state[i * N + k] = state[i * N + k] * decay + dt * x * (double)bf16_to_float(p->b[group + k]);
				sum += state[i * N + k] * (double)bf16_to_float(p->c[group + k]);
			}
			compare(ey, sum, (double)bf16_to_float(y[n]));
		}
	}
	for (int i = 0; i < P * N; i++)
		compare(es, state[i], (double)final[at + i]);
	free(state);
}

int main(int argc, char **argv)
{
	tilert_device_info info;
	Error ey = { 0, 0 }, es = { 0, 0 };

	if (argc != 2 && argc != 6 && argc != 7) {
		fprintf(stderr, "usage: ssd MODULE [BATCH TOKENS HEADS GROUPS [DEVICE]]\n");
		return 2;
	}
	tilert_device *device = open_device(argc > 6 ? argv[6] : NULL, &info);
	int64_t n[4] = { info.is_cuda ? 8 : 1, info.is_cuda ? 4096 : 200, info.is_cuda ? 80 : 4, 1 };
	for (int i = 0; i < 4 && argc > 2; i++)
		n[i] = atoll(argv[2 + i]);
	if (n[0] < 1 || n[1] < 1 || n[3] < 1 || n[2] < 2 * n[3] || n[2] % (2 * n[3])) {
		fprintf(stderr, "BATCH, TOKENS and GROUPS are at least 1, HEADS a multiple of 2 GROUPS\n");
		return 2;
	}
	Problem p = problem(n[0], n[1], n[2], n[3]);
	int64_t x[4] = { n[0], n[1], n[2], P }, b[4] = { n[0], n[1], n[3], N }, s[4] = { n[0], n[2], P, N };
	tilert_arg args[] = {
		tensor(device, "x", TILERT_BF16, x, p.x), tensor(device, "b", TILERT_BF16, b, p.b), tensor(device, "c", TILERT_BF16, b, p.c),
		tensor(device, "dt", TILERT_F32, (int64_t[4]) { n[0], n[1], n[2] }, p.dt), tensor(device, "a", TILERT_F32, (int64_t[4]) { n[2] }, p.a),
		tensor(device, "d", TILERT_F32, (int64_t[4]) { n[2] }, p.d), tensor(device, "initial", TILERT_F32, s, p.initial),
		tensor(device, "y", TILERT_BF16, x, NULL), tensor(device, "final", TILERT_F32, s, NULL),
	};
	enum { ARGS = sizeof args / sizeof *args };
	Launch launch = launched(device, argv[1], "ssd", args, ARGS);

	uint16_t *y = downloaded(device, &args[ARGS - 2]);
	float *final = downloaded(device, &args[ARGS - 1]);
	for (int64_t i = 0; i < n[0] * n[2]; i += n[0] * n[2] / 16 + 1) /* of many heads some */
		check_head(&p, i / n[2], i % n[2], y, final, &ey, &es);
	double error_y = relative(&ey), error_s = relative(&es);
	bool right = error_y < 0.005 && error_s < 0.005; /* states and weights are rounded to bf16 as operands */
	printf("%s: %s, %lld x %lld tokens, %lld heads: relative error of y %.1e, of the state %.1e%s", info.name, argv[1], (long long)n[0],
		(long long)n[1], (long long)n[2], error_y, error_s, right ? "" : " WRONG");
	if (right && info.is_cuda) {
		double ms = milliseconds(device, &launch.prepared, 1);
		double bytes = (double)(n[0] * n[1]) * ((double)n[2] * (2 * P * 2 + 4) + (double)n[3] * 2 * N * 2);
		printf(", %.3f ms, %.0f GB/s", ms, bytes / ms * 1e-6);
	}
	putchar('\n');

	finish(&launch, args, ARGS);
	void *all[] = { p.x, p.b, p.c, p.dt, p.a, p.d, p.initial, y, final };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
	return !right;
}
