/* math.c - the errors of the functions of math.tile over the range of f32, as LANGUAGE.md, section 5, states them. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/check/random.h"
#include "tests/numeric/kernels/numeric.h"

static double reciprocal(double x) { return 1 / x; }
static double reciprocal_root(double x) { return 1 / sqrt(x); }
static double three_over(double x) { return 3 / x; }
static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

typedef enum Sampling {
	LINEAR, /* between low and high */
	POWERS, /* between 2^low and 2^high, every power as often */
	SIGNED, /* POWERS of either sign */
} Sampling;

enum { SPECIAL = 4 };

/* What is allowed: (ulp + ulp_per_x |x|) units of 2^-23 of the result, or `absolute`.  Results that f32 cannot hold are infinite. */
typedef struct Function {
	const char *name;
	double (*exact)(double);
	Sampling sampling;
	double low, high, ulp, ulp_per_x, absolute;
	float special[SPECIAL]; /* further arguments */
} Function;

/* Of POWERS, one in this many is near 1, where logarithms are small. */
enum { NEAR_1 = 8 };

/* In the order of math.tile. */
static const Function functions[] = {
	{ "exp2", exp2, LINEAR, -126, 127.99, 2, 0, 0, { 200, -200, 0, -INFINITY } },
	{ "log2", log2, POWERS, -126, 127.99, 2, 0, 0x1p-22, { 0, INFINITY, 1, 8 } },
	{ "sqrt", sqrt, POWERS, -126, 127.99, 2, 0, 0, { 0, INFINITY, 1, 4 } },
	{ "rsqrt", reciprocal_root, POWERS, -126, 127.99, 2, 0, 0, { 0, INFINITY, 1, 4 } },
	{ "rcp", reciprocal, SIGNED, -126, 126, 2, 0, 0, { 0, INFINITY, 1, -4 } },
	{ "divide", three_over, SIGNED, -126, 126, 2, 0, 0, { 0, INFINITY, 1, -2 } },
	{ "tanh", tanh, SIGNED, -30, 10, 0, 0, 0x1p-11, { 0, 100, -100, INFINITY } },
	{ "exp", exp, LINEAR, -87, 88.7, 3, 1, 0, { 0, 100, -200, -INFINITY } },
	{ "log", log, POWERS, -126, 127.99, 3, 0, 0x1p-22, { 0, INFINITY, 1, 1 } },
	{ "sigmoid", sigmoid, LINEAR, -87, 0, 4, 1, 0, { 0, -1000, -INFINITY, 1000 } },
	{ "sigmoid_above_0", sigmoid, LINEAR, 0, 120, 4, 0, 0, { 0, 200, 1000, INFINITY } },
	{ "softplus", softplus, LINEAR, -87, 200, 8, 0, 0, { 1000, INFINITY, 200, 100 } },
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static float sample(const Function *f, Random *r)
{
	double x = f->low + (f->high - f->low) * random_unit(r);
	if (f->sampling == LINEAR)
		return (float)x;
	if (random_bits(r) % NEAR_1 == 0)
		return (float)exp2(2 * random_unit(r) - 1);
	return (float)(f->sampling == SIGNED && random_bits(r) % 2 ? -exp2(x) : exp2(x));
}

static void check(const Function *f, const float *x, const float *y, int64_t n)
{
	double worst = 0, worst_ulp = 0;
	int64_t at = 0;
	for (int64_t i = 0; i < n; i++) {
		double want = f->exact(x[i]), unit = 0x1p-23 * fabs(want), error = fabs(y[i] - want);
		if (isnan(x[i]) && isnan(y[i]))
			continue;
		if (fabs(want) > FLT_MAX)
			error = y[i] == copysign(INFINITY, want) ? 0 : INFINITY;
		double allowed = fmax(f->absolute, (f->ulp + f->ulp_per_x * fabs(x[i])) * unit) + 0x1p-126;
		if (!(error <= worst * allowed)) { /* so that NaN counts */
			worst = error / allowed;
			at = i;
		}
		if (error > worst_ulp * unit && error > f->absolute + 0x1p-126)
			worst_ulp = error / unit;
		if (isnan(worst))
			break;
	}
	print_message("%-16s %5.2f of what is allowed, at %.9g; outside the absolute error %.2f ulp\n", f->name, worst, (double)x[at], worst_ulp);
	if (!(worst <= 1))
		fail_msg("%s(%.9g) is %.9g, not %.9g", f->name, (double)x[at], (double)y[at], f->exact(x[at]));
}

static float *results(const Function *f, const float *x, int64_t n)
{
	size_t bytes = (size_t)n * sizeof(float);
	tilert_kernel *k;

	Buffer dx = buffer_of(x, bytes), dy = buffer_poisoned(bytes);
	tilert_arg args[] = { tensor_arg("x", dx, TILERT_F32, 1, &n), tensor_arg("y", dy, TILERT_F32, 1, &n),
		{ .name = "which", .kind = TILERT_ARG_SCALAR, .i = f - functions } };
	OK(tilert_module_kernel(numeric_module("math.tmod"), "math", &k));
	OK(tilert_launch(k, args, 3, NULL));
	float *y = buffer_take(dy);
	buffer_free(dx);
	buffer_free(dy);
	return y;
}

static void run(const void *spec)
{
	const Function *f = spec;
	const int64_t n = numeric_on_cpu() ? 1 << 15 : 1 << 22;
	float *x = memory((size_t)n * sizeof(float)), *y;
	Random r;

	random_init(&r, 1);
	for (int64_t i = 0; i < n; i++)
		x[i] = i < SPECIAL ? f->special[i] : i == SPECIAL ? NAN : sample(f, &r);
	y = results(f, x, n);
	check(f, x, y, n);
	free(x);
	free(y);
}

/* Subnormal arguments count as 0, and so do subnormal results; what is neither is the GPU's, in the last bits (log2(0x1p-126) is not quite -126). */
static void flushes(const void *spec)
{
	static const struct { int function; float x, y; } rows[] = {
		{ 0, -126, 0x1p-126f }, { 0, -127, 0 }, { 0, -140.5f, 0 }, { 1, 0x1p-126f, -126 }, { 1, 0x1p-127f, -INFINITY }, { 2, 0x1p-130f, 0 },
		{ 3, 0x1p-140f, INFINITY }, { 4, 0x1p-127f, INFINITY }, { 4, -0x1p-140f, -INFINITY }, { 4, 0x1p126f, 0x1p-126f }, { 4, 0x1p127f, 0 },
		{ 4, -0x1.8p126f, -0.0f }, { 5, 0x1p-130f, INFINITY }, { 5, 0x1p127f, 0 }, { 5, -0x1p126f, -0x1.8p-125f },
	};

	(void)spec;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		float *y = results(&functions[rows[i].function], &rows[i].x, 1);
		bool close = *y == rows[i].y || (isfinite(rows[i].y) && fabsf(*y - rows[i].y) <= 0x1p-22f * fabsf(rows[i].y));

		if (!close || signbit(*y) != signbit(rows[i].y))
			fail_msg("%s(%a) is %a, not %a", functions[rows[i].function].name, (double)rows[i].x, (double)*y, (double)rows[i].y);
		free(y);
	}
}

size_t math_cases(NumericCase *out)
{
	for (size_t i = 0; i < FUNCTIONS; i++) {
		out[i] = numeric_case(run, &functions[i], "math_%s", functions[i].name);
	}
	out[FUNCTIONS] = (NumericCase){ .name = "math_flushes", .run = flushes };
	return FUNCTIONS + 1;
}
