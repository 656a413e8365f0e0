/* watch.c - tells the CPU device of accesses to shared memory, and to tensors that can be raced for; on the GPU nothing.
 *
 * A call makes the code around it give up its registers: those of one statement are told of at once, as a base and offsets, which are
 * constants where the addresses are one varying part and immediates (address.c). */
#include "compiler/analysis/effects.h"
#include "compiler/lower/context.h"

enum { MOST_TOLD = 64 };

typedef struct Place { V base; int64_t more; } Place;

static Place place_of(V pointer)
{
	if (LLVMIsAGetElementPtrInst(pointer) && LLVMGetNumOperands(pointer) == 2 && LLVMIsAConstantInt(LLVMGetOperand(pointer, 1)))
		return (Place){ LLVMGetOperand(pointer, 0), LLVMConstIntGetSExtValue(LLVMGetOperand(pointer, 1)) };
	return (Place){ pointer, 0 };
}

static bool same_base(const Place *a, const Place *b) { return same_instructions(a->base, b->base, 8); }

static V constant_offsets(Lower *L, const Place *p, int n)
{
	V words[MOST_TOLD];
	for (int i = 0; i < n; i++)
		words[i] = const_i32(L, p[i].more);
	V list = LLVMConstArray2(L->i32, words, (uint64_t)n), global = LLVMAddGlobal(L->module, LLVMTypeOf(list), "offsets");
	LLVMSetInitializer(global, list);
	LLVMSetGlobalConstant(global, 1);
	LLVMSetLinkage(global, LLVMPrivateLinkage);
	return global;
}

static V offset_list(Lower *L)
{
	if (!L->watched)
		L->watched = entry_alloca(L, LLVMArrayType2(L->i32, MOST_TOLD), "watched");
	return L->watched;
}

static V offset_of(Lower *L, const Place *p)
{
	V start = LLVMBuildPtrToInt(L->b, L->shared, L->i64, ""), off = LLVMBuildSub(L->b, LLVMBuildPtrToInt(L->b, p->base, L->i64, ""), start, "");
	return build_add(L, LLVMBuildTrunc(L->b, off, L->i32, ""), const_i32(L, p->more));
}

static void put(Lower *L, V list, T type, V at, V value) { LLVMBuildStore(L->b, value, LLVMBuildGEP2(L->b, type, list, &at, 1, "")); }

static V varying_offsets(Lower *L, const Place *p, int n)
{
	V list = offset_list(L);
	for (int i = 0; i < n; i++)
		put(L, list, L->i32, const_i32(L, i), offset_of(L, &p[i]));
	return list;
}

static void tell(Lower *L, Watched how, const Place *p, int n, V bytes)
{
	bool constant = true;
	for (int i = 1; i < n; i++)
		constant &= same_base(p, &p[i]);
	if (constant)
		L->ops->shared_access(L, how, p->base, constant_offsets(L, p, n), const_i32(L, n), bytes);
	else
		L->ops->shared_access(L, how, L->shared, varying_offsets(L, p, n), const_i32(L, n), bytes);
}

void watch_shared(Lower *L, Watched how, const V *pointers, int count, V bytes)
{
	Place p[MOST_TOLD];
	int n = 0;
	for (int i = 0; L->ops->checks && i < count; i++) {
		Place q = place_of(pointers[i]);
		bool told = false;
		for (int k = 0; k < n; k++)
			told |= p[k].more == q.more && same_base(&p[k], &q);
		if (!told)
			p[n++] = q;
		if (n == MOST_TOLD || (n && i == count - 1)) {
			tell(L, how, p, n, bytes);
			n = 0;
		}
	}
}

/* ---- global memory ---- */

/* The bytes of a tensor; none (0 to 0) of one that is not there. */
typedef struct Extent { V begin, end; } Extent;

/* Extents that only the host knows count as 1. */
static Extent extent_of(Lower *L, const Storage *s)
{
	V last = const_i64(L, 0), bytes = const_i64(L, dtype_bytes(s->object->result->type.dtype)), begin = LLVMBuildPtrToInt(L->b, s->pointer, L->i64, "");
	for (int d = 0; d < s->object->result->type.rank; d++)
		if (s->extent[d]) {
			DType type = tensor_extent(s->object, d)->type.dtype;
			V more = LLVMBuildMul(L->b, LLVMBuildSub(L->b, to_i64(L, s->extent[d], type), const_i64(L, 1), ""), s->stride[d], "");
			last = LLVMBuildAdd(L->b, last, more, "");
		}
	V end = LLVMBuildAdd(L->b, begin, LLVMBuildMul(L->b, LLVMBuildAdd(L->b, last, const_i64(L, 1), ""), bytes, ""), "");
	return (Extent){ begin, LLVMBuildSelect(L->b, LLVMBuildICmp(L->b, LLVMIntNE, begin, const_i64(L, 0), ""), end, begin, "") };
}

