/* run.h - one run of a kernel: its arguments on the host and on the device. */
#ifndef TILE_TOOLS_RUN_H
#define TILE_TOOLS_RUN_H

#include "runtime/tools/options.h"
#include "runtime/tools/tensor.h"
#include "tilert/tilert.h"

typedef struct Run {
	const Options *o;
	tilert_device *device;
	tilert_kernel *kernel;
	HostTensor *tensors; /* by tensor parameter; data NULL: absent */
	int *directions;
	void **initial;       /* what outputs start with, where it is needed again */
	uint64_t seed;        /* of this launch */
	size_t n_tensors;
	tilert_arg *args;
	size_t n_args;
} Run;

/* All of these leave the program with a message when something is wrong. */
void run_build_arguments(Run *r);
void run_upload(Run *r);
/* Before another launch: tensors are as they were before the last. */
void run_restore(Run *r);
/* Waits, and brings back what the kernel may have written. */
void run_download(Run *r);
/* Prints the times; returns the median, in milliseconds. */
double run_time(Run *r, tilert_prepared *p);
HostTensor *run_find_output(Run *r, const char *option, const char *name);
void run_free(Run *r);

/* Leaves the program unless it is TILERT_OK. */
void run_check(tilert_status s);

#endif
