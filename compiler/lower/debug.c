/* debug.c - source lines: .loc directives only on the GPU (more would make ptxas ignore setmaxnreg),
 * full line tables for the CPU device.
 */
#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "compiler/lower/context.h"

typedef struct DebugInfo {
	LLVMDIBuilderRef builder;
	LLVMMetadataRef unit, scope;
	LLVMMetadataRef *file; /* by source index */
	unsigned nfiles;
} DebugInfo;

/* LLVMDWARFEmissionKind has no name for DebugDirectivesOnly. */
enum { DIRECTIVES_ONLY = 3 };

static LLVMMetadataRef file_of(Lower *L, uint32_t source)
{
	DebugInfo *d = L->debug;
	if (source == 0 || source > d->nfiles)
		source = 1;
	if (!d->file[source]) {
		const Source *s = diags_source(L->diags, source);
		const char *name = s ? s->name : "?";
		d->file[source] = LLVMDIBuilderCreateFile(d->builder, name, strlen(name), "", 0);
	}
	return d->file[source];
}

void debug_begin_module(Lower *L)
{
	DebugInfo *d = L->debug = ARENA_NEW(L->arena, DebugInfo);
	d->nfiles = diags_source_count(L->diags);
	d->file = ARENA_ARRAY(L->arena, LLVMMetadataRef, d->nfiles + 2);
	d->builder = LLVMCreateDIBuilder(L->module);
	LLVMDWARFEmissionKind full = L->options->strip ? LLVMDWARFEmissionNone : LLVMDWARFEmissionFull;
	LLVMDWARFEmissionKind kind = L->ops->debugger ? full : (LLVMDWARFEmissionKind)DIRECTIVES_ONLY;
	d->unit = LLVMDIBuilderCreateCompileUnit(d->builder, LLVMDWARFSourceLanguageC, file_of(L, 1), "tilec", 5, 1, "", 0, 0, "", 0, kind,
	                                         0, 0, 0, "", 0, "", 0);
	LLVMAddModuleFlag(L->module, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18, LLVMValueAsMetadata(const_i32(L, 3)));
}

void debug_begin_kernel(Lower *L)
{
	DebugInfo *d = L->debug;
	unsigned line = 1, col = 1;
	diags_linecol(L->diags, L->kernel->loc, &line, &col);
	const char *name = attr_text(L->kernel, AT_NAME, "kernel");
	LLVMMetadataRef file = file_of(L, L->kernel->loc.source);
	LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(d->builder, file, NULL, 0, 0);
	d->scope = LLVMDIBuilderCreateFunction(d->builder, file, name, strlen(name), name, strlen(name), file, line, type, 0, 1, line, 0, 1);
	LLVMSetSubprogram(L->function, d->scope);
}

void debug_location(Lower *L, Loc loc)
{
	unsigned line = 0, col = 0;
	if (loc.source)
		diags_linecol(L->diags, loc, &line, &col);
	L->line = line;
	L->source = loc.source;
	LLVMMetadataRef scope = L->debug->scope;
	if (loc.source && loc.source != L->kernel->loc.source)
		scope = LLVMDIBuilderCreateLexicalBlockFile(L->debug->builder, scope, file_of(L, loc.source), 0);
	LLVMSetCurrentDebugLocation2(L->b, LLVMDIBuilderCreateDebugLocation(L->cx, line, col, scope, NULL));
}

/* ---- variables, for debuggers: of the CPU device's unoptimised code ---- */

static bool has_variables(const Lower *L) { return L->ops->debugger && L->options->debug; }

LLVMMetadataRef debug_enter(Lower *L, Loc loc)
{
	LLVMMetadataRef before = L->debug->scope;
	unsigned line = 0, col = 0;
	if (has_variables(L) && loc.source) {
		diags_linecol(L->diags, loc, &line, &col);
		L->debug->scope = LLVMDIBuilderCreateLexicalBlock(L->debug->builder, before, file_of(L, loc.source), line, col);
	}
	return before;
}

void debug_leave(Lower *L, LLVMMetadataRef before) { L->debug->scope = before; }

static LLVMMetadataRef type_for_debugger(Lower *L, DType d)
{
	enum { BOOLEAN = 2, FLOAT = 4, SIGNED = 5, UNSIGNED = 7 }; /* DW_ATE_* */
	const char *name = dtype_name(d);
	/* bf16 and 8-bit floats are shown as their bits: debuggers know no such types */
	unsigned encoding = d == DT_BOOL ? BOOLEAN : dtype_is_float(d) && d != DT_BF16 && !dtype_is_float8(d) ? FLOAT : dtype_is_signed(d) ? SIGNED : UNSIGNED;
	return LLVMDIBuilderCreateBasicType(L->debug->builder, name, strlen(name), 8 * (uint64_t)dtype_bytes(d), encoding, 0);
}

void debug_variable(Lower *L, const char *name, DType d, V pointer, Loc loc)
{
	DebugInfo *x = L->debug;
	unsigned line = 0, col = 0;
	if (!has_variables(L) || !name || !loc.source)
		return;
	diags_linecol(L->diags, loc, &line, &col);
	LLVMMetadataRef v = LLVMDIBuilderCreateAutoVariable(x->builder, x->scope, name, strlen(name), file_of(L, loc.source), line, type_for_debugger(L, d),
	                                                    1, 0, 0);
	LLVMMetadataRef where = LLVMDIBuilderCreateDebugLocation(L->cx, line, col, x->scope, NULL);
	LLVMDIBuilderInsertDeclareRecordAtEnd(x->builder, pointer, v, LLVMDIBuilderCreateExpression(x->builder, NULL, 0), where, LLVMGetInsertBlock(L->b));
}

void debug_value(Lower *L, const Value *value, V v, Loc loc)
{
	DType d = value->type.dtype;
	if (!has_variables(L) || !value->name || value->type.kind != TY_SCALAR || !v)
		return;
	V at = entry_alloca(L, d == DT_BOOL ? L->i8 : type_of(L, d), value->name);
	LLVMBuildStore(L->b, d == DT_BOOL ? LLVMBuildZExt(L->b, v, L->i8, "") : v, at);
	debug_variable(L, value->name, d, at, loc);
}

void debug_end_module(Lower *L)
{
	LLVMDIBuilderFinalize(L->debug->builder);
	LLVMDisposeDIBuilder(L->debug->builder);
}
