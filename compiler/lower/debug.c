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
	LLVMDWARFEmissionKind kind = L->ops->cpu ? LLVMDWARFEmissionFull : (LLVMDWARFEmissionKind)DIRECTIVES_ONLY;
	d->unit = LLVMDIBuilderCreateCompileUnit(d->builder, LLVMDWARFSourceLanguageC, file_of(L, 1), "tilec", 5, 1, "", 0, 0, "", 0, kind,
	                                         0, 0, 0, "", 0, "", 0);
	LLVMAddModuleFlag(L->module, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18, LLVMValueAsMetadata(const_i32(L, 3)));
}

void debug_begin_kernel(Lower *L)
{
	DebugInfo *d = L->debug;
	unsigned line = 1, col = 1;
	diags_linecol(L->diags, L->kernel->loc, &line, &col);
	const char *name = attr_text(L->kernel, "name", "kernel");
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
	LLVMMetadataRef scope = L->debug->scope;
	if (loc.source && loc.source != L->kernel->loc.source)
		scope = LLVMDIBuilderCreateLexicalBlockFile(L->debug->builder, scope, file_of(L, loc.source), 0);
	LLVMSetCurrentDebugLocation2(L->b, LLVMDIBuilderCreateDebugLocation(L->cx, line, col, scope, NULL));
}

void debug_end_module(Lower *L)
{
	LLVMDIBuilderFinalize(L->debug->builder);
	LLVMDisposeDIBuilder(L->debug->builder);
}
