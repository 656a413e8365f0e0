/* The ports of twophase.cu (README.md), on that program's buffers and shapes: compare with compare_nvcc.sh. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bench/bench.h"
#include "tests/check/float16.h"
#include "tests/check/random.h"

enum { D = 128, C = 64, TILE = 16384, REC = 12800, REC_T = 512, REC_P = 6656 };
/* Tiles repeat with a period that divides no shape. */
enum { Q_TILES = 61, V_TILES = 53 };
static const double SCALE = 0.0883883;

/* ---- Tiles and records as bytes --------------------------------------------------- */

/* Channel c of row r in a 64x128 tile: two panels of 64 channels, 128-byte swizzle. */
static size_t tile_offset(int r, int c)
{
	return (size_t)(c / 64 * 8192 + r * 128 + ((c % 64 / 8 ^ r % 8) << 4) + c % 8 * 2);
}

static double tile_at(const uint8_t *tile, int r, int c)
{
	uint16_t x;
	memcpy(&x, tile + tile_offset(r, c), 2);
	return (double)bf16_to_float(x);
}

/* Element (i, j) of T or P, kept as 32x32 blocks (0,0), (1,0), (1,1) of 64-byte rows, 64-byte swizzle; j <= i. */
static size_t triangle_offset(int i, int j)
{
	int row = i % 32, c = j % 32;
	return (size_t)((i / 32 + j / 32) * 2048 + row * 64 + ((c / 8 ^ (row >> 1 & 3)) << 4) + c % 8 * 2);
}

static void triangle_put(uint8_t *m, int i, int j, double x)
{
	uint16_t h = bf16_from_float((float)x);
	memcpy(m + triangle_offset(i, j), &h, 2);
}

static double triangle_at(const uint8_t *m, int i, int j)
{
	uint16_t h;
	memcpy(&h, m + triangle_offset(i, j), 2);
	return (double)bf16_to_float(h);
}

static uint8_t *random_tiles(int n, float scale, uint64_t seed)
{
	uint8_t *tiles = bench_memory((size_t)n * TILE);
	Random r;
	random_init(&r, seed);
	for (size_t at = 0; at < (size_t)n * TILE; at += 2) {
		uint16_t x = bf16_from_float(scale * random_normal(&r));
		memcpy(tiles + at, &x, 2);
	}
	return tiles;
}

/* ---- T and P of one chunk in double precision --------------------------------------- */

/* A chunk: rows of q and k, log2 decays summed up to each token (per channel), beta. */
typedef struct Chunk { double q[C][D], k[C][D], sum[C][D], beta[C]; } Chunk;
typedef struct Factors { double t[C][C], p[C][C]; } Factors;

/* The prototype's inputs are uniform; of the same size here. */
static const float GDN_GATE = -0.03f; /* natural logarithm, every token */

static void factors(const Chunk *c, Factors *f)
{
	double l[C][C];
	memset(f, 0, sizeof *f);
	for (int i = 0; i < C; i++) {
		for (int j = 0; j <= i; j++) {
			double kk = 0, qk = 0;
			for (int d = 0; d < D; d++) {
				double e = exp2(c->sum[i][d] - c->sum[j][d]) * c->k[j][d];
				kk += c->k[i][d] * e;
				qk += c->q[i][d] * e;
			}
			l[i][j] = c->beta[i] * kk;
			f->p[i][j] = SCALE * qk;
		}
	}
	/* T = (I + L)^-1 diag(beta) by substitution. */
	for (int j = 0; j < C; j++) {
		f->t[j][j] = c->beta[j];
		for (int i = j + 1; i < C; i++) {
			for (int m = j; m < i; m++)
				f->t[i][j] -= l[i][m] * f->t[m][j];
		}
	}
}

/* ---- K1-KDA ---------------------------------------------------------------------------- */

/* The prototype's gate: log2 of the decay. */
static double kda_gate(double x)
{
	return -5 * 1.4426950408889634 / (1 + exp(-2 * (0.5 * x - 3)));
}

static double relative(double error, double square)
{
	return sqrt(error / square);
}

/* The larger, or NaN when one is. */
static double worse(double a, double b)
{
	return a > b || isnan(a) ? a : b;
}

/* Relative error of q+ = q e^G, k+ = k e^G and k- = k e^(Glast-G). */
static double x_error(const Chunk *c, const uint8_t *x)
{
	double error[3] = { 0 }, square[3] = { 0 };
	for (int i = 0; i < C; i++) {
		for (int d = 0; d < D; d++) {
			double up = exp2(c->sum[i][d]), down = exp2(c->sum[C - 1][d] - c->sum[i][d]);
			const double want[3] = { c->q[i][d] * up, c->k[i][d] * up, c->k[i][d] * down };
			for (int m = 0; m < 3; m++) {
				error[m] += pow(tile_at(x + m * TILE, i, d) - want[m], 2);
				square[m] += want[m] * want[m];
			}
		}
	}
	return worse(relative(error[0], square[0]), worse(relative(error[1], square[1]), relative(error[2], square[2])));
}

