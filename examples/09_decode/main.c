/* Attention of one token for each sequence over pages of keys and values, compared with double precision and, on a GPU, timed.
 *
 *     decode MODULE [SEQUENCES HEADS KEY_HEADS LONGEST [DEVICE]] */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"
#include "tests/check/float16.h"

enum { D = 128, PAGE = 16, SPLITS = 4, ROWS = 16 }; /* of decode.tile */
typedef struct Problem {
	int64_t sequences, heads, groups, longest, pages;
	uint16_t *q, *k, *v;
	int32_t *table, *length;
	float *sink;
} Problem;

static int64_t most_pages(const Problem *p) { return (p->longest + PAGE - 1) / PAGE; }

/* The row of k and v that holds a key of a sequence. */
static int64_t row_of(const Problem *p, int64_t z, int64_t key, int64_t g)
{
	return (((int64_t)p->table[z * most_pages(p) + key / PAGE] * PAGE + key % PAGE) * p->groups + g) * D;
}

/* Pages in any order; what is behind a sequence's last key is no number, as memory that was used for something else may have it. */
static void fill_pages(Problem *p, Random *r)
{
	int64_t most = most_pages(p);
	for (int64_t i = 0; i < p->pages; i++) {
		int64_t j = pick(r, i + 1);
		p->table[i] = p->table[j];
		p->table[j] = (int32_t)i;
	}
	for (int64_t z = 0; z < p->sequences; z++)
		for (int64_t key = p->length[z]; key < most * PAGE; key++)
			for (int64_t g = 0; g < p->groups; g++)
				for (int d = 0; d < D; d++)
					p->k[row_of(p, z, key, g) + d] = p->v[row_of(p, z, key, g) + d] = 0x7fc0;
}

static Problem problem(int64_t sequences, int64_t heads, int64_t groups, int64_t longest)
{
	Random r;
	random_init(&r, 1);
	Problem p = { .sequences = sequences, .heads = heads, .groups = groups, .longest = longest };
	p.pages = sequences * most_pages(&p);
	p.q = normal_bf16(&r, sequences * heads * D, 1);
	p.k = normal_bf16(&r, p.pages * PAGE * groups * D, 1);
	p.v = normal_bf16(&r, p.pages * PAGE * groups * D, 1);
	p.table = memory((size_t)p.pages, sizeof *p.table);
	p.length = memory((size_t)sequences, sizeof *p.length);
	p.sink = memory((size_t)heads, sizeof *p.sink);
	for (int64_t z = 0; z < sequences; z++)
		p.length[z] = (int32_t)(z ? pick(&r, longest + 1) : longest);
	for (int64_t h = 0; h < heads; h++)
		p.sink[h] = random_normal(&r);
	fill_pages(&p, &r);
	return p;
}

static double score(const Problem *p, int64_t z, int64_t h, int64_t key)
{
	const uint16_t *q = p->q + (z * p->heads + h) * D, *k = p->k + row_of(p, z, key, h / (p->heads / p->groups));
	double sum = 0;
	for (int d = 0; d < D; d++)
		sum += (double)bf16_to_float(q[d]) * (double)bf16_to_float(k[d]);
	return sum / sqrt(D);
}

static void check_head(const Problem *p, int64_t z, int64_t h, const uint16_t *o, Error *e)
{
	double top = (double)p->sink[h], total, sum[D] = { 0 };
	for (int64_t key = 0; key < p->length[z]; key++)
		top = fmax(top, score(p, z, h, key));
	total = exp((double)p->sink[h] - top);
	for (int64_t key = 0; key < p->length[z]; key++) {
		const uint16_t *v = p->v + row_of(p, z, key, h / (p->heads / p->groups));
		double weight = exp(score(p, z, h, key) - top);
		total += weight;
		for (int d = 0; d < D; d++)
			sum[d] += weight * (double)bf16_to_float(v[d]);
	}
	for (int d = 0; d < D; d++)
		compare(e, sum[d] / total, (double)bf16_to_float(o[(z * p->heads + h) * D + d]));
}

