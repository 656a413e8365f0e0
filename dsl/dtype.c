/* dtype.c - names and properties of the element types, from DTYPE_TABLE. */
#include "dsl/dtype.h"

#include <stddef.h>
#include <string.h>

typedef struct DTypeInfo {
	const char *name;
	unsigned bits;
	char kind;
} DTypeInfo;

static const DTypeInfo infos[] = {
	[DT_NONE] = { "none", 0, 'n' },
#define DTYPE_ROW(id, name, bits, kind) [id] = { name, bits, kind },
	DTYPE_TABLE(DTYPE_ROW)
#undef DTYPE_ROW
};

enum { DTYPE_COUNT = sizeof infos / sizeof infos[0] };

static const DTypeInfo *info(DType t)
{
	return &infos[(unsigned)t < DTYPE_COUNT ? t : DT_NONE];
}

const char *dtype_name(DType t)
{
	return info(t)->name;
}

DType dtype_from_name(const char *name)
{
	for (unsigned i = DT_NONE + 1; i < DTYPE_COUNT; i++) {
		if (strcmp(infos[i].name, name) == 0)
			return (DType)i;
	}
	return DT_NONE;
}

unsigned dtype_bits(DType t)
{
	return info(t)->bits;
}

unsigned dtype_bytes(DType t)
{
	return info(t)->bits / 8;
}

bool dtype_is_float(DType t)
{
	return info(t)->kind == 'f';
}

bool dtype_is_int(DType t)
{
	return info(t)->kind == 'i' || info(t)->kind == 'u';
}

bool dtype_is_signed(DType t)
{
	return info(t)->kind == 'i' || info(t)->kind == 'f';
}
