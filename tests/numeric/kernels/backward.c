#include "tests/numeric/kernels/backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/accuracy.h"

enum { CHUNK = 64 };

static const char *const names[GRADIENTS] = { "dq", "dk", "dv", "dg", "dbeta", "dinitial_state", "da_log", "ddt_bias" };

/* ---- making ---- */

static int64_t heads(const Backward *b) { return b->token[DV].heads; }
static int64_t state(const Backward *b) { return heads(b) * b->key_dim * b->value_dim; }
static int64_t tokens(const Backward *b) { return b->offsets[b->sequences]; }
static int64_t place(const Backward *b, int64_t i) { return states_place(b->v_first, b->key_dim, b->value_dim, i); }

int64_t backward_elements(const Backward *b, int which)
{
	if (which < BY_TOKEN)
		return tokens_elements(&b->token[which]);
	return which == DH0 ? b->sequences * state(b) : which == DA ? heads(b) : heads(b) * b->token[DG].width;
}

static bool has(const Backward *b, int which)
{
	return which < BY_TOKEN || (which == DH0 ? *b->field.initial_state != 0 : (b->options & TILEKERN_RAW_GATE) != 0);
}

static TokenTensor like(const Backward *b, const TokenTensor *t)
{
	TokenTensor out = tokens_layout((TokenShape){ t->batch, t->tokens, t->heads, t->width }, t->dtype, t->copied, b->strided);
	out.buffer = buffer_poisoned(tokens_bytes(&out));
	return out;
}

static void make_dout(Backward *b, Random *random, double size)
{
	b->dout = like(b, b->input[DV]);
	const int64_t n = tokens_elements(&b->dout);
	b->dout.value = memory((size_t)n * sizeof *b->dout.value);
	for (int64_t i = 0; i < n; i++)
		b->dout.value[i] = size * (double)random_normal(random);
	tokens_upload_values(&b->dout, tokens(b));
}

static void make_dht(Backward *b, Random *random, float size)
{
	const int64_t n = backward_elements(b, DH0);
	float *laid = memory((size_t)n * sizeof *laid);
	b->dstate = memory((size_t)n * sizeof *b->dstate);
	for (int64_t i = 0; i < n; i++)
		b->dstate[i] = (double)(laid[place(b, i)] = size * random_normal(random));
	b->dht = buffer_of(laid, (size_t)n * sizeof *laid);
	free(laid);
}

static void fill_fields(Backward *b)
{
	const BackwardFields *f = &b->field;
	*f->dout = tokens_address(&b->dout);
	*f->dfinal_state = b->dht.p;
	for (int i = 0; i < GRADIENTS; i++)
		*f->gradient[i] = !has(b, i) ? 0 : i < BY_TOKEN ? tokens_address(&b->token[i]) : b->other[i].p;
	if (!b->strided)
		return;
	*f->dout_strides = b->dout.strides;
	for (int i = 0; i < BY_TOKEN; i++)
		*f->strides[i] = b->token[i].strides;
}

void backward_make_workspace(Backward *b)
{
	buffer_free(b->workspace);
	b->op->workspace_bytes(b);
	b->workspace = buffer_poisoned(*b->field.workspace_bytes);
	*b->field.workspace = *b->field.workspace_bytes > 0 ? b->workspace.p : 0;
}

void backward_make(Backward *b, uint64_t seed, float size, bool ends)
{
	Random random;
	random_init(&random, seed + 1000);
	for (int i = 0; i < BY_TOKEN; i++)
		b->token[i] = like(b, b->input[i]);
	make_dout(b, &random, (double)size);
	for (int i = BY_TOKEN; i < GRADIENTS; i++)
		b->other[i] = buffer_poisoned((size_t)backward_elements(b, i) * sizeof(float));
	if (ends)
		make_dht(b, &random, size);
	fill_fields(b);
	backward_make_workspace(b);
}

static int64_t sequence_of(const Backward *b, int64_t token)
{
	int64_t n = 0;
	while (n + 1 < b->sequences && b->offsets[n + 1] <= token)
		n++;
	return n;
}

