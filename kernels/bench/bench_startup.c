/* What a program waits for before its first result: the device, the modules, the first call.  First of the sections, so that nothing
 * is loaded yet.  One chunk of one head; what is in the buffers does not matter. */
#include <tilekern/gdn.h>
#include <tilekern/kda.h>

#include "kernels/bench/bench.h"

#define CHECK_KERN(call) bench_check((call), tilekern_last_error(), #call)

enum { TOKENS = 64, DIM = 128 };

static void row(Bench *b, const char *what, double ms)
{
	bench_row(b, "startup", what, ms, 1e3 / ms, "per s", 0);
}

typedef tilert_status (*Forward)(void *library, void *params);

static tilert_status kda_forward(void *library, void *params) { return tilekern_kda_forward(library, params, NULL); }
static tilert_status gdn_forward(void *library, void *params) { return tilekern_gdn_forward(library, params, NULL); }

static double forward_ms(Bench *b, Forward forward, void *library, void *params)
{
	double begin = bench_now_ms();
	CHECK_KERN(forward(library, params));
	CHECK(tilert_stream_sync(b->device, NULL));
	return bench_now_ms() - begin;
}

static void fill(Bench *b, tilert_ptr *const *buffers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*buffers[i] = bench_poisoned(b, (size_t)TOKENS * DIM * sizeof(float));
}

static void empty(Bench *b, tilert_ptr *const *buffers, size_t n, tilert_ptr workspace)
{
	for (size_t i = 0; i < n; i++)
		bench_free(b, *buffers[i]);
	bench_free(b, workspace);
}

static void kda(Bench *b)
{
	tilekern_kda *kda;
	tilekern_kda_params p;
	tilert_ptr *const buffers[] = { &p.q, &p.k, &p.v, &p.g, &p.beta, &p.o };
	tilekern_kda_params_init(&p);
	p.qk_heads = p.value_heads = 1;
	p.tokens = TOKENS;
	double begin = bench_now_ms();
	CHECK_KERN(tilekern_kda_open(b->device, &kda));
	double open_ms = bench_now_ms() - begin;
	CHECK_KERN(tilekern_kda_workspace_bytes(kda, &p, &p.workspace_bytes));
	fill(b, buffers, sizeof buffers / sizeof buffers[0]);
	p.workspace = bench_poisoned(b, p.workspace_bytes);
	double first_ms = forward_ms(b, kda_forward, kda, &p);
	row(b, "tilekern_kda_open", open_ms);
	row(b, "first tilekern_kda_forward", first_ms);
	row(b, "second tilekern_kda_forward", forward_ms(b, kda_forward, kda, &p));
	row(b, "KDA: modules and first call", open_ms + first_ms);
	tilekern_kda_close(kda);
	empty(b, buffers, sizeof buffers / sizeof buffers[0], p.workspace);
}

/* Modules are loaded by the first call that needs them. */
static void gdn(Bench *b)
{
	tilekern_gdn *gdn;
	tilekern_gdn_params p;
	tilert_ptr *const buffers[] = { &p.q, &p.k, &p.v, &p.g, &p.beta, &p.o };
	tilekern_gdn_params_init(&p);
	p.qk_heads = p.value_heads = 1;
	p.tokens = TOKENS;
	double begin = bench_now_ms();
	CHECK_KERN(tilekern_gdn_open(b->device, &gdn));
	double open_ms = bench_now_ms() - begin;
	CHECK_KERN(tilekern_gdn_workspace_bytes(gdn, &p, &p.workspace_bytes));
	fill(b, buffers, sizeof buffers / sizeof buffers[0]);
	p.workspace = bench_poisoned(b, p.workspace_bytes);
	double first_ms = forward_ms(b, gdn_forward, gdn, &p);
	row(b, "second tilekern_gdn_forward", forward_ms(b, gdn_forward, gdn, &p));
	row(b, "GDN: modules and first call", open_ms + first_ms);
	tilekern_gdn_close(gdn);
	empty(b, buffers, sizeof buffers / sizeof buffers[0], p.workspace);
}

void bench_startup(Bench *b)
{
	row(b, "tilert_device_open", b->open_ms);
	kda(b);
	gdn(b);
}
