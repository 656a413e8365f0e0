#include "operator.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "modules.h" /* generated: the modules as arrays */

static const Variant shared[SHARED_KERNELS] = {
	[COPY_STATES] = { .kernel = "copy_states", .image = tilekern_copy_states, .bytes = &tilekern_copy_states_bytes },
	[DEAL] = { .kernel = "deal", .image = tilekern_deal, .bytes = &tilekern_deal_bytes },
	[CLEAR] = { .kernel = "clear", .image = tilekern_clear, .bytes = &tilekern_clear_bytes },
	[LARGEST] = { .kernel = "largest", .image = tilekern_largest, .bytes = &tilekern_largest_bytes },
	[POWERS] = { .kernel = "powers", .image = tilekern_powers, .bytes = &tilekern_powers_bytes },
	[SCALE_BACK] = { .kernel = "scale_back", .image = tilekern_scale_back, .bytes = &tilekern_scale_back_bytes },
};

/* The kernels of an operator, then the shared ones. */
struct Loaded {
	Cache calls; /* first: tests count them */
	pthread_mutex_t lock; /* of what follows */
	struct { tilert_module *module; tilert_kernel *kernel; } slot[];
};

/* Parameters of any operator. */
typedef union Params { max_align_t align; unsigned char bytes[MAX_PARAMS]; } Params;

/* `tilekern_gdn` and `open` to the name of the function called. */
enum { NAME = 64 };
static const char *function(char who[NAME], const Family *f, const char *verb)
{
	snprintf(who, NAME, verb ? "%s_%s" : "%s", f->name, verb);
	return who;
}

/* ---- open and close ------------------------------------------------------------------ */

static Operator *make(const Family *f, tilert_device *d, int sm_count)
{
	Operator *op = malloc(sizeof *op);
	struct Loaded *l = calloc(1, sizeof *l + (size_t)(f->variant_count + SHARED_KERNELS) * sizeof l->slot[0]);
	if (!op || !l || pthread_mutex_init(&l->lock, NULL) != 0 || cache_init(&l->calls) != 0) {
		free(l);
		free(op);
		return NULL;
	}
	*op = (Operator){ f, d, sm_count, l };
	return op;
}

