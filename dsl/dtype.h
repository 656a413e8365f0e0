/* dtype.h - element types, shared by the AST, TIR, the back ends and the module format. */
#ifndef TILE_DTYPE_H
#define TILE_DTYPE_H

#include <stdbool.h>

/* DTYPE(id, name, bits, kind): kind b bool, i signed, u unsigned, f float */
#define DTYPE_TABLE(DTYPE) \
	DTYPE(DT_BOOL, "bool", 8, 'b') \
	DTYPE(DT_I8, "i8", 8, 'i') \
	DTYPE(DT_I16, "i16", 16, 'i') \
	DTYPE(DT_I32, "i32", 32, 'i') \
	DTYPE(DT_I64, "i64", 64, 'i') \
	DTYPE(DT_U8, "u8", 8, 'u') \
	DTYPE(DT_U16, "u16", 16, 'u') \
	DTYPE(DT_U32, "u32", 32, 'u') \
	DTYPE(DT_U64, "u64", 64, 'u') \
	DTYPE(DT_F16, "f16", 16, 'f') \
	DTYPE(DT_BF16, "bf16", 16, 'f') \
	DTYPE(DT_TF32, "tf32", 32, 'f') \
	DTYPE(DT_F32, "f32", 32, 'f')

typedef enum DType {
	DT_NONE,
#define DTYPE_ENUM(id, name, bits, kind) id,
	DTYPE_TABLE(DTYPE_ENUM)
#undef DTYPE_ENUM
} DType;

const char *dtype_name(DType t);
DType dtype_from_name(const char *name); /* DT_NONE when unknown */
unsigned dtype_bits(DType t);
unsigned dtype_bytes(DType t);
bool dtype_is_float(DType t);
bool dtype_is_int(DType t); /* not bool */
bool dtype_is_signed(DType t);

#endif
