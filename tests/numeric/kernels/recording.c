#include "tests/check/graph.h"
#include "tests/numeric/kernels/numeric.h"

Recording record(void (*work)(void *, tilert_stream), void *user)
{
	const char *failed;
	Recording r = { .work = work, .user = user };
	OK(tilert_stream_create(numeric_device(), &r.stream));
	if (numeric_on_cpu())
		return r;
	r.graph = graph_record(work, user, r.stream, &failed);
	if (!r.graph)
		fail_msg("%s failed", failed);
	return r;
}

void replay(Recording *r)
{
	if (r->graph)
		assert_true(graph_launch(r->graph, r->stream));
	else
		r->work(r->user, r->stream);
	OK(tilert_stream_sync(numeric_device(), r->stream));
}

void forget(Recording *r)
{
	graph_free(r->graph);
	OK(tilert_stream_destroy(numeric_device(), r->stream));
}
