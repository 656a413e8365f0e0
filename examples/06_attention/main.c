/* Attention by forward.tile and backward.tile, compared with double precision and, on a GPU, timed.
 *
 *     attention FORWARD.tmod [BACKWARD.tmod] [WORD=NUMBER ...]
 *
 * What the modules were compiled for is read off their parameters, but for CAUSAL and PAGE, which are told: causal=1 page=16. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/example.h"
#include "reference.h"
#include "runtime/abi/float8.h"
#include "tests/check/float16.h"
#include "tests/check/random.h"

typedef struct Option { const char *name, *help; int64_t value; } Option;
enum { SEQUENCES, QUERIES, KEYS, HEADS, KEY_HEADS, CAUSAL, WINDOW, PAGE, CPU, OPTIONS };
static const Option defaults[OPTIONS] = {
	[SEQUENCES] = { "sequences", "how many sequences", 2 },
	[QUERIES] = { "queries", "of each; where they are packed, of the longest", 300 },
	[KEYS] = { "keys", "the same of keys", 420 },
	[HEADS] = { "heads", "of q", 4 },
	[KEY_HEADS] = { "key_heads", "of k and v", 2 },
	[CAUSAL] = { "causal", "1: the module was compiled with -D CAUSAL=true", 0 },
	[WINDOW] = { "window", "keys that a query sees, where the module has a window", 100 },
	[PAGE] = { "page", "rows of a page, where the module has pages", 64 },
	[CPU] = { "cpu", "1: on the CPU device", 0 },
};

enum { MOST = 32 };
typedef struct Run {
	int64_t option[OPTIONS];
	Attention a;
	float *d_o;
	tilert_device *device;
	tilert_dtype dtype, out; /* of q, k and v; of o */
	Random random;
	tilert_arg args[MOST];
	int nargs;
} Run;

static tilert_kernel *kernel_of(tilert_module *m, const char *name)
{
	tilert_kernel *k;
	check(tilert_module_kernel(m, name, &k), name);
	return k;
}

/* The parameter of that name, or one of kind -1. */
static tilert_param parameter(const tilert_kernel *k, const char *name)
{
	tilert_param p = { .name = NULL };
	for (size_t i = 0; i < tilert_kernel_param_count(k); i++) {
		check(tilert_kernel_param(k, i, &p), "parameters");
		if (!strcmp(p.name, name))
			return p;
	}
	return (tilert_param) { .name = NULL };
}

static bool has(const tilert_kernel *k, const char *name)
{
	return parameter(k, name).name != NULL;
}

static void usage(void)
{
	fprintf(stderr, "usage: attention FORWARD.tmod [BACKWARD.tmod] [WORD=NUMBER ...]\n");
	for (int i = 0; i < OPTIONS; i++)
		fprintf(stderr, "  %-10s %s (%lld)\n", defaults[i].name, defaults[i].help, (long long)defaults[i].value);
	exit(2);
}

static void read_option(Run *r, const char *word)
{
	const char *equals = strchr(word, '=');
	for (int i = 0; equals && i < OPTIONS; i++)
		if (strlen(defaults[i].name) == (size_t)(equals - word) && !memcmp(word, defaults[i].name, (size_t)(equals - word))) {
			r->option[i] = atoll(equals + 1);
			return;
		}
	fprintf(stderr, "'%s' is not one of the words\n", word);
	usage();
}

/* ---- Arguments: one list for all kernels, which take what they name ---- */

static tilert_arg *add(Run *r, const char *name, tilert_arg_kind kind)
{
	if (r->nargs == MOST)
		abort();
	r->args[r->nargs] = (tilert_arg) { .name = name, .kind = kind };
	return &r->args[r->nargs++];
}

static void add_integer(Run *r, const char *name, tilert_arg_kind kind, int64_t i)
{
	add(r, name, kind)->i = i;
}

static void add_real(Run *r, const char *name, double f)
{
	add(r, name, TILERT_ARG_SCALAR)->f = f;
}

static void add_tensor(Run *r, const char *name, tilert_dtype t, const int64_t extents[4], const void *data)
{
	*add(r, name, TILERT_ARG_TENSOR) = tensor(r->device, name, t, extents, data);
}

static uint16_t narrow(tilert_dtype t, float x)
{
	return t == TILERT_E4M3 ? float8_from(&float8_e4m3, x) : t == TILERT_F16 ? fp16_from_float(x) : bf16_from_float(x);
}

static float wide(tilert_dtype t, uint16_t x)
{
	return t == TILERT_E4M3 ? float8_to(&float8_e4m3, (uint8_t)x) : t == TILERT_F16 ? fp16_to_float(x) : bf16_to_float(x);
}

