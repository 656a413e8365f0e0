/* infer_layouts.c - gives every fragment, element loop and shared tile its layout.
 *
 * Needs: elaborated TIR.  Establishes: {layout} on every frag, parallel and
 * shared op.  Rules, to a fixpoint: products and `.warp` fix `mma`; a copy between whole
 * fragments and an element loop carry a layout from one fragment to the
 * others; reductions give rows(...) or cols(...), or spread of them; what is still open becomes
 * blocked, one op at a time: two dimensions before one, which may be the rows or columns of them.
 * The lowering checks that each access matches.
 */
#include "compiler/analysis/bits.h"
#include "compiler/analysis/index.h"
#include "compiler/analysis/layout.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/shared_orders.h"

typedef struct Infer {
	Tir *t;
	bool changed, failed;
	Op *open; /* the next frag or loop to be blocked: the first without a layout, of two dimensions if there is one */
	bool *written; /* by id: the source gives the layout */
	bool *async;   /* by id of shared tiles: TMA or a product touches it by rows */
	const Op **giver; /* by id of fragments: of what its layout comes; NULL: of its declaration */
} Infer;

static int warps_of(const Op *op)
{
	return attr_int(op, AT_WARP_SCOPE, 0) ? 1 : team_warps(tir_team(op));
}

static bool note_written(Op *op, void *user)
{
	Infer *in = user;
	if (op->code == OP_FRAG || op->code == OP_SHARED)
		in->written[op->result->id] = attr_layout(op) != NULL;
	return true;
}

static bool is_written(const Infer *in, const Op *op) { return op->code == OP_FRAG && in->written[op->result->id]; }

/* Sets a layout, or reports that the op already has another. */
static void give(Infer *in, Op *op, const Form *form, const Op *because)
{
	const Form *have = attr_layout(op);
	if (have) {
		if (!form_equal(have, form) && op->code == OP_FRAG && !in->failed) {
			in->failed = true;
			tir_error(in->t, because, E_LAYOUT_CONFLICT,
			           "'%s' has layout %s here but layout %s elsewhere", attr_text(op, AT_NAME, "fragment"),
				form_text(in->t->arena, form), form_text(in->t->arena, have));
			if (in->giver[op->result->id])
				diag_note(in->t->diags, in->giver[op->result->id]->loc, "layout %s comes from here", form_text(in->t->arena, have));
			diag_note(in->t->diags, op->loc, "'%s' is declared here", attr_text(op, AT_NAME, "fragment"));
			if (is_written(in, op))
				diag_help(in->t->diags, "leave the layout out of its declaration: it is inferred");
			else if (mma_columns(form) && mma_columns(have))
				diag_help(in->t->diags, "a product's left operand of 8 bits is made by 'weave', or copied from a shared tile");
			else
				diag_help(in->t->diags, "copy it to a second fragment through a shared tile");
		}
		return;
	}
	attr_set_layout(in->t, op, form);
	if (op->code == OP_FRAG)
		in->giver[op->result->id] = because;
	in->changed = true;
}

static bool whole(const TileRef *r)
{
	for (int i = 0; i < r->object_rank; i++)
		if (r->dims[i] != 0)
			return false;
	return !r->trans;
}

static void fix_mma(Infer *in, Op *op)
{
	for (int i = 0; i < 3; i++) {
		TileRef r = tile_ref(op->args[i]);
		if (r.space == TY_FRAG)
			give(in, r.object, i == 1 && dtype_bits(r.dtype) == 8 ? &form_mma8 : &form_mma, op);
	}
}

static void fix_weave(Infer *in, Op *op)
{
	give(in, tile_ref(operand(op, ARG_SOURCE)).object, &form_mma, op);
	give(in, tile_ref(operand(op, ARG_TARGET)).object, &form_mma8, op);
}

static void through_copy(Infer *in, Op *op)
{
	TileRef s = tile_ref(operand(op, ARG_SOURCE)), d = tile_ref(operand(op, ARG_TARGET));
	if (s.space != TY_FRAG || d.space != TY_FRAG || s.trans || d.trans)
		return;
	const Form *ls = attr_layout(s.object), *ld = attr_layout(d.object);
	bool carry = (whole(&s) && whole(&d)) || mma_columns(ls) || mma_columns(ld);
	if (!carry)
		return;
	if (ls && !ld)
		give(in, d.object, ls, op);
	else if (ld && !ls)
		give(in, s.object, ld, op);
}

