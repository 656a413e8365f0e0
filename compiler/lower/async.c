/* async.c - TMA and bulk copies, mbarriers, named barriers, fences. */
#include "compiler/analysis/effects.h"
#include "compiler/lower/context.h"

#include <string.h>

static V first_thread(Lower *L) { return LLVMBuildICmp(L->b, LLVMIntEQ, L->team.thread, const_i32(L, 0), ""); }

/* All threads of a warp reach op: it, or another op of its region, needs them. */
static bool reached_together(const Op *op)
{
	for (const Op *o = op->parent->first; o; o = o->next) {
		Doing d = op_doing(o);
		if (d.doer != EACH_THREAD && d.what)
			return true;
	}
	return false;
}

/* Who issues is elected, and in `once` it has been: ptxas, which knows then that it is one thread, has no loop over those that it may be.  Once a
 * region (control.c), and always the same thread, which waits for its own copies. */
V issuing_thread(Lower *L, const Op *op)
{
	bool alone = tir_enclosing(op, OP_ONCE);
	if (L->team.warps > 1 || (!alone && !reached_together(op)))
		return first_thread(L);
	if (alone)
		return LLVMConstInt(L->i1, 1, 0);
	if (!L->team.elected)
		L->team.elected = L->ops->one_lane(L);
	return L->team.elected;
}

/* It stops a warp with all its threads, also one that is still in a `once` which the others have left behind: ptxas lets them run ahead to it. */
static void lower_grid_wait(Lower *L, const Op *op)
{
	if (L->team.apart && !tir_enclosing(op, OP_ONCE))
		L->ops->syncwarp(L);
	L->ops->grid_wait(L);
}

static V to_i32(Lower *L, const Value *v) { return convert(L, value_of(L, v), v->type.dtype, DT_I32); }

/* On the CPU device number i of a barrier is below n, unless it is known to be: another barrier would be next to it. */
static void check_number(Lower *L, const Value *known_by, const Op *bar, V i, int64_t n, const char *what)
{
	int64_t known;
	if (!L->ops->checks || value_const_int(known_by, &known))
		return;
	Guard g = guard_begin(L, LLVMBuildICmp(L->b, LLVMIntUGE, i, const_i32(L, n), ""));
	L->ops->fail_outside(L, arena_printf(L->arena, "the %s of barrier '%s'", what, attr_text(bar, AT_NAME, "?")), i, n);
	guard_end(L, g);
}

static V element_number(Lower *L, const Value *picked)
{
	const Op *pick = picked->def, *array = barrier_of(picked);
	V i = to_i32(L, operand(pick, ARG_INDEX));
	check_number(L, operand(pick, ARG_INDEX), array, i, attr_int(array, AT_ARRAY, 1), "index");
	return i;
}

/* Slot and parity of ring use j: j % n and j / n & 1. */
static V slot_of(Lower *L, const Op *bar, V use)
{
	int n = (int)attr_int(bar, AT_RING, 0);
	if (!n)
		return use;
	return n == 1 ? const_i32(L, 0) : LLVMBuildURem(L->b, use, const_i32(L, n), "");
}

static int64_t slots_of_each(const Op *bar) { return attr_int(bar, AT_SLOTS, 1) / attr_int(bar, AT_ARRAY, 1); }

/* The address of a slot, or of that slot of a picked element. */
static V slot_address(Lower *L, const Value *v, V slot)
{
	const Op *bar = barrier_of(v);
	if (v->def != bar)
		slot = build_add(L, build_mul_const(L, element_number(L, v), slots_of_each(bar)), slot);
	return barrier_address(L, bar, slot);
}

static void check_use(Lower *L, const Op *bar, const Value *use) { check_number(L, use, bar, to_i32(L, use), (int64_t)INT32_MAX + 1, "use"); }

/* Of a use number, or a slot (carry_slots).  A use before the first may only be waited for. */
static V use_address(Lower *L, const Op *op, const Value *v, const Value *use)
{
	V n = to_i32(L, use);
	const Op *bar = barrier_of(v);
	if (!attr_int(bar, AT_RING, 0))
		check_number(L, use, bar, n, slots_of_each(bar), "slot");
	else if (!attr_int(op, AT_SLOT, 0))
		check_use(L, bar, use);
	return slot_address(L, v, attr_int(op, AT_SLOT, 0) ? n : slot_of(L, barrier_of(v), n));
}

