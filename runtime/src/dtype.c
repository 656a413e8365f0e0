/* dtype.c - the table of element types. */
#include "runtime/src/dtype.h"

#include <string.h>

typedef struct DTypeRow {
	const char *name;
	unsigned char bytes;
	char kind;
} DTypeRow;

static const DTypeRow table[] = {
	[TILERT_BOOL] = { "bool", 1, 'b' },
	[TILERT_I8] = { "i8", 1, 'i' },
	[TILERT_I16] = { "i16", 2, 'i' },
	[TILERT_I32] = { "i32", 4, 'i' },
	[TILERT_I64] = { "i64", 8, 'i' },
	[TILERT_U8] = { "u8", 1, 'u' },
	[TILERT_U16] = { "u16", 2, 'u' },
	[TILERT_U32] = { "u32", 4, 'u' },
	[TILERT_U64] = { "u64", 8, 'u' },
	[TILERT_F16] = { "f16", 2, 'f' },
	[TILERT_BF16] = { "bf16", 2, 'f' },
	[TILERT_TF32] = { "tf32", 4, 'f' },
	[TILERT_F32] = { "f32", 4, 'f' },
};

static bool is_valid(tilert_dtype t)
{
	return (unsigned)t >= TILERT_BOOL && (unsigned)t <= TILERT_F32;
}

const char *tilert_dtype_name(tilert_dtype t)
{
	return is_valid(t) ? table[t].name : "unknown type";
}

size_t tilert_dtype_size(tilert_dtype t)
{
	return is_valid(t) ? table[t].bytes : 0;
}

bool rt_dtype_is_float(tilert_dtype t)
{
	return is_valid(t) && table[t].kind == 'f';
}

bool rt_dtype_parse(const char *name, size_t length, tilert_dtype *out)
{
	for (int t = TILERT_BOOL; t <= TILERT_F32; t++) {
		if (strlen(table[t].name) == length && !memcmp(table[t].name, name, length)) {
			*out = (tilert_dtype)t;
			return true;
		}
	}
	return false;
}