static void through_reduce(Infer *in, Op *op)
{
	TileRef s = tile_ref(operand(op, ARG_SOURCE)), d = tile_ref(operand(op, ARG_TARGET));
	const Form *ls = attr_layout(s.object);
	if (!ls)
		return;
	const Form *part = form_part(in->t->arena, attr_int(op, AT_AXIS, 0) == 1 ? FORM_ROWS : FORM_COLS, ls, (int)s.shape[0], (int)s.shape[1]);
	give(in, d.object, attr_int(d.object, AT_SPREAD, 0) ? form_spread(in->t->arena, part) : part, op);
}

/* How a load or store in a loop touches a fragment: the loop argument of each dimension, offsets. */
typedef struct FragAccess {
	Op *frag;
	int rank;
	int arg[2];
	bool plain; /* every index is an argument or a constant, at most plus a constant */
	bool at_zero;
} FragAccess;

static bool frag_access(const Op *loop, const Op *op, FragAccess *out)
{
	if (op->code != OP_LOAD && op->code != OP_STORE)
		return false;
	TileRef r = tile_ref(operand(op, ARG_OBJECT));
	if (r.space != TY_FRAG)
		return false;
	*out = (FragAccess){ .frag = r.object, .rank = r.object_rank, .plain = true, .at_zero = true };
	for (int d = 0; d < r.object_rank && d < 2; d++) {
		LoopIndex x = loop_index(loop->regions[0], access_index(op, d));
		out->plain &= x.known;
		out->arg[d] = x.known ? x.arg : -1;
		out->at_zero &= x.known && x.offset == 0;
	}
	return true;
}

static bool straight(const FragAccess *f, int loop_rank)
{
	return f->plain && f->rank == loop_rank && f->arg[0] == 0 && (loop_rank == 1 || f->arg[1] == 1);
}

static void through_loop(Infer *in, Op *loop)
{
	const Attr *ext = attr_get(loop, AT_EXTENTS);
	int rank = loop->regions[0]->nargs;
	const Form *have = attr_layout(loop);
	for (Op *op = loop->regions[0]->first; op; op = op->next) {
		FragAccess f;
		if (!frag_access(loop, op, &f))
			continue;
		if (attr_int(f.frag, AT_WARP_SCOPE, 0) || attr_int(op, AT_WARP_SCOPE, 0))
			attr_set_int(in->t, loop, AT_WARP_SCOPE, 1);
		const Form *lf = attr_layout(f.frag);
		if (!have && lf && straight(&f, rank)) {
			give(in, loop, lf, op);
			have = attr_layout(loop);
		}
		if (!have || lf || !f.plain)
			continue;
		if (straight(&f, rank) && (f.at_zero || mma_columns(have)))
			give(in, f.frag, have, op);
		else if (rank == 2 && f.rank == 1 && f.arg[0] >= 0)
			give(in, f.frag, form_part(in->t->arena, f.arg[0] == 0 ? FORM_ROWS : FORM_COLS, have, (int)ext->list[0], (int)ext->list[1]), op);
	}
}

/* f.warp: this warp's 16 rows are one piece only in the layout of products. */
static void through_view(Infer *in, Op *op)
{
	TileRef r = tile_ref(op->result);
	if (r.space == TY_FRAG && attr_int(op, AT_WARP_SCOPE, 0) && !attr_int(r.object, AT_WARP_SCOPE, 0))
		give(in, r.object, &form_mma, op);
}

static bool visit(Op *op, void *user)
{
	Infer *in = user;
	switch (op->code) {
	case OP_VIEW: through_view(in, op); break;
	case OP_MMA: fix_mma(in, op); break;
	case OP_WEAVE: fix_weave(in, op); break;
	case OP_COPY: through_copy(in, op); break;
	case OP_REDUCE: through_reduce(in, op); break;
	case OP_PARALLEL: through_loop(in, op); break;
	default: break;
	}
	if (op->code == OP_FRAG && !attr_layout(op) && (!in->open || in->open->result->type.rank < op->result->type.rank))
		in->open = op;
	return true;
}