/* Random numbers that the element type has. */
static float *numbers(Run *r, size_t n)
{
	float *x = memory(n, sizeof *x);
	for (size_t i = 0; i < n; i++)
		x[i] = wide(r->dtype, narrow(r->dtype, random_normal(&r->random)));
	return x;
}

static void add_rows(Run *r, const char *name, int64_t rows, int64_t heads, const float *x)
{
	size_t n = (size_t)(rows * heads * r->a.width), size = x ? tilert_dtype_size(r->dtype) : 0;
	uint8_t *bits = memory(n, size + 1);
	for (size_t i = 0; x && i < n; i++)
		memcpy(bits + i * size, (uint16_t[1]) { narrow(r->dtype, x[i]) }, size);
	add_tensor(r, name, x ? r->dtype : r->out, (int64_t[4]) { rows, heads, r->a.width }, x ? bits : NULL);
	free(bits);
}

/* What 8-bit numbers stand for: each sequence and head of x has a scale of its own. */
static void add_scales(Run *r, const char *name, float *x, const int32_t *start, int64_t heads)
{
	int64_t n = r->a.sequences, row = heads * r->a.width;
	float *scale = memory((size_t)(n * heads), sizeof *scale);
	for (int64_t i = 0; i < n * heads; i++)
		scale[i] = 0.5f + 0.25f * (float)(i * 5 % 7);
	for (int64_t z = 0; z < n; z++)
		for (int64_t i = start[z] * row; i < start[z + 1] * row; i++)
			x[i] *= scale[z * heads + i % row / r->a.width];
	add_tensor(r, name, TILERT_F32, (int64_t[4]) { n, heads }, scale);
	free(scale);
}

/* ---- The problem ---- */

/* Starts of sequences: all of one length, or (packed) of lengths that differ, the second being empty. */
static int32_t *starts(int64_t sequences, int64_t length, bool packed)
{
	int32_t *s = memory((size_t)sequences + 1, sizeof *s);
	for (int64_t z = 0; z < sequences; z++)
		s[z + 1] = s[z] + (int32_t)(!packed ? length : z == 1 ? 0 : length - z * 37 % (length - 1));
	return s;
}

/* Keys in pages, in an order of their own, what is behind a sequence's end being NaN. */
static void add_pages(Run *r)
{
	const Attention *a = &r->a;
	int64_t page = r->option[PAGE], most = 1, pages = 0, row = a->key_heads * a->width;
	for (int64_t z = 0; z < a->sequences; z++) {
		int64_t n = (a->k_start[z + 1] - a->k_start[z] + page - 1) / page;
		most = n > most ? n : most;
		pages += n;
	}
	int32_t *table = memory((size_t)(a->sequences * most), sizeof *table), *lengths = memory((size_t)a->sequences, sizeof *lengths);
	float *k = memory((size_t)(pages * page * row), sizeof *k), *v = memory((size_t)(pages * page * row), sizeof *v);
	for (int64_t i = 0; i < pages * page * row; i++)
		k[i] = v[i] = NAN;
	for (int64_t z = 0, next = pages; z < a->sequences; z++) {
		lengths[z] = a->k_start[z + 1] - a->k_start[z];
		for (int64_t j = 0; j < lengths[z]; j++) {
			int32_t *p = &table[z * most + j / page];
			if (j % page == 0)
				*p = (int32_t)--next;
			memcpy(k + (*p * page + j % page) * row, a->k + (a->k_start[z] + j) * row, (size_t)row * sizeof *k);
			memcpy(v + (*p * page + j % page) * row, a->v + (a->k_start[z] + j) * row, (size_t)row * sizeof *v);
		}
	}
	add_rows(r, "k", pages * page, a->key_heads, k);
	add_rows(r, "v", pages * page, a->key_heads, v);
	add_tensor(r, "lengths", TILERT_I32, (int64_t[4]) { a->sequences }, lengths);
	add_tensor(r, "table", TILERT_I32, (int64_t[4]) { a->sequences, most }, table);
	free(table);
	free(lengths);
	free(k);
	free(v);
}

