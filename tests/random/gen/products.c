/* products.c - products of warpgroups and of warps, of every view and type. */
#include <stdio.h>

#include "tests/random/gen/gen.h"

/* Small numbers, so that sums over K and many additions stay exact. */
static Range operand_range(DType t) { return dtype_is_float(t) ? (Range){ -3, 3, 1 } : type_range(t); }
static Range sum_range(int64_t k, int times)
{
	double m = 9.0 * (double)k * times;
	return (Range){ -m, m, 2 };
}

/* A shared operand of `rows` x `columns` as the product sees it, perhaps stored the other way round and part of a larger tile. */
static bool shared_operand(Gen *g, DType t, int64_t rows, int64_t columns, bool transposed, char *text, size_t size)
{
	int64_t want[2] = { transposed ? columns : rows, transposed ? rows : columns }, ext[3] = { want[0], want[1] }, start[2] = { 0, 0 };
	bool part = CHANCE(g, 30), planes = CHANCE(g, 15);
	int64_t panel = 128 / dtype_bytes(t);
	for (int d = 0; d < 2; d++) {
		int64_t unit = d == 0 ? (CHANCE(g, 5) ? 1 : 8) : panel >> (CHANCE(g, 25) ? rng_below(&g->rng, 4) : 0); /* some of these are refused */
		while (ext[d] & (ext[d] - 1) || (part && ext[d] == want[d] && CHANCE(g, 60))) /* threads copy powers of two */
			ext[d] = (ext[d] | (ext[d] - 1)) + 1;
		if (d == 0 || ext[1] > want[1])
			start[d] = unit * rng_below(&g->rng, (int)((ext[d] - want[d]) / unit) + 1);
	}
	if (planes) {
		ext[2] = ext[1];
		ext[1] = ext[0];
		ext[0] = 2;
	}
	static const char *const swizzles[] = { "swizzle32", "swizzle64", "swizzle128" };
	int wide = rng_below(&g->rng, 3);
	bool fits = CHANCE(g, 25) && ext[planes + 1] * dtype_bytes(t) % (32 << wide) == 0;
	int s = tile_shared(g, t, planes ? 3 : 2, ext, operand_range(t), fits ? swizzles[wide] : NULL);
	int x = s < 0 ? -1 : tile_param(g, 1, t, planes ? 3 : 2, ext, operand_range(t));
	if (x < 0) {
		if (s >= 0)
			g->tile[s].reads = g->tile[s].writes = false;
		return false;
	}
	tile_writes(g, s);
	for (int n = 0; n < (planes ? 2 : 1); n++)
		planes ? line(g, "copy(%s[%d], %s[%d]);", g->tile[x].name, n, g->tile[s].name, n) : line(g, "copy(%s, %s);", g->tile[x].name, g->tile[s].name);
	g->tile[s].writes = false;
	if (planes)
		g->tile[s].reads = false;
	size_t used = (size_t)snprintf(text, size, "%s%s", g->tile[s].name, planes ? (CHANCE(g, 50) ? "[1]" : "[0]") : "");
	if (ext[planes] != want[0] || ext[planes + 1] != want[1])
		used += (size_t)snprintf(text + used, size - used, "[%lld +: %lld]", (long long)start[0], (long long)want[0]);
	if (ext[planes + 1] != want[1])
		used += (size_t)snprintf(text + used, size - used, "[%lld +: %lld]", (long long)start[1], (long long)want[1]);
	if (transposed)
		snprintf(text + used, size - used, ".T");
	return true;
}

/* Of 8 bits: as it is in memory, or woven. */
static bool register_operand(Gen *g, DType t, int64_t rows, int64_t columns, char *text, size_t size)
{
	int64_t ext[2] = { rows, columns };
	bool bytes = dtype_bytes(t) == 1, woven = bytes && CHANCE(g, 50);
	DType from = woven && dtype_is_float(t) ? DT_F32 : woven ? DT_I32 : t;
	int f = tile_frag(g, t, 2, ext, operand_range(t), !CHANCE(g, 50) ? NULL : bytes ? "mma8" : "mma");
	int x = f < 0 ? -1 : tile_param(g, 1, from, 2, ext, operand_range(t)), w = x < 0 || !woven ? f : tile_frag(g, from, 2, ext, operand_range(t), NULL);
	if (x < 0 || w < 0) {
		if (f >= 0)
			g->tile[f].reads = g->tile[f].writes = false;
		return false;
	}
	line(g, "copy(%s, %s);", g->tile[x].name, g->tile[w].name);
	if (woven)
		line(g, "weave(%s, %s);", g->tile[w].name, g->tile[f].name);
	g->tile[f].writes = g->tile[w].writes = false;
	g->tile[w].mma |= woven;
	g->tile[f].mma = !bytes;
	snprintf(text, size, "%s", g->tile[f].name);
	return true;
}