/* Worst relative error of T, P and, unless x is NULL, of q+, k+, k- over some items. */
static double k1_error(const uint8_t *q, const uint8_t *k, const uint8_t *g, const float *gb, const uint8_t *rec, const uint8_t *x, int64_t items)
{
	Chunk *c = bench_memory(sizeof *c);
	Factors *f = bench_memory(sizeof *f);
	double worst = 0;
	for (int s = 0; s < 7; s++) {
		int64_t item = s * (items - 1) / 6;
		const uint8_t *qt = q + item % Q_TILES * TILE, *kt = k + item % Q_TILES * TILE, *gt = g + item % Q_TILES * TILE;
		for (int i = 0; i < C; i++) {
			double qq = 1e-6, kk = 1e-6;
			for (int d = 0; d < D; d++) {
				qq += tile_at(qt, i, d) * tile_at(qt, i, d);
				kk += tile_at(kt, i, d) * tile_at(kt, i, d);
			}
			for (int d = 0; d < D; d++) {
				c->q[i][d] = tile_at(qt, i, d) / sqrt(qq);
				c->k[i][d] = tile_at(kt, i, d) / sqrt(kk);
				c->sum[i][d] = (i ? c->sum[i - 1][d] : 0) + kda_gate(tile_at(gt, i, d));
			}
			c->beta[i] = (double)gb[item % Q_TILES * 2 * C + C + i];
		}
		factors(c, f);
		const uint8_t *r = rec + item * REC;
		double et = 0, st = 0, ep = 0, sp = 0;
		for (int i = 0; i < C; i++) {
			for (int j = 0; j <= i; j++) {
				et += pow(triangle_at(r + REC_T, i, j) - f->t[i][j], 2);
				st += f->t[i][j] * f->t[i][j];
				ep += pow(triangle_at(r + REC_P, i, j) - f->p[i][j], 2);
				sp += f->p[i][j] * f->p[i][j];
			}
		}
		worst = worse(worst, worse(relative(et, st), relative(ep, sp)));
		if (x)
			worst = worse(worst, x_error(c, x + item * 3 * TILE));
	}
	free(c);
	free(f);
	return worst;
}

/* X: also q+, k+, k- are written. */
static void run_k1(Bench *b, const char *what, const char *file, int64_t items, bool x)
{
	tilert_module *module = bench_module(b, file);
	const int64_t tiles[] = { items, 2, C, C }, gates[] = { items, 2, C }, records[] = { items, REC }, out[] = { items, 3, 2, C, C };
	char shape[64];
	tilert_kernel *kernel;
	tilert_prepared *p;
	if (!module) {
		bench_refuse(b, what, "no %s", file);
		return;
	}
	snprintf(shape, sizeof shape, "%lld chunk-heads", (long long)items);
	uint8_t *q = random_tiles(Q_TILES, 0.09f, 1), *k = random_tiles(Q_TILES, 0.09f, 2), *g = random_tiles(Q_TILES, 1, 3);
	float gb[Q_TILES * 2 * C];
	Random r;
	random_init(&r, 4);
	for (int i = 0; i < Q_TILES * 2 * C; i++)
		gb[i] = i % (2 * C) < C ? GDN_GATE : (float)(0.2 + 0.6 * random_unit(&r));
	size_t bytes = (size_t)items * TILE;
	tilert_ptr dq = bench_periodic(b, q, Q_TILES * TILE, bytes), dk = bench_periodic(b, k, Q_TILES * TILE, bytes);
	tilert_ptr dg = bench_periodic(b, g, Q_TILES * TILE, bytes), dgb = bench_periodic(b, gb, sizeof gb, (size_t)items * 2 * C * 4);
	tilert_ptr drec = bench_poisoned(b, (size_t)items * REC), dx = x ? bench_poisoned(b, 3 * bytes) : 0;
	tilert_arg args[] = { bench_tensor("q", dq, TILERT_BF16, 4, tiles), bench_tensor("k", dk, TILERT_BF16, 4, tiles),
		bench_tensor("g", dg, TILERT_BF16, 4, tiles), bench_tensor("gb", dgb, TILERT_F32, 3, gates),
		bench_tensor("rec", drec, TILERT_U8, 2, records), bench_tensor("xo", dx, TILERT_BF16, 5, out) };
	CHECK(tilert_module_kernel(module, "k1_kda", &kernel));
	CHECK(tilert_prepare(kernel, args, x ? 6 : 5, &p));
	CHECK(tilert_prepared_launch(p, NULL));
	CHECK(tilert_stream_sync(b->device, NULL));
	uint8_t *rec = bench_memory((size_t)items * REC);
	CHECK(tilert_download(b->device, rec, drec, (size_t)items * REC));
	uint8_t *xs = x ? bench_memory(3 * bytes) : NULL;
	if (x)
		CHECK(tilert_download(b->device, xs, dx, 3 * bytes));
	double error = k1_error(q, k, g, gb, rec, xs, items);
	if (error < 0.01) {
		double ms = bench_time_prepared(b, p);
		double traffic = (double)items * (3 * TILE + 256 + REC + (x ? 3 * TILE : 0));
		bench_row(b, what, shape, ms, traffic / ms * 1e-6, "GB/s", error);
	} else {
		bench_refuse(b, what, "%s: relative error %g", shape, error);
	}
	tilert_prepared_destroy(p);
	const tilert_ptr all[] = { dq, dk, dg, dgb, drec, dx };
	for (int i = 0; i < (x ? 6 : 5); i++)
		bench_free(b, all[i]);
	tilert_module_close(module);
	free(q);
	free(k);
	free(g);
	free(rec);
	free(xs);
}

