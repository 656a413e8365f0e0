/* lower.c - one LLVM module from TIR: kernels' entries, optimisation, emission. */
#include "compiler/analysis/effects.h"
#include "compiler/lower/context.h"
#include "runtime/abi/cpu_abi.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm/Config/llvm-config.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm-c/Support.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *lower_llvm_version(void)
{
	return LLVM_VERSION_STRING;
}

/* Whether the text is of a frame: "FILE:LINE:COLUMN: stack frame size (N) exceeds limit (M) in function 'kernel.NAME'". */
static bool is_of_frame(Lower *L, const char *text)
{
	const char *size = strstr(text, "stack frame size (");
	unsigned long long bytes;
	if (!size || sscanf(size, "stack frame size (%llu)", &bytes) != 1)
		return false;
	for (const Op *k = L->tir->first; k; k = k->next) {
		const char *name = attr_text(k, AT_NAME, "?");
		if (strstr(size, arena_printf(L->arena, "'" TILE_CPU_KERNEL_PREFIX "%s'", name)))
			diag_error(L->diags, k->loc, E_LIMIT, "fragments and variables of kernel '%s' take %llu bytes a thread; the CPU device has %d for them",
			           name, bytes, TILE_CPU_FRAME_BYTES);
	}
	return true;
}

static void llvm_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
	Lower *L = user;
	LLVMDiagnosticSeverity severity = LLVMGetDiagInfoSeverity(info);
	if (severity != LLVMDSError && severity != LLVMDSWarning)
		return;
	char *text = LLVMGetDiagInfoDescription(info);
	if (!is_of_frame(L, text) && severity == LLVMDSError)
		diag_error(L->diags, (Loc){ 0 }, E_UNSUPPORTED, "LLVM: %s", text);
	LLVMDisposeMessage(text);
}

/* Options that LLVM takes only from a command line, once per process: 32-bit shared addresses; no CSE of machine code, for it hoists
 * what two branches have in common (exponentials, addresses) above them, where it takes registers. */
static void set_options(void)
{
	static const char *const options[] = { "tilec", "--nvptx-short-ptr", "-opt-disable=slsr", "--disable-machine-cse",
		"--disable-nvptx-load-store-vectorizer" };
	LLVMParseCommandLineOptions(sizeof options / sizeof options[0], options, "");
}

static int opt_level(const Lower *L)
{
	bool steps = L->ops->debugger && L->options->debug;
	return steps || L->options->opt_level < 0 ? 0 : L->options->opt_level;
}

static bool make_machine(Lower *L)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, set_options);
	const char *triple = L->ops->triple;
	L->ops->initialise();
	LLVMTargetRef target;
	char *error = NULL;
	if (LLVMGetTargetFromTriple(triple, &target, &error)) {
		diag_error(L->diags, (Loc){ 0 }, E_UNSUPPORTED, "LLVM has no target %s: %s", triple, error);
		LLVMDisposeMessage(error);
		return false;
	}
	/* The last level adds a GVN with PRE: a quarter of the time, for a few instructions more. */
	static const LLVMCodeGenOptLevel levels[] = { LLVMCodeGenLevelNone, LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault };
	int o = opt_level(L), most = L->ops->codegen_level;
	L->machine = LLVMCreateTargetMachine(target, triple, L->ops->processor(L->tir), L->ops->features, levels[o < most ? o : most],
	                                     L->ops->reloc, LLVMCodeModelDefault);
	LLVMSetTarget(L->module, triple);
	LLVMTargetDataRef dl = LLVMCreateTargetDataLayout(L->machine);
	LLVMSetModuleDataLayout(L->module, dl);
	LLVMDisposeTargetData(dl);
	return true;
}

