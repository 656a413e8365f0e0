/* pass.c - runs the passes of passes.def and holds what several of them ask about ops. */
#include "compiler/passes/pass.h"

#include <string.h>
#include <time.h>

static const struct {
	const char *name;
	bool (*run)(Tir *t);
} pass_table[] = {
#define PASS(id, name, function, contract) { name, function },
#include "compiler/passes/passes.def"
#undef PASS
};

/* ---- running ---- */

static bool name_listed(const char *list, const char *name)
{
	char one[64];
	while (next_name(&list, one, sizeof one))
		if (strcmp(one, name) == 0)
			return true;
	return false;
}

static bool known_pass(Tir *t, const char *name)
{
	const char *names[PASS_COUNT];
	for (int i = 0; i < PASS_COUNT; i++) {
		names[i] = pass_table[i].name;
		if (strcmp(names[i], name) == 0)
			return true;
	}
	diag_error(t->diags, (Loc){ 0 }, E_UNKNOWN_NAME, "there is no pass '%s'", name);
	const char *near = nearest_name(name, names, PASS_COUNT);
	if (near)
		diag_help(t->diags, "did you mean '%s'?", near);
	return false;
}

static bool options_sound(Tir *t, const PassOptions *o)
{
	char one[64];
	bool sound = true;
	for (const char *list = o->only; list && next_name(&list, one, sizeof one);)
		sound &= known_pass(t, one);
	if (o->print_after && strcmp(o->print_after, "all") != 0)
		sound &= known_pass(t, o->print_after);
	return sound;
}

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static bool run_one(Tir *t, PassId id, const PassOptions *o)
{
	double start = now_ms();
	if (!pass_table[id].run(t) || !tir_verify(t))
		return false;
	if (o->time)
		fprintf(o->time_to, "%-14s %9.3f ms\n", pass_table[id].name, now_ms() - start);
	if (o->print_after && (strcmp(o->print_after, "all") == 0 || strcmp(o->print_after, pass_table[id].name) == 0)) {
		fprintf(o->print_to, "// after %s\n", pass_table[id].name);
		tir_print(t, o->print_to);
	}
	return true;
}

bool passes_run(Tir *t, const PassOptions *o)
{
	if (!options_sound(t, o) || !tir_verify(t))
		return false;
	for (int i = 0; i < PASS_COUNT; i++) {
		if (o->only && !name_listed(o->only, pass_table[i].name))
			continue;
		if (!run_one(t, (PassId)i, o))
			return false;
	}
	return true;
}

/* ---- shared by passes ---- */

void each_id(const Region *r, void (*visit)(unsigned id, void *user), void *user)
{
	for (int i = 0; i < r->nargs; i++)
		visit(r->args[i]->id, user);
	for (const Op *op = r->first; op; op = op->next) {
		if (op->result)
			visit(op->result->id, user);
		for (int i = 0; i < 2; i++)
			if (op->regions[i])
				each_id(op->regions[i], visit, user);
	}
}

int64_t wgmma_columns(const Machine *m, int64_t n)
{
	if (n <= m->wgmma_columns)
		return n;
	for (int64_t most = m->wgmma_columns; most >= 64; most /= 2)
		if (n % most == 0)
			return most;
	return 8;
}

int64_t tile_bytes(const TileRef *r)
{
	int64_t n = dtype_bytes(r->dtype);
	for (int i = 0; i < r->rank; i++) {
		if (r->shape[i] < 0)
			return -1;
		n *= r->shape[i];
	}
	return n;
}

const Op *shared_root(const Op *shared)
{
	while (shared->nargs)
		shared = operand(shared, ARG_OBJECT)->def;
	return shared;
}

int64_t shared_stage_bytes(const Op *shared)
{
	const Type *ty = &shared->result->type;
	int64_t n = dtype_bytes(ty->dtype), ring = attr_int(shared, AT_RING, 0);
	for (int i = 0; i < ty->rank; i++)
		n *= ty->shape[i];
	return ring > 0 ? n / ring : n;
}

const char *object_name(const Op *object)
{
	return attr_text(object, AT_NAME, object->result && object->result->name ? object->result->name : "?");
}

bool next_name(const char **list, char *name, size_t size)
{
	const char *s = *list + strspn(*list, ", ");
	size_t n = strcspn(s, ", ");
	*list = s + n;
	if (!n)
		return false;
	if (n >= size)
		n = size - 1;
	memcpy(name, s, n);
	name[n] = '\0';
	return true;
}
