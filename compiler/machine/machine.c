/* machine.c - questions to a machine's tables. */
#include "compiler/machine/machine.h"

#include <stddef.h>

const Product *machine_product(const Machine *m, DType a, DType b)
{
	for (int i = 0; i < m->nproducts; i++)
		if (m->products[i].a == a && m->products[i].b == b)
			return &m->products[i];
	return NULL;
}
