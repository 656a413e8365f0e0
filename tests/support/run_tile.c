/* run_tile.c - compiles a .tile file with tilec and runs its kernels, for numeric tests. */
#include "tests/support/run_tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/bytes.h"
#include "tests/support/tool.h"

enum { GUARD = 256, GUARD_BYTE = 0x5a };

static void check(tilert_status s, const char *what)
{
	if (s != TILERT_OK)
		fail_msg("%s: %s", what, tilert_last_error());
}

/* ---- modules ---- */

static char *compile(const char *tile_file, const char *device, char *defines)
{
	const char *tilec = getenv("TILE_TILEC");
	char *module = temporary_file(".tmod");
	int status;
	char *got = shell(&status, "'%s' --target=%s%s -o '%s' '%s'", tilec ? tilec : TILEC_PATH,
		strcmp(device, "cpu") == 0 ? "cpu" : "sm_90a", defines, module, tile_file);
	free(defines);
	if (status != 0) {
		unlink(module);
		fail_msg("tilec ended with %d:\n%s", status, got);
	}
	free(got);
	return module;
}

TileRun *run_open(const char *tile_file, ...)
{
	char *defines = text_of("%s", "");
	va_list ap;
	va_start(ap, tile_file);
	for (const char *d; (d = va_arg(ap, const char *)) != NULL;) {
		char *more = text_of("%s -D '%s'", defines, d);
		free(defines);
		defines = more;
	}
	va_end(ap);
	const char *name = getenv("TILE_TEST_DEVICE");
	name = name && *name ? name : "cpu";
	char *module = compile(tile_file, name, defines);
	TileRun *r = calloc(1, sizeof *r);
	assert_non_null(r);
	r->random = 1;
	r->is_cpu = strcmp(name, "cpu") == 0;
	tilert_status s = tilert_device_open(name, &r->device);
	if (s == TILERT_OK)
		s = tilert_module_open(r->device, module, &r->module);
	unlink(module);
	free(module);
	check(s, tile_file);
	return r;
}

void run_close(TileRun *r)
{
	if (!r)
		return;
	tilert_module_close(r->module);
	tilert_device_close(r->device);
	free(r);
}

tilert_status run_try(TileRun *r, const char *kernel, const tilert_arg *args, size_t nargs)
{
	tilert_kernel *k;
	tilert_status s = tilert_module_kernel(r->module, kernel, &k);
	if (s == TILERT_OK)
		s = tilert_launch(k, args, nargs, NULL);
	return s == TILERT_OK ? tilert_stream_sync(r->device, NULL) : s;
}

void run_launch(TileRun *r, const char *kernel, const tilert_arg *args, size_t nargs)
{
	check(run_try(r, kernel, args, nargs), kernel);
}

/* ---- elements ---- */