static V parity_of(Lower *L, const Op *bar, V use)
{
	int n = (int)attr_int(bar, AT_RING, 1);
	V turn = n == 1 ? use : LLVMBuildUDiv(L->b, use, const_i32(L, n), "");
	return LLVMBuildAnd(L->b, turn, const_i32(L, 1), "");
}

void team_sync(Lower *L)
{
	if (L->team.warps == 1)
		L->ops->syncwarp(L);
	else
		L->ops->bar_sync(L, L->team.sync_id ? L->team.sync_id : const_i32(L, 0), (unsigned)(32 * L->team.warps), NULL);
}

void lower_vote(Lower *L, const Op *op)
{
	bool warp = attr_int(op, AT_WARP_SCOPE, 0) || L->team.warps == 1, all = strcmp(attr_text(op, AT_KIND, ""), "all") == 0;
	V id = warp ? NULL : L->team.sync_id ? L->team.sync_id : const_i32(L, 0);
	L->value[op->result->id] = L->ops->vote(L, value_of(L, operand(op, ARG_CONDITION)), all, id, (unsigned)(32 * L->team.warps));
}

static void lower_arrive(Lower *L, const Op *op)
{
	V at = use_address(L, op, operand(op, ARG_BARRIER), operand(op, ARG_USE));
	int64_t bytes = attr_int(op, AT_BYTES, 0);
	bool alone = tir_enclosing(op, OP_ONCE), announces = bytes > 0 && L->team.warps > 1; /* by the first thread */
	if (!alone)
		L->ops->syncwarp(L);
	V lane0 = alone || announces ? LLVMBuildICmp(L->b, LLVMIntEQ, L->team.lane, const_i32(L, 0), "") : NULL;
	Guard g = guard_begin(L, L->team.warps == 1 ? issuing_thread(L, op) : lane0 ? lane0 : L->ops->one_lane(L));
	if (operand(op, ARG_RANK)) {
		L->ops->mbar_arrive_at(L, at, to_i32(L, operand(op, ARG_RANK)));
	} else if (announces) {
		V b = LLVMBuildSelect(L->b, first_thread(L), const_i32(L, bytes), const_i32(L, 0), "");
		L->ops->mbar_arrive(L, at, b);
	} else {
		L->ops->mbar_arrive(L, at, bytes > 0 ? const_i32(L, bytes) : NULL);
	}
	guard_end(L, g);
}

static void lower_wait(Lower *L, const Op *op)
{
	const Op *bar = barrier_of(operand(op, ARG_BARRIER));
	V use = to_i32(L, operand(op, ARG_USE));
	V at = slot_address(L, operand(op, ARG_BARRIER), slot_of(L, bar, use)), parity = parity_of(L, bar, use);
	int64_t c;
	bool known = value_const_int(operand(op, ARG_USE), &c);
	if (known && c < 0)
		return;
	bool maybe = !known && !attr_int(op, AT_NONNEG, 0);
	Guard g = { 0 };
	if (maybe)
		g = guard_begin(L, LLVMBuildICmp(L->b, LLVMIntSGE, use, const_i32(L, 0), ""));
	L->ops->mbar_wait(L, at, parity);
	if (maybe)
		guard_end(L, g);
}

/* ---- TMA ---- */

static V view_address(Lower *L, const TileRef *r, int extra_col)
{
	V index[TIR_MAX_RANK];
	check_view(L, r);
	view_origin(L, r, index);
	if (extra_col)
		index[r->object_rank - 1] = build_add(L, index[r->object_rank - 1], const_i32(L, extra_col));
	return box_address(L, r->object, index);
}

static V either_of(Lower *L, LLVMIntPredicate p, V a, V b) { return LLVMBuildSelect(L->b, LLVMBuildICmp(L->b, p, a, b, ""), a, b, ""); }