/* ---- K2-GDN ------------------------------------------------------------------------------ */

typedef struct Scan { int64_t sequences, chunks, heads, qk_heads; } Scan;

static double gdn_beta(int i) { return 0.35 + 0.3 * (i % 7) / 6; }

/* The record of a chunk with these q and k: e^G, e^(Glast-G), T, P. */
static void gdn_record(const uint8_t *q, const uint8_t *k, uint8_t *rec)
{
	Chunk *c = bench_memory(sizeof *c);
	Factors *f = bench_memory(sizeof *f);
	memset(rec, 0, REC);
	for (int i = 0; i < C; i++) {
		double sum = (i + 1) * (double)GDN_GATE, last = C * (double)GDN_GATE;
		float head[2] = { (float)exp(sum), (float)exp(last - sum) };
		memcpy(rec + 4 * i, &head[0], 4);
		memcpy(rec + 256 + 4 * i, &head[1], 4);
		c->beta[i] = gdn_beta(i);
		for (int d = 0; d < D; d++) {
			c->q[i][d] = tile_at(q, i, d);
			c->k[i][d] = tile_at(k, i, d);
			c->sum[i][d] = sum * 1.4426950408889634;
		}
	}
	factors(c, f);
	for (int i = 0; i < C; i++) {
		for (int j = 0; j <= i; j++) {
			triangle_put(rec + REC_T, i, j, f->t[i][j]);
			triangle_put(rec + REC_P, i, j, f->p[i][j]);
		}
	}
	free(c);
	free(f);
}

/* One sequence and head of o against the token recurrence. */
static double k2_error(Scan s, const uint8_t *q, const uint8_t *k, const uint8_t *v, const uint8_t *o, int64_t sequence, int64_t head)
{
	double *S = bench_memory(D * D * sizeof *S), error = 0, square = 0;
	memset(S, 0, D * D * sizeof *S);
	for (int64_t j = 0; j < s.chunks; j++) {
		int64_t c = sequence * s.chunks + j, iq = c * s.qk_heads + head / (s.heads / s.qk_heads), iv = c * s.heads + head;
		const uint8_t *qt = q + iq % Q_TILES * TILE, *kt = k + iq % Q_TILES * TILE, *vt = v + iv % V_TILES * TILE, *ot = o + iv * TILE;
		for (int i = 0; i < C; i++) {
			double u[D], y[D] = { 0 }, decay = exp((double)GDN_GATE);
			for (int x = 0; x < D; x++)
				u[x] = tile_at(vt, i, x);
			for (int d = 0; d < D; d++) {
				double kd = tile_at(kt, i, d);
				for (int x = 0; x < D; x++) {
					S[d * D + x] *= decay;
					u[x] -= kd * S[d * D + x];
				}
			}
			for (int d = 0; d < D; d++) {
				double kd = gdn_beta(i) * tile_at(kt, i, d), qd = SCALE * tile_at(qt, i, d);
				for (int x = 0; x < D; x++) {
					S[d * D + x] += kd * u[x];
					y[x] += qd * S[d * D + x];
				}
			}
			for (int x = 0; x < D; x++) {
				double e = tile_at(ot, i, x) - y[x];
				error += e * e;
				square += y[x] * y[x];
			}
		}
	}
	free(S);
	return relative(error, square);
}

