/* calls.c - calls that an operator remembers: the same parameters again, others, more than it remembers, from several threads. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/launch/operator.h"
#include "tests/numeric/kernels/gdn_run.h"

static void expect_output(GdnRun *r, const float *want, const char *what)
{
	gdn_run_poison(r);
	gdn_run_forward(r);
	float *got = gdn_run_output(r);
	if (memcmp(got, want, (size_t)gdn_run_outputs(r) * sizeof *got) != 0)
		fail_msg("%s: o has other bits than a new operator's", what);
	free(got);
}

/* o of an operator that knows no other call. */
static float *fresh(GdnRun *r)
{
	tilekern_gdn *known = r->gdn;
	GDN_OK(tilekern_gdn_open(numeric_device(), &r->gdn));
	gdn_run_poison(r);
	gdn_run_forward(r);
	tilekern_gdn_close(r->gdn);
	r->gdn = known;
	return gdn_run_output(r);
}

/* The kernels run each time, on what is in memory then; every parameter counts. */
static void run_again(const void *row)
{
	GdnRun *r = gdn_run_make(row);
	const size_t bytes = r->v.buffer.bytes;
	unsigned char *v = memory(bytes);
	float *first = fresh(r);
	for (int i = 0; i < 3; i++)
		expect_output(r, first, "again");
	OK(tilert_download(numeric_device(), v, r->v.buffer.p, bytes));
	OK(tilert_memset(numeric_device(), r->v.buffer.p, 0, bytes, NULL));
	float *zeros = fresh(r);
	expect_output(r, zeros, "with another v");
	OK(tilert_upload(numeric_device(), r->v.buffer.p, v, bytes));
	r->p.scale = 0.3f;
	float *scaled = fresh(r);
	assert_true(memcmp(first, scaled, (size_t)gdn_run_outputs(r) * sizeof *first) != 0);
	expect_output(r, scaled, "with another scale");
	r->p.options = TILEKERN_L2NORM;
	float *normed = fresh(r);
	expect_output(r, normed, "with another option");
	r->p.options = 0;
	r->p.scale = 0;
	expect_output(r, first, "as at first");
	r->p.workspace_bytes--;
	assert_int_equal(tilekern_gdn_forward(r->gdn, &r->p, NULL), TILERT_EINVAL);
	r->p.workspace_bytes++;
	expect_output(r, first, "after a refusal");
	float *all[] = { first, zeros, scaled, normed };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		free(all[i]);
	free(v);
	gdn_run_free(r);
}

/* More calls than are remembered, twice. */
static void run_many(const void *row)
{
	enum { MANY = CACHE_SETS * CACHE_WAYS + 40 };
	GdnRun *r = gdn_run_make(row);
	float *o[MANY];
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY; i++) {
			r->p.scale = 0.5f + (float)i / 64;
			gdn_run_forward(r);
			float *got = gdn_run_output(r);
			if (round == 0) {
				o[i] = got;
				continue;
			}
			assert_memory_equal(got, o[i], (size_t)gdn_run_outputs(r) * sizeof *got);
			free(got);
			free(o[i]);
		}
	}
	gdn_run_free(r);
}

static int remembered(const tilekern_gdn *gdn)
{
	const Cache *c = (const Cache *)((const Operator *)gdn)->loaded;
	int n = 0;
	for (int i = 0; i < CACHE_SETS * CACHE_WAYS; i++)
		n += c->set[i / CACHE_WAYS].way[i % CACHE_WAYS] != NULL;
	return n;
}

static __attribute__((noinline)) void leave_on_stack(int value)
{
	volatile unsigned char bytes[1 << 14];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)value;
}

/* What lies on the stack from calls before does not count: neither forward nor backward is a new call each time. */
static void run_anywhere(const void *row)
{
	enum { TIMES = 10 };
	GdnRun *r = gdn_run_make(row);
	tilekern_gdn_backward_params p;
	tilekern_gdn_backward_params_init(&p);
	p.forward = &r->p;
	r->p.batch = 0; /* nothing to do */
	for (int i = 0; i < TIMES; i++) {
		leave_on_stack(i);
		GDN_OK(tilekern_gdn_forward(r->gdn, &r->p, NULL));
		leave_on_stack(~i);
		GDN_OK(tilekern_gdn_backward(r->gdn, &p, NULL));
	}
	assert_int_equal(remembered(r->gdn), 2);
	gdn_run_free(r);
}

