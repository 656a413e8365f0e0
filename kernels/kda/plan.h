/* plan.h - how a KDA call is spread over the device (walk.tile). */
#ifndef TILE_KDA_PLAN_H
#define TILE_KDA_PLAN_H

#include <stdint.h>
#include <tilekern/kda.h>

enum { KDA_LEVELS = 2 };

/* What is made before the call of the states that enter shares (forward.tile): nothing, those that a window does not do for, all. */
typedef enum KdaLeaves { KDA_NOTHING, KDA_NEEDED, KDA_EXACTLY } KdaLeaves;

typedef struct KdaPlan {
	int ctas;
	int levels;            /* of warm-ups that are tried before the call, shorter ones first; 0: CTAs take whole items */
	int warm[KDA_LEVELS];  /* chunks of 32 tokens */
	KdaLeaves leaves;      /* of the one level */
	int64_t keys;          /* K and columns of V of such a state */
	size_t enter, across;  /* where they are in the workspace, behind `back` (join.tile) */
	size_t bytes;          /* of workspace */
} KdaPlan;

int kda_keys(const tilekern_kda_params *p);    /* K that the kernel is compiled for */
int kda_item_columns(const tilekern_kda_params *p); /* of V */
KdaPlan kda_plan(const tilekern_kda_params *p, int sm_count);
/* The same for a call that states may be made before: of the forward alone. */
KdaPlan kda_plan_joined(const tilekern_kda_params *p, int sm_count);

#endif
