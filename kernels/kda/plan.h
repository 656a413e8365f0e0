/* plan.h - how a KDA call is spread over the device (walk.tile). */
#ifndef TILE_KDA_PLAN_H
#define TILE_KDA_PLAN_H

#include <stdint.h>
#include <tilekern/kda.h>

enum { KDA_LEVELS = 2 };

typedef struct KdaPlan {
	int ctas;
	int levels;            /* of warm-ups that are tried before the call, shorter ones first; 0: CTAs take whole items */
	int warm[KDA_LEVELS];  /* chunks of 32 tokens */
	size_t bytes;          /* of workspace: `back` */
} KdaPlan;

/* K that the kernel is compiled for, and columns of V of an item. */
int kda_size(const tilekern_kda_params *p);
KdaPlan kda_plan(const tilekern_kda_params *p, int sm_count);

#endif
