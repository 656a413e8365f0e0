/* number.c - arithmetic of the model: one scalar at a time. */
#include "tests/random/model/number.h"

#include <math.h>
#include <string.h>

/* ---- values ---- */

static int64_t wrap(DType t, uint64_t v)
{
	unsigned drop = 64 - dtype_bits(t);
	if (t == DT_BOOL)
		return v != 0;
	return dtype_is_signed(t) ? (int64_t)(v << drop) >> drop : (int64_t)(v << drop >> drop);
}

/* p digits, least exponent of a normal number, largest finite number. */
typedef struct Format { int digits, least; double largest; } Format;

static Format format_of(DType t)
{
	switch (t) {
	case DT_F16: return (Format){ 11, -14, 65504 };
	case DT_BF16: return (Format){ 8, -126, 0x1.fep127 };
	case DT_TF32: return (Format){ 11, -126, 0x1.ffcp127 };
	case DT_E4M3: return (Format){ 4, -6, 448 };
	case DT_E5M2: return (Format){ 3, -14, 57344 };
	default: return (Format){ 24, -126, 0x1.fffffep127 };
	}
}

double num_round(DType t, double v)
{
	Format f = format_of(t);
	int e;
	bool byte = dtype_bits(t) == 8; /* those have no number too large for them */
	if (byte && isinf(v))
		return copysign(f.largest, v);
	if (v == 0 || !isfinite(v))
		return v;
	if (t == DT_F32)
		return (double)(float)v;
	if (!byte && fabs(v) <= 128 && v == trunc(v)) /* most are: quickly */
		return v;
	(void)frexp(v, &e); /* |v| in [2^(e-1), 2^e) */
	int ulp = (e - 1 < f.least ? f.least : e - 1) - (f.digits - 1);
	double r = ldexp(nearbyint(ldexp(v, -ulp)), ulp);
	return fabs(r) > f.largest ? copysign(byte ? f.largest : INFINITY, v) : r;
}

Num num_int(DType t, int64_t v) { return (Num){ .i = wrap(t, (uint64_t)v) }; }
Num num_float(DType t, double v) { return (Num){ .f = num_round(t, v) }; }
Num num_undefined(void) { return (Num){ .undefined = true }; }

double num_value(DType t, Num x)
{
	if (dtype_is_float(t))
		return x.f;
	return t == DT_U64 ? (double)(uint64_t)x.i : (double)x.i;
}

/* ---- memory ---- */

static double decode_half(unsigned h)
{
	int e = h >> 10 & 31, m = h & 1023;
	double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
	return h & 0x8000 ? -v : v;
}

static unsigned encode_half(double v)
{
	unsigned sign = signbit(v) ? 0x8000 : 0;
	double a = fabs(v);
	int e;
	if (isnan(v))
		return 0x7fff;
	if (isinf(v))
		return sign | 0x7c00;
	(void)frexp(a, &e);
	if (a < 0x1p-14)
		return sign | (unsigned)ldexp(a, 24);
	return sign | (unsigned)(e + 14) << 10 | ((unsigned)ldexp(a, 11 - e) & 1023);
}

/* Of 8 bits: the numbers of one sign follow one another, each 2^-(digits - 1) of its power of two from the next. */
static double decode_byte(DType t, unsigned b)
{
	Format f = format_of(t);
	int m = 1 << (f.digits - 1), e = (int)(b & 127) / m, low = (int)(b & 127) % m;
	double v = e ? ldexp(m + low, e - 1 + f.least - (f.digits - 1)) : ldexp(low, f.least - (f.digits - 1));
	if (v > f.largest)
		v = t == DT_E5M2 && low == 0 ? INFINITY : NAN;
	return b & 128 ? -v : v;
}

static unsigned encode_byte(DType t, double v)
{
	unsigned sign = signbit(v) ? 128 : 0;
	if (isnan(v))
		return 0x7f;
	for (unsigned b = 0; b < 127; b++)
		if (decode_byte(t, b) == fabs(v))
			return sign | b;
	return 0x7f;
}

static uint32_t float_bits(double v)
{
	float f = (float)v;
	uint32_t u;
	memcpy(&u, &f, 4);
	return u;
}

static double bits_float(uint32_t u)
{
	float f;
	memcpy(&f, &u, 4);
	return f;
}

Num num_decode(DType t, const unsigned char *bytes)
{
	uint64_t u = 0;
	memcpy(&u, bytes, dtype_bytes(t));
	switch (t) {
	case DT_F32: case DT_TF32: return (Num){ .f = bits_float((uint32_t)u) };
	case DT_BF16: return (Num){ .f = bits_float((uint32_t)u << 16) };
	case DT_F16: return (Num){ .f = decode_half((unsigned)u) };
	case DT_E4M3: case DT_E5M2: return (Num){ .f = decode_byte(t, (unsigned)u) };
	default: return num_int(t, (int64_t)u);
	}
}

