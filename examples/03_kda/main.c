/* Kimi Delta Attention through the kernel library: makes an input, runs it, compares with the recurrence in double precision.
 *
 *     kda_example [BATCH TOKENS HEADS [DEVICE]] */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <tilekern/kda.h>

#include "tests/check/accuracy.h"
#include "tests/check/kda_input.h"

static void check(tilert_status s, const char *what)
{
	if (s == TILERT_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, tilert_status_name(s), tilert_last_error());
	exit(1);
}

static void check_kda(tilert_status s)
{
	if (s == TILERT_OK)
		return;
	fprintf(stderr, "%s: %s\n", tilert_status_name(s), tilekern_last_error());
	exit(1);
}

static void *memory(size_t bytes)
{
	void *p = malloc(bytes);
	if (!p) {
		fprintf(stderr, "no memory for %zu bytes\n", bytes);
		exit(1);
	}
	return p;
}

static tilert_ptr on_device(tilert_device *d, const void *data, size_t bytes)
{
	tilert_ptr p;
	check(tilert_alloc(d, bytes, &p), "allocate");
	if (data)
		check(tilert_upload(d, p, data, bytes), "upload");
	else
		check(tilert_memset(d, p, 0xff, bytes, NULL), "poison"); /* NaN in every format */
	return p;
}

static double milliseconds(tilert_device *d, tilekern_kda_call *call, int launches)
{
	tilert_event *begin, *end;
	float ms;
	check(tilert_event_create(d, &begin), "create an event");
	check(tilert_event_create(d, &end), "create an event");
	check(tilert_event_record(begin, NULL), "record");
	for (int i = 0; i < launches; i++)
		check_kda(tilekern_kda_launch(call, NULL));
	check(tilert_event_record(end, NULL), "record");
	check(tilert_event_elapsed(begin, end, &ms), "run");
	tilert_event_destroy(begin);
	tilert_event_destroy(end);
	return (double)ms / launches;
}

int main(int argc, char **argv)
{
	tilert_device *device;
	tilert_device_info info;
	tilekern_kda *kda;
	tilekern_kda_call *call;
	KdaInput in;

	if (argc > 1 && argc < 4) {
		fprintf(stderr, "usage: kda_example [BATCH TOKENS HEADS [DEVICE]]\n");
		return 2;
	}
	if (argc > 4)
		check(tilert_device_open(argv[4], &device), "open the device");
	else if (tilert_device_open("cuda", &device) != TILERT_OK)
		check(tilert_device_open("cpu", &device), "open the CPU device");
	check(tilert_device_get_info(device, &info), "describe the device");
	KdaInputSpec spec = { .batch = 1, .tokens = info.is_cuda ? 4096 : 200, .heads = info.is_cuda ? 16 : 2, .seed = 1 };
	if (argc > 1) {
		spec.batch = atoll(argv[1]);
		spec.tokens = atoll(argv[2]);
		spec.heads = atoll(argv[3]);
	}
	if (spec.batch < 1 || spec.tokens < 1 || spec.heads < 1 || !kda_input_make(&in, &spec)) {
		fprintf(stderr, "no input of %lld x %lld x %lld\n", (long long)spec.batch, (long long)spec.tokens, (long long)spec.heads);
		return 1;
	}
	size_t vectors = (size_t)(in.batch * in.tokens * in.heads), n = vectors * KDA_DIM;
	size_t states = (size_t)(in.batch * in.heads) * KDA_DIM * KDA_DIM;
	printf("device  %s\n", info.name);
	printf("input   batch %lld, tokens %lld, heads %lld, K = V = %d, bf16; q, k normal and L2-normalised; v normal;\n"
		"        g = log sigmoid(4 + normal) per channel, f32; beta = sigmoid(normal); no initial state; seed %llu\n", (long long)in.batch,
		(long long)in.tokens, (long long)in.heads, KDA_DIM, (unsigned long long)spec.seed);

	tilekern_kda_params p;
	tilekern_kda_params_init(&p);
	p.batch = in.batch;
	p.tokens = in.tokens;
	p.qk_heads = p.value_heads = in.heads;
	check_kda(tilekern_kda_open(device, &kda));
	check_kda(tilekern_kda_workspace_bytes(kda, &p, &p.workspace_bytes));
	p.q = on_device(device, in.q16, n * 2);
	p.k = on_device(device, in.k16, n * 2);
	p.v = on_device(device, in.v16, n * 2);
	p.g = on_device(device, in.g, n * 4);
	p.beta = on_device(device, in.beta, vectors * 4);
	p.o = on_device(device, NULL, n * 2);
	p.final_state = on_device(device, NULL, states * 4);
	if (p.workspace_bytes > 0)
		p.workspace = on_device(device, NULL, p.workspace_bytes);
	check_kda(tilekern_kda_prepare(kda, &p, &call));
	check_kda(tilekern_kda_launch(call, NULL));
	check(tilert_stream_sync(device, NULL), "run");

	uint16_t *o = memory(n * 2);
	float *ht = memory(states * 4);
	check(tilert_download(device, o, p.o, n * 2), "download o");
	check(tilert_download(device, ht, p.final_state, states * 4), "download the final state");
	double *o_ref = memory(n * 8), *ht_ref = memory(states * 8);
	KdaReference ref = kda_input_reference(&in);
	kda_reference(&ref, o_ref, ht_ref);
	Accuracy of_o = accuracy_of_bf16(o_ref, o, (AccuracyShape){ in.batch, in.tokens, in.heads, KDA_DIM, KDA_CHUNK });
	Accuracy of_ht = accuracy_of_floats(ht_ref, ht, (AccuracyShape){ in.batch, 1, in.heads, KDA_DIM * KDA_DIM, 1 });
	char text[256];
	printf("error   against the recurrence in double precision, relative, per chunk of %d tokens\n", KDA_CHUNK);
	printf("        o            %s\n", accuracy_text(&of_o, text, sizeof text));
	printf("        final state  %s\n", accuracy_text(&of_ht, text, sizeof text));
	bool right = of_o.rms_ratio < 0.005 && of_ht.rms_ratio < 0.005;

	if (right && info.is_cuda) {
		milliseconds(device, call, 5);
		printf("time    %.1f us per call, 20 calls\n", 1e3 * milliseconds(device, call, 20));
	} else if (right) {
		printf("time    %.0f ms on the CPU device, which emulates the GPU: it is for checking, not for speed\n", milliseconds(device, call, 1));
	}
	printf("PTX     %s\n%s\n", KDA_PTX, right ? "right" : "WRONG");

	tilekern_kda_call_destroy(call);
	tilekern_kda_close(kda);
	const tilert_ptr all[] = { p.q, p.k, p.v, p.g, p.beta, p.o, p.final_state, p.workspace };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (all[i])
			check(tilert_free(device, all[i]), "free");
	}
	tilert_device_close(device);
	kda_input_free(&in);
	free(o);
	free(ht);
	free(o_ref);
	free(ht_ref);
	return !right;
}
