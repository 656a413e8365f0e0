/* liveness.c - which fragments are live where, backwards over the regions of a team. */
#include "compiler/liveness.h"

#include "compiler/index.h"
#include "compiler/layout.h"

enum { MAX_FRAGS = 256, WORDS = MAX_FRAGS / 64 };

typedef struct Set { uint64_t word[WORDS]; } Set;

typedef struct Liveness {
	Tir *t;
	const Op *team;
	int n;
	const Op *frag[MAX_FRAGS];
	int64_t registers[MAX_FRAGS];
	Pressure worst;
} Liveness;

int64_t fragment_registers(Tir *t, const Op *frag, const Op *team)
{
	const Type *ty = &frag->result->type;
	const char *why;
	int warps = attr_int(frag, "warp_scope", 0) ? 1 : team_warps(team);
	const Layout *l = layout_from_text(t->arena, attr_text(frag, "layout", "?"), ty->rank, ty->shape, warps, &why);
	bool packed = l && l->pairs && dtype_is_float(ty->dtype) && dtype_bits(ty->dtype) == 16;
	return !l ? 0 : packed ? l->nregs / 2 : l->nregs;
}

static bool collect(Op *op, void *user)
{
	Liveness *v = user;
	if (op->code == OP_FRAG && v->n < MAX_FRAGS) {
		v->registers[v->n] = fragment_registers(v->t, op, v->team);
		v->frag[v->n++] = op;
	}
	return op->code != OP_ROLE;
}

static int number_of(const Liveness *v, const Op *frag)
{
	for (int i = 0; i < v->n; i++)
		if (v->frag[i] == frag)
			return i;
	return -1;
}

static bool has(const Set *s, int i) { return s->word[i / 64] >> i % 64 & 1; }
static void add(Set *s, int i) { s->word[i / 64] |= (uint64_t)1 << i % 64; }
static void drop(Set *s, int i) { s->word[i / 64] &= ~((uint64_t)1 << i % 64); }

static void join(Set *s, const Set *other)
{
	for (int i = 0; i < WORDS; i++)
		s->word[i] |= other->word[i];
}

static void note(Liveness *v, const Set *live)
{
	int64_t sum = 0;
	for (int i = 0; i < v->n; i++)
		sum += has(live, i) ? v->registers[i] : 0;
	if (sum <= v->worst.registers)
		return;
	v->worst = (Pressure){ .registers = sum };
	Set left = *live;
	for (int k = 0; k < PRESSURE_LARGEST; k++) {
		int most = -1;
		for (int i = 0; i < v->n; i++)
			if (has(&left, i) && (most < 0 || v->registers[i] > v->registers[most]))
				most = i;
		if (most < 0)
			break;
		v->worst.largest[k] = v->frag[most];
		drop(&left, most);
	}
}

/* The operand that op writes without reading it, or -1. */
static int written_operand(const Op *op)
{
	switch (op->code) {
	case OP_FILL: return 0;
	case OP_COPY: case OP_REDUCE: return 1;
	case OP_STORE: return attr_int(op, "masked", 0) ? -1 : 1;
	case OP_MMA: return attr_int(op, "acc", 0) == 0 ? 0 : -1;
	default: return -1;
	}
}

/* Whether the elements of the store's loop are all of the fragment. */
static bool stores_all(const Op *store, const Op *frag)
{
	const Region *body = store->parent;
	const Type *ty = &frag->result->type;
	const Attr *extents = body->owner && body->owner->code == OP_PARALLEL ? attr_get(body->owner, "extents") : NULL;
	for (int d = 0; d < ty->rank; d++) {
		LoopIndex at = loop_index(body, store->args[2 + d]);
		if (!extents || !at.known || at.arg != d || at.offset != 0 || extents->list[d] != ty->shape[d])
			return false;
	}
	return true;
}

static bool writes_all(const Op *op, const TileRef *r)
{
	bool rows_of_warp = r->warp_scope && !attr_int(r->object, "warp_scope", 0);
	for (int d = 0; d < r->object_rank; d++)
		if (r->dims[d] != 0)
			return false;
	return !rows_of_warp && (op->code != OP_STORE || stores_all(op, r->object));
}

static void pass_op(Liveness *v, const Op *op, Set *live)
{
	int written = written_operand(op), which[2] = { -1, -1 };
	if (op->code == OP_VIEW)
		return;
	for (int read = 0; read < 2; read++) /* first what op writes, then what it reads */
		for (int i = 0; i < op->nargs; i++) {
			if (op->args[i]->type.kind < TY_TENSOR || (i != written) != read)
				continue;
			TileRef r = tile_ref(op->args[i]);
			which[read] = number_of(v, r.object);
			if (which[read] < 0)
				continue;
			if (read)
				add(live, which[1]);
			else if (writes_all(op, &r))
				drop(live, which[0]);
		}
}

static void pass_region(Liveness *v, const Region *r, Set *live);

static void pass_loop(Liveness *v, const Op *op, Set *live)
{
	for (int turn = 0; turn < 2; turn++) { /* the second with what the first needs */
		Set body = *live;
		if (op->code == OP_WHILE)
			pass_region(v, op->regions[1], &body);
		pass_region(v, op->regions[0], &body);
		join(live, &body);
	}
}

static void pass_region(Liveness *v, const Region *r, Set *live)
{
	for (const Op *op = r ? r->last : NULL; op; op = op->prev) {
		Set other = *live;
		switch (op->code) {
		case OP_ROLE: continue;
		case OP_FRAG:
			if (number_of(v, op) >= 0)
				drop(live, number_of(v, op));
			break;
		case OP_FOR: case OP_WHILE: pass_loop(v, op, live); break;
		case OP_IF:
			pass_region(v, op->regions[1], &other);
			pass_region(v, op->regions[0], live);
			join(live, &other);
			break;
		default:
			pass_region(v, op->regions[0], live);
			pass_op(v, op, live);
			break;
		}
		note(v, live);
	}
}

Pressure fragment_pressure(Tir *t, const Op *team)
{
	Liveness *v = ARENA_NEW(t->arena, Liveness);
	Set live = { { 0 } };
	v->t = t;
	v->team = team;
	tir_walk(team->regions[0], collect, v);
	pass_region(v, team->regions[0], &live);
	return v->worst;
}