static uint32_t float_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float bits_float(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* Drops the low n bits of a float, to nearest even. */
static uint32_t round_bits(float f, int n)
{
	uint32_t u = float_bits(f);
	if (isnan(f))
		return u | (1u << 22);
	uint32_t half = 1u << (n - 1);
	return (u + half - 1 + (u >> n & 1)) & ~((1u << n) - 1);
}

static uint16_t half_bits(double v)
{
	uint16_t sign = signbit(v) ? 0x8000 : 0;
	double a = fabs(v);
	if (isnan(v))
		return 0x7fff;
	if (a == 0)
		return sign;
	if (a >= 65520.0)
		return sign | 0x7c00;
	int e;
	frexp(a, &e);
	e = e < -13 ? -13 : e;                       /* subnormals share the smallest exponent */
	double m = nearbyint(ldexp(a, 11 - e));      /* in units of the last place */
	return (uint16_t)(sign + (uint32_t)m + ((uint32_t)(e + 13) << 10));
}

static double half_value(uint16_t h)
{
	int e = h >> 10 & 31, m = h & 1023;
	double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
	return h & 0x8000 ? -v : v;
}

void element_store(tilert_dtype t, void *p, double v)
{
	uint32_t u32;
	uint16_t u16;
	int64_t i = tilert_dtype_size(t) && t < TILERT_F16 ? (int64_t)v : 0;
	float f = (float)v;
	switch (t) {
	case TILERT_F32: memcpy(p, &f, 4); break;
	case TILERT_TF32: u32 = round_bits(f, 13); memcpy(p, &u32, 4); break;
	case TILERT_BF16: u16 = (uint16_t)(round_bits(f, 16) >> 16); memcpy(p, &u16, 2); break;
	case TILERT_F16: u16 = half_bits(v); memcpy(p, &u16, 2); break;
	case TILERT_E4M3: *(uint8_t *)p = (uint8_t)byte_nearest(&byte_e4m3, v); break;
	case TILERT_E5M2: *(uint8_t *)p = (uint8_t)byte_nearest(&byte_e5m2, v); break;
	default: memcpy(p, &i, tilert_dtype_size(t)); break; /* little-endian */
	}
}

static int64_t integer(const void *p, size_t bytes, bool is_signed)
{
	uint64_t u = 0;
	memcpy(&u, p, bytes);
	if (is_signed && bytes < 8 && u >> (8 * bytes - 1))
		u |= ~(uint64_t)0 << 8 * bytes;
	return (int64_t)u;
}

double element_load(tilert_dtype t, const void *p)
{
	uint32_t u32;
	uint16_t u16;
	switch (t) {
	case TILERT_F32:
	case TILERT_TF32: memcpy(&u32, p, 4); return bits_float(u32);
	case TILERT_BF16: memcpy(&u16, p, 2); return bits_float((uint32_t)u16 << 16);
	case TILERT_F16: memcpy(&u16, p, 2); return half_value(u16);
	case TILERT_E4M3: return byte_value(&byte_e4m3, *(const uint8_t *)p);
	case TILERT_E5M2: return byte_value(&byte_e5m2, *(const uint8_t *)p);
	default: return (double)integer(p, tilert_dtype_size(t), t >= TILERT_I8 && t <= TILERT_I64);
	}
}

/* ---- tensors ---- */

TestTensor tensor_new(TileRun *r, tilert_dtype dtype, int rank, const int64_t *extents)
{
	TestTensor t = { .run = r, .count = 1, .t = { .dtype = dtype, .rank = rank } };
	for (int i = 0; i < rank; i++) {
		t.t.extents[i] = extents[i];
		t.count *= (size_t)extents[i];
	}
	size_t bytes = t.count * tilert_dtype_size(dtype);
	check(tilert_alloc(r->device, bytes + GUARD, &t.t.data), "tilert_alloc");
	check(tilert_memset(r->device, t.t.data, 0xff, bytes, NULL), "tilert_memset");
	check(tilert_memset(r->device, t.t.data + bytes, GUARD_BYTE, GUARD, NULL), "tilert_memset");
	t.value = calloc(t.count ? t.count : 1, sizeof *t.value);
	assert_non_null(t.value);
	return t;
}

void tensor_free(TestTensor *t)
{
	check(tilert_free(t->run->device, t->t.data), "tilert_free");
	free(t->value);
	t->value = NULL;
}

void tensor_upload(TestTensor *t)
{
	size_t size = tilert_dtype_size(t->t.dtype);
	unsigned char *raw = malloc(t->count * size + 1);
	assert_non_null(raw);
	for (size_t i = 0; i < t->count; i++) {
		element_store(t->t.dtype, raw + i * size, t->value[i]);
		t->value[i] = element_load(t->t.dtype, raw + i * size);
	}
	check(tilert_upload(t->run->device, t->t.data, raw, t->count * size), "tilert_upload");
	free(raw);
}

void tensor_download(TestTensor *t)
{
	size_t size = tilert_dtype_size(t->t.dtype), bytes = t->count * size, changed = 0;
	unsigned char *raw = malloc(bytes + GUARD);
	assert_non_null(raw);
	check(tilert_download(t->run->device, raw, t->t.data, bytes + GUARD), "tilert_download");
	for (size_t i = 0; i < t->count; i++)
		t->value[i] = element_load(t->t.dtype, raw + i * size);
	for (size_t i = 0; i < GUARD; i++)
		changed += raw[bytes + i] != GUARD_BYTE;
	free(raw);
	if (changed)
		fail_msg("%zu bytes behind a tensor were overwritten", changed);
}

double random_uniform(TileRun *r)
{
	r->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
	uint64_t z = r->random;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

void tensor_random(TileRun *r, TestTensor *t, double lo, double hi)
{
	for (size_t i = 0; i < t->count; i++)
		t->value[i] = lo + (hi - lo) * random_uniform(r);
	tensor_upload(t);
}

/* "[2][0][17]" of element i. */
static const char *where(const TestTensor *t, size_t i, char *text, size_t size)
{
	size_t used = 0, rest = t->count;
	text[0] = '\0';
	for (int d = 0; d < t->t.rank && used < size; d++) {
		rest /= (size_t)t->t.extents[d];
		used += (size_t)snprintf(text + used, size - used, "[%zu]", i / rest);
		i %= rest;
	}
	return text;
}

void tensor_compare(TestTensor *t, const double *want, double rtol, double atol)
{
	tensor_download(t);
	size_t wrong = 0, first = 0;
	for (size_t i = 0; i < t->count; i++) {
		if (fabs(t->value[i] - want[i]) <= atol + rtol * fabs(want[i]))
			continue;
		if (wrong++ == 0)
			first = i;
	}
	char text[160];
	if (wrong)
		fail_msg("%zu of %zu elements differ by more than %g + %g |x|; the first, %s, is %.9g instead of %.9g", wrong, t->count,
			atol, rtol, where(t, first, text, sizeof text), t->value[first], want[first]);
}

double tensor_rms_error(TestTensor *t, const double *want)
{
	tensor_download(t);
	double error = 0, size = 0;
	for (size_t i = 0; i < t->count; i++) {
		error += (t->value[i] - want[i]) * (t->value[i] - want[i]);
		size += want[i] * want[i];
	}
	return size > 0 ? sqrt(error / size) : sqrt(error);
}

void tensor_untouched(TestTensor *t)
{
	tensor_download(t);
	bool real = t->t.dtype >= TILERT_F16;
	for (size_t i = 0; i < t->count; i++) {
		if (real ? !isnan(t->value[i]) : element_load(t->t.dtype, "\xff\xff\xff\xff\xff\xff\xff\xff") != t->value[i])
			fail_msg("element %zu was written: %g", i, t->value[i]);
	}
}
