/* roles.h - registers by role: what each has, and what its fragments need of them. */
#ifndef TILE_DRIVER_ROLES_H
#define TILE_DRIVER_ROLES_H

#include <stdio.h>

#include "compiler/tir/tir.h"

typedef struct RoleRegisters {
	const Op *role; /* the kernel where it has none */
	int64_t has, fragments;
} RoleRegisters;

/* The roles of a kernel in order; their number. */
enum { ROLES_MAX = 32 };
int roles_of(const Tir *t, const Op *kernel, RoleRegisters out[ROLES_MAX]);
/* The one whose fragments take the largest part of its registers. */
RoleRegisters role_fullest(const Tir *t, const Op *kernel);
/* A line for each role. */
void roles_report(const Tir *t, const Op *kernel, FILE *out);

#endif