static void make_problem(Run *r, const tilert_kernel *k)
{
	const int64_t *option = r->option;
	Attention *a = &r->a;
	bool packed = has(k, "cu_q"), paged = has(k, "table");
	tilert_param q = parameter(k, "q");
	const char *last = strrchr(q.shape, '[');
	*a = (Attention) { .sequences = option[SEQUENCES], .heads = option[HEADS], .key_heads = option[KEY_HEADS], .width = atoll(last + 1),
		.causal = option[CAUSAL], .window = has(k, "window") ? option[WINDOW] : 0, .cap = has(k, "cap") ? 2 : 0 };
	a->scale = 1 / sqrt((double)a->width);
	a->q_start = starts(a->sequences, option[QUERIES], packed);
	a->k_start = starts(a->sequences, option[KEYS], packed);
	r->dtype = q.dtype;
	r->out = parameter(k, "o").dtype;

	int64_t queries = a->q_start[a->sequences], keys = a->k_start[a->sequences], heads = a->heads, groups = a->key_heads;
	float *x[] = { numbers(r, (size_t)(queries * heads * a->width)), numbers(r, (size_t)(keys * groups * a->width)),
		numbers(r, (size_t)(keys * groups * a->width)) };
	a->q = x[0], a->k = x[1], a->v = x[2];
	add_rows(r, "q", queries, heads, a->q);
	add_rows(r, "o", queries, heads, NULL);
	if (paged)
		add_pages(r);
	else {
		add_rows(r, "k", keys, groups, a->k);
		add_rows(r, "v", keys, groups, a->v);
	}
	if (has(k, "q_scale")) {
		add_scales(r, "q_scale", x[0], a->q_start, heads);
		add_scales(r, "k_scale", x[1], a->k_start, groups);
		add_scales(r, "v_scale", x[2], a->k_start, groups);
	}
	add_tensor(r, "lse", TILERT_F32, (int64_t[4]) { heads, queries }, NULL);
	add_tensor(r, "cu_q", TILERT_I32, (int64_t[4]) { a->sequences + 1 }, a->q_start);
	add_tensor(r, "cu_k", TILERT_I32, (int64_t[4]) { a->sequences + 1 }, a->k_start);
	add_tensor(r, "counter", TILERT_I32, (int64_t[4]) { 2 }, (int32_t[2]) { 0, 0 });
	add_real(r, "scale", a->scale);
	add_real(r, "cap", a->cap);
	add_integer(r, "queries", TILERT_ARG_SCALAR, option[QUERIES]);
	add_integer(r, "keys", TILERT_ARG_SCALAR, option[KEYS]);
	add_integer(r, "window", TILERT_ARG_SCALAR, option[WINDOW]);
}

/* ---- Results ---- */

static void *result(Run *r, const char *name)
{
	for (int i = 0; i < r->nargs; i++)
		if (!strcmp(r->args[i].name, name))
			return downloaded(r->device, &r->args[i]);
	abort();
}

static bool report(const char *name, Error e, double most)
{
	e.square += 1e-12; /* gradients of sequences of one key are 0 */
	double error = relative(&e);
	printf("  %s %.1e%s", name, error, error < most ? "" : " WRONG");
	return error < most;
}

/* o and lse of all queries, or of some thousands of them. */
static bool check_forward(Run *r)
{
	const Attention *a = &r->a;
	size_t queries = (size_t)a->q_start[a->sequences];
	uint16_t *o = result(r, "o");
	float *lse = result(r, "lse");
	double *want = memory((size_t)a->width, sizeof *want), want_lse, worst = 0;
	Error e = { 0, 0 };
	int64_t step = (int64_t)(queries * (size_t)a->heads) / 4096 + 1, count = 0;
	for (int64_t z = 0; z < a->sequences; z++)
		for (int64_t i = 0; i < a->q_start[z + 1] - a->q_start[z]; i++)
			for (int64_t h = 0; h < a->heads; h++) {
				if (count++ % step)
					continue;
				int64_t row = a->q_start[z] + i;
				attention_row(a, z, i, h, want, &want_lse, NULL);
				for (int64_t d = 0; d < a->width; d++)
					compare(&e, want[d], (double)wide(r->out, o[(row * a->heads + h) * a->width + d]));
				double got = (double)lse[h * (int64_t)queries + row];
				double off = want_lse == -INFINITY && got == want_lse ? 0 : fabs(got - want_lse);
				worst = fmax(worst, isfinite(off) ? off : INFINITY);
			}
	bool right = report("o", e, r->dtype == TILERT_E4M3 ? 0.04 : 0.005) & (worst < (a->cap > 0 ? 5e-3 : 1e-3)); /* tanh of GPUs is right to 2^-11 */
	printf("  lse %.1e", worst);
	free(o);
	free(lse);
	free(want);
	return right;
}

/* ---- Backward: o and lse of the forward, d_o random ---- */

static void add_backward(Run *r)
{
	enum { BM = 64 }; /* of backward.tile */
	const Attention *a = &r->a;
	int64_t queries = a->q_start[a->sequences], keys = a->k_start[a->sequences], blocks = queries / BM + a->sequences + 1, longest = 0;
	for (int64_t z = 0; z < a->sequences; z++)
		longest = a->k_start[z + 1] - a->k_start[z] > longest ? a->k_start[z + 1] - a->k_start[z] : longest;
	r->d_o = numbers(r, (size_t)(queries * a->heads * a->width));
	add_rows(r, "d_o", queries, a->heads, r->d_o);
	add_rows(r, "dq", queries, a->heads, NULL);
	add_rows(r, "dk", keys, a->key_heads, NULL);
	add_rows(r, "dv", keys, a->key_heads, NULL);
	add_integer(r, "most", TILERT_ARG_SCALAR, r->option[QUERIES]);
	add_tensor(r, "lse2", TILERT_F32, (int64_t[4]) { a->heads, blocks, BM }, NULL);
	add_tensor(r, "delta", TILERT_F32, (int64_t[4]) { a->heads, blocks, BM }, NULL);
	add_tensor(r, "dq_sum", TILERT_F32, (int64_t[4]) { a->heads, blocks, a->width, BM }, NULL);
	add_integer(r, "longest", TILERT_ARG_SCALAR, longest);
}