static void upload_dout(Backward *b)
{
	tokens_upload_values(&b->dout, tokens(b));
	*b->field.dout = tokens_address(&b->dout);
}

static void upload_dht(Backward *b)
{
	const int64_t n = backward_elements(b, DH0);
	float *laid = memory((size_t)n * sizeof *laid);
	for (int64_t i = 0; i < n; i++)
		b->dstate[i] = (double)(laid[place(b, i)] = (float)b->dstate[i]);
	buffer_free(b->dht);
	b->dht = buffer_of(laid, (size_t)n * sizeof *laid);
	*b->field.dfinal_state = b->dht.p;
	free(laid);
}

static double size_of(const Backward *b, int64_t sequence) { return b->sizes ? b->sizes[sequence % SIZES] : 1; }

void backward_turn_sizes(Backward *b)
{
	static const double sizes[SIZES] = { 1e-6, 1, 1e3 };
	const int64_t row = b->dout.heads * b->dout.width;
	b->sizes = sizes;
	for (int64_t i = 0; i < tokens(b) * row; i++)
		b->dout.value[i] *= size_of(b, sequence_of(b, i / row));
	upload_dout(b);
	for (int64_t i = 0; b->dstate && i < b->sequences * state(b); i++)
		b->dstate[i] *= size_of(b, i / state(b));
	if (b->dstate)
		upload_dht(b);
}

void backward_release(Backward *b)
{
	for (int i = 0; i < BY_TOKEN; i++)
		buffer_free(b->token[i].buffer);
	for (int i = BY_TOKEN; i < GRADIENTS; i++)
		buffer_free(b->other[i]);
	buffer_free(b->dout.buffer);
	buffer_free(b->dht);
	buffer_free(b->workspace);
	free(b->dout.value);
	free(b->dstate);
	b->op->release(b);
}

void backward_run(Backward *b)
{
	const tilert_ptr o = *b->field.o;
	*b->field.o = 0; /* not looked at */
	b->op->call(b);
	*b->field.o = o;
	OK(tilert_stream_sync(numeric_device(), NULL));
	free(buffer_take(b->workspace)); /* looks at the guard */
}

/* In the order of the reference. */
static float *take(const Backward *b, int which)
{
	if (which < BY_TOKEN)
		return tokens_take_cleared(&b->token[which], names[which], tokens(b));
	const int64_t n = backward_elements(b, which);
	float *laid = buffer_take(b->other[which]), *out = memory((size_t)n * sizeof *out);
	for (int64_t i = 0; i < n; i++)
		out[i] = laid[which == DH0 ? place(b, i) : i];
	free(laid);
	return out;
}

/* ---- comparing ---- */

static Accuracy measure(const Backward *b, int which, const double *want, const float *got)
{
	const TokenTensor *t = &b->token[which < BY_TOKEN ? which : 0];
	if (which < BY_TOKEN)
		return accuracy_of_packed_least(want, got, (AccuracyShape){ b->sequences, 0, t->heads, t->width, CHUNK }, b->offsets, b->op->least);
	return accuracy_of_floats(want, got, (AccuracyShape){ b->sequences * heads(b), 1, 1, b->key_dim * b->value_dim, 1 });
}

/* What the type of a gradient cannot hold: infinity is right there, and of what is subnormal half of the least number is rounding. */
static void take_range(tilert_dtype dtype, const double *want, float *got, int64_t n)
{
	const double largest = 65504, smallest = 0x1p-14, half = 0x1p-25;
	for (int64_t i = 0; i < n && dtype == TILERT_F16; i++) {
		const double off = (double)got[i] - want[i];
		if (fabs(want[i]) > .95 * largest && isinf(got[i]) && (got[i] < 0) == (want[i] < 0))
			got[i] = (float)want[i];
		else if (fabs(want[i]) < smallest && isfinite(got[i]))
			got[i] = (float)(want[i] + copysign(fmax(fabs(off) - half, 0), off));
	}
}

