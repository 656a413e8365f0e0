/* module_writer.c - the file of runtime/abi/MODULE.md: what a launch needs to know, and the code for each device. */
#include "compiler/driver/emit.h"

#include <inttypes.h>
#include <string.h>

#include "compiler/analysis/tensormap.h"
#include "runtime/src/checksum.h"

typedef struct Writer {
	Arena *a;
	const Tir *t;
	Buffer *meta;
	bool ok;
} Writer;

static const char *name_of(const Op *op)
{
	return attr_text(op, AT_NAME, "?");
}

/* A quoted expression; "0" after an error. */
static void put_expr(Writer *w, const Value *v, Loc use)
{
	const char *s = host_postfix(w->a, w->t->diags, v, use);
	w->ok &= s != NULL;
	buffer_put(w->meta, " \"%s\"", s ? s : "0");
}

/* ---- tensors ---- */

static void put_tensor(Writer *w, const Op *tensor)
{
	static const char *const directions[] = { "in", "in", "out", "inout" };
	const Type *type = &tensor->result->type;
	int64_t dir = attr_int(tensor, AT_DIR, 1), align = attr_int(tensor, AT_ALIGN, 0);
	buffer_put(w->meta, "tensor \"%s\" %s %s %s", name_of(tensor), dtype_name(type->dtype), directions[dir & 3],
		attr_int(tensor, AT_OPTIONAL, 0) ? "optional" : "required");
	if (align)
		buffer_put(w->meta, " align %" PRId64, align);
	buffer_put(w->meta, " rank %d extents", type->rank);
	for (int i = 0; i < type->rank; i++)
		put_expr(w, tensor_extent(tensor, i), tensor->loc);
	buffer_put(w->meta, " strides");
	for (int i = 0; i < type->rank; i++)
		put_expr(w, tensor_stride(tensor, i), tensor->loc);
	buffer_put(w->meta, "\n");
}

/* ---- tensor maps ---- */

static void put_map_number(Writer *w, const TensorMap *m, const Value *v, int64_t constant, int64_t scale)
{
	if (!v) {
		buffer_put(w->meta, " \"%" PRId64 "\"", constant * scale);
		return;
	}
	const char *s = host_postfix(w->a, w->t->diags, v, m->tensor->loc);
	w->ok &= s != NULL;
	int64_t n;
	if (value_const_int(v, &n))
		buffer_put(w->meta, " \"%" PRId64 "\"", n * scale);
	else if (scale == 1)
		buffer_put(w->meta, " \"%s\"", s ? s : "0");
	else
		buffer_put(w->meta, " \"%s %" PRId64 " *\"", s ? s : "0", scale);
}

static void put_map(Writer *w, const TensorMap *m)
{
	buffer_put(w->meta, "tensormap tensor \"%s\" dtype %s swizzle %u dims", name_of(m->tensor), dtype_name(m->dtype), m->swizzle);
	for (int i = 0; i < m->rank; i++)
		put_map_number(w, m, m->dim[i].extent, m->dim[i].extent_const, 1);
	buffer_put(w->meta, " strides");
	for (int i = 0; i < m->rank; i++)
		put_map_number(w, m, m->dim[i].stride, m->dim[i].stride_const, dtype_bytes(m->dtype));
	buffer_put(w->meta, " box");
	for (int i = 0; i < m->rank; i++)
		buffer_put(w->meta, " %u", m->dim[i].box);
	if (m->limited)
		buffer_put(w->meta, " limited %d", m->limited);
	if (m->stored)
		buffer_put(w->meta, " stored");
	buffer_put(w->meta, "\n");
}

/* ---- kernels ---- */

int64_t kernel_smem(const Op *kernel)
{
	return attr_int(kernel, AT_SMEM, 0);
}

static bool find_grid_wait(Op *op, void *found)
{
	*(bool *)found |= op->code == OP_GRID_WAIT;
	return true;
}

static bool waits_for_grids(const Op *kernel)
{
	bool found = false;
	tir_walk(kernel->regions[0], find_grid_wait, &found);
	return found;
}