static void init_types(Lower *L)
{
	L->i1 = LLVMInt1TypeInContext(L->cx);
	L->i8 = LLVMInt8TypeInContext(L->cx);
	L->i16 = LLVMInt16TypeInContext(L->cx);
	L->i32 = LLVMInt32TypeInContext(L->cx);
	L->i64 = LLVMInt64TypeInContext(L->cx);
	L->f32 = LLVMFloatTypeInContext(L->cx);
	L->f16 = LLVMHalfTypeInContext(L->cx);
	L->bf16 = LLVMBFloatTypeInContext(L->cx);
	L->void_t = LLVMVoidTypeInContext(L->cx);
	L->ptr = LLVMPointerTypeInContext(L->cx, 0);
	L->ptr_shared = LLVMPointerTypeInContext(L->cx, L->ops->shared_space);
	L->ptr_global = LLVMPointerTypeInContext(L->cx, L->ops->global_space);
}

/* ---- the entry of a kernel ---- */

/* Parameters in the module's order: tensors, dims, scalars, tensor maps. */
static Params list_params(Lower *L, const Op *kernel)
{
	static const Opcode order[] = { OP_TENSOR, OP_DIM, OP_PARAM };
	Params p = { .n = 0 };
	for (const Op *op = kernel->regions[0]->first; op; op = op->next)
		p.n += op->code == OP_TENSOR || op->code == OP_DIM || op->code == OP_PARAM;
	p.op = ARENA_ARRAY(L->arena, const Op *, p.n + 1);
	p.n = 0;
	for (int k = 0; k < 3; k++)
		for (const Op *op = kernel->regions[0]->first; op; op = op->next)
			if (op->code == order[k])
				p.op[p.n++] = op;
	return p;
}

static void bind_param(Lower *L, const Op *op, V v)
{
	if (op->code != OP_TENSOR) {
		L->value[op->result->id] = op->result->type.dtype == DT_BOOL ? LLVMBuildTrunc(L->b, v, L->i1, "") : v;
		debug_value(L, op->result, value_of(L, op->result), op->loc);
		return;
	}
	Storage *s = ARENA_NEW(L->arena, Storage);
	s->object = op;
	s->pointer = v;
	s->exchanged = L->ops->checks && L->tensor_uses[op->result->id].exchanged;
	L->storage[op->result->id] = s;
}

/* Extents and strides are values computed among the parameters. */
static void bind_tensor_strides(Lower *L, const Op *op)
{
	Storage *s = storage_of(L, op);
	int rank = op->result->type.rank;
	s->extent = ARENA_ARRAY(L->arena, V, rank + 1);
	s->stride = ARENA_ARRAY(L->arena, V, rank + 1);
	for (int d = 0; d < rank; d++) {
		s->extent[d] = value_of(L, tensor_extent(op, d));
		s->stride[d] = to_i64(L, value_of(L, tensor_stride(op, d)), tensor_stride(op, d)->type.dtype);
	}
	declare_bounds(L, s);
}

static void create_function(Lower *L, const Params *p)
{
	L->ops->declare_kernel(L, p, attr_text(L->kernel, AT_NAME, "kernel"));
	LLVMPositionBuilderAtEnd(L->b, LLVMAppendBasicBlockInContext(L->cx, L->function, "entry"));
	debug_begin_kernel(L);
	debug_location(L, L->kernel->loc);
}

static void bind_params(Lower *L, const Params *p)
{
	for (int i = 0; i < p->n; i++)
		bind_param(L, p->op[i], L->ops->parameter(L, i, param_type(L, p->op[i])));
	L->map_pointer = ARENA_ARRAY(L->arena, V, L->maps.n + 1);
	for (int i = 0; i < L->maps.n; i++)
		L->map_pointer[i] = L->ops->parameter(L, p->n + i, NULL);
}

