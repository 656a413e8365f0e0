/* gen.h - the generator of random programs: state and helpers that its features share.
 *
 * Every tile keeps to one range of numbers for its whole life, which statements respect, so loops need no analysis.
 * Arithmetic on floats is exact, or one rounding that the language defines; so results are the same on every device.
 */
#ifndef TILE_RANDOM_GEN_H
#define TILE_RANDOM_GEN_H

#include <stdarg.h>

#include "tests/random/program.h"

/* ---- text.c ---- */
typedef struct Text { char *s; size_t len, cap; } Text;
__attribute__((format(printf, 2, 3))) void text_put(Text *t, const char *fmt, ...);
void text_free(Text *t);

/* ---- what the generator knows of a program in the making ---- */

typedef enum Space { GLOBAL, SHARED, FRAG, WARP_FRAG } Space;

typedef struct Tile {
	char name[2 * NAME_SIZE];    /* with the subscripts that lead to this block's part */
	Space space;
	DType type;
	int rank;
	int64_t ext[3];
	Range range;
	bool reads, writes;          /* may it be read, written */
	bool fixed_layout;           /* declared with one */
	bool mma;                    /* has the layout of products */
	bool dirty, seen;            /* written, read since the last sync */
	bool gone;                   /* out of scope */
} Tile;

typedef struct Var {
	char name[NAME_SIZE];
	DType type;
	Range range;
	bool uniform, constant;
	bool gone;
} Var;

typedef struct Loop { /* the element loop being written */
	int rank;
	int64_t ext[2];
	const char *index[2];
	bool warp;
	int nwritten, written[8];    /* tiles written in this body */
	bool read[64];               /* tiles read */
} Loop;

enum { MAX_TILES = 64, MAX_VARS = 48 };

typedef struct Gen {
	Rng rng;
	Program *p;
	Text head, params, decls, body;
	int depth;
	Tile tile[MAX_TILES];
	int ntiles;
	Var var[MAX_VARS];
	int nvars, names;
	int warps;                   /* of the team */
	int grid, cluster;
	int instances;               /* of the role, whose number is h; 0: no role or one */
	int threads_warps;           /* of the kernel; 0: warps */
	int64_t shared_left, regs_left;
	Loop *loop;                  /* in an element loop */
	bool threads_differ;         /* scalar code in which thread() may be used */
	bool sliced;                 /* tensors made now are looked at by slices only: their extents may be dims */
	int nesting;
} Gen;

/* Chance of n in 100. */
#define CHANCE(g, n) rng_percent(&(g)->rng, (n))
#define PICK(g, array) (array)[rng_below(&(g)->rng, (int)(sizeof (array) / sizeof (array)[0]))]

__attribute__((format(printf, 2, 3))) void line(Gen *g, const char *fmt, ...);
void open_block(Gen *g);  /* deeper by one, after a line that ends in { */
void close_block(Gen *g, const char *text);
int fresh(Gen *g);

/* ---- range.c ---- */
Range type_range(DType t);                /* of integers all, of floats what sums of some still fit */
Range default_range(Gen *g, DType t);     /* for tiles */
bool range_inside(Range a, Range b);
bool range_exact(DType t, Range r);       /* every such number is one of type t */
bool range_fits(DType t, Range r);        /* and after rounding finite, or in the integer's range */
Range range_join(Range a, Range b);
DType random_type(Gen *g);
DType random_float(Gen *g);
int type_digits(DType t);
DType computed(DType t); /* what arithmetic on it gives */
double rounding(DType t, double x); /* bounds what rounding x to it adds */

/* ---- expr.c ---- */
typedef struct Ex {
	char *s;           /* owned */
	DType type;
	Range range;
	bool literal, uniform;
	bool places;       /* of indices, thread numbers and constants alone: such sums must not wrap (LANGUAGE 2) */
} Ex;
Ex ex_any(Gen *g, int depth);
Ex ex_of_type(Gen *g, DType t, int depth);
Ex ex_condition(Gen *g, int depth);
/* Of type t and in range r, by conversions and clamps. */
Ex ex_into(Gen *g, Ex e, DType t, Range r);
Ex ex_uniform_int(Gen *g, int lo, int hi);
void ex_free(Ex *e);
__attribute__((format(printf, 3, 4))) Ex ex_make(DType t, Range r, const char *fmt, ...);

/* ---- tiles.c ---- */
int tile_param(Gen *g, int dir, DType t, int rank, const int64_t *ext, Range r);
int tile_shared(Gen *g, DType t, int rank, const int64_t *ext, Range r, const char *layout);
int tile_frag(Gen *g, DType t, int rank, const int64_t *ext, Range r, const char *layout);
int tile_warp_frag(Gen *g, DType t, int64_t rows, int64_t columns, Range r);
typedef bool TileTest(const Gen *g, const Tile *t);
int tile_pick(Gen *g, TileTest *test);   /* -1: none */
int64_t tile_count(const Tile *t);
/* One statement reads and writes these: puts a sync before it where there must be one. */
void tiles_touch(Gen *g, const bool *reads, const bool *writes);
void tile_moves(Gen *g, int from, int to);
void tile_reads(Gen *g, int k);
void tile_writes(Gen *g, int k);
void sync_all(Gen *g);
void sync_now(Gen *g);
const char *tile_space_name(const Tile *t);
/* Everything that can be looked at goes to an `out` tensor. */
void show_tile(Gen *g, int k);
/* Writes all of a new tile from an `in` tensor or by a loop. */
void initialise(Gen *g, int k);

/* ---- statements; each false when it found nothing to do ---- */
typedef bool Statement(Gen *g);
Statement st_elements, st_warp_elements, st_copy, st_fill, st_reduce, st_scan, st_scalar, st_control, st_limit_copy, st_product, st_warp_product,
	st_cp_async, st_declare, st_atomic, st_vector, st_warp_view, st_vote, st_weave;
/* What numbers of s are in type t; false: some are none of it. */
bool converted_range(const Tile *s, DType t, Range *out);
void statements(Gen *g, int n);
void element_body(Gen *g, int target);
Ex element_leaf(Gen *g);

/* ---- lanes.c: of threads that differ, where all of a warp come ---- */
void lanes_vote(Gen *g);
bool lanes_exchange(Gen *g);

/* ---- whole kernels ---- */
typedef void Kernel(Gen *g);
Kernel kernel_tiles, kernel_scalar, kernel_pipeline, kernel_handover, kernel_cluster, kernel_transfers, kernel_flags;

#endif
