/* kda.h - what the KDA backward has of the forward. */
#ifndef TILE_KDA_KDA_H
#define TILE_KDA_KDA_H

#include <tilekern/kda.h>

#include "../launch/forward.h"
#include "plan.h"

/* Axes of variants.def. */
enum { forward, backward_scan, backward_grads, backward_sums, backward_heads, backward_beta, reset };
enum { none, bf16, f16, f32 };
enum { any = none, same = f32 + 1, raw, raw_f32, bounded, cut_bf16, cut_f16, cut_f32, units_bf16, units_f16, units_f32, looks_bf16, looks_f16, half_bf16, half_f16, half_f32, dealt_bf16, dealt_f16, dealt_f32, save_same, save_f32, only_same, only_f32, joins_same, joins_f32,
	plain = 64 /* and the form without: PLAIN of forward.tile and backward_scan.tile */, plain_bf16 = plain + bf16, plain_f16, plain_f32, plain_same, plain_cut_bf16 = plain + cut_bf16, plain_cut_f16, plain_cut_f32,
	plain_units_bf16, plain_units_f16, plain_units_f32, plain_half_bf16 = plain + half_bf16, plain_half_f16, plain_half_f32, plain_dealt_bf16, plain_dealt_f16, plain_dealt_f32,
	plain_save_same, plain_save_f32, plain_only_same, plain_only_f32, plain_joins_same = plain + joins_same, plain_joins_f32 };

extern const Family *const kda_family;

void kda_rows(const tilekern_kda_params *p, Rows r[FORWARD_ROWS]);
Args kda_arguments(const tilekern_kda_params *p);

/* What the backward needs of the forward (saved.tile): where its parts are, and its size. */
typedef struct KdaSaved { size_t records, states, u, outcome, back, bytes; } KdaSaved;
KdaSaved kda_saved(const tilekern_kda_params *p);
void kda_saved_arguments(Args *a, const tilekern_kda_params *p, tilert_ptr saved);
int64_t kda_columns(const tilekern_kda_params *p); /* of V, of a saved state; channels: kda_keys */
/* Where shares of the call begin (walk.tile): arguments, and the kernels that find out; `states`: with the states that enter, if the plan has them made.  work: plan.h's workspace, which begins with `back`
 * where that is not elsewhere. */
void kda_share_arguments(Args *a, const KdaPlan *l, tilert_ptr back, tilert_ptr work);
tilert_status kda_queue_begins(Queue *q, const tilekern_kda_params *p, const KdaPlan *l, tilert_ptr back, tilert_ptr work, bool states);
tilert_status kda_queue_reset(Queue *q, tilert_ptr numbers, int64_t n);
/* The forward without o: `saved` alone; those kernels first. */
tilert_status kda_queue_saved(Queue *q, const tilekern_kda_params *p, const KdaPlan *l, tilert_ptr back, tilert_ptr work, tilert_ptr saved);

#endif