/* Above the tensor a box is cut by the tensor's begin, which only coordinates without a limit say. */
static void refuse_both_cut(Lower *L, const TileRef *g, V above, V start, V end, V extent)
{
	V after = either_of(L, LLVMIntSLT, build_add(L, start, const_i32(L, g->dims[first_slice(g)])), extent);
	Guard both = guard_begin(L, LLVMBuildAnd(L->b, above, LLVMBuildICmp(L->b, LLVMIntSLT, end, after, ""), ""));
	L->ops->fail(L, arena_printf(L->arena, "a box of '%s' begins before the tensor, at a negative index, and is cut by the limit as well",
		attr_text(g->object, AT_NAME, "?")));
	guard_end(L, both);
}

/* The map's last dimension is the limited one once more, and the map begins one tensor less a row below the tensor: with coordinates
 * row - end + extent and end - 1, rows from `end` on are outside of the first.  Where there are none, the second one is behind its
 * dimension, not before it: stores have no negative coordinates. */
static void limit_coords(Lower *L, const TileRef *g, const Value *limit, bool stores, V *row, V *last)
{
	V zero = const_i32(L, 0), extent = to_i32(L, tensor_extent(g->object, first_slice(g))), start = *row;
	V end = either_of(L, LLVMIntSGT, either_of(L, LLVMIntSLT, to_i32(L, limit), extent), zero);
	V above = LLVMBuildICmp(L->b, LLVMIntSLT, start, zero, "");
	if (L->ops->checks)
		refuse_both_cut(L, g, above, start, end, extent);
	end = LLVMBuildSelect(L->b, above, extent, end, "");
	*row = build_add(L, start, LLVMBuildSub(L->b, extent, end, ""));
	*last = LLVMBuildSub(L->b, end, const_i32(L, 1), "");
	if (stores)
		*last = either_of(L, LLVMIntULT, *last, extent);
}

/* Coordinates have 32 bits; what lies beyond is as far outside of the tensor: columns at a multiple of what they begin at, rows right behind the
 * last, for a limit moves them further. */
static V coordinate(Lower *L, const TileRef *g, int d)
{
	const Value *start = g->start[d];
	DType type = start->type.dtype;
	if (dtype_bits(type) < 32 || type == DT_I32)
		return to_i32(L, start);
	V v = value_of(L, start);
	T t = LLVMTypeOf(v);
	V least = LLVMConstInt(t, (uint64_t)INT32_MIN, 1), most = LLVMConstInt(t, INT32_MAX & ~127, 0);
	if (d < g->object_rank - 1)
		most = convert(L, to_i32(L, tensor_extent(g->object, d)), DT_I32, type);
	if (dtype_is_signed(type))
		v = intrinsic(L, "llvm.smax", &t, 1, (V[]){ v, least }, 2);
	v = intrinsic(L, dtype_is_signed(type) ? "llvm.smin" : "llvm.umin", &t, 1, (V[]){ v, most }, 2);
	return convert(L, v, type, DT_I32);
}

static int tma_coords(Lower *L, const Op *op, const TensorMap *m, const TileRef *g, int col, V *coord)
{
	int n = 0;
	for (int d = g->object_rank - 1; d >= 0; d--)
		coord[n++] = g->start[d] ? coordinate(L, g, d) : const_i32(L, 0);
	if (col)
		coord[0] = build_add(L, coord[0], const_i32(L, col));
	if (m->panels)
		coord[n++] = const_i32(L, 0);
	if (m->limited)
		limit_coords(L, g, operand(op, ARG_LIMIT), op->code == OP_TMA_STORE, &coord[m->limited], &coord[n++]);
	return n;
}

/* Whether a box of this map has something inside the tensor and below the limit.  Dimensions of one row or column are indexes, which lie in it. */
static V box_inside(Lower *L, const TensorMap *m, V *coord)
{
	V in = LLVMConstInt(L->i1, 1, 0);
	for (int d = 0; d < m->rank; d++) {
		const TensorMapDim *k = &m->dim[d];
		if (k->box == 1 || LLVMIsNull(coord[d]))
			continue;
		V extent = k->extent ? to_i32(L, k->extent) : const_i32(L, k->extent_const), before = const_i32(L, (int64_t)k->box - 1);
		in = LLVMBuildAnd(L->b, in, LLVMBuildICmp(L->b, LLVMIntULT, build_add(L, coord[d], before), build_add(L, extent, before), ""), "");
	}
	return in;
}

