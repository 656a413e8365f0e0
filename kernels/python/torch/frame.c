#include "frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

double value_double(Value v)
{
	double d;
	memcpy(&d, &v, sizeof d);
	return d;
}

void frame_begin(Frame *f, const char *op, bool nones)
{
	f->op = op;
	f->nones = nones;
	f->n = 0;
	f->failed = false;
	f->first_name = NULL;
	memset(f->dims, 0, sizeof f->dims);
}

bool frame_fail(Frame *f, bool is_value, const char *format, ...)
{
	va_list args;
	int n = snprintf(f->text, sizeof f->text, is_value ? "%s: " : "failed: %s: ", f->op);
	va_start(args, format);
	vsnprintf(f->text + n, sizeof f->text - (size_t)n, format, args);
	va_end(args);
	f->failed = true;
	f->is_value = is_value;
	return false;
}

Tensor frame_hold(Frame *f, Value v, bool optional)
{
	Tensor t = (Tensor)(uintptr_t)v;
	if (optional && v) {
		Value *boxed = (Value *)(uintptr_t)v;
		t = (Tensor)(uintptr_t)*boxed;
		shim.free_value(boxed);
	}
	if (t)
		f->held[f->n++] = t;
	return t;
}

static void release(Frame *f)
{
	for (int i = 0; i < f->n; i++) {
		if (f->held[i])
			shim.aoti_torch_delete_tensor_object(f->held[i]);
	}
}

void frame_end(Frame *f, Value *stack, const Given *outputs, int n)
{
	for (int i = 0; i < n && !f->failed; i++) {
		stack[i] = (Value)(uintptr_t)outputs[i].t;
		for (int j = 0; j < f->n; j++) {
			if (f->held[j] == outputs[i].t)
				f->held[j] = NULL;
		}
	}
	release(f);
	if (f->failed)
		(f->is_value ? shim.throw_value_error : shim.throw_runtime_error)(f->text);
}

/* ---- types -------------------------------------------------------------------------------------------------- */

static const struct { tilert_dtype type; const char *name; size_t torch; int bytes; } types[] = {
	{ TILERT_F32, "float32", offsetof(Shim, aoti_torch_dtype_float32), 4 }, { TILERT_BF16, "bfloat16", offsetof(Shim, aoti_torch_dtype_bfloat16), 2 },
	{ TILERT_F16, "float16", offsetof(Shim, aoti_torch_dtype_float16), 2 }, { TILERT_I32, "int32", offsetof(Shim, aoti_torch_dtype_int32), 4 },
	{ TILERT_I64, "int64", offsetof(Shim, aoti_torch_dtype_int64), 8 }, { TILERT_U8, "uint8", offsetof(Shim, aoti_torch_dtype_uint8), 1 },
	{ TILERT_BOOL, "bool", offsetof(Shim, aoti_torch_dtype_bool), 1 },
	{ 0, "float64", offsetof(Shim, aoti_torch_dtype_float64), 8 }, { 0, "int16", offsetof(Shim, aoti_torch_dtype_int16), 2 }, /* only to be refused by name */
};
enum { TYPES = sizeof types / sizeof types[0] };

static int32_t torch_type(int i)
{
	int32_t (*type)(void);
	memcpy(&type, (const char *)&shim + types[i].torch, sizeof type);
	return type();
}

/* The row of a tensor's type; -1: one that has no name here. */
static int type_of(Tensor t)
{
	int32_t type;
	shim.aoti_torch_get_dtype(t, &type);
	for (int i = 0; i < TYPES; i++) {
		if (torch_type(i) == type)
			return i;
	}
	return -1;
}

static int row_of(tilert_dtype t)
{
	for (int i = 0; i < TYPES; i++) {
		if (types[i].type == t)
			return i;
	}
	return -1;
}

static bool is_float(tilert_dtype t) { return t == TILERT_F32 || t == TILERT_BF16 || t == TILERT_F16; }

static bool fits(Types wanted, tilert_dtype t, tilert_dtype first)
{
	switch (wanted) {
	case ANY_FLOAT: return is_float(t);
	case HALF: return t == TILERT_BF16 || t == TILERT_F16;
	case SAME: return t == first;
	case F32: return t == TILERT_F32;
	case INDEX: return t == TILERT_I32 || t == TILERT_I64;
	case BYTES: return t == TILERT_U8 || t == TILERT_BOOL;
	}
	return false;
}

