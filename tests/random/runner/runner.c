/* runner.c - runs what `random --pack` wrote: random_runner LIST [DEVICE [FOLDER]]; tensors that differ go to FOLDER. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/data.h"
#include "tilert/tilert.h"

enum { GUARD = 256, MAX_KEPT = 40 };

typedef struct Runner {
	tilert_device *device;
	const char *folder, *out;
	char module_name[64];
	tilert_module *module;
	int right, wrong, failed, kept;
} Runner;

typedef struct Job {
	Program p;
	char module[64];
	uint64_t digest[MAX_TENSORS];
	unsigned char *got[MAX_TENSORS];
	tilert_arg args[MAX_TENSORS + MAX_SCALARS];
} Job;

/* ---- the list ---- */

static bool read_tensor(Job *j, const char *line)
{
	TensorParam *t = &j->p.tensor[j->p.ntensors];
	char type[16];
	int used = 0;
	unsigned long long digest;
	if (sscanf(line, "tensor %23s %15s %d %la %la %d %llx %d%n", t->name, type, &t->dir, &t->range.lo, &t->range.hi, &t->range.frac, &digest,
		&t->rank, &used) != 8)
		return false;
	t->type = dtype_from_name(type);
	j->digest[j->p.ntensors++] = digest;
	char *at = (char *)line + used;
	for (int d = 0; d < t->rank; d++)
		t->extents[d] = strtoll(at, &at, 10);
	return true;
}

static bool read_scalar(Job *j, const char *line)
{
	ScalarParam *s = &j->p.scalar[j->p.nscalars++];
	char type[16];
	long long i;
	if (sscanf(line, "scalar %23s %15s %lld %la", s->name, type, &i, &s->f) != 4)
		return false;
	s->type = dtype_from_name(type);
	s->i = i;
	return true;
}

static bool read_job(FILE *f, Job *j)
{
	char line[400];
	unsigned long long seed;
	memset(j, 0, sizeof *j);
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "program %llu %63s %23s", &seed, j->module, j->p.kernel) == 3)
			j->p.seed = seed;
		else if (!strncmp(line, "tensor ", 7) ? !read_tensor(j, line) : !strncmp(line, "scalar ", 7) ? !read_scalar(j, line) : false)
			return false;
		else if (!strncmp(line, "end", 3))
			return true;
	}
	return false;
}

/* ---- one program ---- */

static bool need_module(Runner *r, const char *name)
{
	char path[700];
	if (r->module && !strcmp(r->module_name, name))
		return true;
	tilert_module_close(r->module);
	r->module = NULL;
	snprintf(r->module_name, sizeof r->module_name, "%s", name);
	snprintf(path, sizeof path, "%s/%s", r->folder, name);
	return tilert_module_open(r->device, path, &r->module) == TILERT_OK;
}

static size_t bytes_of(const TensorParam *t)
{
	return (size_t)tensor_elements(t) * dtype_bytes(t->type);
}

static bool upload(Runner *r, Job *j, int k)
{
	const TensorParam *t = &j->p.tensor[k];
	tilert_arg *a = &j->args[k];
	size_t bytes = bytes_of(t);
	*a = (tilert_arg){ .name = t->name, .kind = TILERT_ARG_TENSOR };
	a->tensor.dtype = (tilert_dtype)t->type; /* the tables are in one order */
	a->tensor.rank = t->rank;
	memcpy(a->tensor.extents, t->extents, sizeof(int64_t) * MAX_DIMS);
	j->got[k] = malloc(bytes + GUARD);
	memset(j->got[k], 0xff, bytes + GUARD);
	tensor_fill(&j->p, k, j->got[k]);
	return tilert_alloc(r->device, bytes + GUARD, &a->tensor.data) == TILERT_OK &&
		tilert_upload(r->device, a->tensor.data, j->got[k], bytes + GUARD) == TILERT_OK;
}

