/* gdn_pool.h - what gdn_run.c needs of gdn_pool.c. */
#ifndef TILE_TESTS_GDN_POOL_H
#define TILE_TESTS_GDN_POOL_H

#include "tests/check/random.h"
#include "tests/numeric/kernels/gdn_run.h"

/* From r->row and r->in: buffers and parameters of states.  r->in.initial becomes what sequences really start from. */
void gdn_pool_make(GdnRun *r);
void gdn_pool_free(GdnRun *r);
void gdn_pool_poison(GdnRun *r);
/* Where element i of [heads][K][V] is in a state. */
int64_t gdn_pool_inner(const GdnRow *row, int64_t i);

#endif