static bool check_gradient(Run *r, const char *name, const double *want, size_t n)
{
	uint16_t *got = result(r, name);
	Error e = { 0, 0 };
	for (size_t i = 0; i < n; i++)
		compare(&e, want[i], (double)wide(r->out, got[i]));
	free(got);
	return report(name, e, 0.01);
}

static bool check_backward(Run *r)
{
	const Attention *a = &r->a;
	size_t nq = (size_t)(a->q_start[a->sequences] * a->heads * a->width), nk = (size_t)(a->k_start[a->sequences] * a->key_heads * a->width);
	double *dq = memory(nq, sizeof *dq), *dk = memory(nk, sizeof *dk), *dv = memory(nk, sizeof *dv);
	attention_gradients(a, r->d_o, dq, dk, dv);
	bool right = check_gradient(r, "dq", dq, nq);
	right = check_gradient(r, "dk", dk, nk) && right; /* each is told */
	right = check_gradient(r, "dv", dv, nk) && right;
	free(dq);
	free(dk);
	free(dv);
	return right;
}

static double products(const Attention *a) /* of a query and a key */
{
	double n = 0;
	for (int64_t z = 0; z < a->sequences; z++) {
		double t = a->q_start[z + 1] - a->q_start[z], s = a->k_start[z + 1] - a->k_start[z];
		n += a->causal ? t * (s - t / 2) : t * s;
	}
	return n * (double)a->heads;
}

static void launch(Run *r, tilert_module *m, const char *const *names, int n, double flops, bool time)
{
	tilert_prepared *p[4];
	for (int i = 0; i < n; i++)
		check(tilert_prepare_named(kernel_of(m, names[i]), r->args, (size_t)r->nargs, &p[i]), names[i]);
	for (int i = 0; i < n; i++)
		check(tilert_prepared_launch(p[i], NULL), names[i]);
	check(tilert_stream_sync(r->device, NULL), "run");
	if (time) {
		double ms = milliseconds(r->device, p, n);
		printf("  %.3f ms, %.0f TFLOP/s", ms, flops / ms * 1e-9);
	}
	for (int i = 0; i < n; i++)
		tilert_prepared_destroy(p[i]);
}

int main(int argc, char **argv)
{
	Run *r = memory(1, sizeof *r);
	tilert_module *forward, *backward = NULL;
	bool has_backward = argc > 2 && !strchr(argv[2], '=');
	tilert_device_info info;

	for (int i = 0; i < OPTIONS; i++)
		r->option[i] = defaults[i].value;
	if (argc < 2)
		usage();
	for (int i = has_backward ? 3 : 2; i < argc; i++)
		read_option(r, argv[i]);
	r->device = open_device(r->option[CPU] ? "cpu" : NULL, &info);
	random_init(&r->random, 1);
	check(tilert_module_open(r->device, argv[1], &forward), "open the module");
	make_problem(r, kernel_of(forward, "attention"));
	printf("%s: %s:", info.name, argv[1]);
	launch(r, forward, (const char *[]) { "attention" }, 1, 4 * products(&r->a) * (double)r->a.width, info.is_cuda);
	bool right = check_forward(r);
	if (has_backward) {
		check(tilert_module_open(r->device, argv[2], &backward), "open the module");
		add_backward(r);
		printf("; %s:", argv[2]);
		bool sums = has(kernel_of(backward, "gradients"), "dq_sum");
		launch(r, backward, (const char *[]) { "rows", "gradients", sums ? "queries" : "query_gradients" }, 3, 10 * products(&r->a) * (double)r->a.width, info.is_cuda);
		right &= check_backward(r);
		tilert_module_close(backward);
	}
	putchar('\n');

	tilert_module_close(forward);
	for (int i = 0; i < r->nargs; i++)
		if (r->args[i].kind == TILERT_ARG_TENSOR)
			check(tilert_free(r->device, r->args[i].tensor.data), "free");
	tilert_device_close(r->device);
	free((void *)r->a.q);
	free((void *)r->a.k);
	free((void *)r->a.v);
	free(r->d_o);
	free(r->a.q_start);
	free(r->a.k_start);
	free(r);
	return !right;
}
