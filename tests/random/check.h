/* check.h - compiles programs, computes what they must give, runs them and compares. */
#ifndef TILE_RANDOM_CHECK_H
#define TILE_RANDOM_CHECK_H

#include "tests/random/model/model.h"
#include "tests/random/program.h"
#include "tilert/tilert.h"

typedef enum Verdict {
	V_RIGHT,
	V_REFUSED,   /* the compiler says why it does not take it */
	V_WRONG,     /* numbers differ */
	V_FAILED,    /* the launch failed */
	V_INTERNAL,  /* the compiler's own fault: [tir], invalid LLVM, a step without a message */
	V_MEANINGLESS, /* the model: the generator made what has no meaning */
	V_CRASH,     /* a signal, or no end */
	VERDICTS
} Verdict;
extern const char *const verdict_names[VERDICTS];

typedef struct Report {
	Verdict verdict;
	ModelCount count;
	char text[400];
} Report;

/* Programs that are compiled as one module; all or none: with one refused, all are. */
typedef struct Batch {
	Program *program;
	int n;
	int opt_level;
	uint64_t schedule; /* seed of the CPU device */
	bool cpu, gpu;     /* compile for these; for the GPU with ptxas where it is found */
} Batch;

/* The module, owned by the caller, and of each program the digests of what must come out. */
typedef struct Products { char *module; size_t module_len; uint64_t (*digest)[MAX_TENSORS]; } Products;
/* The CPU device with this schedule, where programs may divide by zero and the like; NULL, and prints why. */
tilert_device *programs_device(uint64_t seed);
/* A report for each program; products may be NULL. */
void check_batch(const Batch *b, tilert_device *device, Report *reports, Products *products);

#endif
