/* fake_cuda.h - what the fake libcuda saw, and how it should behave. */
#ifndef TILE_TESTS_FAKE_CUDA_H
#define TILE_TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

enum { FAKE_DEVICES = 2, FAKE_MAX_PARAMS = 16 };

typedef struct FakeCuda {
	/* settings */
	int fail_launch, fail_cubin, fail_ptx, fail_map, fail_capture; /* CUresult of these calls */
	int calls, fail_call; /* the number of all calls so far, and of the one that fails, from 1: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES */
	const char *failed;   /* its name */
	int capturing; /* a stream is: calls that a capture excludes fail */
	/* the calling thread's contexts, innermost last */
	void *contexts[8];
	int depth, pushes, pops;
	/* what happened */
	int retains, releases, loads, unloads, launches, driver_calls, allocs, frees, maps, refused;
	int loaded_ptx;
	void *recording; /* the stream that is captured */
	int thread_mode, streams, graphs, execs, recorded, graph_launches;
	int max_dynamic_smem, non_portable;
	unsigned grid[3], block[3], smem, cluster;
	int dependent;
	void *stream;
	uint64_t params[FAKE_MAX_PARAMS]; /* the first bytes of each parameter of the last launch */
	int n_params; /* set by the test: how many to record */
	/* the last tensor map */
	int map_dtype, map_swizzle, map_l2;
	uint32_t map_rank, map_box[5];
	uint64_t map_dims[5], map_strides[4], map_base;
} FakeCuda;

/* The exported variable is called fake_cuda_state. */

#endif