typedef struct Caller { GdnRun *run; tilekern_gdn *gdn; tilert_status status; } Caller;

static void *call_often(void *user)
{
	enum { TIMES = 60 };
	Caller *c = user;
	tilekern_gdn_params p = c->run->p;
	for (int i = 0; i < TIMES && c->status == TILERT_OK; i++) {
		p.scale = i == TIMES - 1 ? 0 : 0.5f + (float)(i * i % 17);
		c->status = tilekern_gdn_forward(c->gdn, &p, NULL);
	}
	return NULL;
}

/* Each its own tensors, all one operator. */
static void run_threads(const void *row)
{
	enum { THREADS = 3 };
	Caller callers[THREADS];
	pthread_t threads[THREADS];
	float *want[THREADS];
	for (int i = 0; i < THREADS; i++) {
		GdnRow one = *(const GdnRow *)row;
		one.in.seed = (uint64_t)i;
		callers[i].run = gdn_run_make(&one);
		callers[i].gdn = callers[0].run->gdn;
		callers[i].status = TILERT_OK;
		want[i] = fresh(callers[i].run);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	OK(tilert_stream_sync(numeric_device(), NULL));
	for (int i = THREADS - 1; i >= 0; i--) {
		GdnRun *r = callers[i].run;
		assert_int_equal(callers[i].status, TILERT_OK);
		float *got = gdn_run_output(r);
		assert_memory_equal(got, want[i], (size_t)gdn_run_outputs(r) * sizeof *got);
		free(got);
		free(want[i]);
		gdn_run_free(r);
	}
}

/* ---- the cache alone: calls without kernels ---- */

static Call *find_or_keep(Cache *c, int64_t key)
{
	Call *call = cache_find(c, &key, sizeof key);
	if (call)
		return call;
	call = call_new(&key, sizeof key);
	assert_non_null(call);
	cache_keep(c, call);
	return call;
}

/* What is used outlives its place; what comes again is the same while it has one. */
static void run_cache(const void *unused)
{
	enum { OTHERS = 40 * CACHE_SETS };
	static Cache c;
	const int64_t key = -1, longer[] = { -1, 0 };
	(void)unused;
	assert_int_equal(cache_init(&c), 0);
	assert_null(cache_find(&c, &key, sizeof key));
	Call *used = find_or_keep(&c, key);
	assert_ptr_equal(cache_find(&c, &key, sizeof key), used);
	assert_int_equal(used->users, 3); /* twice here, and the cache */
	cache_release(&c, used);
	assert_null(cache_find(&c, longer, sizeof longer));
	assert_null(cache_find(&c, &key, sizeof key - 1));
	for (int64_t i = 0; i < OTHERS; i++) {
		Call *call = find_or_keep(&c, i);
		assert_int_equal(call->users, 2);
		assert_memory_equal(call->key, &i, sizeof i);
		cache_release(&c, call);
	}
	assert_null(cache_find(&c, &key, sizeof key));
	assert_int_equal(used->users, 1);
	assert_memory_equal(used->key, &key, sizeof key);
	cache_release(&c, used);
	cache_clear(&c);
}

size_t calls_cases(NumericCase *out)
{
	static const GdnRow again = { .in = { .tokens = 70, .value_heads = 2, .seed = 1 } }, single = { .in = { .tokens = 1, .key_dim = 8, .value_dim = 8, .seed = 2 } },
		threads = { .in = { .tokens = 20 } };
	const NumericCase cases[] = { { "calls_again", run_again, &again }, { "calls_more_than_are_remembered", run_many, &single }, { "calls_from_anywhere", run_anywhere, &single },
		{ "calls_from_threads", run_threads, &threads }, { "calls_cache", run_cache, NULL } };
	memcpy(out, cases, sizeof cases);
	return sizeof cases / sizeof cases[0];
}
