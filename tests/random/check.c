/* check.c - one batch of programs through the compiler, the model and the device. */
#include "tests/random/check.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/driver/emit.h"
#include "compiler/elaborate/elaborate.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/pass.h"
#include "dsl/ast.h"
#include "tests/random/data.h"

const char *const verdict_names[VERDICTS] = { "right", "refused", "WRONG", "FAILED", "INTERNAL", "MEANINGLESS", "CRASH" };

tilert_device *programs_device(uint64_t seed)
{
	tilert_device *d;
	if (tilert_device_open("cpu", &d) != TILERT_OK) {
		fprintf(stderr, "random: %s\n", tilert_last_error());
		return NULL;
	}
	tilert_cpu_configure(d, seed, 1);
	tilert_cpu_set_checks(d, &(tilert_cpu_checks){ .races = 1, .timeout = 60 });
	return d;
}

typedef struct Job {
	const Batch *b;
	Arena *arena;
	Diags *diags;
	Tir *tir;
	Report *reports;
	ModelTensor *tensors; /* MAX_TENSORS for each program: what it must give */
} Job;

static void *bytes_new(size_t n)
{
	void *p = calloc(n ? n : 1, 1);
	if (!p)
		abort();
	return p;
}

__attribute__((format(printf, 4, 5)))
static void report(Job *j, int k, Verdict v, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	j->reports[k].verdict = v;
	vsnprintf(j->reports[k].text, sizeof j->reports[k].text, fmt, ap);
	va_end(ap);
}

/* ---- the compiler ---- */

static bool has_text(const char *s, const char *part) { return strstr(s, part) != NULL; }

/* The first message; a fault of the compiler is told from a refusal. */
static void report_diags(Job *j)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	diags_print(j->diags, f, (DiagStyle){ .one_line = true, .limit = 1 });
	fclose(f);
	bool fault = diags_error_count(j->diags) == 0 || has_text(text, "[tir]") || has_text(text, "a bug of tilec");
	for (int k = 0; k < j->b->n; k++)
		report(j, k, fault ? V_INTERNAL : V_REFUSED, "%s", text);
	free(text);
}

static bool elaborate_batch(Job *j)
{
	char *text = "";
	for (int k = 0; k < j->b->n; k++)
		text = arena_printf(j->arena, "%s%s", text, j->b->program[k].text);
	uint32_t source = diags_add_source(j->diags, "random.tile", text, strlen(text));
	const Ast *ast = ast_parse(j->arena, j->diags, source);
	ElabOptions eo = { .machine = machine_default() };
	if (ast && !diags_error_count(j->diags))
		j->tir = elaborate(j->arena, j->diags, ast, "random.tile", &eo);
	return j->tir && !diags_error_count(j->diags);
}

static bool lower_batch(Job *j, LowerTarget target, LowerResult *out)
{
	double llvm, code;
	LowerOptions lo = { .target = target, .form = LOWER_CODE, .opt_level = j->b->opt_level, .llvm_seconds = &llvm, .codegen_seconds = &code };
	return lower_module(j->arena, j->tir, &lo, out);
}

/* Random programs may spill. */
static bool assemble(Job *j, const LowerResult *ptx, ModuleParts *parts, PtxasResult *r)
{
	const char *program = ptxas_find(j->arena, NULL);
	PtxasOptions po = { .program = program, .opt_level = 1, .allow_spill = true, .allow_serialized = true };
	parts->ptx = ptx->data, parts->ptx_len = ptx->len;
	if (!program)
		return true;
	if (!ptxas_assemble(j->arena, j->tir, ptx->data, ptx->len, &po, r))
		return false;
	parts->resources = r;
	parts->cubin = r->cubin, parts->cubin_len = r->len;
	parts->ptx_len = 0;
	return true;
}

static bool compile_batch(Job *j, Buffer *module)
{
	PassOptions po = { 0 };
	LowerResult elf = { 0 }, ptx = { 0 };
	ModuleParts parts = { 0 };
	PtxasResult assembled = { 0 };
	if (!passes_run(j->tir, &po) || diags_error_count(j->diags) || (j->b->cpu && !lower_batch(j, LOWER_CPU, &elf)))
		return false;
	if (j->b->gpu && (!lower_batch(j, LOWER_GPU, &ptx) || !assemble(j, &ptx, &parts, &assembled)))
		return false;
	parts.elf = elf.data, parts.elf_len = elf.len;
	return module_write(j->tir, "random.tile", &parts, module);
}

/* ---- the model ---- */

static const Op *kernel_of(const Job *j, const Program *p)
{
	for (const Op *k = j->tir->first; k; k = k->next)
		if (!strcmp(attr_text(k, AT_NAME, ""), p->kernel))
			return k;
	return NULL;
}

