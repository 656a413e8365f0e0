/* pack.c - programs as modules and a list of what they take and give, for random_runner on a machine without build tools. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/random/check.h"
#include "tests/random/tools.h"

enum { PACK_BATCH = 8 };

static void put_program(FILE *list, const Program *p, const char *module, const uint64_t *digest)
{
	fprintf(list, "program %llu %s %s\n", (unsigned long long)p->seed, module, p->kernel);
	for (int k = 0; k < p->ntensors; k++) {
		const TensorParam *t = &p->tensor[k];
		fprintf(list, "tensor %s %s %d %a %a %d %016llx %d", t->name, dtype_name(t->type), t->dir, t->range.lo, t->range.hi, t->range.frac,
			(unsigned long long)digest[k], t->rank);
		for (int d = 0; d < t->rank; d++)
			fprintf(list, " %lld", (long long)t->extents[d]);
		fprintf(list, "\n");
	}
	for (int k = 0; k < p->nscalars; k++)
		if (!p->scalar[k].is_dim)
			fprintf(list, "scalar %s %s %lld %a\n", p->scalar[k].name, dtype_name(p->scalar[k].type), (long long)p->scalar[k].i, p->scalar[k].f);
	fprintf(list, "end\n");
}

static bool write_module(const char *folder, const char *name, const Products *made)
{
	char path[600];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "wb");
	if (!f)
		return false;
	bool ok = fwrite(made->module, 1, made->module_len, f) == made->module_len;
	return fclose(f) == 0 && ok;
}

/* One by one where one of them is refused; those that are wrong here are no use there. */
static int put_batch(FILE *list, const char *folder, Program *programs, int n)
{
	uint64_t digest[PACK_BATCH][MAX_TENSORS];
	Report reports[PACK_BATCH];
	Products made = { .digest = digest };
	int packed = 0;
	check_batch(&(Batch){ .program = programs, .n = n, .opt_level = 2, .gpu = true }, NULL, reports, &made);
	if (made.module) {
		char name[40];
		snprintf(name, sizeof name, "m%llu.tmod", (unsigned long long)programs[0].seed);
		if (!write_module(folder, name, &made))
			fprintf(stderr, "random: %s/%s: %s\n", folder, name, strerror(errno));
		for (int k = 0; k < n; k++, packed++)
			put_program(list, &programs[k], name, digest[k]);
		free(made.module);
		return packed;
	}
	for (int k = 0; n > 1 && k < n; k++)
		packed += put_batch(list, folder, &programs[k], 1);
	if (n == 1)
		fprintf(stderr, "seed %llu: %s: %s\n", (unsigned long long)programs[0].seed, verdict_names[reports[0].verdict], reports[0].text);
	return packed;
}

int pack_programs(const char *folder, uint64_t first, uint64_t count)
{
	char path[600];
	int packed = 0;
	mkdir(folder, 0777);
	snprintf(path, sizeof path, "%s/list.txt", folder);
	FILE *list = fopen(path, "w");
	if (!list) {
		fprintf(stderr, "random: %s: %s\n", path, strerror(errno));
		return 3;
	}
	for (uint64_t at = 0; at < count; at += PACK_BATCH) {
		Program programs[PACK_BATCH];
		int n = 0;
		for (; n < PACK_BATCH && at + (uint64_t)n < count; n++)
			program_generate(&programs[n], first + at + (uint64_t)n);
		packed += put_batch(list, folder, programs, n);
		while (n > 0)
			program_free(&programs[--n]);
	}
	printf("%d programs in %s\n", packed, folder);
	return fclose(list) == 0 ? 0 : 3;
}
