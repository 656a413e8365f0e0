/* data.h - inputs and digests of tensors. */
#ifndef TILE_RANDOM_DATA_H
#define TILE_RANDOM_DATA_H

#include "tests/random/program.h"

int64_t tensor_elements(const TensorParam *t);
/* The input's bytes; tensors without input are left as they are. */
void tensor_fill(const Program *p, int k, unsigned char *bytes);
/* Zeros have no sign: the language does not promise one. */
bool is_minus_zero(DType t, const unsigned char *element);
uint64_t tensor_digest(const TensorParam *t, const unsigned char *bytes);

#endif
