/* product.c - the arithmetic of wgmma: operands to floats, and 64 x n x k products of them. */
#include "runtime/cpu/operand.h"

#include <string.h>

/* ---- operands ---- */

/* b[i][j] = element j of line i. */
static void load_block(const Operand *o, const uint8_t *smem, uint32_t row_block, uint32_t k_block, uint16_t b[8][8])
{
	for (uint32_t i = 0; i < 8; i++)
		memcpy(b[i], smem + operand_line(o, row_block, k_block, i), 16);
}

#if defined(__SSE2__)
#include <emmintrin.h>

static void transpose(uint16_t b[8][8])
{
	__m128i r[8], s[8];

	for (int i = 0; i < 8; i++)
		r[i] = _mm_loadu_si128((const __m128i *)(const void *)b[i]);
	for (int i = 0; i < 4; i++) {
		s[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]);
		s[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
	}
	for (int i = 0; i < 4; i++) {
		r[2 * i] = _mm_unpacklo_epi16(s[i], s[i + 4]);
		r[2 * i + 1] = _mm_unpackhi_epi16(s[i], s[i + 4]);
	}
	for (int i = 0; i < 4; i++) {
		_mm_storeu_si128((__m128i *)(void *)b[2 * i], _mm_unpacklo_epi16(r[i], r[i + 4]));
		_mm_storeu_si128((__m128i *)(void *)b[2 * i + 1], _mm_unpackhi_epi16(r[i], r[i + 4]));
	}
}
#else
static void transpose(uint16_t b[8][8])
{
	for (int i = 0; i < 8; i++) {
		for (int j = 0; j < i; j++) {
			uint16_t x = b[i][j];
			b[i][j] = b[j][i];
			b[j][i] = x;
		}
	}
}
#endif

#if defined(__SSE2__)
static void widen_bf16(const uint16_t *in, float *out)
{
	__m128i x = _mm_loadu_si128((const __m128i *)(const void *)in), zero = _mm_setzero_si128();

	_mm_storeu_ps(out, _mm_castsi128_ps(_mm_unpacklo_epi16(zero, x)));
	_mm_storeu_ps(out + 4, _mm_castsi128_ps(_mm_unpackhi_epi16(zero, x)));
}
#else
static void widen_bf16(const uint16_t *in, float *out)
{
	for (int j = 0; j < 8; j++)
		out[j] = rt_from_bf16(in[j]);
}
#endif

static void widen_f16(const uint16_t *in, float *out)
{
	/* without branches: the exponent is corrected by a multiplication, which also makes subnormals right */
	for (int j = 0; j < 8; j++) {
		uint32_t h = in[j], magnitude = (h & 0x7fff) << 13, special = magnitude >= 0x0f800000u ? 0x7f800000u : 0;
		float x = rt_bits_float(magnitude) * 0x1p112f;
		uint32_t bits = rt_float_bits(x) | special | (h & 0x8000) << 16;
		memcpy(&out[j], &bits, sizeof bits);
	}
}

static void widen_bytes(tilert_dtype type, const uint8_t *in, float *out)
{
	for (int j = 0; j < 16; j++)
		out[j] = type == TILERT_I8 ? (float)(int8_t)in[j] : type == TILERT_U8 ? (float)in[j] : float8_to(rt_float8(type), in[j]);
}

static void widen_words(const uint8_t *in, float *out)
{
	uint32_t bits[4];

	memcpy(bits, in, sizeof bits);
	for (int j = 0; j < 4; j++)
		out[j] = widen_tf32(bits[j]);
}

/* The elements of 16 bytes. */
static void widen_line(tilert_dtype type, const void *in, float *out)
{
	switch (type) {
	case TILERT_BF16: widen_bf16(in, out); break;
	case TILERT_F16: widen_f16(in, out); break;
	case TILERT_TF32: widen_words(in, out); break;
	default: widen_bytes(type, in, out); break;
	}
}

void operand_load_rows(const Operand *o, const uint8_t *smem, tilert_dtype type, uint32_t rows, float *out)
{
	uint16_t b[8][8];
	uint32_t n = 16 / (uint32_t)tilert_dtype_size(type);

	for (uint32_t rb = 0; rb < rows / 8; rb++) {
		for (uint32_t kb = 0; kb < 2; kb++) {
			load_block(o, smem, rb, kb, b);
			if (o->mn)
				transpose(b);
			for (uint32_t i = 0; i < 8; i++)
				widen_line(type, b[i], out + (rb * 8 + i) * MAX_K + kb * n);
		}
	}
}