static const char *const wanted_types[] = { [ANY_FLOAT] = "float32, bfloat16 or float16", [HALF] = "bfloat16 or float16", [F32] = "float32",
	[INDEX] = "int32 or int64", [BYTES] = "uint8 or bool" };

static bool take_type(Frame *f, const Arg *a, Tensor t, Given *out)
{
	const int row = type_of(t);
	if (row >= 0 && fits(a->types, types[row].type, f->first)) {
		out->type = types[row].type;
		return true;
	}
	const char *have = row >= 0 ? types[row].name : "of another type";
	if (a->types == SAME)
		return frame_fail(f, true, "%s is %s, but %s is %s", a->name, have, f->first_name, types[row_of(f->first)].name);
	return frame_fail(f, true, "%s is %s, not %s", a->name, have, wanted_types[a->types]);
}

/* ---- devices -------------------------------------------------------------------------------------------------- */

static const char *device_name(int32_t device, int32_t index, char text[32])
{
	if (device == shim.cuda)
		snprintf(text, 32, "cuda:%d", (int)index);
	else
		snprintf(text, 32, "%s", device == shim.cpu ? "cpu" : "another device");
	return text;
}

static bool take_device(Frame *f, const Arg *a, Tensor t)
{
	int32_t device, index;
	char have[32], first[32];
	shim.aoti_torch_get_device_type(t, &device);
	shim.aoti_torch_get_device_index(t, &index);
	if (!f->first_name) {
		f->device = device;
		f->index = index;
	}
	if (device == f->device && index == f->index)
		return true;
	return frame_fail(f, true, "%s is on %s, but %s is on %s", a->name, device_name(device, index, have), f->first_name,
		device_name(f->device, f->index, first));
}

/* ---- extents -------------------------------------------------------------------------------------------------- */

int64_t frame_dim(const Frame *f, char letter) { return f->dims[letter - 'A'].n; }

static bool take_extent(Frame *f, const Arg *a, int axis, int64_t n)
{
	const char letter = a->axes[axis];
	struct Dim *d = &f->dims[letter - 'A'];
	if (!d->of)
		*d = (struct Dim){ n, a->name, axis };
	if (d->n == n)
		return true;
	if (d->axis < 0) /* counted, not seen */
		return frame_fail(f, true, "%s.shape[%d] is %lld, but %s make %lld", a->name, axis, (long long)n, d->of, (long long)d->n);
	return frame_fail(f, true, "%s.shape[%d] is %lld, but %s.shape[%d] is %lld", a->name, axis, (long long)n, d->of, d->axis, (long long)d->n);
}

void frame_count(Frame *f, char letter, int64_t n, const char *of) { f->dims[letter - 'A'] = (struct Dim){ n, of, -1 }; }

static bool take_extents(Frame *f, const Arg *a, Tensor t, Given *out)
{
	int64_t rank, *sizes, *strides;
	const int wanted = (int)strlen(a->axes);
	shim.aoti_torch_get_dim(t, &rank);
	if (rank != wanted)
		return frame_fail(f, true, "%s has %lld dimensions, not %d", a->name, (long long)rank, wanted);
	shim.aoti_torch_get_sizes(t, &sizes);
	shim.aoti_torch_get_strides(t, &strides);
	for (int i = 0; i < wanted; i++) {
		out->sizes[i] = sizes[i];
		out->strides[i] = strides[i];
		if (!take_extent(f, a, i, sizes[i]))
			return false;
	}
	return true;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static int64_t count(int rank, const int64_t *sizes)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= sizes[i];
	return n;
}

static void contiguous(int rank, const int64_t *sizes, int64_t *strides)
{
	int64_t n = 1;
	for (int i = rank; i--; n *= sizes[i] > 0 ? sizes[i] : 1)
		strides[i] = n;
}

/* The axis by whose stride the library does not take it where it lies, the number of axes where it is the address, or -1: it takes it.  Strides of 0 are its word for a
 * contiguous tensor, and nothing that an expanded one means. */
