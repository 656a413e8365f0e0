/* stream_event.c - the public stream and event calls: check, then hand to the device. */
#include <stdlib.h>

#include "runtime/src/device.h"
#include "runtime/src/error.h"

static tilert_status fail_null(const char *function)
{
	return rt_fail(TILERT_EINVAL, "%s: an argument is NULL", function);
}

tilert_status tilert_stream_create(tilert_device *d, tilert_stream *out)
{
	return d && out ? d->ops->stream_create(d, out) : fail_null("tilert_stream_create");
}

tilert_status tilert_stream_destroy(tilert_device *d, tilert_stream s)
{
	if (!d)
		return fail_null("tilert_stream_destroy");
	return s ? d->ops->stream_destroy(d, s) : TILERT_OK;
}

tilert_status tilert_stream_sync(tilert_device *d, tilert_stream s)
{
	return d ? d->ops->stream_sync(d, s) : fail_null("tilert_stream_sync");
}

tilert_status tilert_event_create(tilert_device *d, tilert_event **out)
{
	if (!d || !out)
		return fail_null("tilert_event_create");
	tilert_event *e = calloc(1, sizeof *e);
	if (!e)
		return rt_fail_memory("an event");
	e->device = d;
	tilert_status s = d->ops->event_create(e);
	if (s)
		free(e);
	else
		*out = e;
	return s;
}

void tilert_event_destroy(tilert_event *e)
{
	if (!e)
		return;
	e->device->ops->event_destroy(e);
	free(e);
}

tilert_status tilert_event_record(tilert_event *e, tilert_stream s)
{
	return e ? e->device->ops->event_record(e, s) : fail_null("tilert_event_record");
}

tilert_status tilert_event_elapsed(tilert_event *begin, tilert_event *end, float *ms)
{
	if (!begin || !end || !ms)
		return fail_null("tilert_event_elapsed");
	if (begin->device != end->device)
		return rt_fail(TILERT_EINVAL, "tilert_event_elapsed: the events are of two devices");
	return begin->device->ops->event_elapsed(begin, end, ms);
}
