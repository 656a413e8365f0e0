/* operand.h - elements and shared-memory layouts of matrix operands. */
#ifndef TILE_CPU_OPERAND_H
#define TILE_CPU_OPERAND_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/abi/cpu_abi.h"
#include "runtime/cpu/cta.h"
#include "runtime/src/dtype.h"
#include "runtime/src/float16.h"

enum { M = 64, MAX_N = 256, MAX_K = 32 };

/* The types of a product's operands. */
static inline tilert_dtype type_of_a(uint32_t types)
{
	return (tilert_dtype)(types & 0xff);
}

static inline tilert_dtype type_of_b(uint32_t types)
{
	return (tilert_dtype)(types >> 8);
}

static inline float widen16(tilert_dtype type, uint16_t bits)
{
	return type == TILERT_BF16 ? rt_from_bf16(bits) : rt_from_f16(bits);
}

/* The hardware ignores the low 13 bits. */
static inline float widen_tf32(uint32_t bits)
{
	return rt_bits_float(bits & 0xffffe000u);
}

/* Of 32 bytes. */
static inline uint32_t depth(uint32_t types)
{
	return 32 / (uint32_t)tilert_dtype_size(type_of_a(types));
}

/* A matrix descriptor.  "Rows" are along M or N.  The matrix is made of blocks of 8 lines of 16
 * bytes: K-major a line is a row, MN-major it is a k. */
typedef struct Operand {
	uint32_t start, leading, stride, width; /* width: of the swizzle, 16 for none */
	bool mn;
} Operand;

static inline Operand operand_decode(uint64_t desc, bool mn)
{
	static const uint8_t width[4] = { 16, 128, 64, 32 };

	return (Operand){
		.start = (uint32_t)(desc & 0x3fff) << 4,
		.leading = (uint32_t)(desc >> 16 & 0x3fff) << 4,
		.stride = (uint32_t)(desc >> 32 & 0x3fff) << 4,
		.width = width[desc >> 62],
		.mn = mn,
	};
}

/* Where line i of block (row block, k block) is. */
static inline uint32_t operand_line(const Operand *o, uint32_t row_block, uint32_t k_block, uint32_t i)
{
	uint32_t at = o->start + i * o->width;

	if (o->width == 16)
		at += row_block * o->stride + k_block * o->leading; /* either major */
	else if (o->mn)
		at += row_block * 16 / o->width * o->leading + row_block * 16 % o->width + k_block * o->stride;
	else
		at += row_block * o->stride + k_block * 16;
	return swizzled(at & 0x3ffff, o->width);
}

/* ---- product.c ---- */

/* Reads `rows` rows as floats: to out[row][k] with MAX_K floats a row, or out[k][row] with ld. */
void operand_load_rows(const Operand *o, const uint8_t *smem, tilert_dtype type, uint32_t rows, float *out);
void operand_load_columns(const Operand *o, const uint8_t *smem, tilert_dtype type, uint32_t rows, float *out, uint32_t ld);
/* d[64][ld] += a[64][MAX_K] b[k][ld]; ld is a multiple of 32; d and b aligned to 64 bytes. */
void product_add(float *d, const float *a, const float *b, uint32_t k, uint32_t ld);

#endif
