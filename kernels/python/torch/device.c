#include "device.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 64, WORKSPACE_ALIGN = 256 };
static Device devices[GPUS + 1]; /* the last one is the CPU; torch gives its kernels nothing to keep such things in */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- devices --------------------------------------------------------------------------------------------------- */

static tilert_status open_device(Device *d, const char *name)
{
	tilert_device *device;
	tilert_status s = tilert_device_open(name, &device);
	if (s != TILERT_OK)
		return s;
	d->calls = calloc(CALL_SETS * CALL_WAYS, sizeof *d->calls);
	if (!d->calls) {
		tilert_device_close(device);
		return TILERT_ENOMEM;
	}
	d->device = device;
	return TILERT_OK;
}

Device *device_of(Frame *f, FamilyName family)
{
	const bool gpu = f->device == shim.cuda;
	char name[32] = "cpu";
	if (gpu && f->index >= GPUS)
		return frame_fail(f, true, "cuda:%d is beyond the %d devices that are served", (int)f->index, GPUS), NULL;
	if (gpu)
		snprintf(name, sizeof name, "cuda:%d", (int)f->index);
	Device *d = &devices[gpu ? f->index : GPUS];
	pthread_mutex_lock(&lock);
	if (!d->device && open_device(d, name) != TILERT_OK)
		frame_fail(f, false, "%s", tilert_last_error());
	else if (!d->handles[family] && families[family].open(d->device, &d->handles[family]) != TILERT_OK)
		frame_fail(f, false, "%s", tilekern_last_error());
	pthread_mutex_unlock(&lock);
	return f->failed ? NULL : d;
}

static tilert_stream stream_of(const Frame *f)
{
	void *stream = NULL;
	if (f->device == shim.cuda && shim.aoti_torch_get_current_cuda_stream)
		shim.aoti_torch_get_current_cuda_stream(f->index, &stream);
	return stream;
}

/* ---- calls that come again ------------------------------------------------------------------------------------- */

static uint64_t hash(const Call *c)
{
	const size_t words = sizeof *c / 8;
	uint64_t h = 0x9e3779b97f4a7c15u, word;
	for (size_t i = 0; i < words; i++) {
		memcpy(&word, (const char *)c + 8 * i, sizeof word);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}
_Static_assert(sizeof(Call) % 8 == 0, "hash");

/* The call's place; one that was not there before takes that of the oldest. */
static Remembered *remember(Device *d, const Call *c)
{
	const uint64_t h = hash(c);
	const unsigned set = h % CALL_SETS;
	Remembered *ways = d->calls + set * CALL_WAYS;
	for (int i = 0; i < CALL_WAYS; i++) {
		if (ways[i].seen && ways[i].hash == h && memcmp(&ways[i].call, c, sizeof *c) == 0)
			return &ways[i];
	}
	Remembered *r = &ways[d->next[set]++ % CALL_WAYS];
	if (r->prepared)
		families[r->call.family].destroy(r->prepared);
	*r = (Remembered){ .hash = h };
	memcpy(&r->call, c, sizeof *c);
	return r;
}

TILERT_API int tilekern_torch_unprepared(char *why, size_t size);
int tilekern_torch_unprepared(char *why, size_t size)
{
	int count = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i <= GPUS; i++) {
		if (devices[i].unprepared)
			snprintf(why, size, "%s", devices[i].why);
		count += devices[i].unprepared;
	}
	pthread_mutex_unlock(&lock);
	return count;
}

static void prepare(Device *d, const Call *c, Remembered *r)
{
	Call copy = *c;
	r->tried = families[c->family].prepare(d->handles[c->family], &copy, &r->prepared) != TILERT_OK;
	if (r->tried) {
		d->unprepared++;
		snprintf(d->why, sizeof d->why, "%s", tilekern_last_error());
	}
}

/* A call that was there before is prepared; during a capture, too: that is one of a stream of its own. */
static tilert_status queue(Device *d, Call *c, tilert_stream s)
{
	const Family *family = &families[c->family];
	Remembered *r = remember(d, c);
	if (!r->prepared && r->seen && !r->tried)
		prepare(d, c, r);
	r->seen = true;
	return r->prepared ? family->launch(r->prepared, s) : family->run(d->handles[c->family], c, s);
}

static tilert_status run(const Frame *f, Device *d, Call *c)
{
	if (f->device != shim.cuda)
		return families[c->family].run(d->handles[c->family], c, NULL);
	pthread_mutex_lock(&lock);
	tilert_status s = queue(d, c, stream_of(f));
	pthread_mutex_unlock(&lock);
	return s;
}

bool device_run(Frame *f, Device *d, Call *c)
{
	size_t *bytes = c->is_backward ? &c->backward.gdn.workspace_bytes : &c->forward.gdn.workspace_bytes;
	tilert_ptr *workspace = c->is_backward ? &c->backward.gdn.workspace : &c->forward.gdn.workspace;
	Call sized = *c;
	Given memory;
	tilert_status s = families[c->family].workspace_bytes(d->handles[c->family], &sized, bytes);
	if (s == TILERT_OK && *bytes) {
		if (!frame_bytes(f, *bytes, WORKSPACE_ALIGN, &memory))
			return false;
		*workspace = memory.p;
	}
	if (s == TILERT_OK)
		s = run(f, d, c);
	return s == TILERT_OK || frame_fail(f, s == TILERT_EINVAL, "%s", tilekern_last_error());
}