/* Without the sizes of sequences, so that each counts. */
static void take_sizes(const Backward *b, int which, double *want, float *got)
{
	const int64_t row = which < BY_TOKEN ? b->token[which].heads * b->token[which].width : state(b);
	for (int64_t i = 0; i < backward_elements(b, which) && b->sizes; i++) {
		const double size = size_of(b, which < BY_TOKEN ? sequence_of(b, i / row) : i / row);
		want[i] /= size;
		got[i] = (float)((double)got[i] / size);
	}
}

static void expect_accurate(const Backward *b, int which, double *want)
{
	double allowed, chunk;
	float *got = take(b, which);
	if (which < BY_TOKEN)
		take_range(b->token[which].dtype, want, got, tokens_elements(&b->token[which]));
	take_sizes(b, which, want, got);
	Accuracy a = measure(b, which, want, got);
	char text[256];
	b->op->allowed(b, which, &allowed, &chunk);
	accuracy_text(&a, text, sizeof text);
	if (getenv("TILE_TEST_VERBOSE"))
		print_message("    %-14s %s\n", names[which], text);
	if (a.not_finite || !(a.rms_ratio < allowed) || !(a.worst_ratio < chunk))
		fail_msg("%s: %s; allowed are %g and %g", names[which], text, allowed, chunk);
	free(got);
}

/* What a token's gradient of the raw gate is multiplied with in da_log. */
static double of_a_log(const Delta *ref, double z) { return ref->gate == DELTA_GATE_BOUNDED ? z : log1p(exp(z)) * (1 + exp(-z)); }

/* da_log and ddt_bias are sums of what may cancel: their error is a part of the root of the sum of the terms' squares.  Few terms may have most of
 * that, and their errors do not average: *count, as many as count, is 1 where one has all of it and n where n have the same.  dx: the raw gate's gradient. */
static double error_of_sums(const Backward *b, int which, const Delta *ref, const double *want, const float *got, const double *dx, double *count)
{
	const int64_t gates = ref->value_heads * ref->gate_dim, n = tokens(b) * gates;
	double error = 0, terms = 0, fourth = 0;
	for (int64_t i = 0; i < n; i++) {
		const double z = ref->g[i] + (ref->dt_bias ? ref->dt_bias[i % gates] : 0), term = dx[i] * (which == DA ? of_a_log(ref, z) : 1);
		terms += term * term;
		fourth += term * term * term * term;
	}
	*count = fourth == 0 ? 1 : terms * terms / fourth;
	for (int64_t i = 0; i < backward_elements(b, which); i++)
		error += isfinite(got[i]) ? ((double)got[i] - want[i]) * ((double)got[i] - want[i]) : (double)INFINITY;
	return error == 0 ? 0 : sqrt(error / terms); /* one token without states has no terms */
}

static void expect_sums(const Backward *b, int which, const Delta *ref, const double *want, const double *dx)
{
	double allowed, few, count;
	float *got = take(b, which);
	const double error = error_of_sums(b, which, ref, want, got, dx, &count);
	b->op->allowed(b, which, &allowed, &few);
	allowed += few / sqrt(count);
	if (getenv("TILE_TEST_VERBOSE"))
		print_message("    %-14s %.2e of its terms, of which %.1f count\n", names[which], error, count);
	if (!(error < allowed))
		fail_msg("%s: %.2e of its terms, of which %.1f count; allowed is %g", names[which], error, count, allowed);
	free(got);
}

void backward_check(Backward *b)
{
	Delta ref = b->op->reference(b);
	double *want[GRADIENTS];
	ref.dout = b->dout.value;
	ref.dstate = b->dstate;
	for (int i = 0; i < GRADIENTS; i++)
		want[i] = memory((size_t)backward_elements(b, i) * sizeof *want[i]);
	assert_true(delta_run(&ref, &(DeltaResult){ .q = want[DQ], .k = want[DK], .v = want[DV], .g = want[DG], .beta = want[DBETA],
		.initial = want[DH0], .a_log = want[DA], .dt_bias = want[DBIAS] }));
	backward_run(b);
	for (int i = DA; i < GRADIENTS; i++) {
		if (has(b, i))
			expect_sums(b, i, &ref, want[i], want[DG]);
	}
	for (int i = 0; i < DA; i++) {
		if (has(b, i))
			expect_accurate(b, i, want[i]);
	}
	for (int i = 0; i < GRADIENTS; i++)
		free(want[i]);
	backward_release(b);
}

