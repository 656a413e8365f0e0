/* operators.h - the operators: their schemas, and the kernels that torch calls. */
#ifndef TILEKERN_TORCH_OPERATORS_H
#define TILEKERN_TORCH_OPERATORS_H

#include "shim.h"

typedef struct OperatorRow { const char *name, *schema; Kernel *kernel; } OperatorRow;
enum { OPERATORS = 10 };
extern const OperatorRow operators[OPERATORS];

#endif