int main(int argc, char **argv)
{
	tilert_device_info info;
	Error error = { 0, 0 };

	if (argc != 2 && argc != 6 && argc != 7) {
		fprintf(stderr, "usage: decode MODULE [SEQUENCES HEADS KEY_HEADS LONGEST [DEVICE]]\n");
		return 2;
	}
	tilert_device *device = open_device(argc > 6 ? argv[6] : NULL, &info);
	int64_t n[4] = { info.is_cuda ? 64 : 3, info.is_cuda ? 64 : 10, info.is_cuda ? 8 : 2, info.is_cuda ? 8192 : 300 };
	for (int i = 0; i < 4 && argc > 2; i++)
		n[i] = atoll(argv[2 + i]);
	if (n[0] < 1 || n[2] < 1 || n[3] < 1 || n[1] < n[2] || n[1] % n[2] || n[1] > ROWS * n[2]) {
		fprintf(stderr, "SEQUENCES, KEY_HEADS and LONGEST are at least 1, HEADS 1 to 16 for each of KEY_HEADS\n");
		return 2;
	}
	Problem p = problem(n[0], n[1], n[2], n[3]);
	int64_t q[4] = { n[0], n[1], D }, k[4] = { p.pages, PAGE, n[2], D };
	int32_t *none = memory((size_t)(n[0] * n[2]), sizeof *none);
	float *space = memory((size_t)(n[0] * n[2] * SPLITS * ROWS * D), sizeof *space);
	tilert_tensor part = tensor(device, "part", TILERT_F32, (int64_t[4]) { n[0] * n[2], SPLITS, ROWS, D }, space).tensor;
	tilert_tensor stat = tensor(device, "stat", TILERT_F32, (int64_t[4]) { n[0] * n[2], SPLITS, 2, ROWS }, space).tensor;
	part.rank = stat.rank = 5;
	part.extents[0] = stat.extents[0] = n[0], part.extents[1] = stat.extents[1] = n[2], part.extents[2] = stat.extents[2] = SPLITS;
	part.extents[3] = ROWS, part.extents[4] = D, stat.extents[3] = 2, stat.extents[4] = ROWS;
	tilert_arg args[] = {
		tensor(device, "q", TILERT_BF16, q, p.q), tensor(device, "k", TILERT_BF16, k, p.k), tensor(device, "v", TILERT_BF16, k, p.v),
		tensor(device, "table", TILERT_I32, (int64_t[4]) { n[0], most_pages(&p) }, p.table),
		tensor(device, "length", TILERT_I32, (int64_t[4]) { n[0] }, p.length), tensor(device, "sink", TILERT_F32, (int64_t[4]) { n[1] }, p.sink),
		{ .name = "part", .tensor = part }, { .name = "stat", .tensor = stat },
		tensor(device, "done", TILERT_I32, (int64_t[4]) { n[0], n[2] }, none), tensor(device, "o", TILERT_BF16, q, NULL),
		{ .name = "scale", .kind = TILERT_ARG_SCALAR, .f = 1 / sqrt(D) },
	};
	enum { ARGS = sizeof args / sizeof *args };
	Launch launch = launched(device, argv[1], "decode", args, ARGS);

	uint16_t *o = downloaded(device, &args[ARGS - 2]);
	for (int64_t i = 0; i < n[0] * n[1]; i += n[0] * n[1] / 64 + 1) /* of many heads some */
		check_head(&p, i / n[1], i % n[1], o, &error);
	double e = relative(&error);
	bool right = e < 0.005;
	printf("%s: %s, %lld sequences of up to %lld tokens, %lld and %lld heads: relative error %.1e%s", info.name, argv[1], (long long)n[0],
		(long long)n[3], (long long)n[1], (long long)n[2], e, right ? "" : " WRONG");
	if (right && info.is_cuda) {
		double ms = milliseconds(device, &launch.prepared, 1), keys = 0;
		for (int64_t z = 0; z < n[0]; z++)
			keys += p.length[z];
		printf(", %.3f ms, %.0f GB/s", ms, keys * (double)n[2] * D * 4 / ms * 1e-6);
	}
	putchar('\n');

	finish(&launch, args, ARGS);
	void *all[] = { p.q, p.k, p.v, p.table, p.length, p.sink, none, space, o };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
	return !right;
}