/* A loop of two dimensions over memory, whose one-dimensional fragments have its rows or columns. */
static bool find_line_loop(Op *op, void *user)
{
	Infer *in = user;
	if (op->code != OP_PARALLEL || attr_layout(op) || op->regions[0]->nargs != 2)
		return true;
	for (const Op *access = op->regions[0]->first; access; access = access->next) {
		FragAccess f;
		if (in->open->code == OP_FRAG && frag_access(op, access, &f) && !attr_layout(f.frag))
			in->open = op;
	}
	return true;
}

/* Other loops whose fragments are still open come after the fragments. */
static bool find_open_loop(Op *op, void *user)
{
	Infer *in = user;
	if (op->code == OP_PARALLEL && !attr_layout(op) && !in->open)
		in->open = op;
	return true;
}

static int clamp_width(int width, int64_t elements, int threads)
{
	while (width > 1 && elements / width < threads)
		width /= 2;
	return width;
}

static const Form *default_frag_layout(Infer *in, const Op *frag)
{
	const Type *t = &frag->result->type;
	int threads = 32 * warps_of(frag);
	if (t->rank == 1) {
		int64_t n = t->shape[0] / threads;
		return form_blocked_line(in->t->arena, n > 1 ? (int)n : 1);
	}
	int width = clamp_width(16 / (int)dtype_bytes(t->dtype), t->shape[0] * t->shape[1], threads);
	while (t->shape[1] % width != 0)
		width /= 2;
	return form_blocked(in->t->arena, 1, width);
}

/* The widest vector (in elements, at most 16 bytes) that one access allows along the loop's last argument. */
static int access_width(const Op *loop, const Op *op)
{
	if (op->code != OP_LOAD && op->code != OP_STORE)
		return 16;
	TileRef r = tile_ref(operand(op, ARG_OBJECT));
	if (r.space != TY_SHARED && r.space != TY_TENSOR)
		return 16;
	const Region *body = loop->regions[0];
	int last = body->nargs - 1;
	if (r.object_rank == 0)
		return 16;
	bool uniform = true;
	for (int d = 0; d < r.object_rank; d++)
		uniform &= !depends_on_arg(body, access_index(op, d), last);
	if (uniform)
		return 16;
	for (int d = 0; d + 1 < r.object_rank; d++)
		if (depends_on_arg(body, access_index(op, d), last))
			return 1;
	if (!unit_in_arg(body, access_index(op, r.object_rank - 1), last))
		return 1;
	int w = 16 / (int)dtype_bytes(r.dtype);
	int64_t div = value_divisor(body, access_index(op, r.object_rank - 1), last);
	while (w > 1 && div % w != 0)
		w /= 2;
	return w;
}

static const Form *default_loop_layout(Infer *in, const Op *loop)
{
	const Attr *ext = attr_get(loop, AT_EXTENTS);
	int rank = loop->regions[0]->nargs, width = 16, threads = 32 * warps_of(loop);
	int64_t n = rank == 2 ? ext->list[0] * ext->list[1] : ext->list[0];
	for (const Op *op = loop->regions[0]->first; op; op = op->next) {
		int w = access_width(loop, op);
		width = w < width ? w : width;
	}
	width = clamp_width(width, n, threads);
	while (ext->list[rank - 1] % width != 0)
		width /= 2;
	return rank == 2 ? form_blocked(in->t->arena, 1, width) : form_blocked_line(in->t->arena, width);
}

