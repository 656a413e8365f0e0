/* plan.h - how a GDN call is spread over the device, and what it needs of the workspace. */
#ifndef TILE_GDN_PLAN_H
#define TILE_GDN_PLAN_H

#include <stdbool.h>
#include <tilekern/gdn.h>

/* What the extents of a call, which have been checked, come to. */
int64_t gdn_key_tile(const tilekern_gdn_params *p);   /* K rounded up to a tile: 64, 128 or 256 */
int64_t gdn_value_tile(const tilekern_gdn_params *p); /* V rounded up to 128s */
bool gdn_saves(const tilekern_gdn_params *p);         /* scan writes more than o and the final state */
bool gdn_norms(const tilekern_gdn_params *p);         /* chunk makes 1 / |q| for scan */

typedef struct GdnPlan {
	bool single;         /* forward.tile does it all; then of what follows only units, least, share, hand and what stands here count */
	int64_t least;       /* chunks of 32 that sequences are cut into, at least (stages/deal.tile); 0: they are not */
	float share;         /* heads of a CTA, on average */
	size_t work, held, shares; /* in the workspace, after the units */
	int64_t shares_count;  /* CTAs of forward.tile */
	int64_t part;        /* chunks of a unit (units.tile); 0: a unit is a sequence */
	int most;            /* units of a sequence that is cut by its own length, which are then of `part` or more chunks; 0: by what all need */
	int64_t units, starts_count;
	bool ordered;        /* CTAs take packed sequences by length (units.tile) */
	bool narrow;         /* one state warpgroup, 64 columns of V, a CTA; else two */
	int64_t ctas;        /* of scan, at most: persistent for short sequences, long ones are better handed out as CTAs become free */
	int64_t active;      /* sequences scanned at once (chunk.tile) */
	int64_t group;       /* value heads that one item of chunk makes */
	bool joined;         /* units may need scan_units.tile and join_units.tile */
	int warm;            /* chunks that a unit may be warmed up with */
	float negligible;    /* log2 of what is left of a state that may be dropped */
	size_t fade, norm_q, pending, starts, change, hold, hand, bytes; /* in the workspace, after the records; hand: states that CTAs of forward.tile leave for others */
} GdnPlan;

GdnPlan gdn_plan(const tilekern_gdn_params *p, int sm_count);

#endif