/* Other than 16-bit elements are not transposed as they are, but as floats. */
static void load_transposed(uint16_t b[8][8], tilert_dtype type, uint32_t n, float *out, uint32_t ld)
{
	float line[16];

	for (uint32_t i = 0; i < 8; i++) {
		widen_line(type, b[i], line);
		for (uint32_t j = 0; j < n; j++)
			out[j * ld + i] = line[j];
	}
}

void operand_load_columns(const Operand *o, const uint8_t *smem, tilert_dtype type, uint32_t rows, float *out, uint32_t ld)
{
	uint16_t b[8][8];
	uint32_t n = 16 / (uint32_t)tilert_dtype_size(type);

	for (uint32_t rb = 0; rb < rows / 8; rb++) {
		for (uint32_t kb = 0; kb < 2; kb++) {
			load_block(o, smem, rb, kb, b);
			if (n != 8) {
				load_transposed(b, type, n, out + kb * n * ld + rb * 8, ld);
				continue;
			}
			if (!o->mn)
				transpose(b);
			for (uint32_t i = 0; i < 8; i++)
				widen_line(type, b[i], out + (kb * 8 + i) * ld + rb * 8);
		}
	}
}

/* ---- products: 4 rows by 2 vectors at a time; each product of two operands is exact in f32 ---- */

#define PRODUCT_BODY(V, LANES, load, store, set1, fma) \
	for (uint32_t i = 0; i < M; i += 4) { \
		for (uint32_t j = 0; j < ld; j += 2 * LANES) { \
			float *p = d + i * ld + j; \
			V s00 = load(p), s01 = load(p + LANES), s10 = load(p + ld), s11 = load(p + ld + LANES); \
			V s20 = load(p + 2 * ld), s21 = load(p + 2 * ld + LANES), s30 = load(p + 3 * ld), s31 = load(p + 3 * ld + LANES); \
			for (uint32_t l = 0; l < k; l++) { \
				const float *q = a + i * MAX_K + l; \
				V b0 = load(b + l * ld + j), b1 = load(b + l * ld + j + LANES), x; \
				x = set1(q[0]); \
				s00 = fma(x, b0, s00); \
				s01 = fma(x, b1, s01); \
				x = set1(q[MAX_K]); \
				s10 = fma(x, b0, s10); \
				s11 = fma(x, b1, s11); \
				x = set1(q[2 * MAX_K]); \
				s20 = fma(x, b0, s20); \
				s21 = fma(x, b1, s21); \
				x = set1(q[3 * MAX_K]); \
				s30 = fma(x, b0, s30); \
				s31 = fma(x, b1, s31); \
			} \
			store(p, s00); \
			store(p + LANES, s01); \
			store(p + ld, s10); \
			store(p + ld + LANES, s11); \
			store(p + 2 * ld, s20); \
			store(p + 2 * ld + LANES, s21); \
			store(p + 3 * ld, s30); \
			store(p + 3 * ld + LANES, s31); \
		} \
	}

#define PRODUCT_PARAMS float *d, const float *a, const float *b, uint32_t k, uint32_t ld

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static void product_avx512(PRODUCT_PARAMS)
{
	PRODUCT_BODY(__m512, 16, _mm512_load_ps, _mm512_store_ps, _mm512_set1_ps, _mm512_fmadd_ps)
}

__attribute__((target("avx2,fma"))) static void product_avx2(PRODUCT_PARAMS)
{
	PRODUCT_BODY(__m256, 8, _mm256_load_ps, _mm256_store_ps, _mm256_set1_ps, _mm256_fmadd_ps)
}

#define MULTIPLY_ADD(x, y, z) _mm_add_ps(_mm_mul_ps(x, y), z)

static void product_plain(PRODUCT_PARAMS)
{
	PRODUCT_BODY(__m128, 4, _mm_load_ps, _mm_store_ps, _mm_set1_ps, MULTIPLY_ADD)
}

void product_add(PRODUCT_PARAMS)
{
	if (__builtin_cpu_supports("avx512f"))
		product_avx512(d, a, b, k, ld);
	else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		product_avx2(d, a, b, k, ld);
	else
		product_plain(d, a, b, k, ld);
}

#else

void product_add(PRODUCT_PARAMS)
{
	for (uint32_t i = 0; i < M; i++)
		for (uint32_t l = 0; l < k; l++)
			for (uint32_t j = 0; j < ld; j++)
				d[i * ld + j] += a[i * MAX_K + l] * b[l * ld + j];
}

#endif
