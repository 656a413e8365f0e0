/* device_cuda.c - contexts, memory, streams and events of a GPU.
 *
 * Every call runs in the device's context.  Asking which context is current costs nanoseconds; it is pushed and
 * popped only when it is another one, so that the caller's own context is never disturbed.
 */
#include <stdio.h>

#include "runtime/src/device.h"
#include "runtime/src/driver.h"
#include "runtime/src/error.h"

tilert_status rt_cuda_enter(const tilert_device *d, bool *pushed)
{
	CUcontext current = NULL;

	*pushed = false;
	if (d->cu->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == d->context)
		return TILERT_OK;
	tilert_status s = rt_driver_check(d->cu, d->cu->cuCtxPushCurrent(d->context), "cuCtxPushCurrent");
	*pushed = s == TILERT_OK;
	return s;
}

void rt_cuda_leave(const tilert_device *d, bool pushed)
{
	CUcontext popped;

	if (pushed)
		d->cu->cuCtxPopCurrent(&popped);
}

tilert_status rt_cuda_enter_relaxed(const tilert_device *d, CudaEntry *e)
{
	tilert_status s = rt_cuda_enter(d, &e->pushed);

	e->capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	e->relaxed = !s && d->cu->cuThreadExchangeStreamCaptureMode(&e->capture_mode) == CUDA_SUCCESS;
	return s;
}

void rt_cuda_leave_relaxed(const tilert_device *d, CudaEntry *e)
{
	if (e->relaxed)
		d->cu->cuThreadExchangeStreamCaptureMode(&e->capture_mode);
	rt_cuda_leave(d, e->pushed);
}

/* ---- opening ---- */

static tilert_status find_device(tilert_device *d, int ordinal)
{
	int count = 0;
	tilert_status s = rt_driver_check(d->cu, d->cu->cuDeviceGetCount(&count), "cuDeviceGetCount");

	if (s)
		return s;
	if (ordinal >= count)
		return rt_fail(TILERT_ENODEV, "no device cuda:%d: the driver sees %d device%s", ordinal, count,
		               count == 1 ? "" : "s");
	return rt_driver_check(d->cu, d->cu->cuDeviceGet(&d->ordinal, ordinal), "cuDeviceGet");
}

static tilert_status adopt_or_retain_context(tilert_device *d)
{
	CUcontext current = NULL;
	CUdevice owner;

	if (d->cu->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current &&
	    d->cu->cuCtxGetDevice(&owner) == CUDA_SUCCESS && owner == d->ordinal) {
		d->context = current;
		return TILERT_OK;
	}
	tilert_status s =
		rt_driver_check(d->cu, d->cu->cuDevicePrimaryCtxRetain(&d->context, d->ordinal), "cuDevicePrimaryCtxRetain");
	d->is_primary = s == TILERT_OK;
	return s;
}

static tilert_status read_info(tilert_device *d)
{
	const struct {
		int attribute, *out;
	} wanted[] = {
		{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &d->info.sm_count },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &d->info.compute_major },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &d->info.compute_minor },
		{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &d->max_smem_bytes },
	};
	tilert_status s = TILERT_OK;

	d->info.is_cuda = 1;
	for (size_t i = 0; !s && i < sizeof wanted / sizeof *wanted; i++)
		s = rt_driver_check(d->cu, d->cu->cuDeviceGetAttribute(wanted[i].out, wanted[i].attribute, d->ordinal),
		                    "cuDeviceGetAttribute");
	if (!s)
		s = rt_driver_check(d->cu, d->cu->cuDeviceTotalMem(&d->info.total_memory, d->ordinal),
		                    "cuDeviceTotalMem");
	if (!s)
		s = rt_driver_check(d->cu, d->cu->cuDeviceGetName(d->info.name, sizeof d->info.name, d->ordinal),
		                    "cuDeviceGetName");
	return s;
}

tilert_status rt_cuda_open(tilert_device *d, int ordinal)
{
	tilert_status s = rt_driver_get(&d->cu);

	d->ops = &rt_cuda_ops;
	if (!s)
		s = find_device(d, ordinal);
	if (!s)
		s = read_info(d);
	return s ? s : adopt_or_retain_context(d);
}

static void cuda_close(tilert_device *d)
{
	if (d->is_primary)
		d->cu->cuDevicePrimaryCtxRelease(d->ordinal);
}