void num_encode(DType t, Num x, unsigned char *bytes)
{
	uint64_t u;
	switch (t) {
	case DT_F32: case DT_TF32: u = float_bits(x.f); break;
	case DT_BF16: u = float_bits(x.f) >> 16; break;
	case DT_F16: u = encode_half(x.f); break;
	case DT_E4M3: case DT_E5M2: u = encode_byte(t, x.f); break;
	default: u = (uint64_t)x.i; break;
	}
	memcpy(bytes, &u, dtype_bytes(t));
}

/* ---- conversions ---- */

/* Truncates; what the type does not hold becomes its nearest number, NaN 0. */
static Num float_to_int(DType t, double v)
{
	unsigned bits = dtype_bits(t);
	bool sign = dtype_is_signed(t);
	double top = ldexp(1, (int)bits - sign), bottom = sign ? -top : 0;
	if (isnan(v))
		return num_int(t, 0);
	v = trunc(v);
	if (v >= top)
		return num_int(t, (int64_t)(UINT64_MAX >> (64 - bits + sign)));
	if (v < bottom)
		v = bottom;
	return num_int(t, v < 0 ? (int64_t)v : (int64_t)(uint64_t)v);
}

/* Wide integers have more digits than a double, so they are rounded from their own digits: to odd, then to the type. */
static double int_value_rounded(DType from, DType to, int64_t i)
{
	bool negative = from != DT_U64 && i < 0;
	uint64_t m = negative ? 0 - (uint64_t)i : (uint64_t)i, lost = m & 0x7ff;
	if (m >> 53)
		m = (m & ~(uint64_t)0x7ff) | (lost ? 0x800 : 0);
	double v = num_round(to, (double)m);
	return negative ? -v : v;
}

Num num_convert(DType from, DType to, Num x)
{
	if (x.undefined || from == to)
		return x;
	if (to == DT_BOOL)
		return (Num){ .i = dtype_is_float(from) ? x.f != 0 : x.i != 0 };
	if (dtype_is_float(from))
		return dtype_is_float(to) ? num_float(to, x.f) : float_to_int(to, x.f);
	return dtype_is_float(to) ? (Num){ .f = int_value_rounded(from, to, x.i) } : num_int(to, x.i);
}

/* ---- operations ---- */

static bool compare(const char *pred, int order)
{
	if (!strcmp(pred, "lt")) return order < 0;
	if (!strcmp(pred, "le")) return order <= 0;
	if (!strcmp(pred, "gt")) return order > 0;
	if (!strcmp(pred, "ge")) return order >= 0;
	return !strcmp(pred, "eq") ? order == 0 : order != 0;
}

static int order_of(DType t, Num a, Num b)
{
	if (dtype_is_float(t))
		return a.f < b.f ? -1 : a.f > b.f;
	if (dtype_is_signed(t))
		return a.i < b.i ? -1 : a.i > b.i;
	return (uint64_t)a.i < (uint64_t)b.i ? -1 : (uint64_t)a.i > (uint64_t)b.i;
}

static Num divide(DType t, bool want_rest, int64_t a, int64_t b)
{
	if (b == 0) /* as by one */
		return num_int(t, want_rest ? 0 : a);
	if (!dtype_is_signed(t))
		return num_int(t, (int64_t)(want_rest ? (uint64_t)a % (uint64_t)b : (uint64_t)a / (uint64_t)b));
	if (b == -1)
		return num_int(t, want_rest ? 0 : (int64_t)(0 - (uint64_t)a));
	return num_int(t, want_rest ? a % b : a / b);
}

/* A count of the width or more, or a negative one, leaves nothing but the sign of what goes right. */
static Num shift(DType t, bool left, int64_t a, int64_t n)
{
	if (n < 0 || n >= (int64_t)dtype_bits(t))
		return num_int(t, !left && dtype_is_signed(t) && a < 0 ? -1 : 0);
	if (left)
		return num_int(t, (int64_t)((uint64_t)a << n));
	return num_int(t, dtype_is_signed(t) ? a >> n : (int64_t)((uint64_t)a >> n));
}