static V share_memory(Lower *L, Extent a, Extent b)
{
	return LLVMBuildAnd(L->b, LLVMBuildICmp(L->b, LLVMIntULT, a.begin, b.end, ""), LLVMBuildICmp(L->b, LLVMIntULT, b.begin, a.end, ""), "");
}

void watch_overlays(Lower *L)
{
	const Region *r = L->kernel->regions[0];
	int n = 0;
	if (!L->ops->checks)
		return;
	for (const Op *op = r->first; op; op = op->next)
		n += op->code == OP_TENSOR;
	Extent *written = ARENA_ARRAY(L->arena, Extent, n + 1);
	n = 0;
	for (const Op *out = r->first; out; out = out->next)
		if (out->code == OP_TENSOR && L->tensor_uses[out->result->id].written)
			written[n++] = extent_of(L, storage_of(L, out));
	for (const Op *in = r->first; n && in; in = in->next) {
		if (in->code != OP_TENSOR || storage_of(L, in)->exchanged)
			continue;
		Storage *s = storage_of(L, in);
		Extent e = extent_of(L, s);
		s->overlaid = share_memory(L, e, written[0]);
		for (int i = 1; i < n; i++)
			s->overlaid = LLVMBuildOr(L->b, s->overlaid, share_memory(L, e, written[i]), "");
	}
}

bool is_followed(const Lower *L, const Op *tensor)
{
	const Storage *s = storage_of(L, tensor);
	return s->exchanged || s->overlaid;
}

/* What follows is told of a tensor that is only read where it shares memory with one that is written. */
static Guard begin_telling(Lower *L, const Op *tensor)
{
	V overlaid = storage_of(L, tensor)->overlaid;
	return overlaid ? guard_begin(L, overlaid) : (Guard){ 0 };
}

static void end_telling(Lower *L, Guard g)
{
	if (g.before)
		guard_end(L, g);
}

static V place_list(Lower *L, const V *pointers, int n)
{
	V list = entry_alloca(L, LLVMArrayType2(L->ptr, (uint64_t)n), "places");
	for (int i = 0; i < n; i++)
		put(L, list, L->ptr, const_i32(L, i), pointers[i]);
	return list;
}

void watch_global(Lower *L, Watched how, const Op *tensor, const V *pointers, int count, V bytes)
{
	if (!count || !is_followed(L, tensor))
		return;
	Guard g = begin_telling(L, tensor);
	L->ops->global_access(L, how, tensor, place_list(L, pointers, count), const_i32(L, count), bytes);
	end_telling(L, g);
}

/* ---- where masks hold ---- */

/* Puts the places of n accesses with their masks into a list, one behind the other; how many they are. */
static V choose(Lower *L, V list, T type, const V *places, const V *masks, int n)
{
	V chosen = const_i32(L, 0);
	for (int i = 0; i < n; i++) {
		put(L, list, type, chosen, places[i]);
		chosen = LLVMBuildAdd(L->b, chosen, masks[i] ? LLVMBuildZExt(L->b, masks[i], L->i32, "") : const_i32(L, 1), "");
	}
	return chosen;
}

static void watch_chosen_shared(Lower *L, Watched how, const V *pointers, const V *masks, int n, V bytes)
{
	V offsets[MOST_TOLD], list = offset_list(L);
	for (int i = 0; i < n; i++)
		offsets[i] = offset_of(L, &(Place){ .base = pointers[i] });
	V chosen = choose(L, list, L->i32, offsets, masks, n);
	L->ops->shared_access(L, how, L->shared, list, chosen, bytes);
}

static void watch_chosen_global(Lower *L, Watched how, const Op *tensor, const V *pointers, const V *masks, int n, V bytes)
{
	Guard g = begin_telling(L, tensor);
	V list = entry_alloca(L, LLVMArrayType2(L->ptr, (uint64_t)n), "places"), chosen = choose(L, list, L->ptr, pointers, masks, n);
	L->ops->global_access(L, how, tensor, list, chosen, bytes);
	end_telling(L, g);
}

void watch_chosen(Lower *L, Watched how, const Op *object, const V *pointers, const V *masks, int count, V bytes)
{
	for (int i = 0, n; i < count; i += n) {
		n = count - i < MOST_TOLD ? count - i : MOST_TOLD;
		if (object->result->type.kind == TY_TENSOR)
			watch_chosen_global(L, how, object, pointers + i, masks + i, n, bytes);
		else
			watch_chosen_shared(L, how, pointers + i, masks + i, n, bytes);
	}
}

void watch_box(Lower *L, Watched how, const Op *tensor, V map, int rank, V *coord, V bar)
{
	if (!is_followed(L, tensor))
		return;
	Guard g = begin_telling(L, tensor);
	L->ops->global_box(L, how, tensor, map, rank, coord, bar);
	end_telling(L, g);
}

void watch_bulk(Lower *L, Watched how, const Op *tensor, V pointer, V bytes, V bar)
{
	if (!is_followed(L, tensor))
		return;
	Guard g = begin_telling(L, tensor);
	L->ops->global_bulk(L, how, tensor, pointer, bytes, bar);
	end_telling(L, g);
}
