/* gdn.h - what the GDN backward has of the forward. */
#ifndef TILE_GDN_GDN_H
#define TILE_GDN_GDN_H

#include <tilekern/gdn.h>

#include "../launch/forward.h"
#include "plan.h"

/* Axes of variants.def. */
enum { chunk, scan, scan_wide, scan_units, join_units, forward, backward_states, backward_scan, backward_grads, backward_scan_wide, backward_grads_wide, backward_sums, backward_beta };
enum { none, bf16, f16 };
enum { any, v64, v128, t64, t128, save, stops, kf32, vf32, kio, vio };

extern const Family *const gdn_family;

enum { U = FORWARD_ROWS, GDN_ROWS };
void gdn_rows(const tilekern_gdn_params *p, Rows r[GDN_ROWS]);
/* hold: 0, or where the initial states are for this call. */
Args gdn_arguments(const tilekern_gdn_params *p, const GdnPlan *l, tilert_ptr hold);

#endif
