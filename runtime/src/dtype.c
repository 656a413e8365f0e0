/* dtype.c - the table of element types. */
#include "runtime/src/dtype.h"

#include <string.h>

typedef struct DTypeRow {
	const char *name;
	unsigned char bytes;
	char kind;
} DTypeRow;

#define DTYPE(ID, name, bits, kind, digits, least, largest, over, computed) [TILERT_##ID] = { name, bits / 8, kind },
static const DTypeRow table[] = {
#include "runtime/abi/dtypes.def"
};
#undef DTYPE

enum { END = sizeof table / sizeof table[0] };

/* tilert.h spells the enumeration out: in the table's order. */
enum {
	POSITION_NONE,
#define DTYPE(ID, name, bits, kind, digits, least, largest, over, computed) POSITION_##ID,
#include "runtime/abi/dtypes.def"
#undef DTYPE
};
#define DTYPE(ID, name, bits, kind, digits, least, largest, over, computed) \
	_Static_assert((int)TILERT_##ID == (int)POSITION_##ID, "tilert_dtype is in the order of dtypes.def");
#include "runtime/abi/dtypes.def"
#undef DTYPE

static bool is_valid(tilert_dtype t)
{
	return (unsigned)t >= TILERT_BOOL && (unsigned)t < END;
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
	for (int t = TILERT_BOOL; t < END; t++) {
		if (strlen(table[t].name) == length && !memcmp(table[t].name, name, length)) {
			*out = (tilert_dtype)t;
			return true;
		}
	}
	return false;
}