static void put_products(Gen *g, const char *d, const char *a, const char *b, bool integers)
{
	const char *const ops[] = { "+=", "+=", integers ? "+=" : "-=" };
	sync_now(g);
	line(g, "%s = %s @ %s;", d, a, b);
	for (int n = rng_below(&g->rng, 3); n > 0; n--) {
		if (CHANCE(g, 50)) {
			line(g, "%s %s %s @ %s;", d, PICK(g, ops), a, b);
			continue;
		}
		line(g, "async %s %s %s @ %s;", d, PICK(g, ops), a, b);
		line(g, "wgmma_wait(0);");
	}
}

/* The operands' types; those of bytes may differ. */
static void product_types(Gen *g, DType *a, DType *b)
{
	static const DType types[] = { DT_BF16, DT_BF16, DT_F16, DT_TF32 }, floats[] = { DT_E4M3, DT_E4M3, DT_E5M2 }, integers[] = { DT_I8, DT_U8 };
	int kind = rng_below(&g->rng, 6);
	*a = kind == 4 ? PICK(g, floats) : kind == 5 ? PICK(g, integers) : PICK(g, types);
	*b = kind == 4 ? PICK(g, floats) : kind == 5 ? PICK(g, integers) : *a;
}

bool st_product(Gen *g)
{
	DType t, u;
	product_types(g, &t, &u);
	bool bytes = dtype_bytes(t) == 1, integers = !dtype_is_float(t), halves = dtype_bytes(t) == 2;
	int64_t unit = bytes ? 32 : 16, m = 16 * g->warps, n = (integers ? 16 : 8) * rng_between(&g->rng, 1, integers ? 6 : 12), k = unit << rng_below(&g->rng, bytes ? 3 : 4);
	char a[96], b[96];
	if (g->warps % 4 || g->nesting)
		return false;
	if (CHANCE(g, 30))
		k = unit * rng_between(&g->rng, 1, bytes ? 4 : 6);
	if (CHANCE(g, 10))
		n = (integers ? 16 : 8) * rng_between(&g->rng, integers ? 6 : 12, integers ? 16 : 32);
	if (integers && CHANCE(g, 20))
		n = CHANCE(g, 50) ? 8 : 24;
	if (m * n / (32 * g->warps) > g->regs_left)
		return false;
	bool in_registers = (halves || bytes) && CHANCE(g, 25), at = halves && !in_registers && CHANCE(g, 35) && m * dtype_bytes(t) % 16 == 0;
	bool bt = !halves || CHANCE(g, 50);
	bool ok = in_registers ? register_operand(g, t, m, k, a, sizeof a) : shared_operand(g, t, m, k, at, a, sizeof a);
	if (!ok || !shared_operand(g, u, k, n, bt, b, sizeof b))
		return false;
	int64_t ext[2] = { m, n };
	DType sum = integers ? DT_I32 : DT_F32;
	Range range = integers ? type_range(sum) : sum_range(k, 3);
	int d = tile_frag(g, sum, 2, ext, range, NULL);
	if (d < 0)
		return false;
	g->tile[d].mma = true;
	put_products(g, g->tile[d].name, a, b, integers);
	g->tile[d].range = range;
	return true;
}

/* ---- of single warps ---- */

static bool warp_operand(Gen *g, DType t, int64_t rows, int64_t columns, char *text, size_t size)
{
	int f = tile_warp_frag(g, t, rows, columns, operand_range(t));
	int x = f < 0 ? -1 : tile_param(g, 1, t, 2, (int64_t[]){ rows, columns }, operand_range(t));
	if (x < 0) {
		if (f >= 0)
			g->tile[f].reads = g->tile[f].writes = false;
		return false;
	}
	line(g, "copy(%s, %s);", g->tile[x].name, g->tile[f].name);
	g->tile[f].writes = false;
	snprintf(text, size, "%s", g->tile[f].name);
	return true;
}

bool st_warp_product(Gen *g)
{
	static const DType types[] = { DT_BF16, DT_F16, DT_TF32 };
	DType t = PICK(g, types);
	int64_t m = 16, n = 16 * rng_between(&g->rng, 1, 2), k = 16 * rng_between(&g->rng, 1, 3);
	char a[96], b[96];
	if (g->nesting)
		return false;
	bool bt = CHANCE(g, 50);
	if (!warp_operand(g, t, m, k, a, sizeof a) || !warp_operand(g, t, bt ? n : k, bt ? k : n, b, sizeof b))
		return false;
	int d = tile_warp_frag(g, DT_F32, m, n, sum_range(k, 3));
	if (d < 0)
		return false;
	line(g, "%s = %s @ %s%s;", g->tile[d].name, a, b, bt ? ".T" : "");
	if (CHANCE(g, 50))
		line(g, "%s %s %s @ %s%s;", g->tile[d].name, CHANCE(g, 50) ? "+=" : "-=", a, b, bt ? ".T" : "");
	return true;
}
