/* run.c - builds the arguments of a run, moves them, and times launches. */
#include "runtime/tools/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/tools/element.h"
#include "runtime/tools/tool.h"

enum { REPEATS_CUDA = 20, REPEATS_CPU = 3 };

void run_check(tilert_status s)
{
	if (s) /* what is invalid was given on the command line */
		tool_die(s == TILERT_EINVAL ? EXIT_USAGE : EXIT_RUN, "%s", tilert_last_error());
}

/* ---- dims and scalars ---- */

static int64_t parse_integer(const char *option, const NameValue *v, bool is_u64)
{
	int64_t i;

	if (!tool_integer(v->value, is_u64, &i))
		tool_die(EXIT_USAGE, "%s %s=%s: expected an integer", option, v->name, v->value);
	return i;
}

static double parse_real(const NameValue *v)
{
	char *end;
	double f = strtod(v->value, &end);

	if (end == v->value || *end)
		tool_die(EXIT_USAGE, "--scalar %s=%s: expected a number", v->name, v->value);
	return f;
}

/* Whether a shape on the command line uses the dim, which then need not be one of the kernel's. */
static bool is_used_in_shapes(const Options *o, const char *dim)
{
	size_t n = strlen(dim);

	for (size_t i = 0; i < o->args.count; i++) {
		const char *p = strchr(o->args.items[i].value, '(');
		while (p && (p = strstr(p + 1, dim))) {
			if (strchr("(, ", p[-1]) && strchr("), ", p[n]) && p[n])
				return true;
		}
	}
	return false;
}

static bool find_param(const Run *r, const char *name, tilert_param *out)
{
	for (size_t i = 0; i < tilert_kernel_param_count(r->kernel); i++) {
		run_check(tilert_kernel_param(r->kernel, i, out));
		if (!strcmp(out->name, name))
			return true;
	}
	return false;
}

static void add_dims(Run *r)
{
	for (size_t i = 0; i < r->o->dims.count; i++) {
		const NameValue *v = &r->o->dims.items[i];
		tilert_param param;
		int64_t value = parse_integer("--dim", v, false);
		if (find_param(r, v->name, &param) || !is_used_in_shapes(r->o, v->name))
			r->args[r->n_args++] = (tilert_arg){ .name = v->name, .kind = TILERT_ARG_DIM, .i = value };
	}
}

static void add_scalars(Run *r)
{
	for (size_t i = 0; i < r->o->scalars.count; i++) {
		const NameValue *v = &r->o->scalars.items[i];
		tilert_arg a = { .name = v->name, .kind = TILERT_ARG_SCALAR };
		tilert_param param;
		/* an unknown name is left for tilert to complain about */
		bool known = find_param(r, v->name, &param);
		if (known && param.dtype == TILERT_BOOL && !strcasecmp(v->value, "true"))
			a.i = 1;
		else if (known && param.dtype == TILERT_BOOL && !strcasecmp(v->value, "false"))
			a.i = 0;
		else if (known && element_is_integer(param.dtype))
			a.i = parse_integer("--scalar", v, param.dtype == TILERT_U64);
		else
			a.f = parse_real(v);
		r->args[r->n_args++] = a;
	}
}

/* ---- tensors ---- */

static void add_tensor(Run *r, const HostTensor *t)
{
	tilert_arg a = { .name = t->name, .kind = TILERT_ARG_TENSOR };

	a.tensor.dtype = t->dtype;
	a.tensor.rank = t->rank;
	memcpy(a.tensor.extents, t->extents, sizeof a.tensor.extents);
	r->args[r->n_args++] = a;
}

static bool is_wanted_output(const Run *r, const tilert_param *p)
{
	return (p->direction & 2) && (options_find(&r->o->outs, p->name) || options_find(&r->o->compares, p->name));
}

/* Where the tensor's values come from; false: it is absent. */
static bool find_source(const Run *r, const tilert_param *p, Source *out)
{
	const char *text = options_find(&r->o->args, p->name);

	if (text) {
		*out = source_parse(p->name, text, &r->o->dims);
		return true;
	}
	*out = (Source){ .kind = SRC_POISON };
	if (r->o->trace && !strcmp(p->name, "trace")) {
		out->kind = SRC_ZEROS; /* points that are not recorded stay 0 */
		return true;
	}
	if (p->direction == 2 && (!p->optional || is_wanted_output(r, p)))
		return true;
	if (!p->optional)
		tool_die(EXIT_USAGE, "the kernel reads %s%s: give it with --arg %s=...", p->name, p->shape, p->name);
	return false;
}

