/* report_banks.c - bank conflicts: how often the lanes of an access of shared memory meet in one of its
 * banks, from layouts alone. */
#include "compiler/driver/report.h"

#include <string.h>

#include "compiler/analysis/index.h"
#include "compiler/analysis/layout.h"

enum { LANES = 32 };

typedef struct Banks {
	const Tir *t;
	const Machine *m;
	Buffer *out;
	int64_t *words; /* of one bank */
	int accesses, conflicts, unknown;
} Banks;

/* An access of an element loop: the index of each dimension. */
typedef struct Access { const Op *op, *object; LoopIndex index[TIR_MAX_RANK]; int rank; } Access;

static bool access_of(const Op *loop, const Op *op, Access *a)
{
	const Value *object =
		op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_ATOMIC ? operand(op, ARG_OBJECT) : NULL;
	if (!object || object->type.kind != TY_SHARED)
		return false;
	*a = (Access){ .op = op, .object = object->def, .rank = object->type.rank };
	const Region *body = loop->regions[0];
	for (int d = 0; d < a->rank; d++) {
		const Value *v = access_index(op, d);
		bool moves = depends_on_arg(body, v, 0) || (body->nargs > 1 && depends_on_arg(body, v, 1));
		a->index[d] = moves ? loop_index(body, v) : (LoopIndex){ .known = true, .arg = -1 };
	}
	return true;
}

static bool known(const Access *a)
{
	for (int d = 0; d < a->rank; d++)
		if (!a->index[d].known)
			return false;
	return true;
}

/* Bytes from the start of the tile, where what is the same for all lanes counts as 0. */
static int64_t address(const Access *a, int row, int col)
{
	const Type *ty = &a->object->result->type;
	int64_t at[TIR_MAX_RANK], elem = (int64_t)dtype_bytes(ty->dtype), w = swizzle_bytes(a->object), above = 0;
	for (int d = 0; d < a->rank; d++)
		at[d] = a->index[d].arg < 0 ? 0 : (a->index[d].arg == 0 ? row : col) + a->index[d].offset;
	if (!w || a->rank < 2) {
		for (int d = 0; d < a->rank; d++)
			above = above * ty->shape[d] + at[d];
		return above * elem;
	}
	for (int d = 0; d + 2 < a->rank; d++)
		above = above * ty->shape[d] + at[d];
	int64_t rows = panel_rows(a->object), cb = at[a->rank - 1] * elem, byte = at[a->rank - 2] * w + cb % w;
	byte ^= (byte >> 7 & (w / 16 - 1)) << 4;
	return above * rows * ty->shape[a->rank - 1] * elem + cb / w * rows * w + byte;
}

static Coord lane_of(const Layout *l, int lane)
{
	Coord c = l->reg[0];
	for (int b = 0; b < 5; b++)
		if (lane >> b & 1)
			c.row = (int16_t)(c.row + l->lane[b].row), c.col = (int16_t)(c.col + l->lane[b].col);
	return c;
}

/* Bytes that a lane moves in one access: registers that are neighbours in memory. */
static int width_of(const Machine *m, const Access *a, const Layout *l)
{
	int elem = (int)dtype_bytes(a->object->result->type.dtype), n = 1;
	int64_t base = address(a, l->reg[0].row, l->reg[0].col);
	while (n < l->nregs && (2 * n) * elem <= m->lane_bytes && n * 2 <= l->nregs) {
		bool all = true;
		for (int k = n; k < 2 * n; k++)
			all &= address(a, l->reg[k].row, l->reg[k].col) == base + k * elem;
		if (!all || base % (2 * n * elem))
			break;
		n *= 2;
	}
	return n * elem;
}

/* Turns that some lanes take: the most different words of one bank. */
static int turns_of(const Banks *x, const int64_t *at, int lanes, int width)
{
	int most = 0, step = x->m->bank_bytes;
	for (int bank = 0; bank < x->m->banks; bank++) {
		int n = 0;
		for (int i = 0; i < lanes; i++)
			for (int b = 0; b < width || b == 0; b += step) {
				int64_t word = (at[i] + b) / step;
				bool found = word % x->m->banks != bank;
				for (int k = 0; k < n; k++)
					found |= x->words[k] == word;
				if (!found)
					x->words[n++] = word;
			}
		most = n > most ? n : most;
	}
	return most;
}

/* 8 bytes a lane go by half warps, 16 by quarters. */
static void count_access(Banks *x, const Access *a, const Layout *l)
{
	int width = width_of(x->m, a, l), groups = width > 8 ? 4 : width > 4 ? 2 : 1, lanes = LANES / groups, turns = 0;
	int64_t at[LANES];
	for (int i = 0; i < LANES; i++) {
		Coord c = lane_of(l, i);
		at[i] = address(a, c.row, c.col);
	}
	for (int g = 0; g < groups; g++)
		turns += turns_of(x, at + g * lanes, lanes, width);
	x->accesses++;
	if (turns <= groups)
		return;
	x->conflicts++;
	buffer_put(x->out, "<tr><td class=n>%u</td><td><code>%s</code></td><td>%s</td><td class=n>%d</td><td class=n>%d</td><td class=n>%d</td></tr>\n", report_line(x->t, a->op),
		report_text(x->t->arena, attr_text(a->object, AT_NAME, "?")), op_info(a->op->code)->text, width, turns, groups);
}

static bool visit(Op *op, void *user)
{
	Banks *x = user;
	const char *why;
	if (op->code != OP_PARALLEL)
		return true;
	const Attr *ext = attr_get(op, AT_EXTENTS);
	int warps = attr_int(op, AT_WARP_SCOPE, 0) ? 1 : team_warps(tir_team(op));
	const Layout *l = layout_of(x->t->arena, attr_layout(op), op->regions[0]->nargs, ext->list, warps, &why);
	for (const Op *in = op->regions[0]->first; l && in; in = in->next) {
		Access a;
		if (!access_of(op, in, &a))
			continue;
		if (known(&a))
			count_access(x, &a, l);
		else
			x->unknown++;
	}
	return false;
}

void report_banks(const Tir *t, const Op *kernel, Buffer *out)
{
	Buffer rows = { .arena = t->arena };
	const Machine *m = t->machine;
	Banks x = {
		.t = t, .m = m, .out = &rows, .words = ARENA_ARRAY(t->arena, int64_t, LANES * m->lane_bytes / m->bank_bytes)
	};
	tir_walk(kernel->regions[0], visit, &x);
	buffer_put(out, "<h3>Bank conflicts</h3>\n<p>Of %d accesses of shared memory in element loops and copies %d take more turns than their width asks for%s. "
		"TMA, products, ldmatrix and stmatrix have none in swizzled tiles.</p>\n", x.accesses + x.unknown, x.conflicts,
		x.unknown ? arena_printf(t->arena, "; of %d the addresses are known at run time only", x.unknown) : "");
	if (x.conflicts)
		buffer_put(out, "<table><tr><th>line</th><th>tile</th><th>access</th><th>bytes a lane</th><th>turns</th><th>least</th></tr>\n%s</table>\n", rows.data);
}
