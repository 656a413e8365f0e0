/* words.c - words of C, CUDA and other languages, and what stands for them here. */
#include "dsl/support/words.h"

#include <stddef.h>
#include <string.h>

typedef struct Word { const char *foreign, *here; } Word;

static const Word meant[] = {
	{ "float", "f32" }, { "int", "i32" }, { "unsigned", "u32" }, { "uint", "u32" }, { "half", "f16" }, { "__half", "f16" },
	{ "short", "i16" }, { "long", "i64" }, { "char", "i8" }, { "bfloat16", "bf16" }, { "__nv_bfloat16", "bf16" },
	{ "int8_t", "i8" }, { "int16_t", "i16" }, { "int32_t", "i32" }, { "int64_t", "i64" },
	{ "uint8_t", "u8" }, { "uint16_t", "u16" }, { "uint32_t", "u32" }, { "uint64_t", "u64" }, { "size_t", "u64" },
	{ "__shared__", "shared" }, { "let", "f32" }, { "var", "f32" }, { "auto", "f32" },
	{ "fabs", "abs" }, { "fabsf", "abs" }, { "fmin", "min" }, { "fminf", "min" }, { "fmax", "max" }, { "fmaxf", "max" }, { "fmaf", "fma" },
	{ "sqrtf", "sqrt" }, { "rsqrtf", "rsqrt" }, { "expf", "exp" }, { "__expf", "exp" }, { "exp2f", "exp2" }, { "logf", "log" }, { "__logf", "log" },
	{ "log2f", "log2" }, { "tanhf", "tanh" }, { "floorf", "floor" }, { "ldexpf", "ldexp" },
	{ "atomicAdd", "atomic_add" }, { "atomicMin", "atomic_min" }, { "atomicMax", "atomic_max" }, { "printf", "print" },
	{ "__syncthreads", "sync" }, { "__syncwarp", "sync_warp" }, { "__threadfence", "fence_device" },
};

static const Word explained[] = {
	{ "union", "there are no unions: shared tiles share storage by at(tile, offset), scalars change their type by bitcast" },
	{ "enum", "there are no enumerations: const i32 A = 0, B = 1;" },
	{ "class", "there are no classes: struct Name { ... } is what functions take together" },
	{ "typedef", "there are no type names but 'param type T = bf16;'" },
	{ "template", "there are no templates: 'param i32 N = 64;' and 'param type T = bf16;' are set by -D, functions take tiles of any extents and types" },
	{ "do", "there is no do loop: while (true) { ... if (...) break; }" },
	{ "switch", "there is no switch: if ... else if ..." },
	{ "goto", "there is no goto: break and continue leave loops" },
	{ "void", "a function without a value has no type: fn name(...) { ... }" },
	{ "double", "there is no f64: f32 is the widest float" },
	{ "__global__", "a kernel is written kernel name(...) grid (...) threads (...) { ... }" },
	{ "__device__", "a function is written fn name(...) { ... }" },
	{ "threadIdx", "thread() is the thread's number in its team, lane() in its warp" },
	{ "blockDim", "it is what 'threads (n)' of the kernel's head says" },
	{ "blockIdx", "it has members: blockIdx.x, blockIdx.y, blockIdx.z" },
	{ "gridDim", "it has members: gridDim.x, gridDim.y, gridDim.z" },
	{ "sin", "by inline PTX: ptx(f32, \"sin.approx.f32 $0, $1;\", x) else ..." },
	{ "cos", "by inline PTX: ptx(f32, \"cos.approx.f32 $0, $1;\", x) else ..." },
	{ "pow", "for x > 0 it is exp2(y * log2(x))" }, { "powf", "for x > 0 it is exp2(y * log2(x))" },
};

static const char *find(const Word *words, size_t n, const char *foreign)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i].foreign, foreign) == 0)
			return words[i].here;
	return NULL;
}

const char *word_meant(const char *foreign) { return find(meant, sizeof meant / sizeof meant[0], foreign); }
const char *word_explained(const char *foreign) { return find(explained, sizeof explained / sizeof explained[0], foreign); }
