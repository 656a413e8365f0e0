/* header.c - --emit=header: what C code needs to launch the kernels of a file, with their parameters documented. */
#include "compiler/driver/emit.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static const char *name_of(const Op *op)
{
	return attr_text(op, AT_NAME, "?");
}

/* A dim that some required tensor has as a bare extent is bound from it. */
static bool dim_is_bound(const Op *kernel, const Op *dim)
{
	for (const Op *op = kernel->regions[0]->first; op; op = op->next) {
		if (op->code != OP_TENSOR || attr_int(op, AT_OPTIONAL, 0))
			continue;
		for (int i = 0; i < op->result->type.rank; i++) {
			if (tensor_extent(op, i) == dim->result)
				return true;
		}
	}
	return false;
}

static bool is_field(const Op *kernel, const Op *op)
{
	return op->code == OP_TENSOR || op->code == OP_PARAM || (op->code == OP_DIM && !dim_is_bound(kernel, op));
}

/* Words that no field can be called in C or C++, and are names here. */
static bool is_word_of_c(const char *name)
{
	static const char words[] = " NULL alignas alignof and and_eq asm auto bitand bitor bool catch char char16_t char32_t char8_t class co_await co_return co_yield compl "
		"concept const_cast consteval constexpr constinit decltype default delete do double dynamic_cast enum explicit export extern float friend "
		"goto inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
		"reinterpret_cast requires restrict short signed sizeof static static_cast struct switch template this thread_local throw "
		"try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t xor xor_eq "
		"_Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local ";
	size_t n = strlen(name);
	for (const char *p = strstr(words, name); p; p = strstr(p + 1, name))
		if (p[-1] == ' ' && p[n] == ' ')
			return true;
	return false;
}

static bool has_parameter(const Op *kernel, const char *name)
{
	for (const Op *op = kernel->regions[0]->first; op; op = op->next)
		if (is_field(kernel, op) && !strcmp(name_of(op), name))
			return true;
	return false;
}

/* A parameter's name, with a _ behind it where C has the word, or more where another one is called like that. */
static const char *field_name(Arena *a, const Op *kernel, const Op *op)
{
	const char *name = name_of(op);
	if (!is_word_of_c(name))
		return name;
	do
		name = arena_printf(a, "%s_", name);
	while (has_parameter(kernel, name));
	return name;
}

static const char *c_type(DType t)
{
	switch (t) {
	case DT_BOOL: case DT_I8: case DT_I16: case DT_I32: return "int32_t";
	case DT_U8: case DT_U16: case DT_U32: return "uint32_t";
	case DT_I64: return "int64_t";
	case DT_U64: return "uint64_t";
	case DT_F16: case DT_BF16: case DT_TF32: case DT_F32: case DT_E4M3: case DT_E5M2: return "float";
	case DT_NONE: break;
	}
	return "void";
}

static const Value *uncast(const Value *v)
{
	while (v->def && v->def->code == OP_CAST)
		v = operand(v->def, ARG_A);
	return v;
}

static bool same_value(const Value *a, const Value *b)
{
	int64_t m, n;
	a = uncast(a);
	b = uncast(b);
	return a == b || (value_const_int(a, &m) && value_const_int(b, &n) && m == n);
}

/* Whether `v` is a * b. */
static bool is_product(const Value *v, const Value *a, const Value *b)
{
	int64_t m, n, k;
	if (value_const_int(a, &m) && value_const_int(b, &n))
		return value_const_int(v, &k) && k == m * n;
	if (value_const_int(a, &m) && m == 1)
		return same_value(v, b);
	const Op *op = uncast(v)->def;
	if (!op || op->code != OP_MUL)
		return false;
	const Value *x = operand(op, ARG_A), *y = operand(op, ARG_B);
	return (same_value(x, a) && same_value(y, b)) || (same_value(x, b) && same_value(y, a));
}

/* Row-major without gaps, as far as can be seen. */
static bool contiguous(const Op *tensor)
{
	int last = tensor->result->type.rank - 1;
	int64_t n;
	if (last < 0)
		return true;
	if (!value_const_int(tensor_stride(tensor, last), &n) || n != 1)
		return false;
	for (int i = 0; i < last; i++) {
		if (!is_product(tensor_stride(tensor, i), tensor_stride(tensor, i + 1), tensor_extent(tensor, i + 1)))
			return false;
	}
	return true;
}

/* "in bf16 q[B][T][128], strides (e0, e1, e2)" */
static void put_tensor_text(Arena *a, const Op *op, Buffer *out)
{
	static const char *const directions[] = { "in", "in", "out", "inout" };
	const Type *type = &op->result->type;
	buffer_put(out, "%s%s %s %s", attr_int(op, AT_OPTIONAL, 0) ? "optional " : "", directions[attr_int(op, AT_DIR, 1) & 3],
		dtype_name(type->dtype), name_of(op));
	for (int i = 0; i < type->rank; i++)
		buffer_put(out, "[%s]", host_infix(a, tensor_extent(op, i)));
	if (contiguous(op))
		return;
	for (int i = 0; i < type->rank; i++)
		buffer_put(out, "%s%s", i ? ", " : ", strides (", host_infix(a, tensor_stride(op, i)));
	buffer_put(out, ")");
}