/* A fragment is spread over the team that it is declared in. */
static bool check_team(Op *op, void *user)
{
	Infer *in = user;
	const Op *team = tir_team(op);
	for (int i = 0; i < op->nargs && !in->failed; i++) {
		TypeKind kind = op->args[i]->type.kind;
		if (kind != TY_FRAG && kind != TY_VIEW_FRAG)
			continue;
		const Op *frag = tile_ref(op->args[i]).object, *own = tir_team(frag);
		if (attr_int(frag, AT_WARP_SCOPE, 0) || team_warps(own) == team_warps(team))
			continue;
		tir_error(in->t, op, E_ROLE, "'%s' is spread over the %d warps of kernel '%s', role '%s' has %d", object_name(frag), team_warps(own),
			attr_text(own, AT_NAME, "?"), attr_text(team, AT_NAME, "?"), team_warps(team));
		diag_note(in->t->diags, frag->loc, "'%s' is declared here", object_name(frag));
		diag_help(in->t->diags, "declare it in the role");
		in->failed = true;
	}
	return true;
}

static void infer_kernel(Infer *in, Op *kernel)
{
	for (;;) {
		do {
			in->changed = false;
			in->open = NULL;
			tir_walk(kernel->regions[0], visit, in);
		} while (in->changed && !in->failed);
		if (in->failed)
			return;
		if (!in->open)
			tir_walk(kernel->regions[0], find_open_loop, in);
		else if (in->open->result->type.rank == 1)
			tir_walk(kernel->regions[0], find_line_loop, in);
		if (!in->open)
			return;
		give(in, in->open, in->open->code == OP_FRAG ? default_frag_layout(in, in->open) : default_loop_layout(in, in->open), in->open);
	}
}

/* ---- shared tiles ---- */

static bool mark_async_tile(Op *op, void *user)
{
	Infer *in = user;
	Effect e[MAX_EFFECTS];
	bool bytes = op->code == OP_BULK_LOAD || op->code == OP_BULK_STORE; /* which have no rows */
	for (int i = 0, n = op_effects(op, e); !bytes && i < n; i++)
		if ((e[i].async || op->code == OP_MMA) && e[i].tile.space == TY_SHARED)
			in->async[e[i].tile.object->result->id] = true;
	return true;
}

static bool finish_shared(Op *op, void *user)
{
	Infer *in = user;
	if (op->code != OP_SHARED || attr_layout(op))
		return true;
	const Type *ty = &op->result->type;
	int64_t row = ty->shape[ty->rank - 1] * (int64_t)dtype_bytes(ty->dtype);
	int64_t rows = ty->rank - (attr_int(op, AT_RING, 0) > 0) >= 2 ? ty->shape[ty->rank - 2] : 0;
	bool swizzled = in->async[op->result->id] && rows > 0 && rows % 8 == 0;
	attr_set_layout(in->t, op, form_swizzle(!swizzled ? 0 : row % 128 == 0 ? 128 : row % 64 == 0 ? 64 : row % 32 == 0 ? 32 : 0));
	return true;
}

/* A swizzled tile is panels of whole rows of its width, one after the other; each begins where the pattern does, after 8 rows. */
static void check_swizzle(Infer *in, const Op *op)
{
	const Type *ty = &op->result->type;
	int tile = ty->rank - (attr_int(op, AT_RING, 0) > 0);
	int64_t width = swizzle_bytes(op), row = ty->shape[ty->rank - 1] * (int64_t)dtype_bytes(ty->dtype);
	if (!width)
		return;
	if (tile < 2) {
		tir_error(in->t, op, E_LAYOUT, "'%s' has layout swizzle%lld, but no rows to swizzle", object_name(op), (long long)width);
		in->failed = true;
	} else if (row % width != 0) {
		tir_error(in->t, op, E_LAYOUT, "'%s' has layout swizzle%lld, but rows of %lld bytes, no multiple of %lld", object_name(op),
			(long long)width, (long long)row, (long long)width);
		in->failed = true;
	} else if (ty->shape[ty->rank - 2] % 8 != 0 && (row > width || tile > 2)) {
		tir_error(in->t, op, E_LAYOUT, "'%s' has layout swizzle%lld and several %s of %lld rows, no multiple of 8", object_name(op),
			(long long)width, row > width ? "panels" : "planes", (long long)ty->shape[ty->rank - 2]);
		in->failed = true;
	}
}

/* ---- what only one of an element's copies does ---- */

static bool has_copies(const Layout *l)
{
	for (int b = 0; b < 5 + l->warp_bits; b++) {
		Coord k = b < 5 ? l->lane[b] : l->warp[b - 5];
		if (k.row == 0 && k.col == 0)
			return true;
	}
	return false;
}