static void clear_dout(Backward *b)
{
	for (int64_t i = 0; i < tokens_elements(&b->dout); i++)
		b->dout.value[i] = 0;
	upload_dout(b);
}

void backward_of_ends(Backward *b)
{
	clear_dout(b);
	backward_check(b);
}

/* ---- bits ---- */

void backward_take(const Backward *b, float *out[GRADIENTS])
{
	for (int i = 0; i < GRADIENTS; i++)
		out[i] = has(b, i) ? take(b, i) : NULL;
}

static void expect_gradient(const Backward *b, int which, const float *want)
{
	float *got = take(b, which);
	expect_same(names[which], got, want, backward_elements(b, which));
	free(got);
}

void backward_expect(const Backward *b, float *const want[GRADIENTS])
{
	for (int i = 0; i < GRADIENTS; i++) {
		if (has(b, i))
			expect_gradient(b, i, want[i]);
	}
}

void backward_poison(const Backward *b)
{
	for (int i = 0; i < GRADIENTS; i++)
		buffer_poison(i < BY_TOKEN ? b->token[i].buffer : b->other[i]);
	buffer_poison(b->workspace);
}

void backward_same_bits(Backward *b)
{
	float *want[GRADIENTS];
	tilert_ptr all[GRADIENTS];
	backward_run(b);
	backward_take(b, want);
	backward_poison(b);
	if (numeric_on_cpu())
		OK(tilert_cpu_configure(numeric_device(), 12345, b->processors));
	b->op->call_prepared(b);
	backward_expect(b, want);
	for (int i = 0; i < GRADIENTS; i++)
		all[i] = *b->field.gradient[i];
	for (int only = 0; only < GRADIENTS; only++) {
		if (!has(b, only))
			continue;
		backward_poison(b);
		for (int i = 0; i < GRADIENTS; i++)
			*b->field.gradient[i] = i == only ? all[i] : 0;
		backward_make_workspace(b);
		backward_run(b);
		expect_gradient(b, only, want[only]);
	}
	for (int i = 0; i < GRADIENTS; i++)
		free(want[i]);
	backward_release(b);
}

/* ---- alone ---- */

static void advance(tilert_ptr *p, const TokenTensor *t, int64_t n) { *p += (tilert_ptr)((size_t)(n * t->strides.token) * tilert_dtype_size(t->dtype)); }

/* Every address by n tokens and states of `sequences`; negative: back. */
static void move(const Backward *b, int64_t n, int64_t sequences)
{
	const tilert_ptr states = (tilert_ptr)(sequences * state(b) * (int64_t)sizeof(float));
	for (int i = 0; i < BY_TOKEN; i++) {
		advance(b->field.input[i], b->input[i], n);
		advance(b->field.gradient[i], &b->token[i], n);
	}
	advance(b->field.dout, &b->dout, n);
	*b->field.initial_state += states;
	*b->field.dfinal_state += states;
	*b->field.gradient[DH0] += states;
}

/* Sequence n as a call of its own, with the buffers of all. */
static void run_sequence(Backward *b, int64_t n)
{
	const BackwardFields *f = &b->field;
	const int64_t batch = *f->batch, all = *f->tokens, sequences = *f->sequences, at = b->offsets[n];
	const tilert_ptr cu_seqlens = *f->cu_seqlens;
	move(b, at, n);
	*f->batch = 1;
	*f->tokens = b->offsets[n + 1] - at;
	*f->sequences = 0;
	*f->cu_seqlens = 0;
	backward_run(b);
	move(b, -at, -n);
	*f->batch = batch;
	*f->tokens = all;
	*f->sequences = sequences;
	*f->cu_seqlens = cu_seqlens;
}

