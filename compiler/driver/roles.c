/* roles.c - registers by role, as far as liveness can tell: ptxas speaks of whole kernels. */
#include "compiler/driver/roles.h"

#include "compiler/analysis/liveness.h"

typedef struct Roles { const Tir *t; RoleRegisters *list; int n; } Roles;

static RoleRegisters registers_of(const Tir *t, const Op *team)
{
	return (RoleRegisters){ team, team_registers(t->machine, team), fragment_pressure(t, team).registers };
}

static bool add_role(Op *op, void *user)
{
	Roles *r = user;
	if (op->code == OP_ROLE && r->n < ROLES_MAX)
		r->list[r->n++] = registers_of(r->t, op);
	return op->code != OP_ROLE && op->code != OP_PARALLEL;
}

int roles_of(const Tir *t, const Op *kernel, RoleRegisters out[ROLES_MAX])
{
	Roles r = { t, out, 0 };
	tir_walk(kernel->regions[0], add_role, &r);
	return r.n;
}

RoleRegisters role_fullest(const Tir *t, const Op *kernel)
{
	RoleRegisters list[ROLES_MAX], fullest = registers_of(t, kernel);
	int n = roles_of(t, kernel, list);
	for (int i = 0; i < n; i++)
		if (list[i].fragments * fullest.has > fullest.fragments * list[i].has)
			fullest = list[i];
	return fullest;
}

void roles_report(const Tir *t, const Op *kernel, FILE *out)
{
	RoleRegisters list[ROLES_MAX];
	int n = roles_of(t, kernel, list);
	for (int i = 0; i < n; i++)
		fprintf(out, "tilec: kernel %s, role %s: %lld registers, of which fragments take %lld\n", attr_text(kernel, AT_NAME, "?"),
			attr_text(list[i].role, AT_NAME, "?"), (long long)list[i].has, (long long)list[i].fragments);
}
