/* shared_orders.h - whether tiles in one storage that hand something on to each other have it in one order. */
#ifndef TILE_PASSES_SHARED_ORDERS_H
#define TILE_PASSES_SHARED_ORDERS_H

#include "compiler/passes/pass.h"

/* Of tiles that have layouts; by id, given: the source has it, use: zeros.  Reports its errors. */
bool shared_orders_agree(Tir *t, const Op *kernel, const bool *given, uint8_t *use);

#endif