/* ---- memory ---- */

static tilert_status cuda_alloc(tilert_device *d, size_t bytes, tilert_ptr *out)
{
	bool pushed;
	CUdeviceptr p = 0;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuMemAlloc(&p, bytes ? bytes : 1);
	rt_cuda_leave(d, pushed);
	s = rt_driver_check(d->cu, r, "cuMemAlloc");
	if (s == TILERT_ENOMEM)
		return rt_fail(s, "out of device memory for %zu bytes", bytes);
	if (!s)
		*out = p;
	return s;
}

static tilert_status cuda_free(tilert_device *d, tilert_ptr p)
{
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuMemFree(p);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "cuMemFree");
}

static tilert_status cuda_upload(tilert_device *d, tilert_ptr dst, const void *src, size_t bytes)
{
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuMemcpyHtoD(dst, src, bytes);
	/* From pageable memory the copy returns once the bytes are staged; other streams may not see them yet. */
	if (r == CUDA_SUCCESS)
		r = d->cu->cuStreamSynchronize(NULL);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "cuMemcpyHtoD");
}

static tilert_status cuda_download(tilert_device *d, void *dst, tilert_ptr src, size_t bytes)
{
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuMemcpyDtoH(dst, src, bytes);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "cuMemcpyDtoH");
}

static tilert_status cuda_fill(tilert_device *d, tilert_ptr dst, unsigned char value, size_t bytes, tilert_stream stream)
{
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuMemsetD8Async(dst, value, bytes, stream);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "cuMemsetD8Async");
}

/* ---- streams and events ---- */

/* Flags 0: ordered with the default stream, which tilert_upload and tilert_download use. */
static tilert_status cuda_stream_create(tilert_device *d, tilert_stream *out)
{
	bool pushed;
	CUstream stream = NULL;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuStreamCreate(&stream, 0);
	rt_cuda_leave(d, pushed);
	s = rt_driver_check(d->cu, r, "cuStreamCreate");
	if (!s)
		*out = stream;
	return s;
}

static tilert_status cuda_stream_destroy(tilert_device *d, tilert_stream stream)
{
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuStreamDestroy(stream);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "cuStreamDestroy");
}

static tilert_status cuda_stream_sync(tilert_device *d, tilert_stream stream)
{
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuStreamSynchronize(stream);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "cuStreamSynchronize");
}

static tilert_status cuda_event_create(tilert_event *e)
{
	tilert_device *d = e->device;
	bool pushed;
	CUevent event = NULL;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuEventCreate(&event, 0);
	rt_cuda_leave(d, pushed);
	e->handle = event;
	return rt_driver_check(d->cu, r, "cuEventCreate");
}

static void cuda_event_destroy(tilert_event *e)
{
	bool pushed;

	if (rt_cuda_enter(e->device, &pushed))
		return;
	e->device->cu->cuEventDestroy(e->handle);
	rt_cuda_leave(e->device, pushed);
}

static tilert_status cuda_event_record(tilert_event *e, tilert_stream stream)
{
	tilert_device *d = e->device;
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuEventRecord(e->handle, stream);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "cuEventRecord");
}

static tilert_status cuda_event_elapsed(tilert_event *begin, tilert_event *end, float *ms)
{
	tilert_device *d = begin->device;
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuEventSynchronize(end->handle);
	if (r == CUDA_SUCCESS)
		r = d->cu->cuEventElapsedTime(ms, begin->handle, end->handle);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "tilert_event_elapsed");
}

const DeviceOps rt_cuda_ops = {
	.close = cuda_close,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.upload = cuda_upload,
	.download = cuda_download,
	.fill = cuda_fill,
	.stream_create = cuda_stream_create,
	.stream_destroy = cuda_stream_destroy,
	.stream_sync = cuda_stream_sync,
	.event_create = cuda_event_create,
	.event_destroy = cuda_event_destroy,
	.event_record = cuda_event_record,
	.event_elapsed = cuda_event_elapsed,
	.code_load = rt_cuda_code_load,
	.code_unload = rt_cuda_code_unload,
	.prepare = rt_cuda_prepare,
	.launch = rt_cuda_launch,
	.graph_make = rt_cuda_graph_make,
	.is_capturing = rt_cuda_is_capturing,
	.graph_launch = rt_cuda_graph_launch,
	.graph_free = rt_cuda_graph_free,
};
