/* kda.h - what the KDA backward has of the forward. */
#ifndef TILE_KDA_KDA_H
#define TILE_KDA_KDA_H

#include <tilekern/kda.h>

#include "../launch/sequences.h"
#include "../launch/states.h"

/* Axes of variants.def. */
enum { forward, backward_states, backward_scan, backward_grads, backward_sums, backward_heads, backward_clear, backward_beta };
enum { none, bf16, f16, f32 };
enum { any = none, same = f32 + 1, raw, raw_f32, fade_bf16, fade_f16, fade_f32 };
enum { KDA_MAX_KEYS = 128 };

extern const Family *const kda_family;

enum { Q, K, V, O, G, BETA, KDA_ROWS };
void kda_rows(const tilekern_kda_params *p, Rows r[KDA_ROWS]);
Args kda_arguments(const tilekern_kda_params *p);

#endif