static void init_barriers(Lower *L)
{
	bool any = false;
	for (const Op *op = L->kernel->regions[0]->first; op; op = op->next)
		any |= op->code == OP_MBARRIER;
	if (!any)
		return;
	Guard g = guard_begin(L, LLVMBuildICmp(L->b, LLVMIntEQ, L->cta_thread, const_i32(L, 0), ""));
	for (const Op *op = L->kernel->regions[0]->first; op; op = op->next)
		for (int i = 0; op->code == OP_MBARRIER && i < attr_int(op, AT_SLOTS, 1); i++)
			L->ops->mbar_init(L, barrier_address(L, op, const_i32(L, i)), op, i);
	L->ops->mbar_init_done(L);
	guard_end(L, g);
	L->ops->fence_async(L);
	if (attr_int(L->kernel, AT_PEERS, 0))
		L->ops->cluster_sync(L);
	else
		L->ops->bar_sync(L, const_i32(L, 0), (unsigned)attr_int(L->kernel, AT_THREADS, 128), NULL);
}

/* Where infer_layouts has not run, for instance. */
typedef struct Layouts { Lower *L; bool missing; } Layouts;

static bool check_layout(Op *op, void *user)
{
	Layouts *x = user;
	const Type *t = op->result ? &op->result->type : NULL;
	const char *why = "";
	int warps = attr_int(op, AT_WARP_SCOPE, 0) ? 1 : team_warps(tir_team(op));
	if (op->code == OP_FRAG && !layout_of(x->L->arena, attr_layout(op), t->rank, t->shape, warps, &why)) {
		lower_error(x->L, op->loc, "fragment without layout: %s", why);
		x->missing = true;
	}
	return true;
}

static void lower_kernel(Lower *L, const Op *kernel)
{
	Layouts x = { L, false };
	tir_walk(kernel->regions[0], check_layout, &x);
	if (x.missing)
		return;
	Params p = list_params(L, kernel);
	L->kernel = kernel;
	L->maps = kernel_tensor_maps(L->arena, kernel);
	if (L->ops->checks)
		L->tensor_uses = tensor_uses(L->arena, kernel, L->nvalues);
	create_function(L, &p);
	bind_params(L, &p);
	L->shared = L->ops->shared_memory(L);
	L->watched = NULL;
	L->shared_word = L->ops->descriptor_base(L);
	L->cta_thread = L->ops->thread(L);
	L->cta_lane = LLVMBuildAnd(L->b, L->cta_thread, const_i32(L, 31), "lane");
	L->cta_warp = L->ops->uniform(L, LLVMBuildLShr(L->b, L->cta_thread, const_i32(L, 5), ""));
	L->team = (Team){ .op = kernel, .warps = (int)attr_int(kernel, AT_THREADS, 128) / 32, .thread = L->cta_thread, .lane = L->cta_lane,
	                  .warp = L->cta_warp };
	init_barriers(L);
	/* Scalars among the declarations come first, so that tensors' strides exist before their use. */
	const Region *r = kernel->regions[0];
	const Op *op = r->first;
	for (; op; op = op->next) {
		debug_location(L, op->loc);
		if (op->code == OP_TENSOR)
			bind_tensor_strides(L, op);
		else if (op_info(op->code)->effect == FX_PURE && op->code != OP_VIEW && op->code != OP_SM_COUNT) {
			V args[8];
			bool host_only = false;
			for (int i = 0; i < op->nargs && i < 8; i++) {
				args[i] = op->args[i]->type.kind == TY_SCALAR ? value_of(L, op->args[i]) : NULL;
				host_only |= op->args[i]->type.kind == TY_SCALAR && !args[i];
			}
			L->value[op->result->id] = host_only ? NULL : lower_scalar(L, op, args);
			debug_value(L, op->result, value_of(L, op->result), op->loc);
		} else if (op->code == OP_SM_COUNT) {
			L->value[op->result->id] = NULL; /* the host's */
		} else if (op->code != OP_DIM && op->code != OP_PARAM && op->code != OP_GRID) {
			break;
		}
	}
	watch_overlays(L);
	lower_ops(L, op);
	if (attr_int(kernel, AT_PEERS, 0)) /* shared memory lives as long as its CTA */
		L->ops->cluster_sync(L);
	LLVMBuildRetVoid(L->b);
}

/* ---- optimisation and emission ---- */

