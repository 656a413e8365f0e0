/* gdn_check.h - what a GDN call wrote, against its recurrence: o, final states, checkpoints, what is saved for a backward. */
#ifndef TILE_TESTS_GDN_CHECK_H
#define TILE_TESTS_GDN_CHECK_H

#include "tests/numeric/kernels/gdn_run.h"

/* Within the contract, or what the row allows. */
void gdn_check(GdnRun *r);

#endif