static void model_tensors(const Program *p, ModelTensor *out)
{
	for (int k = 0; k < p->ntensors; k++) {
		const TensorParam *t = &p->tensor[k];
		out[k] = (ModelTensor){ .name = t->name, .bytes = (size_t)tensor_elements(t) * dtype_bytes(t->type) };
		memcpy(out[k].extents, t->extents, sizeof t->extents);
		out[k].data = bytes_new(out[k].bytes);
		out[k].defined = bytes_new(out[k].bytes);
		memset(out[k].data, 0xff, out[k].bytes);
		memset(out[k].defined, t->dir == 2 ? CELL_POISON : CELL_DEFINED, out[k].bytes);
		tensor_fill(p, k, out[k].data);
	}
}

static Num scalar_number(const ScalarParam *s)
{
	return dtype_is_float(s->type) ? num_float(s->type, s->f) : num_int(s->type, s->i);
}

static bool has_garbage(const ModelTensor *t)
{
	return memchr(t->defined, CELL_GARBAGE, t->bytes) != NULL;
}

static int64_t read_i64(const unsigned char *p)
{
	int64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* Folding and running agree. */
static void compare_twins(Job *j, int k, const ModelTensor *t)
{
	for (size_t n = 0; n + 1 < t->bytes / 8; n += 2) {
		int64_t a = read_i64(t->data + 8 * n), b = read_i64(t->data + 8 * n + 8);
		if (t->defined[8 * n] == CELL_DEFINED && a != b)
			report(j, k, V_WRONG, "twins[%zu]: folded to %lld, is %lld", n, (long long)a, (long long)b);
	}
}

static void model_program(Job *j, int k)
{
	const Program *p = &j->b->program[k];
	ModelTensor *t = j->tensors + k * MAX_TENSORS;
	ModelScalar s[MAX_SCALARS];
	char error[300];
	model_tensors(p, t);
	for (int n = 0; n < p->nscalars; n++)
		s[n] = (ModelScalar){ p->scalar[n].name, scalar_number(&p->scalar[n]) };
	ModelArgs args = { t, p->ntensors, s, p->nscalars };
	if (!model_run(j->tir, kernel_of(j, p), &args, &j->reports[k].count, error, sizeof error)) {
		report(j, k, V_MEANINGLESS, "%s", error);
		return;
	}
	for (int n = 0; n < p->ntensors; n++) {
		if (has_garbage(&t[n]))
			report(j, k, V_MEANINGLESS, "'%s' is made of numbers that no rule gives", p->tensor[n].name);
		if (!strcmp(p->tensor[n].name, "twins"))
			compare_twins(j, k, &t[n]);
	}
}

/* ---- the device ---- */

enum { GUARD = 256 };

static const tilert_dtype runtime_types[] = {
	[DT_BOOL] = TILERT_BOOL, [DT_I8] = TILERT_I8, [DT_I16] = TILERT_I16, [DT_I32] = TILERT_I32, [DT_I64] = TILERT_I64,
	[DT_U8] = TILERT_U8, [DT_U16] = TILERT_U16, [DT_U32] = TILERT_U32, [DT_U64] = TILERT_U64, [DT_F16] = TILERT_F16,
	[DT_BF16] = TILERT_BF16, [DT_TF32] = TILERT_TF32, [DT_F32] = TILERT_F32,
	[DT_E4M3] = TILERT_E4M3, [DT_E5M2] = TILERT_E5M2,
};

static bool upload(tilert_device *d, const Program *p, int k, size_t bytes, tilert_ptr *at)
{
	unsigned char *host = bytes_new(bytes + GUARD);
	memset(host, 0xff, bytes + GUARD);
	tensor_fill(p, k, host);
	bool ok = tilert_alloc(d, bytes + GUARD, at) == TILERT_OK && tilert_upload(d, *at, host, bytes + GUARD) == TILERT_OK;
	free(host);
	return ok;
}

static int fill_args(tilert_device *d, const Program *p, const ModelTensor *t, tilert_arg *args)
{
	int n = 0;
	for (int k = 0; k < p->ntensors; k++, n++) {
		args[n] = (tilert_arg){ .name = p->tensor[k].name, .kind = TILERT_ARG_TENSOR };
		args[n].tensor.dtype = runtime_types[p->tensor[k].type];
		args[n].tensor.rank = p->tensor[k].rank;
		memcpy(args[n].tensor.extents, p->tensor[k].extents, sizeof(int64_t) * MAX_DIMS);
		if (!upload(d, p, k, t[k].bytes, &args[n].tensor.data))
			return -1;
	}
	for (int k = 0; k < p->nscalars; k++)
		if (!p->scalar[k].is_dim)
			args[n++] = (tilert_arg){ .name = p->scalar[k].name, .kind = TILERT_ARG_SCALAR, .i = p->scalar[k].i, .f = p->scalar[k].f };
	return n;
}

static const char *element_text(Arena *a, DType t, const unsigned char *x)
{
	Num v = num_decode(t, x);
	return dtype_is_float(t) ? arena_printf(a, "%.9g", v.f) : arena_printf(a, "%lld", (long long)v.i);
}

static void compare_tensor(Job *j, int k, int n, const ModelTensor *want, const unsigned char *got)
{
	const TensorParam *t = &j->b->program[k].tensor[n];
	unsigned size = dtype_bytes(t->type);
	size_t wrong = 0, first = 0, count = want->bytes / size;
	for (size_t e = 0; e < count; e++) {
		const unsigned char *a = want->data + e * size, *b = got + e * size;
		bool zeros = (is_minus_zero(t->type, a) || is_minus_zero(t->type, b)) && num_decode(t->type, a).f == num_decode(t->type, b).f;
		if (memcmp(a, b, size) && !zeros && wrong++ == 0)
			first = e;
	}
	if (wrong)
		report(j, k, V_WRONG, "%zu of %zu elements of %s: [%zu] is %s, not %s", wrong, count, t->name, first,
			element_text(j->arena, t->type, got + first * size), element_text(j->arena, t->type, want->data + first * size));
	for (size_t e = 0; e < GUARD; e++)
		if (got[want->bytes + e] != 0xff) {
			report(j, k, V_WRONG, "bytes behind %s were written", t->name);
			return;
		}
}

static void compare_all(Job *j, int k, tilert_device *d, const tilert_arg *args)
{
	const Program *p = &j->b->program[k];
	const ModelTensor *t = j->tensors + k * MAX_TENSORS;
	for (int n = 0; n < p->ntensors && j->reports[k].verdict == V_RIGHT; n++) {
		unsigned char *got = bytes_new(t[n].bytes + GUARD);
		if (tilert_download(d, got, args[n].tensor.data, t[n].bytes + GUARD) == TILERT_OK)
			compare_tensor(j, k, n, &t[n], got);
		else
			report(j, k, V_FAILED, "%s", tilert_last_error());
		free(got);
	}
}

static void run_program(Job *j, int k, tilert_device *d, tilert_module *m)
{
	const Program *p = &j->b->program[k];
	tilert_arg args[MAX_TENSORS + MAX_SCALARS] = { 0 };
	tilert_kernel *kernel;
	int n = fill_args(d, p, j->tensors + k * MAX_TENSORS, args);
	if (n < 0 || tilert_module_kernel(m, p->kernel, &kernel) != TILERT_OK || tilert_launch(kernel, args, (size_t)n, NULL) != TILERT_OK ||
		tilert_stream_sync(d, NULL) != TILERT_OK)
		report(j, k, V_FAILED, "%s", tilert_last_error());
	else
		compare_all(j, k, d, args);
	for (int i = 0; i < p->ntensors; i++)
		if (args[i].tensor.data)
			tilert_free(d, args[i].tensor.data);
}

static void run_batch(Job *j, tilert_device *d, const Buffer *module)
{
	tilert_module *m = NULL;
	tilert_status s = tilert_module_load(d, module->data, module->len, &m);
	for (int k = 0; k < j->b->n; k++) {
		if (j->reports[k].verdict != V_RIGHT)
			continue;
		if (s == TILERT_OK)
			run_program(j, k, d, m);
		else
			report(j, k, V_FAILED, "%s", tilert_last_error());
	}
	tilert_module_close(m);
}

/* ---- together ---- */

static void hand_over(const Job *j, const Buffer *module, Products *out)
{
	out->module = bytes_new(module->len);
	out->module_len = module->len;
	memcpy(out->module, module->data, module->len);
	for (int k = 0; k < j->b->n; k++)
		for (int n = 0; n < j->b->program[k].ntensors; n++)
			out->digest[k][n] = tensor_digest(&j->b->program[k].tensor[n], j->tensors[k * MAX_TENSORS + n].data);
}

void check_batch(const Batch *b, tilert_device *device, Report *reports, Products *products)
{
	Job j = { .b = b, .arena = arena_new(), .reports = reports };
	Buffer module = { .arena = j.arena };
	j.diags = diags_new(j.arena);
	j.tensors = bytes_new(sizeof(ModelTensor) * (size_t)b->n * MAX_TENSORS);
	memset(reports, 0, sizeof *reports * (size_t)b->n);
	bool ok = elaborate_batch(&j);
	for (int k = 0; ok && k < b->n; k++)
		model_program(&j, k);
	if (ok && compile_batch(&j, &module)) {
		if (device)
			run_batch(&j, device, &module);
		if (products)
			hand_over(&j, &module, products);
	} else
		report_diags(&j);
	for (int k = 0; k < b->n * MAX_TENSORS; k++) {
		free(j.tensors[k].data);
		free(j.tensors[k].defined);
	}
	free(j.tensors);
	arena_free(j.arena);
}
