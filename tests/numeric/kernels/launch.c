/* launch.c - chains of dependent grids, sequences whose lengths only the device knows, and both from a CUDA graph. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/numeric.h"

/* ---- a chain: each grid reads what the one before it wrote, and overwrites what that one read ---- */

enum { LINKS = 50 };

typedef struct Chain { tilert_prepared *step[2]; } Chain;

static void launch_chain(void *user, tilert_stream stream)
{
	Chain *c = user;
	for (int i = 0; i < LINKS; i++)
		OK(tilert_prepared_launch(c->step[i % 2], stream));
}

static void check_chain(Buffer b, uint32_t n, int links)
{
	uint32_t *got = buffer_take(b);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t want = k;
		for (int i = 0; i < links; i++)
			want = want * 3 + k;
		if (got[k] != want)
			fail_msg("element %u after %d links is %u, not %u", k, links, got[k], want);
	}
	free(got);
}

static void run_chain(const void *in_graph)
{
	const int64_t n = numeric_on_cpu() ? 1000 : 100000;
	const size_t bytes = (size_t)n * sizeof(uint32_t);
	Chain c;
	tilert_kernel *k;
	uint32_t *x = memory(bytes);
	for (uint32_t i = 0; i < n; i++)
		x[i] = i;
	Buffer b[2] = { buffer_of(x, bytes), buffer_poisoned(bytes) };
	OK(tilert_module_kernel(numeric_module("launch_i32.tmod"), "step", &k));
	for (int i = 0; i < 2; i++) {
		tilert_arg args[] = { tensor_arg("x", b[i], TILERT_I32, 1, &n), tensor_arg("y", b[!i], TILERT_I32, 1, &n) };
		OK(tilert_prepare(k, args, 2, &c.step[i]));
	}
	if (*(const bool *)in_graph) {
		Recording r = record(launch_chain, &c);
		replay(&r);
		replay(&r);
		forget(&r);
	} else {
		launch_chain(&c, NULL);
		launch_chain(&c, NULL);
		OK(tilert_stream_sync(numeric_device(), NULL));
	}
	check_chain(b[0], (uint32_t)n, 2 * LINKS);
	for (int i = 0; i < 2; i++) {
		tilert_prepared_destroy(c.step[i]);
		buffer_free(b[i]);
	}
	free(x);
}

/* ---- sequences ---- */

enum { TOKENS = 500, SEQUENCES = 4, WIDTH = 64, MAX_CHUNKS = 5 };

typedef struct Sequences {
	tilert_kernel *k;
	tilert_arg args[4];
} Sequences;

/* Not prepared, so that the check and the tensor maps are in the capture, too. */
static void launch_sequences(void *user, tilert_stream stream)
{
	Sequences *s = user;
	OK(tilert_launch(s->k, s->args, 4, stream));
}

static void upload_bounds(Buffer b, tilert_dtype t, const int *bounds)
{
	int64_t wide[SEQUENCES + 1];
	int32_t narrow[SEQUENCES + 1];
	for (int i = 0; i <= SEQUENCES; i++) {
		wide[i] = bounds[i];
		narrow[i] = bounds[i];
	}
	OK(tilert_upload(numeric_device(), b.p, t == TILERT_I64 ? (const void *)wide : narrow, b.bytes));
}

static void check_sequences(Buffer y, const float *x, const int *bounds)
{
	float *got = buffer_take(y);
	for (int t = 0; t < TOKENS; t++) {
		int s = 0;
		while (s < SEQUENCES && t >= bounds[s + 1])
			s++;
		for (int j = 0; j < WIDTH; j++) {
			float value = got[t * WIDTH + j], want = x[t * WIDTH + j] * (float)(s + 1);
			if (s < SEQUENCES ? value != want : value == value) /* behind the last: still NaN */
				fail_msg("row %d, column %d is %g", t, j, (double)value);
		}
	}
	free(got);
}

static void run_sequences(const void *spec)
{
	static const int bounds[2][SEQUENCES + 1] = { { 0, 130, 131, 131, 400 }, { 0, 64, 320, 321, 500 } };
	const int64_t shape[] = { TOKENS, WIDTH }, count = SEQUENCES + 1;
	const tilert_dtype t = *(const tilert_dtype *)spec;
	float *x = memory(TOKENS * WIDTH * sizeof *x);
	for (int i = 0; i < TOKENS * WIDTH; i++)
		x[i] = (float)(i % 1013) - 300;
	Buffer dx = buffer_of(x, TOKENS * WIDTH * sizeof *x), dy = buffer_poisoned(dx.bytes);
	Buffer db = buffer_poisoned((size_t)count * tilert_dtype_size(t));
	Sequences s = { .args = { tensor_arg("x", dx, TILERT_F32, 2, shape), tensor_arg("bounds", db, t, 1, &count),
		tensor_arg("y", dy, TILERT_F32, 2, shape), { .name = "CHUNKS", .kind = TILERT_ARG_DIM, .i = MAX_CHUNKS } } };
	OK(tilert_module_kernel(numeric_module(t == TILERT_I64 ? "launch_i64.tmod" : "launch_i32.tmod"), "scale_sequences", &s.k));
	Recording r = record(launch_sequences, &s);
	for (int i = 0; i < 2; i++) { /* the same recording, other lengths */
		buffer_poison(dy);
		upload_bounds(db, t, bounds[i]);
		replay(&r);
		check_sequences(dy, x, bounds[i]);
	}
	forget(&r);
	buffer_free(dx);
	buffer_free(dy);
	buffer_free(db);
	free(x);
}

size_t launch_cases(NumericCase *out)
{
	static const bool direct = false, in_graph = true;
	static const tilert_dtype narrow = TILERT_I32, wide = TILERT_I64;
	const NumericCase cases[] = {
		{ "launch_chain_of_dependents", run_chain, &direct },
		{ "launch_chain_of_dependents_in_a_graph", run_chain, &in_graph },
		{ "launch_sequences_with_i32_bounds", run_sequences, &narrow },
		{ "launch_sequences_with_i64_bounds", run_sequences, &wide },
	};
	memcpy(out, cases, sizeof cases);
	return sizeof cases / sizeof cases[0];
}
