/* machine.h - the state of a running kernel, private to the model.
 *
 * A team executes in lockstep: a scalar is one number (stride 0) or one for each lane (stride 1), and lanes that a condition
 * leaves out are masked.  A team is a stack of frames, so one that waits is just not stepped.  An element loop is a set of
 * lanes, too: one for each element.
 */
#ifndef TILE_RANDOM_MACHINE_H
#define TILE_RANDOM_MACHINE_H

#include <setjmp.h>

#include "tests/random/model/model.h"

typedef struct Lanes { Num *v; int stride; } Lanes;

/* Bytes of a tensor, a shared tile or a fragment; row-major. */
typedef struct Store {
	const Op *object;
	DType dtype;
	int rank;
	int64_t extents[TIR_MAX_RANK], strides[TIR_MAX_RANK];
	unsigned char *data, *defined; /* not owned */
	int64_t bytes;
} Store;

typedef struct MBarrier { /* one slot */
	int count, pending;
	int64_t completed, tx; /* tx: announced and not yet arrived */
} MBarrier;

typedef struct NamedBarrier { int count, arrived; int64_t generation; } NamedBarrier;

typedef struct Object { /* what a value of kind object is here */
	Store *store;           /* tensor, shared, frag; of warp frags one for each warp */
	MBarrier *mbarrier;
	NamedBarrier *barrier;
	Lanes *var;
} Object;

typedef struct Model Model;
typedef struct Cta Cta;
typedef struct Env Env;

struct Env { /* values of a set of lanes; what is not here is looked up outside */
	Model *m;
	Cta *cta;
	Env *outer;
	int outer_lane;    /* lane 0 here is this lane there */
	bool flatten;      /* an element loop: all lanes see that one lane */
	int lanes, warps;
	Lanes *value;      /* by id - m->base; v NULL: not here */
	Object *object;    /* the same */
	unsigned char *active; /* lanes that execute */
};

typedef struct Frame {
	const Op *owner;
	const Region *region;
	const Op *next;
	unsigned char *active;      /* of the frame below while this one runs */
	bool in_condition;          /* of `while` */
	Lanes index;                /* of `for` */
} Frame;

enum { MAX_DEPTH = 32, MAX_TEAMS = 32, MAX_CLUSTER = 8 };

typedef struct Team {
	Env env;
	int first_warp;
	Frame frame[MAX_DEPTH];
	int depth;
	bool waits;                 /* arrived at a named barrier, not yet through */
	int64_t generation;
	int children;               /* roles that run */
	struct Team *parent;
	bool done;
} Team;

struct Cta {
	Model *m;
	int rank, block[3];
	Team team[MAX_TEAMS];
	int nteams;
	struct { int arrived; int64_t generation; } *cluster_sync; /* of the cluster */
};

typedef struct Chunk { struct Chunk *next; size_t used, size; } Chunk;

struct Model {
	Tir *t;
	const Op *kernel;
	const ModelArgs *args;
	ModelCount *count;
	unsigned base, ids;
	int threads, cluster, grid[3];
	Cta cta[MAX_CLUSTER];
	struct { int arrived; int64_t generation; } cluster_sync;
	Arena *arena, *loop; /* loop: of the element loop that runs, or NULL */
	jmp_buf fail;
	char *error;
	size_t error_size;
	uint64_t budget;
};

__attribute__((format(printf, 3, 4), noreturn)) void model_fail(Model *m, const Op *at, const char *fmt, ...);

/* ---- lanes.c ---- */
Lanes lanes_of(Env *e, const Value *v);
Num lane_value(Env *e, const Value *v, int lane);
/* Of the first lane that executes: for what is uniform. */
int first_active(const Env *e);
int64_t uniform_int(Env *e, const Value *v);
Lanes lanes_new(Env *e, bool varying);
void lanes_set(Env *e, const Value *v, Lanes l);
Object *object_of(Env *e, const Value *v);
void env_init(Env *e, Model *m, Cta *cta, Env *outer, int outer_lane, int lanes);
bool all_active(const Env *e);

/* ---- scalar.c: everything that a lane does for itself; false when op is none of it ---- */
bool scalar_step(Env *e, const Op *op);

/* ---- memory.c ---- */
void store_init(Model *m, Store *s, const Op *object, int64_t bytes_shared);
Num store_load(Model *m, const Op *at, const Store *s, const int64_t *index);
void store_store(Model *m, const Op *at, const Store *s, const int64_t *index, Num x);
bool store_inside(const Store *s, const int64_t *index);

/* A tile operand: cell (c0, c1, ...) of it is element start[d] + c[axis of d] of the store. */
typedef struct Cells {
	const Store *store;
	TileRef ref;
	int64_t start[TIR_MAX_RANK];
	int axis[TIR_MAX_RANK];       /* of object dimension d; -1: indexed */
	int64_t shape[TIR_MAX_RANK];
	int rank;
	int limited;                  /* object dimension that a limit counts; -1 none */
	int64_t limit;
} Cells;
enum { TEAM = -1 }; /* in place of a warp: the statement is the team's */
Cells cells_of(Env *e, const Op *at, const Value *v, int warp);
void cells_limit(Cells *c, int64_t limit);
int64_t cells_count(const Cells *c);
/* Element number n of the tile in row-major order of its shape. */
void cells_index(const Cells *c, int64_t n, int64_t *index);
/* Zero where the limit or, with `clip`, the tensor ends. */
Num cells_load(Env *e, const Op *at, const Cells *c, int64_t n, bool clip);
void cells_store(Env *e, const Op *at, const Cells *c, int64_t n, Num x, bool clip);

/* ---- tile.c: statements on tiles; false when op is none ---- */
bool tile_step(Team *t, const Op *op);

/* ---- sync.c ---- */
typedef enum StepResult { STEP_NOT_MINE, STEP_DONE, STEP_BLOCKED } StepResult;
StepResult sync_step(Team *t, const Op *op);
void barrier_declare(Env *e, const Op *op);
/* Bytes of an asynchronous load arrive at a barrier. */
void barrier_bytes(Team *t, const Op *at, const Value *barrier, int64_t use, int64_t bytes, bool multicast);

/* ---- parallel.c ---- */
void parallel_run(Team *t, const Op *op);

#endif