/* What sequence n has of a gradient. */
static void expect_part(const Backward *b, int which, int64_t n, const float *got, const float *want)
{
	const int64_t width = which == DH0 ? state(b) : b->token[which].heads * b->token[which].width, first = which == DH0 ? n : b->offsets[n];
	const int64_t count = which == DH0 ? 1 : b->offsets[n + 1] - first;
	if (memcmp(got + first * width, want + first * width, (size_t)(count * width) * sizeof *got) != 0)
		fail_msg("%s of sequence %lld has other bits alone", names[which], (long long)n);
}

void backward_alone(Backward *b)
{
	float *want[GRADIENTS], *got[GRADIENTS];
	backward_run(b);
	backward_take(b, want);
	for (int64_t n = 0; n < b->sequences; n++) {
		backward_poison(b);
		run_sequence(b, n);
		backward_take(b, got);
		for (int i = 0; i <= DH0; i++)
			expect_part(b, i, n, got[i], want[i]);
		for (int i = 0; i < GRADIENTS; i++)
			free(got[i]);
	}
	for (int i = 0; i < GRADIENTS; i++)
		free(want[i]);
	backward_release(b);
}

/* ---- causality ---- */

/* dout of tokens from..until - 1 of each row with the other sign: sums have other terms, but none has another size. */
static void turn_dout(Backward *b, int64_t from, int64_t until)
{
	const TokenTensor *t = &b->dout;
	const int64_t row = t->heads * t->width;
	for (int64_t i = 0; i < tokens_elements(t); i++) {
		const int64_t token = i / row % t->tokens;
		if (token >= from && token < until)
			t->value[i] = -t->value[i];
	}
	upload_dout(b);
}

static void expect_rows(const Backward *b, int which, const float *want, int64_t from, int64_t until)
{
	const TokenTensor *t = &b->token[which];
	const int64_t row = t->heads * t->width;
	float *got = take(b, which);
	for (int64_t n = 0; n < t->batch; n++)
		expect_same(names[which], got + (n * t->tokens + from) * row, want + (n * t->tokens + from) * row, (until - from) * row);
	free(got);
}

void backward_causal(Backward *b)
{
	const int64_t all = b->dout.tokens, half = all / 2;
	float *want[GRADIENTS];
	backward_run(b);
	backward_take(b, want);
	turn_dout(b, 0, half);
	backward_poison(b);
	backward_run(b);
	for (int i = 0; i < BY_TOKEN; i++) /* what came before changes nothing later */
		expect_rows(b, i, want[i], half, all);
	turn_dout(b, 0, all);
	backward_poison(b);
	backward_run(b);
	expect_rows(b, DQ, want[DQ], 0, half); /* and dq of a token has its own dout alone */
	for (int i = 0; i < GRADIENTS; i++)
		free(want[i]);
	backward_release(b);
}

/* ---- zeros, and what is no number ---- */

void backward_zeros(Backward *b)
{
	clear_dout(b);
	backward_run(b);
	for (int i = 0; i < GRADIENTS; i++) {
		if (!has(b, i))
			continue;
		float *got = take(b, i);
		for (int64_t j = 0; j < backward_elements(b, i); j++) {
			if (got[j] != 0)
				fail_msg("%s: element %lld is %g", names[i], (long long)j, (double)got[j]);
		}
		free(got);
	}
	backward_release(b);
}

/* Gradients of all value heads but those of the first q/k head, and of all sequences but the first; of the latter alone where a sum over heads is `which`. */
static void expect_others(const Backward *b, int which, const float *want)
{
	const int64_t group = heads(b) / b->token[DQ].heads, of = which < BY_TOKEN ? b->token[which].heads : heads(b);
	const int64_t width = which < BY_TOKEN ? b->token[which].width : b->key_dim * b->value_dim, own = which == DQ || which == DK ? 1 : group;
	float *got = take(b, which);
	for (int64_t i = 0; i < backward_elements(b, which) / width; i++) {
		const bool first = (which < BY_TOKEN ? sequence_of(b, i / of) : i / of) == 0;
		if (!first || i % of >= own)
			expect_same(names[which], got + i * width, want + i * width, width);
	}
	free(got);
}

