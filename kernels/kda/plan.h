/* plan.h - how a KDA call is spread over the device (walk.tile). */
#ifndef TILE_KDA_PLAN_H
#define TILE_KDA_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <tilekern/kda.h>

typedef enum KdaWay {
	KDA_WHOLE,   /* CTAs take whole items */
	KDA_WINDOWS, /* shares begin where windows do, which are tried in a launch before the call */
	KDA_ALONE,   /* shares begin where the slowest channels say so, which each CTA finds out */
	KDA_EITHER,  /* that or the next, by the longest of packed sequences (walk.tile) */
	KDA_NEEDED,  /* as ALONE; states that enter the other shares are made of those before (join.tile) */
	KDA_EXACTLY, /* all of them are */
	KDA_MADE,    /* with `saved`, and of the backward: as NEEDED, by a launch before the call (STATES of walk.tile); gradients of states likewise (backward_scan.tile) */
	KDA_UNITS    /* a sequence's own units, where the slowest channels or windows say so (units.tile) */
} KdaWay;

typedef struct KdaPlan {
	int ctas;
	KdaWay way;
	bool by_length;        /* KDA_WINDOWS or whole items, by the lengths of packed sequences and by what windows say */
	bool halves;           /* of WHOLE: items have 64 columns of V, by a form of its own (K of 128) */
	int run;               /* of WINDOWS, 0: none: where a CTA would have so many shares to scan, because those behind its own cannot begin, items stay whole; below 0: those of 64 columns, in a launch behind the call */
	int part, each;        /* chunks of a share; that an item counts as; of several packed sequences, whose shares the device knows, below 0 what each counts as beside its chunks (walk.tile) */
	int warm;              /* the most chunks of 32 tokens of a window */
	int64_t keys;          /* K and columns of V of a state that is made */
	size_t begun, enter, across;  /* where they are in the workspace, behind `back` (join.tile) */
	int pieces, least, cut_from; /* of KDA_UNITS: how many units a sequence has at most, their chunks at least, those of a sequence that is cut */
	int looks;             /* CTAs that find out which can begin; 0: there is none to cut, or `single` */
	bool single;              /* each CTA has one unit at most and finds that out itself */
	int64_t begins_count;
	size_t begins;         /* where they are in the workspace */
	size_t bytes;          /* of workspace */
} KdaPlan;

enum { KDA_SAVED_SHARES = 1024 /* at most, of a call with `saved` that is cut */, KDA_LONG_MEAN = 256 /* tokens of packed sequences, LEAST_MEAN of walk.tile: with fewer they are decodes or short prompts, whose lengths are not worth a look */ };

int kda_keys(const tilekern_kda_params *p);    /* K that the kernel is compiled for */
/* Whether whole items of a plan, with K = 128, are dealt by length, by a form of their own (whole.tile). */
bool kda_deals(const tilekern_kda_params *p, const KdaPlan *l);
/* Of a scan that the backward needs: with `saved`, and its own; and of the forward, which is the same with `saved`. */
KdaPlan kda_plan(const tilekern_kda_params *p, int sm_count);
KdaPlan kda_plan_forward(const tilekern_kda_params *p, int sm_count);

#endif