static void put_doc(Arena *a, const Op *kernel, Buffer *out)
{
	buffer_put(out, "/**\n * Kernel %s: %" PRId64 " threads, %" PRId64 " bytes of shared memory", name_of(kernel),
		attr_int(kernel, AT_THREADS, 0), kernel_smem(kernel));
	for (const Op *op = kernel->regions[0]->first; op; op = op->next) {
		for (int i = 0; op->code == OP_GRID && i < op->nargs; i++)
			buffer_put(out, "%s%s%s", i ? ", " : ", grid (", host_infix(a, op->args[i]), i + 1 == op->nargs ? ")" : "");
	}
	buffer_put(out, ".\n *\n");
	for (const Op *op = kernel->regions[0]->first; op; op = op->next) {
		if (op->code == OP_TENSOR) {
			buffer_put(out, " *  ");
			put_tensor_text(a, op, out);
			buffer_put(out, "\n");
		} else if (op->code == OP_PARAM) {
			buffer_put(out, " *  %s %s\n", dtype_name(op->result->type.dtype), name_of(op));
		} else if (op->code == OP_DIM) {
			buffer_put(out, " *  dim %s%s\n", name_of(op), dim_is_bound(kernel, op) ? " (from the tensors)" : "");
		}
	}
	buffer_put(out, " */\n");
}

static void put_struct(Arena *a, const Op *kernel, Buffer *out)
{
	bool any = false;
	buffer_put(out, "typedef struct %s_args {\n", name_of(kernel));
	for (const Op *op = kernel->regions[0]->first; op; op = op->next) {
		if (!is_field(kernel, op))
			continue;
		any = true;
		if (op->code == OP_TENSOR)
			buffer_put(out, "\ttilert_tensor %s;%s\n", field_name(a, kernel, op), attr_int(op, AT_OPTIONAL, 0) ? " /* data 0: absent */" : "");
		else
			buffer_put(out, "\t%s %s;\n", c_type(op->result->type.dtype), field_name(a, kernel, op));
	}
	if (!any)
		buffer_put(out, "\tchar none;\n");
	buffer_put(out, "} %s_args;\n\n", name_of(kernel));
}

/* The statement that appends one argument. */
static void put_argument(Arena *a, const Op *kernel, const Op *op, Buffer *out)
{
	const char *name = name_of(op), *field = field_name(a, kernel, op);
	if (op->code == OP_TENSOR) {
		if (attr_int(op, AT_OPTIONAL, 0))
			buffer_put(out, "\tif (a->%s.data)\n\t", field);
		buffer_put(out, "\targ[n].name = \"%s\", arg[n].kind = TILERT_ARG_TENSOR, arg[n++].tensor = a->%s;\n", name, field);
		return;
	}
	bool real = dtype_is_float(op->result->type.dtype);
	buffer_put(out, "\targ[n].name = \"%s\", arg[n].kind = %s, arg[n++].%s = a->%s;\n", name,
		op->code == OP_DIM ? "TILERT_ARG_DIM" : "TILERT_ARG_SCALAR", real ? "f" : "i", field);
}

static void put_functions(Arena *a, const Op *kernel, Buffer *out)
{
	const char *name = name_of(kernel);
	int n = 0;
	for (const Op *op = kernel->regions[0]->first; op; op = op->next)
		n += is_field(kernel, op);
	buffer_put(out, "/** The arguments as tilert wants them; returns their number. */\n");
	buffer_put(out, "static inline size_t %s_pack(const %s_args *a, tilert_arg arg[%d])\n{\n\tsize_t n = 0;\n", name, name, n ? n : 1);
	buffer_put(out, "\tmemset(arg, 0, %d * sizeof *arg);\n", n ? n : 1);
	for (const Op *op = kernel->regions[0]->first; op; op = op->next) {
		if (is_field(kernel, op))
			put_argument(a, kernel, op, out);
	}
	buffer_put(out, n ? "\treturn n;\n}\n\n" : "\t(void)a;\n\treturn n;\n}\n\n");
	buffer_put(out, "static inline tilert_status %s_launch(tilert_kernel *k, const %s_args *a, tilert_stream s)\n{\n", name, name);
	buffer_put(out, "\ttilert_arg arg[%d];\n\treturn tilert_launch(k, arg, %s_pack(a, arg), s);\n}\n\n", n ? n : 1, name);
}

void header_write(const Tir *t, const char *source_name, Buffer *out)
{
	const char *slash = strrchr(source_name, '/'), *base = slash ? slash + 1 : source_name;
	Buffer guard = { .arena = t->arena };
	buffer_put(&guard, "TILE_%s", base);
	if (t->first) /* files of other folders may have the same name */
		buffer_put(&guard, "_%s", name_of(t->first));
	for (char *p = guard.data; *p; p++)
		*p = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';
	buffer_put(out, "/* Generated by tilec from %s; do not edit. */\n#ifndef %s_H\n#define %s_H\n\n", base, guard.data, guard.data);
	buffer_put(out, "#include <string.h>\n\n#include <tilert/tilert.h>\n\n");
	for (const Op *k = t->first; k; k = k->next) {
		put_doc(t->arena, k, out);
		put_struct(t->arena, k, out);
		put_functions(t->arena, k, out);
	}
	buffer_put(out, "#endif\n");
}