void backward_not_finite(Backward *b)
{
	const double odd[] = { (double)NAN, (double)INFINITY, (double)-INFINITY };
	float *want[GRADIENTS];
	backward_run(b);
	backward_take(b, want);
	for (int i = 0; i < 3; i++) {
		b->dout.value[0] = odd[i];
		upload_dout(b);
		backward_poison(b);
		backward_run(b);
		for (int j = 0; j <= DH0; j++)
			expect_others(b, j, want[j]);
		float *got = take(b, DV);
		for (int64_t j = 0; j < b->token[DV].width && isnan(odd[i]); j++)
			assert_true(j != 0 || !isfinite(got[j]));
		free(got);
	}
	for (int i = 0; i < GRADIENTS; i++)
		free(want[i]);
	backward_release(b);
}

/* ---- offsets that are none ---- */

static void run_wild(void *user)
{
	const Backward *b = user;
	float *got[GRADIENTS];
	backward_poison(b);
	backward_run(user);
	backward_take(b, got);
	for (int i = 0; i < GRADIENTS; i++)
		free(got[i]);
}

void backward_wild(Backward *b, const Forward *f)
{
	Buffer kept[BY_TOKEN + 5] = { b->dout.buffer, b->dht, f->pool->h0, f->a_log, f->dt_bias };
	for (int i = 0; i < BY_TOKEN; i++)
		kept[5 + i] = b->input[i]->buffer;
	offsets_wild(f, kept, sizeof kept / sizeof kept[0], run_wild, b);
	backward_poison(b);
	backward_check(b);
}

/* ---- views ---- */

static void expect_view(const Backward *b, int which, const void *got, int64_t at, int64_t width, const float *want)
{
	const TokenTensor *t = &b->token[which];
	const int64_t row = t->heads * t->width;
	for (int64_t i = 0; i < tokens_elements(t); i++) {
		const float x = (float)element_load(t->dtype, got, i / row * width + at + i % row);
		expect_same(names[which], &x, &want[i], 1);
	}
}

void backward_one_buffer(Backward *b)
{
	int64_t at[DV + 1], width = 0;
	float *want[GRADIENTS];
	backward_run(b);
	backward_take(b, want);
	for (int i = DQ; i <= DV; i++) {
		at[i] = width;
		width += b->token[i].heads * b->token[i].width;
	}
	const size_t size = tilert_dtype_size(b->dout.dtype);
	const Buffer all = buffer_poisoned((size_t)(b->dout.batch * b->dout.tokens * width) * size);
	for (int i = DQ; i <= DV; i++) {
		*b->field.gradient[i] = all.p + (tilert_ptr)((size_t)at[i] * size);
		*b->field.strides[i] = (tilekern_strides){ .batch = b->dout.tokens * width, .token = width, .head = b->token[i].width };
	}
	backward_make_workspace(b);
	backward_run(b);
	void *got = buffer_take(all);
	for (int i = DQ; i <= DV; i++)
		expect_view(b, i, got, at[i], width, want[i]);
	free(got);
	buffer_free(all);
	for (int i = 0; i < GRADIENTS; i++)
		free(want[i]);
	backward_release(b);
}

/* ---- no tokens ---- */

void backward_nothing(Backward *b)
{
	backward_run(b);
	for (int i = 0; i < GRADIENTS; i++) { /* rows that no sequence has are zeros, and so are sums of none */
		float *got = has(b, i) ? take(b, i) : NULL;
		for (int64_t n = 0; got && i >= BY_TOKEN && n < backward_elements(b, i); n++)
			assert_true((double)got[n] == (i == DH0 ? b->dstate[n] : 0));
		free(got);
	}
	backward_release(b);
}

/* ---- strides ---- */

void backward_odd_strides(Backward *b)
{
	*b->field.dout_strides = tokens_odd_strides(&b->dout);
	for (int i = 0; i < BY_TOKEN; i++)
		*b->field.strides[i] = tokens_odd_strides(&b->token[i]);
	backward_check(b);
}