/* plan_tensor_maps.c says why. */
static V map_of_box(Lower *L, const Op *op, V *coord)
{
	int k = (int)attr_int(op, AT_MAP, 0), outside = (int)attr_int(op, AT_OUTSIDE, 0);
	V map = L->map_pointer[k];
	return outside ? LLVMBuildSelect(L->b, box_inside(L, &L->maps.map[k], coord), map, L->map_pointer[outside], "") : map;
}

typedef void (*EachBox)(Lower *L, const Op *op, V map, int rank, V shared, V *coord, V bar);

static void load_box(Lower *L, const Op *op, V map, int rank, V shared, V *coord, V bar)
{
	unsigned all = (1u << attr_int(L->kernel, AT_CLUSTER, 1)) - 1;
	watch_box(L, WATCHED_READ, tile_ref(operand(op, ARG_SOURCE)).object, map, rank, coord, bar);
	L->ops->tma_load(L, map, rank, shared, bar, coord, attr_int(op, AT_MULTICAST, 0) ? all : 0);
}

static void store_box(Lower *L, const Op *op, V map, int rank, V shared, V *coord, V bar)
{
	bool add = attr_get(op, AT_REDUCE);
	watch_box(L, add ? WATCHED_ATOMIC : WATCHED_WRITTEN, tile_ref(operand(op, ARG_TARGET)).object, map, rank, coord, bar);
	L->ops->tma_store(L, map, rank, shared, coord, add);
}

/* One instruction, or one per column panel where a single box cannot cover them. */
static void each_box(Lower *L, const Op *op, const TileRef *g, const TileRef *s, V bar, EachBox emit)
{
	if (attr_int(op, AT_MAP, L->maps.n) >= L->maps.n || attr_int(op, AT_OUTSIDE, 0) >= L->maps.n) {
		lower_missing(L, op); /* not planned */
		return;
	}
	const TensorMap *m = &L->maps.map[attr_int(op, AT_MAP, 0)];
	int cols = (int)box_columns(g), step = m->panels ? cols : (int)m->dim[0].box;
	check_presence(L, g->object);
	for (int c = 0; c < cols; c += step) {
		V coord[6];
		int rank = tma_coords(L, op, m, g, c, coord);
		emit(L, op, map_of_box(L, op, coord), rank, view_address(L, s, c), coord, bar);
	}
}

static void lower_tma_load(Lower *L, const Op *op)
{
	TileRef g = tile_ref(operand(op, ARG_SOURCE)), s = tile_ref(operand(op, ARG_TARGET));
	V at = use_address(L, op, operand(op, ARG_BARRIER), operand(op, ARG_USE));
	int64_t bytes = attr_int(op, AT_BYTES, 0);
	if (bytes == 0) {
		bytes = dtype_bytes(s.dtype);
		for (int i = 0; i < s.rank; i++)
			bytes *= s.shape[i];
	}
	Guard one = guard_begin(L, issuing_thread(L, op));
	if (attr_int(op, AT_EXPECT, 1))
		L->ops->mbar_expect(L, at, const_i32(L, bytes));
	each_box(L, op, &g, &s, at, load_box);
	guard_end(L, one);
}

static void lower_tma_store(Lower *L, const Op *op)
{
	TileRef s = tile_ref(operand(op, ARG_SOURCE)), g = tile_ref(operand(op, ARG_TARGET));
	Guard one = guard_begin(L, issuing_thread(L, op));
	each_box(L, op, &g, &s, NULL, store_box);
	L->ops->bulk_commit(L);
	guard_end(L, one);
}

static V global_view_address(Lower *L, const TileRef *g)
{
	V index[TIR_MAX_RANK];
	DType types[TIR_MAX_RANK];
	check_view(L, g);
	view_origin(L, g, index);
	for (int d = 0; d < g->object_rank; d++)
		types[d] = g->start[d] ? DT_I64 : DT_I32;
	return global_address(L, g->object, index, types);
}