static bool optimise(Lower *L)
{
	if (opt_level(L) == 0)
		return true;
	/* No loop unrolling and no vectoriser: what the program says is what ptxas should see.  No PRE: it stretches addresses over loops.
	 * Loads are early-cse's: GVN takes three times as long with them and finds no more. */
	const char *passes = "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,gvn<no-pre;no-load-pre;no-memdep>,instcombine<no-verify-fixpoint>,simplifycfg,dce)";
	LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
	LLVMErrorRef e = LLVMRunPasses(L->module, passes, L->machine, o);
	LLVMDisposePassBuilderOptions(o);
	if (!e)
		return true;
	char *text = LLVMGetErrorMessage(e);
	diag_error(L->diags, (Loc){ 0 }, E_UNSUPPORTED, "LLVM passes: %s", text);
	LLVMDisposeErrorMessage(text);
	return false;
}

static bool emit(Lower *L, LowerResult *out)
{
	char *text = NULL;
	if (L->options->form == LOWER_LLVM) {
		text = LLVMPrintModuleToString(L->module);
		out->len = strlen(text);
		out->data = arena_strndup(L->arena, text, out->len);
		LLVMDisposeMessage(text);
		return true;
	}
	LLVMMemoryBufferRef buffer = NULL;
	if (LLVMTargetMachineEmitToMemoryBuffer(L->machine, L->module, L->ops->code, &text, &buffer)) {
		diag_error(L->diags, (Loc){ 0 }, E_UNSUPPORTED, "LLVM: %s", text);
		LLVMDisposeMessage(text);
		return false;
	}
	out->len = LLVMGetBufferSize(buffer);
	out->data = arena_alloc(L->arena, out->len + 1, 16);
	memcpy(out->data, LLVMGetBufferStart(buffer), out->len);
	LLVMDisposeMemoryBuffer(buffer);
	return true;
}

static bool verify(Lower *L)
{
	char *text = NULL;
	bool bad = LLVMVerifyModule(L->module, LLVMReturnStatusAction, &text);
	if (bad)
		diag_error(L->diags, (Loc){ 0 }, E_TIR, "the generated LLVM IR is not valid (a bug of tilec): %s", text);
	LLVMDisposeMessage(text);
	return !bad;
}

bool lower_module(Arena *a, const Tir *t, const LowerOptions *o, LowerResult *out)
{
	Lower l = { .arena = a, .tir = t, .diags = t->diags, .options = o, .ops = o->target == LOWER_CPU ? &backend_cpu : &backend_nvptx }, *L = &l;
	unsigned before = diags_error_count(t->diags);
	L->cx = LLVMContextCreate();
	LLVMContextSetDiagnosticHandler(L->cx, llvm_diagnostic, L);
	L->module = LLVMModuleCreateWithNameInContext("tile", L->cx);
	L->b = LLVMCreateBuilderInContext(L->cx);
	L->entry_b = LLVMCreateBuilderInContext(L->cx);
	init_types(L);
	bool ok = make_machine(L);
	if (ok) {
		double t0 = now();
		debug_begin_module(L);
		L->nvalues = L->tir->next_id;
		L->value = ARENA_ARRAY(L->arena, V, L->nvalues + 1);
		L->storage = ARENA_ARRAY(L->arena, Storage *, L->nvalues + 1);
		for (const Op *k = t->first; k; k = k->next)
			lower_kernel(L, k);
		if (L->ops->end_module)
			L->ops->end_module(L);
		debug_end_module(L);
		ok = diags_error_count(t->diags) == before && verify(L) && optimise(L);
		double t1 = now();
		ok = ok && emit(L, out);
		if (o->llvm_seconds)
			*o->llvm_seconds = t1 - t0;
		if (o->codegen_seconds)
			*o->codegen_seconds = now() - t1;
	}
	ok = ok && diags_error_count(t->diags) == before;
	LLVMDisposeBuilder(L->b);
	LLVMDisposeBuilder(L->entry_b);
	LLVMDisposeModule(L->module);
	if (L->machine)
		LLVMDisposeTargetMachine(L->machine);
	LLVMContextDispose(L->cx);
	return ok;
}
