/* What a program waits for before its first result: the device, the modules, the first call.  First of the sections, so that nothing
 * is loaded yet. */
#include <tilekern/kda.h>

#include "kernels/bench/bench.h"

#define CHECK_KDA(call) bench_check((call), tilekern_last_error(), #call)

static void row(Bench *b, const char *what, double ms)
{
	bench_row(b, "startup", what, ms, 1e3 / ms, "per s", 0);
}

/* One chunk of one head; what is in the buffers does not matter. */
static double forward_ms(Bench *b, tilekern_kda *kda, const tilekern_kda_params *p)
{
	double begin = bench_now_ms();
	CHECK_KDA(tilekern_kda_forward(kda, p, NULL));
	CHECK(tilert_stream_sync(b->device, NULL));
	return bench_now_ms() - begin;
}

void bench_startup(Bench *b)
{
	enum { TOKENS = 64, DIM = 128 };
	tilekern_kda *kda;
	tilekern_kda_params p = TILEKERN_KDA_PARAMS_INIT;

	row(b, "tilert_device_open", b->open_ms);
	p.batch = p.heads = 1;
	p.tokens = TOKENS;
	CHECK_KDA(tilekern_kda_workspace_bytes(&p, &p.workspace_bytes));
	tilert_ptr *const buffers[] = { &p.q, &p.k, &p.v, &p.g, &p.beta, &p.o };
	for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
		*buffers[i] = bench_poisoned(b, (size_t)TOKENS * DIM * sizeof(float));
	p.workspace = bench_poisoned(b, p.workspace_bytes);

	double begin = bench_now_ms();
	CHECK_KDA(tilekern_kda_open(b->device, &kda));
	double open_ms = bench_now_ms() - begin, first_ms = forward_ms(b, kda, &p), second_ms = forward_ms(b, kda, &p);
	row(b, "tilekern_kda_open", open_ms);
	row(b, "first tilekern_kda_forward", first_ms);
	row(b, "second tilekern_kda_forward", second_ms);
	row(b, "modules and first call", open_ms + first_ms);

	tilekern_kda_close(kda);
	for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
		bench_free(b, *buffers[i]);
	bench_free(b, p.workspace);
}