static Num integer(Opcode code, DType t, const Num *x)
{
	uint64_t a = (uint64_t)x[0].i, b = (uint64_t)x[1].i;
	switch (code) {
	case OP_ADD: return num_int(t, (int64_t)(a + b));
	case OP_SUB: return num_int(t, (int64_t)(a - b));
	case OP_MUL: return num_int(t, (int64_t)(a * b));
	case OP_DIV: return divide(t, false, x[0].i, x[1].i);
	case OP_MOD: return divide(t, true, x[0].i, x[1].i);
	case OP_AND: return num_int(t, (int64_t)(a & b));
	case OP_OR: return num_int(t, (int64_t)(a | b));
	case OP_XOR: return num_int(t, (int64_t)(a ^ b));
	case OP_SHL: return shift(t, true, x[0].i, x[1].i);
	case OP_SHR: return shift(t, false, x[0].i, x[1].i);
	case OP_NEG: return num_int(t, (int64_t)(0 - a));
	case OP_NOT: return t == DT_BOOL ? (Num){ .i = !x[0].i } : num_int(t, (int64_t)~a);
	case OP_ABS: return dtype_is_signed(t) && x[0].i < 0 ? num_int(t, (int64_t)(0 - a)) : x[0];
	default: return num_undefined();
	}
}

static Num real(Opcode code, DType t, const Num *x)
{
	double a = x[0].f, b = x[1].f;
	switch (code) {
	case OP_ADD: return num_float(t, a + b);
	case OP_SUB: return num_float(t, a - b);
	case OP_MUL: return num_float(t, a * b);
	case OP_DIV: return num_float(t, a / b);
	case OP_NEG: return (Num){ .f = -a };
	case OP_ABS: return (Num){ .f = fabs(a) };
	case OP_FLOOR: return (Num){ .f = floor(a) };
	case OP_FMA: return num_float(t, fma(a, b, x[2].f)); /* exact ones only: fma to double rounds first */
	case OP_EXP2: return num_float(t, exp2(a));          /* of whole numbers */
	case OP_SQRT: return num_float(t, sqrt(a));
	default: return num_undefined();
	}
}

bool num_has(Opcode code)
{
	switch (code) {
	case OP_ADD: case OP_SUB: case OP_MUL: case OP_DIV: case OP_MOD: case OP_MIN: case OP_MAX: case OP_AND: case OP_OR:
	case OP_XOR: case OP_SHL: case OP_SHR: case OP_NEG: case OP_NOT: case OP_CMP: case OP_SELECT: case OP_CAST: case OP_BITCAST:
	case OP_FMA: case OP_ABS: case OP_FLOOR: case OP_EXP2: case OP_SQRT: case OP_LDEXP:
		return true;
	default:
		return false;
	}
}

static Num bitcast(DType from, DType to, Num x)
{
	unsigned char bytes[8] = { 0 };
	num_encode(from, x, bytes);
	return num_decode(to, bytes);
}

/* `and` and `or` of bools are used as masks: a false side decides. */
static bool decided(Opcode code, DType t, const Num *x, Num *out)
{
	if (t != DT_BOOL || (code != OP_AND && code != OP_OR))
		return false;
	for (int k = 0; k < 2; k++)
		if (!x[k].undefined && (x[k].i != 0) == (code == OP_OR)) {
			*out = x[k];
			return true;
		}
	return false;
}

Num num_operate(Opcode code, const char *pred, DType t, DType result, const Num *x)
{
	Num r;
	int n = code == OP_FMA || code == OP_SELECT ? 3
		: code == OP_NEG || code == OP_NOT || code == OP_ABS || code == OP_CAST || code == OP_BITCAST || code == OP_FLOOR ||
		  code == OP_EXP2 || code == OP_SQRT ? 1 : 2;
	if (code == OP_SELECT)
		return x[0].undefined ? x[0] : x[0].i ? x[1] : x[2];
	if (decided(code, t, x, &r))
		return r;
	for (int k = 0; k < n; k++)
		if (x[k].undefined)
			return x[k];
	switch (code) {
	case OP_CMP:
		if (dtype_is_float(t) && (isnan(x[0].f) || isnan(x[1].f)))
			return (Num){ .i = !strcmp(pred, "ne") };
		return (Num){ .i = compare(pred, order_of(t, x[0], x[1])) };
	case OP_MIN: return order_of(t, x[0], x[1]) < 0 ? x[0] : x[1];
	case OP_MAX: return order_of(t, x[0], x[1]) > 0 ? x[0] : x[1];
	case OP_CAST: return num_convert(t, result, x[0]);
	case OP_BITCAST: return bitcast(t, result, x[0]);
	case OP_LDEXP: return num_float(t, ldexp(x[0].f, (int)x[1].i));
	default: return dtype_is_float(t) ? real(code, t, x) : integer(code, t, x);
	}
}