size_t workspace_place(size_t *at, int64_t bytes)
{
	size_t here = *at;
	*at += ((size_t)bytes + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
	return here;
}

tilert_status operator_open(const Family *f, tilert_device *d, const void *out, Operator **op)
{
	char name[NAME];
	const char *who = function(name, f, "open");
	tilert_device_info info;
	if (!d)
		return launch_fail(TILERT_EINVAL, "%s: d is NULL", who);
	if (!out)
		return launch_fail(TILERT_EINVAL, "%s: out is NULL", who);
	tilert_status s = tilert_device_get_info(d, &info);
	if (s != TILERT_OK)
		return launch_passed_on(s, who);
	*op = make(f, d, info.sm_count);
	return *op ? TILERT_OK : launch_fail(TILERT_ENOMEM, "%s: no memory", who);
}

void operator_close(Operator *op)
{
	if (!op)
		return;
	cache_clear(&op->loaded->calls);
	for (int i = 0; i < op->family->variant_count + SHARED_KERNELS; i++)
		tilert_module_close(op->loaded->slot[i].module);
	pthread_mutex_destroy(&op->loaded->lock);
	free(op->loaded);
	free(op);
}

/* ---- kernels ---------------------------------------------------------------------------- */

static tilert_status load(Operator *op, const Variant *v, int slot)
{
	tilert_module *m;
	tilert_kernel *k;
	tilert_status s = tilert_module_load(op->device, v->image, *v->bytes, &m);
	if (s != TILERT_OK)
		return launch_passed_on(s, op->family->name);
	s = tilert_module_kernel(m, v->kernel, &k);
	if (s != TILERT_OK) {
		launch_passed_on(s, op->family->name);
		tilert_module_close(m);
		return s;
	}
	op->loaded->slot[slot].module = m;
	op->loaded->slot[slot].kernel = k;
	return TILERT_OK;
}

static tilert_status get(Operator *op, const Variant *v, int slot, tilert_kernel **out)
{
	pthread_mutex_lock(&op->loaded->lock);
	tilert_status s = op->loaded->slot[slot].kernel ? TILERT_OK : load(op, v, slot);
	*out = op->loaded->slot[slot].kernel;
	pthread_mutex_unlock(&op->loaded->lock);
	return s;
}

static tilert_status add(Queue *q, const Variant *v, int slot, const Args *all)
{
	tilert_kernel *k;
	Call *c = q->call;
	tilert_status s = get(q->op, v, slot, &k);
	if (s != TILERT_OK)
		return s;
	if (c->n == MAX_LAUNCHES)
		return launch_fail(TILERT_EINVAL, "%s: more than %d kernels", q->who, MAX_LAUNCHES);
	s = args_prepare(q->who, k, all, &c->launch[c->n]);
	c->n += s == TILERT_OK;
	return s;
}

tilert_status queue_kernel(Queue *q, const int axes[AXES], const Args *all)
{
	const Family *f = q->op->family;
	for (int i = 0; i < f->variant_count; i++) {
		if (memcmp(f->variants[i].axes, axes, sizeof f->variants[i].axes) == 0)
			return add(q, &f->variants[i], i, all);
	}
	return launch_fail(TILERT_EINVAL, "%s: no kernel of %s is compiled for %d %d %d %d", q->who, f->name, axes[0], axes[1], axes[2], axes[3]);
}

tilert_status queue_shared(Queue *q, SharedKernel k, const Args *all)
{
	return add(q, &shared[k], q->op->family->variant_count + (int)k, all);
}

/* ---- calls ------------------------------------------------------------------------------ */

tilert_status operator_take(const Family *f, const char *who, const void *given, void *p)
{
	f->init(p);
	tilert_status s = check_version(who, f->name, given, f->first, p, f->size);
	return s == TILERT_OK ? f->extents(who, p) : s;
}

tilert_status operator_workspace(const Family *f, const Operator *op, const void *given, size_t *out)
{
	char name[NAME];
	const char *who = function(name, f, "workspace_bytes");
	Params p;
	if (!op)
		return launch_fail(TILERT_EINVAL, "%s: the operator is NULL", who);
	tilert_status s = operator_take(f, who, given, &p);
	if (s != TILERT_OK)
		return s;
	if (!out)
		return launch_fail(TILERT_EINVAL, "%s: out is NULL", who);
	*out = f->workspace(&p, op->sm_count);
	return TILERT_OK;
}

static tilert_status check_workspace(const Family *f, const char *who, const Params *p, int sm_count)
{
	size_t given, needed = f->workspace(p, sm_count);
	memcpy(&given, p->bytes + f->workspace_bytes, sizeof given);
	return given >= needed ? TILERT_OK : launch_fail(TILERT_EINVAL, "%s: workspace_bytes is %zu, but %zu are needed", who, given, needed);
}

/* Everything that comes before queueing, of parameters that are of our version and have extents that are served. */
static tilert_status prepare(const Family *f, Operator *op, const char *who, const Params *p, Call *c)
{
	tilert_status s = f->check(who, p);
	if (s != TILERT_OK || f->idle(p))
		return s;
	s = check_workspace(f, who, p, op->sm_count);
	return s == TILERT_OK ? f->queue(&(Queue){ op, who, c }, p, op->sm_count) : s;
}

static tilert_status take(const Family *f, const Operator *op, const char *who, const void *given, Params *p)
{
	return op ? operator_take(f, who, given, p) : launch_fail(TILERT_EINVAL, "%s: the operator is NULL", who);
}

/* A new call, used once; its key may be of no bytes. */
static tilert_status make_call(const Family *f, Operator *op, const char *who, const Params *p, const void *key, size_t key_bytes, Call **out)
{
	Call *c = call_new(key, key_bytes);
	if (!c)
		return launch_fail(TILERT_ENOMEM, "%s: no memory for a call", who);
	tilert_status s = prepare(f, op, who, p, c);
	if (s == TILERT_OK)
		*out = c;
	else
		call_free(c);
	return s;
}

static tilert_status launch(const Call *c, const char *who, tilert_stream stream)
{
	if (c->chain)
		return launch_passed_on(tilert_chain_launch(c->chain, stream), who);
	for (int i = 0; i < c->n; i++) {
		tilert_status s = tilert_prepared_launch(c->launch[i], stream);
		if (s != TILERT_OK)
			return launch_passed_on(s, who);
	}
	return TILERT_OK;
}

tilert_status operator_prepare(const Family *f, Operator *op, const void *given, const void *out, Call **call)
{
	char name[NAME];
	const char *who = function(name, f, "prepare");
	Params p;
	tilert_status s = take(f, op, who, given, &p);
	if (s == TILERT_OK && !out)
		s = launch_fail(TILERT_EINVAL, "%s: out is NULL", who);
	Call *made = NULL;
	if (s == TILERT_OK)
		s = make_call(f, op, who, &p, NULL, 0, &made);
	if (s != TILERT_OK)
		return s;
	if (made->n > 1)
		s = launch_passed_on(tilert_chain_create(made->launch, (size_t)made->n, &made->chain), who);
	if (s == TILERT_OK)
		*call = made;
	else
		call_free(made);
	return s;
}

/* All that a call depends on: the family, the parameters, and those that they point to. */
typedef struct Key { const Family *family; Params p, inner; } Key;

static tilert_status make_key(const Family *f, const Inner *inner, const char *who, const Params *p, Key *key, size_t *bytes)
{
	const void *more = NULL;
	memset(key, 0, offsetof(Key, p)); /* alignment leaves bytes behind the family, which count, too */
	key->family = f;
	memcpy(key->p.bytes, p->bytes, f->size);
	*bytes = offsetof(Key, p) + f->size;
	if (!inner)
		return TILERT_OK;
	memcpy(&more, p->bytes + inner->at, sizeof more);
	memset(key->p.bytes + f->size, 0, sizeof key->p - f->size);
	memset(key->p.bytes + inner->at, 0, sizeof more);
	*bytes = offsetof(Key, inner) + inner->family->size;
	return operator_take(inner->family, who, more, &key->inner);
}

/* The call with this key, from the cache or made now. */
static tilert_status find_call(const Family *f, Operator *op, const char *who, const Params *p, const Key *key, size_t bytes, Call **out)
{
	*out = cache_find(&op->loaded->calls, key, bytes);
	if (*out)
		return TILERT_OK;
	tilert_status s = make_call(f, op, who, p, key, bytes, out);
	if (s == TILERT_OK)
		cache_keep(&op->loaded->calls, *out);
	return s;
}

tilert_status operator_run(const Family *f, const Inner *inner, const char *verb, Operator *op, const void *given, tilert_stream stream)
{
	char name[NAME];
	const char *who = function(name, f, verb);
	Params p;
	Key key;
	size_t bytes;
	Call *c;
	tilert_status s = take(f, op, who, given, &p);
	if (s == TILERT_OK)
		s = make_key(f, inner, who, &p, &key, &bytes);
	if (s == TILERT_OK)
		s = find_call(f, op, who, &p, &key, bytes, &c);
	if (s != TILERT_OK)
		return s;
	s = launch(c, who, stream);
	cache_release(&op->loaded->calls, c);
	return s;
}

tilert_status operator_launch(const Family *f, const Call *c, tilert_stream stream)
{
	char name[NAME];
	const char *who = function(name, f, "launch");
	return c ? launch(c, who, stream) : launch_fail(TILERT_EINVAL, "%s: c is NULL", who);
}

void operator_call_destroy(Call *c) { call_free(c); }
