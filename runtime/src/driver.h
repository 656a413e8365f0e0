/* driver.h - libcuda, loaded at run time. */
#ifndef TILE_RUNTIME_DRIVER_H
#define TILE_RUNTIME_DRIVER_H

#include <stdbool.h>

#include "runtime/src/cuda_api.h"
#include "tilert/tilert.h"

/* Loads and initialises the driver once per process, when it can be: libcuda.so.1, or the file TILE_LIBCUDA names. */
tilert_status rt_driver_get(const CudaApi **out);

/* TILERT_OK for CUDA_SUCCESS; else the failure with `call` and the driver's name for it. */
tilert_status rt_driver_check(const CudaApi *cu, CUresult r, const char *call);

/* Whether a kernel before has ended in this error, which every call on its context has from then on. */
bool rt_driver_lost(CUresult r);

/* The status that fits a driver error, and its text "CUDA_ERROR_X: what that means". */
tilert_status rt_driver_status(CUresult r);
void rt_driver_text(const CudaApi *cu, CUresult r, char *out, size_t size);

#endif