static int misfit(const Arg *a, const Given *g, int64_t unit)
{
	const int rank = (int)strlen(a->axes);
	int64_t dense[MAX_AXES];
	contiguous(rank, g->sizes, dense);
	for (int i = 0; i < rank; i++) {
		const bool last = i == rank - 1 && a->layout == ROWS_16;
		if (g->sizes[i] <= 1)
			continue;
		if (g->strides[i] == 0 || ((a->layout == DENSE || last) && g->strides[i] != dense[i]))
			return i;
		if (a->layout == ROWS_16 && !last && g->strides[i] % unit != 0)
			return i;
	}
	return a->layout == ROWS || g->p % 16 == 0 ? -1 : rank;
}

/* Of what is written, of which a copy would be. */
static bool refuse_misfit(Frame *f, const Arg *a, const Given *g, int axis, int64_t unit)
{
	const int rank = (int)strlen(a->axes);
	if (axis == rank)
		return frame_fail(f, true, "%s lies at 0x%llx, not at a multiple of 16, and is written there", a->name, (unsigned long long)g->p);
	if (axis == rank - 1)
		return frame_fail(f, true, "%s.stride(%d) is %lld, not 1, and it is written where it lies", a->name, axis, (long long)g->strides[axis]);
	return frame_fail(f, true, "%s.stride(%d) is %lld, not a multiple of %lld above 0, and it is written where it lies", a->name, axis, (long long)g->strides[axis],
		(long long)unit);
}

static void point(Given *g)
{
	void *p = NULL;
	shim.aoti_torch_get_data_ptr(g->t, &p);
	g->p = (tilert_ptr)(uintptr_t)p;
}

static bool copied(Frame *f, const Arg *a, Given *g)
{
	Given c;
	if (!frame_new(f, (int)strlen(a->axes), g->sizes, g->type, &c))
		return false;
	if (shim.aoti_torch_copy_(c.t, g->t, 1) != 0)
		return frame_fail(f, false, "%s could not be copied", a->name);
	*g = c;
	return true;
}

bool frame_take(Frame *f, const Arg *a, Tensor t, Given *out)
{
	*out = (Given){ .t = t };
	if (!t)
		return true;
	if (!take_device(f, a, t) || !take_type(f, a, t, out))
		return false;
	if (!f->first_name) {
		f->first_name = a->name;
		f->first = out->type;
	}
	if (!take_extents(f, a, t, out))
		return false;
	point(out);
	if (count((int)strlen(a->axes), out->sizes) == 0)
		return true;
	const int64_t unit = 16 / types[row_of(out->type)].bytes;
	const int axis = misfit(a, out, unit);
	if (axis >= 0 && a->written)
		return refuse_misfit(f, a, out, axis, unit);
	return axis < 0 || copied(f, a, out);
}

bool frame_new(Frame *f, int rank, const int64_t *sizes, tilert_dtype type, Given *out)
{
	*out = (Given){ .type = type };
	for (int i = 0; i < rank; i++)
		out->sizes[i] = sizes[i];
	contiguous(rank, sizes, out->strides);
	if (shim.aoti_torch_empty_strided(rank, sizes, out->strides, torch_type(row_of(type)), f->device, f->index, &out->t) != 0)
		return frame_fail(f, false, "no memory for %lld numbers of %s", (long long)count(rank, sizes), types[row_of(type)].name);
	f->held[f->n++] = out->t;
	point(out);
	return true;
}

bool frame_unwanted(Frame *f, int rank, const int64_t *sizes, tilert_dtype type, Given *out)
{
	if (!f->nones)
		return frame_new(f, rank, sizes, type, out);
	*out = (Given){ .type = type };
	if (shim.aoti_torch_new_uninitialized_tensor(&out->t) != 0)
		return frame_fail(f, false, "no memory for an absent tensor");
	f->held[f->n++] = out->t;
	return true;
}

/* Torch's memory of a GPU is aligned so, that of the CPU need not be. */
bool frame_bytes(Frame *f, size_t bytes, size_t align, Given *out)
{
	const int64_t room = (int64_t)(bytes + (f->device == shim.cuda ? 0 : align));
	if (!frame_new(f, 1, &room, TILERT_U8, out))
		return false;
	out->p = (out->p + align - 1) / align * align;
	return true;
}