static bool launch(Runner *r, Job *j)
{
	tilert_kernel *kernel;
	for (int k = 0; k < j->p.ntensors; k++)
		if (!upload(r, j, k))
			return false;
	for (int k = 0; k < j->p.nscalars; k++)
		j->args[j->p.ntensors + k] =
			(tilert_arg){ .name = j->p.scalar[k].name, .kind = TILERT_ARG_SCALAR, .i = j->p.scalar[k].i, .f = j->p.scalar[k].f };
	return tilert_module_kernel(r->module, j->p.kernel, &kernel) == TILERT_OK &&
		tilert_launch(kernel, j->args, (size_t)(j->p.ntensors + j->p.nscalars), NULL) == TILERT_OK &&
		tilert_stream_sync(r->device, NULL) == TILERT_OK;
}

static void keep(Runner *r, const Job *j, int k)
{
	char path[700];
	if (!r->out || r->kept++ >= MAX_KEPT)
		return;
	snprintf(path, sizeof path, "%s/%llu.%s.bin", r->out, (unsigned long long)j->p.seed, j->p.tensor[k].name);
	FILE *f = fopen(path, "wb");
	if (!f)
		return;
	fwrite(j->got[k], 1, bytes_of(&j->p.tensor[k]), f);
	fclose(f);
}

static bool compare(Runner *r, Job *j)
{
	bool same = true;
	for (int k = 0; k < j->p.ntensors; k++) {
		const TensorParam *t = &j->p.tensor[k];
		size_t bytes = bytes_of(t), spoilt = 0;
		if (tilert_download(r->device, j->got[k], j->args[k].tensor.data, bytes + GUARD) != TILERT_OK)
			return false;
		for (size_t n = 0; n < GUARD; n++)
			spoilt += j->got[k][bytes + n] != 0xff;
		if (tensor_digest(t, j->got[k]) == j->digest[k] && !spoilt)
			continue;
		printf("seed %llu: WRONG: %s%s\n", (unsigned long long)j->p.seed, t->name, spoilt ? " and behind it" : "");
		keep(r, j, k);
		same = false;
	}
	return same;
}

static void run(Runner *r, Job *j)
{
	bool ok = need_module(r, j->module) && launch(r, j);
	if (!ok) {
		printf("seed %llu: FAILED: %s\n", (unsigned long long)j->p.seed, tilert_last_error());
		r->failed++;
	} else if (compare(r, j))
		r->right++;
	else
		r->wrong++;
	fflush(stdout);
	for (int k = 0; k < j->p.ntensors; k++) {
		if (j->args[k].tensor.data)
			tilert_free(r->device, j->args[k].tensor.data);
		free(j->got[k]);
	}
}

int main(int argc, char **argv)
{
	static Job job;
	char folder[600];
	Runner r = { .out = argc > 3 ? argv[3] : NULL, .folder = folder };
	FILE *list = argc > 1 ? fopen(argv[1], "r") : NULL;
	if (!list) {
		fprintf(stderr, "usage: random_runner LIST [DEVICE [FOLDER]]\n");
		return 2;
	}
	snprintf(folder, sizeof folder, "%s", argv[1]);
	char *slash = strrchr(folder, '/');
	snprintf(slash ? slash : folder, 2, "%s", slash ? "" : ".");
	if (tilert_device_open(argc > 2 ? argv[2] : "cpu", &r.device) != TILERT_OK) {
		fprintf(stderr, "random_runner: %s\n", tilert_last_error());
		return 3;
	}
	if (argc <= 2 || !strcmp(argv[2], "cpu")) /* programs may divide by zero and the like */
		tilert_cpu_set_checks(r.device, &(tilert_cpu_checks){ .races = 1, .timeout = 60 });
	long from = getenv("RANDOM_FROM") ? atol(getenv("RANDOM_FROM")) : 0; /* goes on behind a program that took the context */
	for (long n = 0; read_job(list, &job); n++) {
		if (n < from)
			continue;
		run(&r, &job);
		if (getenv("RANDOM_TELL"))
			printf("ran %llu\n", (unsigned long long)job.p.seed);
		if (r.failed && argc > 2 && strcmp(argv[2], "cpu")) {
			printf("next %ld\n", n + 1);
			break;
		}
	}
	printf("%d right, %d wrong, %d failed\n", r.right, r.wrong, r.failed);
	return r.wrong || r.failed;
}