static const Op *object_of(const Op *access)
{
	return operand(access, ARG_OBJECT)->def;
}

static bool writes(const Region *body, const Op *object)
{
	for (const Op *op = body->first; op; op = op->next)
		if ((op->code == OP_STORE || op->code == OP_ATOMIC) && object_of(op) == object && operand(op, ARG_OBJECT)->type.kind != TY_FRAG)
			return true;
	return false;
}

/* The access from which v has what one copy alone knows: an atomic's old value, or an element that the loop also writes.  asked: values without one. */
static const Op *private_source(const Region *body, const Value *v, Bits *asked)
{
	const Op *d = v->def;
	if (!d || d->parent != body || bits_has(asked, (int)v->id))
		return NULL;
	if (d->code == OP_ATOMIC || (d->code == OP_LOAD && writes(body, object_of(d))))
		return d;
	const Op *found = NULL;
	for (int i = 0; i < d->nargs && !found; i++)
		found = private_source(body, d->args[i], asked);
	if (!found)
		bits_add(asked, (int)v->id);
	return found;
}

/* Memory is written by one of an element's copies; fragments by all of them, which must agree. */
static void check_copies(Infer *in, const Op *loop, const Layout *l)
{
	const Region *body = loop->regions[0];
	if (!has_copies(l))
		return;
	Bits asked = bits_new(in->t->arena, (int)in->t->next_id);
	for (const Op *op = body->first; op; op = op->next) {
		if (op->code != OP_STORE || operand(op, ARG_OBJECT)->type.kind != TY_FRAG)
			continue;
		const Op *from = private_source(body, operand(op, ARG_VALUE), &asked);
		if (!from && access_mask(op))
			from = private_source(body, access_mask(op), &asked);
		if (!from)
			continue;
		tir_error(in->t, op, E_LAYOUT, "each element of '%s' has copies in several threads, and one of them alone writes '%s': the others cannot know what it read",
			object_name(object_of(op)), object_name(object_of(from)));
		diag_note(in->t->diags, from->loc, "'%s' is read here", object_name(object_of(from)));
		diag_help(in->t->diags, "read '%s' in one element loop and write it in another, with a sync between", object_name(object_of(from)));
		in->failed = true;
	}
}

/* An element of a fragment is stored by one of the loop, or with one value: a sum would be of a thread's own elements, and of those of a batch not even that. */
static void check_repeated(Infer *in, const Op *loop)
{
	const Region *body = loop->regions[0];
	const Attr *ext = attr_get(loop, AT_EXTENTS);
	for (const Op *op = body->first; op; op = op->next) {
		FragAccess f;
		if (op->code != OP_STORE || !frag_access(loop, op, &f))
			continue;
		const Value *v = operand(op, ARG_VALUE), *mask = access_mask(op);
		for (int arg = 0; arg < body->nargs; arg++) {
			bool indexed = f.arg[0] == arg || (f.rank > 1 && f.arg[1] == arg);
			bool differs = depends_on_arg(body, v, arg) || depends_on_tile(body, v, f.frag) || (mask && depends_on_arg(body, mask, arg));
			if (indexed || !differs || ext->list[arg] == 1)
				continue;
			tir_error(in->t, op, E_LAYOUT, "the loop's %lld elements along its %sindex all store the same one of '%s', in different threads and in no order",
				(long long)ext->list[arg], body->nargs == 1 ? "" : arg == 0 ? "first " : "second ", object_name(f.frag));
			diag_help(in->t->diags, "'reduce_sum', 'reduce_max' and 'reduce_min' make one element of a row's or a column's");
			in->failed = true;
		}
	}
}

