/* graph_cuda.c - launches recorded into a CUDA graph, by capture of a stream of our own. */
#include "runtime/src/device.h"
#include "runtime/src/driver.h"

static tilert_status capture(const tilert_device *d, tilert_prepared *const *p, size_t n, CUstream stream, CUgraph *out)
{
	tilert_status s = rt_driver_check(d->cu, d->cu->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");

	if (s)
		return s;
	for (size_t i = 0; !s && i < n; i++)
		s = rt_cuda_launch(p[i], stream);
	CUresult r = d->cu->cuStreamEndCapture(stream, out);
	return s ? s : rt_driver_check(d->cu, r, "cuStreamEndCapture");
}

static tilert_status instantiate(const tilert_device *d, CUgraph graph, void **out)
{
	CUgraphExec exec = NULL;
	tilert_status s = rt_driver_check(d->cu, d->cu->cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");

	if (!s)
		*out = exec;
	return s;
}

static tilert_status make(const tilert_device *d, tilert_prepared *const *p, size_t n, void **out)
{
	CUstream stream = NULL;
	CUgraph graph = NULL;
	tilert_status s = rt_driver_check(d->cu, d->cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");

	if (s)
		return s;
	s = capture(d, p, n, stream, &graph);
	if (!s)
		s = instantiate(d, graph, out);
	if (graph)
		d->cu->cuGraphDestroy(graph);
	d->cu->cuStreamDestroy(stream);
	return s;
}

tilert_status rt_cuda_graph_make(tilert_prepared *const *p, size_t n, void **out)
{
	const tilert_device *d = p[0]->device;
	CudaEntry e;
	tilert_status s = rt_cuda_enter_relaxed(d, &e);

	if (s)
		return s;
	s = make(d, p, n, out);
	rt_cuda_leave_relaxed(d, &e);
	return s;
}

/* Also where the driver will not say: then a launch tells why. */
bool rt_cuda_is_capturing(const tilert_device *d, tilert_stream stream)
{
	int status = 0;
	bool pushed;

	if (rt_cuda_enter(d, &pushed))
		return true;
	CUresult r = d->cu->cuStreamIsCapturing(stream, &status);
	rt_cuda_leave(d, pushed);
	return r != CUDA_SUCCESS || status != 0;
}

tilert_status rt_cuda_graph_launch(const tilert_device *d, void *graph, tilert_stream stream)
{
	bool pushed;
	tilert_status s = rt_cuda_enter(d, &pushed);

	if (s)
		return s;
	CUresult r = d->cu->cuGraphLaunch(graph, stream);
	rt_cuda_leave(d, pushed);
	return rt_driver_check(d->cu, r, "cuGraphLaunch");
}

void rt_cuda_graph_free(const tilert_device *d, void *graph)
{
	CudaEntry e;

	if (rt_cuda_enter_relaxed(d, &e))
		return;
	d->cu->cuGraphExecDestroy(graph);
	rt_cuda_leave_relaxed(d, &e);
}