static void fill_tensor(Run *r, size_t i, const Source *from)
{
	HostTensor *t = &r->tensors[i];
	int64_t extents[TILERT_MAX_RANK];

	if (from->has_shape) {
		tensor_set_extents(t, from->rank, from->extents);
	} else if (from->kind != SRC_FILE) {
		run_check(tilert_kernel_extents(r->kernel, i, r->args, r->n_args, extents));
		tensor_set_extents(t, t->rank, extents);
	}
	tensor_fill(t, from, r->o->seed);
	add_tensor(r, t);
}

static void check_names(const Run *r, const NameValues *list, const char *option)
{
	tilert_param p;

	for (size_t i = 0; i < list->count; i++) {
		if (!find_param(r, list->items[i].name, &p) || p.kind != TILERT_ARG_TENSOR)
			tool_die(EXIT_USAGE, "%s %s: kernel %s has no such tensor", option, list->items[i].name,
			         tilert_kernel_name(r->kernel));
	}
}

/* "k=@u": u is another tensor. */
static void check_sources(const Run *r)
{
	for (size_t i = 0; i < r->o->args.count; i++) {
		const NameValue *a = &r->o->args.items[i];
		tilert_param p;

		if (a->value[0] == '@' && (!find_param(r, a->value + 1, &p) || p.kind != TILERT_ARG_TENSOR))
			tool_die(EXIT_USAGE, "--arg %s=%s: kernel %s has no tensor '%s'", a->name, a->value, tilert_kernel_name(r->kernel), a->value + 1);
	}
}

/* Tensors with a shape of their own come first, since the shapes of the others follow from their dims. */
static void add_tensors(Run *r)
{
	Source *sources = tool_alloc(r->n_tensors, sizeof *sources);
	bool *present = tool_alloc(r->n_tensors, sizeof *present);

	for (size_t i = 0; i < r->n_tensors; i++) {
		tilert_param p;
		run_check(tilert_kernel_param(r->kernel, i, &p));
		r->tensors[i] = (HostTensor){ .name = p.name, .dtype = p.dtype, .rank = p.rank };
		r->directions[i] = p.direction;
		present[i] = find_source(r, &p, &sources[i]);
	}
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < r->n_tensors; i++) {
			bool has_own_shape = sources[i].kind == SRC_FILE || sources[i].has_shape;
			if (present[i] && has_own_shape == (pass == 0))
				fill_tensor(r, i, &sources[i]);
		}
	}
	free(sources);
	free(present);
}

void run_build_arguments(Run *r)
{
	const Options *o = r->o;
	tilert_param p;

	check_names(r, &o->args, "--arg");
	check_sources(r);
	check_names(r, &o->outs, "--out");
	check_names(r, &o->compares, "--compare");
	if (o->trace && !find_param(r, "trace", &p))
		tool_die(EXIT_USAGE, "--trace: kernel %s has no parameter 'trace': compile it with -D TRACE=N", tilert_kernel_name(r->kernel));
	for (size_t i = 0; i < tilert_kernel_param_count(r->kernel); i++) {
		run_check(tilert_kernel_param(r->kernel, i, &p));
		r->n_tensors += p.kind == TILERT_ARG_TENSOR;
	}
	r->tensors = tool_alloc(r->n_tensors, sizeof *r->tensors);
	r->directions = tool_alloc(r->n_tensors, sizeof *r->directions);
	r->initial = tool_alloc(r->n_tensors, sizeof *r->initial);
	r->args = tool_alloc(r->n_tensors + o->dims.count + o->scalars.count, sizeof *r->args);
	add_dims(r);
	add_scalars(r);
	add_tensors(r);
}

HostTensor *run_find_output(Run *r, const char *option, const char *name)
{
	for (size_t i = 0; i < r->n_tensors; i++) {
		if (!strcmp(r->tensors[i].name, name) && r->tensors[i].data)
			return &r->tensors[i];
	}
	tool_die(EXIT_USAGE, "%s %s: the tensor is absent", option, name);
}

/* ---- the device ---- */

static tilert_arg *find_arg(Run *r, const char *name)
{
	for (size_t i = 0; i < r->n_args; i++) {
		if (r->args[i].kind == TILERT_ARG_TENSOR && !strcmp(r->args[i].name, name))
			return &r->args[i];
	}
	return NULL;
}