static void run_k2(Bench *b, const char *what, Scan s)
{
	tilert_module *module = bench_module(b, "twophase_k2_gdn.tmod");
	int64_t nq = s.sequences * s.chunks * s.qk_heads, nv = s.sequences * s.chunks * s.heads, group = s.heads / s.qk_heads;
	const int64_t qk[] = { nq, 2, C, C }, values[] = { nv, 2, C, C }, records[] = { nv, REC };
	char shape[64];
	tilert_kernel *kernel;
	tilert_prepared *p;
	if (!module) {
		bench_refuse(b, what, "no twophase_k2_gdn.tmod");
		return;
	}
	snprintf(shape, sizeof shape, "%lld/%lld %lldx%lld", (long long)s.qk_heads, (long long)s.heads, (long long)s.sequences, (long long)s.chunks * C);
	/* |k| about 1, as after a norm */
	uint8_t *q = random_tiles(Q_TILES, 0.0884f, 1), *k = random_tiles(Q_TILES, 0.0884f, 2), *v = random_tiles(V_TILES, 1, 3);
	uint8_t *some = bench_memory((size_t)Q_TILES * REC), *rec = bench_memory((size_t)nv * REC);
	for (int i = 0; i < Q_TILES; i++)
		gdn_record(q + i * TILE, k + i * TILE, some + i * REC);
	for (int64_t iv = 0; iv < nv; iv++) {
		int64_t iq = iv / s.heads * s.qk_heads + iv % s.heads / group;
		memcpy(rec + iv * REC, some + iq % Q_TILES * REC, REC);
	}
	tilert_ptr dq = bench_periodic(b, q, Q_TILES * TILE, (size_t)nq * TILE), dk = bench_periodic(b, k, Q_TILES * TILE, (size_t)nq * TILE);
	tilert_ptr dv = bench_periodic(b, v, V_TILES * TILE, (size_t)nv * TILE), drec = bench_periodic(b, rec, (size_t)nv * REC, (size_t)nv * REC);
	tilert_ptr dout = bench_poisoned(b, (size_t)nv * TILE);
	tilert_arg args[] = { bench_tensor("q", dq, TILERT_BF16, 4, qk), bench_tensor("k", dk, TILERT_BF16, 4, qk),
		bench_tensor("v", dv, TILERT_BF16, 4, values), bench_tensor("rec", drec, TILERT_U8, 2, records),
		bench_tensor("o", dout, TILERT_BF16, 4, values), { .name = "n", .kind = TILERT_ARG_SCALAR, .i = s.chunks },
		{ .name = "H", .kind = TILERT_ARG_SCALAR, .i = s.heads }, { .name = "HQ", .kind = TILERT_ARG_SCALAR, .i = s.qk_heads } };
	CHECK(tilert_module_kernel(module, "k2_gdn", &kernel));
	CHECK(tilert_prepare(kernel, args, sizeof args / sizeof args[0], &p));
	CHECK(tilert_prepared_launch(p, NULL));
	CHECK(tilert_stream_sync(b->device, NULL));
	uint8_t *o = bench_memory((size_t)nv * TILE);
	CHECK(tilert_download(b->device, o, dout, (size_t)nv * TILE));
	double first = k2_error(s, q, k, v, o, 0, 1), last = k2_error(s, q, k, v, o, s.sequences - 1, s.heads - 1);
	double error = first > last ? first : last;
	if (first < 0.006 && last < 0.006) {
		double ms = bench_time_prepared(b, p);
		double traffic = (double)nv * (2.0 * TILE / (double)group + 2 * TILE + REC);
		bench_row(b, what, shape, ms, traffic / ms * 1e-6, "GB/s", error);
	} else {
		bench_refuse(b, what, "%s: relative errors of o %g, %g", shape, first, last);
	}
	tilert_prepared_destroy(p);
	const tilert_ptr all[] = { dq, dk, dv, drec, dout };
	for (int i = 0; i < 5; i++)
		bench_free(b, all[i]);
	tilert_module_close(module);
	free(q);
	free(k);
	free(v);
	free(some);
	free(rec);
	free(o);
}

void bench_twophase(Bench *b)
{
	run_k1(b, "K1-KDA T P", "twophase_k1_kda.tmod", 12288, false);
	run_k1(b, "K1-KDA T P x", "twophase_k1_kda_x.tmod", 12288, true);
	/* One wave: a CTA per SM; the prototype's row_k2. */
	run_k2(b, "K2-GDN", (Scan){ 1, 252, b->info.sm_count / 2 * 2, b->info.sm_count / 2 });
	run_k2(b, "K2-GDN", (Scan){ 4, 128, 64, 16 });
}
