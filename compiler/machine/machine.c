/* machine.c - the machines, and questions to their tables. */
#include "compiler/machine/machine.h"

#include <stddef.h>
#include <string.h>

static const Machine *const machines[] = {
#define MACHINE(id, name) &machine_##id,
#include "compiler/machine/machines.def"
#undef MACHINE
};

const Machine *machine_default(void) { return machines[0]; }

const Machine *machine_named(const char *name)
{
	for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
		if (strcmp(machines[i]->name, name) == 0)
			return machines[i];
	return NULL;
}

const Product *machine_product(const Machine *m, DType a, DType b)
{
	for (int i = 0; i < m->nproducts; i++)
		if (m->products[i].a == a && m->products[i].b == b)
			return &m->products[i];
	return NULL;
}