/* A thread has 2 of each 8 columns, 4 of each 16: parts that begin or end elsewhere are in other threads than what they are copied with. */
static void check_part(Infer *in, const Op *op, const TileRef *r)
{
	int64_t first = 0;
	int block = r->space == TY_FRAG ? mma_columns(attr_layout(r->object)) : 0;
	if (!block || r->object_rank != 2 || r->dims[1] <= 0)
		return;
	value_const_int(r->start[1], &first);
	if (first % block == 0 && r->dims[1] % block == 0)
		return;
	tir_error(in->t, op, E_LAYOUT, "columns %lld to %lld of '%s', which has layout %s: parts of it are multiples of %d columns",
		(long long)first, (long long)(first + r->dims[1] - 1), object_name(r->object), layout_name(in->t, r->object), block);
	diag_help(in->t->diags, "stage it through a shared tile, or select the columns in an element loop");
	in->failed = true;
}

static void check_parts(Infer *in, const Op *op)
{
	for (int i = 0; i < 2; i++) {
		TileRef r = tile_ref(op->args[i]);
		check_part(in, op, &r);
	}
}

/* A layout that the author wrote, or one that was chosen for him. */
static void report_unfit(Infer *in, const Op *op, const int64_t shape[2], const char *why)
{
	in->failed = true;
	if (is_written(in, op))
		tir_error(in->t, op, E_LAYOUT, "layout %s does not fit: %s", layout_name(in->t, op), why);
	else if (op->code == OP_PARALLEL)
		tir_error(in->t, op, E_LAYOUT, "these extents cannot be spread over the threads: %s", why);
	else
		tir_error(in->t, op, E_LAYOUT, "the elements of '%s' cannot be spread over the threads: %s", object_name(op), why);
	int warps = warps_of(op);
	if (attr_layout(op)->kind != FORM_BLOCKED)
		return;
	if (warps & (warps - 1))
		diag_help(in->t->diags, "a team with element loops and with fragments that no product uses has 1, 2, 4, 8, 16 or 32 warps: put them into a role of so many");
	else if ((shape[0] & (shape[0] - 1)) || (shape[1] & (shape[1] - 1)))
		diag_help(in->t->diags, "extents of element loops and of fragments that no product uses are powers of two: use the next one, and 'if (i < n)'");
}

/* Every layout must exist for its shape. */
static bool check_layout(Op *op, void *user)
{
	Infer *in = user;
	const char *why = "";
	int64_t shape[2] = { 0, 0 };
	int rank;
	if (op->code == OP_FRAG) {
		rank = op->result->type.rank;
		for (int i = 0; i < rank && i < 2; i++)
			shape[i] = op->result->type.shape[i];
	} else if (op->code == OP_PARALLEL) {
		const Attr *ext = attr_get(op, AT_EXTENTS);
		rank = op->regions[0]->nargs;
		for (int i = 0; i < rank; i++)
			shape[i] = ext->list[i];
	} else {
		if (op->code == OP_SHARED)
			check_swizzle(in, op);
		if (op->code == OP_COPY)
			check_parts(in, op);
		return true;
	}
	const Layout *l = layout_of(in->t->arena, attr_layout(op), rank, shape, warps_of(op), &why);
	if (!l) {
		report_unfit(in, op, shape, why);
	} else if (op->code == OP_PARALLEL) {
		check_copies(in, op, l);
		check_repeated(in, op);
	}
	return true;
}

bool pass_infer_layouts(Tir *t)
{
	bool ok = true, *written = ARENA_ARRAY(t->arena, bool, t->next_id + 1), *async = ARENA_ARRAY(t->arena, bool, t->next_id + 1);
	const Op **giver = ARENA_ARRAY(t->arena, const Op *, t->next_id + 1);
	uint8_t *use = ARENA_ARRAY(t->arena, uint8_t, t->next_id + 1);
	for (Op *k = t->first; k; k = k->next) {
		Infer in = { .t = t, .written = written, .async = async, .giver = giver };
		tir_walk(k->regions[0], note_written, &in);
		tir_walk(k->regions[0], check_team, &in);
		tir_walk(k->regions[0], mark_async_tile, &in);
		tir_walk(k->regions[0], finish_shared, &in);
		if (!in.failed)
			infer_kernel(&in, k);
		if (!in.failed)
			tir_walk(k->regions[0], check_layout, &in);
		if (!in.failed)
			in.failed = !shared_orders_agree(t, k, written, use);
		ok &= !in.failed;
	}
	return ok;
}
