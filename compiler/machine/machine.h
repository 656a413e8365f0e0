/* machine.h - what a machine has: its limits and its products.  Facts alone: how its code is written is a back end's (compiler/lower/).
 *
 * The CPU device runs programs of these machines, so it is none itself.
 */
#ifndef TILE_MACHINE_H
#define TILE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "dsl/dtype.h"

/* One kind of product instruction: D [m][n] += A [m][k] B [k][n]. */
typedef struct Product {
	DType a, b, d;
	int k;               /* of an instruction */
	bool wgmma;          /* by warpgroups, from shared memory */
	bool mma_sync;       /* by a warp, from registers */
	bool a_in_registers; /* of wgmma */
	bool both_majors;    /* else operands have K innermost */
	bool negates;        /* D -= A B */
	bool few_columns;    /* n is 8, 24 or a multiple of 16; else of 8 */
	const char *types;   /* of A and B, as PTX has them */
} Product;

/* A device that has the machine, as measured or published, for reports: what a multiprocessor does in a clock, its clock,
 * and memory. */
typedef struct Rates {
	const char *device;
	int multiprocessors;
	double clock;        /* Hz, at its most */
	double memory;       /* bytes a second */
	int tensor;          /* flop a clock of products of 16 bits; of 8 bits twice as many */
	int special, arithmetic, loaded; /* exp2 and the like; others on f32; bytes from L2 */
} Rates;

typedef struct Machine {
	const char *name;    /* as --target and ptxas have it */
	const char *family;  /* whose later machines run what does without this one's own */
	int threads;         /* of a CTA */
	int warp;            /* threads */
	int cluster;         /* CTAs */
	int occupancy;       /* CTAs of an SM */
	int sm_threads;
	int named_barriers;  /* of a CTA */
	int sm_registers, thread_registers, register_step;
	int least_setmaxnreg, most_setmaxnreg;
	int wgmma_columns;   /* most of one instruction */
	int wgmma_registers, wgmma_a_registers; /* that ptxas wants beside the accumulator; more with A in registers */
	int64_t cta_shared, sm_shared, cta_reserved; /* bytes: most of one CTA; of an SM; the system's of each CTA */
	int box_extent, box_rank, transfer_unit, transfer_align; /* of TMA: elements, dimensions; bytes */
	int arrivals;        /* of an mbarrier's phase */
	int banks, bank_bytes, lane_bytes; /* of shared memory: bytes of a bank; most of a lane at a time */
	int product_groups;  /* that a wait may leave in flight */
	int parameter_bytes, map_bytes, map_align; /* of a launch; of a tensor map among them */
	const Product *products;
	int nproducts;
	const Rates *rates;
} Machine;

#define MACHINE(id, name) extern const Machine machine_##id;
#include "compiler/machine/machines.def"
#undef MACHINE

const Machine *machine_default(void);
const Machine *machine_named(const char *name); /* NULL: there is none */

/* The product of operands of these types; NULL: there is none. */
const Product *machine_product(const Machine *m, DType a, DType b);

#endif