/* Whether launches write t's memory. */
static bool is_changed(const Run *r, size_t i)
{
	bool changed = r->directions[i] & 2;

	for (size_t k = 0; k < r->n_tensors; k++)
		changed |= r->tensors[k].same && !strcmp(r->tensors[k].same, r->tensors[i].name);
	return changed && !r->tensors[i].same;
}

static void keep_initial(Run *r)
{
	for (size_t i = 0; i < r->n_tensors && r->o->seeds > 1; i++) {
		const HostTensor *t = &r->tensors[i];
		if (!t->data || !is_changed(r, i))
			continue;
		r->initial[i] = tool_alloc(t->bytes, 1);
		memcpy(r->initial[i], t->data, t->bytes);
	}
}

static void share_memory(Run *r, const HostTensor *t)
{
	const HostTensor *u = run_find_output(r, "--arg", t->same);

	if (u->same || u->bytes < t->bytes)
		tool_die(EXIT_USAGE, "--arg %s=@%s: %s has no memory for it", t->name, t->same, t->same);
	find_arg(r, t->name)->tensor.data = find_arg(r, t->same)->tensor.data;
}

void run_upload(Run *r)
{
	keep_initial(r);
	for (size_t i = 0; i < r->n_tensors; i++) {
		HostTensor *t = &r->tensors[i];
		tilert_arg *a = find_arg(r, t->name);
		if (!a || t->same)
			continue;
		run_check(tilert_alloc(r->device, t->bytes, &a->tensor.data));
		run_check(tilert_upload(r->device, a->tensor.data, t->data, t->bytes));
	}
	for (size_t i = 0; i < r->n_tensors; i++)
		if (r->tensors[i].same)
			share_memory(r, &r->tensors[i]);
}

void run_restore(Run *r)
{
	for (size_t i = 0; i < r->n_tensors; i++) {
		tilert_arg *a = find_arg(r, r->tensors[i].name);
		if (a && r->initial[i])
			run_check(tilert_upload(r->device, a->tensor.data, r->initial[i], r->tensors[i].bytes));
	}
}

void run_download(Run *r)
{
	run_check(tilert_stream_sync(r->device, NULL));
	for (size_t i = 0; i < r->n_tensors; i++) {
		HostTensor *t = &r->tensors[i];
		tilert_arg *a = find_arg(r, t->name);
		if (a && (r->directions[i] & 2))
			run_check(tilert_download(r->device, t->data, a->tensor.data, t->bytes));
	}
}

static int compare_floats(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

double run_time(Run *r, tilert_prepared *p)
{
	tilert_device_info info;
	tilert_event *begin, *end;

	run_check(tilert_device_get_info(r->device, &info));
	unsigned n = r->o->repeats ? r->o->repeats : info.is_cuda ? REPEATS_CUDA : REPEATS_CPU;
	float *ms = tool_alloc(n, sizeof *ms);
	run_check(tilert_event_create(r->device, &begin));
	run_check(tilert_event_create(r->device, &end));
	for (unsigned i = 0; i < n; i++) {
		run_check(tilert_event_record(begin, NULL));
		run_check(tilert_prepared_launch(p, NULL));
		run_check(tilert_event_record(end, NULL));
		run_check(tilert_event_elapsed(begin, end, &ms[i]));
	}
	qsort(ms, n, sizeof *ms, compare_floats);
	float median = n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
	printf("%s: median %.4f ms, min %.4f ms of %u launches (%s, %s)\n", tilert_kernel_name(r->kernel), (double)median,
	       (double)ms[0], n, info.is_cuda ? "GPU events, caches warm" : "wall clock", info.name);
	tilert_event_destroy(begin);
	tilert_event_destroy(end);
	free(ms);
	return (double)median;
}

static bool shares_memory(const Run *r, const char *name)
{
	bool shares = false;

	for (size_t i = 0; i < r->n_tensors; i++)
		shares |= r->tensors[i].same && !strcmp(r->tensors[i].name, name);
	return shares;
}

void run_free(Run *r)
{
	for (size_t i = 0; i < r->n_args; i++) {
		if (r->args[i].kind == TILERT_ARG_TENSOR && !shares_memory(r, r->args[i].name))
			tilert_free(r->device, r->args[i].tensor.data);
	}
	for (size_t i = 0; i < r->n_tensors; i++) {
		tensor_free(&r->tensors[i]);
		free(r->initial[i]);
	}
	free(r->initial);
	free(r->tensors);
	free(r->directions);
	free(r->args);
}
