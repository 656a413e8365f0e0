/* device.h - the library's handles on each of torch's devices, and the calls that were prepared there. */
#ifndef TILEKERN_TORCH_DEVICE_H
#define TILEKERN_TORCH_DEVICE_H

#include "family.h"
#include "frame.h"

/* The last calls by what they depend on, enough for the step of a model of a hundred layers.  One that comes again is prepared, and from then on the host's work is
 * one launch. */
enum { CALL_SETS = 128, CALL_WAYS = 4 };
typedef struct Remembered { Call call; uint64_t hash; void *prepared; bool seen, tried; } Remembered; /* tried: in vain */

typedef struct Device {
	tilert_device *device;
	void *handles[FAMILIES];
	Remembered *calls; /* [CALL_SETS][CALL_WAYS] */
	int next[CALL_SETS];
	int unprepared; /* calls that the driver could make no graph of, which go kernel by kernel; `why` is the last one's (tilekern.show_config) */
	char why[200];
} Device;

/* The frame's device with this operator open; NULL: it failed. */
Device *device_of(Frame *f, FamilyName family);
/* Workspace, and the call on torch's current stream. */
bool device_run(Frame *f, Device *d, Call *c);

#endif