static void lower_bulk(Lower *L, const Op *op)
{
	bool load = op->code == OP_BULK_LOAD;
	TileRef g = tile_ref(operand(op, load ? ARG_SOURCE : ARG_TARGET)), s = tile_ref(operand(op, load ? ARG_TARGET : ARG_SOURCE));
	int64_t bytes = dtype_bytes(s.dtype);
	for (int i = 0; i < s.rank; i++)
		bytes *= s.shape[i];
	V shared = view_address(L, &s, 0), global = global_view_address(L, &g), n = const_i32(L, bytes);
	V at = NULL;
	if (load)
		at = use_address(L, op, operand(op, ARG_BARRIER), operand(op, ARG_USE));
	Guard one = guard_begin(L, issuing_thread(L, op));
	if (load) {
		if (attr_int(op, AT_EXPECT, 1))
			L->ops->mbar_expect(L, at, n);
		watch_bulk(L, WATCHED_READ, g.object, global, n, at);
		L->ops->bulk_load(L, shared, global, n, at);
	} else {
		watch_bulk(L, WATCHED_WRITTEN, g.object, global, n, NULL);
		L->ops->bulk_store(L, global, shared, n);
		L->ops->bulk_commit(L);
	}
	guard_end(L, one);
}

/* ---- named barriers ---- */

static void lower_sync(Lower *L, const Op *op)
{
	if (!operand(op, ARG_BARRIER)) {
		team_sync(L);
		return;
	}
	const Op *bar = barrier_of(operand(op, ARG_BARRIER));
	V id = const_i32(L, attr_int(bar, AT_ID, 1));
	if (operand(op, ARG_BARRIER)->def != bar)
		id = build_add(L, id, element_number(L, operand(op, ARG_BARRIER)));
	unsigned threads = (unsigned)attr_int(bar, AT_THREADS, 0);
	op->code == OP_SYNC ? L->ops->bar_sync(L, id, threads, bar) : L->ops->bar_arrive(L, id, threads, bar);
}

void lower_async(Lower *L, const Op *op)
{
	switch (op->code) {
	case OP_ARRIVE: lower_arrive(L, op); break;
	case OP_WAIT: lower_wait(L, op); break;
	case OP_WAIT_PARITY: {
		const Op *bar = barrier_of(operand(op, ARG_BARRIER));
		V slot = to_i32(L, operand(op, ARG_SLOT));
		check_number(L, operand(op, ARG_SLOT), bar, slot, slots_of_each(bar), "slot");
		V at = slot_address(L, operand(op, ARG_BARRIER), slot);
		L->ops->mbar_wait(L, at, to_i32(L, operand(op, ARG_PARITY)));
		break;
	}
	case OP_CHECK_USE: check_use(L, barrier_of(operand(op, ARG_BARRIER)), operand(op, ARG_USE)); break;
	case OP_TMA_LOAD: lower_tma_load(L, op); break;
	case OP_TMA_STORE: lower_tma_store(L, op); break;
	case OP_BULK_LOAD: case OP_BULK_STORE: lower_bulk(L, op); break;
	case OP_STORE_WAIT: {
		Guard one = guard_begin(L, issuing_thread(L, op));
		L->ops->bulk_wait(L, (int)attr_int(op, AT_N, 0), attr_int(op, AT_READ, 0));
		guard_end(L, one);
		break;
	}
	case OP_SYNC: case OP_SYNC_ARRIVE: lower_sync(L, op); break;
	case OP_SYNC_WARP: L->ops->syncwarp(L); break;
	case OP_FENCE_ASYNC: L->ops->fence_async(L); break;
	case OP_FENCE_ASYNC_GLOBAL: L->ops->fence_async_global(L); break;
	case OP_FENCE_DEVICE: L->ops->fence_device(L); break;
	case OP_UNFENCED: break;
	case OP_CP_ASYNC_COMMIT: L->ops->cp_async_commit(L); break;
	case OP_CP_ASYNC_WAIT: L->ops->cp_async_wait(L, (int)attr_int(op, AT_N, 0)); break;
	case OP_GRID_WAIT: lower_grid_wait(L, op); break;
	case OP_GRID_LAUNCH: L->ops->grid_launch(L); break;
	case OP_CLUSTER_SYNC: L->ops->cluster_sync(L); break;
	default: lower_missing(L, op); break;
	}
}