static void put_kernel(Writer *w, const Op *kernel, const PtxasResult *resources)
{
	TensorMaps maps = kernel_tensor_maps(w->a, kernel);
	const PtxasKernel *known = ptxas_kernel(resources, name_of(kernel));
	buffer_put(w->meta, "kernel \"%s\" threads %" PRId64 " cluster %" PRId64 " smem %" PRId64 " registers %d tensormaps %d%s\n",
		name_of(kernel), attr_int(kernel, AT_THREADS, 0), attr_int(kernel, AT_CLUSTER, 1), kernel_smem(kernel), known ? known->registers : 0, maps.n,
		waits_for_grids(kernel) ? " dependent" : "");
	const Op *first = kernel->regions[0]->first;
	for (const Op *op = first; op; op = op->next) {
		if (op->code == OP_TENSOR)
			put_tensor(w, op);
	}
	for (const Op *op = first; op; op = op->next) {
		if (op->code == OP_DIM)
			buffer_put(w->meta, "dim \"%s\"\n", name_of(op));
	}
	for (const Op *op = first; op; op = op->next) {
		if (op->code == OP_PARAM)
			buffer_put(w->meta, "scalar \"%s\" %s\n", name_of(op), dtype_name(op->result->type.dtype));
	}
	for (int i = 0; i < maps.n; i++) {
		if (maps.map[i].tensor) {
			put_map(w, &maps.map[i]);
			continue;
		}
		diag_error(w->t->diags, kernel->loc, E_TIR, "kernel '%s' has {maps} %d, but nothing goes through map %d", name_of(kernel), maps.n, i);
		w->ok = false;
	}
	bool launchable = false;
	for (const Op *op = first; op; op = op->next) {
		if (op->code != OP_GRID)
			continue;
		launchable = true;
		buffer_put(w->meta, "grid");
		for (int i = 0; i < op->nargs; i++)
			put_expr(w, op->args[i], op->loc);
		buffer_put(w->meta, "\n");
	}
	if (!launchable) /* only in TIR that somebody wrote */
		tir_error(w->t, kernel, E_TIR, "kernel '%s' has no 'grid': a module's kernels are launched", name_of(kernel));
	w->ok &= launchable;
	buffer_put(w->meta, "end\n");
}

/* ---- the container ---- */

static void put_number(Buffer *out, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		buffer_bytes(out, &(unsigned char){ (unsigned char)(v >> 8 * i) }, 1);
}

static void align_to_16(Buffer *out)
{
	static const char zeros[16];
	buffer_bytes(out, zeros, (16 - out->len % 16) % 16);
}

typedef struct Blob { const char *kind, *data; size_t len, unpacked; } Blob;

static Blob blob_of(Arena *a, const char *kind, const char *data, size_t len)
{
	Buffer packed = { .arena = a };
	bool smaller = pack_blob(a, data, len, !strncmp(kind, "cubin", 5), &packed);
	return (Blob){ kind, smaller ? packed.data : data, smaller ? packed.len : len, len };
}

static void put_checksum(Buffer *out)
{
	uint64_t sum = module_checksum(out->data, out->len);
	for (int i = 0; i < 8; i++)
		out->data[MODULE_CHECKSUM_AT + i] = (char)(sum >> 8 * i);
}

static void put_container(Buffer *out, const Buffer *meta, const Blob *blob, unsigned nblobs)
{
	buffer_bytes(out, "TILEMOD4", 8);
	put_number(out, meta->len, 4);
	put_number(out, nblobs, 4);
	put_number(out, 0, 8);
	size_t at = MODULE_HEADER_BYTES + MODULE_ENTRY_BYTES * nblobs + meta->len;
	for (unsigned i = 0; i < nblobs; i++) {
		char kind[16] = { 0 };
		memcpy(kind, blob[i].kind, strlen(blob[i].kind));
		buffer_bytes(out, kind, sizeof kind);
		at = (at + 15) / 16 * 16;
		put_number(out, at, 8);
		put_number(out, blob[i].len, 8);
		put_number(out, blob[i].unpacked, 8);
		at += blob[i].len;
	}
	buffer_bytes(out, meta->data, meta->len);
	for (unsigned i = 0; i < nblobs; i++) {
		align_to_16(out);
		buffer_bytes(out, blob[i].data, blob[i].len);
	}
	put_checksum(out);
}

/* The last part of the file's name; what ends a string or a line of the meta text is a '?' in it. */
static const char *quotable_name(Arena *a, const char *path)
{
	const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
	char *name = arena_strndup(a, last, strlen(last));
	for (char *p = name; (p = strpbrk(p, "\"\n"));)
		*p = '?';
	return name;
}

bool module_write(const Tir *t, const char *source_name, const ModuleParts *parts, Buffer *out)
{
	Buffer meta = { .arena = t->arena };
	Writer w = { .a = t->arena, .t = t, .meta = &meta, .ok = true };
	buffer_put(&meta, "module \"%s\" compiler \"" TILE_VERSION "\"\n", quotable_name(t->arena, source_name));
	for (const Op *k = t->first; k; k = k->next)
		put_kernel(&w, k, parts->resources);
	if (!w.ok)
		return false;
	Blob blob[3];
	unsigned n = 0;
	if (parts->cubin_len)
		blob[n++] = blob_of(t->arena, arena_printf(t->arena, "cubin:%s", t->machine->name), parts->cubin, parts->cubin_len);
	if (parts->ptx_len)
		blob[n++] = blob_of(t->arena, "ptx", parts->ptx, parts->ptx_len + 1); /* with its NUL */
	if (parts->elf_len)
		blob[n++] = blob_of(t->arena, "elf:x86_64", parts->elf, parts->elf_len);
	put_container(out, &meta, blob, n);
	return true;
}
